//! The rules of HorizontalPodAutoscalers (`pkg/apis/autoscaling/validation/validation.go`, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, is_path_segment, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_api::quantity::Quantity;

use crate::kinds::fields::{items, not_negative, number, part, present, text, texts};
use crate::kinds::metadata_update;
use crate::kinds::resources::{refused_for_containers, validate_name};

const WINDOW_SECONDS_MAX: i64 = 3600;
const PERIOD_SECONDS_MAX: i64 = 1800;
const METRIC_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const POLICY_TYPES: [&str; 2] = ["Percent", "Pods"];
const SELECT_POLICIES: [&str; 3] = ["Disabled", "Max", "Min"];
/// The sources of metrics by their fields and types, in the order in which upstream looks at them.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

/// The apiVersions that a reference may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Versions {
    Any,
    WithGroup,
    WithoutGroup,
}

/// `ValidateHorizontalPodAutoscaler`
pub(super) fn validate(autoscaler: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(autoscaler, "metadata"), true, &name_is_dns_subdomain, &at);
    let of_target = of_target(autoscaler, None);
    validate_spec(part(autoscaler, "spec"), of_target, Versions::WithoutGroup, &mut errors);
    errors
}

/// `ValidateHorizontalPodAutoscalerUpdate`; apiVersions that were wrong before may stay.
pub(super) fn validate_update(autoscaler: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(autoscaler, old);
    let is_wrong = |metric: &Value| {
        let described = metric.at(&["object", "describedObject"]);
        text(metric, "type") == "Object"
            && described.is_some_and(|of| version_error(of, Versions::WithoutGroup).is_some())
    };
    let was_wrong = items(part(old, "spec"), "metrics").iter().any(is_wrong);
    let of_metrics = if was_wrong { Versions::Any } else { Versions::WithoutGroup };
    let of_target = of_target(autoscaler, Some(old));
    validate_spec(part(autoscaler, "spec"), of_target, of_metrics, &mut errors);
    errors
}

/// `ValidateHorizontalPodAutoscalerStatusUpdate`
pub(super) fn validate_status_update(autoscaler: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(autoscaler, old);
    let (status, at) = (part(autoscaler, "status"), Path::new("status"));
    let conditions = at.child("conditions");
    for (index, condition) in items(status, "conditions").iter().enumerate() {
        not_negative(condition, "observedGeneration", &conditions.index(index), &mut errors);
    }
    for field in ["currentReplicas", "desiredReplicas"] {
        not_negative(status, field, &at, &mut errors);
    }
    errors
}

/// The apiVersions that the target of an autoscaler may have (`validationOptionsForHorizontalPodAutoscaler`).
fn of_target(autoscaler: &Value, old: Option<&Value>) -> Versions {
    let target = |of: &Value, field: &str| of.text_at(&["spec", "scaleTargetRef", field]).to_owned();
    let stays =
        |old: &Value| ["apiVersion", "kind"].iter().all(|of| target(autoscaler, of) == target(old, of));
    match old {
        Some(old) if stays(old) => Versions::Any,
        _ if target(autoscaler, "kind") == "ReplicationController" => Versions::WithoutGroup,
        _ => Versions::WithGroup,
    }
}

/// `ValidateAPIVersion`
fn version_error(reference: &Value, versions: Versions) -> Option<String> {
    let version = text(reference, "apiVersion");
    if versions == Versions::Any {
        return None;
    }
    if version.matches('/').count() > 1 {
        return Some(format!("unexpected GroupVersion string: {version}"));
    }
    let has_group = version.split_once('/').is_some_and(|(group, _)| !group.is_empty());
    let needs_group = versions == Versions::WithGroup && !has_group;
    needs_group.then(|| "apiVersion must specify API group".to_owned())
}

/// `ValidateCrossVersionObjectReference`
fn validate_reference(reference: &Value, versions: Versions, at: &Path<'_>, errors: &mut ErrorList) {
    for field in ["kind", "name"] {
        match text(reference, field) {
            "" => errors.push(Error::required(&at.child(field), "")),
            value => texts(is_path_segment(value, false), value, &at.child(field), errors),
        }
    }
    if let Some(why) = version_error(reference, versions) {
        errors.push(Error::invalid(&at.child("apiVersion"), text(reference, "apiVersion"), why));
    }
}

fn validate_spec(spec: &Value, of_target: Versions, of_metrics: Versions, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let (least, most) = (number(spec, "minReplicas"), number(spec, "maxReplicas").unwrap_or_default());
    not_negative(spec, "minReplicas", &at, errors);
    let at_most = at.child("maxReplicas");
    match most {
        0 => errors.push(Error::required(&at_most, "")),
        ..0 => errors.push(Error::invalid(&at_most, most, "must be greater than or equal to 1")),
        _ => {}
    }
    if least.is_some_and(|least| most < least) {
        errors.push(Error::invalid(&at_most, most, "must be greater than or equal to `minReplicas`"));
    }
    validate_reference(part(spec, "scaleTargetRef"), of_target, &at.child("scaleTargetRef"), errors);
    let (metrics, at_metrics) = (items(spec, "metrics"), at.child("metrics"));
    for (index, metric) in metrics.iter().enumerate() {
        validate_metric(metric, of_metrics, &at_metrics.index(index), errors);
    }
    let is_of_others = |metric: &Value| matches!(text(metric, "type"), "Object" | "External");
    if least == Some(0) && !metrics.iter().any(is_of_others) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(Error::forbidden(&at_metrics, detail));
    }
    if let Some(behavior) = present(spec, "behavior") {
        let at = at.child("behavior");
        for field in ["scaleUp", "scaleDown"] {
            if let Some(rules) = present(behavior, field) {
                validate_rules(rules, &at.child(field), errors);
            }
        }
    }
}

/// `validateScalingRules`
fn validate_rules(rules: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let at_window = at.child("stabilizationWindowSeconds");
    match number(rules, "stabilizationWindowSeconds") {
        Some(window @ ..0) => {
            errors.push(Error::invalid(&at_window, window, "must be greater than or equal to zero"));
        }
        Some(window) if window > WINDOW_SECONDS_MAX => {
            let detail = format!("must be less than or equal to {WINDOW_SECONDS_MAX}");
            errors.push(Error::invalid(&at_window, window, detail));
        }
        _ => {}
    }
    let policy = present(rules, "selectPolicy").and_then(Value::as_str);
    if let Some(policy) = policy.filter(|policy| !SELECT_POLICIES.contains(policy)) {
        errors.push(Error::not_supported(&at.child("selectPolicy"), policy, &SELECT_POLICIES));
    }
    let (policies, at_policies) = (items(rules, "policies"), at.child("policies"));
    if policies.is_empty() {
        errors.push(Error::required(&at_policies, "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        validate_policy(policy, &at_policies.index(index), errors);
    }
    if let Some(tolerance) = present(rules, "tolerance").and_then(Value::as_str)
        && Quantity::parse(tolerance).is_ok_and(|quantity| quantity.sign() < 0)
    {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(&at.child("tolerance"), tolerance, detail));
    }
}

/// `validateScalingPolicy`
fn validate_policy(policy: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let kind = text(policy, "type");
    if !POLICY_TYPES.contains(&kind) {
        errors.push(Error::not_supported(&at.child("type"), kind, &POLICY_TYPES));
    }
    for field in ["value", "periodSeconds"] {
        let value = number(policy, field).unwrap_or_default();
        if value <= 0 {
            errors.push(Error::invalid(&at.child(field), value, "must be greater than zero"));
        }
    }
    let period = number(policy, "periodSeconds").unwrap_or_default();
    if period > PERIOD_SECONDS_MAX {
        let detail = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
        errors.push(Error::invalid(&at.child("periodSeconds"), period, detail));
    }
}

/// `validateMetricSpec`
fn validate_metric(metric: &Value, versions: Versions, at: &Path<'_>, errors: &mut ErrorList) {
    let (kind, at_kind) = (text(metric, "type"), at.child("type"));
    if kind.is_empty() {
        errors.push(Error::required(&at_kind, "must specify a metric source type"));
    }
    if !METRIC_TYPES.contains(&kind) {
        // Upstream says it twice.
        errors.push(Error::not_supported(&at_kind, kind, &METRIC_TYPES));
        errors.push(Error::not_supported(&at_kind, kind, &METRIC_TYPES));
    }
    let there: Vec<&str> =
        SOURCES.iter().map(|(field, _)| *field).filter(|field| present(metric, field).is_some()).collect();
    if let Some(first) = there.first() {
        validate_source(first, part(metric, first), versions, &at.child(first), errors);
    }
    let expected = SOURCES.iter().find(|(_, of)| *of == kind).map(|(field, _)| *field);
    if let Some(expected) = expected.filter(|field| !there.contains(field)) {
        let detail = "must populate information for the given metric source";
        errors.push(Error::required(&at.child(expected), detail));
    }
    if there.len() != 1 {
        for other in there.into_iter().filter(|field| Some(*field) != expected) {
            let detail = "must populate the given metric source only";
            errors.push(Error::forbidden(&at.child(other), detail));
        }
    }
}

fn validate_source(field: &str, source: &Value, versions: Versions, at: &Path<'_>, errors: &mut ErrorList) {
    match field {
        "object" => {
            validate_reference(
                part(source, "describedObject"),
                versions,
                &at.child("describedObject"),
                errors,
            );
            validate_identifier(source, at, errors);
        }
        "external" | "pods" => validate_identifier(source, at, errors),
        "containerResource" => {
            validate_resource_name(source, at, errors);
            match text(source, "container") {
                "" => errors.push(Error::required(&at.child("container"), "must specify a container")),
                name => texts(is_dns1123_label(name), name, &at.child("container"), errors),
            }
        }
        _ => {
            if text(source, "name").is_empty() {
                errors.push(Error::required(&at.child("name"), "must specify a resource name"));
            }
        }
    }
    let (target, at) = (part(source, "target"), at.child("target"));
    validate_target(target, &at, errors);
    let has = |of: &str| present(target, of).is_some();
    let (at_value, at_average) = (at.child("value"), at.child("averageValue"));
    match field {
        "object" if !has("value") && !has("averageValue") => {
            errors.push(Error::required(&at_average, "must set either a target value or averageValue"));
        }
        "external" if !has("value") && !has("averageValue") => {
            let detail = "must set either a target value for metric or a per-pod target";
            errors.push(Error::required(&at_average, detail));
        }
        "external" if has("value") && has("averageValue") => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.push(Error::forbidden(&at_value, detail));
        }
        "pods" if !has("averageValue") => {
            errors.push(Error::required(&at_average, "must specify a positive target averageValue"));
        }
        "resource" | "containerResource" => match (has("averageUtilization"), has("averageValue")) {
            (false, false) => {
                let detail = "must set either a target raw value or a target utilization";
                errors.push(Error::required(&at.child("averageUtilization"), detail));
            }
            (true, true) => {
                let detail = "may not set both a target raw value and a target utilization";
                errors.push(Error::forbidden(&at_average, detail));
            }
            _ => {}
        },
        _ => {}
    }
}

/// `ValidateContainerResourceName`
fn validate_resource_name(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (name, at) = (text(source, "name"), at.child("name"));
    if name.is_empty() {
        return errors.push(Error::required(&at, "must specify a resource name"));
    }
    validate_name(name, &at, errors);
    errors.extend(refused_for_containers(name).map(|why| Error::invalid(&at, name, why)));
}

/// `validateMetricIdentifier`
fn validate_identifier(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let at = at.child("metric");
    match text(part(source, "metric"), "name") {
        "" => errors.push(Error::required(&at.child("name"), "must specify a metric name")),
        name => texts(is_path_segment(name, false), name, &at.child("name"), errors),
    }
}

/// `validateMetricTarget`
fn validate_target(target: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (kind, at_kind) = (text(target, "type"), at.child("type"));
    if kind.is_empty() {
        errors.push(Error::required(&at_kind, "must specify a metric target type"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(Error::invalid(&at_kind, kind, detail));
    }
    for field in ["value", "averageValue"] {
        let Some(amount) = present(target, field).and_then(Value::as_str) else { continue };
        if Quantity::parse(amount).is_ok_and(|quantity| quantity.sign() <= 0) {
            errors.push(Error::invalid(&at.child(field), amount, "must be positive"));
        }
    }
    if let Some(used @ ..1) = number(target, "averageUtilization") {
        errors.push(Error::invalid(&at.child("averageUtilization"), used, "must be greater than 0"));
    }
}

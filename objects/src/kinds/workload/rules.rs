//! The errors in workloads (`pkg/apis/apps/validation/validation.go`, 1.37).

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, name_is_dns_label, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_api::selector::LabelSelector;
use kindom_api::{Map, Value};

use super::{Kind, template};
use crate::kinds::fields::{items, not_negative, present, same};
use crate::kinds::pod_spec::validate_template;
use crate::kinds::{label_selector, metadata_update};

const NONNEGATIVE: &str = "must be greater than or equal to 0";
const IMMUTABLE: &str = "field is immutable";

pub(super) fn validate(kind: Kind, object: &Value) -> ErrorList {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let name = if kind == Kind::StatefulSet { name_is_dns_label } else { name_is_dns_subdomain };
    let mut errors = validate_object_meta(metadata, true, &name, &Path::new("metadata"));
    validate_spec(kind, object, &mut errors);
    errors
}

pub(super) fn validate_update(kind: Kind, object: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(object, old);
    if kind == Kind::DaemonSet {
        immutable(object, old, "selector", &mut errors);
        validate_spec(kind, object, &mut errors);
        return errors;
    }
    validate_spec(kind, object, &mut errors);
    immutable(object, old, "selector", &mut errors);
    if kind == Kind::StatefulSet {
        for field in ["volumeClaimTemplates", "serviceName", "podManagementPolicy"] {
            immutable(object, old, field, &mut errors);
        }
    }
    errors
}

fn immutable(object: &Value, old: &Value, field: &str, errors: &mut ErrorList) {
    let [is, was] = [object, old].map(|of| of.at(&["spec", field]));
    if !same(is, was) {
        let spec = Path::new("spec");
        let at = spec.child(field);
        errors.push(match is {
            Some(is) if field == "selector" => Error::invalid_raw(&at, printed(is), IMMUTABLE),
            is => Error::invalid(&at, is.cloned().unwrap_or_default(), IMMUTABLE),
        });
    }
}

fn validate_spec(kind: Kind, object: &Value, errors: &mut ErrorList) {
    let (spec, at) = (object.get("spec").unwrap_or(&Value::Null), Path::new("spec"));
    match kind {
        Kind::Deployment => {
            not_negative(spec, "replicas", &at, errors);
            let selector = selector(kind, spec, &at, errors);
            pods(kind, object, selector.as_ref(), &at, errors);
            deployment_strategy(spec, &at.child("strategy"), errors);
            not_negative(spec, "minReadySeconds", &at, errors);
            not_negative(spec, "revisionHistoryLimit", &at, errors);
            not_negative(spec, "progressDeadlineSeconds", &at, errors);
            let number = |field: &str| spec.get(field).and_then(Value::as_i64);
            if let Some(deadline) = number("progressDeadlineSeconds")
                && deadline <= number("minReadySeconds").unwrap_or_default()
            {
                let at = at.child("progressDeadlineSeconds");
                errors.push(Error::invalid(&at, deadline, "must be greater than minReadySeconds"));
            }
        }
        Kind::ReplicaSet => {
            not_negative(spec, "replicas", &at, errors);
            not_negative(spec, "minReadySeconds", &at, errors);
            let selector = selector(kind, spec, &at, errors);
            pods(kind, object, selector.as_ref(), &at, errors);
        }
        Kind::StatefulSet => stateful_set(object, spec, &at, errors),
        Kind::DaemonSet => {
            let selector = daemon_selector(spec, &at, errors);
            pods(kind, object, selector.as_ref(), &at, errors);
            not_negative(spec, "minReadySeconds", &at, errors);
            daemon_strategy(spec, &at.child("updateStrategy"), errors);
            not_negative(spec, "revisionHistoryLimit", &at, errors);
        }
    }
}

fn is_empty_selector(selector: &Value) -> bool {
    let labels = selector.get("matchLabels").and_then(Value::as_object).is_none_or(Map::is_empty);
    labels && items(selector, "matchExpressions").is_empty()
}

/// A selector as Go prints it, its fields in their own order.
fn printed(selector: &Value) -> String {
    let fields = ["matchLabels", "matchExpressions"].iter().filter_map(|field| {
        let value = present(selector, field)?;
        Some(format!("\"{field}\":{value}"))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// A strategy as Kubernetes' own form of it prints: with Go's names, and with all fields.
fn internal(strategy: &Value, fields: &[&str]) -> String {
    let quoted = |name: &str, value: &str| format!("\"{name}\":{value}");
    let update = match present(strategy, "rollingUpdate") {
        Some(update) => internal_update(update, fields),
        None => "null".to_owned(),
    };
    let kind = strategy.get("type").cloned().unwrap_or_else(|| "".into()).to_string();
    format!("{{{},{}}}", quoted("Type", &kind), quoted("RollingUpdate", &update))
}

fn internal_update(update: &Value, fields: &[&str]) -> String {
    let all = fields.iter().map(|field| {
        let mut name = (*field).to_owned();
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        format!("\"{name}\":{}", update.get(field).unwrap_or(&Value::Null))
    });
    format!("{{{}}}", all.collect::<Vec<_>>().join(","))
}

/// The fields of rolling updates, in the order of Kubernetes' own form.
const ROLLING: [&str; 2] = ["maxUnavailable", "maxSurge"];
const ROLLING_STATEFUL: [&str; 2] = ["partition", "maxUnavailable"];

/// The selector of a workload that must have one; `None` if it is wrong.
fn selector(kind: Kind, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) -> Option<LabelSelector> {
    let at = at.child("selector");
    let Some(selector) = present(spec, "selector") else {
        errors.push(Error::required(&at, ""));
        // Nothing is selected, and so nothing compared.
        return Some(LabelSelector::nothing());
    };
    label_selector::validate(selector, &at, errors);
    if is_empty_selector(selector) {
        let of = if kind == Kind::StatefulSet { "statefulset" } else { "deployment" };
        errors.push(Error::invalid_raw(
            &at,
            printed(selector),
            format!("empty selector is invalid for {of}"),
        ));
    }
    LabelSelector::of_object(selector).ok().or_else(|| {
        let why = if kind == Kind::StatefulSet { "" } else { "invalid label selector" };
        errors.push(Error::invalid_raw(&at, printed(selector), why));
        None
    })
}

fn daemon_selector(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) -> Option<LabelSelector> {
    let at = at.child("selector");
    let Some(selector) = present(spec, "selector") else { return Some(LabelSelector::nothing()) };
    label_selector::validate(selector, &at, errors);
    LabelSelector::of_object(selector).ok()
}

/// The errors in the template: it has to be selected. Where the selector is wrong itself, only a DaemonSet's is looked at.
fn pods(kind: Kind, object: &Value, selector: Option<&LabelSelector>, at: &Path<'_>, errors: &mut ErrorList) {
    let labels = template(object).at(&["metadata", "labels"]);
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let at_template = at.child("template");
    if selector.is_some_and(|selector| !selector.matches(label)) {
        let at = at_template.child("metadata");
        let shown = labels.filter(|labels| !labels.is_null()).cloned().unwrap_or_default();
        errors.push(Error::invalid(
            &at.child("labels"),
            shown,
            "`selector` does not match template `labels`",
        ));
    }
    let own = object.at(&["spec", "selector"]).filter(|own| !own.is_null());
    if let Some(own) = own.filter(|own| kind == Kind::DaemonSet && is_empty_selector(own)) {
        let why = "empty selector is invalid for daemonset";
        errors.push(Error::invalid(&at.child("selector"), own.clone(), why));
    }
    if selector.is_some() || kind == Kind::DaemonSet {
        validate_pods(kind, object, &at_template, errors);
    }
}

fn validate_pods(kind: Kind, object: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let claims = object.get("spec").map_or(&[][..], |spec| items(spec, "volumeClaimTemplates"));
    let claims: Vec<&str> = claims.iter().map(|claim| claim.text_at(&["metadata", "name"])).collect();
    let template = template(object);
    validate_template(template, &claims, at, errors);
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let at = at.child("spec");
    let policy = spec.text_at(&["restartPolicy"]);
    if policy != "Always" {
        errors.push(Error::not_supported(&at.child("restartPolicy"), policy, &["Always"]));
    }
    if present(spec, "activeDeadlineSeconds").is_some() {
        let of = match kind {
            Kind::Deployment | Kind::ReplicaSet => "ReplicaSet",
            Kind::StatefulSet => "StatefulSet",
            Kind::DaemonSet => "DaemonSet",
        };
        let why = format!("activeDeadlineSeconds in {of} is not Supported");
        errors.push(Error::forbidden(&at.child("activeDeadlineSeconds"), why));
    }
}

/// The number or the percentage of an IntOrString; `true` for the latter. A text that is no percentage is 0.
fn amount(value: &Value) -> (i64, bool) {
    match value {
        Value::Int(number) => (*number, false),
        value => {
            let digits = value.as_str().and_then(|text| text.strip_suffix('%'));
            let digits = digits.filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
            (digits.and_then(|digits| digits.parse().ok()).unwrap_or_default(), digits.is_some())
        }
    }
}

/// `ValidatePositiveIntOrPercent`
fn int_or_percent(value: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match (value, amount(value)) {
        (Value::Int(number), _) if *number < 0 => errors.push(Error::invalid(at, *number, NONNEGATIVE)),
        (Value::String(text), (_, false)) => {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                       regex used for validation is '[0-9]+%')";
            errors.push(Error::invalid(at, text.as_str(), why));
        }
        _ => {}
    }
}

/// `IsNotMoreThan100Percent`
fn at_most_all(value: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if matches!(amount(value), (percent, true) if percent > 100) {
        errors.push(Error::invalid(at, value.clone(), "must not be greater than 100%"));
    }
}

fn deployment_strategy(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let strategy = spec.get("strategy").unwrap_or(&Value::Null);
    let (update, at_update) = (present(strategy, "rollingUpdate"), at.child("rollingUpdate"));
    match (strategy.text_at(&["type"]), update) {
        ("Recreate", Some(_)) => {
            errors.push(Error::forbidden(
                &at_update,
                "may not be specified when strategy `type` is 'Recreate'",
            ));
        }
        ("Recreate", None) => {}
        ("RollingUpdate", Some(update)) => {
            let null = Value::Null;
            let [unavailable, surge] =
                ["maxUnavailable", "maxSurge"].map(|of| update.get(of).unwrap_or(&null));
            let at_unavailable = at_update.child("maxUnavailable");
            int_or_percent(unavailable, &at_unavailable, errors);
            int_or_percent(surge, &at_update.child("maxSurge"), errors);
            if amount(unavailable).0 == 0 && amount(surge).0 == 0 {
                let why = "may not be 0 when `maxSurge` is 0";
                errors.push(Error::invalid(&at_unavailable, unavailable.clone(), why));
            }
            at_most_all(unavailable, &at_unavailable, errors);
        }
        ("RollingUpdate", None) => {
            errors.push(Error::required(&at_update, "this should be defaulted and never be nil"));
        }
        _ => errors.push(Error::not_supported_raw(
            at,
            internal(strategy, &ROLLING),
            &["Recreate", "RollingUpdate"],
        )),
    }
}

fn daemon_strategy(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let strategy = spec.get("updateStrategy").unwrap_or(&Value::Null);
    let (update, at_update) = (present(strategy, "rollingUpdate"), at.child("rollingUpdate"));
    match (strategy.text_at(&["type"]), update) {
        ("OnDelete", _) => {}
        ("RollingUpdate", Some(update)) => {
            let null = Value::Null;
            let [unavailable, surge] =
                ["maxUnavailable", "maxSurge"].map(|of| update.get(of).unwrap_or(&null));
            let [at_unavailable, at_surge] = ["maxUnavailable", "maxSurge"].map(|of| at_update.child(of));
            int_or_percent(unavailable, &at_unavailable, errors);
            int_or_percent(surge, &at_surge, errors);
            at_most_all(unavailable, &at_unavailable, errors);
            at_most_all(surge, &at_surge, errors);
            match (amount(unavailable).0 != 0, amount(surge).0 != 0) {
                (true, true) => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    errors.push(Error::invalid(&at_surge, surge.clone(), why));
                }
                (false, false) => {
                    errors.push(Error::required(&at_unavailable, "cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
        }
        ("RollingUpdate", None) => errors.push(Error::required(&at_update, "")),
        _ => errors.push(Error::not_supported_raw(
            at,
            internal(strategy, &ROLLING),
            &["RollingUpdate", "OnDelete"],
        )),
    }
}

fn stateful_set(object: &Value, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let policy = spec.text_at(&["podManagementPolicy"]);
    if !["OrderedReady", "Parallel"].contains(&policy) {
        let why = "must be 'OrderedReady' or 'Parallel'";
        errors.push(Error::invalid(&at.child("podManagementPolicy"), policy, why));
    }
    stateful_strategy(spec, &at.child("updateStrategy"), errors);
    if let Some(retention) = present(spec, "persistentVolumeClaimRetentionPolicy") {
        let at = at.child("persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            let value = retention.text_at(&[field]);
            if !["Retain", "Delete"].contains(&value) {
                errors.push(Error::not_supported(&at.child(field), value, &["Retain", "Delete"]));
            }
        }
    }
    not_negative(spec, "replicas", at, errors);
    not_negative(spec, "minReadySeconds", at, errors);
    if let Some(ordinals) = present(spec, "ordinals")
        && let Some(start) = ordinals.get("start").and_then(Value::as_i64).filter(|start| *start < 0)
    {
        errors.push(Error::invalid(&at.child("ordinals.start"), start, NONNEGATIVE));
    }
    let service = spec.text_at(&["serviceName"]);
    if !service.is_empty() {
        let wrong = is_dns1123_label(service);
        errors.extend(wrong.into_iter().map(|why| Error::invalid(&at.child("serviceName"), service, why)));
    }
    let selector = selector(Kind::StatefulSet, spec, at, errors);
    pods(Kind::StatefulSet, object, selector.as_ref(), at, errors);
}

fn stateful_strategy(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let strategy = spec.get("updateStrategy").unwrap_or(&Value::Null);
    let (update, at_update) = (present(strategy, "rollingUpdate"), at.child("rollingUpdate"));
    match (strategy.text_at(&["type"]), update) {
        ("OnDelete", Some(update)) => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(Error::invalid_raw(&at_update, internal_update(update, &ROLLING_STATEFUL), why));
        }
        ("RollingUpdate", Some(update)) => {
            not_negative(update, "partition", &at_update, errors);
            let Some(unavailable) = present(update, "maxUnavailable") else { return };
            let at = at_update.child("maxUnavailable");
            int_or_percent(unavailable, &at, errors);
            if amount(unavailable).0 == 0 {
                errors.push(Error::invalid(&at, unavailable.clone(), "cannot be 0"));
            }
            at_most_all(unavailable, &at, errors);
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        _ => {
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(Error::invalid_raw(at, internal(strategy, &ROLLING_STATEFUL), why));
        }
    }
}

/// The numbers of a status, and those of them that may not be more than `replicas`.
fn numbers(kind: Kind) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        Kind::Deployment => (
            &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ],
            &["updatedReplicas", "readyReplicas", "availableReplicas"],
        ),
        Kind::ReplicaSet => (
            &[
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
                "terminatingReplicas",
            ],
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        ),
        Kind::StatefulSet => (
            &[
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ],
            &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        ),
        Kind::DaemonSet => (
            &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
            &[],
        ),
    }
}

pub(super) fn validate_status(kind: Kind, object: &Value, old: &Value) -> ErrorList {
    let (status, at) = (object.get("status").unwrap_or(&Value::Null), Path::new("status"));
    let mut errors = ErrorList::new();
    if kind != Kind::StatefulSet {
        errors.extend(metadata_update(object, old));
    }
    let number = |of: &Value, field: &str| of.get(field).and_then(Value::as_i64).unwrap_or_default();
    let (all, bounded) = numbers(kind);
    all.iter().for_each(|field| not_negative(status, field, &at, &mut errors));
    for field in bounded {
        if number(status, field) > number(status, "replicas") {
            let why = "cannot be greater than status.replicas";
            errors.push(Error::invalid(&at.child(field), number(status, field), why));
        }
    }
    if !bounded.is_empty() && number(status, "availableReplicas") > number(status, "readyReplicas") {
        let why = match kind {
            Kind::StatefulSet => "cannot be greater than status.readyReplicas",
            _ => "cannot be greater than readyReplicas",
        };
        let at = at.child("availableReplicas");
        errors.push(Error::invalid(&at, number(status, "availableReplicas"), why));
    }
    if kind == Kind::StatefulSet {
        errors.extend(metadata_update(object, old));
    }
    let before = old.at(&["status", "collisionCount"]).and_then(Value::as_i64);
    let count = number(status, "collisionCount");
    if kind != Kind::ReplicaSet && before.is_some_and(|before| count < before) {
        errors.push(Error::invalid(&at.child("collisionCount"), count, "cannot be decremented"));
    }
    errors
}

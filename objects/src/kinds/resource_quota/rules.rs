//! The rules of ResourceQuotas (`pkg/apis/core/validation/validation.go`, `pkg/apis/core/helper/helpers.go`, 1.37).

use std::collections::BTreeSet;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;
use kindom_api::{Map, Value};

use crate::kinds::fields::{items, part, text};
use crate::kinds::metadata_update;
use crate::kinds::resources::{is_standard_of_quota, validate_amount, validate_name};

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
const CONFLICTING: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
const OF_PODS: [&str; 7] =
    ["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
const EXISTS_ALONE: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                            ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                            ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

/// `ValidateResourceQuota`; the status of a new quota is empty.
pub(super) fn validate(quota: &Value) -> ErrorList {
    let metadata = part(quota, "metadata");
    let mut errors = validate_object_meta(metadata, true, &name_is_dns_subdomain, &Path::new("metadata"));
    validate_spec(part(quota, "spec"), &mut errors);
    errors
}

/// `ValidateResourceQuotaUpdate`
pub(super) fn validate_update(quota: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(quota, old);
    let [spec, old] = [part(quota, "spec"), part(old, "spec")];
    validate_spec(spec, &mut errors);
    let scopes = |spec| items(spec, "scopes").iter().filter_map(Value::as_str).collect::<BTreeSet<_>>();
    if scopes(spec) != scopes(old) {
        let at = Path::new("spec");
        errors.push(Error::invalid(&at.child("scopes"), scopes_of(spec), "field is immutable"));
    }
    errors
}

/// `ValidateResourceQuotaStatusUpdate`
pub(super) fn validate_status_update(quota: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(quota, old);
    let (status, at) = (part(quota, "status"), Path::new("status"));
    for field in ["hard", "used"] {
        validate_amounts(status, field, &at, &mut errors);
    }
    errors
}

fn amounts<'a>(of: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    of.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// The amounts of a field, by the names of resources.
fn validate_amounts(of: &Value, field: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let at = at.child(field);
    for (name, amount) in amounts(of, field) {
        let at = at.key(name);
        validate_name(name, &at, errors);
        // Upstream says this of a name that it has refused for its form, too.
        if !name.contains('/') && !is_standard_of_quota(name) {
            errors.push(Error::invalid(&at, name, "must be a standard resource for quota"));
        }
        validate_amount(name, amount, &at, errors);
    }
}

/// The scopes as errors show them: null if there are none.
fn scopes_of(spec: &Value) -> Value {
    part(spec, "scopes").clone()
}

/// `ValidateResourceQuotaSpec`
fn validate_spec(spec: &Value, errors: &mut ErrorList) {
    let at = Path::new("spec");
    validate_amounts(spec, "hard", &at, errors);
    validate_scopes(spec, &at.child("scopes"), errors);
    let selector = part(spec, "scopeSelector");
    if !selector.is_null() {
        validate_selector(spec, selector, &at.child("scopeSelector"), errors);
    }
}

/// Returns true if a scope has nothing to do with one of a quota's resources.
fn has_stranger(scope: &str, spec: &Value) -> bool {
    let is_known = SCOPES.contains(&scope);
    is_known && amounts(spec, "hard").any(|(name, _)| is_standard_of_quota(name) && !covers(scope, name))
}

/// `IsResourceQuotaScopeValidForResource`
fn covers(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => OF_PODS.contains(&resource),
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

/// `validateResourceQuotaScopes`
fn validate_scopes(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for scope in items(spec, "scopes").iter().filter_map(Value::as_str) {
        // A scope's errors are the same each time.
        if !seen.insert(scope) {
            continue;
        }
        if !SCOPES.contains(&scope) {
            errors.push(Error::invalid(at, scopes_of(spec), "unsupported scope"));
        }
        // Every error shows all scopes: without a bound, many of them would cost their square.
        if errors.is_full() {
            return;
        }
        if has_stranger(scope, spec) {
            errors.push(Error::invalid(at, scopes_of(spec), "unsupported scope applied to resource"));
        }
    }
    validate_conflicts(&seen, spec, at, errors);
}

fn validate_conflicts(seen: &BTreeSet<&str>, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for pair in CONFLICTING {
        if pair.iter().all(|scope| seen.contains(scope)) {
            errors.push(Error::invalid(at, scopes_of(spec), "conflicting scopes"));
        }
    }
}

/// `validateScopedResourceSelectorRequirement`
fn validate_selector(spec: &Value, selector: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let at = at.child("matchExpressions");
    let mut seen = BTreeSet::new();
    for requirement in items(selector, "matchExpressions") {
        if errors.is_full() {
            return;
        }
        let (scope, operator) = (text(requirement, "scopeName"), text(requirement, "operator"));
        if !SCOPES.contains(&scope) {
            errors.push(Error::invalid(&at.child("scopeName"), scope, "unsupported scope"));
        }
        let is_new = seen.insert(scope);
        if is_new && has_stranger(scope, spec) {
            errors.push(Error::invalid_raw(&at, shown(selector), "unsupported scope applied to resource"));
        }
        let takes_values = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if SCOPES.contains(&scope) && !takes_values && operator != "Exists" {
            errors.push(Error::invalid(&at.child("operator"), operator, EXISTS_ALONE));
        }
        validate_values(requirement, operator, &at, errors);
    }
    validate_conflicts(&seen, spec, &at, errors);
}

/// The values of a requirement are as many as its operator takes.
fn validate_values(requirement: &Value, operator: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let values = items(requirement, "values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.push(Error::required(&at.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.push(Error::invalid(&at.child("values"), part(requirement, "values").clone(), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.push(Error::invalid(&at.child("operator"), operator, "not a valid selector operator")),
    }
}

/// A selector as errors show it: by the names of Go's fields, in their order.
fn shown(selector: &Value) -> String {
    let requirement = |of: &Value| {
        let [name, operator, values] = ["scopeName", "operator", "values"].map(|field| part(of, field));
        format!(r#"{{"ScopeName":{name},"Operator":{operator},"Values":{values}}}"#)
    };
    let all: Vec<String> = items(selector, "matchExpressions").iter().map(requirement).collect();
    format!(r#"{{"MatchExpressions":[{}]}}"#, all.join(","))
}

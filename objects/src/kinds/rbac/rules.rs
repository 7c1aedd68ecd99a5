//! The rules of roles and bindings (`pkg/apis/rbac/validation/validation.go`, `pkg/apis/rbac/v1/defaults.go`, 1.37).

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_path_segment, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_api::{Map, Value};

use super::GROUP;
use crate::kinds::fields::{items, text};
use crate::kinds::label_selector;

/// The group of a role, and of subjects that are users or groups.
pub(super) fn fill_defaults(object: &mut Value) {
    let set = |of: &mut Map| {
        if of.get("apiGroup").and_then(Value::as_str).is_none_or(str::is_empty) {
            of.insert("apiGroup", GROUP);
        }
    };
    if let Some(reference) = object.get_mut("roleRef").and_then(Value::as_object_mut) {
        set(reference);
    }
    let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        if matches!(text(subject, "kind"), "User" | "Group")
            && let Some(subject) = subject.as_object_mut()
        {
            set(subject);
        }
    }
}

/// `ValidateRole`, `ValidateClusterRole`, `ValidateRoleBinding` or `ValidateClusterRoleBinding`.
pub(super) fn validate(object: &Value, is_namespaced: bool, is_binding: bool) -> ErrorList {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let mut errors = validate_object_meta(metadata, is_namespaced, &is_path_segment, &Path::new("metadata"));
    if is_binding {
        binding(object, is_namespaced, &mut errors);
        return errors;
    }
    let rules = Path::new("rules");
    for (index, rule) in items(object, "rules").iter().enumerate() {
        policy_rule(rule, is_namespaced, &rules.index(index), &mut errors);
    }
    if let Some(aggregation) = object.get("aggregationRule").filter(|of| !of.is_null()) {
        let at = Path::new("aggregationRule");
        let at = at.child("clusterRoleSelectors");
        if items(aggregation, "clusterRoleSelectors").is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(Error::required(&at, detail));
        }
        for (index, selector) in items(aggregation, "clusterRoleSelectors").iter().enumerate() {
            let (at, before) = (at.index(index), errors.len());
            label_selector::validate(selector, &at, &mut errors);
            if errors.len() > before {
                errors.push(Error::invalid(&at, Value::Null, "invalid label selector."));
            }
        }
    }
    errors
}

/// `ValidatePolicyRule`
fn policy_rule(rule: &Value, is_namespaced: bool, at: &Path<'_>, errors: &mut ErrorList) {
    let is_empty = |field| items(rule, field).is_empty();
    if is_empty("verbs") {
        // Without the detail that the function has: declarative validation says it first.
        errors.push(Error::required(&at.child("verbs"), ""));
    }
    let urls = items(rule, "nonResourceURLs");
    if !urls.is_empty() {
        let value = || Value::Array(urls.to_vec().into());
        let at = at.child("nonResourceURLs");
        if is_namespaced {
            errors.push(Error::invalid(&at, value(), "namespaced rules cannot apply to non-resource URLs"));
        }
        if !["apiGroups", "resources", "resourceNames"].into_iter().all(is_empty) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(Error::invalid(&at, value(), detail));
        }
        return;
    }
    for (field, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if is_empty(field) {
            let detail = format!("resource rules must supply at least one {what}");
            errors.push(Error::required(&at.child(field), detail));
        }
    }
}

fn binding(object: &Value, is_namespaced: bool, errors: &mut ErrorList) {
    let reference = object.get("roleRef").unwrap_or(&Value::Null);
    let at = Path::new("roleRef");
    let (group, kind, name) = (text(reference, "apiGroup"), text(reference, "kind"), text(reference, "name"));
    if group != GROUP {
        errors.push(Error::not_supported(&at.child("apiGroup"), group, &[GROUP]));
    }
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind) {
        errors.push(Error::not_supported(&at.child("kind"), kind, kinds));
    }
    if name.is_empty() {
        errors.push(Error::required(&at.child("name"), ""));
    } else {
        let wrong = is_path_segment(name, false).into_iter();
        errors.extend(wrong.map(|text| Error::invalid(&at.child("name"), name, text)));
    }
    let subjects = Path::new("subjects");
    for (index, of) in items(object, "subjects").iter().enumerate() {
        subject(of, is_namespaced, &subjects.index(index), errors);
    }
}

/// `ValidateRoleBindingSubject`
fn subject(of: &Value, is_namespaced: bool, at: &Path<'_>, errors: &mut ErrorList) {
    let (name, group, kind) = (text(of, "name"), text(of, "apiGroup"), text(of, "kind"));
    if name.is_empty() {
        errors.push(Error::required(&at.child("name"), ""));
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                let wrong = name_is_dns_subdomain(name, false).into_iter();
                errors.extend(wrong.map(|text| Error::invalid(&at.child("name"), name, text)));
            }
            if !group.is_empty() {
                errors.push(Error::not_supported(&at.child("apiGroup"), group, &[""]));
            }
            if !is_namespaced && text(of, "namespace").is_empty() {
                errors.push(Error::required(&at.child("namespace"), ""));
            }
        }
        "User" | "Group" if group != GROUP => {
            errors.push(Error::not_supported(&at.child("apiGroup"), group, &[GROUP]));
        }
        "User" | "Group" => {}
        kind => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(Error::not_supported(&at.child("kind"), kind, &kinds));
        }
    }
}

/// The role of a binding stays.
pub(super) fn validate_reference_update(object: &Value, old: &Value) -> Option<Error> {
    let (new, old) = (object.get("roleRef"), old.get("roleRef"));
    let value = || {
        let of = new.unwrap_or(&Value::Null);
        let fields = [("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name")];
        fields.into_iter().map(|(name, field)| (name, text(of, field))).collect::<Map>()
    };
    (new != old).then(|| Error::invalid(&Path::new("roleRef"), Value::Object(value()), "field is immutable"))
}

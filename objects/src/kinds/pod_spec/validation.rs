//! The rules of a pod's spec and of a template's (`ValidatePodSpec`, `ValidatePodTemplateSpec`, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, is_label_value, is_qualified_name, name_is_dns_subdomain};
use kindom_api::meta::{validate_annotations, validate_labels};

use super::{containers, volumes};
use crate::kinds::fields::{items, one_of, present, text, texts};

const RESTART: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// `ValidatePodTemplateSpec`. `claims` are the names of volumes that each pod has beside its own.
pub(in crate::kinds) fn validate_template(
    template: &Value,
    claims: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let null = Value::Null;
    let metadata = template.get("metadata").unwrap_or(&null);
    validate_labels(metadata, "labels", at, errors);
    validate_annotations(metadata, at, errors);
    let (spec, spec_at) = (template.get("spec").unwrap_or(&null), at.child("spec"));
    validate_spec(spec, claims, &spec_at, errors);
    if !items(spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(Error::forbidden(&spec_at.child("ephemeralContainers"), detail));
    }
}

/// `ValidatePodSpec`
fn validate_spec(spec: &Value, claims: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    let mut names = volumes::validate(spec, at, errors);
    names.extend(claims);
    containers::validate(spec, &names, at, errors);
    one_of(spec, "restartPolicy", &RESTART, at, errors);
    one_of(spec, "dnsPolicy", &DNS, at, errors);
    validate_labels(spec, "nodeSelector", at, errors);
    for field in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        let name = text(spec, field);
        if !name.is_empty() {
            texts(name_is_dns_subdomain(name, false), name, &at.child(field), errors);
        }
    }
    let deadline = spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    if let Some(seconds) = deadline.filter(|seconds| !(1..=i64::from(i32::MAX)).contains(seconds)) {
        let detail = "must be between 1 and 2147483647, inclusive";
        errors.push(Error::invalid(&at.child("activeDeadlineSeconds"), seconds, detail));
    }
    for field in ["hostname", "subdomain"] {
        let name = text(spec, field);
        if !name.is_empty() {
            texts(is_dns1123_label(name), name, &at.child(field), errors);
        }
    }
    let all = at.child("tolerations");
    for (index, toleration) in items(spec, "tolerations").iter().enumerate() {
        validate_toleration(toleration, &all.index(index), errors);
    }
}

/// `ValidateTolerations`
pub(in crate::kinds) fn validate_toleration(toleration: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let of = |field| text(toleration, field);
    let (key, operator, value, effect) = (of("key"), of("operator"), of("value"), of("effect"));
    if !key.is_empty() {
        texts(is_qualified_name(key), key, &at.child("key"), errors);
    }
    let operator_at = at.child("operator");
    if key.is_empty() && operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(Error::invalid(&operator_at, operator, detail));
    }
    if present(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(Error::invalid(&at.child("effect"), effect, detail));
    }
    match operator {
        "" | "Equal" => {
            let wrong = is_label_value(value);
            if !wrong.is_empty() {
                errors.push(Error::invalid(&operator_at, value, wrong.join(";")));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => {
            errors.push(Error::invalid(
                &operator_at,
                value,
                "value must be empty when `operator` is 'Exists'",
            ));
        }
        "Lt" | "Gt" => {
            errors.push(Error::not_supported(&operator_at, operator, &["Equal", "Exists", "Lt", "Gt"]));
        }
        other => errors.push(Error::not_supported(&operator_at, other, &["Equal", "Exists"])),
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.push(Error::not_supported(&at.child("effect"), effect, &EFFECTS));
    }
}

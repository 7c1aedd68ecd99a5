//! The rules of tolerations (`ValidateTolerations`, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_label_value, is_qualified_name};

use crate::kinds::fields::{items, present, text, texts};

/// The effects of taints.
pub(in crate::kinds) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The errors in the tolerations of a spec, whose list is at this path.
pub(in crate::kinds) fn validate(spec: &Value, all: &Path<'_>, errors: &mut ErrorList) {
    for (index, toleration) in items(spec, "tolerations").iter().enumerate() {
        validate_one(toleration, &all.index(index), errors);
    }
}

/// The errors in a toleration.
pub(in crate::kinds) fn validate_one(toleration: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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

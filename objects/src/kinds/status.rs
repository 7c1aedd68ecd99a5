//! The parts of an object that are written through the object itself, and through `/status`.

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_condition_reason, is_qualified_name};

use crate::kinds::fields::{items, number, one_of, present, text, texts};
use crate::{RuleContext, Subresource};

/// Takes a field from the stored object.
pub(super) fn keep(object: &mut Value, old: &Value, field: &str) {
    let Some(map) = object.as_object_mut() else { return };
    match old.get(field) {
        Some(kept) => drop(map.insert(field, kept.clone())),
        None => drop(map.remove(field)),
    }
}

/// Gives a new object the status that its type has from the start, whatever the client wrote.
pub(super) fn reset(cx: &RuleContext<'_>, object: &mut Value) {
    if let Some(empty) = cx.spec.strategy.empty(cx) {
        keep(object, &empty, "status");
    }
}

/// Keeps the status of an object that is written itself, and the spec of one that is written through `/status`.
pub(super) fn keep_other_part(cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
    keep(object, old, if is_of_status(cx) { "spec" } else { "status" });
}

/// The parts of an object that `ResetObjectMetaForStatus` takes from the stored one.
const METADATA_OF_STATUS: [&str; 8] = [
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
];

/// Keeps the metadata of an object that is written through a part of it, but for its managers.
pub(super) fn keep_metadata(object: &mut Value, old: &Value) {
    let none = Value::Null;
    let stored = old.get("metadata").unwrap_or(&none);
    if let Some(metadata) = object.get_mut("metadata") {
        for field in METADATA_OF_STATUS {
            keep(metadata, stored, field);
        }
    }
}

/// Returns true for a write through `/status`.
pub(super) fn is_of_status(cx: &RuleContext<'_>) -> bool {
    cx.subresource == Some(Subresource::Status)
}

/// Returns true if a status has a condition that is true; of several of one type, one is enough.
pub(super) fn is_true(status: &Value, condition: &str) -> bool {
    let is = |of: &Value| text(of, "type") == condition && text(of, "status") == "True";
    items(status, "conditions").iter().any(is)
}

const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;

/// The errors in conditions of `meta/v1` (`ValidateConditions`).
pub(super) fn validate_conditions(conditions: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = at.index(index);
        let [kind, reason] = ["type", "reason"].map(|of| text(condition, of));
        if !seen.insert(kind) {
            errors.push(Error::duplicate(&at, kind));
        }
        match kind {
            "" => errors.push(Error::required(&at.child("type"), "is required")),
            kind => texts(is_qualified_name(kind), kind, &at.child("type"), errors),
        }
        one_of(condition, "status", &STATUSES, &at, errors);
        let generation = number(condition, "observedGeneration").unwrap_or_default();
        if generation < 0 {
            let detail = "must be greater than or equal to zero";
            errors.push(Error::invalid(&at.child("observedGeneration"), generation, detail));
        }
        if present(condition, "lastTransitionTime").is_none() {
            errors.push(Error::required(&at.child("lastTransitionTime"), ""));
        }
        let at_reason = at.child("reason");
        match reason {
            "" => errors.push(Error::required(&at_reason, "")),
            reason => texts(is_condition_reason(reason), reason, &at_reason, errors),
        }
        if reason.len() > REASON_BYTES_MAX {
            errors.push(Error::too_long(&at_reason, REASON_BYTES_MAX));
        }
        if text(condition, "message").len() > MESSAGE_BYTES_MAX {
            errors.push(Error::too_long(&at.child("message"), MESSAGE_BYTES_MAX));
        }
    }
}

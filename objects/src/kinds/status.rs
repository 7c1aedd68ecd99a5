//! The parts of an object that are written through the object itself, and through `/status`.

use kindom_api::Value;

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

/// Returns true for a write through `/status`.
pub(super) fn is_of_status(cx: &RuleContext<'_>) -> bool {
    cx.subresource == Some(Subresource::Status)
}

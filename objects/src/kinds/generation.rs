//! The generation in an object's metadata: how many times what its author wants has changed.

use kindom_api::Value;

use crate::kinds::fields::same;
use crate::metadata::metadata_mut;

/// That of a new object.
pub(super) fn first(object: &mut Value) {
    metadata_mut(object).insert("generation", 1);
}

/// Counts a change.
pub(super) fn next(object: &mut Value, old: &Value) {
    let before = old.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
    metadata_mut(object).insert("generation", before.saturating_add(1));
}

/// Leaves the count as it was.
pub(super) fn keep(object: &mut Value, old: &Value) {
    let before = old.at(&["metadata", "generation"]).cloned().unwrap_or(Value::Null);
    metadata_mut(object).insert("generation", before);
}

/// Counts a change of a part.
pub(super) fn next_if_changed(object: &mut Value, old: &Value, part: &str) {
    if !same(object.get(part), old.get(part)) {
        next(object, old);
    }
}

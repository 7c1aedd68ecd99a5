//! Merge patch (RFC 7386) as `gopkg.in/evanphx/json-patch.v4` applies it.

use std::collections::HashSet;

use kindom_api::json::{Key, Map, Value};

/// Applies a patch to a document. A patch that is no map replaces the document.
pub(super) fn apply(doc: Value, patch: Value) -> Value {
    match (doc, patch) {
        (Value::Object(doc), Value::Object(patch)) => Value::Object(maps(doc, patch)),
        // A list replaces a map as it is; in all other cases nulls are dropped from the new value.
        (Value::Object(_), patch) => patch,
        (_, patch) => without_nulls(patch),
    }
}

fn maps(mut doc: Map, patch: Map) -> Map {
    // Entries come and go all at once: one by one would be quadratic.
    let (mut added, mut gone) = (Vec::new(), HashSet::new());
    for (key, value) in patch {
        match (doc.get_mut(&key), value) {
            (Some(_), Value::Null) => drop(gone.insert(key)),
            (None, Value::Null) => {}
            (Some(current), value) if !current.is_null() => *current = apply(std::mem::take(current), value),
            (_, value) => added.push((key, without_nulls(value))),
        }
    }
    if !gone.is_empty() {
        doc.retain(|key, _| !gone.contains(key));
    }
    if added.is_empty() {
        return doc;
    }
    let mut entries: Vec<(Key, Value)> = doc.into_iter().collect();
    entries.extend(added);
    Map::from_entries(entries)
}

/// Drops fields that are null, also from maps within lists; a list's own items stay.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, v)| !v.is_null());
            Value::Object(Map::from_entries(kept.map(|(k, v)| (k, without_nulls(v))).collect()))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

//! The annotations that no face shows.

use super::{ANNOTATION_PREFIX, Face, map_at, map_in};
use crate::field::{Error, ErrorList, Path};
use crate::{Map, Value};

/// The `apiVersion` of the face that a registration came in by, unless that is v1.
pub const REGISTERED_THROUGH: &str = "face.kindom.dev/registered-through";

fn is_hidden(key: &str) -> bool {
    key.starts_with(ANNOTATION_PREFIX)
}

/// A hidden annotation of a stored object.
pub(super) fn get<'a>(stored: &'a Value, key: &str) -> Option<&'a Value> {
    stored.at(&["metadata", "annotations", key])
}

/// Takes the hidden annotations out of an object.
pub(super) fn take(object: &mut Value) -> Map {
    let mut hidden = Map::new();
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return hidden };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return hidden;
    };
    annotations.retain(|key, value| {
        let hide = is_hidden(key);
        if hide {
            hidden.insert(key, std::mem::take(value));
        }
        !hide
    });
    if annotations.is_empty() && !hidden.is_empty() {
        metadata.remove("annotations");
    }
    hidden
}

/// Takes the hidden annotations out of a client's object and returns the stored ones, so that a client that never saw them
/// does not remove them.
///
/// # Errors
/// Hidden annotations in the client's object that differ from the stored ones.
pub(super) fn merge(object: &mut Value, old: Option<&Value>) -> Result<Map, ErrorList> {
    let stored = old.and_then(|old| old.at(&["metadata", "annotations"])).and_then(Value::as_object);
    let stored: Map = stored
        .map(|all| all.iter().filter(|(k, _)| is_hidden(k)).map(|(k, v)| (k, v.clone())).collect())
        .unwrap_or_default();
    let metadata = Path::new("metadata");
    let path = metadata.child("annotations");
    let errors: ErrorList = take(object)
        .iter()
        .filter(|(key, value)| stored.get(key) != Some(value))
        .map(|(key, _)| Error::forbidden(&path.key(key), "is the server's to set"))
        .collect();
    if errors.is_empty() { Ok(stored) } else { Err(errors) }
}

/// Notes the face that a new registration comes in by, if it is one with rules of its own.
pub(super) fn register_through(hidden: &mut Map, face: Face) {
    if face.rules() != Face::V1 {
        hidden.insert(REGISTERED_THROUGH, face.api_version());
    }
}

/// Puts hidden annotations into an object that is to be stored.
pub(super) fn put(object: &mut Value, hidden: Map) {
    if hidden.is_empty() {
        return;
    }
    let annotations = map_in(map_at(object, "metadata"), "annotations");
    for (key, value) in hidden {
        annotations.insert(key, value);
    }
}

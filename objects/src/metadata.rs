//! The metadata of an object's tree.

use kindom_api::{Map, Value};

/// The object's metadata, which is made if it is missing.
pub fn metadata_mut(object: &mut Value) -> &mut Map {
    if !matches!(object, Value::Object(_)) {
        *object = Value::Object(Map::new());
    }
    let Value::Object(root) = object else { unreachable!("invariant: made a map just above") };
    let metadata = root.entry_or_insert_with("metadata", || Value::Object(Map::new()));
    if !matches!(metadata, Value::Object(_)) {
        *metadata = Value::Object(Map::new());
    }
    let Value::Object(metadata) = metadata else { unreachable!("invariant: made a map just above") };
    metadata
}

/// Decodes an object of a built-in type and keeps an empty list of managedFields, which removes all entries: Go's decoder
/// distinguishes it from an absent list.
///
/// # Errors
/// Those of `decode`.
pub fn keep_reset<T, E>(object: &mut Value, decode: impl FnOnce(&mut Value) -> Result<T, E>) -> Result<T, E> {
    let sent = object.at(&["metadata", "managedFields"]).and_then(Value::as_array);
    let resets = sent.is_some_and(<[Value]>::is_empty);
    let decoded = decode(object)?;
    if resets {
        metadata_mut(object).insert("managedFields", Value::Array(Vec::new().into()));
    }
    Ok(decoded)
}

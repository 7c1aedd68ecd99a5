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

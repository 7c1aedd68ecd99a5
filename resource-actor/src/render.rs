//! Between stored bytes and the version that a client asked for.

use kindom_api::{Map, Value, json};

use crate::error::ReadError;
use crate::spec::{Conversion, TypeSpec, VersionSpec};
use crate::{RuleContext, StoredObject};

/// Appends an object as a version serves it, resourceVersion included. Without any parsing where its bytes are known to
/// be that already, which they are unless the schema changed or another version was asked for.
///
/// # Errors
/// [`ReadError::Undecodable`]
pub fn write_served(
    spec: &TypeSpec,
    version: &VersionSpec,
    object: &StoredObject,
    out: &mut Vec<u8>,
) -> Result<(), ReadError> {
    if version.serves_as_is(object, &spec.api_version(&version.name)) && object.write_served(out) {
        return Ok(());
    }
    let tree = decode(spec, version, object)?;
    let start = out.len();
    tree.write_to(out);
    let mut as_is = Vec::new();
    let same_version = object.api_version() == Some(&spec.api_version(&version.name));
    if same_version && object.write_served(&mut as_is) && out.get(start..) == Some(as_is.as_slice()) {
        object.set_verified(version.epoch);
    }
    Ok(())
}

/// The tree of an object as a version serves it, resourceVersion included: converted, pruned and defaulted by that
/// version's schema.
///
/// # Errors
/// [`ReadError::Undecodable`]
pub fn decode(spec: &TypeSpec, version: &VersionSpec, object: &StoredObject) -> Result<Value, ReadError> {
    let undecodable = |why: String| ReadError::Undecodable(why);
    let mut tree = json::parse(object.json())
        .map_err(|e| undecodable(format!("stored object {:?} can't be decoded: {e}", object.key())))?;
    let api_version = spec.api_version(&version.name);
    if tree.get("apiVersion").and_then(Value::as_str) != Some(&api_version) {
        convert(spec, &mut tree, &version.name).map_err(undecodable)?;
    }
    if !version.serves_as_is(object, &api_version)
        && let Some(schema) = &spec.compiled(version).map_err(undecodable)?.schema
    {
        schema.prune(&mut tree, None);
        schema.default(&mut tree);
    }
    metadata_mut(&mut tree).insert("resourceVersion", object.revision().to_string());
    Ok(tree)
}

/// The bytes to store for an object of a version: converted to the storage version and pruned by its schema, without
/// resourceVersion.
///
/// # Errors
/// What conversion is missing.
pub(crate) fn encode(
    cx: &RuleContext<'_>,
    version: &VersionSpec,
    mut object: Value,
) -> Result<Vec<u8>, String> {
    metadata_mut(&mut object).remove("resourceVersion");
    let storage = cx.spec.storage().ok_or("there is no storage version")?;
    if storage.name != version.name {
        convert(cx.spec, &mut object, &storage.name)?;
        if let Some(schema) = &cx.spec.compiled(storage)?.schema {
            schema.prune(&mut object, None);
        }
    }
    Ok(object.to_vec())
}

fn convert(spec: &TypeSpec, object: &mut Value, version: &str) -> Result<(), String> {
    match spec.conversion {
        Conversion::None => {
            if let Some(map) = object.as_object_mut() {
                map.insert("apiVersion", spec.api_version(version));
            }
            Ok(())
        }
        Conversion::Webhook => {
            let from = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            Err(format!(
                "conversion webhook for {from}, Kind={} failed: webhook conversion is not supported yet",
                spec.names.kind
            ))
        }
    }
}

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

//! Embedded resources (`schema/objectmeta/validation.go`): their type, and that their metadata is well formed.

use kindom_api::field::{Error, Path};
use kindom_api::meta::{
    OBJECT_META,
    names::{is_dns1035_label, is_path_segment},
    validate_object_meta,
};
use kindom_api::{Map, Value};

use super::bounds::ErrorLog;
use crate::node::Node;

/// Adds the errors in the embedded resources of an object; the object itself is not one.
pub(super) fn check(root: &Node, object: &Value, errors: &mut ErrorLog) {
    value(root, object, &Path::root(), errors);
}

fn value(node: &Node, value: &Value, at: &Path<'_>, errors: &mut ErrorLog) {
    if !node.below.embedded {
        return;
    }
    match value {
        Value::Object(map) => {
            if node.embedded {
                resource(map, at, errors);
            }
            let (mut cursor, additional) = (node.cursor(), node.additional().schema());
            let deep = |value: &Value| matches!(value, Value::Object(_) | Value::Array(_));
            for (key, item) in map.iter().filter(|(_, item)| deep(item)) {
                if let Some(child) = cursor.property(key) {
                    self::value(child, item, &at.child(key), errors);
                } else if let Some(child) = additional {
                    self::value(child, item, &at.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of_items) = node.items.as_deref() {
                for (i, item) in items.iter().enumerate() {
                    self::value(of_items, item, &at.index(i), errors);
                }
            }
        }
        _ => {}
    }
}

fn resource(map: &Map, at: &Path<'_>, errors: &mut ErrorLog) {
    let at_version = at.child("apiVersion");
    match map.get("apiVersion") {
        None => errors.push(|| Error::required(&at_version, "")),
        Some(Value::String(s)) if s.is_empty() => {
            errors.push(|| Error::invalid(&at_version, s.as_str(), "must not be empty"));
        }
        Some(Value::String(s)) if s.matches('/').count() > 1 => {
            errors.push(|| {
                Error::invalid(&at_version, s.as_str(), format!("unexpected GroupVersion string: {s}"))
            });
        }
        Some(Value::String(_)) => {}
        Some(other) => errors.push(|| Error::invalid(&at_version, other.clone(), "must be a string")),
    }
    let at_kind = at.child("kind");
    match map.get("kind") {
        None => errors.push(|| Error::required(&at_kind, "")),
        Some(Value::String(s)) if s.is_empty() => {
            errors.push(|| Error::invalid(&at_kind, s.as_str(), "must not be empty"));
        }
        Some(Value::String(s)) => {
            let wrong = is_dns1035_label(&s.to_lowercase());
            if !wrong.is_empty() {
                let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                errors.push(|| Error::invalid(&at_kind, s.as_str(), detail));
            }
        }
        Some(other) => errors.push(|| Error::invalid(&at_kind, other.clone(), "must be a string")),
    }
    if let Some(metadata) = map.get("metadata") {
        metadata_of(metadata, &at.child("metadata"), errors);
    }
}

/// The metadata has to decode, and to be valid but for the name, which may be absent.
fn metadata_of(metadata: &Value, at: &Path<'_>, errors: &mut ErrorLog) {
    let mut decoded = match OBJECT_META.decode_at(metadata, "metadata") {
        Ok(decoded) => decoded.value,
        Err(error) => {
            errors.push(|| Error::invalid(at, metadata.clone(), error.to_string()));
            return;
        }
    };
    let text =
        |meta: &Value, field: &str| meta.get(field).and_then(Value::as_str).is_some_and(|s| !s.is_empty());
    if !text(&decoded, "name")
        && let Value::Object(map) = &mut decoded
    {
        map.insert("name", "fakename");
    }
    let namespaced = text(&decoded, "namespace");
    errors.extend(validate_object_meta(&decoded, namespaced, &is_path_segment, at));
}

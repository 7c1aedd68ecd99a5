//! Embedded resources (`schema/objectmeta/validation.go`): their type, and that their metadata is well formed.

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::{Map, Value};

use crate::node::Node;

/// Adds what is wrong with the embedded resources of an object; the object itself is not one.
pub(super) fn check(root: &Node, object: &Value, errors: &mut ErrorList) {
    value(root, object, &Path::root(), errors);
}

fn value(node: &Node, value: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if !node.below.embedded {
        return;
    }
    match value {
        Value::Object(map) => {
            if node.embedded {
                resource(map, at, errors);
            }
            for (key, item) in map.iter() {
                match node.property(key) {
                    Some(child) => self::value(child, item, &at.child(key), errors),
                    None => {
                        if let Some(child) = node.field(key) {
                            self::value(child, item, &at.key(key), errors);
                        }
                    }
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

fn resource(map: &Map, at: &Path<'_>, errors: &mut ErrorList) {
    let at_version = at.child("apiVersion");
    match map.get("apiVersion") {
        None => errors.push(Error::required(&at_version, "")),
        Some(Value::String(s)) if s.is_empty() => {
            errors.push(Error::invalid(&at_version, s.as_str(), "must not be empty"));
        }
        Some(Value::String(s)) if s.matches('/').count() > 1 => {
            errors.push(Error::invalid(
                &at_version,
                s.as_str(),
                format!("unexpected GroupVersion string: {s}"),
            ));
        }
        Some(Value::String(_)) => {}
        Some(other) => errors.push(Error::invalid(&at_version, other.clone(), "must be a string")),
    }
    let at_kind = at.child("kind");
    match map.get("kind") {
        None => errors.push(Error::required(&at_kind, "")),
        Some(Value::String(s)) if s.is_empty() => {
            errors.push(Error::invalid(&at_kind, s.as_str(), "must not be empty"));
        }
        Some(Value::String(s)) if !is_label(&s.to_lowercase()) => {
            let detail = concat!(
                "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case ",
                "alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric ",
                "character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            );
            errors.push(Error::invalid(&at_kind, s.as_str(), detail));
        }
        Some(Value::String(_)) => {}
        Some(other) => errors.push(Error::invalid(&at_kind, other.clone(), "must be a string")),
    }
}

/// A DNS-1035 label.
fn is_label(s: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    s.len() <= 63
        && s.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && s.bytes().last().is_some_and(inner)
        && s.bytes().all(|b| inner(b) || b == b'-')
}

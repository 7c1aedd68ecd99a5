//! Values by key, as config maps and secrets have them (`pkg/apis/core/validation`, 1.37).

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::is_config_map_key;
use kindom_api::{Map, Value};

/// The most bytes of all values of an object together (`MaxSecretSize`).
pub(super) const DATA_BYTES_MAX: usize = 1024 * 1024;
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

/// The keys of a field, each with its value.
pub(super) fn entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = object.get(field).and_then(Value::as_object);
    map.into_iter().flat_map(Map::iter).map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

/// The number of bytes that a text in base64 stands for.
pub(super) fn decoded_bytes(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|b| *b == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}

/// The errors in a key.
pub(super) fn validate_key(key: &str, at: &Path<'_>) -> impl Iterator<Item = Error> {
    is_config_map_key(key).into_iter().map(move |text| Error::invalid(&at.key(key), key, text))
}

/// Makes the nil values of a map of bytes empty ones, as which they come back from Kubernetes' store.
pub(super) fn fill_bytes(object: &mut Value, field: &str) {
    let map = object.get_mut(field).and_then(Value::as_object_mut);
    for (_, value) in map.into_iter().flat_map(Map::iter_mut) {
        if value.is_null() {
            *value = "".into();
        }
    }
}

/// The errors in a change of an object that is immutable: of its fields, and of that it is.
pub(super) fn validate_immutable(object: &Value, old: &Value, fields: &[&str], errors: &mut ErrorList) {
    let is_immutable = |object: &Value| object.get("immutable") == Some(&Value::Bool(true));
    if !is_immutable(old) {
        return;
    }
    if !is_immutable(object) {
        errors.push(Error::forbidden(&Path::new("immutable"), IMMUTABLE));
    }
    for field in fields {
        if object.get(field) != old.get(field) {
            errors.push(Error::forbidden(&Path::new(field), IMMUTABLE));
        }
    }
}

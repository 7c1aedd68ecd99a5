//! Reading and filling in the fields of decoded objects, whose shape is right already.

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::is_dns1123_subdomain;

/// A field's text; empty without one.
pub(crate) fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a field's list.
pub(crate) fn items<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of.get(field).and_then(Value::as_array).unwrap_or_default()
}

/// A field that is an object or a list; null without one.
pub(crate) fn part<'a>(of: &'a Value, field: &str) -> &'a Value {
    of.get(field).unwrap_or(&Value::Null)
}

/// A field's number, if it has one.
pub(super) fn number(of: &Value, field: &str) -> Option<i64> {
    of.get(field).and_then(Value::as_i64)
}

/// The value of a field, unless it is absent or null.
pub(super) fn present<'a>(of: &'a Value, field: &str) -> Option<&'a Value> {
    of.get(field).filter(|value| !value.is_null())
}

/// The value of a field, for changing it, unless it is absent or null.
pub(super) fn present_mut<'a>(of: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    of.get_mut(field).filter(|value| !value.is_null())
}

/// The items of a list, for changing them.
pub(super) fn items_mut<'a>(of: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    of.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets a field that is absent or null: a pointer of Go's that is nil.
pub(super) fn default_nil(of: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(map) = of.as_object_mut()
        && map.get(field).is_none_or(Value::is_null)
    {
        map.insert(field, value);
    }
}

/// Sets a field that has Go's zero value.
pub(super) fn default_zero(of: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(map) = of.as_object_mut()
        && map.get(field).is_none_or(|old| old.is_null() || old.as_str() == Some("") || old == &Value::Int(0))
    {
        map.insert(field, value);
    }
}

/// The error in a number that is below 0 (`ValidateNonnegativeField`).
pub(super) fn not_negative(of: &Value, field: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let value = number(of, field).unwrap_or_default();
    if value < 0 {
        errors.push(Error::invalid(&at.child(field), value, "must be greater than or equal to 0"));
    }
}

/// The errors that a validator of texts finds in a field.
pub(super) fn texts(wrong: Vec<String>, value: &str, at: &Path<'_>, errors: &mut ErrorList) {
    errors.extend(wrong.into_iter().map(|why| Error::invalid(at, value, why)));
}

/// The error in a text that has to be one of some; required if it is empty.
pub(super) fn one_of(of: &Value, field: &str, known: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    match text(of, field) {
        "" => errors.push(Error::required(&at.child(field), "")),
        value if known.contains(&value) => {}
        value => errors.push(Error::not_supported(&at.child(field), value, known)),
    }
}

/// `IsDomainPrefixedPath`: a domain, a slash and a path.
pub fn domain_prefixed_path(value: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        return errors.push(Error::required(at, ""));
    }
    let parts = value.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty());
    let Some((host, path)) = parts else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return errors.push(Error::invalid(at, value, detail));
    };
    texts(is_dns1123_subdomain(host), host, at, errors);
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !path.bytes().all(fits) {
        let detail = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.push(Error::invalid(at, path, detail));
    }
}

/// Equal, where Go tells none from an empty list or map no more (`Semantic.DeepEqual`).
pub(super) fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let is_empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(all)) => all.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        _ => false,
    };
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            // Each pair of fields is compared once: objects nest.
            a.iter().all(|(name, value)| same(Some(value), b.get(name)))
                && b.iter().all(|(name, value)| a.get(name).is_some() || is_empty(Some(value)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(Some(a), Some(b)))
        }
        _ if is_empty(a) || is_empty(b) => is_empty(a) && is_empty(b),
        _ => a == b,
    }
}

//! Parts that the kinds of the network share (`pkg/apis/core/validation`, 1.37).

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, is_dns1123_subdomain, is_qualified_name};
use kindom_api::{Map, Value};

/// The protocols of ports, sorted.
pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// A text at a path; empty without one.
pub(super) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    object.at(path).and_then(Value::as_str).unwrap_or_default()
}

/// A list at a path; empty without one.
pub(super) fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    object.at(path).and_then(Value::as_array).unwrap_or_default()
}

/// The objects of a list that can be changed.
pub(super) fn maps_mut<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Map> {
    let list = object.get_mut(field).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets a field that has no value, or an empty text if `or_empty`.
pub(super) fn set_default(map: &mut Map, field: &str, value: &str, or_empty: bool) {
    let is_unset = map.get(field).is_none_or(|old| old.is_null() || or_empty && old.as_str() == Some(""));
    if is_unset {
        map.insert(field, value);
    }
}

/// The errors that a validator of texts finds in a value.
pub(super) fn invalid(wrong: Vec<String>, value: &str, at: &Path<'_>) -> Vec<Error> {
    wrong.into_iter().map(|text| Error::invalid(at, value, text)).collect()
}

/// `ValidateDNS1123Label`
pub(super) fn dns_label(value: &str, at: &Path<'_>) -> Vec<Error> {
    invalid(is_dns1123_label(value), value, at)
}

/// `ValidateNodeName`
pub(super) fn node_name(value: &str, at: &Path<'_>) -> Vec<Error> {
    invalid(is_dns1123_subdomain(value), value, at)
}

/// `IsValidPortNum`
pub(super) fn port_number(port: i64, at: &Path<'_>) -> Option<Error> {
    let is_port = (1..=65_535).contains(&port);
    (!is_port).then(|| Error::invalid(at, port, "must be between 1 and 65535, inclusive"))
}

/// The errors in a port's protocol, and in its protocol of the application if it has one.
pub(super) fn protocols(port: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let protocol = text(port, &["protocol"]);
    if !PROTOCOLS.contains(&protocol) {
        errors.push(Error::not_supported(&at.child("protocol"), protocol, &PROTOCOLS));
    }
    app_protocol(port, at, errors);
}

/// The errors in a port's protocol of the application, if it has one.
pub(super) fn app_protocol(port: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        errors.extend(invalid(is_qualified_name(protocol), protocol, &at.child("appProtocol")));
    }
}

//! Reading fields of decoded objects, whose shape is right already.

use kindom_api::Value;

/// A field's text; empty without one.
pub(super) fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a field's list.
pub(super) fn items<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of.get(field).and_then(Value::as_array).unwrap_or_default()
}

/// A field that is an object or a list; null without one.
pub(super) fn part<'a>(of: &'a Value, field: &str) -> &'a Value {
    of.get(field).unwrap_or(&Value::Null)
}

/// A field's number, if it has one.
pub(super) fn number(of: &Value, field: &str) -> Option<i64> {
    of.get(field).and_then(Value::as_i64)
}

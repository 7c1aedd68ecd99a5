//! From the tree to protobuf, to the byte as the Go types' own encoders write it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::wire::Backwards;
use super::{
    Field, Kind, MAGIC, Many, Message, TYPE_META, UNKNOWN_CONTENT_ENCODING, UNKNOWN_CONTENT_TYPE,
    UNKNOWN_RAW, UNKNOWN_TYPE_META, message_of,
};
use kindom_api::Value;
use kindom_api::meta::time;

/// Writes an object as a body, by its own apiVersion and kind; `None` if the table does not have that kind. Fields that the
/// type does not list are left out.
#[must_use]
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    Some(encode_as(object, message_of(object)?))
}

/// Writes an object of this type as a body. Fields that the type does not list are left out.
#[must_use]
pub fn encode_as(object: &Value, message: &Message) -> Vec<u8> {
    let mut out = Backwards::default();
    out.bytes(UNKNOWN_CONTENT_TYPE, b"");
    out.bytes(UNKNOWN_CONTENT_ENCODING, b"");
    out.within(UNKNOWN_RAW, |out| write(object, message, out));
    out.within(UNKNOWN_TYPE_META, |out| write(object, &TYPE_META, out));
    out.put(MAGIC);
    out.finish()
}

/// A `metav1.WatchEvent` of this type whose object is a whole body.
#[must_use]
pub fn watch_event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Backwards::default();
    out.within(2, |out| out.bytes(1, object));
    out.bytes(1, kind.as_bytes());
    out.finish()
}

fn write(object: &Value, message: &Message, out: &mut Backwards) {
    fields(object, message.1, out);
}

/// Writes fields of a message, the last one first. Trees are no deeper than their parsers let them be.
pub(super) fn fields(object: &Value, fields: &[Field], out: &mut Backwards) {
    for Field(number, _, name, kind, many, _) in fields.iter().rev() {
        let value = if name.is_empty() { Some(object) } else { object.get(name) };
        let value = value.filter(|value| !value.is_null());
        match (many, value) {
            (Many::One, value) => match (kind, value) {
                // The slices among these are nil in Go.
                (Kind::Gone, _) | (Kind::Bytes | Kind::Texts, None) => {}
                (kind, value) => one(*number, *kind, value.unwrap_or(&Value::Null), out),
            },
            (Many::Pointer, Some(value)) => one(*number, *kind, value, out),
            (Many::Several, Some(Value::Array(items))) => {
                for item in items.iter().rev() {
                    one(*number, *kind, item, out);
                }
            }
            (Many::Map, Some(Value::Object(map))) => {
                for (key, value) in map.iter().rev() {
                    out.within(*number, |out| {
                        if !(matches!(kind, Kind::Bytes) && value.is_null()) {
                            one(2, *kind, value, out);
                        }
                        out.bytes(1, key.as_bytes());
                    });
                }
            }
            _ => {}
        }
    }
}

pub(super) fn one(number: u32, kind: Kind, value: &Value, out: &mut Backwards) {
    match kind {
        Kind::Text | Kind::Gone => out.bytes(number, value.as_str().unwrap_or_default().as_bytes()),
        Kind::Bool => out.number(number, u64::from(value.as_bool().unwrap_or_default())),
        Kind::Int32 | Kind::Int64 => out.number(number, value.as_i64().unwrap_or_default().cast_unsigned()),
        Kind::Double => out.fixed64(number, value.as_f64().unwrap_or_default().to_bits()),
        Kind::Bytes => {
            // Go skips the ends of lines.
            let text = value.as_str().unwrap_or_default().replace(['\n', '\r'], "");
            out.bytes(number, &BASE64.decode(text).unwrap_or_default());
        }
        Kind::Time | Kind::MicroTime => out.within(number, |out| {
            let text = value.as_str().unwrap_or_default();
            if let Some(seconds) = time::parse(text).ok().filter(|seconds| *seconds != time::ZERO) {
                let nanoseconds = if matches!(kind, Kind::MicroTime) { nanoseconds(text) } else { 0 };
                out.number(2, nanoseconds);
                out.number(1, seconds.cast_unsigned());
            }
        }),
        Kind::Quantity => out.within(number, |out| {
            let text = value.as_str().unwrap_or("0");
            out.bytes(1, text.as_bytes());
        }),
        Kind::IntOrString => out.within(number, |out| {
            out.bytes(3, value.as_str().unwrap_or_default().as_bytes());
            out.number(2, value.as_i64().unwrap_or_default().cast_unsigned());
            out.number(1, u64::from(value.as_str().is_some()));
        }),
        Kind::Json => out.within(number, |out| {
            if !value.is_null() {
                out.bytes(1, &value.to_vec());
            }
        }),
        Kind::Texts => out.within(number, |out| each(1, Kind::Text, value, out)),
        Kind::Of(message) => out.within(number, |out| write(value, message, out)),
        Kind::SchemaOrArray(message) => out.within(number, |out| match value {
            Value::Object(_) => one(1, Kind::Of(message), value, out),
            list => each(2, Kind::Of(message), list, out),
        }),
        Kind::SchemaOrBool(message) => out.within(number, |out| match value {
            Value::Object(_) => {
                one(2, Kind::Of(message), value, out);
                out.number(1, 1);
            }
            allows => one(1, Kind::Bool, allows, out),
        }),
        Kind::SchemaOrTexts(message) => out.within(number, |out| match value {
            Value::Object(_) => one(1, Kind::Of(message), value, out),
            list => each(2, Kind::Text, list, out),
        }),
    }
}

fn each(number: u32, kind: Kind, list: &Value, out: &mut Backwards) {
    for item in list.as_array().unwrap_or_default().iter().rev() {
        one(number, kind, item, out);
    }
}

/// The microseconds of a time, in nanoseconds.
fn nanoseconds(time: &str) -> u64 {
    let fraction = time.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).chain(std::iter::repeat(b'0')).take(6);
    digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')) * 1000
}

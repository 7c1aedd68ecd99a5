//! gnostic's form of the document (`openapiv2/OpenAPIv2.proto` of gnostic-models 0.7.0, package `openapi.v2`).
//!
//! A message inside of another may come in pieces: a parser merges them (protobuf's encoding guide, "Last One Wins"). So
//! each path, schema and parameter is a piece of the document's `paths`, `definitions` or `parameters`, and none of the
//! three has to be there as a whole before its length is known.
//!
//! Worked example: the path `/x` without operations is `42 08 12 06 0a 02 2f 78 12 00`: field 8 of the document, of 8 bytes, has
//! field 2 (a named path) of 6 bytes, which has its name and what is there: nothing.

use kindom_api::Value;
use kindom_codec::protobuf::wire::Backwards;
use kindom_codec::yaml::v3;

use super::messages::{
    BODY_PARAMETER, Field, INFO, Kind, Message, PATH_ITEM, PATH_PARAMETER, QUERY_PARAMETER, REFERENCE,
    RESPONSE, SCHEMA,
};

/// The document up to its paths.
pub(super) fn head(info: &Value, out: &mut Vec<u8>) {
    piece(out, |out| {
        out.within(2, |out| message(info, &INFO, out));
        out.bytes(1, b"2.0");
    });
}

/// A path of the document.
pub(super) fn path(path: &str, item: &Value, out: &mut Vec<u8>) {
    piece(out, |out| {
        out.within(8, |out| named(2, path, out, |out| message(item, &PATH_ITEM, out)));
    });
}

/// A schema of the document.
pub(super) fn schema(name: &str, schema: &Value, out: &mut Vec<u8>) {
    piece(out, |out| {
        out.within(9, |out| named(1, name, out, |out| message(schema, &SCHEMA, out)));
    });
}

/// A shared parameter of the document.
pub(super) fn parameter(name: &str, parameter: &Value, out: &mut Vec<u8>) {
    piece(out, |out| {
        out.within(10, |out| named(1, name, out, |out| parameter_of(parameter, out)));
    });
}

/// Appends what `write` writes, last field first.
fn piece(out: &mut Vec<u8>, write: impl FnOnce(&mut Backwards)) {
    let mut piece = Backwards::default();
    write(&mut piece);
    out.extend(piece.finish());
}

/// `openapi.v2.Parameter`
fn parameter_of(parameter: &Value, out: &mut Backwards) {
    match parameter.get("in").and_then(Value::as_str) {
        Some("body") => out.within(1, |out| message(parameter, &BODY_PARAMETER, out)),
        Some("path") => out.within(2, |out| out.within(4, |out| message(parameter, &PATH_PARAMETER, out))),
        _ => out.within(2, |out| out.within(3, |out| message(parameter, &QUERY_PARAMETER, out))),
    }
}

fn message(value: &Value, message: &Message, out: &mut Backwards) {
    let Some(map) = value.as_object() else { return };
    for (name, value) in
        map.iter().rev().filter(|(name, _)| message.extensions != 0 && name.starts_with("x-"))
    {
        named(message.extensions, name, out, |out| any(value, out));
    }
    for Field(name, number, kind) in message.fields.iter().rev() {
        if let Some(value) = map.get(name) {
            encode(value, *number, *kind, out);
        }
    }
}

/// A value that does not fit its field is left out, as a default is.
fn encode(value: &Value, number: u32, kind: Kind, out: &mut Backwards) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = || value.as_array().unwrap_or_default().iter().rev();
    let members = || value.as_object().into_iter().flat_map(|map| map.iter().rev());
    match kind {
        Kind::Text => out.bytes(number, text(value).as_bytes()),
        Kind::Texts => items().for_each(|item| out.bytes(number, text(item).as_bytes())),
        Kind::Bool => {
            if value.as_bool() == Some(true) {
                out.number(number, 1);
            }
        }
        Kind::Integer => {
            if let Some(n) = value.as_i64().filter(|n| *n != 0) {
                out.number(number, n.cast_unsigned());
            }
        }
        Kind::Double => {
            if let Some(x) = value.as_f64().filter(|x| *x != 0.0) {
                out.fixed64(number, x.to_bits());
            }
        }
        Kind::Any => out.within(number, |out| any(value, out)),
        Kind::Anys => items().for_each(|item| out.within(number, |out| any(item, out))),
        Kind::One(of) => out.within(number, |out| message(value, of, out)),
        Kind::Named(of) => out.within(number, |out| {
            members().for_each(|(name, value)| named(1, name, out, |out| message(value, of, out)));
        }),
        Kind::Type => out.within(number, |out| out.bytes(1, text(value).as_bytes())),
        Kind::Items => out.within(number, |out| out.within(1, |out| message(value, &SCHEMA, out))),
        Kind::Schemas => items().for_each(|item| out.within(number, |out| message(item, &SCHEMA, out))),
        Kind::SchemaOrBool => out.within(number, |out| match value.as_bool() {
            // In a choice, a value of false is written too.
            Some(allows) => out.number(2, u64::from(allows)),
            None => out.within(1, |out| message(value, &SCHEMA, out)),
        }),
        Kind::Parameters => items().for_each(|item| {
            out.within(number, |out| match item.get("$ref") {
                Some(_) => out.within(2, |out| message(item, &REFERENCE, out)),
                None => out.within(1, |out| parameter_of(item, out)),
            });
        }),
        Kind::Responses => out.within(number, |out| {
            members().for_each(|(code, response)| {
                named(1, code, out, |out| out.within(1, |out| message(response, &RESPONSE, out)));
            });
        }),
        Kind::ResponseSchema => out.within(number, |out| out.within(1, |out| message(value, &SCHEMA, out))),
    }
}

/// `openapi.v2.Any`: the value as YAML.
fn any(value: &Value, out: &mut Backwards) {
    out.bytes(2, v3::print(value).as_bytes());
}

/// `NamedSchema` and its like, whose value `write` writes.
fn named(number: u32, name: &str, out: &mut Backwards, write: impl FnOnce(&mut Backwards)) {
    out.within(number, |out| {
        out.within(2, write);
        out.bytes(1, name.as_bytes());
    });
}

#[cfg(test)]
mod tests {
    use kindom_api::object;

    use super::{path, schema};

    #[test]
    fn the_worked_example() {
        let mut out = Vec::new();
        path("/x", &object! {}, &mut out);
        assert_eq!(out, [0x42, 8, 0x12, 6, 0x0a, 2, b'/', b'x', 0x12, 0]);
    }

    #[test]
    fn what_yaml_does_not_print_is_escaped() {
        let mut out = Vec::new();
        schema("K", &object! { "enum": vec!["a\u{7f}\u{2028}ä"] }, &mut out);
        let text = String::from_utf8_lossy(&out).into_owned();
        assert!(text.ends_with("\"a\\x7F\\Lä\"\n"), "{text}");
    }

    /// As gnostic-models 0.7.0 has it.
    #[test]
    fn extensions_are_yaml_in_blocks() {
        let mut out = Vec::new();
        let gvk = object! { "group": "g", "kind": "K", "version": "v1" };
        schema("K", &object! { "x-kubernetes-group-version-kind": vec![gvk] }, &mut out);
        let text = String::from_utf8_lossy(&out).into_owned();
        assert!(text.ends_with("- group: g\n  kind: K\n  version: v1\n"), "{text}");
    }
}

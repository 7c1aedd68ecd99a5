//! Reads gnostic's protobuf of an OpenAPI v2 document back into JSON, by the field numbers of `openapiv2/OpenAPIv2.proto`
//! (gnostic-models 0.7.0). Messages that come in pieces are merged, as every protobuf parser does.

use kindom_api::{Map, Value};

enum Raw<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut n, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return n;
        }
    }
}

fn entries(mut bytes: &[u8]) -> Vec<(u64, Raw<'_>)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let raw = match tag & 7 {
            0 => Raw::Number(varint(&mut bytes)),
            1 => {
                let (taken, rest) = bytes.split_at(8);
                bytes = rest;
                Raw::Double(f64::from_le_bytes(taken.try_into().unwrap()))
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (taken, rest) = bytes.split_at(length);
                bytes = rest;
                Raw::Bytes(taken)
            }
            wire => panic!("wire type {wire}"),
        };
        out.push((tag >> 3, raw));
    }
    out
}

fn bytes<'a>(raw: &Raw<'a>) -> &'a [u8] {
    let Raw::Bytes(bytes) = raw else { panic!("no bytes") };
    bytes
}

fn text(raw: &Raw<'_>) -> String {
    String::from_utf8(bytes(raw).to_vec()).unwrap()
}

/// The one field of a message.
fn only<'a>(message: &'a [u8]) -> (u64, Raw<'a>) {
    let mut all = entries(message);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn push(map: &mut Map, name: &str, item: Value) {
    map.entry_or_insert_with(name, || Value::Array(Vec::new().into())).as_array_mut().unwrap().push(item);
}

fn put(map: &mut Map, outer: &str, (name, value): (String, Value)) {
    let inner = map.entry_or_insert_with(outer, || Map::new().into());
    assert!(inner.as_object_mut().unwrap().insert(name, value).is_none(), "twice");
}

/// `NamedX`: name and value.
fn named(raw: &Raw<'_>, value: impl Fn(&[u8]) -> Value) -> (String, Value) {
    let mut out = (String::new(), Value::Null);
    for (number, raw) in entries(bytes(raw)) {
        match number {
            1 => out.0 = text(&raw),
            2 => out.1 = value(bytes(&raw)),
            _ => panic!("field {number} of something named"),
        }
    }
    out
}

fn any(message: &[u8]) -> Value {
    let (number, raw) = only(message);
    assert_eq!(number, 2);
    let text = std::str::from_utf8(bytes(&raw)).unwrap();
    // `n` is a word in YAML 1.2, and to Go.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn number(raw: &Raw<'_>) -> Value {
    match raw {
        Raw::Number(n) => n.cast_signed().into(),
        Raw::Double(x) => Value::Float(*x),
        Raw::Bytes(_) => panic!("bytes"),
    }
}

fn flag(raw: &Raw<'_>) -> Value {
    let Raw::Number(n) = raw else { panic!("no flag") };
    (*n == 1).into()
}

fn schema(message: &[u8]) -> Value {
    let mut map = Map::new();
    for (field, raw) in entries(message) {
        let (name, value) = match field {
            1 => ("$ref", text(&raw).into()),
            2 => ("format", text(&raw).into()),
            3 => ("title", text(&raw).into()),
            4 => ("description", text(&raw).into()),
            5 => ("default", any(bytes(&raw))),
            6 => ("multipleOf", number(&raw)),
            7 => ("maximum", number(&raw)),
            8 => ("exclusiveMaximum", flag(&raw)),
            9 => ("minimum", number(&raw)),
            10 => ("exclusiveMinimum", flag(&raw)),
            11 => ("maxLength", number(&raw)),
            12 => ("minLength", number(&raw)),
            13 => ("pattern", text(&raw).into()),
            14 => ("maxItems", number(&raw)),
            15 => ("minItems", number(&raw)),
            16 => ("uniqueItems", flag(&raw)),
            17 => ("maxProperties", number(&raw)),
            18 => ("minProperties", number(&raw)),
            19 => {
                push(&mut map, "required", text(&raw).into());
                continue;
            }
            20 => {
                push(&mut map, "enum", any(bytes(&raw)));
                continue;
            }
            21 => match only(bytes(&raw)) {
                (1, inner) => ("additionalProperties", schema(bytes(&inner))),
                (2, inner) => ("additionalProperties", flag(&inner)),
                _ => panic!("additionalProperties"),
            },
            22 => ("type", text(&only(bytes(&raw)).1).into()),
            23 => ("items", schema(bytes(&only(bytes(&raw)).1))),
            24 => {
                push(&mut map, "allOf", schema(bytes(&raw)));
                continue;
            }
            25 => {
                for (_, property) in entries(bytes(&raw)) {
                    put(&mut map, "properties", named(&property, schema));
                }
                continue;
            }
            26 => ("discriminator", text(&raw).into()),
            27 => ("readOnly", flag(&raw)),
            29 => {
                for (field, raw) in entries(bytes(&raw)) {
                    let name = if field == 1 { "description" } else { "url" };
                    put(&mut map, "externalDocs", (name.into(), text(&raw).into()));
                }
                continue;
            }
            30 => ("example", any(bytes(&raw))),
            31 => {
                let (name, value) = named(&raw, any);
                map.insert(name, value);
                continue;
            }
            field => panic!("field {field} of a schema"),
        };
        map.insert(name, value);
    }
    map.into()
}

fn parameter(message: &[u8]) -> Value {
    let (kind, inner) = only(message);
    let (kind, inner) = match kind {
        1 => (0, inner),
        _ => only(bytes(&inner)),
    };
    let mut map = Map::new();
    for (field, raw) in entries(bytes(&inner)) {
        let (name, value) = match (kind, field) {
            (0, 2) | (3 | 4, 4) => ("name", text(&raw).into()),
            (0, 3) | (3 | 4, 2) => ("in", text(&raw).into()),
            (0, 1) | (3 | 4, 3) => ("description", text(&raw).into()),
            (0, 4) | (3 | 4, 1) => ("required", flag(&raw)),
            (0, 5) => ("schema", schema(bytes(&raw))),
            (3, 6) | (4, 5) => ("type", text(&raw).into()),
            (3, 7) | (4, 6) => ("format", text(&raw).into()),
            (3, 20) | (4, 19) => ("uniqueItems", flag(&raw)),
            (0, 6) | (3, 23) | (4, 22) => {
                let (name, value) = named(&raw, any);
                map.insert(name, value);
                continue;
            }
            other => panic!("{other:?} of a parameter"),
        };
        map.insert(name, value);
    }
    map.into()
}

fn parameters_item(raw: &Raw<'_>) -> Value {
    match only(bytes(raw)) {
        (1, inner) => parameter(bytes(&inner)),
        (2, inner) => [("$ref", text(&only(bytes(&inner)).1))].into_iter().collect::<Map>().into(),
        _ => panic!("a parameter"),
    }
}

fn response(message: &[u8]) -> Value {
    let mut map = Map::new();
    for (field, raw) in entries(bytes(&only(message).1)) {
        match field {
            1 => map.insert("description", text(&raw)),
            2 => map.insert("schema", schema(bytes(&only(bytes(&raw)).1))),
            5 => {
                let (name, value) = named(&raw, any);
                map.insert(name, value)
            }
            field => panic!("field {field} of a response"),
        };
    }
    map.into()
}

fn operation(message: &[u8]) -> Value {
    let mut map = Map::new();
    for (field, raw) in entries(message) {
        match field {
            1 => push(&mut map, "tags", text(&raw).into()),
            2 => drop(map.insert("summary", text(&raw))),
            3 => drop(map.insert("description", text(&raw))),
            5 => drop(map.insert("operationId", text(&raw))),
            6 => push(&mut map, "produces", text(&raw).into()),
            7 => push(&mut map, "consumes", text(&raw).into()),
            8 => push(&mut map, "parameters", parameters_item(&raw)),
            9 => {
                for (_, one) in entries(bytes(&raw)) {
                    put(&mut map, "responses", named(&one, response));
                }
            }
            10 => push(&mut map, "schemes", text(&raw).into()),
            11 => drop(map.insert("deprecated", flag(&raw))),
            13 => {
                let (name, value) = named(&raw, any);
                map.insert(name, value);
            }
            field => panic!("field {field} of an operation"),
        }
    }
    map.into()
}

fn path_item(message: &[u8]) -> Value {
    let mut map = Map::new();
    for (field, raw) in entries(message) {
        let method = match field {
            2 => "get",
            3 => "put",
            4 => "post",
            5 => "delete",
            6 => "options",
            7 => "head",
            8 => "patch",
            10 => {
                let (name, value) = named(&raw, any);
                map.insert(name, value);
                continue;
            }
            9 => {
                push(&mut map, "parameters", parameters_item(&raw));
                continue;
            }
            field => panic!("field {field} of a path"),
        };
        map.insert(method, operation(bytes(&raw)));
    }
    map.into()
}

/// The document.
pub(crate) fn document(message: &[u8]) -> Value {
    let mut map = Map::new();
    for (field, raw) in entries(message) {
        match field {
            1 => drop(map.insert("swagger", text(&raw))),
            2 => {
                for (field, raw) in entries(bytes(&raw)) {
                    let name = if field == 1 { "title" } else { "version" };
                    put(&mut map, "info", (name.into(), text(&raw).into()));
                }
            }
            8 => {
                let (number, one) = only(bytes(&raw));
                assert_eq!(number, 2);
                put(&mut map, "paths", named(&one, path_item));
            }
            9 => put(&mut map, "definitions", named(&only(bytes(&raw)).1, schema)),
            10 => put(&mut map, "parameters", named(&only(bytes(&raw)).1, parameter)),
            field => panic!("field {field} of the document"),
        }
    }
    map.into()
}

/// Zeros, empty texts and false are not told apart from what is absent, but for those of a choice; and whole numbers not
/// from others.
pub(crate) fn without_zeros(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, value)| match value {
                Value::Int(0) => false,
                Value::Float(x) => *x != 0.0,
                Value::String(text) => !text.is_empty(),
                Value::Bool(flag) => *flag || &**key == "additionalProperties",
                _ => true,
            });
            Value::Object(kept.map(|(key, value)| (key, without_zeros(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_zeros).collect::<Vec<_>>().into(),
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        Value::Int(n) => Value::Float(n as f64),
        other => other,
    }
}

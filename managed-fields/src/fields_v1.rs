//! The wire form of sets, `FieldsV1` (`fieldpath/serialize.go`, `serialize-pe.go`).

use std::borrow::Cow;
use std::rc::Rc;

use kindom_api::{Map, Value, json};

use crate::element::KeyField;
use crate::set::Node;
use crate::{PathElement, Set};

/// The key under which a set says that the element that it is about is a member itself.
pub(crate) const SELF: &str = ".";

/// What is no set of fields.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FieldsError {
    #[error("a set of fields must be an object")]
    Shape,
    #[error("path element {0:?}: {1}")]
    Element(String, String),
}

/// Reads a set. Elements of a kind that this version does not know are left out.
pub(crate) fn decode(fields: &Value) -> Result<Set<'_>, FieldsError> {
    Ok(node(fields)?.below)
}

fn node(fields: &Value) -> Result<Node<'_>, FieldsError> {
    let map = match fields {
        Value::Object(map) => map,
        Value::Null => return Ok(Node::LEAF),
        _ => return Err(FieldsError::Shape),
    };
    let mut out = Node::default();
    for (key, below) in map.iter() {
        if key == SELF {
            out.member = true;
        } else if let Some(element) = element(key)? {
            out.below.put(element, node(below)?);
        }
    }
    out.member |= out.below.is_empty();
    Ok(out)
}

fn element(key: &str) -> Result<Option<PathElement<'_>>, FieldsError> {
    let wrong = |why: &str| FieldsError::Element(key.to_owned(), why.to_owned());
    let parse = |text: &str| json::parse(text.as_bytes()).map_err(|e| wrong(&e.to_string()));
    if key.len() < 2 {
        return Err(wrong("key must be 2 characters long:"));
    }
    if key.as_bytes().get(1) != Some(&b':') {
        return Err(wrong("missing colon"));
    }
    let (kind, rest) = (key.as_bytes().first(), key.get(2..).unwrap_or_default());
    Ok(match kind {
        Some(b'f') => Some(PathElement::Field(rest)),
        Some(b'v') => Some(PathElement::Value(Cow::Owned(floats(parse(rest)?)))),
        Some(b'k') => {
            let fields = match parse(rest)? {
                Value::Object(map) => map,
                Value::Null => Map::new(),
                _ => return Err(wrong("must be an object")),
            };
            let fields = fields.into_iter().map(|(name, value)| KeyField {
                name: Cow::Owned(name.into()),
                value: Cow::Owned(floats(value)),
            });
            Some(PathElement::Key(fields.collect()))
        }
        Some(b'i') => Some(PathElement::Index(rest.parse().map_err(|_| wrong("must be an integer"))?)),
        _ => None,
    })
}

/// Upstream reads all numbers in path elements as floats.
#[allow(clippy::cast_precision_loss, reason = "as upstream's conversion does")]
fn floats(value: Value) -> Value {
    match value {
        Value::Int(n) => Value::Float(n as f64),
        Value::Array(items) => Value::Array(items.into_iter().map(floats).collect()),
        Value::Object(map) => {
            map.into_iter().map(|(name, value)| (name, floats(value))).collect::<Map>().into()
        }
        other => other,
    }
}

/// Writes a set.
pub(crate) fn encode(set: &Set<'_>) -> Value {
    Value::Object(contents(set, false))
}

fn contents(set: &Set<'_>, is_member: bool) -> Map {
    let mut entries: Vec<(Box<str>, Value)> = Vec::with_capacity(set.entries().len() + 1);
    if is_member && !set.is_empty() {
        entries.push((SELF.into(), Map::new().into()));
    }
    for entry in set.entries() {
        entries.push((key(&entry.element), contents(&entry.at.below, entry.at.member).into()));
    }
    Map::from_entries(entries)
}

/// The key of a field of a map.
pub(crate) fn field_key(name: &str) -> Box<str> {
    let mut key = String::with_capacity(2 + name.len());
    key.push_str("f:");
    key.push_str(name);
    key.into_boxed_str()
}

/// The key of an element.
pub(crate) fn key(element: &PathElement<'_>) -> Box<str> {
    match element {
        PathElement::Field(name) => field_key(name),
        PathElement::Key(fields) => format!("k:{}", key_object(fields)).into(),
        PathElement::Value(value) => format!("v:{value}").into(),
        PathElement::Index(index) => format!("i:{index}").into(),
    }
}

fn key_object(fields: &Rc<[KeyField<'_>]>) -> String {
    let mut out = b"{".to_vec();
    for (i, field) in fields.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        Value::from(&*field.name).write_to(&mut out);
        out.push(b':');
        field.value.write_to(&mut out);
    }
    out.push(b'}');
    String::from_utf8_lossy(&out).into_owned()
}

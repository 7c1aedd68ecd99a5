//! The wire form of sets, `FieldsV1` (`fieldpath/serialize.go`, `serialize-pe.go`).

use std::borrow::Cow;
use std::rc::Rc;

use kindom_api::json::Key;
use kindom_api::{Map, Value, json};

use crate::element::KeyField;
use crate::set::Node;
use crate::{PathElement, Set};

/// The key by which a set marks the element itself as a member.
pub(crate) const SELF: Key = Key::new_static(".");

/// The reason why a tree is no set of fields.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FieldsError {
    #[error("a set of fields must be an object")]
    Shape,
    #[error("path element {0:?}: {1}")]
    Element(String, String),
}

/// Reads a set, and says whether it would be written just so. Elements of a kind that this version does not know are left
/// out.
pub(crate) fn decode(fields: &Value) -> Result<(Set<'_>, bool), FieldsError> {
    let mut as_written = fields.as_object().is_some_and(|map| !map.contains_key(&SELF));
    Ok((node(fields, &mut as_written)?.below, as_written))
}

fn node<'a>(fields: &'a Value, as_written: &mut bool) -> Result<Node<'a>, FieldsError> {
    let map = match fields {
        Value::Object(map) => map,
        Value::Null => {
            *as_written = false;
            return Ok(Node::LEAF);
        }
        _ => return Err(FieldsError::Shape),
    };
    let mut out = Node { member: false, below: Set::with_room(map.len()) };
    for (key, value) in map.iter() {
        if key == SELF {
            out.member = true;
            *as_written &= map.len() > 1 && value.as_object().is_some_and(Map::is_empty);
        } else if let Some(element) = element(key)? {
            *as_written &= matches!(element, PathElement::Field(_)) || *self::key(&element) == *key;
            out.below.put(element, node(value, as_written)?);
        } else {
            *as_written = false;
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
        // A float: a set of an object sent with `-0.0` may have it.
        Some(b'v') if rest == "-0" => Some(PathElement::Value(Cow::Owned(Value::Float(-0.0)))),
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
    let mut entries: Vec<(Key, Value)> = Vec::with_capacity(set.entries().len() + 1);
    if is_member && !set.is_empty() {
        entries.push((SELF, Map::new().into()));
    }
    for entry in set.entries() {
        entries.push((key(&entry.element), contents(&entry.at.below, entry.at.member).into()));
    }
    Map::from_entries(entries)
}

/// The key of a field of a map.
pub(crate) fn field_key(name: &str) -> Key {
    ["f:", name].into_iter().collect()
}

/// The key of an element.
pub(crate) fn key(element: &PathElement<'_>) -> Key {
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

#[cfg(test)]
mod tests {
    use kindom_api::{Map, Value};
    use proptest::prelude::*;

    use super::{decode, encode};

    fn fields() -> impl Strategy<Value = Value> {
        let key = prop_oneof![
            8 => "f:[a-c]",
            3 => Just(".".to_owned()),
            2 => r#"v:("[ab]"|[1-3]|1\.0|-0|9007199254740993|\["a"\]|\{"a":1\}| 1)"#,
            2 => r#"k:\{"a":("x"|1|1\.5|1e0)(,"b":true|,"a":"y")?\}"#,
            1 => "i:0?[1-3]",
            1 => "x:[a-c]",
        ];
        let leaf = prop_oneof![8 => Just(Value::Object(Map::new())), 1 => Just(Value::Null)];
        leaf.prop_recursive(4, 24, 5, move |inner| {
            prop::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|map| map.into_iter().collect::<Map>().into())
        })
    }

    proptest! {
        #[test]
        fn what_is_as_it_would_be_written_is_known_as_such(fields in fields()) {
            if let Ok((set, as_written)) = decode(&fields) {
                prop_assert_eq!(as_written, encode(&set) == fields, "{}", fields);
            }
        }
    }
}

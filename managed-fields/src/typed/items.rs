//! The identity of a list's items (`typed/helpers.go`).

use std::borrow::Cow;

use kindom_api::Value;
use kindom_schema::merge::{ListRelation, ListType};

use crate::PathElement;
use crate::element::KeyField;

/// The element that an item of a list is known by (`listItemToPathElement`).
pub(super) fn element_of<'a>(list: ListType<'a>, item: &'a Value) -> Result<PathElement<'a>, String> {
    match list.relation() {
        ListRelation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListRelation::Set => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            _ => Ok(PathElement::Value(Cow::Borrowed(item))),
        },
        ListRelation::Keys(keys) => {
            let map = match item {
                Value::Object(map) => map,
                Value::Null => {
                    return Err("associative list with keys may not have a null element".to_owned());
                }
                _ => return Err("associative list with keys may not have non-map elements".to_owned()),
            };
            let mut fields: Vec<KeyField<'_>> = keys
                .iter()
                .filter_map(|key| {
                    let value = map.get(key).or_else(|| list.key_default(key))?;
                    Some(KeyField { name: Cow::Borrowed(key), value: Cow::Borrowed(value) })
                })
                .collect();
            if fields.is_empty() && !keys.is_empty() {
                let keys: Vec<String> = keys.iter().map(|key| kindom_api::field::go_quote(key)).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                    keys.join(" ")
                ));
            }
            fields.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(PathElement::Key(fields.into()))
        }
    }
}

//! The changes that a hook made to a value, carried over to the tree that the value was read from.
//!
//! The tree keeps everything that the type does not hold, and everything that the hook did not touch, as the client wrote it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use kindom_api::json::{self, ParseError};
use kindom_api::{Map, Value};
use serde_json::value::RawValue;

use super::read::Place;
use crate::BoxError;

/// True for what stays as it is, whatever a hook does: the object's names and kind, and what the server alone writes.
fn keeps(place: Place, field: &str) -> bool {
    match place {
        Place::Root => matches!(field, "apiVersion" | "kind"),
        Place::Metadata => matches!(
            field,
            "creationTimestamp"
                | "generateName"
                | "managedFields"
                | "name"
                | "namespace"
                | "resourceVersion"
                | "uid"
        ),
        Place::Elsewhere => false,
    }
}

/// The fields of a map, each as its text: most of them are the same before and after, and need not be read.
type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Makes the same changes to `object` that lead from `before` to `after`, which are two texts of a value. A list that changed is taken over
/// as a whole. A `null` counts as a field that is not there, as the value of an absent `Option` is written.
///
/// # Errors
/// One of the three is no map, or a value in it nests too deep. The object is changed in part then.
pub(super) fn carry_over(object: &mut Value, before: &[u8], after: &[u8]) -> Result<(), BoxError> {
    let map = object.as_object_mut().ok_or("the object is no map")?;
    carry(map, serde_json::from_slice(before)?, serde_json::from_slice(after)?, Place::Root)
}

fn carry(map: &mut Map, before: Fields<'_>, after: Fields<'_>, place: Place) -> Result<(), BoxError> {
    let names: BTreeSet<&Cow<'_, str>> = before.keys().chain(after.keys()).collect();
    for field in names.into_iter().filter(|field| !keeps(place, field)) {
        let (old, new, inside) = (text_of(&before, field), text_of(&after, field), place.inside(field));
        if old.map(RawValue::get) == new.map(RawValue::get) {
            continue;
        }
        let maps = |text: Option<&RawValue>| text.is_some_and(is_map);
        match (map.get_mut(field), old, new) {
            // It is always there, in the tree.
            (Some(Value::Object(metadata)), old, new) if inside == Place::Metadata => {
                carry(metadata, fields(old)?, fields(new)?, inside)?;
            }
            (Some(Value::Object(inner)), old, new) if maps(old) && maps(new) => {
                carry(inner, fields(old)?, fields(new)?, inside)?;
            }
            (_, _, None) => drop(map.remove(field)),
            // The fields of its maps may only have come in another order.
            (_, old, Some(new)) => {
                let new = read(new)?;
                if old.map(read).transpose()?.as_ref() != Some(&new) {
                    map.insert(field.as_ref(), new);
                }
            }
        }
    }
    Ok(())
}

/// The text of a field that is there.
fn text_of<'a>(fields: &Fields<'a>, field: &str) -> Option<&'a RawValue> {
    fields.get(field).copied().filter(|text| text.get() != "null")
}

fn is_map(text: &RawValue) -> bool {
    text.get().starts_with('{')
}

/// The fields of a map's text; none where there is none.
fn fields(text: Option<&RawValue>) -> Result<Fields<'_>, serde_json::Error> {
    text.map_or_else(|| Ok(Fields::new()), |text| serde_json::from_str(text.get()))
}

/// The value of a text, without the fields of maps that are `null`. It may nest as deep as an object may.
fn read(text: &RawValue) -> Result<Value, ParseError> {
    json::parse_own(text.get().as_bytes()).map(without_nulls)
}

/// A value without the fields of maps that are `null`.
pub(super) fn without_nulls(mut value: Value) -> Value {
    let mut left = vec![&mut value];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(map) => {
                map.retain(|_, value| !value.is_null());
                left.extend(map.iter_mut().map(|(_, value)| value));
            }
            Value::Array(items) => left.extend(items.iter_mut()),
            _ => {}
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tree: &str, before: &str, after: &str, expected: &str) {
        let parse = |text: &str| json::parse(text.as_bytes()).unwrap();
        let mut tree = parse(tree);
        carry_over(&mut tree, before.as_bytes(), after.as_bytes()).unwrap();
        assert_eq!(tree, parse(expected));
    }

    #[test]
    fn what_is_not_touched_stays_as_it_was_written() {
        check(
            r#"{"spec":{"crew":1,"other":{"x":null}},"more":1}"#,
            r#"{"spec":{"crew":1,"hull":null}}"#,
            r#"{"spec":{"crew":2,"hull":null}}"#,
            r#"{"spec":{"crew":2,"other":{"x":null}},"more":1}"#,
        );
    }

    #[test]
    fn fields_come_and_go() {
        check(r#"{"a":1}"#, r#"{"a":1,"b":null}"#, r#"{"a":null,"b":{"c":null,"d":1}}"#, r#"{"b":{"d":1}}"#);
        check(r#"{"a":1,"z":2}"#, r#"{"a":1}"#, "{}", r#"{"z":2}"#);
    }

    #[test]
    fn lists_are_taken_over_whole() {
        check(
            r#"{"a":[{"x":1,"y":2}]}"#,
            r#"{"a":[{"x":1}]}"#,
            r#"{"a":[{"x":3},{"x":null}]}"#,
            r#"{"a":[{"x":3},{}]}"#,
        );
        check(
            r#"{"a":[{"x":1,"y":2}]}"#,
            r#"{"a":[{"x":1}]}"#,
            r#"{"a":[{"x":1}]}"#,
            r#"{"a":[{"x":1,"y":2}]}"#,
        );
    }

    #[test]
    fn another_type_replaces_what_was_there() {
        check(r#"{"a":{"b":1}}"#, r#"{"a":{"b":1}}"#, r#"{"a":"text"}"#, r#"{"a":"text"}"#);
        check(r#"{"a":1}"#, r#"{"a":{"b":1}}"#, r#"{"a":{"b":2}}"#, r#"{"a":{"b":2}}"#);
    }
    #[test]
    fn a_value_may_nest_as_deep_as_an_object() {
        let nested = |levels: usize| format!(r#"{}1{}"#, "[".repeat(levels), "]".repeat(levels));
        let object = |value: &str, crew: u8| format!(r#"{{"spec":{{"a":{value},"crew":{crew}}}}}"#);
        let (old, new) = (object(&nested(200), 1), object(&nested(250), 2));
        check(&old, &old, &new, &new);
        let mut tree = json::parse(old.as_bytes()).unwrap();
        let too_deep = object(&nested(2_000), 2);
        assert!(carry_over(&mut tree, old.as_bytes(), too_deep.as_bytes()).is_err());
    }

    #[test]
    fn another_order_is_no_change() {
        check(
            r#"{"a":[{"b":1,"c":2,"more":3}]}"#,
            r#"{"a":[{"b":1,"c":2}],"d":1}"#,
            r#"{"d":2,"a":[{"c":2,"b":1}]}"#,
            r#"{"a":[{"b":1,"c":2,"more":3}],"d":2}"#,
        );
    }

    #[test]
    fn names_stay_as_they_are() {
        check(
            r#"{"kind":"A","metadata":{"name":"a","managedFields":[1],"labels":{"name":"x"},"uid":"u"},"name":"b"}"#,
            r#"{"metadata":{"name":"a","labels":{"name":"x"},"uid":"u"},"name":"b"}"#,
            r#"{"kind":"B","metadata":{"name":"b","namespace":"n","managedFields":[],"labels":{"name":"y"}},"name":"c"}"#,
            r#"{"kind":"A","metadata":{"name":"a","managedFields":[1],"labels":{"name":"y"},"uid":"u"},"name":"c"}"#,
        );
        let metadata = r#"{"metadata":{"name":"a","labels":{}}}"#;
        check(metadata, metadata, "{}", r#"{"metadata":{"name":"a"}}"#);
        let after = r#"{"metadata":{"name":"b","annotations":{}}}"#;
        check(metadata, "{}", after, r#"{"metadata":{"name":"a","labels":{},"annotations":{}}}"#);
    }
}

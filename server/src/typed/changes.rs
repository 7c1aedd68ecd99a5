//! The changes that a hook made to a value, carried over to the tree that the value was read from.
//!
//! The tree keeps everything that the type does not hold, and everything that the hook did not touch, as the client wrote it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use kindom_api::json::{self, ParseError};
use kindom_api::{Map, Value};

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

/// Makes the same changes to `object` that lead from `before` to `after`, which are two texts of a value. A list that changed is taken over
/// as a whole. A `null` counts as a field that is not there, as the value of an absent `Option` is written.
///
/// # Errors
/// One of the three is no map, or a value in it nests too deep. The object is changed in part then.
pub(super) fn carry_over(object: &mut Value, before: &[u8], after: &[u8]) -> Result<(), BoxError> {
    let map = object.as_object_mut().ok_or("the object is no map")?;
    carry(map, &mut Text(before), &mut Text(after), Place::Root)
}

/// Takes a map from each of the texts. Most of their fields are the same, and in the same order: they are passed over in step.
fn carry(map: &mut Map, before: &mut Text<'_>, after: &mut Text<'_>, place: Place) -> Result<(), BoxError> {
    before.take(b'{')?;
    after.take(b'{')?;
    loop {
        match (before.name()?, after.name()?) {
            (None, None) => return Ok(()),
            (Some(old), Some(new)) if old == new => {
                let inside = place.inside(&old);
                let is_map = before.begins(b'{') && after.begins(b'{');
                match map.get_mut(&old) {
                    Some(Value::Object(inner)) if is_map && !keeps(place, &old) => {
                        carry(inner, before, after, inside)?;
                    }
                    _ => {
                        let old_value = before.value()?;
                        let new_value = after.value_or(old_value)?;
                        if !keeps(place, &old) {
                            carry_field(map, &old, Some(old_value), Some(new_value), inside)?;
                        }
                    }
                }
            }
            (old, new) => {
                let (old, new) = (before.fields(old)?, after.fields(new)?);
                let names: BTreeSet<&Cow<'_, str>> = old.keys().chain(new.keys()).collect();
                for name in names.into_iter().filter(|name| !keeps(place, name)) {
                    let (old, new) = (old.get(name).copied(), new.get(name).copied());
                    carry_field(map, name, old, new, place.inside(name))?;
                }
                return Ok(());
            }
        }
    }
}

/// Carries over a field, unless its text is the same.
fn carry_field(
    map: &mut Map,
    name: &str,
    old: Option<&[u8]>,
    new: Option<&[u8]>,
    inside: Place,
) -> Result<(), BoxError> {
    let [old, new] = [old, new].map(|text| text.filter(|text| *text != b"null"));
    if old == new {
        return Ok(());
    }
    let is_map = |text: Option<&[u8]>| text.is_some_and(|text| text.starts_with(b"{"));
    match (map.get_mut(name), old, new) {
        // Metadata is always there, in the tree.
        (Some(Value::Object(inner)), old, new) if inside == Place::Metadata || is_map(old) && is_map(new) => {
            let text = |text: Option<_>| Text(text.unwrap_or(b"{}"));
            carry(inner, &mut text(old), &mut text(new), inside)?;
        }
        (_, _, None) => drop(map.remove(name)),
        // The fields of its maps may only have come in another order.
        (_, old, Some(new)) => {
            let new = read(new)?;
            if old.map(read).transpose()?.as_ref() != Some(&new) {
                map.insert(name, new);
            }
        }
    }
    Ok(())
}

/// The value of a text, without the fields of maps that are `null`. It may nest as deep as an object may.
fn read(text: &[u8]) -> Result<Value, ParseError> {
    json::parse_own(text).map(without_nulls)
}

/// What is left of JSON that a serializer wrote: it is valid, but may have space in it, where a type holds a text as it came.
struct Text<'a>(&'a [u8]);

/// The fields of a map, each with its value's text.
type Fields<'a> = BTreeMap<Cow<'a, str>, &'a [u8]>;

const ENDS_EARLY: &str = "a value's text ends early";

impl<'a> Text<'a> {
    fn begins(&self, byte: u8) -> bool {
        self.0.first() == Some(&byte)
    }

    fn take(&mut self, byte: u8) -> Result<(), BoxError> {
        let rest = self.0.strip_prefix(&[byte]);
        self.0 =
            rest.ok_or_else(|| format!("a value's text has no {:?} where one belongs", char::from(byte)))?;
        self.skip_space();
        Ok(())
    }

    fn skip_space(&mut self) {
        if self.0.first().is_some_and(u8::is_ascii_whitespace) {
            self.0 = self.0.trim_ascii_start();
        }
    }

    /// The next `len` bytes.
    fn split(&mut self, len: usize) -> Result<&'a [u8], BoxError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(ENDS_EARLY)?;
        self.0 = rest;
        self.skip_space();
        Ok(taken)
    }

    /// Takes the name of a map's next field, up to its value; none behind the last, with the map's end.
    fn name(&mut self) -> Result<Option<Cow<'a, str>>, BoxError> {
        if self.begins(b',') {
            self.take(b',')?;
        }
        if self.begins(b'}') {
            self.split(1)?;
            return Ok(None);
        }
        let text = self.value()?;
        self.take(b':')?;
        let inner = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
        match inner {
            Some(plain) if !plain.contains(&b'\\') => Ok(Some(Cow::Borrowed(std::str::from_utf8(plain)?))),
            _ => Ok(Some(Cow::Owned(serde_json::from_slice(text)?))),
        }
    }

    /// Takes a value.
    fn value(&mut self) -> Result<&'a [u8], BoxError> {
        let len = match self.0.first() {
            Some(b'"') => 1 + string_len(self.0.get(1..).unwrap_or_default())?,
            Some(b'{' | b'[') => container_len(self.0)?,
            _ => self.0.iter().position(|b| ends_scalar(*b)).unwrap_or(self.0.len()),
        };
        self.split(len)
    }

    /// The same, where it may well be the text that is given.
    fn value_or(&mut self, same: &[u8]) -> Result<&'a [u8], BoxError> {
        match self.0.strip_prefix(same) {
            Some(rest) if rest.first().is_some_and(|b| ends_scalar(*b)) => self.split(same.len()),
            _ => self.value(),
        }
    }

    /// Takes the rest of a map, behind the name of one of its fields.
    fn fields(&mut self, mut name: Option<Cow<'a, str>>) -> Result<Fields<'a>, BoxError> {
        let mut fields = Fields::new();
        while let Some(of) = name {
            fields.insert(of, self.value()?);
            name = self.name()?;
        }
        Ok(fields)
    }
}

/// True for what stands behind a number, or another value.
fn ends_scalar(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace()
}

/// The bytes of a string behind its first quote, with the last.
fn string_len(text: &[u8]) -> Result<usize, &'static str> {
    let mut bytes = text.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Ok(at + 1),
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    Err(ENDS_EARLY)
}

/// The bytes of a map or list.
fn container_len(text: &[u8]) -> Result<usize, &'static str> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => at += string_len(text.get(at..).unwrap_or_default())?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Ok(at);
                }
            }
            _ => {}
        }
    }
    Err(ENDS_EARLY)
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
    use proptest::prelude::*;
    use serde_json::json;

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
    fn space_and_escapes_are_read() {
        check(
            r#"{"a\"b":{"c":1},"d":[1]}"#,
            r#"{ "a\"b" : { "c" : 1 } , "d" : [ 1 ] }"#,
            r#"{"a\"b":{ "c": 2,"e\\":"]}\"" },"d":[1]}"#,
            r#"{"a\"b":{"c":2,"e\\":"]}\""},"d":[1]}"#,
        );
        check(r#"{"a":1}"#, r#"{"a":1}"#, r#"{"a":12}"#, r#"{"a":12}"#);
        let mut tree = json::parse(b"{}").unwrap();
        for broken in ["", "{", r#"{"a"#, r#"{"a":[1"#, r#"{"a":"x"#, r#"{"a" 1}"#, "[]"] {
            assert!(carry_over(&mut tree, broken.as_bytes(), br#"{"a":2}"#).is_err(), "{broken}");
        }
    }

    /// The same changes, by trees.
    fn model(map: &mut Map, before: &Map, after: &Map, place: Place) {
        let names: BTreeSet<&str> = before.iter().chain(after.iter()).map(|(name, _)| name).collect();
        for name in names.into_iter().filter(|name| !keeps(place, name)) {
            let [old, new] = [before, after].map(|map| map.get(name).filter(|value| !value.is_null()));
            if old == new {
                continue;
            }
            match (map.get_mut(name), old, new) {
                (Some(Value::Object(inner)), Some(Value::Object(old)), Some(Value::Object(new))) => {
                    model(inner, old, new, place.inside(name));
                }
                (_, _, None) => drop(map.remove(name)),
                (_, old, Some(new)) => {
                    let new = without_nulls(new.clone());
                    if old.cloned().map(without_nulls).as_ref() != Some(&new) {
                        map.insert(name, new);
                    }
                }
            }
        }
    }

    fn any_map() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<i8>().prop_map(|n| json!(n)),
            "[a\"\\\\{}\\[\\],: ]{0,4}".prop_map(|text| json!(text)),
        ];
        let value = leaf.prop_recursive(3, 16, 3, |inner| {
            let map = prop::collection::hash_map("[ab\"]{0,2}", inner.clone(), 0..4);
            prop_oneof![
                map.prop_map(|map| json!(map)),
                prop::collection::vec(inner, 0..3).prop_map(|list| json!(list))
            ]
        });
        prop::collection::hash_map("[abc]|kind|spec", value, 0..5).prop_map(|map| json!(map))
    }

    proptest! {
        #[test]
        fn texts_say_what_their_trees_say(tree in any_map(), before in any_map(), after in any_map(), keep in any::<bool>()) {
            // Often enough, most of the value stays.
            let after = match (keep, before.clone(), after) {
                (true, serde_json::Value::Object(mut before), serde_json::Value::Object(after)) => {
                    before.extend(after.into_iter().take(1));
                    serde_json::Value::Object(before)
                }
                (_, _, after) => after,
            };
            let parse = |value: &serde_json::Value| json::parse(value.to_string().as_bytes()).unwrap();
            let (mut got, mut want) = (parse(&tree), parse(&tree));
            // Space where a type holds a text as it came.
            let pretty = serde_json::to_string_pretty(&after).unwrap();
            carry_over(&mut got, before.to_string().as_bytes(), pretty.as_bytes()).unwrap();
            let (before, after) = (parse(&before), parse(&after));
            let [before, after] = [&before, &after].map(|value| value.as_object().unwrap());
            model(want.as_object_mut().unwrap(), before, after, Place::Root);
            prop_assert_eq!(got, want);
        }
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

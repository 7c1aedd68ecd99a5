//! The changes that a hook made to a value, carried over to the tree that the value was read from.
//!
//! The tree keeps everything that the type does not hold, and everything that the hook did not touch, as the client wrote it.

use kindom_api::{Map, Value};

/// Makes the same changes to `tree` that lead from `before` to `after`. A list that changed is taken over as a whole. A `null`
/// counts as a field that is not there, as the value of an absent `Option` is written.
pub(super) fn carry_over(tree: &mut Value, before: &Value, after: Value) {
    let after = match after {
        Value::Object(after) => after,
        after => {
            *tree = after;
            return;
        }
    };
    let none = Map::new();
    let before = before.as_object().unwrap_or(&none);
    let Some(map) = tree.as_object_mut() else {
        *tree = without_nulls(Value::Object(after));
        return;
    };
    for (name, old) in before.iter() {
        if !old.is_null() && after.get(name).is_none_or(Value::is_null) {
            map.remove(name);
        }
    }
    for (name, new) in after {
        let old = before.get(&name);
        if new.is_null() || old == Some(&new) {
            continue;
        }
        match (map.get_mut(&name), old) {
            (Some(place @ Value::Object(_)), Some(old @ Value::Object(_))) if new.as_object().is_some() => {
                carry_over(place, old, new);
            }
            _ => drop(map.insert(name, without_nulls(new))),
        }
    }
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
    use kindom_api::json;

    use super::*;

    fn check(tree: &str, before: &str, after: &str, expected: &str) {
        let parse = |text: &str| json::parse(text.as_bytes()).unwrap();
        let mut tree = parse(tree);
        carry_over(&mut tree, &parse(before), parse(after));
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
}

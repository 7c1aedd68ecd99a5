//! Lists that must be unique (`schema/listtype/validation.go`).

use std::collections::HashMap;

use kindom_api::field::{Error, Path};
use kindom_api::{Map, Value};

use super::bounds::ErrorLog;
use crate::node::{ListKind, Node};

/// Up to how many items are compared with each other rather than hashed.
const PAIRWISE_MAX: usize = 16;

/// Adds an error for each item of a set or map that stands before already; whether there are any.
pub(super) fn check(root: &Node, object: &Value, errors: &mut ErrorLog) -> bool {
    let count = errors.count();
    if root.below.lists
        && let Value::Object(map) = object
    {
        fields(root, map, &Path::root(), errors);
    }
    errors.count() > count
}

/// Returns true if two items are equal.
pub(super) fn has_duplicates(items: &[Value]) -> bool {
    !second_ones(items, Some).is_empty()
}

fn value(node: &Node, value: &Value, at: &Path<'_>, errors: &mut ErrorLog) {
    if !node.below.lists {
        return;
    }
    match value {
        Value::Object(map) => fields(node, map, at, errors),
        Value::Array(items) => {
            match node.list {
                ListKind::Atomic => {}
                ListKind::Set => {
                    for i in second_ones(items, Some) {
                        let item = || items.get(i).cloned().unwrap_or_default();
                        errors.push(|| Error::duplicate(&at.index(i), item()));
                    }
                }
                ListKind::Map => by_key(node, items, at, errors),
            }
            if let Some(of_items) = node.items.as_deref() {
                for (i, item) in items.iter().enumerate() {
                    self::value(of_items, item, &at.index(i), errors);
                }
            }
        }
        _ => {}
    }
}

fn fields(node: &Node, map: &Map, at: &Path<'_>, errors: &mut ErrorLog) {
    let deep = |item: &Value| matches!(item, Value::Object(_) | Value::Array(_));
    let (mut cursor, additional) = (node.cursor(), node.additional().schema());
    for (key, item) in map.iter().filter(|(_, item)| deep(item)) {
        if let Some(child) = additional {
            value(child, item, &at.key(key), errors);
        }
        if let Some(child) = cursor.property(key) {
            value(child, item, &at.child(key), errors);
        }
    }
}

fn by_key(node: &Node, items: &[Value], at: &Path<'_>, errors: &mut ErrorLog) {
    for (i, item) in items.iter().enumerate() {
        if !matches!(item, Value::Null | Value::Object(_)) {
            let detail = "must be an object for an array of list-type map";
            errors.push(|| Error::invalid(&at.index(i), item.clone(), detail));
            return;
        }
    }
    if items.len() < 2 {
        return;
    }
    if let [key] = node.map_keys() {
        // Without copies: the commonest case. An absent key equals another absent one.
        for i in second_ones(items, |item| item.get(key)) {
            errors.push(|| Error::duplicate(&at.index(i), keys_of(items.get(i), node.map_keys())));
        }
        return;
    }
    let keys: Vec<Value> = items.iter().map(|item| keys_of(Some(item), node.map_keys())).collect();
    for i in second_ones(&keys, Some) {
        errors.push(|| Error::duplicate(&at.index(i), keys_of(items.get(i), node.map_keys())));
    }
}

fn keys_of(item: Option<&Value>, keys: &[Box<str>]) -> Value {
    let entries = keys.iter().filter_map(|key| Some((key.clone(), item?.get(key)?.clone())));
    Value::Object(entries.collect())
}

/// The indexes of the items that occur for the second time, compared by a part of each; later occurrences are left out.
fn second_ones<'v>(items: &'v [Value], part: impl Fn(&'v Value) -> Option<&'v Value>) -> Vec<usize> {
    let mut second = Vec::new();
    if items.len() <= PAIRWISE_MAX {
        let mut parts = [None; PAIRWISE_MAX];
        for (i, item) in items.iter().enumerate() {
            let mine = part(item);
            let mut before = parts.iter().take(i).filter(|other| same(**other, mine));
            if before.next().is_some() && before.next().is_none() {
                second.push(i);
            }
            parts.get_mut(i).into_iter().for_each(|slot| *slot = mine);
        }
        return second;
    }
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let times = seen.entry(hash_key(part(item))).or_default();
        *times += 1;
        if *times == 2 {
            second.push(i);
        }
    }
    second
}

/// Numbers in maps and lists are compared as they print, others with their type, as upstream's two maps do.
fn hash_key(item: Option<&Value>) -> Vec<u8> {
    let Some(value) = item else { return Vec::new() };
    let mut key = vec![match value {
        Value::Int(_) => b'i',
        Value::Float(_) => b'f',
        _ => b'v',
    }];
    value.write_to(&mut key);
    key
}

fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(a @ (Value::Object(_) | Value::Array(_))), Some(b)) => *a == *b || a.to_vec() == b.to_vec(),
        (a, b) => a == b,
    }
}

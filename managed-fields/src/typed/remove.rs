//! Values without some of their fields (`typed/remove.go`).

use kindom_api::json::Key;
use kindom_api::{Map, Value};
use kindom_schema::merge::{ListRelation, ListType, MapType, MergeType};

use super::{Atom, atom, field_type, items};
use crate::set::Node;
use crate::{PathElement, Set};

/// A valid value without the fields of a set. A map or list of which nothing is left is null, as is one that was empty
/// before.
pub(crate) fn remove(value: &Value, fields: &Set<'_>, ty: MergeType<'_>) -> Value {
    match (atom(ty, Some(value)).0, value) {
        (Some(Atom::Scalar(_)) | None, value) => value.clone(),
        (Some(Atom::Map(ty)), Value::Object(map)) => from_map(map, fields, ty),
        (Some(Atom::List(ty)), Value::Array(list)) => from_list(list, fields, ty),
        _ => Value::Null,
    }
}

fn from_map(map: &Map, fields: &Set<'_>, ty: MapType<'_>) -> Value {
    if ty.is_atomic() {
        return Value::Null;
    }
    let kept = map.iter().filter_map(|(name, value)| {
        let value = match fields.at(&PathElement::Field(name)) {
            Some(node) if node.member => return None,
            Some(node) => match field_type(ty, name) {
                Some(ty) => remove(value, &node.below, ty),
                None => value.clone(),
            },
            None => value.clone(),
        };
        Some((name.into(), value))
    });
    let kept: Vec<(Key, Value)> = kept.collect();
    if kept.is_empty() { Value::Null } else { Value::Object(Map::from_entries(kept)) }
}

fn from_list(list: &[Value], fields: &Set<'_>, ty: ListType<'_>) -> Value {
    if matches!(ty.relation(), ListRelation::Atomic) {
        return Value::Null;
    }
    let kept = list.iter().filter_map(|item| {
        let node = items::element_of(ty, item).ok().and_then(|element| fields.at(&element));
        match node {
            Some(node) if node.member => None,
            Some(node) => Some(remove(item, &node.below, ty.element())),
            None => Some(item.clone()),
        }
    });
    let kept: Vec<Value> = kept.collect();
    if kept.is_empty() { Value::Null } else { Value::Array(kept.into()) }
}

/// A set with all fields that their type names and that have something below them in it
/// (`EnsureNamedFieldsAreMembers`).
pub(crate) fn with_named_fields<'a>(set: &Set<'a>, ty: Option<MergeType<'_>>) -> Set<'a> {
    let (map, list) = (ty.and_then(MergeType::map), ty.and_then(MergeType::list));
    let mut out = Set::new();
    for entry in set.entries() {
        let (named, below_type) = match (&entry.element, map, list) {
            (PathElement::Field(name), Some(map), _) => (map.field(name).is_some(), field_type(map, name)),
            (PathElement::Key(_), _, Some(list)) => (false, Some(list.element())),
            _ => (false, None),
        };
        let has_below = !entry.at.below.is_empty();
        let below = if has_below { with_named_fields(&entry.at.below, below_type) } else { Set::new() };
        out.put(entry.element.clone(), Node { member: entry.at.member || (named && has_below), below });
    }
    out
}

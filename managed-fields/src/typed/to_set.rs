//! The fields that a value sets (`typed/tofieldset.go`).

use std::collections::BTreeMap;

use kindom_api::{Map, Value};
use kindom_schema::merge::{ListRelation, ListType, MapType, MergeType};

use super::{Atom, atom, field_type, items};
use crate::set::Node;
use crate::{PathElement, Set};

/// The fields that a valid value sets: its leaves, the items of its lists, and those of its maps that their type does not
/// name.
pub(crate) fn to_set<'a>(value: &'a Value, ty: MergeType<'a>) -> Set<'a> {
    node(value, ty).below
}

fn node<'a>(value: &'a Value, ty: MergeType<'a>) -> Node<'a> {
    match (atom(ty, Some(value)).0, value) {
        (Some(Atom::Scalar(_)), _) => Node::LEAF,
        (Some(Atom::Map(ty)), _) if ty.is_atomic() => Node::LEAF,
        (Some(Atom::List(ty)), _) if matches!(ty.relation(), ListRelation::Atomic) => Node::LEAF,
        (Some(Atom::Map(ty)), Value::Object(fields)) => map(fields, ty),
        (Some(Atom::List(ty)), Value::Array(items)) => list(items, ty),
        _ => Node::default(),
    }
}

fn map<'a>(fields: &'a Map, ty: MapType<'a>) -> Node<'a> {
    let mut out = Set::new();
    for (name, value) in fields.iter() {
        let Some(field) = field_type(ty, name) else { continue };
        let mut at = node(value, field);
        let says_nothing = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        at.member |= says_nothing || ty.field(name).is_none();
        out.put(PathElement::Field(name), at);
    }
    Node { member: false, below: out }
}

fn list<'a>(list: &'a [Value], ty: ListType<'a>) -> Node<'a> {
    // Items that occur twice are owned as a whole.
    let mut known: BTreeMap<PathElement<'a>, Option<&'a Value>> = BTreeMap::new();
    for item in list {
        let Ok(element) = items::element_of(ty, item) else { continue };
        known.entry(element).and_modify(|once| *once = None).or_insert(Some(item));
    }
    let mut out = Set::new();
    for (element, item) in known {
        let below = item.map_or_else(Set::new, |item| node(item, ty.element()).below);
        out.put(element, Node { member: true, below });
    }
    Node { member: false, below: out }
}

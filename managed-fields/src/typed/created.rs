//! The fields of a new object in their wire form, in one walk: what [`super::validate`], [`super::compare`] with nothing
//! and the encoding of a set make of it. Every create needs it.

use kindom_api::{Map, Value};
use kindom_schema::merge::{ListRelation, ListType, MapType, MergeType};

use super::validate::scalar_error;
use super::{Atom, atom, field_type, items};
use crate::{fields_v1, unmanaged};

/// The fields that a new object sets and its writer manages: all but those of `reset`, and those that nobody manages.
/// None where the object is not of its type; [`super::validate`] says why.
pub(crate) fn created(object: &Value, ty: MergeType<'_>, reset: &[&str]) -> Option<Value> {
    let (Some(Atom::Map(ty)), Value::Object(object)) = (atom(ty, Some(object)).0, object) else {
        return None;
    };
    if ty.is_atomic() {
        return None;
    }
    let mut out = Vec::with_capacity(object.len());
    for (name, value) in object.iter() {
        let field = field_type(ty, name)?;
        let below = match (value, field.map()) {
            (Value::Object(map), Some(ty)) if name == "metadata" && !ty.is_atomic() => {
                let below = fields(map, ty, false, |name| !unmanaged::in_metadata(name))?;
                (!below.is_empty()).then_some(below)
            }
            _ => Some(contents(value, field)?).filter(|_| !unmanaged::at_top(name)),
        };
        if !reset.contains(&name) {
            out.extend(below.map(|below| (fields_v1::field_key(name), below.into())));
        }
    }
    Some(Value::Object(Map::from_entries(out)))
}

/// What is at and below a value that is a member itself, as everything in a new object is.
fn contents(value: &Value, ty: MergeType<'_>) -> Option<Map> {
    match (atom(ty, Some(value)).0?, value) {
        (Atom::Scalar(scalar), value) => scalar_error(scalar, value).is_none().then(Map::new),
        (Atom::Map(_) | Atom::List(_), Value::Null) => Some(Map::new()),
        (Atom::Map(ty), Value::Object(map)) => fields(map, ty, true, |_| true),
        (Atom::List(ty), Value::Array(list)) => list_items(list, ty),
        _ => None,
    }
}

fn fields(map: &Map, ty: MapType<'_>, member: bool, keep: impl Fn(&str) -> bool) -> Option<Map> {
    let leaf = ty.is_atomic();
    let mut out = Vec::with_capacity(if leaf { 0 } else { map.len() + 1 });
    for (name, value) in map.iter() {
        let below = contents(value, field_type(ty, name)?)?;
        if !leaf && keep(name) {
            out.push((fields_v1::field_key(name), below.into()));
        }
    }
    Some(with_self(out, member))
}

/// Where something is below it, a member says that it is one itself.
fn with_self(mut out: Vec<(Box<str>, Value)>, member: bool) -> Map {
    if member && !out.is_empty() {
        out.insert(0, (fields_v1::SELF.into(), Map::new().into()));
    }
    Map::from_entries(out)
}

fn list_items(list: &[Value], ty: ListType<'_>) -> Option<Map> {
    if matches!(ty.relation(), ListRelation::Atomic) {
        list.iter().try_for_each(|item| contents(item, ty.element()).map(drop))?;
        return Some(Map::new());
    }
    let mut out: Vec<(Box<str>, Value)> = Vec::with_capacity(list.len() + 1);
    for item in list {
        let key = fields_v1::key(&items::element_of(ty, item).ok()?);
        out.push((key, contents(item, ty.element())?.into()));
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    // What stands twice is owned as a whole.
    out.dedup_by(|later, first| {
        let twice = later.0 == first.0;
        if twice {
            first.1 = Map::new().into();
        }
        twice
    });
    Some(with_self(out, true))
}

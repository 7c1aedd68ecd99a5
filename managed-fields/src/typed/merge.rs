//! One value merged into another (`typed/merge.go`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kindom_api::json::Key;
use kindom_api::{Map, Value};
use kindom_schema::merge::{ListRelation, ListType, MapType, MergeType};

use super::validate::scalar_error;
use super::{Atom, TypeErrors, as_list, as_map, atom, field_type, items, zip};
use crate::PathElement;

/// `live` with what `config` says; both are of the type, and nothing stands twice in `config`'s sets and keyed lists.
pub(crate) fn merge(live: &Value, config: &Value, ty: MergeType<'_>) -> Result<Value, TypeErrors> {
    let mut errors = TypeErrors::default();
    let merged = value(Some(live), Some(config), ty, &mut errors);
    errors.into_result(merged.unwrap_or_default())
}

/// None where nothing is left.
fn value<'a>(
    lhs: Option<&'a Value>,
    rhs: Option<&'a Value>,
    ty: MergeType<'a>,
    errors: &mut TypeErrors,
) -> Option<Value> {
    // A value that only one side has is taken as it is.
    let (Some(left), Some(right)) = (lhs, rhs) else { return rhs.or(lhs).cloned() };
    let ((left_atom, left_as), (right_atom, right_as)) = (atom(ty, lhs), atom(ty, rhs));
    if left_as != right_as {
        // The result does not count, only its errors.
        handle(left_atom, left, right, errors);
    }
    handle(right_atom, left, right, errors)
}

fn handle<'a>(
    atom: Option<Atom<'a>>,
    lhs: &'a Value,
    rhs: &'a Value,
    errors: &mut TypeErrors,
) -> Option<Value> {
    match atom? {
        Atom::Scalar(scalar) => {
            let error = |side, value| scalar_error(scalar, value).map(|error| format!("{side}: {error}"));
            if let (Some(lhs), Some(rhs)) = (error("lhs", lhs), error("rhs", rhs)) {
                errors.push(lhs);
                errors.push(rhs);
                return None;
            }
            Some(rhs.clone())
        }
        Atom::Map(ty) => {
            let (left, right) = (as_map(Some(lhs)), as_map(Some(rhs)));
            let empty = |map: Option<&Map>| map.is_none_or(Map::is_empty);
            if ty.is_atomic() || (empty(left) && empty(right)) {
                return Some(rhs.clone());
            }
            map(left, right, ty, errors)
        }
        Atom::List(ty) => {
            let (left, right) = (as_list(Some(lhs)), as_list(Some(rhs)));
            let empty = |list: Option<&[Value]>| list.is_none_or(<[Value]>::is_empty);
            if matches!(ty.relation(), ListRelation::Atomic) || (empty(left) && empty(right)) {
                return Some(rhs.clone());
            }
            list(left.unwrap_or_default(), right.unwrap_or_default(), ty, errors)
        }
    }
}

fn map<'a>(
    lhs: Option<&'a Map>,
    rhs: Option<&'a Map>,
    ty: MapType<'a>,
    errors: &mut TypeErrors,
) -> Option<Value> {
    let mut out: Vec<(Key, Value)> = Vec::new();
    for (name, lhs, rhs) in zip(lhs, rhs) {
        let Some(ty) = field_type(ty, name) else { continue };
        let before = errors.len();
        let merged = value(lhs, rhs, ty, errors);
        errors.prefix(before, &PathElement::Field(name));
        out.extend(merged.map(|merged| (name.into(), merged)));
    }
    (!out.is_empty()).then(|| Value::Object(Map::from_entries(out)))
}

/// The items of a list, and each by its identity; items that occur twice are null.
struct Known<'a> {
    elements: Vec<PathElement<'a>>,
    items: BTreeMap<PathElement<'a>, &'a Value>,
}

static NULL: Value = Value::Null;

impl<'a> Known<'a> {
    fn of(list: &'a [Value], ty: ListType<'a>, twice: bool, errors: &mut TypeErrors) -> Self {
        let mut known = Self { elements: Vec::with_capacity(list.len()), items: BTreeMap::new() };
        for (i, item) in list.iter().enumerate() {
            match items::element_of(ty, item) {
                Ok(element) => {
                    let before = known.items.insert(element.clone(), item);
                    if before.is_some() && !twice {
                        errors.push(format!("duplicate entries for key {element}"));
                        continue;
                    }
                    if before.is_some() {
                        known.items.insert(element.clone(), &NULL);
                    }
                    known.elements.push(element);
                }
                Err(why) => errors.push(format!("element {i}: {why}")),
            }
        }
        known
    }
}

/// The items of both: those of `rhs` in its order, and those that only `lhs` has where they stood among what both have.
fn list<'a>(lhs: &'a [Value], rhs: &'a [Value], ty: ListType<'a>, errors: &mut TypeErrors) -> Option<Value> {
    let before = errors.len();
    let right = Known::of(rhs, ty, false, errors);
    let left = Known::of(lhs, ty, true, errors);
    if errors.len() > before {
        return None;
    }
    // The items that both have, in the order of the result.
    let mut shared: VecDeque<&PathElement<'a>> =
        right.elements.iter().filter(|element| left.items.contains_key(element)).collect();
    let mut next_shared = shared.pop_front();
    let mut merged: BTreeSet<&PathElement<'a>> = BTreeSet::new();
    let mut out = Vec::with_capacity(lhs.len().max(rhs.len()));
    let item = |lhs: Option<&'a Value>, rhs: Option<&'a Value>| {
        // Upstream drops errors within items, too.
        value(lhs, rhs, ty.element(), &mut TypeErrors::default())
    };
    let (mut l, mut r) = (0, 0);
    loop {
        let (ours, theirs) = (left.elements.get(l), right.elements.get(r));
        if ours.is_none() && theirs.is_none() {
            break;
        }
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            if ours == theirs {
                merged.insert(ours);
                out.extend(item(left.items.get(ours).copied(), right.items.get(theirs).copied()));
                l += 1;
                r += 1;
                next_shared = shared.pop_front();
                continue;
            }
            if right.items.contains_key(ours) && next_shared.is_some_and(|next| next != ours) {
                // Both have it, but it is not its turn.
                l += 1;
                continue;
            }
        }
        if let Some(ours) = ours {
            if !right.items.contains_key(ours) {
                out.extend(item(lhs.get(l), None));
                l += 1;
                continue;
            }
            if merged.contains(ours) {
                l += 1;
            }
        }
        if let Some(theirs) = theirs {
            merged.insert(theirs);
            out.extend(item(left.items.get(theirs).copied(), right.items.get(theirs).copied()));
            r += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.pop_front();
            }
        }
    }
    (!out.is_empty()).then_some(Value::Array(out.into()))
}

//! The difference between two values of a type (`typed/compare.go`).

use std::collections::BTreeMap;

use kindom_api::{Map, Value};
use kindom_schema::merge::{ListRelation, ListType, MapType, MergeType};

use super::validate::scalar_error;
use super::{Atom, TypeErrors, atom, field_type, items, zip};
use crate::element::equal;
use crate::set::Node;
use crate::{PathElement, Set};

/// The fields that differ.
#[derive(Debug, Clone, Default)]
pub(crate) struct Difference<'a> {
    pub(crate) removed: Set<'a>,
    pub(crate) modified: Set<'a>,
    pub(crate) added: Set<'a>,
}

impl Difference<'_> {
    /// Without the top-level fields of these names.
    pub(crate) fn without_fields(self, names: &[&str]) -> Self {
        Self {
            removed: self.removed.without_fields(names),
            modified: self.modified.without_fields(names),
            added: self.added.without_fields(names),
        }
    }
}

/// The differences at and below a place.
#[derive(Default)]
struct Parts<'a> {
    removed: Node<'a>,
    modified: Node<'a>,
    added: Node<'a>,
}

impl<'a> Parts<'a> {
    /// Takes up what differs below an element.
    fn put(&mut self, element: &PathElement<'a>, below: Parts<'a>) {
        for (ours, theirs) in [
            (&mut self.removed, below.removed),
            (&mut self.modified, below.modified),
            (&mut self.added, below.added),
        ] {
            if !theirs.is_empty() {
                ours.below.put(element.clone(), theirs);
            }
        }
    }

    fn leaf(&mut self, lhs: &Value, rhs: &Value) {
        self.modified.member |= !equal(lhs, rhs);
    }
}

/// The changes that turn `lhs` into `rhs`; both are valid, except that items may occur twice.
pub(crate) fn compare<'a>(
    lhs: &'a Value,
    rhs: &'a Value,
    ty: MergeType<'a>,
) -> Result<Difference<'a>, TypeErrors> {
    let mut errors = TypeErrors::default();
    let mut parts = Parts::default();
    both(lhs, rhs, ty, &mut parts, &mut errors);
    errors.into_result(Difference {
        removed: parts.removed.below,
        modified: parts.modified.below,
        added: parts.added.below,
    })
}

fn both<'a>(lhs: &'a Value, rhs: &'a Value, ty: MergeType<'a>, out: &mut Parts<'a>, errors: &mut TypeErrors) {
    let ((left, left_as), (right, right_as)) = (atom(ty, Some(lhs)), atom(ty, Some(rhs)));
    if left_as != right_as {
        handle(left, lhs, rhs, out, errors);
    }
    handle(right, lhs, rhs, out, errors);
}

fn handle<'a>(
    atom: Option<Atom<'a>>,
    lhs: &'a Value,
    rhs: &'a Value,
    out: &mut Parts<'a>,
    errors: &mut TypeErrors,
) {
    match atom {
        None => {}
        Some(Atom::Scalar(scalar)) => {
            let error = |side, value| scalar_error(scalar, value).map(|error| format!("{side}: {error}"));
            match (error("lhs", lhs), error("rhs", rhs)) {
                (Some(lhs), Some(rhs)) => {
                    errors.push(lhs);
                    errors.push(rhs);
                }
                _ => out.leaf(lhs, rhs),
            }
        }
        Some(Atom::Map(ty)) => {
            let (left, right) = (lhs.as_object(), rhs.as_object());
            let empty = |map: Option<&Map>| map.is_none_or(Map::is_empty);
            if ty.is_atomic() || (empty(left) && empty(right)) {
                out.leaf(lhs, rhs);
            } else {
                map(left, right, ty, out, errors);
            }
        }
        Some(Atom::List(ty)) => {
            let (left, right) = (lhs.as_array(), rhs.as_array());
            let empty = |list: Option<&[Value]>| list.is_none_or(<[Value]>::is_empty);
            if matches!(ty.relation(), ListRelation::Atomic) || (empty(left) && empty(right)) {
                out.leaf(lhs, rhs);
            } else {
                list(left.unwrap_or_default(), right.unwrap_or_default(), ty, out, errors);
            }
        }
    }
}

fn map<'a>(
    lhs: Option<&'a Map>,
    rhs: Option<&'a Map>,
    ty: MapType<'a>,
    out: &mut Parts<'a>,
    errors: &mut TypeErrors,
) {
    // Valid values that are equal have no difference, whatever their type.
    for (name, lhs, rhs) in zip(lhs, rhs).filter(|(_, lhs, rhs)| lhs != rhs) {
        let element = PathElement::Field(name);
        // A value without a type was refused when the object was validated.
        let Some(ty) = field_type(ty, name) else { continue };
        below(&element, lhs, rhs, ty, out, errors);
    }
}

fn below<'a>(
    element: &PathElement<'a>,
    lhs: Option<&'a Value>,
    rhs: Option<&'a Value>,
    ty: MergeType<'a>,
    out: &mut Parts<'a>,
    errors: &mut TypeErrors,
) {
    let mut parts = Parts::default();
    let before = errors.len();
    match (lhs, rhs) {
        (Some(lhs), Some(rhs)) => both(lhs, rhs, ty, &mut parts, errors),
        (None, Some(rhs)) => parts.added = all(rhs, ty, errors),
        (Some(lhs), None) => parts.removed = all(lhs, ty, errors),
        (None, None) => {}
    }
    errors.prefix(before, element);
    out.put(element, parts);
}

/// All fields of a value that only one of the two has: each place in it, down to the parts that have one owner.
fn all<'a>(value: &'a Value, ty: MergeType<'a>, errors: &mut TypeErrors) -> Node<'a> {
    let below = match (atom(ty, Some(value)).0, value) {
        (Some(Atom::Map(ty)), Value::Object(fields)) if !ty.is_atomic() => {
            let mut below = Set::with_room(fields.len());
            for (name, value) in fields.iter() {
                let Some(ty) = field_type(ty, name) else { continue };
                let before = errors.len();
                let node = all(value, ty, errors);
                let element = PathElement::Field(name);
                errors.prefix(before, &element);
                below.push(element, node);
            }
            below
        }
        (Some(Atom::List(ty)), Value::Array(items)) if !matches!(ty.relation(), ListRelation::Atomic) => {
            let mut parts = Parts::default();
            list(&[], items, ty, &mut parts, errors);
            parts.added.below
        }
        _ => Set::new(),
    };
    Node { member: true, below }
}

fn list<'a>(
    lhs: &'a [Value],
    rhs: &'a [Value],
    ty: ListType<'a>,
    out: &mut Parts<'a>,
    errors: &mut TypeErrors,
) {
    if lhs == rhs {
        return;
    }
    // Items by their identity; several of one identity are a list's own duplicates.
    let mut known: BTreeMap<PathElement<'a>, (Vec<&'a Value>, Vec<&'a Value>)> = BTreeMap::new();
    for (side, list) in [lhs, rhs].into_iter().enumerate() {
        for (i, item) in list.iter().enumerate() {
            match items::element_of(ty, item) {
                Ok(element) => {
                    let (left, right) = known.entry(element).or_default();
                    if side == 0 { left.push(item) } else { right.push(item) }
                }
                Err(why) => errors.push(format!("element {i}: {why}")),
            }
        }
    }
    let marker = || Node::LEAF;
    for (element, (left, right)) in &known {
        match (left.as_slice(), right.as_slice()) {
            ([left], [right]) if left == right => {}
            ([] | [_], [] | [_]) => {
                below(element, left.first().copied(), right.first().copied(), ty.element(), out, errors);
            }
            ([_, _, ..], [_, _, ..]) => {
                let same = left.len() == right.len() && left.iter().zip(right).all(|(l, r)| equal(l, r));
                if !same {
                    out.modified.below.put(element.clone(), marker());
                }
            }
            ([_, _, ..], right) => {
                if let Some(right) = right.first() {
                    below(element, None, Some(right), ty.element(), out, errors);
                }
                out.removed.below.put(element.clone(), marker());
            }
            (left, [_, _, ..]) => {
                if let Some(left) = left.first() {
                    below(element, Some(left), None, ty.element(), out, errors);
                }
                out.added.below.put(element.clone(), marker());
            }
        }
    }
}

//! Walks over values by their types (structured-merge-diff's `typed`).
//!
//! They recurse as deeply as values and sets nest, which `kindom_api::json::MAX_DEPTH` bounds.

mod compare;
mod created;
mod items;
mod merge;
mod reconcile;
mod remove;
mod to_set;
mod validate;

use std::fmt;

use kindom_api::{Map, Value};
use kindom_schema::merge::{ListType, MapType, MergeType, Scalar};

pub(crate) use compare::{Difference, compare};
pub(crate) use created::created;
pub(crate) use merge::merge;
pub(crate) use reconcile::reconcile;
pub(crate) use remove::{remove, with_named_fields};
pub(crate) use to_set::to_set;
pub(crate) use validate::{Duplicates, validate, validate_object};

/// The error of a value, and its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeError {
    path: String,
    message: String,
}

/// The errors of a value; printed as upstream prints them (`ValidationErrors`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TypeErrors(Vec<TypeError>);

/// The most errors that are kept of a value.
const ERRORS_MAX: usize = 10_000;

impl TypeErrors {
    /// Of a great many errors, only the first are kept: each has a path, which is made longer at each level.
    fn push(&mut self, message: impl Into<String>) {
        if self.0.len() >= ERRORS_MAX {
            return;
        }
        self.0.push(TypeError { path: String::new(), message: message.into() });
    }

    /// Puts a step in front of the paths of the errors from the `before`-th on.
    fn prefix(&mut self, before: usize, step: &impl fmt::Display) {
        if let Some(added) = self.0.get_mut(before..).filter(|added| !added.is_empty()) {
            let step = step.to_string();
            added.iter_mut().for_each(|error| error.path.insert_str(0, &step));
        }
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return one.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

/// The kind as which a value is handled.
#[derive(Clone, Copy)]
enum Atom<'t> {
    Map(MapType<'t>),
    Scalar(Scalar),
    List(ListType<'t>),
}

/// The kind as which a value of a type is handled: its own kind if the type allows that, else the first kind that the type
/// allows (`deduceAtom`, `handleAtom`). The number is equal for values that are handled alike.
fn atom<'t>(ty: MergeType<'t>, value: Option<&Value>) -> (Option<Atom<'t>>, u8) {
    let (map, scalar, list) = (ty.map(), ty.scalar(), ty.list());
    let only = [map.is_some(), scalar.is_some(), list.is_some()].iter().filter(|kind| **kind).count() == 1;
    let first = || map.map(Atom::Map).or(scalar.map(Atom::Scalar)).or(list.map(Atom::List));
    let deduced = match value {
        Some(Value::Object(_)) => map.map(|map| (Atom::Map(map), 1)),
        Some(Value::Array(_)) => list.map(|list| (Atom::List(list), 2)),
        None | Some(Value::Null) => None,
        Some(_) => scalar.map(|scalar| (Atom::Scalar(scalar), 3)),
    };
    match deduced {
        _ if only => (first(), 0),
        Some((atom, alike)) => (Some(atom), alike),
        None => (first(), 0),
    }
}

/// The type of a field: its own, or that of all others.
fn field_type<'t>(map: MapType<'t>, name: &str) -> Option<MergeType<'t>> {
    map.field(name).or_else(|| map.element())
}

fn as_map(value: Option<&Value>) -> Option<&Map> {
    value.and_then(Value::as_object)
}

fn as_list(value: Option<&Value>) -> Option<&[Value]> {
    value.and_then(Value::as_array)
}

/// The fields of two maps, by name.
fn zip<'v>(
    a: Option<&'v Map>,
    b: Option<&'v Map>,
) -> impl Iterator<Item = (&'v str, Option<&'v Value>, Option<&'v Value>)> {
    let mut ours = a.into_iter().flat_map(Map::iter).peekable();
    let mut theirs = b.into_iter().flat_map(Map::iter).peekable();
    std::iter::from_fn(move || {
        let order = match (ours.peek(), theirs.peek()) {
            (None, None) => return None,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let a = if order.is_le() { ours.next() } else { None };
        let b = if order.is_ge() { theirs.next() } else { None };
        let name = a.or(b)?.0;
        Some((name, a.map(|(_, value)| value), b.map(|(_, value)| value)))
    })
}

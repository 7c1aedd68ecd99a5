//! Whether a value is of a type (`typed/validate.go`).

use std::collections::BTreeSet;

use kindom_api::{Map, Value};
use kindom_schema::merge::{ListRelation, ListType, MapType, MergeType, Scalar};

use super::{Atom, TypeErrors, atom, items};
use crate::{PathElement, go};

/// Whether items of sets and keyed lists may stand twice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

/// Whether a value is of a type. Of several fields that no type declares in a map, only the first one by name is told.
/// `unseen` is a field of a top-level field that is not looked at.
pub(crate) fn validate(
    value: &Value,
    ty: MergeType<'_>,
    duplicates: Duplicates,
    unseen: Option<(&str, &str)>,
) -> Result<(), TypeErrors> {
    let mut walk = Walk { duplicates, errors: TypeErrors::default() };
    match (atom(ty, Some(value)).0, value, unseen) {
        (Some(Atom::Map(ty)), Value::Object(map), Some((field, unseen))) => {
            walk.map(map, ty, |walk, name, value, ty| match (ty.map().filter(|_| name == field), value) {
                (Some(ty), Value::Object(map)) => walk.map(map, ty, |walk, name, value, ty| {
                    if name != unseen {
                        walk.value(value, ty);
                    }
                }),
                _ => walk.value(value, ty),
            });
        }
        _ => walk.value(value, ty),
    }
    walk.errors.into_result(())
}

/// What is wrong with a scalar (`validateScalar`).
pub(super) fn scalar_error(scalar: Scalar, value: &Value) -> Option<String> {
    let is_number = matches!(value, Value::Int(_) | Value::Float(_));
    match (scalar, value) {
        (_, Value::Null) => None,
        (Scalar::Numeric, value) if !is_number => {
            Some(format!("expected numeric (int or float), got {}", go::type_name(value)))
        }
        (Scalar::String, value) if value.as_str().is_none() => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go::syntax(value)))
        }
        (Scalar::Boolean, value) if value.as_bool().is_none() => {
            Some(format!("expected boolean, got &{{{}}}", go::plain(value)))
        }
        (Scalar::Untyped, Value::Array(_) | Value::Object(_)) => {
            Some(format!("expected any scalar, got &{{{}}}", go::plain(value)))
        }
        _ => None,
    }
}

struct Walk {
    duplicates: Duplicates,
    errors: TypeErrors,
}

impl Walk {
    fn value(&mut self, value: &Value, ty: MergeType<'_>) {
        match (atom(ty, Some(value)).0, value) {
            (Some(Atom::Scalar(scalar)), value) => {
                if let Some(error) = scalar_error(scalar, value) {
                    self.errors.push(error);
                }
            }
            (Some(Atom::Map(_) | Atom::List(_)), Value::Null) | (None, _) => {}
            (Some(Atom::Map(ty)), Value::Object(map)) => {
                self.map(map, ty, |walk, _, value, ty| walk.value(value, ty))
            }
            (Some(Atom::List(ty)), Value::Array(items)) => self.list(items, ty),
            (Some(Atom::Map(_)), other) => {
                self.errors.push(format!("expected map, got &{{{}}}", go::plain(other)));
            }
            (Some(Atom::List(_)), other) => {
                self.errors.push(format!("expected list, got &{{{}}}", go::plain(other)));
            }
        }
    }

    fn map(&mut self, map: &Map, ty: MapType<'_>, look: impl Fn(&mut Self, &str, &Value, MergeType<'_>)) {
        for (name, value) in map.iter() {
            let before = self.errors.len();
            let field = super::field_type(ty, name);
            match field {
                Some(ty) => look(self, name, value, ty),
                None => self.errors.push("field not declared in schema"),
            }
            self.errors.prefix(before, &PathElement::Field(name));
            if field.is_none() {
                return;
            }
        }
    }

    fn list(&mut self, list: &[Value], ty: ListType<'_>) {
        let indexed = matches!(ty.relation(), ListRelation::Atomic);
        let mut seen = BTreeSet::new();
        for (i, item) in list.iter().enumerate() {
            let step = if indexed {
                PathElement::Index(i64::try_from(i).unwrap_or(i64::MAX))
            } else {
                match items::element_of(ty, item) {
                    Ok(element) => element,
                    Err(why) => return self.errors.push(format!("element {i}: {why}")),
                }
            };
            if !indexed && self.duplicates == Duplicates::Refused && !seen.insert(step.clone()) {
                self.errors.push(format!("duplicate entries for key {step}"));
            }
            let before = self.errors.len();
            self.value(item, ty.element());
            self.errors.prefix(before, &step);
        }
    }
}

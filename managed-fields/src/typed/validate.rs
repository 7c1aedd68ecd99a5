//! The check that a value is of a type (`typed/validate.go`).

use std::collections::BTreeSet;

use kindom_api::{Map, Value};
use kindom_formats::go;
use kindom_schema::merge::{ListRelation, ListType, MapType, MergeType, Scalar};

use super::{Atom, TypeErrors, atom, items};
use crate::PathElement;

/// The treatment of items that occur twice in sets and keyed lists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

/// Checks that a value is of a type. If a map has several fields that no type declares, only the first one by name is
/// reported.
pub(crate) fn validate(value: &Value, ty: MergeType<'_>, duplicates: Duplicates) -> Result<(), TypeErrors> {
    let mut walk = Walk { duplicates, errors: TypeErrors::default() };
    walk.value(value, ty, None);
    walk.errors.into_result(())
}

/// Checks that an object is of its type. The list of its managedFields is not checked, nor are values that are equal in
/// `valid`.
pub(crate) fn validate_object(
    object: &Value,
    ty: MergeType<'_>,
    duplicates: Duplicates,
    valid: Option<&Value>,
) -> Result<(), TypeErrors> {
    let mut walk = Walk { duplicates, errors: TypeErrors::default() };
    match (atom(ty, Some(object)).0, object) {
        (Some(Atom::Map(ty)), Value::Object(map)) => {
            walk.map(map, ty, valid, |walk, name, value, ty, valid| match (ty.map(), value) {
                (Some(ty), Value::Object(map)) if name == "metadata" => {
                    walk.map(map, ty, valid, |walk, name, value, ty, valid| {
                        // The server's own list, and a large part of an object; only a client can have sent anything but a
                        // list.
                        if name != "managedFields" || value.as_array().is_none() {
                            walk.value(value, ty, valid);
                        }
                    });
                }
                _ => walk.value(value, ty, valid),
            });
        }
        _ => walk.value(object, ty, None),
    }
    walk.errors.into_result(())
}

/// The error of a scalar (`validateScalar`).
pub(super) fn scalar_error(scalar: Scalar, value: &Value) -> Option<String> {
    let is_number = matches!(value, Value::Int(_) | Value::Float(_));
    match (scalar, value) {
        (_, Value::Null) => None,
        (Scalar::Numeric, value) if !is_number => {
            Some(format!("expected numeric (int or float), got {}", go::type_of(value)))
        }
        (Scalar::String, value) if value.as_str().is_none() => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go::syntax(value)))
        }
        (Scalar::Boolean, value) if value.as_bool().is_none() => {
            Some(format!("expected boolean, got &{{{}}}", go::value(value)))
        }
        (Scalar::Untyped, Value::Array(_) | Value::Object(_)) => {
            Some(format!("expected any scalar, got &{{{}}}", go::value(value)))
        }
        _ => None,
    }
}

struct Walk {
    duplicates: Duplicates,
    errors: TypeErrors,
}

impl Walk {
    fn value(&mut self, value: &Value, ty: MergeType<'_>, valid: Option<&Value>) {
        match (atom(ty, Some(value)).0, value) {
            (Some(Atom::Scalar(scalar)), value) => {
                if let Some(error) = scalar_error(scalar, value) {
                    self.errors.push(error);
                }
            }
            (Some(Atom::Map(_) | Atom::List(_)), Value::Null) | (None, _) => {}
            (Some(Atom::Map(ty)), Value::Object(map)) => {
                self.map(map, ty, valid, |walk, _, value, ty, valid| walk.value(value, ty, valid));
            }
            (Some(Atom::List(ty)), Value::Array(items)) => self.list(items, ty),
            (Some(Atom::Map(_)), other) => {
                self.errors.push(format!("expected map, got &{{{}}}", go::value(other)));
            }
            (Some(Atom::List(_)), other) => {
                self.errors.push(format!("expected list, got &{{{}}}", go::value(other)));
            }
        }
    }

    fn map<'v>(
        &mut self,
        map: &Map,
        ty: MapType<'_>,
        valid: Option<&'v Value>,
        look: impl Fn(&mut Self, &str, &Value, MergeType<'_>, Option<&'v Value>),
    ) {
        for (name, value) in map.iter() {
            let valid = valid.and_then(|valid| valid.get(name));
            if valid == Some(value) {
                continue;
            }
            let before = self.errors.len();
            let field = super::field_type(ty, name);
            match field {
                Some(ty) => look(self, name, value, ty, valid),
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
            self.value(item, ty.element(), None);
            self.errors.prefix(before, &step);
        }
    }
}

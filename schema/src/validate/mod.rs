//! Validation: the schema's own walk, embedded resources, lists that must be unique, in upstream's order
//! (`registry/customresource/strategy.go`).

mod correlate;
mod embedded;
mod lists;
mod numbers;
mod trail;
mod walk;

use kindom_api::Value;
use kindom_api::field::{BadValue, Error, ErrorList, ErrorType, Path};

use crate::Schema;
use crate::node::Node;

use correlate::Old;
use walk::Walk;

pub(crate) fn create(schema: &Schema, object: &Value) -> ErrorList {
    let Some(root) = &schema.root else { return ErrorList::new() };
    let mut errors = Walk::run(root, object, None, "");
    embedded::check(root, object, &mut errors);
    lists::check(root, object, &mut errors);
    finish(schema, errors)
}

pub(crate) fn update(schema: &Schema, object: &Value, old: &Value) -> ErrorList {
    let Some(root) = &schema.root else { return ErrorList::new() };
    let mut errors = Walk::run(root, object, Some(Old::root(root, old)), "");
    embedded::check(root, object, &mut errors);
    check_lists(root, object, old, &mut errors);
    finish(schema, errors)
}

pub(crate) fn status_update(schema: &Schema, object: &Value, old: &Value) -> ErrorList {
    let Some(root) = &schema.root else { return ErrorList::new() };
    let mut errors = match (object.get("status"), root.property("status")) {
        (Some(status), Some(node)) => {
            // A status that was not there before is null to upstream, and equal to nothing.
            let old = old.get("status").map(|old| Old::root(node, old));
            Walk::run(node, status, old, "status")
        }
        _ => ErrorList::new(),
    };
    embedded::check(root, object, &mut errors);
    check_lists(root, object, old, &mut errors);
    finish(schema, errors)
}

/// Lists are held to be unique only if the old object's were.
fn check_lists(root: &Node, object: &Value, old: &Value, errors: &mut ErrorList) {
    let mut found = ErrorList::new();
    lists::check(root, object, &mut found);
    if !found.is_empty() {
        let mut before = ErrorList::new();
        lists::check(root, old, &mut before);
        if before.is_empty() {
            errors.append(&mut found);
        }
    }
}

/// Errors that keep the rules of `x-kubernetes-validations` from being asked say so in one of their own.
fn finish(schema: &Schema, mut errors: ErrorList) -> ErrorList {
    use ErrorType::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    let blocking = [NotSupported, Required, TooLong, TooMany, TypeInvalid];
    if schema.has_rules && errors.iter().any(|error| blocking.contains(&error.kind)) {
        errors.push(Error {
            kind: ErrorType::Invalid,
            field: Path::root().to_string(),
            bad_value: BadValue::Value(Value::Null),
            detail: concat!(
                "some validation rules were not checked because the object was invalid; ",
                "correct the existing errors to complete validation"
            )
            .to_owned(),
        });
    }
    errors
}

#[cfg(test)]
mod tests;

//! Validation: the schema's own walk, embedded resources, lists that must be unique, in upstream's order
//! (`registry/customresource/strategy.go`).

mod bounds;
mod correlate;
mod embedded;
mod lists;
mod numbers;
mod rules;
mod trail;
mod walk;

use kindom_api::Value;
use kindom_api::field::{BadValue, Error, ErrorList, ErrorType, Path};
use kindom_formats::pattern::Budget;

use crate::Schema;
use crate::node::Node;

use bounds::ErrorLog;
use correlate::Old;
use walk::Walk;

pub(crate) use rules::{BUDGET, PATTERNS_MAX, run as run_rules};

pub(crate) use bounds::{Steps, weight};

/// The errors of an object beyond its schema. Rules do not run either if some of these errors are of a kind that keeps them
/// from it.
#[derive(Debug, Default)]
pub struct Others {
    /// Errors of the object's own metadata, which come before the schema's.
    pub metadata: ErrorList,
    /// The errors of a Scale's fields, which follow those of the schema's own walk.
    pub scale: ErrorList,
}

impl Others {
    /// The errors of an object whose version has no schema.
    #[must_use]
    pub fn without_schema(self) -> ErrorList {
        self.around(ErrorList::new())
    }

    fn around(self, walk: ErrorList) -> ErrorList {
        let mut errors = self.metadata;
        errors.extend(walk);
        errors.extend(self.scale);
        errors
    }
}

pub(crate) fn create(schema: &Schema, object: &Value, others: Others) -> ErrorList {
    let Some(root) = &schema.root else { return others.around(ErrorList::new()) };
    let mut errors = others.around(Walk::run(root, object, None, ""));
    errors.append(&mut embedded_and_lists(root, object));
    let _ = rules(root, object, None, &mut errors);
    errors
}

/// All but the rules of `x-kubernetes-validations`.
pub(crate) fn without_rules(root: &Node, object: &Value, steps: &mut Steps) -> ErrorList {
    let mut errors = Walk::run_within(root, object, None, "", steps);
    errors.append(&mut embedded_and_lists(root, object));
    errors
}

/// The errors in the embedded resources of an object.
pub(crate) fn embedded_errors(root: &Node, object: &Value) -> ErrorList {
    let mut errors = ErrorLog::default();
    embedded::check(root, object, &mut errors);
    errors.into_errors()
}

fn embedded_and_lists(root: &Node, object: &Value) -> ErrorList {
    let mut errors = ErrorLog::default();
    embedded::check(root, object, &mut errors);
    lists::check(root, object, &mut errors);
    errors.into_errors()
}

/// Also returns the errors that were let through because the values have not changed.
pub(crate) fn update(schema: &Schema, object: &Value, old: &Value, others: Others) -> (ErrorList, ErrorList) {
    let Some(root) = &schema.root else { return (others.around(ErrorList::new()), ErrorList::new()) };
    let mut errors = others.around(Walk::run(root, object, Some(Old::root(root, old)), ""));
    let mut more = ErrorLog::default();
    embedded::check(root, object, &mut more);
    ratcheted_lists(root, object, old, &mut more);
    errors.append(&mut more.into_errors());
    let ratcheted = rules(root, object, Some(old), &mut errors);
    (errors, ratcheted)
}

/// Upstream's `status_strategy.go` does not look at embedded resources, not even at those in the status.
pub(crate) fn status_update(
    schema: &Schema,
    object: &Value,
    old: &Value,
    others: Others,
) -> (ErrorList, ErrorList) {
    let Some(root) = &schema.root else { return (others.around(ErrorList::new()), ErrorList::new()) };
    let walk = match (object.get("status"), root.property("status")) {
        (Some(status), Some(node)) => {
            // A status that was not there before is null to upstream, and equal to nothing.
            let old = old.get("status").map(|old| Old::root(node, old));
            Walk::run(node, status, old, "status")
        }
        _ => ErrorList::new(),
    };
    let mut errors = others.around(walk);
    let mut more = ErrorLog::default();
    ratcheted_lists(root, object, old, &mut more);
    errors.append(&mut more.into_errors());
    // Rules hold for the whole object: they may compare the status with the rest.
    let ratcheted = rules(root, object, Some(old), &mut errors);
    (errors, ratcheted)
}

/// Lists are held to be unique only if the old object's were.
fn ratcheted_lists(root: &Node, object: &Value, old: &Value, errors: &mut ErrorLog) {
    let mark = errors.mark();
    let mut before = ErrorLog::default();
    if lists::check(root, object, errors) && lists::check(root, old, &mut before) {
        errors.forget(&mark);
    }
}

/// Adds the errors of the rules of `x-kubernetes-validations`, or an error that says that they did not run: rules do not run
/// on values of a wrong type or with too many parts. Returns the errors that were let through because the values have not
/// changed.
fn rules(root: &Node, object: &Value, old: Option<&Value>, errors: &mut ErrorList) -> ErrorList {
    use ErrorType::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    if !root.below.expressions {
        return ErrorList::new();
    }
    let blocking = [NotSupported, Required, TooLong, TooMany, TypeInvalid];
    if errors.iter().any(|error| blocking.contains(&error.kind)) {
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
        return ErrorList::new();
    }
    let mut findings = run_rules(root, object, old, true, BUDGET, Budget::new(PATTERNS_MAX));
    errors.append(&mut findings.errors);
    findings.ratcheted
}

#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod tests;

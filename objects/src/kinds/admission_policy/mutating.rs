//! The rules of policies that change objects, and of their bindings (`pkg/apis/admissionregistration/validation/validation.go`,
//! 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};

use super::rules::{given, of_expression, validate_common, validate_common_binding, validate_expressions};
use crate::admission::CompiledPolicy;
use crate::kinds::fields::{items, part, present, text};

const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const JSON_PATCH: &str = "JSONPatch";
const APPLY: &str = "ApplyConfiguration";

/// `validateMutatingAdmissionPolicy`; `old` is the policy that this one replaces.
pub(super) fn validate_policy(policy: &Value, old: Option<&Value>) -> ErrorList {
    let (spec, at) = (part(policy, "spec"), Path::new("spec"));
    let mut errors = validate_common(policy);
    let constraints = part(spec, "matchConstraints");
    validate_operations(constraints, &at.child("matchConstraints"), &mut errors);
    let compiled = validate_expressions(policy, old, true, &mut errors);
    let (mutations, at_mutations) = (items(spec, "mutations"), at.child("mutations"));
    if mutations.is_empty() {
        errors.push(Error::required(&at_mutations, "mutations must contain at least one item"));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        if errors.is_full() {
            return errors;
        }
        validate_mutation(&compiled, mutation, &at_mutations.index(index), &mut errors);
    }
    match text(spec, "reinvocationPolicy") {
        "" => errors.push(Error::required(&at.child("reinvocationPolicy"), "")),
        _ => given(spec, "reinvocationPolicy", &["IfNeeded", "Never"], &at, &mut errors),
    }
    errors
}

/// There is nothing to change where an object ends.
fn validate_operations(resources: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let at = at.child("resourceRules");
    for rule in items(resources, "resourceRules") {
        for operation in items(rule, "operations").iter().filter_map(Value::as_str) {
            if !OPERATIONS.contains(&operation) {
                errors.push(Error::not_supported(&at.child("operations"), operation, &OPERATIONS));
            }
        }
    }
}

/// `validateMutation`
fn validate_mutation(compiled: &CompiledPolicy<'_>, mutation: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let kind = text(mutation, "patchType");
    let (own, other) = match kind {
        JSON_PATCH => ("jsonPatch", "applyConfiguration"),
        APPLY => ("applyConfiguration", "jsonPatch"),
        "" => return errors.push(Error::required(&at.child("patchType"), "")),
        kind => return errors.push(Error::not_supported(&at.child("patchType"), kind, &[APPLY, JSON_PATCH])),
    };
    match present(mutation, own) {
        None => {
            errors
                .push(Error::required(&at.child(own), format!("must be specified when patchType is {kind}")));
        }
        Some(of) => {
            let (expression, at) = (text(of, "expression"), at.child(own));
            let at = at.child("expression");
            let expression = expression.trim();
            if expression.is_empty() {
                errors.push(Error::required(&at, ""));
            } else if let Some(why) = compiled.mutation(kind == JSON_PATCH, expression).error() {
                errors.push(of_expression(&at, expression, why));
            }
        }
    }
    if present(mutation, other).is_some() {
        let detail = format!("must not be specified when patchType is {kind}");
        errors.push(Error::invalid(&at.child(other), format!("{{{other}}}"), detail));
    }
}

/// `validateMutatingAdmissionPolicyBinding`
pub(super) fn validate_binding(binding: &Value) -> ErrorList {
    let mut errors = validate_common_binding(binding);
    let resources = part(part(binding, "spec"), "matchResources");
    validate_operations(resources, &Path::new("spec").child("matchResources"), &mut errors);
    errors
}

//! The functions on an authorizer (`apiserver/pkg/cel/library/authz.go`, 1.37).
//!
//! Rules of registrations have no authorizer to call them on. They are declared all the same: the error for an expression
//! that names one by mistake lists its overloads.

use super::cost::{size_at, tenth};
use super::{Cost, Function, Functions, Overload};
use crate::types::Type;
use crate::value::EvalError;

const AUTHORIZER: Type = Type::Opaque("kubernetes.authorization.Authorizer");
const PATH: Type = Type::Opaque("kubernetes.authorization.PathCheck");
const GROUP: Type = Type::Opaque("kubernetes.authorization.GroupCheck");
const RESOURCE: Type = Type::Opaque("kubernetes.authorization.ResourceCheck");
const DECISION: Type = Type::Opaque("kubernetes.authorization.Decision");

fn member(id: &'static str, params: impl Into<Vec<Type>>, result: Type) -> Overload {
    // No value is of these types.
    Overload::member(id, params, result).run(|_| Err(EvalError::NoSuchOverload))
}

/// The library of checks.
pub(super) fn declare(functions: &mut Functions) {
    use Type::String;
    let one = |name, id, on, result| Function::new(name).overload(member(id, [on, String], result));
    let tells = |name, id, result| Function::new(name).overload(member(id, [DECISION], result));
    for function in [
        one("path", "authorizer_path", AUTHORIZER, PATH),
        one("group", "authorizer_group", AUTHORIZER, GROUP),
        Function::new("serviceAccount").overload(member(
            "authorizer_serviceaccount",
            [AUTHORIZER, String, String],
            AUTHORIZER,
        )),
        one("resource", "groupcheck_resource", GROUP, RESOURCE),
        one("subresource", "resourcecheck_subresource", RESOURCE, RESOURCE),
        one("namespace", "resourcecheck_namespace", RESOURCE, RESOURCE),
        one("name", "resourcecheck_name", RESOURCE, RESOURCE),
        Function::new("check")
            .overload(member("pathcheck_check", [PATH, String], DECISION))
            .overload(member("resourcecheck_check", [RESOURCE, String], DECISION))
            .cost(Cost::Fixed(350_000)),
        tells("errored", "decision_errored", Type::Bool),
        tells("error", "decision_error", String),
        tells("allowed", "decision_allowed", Type::Bool),
        tells("reason", "decision_reason", String),
    ] {
        functions.add(function);
    }
}

/// The library of selectors.
pub(super) fn declare_selectors(functions: &mut Functions) {
    // A list of requirements, of which a text has one for two characters.
    let cost = Cost::Of(|args, _| {
        let length = size_at(args, 1);
        tenth(length).saturating_add(length.div_ceil(2).saturating_mul(50)).saturating_add(10)
    });
    for (name, id) in
        [("fieldSelector", "authorizer_fieldselector"), ("labelSelector", "authorizer_labelselector")]
    {
        let overload = member(id, [RESOURCE, Type::String], RESOURCE);
        functions.add(Function::new(name).overload(overload).cost(cost));
    }
}

//! The rules and conditions by which webhooks and policies say what they are about
//! (`pkg/apis/admissionregistration/validation/validation.go`, 1.37).

use std::collections::HashSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::is_qualified_name;

use crate::admission::check_condition;
use crate::kinds::fields::{items, part, text};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const CONDITIONS_MAX: usize = 64;

/// The end of names that belong to configurations in files.
pub(super) const STATIC: &str = ".static.k8s.io";
/// The refusal of such a name.
pub(super) const RESERVED: &str = "names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and \
                                   cannot be managed via the API";

/// Returns true if a list of texts has this one.
pub(super) fn has(of: &Value, field: &str, text: &str) -> bool {
    position(of, field, text).is_some()
}

/// The place of a text in a list of texts.
pub(super) fn position(of: &Value, field: &str, text: &str) -> Option<usize> {
    items(of, field).iter().position(|item| item.as_str() == Some(text))
}

/// `validateRuleWithOperations`
pub(super) fn validate_rule(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let required = |field: &str, errors: &mut ErrorList| {
        if items(rule, field).is_empty() {
            errors.push(Error::required(&at.child(field), ""));
        }
    };
    let alone = |field: &str, others: &str, errors: &mut ErrorList| {
        if items(rule, field).len() > 1 && has(rule, field, "*") {
            let detail = format!("if '*' is present, must not specify other {others}");
            errors.push(Error::invalid(&at.child(field), part(rule, field).clone(), detail));
        }
    };
    required("operations", errors);
    alone("operations", "operations", errors);
    let operations = at.child("operations");
    for (index, operation) in items(rule, "operations").iter().filter_map(Value::as_str).enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.push(Error::not_supported(&operations.index(index), operation, &OPERATIONS));
        }
    }
    required("apiGroups", errors);
    alone("apiGroups", "API groups", errors);
    required("apiVersions", errors);
    alone("apiVersions", "API versions", errors);
    let versions = at.child("apiVersions");
    for (index, version) in items(rule, "apiVersions").iter().enumerate() {
        if version.as_str().is_none_or(str::is_empty) {
            errors.push(Error::required(&versions.index(index), ""));
        }
    }
    required("resources", errors);
    validate_resources(rule, &at.child("resources"), errors);
    if let Some(scope) = part(rule, "scope").as_str().filter(|scope| !SCOPES.contains(scope)) {
        errors.push(Error::not_supported(&at.child("scope"), scope, &SCOPES));
    }
}

/// `validateResources`
fn validate_resources(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let resources = items(rule, "resources");
    // The resources of all of whose subresources there is talk, and the subresources of all resources.
    let (mut with_all, mut of_all) = (HashSet::new(), HashSet::new());
    let mut ends_with_plain = false;
    for (index, name) in resources.iter().map(|name| name.as_str().unwrap_or_default()).enumerate() {
        let at = at.index(index);
        if name.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        let Some((resource, sub)) = name.split_once('/') else {
            // As upstream has it, the last of the names decides.
            ends_with_plain = name != "*";
            continue;
        };
        if with_all.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {name}");
            errors.push(Error::invalid(&at, name, detail));
        }
        if of_all.contains(sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {name}");
            errors.push(Error::invalid(&at, name, detail));
        }
        if sub == "*" {
            with_all.insert(resource);
        }
        if resource == "*" {
            of_all.insert(sub);
        }
    }
    let all = || part(rule, "resources").clone();
    if resources.len() > 1 && has(rule, "resources", "*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(Error::invalid(at, all(), detail));
    }
    if has(rule, "resources", "*") && ends_with_plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(Error::invalid(at, all(), detail));
    }
}

/// `validateMatchConditions`. With `has_params`, they may name parameters.
pub(super) fn validate_conditions(
    conditions: &[Value],
    has_params: bool,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if conditions.len() > CONDITIONS_MAX {
        errors.push(Error::too_many(at, conditions.len(), CONDITIONS_MAX));
    }
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = at.index(index);
        let (name, at_name) = (text(condition, "name"), at.child("name"));
        let expression = text(condition, "expression").trim();
        if expression.is_empty() {
            errors.push(Error::required(&at.child("expression"), ""));
        } else if let Err(why) = check_condition(expression, has_params) {
            errors.push(Error::invalid(&at.child("expression"), expression, why));
        }
        if name.is_empty() {
            errors.push(Error::required(&at_name, ""));
            continue;
        }
        errors.extend(is_qualified_name(name).into_iter().map(|why| Error::invalid(&at_name, name, why)));
        if !names.insert(name) {
            errors.push(Error::duplicate(&at_name, name));
        }
    }
}

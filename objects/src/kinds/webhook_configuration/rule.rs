//! The rules by which a webhook is called (`validateRuleWithOperations`, `warningsForExcludedRules`, 1.37).

use std::collections::HashSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};

use crate::kinds::fields::{items, part};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// The questions that no webhook is asked about: a group and a resource.
const EXCLUDED: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

fn has(of: &Value, field: &str, text: &str) -> bool {
    position(of, field, text).is_some()
}

fn position(of: &Value, field: &str, text: &str) -> Option<usize> {
    items(of, field).iter().position(|item| item.as_str() == Some(text))
}

/// The warnings about rules that name what no webhook is asked about.
pub(super) fn warnings(configuration: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (webhook, of) in items(configuration, "webhooks").iter().enumerate() {
        for (index, rule) in items(of, "rules").iter().enumerate() {
            if has(rule, "apiGroups", "*") || has(rule, "resources", "*") {
                continue;
            }
            let mut found: Vec<_> = EXCLUDED
                .iter()
                .filter_map(|(group, resource)| {
                    let order = (position(rule, "apiGroups", group)?, position(rule, "resources", resource)?);
                    Some((order, format!("{resource}.{group}")))
                })
                .collect();
            found.sort();
            warnings.extend(found.into_iter().map(|(_, name)| {
                format!(
                    "webhooks[{webhook}].rules[{index}]: {name} is excluded from admission webhooks; this rule will \
                     have no effect"
                )
            }));
        }
    }
    warnings
}

/// `validateRuleWithOperations`
pub(super) fn validate(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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

//! The rules of policies and bindings (`pkg/apis/admissionregistration/validation/validation.go`, 1.37).

use std::collections::HashSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{
    is_dns1035_label, is_dns1123_subdomain, is_path_segment, is_qualified_name, name_is_dns_subdomain,
};
use kindom_api::meta::validate_object_meta;
use kindom_cel::parse::reserved;
use kindom_schema::columns::validate_path;

use crate::admission::CompiledPolicy;
use crate::declared::Declared;
use crate::kinds::admission_match::{validate_conditions, validate_rule};
use crate::kinds::fields::{items, one_of, part, present, same, text, texts};
use crate::kinds::label_selector;
use crate::kinds::status;

const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const ANNOTATIONS_MAX: usize = 20;
const VALUE_EXPRESSION_BYTES_MAX: usize = 5 << 10;

/// The part of a policy without expressions that both kinds have.
pub(super) fn validate_common(policy: &Value) -> ErrorList {
    let metadata = part(policy, "metadata");
    let mut errors = validate_object_meta(metadata, false, &name_is_dns_subdomain, &Path::new("metadata"));
    let (spec, at) = (part(policy, "spec"), Path::new("spec"));
    given(spec, "failurePolicy", &["Fail", "Ignore"], &at, &mut errors);
    let kind = present(spec, "paramKind");
    if let Some(kind) = kind {
        validate_param_kind(kind, &at.child("paramKind"), &mut errors);
    }
    let at_match = at.child("matchConstraints");
    match present(spec, "matchConstraints") {
        None => errors.push(Error::required(&at_match, "")),
        Some(constraints) => {
            validate_match(constraints, &at_match, &mut errors);
            if items(constraints, "resourceRules").is_empty() {
                errors.push(Error::required(&at_match.child("resourceRules"), ""));
            }
        }
    }
    errors
}

/// The conditions and variables of a policy; if it `composes`, there are variables, though perhaps none.
pub(super) fn validate_expressions<'p>(
    policy: &'p Value,
    old: Option<&Value>,
    composes: bool,
    errors: &mut ErrorList,
) -> CompiledPolicy<'p> {
    let (spec, at) = (part(policy, "spec"), Path::new("spec"));
    let is_same = |field: &str| old.is_some_and(|old| same(part(old, "spec").get(field), spec.get(field)));
    if !is_same("paramKind") || !is_same("matchConditions") {
        let conditions = items(spec, "matchConditions");
        let has_params = present(spec, "paramKind").is_some();
        validate_conditions(conditions, has_params, &at.child("matchConditions"), errors);
    }
    let mut compiled = CompiledPolicy::new(spec, composes);
    let at_variables = at.child("variables");
    for (index, variable) in items(spec, "variables").iter().enumerate() {
        if errors.is_full() {
            break;
        }
        validate_variable(&mut compiled, variable, &at_variables.index(index), errors);
    }
    compiled
}

/// `validateValidatingAdmissionPolicy`; `old` is the policy that this one replaces.
pub(super) fn validate_policy(declared: &Declared, policy: &Value, old: Option<&Value>) -> ErrorList {
    let (metadata, spec, at) = (part(policy, "metadata"), part(policy, "spec"), Path::new("spec"));
    let mut errors = validate_common(policy);
    let composes = !items(spec, "variables").is_empty();
    let compiled = validate_expressions(policy, old, composes, &mut errors);
    let (validations, annotations) = (items(spec, "validations"), items(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        for field in ["validations", "auditAnnotations"] {
            let detail = "validations or auditAnnotations must contain at least one item";
            errors.push(Error::required(&at.child(field), detail));
        }
    }
    let at_validations = at.child("validations");
    for (index, validation) in validations.iter().enumerate() {
        if errors.is_full() {
            return errors;
        }
        validate_validation(&compiled, validation, &at_validations.index(index), &mut errors);
    }
    let at_annotations = at.child("auditAnnotations");
    if annotations.len() > ANNOTATIONS_MAX {
        let shown = declared.internal(&["spec", "auditAnnotations"], part(spec, "auditAnnotations"));
        let detail = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        errors.push(Error::invalid_raw(&at_annotations, shown, detail));
    }
    let mut keys = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let at = at_annotations.index(index);
        validate_annotation(&compiled, text(metadata, "name"), annotation, &at, &mut errors);
        let key = text(annotation, "key");
        if !keys.insert(key) {
            errors.push(Error::duplicate(&at.child("key"), key));
        }
    }
    errors
}

/// The error of an expression that does not compile, or cannot be made a program (`convertCELErrorToValidationError`).
pub(super) fn of_expression(at: &Path<'_>, expression: &str, why: impl Into<String>) -> Error {
    let why = why.into();
    match why.starts_with("program instantiation failed") {
        true => Error::internal(at, why),
        false => Error::invalid(at, expression, why),
    }
}

/// The error in a text that has to be given, and be one of some.
pub(super) fn given(of: &Value, field: &str, known: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    match present(of, field).and_then(Value::as_str) {
        None => errors.push(Error::required(&at.child(field), "")),
        Some(value) if known.contains(&value) => {}
        Some(value) => errors.push(Error::not_supported(&at.child(field), value, known)),
    }
}

/// `validateParamKind`
fn validate_param_kind(kind: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (version, at_version) = (text(kind, "apiVersion"), at.child("apiVersion"));
    let parts: Vec<&str> = version.split('/').collect();
    match parts.as_slice() {
        [""] => errors.push(Error::required(&at_version, "")),
        ["", ""] => errors.push(Error::invalid(&at_version, version, "version must be specified")),
        [only] => validate_group_version("", only, version, &at_version, errors),
        [group, of] => validate_group_version(group, of, version, &at_version, errors),
        _ => {
            let why = format!("unexpected GroupVersion string: {version}");
            errors.push(Error::invalid(&at_version, version, why));
        }
    }
    let (name, at_kind) = (text(kind, "kind"), at.child("kind"));
    let wrong = is_dns1035_label(&name.to_lowercase());
    if name.is_empty() {
        errors.push(Error::required(&at_kind, ""));
    } else if !wrong.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        errors.push(Error::invalid(&at_kind, name, detail));
    }
}

fn validate_group_version(group: &str, version: &str, whole: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let wrong = is_dns1123_subdomain(group);
    if !group.is_empty() && !wrong.is_empty() {
        errors.push(Error::invalid(at, group, wrong.join(",")));
    }
    let wrong = is_dns1035_label(version);
    if version.is_empty() {
        errors.push(Error::invalid(at, whole, "version must be specified"));
    } else if !wrong.is_empty() {
        errors.push(Error::invalid(at, version, wrong.join(",")));
    }
}

/// `validateMatchResources`
fn validate_match(resources: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    given(resources, "matchPolicy", &["Equivalent", "Exact"], at, errors);
    for field in ["namespaceSelector", "objectSelector"] {
        match present(resources, field) {
            None => errors.push(Error::required(&at.child(field), "")),
            Some(selector) => label_selector::validate(selector, &at.child(field), errors),
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let at = at.child(field);
        for (index, rule) in items(resources, field).iter().enumerate() {
            if errors.is_full() {
                return;
            }
            let at = at.index(index);
            validate_resource_names(rule, &at.child("resourceNames"), errors);
            validate_rule(rule, &at, errors);
        }
    }
}

fn validate_resource_names(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (index, name) in items(rule, "resourceNames").iter().filter_map(Value::as_str).enumerate() {
        let at = at.index(index);
        texts(is_path_segment(name, false), name, &at, errors);
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at, name));
        }
    }
}

fn is_name_of_cel(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    begins && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) && !reserved(name)
}

/// `validateVariable`
fn validate_variable(
    compiled: &mut CompiledPolicy<'_>,
    variable: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (name, expression) = (text(variable, "name"), text(variable, "expression"));
    if name.trim().is_empty() {
        errors.push(Error::required(&at.child("name"), "name is not specified"));
    } else if !is_name_of_cel(name) {
        errors.push(Error::invalid(&at.child("name"), name, "must be a valid CEL identifier"));
    }
    if expression.trim().is_empty() {
        errors.push(Error::required(&at.child("expression"), "expression is not specified"));
    } else if let Err(why) = compiled.composition.add(name, expression) {
        errors.push(of_expression(&at.child("expression"), expression, why));
    }
}

/// `validateValidation`
fn validate_validation(
    compiled: &CompiledPolicy<'_>,
    validation: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let of = |field| text(validation, field);
    let (expression, message, made) = (of("expression"), of("message"), of("messageExpression"));
    if expression.trim().is_empty() {
        errors.push(Error::required(&at.child("expression"), "expression is not specified"));
    } else if let Some(why) = compiled.validation(expression).error() {
        errors.push(of_expression(&at.child("expression"), expression, why));
    }
    if !made.is_empty() && made.trim().is_empty() {
        errors.push(Error::invalid(&at.child("messageExpression"), made, "must be non-empty if specified"));
    } else if !made.is_empty()
        && let Some(why) = compiled.message(made).error()
    {
        errors.push(of_expression(&at.child("messageExpression"), made, why));
    }
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(Error::invalid(&at.child("message"), message, "must be non-empty if specified"));
    } else if message.trim().contains(['\n', '\r']) {
        errors.push(Error::invalid(&at.child("message"), message, "must not contain line breaks"));
    }
    if let Some(reason) = present(validation, "reason").and_then(Value::as_str)
        && !REASONS.contains(&reason)
    {
        errors.push(Error::not_supported(&at.child("reason"), reason, &REASONS));
    }
}

/// `validateAuditAnnotation`
fn validate_annotation(
    compiled: &CompiledPolicy<'_>,
    policy: &str,
    annotation: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (key, at_key) = (text(annotation, "key"), at.child("key"));
    match policy {
        "" => errors.push(Error::invalid(&at_key, key, "requires metadata.name be non-empty")),
        policy => {
            let qualified = format!("{policy}/{key}");
            texts(is_qualified_name(&qualified), &qualified, &at_key, errors);
        }
    }
    let (expression, at) = (text(annotation, "valueExpression"), at.child("valueExpression"));
    let trimmed = expression.trim();
    if trimmed.is_empty() {
        errors.push(Error::required(&at, "valueExpression is not specified"));
    } else if trimmed.len() > VALUE_EXPRESSION_BYTES_MAX {
        let detail = format!("must not exceed {VALUE_EXPRESSION_BYTES_MAX} bytes in length");
        errors.push(Error::required(&at, detail));
    } else if let Some(why) = compiled.annotation(trimmed).error() {
        errors.push(of_expression(&at, expression, why));
    }
}

/// `validateValidatingAdmissionPolicyStatus`
pub(super) fn validate_status(policy: &Value) -> ErrorList {
    let (status, at) = (part(policy, "status"), Path::new("status"));
    let mut errors = ErrorList::new();
    let at_checking = at.child("typeChecking");
    let at_warnings = at_checking.child("expressionWarnings");
    for (index, warning) in items(part(status, "typeChecking"), "expressionWarnings").iter().enumerate() {
        let at = at_warnings.index(index);
        if text(warning, "warning").is_empty() {
            errors.push(Error::required(&at.child("warning"), ""));
        }
        let (field, at) = (text(warning, "fieldRef").trim(), at.child("fieldRef"));
        if field.is_empty() {
            errors.push(Error::required(&at, ""));
        } else if let Err(why) = validate_path(field) {
            errors.push(Error::invalid(&at, field, format!("invalid JSONPath: {why}")));
        }
    }
    status::validate_conditions(items(status, "conditions"), &at.child("conditions"), &mut errors);
    errors
}

/// `validateValidatingAdmissionPolicyBinding`
pub(super) fn validate_binding(binding: &Value) -> ErrorList {
    let mut errors = validate_common_binding(binding);
    let (spec, at) = (part(binding, "spec"), Path::new("spec"));
    validate_actions(part(spec, "validationActions"), &at.child("validationActions"), &mut errors);
    errors
}

/// The part of a binding that both kinds have.
pub(super) fn validate_common_binding(binding: &Value) -> ErrorList {
    let metadata = part(binding, "metadata");
    let mut errors = validate_object_meta(metadata, false, &name_is_dns_subdomain, &Path::new("metadata"));
    let (spec, at) = (part(binding, "spec"), Path::new("spec"));
    let (policy, at_policy) = (text(spec, "policyName"), at.child("policyName"));
    match policy {
        "" => errors.push(Error::required(&at_policy, "")),
        policy => texts(name_is_dns_subdomain(policy, false), policy, &at_policy, &mut errors),
    }
    if let Some(params) = present(spec, "paramRef") {
        validate_params(params, &at.child("paramRef"), &mut errors);
    }
    if let Some(resources) = present(spec, "matchResources") {
        validate_match(resources, &at.child("matchResources"), &mut errors);
    }
    errors
}

/// `validateParamRef`
fn validate_params(params: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (name, selector) = (text(params, "name"), present(params, "selector"));
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    if !name.is_empty() {
        texts(is_path_segment(name, false), name, &at.child("name"), errors);
        if selector.is_some() {
            errors.push(Error::forbidden(&at.child("name"), EXCLUSIVE));
        }
    }
    match selector {
        Some(selector) => {
            label_selector::validate(selector, &at.child("selector"), errors);
            if !name.is_empty() {
                errors.push(Error::forbidden(&at.child("selector"), EXCLUSIVE));
            }
        }
        None if name.is_empty() => {
            errors.push(Error::required(at, "one of name or selector must be specified"))
        }
        None => {}
    }
    one_of(params, "parameterNotFoundAction", &["Deny", "Allow"], at, errors);
}

/// `validateValidationActions`
fn validate_actions(actions: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (index, action) in actions.as_array().unwrap_or_default().iter().filter_map(Value::as_str).enumerate()
    {
        let at = at.index(index);
        if !ACTIONS.contains(&action) {
            errors.push(Error::not_supported(&at, action, &ACTIONS));
        }
        if !seen.insert(action) {
            errors.push(Error::duplicate(&at, action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        errors.push(Error::invalid(at, actions.clone(), detail));
    }
    if seen.is_empty() {
        errors.push(Error::required(at, ""));
    }
}

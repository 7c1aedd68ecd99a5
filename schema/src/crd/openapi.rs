//! The rules for a schema that hold at every level (apiextensions-apiserver `pkg/apis/apiextensions/validation`,
//! `ValidateCustomResourceDefinitionOpenAPISchema`). Expressions are compiled only where nothing else is wrong.

use std::collections::HashSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};

use super::Options;
use super::field_path;
use super::props::{
    Items, OrBool, additional_properties, entries, flag, go_items, has, item, items, list, optional_text,
    property, strings, text, type_of,
};
use super::rules::{self, Scope, Step};
use super::structural;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The part of the validation state that a level gets from the levels above.
#[derive(Clone, Default)]
pub(super) struct Context {
    pub(super) is_root: bool,
    /// The reason why no default may stand here; `None` if one may.
    defaults_forbidden: Option<String>,
    inside_metadata: bool,
    /// The path of what keeps the values in it from being recognized after a change.
    uncorrelatable: Option<String>,
}

/// The errors found: in schemas, and in their expressions, which upstream reports last.
pub(super) struct Found<'a> {
    pub(super) errors: &'a mut ErrorList,
    pub(super) rules: rules::Found,
}

impl Context {
    pub(super) fn root(options: &Options) -> Self {
        let defaults_forbidden = options.defaults_forbidden.map(str::to_owned);
        Self { is_root: true, defaults_forbidden, ..Self::default() }
    }

    fn below(&self) -> Self {
        Self { is_root: false, ..self.clone() }
    }

    /// Within something whose values cannot be recognized after a change, unless they could not be before.
    fn uncorrelatable(&mut self, path: &Path<'_>) {
        self.uncorrelatable.get_or_insert_with(|| path.to_string());
    }
}

/// All that is wrong with a schema and those in it. Expressions are looked into where there is a scope.
pub(super) fn validate(
    schema: &Value,
    path: &Path<'_>,
    scope: Option<&Scope<'_>>,
    context: &Context,
    options: &Options,
    found: &mut Found<'_>,
) {
    let before = found.errors.len();
    keywords(schema, path, context, options, found.errors);
    let errors = &mut *found.errors;
    if flag(schema, "uniqueItems") {
        errors.push(Error::forbidden(
            &path.child("uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    nested_schemas(schema, path, scope, context, options, found);
    let errors = &mut *found.errors;
    if schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(false) {
        let at = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(Error::invalid(&at, false, "must be true or undefined"));
    }
    map_type(schema, path, errors);
    list_type(schema, path, options, errors);
    list_map_keys(schema, path, errors);
    if options.require_map_list_keys {
        errors.extend(map_list_keys_and_sets(schema, path));
    }
    let at = path.child("x-kubernetes-validations");
    for (i, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        validation_rule(rule, schema, &at.index(i), errors);
    }
    // In a wrong schema the declarations for expressions are unknown, and other errors come first.
    if let Some(scope) = scope.filter(|_| errors.len() == before)
        && !list(schema, "x-kubernetes-validations").is_empty()
    {
        rules::check(scope, context.uncorrelatable.as_deref(), &mut found.rules);
    }
}

/// Keywords that JSON schema has and registrations may not.
fn keywords(schema: &Value, path: &Path<'_>, context: &Context, options: &Options, errors: &mut ErrorList) {
    let kind = type_of(schema);
    if options.require_valid_type && has_invalid_type(schema) {
        errors.push(Error::not_supported(&path.child("type"), kind, &TYPES));
    }
    if let Some(reason) = context.defaults_forbidden.as_ref().filter(|_| has(schema, "default")) {
        errors.push(Error::forbidden(&path.child("default"), format!("must not be set {reason}")));
    }
    let mut forbid = |keyword: &str, detail: &str| {
        errors.push(Error::forbidden(&path.child(keyword), detail));
    };
    for keyword in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if has(schema, keyword) {
            forbid(keyword, &format!("{keyword} is not supported"));
        }
    }
    if kind == "null" {
        forbid("type", "type cannot be set to null, use nullable as an alternative");
    }
    if let Items::Many(_) = items(schema) {
        forbid("items", "items must be a schema object and not an array");
    }
    if context.inside_metadata && flag(schema, "x-kubernetes-embedded-resource") {
        forbid("x-kubernetes-embedded-resource", "must not be used inside of resource meta");
    }
}

fn nested_schemas(
    schema: &Value,
    path: &Path<'_>,
    scope: Option<&Scope<'_>>,
    context: &Context,
    options: &Options,
    found: &mut Found<'_>,
) {
    let below = context.below();
    // A child that values are found by: expressions see it.
    let child = |step: Step<'_>, schema: &Value, at: &Path<'_>, context: &Context, found: &mut Found<'_>| {
        let inner = scope.map(|around| around.child(step, schema, at));
        validate(schema, at, inner.as_ref(), context, options, found);
    };
    if let Some(additional) = additional_properties(schema) {
        let at = path.child("additionalProperties");
        if has(schema, "properties") && !matches!(additional, OrBool::Allows(true)) {
            let detail = "additionalProperties and properties are mutual exclusive";
            found.errors.push(Error::forbidden(&at, detail));
        }
        if let OrBool::Schema(schema) = additional {
            let mut below = below.clone();
            if context.inside_metadata {
                below.defaults_forbidden =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            child(Step::Element, schema, &at, &below, found);
        }
    }
    let is_object = context.is_root || flag(schema, "x-kubernetes-embedded-resource");
    let properties = path.child("properties");
    let map_type = optional_text(schema, "x-kubernetes-map-type");
    for (name, property) in entries(schema, "properties") {
        let mut below = below.clone();
        if map_type.is_some_and(|map_type| !matches!(map_type, "granular" | "atomic")) {
            below.uncorrelatable(path);
        }
        if is_object && matches!(name, "metadata" | "kind" | "apiVersion") {
            below.inside_metadata = true;
            if context.is_root {
                below.defaults_forbidden = Some(format!("in top-level {name}"));
            }
        }
        child(Step::Property(name), property, &properties.key(name), &below, found);
    }
    if let Some(not) = schema.get("not") {
        validate(not, &path.child("not"), None, &below, options, found);
    }
    for keyword in ["allOf", "oneOf", "anyOf"] {
        let junctor = path.child(keyword);
        for (i, clause) in list(schema, keyword).iter().enumerate() {
            validate(clause, &junctor.index(i), None, &below, options, found);
        }
    }
    let definitions = path.child("definitions");
    for (name, definition) in entries(schema, "definitions") {
        validate(definition, &definitions.key(name), None, &below, options, found);
    }
    let at = path.child("items");
    let mut of_items = below.clone();
    if optional_text(schema, "x-kubernetes-list-type") != Some("map") {
        of_items.uncorrelatable(path);
    }
    match items(schema) {
        Items::One(item) => child(Step::Element, item, &at, &of_items, found),
        Items::Many(many) => {
            for (i, item) in many.iter().enumerate() {
                child(Step::Element, item, &at.index(i), &of_items, found);
            }
        }
        Items::Absent | Items::Empty => {}
    }
    let dependencies = path.child("dependencies");
    for (name, dependency) in entries(schema, "dependencies").filter(|(_, d)| d.as_object().is_some()) {
        validate(dependency, &dependencies.key(name), None, &below, options, found);
    }
}

/// That a keyword stands only with the type it is for.
fn only_with_type(
    schema: &Value,
    keyword: &str,
    kind: &str,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> bool {
    let actual = type_of(schema);
    if actual == kind {
        return true;
    }
    let (at, detail) = (path.child("type"), format!("must be {kind} if {keyword} is specified"));
    errors.push(if actual.is_empty() {
        Error::required(&at, detail)
    } else {
        Error::invalid(&at, actual, detail)
    });
    false
}

fn map_type(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const KEYWORD: &str = "x-kubernetes-map-type";
    let Some(map_type) = optional_text(schema, KEYWORD) else { return };
    only_with_type(schema, KEYWORD, "object", path, errors);
    if !matches!(map_type, "atomic" | "granular") {
        errors.push(Error::not_supported(&path.child(KEYWORD), map_type, &["atomic", "granular"]));
    }
}

fn list_type(schema: &Value, path: &Path<'_>, options: &Options, errors: &mut ErrorList) {
    const KEYWORD: &str = "x-kubernetes-list-type";
    const DETAIL: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let Some(list_type) = optional_text(schema, KEYWORD) else { return };
    if only_with_type(schema, KEYWORD, "array", path, errors)
        && options.require_atomic_set
        && list_type == "set"
        && let Some(item) = item(schema).filter(|_| is_non_atomic_set(schema))
    {
        // For maps, too, upstream prints the item's list type.
        let value = Value::from(optional_text(item, KEYWORD));
        let keyword = if type_of(item) == "array" { KEYWORD } else { "x-kubernetes-map-type" };
        errors.push(Error::invalid(&path.child("items").child(keyword), value, DETAIL));
    }
    if !matches!(list_type, "atomic" | "set" | "map") {
        errors.push(Error::not_supported(&path.child(KEYWORD), list_type, &["atomic", "set", "map"]));
    }
}

/// `true` if this is a set whose items are not atomic. Lists are atomic unless they say otherwise, maps only if they say so.
pub(super) fn is_non_atomic_set(schema: &Value) -> bool {
    let is_set = optional_text(schema, "x-kubernetes-list-type") == Some("set");
    item(schema).filter(|_| is_set).is_some_and(|item| match type_of(item) {
        "array" => optional_text(item, "x-kubernetes-list-type").is_some_and(|t| t != "atomic"),
        "object" => optional_text(item, "x-kubernetes-map-type") != Some("atomic"),
        _ => false,
    })
}

fn list_map_keys(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const KEYS: &str = "x-kubernetes-list-map-keys";
    const TYPE: &str = "x-kubernetes-list-type";
    let list_type = optional_text(schema, TYPE);
    let keys = strings(schema, KEYS);
    if !keys.is_empty() && list_type != Some("map") {
        let (at, detail) = (path.child(TYPE), "must be map if x-kubernetes-list-map-keys is non-empty");
        errors.push(match list_type {
            None => Error::required(&at, detail),
            Some(other) => Error::invalid(&at, other, detail),
        });
    }
    if list_type != Some("map") {
        return;
    }
    let (keys_path, items_path) = (path.child(KEYS), path.child("items"));
    if keys.is_empty() {
        errors.push(Error::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
    }
    let item = match items(schema) {
        Items::Absent => {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            return errors.push(Error::required(&items_path, detail));
        }
        Items::One(item) => item,
        other => {
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            return errors.push(Error::invalid_raw(&items_path, go_items(other), detail));
        }
    };
    if type_of(item) != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.push(Error::invalid(&items_path.child("type"), type_of(item), detail));
    }
    let properties = items_path.child("properties");
    let mut earlier = HashSet::with_capacity(keys.len());
    for key in &keys {
        // An error shows all keys.
        if errors.is_full() {
            return;
        }
        match property(item, key) {
            None => errors.push(Error::invalid(
                &keys_path,
                keys.clone(),
                "entries must all be names of item properties",
            )),
            Some(property) if matches!(type_of(property), "array" | "object") => {
                let at = properties.key(key);
                // Upstream prints the item's type, not the key's.
                errors.push(Error::invalid(
                    &at.child("type"),
                    type_of(item),
                    "must be a scalar type if parent array's x-kubernetes-list-type is map",
                ));
            }
            Some(_) => {}
        }
        if !earlier.insert(key) {
            errors.push(Error::invalid(&keys_path, keys.clone(), "must not contain duplicate entries"));
        }
    }
}

/// Items that are identified by value must have one: neither they nor their keys may be null or missing.
pub(super) fn map_list_keys_and_sets(schema: &Value, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(list_type @ ("set" | "map")) = optional_text(schema, "x-kubernetes-list-type") else {
        return errors;
    };
    let Some(item) = item(schema) else { return errors };
    let items = path.child("items");
    if flag(item, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(Error::forbidden(&items.child("nullable"), detail));
    }
    if list_type == "set" {
        return errors;
    }
    let required: HashSet<&str> = strings(item, "required").into_iter().collect();
    let properties = items.child("properties");
    for key in strings(schema, "x-kubernetes-list-map-keys") {
        let Some(property) = property(item, key) else { continue };
        let at = properties.key(key);
        if !required.contains(key) && !has(property, "default") {
            errors.push(Error::required(
                &at.child("default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(&at.child("nullable"), detail));
        }
    }
    errors
}

fn validation_rule(rule: &Value, schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let has_newlines = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (text(rule, "rule"), text(rule, "message"));
    let at = path.child("message");
    if expression.trim().is_empty() {
        errors.push(Error::required(&path.child("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(Error::invalid(&at, message, "must be non-empty if specified"));
    } else if has_newlines(message.trim()) {
        errors.push(Error::invalid(&at, message, "must not contain line breaks"));
    } else if has_newlines(expression.trim()) && message.trim().is_empty() {
        errors.push(Error::required(&at, "message must be specified if rule contains line breaks"));
    }
    let message_expression = text(rule, "messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        errors.push(Error::required(
            &path.child("messageExpression"),
            "messageExpression must be non-empty if specified",
        ));
    }
    if let Some(reason) = optional_text(rule, "reason").filter(|r| !REASONS.contains(r)) {
        errors.push(Error::not_supported(&path.child("reason"), reason, &REASONS));
    }
    let field_path = text(rule, "fieldPath");
    if field_path.is_empty() {
        return;
    }
    let at = path.child("fieldPath");
    if field_path.trim().is_empty() {
        errors.push(Error::invalid(&at, field_path, "must be non-empty if specified"));
    }
    if has_newlines(field_path) {
        errors.push(Error::invalid(&at, field_path, "must not contain line breaks"));
    }
    // An unreadable schema has to be mended first.
    if structural::unsupported(schema).is_ok() && field_path::find(field_path, Some(schema), true).is_err() {
        errors.push(Error::invalid(&at, field_path, "must be a valid path"));
    }
}

/// Returns true if the type is not one of OpenAPI's.
pub(super) fn has_invalid_type(schema: &Value) -> bool {
    let kind = type_of(schema);
    !kind.is_empty() && !TYPES.contains(&kind)
}

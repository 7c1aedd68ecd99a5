//! Defaults in a schema must themselves be what the schema wants
//! (apiextensions-apiserver `pkg/apiserver/schema/defaulting/validation.go`).

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::{Value, object};
use kindom_formats::pattern::Budget;

use super::props::{entries, flag, item};
use crate::Schema;
use crate::rules::attach::has_rules;
use crate::validate::{BUDGET, PATTERNS_MAX, Steps, run_rules, without_rules};

/// What all defaults of a registration may take together yet.
struct Left {
    /// Of their rules, as upstream counts.
    cost: i64,
    /// Of the regular expressions in those.
    patterns: Budget,
    /// Of the schema's own walk.
    steps: Steps,
}

/// All that is wrong with the defaults of a structural schema. Those under `additionalProperties` are not looked at, as
/// upstream does not fill them in.
pub(crate) fn validate(schema: &Value, path: &Path<'_>, require_pruned: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut left = Left { cost: BUDGET, patterns: Budget::new(PATTERNS_MAX), steps: Steps::new() };
    walk(schema, path, true, require_pruned, &mut left, &mut errors);
    errors
}

/// Whether a default has fields that its schema does not know.
pub(super) fn has_unpruned(schema: &Value) -> bool {
    let below = |schema: &Value| {
        item(schema).is_some_and(has_unpruned) || entries(schema, "properties").any(|(_, s)| has_unpruned(s))
    };
    let own = |schema: &Value| {
        let default = schema.get("default")?;
        Some(!is_pruned(&compile(schema, false)?, default))
    };
    own(schema) == Some(true) || below(schema)
}

fn walk(
    schema: &Value,
    path: &Path<'_>,
    is_root: bool,
    require_pruned: bool,
    left: &mut Left,
    errors: &mut ErrorList,
) {
    if left.cost < 0 || left.steps.are_used_up() {
        return;
    }
    // A default at the root is of no use and is refused elsewhere for what it holds; upstream still checks it.
    if let Some(default) = schema.get("default")
        && let Some(compiled) = compile(schema, is_root)
    {
        if require_pruned && !is_pruned(&compiled, default) {
            let detail = "must not have unknown fields";
            errors.push(Error::invalid(&path.child("default"), default.clone(), detail));
        }
        let at = path.to_string();
        let root = compiled.root.as_ref();
        let mut found =
            root.map(|root| without_rules(root, &wrap(default), &mut left.steps)).unwrap_or_default();
        found.retain(|error| !is_not_upstreams(error));
        if found.is_empty() && has_rules(schema) {
            errors.extend(rules(schema, default, is_root, left, &at));
        }
        errors.extend(found.into_iter().map(|error| unwrap(error, &at)));
    }
    if let Some(item) = item(schema) {
        walk(item, &path.child("items"), false, require_pruned, left, errors);
    }
    let is_object = is_root || flag(schema, "x-kubernetes-embedded-resource");
    let properties = path.child("properties");
    for (name, property) in entries(schema, "properties") {
        // The server fills in the metadata of objects itself.
        if !(is_object && matches!(name, "metadata" | "kind" | "apiVersion")) {
            walk(property, &properties.key(name), false, require_pruned, left, errors);
        }
    }
}

/// A schema for an object whose one field, `default`, has this schema: the field is then no resource's root, and errors
/// begin with its name.
fn compile(schema: &Value, is_root: bool) -> Option<Schema> {
    Schema::compile_without_rules(Some(&around(schema, is_root)), false).ok()
}

fn around(schema: &Value, is_root: bool) -> Value {
    let mut schema = schema.clone();
    if let Some(map) = schema.as_object_mut().filter(|_| is_root) {
        map.insert("x-kubernetes-embedded-resource", true);
    }
    object! { "type": "object", "properties": object! { "default": schema } }
}

/// What a default's rules find: as if it replaced itself, and then as if it were new, as rules may ask which it is.
fn rules(schema: &Value, default: &Value, is_root: bool, left: &mut Left, at: &str) -> ErrorList {
    let Ok(compiled) = Schema::compile(Some(&around(schema, is_root)), false) else {
        return ErrorList::new();
    };
    let Some(root) = &compiled.root else { return ErrorList::new() };
    let object = wrap(default);
    let mut found = run_rules(root, &object, Some(&object), false, left.cost, left.patterns.clone());
    if found.errors.is_empty() {
        let new = run_rules(root, &object, None, false, left.cost, found.patterns.clone());
        found.errors = new.errors;
        found.budget = found.budget.min(new.budget);
        found.patterns = new.patterns;
    }
    (left.cost, left.patterns) = (found.budget, found.patterns);
    for error in &mut found.errors {
        error.field = format!("{at}.{}", error.field);
    }
    found.errors
}

fn wrap(default: &Value) -> Value {
    object! { "default": default.clone() }
}

/// What the validation of objects says and that of defaults does not: upstream has not spelled out
/// `x-kubernetes-int-or-string` there yet.
fn is_not_upstreams(error: &Error) -> bool {
    error.detail.contains(" in body must be of type integer,string: ")
}

/// An error on a wrapped default as upstream words it: it begins to look below `default`, so that is how far the names in
/// messages go. What junctors say is on no field of the object, and is reported on the default as a whole.
fn unwrap(mut error: Error, path: &str) -> Error {
    error.field = match error.field.as_str() {
        "<nil>" => format!("{path}.default"),
        // Upstream takes what follows `default` for the name of a field, even an index.
        field => format!("{path}.{}", field.replacen("default[", "default.[", 1)),
    };
    for quote in ["", "\""] {
        let named = error.detail.strip_prefix(quote).and_then(|rest| rest.strip_prefix("default"));
        if let Some(rest) = named {
            error.detail = format!("{quote}{}", rest.strip_prefix('.').unwrap_or(rest));
            break;
        }
    }
    if let Some((message, rest)) = error.detail.rsplit_once(" in default")
        && (rest.is_empty() || rest.starts_with('.'))
    {
        error.detail = format!("{message} in {}", rest.trim_start_matches('.'));
    }
    error
}

fn is_pruned(compiled: &Schema, default: &Value) -> bool {
    let object = wrap(default);
    let mut pruned = object.clone();
    compiled.prune(&mut pruned, None);
    pruned == object
}

//! Defaults in a schema must themselves be what the schema wants
//! (apiextensions-apiserver `pkg/apiserver/schema/defaulting/validation.go`).

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::{Value, object};

use super::props::{entries, flag, item};
use crate::Schema;

/// All that is wrong with the defaults of a structural schema. Those under `additionalProperties` are not looked at, as
/// upstream does not fill them in.
pub(super) fn validate(schema: &Value, path: &Path<'_>, require_pruned: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    walk(schema, path, true, require_pruned, &mut errors);
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

fn walk(schema: &Value, path: &Path<'_>, is_root: bool, require_pruned: bool, errors: &mut ErrorList) {
    // A default at the root is of no use and is refused elsewhere for what it holds; upstream still checks it.
    if let Some(default) = schema.get("default")
        && let Some(compiled) = compile(schema, is_root)
    {
        if require_pruned && !is_pruned(&compiled, default) {
            let detail = "must not have unknown fields";
            errors.push(Error::invalid(&path.child("default"), default.clone(), detail));
        }
        let at = path.to_string();
        let found = compiled.validate(&wrap(default)).into_iter();
        let found = found.filter(|error| !is_not_upstreams(error));
        errors.extend(found.map(|error| unwrap(error, &at)));
    }
    if let Some(item) = item(schema) {
        walk(item, &path.child("items"), false, require_pruned, errors);
    }
    let is_object = is_root || flag(schema, "x-kubernetes-embedded-resource");
    let properties = path.child("properties");
    for (name, property) in entries(schema, "properties") {
        // The server fills in the metadata of objects itself.
        if !(is_object && matches!(name, "metadata" | "kind" | "apiVersion")) {
            walk(property, &properties.key(name), false, require_pruned, errors);
        }
    }
}

/// A schema for an object whose one field, `default`, has this schema: the field is then no resource's root, and errors
/// begin with its name.
fn compile(schema: &Value, is_root: bool) -> Option<Schema> {
    let mut schema = schema.clone();
    if let Some(map) = schema.as_object_mut().filter(|_| is_root) {
        map.insert("x-kubernetes-embedded-resource", true);
    }
    let around = object! { "type": "object", "properties": object! { "default": schema } };
    Schema::compile(Some(&around), false).ok()
}

fn wrap(default: &Value) -> Value {
    object! { "default": default.clone() }
}

/// What the validation of objects says and that of defaults does not: upstream runs CEL apart there, and has not spelled
/// out `x-kubernetes-int-or-string` yet.
fn is_not_upstreams(error: &Error) -> bool {
    error.detail.starts_with("some validation rules were not checked")
        || error.detail.contains(" in body must be of type integer,string: ")
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

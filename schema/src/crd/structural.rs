//! The check that a schema is structural: every value has one known place in it, and junctors only narrow the schema outside
//! them (apiextensions-apiserver `pkg/apiserver/schema/{convert,validation,complete}.go`).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};

use super::props::{
    Items, OrBool, additional_properties, entries, flag, has, item, items, list, optional_text, property,
    text, type_of,
};

/// All that keeps a schema from being structural, sorted by text as upstream does. The schema must have passed
/// [`unsupported`].
pub(super) fn validate(schema: &Value, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    invariants(schema, Level::Root, path, &mut errors);
    junctor_completeness(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// The reason why a schema cannot even be read as a structural one (`NewStructural`).
pub(super) fn unsupported(schema: &Value) -> Result<(), String> {
    for (keyword, name) in [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ] {
        // `$ref: ""` is let through here, and refused elsewhere.
        if has(schema, keyword) && optional_text(schema, keyword) != Some("") {
            return Err(format!("OpenAPIV3Schema '{name}' is not supported"));
        }
    }
    schema.get("not").map_or(Ok(()), unsupported)?;
    for keyword in ["allOf", "anyOf", "oneOf"] {
        list(schema, keyword).iter().try_for_each(unsupported)?;
    }
    if schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(false) {
        return Err(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned()
        );
    }
    match items(schema) {
        Items::Many(_) => {
            return Err("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
        }
        Items::One(item) => unsupported(item)?,
        Items::Absent | Items::Empty => {}
    }
    entries(schema, "properties").try_for_each(|(_, property)| unsupported(property))?;
    match additional_properties(schema) {
        Some(OrBool::Schema(schema)) => unsupported(schema),
        _ => Ok(()),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

fn invariants(schema: &Value, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    let kind = type_of(schema);
    match item(schema) {
        Some(item) => invariants(item, Level::Item, &path.child("items"), errors),
        None if kind == "array" => errors.push(Error::required(&path.child("items"), "must be specified")),
        None => {}
    }
    let properties = path.child("properties");
    for (name, property) in entries(schema, "properties") {
        invariants(property, Level::Field, &properties.key(name), errors);
    }
    let additional = additional_properties(schema);
    if additional.is_some() && level == Level::Root {
        errors.push(Error::forbidden(&path.child("additionalProperties"), "must not be used at the root"));
    }
    if let Some(OrBool::Schema(schema)) = additional {
        invariants(schema, Level::Field, &path.child("additionalProperties"), errors);
    }
    extensions(schema, path, errors);
    let skip = int_or_string_pattern(schema);
    value_validation(schema, skip, path, errors);

    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    type_rules(schema, level, path, errors);
    if embedded && additional.is_some() {
        errors.push(Error::forbidden(
            &path.child("additionalProperties"),
            "must not be used if x-kubernetes-embedded-resource is set",
        ));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(Error::invalid(&path.child("type"), kind, "must be object at the root"));
    }
    let is_object = level == Level::Root || embedded;
    for name in ["kind", "apiVersion"] {
        if let Some(property) = property(schema, name).filter(|p| is_object && type_of(p) != "string") {
            let at = properties.key(name);
            errors.push(Error::invalid(&at.child("type"), type_of(property), "must be string"));
        }
    }
    if let Some(metadata) = property(schema, "metadata") {
        metadata_rules(metadata, is_object, level, &properties.key("metadata"), errors);
    }
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && !preserves && !has(schema, "properties") {
        errors.push(Error::required(
            &properties,
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
}

fn type_rules(schema: &Value, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("type");
    let kind = type_of(schema);
    if flag(schema, "x-kubernetes-embedded-resource") && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            Error::required(&at, detail)
        } else {
            Error::invalid(&at, kind, detail)
        });
    } else if kind.is_empty()
        && !flag(schema, "x-kubernetes-int-or-string")
        && !flag(schema, "x-kubernetes-preserve-unknown-fields")
    {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.push(Error::required(&at, format!("must not be empty {place}")));
    }
}

fn extensions(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if !flag(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for keyword in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(schema, keyword) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(Error::invalid(&path.child(keyword), true, detail));
        }
    }
}

/// Metadata is known to the server: at the root a schema may only narrow the two names.
fn metadata_rules(metadata: &Value, is_object: bool, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    if is_object && type_of(metadata) != "object" {
        errors.push(Error::invalid(&path.child("type"), type_of(metadata), "must be object"));
    }
    let only_names = entries(metadata, "properties").all(|(name, _)| matches!(name, "name" | "generateName"));
    let only_known =
        keywords(metadata).all(|k| matches!(k, "type" | "default") || (k == "properties" && only_names));
    if level == Level::Root && !only_known {
        errors.push(Error::forbidden(
            path,
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ));
    }
}

/// The keywords that mean anything once a schema is read as a structural one.
fn keywords(schema: &Value) -> impl Iterator<Item = &str> {
    let keys = schema.as_object().into_iter().flat_map(kindom_api::Map::keys);
    keys.filter(move |key| *key != "$ref" && (*key != "items" || item(schema).is_some()))
}

/// Under a junctor `additionalProperties: false` has no effect.
fn has_nested_additional(schema: &Value) -> bool {
    additional_properties(schema).is_some_and(|a| !matches!(a, OrBool::Allows(false)))
}

/// The `type`s under a junctor that are allowed because they spell out `x-kubernetes-int-or-string`.
#[derive(Clone, Copy, Default)]
struct Skip {
    any_of: bool,
    any_of_of_first_all_of: bool,
}

fn int_or_string_pattern(schema: &Value) -> Skip {
    let spelled_out = |schema: &Value| {
        let only = |schema: &Value, kind: &str| {
            type_of(schema) == kind
                && keywords(schema)
                    .filter(|k| *k != "additionalProperties" || has_nested_additional(schema))
                    .count()
                    == 1
        };
        matches!(list(schema, "anyOf"), [a, b] if only(a, "integer") && only(b, "string"))
    };
    Skip {
        any_of: spelled_out(schema),
        any_of_of_first_all_of: list(schema, "allOf").first().is_some_and(spelled_out),
    }
}

fn value_validation(schema: &Value, skip: Skip, path: &Path<'_>, errors: &mut ErrorList) {
    for keyword in ["anyOf", "allOf", "oneOf"] {
        if keyword == "anyOf" && skip.any_of {
            continue;
        }
        let junctor = path.child(keyword);
        for (i, clause) in list(schema, keyword).iter().enumerate() {
            let any_of = keyword == "allOf" && i == 0 && skip.any_of_of_first_all_of;
            nested(clause, Skip { any_of, ..Skip::default() }, &junctor.index(i), errors);
        }
    }
    if let Some(not) = schema.get("not") {
        nested(not, Skip::default(), &path.child("not"), errors);
    }
    let pattern = text(schema, "pattern");
    if let Some(why) = kindom_formats::pattern::check(pattern).err().filter(|_| !pattern.is_empty()) {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(Error::invalid(&path.child("pattern"), pattern, detail));
    }
}

/// Checks a schema under a junctor, which may only validate values.
fn nested(schema: &Value, skip: Skip, path: &Path<'_>, errors: &mut ErrorList) {
    value_validation(schema, skip, path, errors);
    if let Some(item) = item(schema) {
        nested(item, Skip::default(), &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in entries(schema, "properties") {
        nested(property, Skip::default(), &properties.key(name), errors);
    }
    let mut forbid = |keyword: &str, state: &str| {
        errors.push(Error::forbidden(&path.child(keyword), format!("must be {state} to be structural")));
    };
    if !type_of(schema).is_empty() {
        forbid("type", "empty");
    }
    if has_nested_additional(schema) {
        forbid("additionalProperties", "undefined");
    }
    for (keyword, state) in [
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ] {
        if has(schema, keyword) {
            forbid(keyword, state);
        }
    }
    if property(schema, "metadata").is_some() {
        let at = properties.key("metadata");
        errors.push(Error::forbidden(&at, "must not be specified in a nested context"));
    }
}

/// Whatever a junctor of `schema` names must also be named by `outside`, the part of the schema that stands outside of
/// junctors.
fn junctor_completeness(
    schema: &Value,
    outside: Option<&Value>,
    outside_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if let Some(not) = schema.get("not") {
        completeness(not, outside, outside_path, &path.child("not"), errors);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let junctor = path.child(keyword);
        for (i, clause) in list(schema, keyword).iter().enumerate() {
            completeness(clause, outside, outside_path, &junctor.index(i), errors);
        }
    }
}

fn completeness(
    clause: &Value,
    outside: Option<&Value>,
    outside_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let Some(known) = outside else {
        errors.push(Error::required(outside_path, format!("because it is defined in {path}")));
        return;
    };
    junctor_completeness(clause, outside, outside_path, path, errors);
    if let Some(clause_item) = item(clause) {
        let (outside_items, items) = (outside_path.child("items"), path.child("items"));
        completeness(clause_item, item(known), &outside_items, &items, errors);
    }
    let (outside_properties, properties) = (outside_path.child("properties"), path.child("properties"));
    for (name, clause_property) in entries(clause, "properties") {
        let (outside_path, path) = (outside_properties.key(name), properties.key(name));
        completeness(clause_property, property(known, name), &outside_path, &path, errors);
    }
}

//! Defaults in a schema must themselves be valid under the schema (apiextensions-apiserver
//! `pkg/apiserver/schema/defaulting/validation.go`).

use kindom_api::field::{Error, ErrorList, Path, aggregate};
use kindom_api::{Map, Value, object};
use kindom_formats::pattern::{Budget, TooLong};

use super::props::{OrBool, additional_properties, entries, flag, item, property};
use crate::rules::attach::has_rules;
use crate::validate::{BUDGET, PATTERNS_MAX, Steps, embedded_errors, run_rules, weight, without_rules};
use crate::{Schema, coerce};

/// Says that a schema is that of a resource with metadata of its own.
pub(super) const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// The fields of a resource in which its type and metadata stand.
const IN_META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The most values that the schemas which are compiled to check defaults may hold together. Each default, at every depth,
/// compiles its own schema and with it the resource around its metadata: without a bound a registration of 1 MB whose
/// defaults stand in one another takes a minute. This bound is a second, and many times the need of real schemas.
const COMPILED_MAX: usize = 1_000_000;

/// As many values as take as long to compile with their rules as without them, for one.
const WITH_RULES: usize = 8;

/// The rest of the budgets for all defaults of a registration.
struct Left {
    /// Of compiling schemas.
    compiled: Budget,
    /// Of their rules, as upstream counts.
    cost: i64,
    /// The budget of the regular expressions in those.
    patterns: Budget,
    /// The steps of the schema's own walk.
    steps: Steps,
}

/// All that is wrong with the defaults of a structural schema. Those under `additionalProperties` are not looked at, as
/// upstream does not fill them in.
pub(crate) fn validate(schema: &Value, path: &Path<'_>, require_pruned: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let compiled = Budget::new(COMPILED_MAX);
    let mut left = Left { compiled, cost: BUDGET, patterns: Budget::new(PATTERNS_MAX), steps: Steps::new() };
    let mut found = Found { require_pruned, left: &mut left, errors: &mut errors };
    walk(schema, path, true, &mut Around::default(), &mut found);
    errors
}

/// `true` if a default has fields that its schema does not know.
pub(super) fn has_unpruned(schema: &Value) -> bool {
    fn within(schema: &Value, left: &mut Budget) -> bool {
        let own = schema.get("default").and_then(|default| {
            let compiled = compile(schema, false, left).ok()??;
            Some(!is_pruned(&compiled, default))
        });
        own == Some(true)
            || item(schema).is_some_and(|item| within(item, left))
            || entries(schema, "properties").any(|(_, property)| within(property, left))
    }
    // One that takes too long to check is held to what new ones are held to.
    within(schema, &mut Budget::new(COMPILED_MAX))
}

/// Coerces the defaults of a valid structural schema in place, as upstream's validation does on the registration itself: the
/// metadata of embedded resources loses fields that no metadata has. A default that stands inside metadata is validated as a
/// copy, and stays.
pub(super) fn coerce_in_place(schema: &mut Value, is_root: bool, in_meta: bool) {
    let is_resource = is_root || flag(schema, EMBEDDED);
    let in_meta = in_meta && !is_resource;
    if !in_meta && let Some(mut default) = schema.as_object_mut().and_then(|map| map.remove("default")) {
        coerce_value(&mut default, schema, is_resource);
        if let Some(map) = schema.as_object_mut() {
            map.insert("default", default);
        }
    }
    if let Some(item @ Value::Object(_)) = schema.get_mut("items") {
        coerce_in_place(item, false, in_meta);
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flat_map(Map::iter_mut) {
        coerce_in_place(property, false, in_meta || (is_resource && IN_META.contains(&name)));
    }
}

fn coerce_value(value: &mut Value, schema: &Value, is_resource: bool) {
    match value {
        Value::Object(map) => {
            if is_resource {
                coerce::coerce_resource(map);
            }
            let additional = match additional_properties(schema) {
                Some(OrBool::Schema(child)) => Some(child),
                _ => None,
            };
            for (key, value) in map.iter_mut() {
                if let Some(child) = property(schema, key).or(additional) {
                    coerce_value(value, child, flag(child, EMBEDDED));
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = item(schema) else { return };
            items.iter_mut().for_each(|value| coerce_value(value, child, flag(child, EMBEDDED)));
        }
        _ => {}
    }
}

struct Found<'f> {
    require_pruned: bool,
    left: &'f mut Left,
    errors: &'f mut ErrorList,
}

/// The resource that a schema stands in: the object, or the nearest embedded one.
#[derive(Default)]
struct Around<'s> {
    resource: Option<&'s Value>,
    /// From the resource to the schema.
    steps: Vec<Step<'s>>,
    /// `true` if the schema is of its type or its metadata.
    in_meta: bool,
}

#[derive(Clone, Copy)]
enum Step<'s> {
    Field(&'s str),
    Item,
}

fn walk<'s>(
    schema: &'s Value,
    path: &Path<'_>,
    is_root: bool,
    around: &mut Around<'s>,
    found: &mut Found<'_>,
) {
    let left = &found.left;
    if left.cost < 0 || left.steps.are_used_up() || left.compiled.left() == 0 || found.errors.is_full() {
        return;
    }
    let is_resource = is_root || flag(schema, EMBEDDED);
    let mut own = Around { resource: Some(schema), steps: Vec::new(), in_meta: false };
    let around = if is_resource { &mut own } else { around };
    check(schema, path, is_root, around, found);
    if let Some(item) = item(schema) {
        around.steps.push(Step::Item);
        walk(item, &path.child("items"), false, around, found);
        around.steps.pop();
    }
    let properties = path.child("properties");
    for (name, property) in entries(schema, "properties") {
        let before = around.in_meta;
        around.in_meta |= is_resource && IN_META.contains(&name);
        around.steps.push(Step::Field(name));
        walk(property, &properties.key(name), false, around, found);
        around.steps.pop();
        around.in_meta = before;
    }
}

fn check(schema: &Value, path: &Path<'_>, is_root: bool, around: &Around<'_>, found: &mut Found<'_>) {
    let Found { require_pruned, left, errors } = found;
    // A default at the root has no effect, and another check refuses it; upstream still checks it.
    if let Some(default) = schema.get("default") {
        let compiled = match compile(schema, is_root, &mut left.compiled) {
            Ok(Some(compiled)) => compiled,
            Ok(None) => return,
            Err(TooLong) => return errors.push(too_large(path)),
        };
        let refuse = |detail: String| Error::invalid(&path.child("default"), default.clone(), detail);
        let at = path.to_string();
        let mut object = wrap(default);
        if around.in_meta {
            match no_metadata(around, default, &mut left.compiled) {
                Ok(None) => {}
                Ok(Some(why)) => {
                    return errors.push(refuse(format!("must result in valid metadata: {why}")));
                }
                Err(TooLong) => return errors.push(too_large(path)),
            }
        } else {
            let has_unknown = *require_pruned && !is_pruned(&compiled, default);
            let coerced = compiled.coerce(&mut object, None);
            // Upstream coerces the default itself, and its error shows the coerced one.
            if has_unknown {
                let default = object.get("default").unwrap_or(default).clone();
                errors.push(Error::invalid(&path.child("default"), default, "must not have unknown fields"));
            }
            if let Err(error) = coerced {
                errors.push(below(error, &at));
                return;
            }
            let of_metadata =
                compiled.root.as_ref().map(|root| embedded_errors(root, &object)).unwrap_or_default();
            if !of_metadata.is_empty() {
                errors.extend(of_metadata.into_iter().map(|error| below(error, &at)));
                return;
            }
        }
        let root = compiled.root.as_ref();
        let mut found = root.map(|root| without_rules(root, &object, &mut left.steps)).unwrap_or_default();
        found.retain(|error| !is_not_upstreams(error));
        if found.is_empty() && has_rules(schema) {
            if left.compiled.take(WITH_RULES * weight(schema)).is_err() {
                return errors.push(too_large(path));
            }
            errors.extend(rules(schema, &object, is_root, left, &at));
        }
        errors.extend(found.into_iter().map(|error| unwrap(error, &at)));
    }
}

/// The error of a resource that has nothing but this default of its type or metadata.
fn no_metadata(around: &Around<'_>, default: &Value, left: &mut Budget) -> Result<Option<String>, TooLong> {
    let mut object = default.clone();
    for step in around.steps.iter().rev() {
        object = match step {
            Step::Field(name) => Value::Object(Map::from_iter([((*name).to_owned(), object)])),
            Step::Item => Value::Array(vec![object].into()),
        };
    }
    if let Value::Object(map) = &mut object {
        map.entry_or_insert_with("kind", || "Validation".into());
        map.entry_or_insert_with("apiVersion", || "validation/v1".into());
    }
    let Some(resource) = around.resource else { return Ok(None) };
    let Some(compiled) = compile(resource, true, left)? else { return Ok(None) };
    let Some(root) = compiled.root.as_ref() else { return Ok(None) };
    let mut object = wrap(&object);
    let mut errors = match compiled.coerce(&mut object, None) {
        Err(error) => ErrorList::from(error),
        Ok(()) => embedded_errors(root, &object),
    };
    for error in &mut errors {
        error.field = error.field.strip_prefix("default.").unwrap_or(&error.field).to_owned();
    }
    Ok((!errors.is_empty()).then(|| aggregate(&errors)))
}

/// An error on a default for which too much would have to be compiled.
fn too_large(path: &Path<'_>) -> Error {
    let detail =
        format!("the schemas that defaults stand in may not hold more than {COMPILED_MAX} values together");
    Error::forbidden(&path.child("default"), detail)
}

/// A schema for an object whose one field, `default`, has this schema: the field is then no resource's root, and errors
/// begin with its name. None if it is no structural one.
fn compile(schema: &Value, is_root: bool, left: &mut Budget) -> Result<Option<Schema>, TooLong> {
    left.take(weight(schema))?;
    Ok(Schema::compile_without_rules(Some(&around(schema, is_root)), false).ok())
}

fn around(schema: &Value, is_root: bool) -> Value {
    let mut schema = schema.clone();
    if let Some(map) = schema.as_object_mut().filter(|_| is_root) {
        map.insert("x-kubernetes-embedded-resource", true);
    }
    object! { "type": "object", "properties": object! { "default": schema } }
}

/// The errors that the rules find in a wrapped default: first as an update that changes nothing, and then as a new object,
/// as rules may ask which of the two it is.
fn rules(schema: &Value, object: &Value, is_root: bool, left: &mut Left, at: &str) -> ErrorList {
    let Ok(compiled) = Schema::compile(Some(&around(schema, is_root)), false) else {
        return ErrorList::new();
    };
    let Some(root) = &compiled.root else { return ErrorList::new() };
    let mut found = run_rules(root, object, Some(object), false, left.cost, left.patterns.clone());
    if found.errors.is_empty() {
        let new = run_rules(root, object, None, false, left.cost, found.patterns.clone());
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

/// Returns true for an error that only the validation of objects has, not that of defaults: upstream has not spelled out
/// `x-kubernetes-int-or-string` there yet.
fn is_not_upstreams(error: &Error) -> bool {
    error.detail.contains(" in body must be of type integer,string: ")
}

/// An error on the type or metadata of a resource in a wrapped default, with the path of the schema.
fn below(mut error: Error, path: &str) -> Error {
    error.field = format!("{path}.{}", error.field);
    error
}

/// An error on a wrapped default as upstream words it: upstream starts below `default`, so the paths in messages start
/// there, too. Errors of junctors are on no field of the object, and are reported on the default as a whole.
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

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use super::coerce_in_place;

    fn check(schema: &str, want: &str) {
        let mut schema = parse(schema.as_bytes()).unwrap();
        for _ in 0..2 {
            coerce_in_place(&mut schema, true, false);
            assert_eq!(schema, parse(want.as_bytes()).unwrap());
        }
    }

    #[test]
    fn what_no_metadata_has_is_not_stored_in_a_default() {
        const EMBEDDED: &str = r#""type":"object","x-kubernetes-embedded-resource":true"#;
        let with = |before: &str, after: &str, rest: &str| {
            let schema = |default: &str| {
                format!(r#"{{"properties":{{"e":{{{EMBEDDED},"default":{default}{rest}}}}}}}"#)
            };
            check(&schema(before), &schema(after));
        };
        with(
            r#"{"metadata":{"name":"a","x":1},"x":{"y":1}}"#,
            r#"{"metadata":{"name":"a"},"x":{"y":1}}"#,
            "",
        );
        with(r#"{"metadata":null}"#, r#"{"metadata":{}}"#, "");
        with("null", "null", "");
        with(
            r#"{"l":[{"metadata":{"x":1}}],"m":{"k":{"metadata":{"x":1}}},"n":{"metadata":{"x":1}}}"#,
            r#"{"l":[{"metadata":{}}],"m":{"k":{"metadata":{}}},"n":{"metadata":{"x":1}}}"#,
            &format!(
                r#","properties":{{"l":{{"items":{{{EMBEDDED}}}}},"m":{{"additionalProperties":{{{EMBEDDED}}}}}}}"#
            ),
        );
        // Inside metadata upstream looks at a copy.
        let inside = format!(
            r#"{{"properties":{{"e":{{{EMBEDDED},"properties":{{"metadata":{{"type":"object","default":{{"x":1}}}}}}}}}}}}"#
        );
        check(&inside, &inside);
        // The object itself is a resource too, with its own metadata.
        let root =
            r#"{"properties":{"metadata":{"default":{"x":1}},"spec":{"default":{"metadata":{"x":1}}}}}"#;
        check(root, root);
    }
}

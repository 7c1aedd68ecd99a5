//! The subschemas of a schema, by the keywords of JSON Schema 2020-12 that hold some (core 10 and 11).

use std::collections::BTreeMap;

use kindom_api::{Value as Tree, object};
use serde_json::{Map, Value, json};

use super::{DIALECT, fence};

/// The keywords whose value is a schema.
const ONE: [&str; 11] = [
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Those whose value is a list of schemas.
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Those whose value is a map of schemas. `definitions` and `dependencies` are of older drafts; the library knows them.
const MAP: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// The most subschemas in one another.
const NESTED_MAX: usize = 32;

/// The keywords by which the meaning of a reference depends on more than the schema's text.
const DYNAMIC: [&str; 5] =
    ["$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef", "$vocabulary"];

/// The places that references lead to, each with the one that it has in the fenced schema; and the references.
#[derive(Default)]
struct References {
    places: BTreeMap<String, String>,
    taken: Vec<(String, String)>,
}

/// The place of a schema in the one that [`fenced`] puts in its place.
const INNER: &str = "/allOf/1";

/// The schema with a [fence](fence::KEYWORD) before each of its subschemas: each is the second of an `allOf` that begins with one. It
/// cannot stand among a subschema's own keywords, as the library calls keywords that it does not know last.
///
/// # Errors
/// The part of it that is not taken: another dialect, a reference that leads out of it or to no schema, too much nesting.
pub(super) fn fenced(mut schema: Value) -> Result<Value, String> {
    let root = schema.as_object().ok_or("must be a JSON object")?;
    match root.get("$schema").map(|dialect| dialect.as_str().unwrap_or_default().trim_end_matches('#')) {
        None | Some(DIALECT) => {}
        Some(other) => return Err(format!("$schema must be {DIALECT}, not {other:?}")),
    }
    // References are within the schema, whatever it is called.
    unname(&mut schema);
    let mut references = References::default();
    references.find(&mut schema, "#", "#", 0)?;
    for (at, reference) in &references.taken {
        if !references.places.contains_key(reference) {
            return Err(format!(
                "{at}/$ref must lead to a schema within it, such as #/$defs/name; {reference:?} does not"
            ));
        }
    }
    fence_in(&mut schema, &references.places);
    Ok(schema)
}

impl References {
    /// Finds those of a schema at this place, which it has at the other one in the fenced schema.
    fn find(&mut self, schema: &mut Value, at: &str, fenced_at: &str, nested: usize) -> Result<(), String> {
        self.places.insert(at.to_owned(), fenced_at.to_owned());
        let Value::Object(map) = schema else { return Ok(()) };
        if nested > NESTED_MAX {
            return Err(format!("{at} must not be in more than {NESTED_MAX} others"));
        }
        for name in DYNAMIC.into_iter().chain(["$id", "$schema"]) {
            if map.contains_key(name) {
                return Err(format!("{at}/{name} is not taken in a type's JSON Schema"));
            }
        }
        if let Some(Value::String(anchor)) = map.get("$anchor") {
            self.places.insert(format!("#{anchor}"), fenced_at.to_owned());
        }
        if let Some(Value::String(reference)) = map.get("$ref") {
            self.taken.push((at.to_owned(), reference.clone()));
        }
        for (step, part) in parts(map) {
            self.find(part, &format!("{at}{step}"), &format!("{fenced_at}{INNER}{step}"), nested + 1)?;
        }
        Ok(())
    }
}

fn fence_in(schema: &mut Value, places: &BTreeMap<String, String>) {
    let Value::Object(map) = schema else { return };
    let fence = json!({fence::KEYWORD: fence::Fence::of(map)});
    // Its place is known by another name now.
    map.remove("$anchor");
    if let Some(Value::String(reference)) = map.get_mut("$ref")
        && let Some(place) = places.get(reference)
    {
        reference.clone_from(place);
    }
    for (_, part) in parts(map) {
        fence_in(part, places);
    }
    *schema = json!({"allOf": [fence, schema.take()]});
}

/// The subschemas directly in a schema, with the steps to them.
fn parts(schema: &mut Map<String, Value>) -> Vec<(String, &mut Value)> {
    let mut parts = Vec::new();
    for (name, value) in schema.iter_mut() {
        let place = |step: &str| format!("/{name}/{}", step.replace('~', "~0").replace('/', "~1"));
        if ONE.contains(&name.as_str()) {
            parts.push((format!("/{name}"), value));
            continue;
        }
        match value {
            Value::Array(items) if LIST.contains(&name.as_str()) => {
                parts.extend(items.iter_mut().enumerate().map(|(i, item)| (place(&i.to_string()), item)));
            }
            Value::Object(map) if MAP.contains(&name.as_str()) => {
                parts.extend(map.iter_mut().map(|(key, part)| (place(key), part)));
            }
            _ => {}
        }
    }
    parts
}

/// The place of a whole schema in the JSON Schema of a type.
const PLACE: &str = "whole";

/// A whole schema as a part of another; none if the text is no schema.
pub(super) fn embedded(text: &str) -> Option<Tree> {
    let mut schema: Value = serde_json::from_str(text).ok()?;
    schema.as_object()?;
    unname(&mut schema);
    move_references(&mut schema, &format!("#/$defs/{PLACE}"));
    kindom_api::json::parse(schema.to_string().as_bytes()).ok()
}

/// A JSON Schema that the whole schema belongs to, too.
pub(super) fn join(json_schema: Tree, whole: Tree) -> Tree {
    let Tree::Object(mut root) = json_schema else { return whole };
    let mut all = match root.remove("allOf") {
        Some(Tree::Array(all)) => all,
        _ => Vec::new().into(),
    };
    all.push(object! { "$ref": format!("#/$defs/{PLACE}") });
    root.insert("$schema", DIALECT);
    root.insert("allOf", all);
    root.insert("$defs", kindom_api::Map::from_iter([(PLACE, whole)]));
    root.into()
}

/// A schema that holds for an object what the one of its `apiVersion` says.
pub(super) fn choice(schemas: Vec<(String, Value)>) -> Value {
    let (mut definitions, mut all) = (Map::new(), Vec::new());
    for (i, (api_version, mut schema)) in schemas.into_iter().enumerate() {
        let place = format!("version{i}");
        unname(&mut schema);
        move_references(&mut schema, &format!("#/$defs/{place}"));
        let is_it = json!({"properties": {"apiVersion": {"const": api_version}}});
        all.push(json!({"if": is_it, "then": {"$ref": format!("#/$defs/{place}")}}));
        definitions.insert(place, schema);
    }
    json!({"$schema": DIALECT, "$defs": definitions, "allOf": all})
}

/// Takes away what only the root of a document has.
fn unname(schema: &mut Value) {
    if let Some(root) = schema.as_object_mut() {
        root.remove("$schema");
        root.remove("$id");
    }
}

fn move_references(schema: &mut Value, to: &str) {
    let Value::Object(map) = schema else { return };
    if let Some(Value::String(reference)) = map.get_mut("$ref")
        && let Some(rest) =
            reference.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/'))
    {
        *reference = format!("{to}{rest}");
    }
    for (_, part) in parts(map) {
        move_references(part, to);
    }
}

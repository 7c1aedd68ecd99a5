//! The schema of a type as a JSON Schema of its own, for editors and validators.

use std::collections::BTreeSet;

use kindom_api::names::api_version;
use kindom_api::{Map, Value, object};
use kindom_formats::pattern;

use crate::whole::with_whole_schema;

use super::document::own_schemas;
use super::{
    Form, GroupVersionDoc, Names, TypeDoc, has_status, preserves_unknown_fields, published, shared,
    structural_schema,
};

/// The dialect, which every editor knows. What it shares with later ones means the same in them.
const DIALECT: &str = "http://json-schema.org/draft-07/schema#";
const DEFINITIONS: &str = "#/definitions/";

/// The formats that mean the same in JSON Schema, or nothing; of times the server also takes some with an odd zone. It reads others
/// more widely: as a URI a path, as an address one with its owner's name, as a UUID one without dashes, as IPv4 zeros in front, as
/// a duration Go's.
const FORMATS: [&str; 9] =
    ["date", "date-time", "double", "float", "int-or-string", "int32", "int64", "ipv6", "password"];

/// A JSON Schema of the manifests of a type: it accepts those that the server accepts, and of the others all that only the server
/// can refuse: for a rule in CEL, a rule of names, two items with the same keys, a pattern that other programs read otherwise, or a
/// rule about fields that have defaults.
///
/// Fields that the server does not know are refused, as with `fieldValidation=Strict`, and so is a null that the type's schema does
/// not allow, though the server would drop it.
#[must_use]
pub fn json_schema(gv: &GroupVersionDoc<'_>, doc: &TypeDoc<'_>) -> Value {
    let names = Names::of(gv, doc);
    let (own, shared) = (own_schemas(gv, doc, &names), shared());
    let known = |name: &str| {
        let schema = own.get(name).or_else(|| shared.at(&["schemas", name])).and_then(Value::as_object);
        schema.cloned().unwrap_or_default()
    };
    let mut references = References::default();
    let mut root = match doc.built_in {
        true => node(&known(&names.schema), Unknown::OfFields, &mut references),
        false => registered(gv, doc, &mut references),
    };
    identify(&mut root, gv, doc);
    let mut definitions = Map::new();
    while let Some(name) = references.due.pop() {
        let schema = node(&known(&name), Unknown::OfFields, &mut references);
        definitions.insert(name, schema);
    }
    root.insert("$schema", DIALECT);
    root.insert("title", format!("{} of {}", doc.kind, api_version(gv.group, gv.version)));
    if !definitions.is_empty() {
        root.insert("definitions", definitions);
    }
    root.into()
}

/// The [`json_schema`] of a version of a registration, in the form of `apiextensions.k8s.io/v1`.
#[must_use]
pub fn json_schema_of(registration: &Value, version: &str) -> Value {
    let doc = TypeDoc {
        plural: registration.text_at(&["spec", "names", "plural"]),
        kind: registration.text_at(&["spec", "names", "kind"]),
        list_kind: "",
        namespaced: registration.text_at(&["spec", "scope"]) == "Namespaced",
        schema: structural_schema(registration, version),
        preserve_unknown_fields: preserves_unknown_fields(registration),
        status: has_status(registration, version),
        // What follows concerns paths and lists alone.
        scale: false,
        declared: Vec::new(),
        selectable_fields: Vec::new(),
        built_in: false,
        only_created: false,
        clears: false,
        declaration: None,
        strategic_merge_patch: false,
    };
    let schema =
        json_schema(&GroupVersionDoc { group: registration.text_at(&["spec", "group"]), version }, &doc);
    with_whole_schema(schema, registration)
}

/// The schemas that others refer to.
#[derive(Default)]
struct References {
    seen: BTreeSet<String>,
    due: Vec<String>,
}

impl References {
    fn take(&mut self, reference: &str) -> String {
        let name = reference.strip_prefix(Form::V3.schemas()).unwrap_or(reference);
        if self.seen.insert(name.to_owned()) {
            self.due.push(name.to_owned());
        }
        format!("{DEFINITIONS}{name}")
    }
}

/// The objects that may not have other fields than those that their schema names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    /// None, as below junctors.
    Anything,
    /// Those with fields: of a struct without any the server knows more than it publishes.
    OfFields,
    /// All that do not keep unknown fields, as the server prunes them.
    Pruned,
    /// As `Pruned`, of an item of a list that keeps unknown fields: they are kept in it, too.
    Kept,
}

/// The schema of a registered type.
fn registered(gv: &GroupVersionDoc<'_>, doc: &TypeDoc<'_>, references: &mut References) -> Map {
    let published = published::object(gv, doc, Form::V3);
    let keeps = doc.schema.is_none() || doc.preserve_unknown_fields;
    let unknown = if keeps { Unknown::Anything } else { Unknown::Pruned };
    let mut root = node(published.as_object().unwrap_or(&Map::new()), unknown, references);
    // A create drops it, whatever it is.
    if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut).filter(|_| doc.status)
        && let Some(status) = properties.get_mut("status")
    {
        *status = object! { "description": status.text_at(&["description"]) };
    }
    // The rules of names, in the place of which ObjectMeta is published.
    let rules =
        doc.schema.and_then(|schema| schema.at(&["properties", "metadata"])).and_then(Value::as_object);
    if let Some(rules) = rules.filter(|rules| rules.contains_key("properties")) {
        let rules = node(rules, Unknown::Anything, references);
        let all =
            root.get_mut("properties").and_then(|p| p.get_mut("metadata")).and_then(|m| m.get_mut("allOf"));
        if let Some(all) = all.and_then(Value::as_array_mut) {
            all.push(rules.into());
        }
    }
    root
}

/// Adds what every manifest of the type has.
fn identify(root: &mut Map, gv: &GroupVersionDoc<'_>, doc: &TypeDoc<'_>) {
    let properties = root.entry_or_insert_with("properties", || Map::new().into());
    for (field, value) in [("apiVersion", api_version(gv.group, gv.version)), ("kind", doc.kind.to_owned())] {
        if let Some(properties) = properties.as_object_mut() {
            let property = properties.entry_or_insert_with(field, || object! { "type": "string" });
            if let Some(property) = property.as_object_mut() {
                property.insert("enum", vec![value]);
            }
        }
    }
    let required = root.entry_or_insert_with("required", || Value::Array(Vec::new().into()));
    if let Some(required) = required.as_array_mut() {
        // A question has no name.
        let fields =
            ["apiVersion", "kind", "metadata"].into_iter().filter(|f| *f != "metadata" || !doc.only_created);
        for field in fields {
            if !required.iter().any(|known| known.as_str() == Some(field)) {
                required.push(field.into());
            }
        }
    }
}

/// A subschema of OpenAPI's.
fn node(schema: &Map, unknown: Unknown, references: &mut References) -> Map {
    let is = |keyword: &str| schema.get(keyword).and_then(Value::as_bool) == Some(true);
    let is_pruned = matches!(unknown, Unknown::Pruned | Unknown::Kept);
    let keeps = is("x-kubernetes-preserve-unknown-fields") || unknown == Unknown::Kept;
    let of_fields = if is_pruned { Unknown::Pruned } else { unknown };
    let of_items = if is_pruned && keeps { Unknown::Kept } else { unknown };
    let mut child = |schema: &Value, unknown| match schema {
        Value::Object(schema) => Value::Object(node(schema, unknown, references)),
        other => other.clone(),
    };
    let mut out = Map::new();
    for (keyword, value) in schema.iter() {
        match (keyword, value) {
            ("properties", Value::Object(fields)) => {
                let fields = fields.iter().map(|(name, schema)| (name, child(schema, of_fields)));
                out.insert(keyword, fields.collect::<Map>());
            }
            ("items", schema) => drop(out.insert(keyword, child(schema, of_items))),
            ("additionalProperties", schema) => drop(out.insert(keyword, child(schema, of_fields))),
            ("not" | "allOf" | "anyOf" | "oneOf", value) if is_pruned && !is_exact(value, schema) => {}
            ("not", schema) => drop(out.insert(keyword, child(schema, Unknown::Anything))),
            ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => {
                let branches = branches.iter().map(|schema| child(schema, Unknown::Anything));
                out.insert(keyword, branches.collect::<Vec<_>>());
            }
            ("$ref" | "nullable" | "externalDocs", _) => {}
            _ => {
                if let Some((keyword, value)) = own_keyword(keyword, value, schema, unknown) {
                    out.insert(keyword, value);
                }
            }
        }
    }
    if let Some(Value::String(reference)) = schema.get("$ref") {
        out.insert("$ref", references.take(reference));
    }
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    let closes = match unknown {
        Unknown::Anything => false,
        Unknown::OfFields => out.contains_key("properties"),
        Unknown::Pruned | Unknown::Kept => is_object && !keeps,
    };
    if closes && !out.contains_key("additionalProperties") {
        out.insert("additionalProperties", false);
    }
    if is("nullable") { or_null(out) } else { out }
}

/// A keyword without subschemas, in the dialect; none if it is left out.
fn own_keyword<'a>(
    keyword: &'a str,
    value: &Value,
    schema: &Map,
    unknown: Unknown,
) -> Option<(&'a str, Value)> {
    let is = |keyword: &str| schema.get(keyword).and_then(Value::as_bool) == Some(true);
    let is_spine = unknown != Unknown::Anything;
    let value = match (keyword, value) {
        ("minimum", _) if is("exclusiveMinimum") => return Some(("exclusiveMinimum", value.clone())),
        ("maximum", _) if is("exclusiveMaximum") => return Some(("exclusiveMaximum", value.clone())),
        ("exclusiveMinimum" | "exclusiveMaximum", _) => return None,
        ("example", _) => return Some(("examples", vec![value.clone()].into())),
        ("pattern", Value::String(pattern)) => pattern::ecma(pattern)?.into(),
        ("format", Value::String(format)) if !is_known(format) => return None,
        // A field that the client leaves out gets its default before it is missed.
        ("required", Value::Array(names)) if is_spine => {
            let names = names.iter().filter(|name| !has_default(schema, name.as_str().unwrap_or_default()));
            let names: Vec<Value> = names.cloned().collect();
            return (!names.is_empty()).then(|| (keyword, names.into()));
        }
        ("minProperties" | "enum", _) if is_spine && has_defaults(schema) => return None,
        ("x-kubernetes-list-type", Value::String(list)) => {
            let refuses = list == "set" && matches!(unknown, Unknown::Pruned | Unknown::Kept);
            return refuses.then(|| ("uniqueItems", true.into()));
        }
        _ if keyword.starts_with("x-") => return None,
        _ => value.clone(),
    };
    Some((keyword, value))
}

fn has_default(schema: &Map, field: &str) -> bool {
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.and_then(|fields| fields.get(field)).is_some_and(|field| field.get("default").is_some())
}

/// True for the schema of an object that fields are added to.
fn has_defaults(schema: &Map) -> bool {
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.is_some_and(|fields| fields.values().any(|field| field.get("default").is_some()))
}

fn is_known(format: &str) -> bool {
    FORMATS.contains(&format)
}

/// False for a rule about fields that are as the client left them only until they get their defaults, and for one that could not be
/// written down as it is: `not` and `oneOf` would refuse what it accepts. `spine` is the schema of the value that it is about.
fn is_exact(rule: &Value, spine: &Map) -> bool {
    let rule = match rule {
        Value::Array(branches) => return branches.iter().all(|branch| is_exact(branch, spine)),
        Value::Object(rule) => rule,
        _ => return true,
    };
    let empty = Map::new();
    let of = |keyword: &str| spine.get(keyword).and_then(Value::as_object).unwrap_or(&empty);
    let fields = of("properties");
    let field = |name: &str| fields.get(name).and_then(Value::as_object).unwrap_or(&empty);
    rule.iter().all(|(keyword, value)| match (keyword, value) {
        ("properties", Value::Object(rules)) => {
            rules.iter().all(|(name, rule)| !has_default(spine, name) && is_exact(rule, field(name)))
        }
        ("required", Value::Array(names)) => {
            names.iter().all(|name| !has_default(spine, name.as_str().unwrap_or_default()))
        }
        ("minProperties" | "maxProperties" | "enum", _) => !has_defaults(spine),
        ("items" | "additionalProperties", rule) => is_exact(rule, of(keyword)),
        ("not" | "allOf" | "anyOf" | "oneOf", rules) => is_exact(rules, spine),
        ("pattern", Value::String(pattern)) => pattern::ecma(pattern).is_some(),
        ("format", Value::String(format)) => is_known(format),
        _ => true,
    })
}

/// A subschema that accepts null, too. An enumeration stays as it is: the server compares null with it.
fn or_null(mut schema: Map) -> Map {
    let junctors = ["allOf", "anyOf", "oneOf", "not", "$ref"];
    match schema.get("type").cloned() {
        Some(Value::String(kind)) if !junctors.iter().any(|junctor| schema.contains_key(junctor)) => {
            schema.insert("type", vec![kind.as_str(), "null"]);
            schema
        }
        _ => {
            let mut null = Map::new();
            null.insert("type", "null");
            if let Some(values) = schema.get("enum") {
                null.insert("enum", values.clone());
            }
            let mut out = Map::new();
            for words in ["title", "description", "default"] {
                if let Some(value) = schema.remove(words) {
                    out.insert(words, value);
                }
            }
            out.insert("anyOf", vec![Value::Object(schema), Value::Object(null)]);
            out
        }
    }
}

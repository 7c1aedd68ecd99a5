//! The part of another server's v2 document that is about one group-version (kube-openapi `pkg/aggregator`, kube-aggregator
//! `pkg/controllers/openapi/aggregator`, 0.37).
//!
//! **Guarantees.** Whatever another server says, its part does no harm to the document that it is merged into: members of
//! another type than OpenAPI's are left out, and a schema that kubectl could not read (kube-openapi `pkg/util/proto`, where one
//! is an error for the whole document) allows any value instead.

use std::collections::{BTreeMap, BTreeSet};

use kindom_api::{Map, Value, json, object};
use sha2::{Digest as _, Sha256};

use super::Form;
use super::messages::{
    BODY_PARAMETER, Field, Kind, Message, PATH_ITEM, PATH_PARAMETER, QUERY_PARAMETER, REFERENCE, RESPONSE,
    SCHEMA,
};

/// The deepest that a document may be nested.
const DEPTH_MAX: usize = 100;
const PARAMETERS: &str = "#/parameters/";
const GVK: &str = "x-kubernetes-group-version-kind";

/// The part of another server's v2 document that is about one group-version, as compact JSON: several hundred bytes a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteDoc {
    text: Vec<u8>,
    hash: String,
}

impl RemoteDoc {
    /// Cuts the part out of a document; `None` if there is none, or it is nested too deep to be read by everybody.
    #[must_use]
    pub fn cut(document: &Value, group: &str, version: &str) -> Option<Self> {
        if !document.nests_within(DEPTH_MAX) {
            return None;
        }
        let prefix = format!("/apis/{group}/{version}/");
        let mut paths = Map::new();
        for (path, item) in document.get("paths").and_then(Value::as_object)?.iter() {
            if path.starts_with(&prefix) && item.as_object().is_some() {
                paths.insert(path, fit(item, &PATH_ITEM));
            }
        }
        let mut part = Part { paths, ..Part::default() };
        let mut wanted = References::default();
        part.paths.values().for_each(|item| wanted.find(item));
        while let Some(found) = wanted.pending.pop() {
            // One that is not there allows any value.
            let there = |member, name| document.at(&[member, name]).cloned().unwrap_or_else(|| object! {});
            if let Some(name) = found.strip_prefix(PARAMETERS) {
                let value = parameter(&there("parameters", name));
                wanted.find(&value);
                part.parameters.insert(name, value);
            } else if let Some(name) = found.strip_prefix(Form::V2.schemas()) {
                let value = fit(&there("definitions", name), &SCHEMA);
                wanted.find(&value);
                part.schemas.insert(name, value);
            }
        }
        if part.paths.is_empty() {
            return None;
        }
        let text = part.to_value().to_vec();
        let hash = Sha256::digest(&text).iter().map(|byte| format!("{byte:02X}")).collect();
        Some(Self { text, hash })
    }

    /// Identifies the content.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    pub(super) fn part(&self) -> Part {
        // It is what `cut` has written.
        let mut value = json::parse_own(&self.text).unwrap_or_default();
        let mut take = |member| match value.as_object_mut().and_then(|map| map.remove(member)) {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        Part { paths: take("paths"), schemas: take("definitions"), parameters: take("parameters") }
    }
}

/// The members of a document that are merged.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) paths: Map,
    pub(super) schemas: Map,
    pub(super) parameters: Map,
}

impl Part {
    fn to_value(&self) -> Value {
        object! {
            "paths": Value::Object(self.paths.clone()),
            "definitions": Value::Object(self.schemas.clone()),
            "parameters": Value::Object(self.parameters.clone()),
        }
    }
}

/// The references of a document, each once.
#[derive(Default)]
struct References {
    known: BTreeSet<String>,
    pending: Vec<String>,
}

impl References {
    fn find(&mut self, value: &Value) {
        each_reference(value, &mut |to| {
            if self.known.insert(to.to_owned()) {
                self.pending.push(to.to_owned());
            }
        });
    }
}

fn each_reference(value: &Value, call: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter() {
                match value.as_str() {
                    Some(to) if name == "$ref" => call(to),
                    _ => each_reference(value, call),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| each_reference(item, call)),
        _ => {}
    }
}

/// The members of a message that have the type of their field.
fn fit(value: &Value, message: &Message) -> Value {
    let mut out = Map::new();
    for (name, value) in value.as_object().into_iter().flat_map(Map::iter) {
        if message.extensions != 0 && name.starts_with("x-") {
            out.insert(name, value.clone());
        } else if let Some(Field(_, _, kind)) = message.fields.iter().find(|field| field.0 == name)
            && let Some(value) = fit_field(value, *kind)
        {
            out.insert(name, value);
        }
    }
    if std::ptr::eq(message, &raw const SCHEMA) {
        readable(&mut out);
    }
    Value::Object(out)
}

fn fit_field(value: &Value, kind: Kind) -> Option<Value> {
    let is_map = value.as_object().is_some();
    let schema = || is_map.then(|| fit(value, &SCHEMA));
    let each = |fit: &dyn Fn(&Value) -> Option<Value>| -> Option<Value> {
        let items: Vec<Value> = value.as_array()?.iter().filter_map(fit).collect();
        Some(items.into())
    };
    let named = |message: &'static Message| -> Option<Value> {
        let members = value.as_object()?.iter().filter(|(_, value)| value.as_object().is_some());
        Some(Value::Object(members.map(|(name, value)| (name.to_owned(), fit(value, message))).collect()))
    };
    let has_type = match kind {
        Kind::Text => value.as_str().is_some(),
        Kind::Bool => value.as_bool().is_some(),
        Kind::Integer => value.as_i64().is_some(),
        Kind::Double => value.as_f64().is_some(),
        Kind::Any => true,
        Kind::Anys => value.as_array().is_some(),
        Kind::Texts => return each(&|item| item.as_str().map(Value::from)),
        Kind::One(message) => return is_map.then(|| fit(value, message)),
        Kind::Named(message) => return named(message),
        Kind::Type => return only_type(value),
        Kind::Items | Kind::ResponseSchema => return schema(),
        Kind::Schemas => return each(&|item| item.as_object().map(|_| fit(item, &SCHEMA))),
        Kind::SchemaOrBool => return value.as_bool().map(Value::Bool).or_else(schema),
        Kind::Parameters => return each(&|item| item.as_object().map(|_| parameter(item))),
        Kind::Responses => return named(&RESPONSE),
    };
    has_type.then(|| value.clone())
}

/// The type of a schema, if it has one alone.
fn only_type(value: &Value) -> Option<Value> {
    match value {
        Value::Array(types) => match types.as_slice() {
            [one] => one.as_str().map(Value::from),
            _ => None,
        },
        other => other.as_str().map(Value::from),
    }
}

fn parameter(value: &Value) -> Value {
    let is_reference = value.get("$ref").and_then(Value::as_str).is_some_and(|to| to.starts_with(PARAMETERS));
    let message = match value.get("in").and_then(Value::as_str) {
        _ if is_reference => &REFERENCE,
        Some("body") => &BODY_PARAMETER,
        Some("path") => &PATH_PARAMETER,
        _ => &QUERY_PARAMETER,
    };
    fit(value, message)
}

/// Takes from a schema what makes it an error for `ParseSchema` of kube-openapi `pkg/util/proto`.
fn readable(schema: &mut Map) {
    let reference =
        schema.get("$ref").map(|to| to.as_str().unwrap_or_default().starts_with(Form::V2.schemas()));
    match reference {
        Some(true) => {
            schema.remove("type");
            schema.remove("properties");
            return;
        }
        Some(false) => drop(schema.remove("$ref")),
        None => {}
    }
    let is_known = match schema.get("type").and_then(Value::as_str) {
        Some("array") => schema.get("items").is_some(),
        None | Some("object" | "string" | "number" | "integer" | "boolean") => true,
        Some(_) => false,
    };
    if !is_known {
        schema.remove("type");
    }
}

/// The names that a document has given away, each with the content behind it; `None` if it is nobody else's.
#[derive(Debug, Default)]
pub(super) struct Taken(BTreeMap<String, Option<[u8; 32]>>);

/// The names that the schemas or parameters of a part have in the document, by their own; those that are there already.
#[derive(Debug, Default)]
pub(super) struct Placed {
    names: BTreeMap<String, String>,
    shared: BTreeSet<String>,
}

impl Taken {
    /// Gives a name away to a schema that no other is compared with.
    pub(super) fn keep(&mut self, name: &str) {
        self.0.entry(name.to_owned()).or_default();
    }

    pub(super) fn keep_value(&mut self, name: &str, value: &Value) {
        self.0.insert(name.to_owned(), Some(content(value)));
    }

    /// Finds a name for each schema of a part: its own, unless it is taken by another schema
    /// (`MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters`).
    pub(super) fn place(&mut self, part: &Map) -> Placed {
        let mut placed = Placed::default();
        for (own, value) in part.iter() {
            let content = content(value);
            let mut name = own.to_owned();
            let mut number = 1;
            loop {
                match self.0.get(&name) {
                    Some(Some(there)) if *there == content => {
                        placed.shared.insert(own.to_owned());
                        break;
                    }
                    // A name that another schema of the part has by itself is not free either.
                    None if number == 1 || part.get(&name).is_none() => {
                        self.0.insert(name.clone(), Some(content));
                        break;
                    }
                    _ => {}
                }
                number += 1;
                name = format!("{own}_v{number}");
            }
            placed.names.insert(own.to_owned(), name);
        }
        placed
    }
}

impl Placed {
    /// The name of a schema in the document, if it is not there already.
    pub(super) fn name(&self, own: &str) -> Option<&str> {
        if self.shared.contains(own) { None } else { self.names.get(own).map(String::as_str) }
    }
}

/// Makes the references of a part those of the document.
pub(super) fn refer(value: &mut Value, schemas: &Placed, parameters: &Placed) {
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                match value.as_str() {
                    Some(to) if name == "$ref" => {
                        let (prefix, placed) = match to.starts_with(PARAMETERS) {
                            true => (PARAMETERS, parameters),
                            false => (Form::V2.schemas(), schemas),
                        };
                        let moved = to.strip_prefix(prefix).and_then(|own| placed.names.get(own));
                        if let Some(name) = moved {
                            *value = format!("{prefix}{name}").into();
                        }
                    }
                    _ => refer(value, schemas, parameters),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| refer(item, schemas, parameters)),
        _ => {}
    }
}

/// Hashes a schema, but for the kinds that it is for (`deepEqualDefinitionsModuloGVKs`). The order of members does not count.
fn content(value: &Value) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hash_into(value, true, &mut hasher);
    hasher.finalize().into()
}

fn hash_into(value: &Value, is_outer: bool, hasher: &mut Sha256) {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().filter(|(name, _)| !is_outer || *name != GVK).collect();
            members.sort_by_key(|(name, _)| *name);
            hasher.update(format!("{{{}", members.len()));
            for (name, value) in members {
                hasher.update(format!("{}:{name}", name.len()));
                hash_into(value, false, hasher);
            }
        }
        Value::Array(items) => {
            hasher.update(format!("[{}", items.len()));
            items.iter().for_each(|item| hash_into(item, false, hasher));
        }
        other => {
            let text = other.to_vec();
            hasher.update(format!("{}=", text.len()));
            hasher.update(&text);
        }
    }
}

//! Schemas as the recorded cases have them, as declarations and as shapes. The schema crate has its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use kindom_api::Value as Json;
use kindom_cel::decl::{Decl, Kind, Object};
use kindom_cel::shape::{Shape, ShapeKind};
use kindom_cel::types::Type;
use kindom_cel::value::escape;

/// A schema as evaluation sees it.
#[derive(Debug)]
pub(crate) struct Seen {
    kind: ShapeKind,
    fields: BTreeMap<String, Seen>,
    values: Option<Box<Seen>>,
    items: Option<Box<Seen>>,
    keys: Vec<Box<str>>,
}

impl Shape for Seen {
    fn kind(&self) -> ShapeKind {
        self.kind
    }

    fn field(&self, name: &str) -> Option<&dyn Shape> {
        let values = self.values.as_deref().map(|values| values as &dyn Shape);
        self.fields.get(name).map(|field| field as &dyn Shape).or(values)
    }

    fn items(&self) -> Option<&dyn Shape> {
        self.items.as_deref().map(|items| items as &dyn Shape)
    }

    fn map_keys(&self) -> &[Box<str>] {
        &self.keys
    }
}

fn is(schema: &Json, field: &str) -> bool {
    schema.get(field).and_then(Json::as_bool) == Some(true)
}

fn text<'s>(schema: &'s Json, field: &str) -> &'s str {
    schema.get(field).and_then(Json::as_str).unwrap_or("")
}

/// The schema with the fields that the root of a resource always has.
pub(crate) fn rooted(schema: &Json) -> Json {
    let mut schema = schema.clone();
    let string = || kindom_api::json::parse(br#"{"type": "string"}"#).unwrap();
    let mut meta = kindom_api::Map::new();
    meta.insert("name", string());
    meta.insert("generateName", string());
    let mut metadata = kindom_api::Map::new();
    metadata.insert("type", "object");
    metadata.insert("properties", meta);
    let fields = schema.as_object_mut().unwrap();
    let properties = fields.entry_or_insert_with("properties", || Json::Object(kindom_api::Map::new()));
    let properties = properties.as_object_mut().unwrap();
    properties.insert("apiVersion", string());
    properties.insert("kind", string());
    properties.insert("metadata", metadata);
    schema
}

impl Seen {
    pub(crate) fn new(schema: &Json) -> Self {
        let embedded = is(schema, "x-kubernetes-embedded-resource");
        let schema = &if embedded { rooted(schema) } else { schema.clone() };
        let mut seen = Self {
            kind: ShapeKind::Dyn,
            fields: BTreeMap::new(),
            values: None,
            items: schema.get("items").map(|items| Box::new(Self::new(items))),
            keys: Vec::new(),
        };
        if is(schema, "x-kubernetes-int-or-string") {
            seen.kind = ShapeKind::IntOrString;
            return seen;
        }
        seen.kind =
            match (text(schema, "type"), text(schema, "format"), text(schema, "x-kubernetes-list-type")) {
                ("boolean", ..) => ShapeKind::Bool,
                ("integer", ..) => ShapeKind::Int,
                ("number", ..) => ShapeKind::Double,
                ("string", "byte", _) => ShapeKind::Bytes,
                ("string", "date", _) => ShapeKind::Date,
                ("string", "date-time", _) => ShapeKind::DateTime,
                ("string", "duration", _) => ShapeKind::Duration,
                ("string", ..) => ShapeKind::String,
                ("array", _, "set") => ShapeKind::Set,
                ("array", _, "map") => ShapeKind::ListMap,
                ("array", ..) => ShapeKind::List,
                ("object", ..) => match schema.get("additionalProperties") {
                    Some(values @ Json::Object(_)) => {
                        seen.values = Some(Box::new(Self::new(values)));
                        ShapeKind::Map
                    }
                    _ => ShapeKind::Object,
                },
                _ => ShapeKind::Dyn,
            };
        if let Some(properties) = schema.get("properties").and_then(Json::as_object) {
            seen.fields = properties.iter().map(|(name, of)| (name.to_owned(), Self::new(of))).collect();
        }
        if let Some(keys) = schema.get("x-kubernetes-list-map-keys").and_then(Json::as_array) {
            seen.keys = keys.iter().filter_map(Json::as_str).map(Into::into).collect();
        }
        seen
    }
}

/// The declaration of a schema, if it has one.
pub(crate) fn declare(schema: &Json, name: &str) -> Option<Decl> {
    let embedded = is(schema, "x-kubernetes-embedded-resource");
    let schema = &if embedded { rooted(schema) } else { schema.clone() };
    let plain = |of| Some(Decl { kind: Kind::Plain(of), ..Decl::default() });
    if is(schema, "x-kubernetes-int-or-string") {
        return plain(Type::Dyn);
    }
    match (text(schema, "type"), text(schema, "format")) {
        ("boolean", _) => plain(Type::Bool),
        ("integer", _) => plain(Type::Int),
        ("number", _) => plain(Type::Double),
        ("string", "byte") => plain(Type::Bytes),
        ("string", "date" | "date-time") => plain(Type::Timestamp),
        ("string", "duration") => plain(Type::Duration),
        ("string", _) => plain(Type::String),
        ("array", _) => {
            let item = declare(schema.get("items")?, &format!("{name}.@idx"))?;
            Some(Decl { kind: Kind::List(Arc::new(item)), ..Decl::default() })
        }
        ("object", _) => {
            if let Some(values @ Json::Object(_)) = schema.get("additionalProperties") {
                let values = declare(values, &format!("{name}.@elem"))?;
                let key = Decl { kind: Kind::Plain(Type::String), ..Decl::default() };
                return Some(Decl { kind: Kind::Map(Arc::new((key, values))), ..Decl::default() });
            }
            let mut fields = BTreeMap::new();
            for (field, of) in
                schema.get("properties").and_then(Json::as_object).into_iter().flat_map(|p| p.iter())
            {
                let escaped = escape(field).map(std::borrow::Cow::into_owned);
                if let (Some(escaped), Some(decl)) = (escaped, declare(of, &format!("{name}.{field}"))) {
                    fields.insert(escaped.into(), decl);
                }
            }
            let object = Object { name: name.to_owned(), fields };
            Some(Decl { kind: Kind::Object(Arc::new(object)), ..Decl::default() })
        }
        _ => None,
    }
}

/// A recorded value with its repetitions written out.
pub(crate) fn expanded(value: &Json) -> Json {
    if let Some(repeat) = value.get("$repeat") {
        let count = usize::try_from(repeat.get("count").and_then(Json::as_i64).unwrap()).unwrap();
        if let Some(text) = repeat.get("text").and_then(Json::as_str) {
            return Json::String(text.repeat(count));
        }
        let item = repeat.get("item").unwrap();
        return Json::Array((0..count).map(|i| numbered(&expanded(item), i)).collect());
    }
    match value {
        Json::Array(items) => Json::Array(items.iter().map(expanded).collect()),
        Json::Object(map) => {
            let mut made = kindom_api::Map::new();
            for (key, value) in map.iter() {
                made.insert(key, expanded(value));
            }
            Json::Object(made)
        }
        other => other.clone(),
    }
}

fn numbered(value: &Json, i: usize) -> Json {
    match value {
        Json::String(text) => Json::String(text.replace("$i", &i.to_string())),
        Json::Array(items) => Json::Array(items.iter().map(|item| numbered(item, i)).collect()),
        Json::Object(map) => {
            let mut made = kindom_api::Map::new();
            for (key, value) in map.iter() {
                made.insert(key, numbered(value, i));
            }
            Json::Object(made)
        }
        other => other.clone(),
    }
}

//! The fields of registrations in all their faces.
//!
//! `built_in.json` has a section per group-version, and one for the schemas that all versions of a group share; `#Name` in
//! it refers to a schema of the same group-version. A test compares it with upstream's publication, except for the
//! descriptions.

use kindom_api::faces::Face;
use kindom_api::{Map, Value, json};

use super::{Form, GroupVersionDoc, SCALE, gvk, published, registered_prefix, shared};

const BUILT_IN: &str = include_str!("built_in.json");

/// The prefix of the names of built-in types' schemas; `None` where upstream has no name of its own.
pub(super) fn prefix(gv: &GroupVersionDoc<'_>) -> Option<String> {
    let package = match gv.group {
        "apiextensions.k8s.io" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        _ => return None,
    };
    Some(format!("{package}.{}.", gv.version))
}

/// The schemas of a built-in type in a group-version, by their whole names, as v3 has them.
pub(super) fn schemas(gv: &GroupVersionDoc<'_>, kind: &str, prefix: &str) -> Map {
    // The text is part of the program, and a test parses it.
    let all = json::parse(BUILT_IN.as_bytes()).unwrap_or_default();
    // The same fields under names of our own: a host has upstream's, and merges its documents with ours by name.
    let described = if gv.group == Face::Aggregated.group() { Face::V1.group() } else { gv.group };
    let version = kindom_api::names::api_version(described, gv.version);
    let sections = [described, version.as_str()].map(|section| all.get(section).and_then(Value::as_object));
    let mut out = Map::new();
    for (name, schema) in sections.into_iter().flatten().flat_map(Map::iter) {
        let mut schema = schema.clone();
        resolve(&mut schema, prefix);
        if let Some(schema) = schema.as_object_mut().filter(|_| name == kind) {
            published::add_type_meta(schema);
            schema.insert("x-kubernetes-group-version-kind", vec![gvk(gv, name)]);
        }
        out.insert(format!("{prefix}{name}"), schema);
    }
    out
}

/// A built-in type: where it is served, and the name of its schema among [`models`].
pub(crate) struct BuiltInType {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) model: String,
}

/// All schemas of built-in types by what refers to them, as v3 has them, and the types.
pub(crate) fn models() -> (Vec<(String, Value)>, Vec<BuiltInType>) {
    const TYPES: [(&str, &str, &str); 3] = [
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        ("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition"),
        ("apiextension.k8s.io", "v1beta1", "ThirdPartyResource"),
    ];
    let mut all = shared().get("schemas").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut types =
        vec![BuiltInType { group: "autoscaling", version: "v1", kind: "Scale", model: SCALE.to_owned() }];
    for (group, version, kind) in TYPES {
        let gv = GroupVersionDoc { group, version };
        let prefix = prefix(&gv).unwrap_or_else(|| registered_prefix(&gv));
        for (name, schema) in schemas(&gv, kind, &prefix) {
            all.insert(name, schema);
        }
        types.push(BuiltInType { group, version, kind, model: format!("{prefix}{kind}") });
    }
    let referred = |name: &str| format!("{}{name}", Form::V3.schemas());
    types.iter_mut().for_each(|known| known.model = referred(&known.model));
    (all.into_iter().map(|(name, schema)| (referred(&name), schema)).collect(), types)
}

fn resolve(value: &mut Value, prefix: &str) {
    match value {
        Value::Object(map) => {
            for (keyword, value) in map.iter_mut() {
                match value {
                    Value::String(text) if keyword == "$ref" => {
                        if let Some(name) = text.strip_prefix('#').filter(|name| !name.starts_with('/')) {
                            *text = format!("{}{prefix}{name}", Form::V3.schemas());
                        }
                    }
                    value => resolve(value, prefix),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| resolve(item, prefix)),
        _ => {}
    }
}

/// A schema of this program's own, made for v3, as v2 has it: a reference stands beside its description, and there are
/// no defaults.
pub(super) fn to_v2(schema: &Value) -> Value {
    let Some(schema) = schema.as_object() else { return schema.clone() };
    let mut out = Map::new();
    for (keyword, value) in schema.iter() {
        match (keyword, value) {
            ("default", _) => {}
            // A text or a number, which v2 cannot say.
            ("oneOf", _) => drop(out.insert("type", "string")),
            ("$ref", Value::String(reference)) => drop(out.insert("$ref", reference_v2(reference))),
            ("allOf", Value::Array(of)) => {
                let reference = of.first().and_then(|of| of.get("$ref")).and_then(Value::as_str);
                out.insert("$ref", reference_v2(reference.unwrap_or_default()));
            }
            ("properties", Value::Object(fields)) => {
                let fields: Map = fields.iter().map(|(name, schema)| (name, to_v2(schema))).collect();
                out.insert("properties", fields);
            }
            ("items" | "additionalProperties", schema) => drop(out.insert(keyword, to_v2(schema))),
            (keyword, value) => drop(out.insert(keyword, value.clone())),
        }
    }
    out.into()
}

fn reference_v2(reference: &str) -> String {
    reference.replacen(Form::V3.schemas(), Form::V2.schemas(), 1)
}

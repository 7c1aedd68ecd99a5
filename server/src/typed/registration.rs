//! The registration of a typed kind.

use kindom_api::names::api_version;
use kindom_api::{Map, Value, json, object};
use kindom_objects::declared_subresources::SUBRESOURCES_ANNOTATION;
use kindom_objects::registration::{CONVERSION_ANNOTATION, CONVERSION_BY_PROGRAM};
use kindom_schema::whole;
use kube_core::schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter};
use schemars::generate::SchemaSettings;

use super::definition::{Definition, Resource};

/// The name of a kind's registration.
pub(super) fn name(definition: &Definition) -> String {
    format!("{}.{}", definition.plural, definition.group)
}

/// The registration of a kind, as a client would post it. `whole` has the whole schemas of its versions, by their `apiVersion`; `served`
/// the subresources that the program answers, and their verbs.
pub(super) fn registration(
    of: &Definition,
    versions: Vec<Value>,
    whole: Vec<(String, serde_json::Value)>,
    served: impl Iterator<Item = (&'static str, &'static [&'static str])>,
) -> Value {
    let texts = |texts: &[&str]| texts.iter().map(|text| Value::from(*text)).collect::<Vec<_>>();
    let mut names = object! {
        "plural": of.plural,
        "singular": of.singular,
        "kind": of.kind,
        "listKind": format!("{}List", of.kind),
    };
    for (field, listed) in [("shortNames", of.short_names), ("categories", of.categories)] {
        if !listed.is_empty() {
            set(&mut names, field, texts(listed));
        }
    }
    let mut metadata = object! { "name": name(of) };
    let mut annotations = Map::new();
    if versions.len() > 1 {
        annotations.insert(CONVERSION_ANNOTATION, CONVERSION_BY_PROGRAM);
    }
    if !whole.is_empty() {
        annotations.insert(whole::ANNOTATION, whole::of_versions(whole));
    }
    let served: Map = served.map(|(name, verbs)| (name, declaration(verbs))).collect();
    if !served.is_empty() {
        annotations.insert(SUBRESOURCES_ANNOTATION, Value::from(served).to_string());
    }
    if !annotations.is_empty() {
        set(&mut metadata, "annotations", annotations);
    }
    object! {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": object! {
            "group": of.group,
            "names": names,
            "scope": if of.namespaced { "Namespaced" } else { "Cluster" },
            "versions": versions,
        },
    }
}

/// The declaration of a subresource that the program answers.
fn declaration(verbs: &[&'static str]) -> Value {
    object! { "program": true, "verbs": verbs.iter().map(|verb| Value::from(*verb)).collect::<Vec<_>>() }
}

/// One version of a registration.
pub(super) fn version<T: Resource>(storage: bool) -> Value {
    let of = T::DEFINITION;
    let mut version = object! {
        "name": of.version,
        "served": true,
        "storage": storage,
        "schema": object! { "openAPIV3Schema": schema::<T>() },
    };
    if let Some(warning) = of.deprecated {
        set(&mut version, "deprecated", true);
        if !warning.is_empty() {
            set(&mut version, "deprecationWarning", warning);
        }
    }
    let mut subresources = Map::new();
    if of.status {
        subresources.insert("status", object! {});
    }
    if let Some(scale) = of.scale {
        let mut paths = object! { "specReplicasPath": scale.spec, "statusReplicasPath": scale.status };
        if let Some(selector) = scale.selector {
            set(&mut paths, "labelSelectorPath", selector);
        }
        subresources.insert("scale", paths);
    }
    if !subresources.is_empty() {
        set(&mut version, "subresources", subresources);
    }
    let columns: Vec<Value> = of.columns.iter().map(column).collect();
    if !columns.is_empty() {
        let age = object! { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" };
        set(&mut version, "additionalPrinterColumns", columns.into_iter().chain([age]).collect::<Vec<_>>());
    }
    version
}

fn column(column: &super::Column) -> Value {
    let mut tree = object! { "name": column.name, "type": column.kind, "jsonPath": column.path };
    for (field, text) in [("description", column.description), ("format", column.format)] {
        if !text.is_empty() {
            set(&mut tree, field, text);
        }
    }
    if column.priority != 0 {
        set(&mut tree, "priority", i64::from(column.priority));
    }
    tree
}

/// Sets a field of a map.
pub(super) fn set(tree: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(map) = tree.as_object_mut() {
        map.insert(field, value);
    }
}

/// The whole JSON Schema of a type, if its objects match that.
pub(super) fn whole_schema<T: Resource>() -> Option<(String, serde_json::Value)> {
    let of = T::DEFINITION;
    of.json_schema.then(|| {
        let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
        let mut schema = schema.to_value();
        if let Some(properties) = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut) {
            // Of metadata it says nothing: that is every kind's.
            properties.remove("metadata");
        }
        (api_version(of.group, of.version), schema)
    })
}

/// The structural schema of a type. Of metadata it says nothing: that is every kind's.
fn schema<T: Resource>() -> Value {
    // As kube's derive macro of custom resources makes it.
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let settings = settings
        .with_transform(StructuralSchemaRewriter)
        .with_transform(OptionalEnum)
        .with_transform(OptionalIntOrString);
    let mut schema = json::to_value(&settings.into_generator().into_root_schema_for::<T>());
    if let Some(map) = schema.as_object_mut() {
        map.remove("title");
        if let Some(properties) = map.get_mut("properties") {
            set(properties, "metadata", object! { "type": "object" });
        }
        if let Some(required) = map.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|field| field.as_str() != Some("metadata"));
        }
        keep_any_json(map);
        if map.get("required").and_then(Value::as_array).is_some_and(<[Value]>::is_empty) {
            map.remove("required");
        }
    }
    schema
}

/// What says which values there are. Structural schemas have a type, or keep what they do not know.
const SAYS: [&str; 9] = [
    "type",
    "properties",
    "additionalProperties",
    "items",
    "enum",
    "allOf",
    "anyOf",
    "oneOf",
    "x-kubernetes-int-or-string",
];
const KEEPS: &str = "x-kubernetes-preserve-unknown-fields";

/// Fields that are any JSON, as a [`serde_json::Value`] is, keep all of it.
fn keep_any_json(schema: &mut Map) {
    let mut left = vec![schema];
    while let Some(schema) = left.pop() {
        if !SAYS.iter().chain([&KEEPS]).any(|field| schema.contains_key(field)) {
            schema.insert(KEEPS, true);
        }
        for (field, value) in schema.iter_mut() {
            match (field, value) {
                ("properties", Value::Object(properties)) => {
                    left.extend(properties.iter_mut().filter_map(|(_, schema)| schema.as_object_mut()));
                }
                ("items" | "additionalProperties", Value::Object(schema)) => left.push(schema),
                // `true` alone would leave each value without its fields.
                ("additionalProperties", all @ Value::Bool(true)) => {
                    *all = Value::Object(Map::from_iter([(KEEPS, true)]))
                }
                _ => {}
            }
        }
    }
}

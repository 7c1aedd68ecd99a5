//! The OpenAPI v3 document of a group-version (apiextensions-apiserver `pkg/controller/openapi/builder`, 1.37).
//!
//! kubectl takes from it how to explain a type, and that the server validates fields: a PATCH that lists
//! `fieldValidation` and carries the kind. Nothing is kept between calls; callers keep documents as they need them.
//!
//! `shared.json` holds what all documents refer to, in the words of Kubernetes' published API documentation.

mod operations;
mod published;

use kindom_api::json;
use kindom_api::{Map, Value, object};

const SHARED: &str = include_str!("shared.json");
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// What a document is made of.
#[derive(Debug, Clone)]
pub struct GroupVersionDoc<'a> {
    /// `example.com`; empty for the core group, which is served below `/api`.
    pub group: &'a str,
    /// `v1`.
    pub version: &'a str,
    /// The types that this version serves.
    pub types: Vec<TypeDoc<'a>>,
}

/// A type in a document.
#[derive(Debug, Clone)]
pub struct TypeDoc<'a> {
    /// `widgets`.
    pub plural: &'a str,
    /// `Widget`.
    pub kind: &'a str,
    /// `WidgetList`.
    pub list_kind: &'a str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The `openAPIV3Schema`. Without one, and for one that is not structural, any object is published.
    pub schema: Option<&'a Value>,
    /// Whether it has a status subresource.
    pub status: bool,
    /// Whether it has a scale subresource.
    pub scale: bool,
    /// The JSON paths of `selectableFields`: `.spec.size`.
    pub selectable_fields: Vec<&'a str>,
    /// What stands before the kind in the schema's name; by default the reversed group and the version
    /// (`com.example.v1`). Built-in types differ: `io.k8s.api.core.v1`.
    pub schema_prefix: Option<&'a str>,
    /// Whether strategic merge patches are taken, as built-in types do.
    pub strategic_merge_patch: bool,
}

/// The document.
#[must_use]
pub fn v3_document(gv: &GroupVersionDoc<'_>) -> Value {
    let shared = shared();
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for doc in &gv.types {
        let names = Names::of(gv, doc);
        schemas.insert(names.schema.as_str(), published::object(gv, doc));
        schemas.insert(names.list_schema.as_str(), published::list(gv, doc, &names));
        operations::add(gv, doc, &names, shared.get("parameters").unwrap_or(&Value::Null), &mut paths);
    }
    if let Some(all) = shared.get("schemas").and_then(Value::as_object) {
        let scale = gv.types.iter().any(|doc| doc.scale);
        for (name, schema) in all.iter().filter(|(name, _)| scale || !name.starts_with(SCALE)) {
            schemas.insert(name, schema.clone());
        }
    }
    object! {
        "openapi": "3.0.0",
        "info": object! { "title": "Kubernetes CRD Swagger", "version": "v0.1.0" },
        "paths": paths,
        "components": object! { "schemas": schemas },
    }
}

/// The names of a type's schemas.
struct Names {
    schema: String,
    list_schema: String,
}

impl Names {
    fn of(gv: &GroupVersionDoc<'_>, doc: &TypeDoc<'_>) -> Self {
        let prefix = doc.schema_prefix.map_or_else(
            || {
                let reversed: Vec<&str> = gv.group.rsplit('.').collect();
                format!("{}.{}", reversed.join("."), gv.version)
            },
            str::to_owned,
        );
        Self { schema: format!("{prefix}.{}", doc.kind), list_schema: format!("{prefix}.{}", doc.list_kind) }
    }
}

fn shared() -> Value {
    // The text is part of the program, and a test parses it.
    json::parse(SHARED.as_bytes()).unwrap_or_default()
}

fn reference(schema: &str) -> Value {
    object! { "$ref": format!("#/components/schemas/{schema}") }
}

fn gvk(gv: &GroupVersionDoc<'_>, kind: &str) -> Value {
    object! { "group": gv.group, "version": gv.version, "kind": kind }
}

#[cfg(test)]
mod tests {
    use super::shared;

    #[test]
    fn the_shared_part_parses() {
        let shared = shared();
        assert!(
            shared
                .at(&["schemas", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "properties"])
                .is_some()
        );
        assert!(shared.at(&["parameters", "fieldValidation"]).is_some());
    }
}

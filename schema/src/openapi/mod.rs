//! OpenAPI's documents about types: the v3 document of a group-version, and the v2 document of all of them
//! (apiextensions-apiserver `pkg/controller/openapi/builder`, 1.37).
//!
//! kubectl uses them to explain a type, and to find out that the server validates fields: a PATCH that lists
//! `fieldValidation` and carries the kind. Nothing is kept between calls; callers keep documents as they need them.
//!
//! `shared.json` holds the schemas that all documents refer to, in the words of Kubernetes' published API documentation;
//! `built_in.json` the fields of registrations, in words of its own. Those of other built-in types are in their declarations.

mod built_in;
mod declared;
mod document;
mod expressions;
mod json_schema;
mod messages;
mod operations;
mod protobuf;
mod published;
mod remote;

use kindom_api::declaration::Declaration;
use kindom_api::faces::{Face, REGISTERED_THROUGH};
use kindom_api::json;
use kindom_api::{Value, object};

pub(crate) use built_in::{BuiltInType, models};
pub(crate) use declared::whole;
pub use document::{Document, Format};
pub use expressions::type_of_objects;
pub use json_schema::{json_schema, json_schema_of};
pub use remote::RemoteDoc;

use crate::crd::is_published;

const SHARED: &str = include_str!("shared.json");
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
pub(crate) const RAW: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
/// Shared schemas that few types refer to.
const RARE: [&str; 4] = [MICRO_TIME, QUANTITY, INT_OR_STRING, RAW];
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// A group-version in a document.
#[derive(Debug, Clone, Copy)]
pub struct GroupVersionDoc<'a> {
    /// `example.com`; empty for the core group, which is served below `/api`.
    pub group: &'a str,
    /// `v1`.
    pub version: &'a str,
}

/// A subresource that a registration declares.
#[derive(Debug, Clone)]
pub struct DeclaredEndpoint<'a> {
    /// `approval`.
    pub name: String,
    /// `get`, `update`.
    pub verbs: &'a [&'static str],
    /// `true` if it is a part of the object, and so has its schema; another program's endpoint has bodies of any kind.
    pub is_part: bool,
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
    /// `true` if objects of the type are namespaced.
    pub namespaced: bool,
    /// The result of [`structural_schema`]; without one, any object is published.
    pub schema: Option<&'a Value>,
    /// `true` if the registration keeps unknown fields everywhere, as v1beta1 allowed.
    pub preserve_unknown_fields: bool,
    /// `true` if it has a status subresource.
    pub status: bool,
    /// `true` if it has a scale subresource.
    pub scale: bool,
    /// The subresources that its registration declares.
    pub declared: Vec<DeclaredEndpoint<'a>>,
    /// The JSON paths of `selectableFields`: `.spec.size`.
    pub selectable_fields: Vec<&'a str>,
    /// `true` if the type is built in: its fields are known without a schema.
    pub built_in: bool,
    /// Its objects are questions: they can only be created.
    pub only_created: bool,
    /// Its collection can be deleted.
    pub clears: bool,
    /// The declaration of a built-in type, unless `built_in.json` has its fields.
    pub declaration: Option<&'a Declaration>,
    /// `true` if it takes strategic merge patches, as built-in types do.
    pub strategic_merge_patch: bool,
}

/// The `openAPIV3Schema` of a version of a stored registration; `None` if it has none, or one that is not structural.
#[must_use]
pub fn structural_schema<'a>(registration: &'a Value, version: &str) -> Option<&'a Value> {
    let schema = version_of(registration, version)?.at(&["schema", "openAPIV3Schema"])?;
    let face = registration.at(&["metadata", "annotations"]).and_then(|a| a.get(REGISTERED_THROUGH));
    // The other faces let no such schema in, and a walk over all of it costs.
    let may_be_any = preserves_unknown_fields(registration)
        || face.and_then(Value::as_str) == Some(Face::V1beta1.api_version());
    (!may_be_any || is_published(schema)).then_some(schema)
}

/// Returns true if a stored registration keeps unknown fields everywhere.
#[must_use]
pub fn preserves_unknown_fields(registration: &Value) -> bool {
    registration.at(&["spec", "preserveUnknownFields"]).and_then(Value::as_bool) == Some(true)
}

/// Returns true if a version of a stored registration has a status subresource.
fn has_status(registration: &Value, version: &str) -> bool {
    version_of(registration, version).is_some_and(|v| v.at(&["subresources", "status"]).is_some())
}

/// The JSON paths of the selectable fields of a version of a stored registration: `.spec.size`.
#[must_use]
pub fn selectable_fields<'a>(registration: &'a Value, version: &str) -> Vec<&'a str> {
    let fields = version_of(registration, version).and_then(|v| v.get("selectableFields"));
    let fields = fields.and_then(Value::as_array).unwrap_or_default();
    fields.iter().filter_map(|field| field.get("jsonPath").and_then(Value::as_str)).collect()
}

fn version_of<'a>(registration: &'a Value, version: &str) -> Option<&'a Value> {
    let versions = registration.at(&["spec", "versions"])?.as_array()?;
    versions.iter().find(|v| v.get("name").and_then(Value::as_str) == Some(version))
}

/// The version of OpenAPI, where documents differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    V2,
    V3,
}

impl Form {
    fn reference(self, schema: &str) -> Value {
        object! { "$ref": format!("{}{schema}", self.schemas()) }
    }

    /// The JSON pointer to the schemas of a document.
    fn schemas(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }
}

/// The names of a type's schemas.
struct Names {
    /// `com.example.v1.`
    prefix: String,
    schema: String,
    list_schema: String,
}

impl Names {
    fn of(gv: &GroupVersionDoc<'_>, doc: &TypeDoc<'_>) -> Self {
        let declared = doc.declaration.map(Declaration::schema_prefix);
        let built_in = || built_in::prefix(gv).filter(|_| doc.built_in);
        let prefix = declared.or_else(built_in).unwrap_or_else(|| registered_prefix(gv));
        let (schema, list_schema) = (format!("{prefix}{}", doc.kind), format!("{prefix}{}", doc.list_kind));
        Self { prefix, schema, list_schema }
    }
}

/// The prefix of the names of schemas where upstream has no Go type: the group backwards.
fn registered_prefix(gv: &GroupVersionDoc<'_>) -> String {
    let reversed: Vec<&str> = gv.group.rsplit('.').collect();
    format!("{}.{}.", reversed.join("."), gv.version)
}

fn shared() -> Value {
    // The text is part of the program, and a test parses it.
    json::parse(SHARED.as_bytes()).unwrap_or_default()
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

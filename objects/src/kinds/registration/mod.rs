//! Registrations as built-in types: their names, their tables, and the faces of the stored form.

use std::sync::Arc;

use crate::kinds::{age, column};
use crate::{BuiltInVersion, ConvertError, Faces, Names, Scope, Subresource, TypeSpec};
use kindom_api::Value;
use kindom_api::crd::{GROUP, condition};
use kindom_api::faces::Face;
use kindom_api::field::{self, ErrorList};
use kindom_schema::columns::{Columns, TableColumn, name_column};
use kindom_schema::merge::{MergeType, built_in};

use self::rules::face;

mod features;
mod rules;

pub use features::Feature;
pub use rules::Registrations;

/// CustomResourceDefinition, `apiextensions.k8s.io/v1` and `v1beta1`, as a built-in type with every feature.
#[must_use]
pub fn custom_resource_definitions() -> TypeSpec {
    custom_resource_definitions_by(Registrations::default())
}

/// The same, by these rules.
#[must_use]
pub fn custom_resource_definitions_by(rules: Registrations) -> TypeSpec {
    let names = Names {
        short_names: vec!["crd".into(), "crds".into()],
        categories: vec!["api-extensions".into()],
        ..Names::of_kind("customresourcedefinitions", "CustomResourceDefinition")
    };
    let deprecated = format!("{GROUP}/v1beta1 {0} is deprecated; use {GROUP}/v1 {0}", names.kind);
    let versions = vec![
        BuiltInVersion { name: "v1", columns: table(), deprecation_warning: None },
        BuiltInVersion { name: "v1beta1", columns: table(), deprecation_warning: Some(deprecated) },
    ];
    let spec = TypeSpec::built_in(GROUP, names, Scope::Cluster, versions, Arc::new(rules));
    spec.with_faces(Arc::new(Views(GROUP)))
}

/// ThirdPartyResource, `apiextension.k8s.io/v1beta1`: the registrations that `stored` is the type of, as the first
/// proposal shows them (T-03).
#[must_use]
pub fn third_party_resources(stored: &TypeSpec) -> TypeSpec {
    let names = Names {
        short_names: vec!["tpr".into()],
        categories: vec!["api-extensions".into()],
        ..Names::of_kind("thirdpartyresources", "ThirdPartyResource")
    };
    let columns = Columns::compile(&[
        column("Group", "string", "The API group of the objects.", ".spec.group"),
        column("Version", "string", "The version of the objects.", ".spec.version"),
        column("Kind", "string", "The kind of the objects.", ".spec.names.kind"),
        column("Scope", "string", "Whether the objects are in namespaces.", ".spec.scope"),
        column(
            "Conflict",
            "string",
            "Whether a name is another registration's.",
            ".status.conditions[?(@.type==\"NameConflict\")].status",
        ),
        age(),
    ]);
    let versions = vec![BuiltInVersion { name: "v1beta1", columns, deprecation_warning: None }];
    let (group, strategy) = (Face::ThirdPartyResource.group(), Arc::clone(&stored.strategy));
    let spec = TypeSpec::built_in(group, names, Scope::Cluster, versions, strategy);
    spec.with_faces(Arc::new(Views(group))).stored_as(stored)
}

/// CustomResourceDefinition, `apiextensions.kindom.dev/v1`: the registrations that `stored` is the type of, for clients of a host
/// whose own `apiextensions.k8s.io` is.
#[must_use]
pub fn aggregated_custom_resource_definitions(stored: &TypeSpec) -> TypeSpec {
    let names = Names::of_kind("customresourcedefinitions", "CustomResourceDefinition");
    let versions = vec![BuiltInVersion { name: "v1", columns: table(), deprecation_warning: None }];
    let (group, strategy) = (Face::Aggregated.group(), Arc::clone(&stored.strategy));
    let spec = TypeSpec::built_in(group, names, Scope::Cluster, versions, strategy);
    spec.with_faces(Arc::new(Views(group))).stored_as(stored)
}

/// apiextensions `pkg/registry/customresourcedefinition/tableconvertor` (1.37).
fn table() -> Columns {
    let column = |name: &str, kind: &str, priority, description: &str| TableColumn {
        name: name.into(),
        kind: kind.into(),
        format: String::new(),
        description: description.into(),
        priority,
    };
    Columns::rows(
        vec![
            name_column(),
            column("Scope", "string", 0, "Cluster/Namespaced"),
            column("Versions", "string", 0, "Served versions"),
            column("Created At", "date", 0, ""),
            column("Group", "string", 1, "API group"),
            column("Kind", "string", 1, "CustomResource kind"),
            column("ShortNames", "string", 1, "Short names"),
            column("Established", "boolean", 1, "Established status"),
        ],
        cells,
    )
}

fn cells(object: &Value, _now: i64) -> Vec<Value> {
    let text = |path: &[&str]| object.at(path).and_then(Value::as_str).unwrap_or_default();
    let list = |path: &[&str]| object.at(path).and_then(Value::as_array).unwrap_or_default();
    let is = |value: &Value, field| value.get(field).and_then(Value::as_bool).unwrap_or(false);
    let mut versions: Vec<String> = list(&["spec", "versions"])
        .iter()
        .filter(|version| is(version, "served"))
        .map(|version| {
            let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
            if is(version, "storage") { format!("{name}(storage)") } else { name.to_owned() }
        })
        .collect();
    versions.sort();
    let short_names = list(&["spec", "names", "shortNames"]).iter().filter_map(Value::as_str);
    let established = list(&["status", "conditions"]).iter().any(|condition| {
        let says = |field| condition.get(field).and_then(Value::as_str);
        says("type") == Some(condition::ESTABLISHED) && says("status") == Some("True")
    });
    vec![
        text(&["metadata", "name"]).into(),
        text(&["spec", "scope"]).into(),
        versions.join(",").into(),
        text(&["metadata", "creationTimestamp"]).into(),
        text(&["spec", "group"]).into(),
        text(&["spec", "names", "kind"]).into(),
        short_names.collect::<Vec<_>>().join(",").into(),
        established.into(),
    ]
}

/// The faces of one group.
struct Views(&'static str);

impl Faces for Views {
    fn is_stored(&self, version: &str) -> bool {
        face(self.0, version) == Face::V1
    }

    fn merge_type(&self, api_version: &str) -> Option<MergeType<'static>> {
        let face = Face::ALL.into_iter().find(|face| face.api_version() == api_version)?.rules();
        built_in(face.group(), face.version(), face.kind())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let from = Face::of(text("apiVersion"), text("kind"));
        let to = Face::ALL.into_iter().find(|face| face.api_version() == api_version);
        let (Some(from), Some(to)) = (from, to) else { return Err(ConvertError::NoSuchVersion) };
        if from == to {
            return Ok(object.clone());
        }
        let stored = from.read(object.clone(), None, None);
        let stored = stored.map_err(|errors| ConvertError::Failed(field::aggregate(&errors)))?;
        Ok(to.show(stored))
    }

    fn shows_as_stored(&self, version: &str, json: &[u8]) -> bool {
        face(self.0, version).shows_as_stored(json)
    }

    fn show(&self, version: &str, stored: Value) -> Value {
        face(self.0, version).show(stored)
    }

    fn read(
        &self,
        version: &str,
        object: Value,
        old: Option<&Value>,
        subresource: Option<Subresource>,
    ) -> Result<Value, ErrorList> {
        face(self.0, version).read(object, old, subresource.as_ref().map(Subresource::name))
    }
}

//! The types.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::meta::{Condition, ObjectMeta, find_condition, is_condition_true};
use crate::{GroupResource, Value, json};

/// The types of the conditions on a registration.
pub mod condition {
    /// Its names are accepted and it is served.
    pub const ESTABLISHED: &str = "Established";
    /// No name collides with another registration's.
    pub const NAMES_ACCEPTED: &str = "NamesAccepted";
    /// Its schema breaks the rules of structural schemas.
    pub const NON_STRUCTURAL_SCHEMA: &str = "NonStructuralSchema";
    /// It is being deleted, and its objects with it.
    pub const TERMINATING: &str = "Terminating";
    /// Its group belongs to the Kubernetes project, and this says whether it may be used.
    pub const API_APPROVED: &str = "KubernetesAPIApprovalPolicyConformant";
    /// Its objects are being rewritten in the storage version.
    pub const STORAGE_MIGRATING: &str = "StorageMigrating";

    /// Its rules of conversion have expressions, which were tried on made-up objects.
    pub const CONVERSION_TESTED: &str = "ConversionTested";

    /// The conditions that kindom computes; it ignores them in a client's write.
    pub const COMPUTED: [&str; 7] = [
        ESTABLISHED,
        NAMES_ACCEPTED,
        NON_STRUCTURAL_SCHEMA,
        TERMINATING,
        API_APPROVED,
        STORAGE_MIGRATING,
        CONVERSION_TESTED,
    ];
}

/// A registration: a type that users bring.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomResourceDefinition {
    /// `apiextensions.k8s.io/v1`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `CustomResourceDefinition`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Metadata; the name is `<plural>.<group>`.
    pub metadata: ObjectMeta,
    /// The desired state, which users write.
    pub spec: Spec,
    /// The observed state, which the server writes.
    pub status: CrdStatus,
}

/// The desired state of a registration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The API group.
    pub group: String,
    /// The names asked for.
    pub names: Names,
    /// `Cluster` or `Namespaced`.
    pub scope: String,
    /// The versions, in the user's order.
    pub versions: Versions,
    /// The way in which objects are converted between versions; by default only their `apiVersion` changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversion: Option<Conversion>,
    /// Always false for what v1 creates.
    #[serde(skip_serializing_if = "is_false")]
    pub preserve_unknown_fields: bool,
}

/// The versions of a type. An empty list and none at all are equal, but errors quote them as Go does: `[]` and `null`.
#[derive(Debug, Clone, Default)]
pub struct Versions {
    items: Vec<Version>,
    is_list: bool,
}

impl Versions {
    /// `true` if there is no list, not even an empty one.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.items.is_empty() && !self.is_list
    }
}

impl Deref for Versions {
    type Target = Vec<Version>;

    fn deref(&self) -> &Self::Target {
        &self.items
    }
}

impl DerefMut for Versions {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.items
    }
}

impl From<Vec<Version>> for Versions {
    fn from(items: Vec<Version>) -> Self {
        Self { items, is_list: true }
    }
}

impl<'a> IntoIterator for &'a Versions {
    type Item = &'a Version;
    type IntoIter = std::slice::Iter<'a, Version>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<'a> IntoIterator for &'a mut Versions {
    type Item = &'a mut Version;
    type IntoIter = std::slice::IterMut<'a, Version>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter_mut()
    }
}

/// As `equality.Semantic.DeepEqual` of apimachinery, which takes an empty list for none.
impl PartialEq for Versions {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl<'de> Deserialize<'de> for Versions {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Ok(Option::<Vec<Version>>::deserialize(input)?.map(Self::from).unwrap_or_default())
    }
}

impl Serialize for Versions {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        if self.is_null() { out.serialize_none() } else { self.items.serialize(out) }
    }
}

/// The names of a type.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Names {
    /// As it stands in URLs: `widgets`.
    pub plural: String,
    /// `widget`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub singular: String,
    /// Abbreviations for command lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub short_names: Vec<String>,
    /// `Widget`
    pub kind: String,
    /// `WidgetList`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub list_kind: String,
    /// Groups of types for command lines: `all`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
}

/// A version of a type.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Version {
    /// `v1`
    pub name: String,
    /// `true` if clients may use it.
    pub served: bool,
    /// `true` if objects are stored in it; true for exactly one.
    pub storage: bool,
    /// `true` if its use brings a warning.
    #[serde(skip_serializing_if = "is_false")]
    pub deprecated: bool,
    /// The warning, if not the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation_warning: Option<String>,
    /// The schema that objects of this version must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Validation>,
    /// The subresources (`status`, `scale`) that objects of this version have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresources: Option<Subresources>,
    /// The columns that `kubectl get` prints besides the name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_printer_columns: Vec<ColumnDefinition>,
    /// The fields that field selectors may name besides `metadata.name` and `metadata.namespace`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selectable_fields: Vec<SelectableField>,
}

/// The schema of a version.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Validation {
    /// The tree, of the shape of upstream's `JSONSchemaProps`.
    #[serde(rename = "openAPIV3Schema", skip_serializing_if = "Option::is_none")]
    pub open_api_v3_schema: Option<Value>,
}

/// The subresources of a version.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subresources {
    /// `/status`, if present; always the empty map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    /// `/scale`, if present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
}

/// The simple JSON paths at which an object has the fields of a Scale.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scale {
    /// Under `.spec`.
    pub spec_replicas_path: String,
    /// Under `.status`.
    pub status_replicas_path: String,
    /// Under `.spec` or `.status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector_path: Option<String>,
}

/// A column of the table that `kubectl get` shows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ColumnDefinition {
    /// The heading.
    pub name: String,
    /// `integer`, `number`, `string`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub kind: String,
    /// An OpenAPI format.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub format: String,
    /// For readers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Columns above 0 are shown by `-o wide` only.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// The simple JSON path to the cell's value.
    pub json_path: String,
}

/// A field that field selectors may name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectableField {
    /// A simple JSON path.
    pub json_path: String,
}

/// The strategy by which objects are converted between versions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Conversion {
    /// `None` or `Webhook`.
    pub strategy: String,
    /// The webhook that converts; only with the strategy `Webhook`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookConversion>,
}

/// A conversion webhook.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookConversion {
    /// The address of the webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_config: Option<WebhookClientConfig>,
    /// The versions of ConversionReview that it understands, best first.
    #[serde(deserialize_with = "or_default", serialize_with = "null_if_empty")]
    pub conversion_review_versions: Vec<String>,
}

/// The address of a webhook: a URL or a service, and the certificates that it is checked with.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookClientConfig {
    /// By URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Or by a Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,
    /// PEM certificates that its certificate is checked against, in base64 as they came.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_bundle: String,
}

/// A Service that a webhook is behind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The URL path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The port; 443 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// The observed state of a registration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrdStatus {
    /// See [`condition`].
    #[serde(deserialize_with = "or_default", serialize_with = "null_if_empty")]
    pub conditions: Vec<Condition>,
    /// The names that it holds.
    pub accepted_names: Names,
    /// Every version that objects may be stored in.
    #[serde(deserialize_with = "or_default", serialize_with = "null_if_empty")]
    pub stored_versions: Vec<String>,
    /// The generation that the status was computed for.
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(b: &bool) -> bool {
    !*b
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(n: &i32) -> bool {
    *n == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero_i64(n: &i64) -> bool {
    *n == 0
}

/// A list whose absence Go writes as null.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(input: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(input)?.unwrap_or_default())
}

fn null_if_empty<S: Serializer, T: Serialize>(items: &Vec<T>, out: S) -> Result<S::Ok, S::Error> {
    if items.is_empty() { out.serialize_none() } else { items.serialize(out) }
}

impl CustomResourceDefinition {
    /// The tree, as upstream encodes it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json::to_value(self)
    }

    /// The resource that it registers.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.spec.group.clone(), self.spec.names.plural.clone())
    }

    /// The version that objects are stored in; there is always one in what passed validation.
    #[must_use]
    pub fn storage_version(&self) -> Option<&Version> {
        self.spec.versions.iter().find(|v| v.storage)
    }

    /// A version by name.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.spec.versions.iter().find(|v| v.name == name)
    }

    /// A condition by type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        find_condition(&self.status.conditions, kind)
    }

    /// `true` if a condition is there and `True`.
    #[must_use]
    pub fn is_condition_true(&self, kind: &str) -> bool {
        is_condition_true(&self.status.conditions, kind)
    }
}

impl Version {
    /// The schema's tree.
    #[must_use]
    pub fn open_api_v3_schema(&self) -> Option<&Value> {
        self.schema.as_ref()?.open_api_v3_schema.as_ref()
    }

    /// `true` if its objects have `/status`.
    #[must_use]
    pub fn has_status(&self) -> bool {
        self.subresources.as_ref().is_some_and(|s| s.status.is_some())
    }
}

//! The names and subresources of a typed kind.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind of which the objects are values of this type: a struct with a field `metadata: ObjectMeta`. Derive it.
pub trait Resource:
    kube::Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    /// Its names and subresources.
    const DEFINITION: Definition;
}

/// The part of a registration that is no schema; its fields are named as there.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// `sails.example.com`
    pub group: &'static str,
    /// `v1beta1`
    pub version: &'static str,
    /// `Sloop`
    pub kind: &'static str,
    /// `sloops`
    pub plural: &'static str,
    /// `sloop`
    pub singular: &'static str,
    /// Abbreviations.
    pub short_names: &'static [&'static str],
    /// Groups of kinds such as `all`.
    pub categories: &'static [&'static str],
    /// True if objects are in namespaces.
    pub namespaced: bool,
    /// True if `status` is written through `/status` alone.
    pub status: bool,
    /// The fields of `/scale`.
    pub scale: Option<Scale>,
    /// The warning for a client that still uses the version, empty for Kubernetes' own words; `None` for a version that is not deprecated.
    pub deprecated: Option<&'static str>,
    /// The columns of tables between the name and the age.
    pub columns: &'static [Column],
    /// True if objects match the JSON Schema of their type, beside what a structural schema can hold of it.
    pub json_schema: bool,
}

/// The paths of the fields that `/scale` shows.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Of the number that is asked for: `.spec.crew`.
    pub spec: &'static str,
    /// Of the number that there is: `.status.crew`.
    pub status: &'static str,
    /// Of the text of a label selector.
    pub selector: Option<&'static str>,
}

/// A column of `kubectl get`.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its head.
    pub name: &'static str,
    /// `integer`, `number`, `string`, `boolean` or `date`.
    pub kind: &'static str,
    /// The path of the field.
    pub path: &'static str,
    /// Its description; empty for none.
    pub description: &'static str,
    /// Its format; empty for none.
    pub format: &'static str,
    /// Columns above 0 are shown by `-o wide` alone.
    pub priority: i32,
}

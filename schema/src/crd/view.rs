//! A spec as upstream's internal type has it (`pkg/apis/apiextensions/v1/conversion.go`): values that are the same in all
//! versions stand once, beside them.

use kindom_api::Value;
use kindom_api::crd::{ColumnDefinition, SelectableField, Spec, Subresources, Validation, Version};

use super::props::{go_json, go_schema};

/// The internal view of a spec.
pub(super) struct View<'a> {
    pub(super) spec: &'a Spec,
    validation: Option<&'a Validation>,
    pub(super) subresources: Option<&'a Subresources>,
    pub(super) columns: &'a [ColumnDefinition],
    pub(super) selectable_fields: &'a [SelectableField],
    versions: Vec<VersionView<'a>>,
}

/// A version without the parts that all versions share.
pub(super) struct VersionView<'a> {
    pub(super) version: &'a Version,
    validation: Option<&'a Validation>,
    pub(super) subresources: Option<&'a Subresources>,
    pub(super) columns: &'a [ColumnDefinition],
    pub(super) selectable_fields: &'a [SelectableField],
}

/// The part of the versions that `part` selects, if all have the same.
fn shared<'a, T: PartialEq + Copy>(versions: &'a [Version], part: impl Fn(&'a Version) -> T) -> Option<T> {
    let first = part(versions.first()?);
    versions.iter().all(|v| part(v) == first).then_some(first)
}

impl<'a> View<'a> {
    pub(super) fn of(spec: &'a Spec) -> Self {
        let versions = spec.versions.as_slice();
        let validation = shared(versions, |v| v.schema.as_ref());
        let subresources = shared(versions, |v| v.subresources.as_ref());
        let columns = shared(versions, |v| v.additional_printer_columns.as_slice());
        let selectable_fields = shared(versions, |v| v.selectable_fields.as_slice());
        let views = versions.iter().map(|version| VersionView {
            version,
            validation: version.schema.as_ref().filter(|_| validation.is_none()),
            subresources: version.subresources.as_ref().filter(|_| subresources.is_none()),
            columns: if columns.is_none() { &version.additional_printer_columns } else { &[] },
            selectable_fields: if selectable_fields.is_none() { &version.selectable_fields } else { &[] },
        });
        Self {
            spec,
            validation: validation.flatten(),
            subresources: subresources.flatten(),
            columns: columns.unwrap_or_default(),
            selectable_fields: selectable_fields.unwrap_or_default(),
            versions: views.collect(),
        }
    }

    pub(super) fn has_validation(&self) -> bool {
        self.validation.is_some()
    }

    pub(super) fn top_schema(&self) -> Option<&'a Value> {
        self.validation.and_then(|v| v.open_api_v3_schema.as_ref())
    }

    pub(super) fn versions(&self) -> &[VersionView<'a>] {
        &self.versions
    }

    /// Every schema, those that all versions share once.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &'a Value> {
        self.top_schema().into_iter().chain(self.versions.iter().filter_map(VersionView::schema))
    }

    /// The versions as JSON of the internal Go type, which has no JSON names; null if there is no list of them.
    pub(super) fn go_versions(&self) -> String {
        if self.spec.versions.is_null() {
            return "null".to_owned();
        }
        format!("[{}]", self.versions.iter().map(VersionView::go).collect::<Vec<_>>().join(","))
    }
}

impl<'a> VersionView<'a> {
    pub(super) fn schema(&self) -> Option<&'a Value> {
        self.validation.and_then(|v| v.open_api_v3_schema.as_ref())
    }

    fn go(&self) -> String {
        let version = self.version;
        let schema = self.validation.map_or_else(null, |validation| {
            let schema = validation.open_api_v3_schema.as_ref().map_or_else(null, go_schema);
            format!("{{\"OpenAPIV3Schema\":{schema}}}")
        });
        let subresources = self.subresources.map_or_else(null, |subresources| {
            let status = if subresources.status.is_some() { "{}" } else { "null" };
            let scale = subresources.scale.as_ref().map_or_else(null, |scale| {
                format!(
                    "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
                    text(&scale.spec_replicas_path),
                    text(&scale.status_replicas_path),
                    scale.label_selector_path.as_deref().map_or_else(null, text)
                )
            });
            format!("{{\"Status\":{status},\"Scale\":{scale}}}")
        });
        let columns = list(self.columns, |column| {
            format!(
                "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{},\"JSONPath\":{}}}",
                text(&column.name),
                text(&column.kind),
                text(&column.format),
                text(&column.description),
                column.priority,
                text(&column.json_path)
            )
        });
        let selectable_fields =
            list(self.selectable_fields, |field| format!("{{\"JSONPath\":{}}}", text(&field.json_path)));
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{schema},\"Subresources\":{subresources},\"AdditionalPrinterColumns\":{columns},\"SelectableFields\":{selectable_fields}}}",
            text(&version.name),
            version.served,
            version.storage,
            version.deprecated,
            version.deprecation_warning.as_deref().map_or_else(null, text),
        )
    }
}

fn null() -> String {
    "null".to_owned()
}

fn text(text: &str) -> String {
    go_json(&text.into())
}

fn list<T>(items: &[T], print: impl Fn(&T) -> String) -> String {
    if items.is_empty() {
        return null();
    }
    format!("[{}]", items.iter().map(print).collect::<Vec<_>>().join(","))
}

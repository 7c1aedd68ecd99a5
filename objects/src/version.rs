//! One version of a type: how it is served, and what its objects are checked and shown by.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use kindom_api::crd::ColumnDefinition;
use kindom_api::names::version_order;
use kindom_api::{Value, json};
use kindom_schema::Schema;
use kindom_schema::columns::Columns;
use kindom_schema::scale::ScalePaths;
use kindom_schema::whole::{self, WholeSchema};

use crate::StoredObject;
use crate::declared::Declared;
use crate::declared_subresources::{DeclaredSubresources, PartSchemas};
use crate::seal::Shape;
use crate::stored_registration::StoredRegistration;

/// One version of a type.
#[derive(Debug)]
pub struct VersionSpec {
    /// Its name: `v1`.
    pub name: String,
    /// `true` if it has an endpoint.
    pub served: bool,
    /// The warning for a client that still uses it.
    pub deprecation_warning: Option<String>,
    /// `true` if it has `/status`, which alone writes an object's status then (S-05).
    pub status: bool,
    /// The paths of a Scale's fields, if it has `/scale`.
    pub scale: Option<ScalePaths>,
    /// A number for its compiled form; never 0.
    pub epoch: u64,
    /// A number for the schema that prunes and defaults its objects; never [`NO_SHAPE`](crate::seal::NO_SHAPE). It is stored
    /// with them, so it must be the same in every build.
    pub shape: Shape,
    /// The declaration of its objects, for a built-in kind that is declared in one place.
    pub declared: Option<&'static Declared>,
    /// The result of [`TypeSpec::compiled`](crate::TypeSpec::compiled), if it is kept.
    pub(crate) compiled: ArcSwapOption<CompiledVersion>,
}

/// The compiled form by which the objects of a version are checked and shown. Compiled when first needed.
#[derive(Debug)]
pub struct CompiledVersion {
    /// Its schema, shared with all versions and types that have the same; none for built-in types, whose strategy knows.
    pub schema: Option<Arc<Schema>>,
    /// The registration's whole schema ([`whole::ANNOTATION`]); or the mistake in it, if another program stored it.
    pub whole: Option<Result<WholeSchema, String>>,
    /// The schemas of the subresources that its registration declares.
    pub parts: PartSchemas,
    /// Its table.
    pub columns: Columns,
    /// The fields that lists and watches can select by, beside those of every type.
    pub selectable: Vec<SelectableField>,
}

/// A field that lists and watches can select by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectableField {
    /// As a selector names it: `spec.color`.
    pub name: String,
    /// The paths of its value in a stored object; the first one that has one counts.
    paths: Vec<Vec<String>>,
    /// The value of an object that has none.
    otherwise: &'static str,
}

impl SelectableField {
    pub(crate) fn new(json_path: &str) -> Self {
        let name = json_path.strip_prefix('.').unwrap_or(json_path);
        Self::at(name, &[name])
    }

    /// A field of another name than its paths.
    pub(crate) fn at(name: &str, paths: &[&str]) -> Self {
        let path = |path: &&str| path.split('.').map(str::to_owned).collect();
        Self { name: name.to_owned(), paths: paths.iter().map(path).collect(), otherwise: "" }
    }

    /// The same field with a value for objects that have none.
    pub(crate) fn or(self, otherwise: &'static str) -> Self {
        Self { otherwise, ..self }
    }

    /// An object's value as a selector compares it; empty if the object has none and the field no other value for that.
    #[must_use]
    pub fn of(&self, object: &Value) -> String {
        let mut values = self.paths.iter().map(|path| {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            match object.at(&path) {
                Some(Value::String(text)) => text.clone(),
                Some(value @ (Value::Int(_) | Value::Bool(_))) => value.to_string(),
                _ => String::new(),
            }
        });
        values.find(|value| !value.is_empty()).unwrap_or_else(|| self.otherwise.to_owned())
    }
}

impl VersionSpec {
    /// Returns true if the bytes of an object that is stored in this version are known to be what its schema makes of them.
    pub fn serves_as_is(&self, object: &StoredObject) -> bool {
        object.has_shape(self.shape)
    }
}

/// Counts the changes of the code that prunes and defaults: objects of an earlier one are pruned and defaulted again.
const RULES: &[u8] = b"1";

/// [`VersionSpec::epoch`] and [`VersionSpec::shape`] of a version; `others` are the texts of its registration's other schemas.
pub fn epoch_and_shape(
    version: &Value,
    preserve_unknown_fields: Option<&Value>,
    others: [Option<&str>; 2],
) -> (u64, Shape) {
    let mut text = RULES.to_vec();
    let write = |part: Option<&Value>, text: &mut Vec<u8>| part.unwrap_or(&Value::Null).write_to(text);
    write(preserve_unknown_fields, &mut text);
    write(version.get("schema"), &mut text);
    let shape = crc32c::crc32c(&text).max(1);
    for part in ["additionalPrinterColumns", "selectableFields"] {
        write(version.get(part), &mut text);
    }
    let mut hasher = DefaultHasher::new();
    (text, others).hash(&mut hasher);
    (hasher.finish() | 1, shape)
}

/// apiextensions `customresource_handler.go` and `helpers.go` (1.37): the text a deprecated version warns with.
pub fn deprecation(version: &Value, all: &[Value], group: &str, name: &str, kind: &str) -> Option<String> {
    let is = |version: &Value, field| version.get(field).and_then(Value::as_bool).unwrap_or(false);
    if !is(version, "deprecated") {
        return None;
    }
    if let Some(own) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(own.to_owned());
    }
    let better = all
        .iter()
        .filter(|v| is(v, "served") && !is(v, "deprecated"))
        .filter_map(|v| v.get("name").and_then(Value::as_str))
        .filter(|better| version_order(better) < version_order(name))
        .min_by_key(|better| version_order(better));
    Some(match better {
        Some(better) => format!("{group}/{name} {kind} is deprecated; use {group}/{better} {kind}"),
        None => format!("{group}/{name} {kind} is deprecated"),
    })
}

/// Compiles one version of a registration.
///
/// # Errors
/// Where there is no such version, or its schema does not compile.
pub fn compile(registration: StoredRegistration<'_>, version: &str) -> Result<CompiledVersion, String> {
    let found = registration.version(version).ok_or_else(|| format!("there is no version {version}"))?;
    let preserve = registration.preserves_unknown_fields();
    let schema = Schema::shared(found.at(&["schema", "openAPIV3Schema"]), preserve)
        .map_err(|errors| kindom_api::field::aggregate(&errors))?;
    let columns = found.get("additionalPrinterColumns").and_then(Value::as_array).unwrap_or_default();
    let columns: Vec<ColumnDefinition> =
        columns.iter().filter_map(|column| json::from_value(column).ok()).collect();
    let selectable = found.get("selectableFields").and_then(Value::as_array).unwrap_or_default();
    let selectable = selectable
        .iter()
        .filter_map(|field| field.get("jsonPath").and_then(Value::as_str))
        .map(SelectableField::new)
        .collect();
    let whole = registration.annotation(whole::ANNOTATION).map(WholeSchema::compile);
    let parts = DeclaredSubresources::of(registration).schemas(version);
    Ok(CompiledVersion {
        schema: Some(schema),
        whole,
        parts,
        columns: Columns::compile(&columns),
        selectable,
    })
}

#[cfg(test)]
mod tests {
    use kindom_api::json;

    use super::{SelectableField, deprecation};

    #[test]
    fn a_deprecated_version_names_the_best_one_that_is_better() {
        let versions = json::parse(
            br#"[{"name":"v1alpha1","deprecated":true},{"name":"v1beta1","deprecated":true,"served":true},
                {"name":"v1","served":true},{"name":"v2","served":true},{"name":"v3"},
                {"name":"v0","deprecated":true,"deprecationWarning":"own"},{"name":"v9","deprecated":true}]"#,
        )
        .unwrap();
        let versions = versions.as_array().unwrap();
        let check = |at: usize, name: &str| {
            deprecation(versions.get(at).unwrap(), versions, "g.io", name, "Widget").unwrap_or_default()
        };
        assert_eq!(check(1, "v1beta1"), "g.io/v1beta1 Widget is deprecated; use g.io/v2 Widget");
        assert_eq!(check(2, "v1"), "");
        assert_eq!(check(5, "v0"), "own");
        assert_eq!(check(6, "v9"), "g.io/v9 Widget is deprecated");
    }

    #[test]
    fn a_selectable_field_is_compared_as_text() {
        let object = json::parse(br#"{"spec":{"s":"x","n":2,"b":true,"m":{}}}"#).unwrap();
        let selected = |path: &str| SelectableField::new(path).of(&object);
        assert_eq!([".spec.s", ".spec.n", ".spec.b", ".spec.none"].map(selected), ["x", "2", "true", ""]);
    }
}

//! `selectableFields`: what field selectors may name (KEP-4358).

use std::collections::HashSet;

use kindom_api::Value;
use kindom_api::crd::{CustomResourceDefinition, SelectableField};
use kindom_api::field::{Error, ErrorList, Path};

use super::props::type_of;
use super::view::View;
use super::{Options, field_path};

const SELECTABLE_FIELDS_MAX: usize = 8;

/// All that is wrong with the selectable fields of a version, or of all versions if its name is empty.
pub(super) fn validate(
    fields: &[SelectableField],
    schema: Option<&Value>,
    path: &Path<'_>,
    options: &Options,
    version: &str,
    errors: &mut ErrorList,
) {
    let mut seen = HashSet::new();
    for (i, field) in fields.iter().enumerate() {
        let at = path.index(i);
        let at = at.child("jsonPath");
        let json_path = field.json_path.as_str();
        if json_path.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        let found = match field_path::find(json_path, schema, false) {
            Ok(found) => found,
            Err(text) => {
                errors.push(Error::invalid(&at, json_path, format!("is an invalid path: {text}")));
                continue;
            }
        };
        if found.steps.first().is_some_and(|step| step == ".metadata") {
            errors.push(Error::invalid(&at, json_path, "must not point to fields in metadata"));
        }
        if !found.schema.is_some_and(|s| matches!(type_of(s), "string" | "boolean" | "integer")) {
            errors.push(Error::invalid(
                &at,
                json_path,
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            ));
        }
        if !seen.insert(found.steps.concat()) {
            errors.push(Error::duplicate(&at, json_path));
        }
    }
    if seen.len() > SELECTABLE_FIELDS_MAX && !options.allow_too_many_selectable_fields.contains(version) {
        errors.push(Error::too_many(path, seen.len(), SELECTABLE_FIELDS_MAX));
    }
}

/// The versions that had too many selectable fields before and have the same now; the empty name if all versions
/// share them.
pub(super) fn too_many_before(
    new: &CustomResourceDefinition,
    old: &CustomResourceDefinition,
) -> HashSet<String> {
    let (new, old) = (View::of(&new.spec), View::of(&old.spec));
    let same =
        |new: &[SelectableField], old: &[SelectableField]| old.len() > SELECTABLE_FIELDS_MAX && new == old;
    let mut versions = HashSet::new();
    if same(new.selectable_fields, old.selectable_fields) {
        versions.insert(String::new());
    }
    for version in new.versions() {
        let name = &version.version.name;
        let before = old.versions().iter().find(|v| v.version.name == *name);
        if before.is_some_and(|before| same(version.selectable_fields, before.selectable_fields)) {
            versions.insert(name.clone());
        }
    }
    versions
}

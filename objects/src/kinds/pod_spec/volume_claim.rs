//! The rules of the spec of a claim of a volume (`ValidatePersistentVolumeClaimSpec`, `ValidatePersistentVolumeClaimTemplate`,
//! 1.37).

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_subdomain, name_is_dns_label, name_is_dns_subdomain};
use kindom_api::meta::{validate_annotations, validate_labels};
use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value};

use crate::kinds::fields::{items, part, present, text, texts};
use crate::kinds::label_selector;

/// The ways in which a volume is mounted.
pub(in crate::kinds) const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// The forms in which a volume is mounted.
pub(in crate::kinds) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// The errors in a template of claims.
pub(super) fn validate_template(template: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_template_metadata(part(template, "metadata"), &at.child("metadata"), errors);
    validate_spec(part(template, "spec"), &at.child("spec"), errors);
}

/// `ValidateTemplateObjectMeta`
pub(in crate::kinds) fn validate_template_metadata(metadata: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_annotations(metadata, at, errors);
    validate_labels(metadata, "labels", at, errors);
    for (field, value) in metadata.as_object().into_iter().flat_map(Map::iter) {
        let is_empty = match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Int(number) => *number == 0,
            Value::Array(all) => all.is_empty(),
            _ => false,
        };
        if !is_empty && !matches!(field, "labels" | "annotations") {
            errors.push(Error::forbidden(&at.child(field), "cannot be set"));
        }
    }
}

/// The errors in modes of access.
pub(in crate::kinds) fn validate_access(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (mut of_pod, mut others) = (false, false);
    for mode in items(spec, "accessModes").iter().filter_map(Value::as_str) {
        if !ACCESS_MODES.contains(&mode) {
            errors.push(Error::not_supported(at, mode, &ACCESS_MODES));
        } else if mode == "ReadWriteOncePod" {
            of_pod = true;
        } else {
            others = true;
        }
    }
    if of_pod && others {
        errors.push(Error::forbidden(at, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// The errors in the spec of a claim.
pub(in crate::kinds) fn validate_spec(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let modes_at = at.child("accessModes");
    if items(spec, "accessModes").is_empty() {
        errors.push(Error::required(&modes_at, "at least 1 access mode is required"));
    }
    if let Some(selector) = present(spec, "selector") {
        label_selector::validate(selector, &at.child("selector"), errors);
    }
    validate_access(spec, &modes_at, errors);
    let resources_at = at.child("resources");
    let storage_at = resources_at.key("storage");
    match spec.at(&["resources", "requests", "storage"]).and_then(Value::as_str) {
        None => errors.push(Error::required(&storage_at, "")),
        Some(text) if Quantity::parse(text).is_ok_and(|amount| amount.sign() <= 0) => {
            errors.push(Error::invalid(&storage_at, text, "must be greater than zero"));
        }
        Some(_) => {}
    }
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let name = text(spec, field);
        if !name.is_empty() {
            texts(name_is_dns_subdomain(name, false), name, &at.child(field), errors);
        }
    }
    if let Some(mode) = present(spec, "volumeMode").and_then(Value::as_str)
        && !VOLUME_MODES.contains(&mode)
    {
        errors.push(Error::not_supported(&at.child("volumeMode"), mode, &VOLUME_MODES));
    }
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = present(spec, field) {
            validate_data_source(source, &at.child(field), errors);
        }
    }
    let (Some(source), Some(reference)) = (present(spec, "dataSource"), present(spec, "dataSourceRef"))
    else {
        return;
    };
    // Upstream prints the path as an object that has no fields to print.
    let same = |field: &str| source.get(field) == reference.get(field);
    if !text(reference, "namespace").is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.push(Error::invalid_raw(at, "{}", detail));
    } else if !(same("apiGroup") && same("kind") && same("name")) {
        errors.push(Error::invalid_raw(at, "{}", "must match dataSourceRef"));
    }
}

/// `validateDataSource`, `validateDataSourceRef`
fn validate_data_source(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for field in ["name", "kind"] {
        if text(source, field).is_empty() {
            errors.push(Error::required(&at.child(field), ""));
        }
    }
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(Error::invalid(at, kind, detail));
    }
    if !group.is_empty() {
        texts(is_dns1123_subdomain(group), group, &at.child("apiGroup"), errors);
    }
    let namespace = text(source, "namespace");
    if !namespace.is_empty() {
        texts(name_is_dns_label(namespace, false), namespace, &at.child("namespace"), errors);
    }
}

/// Warnings about fractions of bytes.
pub(in crate::kinds) fn warnings(spec: &Value, at: &Path<'_>) -> Vec<String> {
    let at = at.child("resources");
    let warning = |field| {
        let amount = spec.at(&["resources", field, "storage"]).and_then(Value::as_str)?;
        let at = at.child(field);
        fractional(amount, &at.key("storage"))
    };
    ["requests", "limits"].into_iter().filter_map(warning).collect()
}

/// The warning about an amount of bytes with a fraction.
pub(in crate::kinds) fn fractional(amount: &str, at: &Path<'_>) -> Option<String> {
    // Amounts are rounded to thousandths, and printed with their unit.
    let quoted = kindom_api::field::go_quote(amount);
    amount
        .ends_with('m')
        .then(|| format!("{at}: fractional byte value {quoted} is invalid, must be an integer"))
}

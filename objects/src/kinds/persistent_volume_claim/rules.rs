//! The errors in claims (`pkg/apis/core/validation/validation.go`, 1.37).

use std::cmp::Ordering;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_qualified_name, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value};

use super::{CLASS, keep_mutable};
use crate::kinds::fields::{items, part, present, same, text, texts};
use crate::kinds::pod_spec::volume_claim::validate_spec;
use crate::kinds::resources::is_native;
use crate::kinds::status::keep;
use crate::kinds::{difference, metadata_update};

/// The states of a resize.
const RESIZES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];
const IMMUTABLE: &str = "field is immutable";

pub(super) fn validate(claim: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(claim, "metadata"), true, &name_is_dns_subdomain, &at);
    validate_spec(part(claim, "spec"), &Path::new("spec"), &mut errors);
    errors
}

fn class_of(claim: &Value) -> Option<&str> {
    claim.at(&["metadata", "annotations", CLASS]).and_then(Value::as_str)
}

pub(super) fn validate_update(claim: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(claim, old);
    errors.extend(validate(claim));
    let (spec, before) = (part(claim, "spec"), part(old, "spec"));
    let (mut new, mut stored) = (spec.clone(), before.clone());
    if text(before, "volumeName").is_empty() {
        keep(&mut stored, spec, "volumeName");
    }
    validate_class(claim, old, &mut new, &mut errors);
    let is_bound = claim.text_at(&["status", "phase"]) == "Bound";
    if is_bound {
        keep_mutable(&mut new, before);
    }
    let at = Path::new("spec");
    if !same(Some(&new), Some(&stored)) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                      claims\n";
        let difference = difference::of(&new, &stored);
        errors.push(Error::forbidden(&at, format!("{detail}{difference}")));
    }
    let amount = |of: &Value, path: &[&str]| {
        let text = of.at(path).and_then(Value::as_str).unwrap_or("0");
        Quantity::parse(text).unwrap_or_else(|_| Quantity::of_int(0))
    };
    let storage = ["spec", "resources", "requests", "storage"];
    let (size, former) = (amount(claim, &storage), amount(old, &storage));
    let in_use = amount(old, &["status", "capacity", "storage"]);
    if size.compare(&former) == Ordering::Less && size.compare(&in_use) != Ordering::Greater {
        let resources_at = at.child("resources");
        let requests_at = resources_at.child("requests");
        let detail = "field can not be less than status.capacity";
        errors.push(Error::forbidden(&requests_at.child("storage"), detail));
    }
    if spec.get("volumeMode") != before.get("volumeMode") {
        let value = spec.get("volumeMode").cloned().unwrap_or_default();
        errors.push(Error::invalid(&Path::new("volumeMode"), value, IMMUTABLE));
    }
    let attributes = "volumeAttributesClassName";
    let current = part(part(old, "status"), "currentVolumeAttributesClassName");
    if spec.get(attributes) != before.get(attributes) && !current.is_null() {
        let what = match present(spec, attributes).and_then(Value::as_str) {
            None => Some("nil"),
            Some("") => Some("empty string"),
            Some(_) => None,
        };
        if let Some(what) = what {
            let detail = format!(
                "update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
            );
            errors.push(Error::forbidden(&at.child(attributes), detail));
        }
    }
    errors
}

/// The errors in a change of the class; a class that is set later is taken from the new spec.
fn validate_class(claim: &Value, old: &Value, new: &mut Value, errors: &mut ErrorList) {
    let field = "storageClassName";
    let before = part(old, "spec");
    let wanted = present(new, field).and_then(Value::as_str).map(str::to_owned);
    let had_none = present(before, field).is_none();
    let (annotation, former) = (class_of(claim), class_of(old));
    let from_annotation = had_none
        && former.is_some()
        && wanted.as_deref() == former
        && annotation.is_none_or(|annotation| Some(annotation) == former);
    if from_annotation {
        keep(new, before, field);
        return;
    }
    if annotation.unwrap_or_default() != former.unwrap_or_default() {
        let at = Path::new("metadata");
        let at = at.child("annotations");
        errors.push(Error::invalid(&at.child(CLASS), annotation.unwrap_or_default(), IMMUTABLE));
    }
    if had_none && wanted.is_some() && former.is_none_or(|former| wanted.as_deref() == Some(former)) {
        keep(new, before, field);
    }
}

/// `validatePersistentVolumeClaimResourceKey`; `false` if there are errors.
fn validate_key(name: &str, at: &Path<'_>, errors: &mut ErrorList) -> bool {
    let wrong = is_qualified_name(name);
    if !wrong.is_empty() {
        texts(wrong, name, at, errors);
        return false;
    }
    if is_native(name) && name != "storage" {
        errors.push(Error::not_supported(at, name, &["storage"]));
        return false;
    }
    true
}

/// `validateBasicResource`: upstream shows the number, rounded up.
pub(in crate::kinds) fn validate_basic(amount: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let quantity = amount.as_str().and_then(|text| Quantity::parse(text).ok());
    if let Some(quantity) = quantity.filter(|quantity| quantity.sign() < 0) {
        let whole = quantity.as_i64().unwrap_or_default();
        if whole < 0 {
            errors.push(Error::invalid(at, whole, "must be a valid resource quantity"));
        }
    }
}

pub(super) fn validate_status(claim: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(claim, old);
    if items(part(claim, "spec"), "accessModes").is_empty() {
        let at = Path::new("Spec");
        errors.push(Error::required(&at.child("accessModes"), ""));
    }
    let (status, at) = (part(claim, "status"), Path::new("status"));
    let amounts =
        |field: &'static str| status.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter);
    let all = at.child("capacity");
    for (name, amount) in amounts("capacity") {
        validate_basic(amount, &all.key(name), &mut errors);
    }
    let all = at.child("allocatedResourceStatuses");
    for (name, state) in amounts("allocatedResourceStatuses") {
        validate_key(name, &all, &mut errors);
        if !state.as_str().is_some_and(|state| RESIZES.contains(&state)) {
            errors.push(Error::not_supported(&all, name, &RESIZES));
        }
    }
    let all = at.child("allocatedResources");
    for (name, amount) in amounts("allocatedResources") {
        if validate_key(name, &all, &mut errors) {
            validate_basic(amount, &all.key(name), &mut errors);
        }
    }
    errors
}

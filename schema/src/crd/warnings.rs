//! What is accepted with a warning (`pkg/registry/customresourcedefinition/strategy.go`).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::crd::CustomResourceDefinition;
use kindom_api::field::go_quote;

use super::props::{any_schema, item, optional_text, text, type_of};
use super::view::View;

/// Warnings on the creation of a registration.
#[must_use]
pub fn warnings_on_create(crd: &CustomResourceDefinition) -> Vec<String> {
    let mut warnings = unrecognized_formats(crd);
    warnings.extend(sets_of_non_scalars(crd));
    warnings
}

/// Warnings on an update: those that the old registration would not give as well.
#[must_use]
pub fn warnings_on_update(new: &CustomResourceDefinition, old: &CustomResourceDefinition) -> Vec<String> {
    let before = unrecognized_formats(old);
    let mut warnings = unrecognized_formats(new);
    warnings.retain(|w| !before.contains(w));
    let before = sets_of_non_scalars(old);
    warnings.extend(sets_of_non_scalars(new).into_iter().filter(|w| !before.contains(w)));
    warnings
}

fn each_schema(crd: &CustomResourceDefinition, mut visit: impl FnMut(&Value)) {
    for schema in View::of(&crd.spec).schemas() {
        any_schema(schema, &mut |schema| {
            visit(schema);
            false
        });
    }
}

fn unrecognized_formats(crd: &CustomResourceDefinition) -> Vec<String> {
    let mut warnings = Vec::new();
    each_schema(crd, |schema| {
        let format = text(schema, "format");
        if !format.is_empty() && !is_recognized(type_of(schema), format) {
            warnings.push(format!("unrecognized format {}", go_quote(format)));
        }
    });
    warnings
}

fn sets_of_non_scalars(crd: &CustomResourceDefinition) -> BTreeSet<String> {
    let mut warnings = BTreeSet::new();
    each_schema(crd, |schema| {
        let is_set = optional_text(schema, "x-kubernetes-list-type") == Some("set");
        if let Some(kind @ ("object" | "array")) = item(schema).filter(|_| is_set).map(type_of) {
            warnings.insert(format!(
                "x-kubernetes-list-type: set for items of type \"{kind}\" is not supported by server-side apply or CEL validation rules"
            ));
        }
    });
    warnings
}

/// The formats of strings that values are held against, without their dashes (`pkg/apiserver/validation/formats.go`).
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

fn is_recognized(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

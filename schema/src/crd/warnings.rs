//! Warnings about accepted registrations: upstream's (`pkg/registry/customresourcedefinition/strategy.go`), and ours about
//! names that break the conventions (B-13, B-15).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::crd::CustomResourceDefinition;
use kindom_api::field::go_quote;
use kindom_api::names::is_kube_version;

use super::props::{any_schema, item, optional_text, text, type_of};
use super::view::View;

/// Warnings on the creation of a registration.
#[must_use]
pub fn warnings_on_create(crd: &CustomResourceDefinition) -> Vec<String> {
    let mut warnings = unrecognized_formats(crd);
    warnings.extend(sets_of_non_scalars(crd));
    warnings.extend(unconventional_names(crd));
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
    let before = unconventional_names(old);
    warnings.extend(unconventional_names(new).into_iter().filter(|w| !before.contains(w)));
    warnings
}

fn unconventional_names(crd: &CustomResourceDefinition) -> Vec<String> {
    let mut warnings = Vec::new();
    for version in crd.spec.versions.iter().filter(|version| !is_kube_version(&version.name)) {
        warnings.push(format!(
            "version {} has none of the forms v1, v1beta1 and v1alpha1: clients cannot tell how stable it is, and prefer any version that has one",
            go_quote(&version.name)
        ));
    }
    let kind = &crd.spec.names.kind;
    if !kind.starts_with(|c: char| c.is_ascii_uppercase()) || !kind.chars().all(|c| c.is_ascii_alphanumeric())
    {
        warnings.push(format!("kind {} is not in UpperCamelCase", go_quote(kind)));
    }
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

#[cfg(test)]
mod tests {
    use kindom_api::crd::{CustomResourceDefinition, decode_crd};
    use kindom_api::json::parse;

    use super::{warnings_on_create, warnings_on_update};

    fn crd(kind: &str, versions: &[&str], format: &str) -> CustomResourceDefinition {
        let schema =
            format!(r#"{{"type":"object","properties":{{"a":{{"type":"string","format":"{format}"}}}}}}"#);
        let version = |name: &&str| {
            format!(
                r#"{{"name":"{name}","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}"#
            )
        };
        let versions: Vec<String> = versions.iter().map(version).collect();
        let versions = versions.join(",");
        let tree = format!(
            r#"{{"metadata":{{"name":"a.g.io"}},"spec":{{"group":"g.io","names":{{"plural":"a","kind":"{kind}"}},"versions":[{versions}]}}}}"#
        );
        decode_crd(&parse(tree.as_bytes()).unwrap()).unwrap().0
    }

    /// B-13, B-15
    #[test]
    fn unconventional_names_are_warned_of_once() {
        let fine = crd("HTTPRoute2", &["v1", "v2beta1", "v1alpha10"], "");
        assert_eq!(warnings_on_create(&fine), Vec::<String>::new());
        for version in ["rc1", "v1rc1", "v01", "v1beta", "v1-1", "v1gamma1"] {
            let warnings = warnings_on_create(&crd("A", &["v1", version], ""));
            assert!(
                matches!(warnings.as_slice(), [w] if w.starts_with(&format!("version \"{version}\" has none"))),
                "{warnings:?}"
            );
        }
        for kind in ["widget", "wIDGET", "My-Widget"] {
            let warnings = warnings_on_create(&crd(kind, &["v1"], ""));
            assert_eq!(warnings, [format!("kind \"{kind}\" is not in UpperCamelCase")]);
        }
        let before = crd("widget", &["rc1"], "");
        assert_eq!(warnings_on_update(&before, &before), Vec::<String>::new());
        let warnings = warnings_on_update(&crd("widget", &["rc1", "rc2"], ""), &before);
        assert!(matches!(warnings.as_slice(), [w] if w.starts_with("version \"rc2\"")), "{warnings:?}");
    }

    #[test]
    fn an_update_repeats_no_warning() {
        let odd = crd("A", &["v1"], "odd");
        assert_eq!(warnings_on_create(&odd), ["unrecognized format \"odd\""]);
        assert_eq!(warnings_on_update(&odd, &odd), Vec::<String>::new());
        assert_eq!(warnings_on_update(&odd, &crd("A", &["v1"], "date")), ["unrecognized format \"odd\""]);
    }
}

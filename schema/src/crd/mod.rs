//! The validation of registrations (apiextensions-apiserver `pkg/apis/apiextensions/validation`, 1.37).
//!
//! Upstream checks its internal type, where a schema, subresources, columns or selectable fields that are the same in all
//! versions stand once, beside the versions. Errors name fields of that type: `spec.validation.openAPIV3Schema` where
//! the user wrote `spec.versions[0].schema.openAPIV3Schema`.
//!
//! The rules depend on the face that a registration is written through. On v1beta1 they are those of Kubernetes 1.21, the
//! last that served it: no schema is required, nor a structural one where unknown fields are preserved, and defaults are for
//! v1 alone. An error in a field that a ThirdPartyResource does not have is reported on the field that it came from.
//!
//! ```
//! use kindom_api::faces::Face;
//! let tree = kindom_api::json::parse(br#"{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com",
//!     "names":{"plural":"widgets","kind":"Widget"},"scope":"Namespaced","versions":[{"name":"v1","served":true,
//!     "storage":true,"schema":{"openAPIV3Schema":{"type":"string"}}}]}}"#)?;
//! let (mut crd, _) = kindom_api::crd::decode_crd(&tree)?;
//! kindom_api::crd::default_crd(&mut crd);
//! let errors: Vec<String> = kindom_schema::crd::validate_create(&crd, Face::V1).iter().map(ToString::to_string).collect();
//! assert_eq!(errors, [r#"spec.validation.openAPIV3Schema.type: Invalid value: "string": must be object at the root"#]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod conditions;
mod conversion;
mod convert;
pub(crate) mod defaults;
pub(crate) mod field_path;
mod openapi;
mod pem;
pub(crate) mod props;
mod rules;
mod selectable;
mod spec;
mod structural;
#[cfg(test)]
mod tests;
mod view;
mod warnings;

use std::collections::HashSet;

use kindom_api::Value;
use kindom_api::crd::{API_APPROVED_ANNOTATION, CustomResourceDefinition, condition};
use kindom_api::faces::Face;
use kindom_api::field::{BadValue, Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::{validate_object_meta, validate_object_meta_update};
use kindom_formats::url;

pub use conditions::{api_approval_condition, has_invalid_ca_bundle, non_structural_schema_condition};
pub use conversion::{validate_webhook_address, webhook_errors};
pub use convert::{ConvertError, Converted, to_v1};
pub use warnings::{warnings_on_create, warnings_on_update};

use props::any_schema;
use view::View;

const NO_DEFAULTS_IN_V1BETA1: &str =
    "(cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)";

/// The rules that hold. An update may keep violations that older servers accepted, but not add to them.
#[derive(Debug)]
struct Options {
    /// The reason why a schema may have no defaults; `None` if it may.
    defaults_forbidden: Option<&'static str>,
    require_recognized_review_version: bool,
    require_immutable_names: bool,
    require_schema: bool,
    require_valid_type: bool,
    require_structural: bool,
    require_pruned_defaults: bool,
    require_atomic_set: bool,
    require_map_list_keys: bool,
    allow_invalid_ca_bundle: bool,
    /// The versions whose selectable fields were already too many, and are unchanged; the empty name is all of them.
    allow_too_many_selectable_fields: HashSet<String>,
    /// The versions whose schema is as it was: what their rules cost one by one was let through before.
    unchanged_schemas: HashSet<String>,
}

impl Options {
    fn create(face: Face) -> Self {
        let strict = face != Face::V1beta1;
        Self {
            defaults_forbidden: (!strict).then_some(NO_DEFAULTS_IN_V1BETA1),
            require_recognized_review_version: true,
            require_immutable_names: false,
            require_schema: strict,
            require_valid_type: strict,
            require_structural: strict,
            require_pruned_defaults: true,
            require_atomic_set: true,
            require_map_list_keys: true,
            // It only has to be valid once the registration is Established.
            allow_invalid_ca_bundle: true,
            allow_too_many_selectable_fields: HashSet::new(),
            unchanged_schemas: HashSet::new(),
        }
    }

    fn update(new: &CustomResourceDefinition, old: &CustomResourceDefinition, face: Face) -> Self {
        let strict = face != Face::V1beta1;
        let established = old.is_condition_true(condition::ESTABLISHED);
        let schemas: Vec<&Value> = old.spec.versions.iter().filter_map(|v| v.open_api_v3_schema()).collect();
        let none = |holds: &mut dyn FnMut(&Value) -> bool| !schemas.iter().any(|s| any_schema(s, holds));
        Self {
            defaults_forbidden: (!strict && none(&mut |s| props::has(s, "default")))
                .then_some(NO_DEFAULTS_IN_V1BETA1),
            require_recognized_review_version: conversion::review_versions(old).is_none_or(|versions| {
                versions.is_empty() || versions.iter().any(|v| conversion::is_recognized(v))
            }),
            require_immutable_names: established,
            require_schema: strict && schemas.len() == old.spec.versions.len(),
            require_valid_type: strict && none(&mut openapi::has_invalid_type),
            require_structural: strict && schemas.iter().all(|s| is_structural(s)),
            require_pruned_defaults: !schemas.iter().any(|s| defaults::has_unpruned(s)),
            require_atomic_set: none(&mut openapi::is_non_atomic_set),
            require_map_list_keys: none(&mut |s| {
                !openapi::map_list_keys_and_sets(s, &Path::root()).is_empty()
            }),
            allow_invalid_ca_bundle: !established || conversion::has_invalid_ca_bundle(old),
            allow_too_many_selectable_fields: selectable::too_many_before(new, old),
            unchanged_schemas: unchanged_schemas(new, old),
        }
    }
}

/// The versions that both have, with the same schema or none.
fn unchanged_schemas(new: &CustomResourceDefinition, old: &CustomResourceDefinition) -> HashSet<String> {
    let schema_of = |crd: &CustomResourceDefinition, name: &str| {
        let version = crd.spec.versions.iter().find(|v| v.name == name)?;
        Some(version.open_api_v3_schema().cloned())
    };
    let names = new.spec.versions.iter().map(|v| &v.name);
    let unchanged = names.filter(|name| {
        let before = schema_of(old, name);
        before.is_some() && before == schema_of(new, name)
    });
    unchanged.cloned().collect()
}

fn is_structural(schema: &Value) -> bool {
    structural::unsupported(schema).is_ok() && structural::validate(schema, &Path::root()).is_empty()
}

/// `true` if OpenAPI publishes a schema (`pkg/controller/openapi/builder`, `generateBuilder`). It does all that v1 lets in.
pub(crate) fn is_published(schema: &Value) -> bool {
    !any_schema(schema, &mut openapi::has_invalid_type) && is_structural(schema)
}

/// Brings the metadata of embedded resources in the defaults of a valid registration into `ObjectMeta`'s form, so that
/// fields which no metadata has are not stored: upstream's validation changes the registration that it validates
/// (`schema/defaulting/validation.go`, `validate`). Schemas that are not structural are left alone. Idempotent.
pub fn coerce_defaults(registration: &mut Value) {
    let spec = registration.get_mut("spec");
    if spec.as_deref().and_then(|spec| spec.get("preserveUnknownFields")) == Some(&true.into()) {
        return;
    }
    let versions = spec.and_then(|spec| spec.get_mut("versions")).and_then(Value::as_array_mut);
    let schemas = versions.into_iter().flatten().filter_map(|version| version.get_mut("schema"));
    for schema in schemas.filter_map(|schema| schema.get_mut("openAPIV3Schema")) {
        let (mut embeds, mut defaults) = (false, false);
        any_schema(schema, &mut |schema| {
            embeds |= props::flag(schema, defaults::EMBEDDED);
            defaults |= props::has(schema, "default");
            embeds && defaults
        });
        if embeds && defaults && is_structural(schema) {
            defaults::coerce_in_place(schema, true, false);
        }
    }
}

/// All that is wrong with a registration that is to be created through a face. It has been decoded by
/// `kindom_api::crd::decode_crd`, defaulted by `default_crd` and prepared by `prepare_for_create`.
#[must_use]
pub fn validate_create(crd: &CustomResourceDefinition, face: Face) -> ErrorList {
    if let Some(error) = paths_too_long(crd) {
        return error.into();
    }
    let required = format!("{}.{}", crd.spec.names.plural, crd.spec.group);
    let name = |name: &str, prefix: bool| {
        let mut wrong = name_is_dns_subdomain(name, prefix);
        if name != required {
            wrong.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        wrong
    };
    let meta = kindom_api::json::to_value(&crd.metadata);
    let mut errors = validate_object_meta(&meta, false, &name, &Path::new("metadata"));
    spec::validate(&View::of(&crd.spec), &Options::create(face), &Path::new("spec"), &mut errors);
    status_rules(crd, &mut errors);
    stored_versions(crd, &mut errors);
    api_approval(crd, None, face, &mut errors);
    preserve_unknown_fields(crd, None, face, &mut errors);
    in_words_of(face, errors)
}

/// All that is wrong with a registration that replaces `old` through a face, after `prepare_for_update`. Both were
/// defaulted.
#[must_use]
pub fn validate_update(
    new: &CustomResourceDefinition,
    old: &CustomResourceDefinition,
    face: Face,
) -> ErrorList {
    if let Some(error) = paths_too_long(new) {
        return error.into();
    }
    let options = Options::update(new, old, face);
    let mut errors = meta_update(new, old);
    let path = Path::new("spec");
    let (view, old_view) = (View::of(&new.spec), View::of(&old.spec));
    spec::validate(&view, &options, &path, &mut errors);
    spec::immutable(&view, &old_view, &options, &path, &mut errors);
    status_rules(new, &mut errors);
    stored_versions(new, &mut errors);
    api_approval(new, Some(old), face, &mut errors);
    preserve_unknown_fields(new, Some(old), face, &mut errors);
    in_words_of(face, errors)
}

/// Bytes of the paths to everything in a registration's schemas.
const PATHS_BYTES_MAX: usize = 128 << 20;

/// An error for schemas of very many parts below very long names: each error names the whole path, and 100,000 errors below
/// a name of 1 MB would be 100 GB. Upstream has no such bound; the largest registrations that people have stay below a tenth
/// of this.
fn paths_too_long(crd: &CustomResourceDefinition) -> Option<Error> {
    fn bytes(value: &Value, above: usize) -> usize {
        match value {
            Value::Array(items) => {
                items.iter().map(|item| bytes(item, above + 8)).fold(above, usize::saturating_add)
            }
            Value::Object(map) => {
                let fields = map.iter().map(|(key, value)| bytes(value, above + key.len() + 2));
                fields.fold(above, usize::saturating_add)
            }
            _ => above,
        }
    }
    let view = View::of(&crd.spec);
    let too_long =
        view.schemas().map(|schema| bytes(schema, 0)).fold(0, usize::saturating_add) > PATHS_BYTES_MAX;
    let detail = format!("the paths of its fields may not take more than {PATHS_BYTES_MAX} bytes together");
    too_long.then(|| Error::forbidden(&Path::new("spec"), detail))
}

/// Errors on the fields that the face has. A ThirdPartyResource has its one version in `spec.version`, which the
/// internal type has as well, so one of two errors on it is enough.
fn in_words_of(face: Face, errors: ErrorList) -> ErrorList {
    if face != Face::ThirdPartyResource {
        return errors;
    }
    let (mut out, mut seen) = (ErrorList::new(), HashSet::new());
    for mut error in errors {
        if error.field.starts_with("spec.versions[") && error.field.ends_with("].name") {
            error.field = "spec.version".to_owned();
            if error.bad_value == BadValue::Value("".into()) {
                error = Error::required(&Path::new("spec").child("version"), "");
            }
        }
        if seen.insert(error.to_string()) {
            out.push(error);
        }
    }
    out
}

/// The errors of a write to `/status`, after `prepare_for_status_update`. Upstream does not check stored versions here; a
/// caller that needs them to be right calls [`validate_stored_versions`] too.
#[must_use]
pub fn validate_status_update(new: &CustomResourceDefinition, old: &CustomResourceDefinition) -> ErrorList {
    let mut errors = meta_update(new, old);
    status_rules(new, &mut errors);
    errors
}

/// The errors of `status.storedVersions`: the storage version must be there, and all must be among the versions.
#[must_use]
pub fn validate_stored_versions(crd: &CustomResourceDefinition) -> ErrorList {
    let mut errors = ErrorList::new();
    stored_versions(crd, &mut errors);
    errors
}

fn meta_update(new: &CustomResourceDefinition, old: &CustomResourceDefinition) -> ErrorList {
    let (new, old) = (kindom_api::json::to_value(&new.metadata), kindom_api::json::to_value(&old.metadata));
    validate_object_meta_update(&new, &old, &Path::new("metadata"))
}

fn status_rules(crd: &CustomResourceDefinition, errors: &mut ErrorList) {
    let status = Path::new("status");
    spec::names(&crd.status.accepted_names, &status.child("acceptedNames"), errors);
}

fn stored_versions(crd: &CustomResourceDefinition, errors: &mut ErrorList) {
    let status = Path::new("status");
    let path = status.child("storedVersions");
    let stored = &crd.status.stored_versions;
    if stored.is_empty() {
        errors.push(Error::invalid(&path, Value::Null, "must have at least one stored version"));
        return;
    }
    // Each error lists all of them, and more than so many help nobody.
    const LISTED_MAX: usize = 100;
    let mut left: Vec<(usize, &String)> = stored.iter().enumerate().collect();
    for version in &crd.spec.versions {
        let known = left.iter().any(|(_, name)| **name == version.name);
        // A second version of the same name finds nothing left, as upstream's does.
        if version.storage && !known && errors.len() < LISTED_MAX {
            let detail = format!("must have the storage version {}", version.name);
            errors.push(Error::invalid(&path, stored.clone(), detail));
        }
        left.retain(|(_, name)| **name != version.name);
    }
    for (i, name) in left {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.push(Error::invalid(&path.index(i), name.as_str(), detail));
    }
}

/// The approval state of a registration in one of the Kubernetes project's groups (KEP-1111, apiextensions-apiserver
/// `pkg/apihelpers`).
#[derive(Debug, Clone, PartialEq, Eq)]
enum ApiApproval {
    /// The group needs no approval.
    NotNeeded,
    /// There is no annotation.
    Missing(String),
    /// It holds neither a URL nor a reason that begins with `unapproved`.
    Invalid(String),
    /// It holds the URL of the approval.
    Approved(String),
    /// It begins with `unapproved`.
    Bypassed(String),
}

/// The state of the `api-approved.kubernetes.io` annotation, with upstream's text for it.
fn api_approval_state(crd: &CustomResourceDefinition) -> ApiApproval {
    let protected = ["k8s.io", "kubernetes.io"].into_iter().any(|domain| {
        crd.spec.group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    if !protected {
        return ApiApproval::NotNeeded;
    }
    const REFERENCE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let must = format!("protected groups must have approval annotation \"{API_APPROVED_ANNOTATION}\"");
    match crd.metadata.annotations.get(API_APPROVED_ANNOTATION).map_or("", String::as_str) {
        "" => ApiApproval::Missing(format!("{must}, {REFERENCE}")),
        text if text.starts_with("unapproved") => {
            ApiApproval::Bypassed(format!("not approved: {}", kindom_api::field::go_quote(text)))
        }
        text if url::is_absolute(text) => ApiApproval::Approved(format!("approved in {text}")),
        _ => ApiApproval::Invalid(format!(
            "{must} with either a URL or a reason starting with \"unapproved\", {REFERENCE}"
        )),
    }
}

fn api_approval(
    new: &CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
    face: Face,
    errors: &mut ErrorList,
) {
    // The older faces never asked for it.
    if face.rules() != Face::V1 {
        return;
    }
    let state = api_approval_state(new);
    // An update of another part need not mend this.
    let unchanged = old.is_some_and(|old| {
        std::mem::discriminant(&api_approval_state(old)) == std::mem::discriminant(&state)
    });
    if unchanged {
        return;
    }
    let metadata = Path::new("metadata");
    let annotations = metadata.child("annotations");
    let path = annotations.key(API_APPROVED_ANNOTATION);
    match state {
        ApiApproval::NotNeeded | ApiApproval::Approved(_) | ApiApproval::Bypassed(_) => {}
        ApiApproval::Missing(text) => errors.push(Error::required(&path, text)),
        ApiApproval::Invalid(text) => {
            let value = new.metadata.annotations.get(API_APPROVED_ANNOTATION).cloned().unwrap_or_default();
            errors.push(Error::invalid(&path, value, text));
        }
    }
}

fn preserve_unknown_fields(
    new: &CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
    face: Face,
    errors: &mut ErrorList,
) {
    if face == Face::V1beta1 {
        return;
    }
    if new.spec.preserve_unknown_fields && !old.is_some_and(|old| old.spec.preserve_unknown_fields) {
        let spec = Path::new("spec");
        errors.push(Error::invalid(
            &spec.child("preserveUnknownFields"),
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
}

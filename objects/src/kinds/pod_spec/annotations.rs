//! The rules of a pod's annotations (`ValidatePodSpecificAnnotations`, `ValidatePodSpecificAnnotationUpdates`,
//! `validateSeccompAnnotationsAndFields`, `validateAppArmorAnnotationsAndFieldsMatchOnCreate`, 1.37).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path, go_quote};

use super::security::each_container;
use super::volumes;
use crate::kinds::fields::{part, present, text};
use crate::kinds::keyed::entries;

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR_OF: &str = "container.apparmor.security.beta.kubernetes.io/";

fn annotation<'a>(metadata: &'a Value, key: &str) -> Option<&'a str> {
    metadata.at(&["annotations", key]).and_then(Value::as_str)
}

/// `true` for a pod that stands for one that a node runs by itself.
pub(in crate::kinds) fn is_mirror(pod: &Value) -> bool {
    is_mirror_metadata(part(pod, "metadata"))
}

/// `true` for the metadata of such a pod.
pub(super) fn is_mirror_metadata(metadata: &Value) -> bool {
    annotation(metadata, MIRROR).is_some()
}

/// The errors in the annotations of a pod or a template.
pub(in crate::kinds) fn validate(metadata: &Value, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(value) = annotation(metadata, MIRROR).filter(|_| text(spec, "nodeName").is_empty()) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(Error::invalid(&at.key(MIRROR), value, detail));
    }
    if let Some(cost) = annotation(metadata, DELETION_COST).filter(|cost| !is_cost(cost)) {
        errors.push(Error::invalid(&at.key(DELETION_COST), cost, "must be a 32bit integer"));
    }
    for (key, profile) in entries(metadata, "annotations") {
        if key == SECCOMP || key.starts_with(SECCOMP_OF) {
            validate_seccomp(profile, &at.child(key), errors);
        }
    }
    let mut names = BTreeSet::new();
    each_container(spec, at, |container, _| {
        names.insert(text(container, "name"));
    });
    for (key, profile) in entries(metadata, "annotations") {
        let Some(container) = key.strip_prefix(APP_ARMOR_OF) else { continue };
        let at = at.key(key);
        if !names.contains(container) {
            errors.push(Error::invalid(&at, container, "container not found"));
        }
        let is_known =
            matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/");
        if !is_known {
            let detail = format!("invalid AppArmor profile name: {}", go_quote(profile));
            errors.push(Error::invalid(&at, profile, detail));
        }
    }
}

/// A number as `GetDeletionCostFromPodAnnotations` reads it: with a sign, and without zeros at its head.
fn is_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = !text.starts_with('+') && (digits == "0" && digits == text || !digits.starts_with('0'));
    is_plain && text.parse::<i32>().is_ok()
}

fn validate_seccomp(profile: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(path) => volumes::validate_relative(path, at, errors),
        None => errors.push(Error::invalid(at, profile, "must be a valid seccomp profile")),
    }
}

/// The errors in annotations that say something else than the fields that replace them.
pub(in crate::kinds) fn validate_against_fields(
    metadata: &Value,
    spec: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let of_pod = part(spec, "securityContext");
    if let Some(profile) = present(of_pod, "seccompProfile")
        && let Some(annotation) = annotation(metadata, SECCOMP)
    {
        let at = at.child("securityContext");
        compare(annotation, profile, "seccomp", &at.child("seccompProfile"), errors);
    }
    each_container(spec, at, |container, at| {
        let key = format!("{SECCOMP_OF}{}", text(container, "name"));
        let at = at.child("securityContext");
        if let Some(profile) = present(part(container, "securityContext"), "seccompProfile")
            && let Some(annotation) = annotation(metadata, &key)
        {
            compare(annotation, profile, "seccomp", &at.child("seccompProfile"), errors);
        }
    });
    if spec.text_at(&["os", "name"]) == "windows" {
        return;
    }
    each_container(spec, at, |container, at| {
        let key = format!("{APP_ARMOR_OF}{}", text(container, "name"));
        let own = present(part(container, "securityContext"), "appArmorProfile");
        let at = at.child("securityContext");
        if let Some(profile) = own.or_else(|| present(of_pod, "appArmorProfile"))
            && let Some(annotation) = annotation(metadata, &key)
        {
            compare(annotation, profile, "apparmor", &at.child("appArmorProfile"), errors);
        }
    });
}

fn compare(annotation: &str, profile: &Value, what: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let same_type = match text(profile, "type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => {
            annotation == "runtime/default" || what == "seccomp" && annotation == "docker/default"
        }
        "Localhost" => annotation.starts_with("localhost/"),
        _ => true,
    };
    let path = present(profile, "localhostProfile").and_then(Value::as_str);
    if !same_type {
        let detail = format!("{what} type in annotation and field must match");
        errors.push(Error::forbidden(&at.child("type"), detail));
    } else if text(profile, "type") == "Localhost" && path != annotation.strip_prefix("localhost/") {
        let detail = format!("{what} profile in annotation and field must match");
        errors.push(Error::forbidden(&at.child("localhostProfile"), detail));
    }
}

/// The errors in a change of a pod's annotations.
pub(in crate::kinds) fn validate_update(pod: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (metadata, before) = (part(pod, "metadata"), part(old, "metadata"));
    let changes = |key: &str| {
        if key.starts_with(APP_ARMOR_OF) {
            Some("AppArmor annotations")
        } else {
            (key == MIRROR).then_some("mirror pod annotation")
        }
    };
    for (key, value) in entries(before, "annotations") {
        if annotation(metadata, key) != Some(value)
            && let Some(what) = changes(key)
        {
            errors.push(Error::forbidden(&at.key(key), format!("may not remove or update {what}")));
        }
    }
    for (key, _) in entries(metadata, "annotations").filter(|(key, _)| annotation(before, key).is_none()) {
        if let Some(what) = changes(key) {
            errors.push(Error::forbidden(&at.key(key), format!("may not add {what}")));
        }
    }
    validate(metadata, part(pod, "spec"), at, errors);
}

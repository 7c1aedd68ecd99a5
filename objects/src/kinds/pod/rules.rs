//! The errors in a pod, and warnings about a new one (`validatePodMetadataAndSpec`, `ValidatePodCreate` of
//! `pkg/apis/core/validation/validation.go`, `podStrategy.WarningsOnCreate`, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;

use super::spec;
use crate::kinds::fields::{items, not_negative, part, present, text};
use crate::kinds::pod_spec::{self, annotations};

/// The errors in a new pod.
pub(super) fn validate(pod: &Value) -> ErrorList {
    let mut errors = validate_whole(pod);
    let (spec, at) = (spec(pod), Path::new("spec"));
    if !items(spec, "ephemeralContainers").is_empty() {
        errors.push(Error::forbidden(&at.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !text(spec, "nodeName").is_empty() && !items(spec, "schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(Error::forbidden(&at.child("nodeName"), detail));
    }
    annotations::validate_against_fields(part(pod, "metadata"), spec, &at, &mut errors);
    errors
}

/// The errors in any pod (`validatePodMetadataAndSpec`).
pub(super) fn validate_whole(pod: &Value) -> ErrorList {
    let metadata = part(pod, "metadata");
    let (metadata_at, at) = (Path::new("metadata"), Path::new("spec"));
    let mut errors = validate_object_meta(metadata, true, &name_is_dns_subdomain, &metadata_at);
    let spec = spec(pod);
    annotations::validate(metadata, spec, &metadata_at.child("annotations"), &mut errors);
    pod_spec::validate_spec(spec, Some(metadata), &[], &at, &mut errors);
    if text(spec, "serviceAccountName").is_empty() {
        let volumes_at = at.child("volumes");
        for (index, volume) in items(spec, "volumes").iter().enumerate() {
            let volume_at = volumes_at.index(index);
            let projected_at = volume_at.child("projected");
            let sources_at = projected_at.child("sources");
            for (index, source) in items(part(volume, "projected"), "sources").iter().enumerate() {
                if present(source, "serviceAccountToken").is_some() {
                    let source_at = sources_at.index(index);
                    let detail = "must not be specified when serviceAccountName is not set";
                    errors.push(Error::forbidden(&source_at.child("serviceAccountToken"), detail));
                }
            }
        }
    }
    not_negative(spec, "terminationGracePeriodSeconds", &at, &mut errors);
    for list in ["containers", "initContainers"] {
        let all = at.child(list);
        for (index, container) in items(spec, list).iter().enumerate() {
            untrimmed_image(container, &all.index(index), &mut errors);
        }
    }
    errors
}

/// `validateContainerOnlyForPod`
pub(super) fn untrimmed_image(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let image = text(container, "image");
    if image.trim().len() != image.len() {
        let detail = "must not have leading or trailing whitespace";
        errors.push(Error::invalid(&at.child("image"), image, detail));
    }
}

/// The warnings about a new pod.
pub(super) fn warnings(pod: &Value) -> Vec<String> {
    let wrong = is_dns1123_label(pod.text_at(&["metadata", "name"]));
    let mut warnings = Vec::new();
    if !wrong.is_empty() {
        let why = wrong.join(" ");
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
             recommended: [{why}]"
        ));
    }
    warnings.extend(pod_spec::warnings(spec(pod), part(pod, "metadata"), &Path::root()));
    warnings
}

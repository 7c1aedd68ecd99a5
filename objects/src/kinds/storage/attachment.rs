//! VolumeAttachment (`pkg/registry/storage/volumeattachment/strategy.go`, 1.37): a volume that a driver attaches to a node.

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_long_name_caseless, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_schema::columns::{Columns, TableColumn, age, name_column};

use super::{API_VERSION, of};
use crate::declared::Declared;
use crate::kinds::fields::{number, part, present, same, text, texts};
use crate::kinds::keyed::entries;
use crate::kinds::persistent_volume::validate_inline;
use crate::kinds::pod_spec::defaults;
use crate::kinds::status::{is_of_status, keep_metadata, keep_other_part, reset};
use crate::kinds::table_column;
use crate::{Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

static ATTACHMENT: Declared = Declared::catalogued(API_VERSION, "VolumeAttachment");
const ATTACHER_MAX: usize = 63;
const METADATA_BYTES_MAX: usize = 256 * 1024;
const MESSAGE_BYTES_MAX: usize = 1024;
const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

pub(super) fn attachments() -> TypeSpec {
    let of_spec = |name: &str, path: &[&str]| table_column(name, "string", 0, ATTACHMENT.text_of(path));
    let columns = vec![
        name_column(),
        TableColumn { format: "name".to_owned(), ..of_spec("Attacher", &["spec", "attacher"]) },
        of_spec("PV", &["spec", "source", "persistentVolumeName"]),
        of_spec("Node", &["spec", "nodeName"]),
        table_column("Attached", "boolean", 0, ATTACHMENT.text_of(&["status", "attached"])),
        table_column("Age", "string", 0, ""),
    ];
    let names = Names::of_kind("volumeattachments", "VolumeAttachment");
    of(names, Scope::Cluster, Columns::rows(columns, cells), Arc::new(Attachments))
}

/// `printVolumeAttachment`
fn cells(attachment: &Value, now: i64) -> Vec<Value> {
    let [metadata, spec, status] = ["metadata", "spec", "status"].map(|of| part(attachment, of));
    vec![
        text(metadata, "name").into(),
        text(spec, "attacher").into(),
        text(part(spec, "source"), "persistentVolumeName").into(),
        text(spec, "nodeName").into(),
        Value::Bool(status.get("attached") == Some(&Value::Bool(true))),
        age(text(metadata, "creationTimestamp"), now).into(),
    ]
}

/// The rules of VolumeAttachments.
struct Attachments;

impl Strategy for Attachments {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&ATTACHMENT)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["storage.k8s.io/v1alpha1", "storage.k8s.io/v1beta1"]
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn fill_defaults(&self, attachment: &mut Value) {
        let source = attachment.get_mut("spec").and_then(|spec| spec.get_mut("source"));
        if let Some(volume) = source.and_then(|source| source.get_mut("inlineVolumeSpec")) {
            defaults::sources(volume);
        }
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        if is_of_status(cx) { &["metadata", "spec"] } else { &["status"] }
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, attachment: &mut Value) {
        reset(cx, attachment);
    }

    fn validate(&self, _: &RuleContext<'_>, attachment: &Value) -> ErrorList {
        validate(attachment)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, attachment: &mut Value, old: &Value) {
        keep_other_part(cx, attachment, old);
        if is_of_status(cx) {
            keep_metadata(attachment, old);
        }
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        attachment: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = validate(attachment);
        if !same(attachment.get("spec"), old.get("spec")) {
            // Upstream prints no value.
            errors.push(Error::invalid(&Path::new("spec"), Value::Null, "field is immutable"));
        }
        errors
    }
}

/// `ValidateVolumeAttachment`
fn validate(attachment: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(attachment, "metadata"), false, &name_is_dns_subdomain, &at);
    let (spec, at) = (part(attachment, "spec"), Path::new("spec"));
    validate_attacher(text(spec, "attacher"), &at.child("attacher"), &mut errors);
    validate_source(part(spec, "source"), &at.child("source"), &mut errors);
    let node = text(spec, "nodeName");
    texts(name_is_dns_subdomain(node, false), node, &at.child("nodeName"), &mut errors);
    validate_status(part(attachment, "status"), &mut errors);
    errors
}

/// `Validate_VolumeAttachmentSpec` of `pkg/apis/storage/v1/zz_generated.validations.go`, whose texts differ from those that other
/// names of drivers get.
fn validate_attacher(attacher: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if attacher.is_empty() {
        return errors.push(Error::required(at, ""));
    }
    if attacher.chars().count() > ATTACHER_MAX {
        errors.push(Error::too_long_text(at, ATTACHER_MAX));
    }
    texts(is_long_name_caseless(attacher), attacher, at, errors);
}

/// `validateVolumeAttachmentSource`
fn validate_source(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let name = present(source, "persistentVolumeName").and_then(Value::as_str);
    let at_name = at.child("persistentVolumeName");
    match (present(source, "inlineVolumeSpec"), name) {
        (None, None) => errors.push(Error::required(at, ONE_SOURCE)),
        (Some(_), Some(_)) => errors.push(Error::forbidden(at, ONE_SOURCE)),
        (None, Some("")) => {
            errors.push(Error::required(&at_name, "must specify non empty persistentVolumeName"));
        }
        (None, Some(_)) => {}
        (Some(volume), None) => {
            validate_inline(volume, &at.child("inlineVolumeSpec"), errors);
        }
    }
    if let Some(name) = name {
        texts(name_is_dns_subdomain(name, false), name, &at_name, errors);
    }
}

/// `validateVolumeAttachmentStatus`
fn validate_status(status: &Value, errors: &mut ErrorList) {
    let at = Path::new("status");
    let bytes = entries(status, "attachmentMetadata")
        .fold(0_usize, |sum, (name, value)| sum.saturating_add(name.len()).saturating_add(value.len()));
    if bytes > METADATA_BYTES_MAX {
        errors.push(Error::too_long(&at.child("attachmentMetadata"), METADATA_BYTES_MAX));
    }
    for field in ["attachError", "detachError"] {
        let (error, at) = (part(status, field), at.child(field));
        if text(error, "message").len() > MESSAGE_BYTES_MAX {
            errors.push(Error::too_long(&at.child("message"), MESSAGE_BYTES_MAX));
        }
        if let Some(code @ ..0) = number(error, "errorCode") {
            let detail = format!("must be between 0 and {}, inclusive", i32::MAX);
            errors.push(Error::invalid(&at.child("errorCode"), code, detail));
        }
    }
}

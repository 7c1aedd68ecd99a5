//! The errors in volumes (`pkg/apis/core/validation/validation.go`, `pkg/volume/validation/pv_validation.go`, 1.37).

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{
    is_dns1123_label, is_dns1123_subdomain, name_is_dns_label, name_is_dns_subdomain,
};
use kindom_api::meta::validate_object_meta;
use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value};

use crate::kinds::difference;
use crate::kinds::fields::{items, part, present, same, text, texts};
use crate::kinds::persistent_volume_claim::validate_basic;
use crate::kinds::pod_spec::volume_claim::{VOLUME_MODES, validate_access};
use crate::kinds::pod_spec::{affinity, sources, volumes};

const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
/// The sources, in upstream's order.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];
/// The sources that can be mounted with options.
const WITH_OPTIONS: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];
const OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
const FORMAT: &str = "must be valid format";
/// The longest name of a target of iSCSI with the volume's.
const TARGET_MAX: usize = 64;

pub(super) fn validate(volume: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(volume, "metadata"), false, &name_is_dns_subdomain, &at);
    let name = volume.text_at(&["metadata", "name"]);
    let at_spec = Path::new("spec");
    validate_common(part(volume, "spec"), name, &at_spec, &mut errors);
    validate_spec(part(volume, "spec"), &at_spec, &mut errors);
    let spec = part(volume, "spec");
    let has_options = volume.at(&["metadata", "annotations", OPTIONS]).is_some();
    if has_options && !WITH_OPTIONS.iter().any(|field| present(spec, field).is_some()) {
        let at = at.child("annotations");
        let detail = "may not specify mount options for this volume type";
        errors.push(Error::forbidden(&at.child(OPTIONS), detail));
    }
    errors
}

/// The rules of a volume that is written within another object (`ValidatePersistentVolumeSpec`).
pub(in crate::kinds) fn validate_inline(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let is_set =
        |field: &str| !same(spec.get(field), None) && spec.get(field).and_then(Value::as_str) != Some("");
    // A struct that is there is set, even if it is empty.
    let has_claim = present(spec, "claimRef").is_some();
    let has_affinity = present(spec, "nodeAffinity").is_some();
    for (field, is_there) in [
        ("claimRef", has_claim),
        ("capacity", is_set("capacity")),
        ("nodeAffinity", has_affinity),
        ("storageClassName", is_set("storageClassName")),
    ] {
        if is_there {
            let detail = "may not be specified in the context of inline volumes";
            errors.push(Error::forbidden(&at.child(field), detail));
        }
    }
    if present(spec, "csi").is_none() {
        let detail = "has to be specified in the context of inline volumes";
        errors.push(Error::required(&at.child("csi"), detail));
    }
    if !matches!(text(spec, "persistentVolumeReclaimPolicy"), "" | "Retain") {
        let detail = "may only be Retain in the context of inline volumes";
        errors.push(Error::forbidden(&at.child("persistentVolumeReclaimPolicy"), detail));
    }
    if present(spec, "volumeMode").and_then(Value::as_str).is_some_and(|mode| mode != "Filesystem") {
        let detail = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.push(Error::forbidden(&at.child("volumeMode"), detail));
    }
    validate_common(spec, "", at, errors);
}

/// The rules of volumes with a name of their own alone.
fn validate_spec(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_capacity(spec, &at.child("capacity"), errors);
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !RECLAIM_POLICIES.contains(&policy) {
        let at = at.child("persistentVolumeReclaimPolicy");
        errors.push(Error::not_supported(&at, policy, &RECLAIM_POLICIES));
    }
    if let Some(of) = present(spec, "nodeAffinity") {
        let at = at.child("nodeAffinity");
        let at = at.child("required");
        match present(of, "required") {
            Some(required) => affinity::validate_node_selector(required, &at, errors),
            None => errors.push(Error::required(&at, "must specify required node constraints")),
        }
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        texts(name_is_dns_subdomain(class, false), class, &at.child("storageClassName"), errors);
    }
    if let Some(mode) = present(spec, "volumeMode").and_then(Value::as_str)
        && !VOLUME_MODES.contains(&mode)
    {
        errors.push(Error::not_supported(&at.child("volumeMode"), mode, &VOLUME_MODES));
    }
}

/// The rules of all volumes.
fn validate_common(spec: &Value, name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let modes_at = at.child("accessModes");
    if items(spec, "accessModes").is_empty() {
        errors.push(Error::required(&modes_at, ""));
    }
    validate_access(spec, &modes_at, errors);
    validate_source(spec, name, at, errors);
    let root = spec.text_at(&["hostPath", "path"]);
    let is_root = root.starts_with('/') && root.split('/').all(|part| matches!(part, "" | "." | ".."));
    if is_root && text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        let at = at.child("persistentVolumeReclaimPolicy");
        errors.push(Error::forbidden(&at, "may not be 'recycle' for a hostPath mount of '/'"));
    }
    if let Some(class) = present(spec, "volumeAttributesClassName").and_then(Value::as_str) {
        let class_at = at.child("volumeAttributesClassName");
        match class {
            "" => errors.push(Error::required(&class_at, "an empty string is disallowed")),
            class => texts(name_is_dns_subdomain(class, false), class, &class_at, errors),
        }
        if present(spec, "csi").is_none() {
            let detail = "has to be specified when using volumeAttributesClassName";
            errors.push(Error::required(&at.child("csi"), detail));
        }
    }
}

fn validate_capacity(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let capacity = spec.get("capacity").and_then(Value::as_object).cloned().unwrap_or_default();
    if capacity.is_empty() {
        errors.push(Error::required(at, ""));
    }
    if capacity.get("storage").is_none() || capacity.len() > 1 {
        let shown = spec.get("capacity").filter(|of| !of.is_null()).cloned().unwrap_or_default();
        errors.push(Error::not_supported_raw(at, shown.to_string(), &["storage"]));
    }
    for (name, amount) in capacity.iter() {
        let at = at.key(name);
        validate_basic(amount, &at, errors);
        let text = amount.as_str().unwrap_or_default();
        if Quantity::parse(text).is_ok_and(|amount| amount.sign() <= 0) {
            errors.push(Error::invalid(&at, text, "must be greater than zero"));
        }
    }
}

/// The error in a reference to a secret that lacks its name or its namespace.
fn whole_secret(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(secret) = present(source, "secretRef") else { return };
    let at = at.child("secretRef");
    for field in ["name", "namespace"] {
        if text(secret, field).is_empty() {
            errors.push(Error::required(&at.child(field), ""));
        }
    }
}

fn validate_source(spec: &Value, name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let mut has_one = false;
    for field in SOURCES {
        let Some(source) = present(spec, field) else { continue };
        let own_at = at.child(field);
        if has_one && field != "flexVolume" {
            // Upstream spells one of them in two ways.
            let at = at.child(if field == "cephfs" { "cephFS" } else { field });
            errors.push(Error::forbidden(&at, "may not specify more than 1 volume type"));
            continue;
        }
        has_one = true;
        match field {
            "hostPath" => volumes::validate_host_path(source, &own_at, errors),
            "gcePersistentDisk" => sources::validate(field, source, &at.child("persistentDisk"), errors),
            "glusterfs" => {
                sources::validate(field, source, &own_at, errors);
                if let Some(namespace) = present(source, "endpointsNamespace").and_then(Value::as_str) {
                    let at = own_at.child("endpointsNamespace");
                    let empty = "if the endpointnamespace is set, it must be a valid namespace name";
                    match namespace {
                        "" => errors.push(Error::invalid(&at, "", empty)),
                        name => texts(name_is_dns_label(name, false), name, &at, errors),
                    }
                }
            }
            "iscsi" => validate_iscsi(source, name, &own_at, errors),
            "azureFile" => {
                sources::validate(field, source, &own_at, errors);
                if source.get("secretNamespace").and_then(Value::as_str) == Some("") {
                    errors.push(Error::required(&own_at.child("secretNamespace"), ""));
                }
            }
            "cinder" | "storageos" => {
                let mut own = source.clone();
                own.as_object_mut().into_iter().for_each(|own| drop(own.remove("secretRef")));
                sources::validate(field, &own, &own_at, errors);
                whole_secret(source, &own_at, errors);
            }
            "local" => {
                match text(source, "path") {
                    "" => errors.push(Error::required(&own_at.child("path"), "")),
                    path => volumes::validate_no_backsteps(path, &own_at.child("path"), errors),
                }
                if present(spec, "nodeAffinity").is_none() {
                    let detail = "Local volume requires node affinity";
                    errors.push(Error::required(&at.child("nodeAffinity"), detail));
                }
            }
            "csi" => validate_csi(source, &own_at, errors),
            field => sources::validate(field, source, &own_at, errors),
        }
    }
    if !has_one {
        errors.push(Error::required(at, "must specify a volume type"));
    }
}

fn validate_iscsi(source: &Value, volume: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let portal = text(source, "targetPortal");
    let initiator = present(source, "initiatorName").and_then(Value::as_str);
    if portal.is_empty() {
        errors.push(Error::required(&at.child("targetPortal"), ""));
    }
    if initiator.is_some() && volume.len() + 1 + portal.len() > TARGET_MAX {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                      iscsi.initiatorName is specified.";
        errors.push(Error::invalid(&at.child("targetportal"), portal, detail));
    }
    match text(source, "iqn") {
        "" => errors.push(Error::required(&at.child("iqn"), "")),
        name if sources::is_initiator(name) != Some(true) => {
            errors.push(Error::invalid(&at.child("iqn"), name, FORMAT));
        }
        _ => {}
    }
    let lun = source.get("lun").and_then(Value::as_i64).unwrap_or_default();
    if !(0..=255).contains(&lun) {
        errors.push(Error::invalid(&at.child("lun"), lun, "must be between 0 and 255, inclusive"));
    }
    let is_true = |field: &str| source.get(field) == Some(&Value::Bool(true));
    let secret = present(source, "secretRef");
    if (is_true("chapAuthDiscovery") || is_true("chapAuthSession")) && secret.is_none() {
        errors.push(Error::required(&at.child("secretRef"), ""));
    }
    if secret.is_some_and(|secret| text(secret, "name").is_empty()) {
        let at = at.child("secretRef");
        errors.push(Error::required(&at.child("name"), ""));
    }
    if let Some(name) = initiator.filter(|name| sources::is_initiator(name) != Some(true)) {
        errors.push(Error::invalid(&at.child("initiatorname"), name, FORMAT));
    }
}

fn validate_csi(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    sources::validate_driver(text(source, "driver"), &at.child("driver"), errors);
    if text(source, "volumeHandle").is_empty() {
        errors.push(Error::required(&at.child("volumeHandle"), ""));
    }
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let Some(secret) = present(source, field) else { continue };
        let at = at.child(field);
        for (part, wrong) in [
            ("name", is_dns1123_subdomain as fn(&str) -> Vec<String>),
            ("namespace", is_dns1123_label as fn(&str) -> Vec<String>),
        ] {
            match text(secret, part) {
                "" => errors.push(Error::required(&at.child(part), "")),
                value => texts(wrong(value), value, &at.child(part), errors),
            }
        }
    }
}

/// The sources of a spec.
fn source_of(spec: &Value) -> Value {
    let found = SOURCES.iter().filter_map(|field| Some(((*field).to_owned(), present(spec, field)?.clone())));
    Value::Object(found.collect::<Map>())
}

pub(super) fn validate_update(volume: &Value, old: &Value) -> ErrorList {
    // Upstream judges the whole object twice; what is said twice is said once.
    let mut errors = validate(volume);
    let (spec, before) = (part(volume, "spec"), part(old, "spec"));
    let (mut new, stored) = (source_of(spec), source_of(before));
    let secret = "controllerExpandSecretRef";
    let had_none = present(before, "csi").is_some_and(|csi| present(csi, secret).is_none());
    if had_none && let Some(csi) = new.get_mut("csi").and_then(Value::as_object_mut) {
        csi.remove(secret);
    }
    if !same(Some(&new), Some(&stored)) {
        let difference = difference::of(&new, &stored);
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        let at = Path::new("spec");
        errors.push(Error::forbidden(&at.child("persistentvolumesource"), detail));
    }
    if spec.get("volumeMode") != before.get("volumeMode") {
        let value = spec.get("volumeMode").cloned().unwrap_or_default();
        errors.push(Error::invalid(&Path::new("volumeMode"), value, "field is immutable"));
    }
    let field = "volumeAttributesClassName";
    if present(before, field).is_some() && present(spec, field).is_none() {
        let at = Path::new("spec");
        errors.push(Error::forbidden(&at.child(field), "update from non-nil value to nil is forbidden"));
    }
    let affinity = "nodeAffinity";
    if present(before, affinity).is_some() && !same(spec.get(affinity), before.get(affinity)) {
        let detail = "field is immutable, except for updating from beta label to GA";
        let printed = printed_affinity(present(spec, affinity));
        errors.push(Error::invalid_raw(&Path::new(affinity), printed, detail));
    }
    errors
}

/// A node affinity as Go prints its internal form, whose fields have no JSON names.
fn printed_affinity(of: Option<&Value>) -> String {
    let Some(of) = of else { return "null".to_owned() };
    let required = present(of, "required").map_or_else(
        || "null".to_owned(),
        |required| {
            let terms = affinity::printed_terms(items(required, "nodeSelectorTerms"));
            format!("{{\"NodeSelectorTerms\":{terms}}}")
        },
    );
    format!("{{\"Required\":{required}}}")
}

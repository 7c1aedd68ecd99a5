//! The rules of volumes, of their mounts and devices (`ValidateVolumes`, `validateVolumeSource`, `ValidateVolumeMounts`,
//! `ValidateVolumeDevices`, 1.37).

use std::collections::{BTreeMap, BTreeSet};

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, name_is_dns_subdomain};
use kindom_api::quantity::Quantity;

use super::{projected, sources};
use crate::kinds::fields::{items, present, text, texts};

/// The sources of volumes, in the order in which upstream looks for more than one.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const MODE_MAX: i64 = 0o777;

/// Volumes by their names; a claim of a workload has null.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// The errors in the volumes of a spec; returns those without any. `pod` is the metadata of the pod that has them.
pub(super) fn validate<'a>(
    spec: &'a Value,
    pod: Option<&Value>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) -> Volumes<'a> {
    let all = at.child("volumes");
    let mut volumes = Volumes::new();
    let pod = pod.map(|metadata| text(metadata, "name")).unwrap_or_default();
    let of_ephemeral: BTreeSet<String> = items(spec, "volumes")
        .iter()
        .filter(|volume| !pod.is_empty() && present(volume, "ephemeral").is_some())
        .map(|volume| format!("{pod}-{}", text(volume, "name")))
        .collect();
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let at = all.index(index);
        let (mut own, name) = (ErrorList::new(), text(volume, "name"));
        validate_source(volume, &at, &mut own);
        if present(volume, "ephemeral").is_some() && !pod.is_empty() && !name.is_empty() {
            let claim = format!("{pod}-{name}");
            let quoted = kindom_api::field::go_quote(&claim);
            let at = at.child("ephemeral");
            let wrong = name_is_dns_subdomain(&claim, false).into_iter();
            let wrong = wrong.map(|why| format!("PVC name {quoted}: {why}")).collect();
            texts(wrong, name, &at.child("name"), &mut own);
        }
        match name {
            "" => own.push(Error::required(&at.child("name"), "")),
            name => texts(is_dns1123_label(name), name, &at.child("name"), &mut own),
        }
        if volumes.contains_key(name) {
            own.push(Error::duplicate(&at.child("name"), name));
        }
        if own.is_empty() {
            volumes.insert(name, volume);
        }
        errors.append(&mut own);
        let claim = volume.text_at(&["persistentVolumeClaim", "claimName"]);
        if of_ephemeral.contains(claim) {
            let at = at.child("persistentVolumeClaim");
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(Error::invalid(&at.child("claimName"), claim, detail));
        }
    }
    volumes
}

fn validate_source(volume: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let mut has_one = false;
    for field in SOURCES {
        let Some(source) = present(volume, field) else { continue };
        let (volume_at, at) = (at, at.child(field));
        if has_one {
            errors.push(Error::forbidden(&at, "may not specify more than 1 volume type"));
            continue;
        }
        has_one = true;
        let require = |field: &str, errors: &mut ErrorList| {
            if text(source, field).is_empty() {
                errors.push(Error::required(&at.child(field), ""));
            }
        };
        match field {
            "emptyDir" => validate_empty_dir(source, &at, errors),
            "hostPath" => validate_host_path(source, &at, errors),
            "secret" => {
                require("secretName", errors);
                validate_files(source, &at, errors);
            }
            "configMap" => {
                require("name", errors);
                validate_files(source, &at, errors);
            }
            "persistentVolumeClaim" => require("claimName", errors),
            "projected" => projected::validate(source, &at, errors),
            "downwardAPI" => projected::validate_downward(source, &at, errors),
            // Upstream names it so.
            "gcePersistentDisk" => {
                sources::validate(field, source, &volume_at.child("persistentDisk"), errors)
            }
            field => sources::validate(field, source, &at, errors),
        }
    }
    if !has_one {
        errors.push(Error::required(at, "must specify a volume type"));
    }
}

fn validate_empty_dir(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let limit = present(source, "sizeLimit").and_then(Value::as_str).map(Quantity::parse);
    if limit.is_some_and(|limit| limit.is_ok_and(|limit| limit.sign() < 0)) {
        let detail = "SizeLimit field must be a valid resource quantity";
        errors.push(Error::forbidden(&at.child("sizeLimit"), detail));
    }
}

pub(in crate::kinds) fn validate_host_path(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let path = text(source, "path");
    if path.is_empty() {
        return errors.push(Error::required(&at.child("path"), ""));
    }
    validate_no_backsteps(path, &at.child("path"), errors);
    let kind = text(source, "type");
    if !HOST_PATH_TYPES.contains(&kind) {
        errors.push(Error::not_supported(&at.child("type"), kind, &HOST_PATH_TYPES));
    }
}

/// The modes and the keys of a source of files.
pub(super) fn validate_files(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_mode(source, "defaultMode", at, errors);
    let all = at.child("items");
    for (index, item) in items(source, "items").iter().enumerate() {
        let at = all.index(index);
        for field in ["key", "path"] {
            if text(item, field).is_empty() {
                errors.push(Error::required(&at.child(field), ""));
            }
        }
        validate_local(text(item, "path"), &at.child("path"), errors);
        validate_mode(item, "mode", &at, errors);
    }
}

pub(super) fn validate_mode(of: &Value, field: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let mode = of.get(field).and_then(Value::as_i64);
    if let Some(mode) = mode.filter(|mode| !(0..=MODE_MAX).contains(mode)) {
        errors.push(Error::invalid(&at.child(field), mode, MODE));
    }
}

/// `ValidateLocalNonReservedPath`
pub(super) fn validate_local(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    validate_relative(path, at, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(Error::invalid(at, path, "must not start with '..'"));
    }
}

/// `validateLocalDescendingPath`
pub(super) fn validate_relative(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if path.starts_with('/') {
        errors.push(Error::invalid(at, path, "must be a relative path"));
    }
    validate_no_backsteps(path, at, errors);
}

pub(in crate::kinds) fn validate_no_backsteps(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if path.split('/').any(|part| part == "..") {
        errors.push(Error::invalid(at, path, "must not contain '..'"));
    }
}

/// The texts of a field of a list's items.
fn all_of<'a>(of: &'a Value, list: &str, field: &str) -> BTreeSet<&'a str> {
    items(of, list).iter().map(|item| text(item, field)).collect()
}

/// The errors in the mounts of a container.
pub(super) fn validate_mounts(
    container: &Value,
    volumes: &Volumes<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let all = at.child("volumeMounts");
    let mut paths = BTreeSet::new();
    let devices = all_of(container, "volumeDevices", "name");
    // Of several devices of a volume, the last counts.
    let device_paths: BTreeMap<&str, &str> = items(container, "volumeDevices")
        .iter()
        .map(|of| (text(of, "name"), text(of, "devicePath")))
        .collect();
    let device_paths: BTreeSet<&str> = device_paths.into_values().collect();
    for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
        let at = all.index(index);
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(Error::required(&at.child("name"), ""));
        }
        if !volumes.contains_key(name) {
            errors.push(Error::not_found(&at.child("name"), name));
        }
        if path.is_empty() {
            errors.push(Error::required(&at.child("mountPath"), ""));
        }
        if !paths.insert(path) {
            errors.push(Error::invalid(&at.child("mountPath"), path, "must be unique"));
        }
        if devices.contains(name) {
            errors.push(Error::invalid(&at.child("name"), name, "must not already exist in volumeDevices"));
        }
        if device_paths.contains(path) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(Error::invalid(&at.child("mountPath"), path, detail));
        }
        // Upstream names these without the mount's index.
        let (sub, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        validate_relative(sub, &all.child("subPath"), errors);
        if !sub.is_empty() && !expression.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(Error::invalid(&at.child("subPathExpr"), expression, detail));
        }
        validate_relative(expression, &all.child("subPathExpr"), errors);
        validate_propagation(mount, container, &all, errors);
    }
}

/// `validateMountPropagation`, `validateMountRecursiveReadOnly`
fn validate_propagation(mount: &Value, container: &Value, all: &Path<'_>, errors: &mut ErrorList) {
    let propagation = present(mount, "mountPropagation").and_then(Value::as_str);
    if let Some(mode) = propagation {
        let at = all.child("mountPropagation");
        if !PROPAGATIONS.contains(&mode) {
            errors.push(Error::not_supported(&at, mode, &PROPAGATIONS));
        }
        let privileged = container.at(&["securityContext", "privileged"]) == Some(&Value::Bool(true));
        if mode == "Bidirectional" && !privileged {
            let detail = "Bidirectional mount propagation is available only to privileged containers";
            errors.push(Error::forbidden(&at, detail));
        }
    }
    let at = all.child("recursiveReadOnly");
    match present(mount, "recursiveReadOnly").and_then(Value::as_str) {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.get("readOnly") != Some(&Value::Bool(true)) {
                errors.push(Error::forbidden(&at, "may only be specified when readOnly is true"));
            }
            if propagation.is_some_and(|mode| mode != "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.push(Error::forbidden(&at, detail));
            }
        }
        Some(mode) => errors.push(Error::not_supported(&at, mode, &["Disabled", "Enabled", "IfPossible"])),
    }
}

/// The errors in the devices of a container.
pub(super) fn validate_devices(
    container: &Value,
    volumes: &Volumes<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let all = at.child("volumeDevices");
    let mounts: BTreeMap<&str, &str> =
        items(container, "volumeMounts").iter().map(|of| (text(of, "name"), text(of, "mountPath"))).collect();
    let mount_paths: BTreeSet<&str> = mounts.values().copied().collect();
    let (mut paths, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in items(container, "volumeDevices").iter().enumerate() {
        let at = all.index(index);
        let (name, path) = (text(device, "name"), text(device, "devicePath"));
        let (name_at, path_at) = (at.child("name"), at.child("devicePath"));
        if name.is_empty() {
            errors.push(Error::required(&name_at, ""));
        }
        if names.contains(name) {
            errors.push(Error::invalid(&name_at, name, "must be unique"));
        }
        match volumes.get(name) {
            None => errors.push(Error::not_found(&name_at, name)),
            Some(volume) => {
                // A claim of a workload is one of a volume.
                let is_block = volume.is_null()
                    || ["persistentVolumeClaim", "ephemeral"].iter().any(|of| present(volume, of).is_some());
                if !is_block {
                    let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.push(Error::invalid(&name_at, name, detail));
                }
            }
        }
        if path.is_empty() {
            errors.push(Error::required(&path_at, ""));
        }
        if paths.contains(path) {
            errors.push(Error::invalid(&path_at, path, "must be unique"));
        }
        if path.split('/').any(|part| part == "..") {
            errors.push(Error::invalid(&path_at, path, "can not contain backsteps ('..')"));
        } else {
            paths.insert(path);
        }
        if mounts.contains_key(name) {
            errors.push(Error::invalid(&name_at, name, "must not already exist in volumeMounts"));
        }
        if mount_paths.contains(path) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.push(Error::invalid(&path_at, path, detail));
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

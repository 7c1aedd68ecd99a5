//! The rules of volumes and of their mounts (`ValidateVolumes`, `validateVolumeSource`, `ValidateVolumeMounts`, 1.37).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::is_dns1123_label;
use kindom_api::quantity::Quantity;

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
const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const MODE_MAX: i64 = 0o777;

/// The errors in the volumes of a spec; returns the names of those without any.
pub(super) fn validate<'a>(spec: &'a Value, at: &Path<'_>, errors: &mut ErrorList) -> BTreeSet<&'a str> {
    let all = at.child("volumes");
    let mut names = BTreeSet::new();
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let at = all.index(index);
        let (mut own, name) = (ErrorList::new(), text(volume, "name"));
        validate_source(volume, &at, &mut own);
        match name {
            "" => own.push(Error::required(&at.child("name"), "")),
            name => texts(is_dns1123_label(name), name, &at.child("name"), &mut own),
        }
        if names.contains(name) {
            own.push(Error::duplicate(&at.child("name"), name));
        }
        if own.is_empty() {
            names.insert(name);
        }
        errors.append(&mut own);
    }
    names
}

fn validate_source(volume: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let mut has_one = false;
    for field in SOURCES {
        let Some(source) = present(volume, field) else { continue };
        let at = at.child(field);
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
            _ => {}
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

fn validate_host_path(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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
fn validate_files(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_mode(source, "defaultMode", at, errors);
    let all = at.child("items");
    for (index, item) in items(source, "items").iter().enumerate() {
        let at = all.index(index);
        for field in ["key", "path"] {
            if text(item, field).is_empty() {
                errors.push(Error::required(&at.child(field), ""));
            }
        }
        let (path, path_at) = (text(item, "path"), at.child("path"));
        validate_relative(path, &path_at, errors);
        if path.starts_with("..") && !path.starts_with("../") {
            errors.push(Error::invalid(&path_at, path, "must not start with '..'"));
        }
        validate_mode(item, "mode", &at, errors);
    }
}

fn validate_mode(of: &Value, field: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let mode = of.get(field).and_then(Value::as_i64);
    if let Some(mode) = mode.filter(|mode| !(0..=MODE_MAX).contains(mode)) {
        errors.push(Error::invalid(&at.child(field), mode, MODE));
    }
}

/// `validateLocalDescendingPath`
fn validate_relative(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if path.starts_with('/') {
        errors.push(Error::invalid(at, path, "must be a relative path"));
    }
    validate_no_backsteps(path, at, errors);
}

fn validate_no_backsteps(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if path.split('/').any(|part| part == "..") {
        errors.push(Error::invalid(at, path, "must not contain '..'"));
    }
}

/// The errors in the mounts of a container.
pub(super) fn validate_mounts(
    container: &Value,
    volumes: &BTreeSet<&str>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let all = at.child("volumeMounts");
    let mut paths = BTreeSet::new();
    for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
        let at = all.index(index);
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(Error::required(&at.child("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(Error::not_found(&at.child("name"), name));
        }
        if path.is_empty() {
            errors.push(Error::required(&at.child("mountPath"), ""));
        }
        if !paths.insert(path) {
            errors.push(Error::invalid(&at.child("mountPath"), path, "must be unique"));
        }
        // Upstream names these without the mount's index.
        let (sub, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        validate_relative(sub, &all.child("subPath"), errors);
        if !sub.is_empty() && !expression.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(Error::invalid(&at.child("subPathExpr"), expression, detail));
        }
        validate_relative(expression, &all.child("subPathExpr"), errors);
    }
}

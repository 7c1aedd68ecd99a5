//! The contents of volumes by their kind, but for files (`validateVolumeSource` and what it calls, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, is_dns1123_subdomain, name_is_dns_subdomain};

use super::{volume_claim, volumes};
use crate::kinds::fields::{items, number, present, text, texts};
use crate::kinds::keyed::entries;

const OF_BYTE: &str = "must be between 0 and 255, inclusive";
/// Upstream's words for the numbers of partitions, of which 0 is one.
const PARTITION: &str = "must be between 1 and 255, inclusive";
const REGISTRY: &str = "must be a host:port pair or multiple pairs separated by commas";
const INITIATOR: &str = "must be valid format starting with iqn, eui, or naa";
const FORMAT: &str = "must be valid format";
const DRIVER_MAX: usize = 63;

/// The error in a field of a source that has to be set.
fn require(source: &Value, fields: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    for field in fields {
        let is_set = !text(source, field).is_empty() || !items(source, field).is_empty();
        if !is_set {
            errors.push(Error::required(&at.child(field), ""));
        }
    }
}

fn in_byte(source: &Value, field: &str, detail: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let value = number(source, field).unwrap_or_default();
    if !(0..=255).contains(&value) {
        errors.push(Error::invalid(&at.child(field), value, detail));
    }
}

/// The error in a reference to a secret that names none.
fn named_secret(source: &Value, field: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if present(source, field).is_some_and(|of| text(of, "name").is_empty()) {
        let at = at.child(field);
        errors.push(Error::required(&at.child("name"), ""));
    }
}

/// The errors in a source of the kind that its field names; none for one that has no rules.
pub(in crate::kinds) fn validate(field: &str, source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match field {
        "gitRepo" => {
            require(source, &["repository"], at, errors);
            volumes::validate_relative(text(source, "directory"), &at.child("directory"), errors);
        }
        "gcePersistentDisk" => {
            require(source, &["pdName"], at, errors);
            in_byte(source, "partition", PARTITION, at, errors);
        }
        "awsElasticBlockStore" => {
            require(source, &["volumeID"], at, errors);
            in_byte(source, "partition", PARTITION, at, errors);
        }
        "nfs" => {
            require(source, &["server", "path"], at, errors);
            let path = text(source, "path");
            if !path.starts_with('/') {
                errors.push(Error::invalid(&at.child("path"), path, "must be an absolute path"));
            }
        }
        "iscsi" => validate_iscsi(source, at, errors),
        "glusterfs" => require(source, &["endpoints", "path"], at, errors),
        "flocker" => validate_flocker(source, at, errors),
        "rbd" => require(source, &["monitors", "image"], at, errors),
        "cinder" => {
            require(source, &["volumeID"], at, errors);
            named_secret(source, "secretRef", at, errors);
        }
        "cephfs" => require(source, &["monitors"], at, errors),
        "quobyte" => validate_quobyte(source, at, errors),
        "fc" => validate_fc(source, at, errors),
        "flexVolume" => validate_flex(source, at, errors),
        "azureFile" => require(source, &["secretName", "shareName"], at, errors),
        "vsphereVolume" => require(source, &["volumePath"], at, errors),
        "photonPersistentDisk" => require(source, &["pdID"], at, errors),
        "portworxVolume" => require(source, &["volumeID"], at, errors),
        "azureDisk" => validate_azure_disk(source, at, errors),
        "storageos" => validate_storageos(source, at, errors),
        "scaleIO" => require(source, &["gateway", "system", "volumeName"], at, errors),
        "csi" => {
            validate_driver(text(source, "driver"), &at.child("driver"), errors);
            named_secret(source, "nodePublishSecretRef", at, errors);
            let secret = source.text_at(&["nodePublishSecretRef", "name"]);
            if !secret.is_empty() {
                texts(name_is_dns_subdomain(secret, false), secret, &at.child("name"), errors);
            }
        }
        "ephemeral" => validate_ephemeral(source, at, errors),
        "image" => {
            require(source, &["reference"], at, errors);
            let known = ["Always", "IfNotPresent", "Never"];
            crate::kinds::fields::one_of(source, "pullPolicy", &known, at, errors);
        }
        _ => {}
    }
}

/// The format of a name of iSCSI by its kind: `None` for one of no kind.
pub(in crate::kinds) fn is_initiator(name: &str) -> Option<bool> {
    let of_length = |rest: &str, length: usize| {
        let mut rest = rest.chars();
        // The dot of upstream's expression stands for any character.
        rest.next().is_some() && rest.as_str().len() == length && rest.all(|c| c.is_ascii_alphanumeric())
    };
    if let Some(rest) = name.strip_prefix("eui") {
        return Some(of_length(rest, 16));
    }
    if let Some(rest) = name.strip_prefix("naa") {
        return Some(of_length(rest, 32));
    }
    name.starts_with("iqn")
        .then(|| name.match_indices("iqn.").any(|(at, _)| is_iqn(name.get(at + 4..).unwrap_or_default())))
}

/// `\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`
fn is_iqn(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
    };
    let begins = digits(0..4) && bytes.get(4) == Some(&b'-') && digits(5..7) && bytes.get(7) == Some(&b'.');
    let Some((authority, name)) = rest.get(8..).filter(|_| begins).and_then(|rest| rest.split_once(':'))
    else {
        return false;
    };
    let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    !authority.is_empty()
        && authority.bytes().all(is_word)
        && !name.is_empty()
        && !name.contains(|c: char| ",;*&$|".contains(c) || matches!(c, ' ' | '\t' | '\n' | '\x0c' | '\r'))
}

fn validate_iscsi(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    require(source, &["targetPortal", "iqn"], at, errors);
    let name = text(source, "iqn");
    if !name.is_empty() {
        match is_initiator(name) {
            Some(true) => {}
            Some(false) => errors.push(Error::invalid(&at.child("iqn"), name, FORMAT)),
            None => errors.push(Error::invalid(&at.child("iqn"), name, INITIATOR)),
        }
    }
    in_byte(source, "lun", OF_BYTE, at, errors);
    let is_true = |field: &str| source.get(field) == Some(&Value::Bool(true));
    if (is_true("chapAuthDiscovery") || is_true("chapAuthSession")) && present(source, "secretRef").is_none()
    {
        errors.push(Error::required(&at.child("secretRef"), ""));
    }
    if let Some(name) = present(source, "initiatorName").and_then(Value::as_str) {
        let at = at.child("initiatorname");
        match is_initiator(name) {
            Some(true) => {}
            Some(false) => errors.push(Error::invalid(&at, name, FORMAT)),
            None => errors.push(Error::invalid(&at, name, INITIATOR)),
        }
    }
}

fn validate_flocker(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (name, uuid) = (text(source, "datasetName"), text(source, "datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errors.push(Error::required(at, "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(Error::invalid(at, "resource", detail));
    }
    if name.contains('/') {
        errors.push(Error::invalid(&at.child("datasetName"), name, "must not contain '/'"));
    }
}

/// `true` for what Go's `net.SplitHostPort` takes.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_clean = |text: &str| !text.contains(['[', ']']);
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(is_clean) && is_clean(port),
        None => !host.contains(':') && is_clean(host) && is_clean(port),
    }
}

fn validate_quobyte(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let registry = text(source, "registry");
    if registry.is_empty() {
        errors.push(Error::required(&at.child("registry"), REGISTRY));
    } else if text(source, "tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(Error::required(&at.child("tenant"), detail));
    } else if registry.split(',').any(|pair| !is_host_and_port(pair)) {
        errors.push(Error::invalid(&at.child("registry"), registry, REGISTRY));
    }
    require(source, &["volume"], at, errors);
}

fn validate_fc(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (names, ids) = (items(source, "targetWWNs"), items(source, "wwids"));
    let names_at = at.child("targetWWNs");
    if names.is_empty() && ids.is_empty() {
        errors.push(Error::required(&names_at, "must specify either targetWWNs or wwids, but not both"));
    }
    if names.is_empty() {
        return;
    }
    if !ids.is_empty() {
        let value = source.get("targetWWNs").cloned().unwrap_or_default();
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(Error::invalid(&names_at, value, detail));
    }
    match number(source, "lun") {
        None => errors.push(Error::required(&at.child("lun"), "lun is required if targetWWNs is specified")),
        Some(lun) if (0..=255).contains(&lun) => {}
        Some(lun) => errors.push(Error::invalid(&at.child("lun"), lun, OF_BYTE)),
    }
}

fn validate_flex(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    require(source, &["driver"], at, errors);
    let all = at.child("options");
    for (key, _) in entries(source, "options") {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let normalized = format!(".{}", namespace.to_lowercase());
        if normalized.ends_with(".kubernetes.io") || normalized.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(Error::invalid(&all.key(key), key, detail));
        }
    }
}

fn validate_azure_disk(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    require(source, &["diskName", "diskURI"], at, errors);
    let option = |field: &str| present(source, field).and_then(Value::as_str);
    for (field, known) in
        [("cachingMode", ["None", "ReadOnly", "ReadWrite"]), ("kind", ["Dedicated", "Managed", "Shared"])]
    {
        if let Some(value) = option(field).filter(|value| !known.contains(value)) {
            errors.push(Error::not_supported(&at.child(field), value, &known));
        }
    }
    let Some(kind) = option("kind") else { return };
    let (start, form) = if kind == "Managed" {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
    };
    let uri = text(source, "diskURI");
    if !uri.starts_with(start) {
        errors.push(Error::not_supported(&at.child("diskURI"), uri, &[form]));
    }
}

fn validate_storageos(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    require(source, &["volumeName"], at, errors);
    for field in ["volumeName", "volumeNamespace"] {
        let name = text(source, field);
        if !name.is_empty() {
            texts(is_dns1123_label(name), name, &at.child(field), errors);
        }
    }
    named_secret(source, "secretRef", at, errors);
}

/// `ValidateCSIDriverName`
pub(in crate::kinds) fn validate_driver(driver: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if driver.is_empty() {
        return errors.push(Error::required(at, ""));
    }
    if driver.len() > DRIVER_MAX {
        errors.push(Error::too_long(at, DRIVER_MAX));
    }
    texts(is_dns1123_subdomain(&driver.to_lowercase()), driver, at, errors);
}

fn validate_ephemeral(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let at = at.child("volumeClaimTemplate");
    match present(source, "volumeClaimTemplate") {
        None => errors.push(Error::required(&at, "")),
        Some(template) => volume_claim::validate_template(template, &at, errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_iscsi_have_a_form() {
        assert_eq!(is_initiator("iqn.2001-04.com.example:storage.disk1"), Some(true));
        assert_eq!(is_initiator("iqn.2001-04.com.example"), Some(false));
        assert_eq!(is_initiator("iqn.x"), Some(false));
        assert_eq!(is_initiator("eui.0123456789abcdef"), Some(true));
        assert_eq!(is_initiator("eui.0123"), Some(false));
        assert_eq!(is_initiator(&format!("naa.{}", "0".repeat(32))), Some(true));
        assert_eq!(is_initiator("x"), None);
    }

    #[test]
    fn registries_are_hosts_and_ports() {
        for right in ["a:1", "[::1]:2", ":3", "a:"] {
            assert!(is_host_and_port(right), "{right}");
        }
        for wrong in ["a", "a:b:c", "::1", "[a]b:1", "[a:1"] {
            assert!(!is_host_and_port(wrong), "{wrong}");
        }
    }
}

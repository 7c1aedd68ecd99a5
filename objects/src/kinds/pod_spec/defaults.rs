//! The defaults of a pod's spec (`SetDefaults_PodSpec` and what `zz_generated.defaults.go` calls beside it, of
//! `pkg/apis/core/v1`, 1.37).

use kindom_api::{Map, Value, object};

use super::image;
use crate::kinds::round_up;

/// Gives a field a value unless it has one; Go tells an empty text and a zero from none by the pointer alone, and these have
/// none.
fn set(of: &mut Map, field: &str, value: impl Into<Value>) {
    let is_empty = match of.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        _ => false,
    };
    if is_empty {
        of.insert(field, value);
    }
}

/// The same for a number for which 0 is none.
fn set_nonzero(of: &mut Map, field: &str, value: i64) {
    if of.get(field).and_then(Value::as_i64).unwrap_or_default() == 0 {
        of.insert(field, value);
    }
}

/// A field for which an empty text counts.
fn set_absent(of: &mut Map, field: &str, value: impl Into<Value>) {
    if of.get(field).is_none_or(Value::is_null) {
        of.insert(field, value);
    }
}

fn map<'a>(of: &'a mut Map, field: &str) -> Option<&'a mut Map> {
    of.get_mut(field).and_then(Value::as_object_mut)
}

fn maps<'a>(of: &'a mut Map, field: &str) -> impl Iterator<Item = &'a mut Map> {
    let all = of.get_mut(field).and_then(Value::as_array_mut);
    all.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Fills in the spec of a pod, or of a template.
pub(in crate::kinds) fn fill_spec(spec: &mut Map) {
    let account = |of: &Map, field: &str| {
        of.get(field).and_then(Value::as_str).filter(|name| !name.is_empty()).map(str::to_owned)
    };
    let name = account(spec, "serviceAccountName").or_else(|| account(spec, "serviceAccount"));
    if let Some(name) = name {
        spec.insert("serviceAccountName", name.as_str());
        spec.insert("serviceAccount", name);
    }
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "restartPolicy", "Always");
    set_absent(spec, "securityContext", object! {});
    set_absent(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "schedulerName", "default-scheduler");
    maps(spec, "volumes").for_each(fill_volume);
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        maps(spec, field).for_each(fill_container);
    }
    round_up(spec.get_mut("overhead"));
    fill_resources(spec);
}

fn fill_resources(of: &mut Map) {
    if let Some(resources) = map(of, "resources") {
        for field in ["limits", "requests"] {
            round_up(resources.get_mut(field));
        }
    }
}

fn fill_container(container: &mut Map) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if image::tag(image) == "latest" { "Always" } else { "IfNotPresent" };
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    maps(container, "ports").for_each(|port| set(port, "protocol", "TCP"));
    for env in maps(container, "env") {
        let Some(source) = map(env, "valueFrom") else { continue };
        fill_field_reference(source);
        if let Some(file) = map(source, "fileKeyRef") {
            set_absent(file, "optional", false);
        }
    }
    fill_resources(container);
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = map(container, field) else { continue };
        for (field, value) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            set_nonzero(probe, field, value);
        }
        fill_http_get(probe);
        if let Some(grpc) = map(probe, "grpc") {
            set_absent(grpc, "service", "");
        }
    }
    if let Some(lifecycle) = map(container, "lifecycle") {
        for field in ["postStart", "preStop"] {
            if let Some(handler) = map(lifecycle, field) {
                fill_http_get(handler);
            }
        }
    }
}

/// `SetDefaults_HTTPGetAction`
fn fill_http_get(of: &mut Map) {
    if let Some(action) = map(of, "httpGet") {
        set(action, "path", "/");
        set(action, "scheme", "HTTP");
    }
}

/// `SetDefaults_ObjectFieldSelector`
fn fill_field_reference(of: &mut Map) {
    if let Some(field) = map(of, "fieldRef") {
        set(field, "apiVersion", "v1");
    }
}

/// A volume without a source is an empty folder.
fn fill_volume(volume: &mut Map) {
    if volume.iter().all(|(field, value)| field == "name" || value.is_null()) {
        volume.insert("emptyDir", object! {});
    }
    if let Some(image) = map(volume, "image") {
        let reference = image.get("reference").and_then(Value::as_str).unwrap_or_default();
        let policy = if image::tag(reference) == "latest" { "Always" } else { "IfNotPresent" };
        set(image, "pullPolicy", policy);
    }
    if let Some(path) = map(volume, "hostPath") {
        set_absent(path, "type", "");
    }
    // rw-r--r--
    for field in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = map(volume, field) {
            set_absent(source, "defaultMode", 0o644);
        }
    }
    for (field, presets) in [
        ("iscsi", &[("iscsiInterface", "default")][..]),
        ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
        ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
    ] {
        if let Some(source) = map(volume, field) {
            presets.iter().for_each(|(field, value)| set(source, field, *value));
        }
    }
    if let Some(disk) = map(volume, "azureDisk") {
        for (field, value) in [("cachingMode", "ReadWrite"), ("fsType", "ext4"), ("kind", "Shared")] {
            set_absent(disk, field, value);
        }
        set_absent(disk, "readOnly", false);
    }
    if let Some(downward) = map(volume, "downwardAPI") {
        maps(downward, "items").for_each(fill_field_reference);
    }
    if let Some(projected) = map(volume, "projected") {
        for source in maps(projected, "sources") {
            if let Some(downward) = map(source, "downwardAPI") {
                maps(downward, "items").for_each(fill_field_reference);
            }
            if let Some(token) = map(source, "serviceAccountToken") {
                set_absent(token, "expirationSeconds", 3600);
            }
        }
    }
    let claim = map(volume, "ephemeral").and_then(|ephemeral| map(ephemeral, "volumeClaimTemplate"));
    if let Some(spec) = claim.and_then(|claim| map(claim, "spec")) {
        fill_claim_spec(spec);
    }
}

/// `SetDefaults_PersistentVolumeClaimSpec`
pub(in crate::kinds) fn fill_claim_spec(spec: &mut Map) {
    set_absent(spec, "volumeMode", "Filesystem");
    fill_resources(spec);
}

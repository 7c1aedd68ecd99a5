//! The defaults of a pod's spec (`pkg/apis/core/v1/defaults.go`, and the calls to it in `SetObjectDefaults_Deployment`, 1.37).

use kindom_api::{Map, Value};

use super::{CONTAINERS, image};
use crate::kinds::fields::{default_nil, default_zero, items_mut, present_mut, text};
use crate::kinds::round_up;

const FILE_MODE: i64 = 0o644;

/// Fills in the spec of a pod or of a template of one.
pub(in crate::kinds) fn fill(spec: &mut Value) {
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount").to_owned(),
        account => account.to_owned(),
    };
    if let Some(map) = spec.as_object_mut().filter(|_| !account.is_empty()) {
        map.insert("serviceAccountName", account.as_str());
        map.insert("serviceAccount", account);
    }
    default_zero(spec, "dnsPolicy", "ClusterFirst");
    default_zero(spec, "restartPolicy", "Always");
    default_nil(spec, "securityContext", Map::new());
    default_nil(spec, "terminationGracePeriodSeconds", 30);
    default_zero(spec, "schedulerName", "default-scheduler");
    items_mut(spec, "volumes").for_each(volume);
    for list in CONTAINERS {
        items_mut(spec, list).for_each(container);
    }
    round_up(spec.get_mut("overhead"));
    if let Some(resources) = present_mut(spec, "resources") {
        fill_resources(resources);
    }
}

fn fill_resources(resources: &mut Value) {
    for field in ["limits", "requests"] {
        round_up(resources.get_mut(field));
    }
}

/// `SetDefaults_ObjectFieldSelector`
fn field_ref(of: &mut Value) {
    if let Some(of) = present_mut(of, "fieldRef") {
        default_zero(of, "apiVersion", "v1");
    }
}

fn pull_policy(of: &mut Value, field: &str, reference: &str) {
    let policy = if image::is_latest(text(of, reference)) { "Always" } else { "IfNotPresent" };
    default_zero(of, field, policy);
}

/// Fills in the sources that pods and persistent volumes have.
pub(in crate::kinds) fn sources(volume: &mut Value) {
    // The texts of the in-tree volumes, whose zero value counts as unset, and those of pointers.
    for (source, field, value) in [
        ("iscsi", "iscsiInterface", "default"),
        ("rbd", "pool", "rbd"),
        ("rbd", "user", "admin"),
        ("rbd", "keyring", "/etc/ceph/keyring"),
        ("scaleIO", "storageMode", "ThinProvisioned"),
        ("scaleIO", "fsType", "xfs"),
    ] {
        if let Some(source) = present_mut(volume, source) {
            default_zero(source, field, value);
        }
    }
    if let Some(host_path) = present_mut(volume, "hostPath") {
        default_nil(host_path, "type", "");
    }
    if let Some(disk) = present_mut(volume, "azureDisk") {
        default_nil(disk, "cachingMode", "ReadWrite");
        default_nil(disk, "fsType", "ext4");
        default_nil(disk, "readOnly", false);
        default_nil(disk, "kind", "Shared");
    }
}

fn volume(volume: &mut Value) {
    let has_source = volume
        .as_object()
        .is_some_and(|map| map.iter().any(|(field, value)| field != "name" && !value.is_null()));
    if !has_source {
        default_nil(volume, "emptyDir", Map::new());
        return;
    }
    sources(volume);
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = present_mut(volume, source) {
            default_nil(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(source) = present_mut(volume, "image") {
        pull_policy(source, "pullPolicy", "reference");
    }
    if let Some(source) = present_mut(volume, "downwardAPI") {
        items_mut(source, "items").for_each(field_ref);
    }
    let sources = present_mut(volume, "projected").into_iter().flat_map(|of| items_mut(of, "sources"));
    for source in sources {
        if let Some(of) = present_mut(source, "downwardAPI") {
            items_mut(of, "items").for_each(field_ref);
        }
        if let Some(token) = present_mut(source, "serviceAccountToken") {
            default_nil(token, "expirationSeconds", 3600);
        }
    }
    let template = present_mut(volume, "ephemeral").and_then(|of| present_mut(of, "volumeClaimTemplate"));
    if let Some(spec) = template.and_then(|template| present_mut(template, "spec")) {
        claim(spec);
    }
}

/// `SetDefaults_PersistentVolumeClaimSpec`, and the quantities of its resources.
pub(in crate::kinds) fn claim(spec: &mut Value) {
    default_nil(spec, "volumeMode", "Filesystem");
    if let Some(resources) = present_mut(spec, "resources") {
        fill_resources(resources);
    }
}

fn container(container: &mut Value) {
    pull_policy(container, "imagePullPolicy", "image");
    default_zero(container, "terminationMessagePath", "/dev/termination-log");
    default_zero(container, "terminationMessagePolicy", "File");
    for port in items_mut(container, "ports") {
        default_zero(port, "protocol", "TCP");
    }
    for source in items_mut(container, "env").filter_map(|env| present_mut(env, "valueFrom")) {
        field_ref(source);
        if let Some(of_file) = present_mut(source, "fileKeyRef") {
            default_nil(of_file, "optional", false);
        }
    }
    if let Some(resources) = present_mut(container, "resources") {
        fill_resources(resources);
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = present_mut(container, field) {
            fill_probe(probe);
        }
    }
    if let Some(lifecycle) = present_mut(container, "lifecycle") {
        for field in ["postStart", "preStop"] {
            if let Some(handler) = present_mut(lifecycle, field) {
                http_get(handler);
            }
        }
    }
}

fn fill_probe(probe: &mut Value) {
    for (field, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        default_zero(probe, field, value);
    }
    http_get(probe);
    if let Some(grpc) = present_mut(probe, "grpc") {
        default_nil(grpc, "service", "");
    }
}

/// `SetDefaults_HTTPGetAction`
fn http_get(handler: &mut Value) {
    if let Some(get) = present_mut(handler, "httpGet") {
        default_zero(get, "path", "/");
        default_zero(get, "scheme", "HTTP");
    }
}

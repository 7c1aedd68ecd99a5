//! The table of claims (`printPersistentVolumeClaim` of `pkg/printers/internalversion/printers.go`, 1.37).

use kindom_api::Value;
use kindom_schema::columns::{TableColumn, age, name_column};

use super::CLASS;
use crate::declared::Declared;
use crate::kinds::fields::{items, part, present, text};
use crate::kinds::table_column;

pub(super) fn columns(claim: &Declared) -> Vec<TableColumn> {
    let column =
        |name: &str, priority, description: &str| table_column(name, "string", priority, description);
    vec![
        name_column(),
        column("Status", 0, claim.text_of(&["status", "phase"])),
        column("Volume", 0, claim.text_of(&["spec", "volumeName"])),
        column("Capacity", 0, claim.text_of(&["status", "capacity"])),
        column("Access Modes", 0, claim.text_of(&["status", "accessModes"])),
        column("StorageClass", 0, "StorageClass of the pvc"),
        column("VolumeAttributesClass", 0, "VolumeAttributesClass of the pvc"),
        column("Age", 0, ""),
        column("VolumeMode", 1, claim.text_of(&["spec", "volumeMode"])),
    ]
}

/// Modes of access in short, each once, in Kubernetes' order (`GetAccessModesAsString`).
pub(in crate::kinds) fn access_modes(of: &Value) -> String {
    let modes = items(of, "accessModes");
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| modes.iter().any(|one| one.as_str() == Some(mode));
    let all: Vec<&str> = short.into_iter().filter(|(mode, _)| has(mode)).map(|(_, short)| short).collect();
    all.join(",")
}

/// The class of a claim, or of a volume.
pub(in crate::kinds) fn class(object: &Value) -> &str {
    let annotation = object.at(&["metadata", "annotations", CLASS]).and_then(Value::as_str);
    annotation.unwrap_or_else(|| text(part(object, "spec"), "storageClassName"))
}

pub(super) fn cells(claim: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (part(claim, "spec"), part(claim, "status"));
    let is_going = claim.at(&["metadata", "deletionTimestamp"]).is_some();
    let volume = text(spec, "volumeName");
    let (modes, capacity) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        let capacity = status.at(&["capacity", "storage"]).and_then(Value::as_str).unwrap_or("0");
        (access_modes(status), capacity.to_owned())
    };
    let or_unset = |field: &str| present(spec, field).and_then(Value::as_str).unwrap_or("<unset>").to_owned();
    vec![
        claim.text_at(&["metadata", "name"]).into(),
        if is_going { "Terminating" } else { text(status, "phase") }.into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(claim).into(),
        or_unset("volumeAttributesClassName").into(),
        age(claim.text_at(&["metadata", "creationTimestamp"]), now).into(),
        or_unset("volumeMode").into(),
    ]
}

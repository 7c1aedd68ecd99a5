//! The table of volumes (`printPersistentVolume` of `pkg/printers/internalversion/printers.go`, 1.37).

use kindom_api::Value;
use kindom_schema::columns::{TableColumn, age, name_column};

use crate::declared::Declared;
use crate::kinds::fields::{part, present, text};
use crate::kinds::persistent_volume_claim::{access_modes, class};
use crate::kinds::table_column;

pub(super) fn columns(volume: &Declared) -> Vec<TableColumn> {
    let column =
        |name: &str, priority, description: &str| table_column(name, "string", priority, description);
    let of = |path: [&str; 2]| volume.text_of(&path);
    vec![
        name_column(),
        column("Capacity", 0, of(["spec", "capacity"])),
        column("Access Modes", 0, of(["spec", "accessModes"])),
        column("Reclaim Policy", 0, of(["spec", "persistentVolumeReclaimPolicy"])),
        column("Status", 0, of(["status", "phase"])),
        column("Claim", 0, of(["spec", "claimRef"])),
        column("StorageClass", 0, "StorageClass of the pv"),
        column("VolumeAttributesClass", 0, "VolumeAttributesClass of the pv"),
        column("Reason", 0, of(["status", "reason"])),
        column("Age", 0, ""),
        column("VolumeMode", 1, of(["spec", "volumeMode"])),
    ]
}

pub(super) fn cells(volume: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (part(volume, "spec"), part(volume, "status"));
    let claim = present(spec, "claimRef");
    let claim = claim.map(|claim| format!("{}/{}", text(claim, "namespace"), text(claim, "name")));
    let is_going = volume.at(&["metadata", "deletionTimestamp"]).is_some();
    let or_unset = |field: &str| present(spec, field).and_then(Value::as_str).unwrap_or("<unset>").to_owned();
    let capacity = spec.at(&["capacity", "storage"]).and_then(Value::as_str).unwrap_or("0");
    vec![
        volume.text_at(&["metadata", "name"]).into(),
        capacity.into(),
        access_modes(spec).into(),
        text(spec, "persistentVolumeReclaimPolicy").into(),
        if is_going { "Terminating" } else { text(status, "phase") }.into(),
        claim.unwrap_or_default().into(),
        class(volume).into(),
        or_unset("volumeAttributesClassName").into(),
        text(status, "reason").into(),
        age(volume.text_at(&["metadata", "creationTimestamp"]), now).into(),
        or_unset("volumeMode").into(),
    ]
}

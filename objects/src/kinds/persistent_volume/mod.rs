//! PersistentVolume, `v1`: a volume that there is. Volumes are kept for whoever binds and mounts them: nothing does here.
//!
//! The finalizer of the admission plugin `StorageObjectInUseProtection` is not set, as nobody would remove it.
//!
//! Sources: `pkg/registry/core/persistentvolume/strategy.go`, `pkg/api/persistentvolume/util.go`, `pkg/apis/core/validation`
//! (`ValidatePersistentVolume` and its updates), `pkg/volume/validation/pv_validation.go`,
//! `pkg/printers/internalversion/printers.go` (1.37).

use std::sync::Arc;

use kindom_api::field::{ErrorList, Path};
use kindom_api::{Map, Value};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::kinds::fields::{default_nil, default_zero, part, present, text};
use crate::kinds::pod_spec::{self, defaults};
use crate::kinds::round_up;
use crate::kinds::status::{is_of_status, keep_other_part, reset};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod printed;
mod rules;

pub(super) use rules::validate_inline;

static VOLUME: Declared = Declared::catalogued("v1", "PersistentVolume");

const ANNOTATIONS: [(&str, &str); 2] = [
    (
        "volume.beta.kubernetes.io/storage-class",
        "deprecated since v1.8; use \"storageClassName\" attribute instead",
    ),
    (
        "volume.beta.kubernetes.io/mount-options",
        "deprecated since v1.31; use \"mountOptions\" attribute instead",
    ),
];
/// The sources that do nothing any more, with upstream's names of them.
const SOURCES: [(&str, &str, &str); 6] = [
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// PersistentVolumes as a built-in type.
pub(super) fn persistent_volumes() -> TypeSpec {
    let columns = Columns::rows(printed::columns(&VOLUME), printed::cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names =
        Names { short_names: vec!["pv".into()], ..Names::of_kind("persistentvolumes", "PersistentVolume") };
    TypeSpec::built_in("", names, Scope::Cluster, versions, Arc::new(PersistentVolumes))
}

/// The rules of PersistentVolumes.
struct PersistentVolumes;

fn set_phase_time(volume: &mut Value, now: &str) {
    if let Some(status) = volume.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("lastPhaseTransitionTime", now);
    }
}

impl Strategy for PersistentVolumes {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&VOLUME)
    }

    fn fill_defaults(&self, volume: &mut Value) {
        for part in ["spec", "status"] {
            default_nil(volume, part, Map::new());
        }
        if let Some(status) = volume.get_mut("status") {
            default_zero(status, "phase", "Pending");
        }
        let Some(spec) = volume.get_mut("spec") else { return };
        default_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
        default_nil(spec, "volumeMode", "Filesystem");
        round_up(spec.get_mut("capacity"));
        defaults::sources(spec);
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        Subresource::reset_fields(cx.subresource)
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, volume: &mut Value) {
        reset(cx, volume);
        if let Some(status) = volume.get_mut("status") {
            default_zero(status, "phase", "Pending");
        }
        set_phase_time(volume, cx.now);
    }

    fn validate(&self, _: &RuleContext<'_>, volume: &Value) -> ErrorList {
        rules::validate(volume)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, volume: &mut Value, old: &Value) {
        keep_other_part(cx, volume, old);
        if !is_of_status(cx) {
            return;
        }
        let time = "lastPhaseTransitionTime";
        let (status, before) = (part(volume, "status"), part(old, "status"));
        let (own, former) = (present(status, time), present(before, time));
        let is_same_phase = text(status, "phase") == text(before, "phase");
        if is_same_phase && own.is_none() {
            let former = former.and_then(Value::as_str).unwrap_or_default().to_owned();
            if !former.is_empty() {
                set_phase_time(volume, &former);
            }
        } else if !is_same_phase && (own.is_none() || own == former) {
            set_phase_time(volume, cx.now);
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        volume: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        match is_of_status(cx) {
            true => crate::kinds::metadata_update(volume, old),
            false => rules::validate_update(volume, old),
        }
    }

    fn warnings(&self, cx: &RuleContext<'_>, volume: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if is_of_status(cx) {
            return warnings;
        }
        for (key, message) in ANNOTATIONS {
            if volume.at(&["metadata", "annotations", key]).is_some() {
                warnings.push(format!("metadata.annotations[{key}]: {message}"));
            }
        }
        let (spec, at) = (part(volume, "spec"), Path::new("spec"));
        if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
            warnings.push(
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
                 approach is to use dynamic provisioning."
                    .to_owned(),
            );
        }
        let affinity_at = at.child("nodeAffinity");
        let required = part(part(spec, "nodeAffinity"), "required");
        warnings.extend(pod_spec::node_selector_warnings(required, &affinity_at.child("required")));
        for (field, shown, message) in SOURCES {
            if present(spec, field).is_some() {
                warnings.push(format!("{}: {message}", at.child(shown)));
            }
        }
        warnings
    }
}

//! PersistentVolumeClaim, `v1`: the wish for a volume. Claims are kept for whoever binds them: nothing does here.
//!
//! The finalizer of the admission plugin `StorageObjectInUseProtection` is not set, as nobody would remove it.
//!
//! Sources: `pkg/registry/core/persistentvolumeclaim/strategy.go`, `pkg/api/persistentvolumeclaim/util.go`,
//! `pkg/apis/core/validation` (`ValidatePersistentVolumeClaim` and its updates), `pkg/printers/internalversion/printers.go`
//! (1.37).

use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::{Map, Value};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::kinds::fields::{default_nil, default_zero, part, present, text};
use crate::kinds::pod_spec::{defaults, volume_claim};
use crate::kinds::resource_quota::measure::QuotaMeasure;
use crate::kinds::round_up;
use crate::kinds::status::{is_of_status, keep, keep_other_part, reset};
use crate::plugins::Look;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod admission;
mod printed;
mod rules;
mod usage;

pub(super) use printed::{access_modes, class};
pub(super) use rules::validate_basic;

static CLAIM: Declared = Declared::catalogued("v1", "PersistentVolumeClaim");

/// The annotation that named the class of a claim before there was a field.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// PersistentVolumeClaims as a built-in type.
pub(super) fn persistent_volume_claims() -> TypeSpec {
    let columns = Columns::rows(printed::columns(&CLAIM), printed::cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names {
        short_names: vec!["pvc".into()],
        ..Names::of_kind("persistentvolumeclaims", "PersistentVolumeClaim")
    };
    TypeSpec::built_in("", names, Scope::Namespaced, versions, Arc::new(PersistentVolumeClaims))
}

/// The rules of PersistentVolumeClaims.
struct PersistentVolumeClaims;

/// The source of a volume's data and the reference to it say the same (`EnforceDataSourceBackwardsCompatibility`,
/// `NormalizeDataSources`).
fn normalize_sources(claim: &mut Value, old: Option<&Value>) {
    let Some(spec) = claim.get_mut("spec") else { return };
    let old_spec = old.map_or(&Value::Null, |old| part(old, "spec"));
    // References to other namespaces are a feature that is off.
    let refers_elsewhere =
        present(spec, "dataSourceRef").is_some_and(|reference| !text(reference, "namespace").is_empty());
    if refers_elsewhere
        && present(old_spec, "dataSourceRef").is_none()
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("dataSourceRef");
    }
    let has_any =
        |spec: &Value| present(spec, "dataSource").is_some() || present(spec, "dataSourceRef").is_some();
    let had_source = has_any(old_spec);
    let has_reference = present(spec, "dataSourceRef").is_some();
    if !had_source
        && !has_reference
        && let Some(source) = present(spec, "dataSource")
    {
        let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
        let is_known = group.is_empty() && kind == "PersistentVolumeClaim"
            || group == "snapshot.storage.k8s.io" && kind == "VolumeSnapshot";
        if !is_known && let Some(spec) = spec.as_object_mut() {
            spec.remove("dataSource");
        }
    }
    let only = |source: &Value| -> Value {
        let fields = ["apiGroup", "kind", "name"].into_iter();
        Value::Object(
            fields.filter_map(|field| Some((field.to_owned(), source.get(field)?.clone()))).collect(),
        )
    };
    let (source, reference) = (present(spec, "dataSource"), present(spec, "dataSourceRef"));
    let (field, value) = match (source, reference) {
        (Some(source), None) => ("dataSourceRef", only(source)),
        (None, Some(reference)) if text(reference, "namespace").is_empty() => ("dataSource", only(reference)),
        _ => return,
    };
    if let Some(spec) = spec.as_object_mut() {
        spec.insert(field, value);
    }
}

impl Strategy for PersistentVolumeClaims {
    fn quota_measure(&self) -> Option<&dyn QuotaMeasure> {
        Some(self)
    }

    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&CLAIM)
    }

    fn fill_defaults(&self, claim: &mut Value) {
        for part in ["spec", "status"] {
            default_nil(claim, part, Map::new());
        }
        claim.get_mut("spec").into_iter().for_each(defaults::claim);
        if let Some(status) = claim.get_mut("status") {
            default_zero(status, "phase", "Pending");
            for field in ["capacity", "allocatedResources"] {
                round_up(status.get_mut(field));
            }
        }
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

    fn looks_at(&self, cx: &RuleContext<'_>, claim: &Value, old: Option<&Value>) -> Vec<Look> {
        admission::looks_at(cx, claim, old)
    }

    fn admit(&self, cx: &RuleContext<'_>, claim: &mut Value, old: Option<&Value>) -> Result<(), String> {
        admission::admit(cx, claim, old);
        Ok(())
    }

    fn judge(&self, cx: &RuleContext<'_>, claim: &Value, old: Option<&Value>) -> Result<(), String> {
        admission::judge(cx, claim, old)
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, claim: &mut Value) {
        reset(cx, claim);
        if let Some(status) = claim.get_mut("status") {
            default_zero(status, "phase", "Pending");
        }
        normalize_sources(claim, None);
    }

    fn validate(&self, _: &RuleContext<'_>, claim: &Value) -> ErrorList {
        rules::validate(claim)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, claim: &mut Value, old: &Value) {
        keep_other_part(cx, claim, old);
        if !is_of_status(cx) {
            normalize_sources(claim, Some(old));
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        claim: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        match is_of_status(cx) {
            true => rules::validate_status(claim, old),
            false => rules::validate_update(claim, old),
        }
    }

    fn warnings(&self, cx: &RuleContext<'_>, claim: &Value, _: Option<&Value>) -> Vec<String> {
        if is_of_status(cx) {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        if claim.at(&["metadata", "annotations", CLASS]).is_some() {
            warnings.push(format!(
                "metadata.annotations[{CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            ));
        }
        let at = kindom_api::field::Path::new("spec");
        warnings.extend(volume_claim::warnings(part(claim, "spec"), &at));
        warnings
    }
}

/// Takes the storage that is asked for, and the class of attributes, from the stored object.
fn keep_mutable(spec: &mut Value, old: &Value) {
    let none = Value::Null;
    let kept = old.at(&["resources", "requests"]).unwrap_or(&none);
    let requests = spec.get_mut("resources").and_then(|resources| resources.get_mut("requests"));
    requests
        .filter(|requests| !requests.is_null())
        .into_iter()
        .for_each(|requests| keep(requests, kept, "storage"));
    keep(spec, old, "volumeAttributesClassName");
}

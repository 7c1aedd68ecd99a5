//! Pod, `v1`: containers that run together. Pods are kept for whoever runs them: nothing does here.
//!
//! Sources: `pkg/registry/core/pod/strategy.go`, `pkg/registry/core/pod/storage`, `pkg/apis/core/v1/defaults.go`
//! (`SetDefaults_Pod`), `pkg/apis/core/validation` (`ValidatePodCreate` and the other functions of pods) (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::ErrorList;
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::kinds::fields::{present, text};
use crate::kinds::generation;
use crate::kinds::resource_quota::measure::QuotaMeasure;
use crate::kinds::status::{is_of_status, keep};
use crate::plugins::Look;
use crate::version::SelectableField;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod account;
mod admission;
mod binding;
mod defaults;
mod eviction;
mod limits;
mod prepare;
mod printed;
mod qos;
mod rules;
mod runtime;
mod status_rules;
mod update_rules;
mod usage;

pub use binding::{assign, bindings, validate as validate_binding};
pub use eviction::{evicted, evictions};

static POD: Declared = Declared::catalogued("v1", "Pod");

/// Pods as a built-in type.
pub(super) fn pods() -> TypeSpec {
    let columns = Columns::rows(printed::columns(&POD), printed::cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names {
        short_names: vec!["po".into()],
        categories: vec!["all".into()],
        ..Names::of_kind("pods", "Pod")
    };
    TypeSpec::built_in("", names, Scope::Namespaced, versions, Arc::new(Pods))
}

/// The rules of pods.
struct Pods;

/// A pod's spec.
fn spec(pod: &Value) -> &Value {
    pod.get("spec").unwrap_or(&Value::Null)
}

/// `updatePodGeneration`
fn update_generation(pod: &mut Value, old: &Value) {
    generation::next_if_changed(pod, old, "spec");
}

impl Strategy for Pods {
    fn quota_measure(&self) -> Option<&dyn QuotaMeasure> {
        Some(self)
    }

    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&POD)
    }

    fn fill_defaults(&self, pod: &mut Value) {
        defaults::fill(pod);
    }

    fn selectable(&self) -> Vec<SelectableField> {
        let mut all = vec![SelectableField::at("spec.host", &["spec.nodeName"])];
        all.extend(
            [
                ".spec.nodeName",
                ".spec.restartPolicy",
                ".spec.schedulerName",
                ".spec.serviceAccountName",
                ".status.phase",
                ".status.podIP",
                ".status.nominatedNodeName",
            ]
            .map(SelectableField::new),
        );
        all.push(SelectableField::new("spec.hostNetwork").or("false"));
        // It is known, and no pod has one by that name (`ToSelectableFields`).
        all.push(SelectableField::at("status.podIPs", &[]));
        all
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[
            Subresource::Binding,
            Subresource::EphemeralContainers,
            Subresource::Eviction,
            Subresource::Resize,
            Subresource::Status,
        ]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        match cx.subresource {
            Some(Subresource::Status) => &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
            // Upstream has filters for both, and does not use them: their registries have no `GetResetFields`.
            Some(Subresource::EphemeralContainers | Subresource::Resize) => &[],
            other => Subresource::reset_fields(other),
        }
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn looks_at(&self, cx: &RuleContext<'_>, pod: &Value, old: Option<&Value>) -> Vec<Look> {
        admission::looks_at(cx, pod, old)
    }

    fn admit(&self, cx: &RuleContext<'_>, pod: &mut Value, old: Option<&Value>) -> Result<(), String> {
        admission::admit(cx, pod, old)
    }

    fn judge(&self, cx: &RuleContext<'_>, pod: &Value, old: Option<&Value>) -> Result<(), String> {
        admission::judge(cx, pod, old)
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, pod: &mut Value) {
        prepare::for_create(pod, cx.now);
    }

    fn validate(&self, _: &RuleContext<'_>, pod: &Value) -> ErrorList {
        rules::validate(pod)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, pod: &mut Value, old: &Value) {
        match cx.subresource {
            None => {
                keep(pod, old, "status");
                prepare::keep_resources(pod, old);
                update_generation(pod, old);
            }
            Some(Subresource::EphemeralContainers) => {
                prepare::for_ephemeral_containers(pod, old);
                update_generation(pod, old);
            }
            Some(Subresource::Resize) => {
                prepare::for_resize(pod, old);
                update_generation(pod, old);
            }
            Some(Subresource::Status) => prepare::for_status(pod, old),
            Some(_) => {}
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        pod: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        match cx.subresource {
            None => update_rules::validate(pod, old),
            Some(Subresource::EphemeralContainers) => update_rules::validate_ephemeral_containers(pod, old),
            Some(Subresource::Resize) => update_rules::validate_resize(pod, old),
            Some(Subresource::Status) => status_rules::validate(pod, old),
            Some(_) => ErrorList::new(),
        }
    }

    fn warnings(&self, cx: &RuleContext<'_>, pod: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            None => rules::warnings(pod),
            Some(_) if is_of_status(cx) => status_rules::warnings(pod),
            Some(_) => Vec::new(),
        }
    }

    /// A pod that is on no node, or has ended, goes at once.
    fn grace_period(&self, pod: &Value, asked: Option<i64>) -> Option<i64> {
        let own = || present(spec(pod), "terminationGracePeriodSeconds").and_then(Value::as_i64);
        let ended = matches!(pod.text_at(&["status", "phase"]), "Failed" | "Succeeded");
        let period = asked.or_else(own).unwrap_or_default();
        Some(match period {
            _ if text(spec(pod), "nodeName").is_empty() || ended => 0,
            period if period < 0 => 1,
            period => period,
        })
    }
}

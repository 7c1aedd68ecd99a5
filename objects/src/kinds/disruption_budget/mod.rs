//! PodDisruptionBudget, `policy/v1`: the number of pods that may be evicted at once. Evictions count in its status; nothing here
//! computes it again when pods come and go, so it is what clients write.
//!
//! Sources: `pkg/registry/policy/poddisruptionbudget/strategy.go`, `pkg/apis/policy/validation/validation.go`,
//! `pkg/apis/policy/helper.go`, `pkg/apis/policy/v1`, `pkg/printers/internalversion/printers.go` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::is_path_segment;
use kindom_api::meta::validate_object_meta;
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::fields::{items, not_negative, part, present, same, text};
use crate::kinds::generation;
use crate::kinds::int_or_percent::{at_most_all, int_or_percent};
use crate::kinds::status::{is_of_status, keep_other_part, reset, validate_conditions};
use crate::kinds::{AGE, label_selector};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod count;

pub use count::{BudgetRefusal, count_down, covers, is_exempt, may_get_ready, spares};

static DISRUPTION_BUDGET: Declared = Declared::catalogued("policy/v1", "PodDisruptionBudget");
/// The label by which `v1beta1` told a selector of everything from one of nothing.
const OLD_LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
const POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];

/// PodDisruptionBudgets as a built-in type.
pub(super) fn disruption_budgets() -> TypeSpec {
    let allowed = "Calculated number of pods that may be disrupted at this time.";
    let columns = Columns::printed(&[
        (
            "Min Available",
            "The minimum number of pods that must be available.",
            ".spec.minAvailable",
            Printed::Computed(|budget| amount(budget, "minAvailable")),
        ),
        (
            "Max Unavailable",
            "The maximum number of pods that may be unavailable.",
            ".spec.maxUnavailable",
            Printed::Computed(|budget| amount(budget, "maxUnavailable")),
        ),
        ("Allowed Disruptions", allowed, ".status.disruptionsAllowed", Printed::Number),
        AGE,
    ]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names {
        short_names: vec!["pdb".into()],
        ..Names::of_kind("poddisruptionbudgets", "PodDisruptionBudget")
    };
    TypeSpec::built_in("policy", names, Scope::Namespaced, versions, Arc::new(DisruptionBudgets))
}

/// A number or a percentage in a cell.
fn amount(budget: &Value, field: &str) -> Value {
    match present(part(budget, "spec"), field) {
        None => "N/A".into(),
        Some(Value::String(text)) => text.as_str().into(),
        Some(number) => number.to_string().into(),
    }
}

/// Drops the label of `v1beta1` from a selector that has others, too (`dropDisabledFields`).
fn drop_old_label(budget: &mut Value) {
    let selector = budget.get_mut("spec").and_then(|spec| spec.get_mut("selector"));
    let Some(selector) = selector.and_then(Value::as_object_mut) else { return };
    let selector_of = Value::Object(selector.clone());
    let expressions = items(&selector_of, "matchExpressions");
    let is_old = |expression: &Value| text(expression, "key") == OLD_LABEL;
    let has_labels =
        part(&selector_of, "matchLabels").as_object().is_some_and(|labels| labels.iter().next().is_some());
    let matches_none = match expressions {
        [only] => is_old(only) && text(only, "operator") == "Exists" && items(only, "values").is_empty(),
        _ => false,
    };
    if !expressions.iter().any(is_old) || matches_none && !has_labels {
        return;
    }
    let kept: Vec<Value> = expressions.iter().filter(|of| !is_old(of)).cloned().collect();
    match kept.is_empty() {
        true => drop(selector.remove("matchExpressions")),
        false => drop(selector.insert("matchExpressions", kept)),
    }
}

/// The rules of PodDisruptionBudgets.
struct DisruptionBudgets;

impl Strategy for DisruptionBudgets {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&DISRUPTION_BUDGET)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["policy/v1beta1"]
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        Subresource::reset_fields(cx.subresource)
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, budget: &mut Value) {
        reset(cx, budget);
        generation::first(budget);
        drop_old_label(budget);
    }

    /// Upstream's looks at the spec alone; the rules of every create look at the metadata, and take any name that a path can hold.
    fn validate(&self, _: &RuleContext<'_>, budget: &Value) -> ErrorList {
        let at = Path::new("metadata");
        let mut errors = validate_object_meta(part(budget, "metadata"), true, &is_path_segment, &at);
        errors.append(&mut validate(budget));
        errors
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, budget: &mut Value, old: &Value) {
        keep_other_part(cx, budget, old);
        if is_of_status(cx) {
            return;
        }
        // Upstream compares before it drops the label.
        generation::next_if_changed(budget, old, "spec");
        let selector = &["spec", "selector"];
        if !same(budget.at(selector), old.at(selector)) {
            drop_old_label(budget);
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        budget: &Value,
        _: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        if !is_of_status(cx) {
            return validate(budget);
        }
        let (status, at) = (part(budget, "status"), Path::new("status"));
        let mut errors = ErrorList::new();
        validate_conditions(items(status, "conditions"), &at.child("conditions"), &mut errors);
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            not_negative(status, field, &at, &mut errors);
        }
        errors
    }
}

/// `ValidatePodDisruptionBudgetSpec`
fn validate(budget: &Value) -> ErrorList {
    let (spec, at, mut errors) = (part(budget, "spec"), Path::new("spec"), ErrorList::new());
    let amounts = ["minAvailable", "maxUnavailable"];
    if amounts.iter().all(|field| present(spec, field).is_some()) {
        let shown = DISRUPTION_BUDGET.internal(&["spec"], spec);
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(Error::invalid_raw(&at, shown, detail));
    }
    for field in amounts {
        if let Some(amount) = present(spec, field) {
            let at = at.child(field);
            int_or_percent(amount, &at, &mut errors);
            at_most_all(amount, &at, &mut errors);
        }
    }
    label_selector::validate(part(spec, "selector"), &at.child("selector"), &mut errors);
    let policy = present(spec, "unhealthyPodEvictionPolicy").and_then(Value::as_str);
    if let Some(policy) = policy.filter(|policy| !POLICIES.contains(policy)) {
        errors.push(Error::not_supported(&at.child("unhealthyPodEvictionPolicy"), policy, &POLICIES));
    }
    errors
}

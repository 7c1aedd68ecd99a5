//! ResourceQuota, `v1`: how much of each resource a namespace may have in all.
//!
//! Sources: `pkg/registry/core/resourcequota/strategy.go`, `pkg/apis/core/validation` (`ValidateResourceQuota`),
//! `pkg/apis/core/v1/zz_generated.defaults.go`, `pkg/printers/internalversion` (1.37).

use std::cmp::Ordering;
use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::ErrorList;
use kindom_api::quantity::Quantity;
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::{AGE, round_up, status};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

pub mod measure;
mod printed;
mod rules;
pub mod usage;

static RESOURCE_QUOTA: Declared = Declared::catalogued("v1", "ResourceQuota");

/// ResourceQuotas as a built-in type.
pub(super) fn resource_quotas() -> TypeSpec {
    let request = "Request represents a minimum amount of cpu/memory that a container may consume.";
    let limit = "Limits control the maximum amount of cpu/memory that a container may use independent of contention on \
                 the node.";
    let columns = Columns::printed(&[
        ("Request", request, ".status", Printed::Computed(printed::requests)),
        ("Limit", limit, ".status", Printed::Computed(printed::limits)),
        AGE,
    ]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names =
        Names { short_names: vec!["quota".into()], ..Names::of_kind("resourcequotas", "ResourceQuota") };
    TypeSpec::built_in("", names, Scope::Namespaced, versions, Arc::new(ResourceQuotas))
}

/// The rules of ResourceQuotas.
struct ResourceQuotas;

/// The amount of a resource in `spec.hard`, with its text.
fn hard<'a>(quota: &'a Value, name: &str) -> Option<(&'a str, Quantity)> {
    let text = quota.at(&["spec", "hard", name])?.as_str()?;
    Some((text, Quantity::parse(text).ok()?))
}

impl Strategy for ResourceQuotas {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&RESOURCE_QUOTA)
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        Subresource::reset_fields(cx.subresource)
    }

    fn fill_defaults(&self, quota: &mut Value) {
        for (part, field) in [("spec", "hard"), ("status", "hard"), ("status", "used")] {
            round_up(quota.get_mut(part).and_then(|part| part.get_mut(field)));
        }
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, quota: &mut Value) {
        status::reset(cx, quota);
    }

    fn validate(&self, _: &RuleContext<'_>, quota: &Value) -> ErrorList {
        rules::validate(quota)
    }

    /// Requests that exceed their limits are let through.
    fn warnings(&self, _: &RuleContext<'_>, quota: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let warning = |resource: &str| {
            let (of_request, of_limit) = (format!("requests.{resource}"), format!("limits.{resource}"));
            let bare = || Some((resource, hard(quota, resource)?));
            let (name, (request_text, request)) = hard(quota, &of_request)
                .map(|found| (of_request.as_str(), found))
                .or_else(|| bare().filter(|_| matches!(resource, "cpu" | "memory")))?;
            let (limit_text, limit) = hard(quota, &of_limit)?;
            (request.compare(&limit) == Ordering::Greater).then(|| {
                format!("ResourceQuota {name} ({request_text}) should be less than {of_limit} ({limit_text})")
            })
        };
        ["cpu", "memory", "storage", "ephemeral-storage"].into_iter().filter_map(warning).collect()
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, quota: &mut Value, old: &Value) {
        status::keep_other_part(cx, quota, old);
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        quota: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        match status::is_of_status(cx) {
            true => rules::validate_status_update(quota, old),
            false => rules::validate_update(quota, old),
        }
    }
}

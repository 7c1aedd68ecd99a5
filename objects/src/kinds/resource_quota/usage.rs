//! The usage by which objects count toward the quotas of their namespace, and the state of a ResourceQuota when one more comes.
//! Nobody counts Events, and scopes are of pods alone, so that a quota with scopes concerns no other type.
//!
//! Unlike Kubernetes', the amount in use is counted when it is needed, and is no number that a controller may not have brought up
//! to date; the bound is that of `spec`.
//!
//! Sources: apiserver `pkg/admission/plugin/resourcequota/controller.go` (`CheckRequest`), `pkg/quota/v1/generic/evaluator.go`;
//! `pkg/quota/v1/evaluator/core` (1.37).

use std::collections::BTreeMap;

use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value, object};

use crate::kinds::fields::{items, part, present};
use crate::{TypeSpec, manage_status};

/// Amounts of resources, by their names.
pub type Usage = BTreeMap<String, i64>;

/// Types of the core group whose objects count under their own name, too.
const ALIASES: [&str; 6] = [
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// The resources of which each object of a type is one.
#[must_use]
pub fn counted_as(spec: &TypeSpec) -> Vec<String> {
    let (group, plural) = (spec.group.as_str(), spec.names.plural.as_str());
    match (group, plural) {
        ("" | "events.k8s.io", "events") => Vec::new(),
        _ if !spec.namespaced() || spec.strategy.answers_creates() => Vec::new(),
        ("", plural) if ALIASES.contains(&plural) => vec![format!("count/{plural}"), plural.to_owned()],
        ("", plural) => vec![format!("count/{plural}")],
        (group, plural) => vec![format!("count/{plural}.{group}")],
    }
}

/// The plural and the group of the type that a resource of a quota counts; `None` for another resource.
#[must_use]
pub fn counts(resource: &str) -> Option<(&str, &str)> {
    match resource.strip_prefix("count/") {
        Some(counted) => Some(counted.split_once('.').unwrap_or((counted, ""))),
        None if ALIASES.contains(&resource) => Some((resource, "")),
        None => resource.strip_prefix("services.").map(|_| ("services", "")),
    }
}

/// The usage of an object, besides that it is one more.
#[must_use]
pub fn usage(spec: &TypeSpec, object: &Value) -> Usage {
    spec.strategy.quota_usage(object).into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect()
}

/// The bounds of a quota.
fn bounds(quota: &Value) -> impl Iterator<Item = (&str, &str)> {
    let hard = part(part(quota, "spec"), "hard").as_object();
    hard.into_iter().flat_map(Map::iter).filter_map(|(name, amount)| Some((name, amount.as_str()?)))
}

/// The resources that a quota bounds.
pub fn bounded(quota: &Value) -> impl Iterator<Item = &str> {
    bounds(quota).map(|(name, _)| name)
}

/// `true` if a quota is about some of the pods only.
#[must_use]
pub fn has_scopes(quota: &Value) -> bool {
    let spec = part(quota, "spec");
    let selector = present(spec, "scopeSelector").map(|selector| items(selector, "matchExpressions"));
    !items(spec, "scopes").is_empty() || selector.is_some_and(|selector| !selector.is_empty())
}

/// The reason why a write that needs `requested` more would exceed a quota, in upstream's words; `used` tells how much of a
/// resource is in use.
pub fn exceeded(quota: &Value, requested: &Usage, mut used: impl FnMut(&str) -> i64) -> Option<String> {
    let (mut asked, mut in_use, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    for (name, bound) in bounds(quota) {
        let Some(&more) = requested.get(name).filter(|more| **more > 0) else { continue };
        let now = used(name);
        let is_over = match Quantity::parse(bound) {
            Ok(bound) => Quantity::of_int(now.saturating_add(more)).compare(&bound).is_gt(),
            Err(_) => true,
        };
        if is_over {
            asked.push(format!("{name}={more}"));
            in_use.push(format!("{name}={now}"));
            limits.push(format!("{name}={bound}"));
        }
    }
    let quota = quota.text_at(&["metadata", "name"]);
    (!asked.is_empty()).then(|| {
        let [asked, in_use, limits] = [asked, in_use, limits].map(|mut parts| {
            parts.sort();
            parts.join(",")
        });
        format!("exceeded quota: {quota}, requested: {asked}, used: {in_use}, limited: {limits}")
    })
}

/// Sets the status of a quota, and its manager.
pub fn charge(quotas: &TypeSpec, quota: &mut Value, used: &Usage, now: &str) {
    let old = quota.get("status").cloned();
    if set_status(quota, used) {
        manage_status(quotas, old, quota, now);
    }
}

/// Sets the status of a quota to these amounts; those of other resources that it bounds stay. Returns true if that changed it.
pub fn set_status(quota: &mut Value, used: &Usage) -> bool {
    let old = quota.get("status");
    let before = old.map(|status| part(status, "used").clone()).unwrap_or_default();
    let hard: Map = bounds(quota).map(|(name, bound)| (name.to_owned(), Value::from(bound))).collect();
    let amount = |name: &str| match used.get(name) {
        Some(amount) => Some(Value::from(amount.to_string())),
        None => before.get(name).cloned(),
    };
    let used: Map = hard.keys().filter_map(|name| Some((name.to_owned(), amount(name)?))).collect();
    let mut status = Map::new();
    for (field, amounts) in [("hard", hard), ("used", used)] {
        if !amounts.is_empty() {
            status.insert(field, Value::Object(amounts));
        }
    }
    let status = Value::Object(status);
    if old.unwrap_or(&object! {}) == &status {
        return false;
    }
    if let Some(quota) = quota.as_object_mut() {
        quota.insert("status", status);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota() -> Value {
        object! {
            "metadata": object! { "name": "q" },
            "spec": object! { "hard": object! { "count/widgets.example.com": "2", "configmaps": "1k", "pods": "3" } },
        }
    }

    fn requested(names: &[&str]) -> Usage {
        names.iter().map(|name| ((*name).to_owned(), 1)).collect()
    }

    #[test]
    fn only_what_is_bounded_is_refused() {
        let widgets = requested(&["count/widgets.example.com"]);
        assert_eq!(exceeded(&quota(), &widgets, |_| 1), None);
        assert_eq!(
            exceeded(&quota(), &widgets, |_| 2).as_deref(),
            Some(
                "exceeded quota: q, requested: count/widgets.example.com=1, used: count/widgets.example.com=2, limited: \
                 count/widgets.example.com=2"
            )
        );
        let maps = requested(&["configmaps", "count/configmaps"]);
        assert_eq!(exceeded(&quota(), &maps, |_| 999), None);
        assert!(exceeded(&quota(), &maps, |_| 1000).is_some());
        assert_eq!(exceeded(&quota(), &requested(&["secrets"]), |_| 1000), None);
    }

    #[test]
    fn a_resource_names_the_type_that_it_counts() {
        assert_eq!(counts("count/widgets.example.com"), Some(("widgets", "example.com")));
        assert_eq!(counts("count/configmaps"), Some(("configmaps", "")));
        assert_eq!(counts("secrets"), Some(("secrets", "")));
        assert_eq!(counts("services.nodeports"), Some(("services", "")));
        assert_eq!(counts("requests.cpu"), None);
    }

    #[test]
    fn scopes_are_found() {
        assert!(!has_scopes(&quota()));
        assert!(has_scopes(&object! { "spec": object! { "scopes": vec![Value::from("BestEffort")] } }));
    }
}

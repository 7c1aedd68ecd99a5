//! The usage by which objects count toward the quotas of their namespace, and the state of a ResourceQuota when one more comes.
//! Nobody counts Events, and a quota with scopes concerns the kinds that know them alone.
//!
//! Unlike Kubernetes', the amount in use is counted when it is needed, and is no number that a controller may not have brought up
//! to date; the bound is that of `spec`.
//!
//! Sources: apiserver `pkg/admission/plugin/resourcequota/controller.go` (`CheckRequest`), `pkg/quota/v1/generic/evaluator.go`;
//! `pkg/quota/v1/evaluator/core` (1.37).

use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value, object};

use super::measure::{QuotaMeasure, Usage, scopes};
use crate::kinds::fields::part;
use crate::{Subresource, TypeSpec, manage_status};

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
        None if resource.starts_with("services.") => Some(("services", "")),
        None if resource == "requests.storage" || resource.contains(OF_CLASS) => {
            Some(("persistentvolumeclaims", ""))
        }
        None => is_of_pods(resource).then_some(("pods", "")),
    }
}

/// The infix of the resources that claims of one storage class use.
pub(crate) const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// The prefix of the amounts of large pages.
pub(crate) const HUGE_PAGES: &str = "hugepages-";
const OF_DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// True for a resource of pods (`podResources`, `podResourcePrefixes`).
fn is_of_pods(resource: &str) -> bool {
    const COMPUTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
    if let Some(limited) = resource.strip_prefix("limits.") {
        return COMPUTED.contains(&limited);
    }
    let requested = resource.strip_prefix("requests.");
    let of = requested.unwrap_or(resource);
    COMPUTED.contains(&of)
        || of.starts_with(HUGE_PAGES)
        || resource == "pods"
        || requested.is_some_and(is_extended)
}

/// True for a resource that Kubernetes does not know itself (`IsDRAExtendedResourceName`).
pub(crate) fn is_extended(resource: &str) -> bool {
    let is_native = !resource.contains('/') || resource.contains("kubernetes.io/");
    !is_native && !resource.starts_with("requests.") || resource.starts_with(OF_DEVICE_CLASS)
}

/// A write, as quotas see it.
pub struct QuotaChange {
    counted: Vec<String>,
    new: Value,
    new_usage: Usage,
    old: Option<(Value, Usage)>,
}

impl QuotaChange {
    /// The write of an object of a type at a time. `None` if it needs no more of anything.
    #[must_use]
    pub fn of(
        spec: &TypeSpec,
        subresource: Option<Subresource>,
        new: Value,
        old: Option<Value>,
        now: &str,
    ) -> Option<Self> {
        let measure = spec.strategy.quota_measure();
        let usage = |object: &Value| measure.map_or_else(Usage::new, |measure| measure.usage(object, now));
        match (measure, &old) {
            (Some(measure), _) if !measure.concerns(subresource, &new, old.as_ref()) => return None,
            (None, Some(_)) => return None,
            _ => {}
        }
        let counted = if old.is_none() { counted_as(spec) } else { Vec::new() };
        let new_usage = usage(&new);
        let old = old.map(|old| {
            let used = usage(&old);
            (old, used)
        });
        Some(Self { counted, new, new_usage, old })
    }

    /// The amounts of what a quota bounds that the write needs more. `None` if the quota does not count the object.
    ///
    /// # Errors
    /// The reason why the object may not be: it does not say how much it needs.
    pub fn requested(&self, spec: &TypeSpec, quota: &Value) -> Result<Option<Usage>, String> {
        let measure = spec.strategy.quota_measure();
        let hard = part(part(quota, "spec"), "hard");
        let is_bounded = |name: &str| hard.get(name).is_some();
        if !is_counted(measure, &self.new, quota) {
            return Ok(None);
        }
        if let Some(why) = measure.and_then(|measure| measure.missing(&self.new, &is_bounded)) {
            return Err(format!("failed quota: {}: {why}", quota.text_at(&["metadata", "name"])));
        }
        let before = self.old.as_ref().filter(|(old, _)| is_counted(measure, old, quota));
        let mut requested: Usage =
            self.counted.iter().map(|name| (name.clone(), Quantity::of_count(1))).collect();
        for (name, amount) in &self.new_usage {
            let more = match before.and_then(|(_, used)| used.get(name)) {
                Some(used) => amount.sub(used),
                None => Some(amount.clone()),
            };
            // A number of thousands of digits is more than any bound.
            let more = more.unwrap_or_else(|| amount.clone());
            if more.sign() > 0 {
                requested.insert(name.clone(), more);
            }
        }
        requested.retain(|name, _| is_bounded(name));
        Ok(Some(requested).filter(|requested| !requested.is_empty()))
    }
}

/// True if an object belongs to the scopes of a quota.
fn is_counted(measure: Option<&dyn QuotaMeasure>, object: &Value, quota: &Value) -> bool {
    scopes(quota).all(|scope| measure.is_some_and(|measure| measure.is_in(object, &scope)))
}

/// The amounts of what a quota bounds that an object of a type uses; those that are absent are 0.
#[must_use]
pub fn used_by(spec: &TypeSpec, quota: &Value, object: &Value, now: &str) -> Usage {
    let measure = spec.strategy.quota_measure();
    if !is_counted(measure, object, quota) {
        return Usage::new();
    }
    let bounds = part(part(quota, "spec"), "hard");
    let own = measure.map_or_else(Usage::new, |measure| measure.usage(object, now));
    let ones = counted_as(spec).into_iter().map(|name| (name, Quantity::of_count(1)));
    own.into_iter()
        .chain(ones)
        .filter(|(name, amount)| amount.sign() != 0 && bounds.get(name).is_some())
        .collect()
}

/// Adds amounts to those of the same resources; others are left out.
pub fn add(used: &mut Usage, more: &Usage) {
    more.iter().for_each(|(name, amount)| add_one(used, name, amount));
}

/// Adds amounts, also of resources that there were none of.
pub fn add_all(used: &mut Usage, more: &Usage) {
    for (name, amount) in more {
        if used.contains_key(name) {
            add_one(used, name, amount);
        } else {
            used.insert(name.clone(), amount.clone());
        }
    }
}

fn add_one(used: &mut Usage, name: &str, amount: &Quantity) {
    if let Some(sum) = used.get_mut(name) {
        *sum = sum.add(amount).unwrap_or_else(|| larger(sum, amount));
    }
}

/// In the place of a sum of thousands of digits, which is beyond any bound like the larger of its parts.
fn larger(a: &Quantity, b: &Quantity) -> Quantity {
    if a.compare(b).is_gt() { a.clone() } else { b.clone() }
}

/// True if the objects of a type have to be read to count them for a quota: their number does not do.
#[must_use]
pub fn needs_objects(spec: &TypeSpec, quota: &Value, used: &Usage) -> bool {
    let counted = counted_as(spec);
    scopes(quota).next().is_some() || used.keys().any(|name| !counted.contains(name))
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

/// The reason why a write that needs `requested` more would exceed a quota, in upstream's words; `used` is what is in use.
#[must_use]
pub fn exceeded(quota: &Value, requested: &Usage, used: &Usage) -> Option<String> {
    let (mut asked, mut in_use, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    let none = Quantity::of_count(0);
    for (name, bound) in bounds(quota) {
        let Some(more) = requested.get(name).filter(|more| more.sign() > 0) else { continue };
        let now = used.get(name).unwrap_or(&none);
        let is_over = match (Quantity::parse(bound), now.add(more)) {
            (Ok(bound), Some(sum)) => sum.compare(&bound).is_gt(),
            _ => true,
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

    fn amounts(names: &[&str], amount: i64) -> Usage {
        names.iter().map(|name| ((*name).to_owned(), Quantity::of_count(amount))).collect()
    }

    #[test]
    fn what_is_beyond_any_sum_is_not_forgotten() {
        let [all, one] = ["1e3000", "1"].map(|text| Quantity::parse(text).unwrap());
        assert!(all.add(&one).is_none());
        assert!(larger(&all, &one).equals(&all) && larger(&one, &all).equals(&all));
        let used = Usage::from([("pods".to_owned(), all)]);
        assert!(exceeded(&quota(), &amounts(&["pods"], 1), &used).is_some());
    }

    #[test]
    fn only_what_is_bounded_is_refused() {
        let is_exceeded =
            |names: &[&str], used| exceeded(&quota(), &amounts(names, 1), &amounts(names, used));
        let widgets = ["count/widgets.example.com"];
        assert_eq!(is_exceeded(&widgets, 1), None);
        assert_eq!(
            is_exceeded(&widgets, 2).as_deref(),
            Some(
                "exceeded quota: q, requested: count/widgets.example.com=1, used: count/widgets.example.com=2, limited: \
                 count/widgets.example.com=2"
            )
        );
        assert_eq!(is_exceeded(&["configmaps", "count/configmaps"], 999), None);
        assert!(is_exceeded(&["configmaps", "count/configmaps"], 1000).is_some());
        assert_eq!(is_exceeded(&["secrets"], 1000), None);
    }

    #[test]
    fn a_resource_names_the_type_that_it_counts() {
        assert_eq!(counts("count/widgets.example.com"), Some(("widgets", "example.com")));
        assert_eq!(counts("count/configmaps"), Some(("configmaps", "")));
        assert_eq!(counts("secrets"), Some(("secrets", "")));
        assert_eq!(counts("services.nodeports"), Some(("services", "")));
        for of_pods in [
            "pods",
            "cpu",
            "requests.cpu",
            "limits.memory",
            "requests.ephemeral-storage",
            "hugepages-2Mi",
            "requests.hugepages-1Gi",
            "requests.example.com/gpu",
            "requests.deviceclass.resource.kubernetes.io/fast",
        ] {
            assert_eq!(counts(of_pods), Some(("pods", "")), "{of_pods}");
        }
        for of_claims in ["requests.storage", "gold.storageclass.storage.k8s.io/requests.storage"] {
            assert_eq!(counts(of_claims), Some(("persistentvolumeclaims", "")), "{of_claims}");
        }
        for other in
            ["limits.hugepages-2Mi", "requests.kubernetes.io/x", "limits.example.com/gpu", "requests.pods"]
        {
            assert_eq!(counts(other), None, "{other}");
        }
    }
}

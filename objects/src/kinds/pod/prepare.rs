//! The server's own fields of a pod, and those that a write does not change (`pkg/registry/core/pod/strategy.go`, 1.37).

use std::cmp::Ordering;

use kindom_api::{Value, object};

use super::{qos, spec};
use crate::kinds::fields::{items, items_mut, number, part, present, present_mut, text};
use crate::kinds::generation;
use crate::kinds::pod_spec::claims::{Amounts, aggregate, amounts};
use crate::kinds::resources::is_huge_pages;
use crate::kinds::status::{keep, keep_metadata};

/// The lists whose containers have resources.
const WITH_RESOURCES: [&str; 2] = ["containers", "initContainers"];

pub(super) fn for_create(pod: &mut Value, now: &str) {
    generation::first(pod);
    let mut status = object! { "phase": "Pending" };
    if !items(spec(pod), "schedulingGates").is_empty() {
        set_condition(
            &mut status,
            object! {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            },
            now,
        );
    }
    match_label_keys(pod);
    if let Some(spec) = pod.get_mut("spec") {
        drop_disabled(spec);
        default_resources(spec);
    }
    if let Some(status) = status.as_object_mut() {
        status.insert("qosClass", qos::class(pod));
    }
    if let Some(pod) = pod.as_object_mut() {
        pod.insert("status", status);
    }
}

/// Drops the fields of features that are off in 1.37 (`DropDisabledPodFields`).
fn drop_disabled(spec: &mut Value) {
    for list in WITH_RESOURCES {
        for container in items_mut(spec, list) {
            let Some(container) = container.as_object_mut() else { continue };
            let lifecycle = container.get_mut("lifecycle").and_then(Value::as_object_mut);
            let dropped = lifecycle.and_then(|of| of.remove("stopSignal").map(|_| of.is_empty()));
            if dropped == Some(true) {
                container.remove("lifecycle");
            }
        }
    }
}

/// Sets a condition; its time stays while its status does (`UpdatePodCondition`).
pub(super) fn set_condition(status: &mut Value, mut condition: Value, now: &str) {
    let old =
        items(status, "conditions").iter().position(|old| text(old, "type") == text(&condition, "type"));
    let mut all = items(status, "conditions").to_vec();
    let stored = old.and_then(|at| all.get(at));
    let since = stored.filter(|old| text(old, "status") == text(&condition, "status"));
    let since = since.map_or(now, |old| text(old, "lastTransitionTime")).to_owned();
    if let Some(condition) = condition.as_object_mut() {
        condition.insert("lastProbeTime", Value::Null);
        condition.insert("lastTransitionTime", since);
    }
    match old.and_then(|at| all.get_mut(at)) {
        Some(old) => *old = condition,
        None => all.push(condition),
    }
    if let Some(status) = status.as_object_mut() {
        status.insert("conditions", all);
    }
}

/// Adds the values of the pod's labels to the selectors that name them by key (`mutatePodAffinity`,
/// `mutateTopologySpreadConstraints`).
fn match_label_keys(pod: &mut Value) {
    let labels = pod.at(&["metadata", "labels"]).cloned().unwrap_or_default();
    let Some(spec) = pod.get_mut("spec") else { return };
    if let Some(affinity) = present_mut(spec, "affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(of) = present_mut(affinity, kind) else { continue };
            for term in items_mut(of, "preferredDuringSchedulingIgnoredDuringExecution") {
                if let Some(term) = present_mut(term, "podAffinityTerm") {
                    add_keys(term, &labels);
                }
            }
            items_mut(of, "requiredDuringSchedulingIgnoredDuringExecution")
                .for_each(|term| add_keys(term, &labels));
        }
    }
    items_mut(spec, "topologySpreadConstraints").for_each(|constraint| add_keys(constraint, &labels));
}

fn add_keys(of: &mut Value, labels: &Value) {
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in items(of, field).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key).and_then(Value::as_str) {
                added.push(object! { "key": key, "operator": operator, "values": vec![Value::from(value)] });
            }
        }
    }
    let Some(selector) = present_mut(of, "labelSelector") else { return };
    if added.is_empty() {
        return;
    }
    let all: Vec<Value> = items(selector, "matchExpressions").iter().cloned().chain(added).collect();
    if let Some(selector) = selector.as_object_mut() {
        selector.insert("matchExpressions", all);
    }
}

/// A client that does not know the resources of a pod leaves them as they are.
pub(super) fn keep_resources(pod: &mut Value, old: &Value) {
    let Some(kept) = present(spec(old), "resources").cloned() else { return };
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut)
        && spec.get("resources").is_none_or(Value::is_null)
    {
        spec.insert("resources", kept);
    }
}

/// Keeps all but the ephemeral containers (`dropNonEphemeralContainerUpdates`).
pub(super) fn for_ephemeral_containers(pod: &mut Value, old: &Value) {
    let wanted = spec(pod).get("ephemeralContainers").cloned().unwrap_or_default();
    keep(pod, old, "spec");
    keep(pod, old, "status");
    keep_metadata(pod, old);
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("ephemeralContainers", wanted);
    }
}

/// Keeps all but the resources and the resize policies of containers, and the volumes (`dropNonResizeUpdates`). If containers
/// come, go or change their places, nothing is kept: validation refuses that.
pub(super) fn for_resize(pod: &mut Value, old: &Value) {
    let names = |of: &Value, list: &str| -> Vec<String> {
        items(of, list).iter().map(|container| text(container, "name").to_owned()).collect()
    };
    let counts = |of: &Value| WITH_RESOURCES.map(|list| items(of, list).len());
    if counts(spec(pod)) == counts(spec(old)) {
        let wanted = spec(pod).clone();
        keep(pod, old, "spec");
        keep(pod, old, "status");
        keep_metadata(pod, old);
        let Some(kept) = pod.get_mut("spec") else { return };
        for field in ["resources", "volumes"] {
            keep(kept, &wanted, field);
        }
        for list in WITH_RESOURCES {
            if names(&wanted, list) != names(kept, list) {
                keep(kept, &wanted, list);
                continue;
            }
            for (container, wanted) in items_mut(kept, list).zip(items(&wanted, list)) {
                keep(container, wanted, "resources");
                keep(container, wanted, "resizePolicy");
            }
        }
    }
    keep_resources(pod, old);
    if let Some(spec) = pod.get_mut("spec") {
        default_resources(spec);
    }
}

/// Keeps all but the status, and of that what clients lose (`podStatusStrategy.PrepareForUpdate`).
pub(super) fn for_status(pod: &mut Value, old: &Value) {
    keep(pod, old, "spec");
    let none = Value::Null;
    let stored = old.get("metadata").unwrap_or(&none);
    if let Some(metadata) = pod.get_mut("metadata") {
        keep(metadata, stored, "ownerReferences");
    }
    let old = part(old, "status");
    let Some(status) = pod.get_mut("status") else { return };
    for field in
        ["resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"]
    {
        if present(status, field).is_none() {
            keep(status, old, field);
        }
    }
    if text(status, "qosClass").is_empty() {
        keep(status, old, "qosClass");
    }
    if number(status, "observedGeneration").unwrap_or_default() == 0 {
        keep(status, old, "observedGeneration");
    }
    keep_observed(status, old);
}

/// `preserveOldObservedGeneration`, for the conditions: of several of a type the first stands for the first.
fn keep_observed(status: &mut Value, old: &Value) {
    let mut seen = std::collections::BTreeMap::<String, std::vec::IntoIter<i64>>::new();
    let mut of_type = std::collections::BTreeMap::<String, Vec<i64>>::new();
    for condition in items(old, "conditions") {
        let generation = number(condition, "observedGeneration").unwrap_or_default();
        of_type.entry(text(condition, "type").to_owned()).or_default().push(generation);
    }
    for condition in items_mut(status, "conditions") {
        let kind = text(condition, "type").to_owned();
        let stored = seen
            .entry(kind.clone())
            .or_insert_with(|| of_type.remove(&kind).unwrap_or_default().into_iter())
            .next();
        if number(condition, "observedGeneration").unwrap_or_default() == 0
            && let Some(stored) = stored.filter(|stored| *stored != 0)
            && let Some(condition) = condition.as_object_mut()
        {
            condition.insert("observedGeneration", stored);
        }
    }
}

/// The resources that a pod as a whole may have.
fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

/// Fills in the resources of the pod as a whole from those of its containers (`DefaultPodLevelResources`).
fn default_resources(spec: &mut Value) {
    let Some(own) = present(spec, "resources") else { return };
    let (mut requests, mut limits) = (amounts(own, "requests"), amounts(own, "limits"));
    if requests.is_empty() && limits.is_empty() {
        return;
    }
    let (requested, limited) = (aggregate(spec, "requests"), aggregate(spec, "limits"));
    for (name, amount) in limited.iter().filter(|(name, _)| is_huge_pages(name)) {
        if !requests.contains_key(name) {
            limits.entry(name.clone()).or_insert_with(|| amount.clone());
        }
    }
    for (name, amount) in requested.iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")) {
        requests.entry(name.clone()).or_insert_with(|| amount.clone());
    }
    for (name, amount) in limits.iter().filter(|(name, _)| is_of_pods(name)) {
        requests.entry(name.clone()).or_insert_with(|| amount.clone());
    }
    let sidecars = items(spec, "initContainers").iter().filter(|one| text(one, "restartPolicy") == "Always");
    let running: Vec<&Value> = items(spec, "containers").iter().chain(sidecars).collect();
    for (name, request) in requests.iter().filter(|(name, _)| is_of_pods(name)) {
        let is_limited = |container: &&Value| container.at(&["resources", "limits", name]).is_some();
        if limits.contains_key(name) || !running.iter().all(is_limited) {
            continue;
        }
        let most = limited.get(name).filter(|most| most.compare(request) == Ordering::Greater);
        limits.insert(name.clone(), most.unwrap_or(request).clone());
    }
    let map = |all: Amounts| -> Value {
        Value::Object(all.into_iter().map(|(name, amount)| (name, Value::from(amount.to_string()))).collect())
    };
    let Some(resources) = spec.get_mut("resources").and_then(Value::as_object_mut) else { return };
    for (field, all) in [("limits", limits), ("requests", requests)] {
        if !all.is_empty() {
            resources.insert(field, map(all));
        }
    }
}

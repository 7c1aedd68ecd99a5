//! The resources that a pod uses of quotas.
//!
//! Sources: `pkg/quota/v1/evaluator/core/pods.go`; component-helpers `resource/helpers.go` (`PodRequests`, `PodLimits`) (1.37).

use std::collections::{BTreeMap, BTreeSet};

use kindom_api::quantity::Quantity;
use kindom_api::{Value, meta};

use super::{Pods, qos, spec};
use crate::kinds::fields::{items, number, part, present, text};
use crate::kinds::resource_quota::measure::{QuotaMeasure, QuotaScope, Usage};
use crate::kinds::resource_quota::usage::{HUGE_PAGES, is_extended};
use crate::kinds::resources::{Amounts, amounts};
use crate::subresource::Subresource;

/// The resources that each container needs amounts of where a quota bounds them (`validationSet`).
const REQUIRED: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
/// The resources that a quota knows by the name of a request, and that of a limit.
const COMPUTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

impl QuotaMeasure for Pods {
    /// `PodUsageFunc`: a pod that has ended uses nothing.
    fn usage(&self, pod: &Value, now: &str) -> Usage {
        if has_ended(pod, now) {
            return Usage::new();
        }
        computed(&requests(pod), &limits(pod))
    }

    /// `podEvaluator.Handles`
    fn concerns(&self, subresource: Option<Subresource>, new: &Value, old: Option<&Value>) -> bool {
        match subresource {
            None => old.is_none_or(|old| ends_in_time(old) != ends_in_time(new)),
            Some(Subresource::Resize) => true,
            Some(_) => false,
        }
    }

    /// `podMatchesScopeFunc`
    fn is_in(&self, pod: &Value, scope: &QuotaScope<'_>) -> bool {
        match scope.name {
            "Terminating" => ends_in_time(pod),
            "NotTerminating" => !ends_in_time(pod),
            "BestEffort" => is_best_effort(pod),
            "NotBestEffort" => !is_best_effort(pod),
            "PriorityClass" => {
                scope.takes(Some(text(spec(pod), "priorityClassName")).filter(|class| !class.is_empty()))
            }
            "CrossNamespacePodAffinity" => looks_at_other_namespaces(pod),
            _ => false,
        }
    }

    /// `podEvaluator.Constraints`
    fn missing(&self, pod: &Value, is_bounded: &dyn Fn(&str) -> bool) -> Option<String> {
        if has_pod_level_resources(spec(pod)) {
            return None;
        }
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for container in containers(pod) {
            let resources = part(container, "resources");
            let given = computed(&amounts(part(resources, "requests")), &amounts(part(resources, "limits")));
            for name in REQUIRED.iter().filter(|name| is_bounded(name) && !given.contains_key(**name)) {
                missing.entry(name).or_default().insert(text(container, "name"));
            }
        }
        let each = missing.iter().map(|(name, containers)| {
            let containers: Vec<&str> = containers.iter().copied().collect();
            format!("{name} for: {}", containers.join(","))
        });
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| format!("must specify {}", each.join("; ")))
    }

    fn gives_back(&self, pod: &Value) -> bool {
        // A resize counts as a generation.
        let was_changed =
            number(part(pod, "metadata"), "generation").is_some_and(|generation| generation > 1);
        is_terminal(pod) || was_changed || ends_in_time(pod)
    }
}

/// `QuotaV1Pod`, the other way round.
fn has_ended(pod: &Value, now: &str) -> bool {
    let overdue = || {
        let grace = number(part(pod, "metadata"), "deletionGracePeriodSeconds")?;
        let deleted = meta::time::parse(pod.text_at(&["metadata", "deletionTimestamp"])).ok()?;
        Some(meta::time::parse(now).ok()? > deleted.saturating_add(grace))
    };
    is_terminal(pod) || overdue().unwrap_or(false)
}

fn is_terminal(pod: &Value) -> bool {
    matches!(pod.text_at(&["status", "phase"]), "Failed" | "Succeeded")
}

/// `IsTerminating`: the pod has a deadline.
fn ends_in_time(pod: &Value) -> bool {
    number(spec(pod), "activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0)
}

/// `GetPodQOS`
fn is_best_effort(pod: &Value) -> bool {
    let known = pod.text_at(&["status", "qosClass"]);
    let class = if known.is_empty() { qos::class(pod) } else { known };
    class == "BestEffort"
}

/// `usesCrossNamespacePodAffinity`
fn looks_at_other_namespaces(pod: &Value) -> bool {
    let affinity = part(spec(pod), "affinity");
    ["podAffinity", "podAntiAffinity"].iter().any(|of| {
        let of = part(affinity, of);
        let required = items(of, "requiredDuringSchedulingIgnoredDuringExecution").iter();
        let preferred = items(of, "preferredDuringSchedulingIgnoredDuringExecution").iter();
        required
            .chain(preferred.map(|weighted| part(weighted, "podAffinityTerm")))
            .any(|term| !items(term, "namespaces").is_empty() || present(term, "namespaceSelector").is_some())
    })
}

/// `podComputeUsageHelper`
fn computed(requests: &Amounts, limits: &Amounts) -> Usage {
    let mut usage = Usage::from([("pods".to_owned(), Quantity::of_count(1))]);
    for (name, amount) in requests {
        let is_page = name.starts_with(HUGE_PAGES);
        if COMPUTED.contains(&name.as_str()) || is_page {
            usage.insert(name.clone(), amount.clone());
        }
        if COMPUTED.contains(&name.as_str()) || is_page || is_extended(name) {
            usage.insert(format!("requests.{name}"), amount.clone());
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| COMPUTED.contains(&name.as_str())) {
        usage.insert(format!("limits.{name}"), amount.clone());
    }
    usage
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    items(spec(pod), "containers").iter().chain(items(spec(pod), "initContainers"))
}

/// `PodRequests`
fn requests(pod: &Value) -> Amounts {
    let of_spec = |container: &'_ Value, _: &Value| amounts(part(part(container, "resources"), "requests"));
    let is_infeasible = is_infeasible(pod);
    let else_of_spec = |container: &Value| match is_infeasible {
        true => Amounts::new(),
        false => amounts(part(part(container, "resources"), "requests")),
    };
    let allocated = |container: &Value, status: &Value| match present(status, "allocatedResources") {
        Some(allocated) => amounts(allocated),
        None => else_of_spec(container),
    };
    let actuated = |container: &Value, status: &Value| match present(part(status, "resources"), "requests") {
        Some(actuated) => amounts(actuated),
        None => allocated(container, status),
    };
    let mut all = sum(pod, &actuated);
    raise(&mut all, sum(pod, &allocated));
    if !is_infeasible {
        raise(&mut all, sum(pod, &of_spec));
    }
    let overall = part(part(spec(pod), "resources"), "requests");
    all.extend(amounts(overall).into_iter().filter(|(name, _)| is_of_whole_pods(name)));
    add(&mut all, &amounts(part(spec(pod), "overhead")));
    all
}

/// `PodLimits`
fn limits(pod: &Value) -> Amounts {
    let of_spec = |container: &Value, _: &Value| amounts(part(part(container, "resources"), "limits"));
    let is_infeasible = is_infeasible(pod);
    let actuated = |container: &Value, status: &Value| match present(part(status, "resources"), "limits") {
        Some(actuated) => amounts(actuated),
        None if is_infeasible => Amounts::new(),
        None => amounts(part(part(container, "resources"), "limits")),
    };
    let mut all = sum(pod, &actuated);
    if !is_infeasible {
        raise(&mut all, sum(pod, &of_spec));
    }
    let overall = part(part(spec(pod), "resources"), "limits");
    all.extend(amounts(overall).into_iter().filter(|(name, _)| is_of_whole_pods(name)));
    let mut overhead = amounts(part(spec(pod), "overhead"));
    overhead.retain(|name, _| all.get(name).is_some_and(|limit| limit.sign() != 0));
    add(&mut all, &overhead);
    all
}

/// The amounts of a pod's `requests` or `limits` by its spec alone (`podRequests`, `podLimits` of
/// `plugin/pkg/admission/limitranger`).
pub(super) fn by_spec(pod: &Value, field: &str) -> Amounts {
    let mut all = sum(pod, &|container, _| amounts(part(part(container, "resources"), field)));
    let overall = amounts(part(part(spec(pod), "resources"), field));
    all.extend(overall.into_iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")));
    all
}

/// `IsPodResizeInfeasible`
fn is_infeasible(pod: &Value) -> bool {
    let mut conditions = items(part(pod, "status"), "conditions").iter();
    let pending = conditions.find(|condition| text(condition, "type") == "PodResizePending");
    pending.is_some_and(|pending| text(pending, "reason") == "Infeasible")
}

/// `IsSupportedPodLevelResource`
fn is_of_whole_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

/// `IsPodLevelResourcesSet`
fn has_pod_level_resources(spec: &Value) -> bool {
    let resources = part(spec, "resources");
    ["requests", "limits"].iter().any(|field| {
        let named = part(resources, field).as_object();
        named.is_some_and(|named| named.keys().any(is_of_whole_pods))
    })
}

/// The amounts of all containers, given those of one and its status: the containers run together; each one that prepares them
/// runs beside those before it that go on (`aggregateContainerResourcesByFn`).
fn sum(pod: &Value, of: &dyn Fn(&Value, &Value) -> Amounts) -> Amounts {
    let mut statuses = BTreeMap::new();
    for field in ["containerStatuses", "initContainerStatuses"] {
        for status in items(part(pod, "status"), field) {
            statuses.entry(text(status, "name")).or_insert(status);
        }
    }
    let null = Value::Null;
    let status = |container: &Value| statuses.get(text(container, "name")).copied().unwrap_or(&null);
    let mut all = Amounts::new();
    for container in items(spec(pod), "containers") {
        add(&mut all, &of(container, status(container)));
    }
    let (mut go_on, mut most) = (Amounts::new(), Amounts::new());
    for container in items(spec(pod), "initContainers") {
        let mut own = of(container, status(container));
        if text(container, "restartPolicy") == "Always" {
            add(&mut all, &own);
            add(&mut go_on, &own);
            own.clone_from(&go_on);
        } else {
            add(&mut own, &go_on);
        }
        raise(&mut most, own);
    }
    raise(&mut all, most);
    all
}

fn add(all: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = all.get(name).map_or_else(|| Some(amount.clone()), |sum| sum.add(amount));
        if let Some(sum) = sum {
            all.insert(name.clone(), sum);
        }
    }
}

/// Raises amounts to at least these.
fn raise(all: &mut Amounts, to: Amounts) {
    for (name, amount) in to {
        if all.get(&name).is_none_or(|now| amount.compare(now).is_gt()) {
            all.insert(name, amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json;

    use super::*;

    fn pod(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    fn used(text: &str) -> Vec<String> {
        let usage = Pods.usage(&pod(text), "2026-01-01T00:00:00Z");
        usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
    }

    #[test]
    fn containers_run_together_and_are_prepared_one_after_the_other() {
        let of = |name: &str, cpu: &str, more: &str| {
            format!(r#"{{"name":"{name}","resources":{{"requests":{{"cpu":"{cpu}"}}}}{more}}}"#)
        };
        let spec = format!(
            r#"{{"spec":{{"containers":[{},{}],"initContainers":[{},{},{}],"overhead":{{"cpu":"10m"}}}}}}"#,
            of("a", "100m", ""),
            of("b", "200m", ""),
            of("first", "500m", ""),
            of("beside", "50m", r#","restartPolicy":"Always""#),
            of("then", "460m", "")
        );
        // 460 m beside 50 m are more than 300 m beside 50 m, and than 500 m alone.
        assert_eq!(used(&spec), ["cpu=520m", "pods=1", "requests.cpu=520m"]);
    }

    #[test]
    fn what_a_node_gave_counts_until_it_is_taken_back() {
        let spec = r#""spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}}]}"#;
        let status = |more: &str| {
            format!(
                r#"{{{spec},"status":{{"containerStatuses":[{{"name":"a","allocatedResources":{{"cpu":"3"}},
                "resources":{{"limits":{{"cpu":"4"}}}}}}]{more}}}}}"#
            )
        };
        let all = ["cpu=3", "limits.cpu=4", "pods=1", "requests.cpu=3"];
        assert_eq!(used(&status("")), all);
        let pending = r#","conditions":[{"type":"PodResizePending","reason":"Infeasible"}]"#;
        assert_eq!(used(&status(pending)), all);
        assert_eq!(used(&status(r#","phase":"Succeeded""#)), [""; 0]);
    }

    #[test]
    fn large_pages_and_devices_are_requested() {
        let requests = r#"{"hugepages-2Mi":"4Mi","example.com/gpu":"2","kubernetes.io/x":"1"}"#;
        let pod = format!(
            r#"{{"spec":{{"containers":[{{"name":"a","resources":{{"requests":{requests},"limits":{requests}}}}}]}}}}"#
        );
        let all = ["hugepages-2Mi=4Mi", "pods=1", "requests.example.com/gpu=2", "requests.hugepages-2Mi=4Mi"];
        assert_eq!(used(&pod), all);
    }

    #[test]
    fn a_pod_that_should_have_gone_uses_nothing() {
        let deleted = |at: &str| {
            used(&format!(
                r#"{{"metadata":{{"deletionTimestamp":"{at}","deletionGracePeriodSeconds":30}},"spec":{{"containers":[]}}}}"#
            ))
        };
        assert_eq!(deleted("2025-12-31T23:59:40Z"), ["pods=1"]);
        assert_eq!(deleted("2025-12-31T23:59:20Z"), [""; 0]);
    }

    #[test]
    fn every_container_needs_amounts_of_what_is_bounded() {
        let pod =
            pod(r#"{"spec":{"containers":[{"name":"b"},{"name":"a","resources":{"requests":{"cpu":"1"}}}],
            "initContainers":[{"name":"c","resources":{"limits":{"memory":"1"}}}]}}"#);
        let bounded = BTreeSet::from(["requests.cpu", "limits.memory", "pods", "requests.ephemeral-storage"]);
        let why = "must specify limits.memory for: a,b; requests.cpu for: b,c";
        assert_eq!(Pods.missing(&pod, &|name| bounded.contains(name)).as_deref(), Some(why));
        assert_eq!(Pods.missing(&pod, &|name| name == "pods"), None);
    }
}

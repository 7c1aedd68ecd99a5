//! The defaults of a pod (`SetDefaults_Pod`, `SetDefaults_PodStatus` of `pkg/apis/core/v1/defaults.go`, 1.37).

use kindom_api::{Map, Value, object};

use crate::kinds::fields::{default_nil, items, items_mut, number, text};
use crate::kinds::pod_spec::defaults::fill as fill_spec;

pub(super) fn fill(pod: &mut Value) {
    default_nil(pod, "spec", Map::new());
    if let Some(spec) = pod.get_mut("spec") {
        fill_spec(spec);
        fill_in_pod(spec);
    }
    default_nil(pod, "status", Map::new());
    if let Some(status) = pod.get_mut("status") {
        fill_addresses(status);
    }
}

/// The defaults that a spec has in a pod, and not in a template of one.
fn fill_in_pod(spec: &mut Value) {
    if number(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0)
        && let Some(map) = spec.as_object_mut()
    {
        map.insert("terminationGracePeriodSeconds", 1);
    }
    default_nil(spec, "enableServiceLinks", true);
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list) {
            request_limits(container);
            for port in items_mut(container, "ports").filter(|_| host_network) {
                let own = number(port, "containerPort").unwrap_or_default();
                if number(port, "hostPort").unwrap_or_default() == 0
                    && let Some(port) = port.as_object_mut()
                {
                    port.insert("hostPort", own);
                }
            }
        }
    }
}

/// A container asks for what it is limited to, unless it asks for less.
fn request_limits(container: &mut Value) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = resources.entry_or_insert_with("requests", || Value::Object(Map::new()));
    if !matches!(requests, Value::Object(_)) {
        *requests = Value::Object(Map::new());
    }
    let Some(requests) = requests.as_object_mut() else { return };
    for (name, amount) in limits.iter() {
        if requests.get(name).is_none() {
            requests.insert(name, amount.clone());
        }
    }
}

/// The address and the list of addresses say the same; the address counts.
fn fill_addresses(status: &mut Value) {
    let own = text(status, "podIP").to_owned();
    let first = items(status, "podIPs").first().map(|one| text(one, "ip").to_owned());
    let Some(map) = status.as_object_mut() else { return };
    match first {
        Some(first) if own.is_empty() => drop(map.insert("podIP", first)),
        Some(first) if first == own => {}
        None if own.is_empty() => {}
        _ => drop(map.insert("podIPs", vec![object! { "ip": own }])),
    }
}

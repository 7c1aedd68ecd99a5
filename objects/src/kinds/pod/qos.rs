//! The class of a pod's service (`pkg/apis/core/helper/qos/qos.go`, 1.37).

use std::cmp::Ordering;

use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value};

use super::spec;
use crate::kinds::fields::{items, part, present};

const BEST_EFFORT: &str = "BestEffort";
const BURSTABLE: &str = "Burstable";
const GUARANTEED: &str = "Guaranteed";

/// The class that a pod's spec makes (`ComputePodQOS`).
pub(super) fn class(pod: &Value) -> &'static str {
    let spec = spec(pod);
    if let Some(resources) = present(spec, "resources").filter(|of| !is_empty(of)) {
        return of(resources);
    }
    let containers = items(spec, "initContainers").iter().chain(items(spec, "containers"));
    let classes = containers.map(|container| of(part(container, "resources")));
    joined(classes).unwrap_or(BEST_EFFORT)
}

fn joined(classes: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let mut all = None;
    for class in classes {
        match all {
            None => all = Some(class),
            Some(before) if before == class => {}
            Some(_) => return Some(BURSTABLE),
        }
    }
    all
}

fn is_empty(resources: &Value) -> bool {
    ["requests", "limits"]
        .iter()
        .all(|field| resources.get(field).and_then(Value::as_object).is_none_or(Map::is_empty))
}

fn of(resources: &Value) -> &'static str {
    if is_empty(resources) {
        return BEST_EFFORT;
    }
    joined(["cpu", "memory"].into_iter().map(|name| of_resource(resources, name))).unwrap_or(BEST_EFFORT)
}

fn of_resource(resources: &Value, name: &str) -> &'static str {
    let amount = |field: &str| {
        let text = resources.at(&[field, name]).and_then(Value::as_str).unwrap_or("0");
        Quantity::parse(text).ok()
    };
    match (amount("requests"), amount("limits")) {
        (Some(request), Some(limit)) if request.compare(&limit) == Ordering::Equal => {
            if request.sign() == 0 {
                BEST_EFFORT
            } else {
                GUARANTEED
            }
        }
        _ => BURSTABLE,
    }
}

//! The metrics of an autoscaler as its two versions have them: `v1` names target and value by the metric, `v2` puts them into parts
//! that all metrics have (`pkg/apis/autoscaling/v1/conversion.go`, 1.37).

use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value, object};

use crate::kinds::fields::{part, present};

/// The sources of metrics, which both versions name alike.
const SOURCES: [&str; 5] = ["object", "pods", "resource", "containerResource", "external"];

/// A metric of the utilization of a CPU.
pub(super) fn of_cpu(utilization: Value) -> Value {
    let target = object! { "type": "Utilization", "averageUtilization": utilization };
    let resource = object! { "name": "cpu", "target": target };
    object! { "type": "Resource", "resource": resource }
}

/// The measured utilization of a CPU.
pub(super) fn of_current_cpu(utilization: &Value) -> Value {
    let current = object! { "averageUtilization": utilization.clone() };
    let resource = object! { "name": "cpu", "current": current };
    object! { "type": "Resource", "resource": resource }
}

/// A metric of `v2` in the form of `v1`.
pub(super) fn first_of(metric: &Value) -> Value {
    converted(metric, |source, of| {
        let mut to = identified_first(source, of);
        let target = part(of, "target");
        let (value, average) = match source {
            "object" => ("targetValue", "averageValue"),
            _ => ("targetValue", "targetAverageValue"),
        };
        copy(target, "averageValue", &mut to, average);
        if matches!(source, "object" | "external") {
            copy(target, "value", &mut to, value);
        } else if source != "pods" {
            copy(target, "averageUtilization", &mut to, "targetAverageUtilization");
        }
        to
    })
}

/// A metric of `v1` in the form of `v2`.
pub(super) fn second_of(metric: &Value) -> Value {
    converted(metric, |source, of| {
        let (mut to, mut target) = (identified_second(source, of), Map::new());
        let average = if source == "object" { "averageValue" } else { "targetAverageValue" };
        copy(of, average, &mut target, "averageValue");
        let kind = match source {
            "object" => {
                let averages = present(of, "averageValue").is_some();
                // `v1` cannot leave the value out: zero stands for none beside an average.
                let is_zero = present(of, "targetValue")
                    .and_then(Value::as_str)
                    .is_none_or(|value| Quantity::parse(value).is_ok_and(|value| value.sign() == 0));
                if !averages || !is_zero {
                    copy(of, "targetValue", &mut target, "value");
                }
                if averages { "AverageValue" } else { "Value" }
            }
            "external" => {
                copy(of, "targetValue", &mut target, "value");
                if present(of, "targetValue").is_some() { "Value" } else { "AverageValue" }
            }
            "pods" => "AverageValue",
            _ => {
                copy(of, "targetAverageUtilization", &mut target, "averageUtilization");
                let is_used = present(of, "targetAverageUtilization").is_some();
                if is_used { "Utilization" } else { "AverageValue" }
            }
        };
        target.insert("type", kind);
        to.insert("target", target);
        to
    })
}

/// A measured metric of `v2` in the form of `v1`.
pub(super) fn first_of_current(metric: &Value) -> Value {
    converted(metric, |source, of| {
        let mut to = identified_first(source, of);
        let current = part(of, "current");
        let average = if source == "object" { "averageValue" } else { "currentAverageValue" };
        copy(current, "averageValue", &mut to, average);
        if matches!(source, "object" | "external") {
            copy(current, "value", &mut to, "currentValue");
        } else if source != "pods" {
            copy(current, "averageUtilization", &mut to, "currentAverageUtilization");
        }
        to
    })
}

/// A measured metric of `v1` in the form of `v2`.
pub(super) fn second_of_current(metric: &Value) -> Value {
    converted(metric, |source, of| {
        let (mut to, mut current) = (identified_second(source, of), Map::new());
        let average = if source == "object" { "averageValue" } else { "currentAverageValue" };
        copy(of, average, &mut current, "averageValue");
        if matches!(source, "object" | "external") {
            copy(of, "currentValue", &mut current, "value");
        } else if source != "pods" {
            copy(of, "currentAverageUtilization", &mut current, "averageUtilization");
        }
        to.insert("current", current);
        to
    })
}

fn converted(metric: &Value, convert: impl Fn(&str, &Value) -> Map) -> Value {
    let mut to = Map::new();
    copy(metric, "type", &mut to, "type");
    for source in SOURCES {
        if let Some(of) = present(metric, source) {
            to.insert(source, convert(source, of));
        }
    }
    to.into()
}

fn copy(from: &Value, field: &str, to: &mut Map, name: &str) {
    if let Some(value) = present(from, field) {
        to.insert(name, value.clone());
    }
}

/// The fields of a source of `v1` that say which metric of which object it is.
fn identified_first(source: &str, of: &Value) -> Map {
    let mut to = Map::new();
    copy(of, "name", &mut to, "name");
    copy(of, "container", &mut to, "container");
    copy(of, "describedObject", &mut to, "target");
    let metric = part(of, "metric");
    copy(metric, "name", &mut to, "metricName");
    copy(metric, "selector", &mut to, if source == "external" { "metricSelector" } else { "selector" });
    to
}

/// The same of `v2`.
fn identified_second(source: &str, of: &Value) -> Map {
    let mut to = Map::new();
    copy(of, "name", &mut to, "name");
    copy(of, "container", &mut to, "container");
    if source == "object" {
        copy(of, "target", &mut to, "describedObject");
    }
    if !matches!(source, "resource" | "containerResource") {
        let mut metric = Map::new();
        copy(of, "metricName", &mut metric, "name");
        let selector = if source == "external" { "metricSelector" } else { "selector" };
        copy(of, selector, &mut metric, "selector");
        to.insert("metric", metric);
    }
    to
}

//! The order of managedFields, and what of it a run decides.

use serde_json::{Map, Value};

/// The year before which scripts set the times of entries; a later time is the server's own.
const SCRIPTED: &str = "2020";

/// Brings the managedFields of every object in a value into the order that the recorder gives them, and reports those that
/// were not in Kubernetes' own: operation, whole second, manager, apiVersion, subresource (`sortEncodedManagedFields` in
/// apimachinery/pkg/util/managedfields/internal/managedfields.go, v0.37.2).
///
/// Which entries share a second depends on the server's speed, so the recorder takes all times of the run for one.
pub(super) fn settle(value: &mut Value, tell: &mut impl FnMut(&str)) {
    match value {
        Value::Object(members) => {
            if let Some(Value::Array(entries)) =
                members.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"))
            {
                if !entries.is_sorted_by_key(|entry| place(entry, str::to_owned)) {
                    tell(&format!("not in order: {}", Value::Array(entries.clone())));
                }
                entries.iter_mut().for_each(rename_server);
                entries.sort_by_key(|entry| place(entry, masked));
            }
            members.values_mut().for_each(|member| settle(member, tell));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| settle(item, tell)),
        _ => {}
    }
}

/// The managedFields of every object in a value that are not in Kubernetes' order, as text.
#[must_use]
pub fn out_of_order(value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    settle(&mut value.clone(), &mut |fault| faults.push(fault.to_owned()));
    faults
}

/// Renames the manager of the server's own writes to the recorded server's name.
fn rename_server(entry: &mut Value) {
    if let Some(manager) = entry.get_mut("manager").filter(|manager| *manager == "kindom") {
        *manager = "kube-apiserver".into();
    }
}

/// A time as the recorder has it.
fn masked(time: &str) -> String {
    if time >= SCRIPTED { "<time>".to_owned() } else { time.to_owned() }
}

fn place(entry: &Value, time: impl Fn(&str) -> String) -> [String; 5] {
    let empty = Map::new();
    let entry = entry.as_object().unwrap_or(&empty);
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    [
        text("operation").to_owned(),
        time(text("time")),
        text("manager").to_owned(),
        text("apiVersion").to_owned(),
        text("subresource").to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settled(entries: Value) -> (Vec<String>, usize) {
        let mut object = json!({"items": [{"metadata": {"managedFields": entries}}]});
        let mut faults = 0;
        settle(&mut object, &mut |_| faults += 1);
        let entries = object.pointer("/items/0/metadata/managedFields").and_then(Value::as_array).unwrap();
        (entries.iter().map(|entry| entry["manager"].as_str().unwrap_or("-").to_owned()).collect(), faults)
    }

    fn entry(operation: &str, time: &str, manager: &str) -> Value {
        json!({"operation": operation, "time": time, "manager": manager})
    }

    #[test]
    fn times_of_the_run_count_as_one() {
        let late = entry("Apply", "2026-01-01T00:00:01Z", "a");
        let early = entry("Apply", "2026-01-01T00:00:00Z", "b");
        assert_eq!(settled(json!([early, late])), (vec!["a".to_owned(), "b".to_owned()], 0));
    }

    #[test]
    fn a_scripts_times_and_the_operation_come_first() {
        let old = entry("Apply", "2001-01-01T00:00:00Z", "z");
        let new = entry("Apply", "2026-01-01T00:00:00Z", "a");
        let none = json!({"operation": "Apply", "manager": "zz"});
        let update = entry("Update", "2001-01-01T00:00:00Z", "a");
        let names = ["zz", "z", "a", "a"].map(str::to_owned).to_vec();
        assert_eq!(settled(json!([none, old, new, update])), (names.clone(), 0));
        assert_eq!(settled(json!([update, new, old, none])), (names, 1), "ours must be in order");
    }
}

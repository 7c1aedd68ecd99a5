//! The admission plugins that concern a pod alone: `DefaultTolerationSeconds`, and `Priority` for a pod without a class or with
//! one that every server has (`plugin/pkg/admission/{defaulttolerationseconds,priority}/admission.go`, 1.37).

use kindom_api::{Value, object};

use crate::kinds::fields::{default_nil, items, number, present, text};

/// Seconds that a pod stays on a node that is in trouble.
const STAY: i64 = 300;
/// The classes that every server has, and their values.
const OF_SYSTEM: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const POLICY: &str = "PreemptLowerPriority";

pub(super) fn admit(pod: &mut Value, old: Option<&Value>) -> Result<(), String> {
    let Some(spec) = pod.get_mut("spec") else { return Ok(()) };
    match old {
        None => set_priority(spec)?,
        Some(old) => {
            for field in ["priority", "preemptionPolicy"] {
                if let Some(kept) = old.at(&["spec", field]).filter(|kept| !kept.is_null()) {
                    default_nil(spec, field, kept.clone());
                }
            }
        }
    }
    tolerate(spec);
    Ok(())
}

fn set_priority(spec: &mut Value) -> Result<(), String> {
    let class = text(spec, "priorityClassName");
    let value = match class {
        "" => Some(0),
        class => OF_SYSTEM.iter().find(|(name, _)| *name == class).map(|(_, value)| *value),
    };
    // The value of another class is that of an object.
    let Some(value) = value else { return Ok(()) };
    let computed = "from the given PriorityClass name";
    if let Some(own) = number(spec, "priority").filter(|own| *own != value) {
        return Err(format!(
            "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller computed \
             {value} {computed}"
        ));
    }
    if let Some(own) = present(spec, "preemptionPolicy").and_then(Value::as_str).filter(|own| *own != POLICY)
    {
        return Err(format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission controller \
             computed {POLICY} {computed}"
        ));
    }
    default_nil(spec, "priority", value);
    default_nil(spec, "preemptionPolicy", POLICY);
    Ok(())
}

/// Adds the tolerations of nodes that are not ready or not reached, unless the pod has some.
fn tolerate(spec: &mut Value) {
    let is_for = |toleration: &Value, taint: &str| {
        let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
        (key == taint || key.is_empty()) && matches!(effect, "" | "NoExecute")
    };
    let own = items(spec, "tolerations");
    let taints = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    let missing: Vec<Value> = taints
        .into_iter()
        .filter(|taint| !own.iter().any(|toleration| is_for(toleration, taint)))
        .map(|taint| object! { "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": STAY })
        .collect();
    if missing.is_empty() {
        return;
    }
    let all: Vec<Value> = own.iter().cloned().chain(missing).collect();
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("tolerations", all);
    }
}

//! The admission plugins that concern pods, in upstream's order (`AllOrderedPlugins`): `LimitRanger`, `ServiceAccount`, `Priority`,
//! `DefaultTolerationSeconds`, `RuntimeClass` (`plugin/pkg/admission/{priority,defaulttolerationseconds}/admission.go`, 1.37).

use kindom_api::{Value, object};

use super::{account, limits, runtime, spec};
use crate::kinds::fields::{default_nil, items, number, present, text};
use crate::kinds::priority_class::{OF_SYSTEM, is_default, value};
use crate::plugins::{Look, OtherKind, Others, Plugin};
use crate::{RuleContext, Subresource};

/// Seconds that a pod stays on a node that is in trouble.
const STAY: i64 = 300;
const POLICY: &str = "PreemptLowerPriority";

pub(super) fn looks_at(cx: &RuleContext<'_>, pod: &Value, old: Option<&Value>) -> Vec<Look> {
    let (is_on, spec) = (|plugin| cx.others.has(plugin), spec(pod));
    let named = |kind, name: &str| Look::Named { kind, name: name.to_owned(), is_expected: false };
    let mut looks = Vec::new();
    if limits::concern(cx, old) {
        looks.push(Look::All(OtherKind::LimitRange));
    }
    if is_on(Plugin::ServiceAccount) && account::concerns(cx, old) {
        // A change of ephemeral containers keeps the rest of the stored spec.
        let name = account::name(old.unwrap_or(pod));
        let is_expected = name == account::DEFAULT;
        looks.push(Look::Named { kind: OtherKind::ServiceAccount, name: name.to_owned(), is_expected });
    }
    if old.is_some() || cx.subresource.is_some() {
        return looks;
    }
    if is_on(Plugin::Priority) {
        looks.push(match text(spec, "priorityClassName") {
            "" => Look::All(OtherKind::PriorityClass),
            name => named(OtherKind::PriorityClass, name),
        });
    }
    if is_on(Plugin::RuntimeClass)
        && let Some(name) = present(spec, "runtimeClassName").and_then(Value::as_str)
    {
        looks.push(named(OtherKind::RuntimeClass, name));
    }
    looks
}

pub(super) fn admit(cx: &RuleContext<'_>, pod: &mut Value, old: Option<&Value>) -> Result<(), String> {
    let others = cx.others;
    if pod.get("spec").is_none() {
        return Ok(());
    }
    if limits::concern(cx, old) {
        limits::supplement(others, pod)?;
    }
    if cx.subresource.is_some() {
        return Ok(());
    }
    if others.has(Plugin::ServiceAccount) && old.is_none() {
        account::give(others, pod)?;
    }
    let Some(spec) = pod.get_mut("spec") else { return Ok(()) };
    if others.has(Plugin::Priority) {
        match old {
            None => set_priority(others, spec)?,
            Some(old) => keep_priority(spec, old),
        }
    }
    if others.has(Plugin::DefaultTolerationSeconds) {
        tolerate(spec);
    }
    if others.has(Plugin::RuntimeClass) && old.is_none() {
        runtime::give(others, spec)?;
    }
    Ok(())
}

pub(super) fn judge(cx: &RuleContext<'_>, pod: &Value, old: Option<&Value>) -> Result<(), String> {
    let others = cx.others;
    if limits::concern(cx, old) {
        limits::judge(others, pod)?;
    }
    if others.has(Plugin::ServiceAccount) && account::concerns(cx, old) {
        account::judge(others, pod, cx.subresource == Some(Subresource::EphemeralContainers))?;
    }
    if others.has(Plugin::RuntimeClass) && old.is_none() {
        runtime::judge(others, spec(pod))?;
    }
    Ok(())
}

/// The priority of a pod does not change (`admitPod`).
fn keep_priority(spec: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        if let Some(kept) = old.at(&["spec", field]).filter(|kept| !kept.is_null()) {
            default_nil(spec, field, kept.clone());
        }
    }
}

/// A class of priorities: its name, its value, and its policy.
struct Class {
    name: String,
    value: i64,
    policy: Option<String>,
}

impl Class {
    fn of(class: &Value) -> Self {
        Self {
            name: class.text_at(&["metadata", "name"]).to_owned(),
            value: value(class),
            policy: present(class, "preemptionPolicy").and_then(Value::as_str).map(str::to_owned),
        }
    }

    /// The class of a name, or the default one (`establishPriority`).
    fn find(others: &Others, name: &str) -> Result<Self, String> {
        let plain =
            |name: &str, value| Self { name: name.to_owned(), value, policy: Some(POLICY.to_owned()) };
        if name.is_empty() {
            let defaults =
                others.all(OtherKind::PriorityClass).filter(|class| is_default(class)).map(Self::of);
            return Ok(defaults.min_by_key(|class| class.value).unwrap_or_else(|| plain("", 0)));
        }
        if let Some(class) = others.named(OtherKind::PriorityClass, name) {
            return Ok(Self::of(class));
        }
        let of_system = OF_SYSTEM.iter().find(|(known, ..)| *known == name);
        let of_system = of_system.map(|(name, value, _)| plain(name, *value));
        of_system.ok_or_else(|| format!("no PriorityClass with name {name} was found"))
    }
}

fn set_priority(others: &Others, spec: &mut Value) -> Result<(), String> {
    let Class { name, value, policy } = Class::find(others, text(spec, "priorityClassName"))?;
    let computed = "from the given PriorityClass name";
    if let Some(own) = number(spec, "priority").filter(|own| *own != value) {
        return Err(format!(
            "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller computed \
             {value} {computed}"
        ));
    }
    if let Some(own) = present(spec, "preemptionPolicy").and_then(Value::as_str)
        && let Some(policy) = policy.as_ref().filter(|policy| *policy != own)
    {
        return Err(format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission controller \
             computed {policy} {computed}"
        ));
    }
    if !name.is_empty() {
        default_nil(spec, "priorityClassName", name);
    }
    default_nil(spec, "priority", value);
    if let Some(policy) = policy {
        default_nil(spec, "preemptionPolicy", policy);
    }
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

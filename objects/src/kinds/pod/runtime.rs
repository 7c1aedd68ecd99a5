//! The overhead and the nodes of a pod's RuntimeClass (`RuntimeClass`, `plugin/pkg/admission/runtimeclass/admission.go`,
//! `pkg/util/tolerations`, 1.37).

use std::collections::BTreeMap;

use kindom_api::{Map, Value};

use crate::kinds::fields::{items, number, part, present, same, text};
use crate::kinds::keyed::entries;
use crate::kinds::resources::{Amounts, amounts};
use crate::plugins::{OtherKind, Others};

/// The most tolerations of a pod that are compared with each other.
const TOLERATIONS_MAX: usize = 500;

/// The class of a pod; `None` if it names none.
///
/// # Errors
/// It names one that does not exist.
fn class<'a>(others: &'a Others, spec: &Value) -> Result<Option<&'a Value>, String> {
    let Some(name) = present(spec, "runtimeClassName").and_then(Value::as_str) else { return Ok(None) };
    match others.named(OtherKind::RuntimeClass, name) {
        None => Err(format!("pod rejected: RuntimeClass {name:?} not found")),
        found => Ok(found),
    }
}

fn is_same(a: &Amounts, b: &Amounts) -> bool {
    a.len() == b.len()
        && a.iter().all(|(name, amount)| b.get(name).is_some_and(|other| amount.compare(other).is_eq()))
}

fn overhead(class: &Value) -> Option<&Value> {
    present(class, "overhead").map(|overhead| part(overhead, "podFixed"))
}

pub(super) fn give(others: &Others, spec: &mut Value) -> Result<(), String> {
    let Some(class) = class(others, spec)? else { return Ok(()) };
    if let Some(fixed) = overhead(class) {
        let own = amounts(part(spec, "overhead"));
        if !own.is_empty() && !is_same(&own, &amounts(fixed)) {
            return Err(differs());
        }
        if let Some(spec) = spec.as_object_mut().filter(|_| !fixed.is_null()) {
            spec.insert("overhead", fixed.clone());
        }
    }
    if let Some(scheduling) = present(class, "scheduling") {
        select_nodes(spec, scheduling)?;
        let (own, more) = (items(spec, "tolerations"), items(scheduling, "tolerations"));
        if own.len() + more.len() > TOLERATIONS_MAX {
            return Err(format!(
                "pod rejected: it has more than {TOLERATIONS_MAX} tolerations with those of its RuntimeClass"
            ));
        }
        let merged = merged(own, more);
        if let Some(spec) = spec.as_object_mut().filter(|_| !merged.is_empty()) {
            spec.insert("tolerations", merged);
        }
    }
    Ok(())
}

fn differs() -> String {
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned()
}

fn select_nodes(spec: &mut Value, scheduling: &Value) -> Result<(), String> {
    let mut all = part(spec, "nodeSelector").as_object().cloned().unwrap_or_default();
    let wanted: BTreeMap<&str, &str> = entries(scheduling, "nodeSelector").collect();
    if wanted.is_empty() {
        return Ok(());
    }
    for (label, value) in wanted {
        if let Some(own) = all.get(label).and_then(Value::as_str).filter(|own| *own != value) {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{label}] = {value}; pod.spec.nodeSelector[{label}] = {own}"
            ));
        }
        all.insert(label.to_owned(), value);
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("nodeSelector", all);
    }
    Ok(())
}

/// `MergeTolerations`: of two of which one tolerates all that the other does, that one is kept.
fn merged(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut merged: Vec<Value> = Vec::new();
    for (at, toleration) in all.iter().enumerate() {
        let later = all.iter().skip(at + 1);
        let mut wider =
            later.filter(|other| !same(Some(toleration), Some(other)) && tolerates_all_of(other, toleration));
        if merged.iter().any(|other| tolerates_all_of(other, toleration)) || wider.next().is_some() {
            continue;
        }
        merged.push((*toleration).clone());
    }
    merged
}

/// `isSuperset`
fn tolerates_all_of(wide: &Value, narrow: &Value) -> bool {
    if same(Some(wide), Some(narrow)) {
        return true;
    }
    let of = |toleration, field| text(toleration, field);
    let operator = of(wide, "operator");
    let has_key = of(narrow, "key") == of(wide, "key") || of(wide, "key").is_empty() && operator == "Exists";
    let has_effect = of(narrow, "effect") == of(wide, "effect") || of(wide, "effect").is_empty();
    let has_seconds = match number(wide, "tolerationSeconds").filter(|_| of(wide, "effect") == "NoExecute") {
        None => true,
        Some(most) => number(narrow, "tolerationSeconds").is_some_and(|seconds| seconds <= most),
    };
    has_key
        && has_effect
        && has_seconds
        && match operator {
            "Equal" | "" => of(narrow, "operator") == "Equal" && of(narrow, "value") == of(wide, "value"),
            "Exists" => true,
            _ => false,
        }
}

pub(super) fn judge(others: &Others, spec: &Value) -> Result<(), String> {
    let fixed = class(others, spec)?.and_then(overhead);
    let own = present(spec, "overhead").filter(|own| own.as_object().is_some_and(|own| !own.is_empty()));
    match (fixed, own) {
        (Some(fixed), own) => {
            let none = Value::Object(Map::new());
            match is_same(&amounts(fixed), &amounts(own.unwrap_or(&none))) {
                true => Ok(()),
                false => Err(differs()),
            }
        }
        (None, Some(_)) => {
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                .to_owned())
        }
        (None, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json;

    use super::*;

    fn all(text: &str) -> Vec<Value> {
        items(&json::parse(format!(r#"{{"all":{text}}}"#).as_bytes()).unwrap(), "all").to_vec()
    }

    #[test]
    fn of_two_tolerations_the_wider_one_is_kept() {
        for (first, second, expected) in [
            ("[]", "[]", "[]"),
            (r#"[{"key":"a"}]"#, r#"[{"key":"b"}]"#, r#"[{"key":"a"},{"key":"b"}]"#),
            (r#"[{"key":"a"}]"#, r#"[{"key":"a"}]"#, r#"[{"key":"a"}]"#),
            (
                r#"[{"key":"a","operator":"Equal","value":"v"}]"#,
                r#"[{"key":"a","operator":"Exists"}]"#,
                r#"[{"key":"a","operator":"Exists"}]"#,
            ),
            (
                r#"[{"operator":"Exists"}]"#,
                r#"[{"key":"a","effect":"NoSchedule"}]"#,
                r#"[{"operator":"Exists"}]"#,
            ),
            (
                r#"[{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":3}]"#,
                r#"[{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}]"#,
                r#"[{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}]"#,
            ),
        ] {
            assert_eq!(merged(&all(first), &all(second)), all(expected), "{first} {second}");
        }
    }
}

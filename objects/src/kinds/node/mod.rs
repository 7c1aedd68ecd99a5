//! Node, `v1`: a machine that pods are bound to. Nodes are kept for whoever runs pods: nothing watches over them here.
//!
//! Sources: `pkg/registry/core/node/strategy.go`, `pkg/apis/core/validation` (`ValidateNode`, `ValidateNodeUpdate`),
//! `pkg/apis/core/v1/{defaults,conversion}.go`, `pkg/printers/internalversion/printers.go`, the admission plugin
//! `TaintNodesByCondition` (1.37).

use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::{Map, Value, object};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::kinds::fields::{default_nil, items, part, present, text};
use crate::kinds::round_up;
use crate::kinds::status::{is_of_status, keep_other_part};
use crate::plugins::Plugin;
use crate::version::SelectableField;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod cidr;
mod printed;
mod rules;

static NODE: Declared = Declared::catalogued("v1", "Node");

const NOT_READY: (&str, &str) = ("node.kubernetes.io/not-ready", "NoSchedule");

/// Nodes as a built-in type.
pub(super) fn nodes() -> TypeSpec {
    let columns = Columns::rows(printed::columns(&NODE), printed::cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names { short_names: vec!["no".into()], ..Names::of_kind("nodes", "Node") };
    TypeSpec::built_in("", names, Scope::Cluster, versions, Arc::new(Nodes))
}

/// The rules of nodes.
struct Nodes;

/// The address range of a node's pods and the list of them say the same; the range counts.
fn fill_ranges(spec: &mut Value) {
    let own = text(spec, "podCIDR").to_owned();
    let first = items(spec, "podCIDRs").first().and_then(Value::as_str).map(str::to_owned);
    let Some(map) = spec.as_object_mut() else { return };
    match first {
        Some(first) if own.is_empty() => drop(map.insert("podCIDR", first)),
        Some(first) if first == own => {}
        None if own.is_empty() => {}
        _ => drop(map.insert("podCIDRs", vec![Value::from(own)])),
    }
}

impl Strategy for Nodes {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&NODE)
    }

    fn fill_defaults(&self, node: &mut Value) {
        default_nil(node, "spec", Map::new());
        default_nil(node, "status", Map::new());
        if let Some(spec) = node.get_mut("spec") {
            fill_ranges(spec);
        }
        let Some(status) = node.get_mut("status") else { return };
        if let Some(capacity) = present(status, "capacity").cloned() {
            default_nil(status, "allocatable", capacity);
        }
        for field in ["capacity", "allocatable"] {
            round_up(status.get_mut(field));
        }
    }

    fn selectable(&self) -> Vec<SelectableField> {
        vec![SelectableField::new("spec.unschedulable").or("false")]
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        Subresource::reset_fields(cx.subresource)
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// A new node is not ready.
    fn admit(&self, cx: &RuleContext<'_>, node: &mut Value, old: Option<&Value>) -> Result<(), String> {
        if !cx.others.has(Plugin::TaintNodesByCondition) {
            return Ok(());
        }
        let (key, effect) = NOT_READY;
        let taints = items(part(node, "spec"), "taints");
        let has_one = taints.iter().any(|taint| text(taint, "key") == key && text(taint, "effect") == effect);
        if old.is_some() || has_one {
            return Ok(());
        }
        let all: Vec<Value> =
            taints.iter().cloned().chain([object! { "key": key, "effect": effect }]).collect();
        if let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("taints", all);
        }
        Ok(())
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, node: &mut Value) {
        for (part, field) in [("spec", "configSource"), ("status", "config")] {
            let part = node.get_mut(part).and_then(Value::as_object_mut);
            part.into_iter().for_each(|part| drop(part.remove(field)));
        }
    }

    fn validate(&self, _: &RuleContext<'_>, node: &Value) -> ErrorList {
        rules::validate(node)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, node: &mut Value, old: &Value) {
        keep_other_part(cx, node, old);
        let (part, field) = if is_of_status(cx) { ("status", "config") } else { ("spec", "configSource") };
        if old.at(&[part, field]).is_none_or(Value::is_null)
            && let Some(part) = node.get_mut(part).and_then(Value::as_object_mut)
        {
            part.remove(field);
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        node: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = if is_of_status(cx) { ErrorList::new() } else { rules::validate(node) };
        errors.extend(rules::validate_update(node, old));
        errors
    }

    fn warnings(&self, cx: &RuleContext<'_>, node: &Value, _: Option<&Value>) -> Vec<String> {
        if is_of_status(cx) { Vec::new() } else { rules::warnings(node) }
    }
}

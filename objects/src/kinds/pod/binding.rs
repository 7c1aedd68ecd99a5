//! Binding, `v1`: the node of a pod. It is carried out and never stored.
//!
//! Sources: `BindingREST` of `pkg/registry/core/pod/storage/storage.go`, `ValidatePodBinding` of `pkg/apis/core/validation` (1.37).

use std::sync::Arc;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::{Map, Value, object};
use kindom_schema::columns::Columns;

use super::{prepare, spec};
use crate::declared::Declared;
use crate::error::PlanError;
use crate::kinds::fields::{items, part, text, texts};
use crate::kinds::keyed::entries;
use crate::metadata::metadata_mut;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

static BINDING: Declared = Declared::catalogued("v1", "Binding");

/// Bindings as a built-in type.
#[must_use]
pub fn bindings() -> TypeSpec {
    let versions =
        vec![BuiltInVersion { name: "v1", columns: Columns::compile(&[]), deprecation_warning: None }];
    TypeSpec::built_in(
        "",
        Names::of_kind("bindings", "Binding"),
        Scope::Namespaced,
        versions,
        Arc::new(Bindings),
    )
}

/// The errors of a binding.
#[must_use]
pub fn validate(binding: &Value) -> ErrorList {
    let (target, at) = (part(binding, "target"), Path::new("target"));
    let (kind, name) = (text(target, "kind"), text(target, "name"));
    let is_node = matches!(kind, "" | "Node");
    let mut errors = ErrorList::new();
    if !is_node {
        errors.push(Error::not_supported(&at.child("kind"), kind, &["Node", "<empty>"]));
    }
    if name.is_empty() {
        errors.push(Error::required(&at.child("name"), ""));
    } else if is_node {
        texts(name_is_dns_subdomain(name, false), name, &at.child("name"), &mut errors);
    }
    errors
}

/// A pod as a binding makes it.
///
/// # Errors
/// [`PlanError::Conflict`]: the pod takes no node.
pub fn assign(pod: &Value, binding: &Value, now: &str) -> Result<Value, PlanError> {
    let name = pod.text_at(&["metadata", "name"]);
    let conflict = |message: String| Err(PlanError::Conflict { name: name.to_owned(), message });
    if pod.at(&["metadata", "deletionTimestamp"]).is_some() {
        return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = text(spec(pod), "nodeName");
    if !node.is_empty() {
        let node = kindom_api::field::go_quote(node);
        return conflict(format!("pod {name} is already assigned to node {node}"));
    }
    if !items(spec(pod), "schedulingGates").is_empty() {
        return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = pod.clone();
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("nodeName", binding.text_at(&["target", "name"]));
    }
    for field in ["annotations", "labels"] {
        let added: Vec<(&str, &str)> = entries(part(binding, "metadata"), field).collect();
        if added.is_empty() {
            continue;
        }
        let map = metadata_mut(&mut pod).entry_or_insert_with(field, || Value::Object(Map::new()));
        if let Some(map) = map.as_object_mut() {
            added.into_iter().for_each(|(key, value)| drop(map.insert(key, value)));
        }
    }
    if let Some(status) = pod.get_mut("status") {
        if let Some(status) = status.as_object_mut() {
            status.remove("nominatedNodeName");
        }
        prepare::set_condition(status, object! { "type": "PodScheduled", "status": "True" }, now);
    }
    Ok(pod)
}

/// The rules of bindings.
struct Bindings;

impl Strategy for Bindings {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&BINDING)
    }

    fn answers_creates(&self) -> bool {
        true
    }

    fn validate(&self, _: &RuleContext<'_>, binding: &Value) -> ErrorList {
        validate(binding)
    }

    fn validate_update(&self, _: &RuleContext<'_>, _: &Value, _: &Value, _: &mut Vec<String>) -> ErrorList {
        ErrorList::new()
    }
}

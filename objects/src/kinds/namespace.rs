//! The rules of namespaces as objects.
//!
//! Sources: `pkg/registry/core/namespace`, `pkg/apis/core/validation`, the `NamespaceLifecycle` admission plugin,
//! `pkg/controller/namespace/deletion/status_condition_utils.go` (1.37).

use std::sync::Arc;

use crate::{
    BuiltInVersion, Deletion, Names, RuleContext, Scope, Strategy, Translated, TypeSpec, keep_reset,
};
use kindom_api::crd::ColumnDefinition;
use kindom_api::decode::Struct;
use kindom_api::field::ErrorList;
use kindom_api::namespace::{self as rules, Namespace};
use kindom_api::{GroupResource, Map, Value, json, object};
use kindom_codec::protobuf;
use kindom_schema::columns::Columns;

/// The namespaces that exist from the start.
pub const STANDARD_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The namespaces that may not be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// `v1` Namespace as a built-in type.
#[must_use]
pub fn namespaces() -> TypeSpec {
    let names = Names {
        plural: "namespaces".into(),
        singular: "namespace".into(),
        kind: "Namespace".into(),
        list_kind: "NamespaceList".into(),
        short_names: vec!["ns".into()],
        categories: Vec::new(),
    };
    let column = |name: &str, kind: &str, description: &str, json_path: &str| ColumnDefinition {
        name: name.into(),
        kind: kind.into(),
        format: String::new(),
        description: description.into(),
        priority: 0,
        json_path: json_path.into(),
    };
    let created =
        "CreationTimestamp is a timestamp representing the server time when this object was created.";
    let columns = Columns::compile(&[
        column("Status", "string", "The status of the namespace", ".status.phase"),
        column("Age", "date", created, ".metadata.creationTimestamp"),
    ]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    TypeSpec::built_in("", names, Scope::Cluster, versions, Arc::new(Namespaces))
}

/// One of the namespaces that exist from the start, as it is created.
#[must_use]
pub fn standard_namespace(name: &str) -> Value {
    object! { "apiVersion": "v1", "kind": "Namespace", "metadata": object! { "name": name } }
}

/// The rules of namespaces.
#[derive(Debug, Clone, Copy, Default)]
pub struct Namespaces;

/// A stored or decoded namespace. kindom never stored an object that does not decode; here it becomes an empty one, which
/// fails validation, so that the server does not fail.
fn typed(object: &Value) -> Namespace {
    rules::decode_namespace(object).map(|(namespace, _)| namespace).unwrap_or_default()
}

fn strings<'a>(object: &'a Value, path: &[&str]) -> Vec<&'a str> {
    object.at(path).and_then(Value::as_array).unwrap_or_default().iter().filter_map(Value::as_str).collect()
}

/// Reads a namespace that another API server stored, in protobuf or JSON.
fn translate(bytes: &[u8]) -> Result<Translated, String> {
    let other_form = protobuf::is_protobuf(bytes);
    let (tree, mut unknown) = if other_form {
        let message = protobuf::message("v1", "Namespace").ok_or("namespaces have no protobuf")?;
        protobuf::decode_telling(bytes, message).map_err(|e| e.to_string())?
    } else {
        (json::parse(bytes).map_err(|e| e.to_string())?, Vec::new())
    };
    let text = |field: &str| tree.get(field).and_then(Value::as_str).unwrap_or_default();
    if tree.as_object().is_none() {
        return Err("it is no JSON object".to_owned());
    }
    if (text("apiVersion"), text("kind")) != ("v1", "Namespace") {
        return Err(format!("no kind {:?} is registered for version {:?}", text("kind"), text("apiVersion")));
    }
    let (mut namespace, fields) = rules::decode_namespace(&tree).map_err(|e| e.to_string())?;
    unknown.extend(fields);
    rules::default_namespace(&mut namespace);
    Ok(Translated { json: namespace.to_value().to_vec(), other_form, unknown })
}

impl Strategy for Namespaces {
    fn translate(&self, bytes: &[u8]) -> Option<Result<Translated, String>> {
        Some(translate(bytes))
    }

    fn subresources(&self) -> &'static [&'static str] {
        &["finalize", "status"]
    }

    fn go_type(&self, _: &TypeSpec, _: &str) -> Option<&'static Struct> {
        Some(&rules::NAMESPACE)
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn decode(
        &self,
        _: &RuleContext<'_>,
        object: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<Vec<String>, String> {
        keep_reset(object, |object| {
            let (mut namespace, fields) = rules::decode_namespace(object).map_err(|e| e.to_string())?;
            rules::default_namespace(&mut namespace);
            if let Some(unknown) = unknown {
                unknown.extend(fields);
            }
            *object = namespace.to_value();
            Ok(Vec::new())
        })
    }

    fn empty(&self, _: &RuleContext<'_>) -> Option<Value> {
        let empty = Namespace { api_version: "v1".into(), kind: "Namespace".into(), ..Namespace::default() };
        Some(empty.to_value())
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        if cx.subresource == Some("status") { &["spec"] } else { &["status"] }
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, object: &mut Value) {
        let mut namespace = typed(object);
        rules::prepare_for_create(&mut namespace);
        *object = namespace.to_value();
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        rules::validate_create(&typed(object))
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (typed(object), typed(old));
        match cx.subresource {
            Some("status") => rules::prepare_for_status_update(&mut new, &old),
            Some("finalize") => rules::prepare_for_finalize(&mut new, &old),
            _ => rules::prepare_for_update(&mut new, &old),
        }
        *object = new.to_value();
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let (new, old) = (typed(object), typed(old));
        match cx.subresource {
            Some("status") => rules::validate_status_update(&new, &old),
            Some("finalize") => rules::validate_finalize(&new, &old),
            _ => rules::validate_update(&new, &old),
        }
    }

    fn refuse_delete(&self, name: &str) -> Option<String> {
        IMMORTAL.contains(&name).then(|| "this namespace may not be deleted".to_owned())
    }

    fn begin_delete(&self, cx: &RuleContext<'_>, object: &mut Value) -> Deletion {
        let mut namespace = typed(object);
        namespace.metadata.deletion_timestamp = Some(cx.now.to_owned());
        namespace.status.phase = rules::TERMINATING.to_owned();
        *object = namespace.to_value();
        Deletion::Changed
    }

    fn holds_deletion(&self, object: &Value) -> bool {
        !strings(object, &["spec", "finalizers"]).is_empty()
    }
}

/// Takes the content's finalizer out of a namespace whose content is gone; says whether nothing else holds it.
pub fn finalize(object: &mut Value) -> bool {
    if let Some(finalizers) =
        object.get_mut("spec").and_then(|s| s.get_mut("finalizers")).and_then(Value::as_array_mut)
    {
        finalizers.retain(|f| f.as_str() != Some(rules::FINALIZER_KUBERNETES));
    }
    strings(object, &["spec", "finalizers"]).is_empty()
        && strings(object, &["metadata", "finalizers"]).is_empty()
}

/// The content left in a namespace: instances by type, and by finalizer.
#[derive(Debug, Default)]
pub struct Content {
    /// The objects of each type.
    pub by_type: Vec<(GroupResource, usize)>,
    /// The objects that each finalizer holds.
    pub by_finalizer: Vec<(String, usize)>,
    /// The errors, by type.
    pub failures: Vec<String>,
}

/// Sets the five conditions of a namespace's deletion; says whether any changed.
pub fn set_conditions(object: &mut Value, content: &Content, now: &str) -> bool {
    let remaining = |parts: Vec<String>, reason: &str, what: &str| {
        (!parts.is_empty())
            .then(|| ("True", reason.to_owned(), format!("Some {what} are remaining: {}", parts.join(", "))))
    };
    let mut types: Vec<String> = content
        .by_type
        .iter()
        .map(|(gr, n)| format!("{}.{} has {n} resource instances", gr.resource, gr.group))
        .collect();
    types.sort();
    let mut finalizers: Vec<String> =
        content.by_finalizer.iter().map(|(f, n)| format!("{f} in {n} resource instances")).collect();
    finalizers.sort();
    let done = |reason: &str, message: &str| ("False", reason.to_owned(), message.to_owned());
    let failure = (!content.failures.is_empty()).then(|| {
        let (count, what) = (content.failures.len(), content.failures.join(", "));
        let message = format!("Failed to delete all resource types, {count} remaining: {what}");
        ("True", "ContentDeletionFailed".to_owned(), message)
    });
    let conditions = [
        (
            "NamespaceDeletionDiscoveryFailure",
            done("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            done("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            failure.unwrap_or_else(|| {
                done("ContentDeleted", "All content successfully deleted, may be waiting on finalization")
            }),
        ),
        (
            "NamespaceContentRemaining",
            remaining(types, "SomeResourcesRemain", "resources")
                .unwrap_or_else(|| done("ContentRemoved", "All content successfully removed")),
        ),
        (
            "NamespaceFinalizersRemaining",
            remaining(finalizers, "SomeFinalizerRemain", "finalizers")
                .unwrap_or_else(|| done("ContentRemoved", "All content successfully removed")),
        ),
    ];
    let Some(root) = object.as_object_mut() else { return false };
    let status = root.entry_or_insert_with("status", || Map::new().into());
    let Some(status) = status.as_object_mut() else { return false };
    let list = status.entry_or_insert_with("conditions", || Value::Array(Vec::new().into()));
    let Some(list) = list.as_array_mut() else { return false };
    let mut changed = false;
    for (kind, (state, reason, message)) in conditions {
        changed |= set_condition(list, kind, state, &reason, &message, now);
    }
    changed
}

fn set_condition(
    list: &mut Vec<Value>,
    kind: &str,
    state: &str,
    reason: &str,
    message: &str,
    now: &str,
) -> bool {
    let text = |condition: &Value, field| {
        condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let at = list.iter().position(|c| text(c, "type") == kind);
    let old = at.and_then(|at| list.get(at));
    let same_state = old.is_some_and(|c| text(c, "status") == state);
    if same_state && old.is_some_and(|c| text(c, "reason") == reason && text(c, "message") == message) {
        return false;
    }
    let since = old.filter(|_| same_state).map_or_else(|| now.to_owned(), |c| text(c, "lastTransitionTime"));
    let new = object! {
        "type": kind, "status": state, "reason": reason, "message": message, "lastTransitionTime": since
    };
    match at.and_then(|at| list.get_mut(at)) {
        Some(slot) => *slot = new,
        None => list.push(new),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conditions_follow_what_remains() {
        let mut namespace = standard_namespace("a");
        let content = Content {
            by_type: vec![(GroupResource::new("g.io", "widgets"), 2)],
            by_finalizer: vec![("g.io/f".into(), 1)],
            failures: Vec::new(),
        };
        assert!(set_conditions(&mut namespace, &content, "t1"));
        assert!(!set_conditions(&mut namespace, &content, "t2"));
        let conditions = namespace.at(&["status", "conditions"]).and_then(Value::as_array).unwrap();
        assert_eq!(conditions.len(), 5);
        assert_eq!(
            conditions[3].to_string(),
            r#"{"lastTransitionTime":"t1","message":"Some resources are remaining: widgets.g.io has 2 resource instances","reason":"SomeResourcesRemain","status":"True","type":"NamespaceContentRemaining"}"#
        );
        assert!(set_conditions(&mut namespace, &Content::default(), "t3"));
        let conditions = namespace.at(&["status", "conditions"]).and_then(Value::as_array).unwrap();
        assert_eq!(conditions[4].get("status").and_then(Value::as_str), Some("False"));
        assert_eq!(conditions[4].get("lastTransitionTime").and_then(Value::as_str), Some("t3"));
    }

    #[test]
    fn only_the_last_finalizer_lets_a_namespace_go() {
        let mut namespace = object! { "spec": object! { "finalizers": vec!["kubernetes", "g.io/x"] } };
        assert!(!finalize(&mut namespace));
        let mut namespace = object! { "spec": object! { "finalizers": vec!["kubernetes"] } };
        assert!(finalize(&mut namespace));
    }
}

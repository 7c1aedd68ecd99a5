//! The rules of namespaces as objects.
//!
//! Sources: `pkg/registry/core/namespace`, `pkg/apis/core/validation`, the `NamespaceLifecycle` admission plugin,
//! `pkg/controller/namespace/deletion/status_condition_utils.go` (1.37).

use std::sync::Arc;

use kindom_api::crd::ColumnDefinition;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, is_qualified_name, name_is_dns_label};
use kindom_api::meta::{coerce_metadata, validate_object_meta};
use kindom_api::{GroupResource, Map, Value, object};
use kindom_resource_actor::render::metadata_mut;
use kindom_resource_actor::{Deletion, Names, RuleContext, Scope, Strategy, TypeSpec};
use kindom_schema::columns::Columns;

/// The namespaces that exist from the start.
pub const STANDARD_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// Those that may not be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
/// The finalizer in spec that stands for the namespace's content.
const KUBERNETES_FINALIZER: &str = "kubernetes";
/// The label that says a namespace's name (KEP-2161).
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

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
    TypeSpec::built_in("", "v1", names, Scope::Cluster, columns, Arc::new(Namespaces))
}

/// One of the namespaces that exist from the start, as it is created.
#[must_use]
pub fn standard_namespace(name: &str) -> Value {
    object! { "apiVersion": "v1", "kind": "Namespace", "metadata": object! { "name": name } }
}

/// The rules of namespaces.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Namespaces;

/// The fields of spec and status that a namespace has; what else there is, is unknown.
fn keep_known(map: &mut Map, path: &str, known: &[&str], unknown: &mut Vec<String>) {
    map.retain(|field, _| {
        let keep = known.contains(&field);
        if !keep {
            unknown.push(if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") });
        }
        keep
    });
}

fn strings<'a>(object: &'a Value, path: &[&str]) -> Vec<&'a str> {
    object.at(path).and_then(Value::as_array).unwrap_or_default().iter().filter_map(Value::as_str).collect()
}

fn keep(object: &mut Value, old: &Value, field: &str) {
    let Some(map) = object.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => map.insert(field, value.clone()),
        None => map.remove(field),
    };
}

fn label_with_name(object: &mut Value) {
    let name = object.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default().to_owned();
    if !name.is_empty() && is_dns1123_label(&name).is_empty() {
        let labels = metadata_mut(object).entry_or_insert_with("labels", || Map::new().into());
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(NAME_LABEL, name);
        }
    }
}

impl Strategy for Namespaces {
    fn subresources(&self) -> &'static [&'static str] {
        &["finalize", "status"]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn decode(
        &self,
        _: &RuleContext<'_>,
        object: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<(), String> {
        let mut fields = Vec::new();
        let wrong = |value: &Value, field: &str, want: &str| {
            let found = match value {
                Value::Bool(_) => "bool",
                Value::Int(_) | Value::Float(_) => "number",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Null | Value::Object(_) => "object",
            };
            format!("json: cannot unmarshal {found} into Go struct field Namespace.{field} of type {want}")
        };
        if let Some(map) = object.as_object_mut() {
            keep_known(map, "", &["apiVersion", "kind", "metadata", "spec", "status"], &mut fields);
            for (field, want, known) in [
                ("spec", "v1.NamespaceSpec", &["finalizers"][..]),
                ("status", "v1.NamespaceStatus", &["phase", "conditions"]),
            ] {
                match map.get_mut(field) {
                    None => {}
                    Some(Value::Null) => drop(map.remove(field)),
                    Some(Value::Object(inner)) => keep_known(inner, field, known, &mut fields),
                    Some(other) => return Err(wrong(other, field, want)),
                }
            }
        }
        if let Some(finalizers) = object.at(&["spec", "finalizers"])
            && !finalizers.as_array().is_some_and(|items| items.iter().all(|i| i.as_str().is_some()))
        {
            return Err(wrong(finalizers, "spec.finalizers", "v1.FinalizerName"));
        }
        fields.extend(coerce_metadata(object).map_err(|e| e.to_string())?);
        label_with_name(object);
        if let Some(unknown) = unknown {
            unknown.extend(fields);
        }
        Ok(())
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, object: &mut Value) {
        // Again, because only now there is a name if it was generated.
        label_with_name(object);
        let mut finalizers: Vec<String> =
            strings(object, &["spec", "finalizers"]).into_iter().map(Into::into).collect();
        if !finalizers.iter().any(|f| f == KUBERNETES_FINALIZER) {
            finalizers.push(KUBERNETES_FINALIZER.to_owned());
        }
        if let Some(map) = object.as_object_mut() {
            map.insert("spec", object! { "finalizers": finalizers });
            map.insert("status", object! { "phase": "Active" });
        }
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        let path = Path::new("metadata");
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let mut errors = validate_object_meta(metadata, false, &name_is_dns_label, &path);
        errors.extend(finalizer_errors(object));
        errors
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        match cx.subresource {
            Some("status") => keep(object, old, "spec"),
            Some("finalize") => keep(object, old, "status"),
            _ => {
                keep(object, old, "spec");
                keep(object, old, "status");
            }
        }
    }

    fn validate_update(&self, cx: &RuleContext<'_>, object: &Value, old: &Value) -> ErrorList {
        match cx.subresource {
            Some("status") => {
                let path = Path::new("status");
                let path = path.child("Phase");
                let phase = object.at(&["status", "phase"]).and_then(Value::as_str).unwrap_or_default();
                let deleting = old.at(&["metadata", "deletionTimestamp"]).is_some();
                let wrong = match (deleting, phase) {
                    (false, "Active") | (true, "Terminating") => return ErrorList::new(),
                    (false, _) => "may only be 'Active' if `deletionTimestamp` is empty",
                    (true, _) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
                };
                vec![Error::invalid(&path, phase, wrong)]
            }
            _ => finalizer_errors(object),
        }
    }

    fn refuse_delete(&self, name: &str) -> Option<String> {
        IMMORTAL.contains(&name).then(|| "this namespace may not be deleted".to_owned())
    }

    fn begin_delete(&self, cx: &RuleContext<'_>, object: &mut Value) -> Deletion {
        metadata_mut(object).insert("deletionTimestamp", cx.now);
        if let Some(map) = object.as_object_mut() {
            let status = map.entry_or_insert_with("status", || Map::new().into());
            if let Some(status) = status.as_object_mut() {
                status.insert("phase", "Terminating");
            }
        }
        Deletion::Changed
    }

    fn holds_deletion(&self, object: &Value) -> bool {
        !strings(object, &["spec", "finalizers"]).is_empty()
    }
}

fn finalizer_errors(object: &Value) -> ErrorList {
    let spec = Path::new("spec");
    let path = spec.child("finalizers");
    let mut errors = ErrorList::new();
    for finalizer in strings(object, &["spec", "finalizers"]) {
        errors.extend(
            is_qualified_name(finalizer).into_iter().map(|why| Error::invalid(&path, finalizer, why)),
        );
        if !finalizer.contains('/') && finalizer != KUBERNETES_FINALIZER {
            errors.push(Error::invalid(
                &path,
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    errors
}

/// Takes the content's finalizer out of a namespace whose content is gone; says whether nothing else holds it.
pub(crate) fn finalize(object: &mut Value) -> bool {
    if let Some(finalizers) =
        object.get_mut("spec").and_then(|s| s.get_mut("finalizers")).and_then(Value::as_array_mut)
    {
        finalizers.retain(|f| f.as_str() != Some(KUBERNETES_FINALIZER));
    }
    strings(object, &["spec", "finalizers"]).is_empty()
        && strings(object, &["metadata", "finalizers"]).is_empty()
}

/// What is left in a namespace: instances by type, and by finalizer.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) by_type: Vec<(GroupResource, usize)>,
    pub(crate) by_finalizer: Vec<(String, usize)>,
    /// What went wrong, by type.
    pub(crate) failures: Vec<String>,
}

/// Sets the five conditions of a namespace's deletion; says whether any changed.
pub(crate) fn set_conditions(object: &mut Value, content: &Content, now: &str) -> bool {
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
    let list = status.entry_or_insert_with("conditions", || Value::Array(Vec::new()));
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

//! The content of a namespace that is being deleted: the conditions that report it, and the finalizer that stands for it
//! (`pkg/controller/namespace/deletion/status_condition_utils.go`, 1.37).

use kindom_api::{GroupResource, Map, Value, object};

use super::rules::{FINALIZER_KUBERNETES, condition};
use super::strings;

/// Takes the content's finalizer out of a namespace whose content is gone; says whether nothing else holds it.
pub fn finalize(object: &mut Value) -> bool {
    if let Some(finalizers) =
        object.get_mut("spec").and_then(|s| s.get_mut("finalizers")).and_then(Value::as_array_mut)
    {
        finalizers.retain(|f| f.as_str() != Some(FINALIZER_KUBERNETES));
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
            condition::DELETION_DISCOVERY_FAILURE,
            done("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            condition::DELETION_GROUP_VERSION_PARSING_FAILURE,
            done("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            condition::DELETION_CONTENT_FAILURE,
            failure.unwrap_or_else(|| {
                done("ContentDeleted", "All content successfully deleted, may be waiting on finalization")
            }),
        ),
        (
            condition::CONTENT_REMAINING,
            remaining(types, "SomeResourcesRemain", "resources")
                .unwrap_or_else(|| done("ContentRemoved", "All content successfully removed")),
        ),
        (
            condition::FINALIZERS_REMAINING,
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
    use crate::kinds::namespace::standard_namespace;

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

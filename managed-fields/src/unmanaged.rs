//! What nobody manages (`managedfields/internal/stripmeta.go`).

use crate::{PathElement, Set};

/// Whether nobody manages a top-level field; somebody may what is below it.
pub(crate) fn at_top(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Whether nobody manages a field of metadata; somebody may what is below it.
pub(crate) fn in_metadata(name: &str) -> bool {
    matches!(
        name,
        "clusterName"
            | "creationTimestamp"
            | "generation"
            | "managedFields"
            | "name"
            | "namespace"
            | "resourceVersion"
            | "selfLink"
            | "uid"
    )
}

/// Fields without those that nobody manages.
pub(crate) fn strip(mut fields: Set<'_>) -> Set<'_> {
    fields.keep(|element, node| {
        let PathElement::Field(name) = element else { return };
        if !at_top(name) {
            return;
        }
        node.member = false;
        if *name == "metadata" {
            node.below.keep(|element, node| {
                node.member &= !matches!(element, PathElement::Field(name) if in_metadata(name));
            });
        }
    });
    fields
}

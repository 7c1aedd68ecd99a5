//! The fields that have no manager (`managedfields/internal/stripmeta.go`).

use crate::{PathElement, Set};

/// Returns true for a top-level field that has no manager itself; fields below it may have one.
pub(crate) fn at_top(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Returns true for a field of metadata that has no manager itself; fields below it may have one.
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

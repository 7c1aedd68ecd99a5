//! The subresources that a kind may have, and what each of them is: its name, its verbs, the kind of its body.

use kindom_api::{GroupVersionKind, scale};

/// A part of an object with an endpoint of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subresource {
    /// `/status`: the observed state, written by controllers.
    Status,
    /// `/scale`: the replicas, as a Scale of `autoscaling/v1`.
    Scale,
    /// `/approval`: the verdict on a request for a certificate.
    Approval,
    /// `/finalize`: the finalizers in a namespace's spec.
    Finalize,
    /// `/token`: a token of a service account, for a TokenRequest.
    Token,
    /// `/binding`: the node of a pod, for a Binding.
    Binding,
    /// `/eviction`: the end of a pod, for an Eviction.
    Eviction,
    /// `/ephemeralcontainers`: the containers that are added to a pod while it runs.
    EphemeralContainers,
    /// `/resize`: the resources of a pod's containers.
    Resize,
}

/// The description of a subresource.
struct Entry {
    of: Subresource,
    name: &'static str,
    /// The verbs, in upstream's order.
    verbs: &'static [&'static str],
    /// The top-level fields that a write through it does not set, whatever the client says.
    reset: &'static [&'static str],
}

const TABLE: [Entry; 9] = [
    Entry { of: Subresource::Status, name: "status", verbs: &["get", "patch", "update"], reset: &["spec"] },
    Entry { of: Subresource::Scale, name: "scale", verbs: &["get", "patch", "update"], reset: &["status"] },
    // It has neither Get nor Patch (`FinalizeREST` in `pkg/registry/core/namespace/storage`, 1.37).
    Entry { of: Subresource::Finalize, name: "finalize", verbs: &["update"], reset: &["status"] },
    Entry { of: Subresource::Token, name: "token", verbs: &["create"], reset: &[] },
    Entry {
        of: Subresource::Approval,
        name: "approval",
        verbs: &["get", "patch", "update"],
        reset: &["spec"],
    },
    // They record no managers: `GuaranteedUpdate` knows none.
    Entry { of: Subresource::Binding, name: "binding", verbs: &["create"], reset: &EVERYTHING },
    Entry { of: Subresource::Eviction, name: "eviction", verbs: &["create"], reset: &EVERYTHING },
    Entry {
        of: Subresource::EphemeralContainers,
        name: "ephemeralcontainers",
        verbs: &["get", "patch", "update"],
        reset: &[],
    },
    Entry { of: Subresource::Resize, name: "resize", verbs: &["get", "patch", "update"], reset: &[] },
];

/// The fields of an object that no manager owns.
const EVERYTHING: [&str; 3] = ["metadata", "spec", "status"];

impl Subresource {
    fn entry(self) -> &'static Entry {
        match self {
            Self::Status => &TABLE[0],
            Self::Scale => &TABLE[1],
            Self::Finalize => &TABLE[2],
            Self::Token => &TABLE[3],
            Self::Approval => &TABLE[4],
            Self::Binding => &TABLE[5],
            Self::Eviction => &TABLE[6],
            Self::EphemeralContainers => &TABLE[7],
            Self::Resize => &TABLE[8],
        }
    }

    /// The subresource of a path's segment; `None` if no kind has it.
    ///
    /// ```
    /// use kindom_objects::Subresource;
    /// assert_eq!(Subresource::parse("scale"), Some(Subresource::Scale));
    /// assert_eq!(Subresource::parse("log"), None);
    /// ```
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        TABLE.iter().find(|entry| entry.name == name).map(|entry| entry.of)
    }

    /// Its segment in a path: `status`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Its verbs, in upstream's order.
    #[must_use]
    pub fn verbs(self) -> &'static [&'static str] {
        self.entry().verbs
    }

    /// The top-level fields that a write through an endpoint, of the object itself for `None`, does not set (`GetResetFields`
    /// of a kind that has a status).
    #[must_use]
    pub fn reset_fields(through: Option<Self>) -> &'static [&'static str] {
        through.map_or(&["status"], |through| through.entry().reset)
    }

    /// The kind of its body, if it is not the object's.
    #[must_use]
    pub fn kind(self) -> Option<GroupVersionKind> {
        match self {
            Self::Scale => Some(GroupVersionKind::new(scale::GROUP, scale::VERSION, scale::KIND)),
            Self::Token => Some(GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest")),
            Self::Binding => Some(GroupVersionKind::new("", "", "Binding")),
            Self::Eviction => Some(GroupVersionKind::new("policy", "v1", "Eviction")),
            Self::Status | Self::Finalize | Self::Approval | Self::EphemeralContainers | Self::Resize => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subresource_is_in_the_table_once() {
        for of in TABLE.map(|entry| entry.of) {
            assert_eq!(of.entry().of, of);
            assert_eq!(Subresource::parse(of.name()), Some(of));
        }
    }
}

//! The subresources that a kind may have, and what each of them is: its name, its verbs, the kind of its body.

use std::fmt;

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
    /// One that a registration declares.
    Declared(SubresourceName),
}

/// The name of a subresource that a registration declares, of lower-case letters, digits and `-`. It is copied as a whole, so that a write
/// keeps what it was authorized for while registrations change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubresourceName {
    /// Filled up with zeros.
    bytes: [u8; Self::BYTES_MAX],
}

impl SubresourceName {
    /// The most bytes of a name.
    pub const BYTES_MAX: usize = 32;

    /// A name; none if the text cannot be one.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        let is_edge = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
        let text = name.as_bytes();
        if name.contains("--")
            || !text.iter().all(is_letter)
            || !is_edge(text.first())
            || !is_edge(text.last())
        {
            return None;
        }
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self { bytes })
    }

    /// The name: `approval`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(self.bytes.len());
        self.bytes.get(..end).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

impl fmt::Debug for SubresourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
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
    /// Those that versions of a registration have by its `spec`.
    pub const OF_REGISTRATIONS: [Self; 2] = [Self::Status, Self::Scale];

    /// Its entry; none if a registration declares it.
    fn entry(&self) -> Option<&'static Entry> {
        Some(match self {
            Self::Status => &TABLE[0],
            Self::Scale => &TABLE[1],
            Self::Finalize => &TABLE[2],
            Self::Token => &TABLE[3],
            Self::Approval => &TABLE[4],
            Self::Binding => &TABLE[5],
            Self::Eviction => &TABLE[6],
            Self::EphemeralContainers => &TABLE[7],
            Self::Resize => &TABLE[8],
            Self::Declared(_) => return None,
        })
    }

    /// The subresource of a path's segment, of a kind that is built in; `None` if no such kind has it.
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

    /// The subresource of a path's segment, of a registered type, whether it has it or not; `None` if none can be called so.
    ///
    /// ```
    /// use kindom_objects::Subresource;
    /// assert_eq!(Subresource::of_registered("scale"), Some(Subresource::Scale));
    /// assert!(matches!(Subresource::of_registered("resize"), Some(Subresource::Declared(_))));
    /// ```
    #[must_use]
    pub fn of_registered(name: &str) -> Option<Self> {
        let own = Self::OF_REGISTRATIONS.into_iter().find(|own| own.name() == name);
        own.or_else(|| SubresourceName::new(name).map(Self::Declared))
    }

    /// Its segment in a path: `status`.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Declared(name) => name.as_str(),
            _ => self.entry().map_or("", |entry| entry.name),
        }
    }

    /// Its verbs, in upstream's order, unless a registration declares it.
    #[must_use]
    pub(crate) fn verbs(self) -> &'static [&'static str] {
        self.entry().map_or(&[], |entry| entry.verbs)
    }

    /// The top-level fields that a write through an endpoint, of the object itself for `None`, does not set (`GetResetFields`
    /// of a kind that has a status).
    #[must_use]
    pub fn reset_fields(through: Option<Self>) -> &'static [&'static str] {
        through.map_or(&["status"], |through| through.entry().map_or(&[], |entry| entry.reset))
    }

    /// The kind of its body, if it is not the object's.
    #[must_use]
    pub fn kind(self) -> Option<GroupVersionKind> {
        match self {
            Self::Scale => Some(GroupVersionKind::new(scale::GROUP, scale::VERSION, scale::KIND)),
            Self::Token => Some(GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest")),
            Self::Binding => Some(GroupVersionKind::new("", "v1", "Binding")),
            Self::Eviction => Some(GroupVersionKind::new("policy", "v1", "Eviction")),
            Self::Status
            | Self::Finalize
            | Self::Approval
            | Self::EphemeralContainers
            | Self::Resize
            | Self::Declared(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subresource_is_in_the_table_once() {
        for of in TABLE.map(|entry| entry.of) {
            assert_eq!(of.entry().unwrap().of, of);
            assert_eq!(Subresource::parse(of.name()), Some(of));
        }
    }

    #[test]
    fn a_declared_name_is_kept_as_it_is() {
        for name in ["a", "approval", "a-1", &"x".repeat(32)] {
            assert_eq!(SubresourceName::new(name).unwrap().as_str(), name);
        }
        for wrong in ["", "-a", "a-", "A", "a_b", "a.b", "a/b", "a--b", "\0", "\u{e9}", &"x".repeat(33)] {
            assert_eq!(SubresourceName::new(wrong), None, "{wrong}");
        }
    }
}

//! The types that are described to a client: all of ours, or those that its own server does not have.

use kindom_api::faces::Face;
use kindom_api::user::User;
use kindom_objects::TypeSpec;

/// Those to whom discovery and OpenAPI describe types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Audience {
    /// A client of this server. It finds registrations in Kubernetes' own group.
    Client,
    /// A client of a host that has Kubernetes' own groups, and would take ours for them: it is shown the others.
    Host,
}

impl Audience {
    pub(crate) fn of(user: &User) -> Self {
        if user.by_proxy { Self::Host } else { Self::Client }
    }

    /// Returns true if a type is described to it.
    pub(crate) fn sees(self, spec: &TypeSpec) -> bool {
        let group = spec.group.as_str();
        let is_kubernetes = || group.is_empty() || group.ends_with(".k8s.io");
        match self {
            // Of the groups of Kubernetes' form, `apiextension.k8s.io` has no host any more, and registered types are ours.
            _ if !spec.is_typed() || group == Face::ThirdPartyResource.group() => true,
            Self::Client => group != Face::Aggregated.group(),
            Self::Host => !is_kubernetes(),
        }
    }
}

//! The groups that are described to a client: all of ours, or those that its own server does not have.

use kindom_api::faces::Face;

use crate::authn::User;

/// Those to whom discovery and OpenAPI describe groups.
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

    /// Returns true if a group is described to it. `built_in` is true if the group has types of this server's own.
    pub(crate) fn sees(self, group: &str, built_in: bool) -> bool {
        // Registered types may be in Kubernetes' groups too, if they are approved. `apiextension.k8s.io` has no host any more.
        let is_kubernetes = || group.is_empty() || group.ends_with(".k8s.io");
        match self {
            _ if !built_in || group == Face::ThirdPartyResource.group() => true,
            Self::Client => group != Face::Aggregated.group(),
            Self::Host => !is_kubernetes(),
        }
    }
}

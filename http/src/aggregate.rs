//! Group-versions that another API server serves, which this one forwards requests to (kube-aggregator `pkg/apiserver`, 0.37).
//!
//! **Flow.** The [`Aggregator`] knows which group-versions are another server's; `dispatch` asks it about each request, before
//! it looks for a type of its own. A request is forwarded with its body as a stream, and answered with a stream.
//!
//! **Guarantees.** While there is no such group-version, the question costs one atomic load. Nothing is buffered (`forward`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use kindom_api::Value;
use kindom_api::user::User;
use kindom_objects::webhook_client::WebhookClient;
use kindom_schema::openapi::RemoteDoc;

use crate::fallback::DelegatedAnswer;
use crate::request_info::RequestInfo;

/// The pieces of a body. An error breaks it off.
pub type Pieces = BoxStream<'static, Result<Bytes, std::io::Error>>;

/// A request for a group-version of another server, or for a subresource that another program serves. Its user is authenticated and may make it.
pub struct Forwarded {
    /// The API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// `GET`
    pub method: String,
    /// The path as Go writes the one that the user is authorized for, and the query as it stands in the request:
    /// `/apis/g.io/v1/widgets?limit=5`.
    pub path_and_query: String,
    /// In the order of the request, credentials included, but for the headers in which a front proxy says who a user is.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// The body, or what the client sends over an upgraded connection; `None` for a request that has none.
    pub body: Option<Pieces>,
    /// The user who sends the request.
    pub user: Arc<User>,
    /// The name of the request, which the other server is to keep.
    pub audit_id: Option<Vec<u8>>,
    /// `true` if the client wants its connection to become another, such as a WebSocket.
    pub upgrades: bool,
}

/// The place of a group-version in discovery, as an APIService has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priorities {
    /// `spec.groupPriorityMinimum`: of groups the one with the highest comes first.
    pub group: i32,
    /// `spec.versionPriority`: of a group's versions the one with the highest comes first, whatever it is called.
    pub version: i32,
}

impl Priorities {
    /// Those of the core group.
    pub const CORE: Self = Self { group: 18_000, version: 1 };
    /// Those of the other groups of built-in types, which come before the registered ones'.
    pub const BUILT_IN: Self = Self { group: 16_700, version: 15 };
    /// Those of the groups of registered types.
    pub const REGISTERED: Self = Self { group: 1000, version: 100 };
}

/// A group-version of another server, as discovery and OpenAPI show it.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteVersion {
    /// Its place in discovery.
    pub priorities: Priorities,
    /// The entry of the version in aggregated discovery (`apidiscovery.k8s.io/v2` APIVersionDiscovery).
    pub discovery: Value,
    /// The hash of its OpenAPI v3 document; `None` if the other server has none.
    pub openapi_hash: Option<String>,
    /// Its part of the other server's OpenAPI v2 document, if there is one that can be merged.
    pub openapi_v2: Option<Arc<RemoteDoc>>,
}

/// The group-versions of other servers at one moment, by group and version.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteVersions {
    /// Raised whenever anything in it has changed.
    pub generation: u64,
    /// By group, then by version.
    pub groups: BTreeMap<String, BTreeMap<String, RemoteVersion>>,
}

impl RemoteVersions {
    fn has(&self, group: &str, version: &str) -> bool {
        self.groups.get(group).is_some_and(|versions| versions.contains_key(version))
    }
}

/// Forwards requests to other servers.
pub trait Aggregator: Send + Sync {
    /// The group-versions of other servers. Called for every request.
    fn versions(&self) -> Arc<RemoteVersions>;

    /// Forwards a request; never called for a group-version that is not another server's. The answer to an upgrade is 101 with
    /// what the other server sends as its body.
    fn forward(&self, request: Forwarded) -> BoxFuture<'static, DelegatedAnswer>;

    /// Forwards a request to the program that serves a subresource, in the same way.
    fn forward_to(
        &self,
        program: &Arc<WebhookClient>,
        request: Forwarded,
    ) -> BoxFuture<'static, DelegatedAnswer>;
}

/// The group-version of a request, if it is another server's.
pub(crate) fn elsewhere<'a>(
    aggregator: &dyn Aggregator,
    info: &'a RequestInfo,
) -> Option<(&'a str, &'a str)> {
    let (group, version) = match info {
        RequestInfo::Path(segments) => document_of(segments)?,
        RequestInfo::Resource(info) => (info.resource.group.as_str(), info.resource.version.as_str()),
    };
    aggregator.versions().has(group, version).then_some((group, version))
}

/// The group-version whose document a path without a resource names, if it is one that its own server has: discovery and
/// OpenAPI v3.
fn document_of(segments: &[String]) -> Option<(&str, &str)> {
    let (group, version) = match segments {
        [apis, group, version] if apis == "apis" => (group, version),
        [openapi, v3, apis, group, version] if openapi == "openapi" && v3 == "v3" && apis == "apis" => {
            (group, version)
        }
        _ => return None,
    };
    Some((group, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_a_group_version_are_its_servers() {
        let of = |path: &str| {
            let segments: Vec<String> = path.split('/').map(str::to_owned).collect();
            document_of(&segments).map(|(group, version)| format!("{group}/{version}"))
        };
        assert_eq!(of("apis/g/v1").as_deref(), Some("g/v1"));
        assert_eq!(of("openapi/v3/apis/g/v1").as_deref(), Some("g/v1"));
        assert_eq!((of("apis/g"), of("openapi/v3/api/v1"), of("openapi/v2")), (None, None, None));
    }
}

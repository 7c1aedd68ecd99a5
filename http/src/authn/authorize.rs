//! The decision if a user may do the requested action.

use std::fmt;

use kindom_api::user::{AUTHENTICATED, MASTERS, User};
use kindom_api::{GroupResource, field::go_quote};
use kindom_objects::review::Action;

/// The paths that health checks and version negotiation need before there are credentials, each with
/// what lies below it.
const OPEN_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// The requested action, as `RequestInfo` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
    /// A path that belongs to no resource; discovery, for one.
    Path {
        /// The HTTP method in lower case.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
    /// A resource.
    Resource {
        /// Such as `list` or `deletecollection`.
        verb: &'a str,
        /// The API group; empty for the core group.
        group: &'a str,
        /// The plural.
        resource: &'a str,
        /// Empty if there is none.
        subresource: &'a str,
        /// Empty at cluster scope.
        namespace: &'a str,
        /// Empty for a collection.
        name: &'a str,
    },
}

impl<'a> Attributes<'a> {
    /// Those of an action.
    pub(crate) fn of(action: &'a Action) -> Self {
        match action {
            Action::Path { verb, path } => Self::Path { verb, path },
            Action::Resource { verb, group, resource, subresource, namespace, name, .. } => {
                Self::Resource { verb, group, resource, subresource, namespace, name }
            }
        }
    }

    /// The action, for as long as somebody wants it.
    pub(crate) fn to_action(self) -> Action {
        match self {
            Self::Path { verb, path } => Action::Path { verb: verb.to_owned(), path: path.to_owned() },
            Self::Resource { verb, group, resource, subresource, namespace, name } => {
                Action::on([verb, group, resource, subresource], namespace, name)
            }
        }
    }
}

/// A request that is not allowed: 403.
///
/// [`Status::forbidden`](kindom_api::status::Status::forbidden) takes its three parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Empty for a path.
    pub resource: GroupResource,
    /// The object's name; empty for a path or a collection.
    pub name: String,
    /// The text that names the user and the forbidden action, in upstream's words (`responsewriters.ForbiddenStatusError`).
    pub message: String,
    /// The authorizers' reason, which ends the text; empty if they gave none.
    pub reason: String,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The mode AlwaysAllow, for authenticated users only: others may read the health and version paths. A review may ask about
/// a user of no other group than `system:masters`, who may everything.
///
/// # Errors
/// The [`Denial`] to answer with.
pub fn authorize(user: &User, attributes: &Attributes<'_>) -> Result<(), Denial> {
    if user.is_in(AUTHENTICATED) || user.is_in(MASTERS) || is_open(attributes) {
        return Ok(());
    }
    Err(deny(user, attributes))
}

fn is_open(attributes: &Attributes<'_>) -> bool {
    let Attributes::Path { verb: "get" | "head", path } = attributes else {
        return false;
    };
    OPEN_PATHS
        .iter()
        .any(|open| path.strip_prefix(open).is_some_and(|below| below.is_empty() || below.starts_with('/')))
}

/// The denial of a request; also for rules of the caller's own, such as paths for `system:masters`.
#[must_use]
pub fn deny(user: &User, attributes: &Attributes<'_>) -> Denial {
    let who = go_quote(&user.name);
    match *attributes {
        Attributes::Path { verb, path } => Denial {
            resource: GroupResource { group: String::new(), resource: String::new() },
            name: String::new(),
            message: sanitized(&format!("User {who} cannot {verb} path {}", go_quote(path))),
            reason: String::new(),
        },
        Attributes::Resource { verb, group, resource, subresource, namespace, name } => {
            let object = match subresource {
                "" => go_quote(resource),
                _ => go_quote(&format!("{resource}/{subresource}")),
            };
            let place = match namespace {
                "" => "at the cluster scope".to_owned(),
                _ => format!("in the namespace {}", go_quote(namespace)),
            };
            let in_group = go_quote(group);
            Denial {
                resource: GroupResource { group: group.to_owned(), resource: resource.to_owned() },
                name: name.to_owned(),
                message: sanitized(&format!(
                    "User {who} cannot {verb} resource {object} in API group {in_group} {place}"
                )),
                reason: String::new(),
            }
        }
    }
}

/// Upstream escapes what a browser could take for markup.
pub(crate) fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use kindom_api::status::Status;

    use super::*;

    fn denied(attributes: Attributes<'_>) -> String {
        let denial = authorize(&User::anonymous(), &attributes).unwrap_err();
        Status::forbidden(&denial.resource, &denial.name, &denial).message
    }

    const LIST: Attributes<'static> = Attributes::Resource {
        verb: "list",
        group: "example.com",
        resource: "widgets",
        subresource: "",
        namespace: "default",
        name: "",
    };

    #[test]
    fn authenticated_users_may_do_everything() {
        let user = User { name: "a".to_owned(), groups: vec![AUTHENTICATED.to_owned()], ..User::default() };
        for attributes in [LIST, Attributes::Path { verb: "post", path: "/debug/x" }] {
            assert_eq!(authorize(&user, &attributes), Ok(()));
        }
    }

    #[test]
    fn others_may_read_health_and_version() {
        let path = |verb, path| authorize(&User::anonymous(), &Attributes::Path { verb, path });
        for open in ["/healthz", "/livez", "/livez/ping", "/readyz", "/readyz/", "/version", "/version/"] {
            assert_eq!(path("get", open), Ok(()), "{open}");
            assert_eq!(path("head", open), Ok(()), "{open}");
            assert!(path("post", open).is_err(), "{open}");
        }
        for closed in
            ["/", "", "/healthzz", "/versions", "/api", "/apis", "/metrics", "/openapi/v3", "/HEALTHZ"]
        {
            assert!(path("get", closed).is_err(), "{closed}");
        }
    }

    #[test]
    fn denials_speak_upstreams_words() {
        assert_eq!(
            denied(Attributes::Path { verb: "get", path: "/apis" }),
            r#"forbidden: User "system:anonymous" cannot get path "/apis""#
        );
        assert_eq!(
            denied(LIST),
            r#"widgets.example.com is forbidden: User "system:anonymous" cannot list resource "widgets" in API group "example.com" in the namespace "default""#
        );
        let at_cluster_scope = Attributes::Resource {
            verb: "patch",
            group: "",
            resource: "namespaces",
            subresource: "status",
            namespace: "",
            name: "a",
        };
        assert_eq!(
            denied(at_cluster_scope),
            r#"namespaces "a" is forbidden: User "system:anonymous" cannot patch resource "namespaces/status" in API group "" at the cluster scope"#
        );
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(
            denied(Attributes::Path { verb: "get", path: "/<script>&\"" }),
            r#"forbidden: User "system:anonymous" cannot get path "/&lt;script&gt;&amp;\"""#
        );
    }
}

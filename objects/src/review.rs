//! The inquiries of questions at the server's authenticator and authorizer, and their findings.

use std::sync::Arc;

use kindom_api::User;

use crate::rbac::Role;

/// The thing that has to be found out before a question can be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inquiry {
    /// The question itself is enough.
    Nothing,
    /// The user of a bearer token.
    Token {
        /// The token.
        token: String,
        /// Those of whom one must be meant by it; none: the server itself.
        audiences: Vec<String>,
    },
    /// The permission of a user to act.
    Access(Box<User>, Action),
    /// Everything that a user may do in a namespace.
    Rules {
        /// The user.
        user: Box<User>,
        /// The namespace.
        namespace: String,
    },
}

/// An action that a user may want to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// On a resource.
    Resource {
        /// Such as `list`.
        verb: String,
        /// The API group; empty for the core group.
        group: String,
        /// The plural.
        resource: String,
        /// Empty if there is none.
        subresource: String,
        /// Empty at cluster scope, and for all namespaces.
        namespace: String,
        /// Empty for a collection.
        name: String,
        /// The version of the resource; may be empty.
        version: String,
        /// The field selector and the label selector, as queries have them; may be empty.
        selectors: [String; 2],
    },
    /// On a path that is no resource's.
    Path {
        /// The HTTP method in lower case.
        verb: String,
        /// The path.
        path: String,
    },
}

impl Action {
    /// On a resource of any version, by its verb, group, plural and subresource, the last of which may be empty.
    #[must_use]
    pub fn on([verb, group, resource, subresource]: [&str; 4], namespace: &str, name: &str) -> Self {
        Self::Resource {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: "*".to_owned(),
            selectors: Default::default(),
        }
    }

    /// The same on the resource in one version.
    #[must_use]
    pub fn of_version(mut self, wanted: &str) -> Self {
        if let Self::Resource { version, .. } = &mut self {
            wanted.clone_into(version);
        }
        self
    }
}

/// The finding on an [`Inquiry`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing was asked.
    Nothing,
    /// The user of a token, `None` if there was none to judge; or the reason why the token is not valid.
    Token(Result<Option<Identified>, String>),
    /// The permission to act.
    Access(Access),
    /// The rules of a user; `None` if another server decides.
    Rules(Option<ListedRules>),
}

/// What a user may do, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedRules {
    /// The roles whose rules they are, perhaps some several times.
    pub roles: Vec<Arc<Role>>,
    /// The reason why some may be absent; empty if none is.
    pub error: String,
}

/// The user of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified {
    /// The user.
    pub user: Arc<User>,
    /// Those for whom the token is meant, of those that were asked about; empty where nobody knows of audiences.
    pub audiences: Vec<String>,
}

/// The permission of a user to act.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// `true` if the user may.
    pub allowed: bool,
    /// `true` if something forbids it, rather than nothing allows it.
    pub denied: bool,
    /// The reason; may be empty.
    pub reason: String,
    /// The reason why it could not be found out; empty if it was.
    pub error: String,
}

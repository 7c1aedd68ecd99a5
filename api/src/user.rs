//! Users, as authentication knows them (apiserver `pkg/authentication/user`).

use std::collections::BTreeMap;

/// The user of requests that carry no credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of [`ANONYMOUS`].
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of everyone else.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group that may do everything under any authorization mode.
pub const MASTERS: &str = "system:masters";

/// The user who the server itself is.
const API_SERVER: &str = "system:apiserver";

/// The user who sends a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Its name, as in a certificate's CN.
    pub name: String,
    /// Its uid; empty unless a token or a front proxy gave one.
    pub uid: String,
    /// Its groups, the implied ones last.
    pub groups: Vec<String>,
    /// Its other attributes, with their values; only a front proxy gives them.
    pub extra: BTreeMap<String, Vec<String>>,
    /// True if a front proxy asks for it.
    pub by_proxy: bool,
}

impl User {
    /// The user of a request without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { name: ANONYMOUS.to_owned(), groups, ..Self::default() }
    }

    /// The server itself, where it writes for no client (apiserver `user.APIServerUser`).
    #[must_use]
    pub fn api_server() -> Self {
        Self { name: API_SERVER.to_owned(), groups: vec![MASTERS.to_owned()], ..Self::default() }
    }

    /// A service account, as it is known before it has authenticated (`serviceaccount.UserInfo`).
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
            ..Self::default()
        }
    }

    /// `true` if the user is in `group`.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Adds the group that every authenticated user is in.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        if self.name != ANONYMOUS && !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

//! Requests that ask to act as another user (apiserver `pkg/endpoints/filters/impersonation`, 1.37).
//!
//! Whoever asks needs the permission for each thing that he asks to be: in the constrained modes, of which one fits each kind of
//! user, also that to do what the request does; or else by the verb `impersonate` alone.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::hash::BuildHasher as _;

use kindom_api::User;
use kindom_api::field::{ErrorList, Path, go_quote};
use kindom_api::meta::names::{name_is_dns_label, name_is_dns_subdomain};
use kindom_api::selector::{FieldSelector, LabelSelector};
use kindom_api::user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED};
use kindom_objects::kinds::domain_prefixed_path;
use parking_lot::Mutex;

use super::delegate::Unreviewed;
use super::front_proxy::unescaped;
use super::{AccessQuestion, Attributes, Authorization, Decision, Denial, authorize, deny};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";
/// Of all of them, the header names' common start.
const ANY: &str = "impersonate-";

const AUTHENTICATION: &str = "authentication.k8s.io";
const NODES: &str = "system:nodes";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The most users whose last modes are remembered.
const LAST_MODES_MAX: usize = 10_000;
/// From so many values on, the permission for all of them is asked for first.
const MANY: usize = 4;
/// The most groups and extra values: each is a question. Upstream has no bound but that on headers.
const VALUES_MAX: usize = 256;

/// The user whom a request asks to be, as its headers have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Impersonation {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// The headers ask for nobody who could be: 400, with this text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotWanted(pub(crate) String);

/// The request may not be made as another user.
enum Refusal {
    Denied(Denial),
    /// The authorizer had too much to do, so nobody knows.
    Busy,
}

impl Impersonation {
    /// That of a request's headers, named in lower case; `None` if it asks for none.
    ///
    /// # Errors
    /// Something of a user without his name, or too much.
    pub(crate) fn of_headers<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Option<Self>, NotWanted> {
        let mut wanted = Self::default();
        let (mut is_named, mut has_uid, mut asks, mut values) = (false, false, false, 0);
        for (header, value) in headers {
            if !header.starts_with(ANY) {
                continue;
            }
            let value = || String::from_utf8_lossy(value).into_owned();
            match header {
                // The first one counts.
                USER if !is_named => (wanted.name, is_named) = (value(), true),
                UID if !has_uid => (wanted.uid, has_uid) = (value(), true),
                GROUP => wanted.groups.push(value()),
                header => {
                    let Some(key) = header.strip_prefix(EXTRA) else { continue };
                    wanted.extra.entry(unescaped(key)).or_default().push(value());
                }
            }
            values += 1;
            asks |= !matches!(header, USER | UID);
        }
        if values > VALUES_MAX {
            return Err(NotWanted(format!("requested more than {VALUES_MAX} attributes of a user")));
        }
        match wanted.name.is_empty() {
            true if asks || !wanted.uid.is_empty() => {
                Err(NotWanted(format!("requested {} without impersonating a user name", wanted.in_go())))
            }
            true => Ok(None),
            false => Ok(Some(wanted)),
        }
    }

    /// As Go prints `&user.DefaultInfo{…}` by `%#v`.
    fn in_go(&self) -> String {
        let list = |texts: &[String]| {
            let quoted: Vec<String> = texts.iter().map(|text| go_quote(text)).collect();
            format!("[]string{{{}}}", quoted.join(", "))
        };
        let groups = if self.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&self.groups) };
        let mut text = format!(
            "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:map[string][]string",
            go_quote(&self.name),
            go_quote(&self.uid)
        );
        if self.extra.is_empty() {
            text.push_str("(nil)}");
            return text;
        }
        let pairs = self.extra.iter().map(|(key, values)| format!("{}:{}", go_quote(key), list(values)));
        // Writing to a text does not fail.
        let _ = write!(text, "{{{}}}}}", pairs.collect::<Vec<_>>().join(", "));
        text
    }

    fn is_name_alone(&self) -> bool {
        self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty()
    }
}

/// The node whose user this is (`isNodeUsername`).
fn node_of(user: &str) -> Option<&str> {
    let name = user.strip_prefix("system:node:")?;
    name_is_dns_subdomain(name, false).is_empty().then_some(name)
}

/// The namespace and the name of the service account whose user this is (`serviceaccount.SplitUsername`).
fn account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let are_names =
        name_is_dns_label(namespace, false).is_empty() && name_is_dns_subdomain(name, false).is_empty();
    are_names.then_some((namespace, name))
}

/// A way in which somebody may be allowed to act as another user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// As the node that a service account's pod runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// As anybody else.
    UserInfo,
    /// By the verb `impersonate` alone, as anybody.
    Legacy,
}

impl Mode {
    /// In the order in which they are tried.
    const ALL: [Self; 5] =
        [Self::AssociatedNode, Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo, Self::Legacy];

    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn is_constrained(self) -> bool {
        self != Self::Legacy
    }

    fn verb(self) -> String {
        match self {
            Self::Legacy => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.name()),
        }
    }

    /// `true` if a user of this kind is meant by it.
    fn fits(self, wanted: &Impersonation, requestor: &User) -> bool {
        let node = node_of(&wanted.name);
        match self {
            Self::AssociatedNode => {
                let own = requestor.extra.get(NODE_NAME).filter(|values| values.len() == 1);
                wanted.is_name_alone()
                    && account_of(&requestor.name).is_some()
                    && node.is_some_and(|node| own.is_some_and(|own| own.iter().any(|name| name == node)))
            }
            Self::ArbitraryNode => wanted.is_name_alone() && node.is_some(),
            Self::ServiceAccount => wanted.is_name_alone() && account_of(&wanted.name).is_some(),
            Self::UserInfo => node.is_none() && account_of(&wanted.name).is_none(),
            Self::Legacy => true,
        }
    }
}

/// The modes in which users were last let in, which are tried first (`modeIndexCache`).
#[derive(Default)]
pub(crate) struct LastModes {
    modes: Mutex<HashMap<u64, Mode>>,
    /// Seeded: nobody can choose a name that shares another's place.
    names: foldhash::quality::RandomState,
}

impl LastModes {
    fn key(&self, requestor: &User) -> u64 {
        self.names.hash_one(&requestor.name)
    }

    fn of(&self, requestor: &User) -> Option<Mode> {
        self.modes.lock().get(&self.key(requestor)).copied()
    }

    fn set(&self, requestor: &User, mode: Mode) {
        let mut modes = self.modes.lock();
        if modes.len() >= LAST_MODES_MAX {
            // Only the order of attempts depends on them.
            modes.clear();
        }
        modes.insert(self.key(requestor), mode);
    }
}

/// A request that asks to act as another user.
pub(crate) struct Requested<'a> {
    /// The modes of earlier ones.
    pub(crate) last_modes: &'a LastModes,

    /// Decides; `None` for the mode AlwaysAllow.
    pub(crate) authorization: Option<&'a Authorization>,
    /// The user who asks.
    pub(crate) requestor: &'a User,
    /// Those of the request itself.
    pub(crate) attributes: Attributes<'a>,
    /// The version of its resource; empty for a path.
    pub(crate) version: &'a str,
}

impl Requested<'_> {
    /// The user as whom the request goes on, and the verb that lets it, but for the plain `impersonate`.
    ///
    /// # Errors
    /// The denial of the first mode that fits; within, `None` if too much waits for an authorizer.
    pub(crate) async fn act_as(&self, wanted: &Impersonation) -> Result<(User, String), Option<Denial>> {
        let (mut first, last) = (None, self.last_modes.of(self.requestor));
        for mode in last.into_iter().chain(Mode::ALL.into_iter().filter(|mode| Some(*mode) != last)) {
            if !mode.fits(wanted, self.requestor) {
                continue;
            }
            match self.act_in(mode, wanted).await {
                Ok(user) => {
                    if last != Some(mode) {
                        self.last_modes.set(self.requestor, mode);
                    }
                    let constraint = if mode.is_constrained() { mode.verb() } else { String::new() };
                    return Ok((user, constraint));
                }
                Err(Refusal::Busy) => return Err(None),
                Err(Refusal::Denied(denial)) => drop(first.get_or_insert(denial)),
            }
        }
        Err(first)
    }

    async fn act_in(&self, mode: Mode, wanted: &Impersonation) -> Result<User, Refusal> {
        // The name of the node and the other attributes of an account that acts as its own node say nothing new.
        let of_any_node;
        let requestor = match mode {
            Mode::AssociatedNode => {
                let keys = self.requestor.extra.keys().cloned().collect();
                let extra = [("authentication.kubernetes.io/associated-node-keys".to_owned(), keys)].into();
                of_any_node = User { extra, ..self.requestor.clone() };
                &of_any_node
            }
            _ => self.requestor,
        };
        let asking = Requested { requestor, ..*self };
        if mode.is_constrained() {
            let verb = |verb| format!("impersonate-on:{}:{verb}", mode.name());
            let on;
            let attributes = match self.attributes {
                Attributes::Path { verb: of, path } => {
                    on = verb(of);
                    Attributes::Path { verb: &on, path }
                }
                Attributes::Resource { verb: of, group, resource, subresource, namespace, name } => {
                    on = verb(of);
                    Attributes::Resource { verb: &on, group, resource, subresource, namespace, name }
                }
            };
            asking.may(attributes, self.version).await?;
        }
        let mut groups = wanted.groups.clone();
        let verb = mode.verb();
        let group = if mode.is_constrained() { AUTHENTICATION } else { "" };
        let (mut resource, mut namespace, mut name) = ("users", "", wanted.name.as_str());
        if mode.is_constrained()
            && let Some(node) = node_of(&wanted.name)
        {
            (resource, name) = ("nodes", if mode == Mode::AssociatedNode { "*" } else { node });
            groups = vec![NODES.to_owned()];
        }
        if let Some(account) = account_of(&wanted.name) {
            (resource, (namespace, name)) = ("serviceaccounts", account);
            if groups.is_empty() {
                groups = User::service_account(namespace, name).groups;
            }
        }
        let of = |group, resource, subresource, namespace, name| Attributes::Resource {
            verb: &verb,
            group,
            resource,
            subresource,
            namespace,
            name,
        };
        asking.may_be(of(group, resource, "", namespace, name)).await?;
        if !wanted.uid.is_empty() {
            asking.may_be(of(AUTHENTICATION, "uids", "", "", &wanted.uid)).await?;
        }
        asking.may_have_groups(mode, &wanted.groups, |name| of(group, "groups", "", "", name)).await?;
        asking
            .may_have_extra(mode, &wanted.extra, |key, name| of(AUTHENTICATION, "userextras", key, "", name))
            .await?;
        let ensured = match wanted.name.as_str() {
            ANONYMOUS => Some(UNAUTHENTICATED),
            _ if groups.iter().any(|group| group == UNAUTHENTICATED) => None,
            _ => Some(AUTHENTICATED),
        };
        if let Some(ensured) = ensured.filter(|ensured| !groups.iter().any(|group| group == ensured)) {
            groups.push(ensured.to_owned());
        }
        Ok(User {
            name: wanted.name.clone(),
            uid: wanted.uid.clone(),
            groups,
            extra: wanted.extra.clone(),
            by_proxy: self.requestor.by_proxy,
        })
    }

    async fn may_have_groups<'a>(
        &self,
        mode: Mode,
        groups: &'a [String],
        of: impl Fn(&'a str) -> Attributes<'a>,
    ) -> Result<(), Refusal> {
        if mode.is_constrained() {
            let forbid = |name, why: &str| {
                let denial = deny(self.requestor, &of(name));
                Refusal::Denied(Denial { message: format!("{}: {why}", denial.message), ..denial })
            };
            if groups.iter().any(String::is_empty) {
                return Err(forbid("", "impersonating the empty string group is not allowed"));
            }
            if groups.iter().any(|group| group == MASTERS) {
                return Err(forbid(MASTERS, "impersonating the system:masters group is not allowed"));
            }
            if groups.len() >= MANY && self.may_be(of("*")).await.is_ok() {
                return Ok(());
            }
        }
        for (asked, group) in groups.iter().enumerate() {
            pause(asked).await;
            self.may_be(of(group)).await?;
        }
        Ok(())
    }

    async fn may_have_extra<'a>(
        &self,
        mode: Mode,
        extra: &'a BTreeMap<String, Vec<String>>,
        of: impl Fn(&'a str, &'a str) -> Attributes<'a>,
    ) -> Result<(), Refusal> {
        if mode.is_constrained() && !extra.is_empty() {
            if let Some(why) = extra.iter().find_map(|(key, values)| wrong_extra(key, values)) {
                let denial = deny(self.requestor, &of("", ""));
                return Err(Refusal::Denied(Denial {
                    message: format!("{}: {why}", denial.message),
                    ..denial
                }));
            }
            let is_large = extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if is_large && self.may_be(of("*", "*")).await.is_ok() {
                return Ok(());
            }
        }
        let all = extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        for (asked, (key, value)) in all.enumerate() {
            pause(asked).await;
            self.may_be(of(key, value)).await?;
        }
        Ok(())
    }

    async fn may_be(&self, attributes: Attributes<'_>) -> Result<(), Refusal> {
        self.may(attributes, "v1").await
    }

    async fn may(&self, attributes: Attributes<'_>, version: &str) -> Result<(), Refusal> {
        let Some(authorization) = self.authorization else {
            // Everybody may do everything, but for what is kept for the server's masters.
            let is_of_masters =
                matches!(attributes, Attributes::Resource { resource: "groups", name: MASTERS, .. });
            if is_of_masters && !self.requestor.is_in(MASTERS) {
                return Err(Refusal::Denied(deny(self.requestor, &attributes)));
            }
            return authorize(self.requestor, &attributes).map_err(Refusal::Denied);
        };
        let question = AccessQuestion {
            user: self.requestor,
            attributes,
            version,
            fields: FieldSelector::default(),
            labels: LabelSelector::default(),
            wants_reason: false,
        };
        let why = match authorization.review(&question).verdict().await {
            Ok(Decision::Allowed(_)) => return Ok(()),
            Ok(decision) => authorization.reason(decision),
            Err(Unreviewed::Busy) => return Err(Refusal::Busy),
            Err(Unreviewed::Failed(why)) => why.to_string(),
        };
        let mut denial = deny(self.requestor, &attributes);
        if !why.is_empty() {
            denial.message = format!("{}: {why}", denial.message);
        }
        Err(Refusal::Denied(denial))
    }
}

/// Gives others their turn now and then: roles answer at once.
async fn pause(asked: usize) {
    const ASKED_AT_ONCE: usize = 16;
    if asked % ASKED_AT_ONCE == ASKED_AT_ONCE - 1 {
        tokio::task::yield_now().await;
    }
}

/// The reason why a constrained mode refuses an attribute (`validateExtra`).
fn wrong_extra(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let mut errors = ErrorList::new();
    let at = Path::new("extra");
    domain_prefixed_path(key, &at.child("key"), &mut errors);
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => {}
        [one] => return Some(format!("impersonating an invalid key in extra is not allowed: {one}")),
        many => {
            return Some(format!(
                "impersonating an invalid key in extra is not allowed: [{}]",
                many.join(", ")
            ));
        }
    }
    if key.chars().any(char::is_uppercase) {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {}", go_quote(key)));
    }
    values
        .iter()
        .any(String::is_empty)
        .then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(headers: &[(&'static str, &'static str)]) -> Result<Option<Impersonation>, NotWanted> {
        Impersonation::of_headers(headers.iter().map(|(name, value)| (*name, value.as_bytes())))
    }

    #[test]
    fn headers_say_who_is_wanted() {
        assert_eq!(wanted(&[("user-agent", "impersonate-user"), ("x-impersonate-user", "a")]), Ok(None));
        let headers = [
            ("impersonate-user", "jane"),
            ("impersonate-user", "second"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
            ("impersonate-extra-acme.com%2fproject", "one"),
            ("impersonate-uid", "7"),
        ];
        let jane = wanted(&headers).unwrap().unwrap();
        assert_eq!((jane.name.as_str(), jane.uid.as_str()), ("jane", "7"));
        assert_eq!(jane.groups, ["dev", "ops"]);
        assert_eq!(
            jane.extra.into_iter().collect::<Vec<_>>(),
            [("acme.com/project".to_owned(), vec!["one".to_owned()])]
        );
        assert_eq!(
            wanted(&[("impersonate-group", "g"), ("impersonate-extra-a", "b")]).unwrap_err().0,
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string{"a":[]string{"b"}}} without impersonating a user name"#
        );
        assert_eq!(
            wanted(&[("impersonate-uid", "7")]).unwrap_err().0,
            r#"requested &user.DefaultInfo{Name:"", UID:"7", Groups:[]string(nil), Extra:map[string][]string(nil)} without impersonating a user name"#
        );
        assert_eq!(wanted(&[("impersonate-user", ""), ("impersonate-uid", "")]), Ok(None));
        let many = vec![("impersonate-group", "g"); VALUES_MAX + 1];
        assert!(wanted(&many).unwrap_err().0.contains("256"));
    }

    #[test]
    fn nodes_and_accounts_are_told_from_others() {
        assert_eq!(node_of("system:node:a.b"), Some("a.b"));
        assert_eq!(node_of("system:node:A"), None);
        assert_eq!(account_of("system:serviceaccount:ci:builder"), Some(("ci", "builder")));
        for other in [
            "system:serviceaccount:ci",
            "system:serviceaccount:ci:",
            "system:serviceaccount::b",
            "system:serviceaccount:ci:a:b",
        ] {
            assert_eq!(account_of(other), None, "{other}");
        }
    }
}

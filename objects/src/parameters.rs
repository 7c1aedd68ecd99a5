//! The permission of whoever writes a policy to read its parameters, which the server reads for him.

use kindom_api::names::split_api_version;
use kindom_api::{GroupVersionKind, User, Value};

use crate::review::{Access, Action};

/// A read of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterRead {
    /// The field of `spec` that asks for it: `paramKind` or `paramRef`.
    pub field: &'static str,
    /// `get`, or `list` for all that a selector takes.
    pub verb: &'static str,
    /// Empty for all namespaces.
    pub namespace: String,
    /// Empty for any.
    pub name: String,
    /// The kind of the parameters.
    pub kind: ParameterKind,
    /// It is of a binding of a policy that changes objects, of which upstream's texts differ.
    pub is_of_changes: bool,
}

/// The kind of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterKind {
    /// As a policy names it.
    Named {
        /// `example.com/v1`
        api_version: String,
        /// `Limit`
        kind: String,
    },
    /// That of a policy of this name.
    OfPolicy(String),
}

/// The resource that is read, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterResource {
    /// The plural of a kind in a version of a group.
    Known(GroupVersionKind, String),
    /// Of a kind that is not served: any resource of its group and version.
    Unserved(GroupVersionKind),
    /// Of a policy that has no parameters: any.
    Any,
    /// Of a policy that is not there: any.
    Absent,
    /// Of an `apiVersion` that is none: any.
    Malformed {
        /// The `apiVersion`.
        api_version: String,
        /// The kind.
        kind: String,
    },
}

impl ParameterResource {
    /// The resource of a kind; `plural` finds that of one that is served.
    pub fn of_kind(
        api_version: &str,
        kind: &str,
        plural: impl FnOnce(&GroupVersionKind) -> Option<String>,
    ) -> Self {
        let Some((group, version)) = split_api_version(api_version) else {
            return Self::Malformed { api_version: api_version.to_owned(), kind: kind.to_owned() };
        };
        let kind = GroupVersionKind::new(group, version, kind);
        match plural(&kind) {
            Some(plural) => Self::Known(kind, plural),
            None => Self::Unserved(kind),
        }
    }

    /// That of a policy, as it is stored.
    pub fn of_policy(policy: &Value, plural: impl FnOnce(&GroupVersionKind) -> Option<String>) -> Self {
        match policy.at(&["spec", "paramKind"]) {
            None | Some(Value::Null) => Self::Any,
            Some(kind) => Self::of_kind(kind.text_at(&["apiVersion"]), kind.text_at(&["kind"]), plural),
        }
    }
}

impl ParameterRead {
    /// The action that has to be allowed.
    #[must_use]
    pub fn action(&self, of: &ParameterResource) -> Action {
        let any = || "*".to_owned();
        let (group, version, resource) = match of {
            ParameterResource::Known(kind, plural) => {
                (kind.group.clone(), kind.version.clone(), plural.clone())
            }
            ParameterResource::Unserved(kind) => (kind.group.clone(), kind.version.clone(), any()),
            _ => (any(), any(), any()),
        };
        Action::Resource {
            verb: self.verb.to_owned(),
            group,
            resource,
            subresource: String::new(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            version,
            selectors: Default::default(),
        }
    }

    /// The reason why the user may not, if he may not.
    #[must_use]
    pub fn refusal(&self, of: &ParameterResource, user: &User, access: &Access) -> Option<String> {
        if !access.error.is_empty() {
            let is_bare = self.field == "paramKind" || self.is_of_changes;
            return Some(match is_bare {
                true => access.error.clone(),
                false => format!("failed to authorize request: {}", access.error),
            });
        }
        if access.allowed {
            return None;
        }
        let (user, verb) = (go_user(user), self.verb);
        let of_all = "permission for all groups, versions and resources";
        let needed = "to determine minimum required permissions and user";
        Some(match (&self.kind, of) {
            (ParameterKind::Named { api_version, kind }, _) => format!(
                "user {user} must have \"get\" permission on all objects of the referenced paramKind \
                 (kind={kind}, apiVersion={api_version})"
            ),
            (ParameterKind::OfPolicy(policy), ParameterResource::Absent) => {
                format!("unable to get policy {policy} {needed} {user} does not have \"{verb}\" {of_all}")
            }
            (_, ParameterResource::Malformed { api_version, kind }) => format!(
                "unable to parse paramKind &{{{api_version} {kind}}} {needed} {user} does not have \"{verb}\" {of_all}"
            ),
            (_, ParameterResource::Unserved(kind)) => format!(
                "unable to resolve paramKind &{{{} {}}} {needed} {user} does not have \"{verb}\" {of_all}",
                kind.api_version(),
                kind.kind
            ),
            _ if self.is_of_changes => {
                format!(
                    "user {verb} does not have \"{user}\" permission on the object referenced by paramRef"
                )
            }
            _ => format!(
                "user {user} does not have \"{verb}\" permission on the object referenced by paramRef"
            ),
        })
    }
}

/// A user as Go prints a `*user.DefaultInfo`.
fn go_user(user: &User) -> String {
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}

#[cfg(test)]
mod tests {
    use kindom_api::object;

    use super::*;

    fn read(kind: ParameterKind) -> ParameterRead {
        let field = if matches!(kind, ParameterKind::Named { .. }) { "paramKind" } else { "paramRef" };
        ParameterRead {
            field,
            verb: "get",
            namespace: "shop".into(),
            name: "limits".into(),
            kind,
            is_of_changes: false,
        }
    }

    fn resource(api_version: &str) -> ParameterResource {
        let policy = object! { "spec": object! { "paramKind": object! {
            "apiVersion": api_version, "kind": "Limit",
        } } };
        ParameterResource::of_policy(&policy, |kind| (kind.group == "a.com").then(|| "limits".to_owned()))
    }

    #[test]
    fn as_much_is_asked_for_as_is_known() {
        let read = read(ParameterKind::OfPolicy("p".into()));
        let asked = |of: &ParameterResource| match read.action(of) {
            Action::Resource { group, version, resource, namespace, name, .. } => {
                assert_eq!((namespace.as_str(), name.as_str()), ("shop", "limits"));
                [group, version, resource].join(" ")
            }
            Action::Path { .. } => String::new(),
        };
        assert_eq!(asked(&resource("a.com/v1")), "a.com v1 limits");
        assert_eq!(asked(&resource("b.com/v1")), "b.com v1 *");
        for of in [resource("a/b/c"), ParameterResource::Any, ParameterResource::Absent] {
            assert_eq!(asked(&of), "* * *");
        }
        assert_eq!(ParameterResource::of_policy(&object! {}, |_| None), ParameterResource::Any);
    }

    #[test]
    fn refusals_say_as_upstream() {
        let user = User {
            name: "jane".into(),
            groups: vec!["devs".into(), "system:authenticated".into()],
            extra: [("b".to_owned(), vec!["1".to_owned(), "2".to_owned()])].into(),
            ..User::anonymous()
        };
        let jane = "&{jane  [devs system:authenticated] map[b:[1 2]]}";
        let all = "permission for all groups, versions and resources";
        let needed = "to determine minimum required permissions and user";
        let denied = Access::default();
        let of_policy = read(ParameterKind::OfPolicy("p".into()));
        let named = read(ParameterKind::Named { api_version: "a.com/v1".into(), kind: "Limit".into() });
        let why = |read: &ParameterRead, of: &ParameterResource| read.refusal(of, &user, &denied).unwrap();
        assert_eq!(
            why(&named, &resource("a.com/v1")),
            format!(
                "user {jane} must have \"get\" permission on all objects of the referenced paramKind (kind=Limit, apiVersion=a.com/v1)"
            )
        );
        let plain =
            format!("user {jane} does not have \"get\" permission on the object referenced by paramRef");
        assert_eq!(why(&of_policy, &resource("a.com/v1")), plain);
        assert_eq!(why(&of_policy, &ParameterResource::Any), plain);
        assert_eq!(
            why(&of_policy, &ParameterResource::Absent),
            format!("unable to get policy p {needed} {jane} does not have \"get\" {all}")
        );
        assert_eq!(
            why(&of_policy, &resource("b.com/v1")),
            format!(
                "unable to resolve paramKind &{{b.com/v1 Limit}} {needed} {jane} does not have \"get\" {all}"
            )
        );
        assert_eq!(
            why(&of_policy, &resource("a/b/c")),
            format!("unable to parse paramKind &{{a/b/c Limit}} {needed} {jane} does not have \"get\" {all}")
        );
        let changes = ParameterRead { is_of_changes: true, ..of_policy.clone() };
        let swapped =
            format!("user get does not have \"{jane}\" permission on the object referenced by paramRef");
        assert_eq!(why(&changes, &resource("a.com/v1")), swapped);
        let lost = Access { error: "no host".into(), ..Access::default() };
        let of = resource("a.com/v1");
        assert_eq!(of_policy.refusal(&of, &user, &lost).unwrap(), "failed to authorize request: no host");
        assert_eq!(named.refusal(&of, &user, &lost).unwrap(), "no host");
        assert_eq!(named.refusal(&of, &user, &Access { allowed: true, ..Access::default() }), None);
    }
}

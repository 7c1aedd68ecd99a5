//! Who is bound to which role: indexes of roles by their names, and of bindings by their subjects
//! (`pkg/registry/rbac/validation/rule.go`, 1.37: there, all bindings are walked for each request).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::iter::once;
use std::sync::Arc;

use kindom_api::field::go_quote;
use kindom_api::{User, Value};

use super::coverage::PolicyRule;
use crate::kinds::fields::{items, part, text};

const CLUSTER_ROLE: &str = "ClusterRole";
const ROLE: &str = "Role";

/// The rules of a role.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// As they stand in it.
    pub rules: Vec<PolicyRule>,
    /// The number of texts in them: a measure of the time it takes to look through.
    pub texts: usize,
}

impl Role {
    /// One of these rules.
    #[must_use]
    pub fn new(name: String, rules: Vec<PolicyRule>) -> Self {
        let texts = |rule: &PolicyRule| {
            let PolicyRule { verbs, api_groups, resources, resource_names, non_resource_urls } = rule;
            let lists = [verbs, api_groups, resources, resource_names, non_resource_urls];
            1 + lists.map(Vec::len).iter().sum::<usize>()
        };
        Self { name, texts: rules.iter().map(texts).sum(), rules }
    }

    /// That of an object of either kind.
    #[must_use]
    pub fn compile(object: &Value) -> Self {
        let name = object.text_at(&["metadata", "name"]).to_owned();
        Self::new(name, PolicyRule::list(object))
    }
}

/// The role that a binding refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`; that of a binding which is not valid may be anything.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl RoleRef {
    /// That of a binding.
    #[must_use]
    pub fn of(binding: &Value) -> Self {
        let field = |name| binding.text_at(&["roleRef", name]).to_owned();
        Self { kind: field("kind"), name: field("name") }
    }
}

/// The role of a binding is not there, in the words of a client's cache or of a resolver that knows no such kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingRole {
    /// The role does not exist.
    #[error("{}.rbac.authorization.k8s.io {} not found", .0.kind.to_ascii_lowercase(), go_quote(&.0.name))]
    NotFound(RoleRef),
    /// There is no such kind of roles.
    #[error("unsupported role reference kind: {}", go_quote(.0))]
    UnknownKind(String),
}

/// Errors together, each once (apimachinery `utilerrors.aggregate.Error`); empty for none.
#[must_use]
pub fn aggregate(errors: impl IntoIterator<Item = String>) -> String {
    let (mut texts, mut seen) = (Vec::new(), HashSet::new());
    texts.extend(errors.into_iter().filter(|text| seen.insert(text.clone())));
    match texts.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}

/// A binding of subjects to a role.
#[derive(Debug)]
pub struct RoleBinding {
    name: String,
    role: RoleRef,
    /// The keys of its subjects, each once and with what a review says of a permission by it.
    subjects: Vec<(String, Arc<str>)>,
}

impl RoleBinding {
    /// That of an object of either kind.
    #[must_use]
    pub fn compile(object: &Value) -> Self {
        let metadata = part(object, "metadata");
        let (name, namespace) = (text(metadata, "name").to_owned(), text(metadata, "namespace"));
        let role = RoleRef::of(object);
        let (mut subjects, mut seen) = (Vec::new(), HashSet::new());
        for subject in items(object, "subjects") {
            let Some(key) = key_of(subject, namespace).filter(|key| seen.insert(key.clone())) else {
                continue;
            };
            subjects.push((key, permission((&name, namespace), &role, subject).into()));
        }
        Self { name, role, subjects }
    }
}

/// The key by which a user is found (`appliesToUser`); `None` for a subject that nobody can be.
fn key_of(subject: &Value, namespace: &str) -> Option<String> {
    let name = text(subject, "name");
    match text(subject, "kind") {
        "User" => Some(user_key(name)),
        "Group" => Some(group_key(name)),
        "ServiceAccount" => {
            let own = text(subject, "namespace");
            let namespace = if own.is_empty() { namespace } else { own };
            let account = || user_key(&format!("system:serviceaccount:{namespace}:{name}"));
            (!namespace.is_empty()).then(account)
        }
        _ => None,
    }
}

fn user_key(name: &str) -> String {
    format!("u{name}")
}

fn group_key(name: &str) -> String {
    format!("g{name}")
}

/// `clusterRoleBindingDescriber.String` and `roleBindingDescriber.String`, which have names before namespaces.
fn permission((name, namespace): (&str, &str), role: &RoleRef, subject: &Value) -> String {
    let (kind, binding) = match namespace {
        "" => ("ClusterRoleBinding", name.to_owned()),
        _ => ("RoleBinding", format!("{name}/{namespace}")),
    };
    let named = text(subject, "name");
    let whom = match (text(subject, "kind"), text(subject, "namespace")) {
        ("ServiceAccount", "") => format!("{named}/{namespace}"),
        ("ServiceAccount", own) => format!("{named}/{own}"),
        _ => named.to_owned(),
    };
    format!(
        "RBAC: allowed by {kind} {} of {} {} to {} {}",
        go_quote(&binding),
        role.kind,
        go_quote(&role.name),
        text(subject, "kind"),
        go_quote(&whom)
    )
}

/// Roles of the cluster, or of a namespace, by their names.
#[derive(Debug, Default)]
pub struct RoleIndex(HashMap<String, Arc<Role>>);

impl FromIterator<Arc<Role>> for RoleIndex {
    fn from_iter<I: IntoIterator<Item = Arc<Role>>>(roles: I) -> Self {
        Self(roles.into_iter().map(|role| (role.name.clone(), role)).collect())
    }
}

/// A binding, with what a review says of a permission by one of its subjects, and that subject's place.
type Bound = (Arc<RoleBinding>, Arc<str>, usize);

/// Bindings of the cluster, or of a namespace, by the keys of their subjects and by their own names.
#[derive(Debug, Default)]
pub struct BindingIndex(HashMap<String, BTreeMap<String, Bound>>);

impl FromIterator<Arc<RoleBinding>> for BindingIndex {
    fn from_iter<I: IntoIterator<Item = Arc<RoleBinding>>>(bindings: I) -> Self {
        let mut index: HashMap<String, BTreeMap<String, Bound>> = HashMap::new();
        for binding in bindings {
            for (place, (key, permission)) in binding.subjects.iter().enumerate() {
                let bound = (Arc::clone(&binding), Arc::clone(permission), place);
                index.entry(key.clone()).or_default().insert(binding.name.clone(), bound);
            }
        }
        Self(index)
    }
}

impl BindingIndex {
    fn under<'a>(&'a self, user: &User) -> impl Iterator<Item = &'a BTreeMap<String, Bound>> {
        let keys = once(user_key(&user.name)).chain(user.groups.iter().map(|group| group_key(group)));
        keys.filter_map(|key| self.0.get(&key))
    }

    /// The most bindings that a user can have.
    fn count(&self, user: &User) -> usize {
        self.under(user).map(BTreeMap::len).sum()
    }

    /// Those of a user, each once and by its first subject that he is (`appliesTo`), by name.
    fn of_user(&self, user: &User) -> Vec<&Bound> {
        let mut bound: Vec<&Bound> = self.under(user).flat_map(BTreeMap::values).collect();
        bound.sort_by(|(one, _, place), (other, _, later)| (&one.name, place).cmp(&(&other.name, later)));
        bound.dedup_by(|(one, ..), (other, ..)| Arc::ptr_eq(one, other));
        bound
    }
}

/// A role that a user has.
#[derive(Debug, Clone)]
pub struct Grant {
    /// Its rules; or why there are none.
    pub role: Result<Arc<Role>, MissingRole>,
    /// What a review says of a permission by it.
    pub permission: Arc<str>,
}

/// The roles and bindings that count in a namespace, or in the cluster as a whole.
#[derive(Debug, Clone, Copy)]
pub struct RoleScope<'a> {
    /// ClusterRoles.
    pub cluster_roles: &'a RoleIndex,
    /// ClusterRoleBindings.
    pub cluster_bindings: &'a BindingIndex,
    /// The Roles and RoleBindings of the namespace.
    pub namespaced: Option<(&'a RoleIndex, &'a BindingIndex)>,
}

impl RoleScope<'_> {
    /// A bound on the number of roles that [`grants`](Self::grants) finds, in no more time than the user's groups take.
    #[must_use]
    pub fn count(&self, user: &User) -> usize {
        let in_namespace = self.namespaced.map_or(0, |(_, bindings)| bindings.count(user));
        self.cluster_bindings.count(user) + in_namespace
    }

    /// The roles that a user has; those of the whole cluster first, each by the name of its binding (`VisitRulesFor`).
    #[must_use]
    pub fn grants(&self, user: &User) -> Vec<Grant> {
        let everywhere = self.cluster_bindings.of_user(user).into_iter();
        let here = self.namespaced.map(|(_, bindings)| bindings.of_user(user)).unwrap_or_default();
        let grant = |(binding, permission, _): &Bound, is_namespaced: bool| {
            let role = match (binding.role.kind.as_str(), is_namespaced) {
                // A binding of the cluster has no namespace to look in.
                (ROLE, false) => Err(MissingRole::NotFound(binding.role.clone())),
                _ => self.role(&binding.role),
            };
            Grant { role, permission: Arc::clone(permission) }
        };
        let everywhere = everywhere.map(|bound| grant(bound, false));
        everywhere.chain(here.into_iter().map(|bound| grant(bound, true))).collect()
    }

    /// The role that a binding of this scope refers to (`GetRoleReferenceRules`).
    ///
    /// # Errors
    /// See [`MissingRole`].
    pub fn role(&self, reference: &RoleRef) -> Result<Arc<Role>, MissingRole> {
        let found = match reference.kind.as_str() {
            CLUSTER_ROLE => self.cluster_roles.0.get(&reference.name),
            ROLE => self.namespaced.and_then(|(roles, _)| roles.0.get(&reference.name)),
            _ => return Err(MissingRole::UnknownKind(reference.kind.clone())),
        };
        found.cloned().ok_or_else(|| MissingRole::NotFound(reference.clone()))
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::{json, object};

    use super::*;

    fn roles(of: &[&str]) -> RoleIndex {
        of.iter()
            .map(|name| Arc::new(Role::compile(&object! { "metadata": object! { "name": *name } })))
            .collect()
    }

    fn binding(text: &str) -> Arc<RoleBinding> {
        Arc::new(RoleBinding::compile(&json::parse(text.as_bytes()).unwrap()))
    }

    fn user(name: &str, groups: &[&str]) -> User {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        User { name: name.to_owned(), groups, ..User::default() }
    }

    #[test]
    fn users_are_found_by_name_group_and_account() {
        let cluster: BindingIndex = [
            binding(
                r#"{"metadata":{"name":"b"},"roleRef":{"kind":"ClusterRole","name":"edit"},"subjects":[
                    {"kind":"Group","name":"dev"},{"kind":"User","name":"jane"},{"kind":"ServiceAccount","name":"nowhere"}]}"#,
            ),
            binding(
                r#"{"metadata":{"name":"a"},"roleRef":{"kind":"ClusterRole","name":"gone"},"subjects":[
                    {"kind":"ServiceAccount","name":"builder","namespace":"ci"},{"kind":"Group","name":"dev"}]}"#,
            ),
            binding(
                r#"{"metadata":{"name":"c"},"roleRef":{"kind":"Role","name":"local"},"subjects":[{"kind":"User","name":"rob"}]}"#,
            ),
        ]
        .into_iter()
        .collect();
        let here: BindingIndex = [binding(
            r#"{"metadata":{"name":"z","namespace":"ci"},"roleRef":{"kind":"Role","name":"local"},"subjects":[
                {"kind":"ServiceAccount","name":"builder"},{"kind":"ServiceAccount","name":"builder"}]}"#,
        )]
        .into_iter()
        .collect();
        let (cluster_roles, local) = (roles(&["edit"]), roles(&["local"]));
        let scope = RoleScope {
            cluster_roles: &cluster_roles,
            cluster_bindings: &cluster,
            namespaced: Some((&local, &here)),
        };
        let of = |user: &User| {
            let grants = scope.grants(user);
            assert!(grants.len() <= scope.count(user));
            let line = |grant: Grant| match grant.role {
                Ok(role) => format!("{}: {}", role.name, grant.permission),
                Err(why) => why.to_string(),
            };
            grants.into_iter().map(line).collect::<Vec<_>>()
        };
        // Both subjects of the binding fit; the first one is given.
        assert_eq!(
            of(&user("jane", &["dev"])),
            [
                r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#,
                r#"edit: RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "edit" to Group "dev""#,
            ]
        );
        assert_eq!(
            of(&user("system:serviceaccount:ci:builder", &[])),
            [
                r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#,
                r#"local: RBAC: allowed by RoleBinding "z/ci" of Role "local" to ServiceAccount "builder/ci""#,
            ]
        );
        assert_eq!(of(&user("rob", &[])), [r#"role.rbac.authorization.k8s.io "local" not found"#]);
        assert!(of(&user("dev", &["jane", "builder"])).is_empty(), "a group's name is no user's");
        assert!(of(&user("system:serviceaccount::nowhere", &[])).is_empty());
        let unknown = RoleRef { kind: "Crown".to_owned(), name: "x".to_owned() };
        assert_eq!(
            scope.role(&unknown).unwrap_err().to_string(),
            r#"unsupported role reference kind: "Crown""#
        );
    }
}

//! Users and the roles that they are bound to: indexes of roles by their names, and of bindings by their subjects
//! (`pkg/registry/rbac/validation/rule.go`, 1.37: there, all bindings are walked for each request).

use std::collections::{HashMap, HashSet};
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
    /// The bytes of those.
    pub bytes: usize,
}

impl Role {
    /// One of these rules.
    #[must_use]
    pub fn new(name: String, rules: Vec<PolicyRule>) -> Self {
        let lists = |rule: &'_ PolicyRule| -> [(usize, usize); 5] {
            let PolicyRule { verbs, api_groups, resources, resource_names, non_resource_urls } = rule;
            let sizes = |texts: &Vec<String>| (texts.len(), texts.iter().map(String::len).sum());
            [verbs, api_groups, resources, resource_names, non_resource_urls].map(sizes)
        };
        let (mut texts, mut bytes) = (rules.len(), 0);
        for (count, size) in rules.iter().flat_map(lists) {
            texts += count;
            bytes += size;
        }
        Self { name, texts, bytes, rules }
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
    /// Empty for one of the whole cluster.
    namespace: String,
    role: RoleRef,
    /// Each key once.
    subjects: Vec<(Arc<str>, SubjectKind)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubjectKind {
    User,
    Group,
    ServiceAccount,
}

/// The name of a service account as a user, but for its namespace and its name.
const ACCOUNT: &str = "system:serviceaccount:";

impl RoleBinding {
    /// That of an object of either kind.
    #[must_use]
    pub fn compile(object: &Value) -> Self {
        let metadata = part(object, "metadata");
        let (name, namespace) = (text(metadata, "name").to_owned(), text(metadata, "namespace").to_owned());
        let (mut subjects, mut seen) = (Vec::new(), HashSet::new());
        for subject in items(object, "subjects") {
            let Some((key, kind)) = key_of(subject, &namespace) else { continue };
            let key: Arc<str> = key.into();
            if seen.insert(Arc::clone(&key)) {
                subjects.push((key, kind));
            }
        }
        Self { name, namespace, role: RoleRef::of(object), subjects }
    }

    /// A review's words for a permission by one of its subjects (`clusterRoleBindingDescriber.String` and
    /// `roleBindingDescriber.String`, which have names before namespaces).
    fn permission(&self, place: usize) -> String {
        let Some((key, kind)) = self.subjects.get(place) else { return String::new() };
        let (subject, named) = match kind {
            SubjectKind::User => ("User", key.get(1..).unwrap_or_default().to_owned()),
            SubjectKind::Group => ("Group", key.get(1..).unwrap_or_default().to_owned()),
            SubjectKind::ServiceAccount => {
                let account = key.get(1 + ACCOUNT.len()..).and_then(|account| account.split_once(':'));
                let (namespace, name) = account.unwrap_or_default();
                ("ServiceAccount", format!("{name}/{namespace}"))
            }
        };
        let (kind, binding) = match self.namespace.as_str() {
            "" => ("ClusterRoleBinding", self.name.clone()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let RoleRef { kind: of_role, name: role } = &self.role;
        format!(
            "RBAC: allowed by {kind} {} of {of_role} {} to {subject} {}",
            go_quote(&binding),
            go_quote(role),
            go_quote(&named)
        )
    }
}

/// The key by which a user is found (`appliesToUser`); `None` for a subject that nobody can be.
fn key_of(subject: &Value, namespace: &str) -> Option<(String, SubjectKind)> {
    let name = text(subject, "name");
    match text(subject, "kind") {
        "User" => Some((user_key(name), SubjectKind::User)),
        "Group" => Some((group_key(name), SubjectKind::Group)),
        "ServiceAccount" => {
            let own = text(subject, "namespace");
            let namespace = if own.is_empty() { namespace } else { own };
            let account = || (user_key(&format!("{ACCOUNT}{namespace}:{name}")), SubjectKind::ServiceAccount);
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

/// Roles of the cluster, or of a namespace, by their names.
#[derive(Debug, Default)]
pub struct RoleIndex(HashMap<String, Arc<Role>>);

impl FromIterator<Arc<Role>> for RoleIndex {
    fn from_iter<I: IntoIterator<Item = Arc<Role>>>(roles: I) -> Self {
        Self(roles.into_iter().map(|role| (role.name.clone(), role)).collect())
    }
}

/// A binding, and the place of one of its subjects.
type Bound = (Arc<RoleBinding>, usize);

/// Bindings of the cluster, or of a namespace, by the keys of their subjects.
#[derive(Debug, Default)]
pub struct BindingIndex(HashMap<Arc<str>, Vec<Bound>>);

impl FromIterator<Arc<RoleBinding>> for BindingIndex {
    fn from_iter<I: IntoIterator<Item = Arc<RoleBinding>>>(bindings: I) -> Self {
        let mut index: HashMap<Arc<str>, Vec<Bound>> = HashMap::new();
        for binding in bindings {
            for (place, (key, _)) in binding.subjects.iter().enumerate() {
                index.entry(Arc::clone(key)).or_default().push((Arc::clone(&binding), place));
            }
        }
        Self(index)
    }
}

impl BindingIndex {
    fn under<'a>(&'a self, user: &User) -> impl Iterator<Item = &'a Vec<Bound>> {
        let keys = once(user_key(&user.name)).chain(user.groups.iter().map(|group| group_key(group)));
        keys.filter_map(|key| self.0.get(key.as_str()))
    }

    /// The most bindings that a user can have.
    fn count(&self, user: &User) -> usize {
        self.under(user).map(Vec::len).sum()
    }

    /// Those of a user, each once and by its first subject that he is (`appliesTo`), by name.
    fn of_user(&self, user: &User) -> Vec<&Bound> {
        let mut bound: Vec<&Bound> = self.under(user).flatten().collect();
        bound.sort_by(|(one, place), (other, later)| (&one.name, place).cmp(&(&other.name, later)));
        bound.dedup_by(|(one, _), (other, _)| Arc::ptr_eq(one, other));
        bound
    }
}

/// A binding of a user.
#[derive(Debug, Clone)]
pub struct Grant {
    binding: Arc<RoleBinding>,
    place: usize,
    /// The role that the user has by it, if that is there.
    pub role: Option<Arc<Role>>,
}

impl Grant {
    /// A review's words for a permission by it.
    #[must_use]
    pub fn permission(&self) -> String {
        self.binding.permission(self.place)
    }

    /// The reason why there is no role.
    #[must_use]
    pub fn missing(&self) -> MissingRole {
        let role = &self.binding.role;
        match role.kind.as_str() {
            ROLE | CLUSTER_ROLE => MissingRole::NotFound(role.clone()),
            kind => MissingRole::UnknownKind(kind.to_owned()),
        }
    }
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
        let grant = |(binding, place): &Bound, is_namespaced: bool| {
            // A binding of the cluster has no namespace to look for a Role in.
            let is_there = is_namespaced || binding.role.kind != ROLE;
            let role = is_there.then(|| self.found(&binding.role)).flatten();
            Grant { binding: Arc::clone(binding), place: *place, role: role.cloned() }
        };
        let everywhere = everywhere.map(|bound| grant(bound, false));
        everywhere.chain(here.into_iter().map(|bound| grant(bound, true))).collect()
    }

    /// The role that a binding of this scope refers to (`GetRoleReferenceRules`).
    ///
    /// # Errors
    /// See [`MissingRole`].
    pub fn role(&self, reference: &RoleRef) -> Result<Arc<Role>, MissingRole> {
        if !matches!(reference.kind.as_str(), ROLE | CLUSTER_ROLE) {
            return Err(MissingRole::UnknownKind(reference.kind.clone()));
        }
        self.found(reference).cloned().ok_or_else(|| MissingRole::NotFound(reference.clone()))
    }

    fn found(&self, reference: &RoleRef) -> Option<&Arc<Role>> {
        match reference.kind.as_str() {
            CLUSTER_ROLE => self.cluster_roles.0.get(&reference.name),
            ROLE => self.namespaced.and_then(|(roles, _)| roles.0.get(&reference.name)),
            _ => None,
        }
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
            let line = |grant: Grant| match &grant.role {
                Some(role) => format!("{}: {}", role.name, grant.permission()),
                None => grant.missing().to_string(),
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

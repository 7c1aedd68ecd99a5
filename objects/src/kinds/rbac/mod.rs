//! Role, ClusterRole, RoleBinding and ClusterRoleBinding, `rbac.authorization.k8s.io/v1`. With
//! `--authorization-mode=RBAC` they decide what users may do (`crate::rbac`).
//!
//! Sources: `pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/strategy.go`, `pkg/apis/rbac/validation`,
//! `pkg/apis/rbac/v1/defaults.go`, `pkg/printers/internalversion` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::ErrorList;
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::fields::{items, text};
use crate::kinds::{AGE, metadata_update};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

mod rules;

const GROUP: &str = "rbac.authorization.k8s.io";
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

static ROLE: Declared = Declared::catalogued(API_VERSION, "Role");
static CLUSTER_ROLE: Declared = Declared::catalogued(API_VERSION, "ClusterRole");
static ROLE_BINDING: Declared = Declared::catalogued(API_VERSION, "RoleBinding");
static CLUSTER_ROLE_BINDING: Declared = Declared::catalogued(API_VERSION, "ClusterRoleBinding");

/// The rules of one of the four kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rbac {
    scope: Scope,
    is_binding: bool,
}

/// The four types.
pub(super) fn rbac() -> [TypeSpec; 4] {
    let spec = |plural: &str, kind: &str, scope, is_binding| {
        let columns = if is_binding {
            let description = "roleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, \
                               the Authorizer must return an error.";
            let of_role = "roleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the \
                           RoleRef cannot be resolved, the Authorizer must return an error.";
            let is_namespaced = scope == Scope::Namespaced;
            let binding = if is_namespaced { "roleBinding" } else { "clusterRoleBinding" };
            let (users, groups) = (format!("Users in the {binding}"), format!("Groups in the {binding}"));
            let accounts = format!("ServiceAccounts in the {binding}");
            Columns::printed(&[
                (
                    "Role",
                    if is_namespaced { of_role } else { description },
                    ".roleRef",
                    Printed::Computed(role),
                ),
                AGE,
                ("Users", &users, ".subjects", Printed::Wide(users_of)),
                ("Groups", &groups, ".subjects", Printed::Wide(groups_of)),
                ("ServiceAccounts", &accounts, ".subjects", Printed::Wide(accounts_of)),
            ])
        } else {
            Columns::printed(&[("Created At", "", ".metadata.creationTimestamp", Printed::Date)])
        };
        let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
        let names = Names::of_kind(plural, kind);
        TypeSpec::built_in(GROUP, names, scope, versions, Arc::new(Rbac { scope, is_binding }))
    };
    [
        spec("clusterrolebindings", "ClusterRoleBinding", Scope::Cluster, true),
        spec("clusterroles", "ClusterRole", Scope::Cluster, false),
        spec("rolebindings", "RoleBinding", Scope::Namespaced, true),
        spec("roles", "Role", Scope::Namespaced, false),
    ]
}

fn role(binding: &Value) -> Value {
    let reference = binding.get("roleRef").unwrap_or(&Value::Null);
    format!("{}/{}", text(reference, "kind"), text(reference, "name")).into()
}

/// The subjects of a kind (`SubjectsStrings`).
fn subjects(binding: &Value, kind: &str, name: impl Fn(&Value) -> String) -> Value {
    let of_kind = items(binding, "subjects").iter().filter(|subject| text(subject, "kind") == kind);
    of_kind.map(name).collect::<Vec<_>>().join(", ").into()
}

fn users_of(binding: &Value) -> Value {
    subjects(binding, "User", |subject| text(subject, "name").to_owned())
}

fn groups_of(binding: &Value) -> Value {
    subjects(binding, "Group", |subject| text(subject, "name").to_owned())
}

fn accounts_of(binding: &Value) -> Value {
    let name = |subject: &Value| format!("{}/{}", text(subject, "namespace"), text(subject, "name"));
    subjects(binding, "ServiceAccount", name)
}

impl Strategy for Rbac {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(match (self.scope, self.is_binding) {
            (Scope::Namespaced, false) => &ROLE,
            (Scope::Namespaced, true) => &ROLE_BINDING,
            (Scope::Cluster, false) => &CLUSTER_ROLE,
            (Scope::Cluster, true) => &CLUSTER_ROLE_BINDING,
        })
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn fill_defaults(&self, object: &mut Value) {
        if self.is_binding {
            rules::fill_defaults(object);
        }
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        rules::validate(object, self.scope == Scope::Namespaced, self.is_binding)
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = rules::validate(object, self.scope == Scope::Namespaced, self.is_binding);
        errors.extend(metadata_update(object, old));
        if self.is_binding {
            errors.extend(rules::validate_reference_update(object, old));
        }
        errors
    }
}

//! Nobody gives more by roles and bindings than he has himself (`pkg/registry/rbac/{escalation_check.go,validation/rule.go}` and
//! `pkg/registry/rbac/*/policybased/storage.go`, 1.37).

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kindom_actor_kit::dear;
use kindom_api::field::go_quote;
use kindom_api::user::MASTERS;
use kindom_api::{Map, Value};
use kindom_objects::plan::{check_uid, set_namespace};
use kindom_objects::rbac::coverage::{PolicyRule, STEPS_MAX, compact, compact_string, missing};
use kindom_objects::rbac::{MissingRole, Role, RoleRef, aggregate};
use kindom_objects::review::Action;
use kindom_objects::{PlanError, TypeSpec};

use crate::ResourceHandle;
use crate::admission::AskedAdmission;
use crate::cost;
use crate::driver::{Attempt, Desired};
use crate::error::WriteError;
use crate::permissions::Permissions;
use crate::request::{Target, WriteOptions};

const GROUP: &str = "rbac.authorization.k8s.io";
/// Nanoseconds for each comparison of a rule with another.
const COMPARED: u64 = 30;

/// A kind whose objects give permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Giving {
    Role,
    Binding,
}

fn giving(spec: &TypeSpec) -> Option<Giving> {
    if !spec.is_typed() || spec.group != GROUP {
        return None;
    }
    match spec.names.plural.as_str() {
        "roles" | "clusterroles" => Some(Giving::Role),
        "rolebindings" | "clusterrolebindings" => Some(Giving::Binding),
        _ => None,
    }
}

impl ResourceHandle {
    /// Refuses a role or a binding that would give more than its author has; `None` for all other writes.
    ///
    /// Boxed: the future of every write would have room for it.
    pub(crate) fn escalation_asked<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        target: &'a Target<'a>,
        desired: &'a Desired<'a>,
        options: &'a WriteOptions,
    ) -> Option<BoxFuture<'a, Result<(), WriteError>>> {
        let asked = options.admission.as_ref()?;
        let permissions = asked.admission.configurations().permissions.as_ref()?;
        let giving = giving(&attempt.rules.spec)?;
        let (new, old) = match desired {
            Desired::Create(new) => (&new.object, None),
            Desired::Update { object, live, .. } => (object, Some(&live.old)),
            Desired::Delete(_) | Desired::DeleteCorrupt => return None,
        };
        if options.user.is_in(MASTERS) {
            return None;
        }
        let spec = &attempt.rules.spec;
        let old_bytes = attempt.current.map_or(0, |current| current.json().len());
        let author = Author { spec, target, asked, permissions, options, new, old, old_bytes };
        let asking = async move {
            // A namespace that takes nothing new is told before.
            if let Desired::Create(new) = desired {
                self.open_for_create(attempt.rules, target, new, options).await?;
            }
            author.check_identity(attempt)?;
            author.may_give(giving).await
        };
        Some(asking.boxed())
    }
}

/// The author of a role or a binding.
struct Author<'a> {
    spec: &'a TypeSpec,
    target: &'a Target<'a>,
    asked: &'a AskedAdmission,
    permissions: &'a Permissions,
    options: &'a WriteOptions,
    new: &'a Value,
    old: Option<&'a Value>,
    /// Of the stored object.
    old_bytes: usize,
}

impl Author<'_> {
    async fn may_give(self, giving: Giving) -> Result<(), WriteError> {
        // Walking through what a client has sent.
        let old_bytes = self.old_bytes.saturating_add(self.options.bytes);
        dear(cost::parse(old_bytes)).await?;
        let is_left = self.old.is_some_and(|old| only_garbage_fields_differ(self.new, old));
        match giving {
            Giving::Role => {
                let (resource, name) = (&self.spec.names.plural, self.target.name);
                if is_left || self.may("escalate", resource, name).await? {
                    return Ok(());
                }
                self.has_all(&PolicyRule::list(self.new)).await?;
                if has_aggregation(self.new) || self.old.is_some_and(has_aggregation) {
                    let message = "must have cluster-admin privileges to use the aggregationRule";
                    return self.has_all(&everything()).await.map_err(|why| match why {
                        WriteError::Plan(PlanError::Forbidden { .. }) => self.refused(message.to_owned()),
                        why => why,
                    });
                }
                Ok(())
            }
            Giving::Binding => {
                if is_left {
                    return Ok(());
                }
                let of = RoleRef::of(self.new);
                let resource = match of.kind.as_str() {
                    "ClusterRole" => Some("clusterroles"),
                    "Role" => Some("roles"),
                    _ => None,
                };
                if let Some(resource) = resource
                    && self.may("bind", resource, &of.name).await?
                {
                    return Ok(());
                }
                let role = self.role(&of).await?;
                self.has_all(&role.rules).await
            }
        }
    }

    /// What upstream's handlers see to before its storage does.
    fn check_identity(&self, attempt: &Attempt<'_>) -> Result<(), WriteError> {
        let mut metadata = self.new.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        set_namespace(&mut metadata, self.target.namespace)?;
        let Some(old) = self.old else { return Ok(()) };
        let (meant, uid) = (self.new.text_at(&["metadata", "uid"]), old.text_at(&["metadata", "uid"]));
        if meant.is_empty() {
            return Ok(());
        }
        Ok(check_uid(attempt.cx, self.target.namespace, self.target.name, meant, uid)?)
    }

    fn namespace(&self) -> &str {
        self.target.namespace.unwrap_or_default()
    }

    async fn may(&self, verb: &str, resource: &str, name: &str) -> Result<bool, WriteError> {
        let action = Action::on([verb, GROUP, resource, ""], self.namespace(), name);
        let access = Arc::clone(&self.asked.access).decide(Arc::clone(&self.options.user), action).await;
        match access.error.is_empty() {
            true => Ok(access.allowed),
            false => Err(WriteError::Unavailable(access.error)),
        }
    }

    async fn role(&self, of: &RoleRef) -> Result<Arc<Role>, WriteError> {
        let missing = |what: &str| PlanError::BadRequest(format!("{what} parameter required."));
        if of.kind == "Role" && self.namespace().is_empty() {
            return Err(missing("Namespace").into());
        }
        if of.name.is_empty() && matches!(of.kind.as_str(), "Role" | "ClusterRole") {
            return Err(missing("Name").into());
        }
        let found = self.permissions.role(of, self.namespace(), self.options.deadline).await?;
        found.map_err(|why| match why {
            // The error names the resource of the request.
            MissingRole::NotFound(RoleRef { name, .. }) => PlanError::NotFound { name }.into(),
            why @ MissingRole::UnknownKind(_) => PlanError::Internal(why.to_string()).into(),
        })
    }

    /// `ConfirmNoEscalation`
    async fn has_all(&self, given: &[PolicyRule]) -> Result<(), WriteError> {
        let user = &self.options.user;
        let (own, unresolved) = self.permissions.roles(user, self.namespace(), self.options.deadline).await?;
        let texts: usize = own.iter().map(|role| role.texts).sum();
        dear(cost::each(COMPARED, texts.saturating_add(permissions_of(given).min(STEPS_MAX)))).await?;
        let missing = missing(own.iter().flat_map(|role| &role.rules), given)
            .map_err(|why| self.refused(why.to_string()))?;
        if missing.is_empty() {
            return Ok(());
        }
        let lines: BTreeSet<String> = compact(missing).iter().map(compact_string).collect();
        let groups: Vec<String> = user.groups.iter().map(|group| go_quote(group)).collect();
        let mut message = format!(
            "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            go_quote(&user.name),
            groups.join(" "),
            lines.into_iter().collect::<Vec<_>>().join("\n")
        );
        if !unresolved.is_empty() {
            let text = |why: &MissingRole| match why {
                // As above.
                MissingRole::NotFound(of) => {
                    format!("{}.{GROUP} {} not found", self.spec.names.plural, go_quote(&of.name))
                }
                why @ MissingRole::UnknownKind(_) => why.to_string(),
            };
            message.push_str(&format!("; resolution errors: [{}]", aggregate(unresolved.iter().map(text))));
        }
        Err(self.refused(message))
    }

    fn refused(&self, message: String) -> WriteError {
        let name = self.new.text_at(&["metadata", "name"]).to_owned();
        PlanError::Forbidden { name, message }.into()
    }
}

/// The number of single permissions in rules, at most.
fn permissions_of(rules: &[PolicyRule]) -> usize {
    let of_rule = |rule: &PolicyRule| {
        let resources = [&rule.api_groups, &rule.resources, &rule.verbs].map(Vec::len);
        let names = rule.resource_names.len().max(1);
        let product = resources.into_iter().fold(names, usize::saturating_mul);
        product.saturating_add(rule.non_resource_urls.len().saturating_mul(rule.verbs.len()))
    };
    rules.iter().map(of_rule).fold(0, usize::saturating_add)
}

fn has_aggregation(role: &Value) -> bool {
    let selectors = role.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
    selectors.and_then(Value::as_array).is_some_and(|selectors| !selectors.is_empty())
}

/// `fullAuthority`
fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() },
    ]
}

/// `true` if an update leaves everything as it is but what the garbage collector changes (`IsOnlyMutatingGCFields`).
fn only_garbage_fields_differ(new: &Value, old: &Value) -> bool {
    // A namespace that is left out is the request's.
    const LEFT: [&str; 5] = ["ownerReferences", "finalizers", "selfLink", "managedFields", "namespace"];
    fn counted(object: &Value, counts: fn(&str) -> bool) -> impl Iterator<Item = (&str, &Value)> {
        object.as_object().into_iter().flat_map(Map::iter).filter(move |(key, _)| counts(key))
    }
    let is_same = |new: &Value, old: &Value, counts: fn(&str) -> bool| {
        counted(new, counts).count() == counted(old, counts).count()
            && counted(new, counts).all(|(key, value)| old.get(key) == Some(value))
    };
    let metadata = |object| Value::get(object, "metadata").unwrap_or(&Value::Null);
    is_same(new, old, |key| key != "metadata")
        && is_same(metadata(new), metadata(old), |key| !LEFT.contains(&key))
}

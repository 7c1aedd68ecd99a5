//! The loop that gives the server the roles and bindings which everybody relies on, once each time that it starts. What a user
//! takes away later stays away until the next start.
//!
//! **Flow.** Roles that users made before cluster roles were aggregated are copied first, as is the binding of which a second was
//! split off. Then each object is read, and made or changed if it lacks something ([`reconciled`]), many at a time so that they
//! share commits.
//!
//! **Guarantees.** Each step is planned on the object as it is stored then, so replicas may take them at the same time.
//!
//! **Errors.** After a failure of the store everything is looked at again. An object that cannot be put right, because the one of
//! its name leaves no room or is damaged or ends, is logged and left: nobody may keep the server from getting ready by writing
//! one.
//!
//! Sources: `pkg/registry/rbac/rest/storage_rbac.go` (1.37), component-helpers `auth/rbac/reconciliation` (0.37).

use std::fmt::Display;
use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use kindom_actor_kit::{BoxError, Deadline, Policy, Reconciler, StartError, latest};
use kindom_api::{Map, Value, json, object};
use kindom_objects::{PlanError, Removal, RuleContext, TypeSpec};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Freshness, ResourceHandle, WriteError};

use super::reconciled::{Reconciled, aggregation, is_protected, items, reconciled};
use super::types::{RoleTypes, place};
use crate::attempt::{STEP, pause};
use crate::error::ReconcileError;

/// The objects, as `integration/kube-apiserver/roles` prints them.
const DEFAULTS: &str = include_str!("defaults.json");

/// So many objects are read and written at once.
const AT_ONCE: usize = 16;

/// The looks at one object that changes meanwhile, before others come first.
const LOOKS: u32 = 4;

/// The loop, and its progress.
#[derive(Debug)]
pub struct DefaultRoles {
    /// The loop.
    pub reconciler: Reconciler,
    /// Becomes true when every role and binding has been reconciled once, and stays so
    /// (`/readyz/poststarthook/rbac/bootstrap-roles`).
    pub are_made: latest::Receiver<bool>,
}

/// Starts the loop, as the actor `default-roles`. Each replica runs its own.
///
/// # Errors
/// [`StartError`]
pub fn start(registry: &RegistryHandle, types: &RoleTypes) -> Result<DefaultRoles, StartError> {
    let deps = registry.deps();
    let sender = Arc::new(latest::Sender::new(false));
    let are_made = sender.subscribe();
    let bootstrap = Bootstrap { registry: registry.clone(), types: types.clone(), are_made: sender };
    let arbiter = deps.arbiters.place("default-roles");
    let run = move |_| bootstrap.clone().run();
    let reconciler =
        deps.supervisor.reconcile("default-roles", &arbiter, Policy::default(), registry.changes(), run)?;
    Ok(DefaultRoles { reconciler, are_made })
}

#[derive(Clone)]
struct Bootstrap {
    registry: RegistryHandle,
    types: RoleTypes,
    are_made: Arc<latest::Sender<bool>>,
}

/// The end of one step.
enum Stepped {
    Done,
    /// Somebody else was faster: the object has to be looked at again.
    Late,
    /// It would fail the next time as well, for this reason.
    Hopeless(String),
}

impl Stepped {
    fn hopeless(why: &dyn Display) -> Self {
        Self::Hopeless(why.to_string())
    }

    /// A step before the last one.
    fn and_look(self) -> Self {
        match self {
            Self::Done => Self::Late,
            other => other,
        }
    }
}

impl Bootstrap {
    async fn run(self) -> BoxError {
        if let Err(error) = self.until_made().await {
            return error;
        }
        self.are_made.send_replace(true);
        std::future::pending().await
    }

    async fn until_made(&self) -> Result<(), BoxError> {
        let defaults = json::parse_own(DEFAULTS.as_bytes())?;
        let mut failures = 0;
        while let Err(error) = self.make(&defaults).await {
            failures += 1;
            tracing::warn!(%error, failures, "the default roles could not be made; trying again");
            pause(&self.registry, failures).await;
        }
        Ok(())
    }

    async fn make(&self, defaults: &Value) -> Result<(), ReconcileError> {
        let types = &self.types;
        // With a store that does not answer, this fails once, and not once for each object.
        types.kinds.cluster_roles.snapshot(Freshness::Latest, Deadline::after(STEP)).await?;
        self.copy_aggregated(defaults).await?;
        self.split_bindings(defaults).await?;
        let all = [
            (&types.kinds.cluster_roles, "clusterRoles"),
            (&types.kinds.cluster_bindings, "clusterRoleBindings"),
            (&types.kinds.roles, "roles"),
            (&types.kinds.bindings, "roleBindings"),
        ];
        let all = all.into_iter().flat_map(|(handle, field)| {
            items(defaults, field).iter().map(move |expected| self.reconcile(handle, expected))
        });
        // One that fails holds up no others.
        let outcomes: Vec<_> = stream::iter(all).buffer_unordered(AT_ONCE).collect().await;
        outcomes.into_iter().collect()
    }

    /// Makes an object, or adds what it lacks (`ReconcileRoleOptions.Run`, `ReconcileRoleBindingOptions.Run`).
    async fn reconcile(&self, handle: &ResourceHandle, expected: &Value) -> Result<(), ReconcileError> {
        let (namespace, name) = names(expected);
        let key = TypeSpec::object_key(namespace, name);
        for _ in 0..LOOKS {
            match self.step(handle, &key, expected).await? {
                Stepped::Done => return Ok(()),
                Stepped::Late => {}
                Stepped::Hopeless(why) => {
                    log(handle, &key, &why);
                    return Ok(());
                }
            }
        }
        Err(ReconcileError::Restless(key))
    }

    /// Looks at an object, and takes the step that it needs.
    async fn step(
        &self,
        handle: &ResourceHandle,
        key: &str,
        expected: &Value,
    ) -> Result<Stepped, ReconcileError> {
        let Some(found) = handle.get(key, Deadline::after(STEP)).await? else {
            return self.create(handle, expected).await;
        };
        let stored = match (found.corrupt(), json::parse_own(found.json())) {
            (None, Ok(stored)) => stored,
            (why, _) => return Ok(Stepped::hopeless(&why.unwrap_or("it cannot be read"))),
        };
        match reconciled(&stored, expected) {
            Ok(Reconciled::Same) => Ok(Stepped::Done),
            Ok(_) if is_protected(&stored) => {
                Ok(Stepped::hopeless(&"an annotation protects it, and it lacks something"))
            }
            Ok(Reconciled::Changed(_)) => self.update(handle, expected).await,
            Ok(Reconciled::Replaced) if found.deleting() => {
                Ok(Stepped::hopeless(&"it is bound to another role, and its finalizers hold it"))
            }
            Ok(Reconciled::Replaced) => {
                let (namespace, name) = names(expected);
                let removal = Removal { uid: Some(found.uid().to_owned()), ..Removal::default() };
                let deleted = handle.delete(place(namespace, name), &removal, &self.types.options()).await;
                Ok(stepped(deleted.map(drop))?.and_look())
            }
            Err(error) => Ok(Stepped::hopeless(&error)),
        }
    }

    async fn create(&self, handle: &ResourceHandle, object: &Value) -> Result<Stepped, ReconcileError> {
        let (namespace, _) = names(object);
        let created = create(handle, namespace, object, &self.types).await;
        if let Err(WriteError::Plan(PlanError::NamespaceNotFound { name })) = &created {
            // `tryEnsureNamespace`
            let namespace = object! {
                "apiVersion": "v1", "kind": "Namespace", "metadata": object! { "name": name.as_str() },
            };
            let made = create(&self.types.namespaces, None, &namespace, &self.types).await;
            return Ok(stepped(made)?.and_look());
        }
        stepped(created)
    }

    /// Adds what the object lacks as it is stored by then.
    async fn update(&self, handle: &ResourceHandle, expected: &Value) -> Result<Stepped, ReconcileError> {
        let (namespace, name) = names(expected);
        let mut is_late = false;
        let mut wanted = |cx: &RuleContext<'_>, stored: &Value| {
            let change = reconciled(stored, expected);
            is_late = matches!(change, Ok(Reconciled::Replaced));
            let mut object = match change {
                Ok(Reconciled::Changed(object)) if !is_protected(stored) => object,
                _ => stored.clone(),
            };
            cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::Internal)?;
            Ok(object)
        };
        let updated = handle.update(place(namespace, name), true, &mut wanted, &self.types.options()).await;
        let stepped = stepped(updated.map(drop))?;
        Ok(if is_late { stepped.and_look() } else { stepped })
    }

    /// Keeps rules that users gave to a role whose rules will be those of others from now on (`primeAggregatedClusterRoles`).
    async fn copy_aggregated(&self, defaults: &Value) -> Result<(), ReconcileError> {
        let handle = &self.types.kinds.cluster_roles;
        for (from, to) in pairs(defaults, "clusterRolesToAggregate") {
            let Some(source) = self.source(handle, from, to).await? else { continue };
            if aggregation(&source).is_some() {
                continue;
            }
            let mut role = object! {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": copied_metadata(&source, to),
            };
            copy(&source, &["rules"], &mut role);
            self.create_copy(handle, &role).await?;
        }
        Ok(())
    }

    /// Gives a binding that was split off another one the subjects of that (`primeSplitClusterRoleBindings`).
    async fn split_bindings(&self, defaults: &Value) -> Result<(), ReconcileError> {
        let handle = &self.types.kinds.cluster_bindings;
        for (from, to) in pairs(defaults, "clusterRoleBindingsToSplit") {
            let expected = items(defaults, "clusterRoleBindings");
            let Some(expected) = expected.iter().find(|binding| names(binding).1 == to) else { continue };
            let Some(source) = self.source(handle, from, to).await? else { continue };
            let mut binding = expected.clone();
            if let Some(binding) = binding.as_object_mut() {
                binding.remove("subjects");
                binding.insert("metadata", copied_metadata(&source, to));
            }
            copy(&source, &["subjects"], &mut binding);
            self.create_copy(handle, &binding).await?;
        }
        Ok(())
    }

    /// The object to copy, if it is there and its copy is not.
    async fn source(
        &self,
        handle: &ResourceHandle,
        from: &str,
        to: &str,
    ) -> Result<Option<Value>, ReconcileError> {
        if handle.get(to, Deadline::after(STEP)).await?.is_some() {
            return Ok(None);
        }
        let found = handle.get(from, Deadline::after(STEP)).await?;
        let found = found.filter(|found| found.corrupt().is_none());
        Ok(found.and_then(|found| json::parse_own(found.json()).ok()))
    }

    async fn create_copy(&self, handle: &ResourceHandle, copy: &Value) -> Result<(), ReconcileError> {
        if let Stepped::Hopeless(why) = self.create(handle, copy).await? {
            log(handle, names(copy).1, &why);
        }
        Ok(())
    }
}

async fn create(
    handle: &ResourceHandle,
    namespace: Option<&str>,
    object: &Value,
    types: &RoleTypes,
) -> Result<(), WriteError> {
    let mut wanted = |cx: &RuleContext<'_>, _: &Value| {
        let mut object = object.clone();
        cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::Internal)?;
        Ok(object)
    };
    handle.create(place(namespace, ""), &mut wanted, &types.options()).await.map(drop)
}

/// The namespace and the name of an object.
fn names(object: &Value) -> (Option<&str>, &str) {
    let namespace = object.text_at(&["metadata", "namespace"]);
    ((!namespace.is_empty()).then_some(namespace), object.text_at(&["metadata", "name"]))
}

/// The old and the new name of each entry.
fn pairs<'a>(defaults: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let entries = defaults.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter);
    entries.filter_map(|(from, to)| Some((from, to.as_str()?)))
}

/// The metadata of a copy.
fn copied_metadata(source: &Value, name: &str) -> Value {
    let mut metadata = object! { "name": name };
    for field in ["labels", "annotations"] {
        copy(source, &["metadata", field], &mut metadata);
    }
    metadata
}

/// Copies a field under its own name.
fn copy(from: &Value, path: &[&str], to: &mut Value) {
    if let (Some(value), Some(field), Some(to)) = (from.at(path), path.last(), to.as_object_mut()) {
        to.insert(*field, value.clone());
    }
}

/// # Errors
/// Those that another try may not meet.
fn stepped(outcome: Result<(), WriteError>) -> Result<Stepped, ReconcileError> {
    let error = match outcome {
        Ok(()) => return Ok(Stepped::Done),
        Err(error) => error,
    };
    match &error {
        WriteError::Plan(
            PlanError::AlreadyExists { deleting: false, .. }
            | PlanError::NotFound { .. }
            | PlanError::NamespaceNotFound { .. }
            | PlanError::Conflict { .. }
            | PlanError::Precondition { .. },
        ) => Ok(Stepped::Late),
        WriteError::Plan(PlanError::Internal(_)) => Err(error.into()),
        WriteError::Plan(_) | WriteError::RequestTooLarge(_) => Ok(Stepped::hopeless(&error)),
        _ => Err(error.into()),
    }
}

/// Logs that an object stays as it is.
fn log(handle: &ResourceHandle, key: &str, why: &str) {
    let kind = handle.spec().map(|spec| spec.names.plural.clone()).unwrap_or_default();
    tracing::warn!(kind, key, why, "a default role or binding is left as it is");
}

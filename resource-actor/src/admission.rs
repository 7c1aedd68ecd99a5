//! The admission that is configured, and what a request says about its writes to it. [`crate::admitting`] asks webhooks and has
//! policies judge.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;
use kindom_actor_kit::{Deadline, back, dear};
use kindom_api::{GroupVersionKind, User, Value, json};
use kindom_objects::admission::{Binding, Hook, Matching, Place, Policy};
use kindom_objects::plugins::Plugins;
use kindom_objects::review::{Access, Action};
use kindom_objects::{PlanError, StoredObject, TypeSpec};
use kindom_storage::Revision;
use parking_lot::Mutex;
use tokio::time::timeout_at;

use crate::cost::{self, Cost};
use crate::error::{ReadError, WriteError};
use crate::event_limits::EventLimits;
use crate::permissions::Permissions;
use crate::{ResourceHandle, Snapshot};

/// The webhooks and policies of all configurations. Cheap to clone.
#[derive(Clone)]
pub struct Admission(Arc<Configurations>);

/// Finds the type of a kind in a version, if it is served.
pub type FindKind = dyn Fn(&GroupVersionKind) -> Option<ResourceHandle> + Send + Sync;

/// The admission plugins of a server that need no configuration in its store. Cheap to clone.
#[derive(Clone)]
pub struct OwnPlugins {
    /// Those that are on.
    pub on: Plugins,
    /// Finds the types of what they look at.
    pub find_kind: Arc<FindKind>,
    /// The rates at which events may come; `None` for any.
    pub event_limits: Option<Arc<EventLimits>>,
}

/// Decides what users may do, where expressions ask.
pub trait AccessDecider: Send + Sync {
    /// The permission of a user to act.
    fn decide(self: Arc<Self>, user: Arc<User>, action: Action) -> BoxFuture<'static, Access>;
}

/// The types whose objects configure admission.
pub struct ConfiguringTypes {
    /// MutatingWebhookConfiguration.
    pub mutating: ResourceHandle,
    /// ValidatingWebhookConfiguration.
    pub validating: ResourceHandle,
    /// ValidatingAdmissionPolicy and its bindings.
    pub judging: PolicyTypes,
    /// MutatingAdmissionPolicy and its bindings.
    pub changing: PolicyTypes,
}

/// The parts of admission that are switched off.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disabled {
    /// Policies change nothing.
    pub mutating_policies: bool,
    /// Webhooks change nothing.
    pub mutating_webhooks: bool,
    /// Policies judge nothing.
    pub validating_policies: bool,
    /// Webhooks judge nothing.
    pub validating_webhooks: bool,
    /// Whoever may write an object may choose its owners.
    pub owner_permissions: bool,
    /// Whoever may write the approval of a CertificateSigningRequest may approve it.
    pub certificate_approval: bool,
    /// Whoever may write the status of a CertificateSigningRequest may sign it.
    pub certificate_signing: bool,
}

/// The steps of a CertificateSigningRequest that need a permission for its signer.
pub(crate) struct GuardedSigners {
    pub(crate) approval: bool,
    pub(crate) signing: bool,
}

/// A kind of policies and that of their bindings.
pub struct PolicyTypes {
    /// The policies.
    pub policies: ResourceHandle,
    /// Their bindings.
    pub bindings: ResourceHandle,
}

pub(crate) struct Configurations {
    pub(crate) mutating: Configured<Vec<Hook>>,
    pub(crate) validating: Configured<Vec<Hook>>,
    pub(crate) judging: ConfiguredPolicies,
    pub(crate) changing: ConfiguredPolicies,
    /// The types that show what another type stores.
    pub(crate) faces: Vec<Arc<TypeSpec>>,
    pub(crate) find_kind: Arc<FindKind>,
    /// Not everybody may choose the owners of what he writes.
    pub(crate) guards_owners: bool,
    /// Not everybody may have certificates signed.
    pub(crate) guarded_signers: GuardedSigners,
    /// Nobody may give others permissions that he has not got.
    pub(crate) permissions: Option<Permissions>,
}

/// A form into which the objects of a configuring type are compiled.
pub(crate) trait Compile {
    /// That of an object.
    fn compile(tree: &Value) -> Self;

    /// The number of things in it that every write looks at.
    fn count(&self) -> usize {
        1
    }

    /// The policy that it binds; empty for none.
    fn policy(&self) -> &str {
        ""
    }
}

impl Compile for Vec<Hook> {
    fn compile(tree: &Value) -> Self {
        Hook::of_configuration(tree)
    }

    fn count(&self) -> usize {
        self.len()
    }
}

/// A policy, and the cost of evaluating it.
pub(crate) struct CostedPolicy {
    pub(crate) policy: Policy,
    pub(crate) cost: Cost,
}

impl Compile for CostedPolicy {
    fn compile(tree: &Value) -> Self {
        Self { policy: Policy::of(tree), cost: Cost::of_expressions() }
    }
}

impl Compile for Binding {
    fn compile(tree: &Value) -> Self {
        Self::of(tree)
    }

    fn policy(&self) -> &str {
        &self.policy
    }
}

/// The objects of a configuring type.
pub(crate) struct Configured<T> {
    handle: ResourceHandle,
    /// They have no effect.
    is_off: bool,
    compiled: ArcSwapOption<Compiled<T>>,
    /// Held by the one write that compiles for all.
    compiling: tokio::sync::Mutex<()>,
}

/// All of them, as of a revision.
pub(crate) struct Compiled<T> {
    revision: Revision,
    /// By name.
    all: Vec<Arc<CompiledObject<T>>>,
    /// The places of those that bind a policy.
    by_policy: HashMap<String, Vec<usize>>,
    /// The cost of looking at what each of them is about.
    cost: Duration,
}

/// An object at a revision of its own.
struct CompiledObject<T> {
    object: Arc<StoredObject>,
    form: T,
}

/// Policies and their bindings.
pub(crate) struct BoundPolicies {
    pub(crate) policies: Arc<Compiled<CostedPolicy>>,
    pub(crate) bindings: Arc<Compiled<Binding>>,
}

impl BoundPolicies {
    /// The cost of looking at what each of them is about.
    pub(crate) fn cost(&self) -> Duration {
        self.policies.cost() + self.bindings.cost()
    }

    /// Returns true if the namespace of a write is needed for some of these policies.
    pub(crate) fn need_namespace(&self, policies: &[(&CostedPolicy, &Place)]) -> bool {
        let by_binding = |of: &Binding| of.matching.as_ref().is_some_and(Matching::selects_namespaces);
        policies.iter().any(|(CostedPolicy { policy, .. }, _)| {
            policy.names_namespace
                || policy.matching.selects_namespaces()
                || self.bindings.of_policy(&policy.name).any(by_binding)
        })
    }
}

impl Compiled<Vec<Hook>> {
    /// By the names of their configurations.
    pub(crate) fn hooks(&self) -> impl Iterator<Item = &Hook> {
        self.all().flatten()
    }
}

impl Compiled<Binding> {
    /// Those of a policy, by name.
    pub(crate) fn of_policy(&self, policy: &str) -> impl Iterator<Item = &Binding> {
        let places = self.by_policy.get(policy).into_iter().flatten();
        places.filter_map(|place| self.all.get(*place)).map(|of| &of.form)
    }
}

impl<T> Compiled<T> {
    /// By name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.all.iter().map(|of| &of.form)
    }

    /// The cost of looking at what each of them is about.
    pub(crate) fn cost(&self) -> Duration {
        self.cost
    }

    /// An object that has not changed since.
    fn same(&self, object: &StoredObject) -> Option<&Arc<CompiledObject<T>>> {
        let key = object.key();
        let at = self.all.binary_search_by(|of| of.object.key().cmp(key)).ok()?;
        self.all.get(at).filter(|of| of.object.revision() == object.revision())
    }
}

impl<T: Compile> Compiled<T> {
    fn new(revision: Revision, all: Vec<Arc<CompiledObject<T>>>) -> Self {
        let mut by_policy: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, of) in all.iter().enumerate() {
            let policy = of.form.policy();
            if !policy.is_empty() {
                by_policy.entry(policy.to_owned()).or_default().push(place);
            }
        }
        let bytes = all.iter().map(|of| of.object.json().len()).sum();
        let cost = cost::rules(all.iter().map(|of| of.form.count()).sum(), bytes);
        Self { revision, all, by_policy, cost }
    }
}

impl Admission {
    /// Webhooks and policies that are configured by objects of these types, but for those that are switched off. `faces` are all types that show what another one stores;
    /// the kinds of parameters are found among those that are served. Where roles give `permissions`, nobody gives more than he has.
    #[must_use]
    pub fn new(
        types: ConfiguringTypes,
        disabled: Disabled,
        faces: Vec<Arc<TypeSpec>>,
        find_kind: Arc<FindKind>,
        permissions: Option<Permissions>,
    ) -> Self {
        let ConfiguringTypes { mutating, validating, judging, changing } = types;
        Self(Arc::new(Configurations {
            mutating: Configured::new(mutating, disabled.mutating_webhooks),
            validating: Configured::new(validating, disabled.validating_webhooks),
            judging: ConfiguredPolicies::new(judging, disabled.validating_policies),
            changing: ConfiguredPolicies::new(changing, disabled.mutating_policies),
            faces,
            find_kind,
            guards_owners: !disabled.owner_permissions,
            guarded_signers: GuardedSigners {
                approval: !disabled.certificate_approval,
                signing: !disabled.certificate_signing,
            },
            permissions,
        }))
    }

    pub(crate) fn configurations(&self) -> &Configurations {
        &self.0
    }
}

/// Policies of a kind and their bindings.
pub(crate) struct ConfiguredPolicies {
    policies: Configured<CostedPolicy>,
    bindings: Configured<Binding>,
}

impl ConfiguredPolicies {
    fn new(types: PolicyTypes, is_off: bool) -> Self {
        let PolicyTypes { policies, bindings } = types;
        Self { policies: Configured::new(policies, is_off), bindings: Configured::new(bindings, is_off) }
    }

    /// A policy as it is stored.
    pub(crate) async fn policy(
        &self,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<Arc<StoredObject>>, ReadError> {
        self.policies.handle.get(name, deadline).await
    }

    /// The policies that are bound now; `None` if there are none.
    pub(crate) async fn bound(&self, deadline: Deadline) -> Result<Option<BoundPolicies>, WriteError> {
        let Some(bindings) = self.bindings.current(deadline).await? else { return Ok(None) };
        let policies = self.policies.current(deadline).await?;
        Ok(policies.map(|policies| BoundPolicies { policies, bindings }))
    }
}

impl<T: Compile> Configured<T> {
    fn new(handle: ResourceHandle, is_off: bool) -> Self {
        Self { handle, is_off, compiled: ArcSwapOption::empty(), compiling: tokio::sync::Mutex::default() }
    }

    /// The current configuration; `None` if there is none. Changes that another replica was told of are part of it once the store's
    /// watch has them.
    pub(crate) async fn current(&self, deadline: Deadline) -> Result<Option<Arc<Compiled<T>>>, WriteError> {
        if self.is_off {
            return Ok(None);
        }
        let (snapshot, _) = self.handle.snapshot(self.handle.own_writes()?, deadline).await?;
        if snapshot.is_empty() {
            return Ok(None);
        }
        if let Some(compiled) = self.compiled_at(snapshot.revision()) {
            return Ok(Some(compiled));
        }
        // A great many writes may have met the same change.
        back().await;
        let waiting = timeout_at(deadline.instant(), self.compiling.lock());
        let _compiling = waiting.await.map_err(|_| ReadError::Timeout)?;
        if let Some(compiled) = self.compiled_at(snapshot.revision()) {
            return Ok(Some(compiled));
        }
        let compiled = Arc::new(self.compile(&snapshot).await?);
        self.compiled.store(Some(Arc::clone(&compiled)));
        Ok(Some(compiled))
    }

    /// The configuration as of a revision, or a later one, if it has been compiled.
    fn compiled_at(&self, revision: Revision) -> Option<Arc<Compiled<T>>> {
        self.compiled.load_full().filter(|compiled| compiled.revision >= revision)
    }

    /// Compiles the objects that have changed.
    async fn compile(&self, snapshot: &Snapshot) -> Result<Compiled<T>, WriteError> {
        let before = self.compiled.load_full();
        let mut all = Vec::with_capacity(snapshot.len());
        for object in snapshot.from_key("") {
            if let Some(same) = before.as_ref().and_then(|before| before.same(object)) {
                all.push(Arc::clone(same));
                continue;
            }
            dear(cost::compile(object.json().len())).await?;
            let tree = json::parse_own(object.json());
            let tree = tree.map_err(|why| PlanError::Corrupt(format!("{}: {why}", object.key())))?;
            all.push(Arc::new(CompiledObject { object: Arc::clone(object), form: T::compile(&tree) }));
        }
        Ok(Compiled::new(snapshot.revision(), all))
    }
}

/// The admission of a request's writes.
#[derive(Clone)]
pub struct AskedAdmission {
    /// The webhooks and policies.
    pub admission: Admission,
    /// Decides what users may do.
    pub access: Arc<dyn AccessDecider>,
    /// As the client sent them.
    pub options: SentOptions,
    /// The write is one of many of a request, which names none.
    pub is_of_collection: bool,
    /// Warnings of webhooks and policies for the client, also where the write fails.
    pub warnings: Arc<Mutex<Vec<String>>>,
    /// Takes the annotations of webhooks and policies; `None` if the request is not recorded.
    pub trail: Option<Arc<dyn AuditTrail>>,
}

/// Takes the annotations of a request for the audit log.
pub trait AuditTrail: Send + Sync {
    /// Adds one. One of the same key that is there already stays as it is.
    fn annotate(&self, key: &str, value: &str);

    /// Returns true if the patches of webhooks are recorded, too.
    fn takes_patches(&self) -> bool;
}

/// The fields of a write's options, by their names.
pub type SentOptions = Vec<(&'static str, Value)>;

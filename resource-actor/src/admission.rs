//! The admission that is configured, and what a request says about its writes to it. [`crate::admitting`] asks webhooks and has
//! policies judge.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;
use kindom_actor_kit::{Deadline, dear};
use kindom_api::{GroupVersionKind, User, Value, json};
use kindom_objects::admission::{Binding, Hook, Policy};
use kindom_objects::review::{Access, Action};
use kindom_objects::{PlanError, StoredObject, TypeSpec};
use kindom_storage::Revision;
use parking_lot::Mutex;

use crate::ResourceHandle;
use crate::cost;
use crate::error::WriteError;

/// The webhooks and policies of all configurations. Cheap to clone.
#[derive(Clone)]
pub struct Admission(Arc<Configurations>);

/// Finds the type of a kind in a version, if it is served.
pub type FindKind = dyn Fn(&GroupVersionKind) -> Option<ResourceHandle> + Send + Sync;

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
    /// ValidatingAdmissionPolicy.
    pub policies: ResourceHandle,
    /// ValidatingAdmissionPolicyBinding.
    pub bindings: ResourceHandle,
}

pub(crate) struct Configurations {
    pub(crate) mutating: Configured<Vec<Hook>>,
    pub(crate) validating: Configured<Vec<Hook>>,
    policies: Configured<Policy>,
    bindings: Configured<Binding>,
    /// The types that show what another type stores.
    pub(crate) faces: Vec<Arc<TypeSpec>>,
    pub(crate) find_kind: Arc<FindKind>,
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

impl Compile for Policy {
    fn compile(tree: &Value) -> Self {
        Self::of(tree)
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
    compiled: ArcSwapOption<Compiled<T>>,
}

/// All of them, as of a revision.
pub(crate) struct Compiled<T> {
    revision: Revision,
    /// By name.
    all: Vec<Arc<CompiledObject<T>>>,
    /// The places of those that bind a policy.
    by_policy: HashMap<String, Vec<usize>>,
    /// The cost of looking at their rules and selectors.
    cost: Duration,
}

/// An object at a revision of its own.
struct CompiledObject<T> {
    object: Arc<StoredObject>,
    form: T,
}

/// Policies and their bindings.
pub(crate) struct BoundPolicies {
    pub(crate) policies: Arc<Compiled<Policy>>,
    pub(crate) bindings: Arc<Compiled<Binding>>,
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

    /// The cost of looking at their rules and selectors.
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
    /// Webhooks and policies that are configured by objects of these types. `faces` are all types that show what another one stores;
    /// the kinds of parameters are found among those that are served.
    #[must_use]
    pub fn new(types: ConfiguringTypes, faces: Vec<Arc<TypeSpec>>, find_kind: Arc<FindKind>) -> Self {
        let ConfiguringTypes { mutating, validating, policies, bindings } = types;
        Self(Arc::new(Configurations {
            mutating: Configured::new(mutating),
            validating: Configured::new(validating),
            policies: Configured::new(policies),
            bindings: Configured::new(bindings),
            faces,
            find_kind,
        }))
    }

    pub(crate) fn configurations(&self) -> &Configurations {
        &self.0
    }
}

impl Configurations {
    /// The policies that are bound now; `None` if there are none.
    pub(crate) async fn bound(&self, deadline: Deadline) -> Result<Option<BoundPolicies>, WriteError> {
        let Some(bindings) = self.bindings.current(deadline).await? else { return Ok(None) };
        let policies = self.policies.current(deadline).await?;
        Ok(policies.map(|policies| BoundPolicies { policies, bindings }))
    }
}

impl<T: Compile> Configured<T> {
    fn new(handle: ResourceHandle) -> Self {
        Self { handle, compiled: ArcSwapOption::empty() }
    }

    /// What is configured now; `None` if nothing is. What another replica was told is part of it once the store's watch has it.
    pub(crate) async fn current(&self, deadline: Deadline) -> Result<Option<Arc<Compiled<T>>>, WriteError> {
        let (snapshot, _) = self.handle.snapshot(self.handle.own_writes()?, deadline).await?;
        if snapshot.is_empty() {
            return Ok(None);
        }
        let revision = snapshot.revision();
        let before = self.compiled.load_full();
        if let Some(compiled) = before.as_ref().filter(|compiled| compiled.revision == revision) {
            return Ok(Some(Arc::clone(compiled)));
        }
        let same = |object: &StoredObject| before.as_ref().and_then(|before| before.same(object));
        let changed = snapshot.from_key("").filter(|object| same(object).is_none());
        dear(cost::compile(changed.map(|object| object.json().len()).sum())).await?;
        let mut all = Vec::with_capacity(snapshot.len());
        for object in snapshot.from_key("") {
            all.push(match same(object) {
                Some(same) => Arc::clone(same),
                None => {
                    let tree = json::parse_own(object.json());
                    let tree = tree.map_err(|why| PlanError::Corrupt(format!("{}: {why}", object.key())))?;
                    Arc::new(CompiledObject { object: Arc::clone(object), form: T::compile(&tree) })
                }
            });
        }
        let compiled = Arc::new(Compiled::new(revision, all));
        self.compiled.store(Some(Arc::clone(&compiled)));
        Ok(Some(compiled))
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
}

/// The fields of a write's options, by their names.
pub type SentOptions = Vec<(&'static str, Value)>;

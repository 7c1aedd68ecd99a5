//! The statuses of ResourceQuotas: what each bounds, and how much of it is in use. Creates keep them up to date themselves
//! (`kindom_resource_actor::quota`); this loop settles new and changed quotas, and those in whose namespace something went.
//!
//! Source: `pkg/controller/resourcequota/resource_quota_controller.go` (1.37).

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kindom_actor_kit::{Deadline, Reconciler, StartError};
use kindom_api::quantity::Quantity;
use kindom_api::{GroupResource, Value, json, meta};
use kindom_objects::kinds::resource_quota::measure::Usage;
use kindom_objects::kinds::resource_quota::usage;
use kindom_objects::{PlanError, RuleContext, Subresource, TypeSpec};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::quota::{Counted, Sums};
use kindom_resource_actor::{Freshness, ResourceHandle, Target, WriteError, WriteOptions};
use kindom_storage::{Revision, StoredValue};

use crate::attempt::STEP;
use crate::error::ReconcileError;
use crate::follower::{self, Settle};
use crate::provision::unless_it_is_settled;

/// So many namespaces are remembered.
const SUMS_KEPT: usize = 64;

/// Starts the loop, as the actor `resource-quotas`.
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    quotas: &ResourceHandle,
    object_bytes_max: usize,
) -> Result<Reconciler, StartError> {
    let statuses = Statuses {
        registry: registry.clone(),
        quotas: quotas.clone(),
        followed: Arc::default(),
        sums: Arc::default(),
        object_bytes_max,
    };
    follower::start("resource-quotas", registry, statuses)
}

#[derive(Clone)]
struct Statuses {
    registry: RegistryHandle,
    quotas: ResourceHandle,
    /// The types that quotas count, whose objects are followed.
    followed: Arc<Mutex<Followed>>,
    /// The last counts, by namespace.
    sums: Arc<Mutex<HashMap<String, Sums>>>,
    object_bytes_max: usize,
}

#[derive(Default)]
struct Followed {
    types: BTreeSet<GroupResource>,
    /// Those that are there.
    handles: Vec<ResourceHandle>,
    /// The namespaces that may have quotas.
    namespaces: BTreeSet<String>,
    /// A type has to be followed that is not yet.
    is_short: bool,
}

impl Settle for Statuses {
    fn types(&self) -> Vec<ResourceHandle> {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.is_short = false;
        let types: Vec<ResourceHandle> = followed.types.iter().filter_map(|of| self.type_of(of)).collect();
        followed.handles.clone_from(&types);
        [self.quotas.clone()].into_iter().chain(types).collect()
    }

    fn reads(&self, place: usize) -> bool {
        place == 0
    }

    fn due(&self, place: usize, of: &str, value: Option<&StoredValue>) -> Option<String> {
        // Quotas by their namespace: what goes there concerns all of them.
        let namespace = of.split_once('/')?.0;
        let matters = match (place.checked_sub(1), value) {
            (None, None) => false,
            (None, Some(_)) => {
                let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
                followed.namespaces.insert(namespace.to_owned());
                true
            }
            (Some(_), _) if !self.has_quotas(namespace) => false,
            (Some(_), None) => true,
            (Some(place), Some(value)) => self.gives_back(place, of, value),
        };
        matters.then(|| namespace.to_owned())
    }

    fn is_current(&self) -> bool {
        !self.followed.lock().unwrap_or_else(PoisonError::into_inner).is_short
    }

    fn settle<'a>(&'a self, namespace: &'a str) -> LocalBoxFuture<'a, Result<(), ReconcileError>> {
        self.settle_namespace(namespace).boxed_local()
    }
}

impl Statuses {
    /// The type that a resource counts, if it is there.
    fn type_of(&self, of: &GroupResource) -> Option<ResourceHandle> {
        self.registry.routes().get(&of.group, &of.resource)
    }

    fn has_quotas(&self, namespace: &str) -> bool {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).namespaces.contains(namespace)
    }

    /// True if an object of the type at this place uses less than it may have used.
    fn gives_back(&self, place: usize, of: &str, value: &StoredValue) -> bool {
        let handle = self.followed.lock().unwrap_or_else(PoisonError::into_inner).handles.get(place).cloned();
        let Some((handle, spec)) = handle.and_then(|handle| Some((handle.clone(), handle.spec()?))) else {
            return false;
        };
        let Some(measure) = spec.strategy.quota_measure() else { return false };
        let object = handle.stored_object(of, value.clone(), Revision::ZERO);
        json::parse_own(object.json()).is_ok_and(|object| measure.gives_back(&object))
    }

    /// The last count of a namespace, to go on from there.
    fn take_sums(&self, namespace: &str) -> Sums {
        let mut all = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let sums = all.remove(namespace).unwrap_or_default();
        if all.len() >= SUMS_KEPT {
            all.clear();
        }
        sums
    }

    /// Follows a type from now on.
    fn follow(&self, of: GroupResource) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.is_short |= followed.types.insert(of);
    }

    async fn settle_namespace(&self, namespace: &str) -> Result<(), ReconcileError> {
        let prefix = format!("{namespace}/");
        let (quotas, _) = self.quotas.snapshot(Freshness::Latest, Deadline::after(STEP)).await?;
        if quotas.range(&prefix, "").next().is_none() {
            self.followed.lock().unwrap_or_else(PoisonError::into_inner).namespaces.remove(namespace);
            return Ok(());
        }
        let mut sums = self.take_sums(namespace);
        sums.keep(|quota| quotas.get(&TypeSpec::object_key(Some(namespace), quota)).is_some());
        for stored in quotas.range(&prefix, "") {
            let Ok(tree) = json::parse_own(stored.json()) else { continue };
            if stored.deleting() {
                continue;
            }
            let used = self.used(&tree, &prefix, &mut sums).await?;
            self.write(stored.name(), namespace, &used).await?;
        }
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.to_owned(), sums);
        Ok(())
    }

    /// The amounts in use of what a quota bounds, of types that are there.
    async fn used(&self, quota: &Value, prefix: &str, sums: &mut Sums) -> Result<Usage, ReconcileError> {
        let mut used = Usage::new();
        let counted = usage::bounded(quota).filter_map(usage::counts);
        let types: BTreeSet<GroupResource> =
            counted.map(|(plural, group)| GroupResource::new(group.to_owned(), plural.to_owned())).collect();
        for of in types {
            let Some(handle) = self.type_of(&of) else { continue };
            let Some(spec) = handle.spec().filter(|spec| spec.namespaced()) else { continue };
            let is_its = |name: &&str| usage::counts(name) == Some((&of.resource, &of.group));
            let mut amounts: Usage = usage::bounded(quota)
                .filter(is_its)
                .map(|name| (name.to_owned(), Quantity::of_count(0)))
                .collect();
            self.follow(of.clone());
            let (objects, _) = handle.snapshot(Freshness::Latest, Deadline::after(STEP)).await?;
            let now = meta::time::format(self.quotas.deps().clock.unix_seconds());
            let counted = Counted { spec: &spec, quota, objects: &objects, prefix };
            sums.count(&counted, &now, &mut amounts).await;
            used.append(&mut amounts);
        }
        Ok(used)
    }

    async fn write(&self, name: &str, namespace: &str, used: &Usage) -> Result<(), ReconcileError> {
        let mut wanted = |cx: &RuleContext<'_>, stored: &Value| {
            let mut quota = stored.clone();
            usage::set_status(&mut quota, used);
            cx.spec.strategy.decode(cx, &mut quota, None).map_err(PlanError::Internal)?;
            Ok(quota)
        };
        let options = WriteOptions::by_server(Deadline::after(STEP), self.object_bytes_max);
        let place = Target {
            version: "v1",
            subresource: Some(Subresource::Status),
            namespace: Some(namespace),
            name,
        };
        let written = self.quotas.update(place, true, &mut wanted, &options).await;
        written.map(drop).or_else(|error| match error {
            WriteError::Plan(PlanError::TooLarge { .. }) | WriteError::RequestTooLarge(_) => {
                // It would not fit the next time either.
                tracing::warn!(namespace, name, %error, "the status of a quota does not fit beside its spec");
                Ok(())
            }
            error => unless_it_is_settled(error),
        })
    }
}

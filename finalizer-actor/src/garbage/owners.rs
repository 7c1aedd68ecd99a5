//! The owners that an object names: whether they are there, and the event that says that one is elsewhere.

use std::collections::{BTreeMap, HashSet};

use kindom_actor_kit::Deadline;
use kindom_api::names::split_api_version;
use kindom_api::{Value, object};
use kindom_objects::{FOREGROUND, PlanError, RuleContext, Scope, StoredObject, TypeSpec, has_finalizer};
use kindom_resource_actor::{ResourceHandle, Target, WriteError, WriteOptions};
use kindom_storage::{Key, RangeRequest};

use super::collector::{Collector, Trouble, stored_version};
use super::graph::{Ending, Owner, Standing, Uid};
use crate::attempt::STEP;

/// The most keys of a kind that are looked through for an owner in another namespace, to say so.
const ELSEWHERE_MAX: usize = 1_000;

impl Collector {
    /// The standing of each owner that an object names. `None` if there is one that nothing follows from. Those whose end was seen
    /// are not read.
    pub(super) async fn standings(
        &self,
        owners: &[Owner],
        object: &StoredObject,
        of: &ResourceHandle,
        gone: &[Uid],
    ) -> Result<Option<Vec<(Uid, Standing)>>, Trouble> {
        let ended: HashSet<&str> = gone.iter().map(|uid| &**uid).collect();
        // An owner of a namespaced kind is none of an object at cluster scope, gone or not.
        let nothing = HashSet::new();
        let gone = if object.namespace().is_some() { &ended } else { &nothing };
        let is_left = |owner: &&Owner| !gone.contains(&*owner.uid);
        if owners.iter().any(|owner| is_left(&owner)) && !self.storage().is_local() {
            // What is a kind here may be another one by now.
            self.registry.fresh(Deadline::after(STEP)).await?;
        }
        // Before anything is read: one that is unknown is enough.
        let mut left = BTreeMap::new();
        for owner in owners.iter().filter(is_left) {
            let handle = self.kind(owner).ok_or(Trouble::Unknown)?;
            let spec = handle.spec().ok_or(Trouble::Unknown)?;
            left.insert((&owner.api_version, &owner.kind, &owner.name, &owner.uid), (owner, handle, spec));
        }
        let namespaced = |scope| scope == Scope::Namespaced;
        let odd = left.values().find(|(.., spec)| namespaced(spec.scope) && object.namespace().is_none());
        if let Some((owner, handle, _)) = odd {
            self.tell_of_owner_elsewhere(owner, handle, object, of).await?;
            return Ok(None);
        }
        let named = owners.iter().filter(|owner| !is_left(owner));
        let mut standings: Vec<(Uid, Standing)> =
            named.map(|owner| (owner.uid.clone(), Standing::Absent)).collect();
        let mut elsewhere = None;
        for (owner, handle, spec) in left.into_values() {
            let namespace = object.namespace().filter(|_| namespaced(spec.scope));
            let key = spec.storage_key(&TypeSpec::object_key(namespace, &owner.name));
            let mut standing = self.standing(owner, &key).await?;
            if standing == Standing::Absent && self.may_be_in_front(&spec, of) && !ended.contains(&*owner.uid)
            {
                standing = Standing::Solid;
            }
            if standing == Standing::Absent && namespace.is_some() {
                elsewhere.get_or_insert((owner, handle));
            }
            standings.push((owner.uid.clone(), standing));
        }
        if let Some((owner, handle)) = elsewhere {
            self.tell_of_owner_elsewhere(owner, &handle, object, of).await?;
        }
        Ok(Some(standings))
    }

    /// Returns true if an owner of a type that is not here may be in the server in front, which has the built-in kinds as well and lets its
    /// clients see the objects of registered ones.
    fn may_be_in_front(&self, owners: &TypeSpec, dependents: &ResourceHandle) -> bool {
        self.is_fronted && owners.is_typed() && dependents.spec().is_some_and(|spec| !spec.is_typed())
    }

    /// The standing of an owner, by the key of its place.
    async fn standing(&self, owner: &Owner, key: &Key) -> Result<Standing, Trouble> {
        let found = self.read(key).await?;
        let Some((_, tree, _)) = found.filter(|(found, ..)| *found.uid() == *owner.uid) else {
            return Ok(Standing::Absent);
        };
        let waits = Ending::of(&tree) != Ending::No && has_finalizer(&tree, FOREGROUND);
        Ok(if waits { Standing::Waiting } else { Standing::Solid })
    }

    /// The type of a kind, if it is served in the version that a reference names.
    fn kind(&self, owner: &Owner) -> Option<ResourceHandle> {
        let (group, version) = split_api_version(&owner.api_version)?;
        let table = self.registry.routes().table();
        let types = table.group(group)?.values();
        let found = types.filter_map(|handle| Some((handle, handle.spec()?))).find(|(_, spec)| {
            *spec.names.kind == *owner.kind && spec.version(version).is_some_and(|version| version.served)
        });
        found.map(|(handle, _)| handle.clone())
    }

    /// Writes an event if an object names an owner that lives in another namespace (`reportInvalidNamespaceOwnerRef`).
    async fn tell_of_owner_elsewhere(
        &self,
        owner: &Owner,
        owners: &ResourceHandle,
        object: &StoredObject,
        of: &ResourceHandle,
    ) -> Result<(), Trouble> {
        let request = RangeRequest {
            limit: Some(ELSEWHERE_MAX),
            keys_only: true,
            ..RangeRequest::prefix(owners.prefix().as_bytes())
        };
        let end = format!("/{}", owner.name);
        let found = self.storage().range(request).await?;
        for kv in found.kvs.iter().filter(|kv| kv.key.as_bytes().ends_with(end.as_bytes())) {
            let there = self.read(&kv.key).await?;
            if there.is_some_and(|(there, ..)| *there.uid() == *owner.uid) {
                return self.tell(owner, object, of).await;
            }
        }
        Ok(())
    }

    async fn tell(&self, owner: &Owner, object: &StoredObject, of: &ResourceHandle) -> Result<(), Trouble> {
        let Some(spec) = of.spec() else { return Ok(()) };
        let version = stored_version(of).unwrap_or_default();
        let deps = self.registry.deps();
        let now = kindom_api::meta::time::format(deps.clock.unix_seconds());
        let in_namespace = object.namespace().unwrap_or_default();
        let namespace = object.namespace().unwrap_or("default");
        // As Go prints a reference.
        let reference = format!(
            "[{}/{}, namespace: {in_namespace}, name: {}, uid: {}]",
            short_of(&owner.api_version),
            short_of(&owner.kind),
            short_of(&owner.name),
            short_of(&owner.uid),
        );
        let note = format!("ownerRef {reference} does not exist in namespace {in_namespace:?}");
        let short: String = object.name().chars().take(200).collect();
        // One for each object.
        let name = format!("{short}.{}", object.uid().get(..8).unwrap_or_default());
        let event = object! {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": object! { "name": name, "namespace": namespace },
            "involvedObject": object! {
                "apiVersion": spec.api_version(&version),
                "kind": spec.names.kind.as_str(),
                "namespace": in_namespace,
                "name": object.name(),
                "uid": object.uid(),
            },
            "reason": "OwnerRefInvalidNamespace",
            "message": note,
            "source": object! { "component": "garbage-collector-controller" },
            "firstTimestamp": now.as_str(),
            "lastTimestamp": now.as_str(),
            "count": 1,
            "type": "Warning",
        };
        let mut wanted = |cx: &RuleContext<'_>, _: &Value| {
            let mut event = event.clone();
            cx.spec.strategy.decode(cx, &mut event, None).map_err(PlanError::Internal)?;
            Ok(event)
        };
        let target = Target { version: "v1", subresource: None, namespace: Some(namespace), name: "" };
        let options = WriteOptions { namespaces: Some(self.namespaces.clone()), ..self.options() };
        let told = self.events.create(target, &mut wanted, &options).await;
        if let Err(error) = told.map(drop).or_else(unless_it_exists) {
            // It changes nothing about what has to be done.
            tracing::warn!(%error, "an event could not be written");
        }
        Ok(())
    }
}

/// A text of a client, at a length that an event can hold.
fn short_of(text: &str) -> String {
    text.chars().take(253).collect()
}

fn unless_it_exists(error: WriteError) -> Result<(), WriteError> {
    match error {
        WriteError::Plan(PlanError::AlreadyExists { .. }) => Ok(()),
        other => Err(other),
    }
}

//! The quotas of a namespace in the writes of its objects. A create counts what there is and puts the number into the quota's
//! status, in its own transaction, which requires the quota as it was found. So of two creates that count the same, on any
//! replicas, one plans again: as many objects as the quota allows are created, and no more.

use std::collections::HashMap;
use std::sync::Arc;

use kindom_actor_kit::{Deadline, dear};
use kindom_api::quantity::Quantity;
use kindom_api::{Value, json};
use kindom_objects::kinds::resource_quota::measure::Usage;
use kindom_objects::kinds::resource_quota::usage::{self as quota, QuotaChange};
use kindom_objects::{PlanError, StoredObject, Subresource, TypeSpec};
use kindom_storage::{Compare, Op, Revision};
use parking_lot::Mutex as Lock;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout_at;

use crate::ResourceHandle;
use crate::cost;
use crate::error::{WriteError, refuse_loss};
use crate::handle::Freshness;
use crate::snapshot::Snapshot;

/// The ResourceQuotas that bound writes. Cheap to clone.
#[derive(Clone)]
pub struct Quotas {
    handle: ResourceHandle,
    turns: Turns,
}

impl Quotas {
    /// Quotas of this type.
    #[must_use]
    pub fn new(handle: ResourceHandle) -> Self {
        Self { handle, turns: Turns::default() }
    }
}

/// So many namespaces are remembered between their writes.
const TURNS_KEPT: usize = 256;

/// The writes of a namespace that quotas bound take turns: of those that count at once all but one would have to count again.
/// Each knows the revision of the last one. No namespace waits for another.
#[derive(Clone, Default)]
struct Turns(Arc<Lock<HashMap<String, Arc<Mutex<Revision>>>>>);

impl Turns {
    /// Waits for the turn of a namespace's writes.
    async fn wait(
        &self,
        namespace: &str,
        deadline: Deadline,
    ) -> Result<OwnedMutexGuard<Revision>, WriteError> {
        let turn = self.of(namespace).lock_owned();
        timeout_at(deadline.instant(), turn).await.map_err(|_| {
            WriteError::Unavailable("timed out while other writes of the namespace were counted".into())
        })
    }

    fn of(&self, namespace: &str) -> Arc<Mutex<Revision>> {
        let mut turns = self.0.lock();
        if let Some(turn) = turns.get(namespace) {
            return Arc::clone(turn);
        }
        if turns.len() >= TURNS_KEPT {
            // A forgotten revision costs a write one more plan.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry(namespace.to_owned()).or_default())
    }
}

/// The changes of quotas that go with a write, and their conditions.
#[derive(Default)]
pub(crate) struct Charges {
    pub(crate) compares: Vec<Compare>,
    pub(crate) ops: Vec<Op>,
    turn: Option<OwnedMutexGuard<Revision>>,
}

impl Charges {
    /// Ends the turn of a write that was committed at this revision.
    pub(crate) fn committed(self, at: Revision) {
        if let Some(mut last) = self.turn {
            *last = at.max(*last);
        }
    }
}

/// A write that may need more of what quotas bound.
pub(crate) struct Demand<'a> {
    /// The object's type.
    pub(crate) spec: &'a TypeSpec,
    /// The time of the write.
    pub(crate) now: &'a str,
    /// The object's key: its namespace and its name.
    pub(crate) key: &'a str,
    /// The subresource through which it is written.
    pub(crate) subresource: Option<Subresource>,
    /// The object as it will be stored.
    pub(crate) new: &'a [u8],
    /// The object that it replaces.
    pub(crate) old: Option<&'a StoredObject>,
    /// The state of quotas that counts.
    pub(crate) freshness: Freshness,
}

impl ResourceHandle {
    /// The changes of quotas that go with a write.
    ///
    /// # Errors
    /// [`PlanError::Forbidden`] where a quota would be exceeded.
    pub(crate) async fn charges(
        &self,
        quotas: &Quotas,
        demand: Demand<'_>,
        deadline: Deadline,
    ) -> Result<Charges, WriteError> {
        let mut charges = Charges::default();
        let Some((namespace, name)) = demand.key.split_once('/') else { return Ok(charges) };
        let spec = demand.spec;
        if quota::counted_as(spec).is_empty()
            || demand.old.is_some() && spec.strategy.quota_measure().is_none()
        {
            return Ok(charges);
        }
        let of_namespace = format!("{namespace}/");
        let (known, _) = quotas.handle.snapshot(demand.freshness, deadline).await?;
        if known.range(&of_namespace, "").next().is_none() {
            return Ok(charges);
        }
        dear(cost::parse(demand.new.len().saturating_add(demand.old.map_or(0, |old| old.json().len()))))
            .await?;
        let corrupt = |error: json::ParseError| PlanError::Corrupt(error.to_string());
        let new = json::parse_own(demand.new).map_err(corrupt)?;
        // What cannot be read is taken to have used nothing.
        let old = demand.old.map(|old| json::parse_own(old.json()).unwrap_or_default());
        let Some(change) = QuotaChange::of(spec, demand.subresource, new, old, demand.now) else {
            return Ok(charges);
        };
        let turn = quotas.turns.wait(namespace, deadline).await?;
        let (known, _) = quotas.handle.snapshot(Freshness::AtLeast(*turn), deadline).await?;
        charges.turn = Some(turn);
        dear(cost::parse(bytes(&known, &of_namespace))).await?;
        let quotas_spec = quotas.handle.spec().ok_or(WriteError::Gone)?;
        for stored in known.range(&of_namespace, "") {
            let mut tree = json::parse_own(stored.json()).map_err(corrupt)?;
            let forbidden = |message| PlanError::Forbidden { name: name.to_owned(), message };
            let Some(requested) = change.requested(spec, &tree).map_err(forbidden)? else { continue };
            // It includes every create since the quota was last charged.
            let (objects, _) = self.snapshot(Freshness::AtLeast(stored.revision()), deadline).await?;
            let mut used: Usage =
                requested.keys().map(|name| (name.clone(), Quantity::of_count(0))).collect();
            if quota::needs_objects(spec, &tree, &used) {
                dear(cost::parse(bytes(&objects, &of_namespace))).await?;
            }
            count(spec, &tree, &objects, &of_namespace, demand.now, &mut used);
            if let Some(message) = quota::exceeded(&tree, &requested, &used) {
                return Err(forbidden(message).into());
            }
            for (name, amount) in &mut used {
                *amount =
                    requested.get(name).and_then(|more| amount.add(more)).unwrap_or_else(|| amount.clone());
            }
            let key = quotas_spec.storage_key(stored.key());
            charges.compares.push(Compare::mod_is(&key, stored.revision()));
            // Another server's quota that nobody may write here still counts.
            if refuse_loss(stored).is_ok() {
                quota::charge(&quotas_spec, &mut tree, &used, demand.now);
                charges.ops.push(Op::Put(key, quotas_spec.stored_value(tree.to_vec())));
            }
        }
        Ok(charges)
    }
}

/// The bytes of a namespace's objects.
fn bytes(objects: &Snapshot, prefix: &str) -> usize {
    objects.range(prefix, "").map(|object| object.json().len()).sum()
}

/// Counts the objects of a namespace into these amounts of a quota.
pub fn count(spec: &TypeSpec, quota: &Value, objects: &Snapshot, prefix: &str, now: &str, used: &mut Usage) {
    if quota::needs_objects(spec, quota, used) {
        let trees = objects.range(prefix, "").filter_map(|stored| json::parse_own(stored.json()).ok());
        quota::count(spec, quota, trees, now, used);
        return;
    }
    let number = i64::try_from(objects.count(prefix, "")).unwrap_or(i64::MAX);
    used.values_mut().for_each(|amount| *amount = Quantity::of_count(number));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn namespaces_take_turns_of_their_own() {
        let (turns, deadline) = (Turns::default(), Deadline::after(Duration::from_secs(60)));
        let mut held = Vec::new();
        for index in 0..2 * TURNS_KEPT {
            let turn = turns.of(&format!("busy-{index}")).try_lock_owned();
            held.push(turn.expect("it is free"));
        }
        assert!(turns.of("busy-0").try_lock_owned().is_err(), "a turn was forgotten while it was held");
        held.clear();
        *turns.wait("busy-0", deadline).await.unwrap() = Revision(7);
        assert_eq!(*turns.wait("busy-0", deadline).await.unwrap(), Revision(7));
        turns.of("idle");
        assert_eq!(turns.0.lock().len(), 1);
    }
}

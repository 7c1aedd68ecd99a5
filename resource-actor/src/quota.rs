//! The quotas of a namespace in the writes of its objects. A create counts what there is and puts the number into the quota's
//! status, in its own transaction, which requires the quota as it was found. So of two creates that count the same, on any
//! replicas, one plans again: as many objects as the quota allows are created, and no more.

use std::sync::Arc;

use kindom_actor_kit::{Deadline, dear};
use kindom_api::{Value, json};
use kindom_objects::kinds::resource_quota::usage::{self as quota, Usage};
use kindom_objects::{PlanError, StoredObject, TypeSpec};
use kindom_storage::{Compare, Op, Revision};
use tokio::sync::OwnedMutexGuard;

use crate::ResourceHandle;
use crate::cost;
use crate::error::{WriteError, refuse_loss};
use crate::handle::Freshness;
use crate::snapshot::Snapshot;
use crate::turns::WriteTurns;

/// The ResourceQuotas that bound writes. Cheap to clone.
#[derive(Clone)]
pub struct Quotas {
    handle: ResourceHandle,
    /// The writes that quotas bound, by namespace.
    turns: WriteTurns,
}

impl Quotas {
    /// Quotas of this type.
    #[must_use]
    pub fn new(handle: ResourceHandle) -> Self {
        Self { handle, turns: WriteTurns::default() }
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
        let counted = quota::counted_as(spec);
        if counted.is_empty() || demand.old.is_some() && !spec.strategy.has_quota_usage() {
            return Ok(charges);
        }
        let of_namespace = format!("{namespace}/");
        let (known, _) = quotas.handle.snapshot(demand.freshness, deadline).await?;
        if known.range(&of_namespace, "").next().is_none() {
            return Ok(charges);
        }
        let turn = quotas.turns.wait(namespace, deadline).await?;
        let (known, _) = quotas.handle.snapshot(Freshness::AtLeast(*turn), deadline).await?;
        charges.turn = Some(turn);
        dear(cost::parse(bytes(&known, &of_namespace))).await?;
        let requested = requested(spec, counted, &demand);
        let quotas_spec = quotas.handle.spec().ok_or(WriteError::Gone)?;
        for stored in known.range(&of_namespace, "") {
            let mut tree =
                json::parse_own(stored.json()).map_err(|error| PlanError::Corrupt(error.to_string()))?;
            let concerns =
                quota::bounded(&tree).any(|name| requested.get(name).is_some_and(|more| *more > 0));
            if !concerns || quota::has_scopes(&tree) {
                continue;
            }
            // It includes every create since the quota was last charged.
            let (objects, _) = self.snapshot(Freshness::AtLeast(stored.revision()), deadline).await?;
            if spec.strategy.has_quota_usage() {
                dear(cost::parse(bytes(&objects, &of_namespace))).await?;
            }
            let mut used = in_use(spec, &objects, &of_namespace, &tree, &requested);
            if let Some(message) =
                quota::exceeded(&tree, &requested, |name| used.get(name).copied().unwrap_or(0))
            {
                return Err(PlanError::Forbidden { name: name.to_owned(), message }.into());
            }
            for (name, amount) in &mut used {
                *amount = amount.saturating_add(requested.get(name).copied().unwrap_or_default());
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

/// The amounts that a write needs more.
fn requested(spec: &TypeSpec, counted: Vec<String>, demand: &Demand<'_>) -> Usage {
    let of = |json: &[u8]| match json::parse_own(json) {
        Ok(object) => quota::usage(spec, &object),
        Err(_) => Usage::new(),
    };
    let mut requested = if spec.strategy.has_quota_usage() { of(demand.new) } else { Usage::new() };
    match demand.old {
        None => requested.extend(counted.into_iter().map(|name| (name, 1))),
        Some(old) => {
            let before = of(old.json());
            for (name, amount) in &mut requested {
                *amount = amount.saturating_sub(before.get(name).copied().unwrap_or_default());
            }
        }
    }
    requested
}

/// The amounts in use of what a quota bounds and a write may need.
fn in_use(spec: &TypeSpec, objects: &Arc<Snapshot>, prefix: &str, quota: &Value, requested: &Usage) -> Usage {
    let names = quota::bounded(quota).filter(|name| requested.contains_key(*name));
    let mut used: Usage = names.map(|name| (name.to_owned(), 0)).collect();
    count(spec, objects, prefix, &mut used);
    used
}

/// Counts the objects of a namespace into these amounts.
pub fn count(spec: &TypeSpec, objects: &Snapshot, prefix: &str, used: &mut Usage) {
    let counted = quota::counted_as(spec);
    let number = i64::try_from(objects.count(prefix, "")).unwrap_or(i64::MAX);
    let mut is_more = false;
    for (name, amount) in used.iter_mut() {
        if counted.contains(name) {
            *amount = number;
        } else {
            is_more = true;
        }
    }
    if is_more && spec.strategy.has_quota_usage() {
        for stored in objects.range(prefix, "") {
            let Ok(object) = json::parse_own(stored.json()) else { continue };
            for (name, amount) in quota::usage(spec, &object) {
                if let Some(sum) = used.get_mut(&name) {
                    *sum = sum.saturating_add(amount);
                }
            }
        }
    }
}

//! The end of a registration: its objects first, then itself (T-45 to T-49).
//!
//! Source: apiextensions `pkg/controller/finalizer/crd_finalizer.go` (1.37).

use bytes::Bytes;
use kindom_actor_kit::Deadline;
use kindom_api::crd::{CLEANUP_FINALIZER, CustomResourceDefinition, condition, decode_crd};
use kindom_api::json;
use kindom_api::meta::{self, Condition, set_condition};
use kindom_registry_actor::Registered;
use kindom_storage::{Compare, Op, Txn, TxnOutcome};

use crate::actor::{Held, ReconcileError, STEP, World};
use crate::drain::{Remaining, drain, is_empty};

/// Drains the objects of a registration that is being deleted, and removes it once none is left. Gives back the prefix
/// if something holds it.
pub(crate) async fn finish(world: &World, registered: &Registered) -> Result<Option<Held>, ReconcileError> {
    let storage = &world.registry.deps().storage;
    if registered.built_in {
        // Its objects are not this registration's (OverlappingBuiltInResource).
        remove(world, registered, None).await?;
        return Ok(None);
    }
    let Some(handle) = &registered.handle else {
        // Damaged: where its objects are can't be said, so it stays, lest a later registration finds them.
        tracing::error!(registration = registered.name, "a registration that can't be read is not removed");
        return Ok(None);
    };
    let before = storage.published();
    let remaining = drain(handle, "").await?;
    if remaining.objects == 0 && is_empty(&**storage, handle.prefix()).await?.0 {
        remove(world, registered, Some(handle.prefix())).await?;
        return Ok(None);
    }
    report(world, registered, &remaining).await?;
    Ok(Some((handle.prefix().to_owned(), before.next())))
}

/// Removes the registration, or only our finalizer where others hold it, if it has not changed and no object is left.
async fn remove(world: &World, registered: &Registered, prefix: Option<&str>) -> Result<(), ReconcileError> {
    let Some(mut crd) = decode(registered) else { return Ok(()) };
    if !crd.metadata.finalizers.iter().any(|f| f == CLEANUP_FINALIZER) {
        return Ok(());
    }
    crd.metadata.finalizers.retain(|f| f != CLEANUP_FINALIZER);
    let Some(spec) = world.registrations.spec() else { return Ok(()) };
    let key = spec.storage_key(&registered.name);
    let mut compares = vec![Compare::mod_is(&key, registered.object.revision())];
    compares.extend(prefix.map(|prefix| Compare::empty_prefix(prefix.as_bytes())));
    let op = if crd.metadata.finalizers.is_empty() {
        Op::Delete(key)
    } else {
        let (status, reason, message) = match prefix {
            Some(_) if !crd.is_condition_true(condition::ESTABLISHED) => {
                ("False", "NeverEstablished", "resource was never established")
            }
            Some(_) => ("False", "InstanceDeletionCompleted", "removed all instances"),
            None => (
                "False",
                "OverlappingBuiltInResource",
                "instances overlap with built-in resources in storage",
            ),
        };
        terminating(world, &mut crd, status, reason, message);
        Op::Put(key, encode(&crd))
    };
    commit(world, Txn { compares, ops: vec![op] }).await
}

/// Says in the condition how far the drain has got, if that is not said yet.
async fn report(world: &World, registered: &Registered, remaining: &Remaining) -> Result<(), ReconcileError> {
    let Some(mut crd) = decode(registered) else { return Ok(()) };
    let mut message = "CustomResource deletion is in progress".to_owned();
    if !remaining.finalizers.is_empty() {
        let held: Vec<String> =
            remaining.finalizers.iter().map(|(f, n)| format!("{f} in {n} objects")).collect();
        message = format!(
            "{message}: {} objects remain, held by finalizers: {}",
            remaining.objects,
            held.join(", ")
        );
    }
    if !terminating(world, &mut crd, "True", "InstanceDeletionInProgress", &message) {
        return Ok(());
    }
    let Some(spec) = world.registrations.spec() else { return Ok(()) };
    let key = spec.storage_key(&registered.name);
    let compares = vec![Compare::mod_is(&key, registered.object.revision())];
    commit(world, Txn { compares, ops: vec![Op::Put(key, encode(&crd))] }).await
}

fn terminating(
    world: &World,
    crd: &mut CustomResourceDefinition,
    status: &str,
    reason: &str,
    message: &str,
) -> bool {
    let now = now(world);
    set_condition(
        &mut crd.status.conditions,
        Condition::new(condition::TERMINATING, status, reason, message),
        &now,
    )
}

/// The time of day as metav1.Time prints it.
pub(crate) fn now(world: &World) -> String {
    let seconds = i64::try_from(world.registry.deps().clock.wall_ms() / 1000).unwrap_or(i64::MAX);
    meta::time::format(seconds)
}

fn decode(registered: &Registered) -> Option<CustomResourceDefinition> {
    let tree = json::parse(registered.object.json()).ok()?;
    decode_crd(&tree).ok().map(|(crd, _)| crd)
}

fn encode(crd: &CustomResourceDefinition) -> Bytes {
    crd.to_value().to_vec().into()
}

/// Commits; a lost race is no error, as what won it wakes the actor again.
async fn commit(world: &World, txn: Txn) -> Result<(), ReconcileError> {
    match world.registrations.commit(txn, Deadline::after(STEP)).await? {
        TxnOutcome::Committed { .. } | TxnOutcome::Failed { .. } => Ok(()),
    }
}

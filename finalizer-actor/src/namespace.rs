//! The end of a namespace: everything in it, of every registered type, then itself.
//!
//! Source: `pkg/controller/namespace/deletion/namespaced_resources_deleter.go` and its conditions (1.37).

use bytes::Bytes;
use kindom_actor_kit::Deadline;
use kindom_api::json;
use kindom_resource_actor::{Scope, StoredObject};
use kindom_storage::{Compare, Op, Txn, TxnOutcome};

use crate::actor::{Held, ReconcileError, STEP, World};
use crate::drain::{Remaining, drain, is_empty};
use crate::registration::now;
use crate::rules::{self, Content};

/// Drains a namespace that is being deleted, and removes it once it is empty. Gives back what is not.
///
/// No create can land in it after the list of types was read: a create is guarded by the namespace's revision, and it
/// was marked before.
pub(crate) async fn finish(world: &World, object: &StoredObject) -> Result<Vec<Held>, ReconcileError> {
    let storage = &world.registry.deps().storage;
    let before = storage.published();
    let mut remaining = Remaining::default();
    let mut content = Content::default();
    let mut failed = Ok(());
    let mut held = Vec::new();
    let within = format!("{}/", object.name());
    for registered in world.registry.registered(Deadline::after(STEP)).await? {
        let Some(handle) = registered.handle else { continue };
        let Some(spec) = handle.spec().filter(|spec| spec.scope == Scope::Namespaced) else { continue };
        let prefix = format!("{}{within}", handle.prefix());
        // Types that have nothing here stay asleep.
        if is_empty(&**storage, &prefix).await?.0 {
            continue;
        }
        match drain(&handle, &within).await {
            Ok(left) if left.objects == 0 && is_empty(&**storage, &prefix).await?.0 => {}
            Ok(left) => {
                content.by_type.push((spec.group_resource(), left.objects));
                remaining.add(left);
                held.push((prefix, before.next()));
            }
            Err(error) => {
                content.failures.push(format!("{}: {error}", spec.group_resource()));
                failed = failed.and(Err(error.into()));
                held.push((prefix, before.next()));
            }
        }
    }
    content.failures.sort();
    content.by_finalizer = remaining.finalizers.into_iter().collect();
    conclude(world, object, &content, held.is_empty()).await?;
    failed.map(|()| held)
}

/// Says in the conditions what was found; removes the namespace if it is empty.
async fn conclude(
    world: &World,
    object: &StoredObject,
    content: &Content,
    empty: bool,
) -> Result<(), ReconcileError> {
    let (Ok(mut tree), Some(spec)) = (json::parse(object.json()), world.namespaces.spec()) else {
        return Ok(());
    };
    let changed = rules::set_conditions(&mut tree, content, &now(world));
    let key = spec.storage_key(object.name());
    let op = if empty {
        if rules::finalize(&mut tree) { Op::Delete(key) } else { Op::Put(key, Bytes::from(tree.to_vec())) }
    } else if changed {
        Op::Put(key, Bytes::from(tree.to_vec()))
    } else {
        return Ok(());
    };
    if matches!(&op, Op::Put(_, json) if *json == *object.json()) {
        return Ok(());
    }
    let compares = vec![Compare::mod_is(op.key(), object.revision())];
    match world.namespaces.commit(Txn { compares, ops: vec![op] }, Deadline::after(STEP)).await? {
        // What won a race wakes the actor again.
        TxnOutcome::Committed { .. } | TxnOutcome::Failed { .. } => Ok(()),
    }
}

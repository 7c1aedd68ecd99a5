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
    let mut by_type = Vec::new();
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
        let left = drain(&handle, &within).await?;
        if left.objects > 0 || !is_empty(&**storage, &prefix).await?.0 {
            by_type.push((spec.group_resource(), left.objects));
            remaining.add(left);
            held.push((prefix, before.next()));
        }
    }
    let Ok(mut tree) = json::parse(object.json()) else { return Ok(held) };
    let content = Content { by_type, by_finalizer: remaining.finalizers.into_iter().collect() };
    let changed = rules::set_conditions(&mut tree, &content, &now(world));
    let Some(spec) = world.namespaces.spec() else { return Ok(held) };
    let key = spec.storage_key(object.name());
    let op = if held.is_empty() {
        if rules::finalize(&mut tree) { Op::Delete(key) } else { Op::Put(key, Bytes::from(tree.to_vec())) }
    } else if changed {
        Op::Put(key, Bytes::from(tree.to_vec()))
    } else {
        return Ok(held);
    };
    if matches!(&op, Op::Put(_, json) if *json == *object.json()) {
        return Ok(held);
    }
    let compares = vec![Compare::mod_is(op.key(), object.revision())];
    match world.namespaces.commit(Txn { compares, ops: vec![op] }, Deadline::after(STEP)).await? {
        TxnOutcome::Committed { .. } | TxnOutcome::Failed { .. } => Ok(held),
    }
}

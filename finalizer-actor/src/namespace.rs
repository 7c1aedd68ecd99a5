//! The end of a namespace: everything in it, of every registered type, then itself.
//!
//! The drain neither looks for, removes nor waits for another API server's objects of types that are not registered here
//! (`/registry/pods/…`): only that server knows the layout of its keys, and clients of this one could not delete the objects
//! that the drain would wait for.
//!
//! Source: `pkg/controller/namespace/deletion/namespaced_resources_deleter.go` and its conditions (1.37).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::select_all;
use kindom_actor_kit::Deadline;
use kindom_api::{GroupResource, json};
use kindom_objects::{Scope, StoredObject, TypeSpec, manage_status};
use kindom_registry_actor::Registered;
use kindom_resource_actor::ResourceHandle;
use kindom_storage::{Compare, Op, Revision, Txn, TxnOutcome};
use tokio::time::timeout_at;

use crate::attempt::{DrainDeps, STEP};
use crate::drain::{Drain, Held, Left, Remains, is_empty};
use crate::error::DrainError;
use crate::error::ReconcileError;
use crate::progress::{Pace, WRITTEN_AFTER};
use crate::registration::now;
use kindom_objects::kinds::namespace::{self as rules, Content};

/// The objects left in a namespace after a sweep.
#[derive(Default)]
struct Remaining {
    held: Vec<(GroupResource, Held)>,
    /// Something has to be swept again.
    unsettled: bool,
    /// Types that could not be swept: which, and why.
    failed: Vec<(GroupResource, ReconcileError)>,
}

impl Remaining {
    fn objects(&self) -> usize {
        self.held.iter().map(|(_, held)| held.tally.objects).sum()
    }

    fn content(&self) -> Content {
        let mut by_finalizer: BTreeMap<&str, usize> = BTreeMap::new();
        for (finalizer, count) in self.held.iter().flat_map(|(_, held)| held.tally.finalizers()) {
            *by_finalizer.entry(finalizer).or_default() += count;
        }
        Content {
            by_type: self.held.iter().map(|(gr, held)| (gr.clone(), held.tally.objects)).collect(),
            by_finalizer: by_finalizer.into_iter().map(|(f, n)| (f.to_owned(), n)).collect(),
            failures: self.failed.iter().map(|(gr, error)| format!("{gr}: {error}")).collect(),
        }
    }
}

/// Drains a namespace that is being deleted, and removes it once it is empty. Gives back its revision up to which nothing
/// is left to do.
///
/// No create can land in it after the list of types was read: a create is guarded by the namespace's revision, and it
/// was marked before.
pub(crate) async fn finish(deps: DrainDeps, object: Arc<StoredObject>) -> Revision {
    let mut failures = 0;
    loop {
        match attempt(&deps, &object, &mut failures).await {
            Ok(concluded) => return concluded,
            Err(error) => {
                failures += 1;
                tracing::warn!(namespace = object.name(), %error, failures, "draining failed; trying again");
                deps.pause(failures).await;
            }
        }
    }
}

async fn attempt(
    deps: &DrainDeps,
    seen: &StoredObject,
    failures: &mut u32,
) -> Result<Revision, ReconcileError> {
    loop {
        let Some(object) = current(deps, seen).await? else { return Ok(seen.revision()) };
        let mut remaining = empty(deps, &object).await?;
        let at_end = remaining.held.is_empty() && !remaining.unsettled && remaining.failed.is_empty();
        let concluded = conclude(deps, &object, &remaining.content(), at_end).await?;
        if let Some((_, error)) = remaining.failed.pop() {
            return Err(error);
        }
        match concluded {
            Some(revision) if at_end => return Ok(revision),
            Some(_) if !remaining.unsettled => {
                *failures = 0;
                hold(deps, seen, remaining).await?;
            }
            // Somebody was faster, perhaps with a change of a registration: that is waited for.
            Some(_) | None => drop(deps.registry.fresh(Deadline::after(STEP)).await?),
        }
    }
}

/// The namespace as it is now; none if it is gone or another's.
async fn current(deps: &DrainDeps, seen: &StoredObject) -> Result<Option<Arc<StoredObject>>, ReconcileError> {
    let found = deps.namespaces.get(seen.name(), Deadline::after(STEP)).await?;
    Ok(found.filter(|object| object.uid() == seen.uid() && object.deleting()))
}

/// One sweep over every type that has something in the namespace.
async fn empty(deps: &DrainDeps, object: &StoredObject) -> Result<Remaining, ReconcileError> {
    let _turn = deps.sweeps.acquire().await;
    let mut remaining = Remaining::default();
    let within = format!("{}/", object.name());
    let mut types: Vec<ResourceHandle> = deps.registry.built_in().cloned().collect();
    for registered in deps.registry.registered(Deadline::after(STEP)).await? {
        let spec = registered.handle.as_ref().and_then(|handle| handle.spec());
        if spec.is_none() && !registered.built_in {
            remaining.failed.extend(unreadable(deps, &registered, &within).await);
        }
        types.extend(registered.handle.filter(|_| spec.is_some()));
    }
    for handle in types {
        let Some(spec) = handle.spec().filter(|spec| spec.scope == Scope::Namespaced) else { continue };
        match empty_of(deps, object, &handle, &within).await {
            Ok(Remains::Empty) => {}
            Ok(Remains::Held(held)) => remaining.held.push((spec.group_resource(), held)),
            Ok(Remains::Unsettled) => remaining.unsettled = true,
            // A failure does not hold up other types.
            Err(error) => remaining.failed.push((spec.group_resource(), error)),
        }
        // There may be thousands of types.
        tokio::task::yield_now().await;
    }
    Ok(remaining)
}

/// Checks if a registration that can't be read has objects in a namespace. They are found by the registration's name, as
/// nothing else is known of it. If there are any, the namespace stays: its objects can't be drained, and would be in a new
/// namespace of the same name.
async fn unreadable(
    deps: &DrainDeps,
    registered: &Registered,
    within: &str,
) -> Option<(GroupResource, ReconcileError)> {
    let (plural, group) = registered.name.split_once('.')?;
    let prefix = format!("{}{within}", TypeSpec::prefix_of(group, plural));
    let why = match is_empty(&*deps.registry.deps().storage, &prefix).await {
        Ok(true) => return None,
        Ok(false) => ReconcileError::Unreadable,
        Err(error) => DrainError::List(error).into(),
    };
    Some((GroupResource::new(group, plural), why))
}

async fn empty_of(
    deps: &DrainDeps,
    object: &StoredObject,
    handle: &ResourceHandle,
    within: &str,
) -> Result<Remains, ReconcileError> {
    let Some(spec) = deps.namespaces.spec() else { return Ok(Remains::Empty) };
    let guard = Compare::mod_is(&spec.storage_key(object.name()), object.revision());
    let drain = Drain::new(handle, within, vec![guard]);
    // Most types have nothing here.
    if is_empty(&*deps.registry.deps().storage, drain.prefix()).await.map_err(DrainError::List)? {
        return Ok(Remains::Empty);
    }
    let mut sweep = drain.sweep();
    while sweep.page().await?.is_some() {}
    Ok(drain.count_remaining().await?)
}

/// Waits until a type has nothing left, or any other change than a release happens; writes its progress into the conditions.
async fn hold(deps: &DrainDeps, seen: &StoredObject, mut remaining: Remaining) -> Result<(), ReconcileError> {
    let mut pace = Pace::default();
    pace.reported(remaining.objects());
    let mut report_due: Option<Deadline> = None;
    loop {
        let changes = select_all(remaining.held.iter_mut().map(|(_, held)| held.change().boxed()));
        let changes = changes.map(|(change, at, _)| (change, at));
        let changed = match report_due {
            None => Some(changes.await),
            Some(deadline) => timeout_at(deadline.instant(), changes).await.ok(),
        };
        if let Some((change, at)) = changed {
            match change? {
                Left::Unsettled => return Ok(()),
                Left::Nothing => drop(remaining.held.swap_remove(at)),
                Left::Something => {}
            }
            report_due.get_or_insert_with(|| Deadline::after(WRITTEN_AFTER));
        }
        if remaining.held.is_empty() {
            return Ok(());
        }
        let left = remaining.objects();
        if (pace.due(left) || report_due.is_some_and(|deadline| deadline.passed()))
            && let Some(object) = current(deps, seen).await?
        {
            conclude(deps, &object, &remaining.content(), false).await?;
            pace.reported(left);
            report_due = None;
        }
    }
}

/// Writes the findings into the conditions; removes the namespace if it is empty. Returns its new revision; `None` if
/// another writer was faster.
async fn conclude(
    deps: &DrainDeps,
    object: &StoredObject,
    content: &Content,
    empty: bool,
) -> Result<Option<Revision>, ReconcileError> {
    let unchanged = Ok(Some(object.revision()));
    let (Ok(mut tree), Some(spec)) = (json::parse_own(object.json()), deps.namespaces.spec()) else {
        return unchanged;
    };
    let now = now(deps);
    let before = tree.get("status").cloned();
    let changed = rules::set_conditions(&mut tree, content, &now);
    if changed {
        manage_status(&spec, before, &mut tree, &now);
    }
    let key = spec.storage_key(object.name());
    let goes = empty && rules::finalize(&mut tree);
    let json = tree.to_vec();
    if !goes && json == *object.json() {
        return unchanged;
    }
    let op = if goes { Op::Delete(key) } else { Op::Put(key, spec.stored_value(json)) };
    if let (Op::Put(..), Some(fields)) = (&op, object.would_lose()) {
        // It is deleted as others are, but its conditions cannot be written.
        tracing::warn!(namespace = object.name(), fields, "a namespace with unknown fields is left as it is");
        return unchanged;
    }
    let compares = vec![Compare::mod_is(op.key(), object.revision())];
    match deps.namespaces.commit(Txn { compares, ops: vec![op] }, Deadline::after(STEP)).await? {
        TxnOutcome::Committed { revision } => Ok(Some(revision)),
        TxnOutcome::Failed { .. } => Ok(None),
    }
}

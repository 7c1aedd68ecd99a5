//! One type: every object is brought to the storage version, then `status.storedVersions` is cut to it.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use kindom_actor_kit::{Deadline, Woken};
use kindom_api::crd::{CustomResourceDefinition, condition, decode_crd};
use kindom_api::{json, meta};
use kindom_objects::registration::READ_ONLY_ANNOTATION;
use kindom_objects::{PlanError, StoredObject, TypeSpec, manage_status};
use kindom_registry_actor::{Registered, RegistryHandle};
use kindom_resource_actor::{Pages, ResourceHandle, Rewritten, WriteError};
use kindom_storage::{Compare, Key, KeyRange, KeyValue, Op, RangeRequest, Revision, Txn, TxnOutcome};
use tokio::sync::Semaphore;

use crate::attempt::{STEP, pause};
use crate::error::{DrainError, ReconcileError};

/// The most rewrites that are in the store's hands at once.
const IN_FLIGHT: usize = 16;

/// Runs passes until `storedVersions` is the storage version alone, or the registration needs none any more. Gives back
/// its revision up to which nothing is left to do.
pub(super) async fn finish(deps: RewriteDeps, registered: Registered) -> Revision {
    let mut failures = 0;
    loop {
        match attempt(&deps, &registered).await {
            Ok(concluded) => return concluded,
            Err(error) => {
                failures += 1;
                tracing::warn!(registration = registered.name, %error, failures, "a rewrite failed; trying again");
                pause(&deps.registry, failures).await;
            }
        }
    }
}

/// The parts of the server that passes need.
#[derive(Clone)]
pub(crate) struct RewriteDeps {
    pub(crate) registry: RegistryHandle,
    pub(crate) registrations: ResourceHandle,
    /// The time for which a registration must not change before its type is read.
    pub(crate) settle: Duration,
    /// Permits to read a type.
    pub(crate) passes: Arc<Semaphore>,
}

/// The registration that a pass began with, as the type's handle knew it then.
struct KnownRegistration {
    spec: Arc<TypeSpec>,
    generation: i64,
    storage: String,
}

impl KnownRegistration {
    fn of(handle: &ResourceHandle) -> Option<Self> {
        let spec = handle.spec()?;
        let crd = decode(&spec.registration.as_ref()?.object)?;
        let storage = spec.storage()?.name.clone();
        Some(Self { generation: crd.metadata.generation, storage, spec })
    }

    fn is_still(&self, handle: &ResourceHandle) -> bool {
        let known = handle.spec();
        if known.as_ref().is_some_and(|known| known.read_only()) {
            return false;
        }
        known.is_some_and(|known| Arc::ptr_eq(&known, &self.spec))
            || Self::of(handle).is_some_and(|now| now.generation == self.generation)
    }
}

/// The outcome of a pass.
enum Passed {
    /// Every object is stored in the storage version.
    All,
    /// The spec changed.
    Changed,
    /// The object of this key, and perhaps others, can't be read; its revision was this.
    Except(Key, Revision),
}

async fn attempt(deps: &RewriteDeps, registered: &Registered) -> Result<Revision, ReconcileError> {
    let seen = registered.object.revision();
    let Some(handle) = &registered.handle else { return Ok(seen) };
    loop {
        if let Due::No(at) = settled(deps, registered).await? {
            return Ok(at);
        }
        let Some(began_with) = KnownRegistration::of(handle) else { return Ok(seen) };
        match pass(deps, handle, &began_with).await? {
            Passed::All => {
                if let Some(concluded) = cut(deps, registered, &began_with).await? {
                    return Ok(concluded);
                }
            }
            Passed::Changed => {}
            Passed::Except(key, at) => {
                until_changed(deps, handle, &began_with, &key, at).await?;
                continue;
            }
        }
        // After this, missed changes are known.
        deps.registry.fresh(Deadline::after(STEP)).await?;
    }
}

/// The work on a type, by its registration as it is now.
enum Due {
    Yes(Box<CustomResourceDefinition>, Revision),
    /// Not for this revision of it.
    No(Revision),
}

async fn due(deps: &RewriteDeps, registered: &Registered) -> Result<Due, ReconcileError> {
    let found = deps.registrations.get(&registered.name, Deadline::after(STEP)).await?;
    let Some(object) = found.filter(|object| object.uid() == registered.object.uid()) else {
        return Ok(Due::No(registered.object.revision()));
    };
    let at = object.revision();
    let Some(crd) = decode(&object) else { return Ok(Due::No(at)) };
    let webhook = crd.spec.conversion.as_ref().is_some_and(|c| c.strategy == "Webhook");
    let storage = crd.storage_version().map(|version| version.name.as_str());
    let frozen = crd.metadata.annotations.get(READ_ONLY_ANNOTATION).is_some_and(|value| value == "true");
    let is_due = !object.deleting()
        && !frozen
        && crd.is_condition_true(condition::ESTABLISHED)
        && !webhook
        && crd.status.stored_versions.iter().any(|stored| Some(stored.as_str()) != storage);
    Ok(if is_due { Due::Yes(Box::new(crd), at) } else { Due::No(at) })
}

/// As [`due`], once the registration has not changed for a while.
async fn settled(deps: &RewriteDeps, registered: &Registered) -> Result<Due, ReconcileError> {
    let mut changes = deps.registry.changes();
    let clock = &deps.registry.deps().clock;
    loop {
        let found = due(deps, registered).await?;
        let Due::Yes(_, seen) = &found else { return Ok(found) };
        if deps.settle.is_zero() {
            return Ok(found);
        }
        tokio::select! {
            biased;
            () = clock.sleep(deps.settle) => return Ok(found),
            changed = until_other(deps, registered, *seen, &mut changes) => changed?,
        }
    }
}

/// Waits until the registration is not as it was at a revision. It is not decoded for that: each change of any
/// registration wakes all that wait here.
async fn until_other(
    deps: &RewriteDeps,
    registered: &Registered,
    seen: Revision,
    changes: &mut Woken,
) -> Result<(), ReconcileError> {
    loop {
        changes.woken().await;
        let now = deps.registrations.get(&registered.name, Deadline::after(STEP)).await?;
        if now.is_none_or(|now| now.revision() != seen) {
            return Ok(());
        }
    }
}

fn decode(object: &StoredObject) -> Option<CustomResourceDefinition> {
    let tree = json::parse_own(object.json()).ok()?;
    decode_crd(&tree).ok().map(|(crd, _)| crd)
}

/// Reads every object once, and rewrites those stored in another version. Holds one page in memory.
async fn pass(
    deps: &RewriteDeps,
    handle: &ResourceHandle,
    began_with: &KnownRegistration,
) -> Result<Passed, ReconcileError> {
    let _turn = deps.passes.acquire().await;
    let storage = &*handle.deps().storage;
    let mut pages = Pages::new(handle.prefix());
    let mut unreadable = None;
    // Each page is as of now, which is after the registration that the pass rests on.
    while let Some(page) = pages.next(storage).await.map_err(DrainError::List)? {
        let mut todo = page.kvs;
        loop {
            let again = rewrite(handle, todo, &mut unreadable).await?;
            if again.is_empty() {
                break;
            }
            // Somebody was faster, perhaps with a change of the registration.
            deps.registry.fresh(Deadline::after(STEP)).await?;
            if !began_with.is_still(handle) {
                return Ok(Passed::Changed);
            }
            todo = Vec::with_capacity(again.len());
            for key in again {
                todo.extend(storage.range(RangeRequest::single(&key)).await.map_err(DrainError::List)?.kvs);
            }
        }
    }
    Ok(match unreadable {
        None => Passed::All,
        Some((key, at)) => Passed::Except(key, at),
    })
}

/// Rewrites these; gives back those that have to be read again.
async fn rewrite(
    handle: &ResourceHandle,
    kvs: Vec<KeyValue>,
    unreadable: &mut Option<(Key, Revision)>,
) -> Result<Vec<Key>, WriteError> {
    let one = |kv: KeyValue| async move {
        // A whole page would exceed the budget of a turn.
        tokio::task::yield_now().await;
        let name = std::str::from_utf8(kv.key.as_bytes()).ok().and_then(|k| k.strip_prefix(handle.prefix()));
        let outcome = match name {
            Some(name) => {
                let object = handle.stored_object(name, kv.value, kv.mod_revision);
                match handle.rewrite_stored(&object, Deadline::after(STEP)).await {
                    Err(WriteError::Plan(PlanError::TooLarge { bytes, limit })) => {
                        Ok(Rewritten::Undecodable(format!(
                            "with its defaults it has {bytes} bytes, more than {limit}"
                        )))
                    }
                    Err(WriteError::RequestTooLarge(why)) => Ok(Rewritten::Undecodable(why)),
                    other => other,
                }
            }
            None => Ok(Rewritten::Undecodable("its key is no text".into())),
        };
        (kv.key, kv.mod_revision, outcome)
    };
    let mut outcomes = stream::iter(kvs).map(one).buffer_unordered(IN_FLIGHT);
    let mut again = Vec::new();
    while let Some((key, revision, outcome)) = outcomes.next().await {
        match outcome? {
            Rewritten::Current => {}
            Rewritten::LookAgain => again.push(key),
            Rewritten::Undecodable(why) => {
                tracing::warn!(%key, why, "an object stays in the version that it is stored in");
                unreadable.get_or_insert((key, revision));
            }
        }
    }
    Ok(again)
}

/// Waits until an object that can't be read is another, or the registration.
async fn until_changed(
    deps: &RewriteDeps,
    handle: &ResourceHandle,
    began_with: &KnownRegistration,
    key: &Key,
    at: Revision,
) -> Result<(), ReconcileError> {
    let storage = &handle.deps().storage;
    // By its own revision, so that history is not needed: a change since then is seen by reading it.
    let mut watch = storage.watch(KeyRange::single(key), None).await.map_err(DrainError::List)?;
    let request = RangeRequest { keys_only: true, ..RangeRequest::single(key) };
    let now = storage.range(request).await.map_err(DrainError::List)?.kvs;
    if now.first().map(|kv| kv.mod_revision) != Some(at) {
        return Ok(());
    }
    let mut changes = deps.registry.changes();
    loop {
        let same = handle.spec().is_some_and(|spec| Arc::ptr_eq(&spec, &began_with.spec));
        if !same {
            return Ok(());
        }
        tokio::select! {
            biased;
            _ = watch.commits.recv() => return Ok(()),
            () = changes.woken() => {}
        }
    }
}

/// Cuts `storedVersions` to the storage version, if the spec is still the one that the pass rests on. Gives back the
/// revision of the registration then; none if there has to be another pass.
async fn cut(
    deps: &RewriteDeps,
    registered: &Registered,
    began_with: &KnownRegistration,
) -> Result<Option<Revision>, ReconcileError> {
    loop {
        let (mut crd, revision) = match due(deps, registered).await? {
            Due::Yes(crd, revision) => (crd, revision),
            Due::No(at) => return Ok(Some(at)),
        };
        if crd.metadata.generation != began_with.generation {
            return Ok(None);
        }
        let Some(spec) = deps.registrations.spec() else { return Ok(Some(revision)) };
        let before = json::to_value(&crd.status);
        crd.status.stored_versions = vec![began_with.storage.clone()];
        let mut tree = crd.to_value();
        let seconds = deps.registry.deps().clock.unix_seconds();
        manage_status(&spec, Some(before), &mut tree, &meta::time::format(seconds));
        let key = spec.storage_key(&registered.name);
        let compares = vec![Compare::mod_is(&key, revision)];
        let txn = Txn { compares, ops: vec![Op::Put(key, spec.stored_value(tree.to_vec()))] };
        match deps.registrations.commit(txn, Deadline::after(STEP)).await? {
            TxnOutcome::Committed { revision } => {
                tracing::info!(
                    registration = registered.name,
                    "every object is stored in {}",
                    began_with.storage
                );
                return Ok(Some(revision));
            }
            TxnOutcome::Failed { .. } => {}
        }
    }
}

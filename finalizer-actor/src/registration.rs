//! The end of a registration: its objects first, then itself (T-45 to T-49).
//!
//! Source: apiextensions `pkg/controller/finalizer/crd_finalizer.go` (1.37).

use bytes::Bytes;
use kindom_actor_kit::Deadline;
use kindom_api::crd::{CLEANUP_FINALIZER, CustomResourceDefinition, condition, decode_crd};
use kindom_api::meta::{self, Condition, set_condition};
use kindom_api::{Value, json};
use kindom_objects::{TypeSpec, manage_status};
use kindom_registry_actor::Registered;
use kindom_resource_actor::ResourceHandle;
use kindom_storage::{Compare, Op, Revision, Txn, TxnOutcome};
use tokio::time::timeout_at;

use crate::attempt::{DrainDeps, STEP};
use crate::drain::{Drain, Held, Left, Remains, first_keys};
use crate::error::DrainError;
use crate::error::ReconcileError;
use crate::progress::{NAMES_LISTED, Pace, Tally, WRITTEN_AFTER, message};

/// The number of failed attempts that the condition does not mention: one failure is mostly the fall of an actor.
const FAILURES_UNREPORTED: u32 = 3;

/// Built in elsewhere, and stored where a registered type of the name would be (`OverlappingBuiltInResources`).
const BUILT_IN_ELSEWHERE: [&str; 1] = ["apiservices.apiregistration.k8s.io"];

/// Drains the objects of a registration that is being deleted, and removes it once none is left. Gives back the revision
/// of the registration up to which nothing is left to do.
pub(crate) async fn finish(deps: DrainDeps, registered: Registered) -> Revision {
    let mut pace = Pace::default();
    let mut failures = 0;
    loop {
        let error = match attempt(&deps, &registered, &mut pace, &mut failures).await {
            Ok(concluded) => return concluded,
            Err(error) => error,
        };
        failures += 1;
        tracing::warn!(registration = registered.name, %error, failures, "draining failed; trying again");
        if failures >= FAILURES_UNREPORTED
            && let Some((reason, text)) = failure(&error)
        {
            pace.forget();
            if let Err(error) = tell(&deps, &registered, ("True", reason, &text)).await {
                tracing::warn!(registration = registered.name, %error, "the failure could not be reported");
            }
        }
        deps.pause(failures).await;
    }
}

/// The condition's reason and message.
fn failure(error: &ReconcileError) -> Option<(&'static str, String)> {
    let ReconcileError::Drain(error) = error else { return None };
    let reason = match error {
        DrainError::List(_) | DrainError::Delete(_) => "InstanceDeletionFailed",
        DrainError::Check(_) => "InstanceDeletionCheck",
    };
    Some((reason, error.to_string()))
}

async fn attempt(
    deps: &DrainDeps,
    registered: &Registered,
    pace: &mut Pace,
    failures: &mut u32,
) -> Result<Revision, ReconcileError> {
    let built_in = registered.built_in || BUILT_IN_ELSEWHERE.contains(&&*registered.name);
    let Some(handle) = registered.handle.as_ref().filter(|_| !built_in) else {
        if !built_in {
            // Damaged: the place of its objects is unknown, so it stays; otherwise a later registration would find them.
            tracing::error!(
                registration = registered.name,
                "a registration that can't be read is not removed"
            );
            return Ok(registered.object.revision());
        }
        loop {
            // Its objects are not this registration's (OverlappingBuiltInResource).
            if let Some(concluded) = remove(deps, registered, None).await? {
                return Ok(concluded);
            }
        }
    };
    loop {
        if let Look::Concluded(at) = current(deps, registered).await? {
            return Ok(at);
        }
        let drain = Drain::new(handle, "", Vec::new());
        match empty(deps, registered, &drain, pace).await? {
            Remains::Empty => {
                if let Some(concluded) = remove(deps, registered, Some(handle)).await? {
                    return Ok(concluded);
                }
            }
            Remains::Held(held) => {
                *failures = 0;
                hold(deps, registered, &drain, held, pace).await?;
            }
            // Somebody was faster, perhaps with a change of the registration: that is waited for.
            Remains::Unsettled => drop(deps.registry.fresh(Deadline::after(STEP)).await?),
        }
    }
}

/// Sweeps once; returns what is left.
async fn empty(
    deps: &DrainDeps,
    registered: &Registered,
    drain: &Drain<'_>,
    pace: &mut Pace,
) -> Result<Remains, ReconcileError> {
    let _turn = deps.sweeps.acquire().await;
    let mut sweep = drain.sweep();
    let mut first = true;
    while let Some(left) = sweep.page().await? {
        // A drain of a single page needs no report.
        if !(first && sweep.is_last()) && left > 0 && pace.due(left) {
            let message = message(left, &[], &Tally::default());
            tell(deps, registered, ("True", "InstanceDeletionInProgress", &message)).await?;
            pace.reported(left);
        }
        first = false;
    }
    Ok(drain.count_remaining().await?)
}

/// Waits until nothing is held any more, or any other change than a release happens; writes its progress.
async fn hold(
    deps: &DrainDeps,
    registered: &Registered,
    drain: &Drain<'_>,
    mut held: Held,
    pace: &mut Pace,
) -> Result<(), ReconcileError> {
    // The condition does not list the finalizers yet.
    pace.forget();
    let mut report_due: Option<Deadline> = None;
    loop {
        let left = held.tally.objects;
        if pace.due(left) || report_due.is_some_and(|deadline| deadline.passed()) {
            let storage = &*deps.registry.deps().storage;
            let names = first_keys(storage, drain.prefix(), NAMES_LISTED).await.map_err(DrainError::Check)?;
            let message = message(left, &names, &held.tally);
            tell(deps, registered, ("True", "InstanceDeletionInProgress", &message)).await?;
            pace.reported(left);
            report_due = None;
        }
        let change = match report_due {
            None => held.change().await?,
            Some(deadline) => match timeout_at(deadline.instant(), held.change()).await {
                Ok(change) => change?,
                Err(_) => continue,
            },
        };
        match change {
            Left::Nothing | Left::Unsettled => return Ok(()),
            Left::Something => {
                report_due.get_or_insert_with(|| Deadline::after(WRITTEN_AFTER));
            }
        }
    }
}

/// The registration as it is now.
enum Look {
    Here(Box<CustomResourceDefinition>, Revision),
    /// It is gone, another's, or others' finalizers hold it: nothing is left to do up to this revision of it.
    Concluded(Revision),
}

async fn current(deps: &DrainDeps, registered: &Registered) -> Result<Look, ReconcileError> {
    let concluded = |at| Ok(Look::Concluded(at));
    let found = deps.registrations.get(&registered.name, Deadline::after(STEP)).await?;
    let Some(object) = found.filter(|object| object.uid() == registered.object.uid()) else {
        return concluded(registered.object.revision());
    };
    let Some(crd) = json::parse_own(object.json()).ok().and_then(|tree| decode_crd(&tree).ok()) else {
        return concluded(object.revision());
    };
    let crd = crd.0;
    if !object.deleting() || !crd.metadata.finalizers.iter().any(|f| f == CLEANUP_FINALIZER) {
        return concluded(object.revision());
    }
    Ok(Look::Here(Box::new(crd), object.revision()))
}

/// Removes the registration, or only our finalizer where others hold it, in one transaction with "it has not changed" and
/// "no object is left". Gives back the revision at which nothing was left to do; none if it has to be tried again.
async fn remove(
    deps: &DrainDeps,
    registered: &Registered,
    of: Option<&ResourceHandle>,
) -> Result<Option<Revision>, ReconcileError> {
    let (mut crd, revision) = match current(deps, registered).await? {
        Look::Here(crd, revision) => (crd, revision),
        Look::Concluded(at) => return Ok(Some(at)),
    };
    crd.metadata.finalizers.retain(|f| f != CLEANUP_FINALIZER);
    let before = json::to_value(&crd.status);
    let Some(spec) = deps.registrations.spec() else { return Ok(Some(revision)) };
    let key = spec.storage_key(&registered.name);
    let mut compares = vec![Compare::mod_is(&key, revision)];
    compares.extend(of.map(|handle| Compare::empty_prefix(handle.prefix().as_bytes())));
    let op = if crd.metadata.finalizers.is_empty() {
        Op::Delete(key)
    } else {
        let (reason, message) = match of {
            None => ("OverlappingBuiltInResource", "instances overlap with built-in resources in storage"),
            Some(_) if !crd.is_condition_true(condition::ESTABLISHED) => {
                ("NeverEstablished", "resource was never established")
            }
            Some(_) => ("InstanceDeletionCompleted", "removed all instances"),
        };
        terminating(deps, &mut crd, ("False", reason, message));
        Op::Put(key, encode(deps, &spec, before, &crd))
    };
    match deps.registrations.commit(Txn { compares, ops: vec![op] }, Deadline::after(STEP)).await? {
        TxnOutcome::Committed { revision } => Ok(Some(revision)),
        TxnOutcome::Failed { .. } => Ok(None),
    }
}

/// Writes the condition, unless it is written already. A lost race is no error: the loop reads the winner's state again.
async fn tell(
    deps: &DrainDeps,
    registered: &Registered,
    condition: (&str, &str, &str),
) -> Result<(), ReconcileError> {
    let Look::Here(mut crd, revision) = current(deps, registered).await? else { return Ok(()) };
    let before = json::to_value(&crd.status);
    if !terminating(deps, &mut crd, condition) {
        return Ok(());
    }
    let Some(spec) = deps.registrations.spec() else { return Ok(()) };
    let key = spec.storage_key(&registered.name);
    let compares = vec![Compare::mod_is(&key, revision)];
    let txn = Txn { compares, ops: vec![Op::Put(key, encode(deps, &spec, before, &crd))] };
    if let TxnOutcome::Committed { revision } = deps.registrations.commit(txn, Deadline::after(STEP)).await? {
        // The drain's own writes are guarded by the registration too.
        deps.registry.folded(revision, Deadline::after(STEP)).await?;
    }
    Ok(())
}

fn terminating(
    deps: &DrainDeps,
    crd: &mut CustomResourceDefinition,
    (status, reason, message): (&str, &str, &str),
) -> bool {
    let condition = Condition::new(condition::TERMINATING, status, reason, message);
    set_condition(&mut crd.status.conditions, condition, &now(deps))
}

/// The time of day as metav1.Time prints it.
pub(crate) fn now(deps: &DrainDeps) -> String {
    let seconds = deps.registry.deps().clock.unix_seconds();
    meta::time::format(seconds)
}

/// The registration as it is stored, now that its status is not `before` any more.
fn encode(deps: &DrainDeps, spec: &TypeSpec, before: Value, crd: &CustomResourceDefinition) -> Bytes {
    let mut tree = crd.to_value();
    manage_status(spec, Some(before), &mut tree, &now(deps));
    spec.stored_value(tree.to_vec())
}

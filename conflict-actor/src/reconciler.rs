//! The loop: woken by the registry, it writes the verdicts that are due.

use std::time::Duration;

use bytes::Bytes;
use kindom_actor_kit::{AskError, BoxError, Deadline, Policy, Reconciler, StartError, Woken};
use kindom_api::{json, meta};
use kindom_objects::manage_status;
use kindom_registry_actor::{Judgement, RegistryHandle};
use kindom_resource_actor::ResourceHandle;
use kindom_resource_actor::{ReadError, WriteError};
use kindom_storage::{Compare, Key, Op, Revision, Txn, TxnOutcome};

use crate::conditions;

/// The most verdicts asked for at once, each of another group.
const VERDICTS_AT_ONCE: usize = 16;
/// The longest that one step may take before the world is read again.
const STEP: Duration = Duration::from_secs(10);
/// The time that a replica without the lease leaves due work to the leader; a name is late by no more than this.
const GRACE: Duration = Duration::from_secs(1);
/// The wait after a failure before the next try.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
enum ReconcileError {
    #[error("the registry: {0}")]
    Ask(#[from] AskError),
    #[error("the registry: {0}")]
    Fold(#[from] ReadError),
    #[error("the store: {0}")]
    Write(#[from] WriteError),
}

/// Starts the loop, as the actor `conflict`. `registrations` is the type of registrations themselves; ledger keys start
/// with `ledger`.
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    registrations: &ResourceHandle,
    ledger: &str,
) -> Result<Reconciler, StartError> {
    let deps = registry.deps();
    let judge =
        Judge { registry: registry.clone(), registrations: registrations.clone(), ledger: ledger.to_owned() };
    deps.supervisor.reconcile(
        "conflict",
        &deps.arbiters.place("conflict"),
        Policy::default(),
        registry.changes(),
        move |changes| judge.clone().run(changes),
    )
}

/// The same for every incarnation; nothing is kept from one to the next.
#[derive(Clone)]
struct Judge {
    registry: RegistryHandle,
    registrations: ResourceHandle,
    /// The start of every ledger key, such as `/kindom/registry/claims/`.
    ledger: String,
}

impl Judge {
    async fn run(self, mut changes: Woken) -> BoxError {
        loop {
            match self.reconcile().await {
                Ok(()) => changes.woken().await,
                Err(error) => {
                    tracing::warn!(%error, "names could not be judged; trying again");
                    self.registry.deps().clock.sleep(PAUSE).await;
                }
            }
        }
    }

    /// Until nothing is due.
    async fn reconcile(&self) -> Result<(), ReconcileError> {
        loop {
            let due = self.registry.due(VERDICTS_AT_ONCE, Deadline::after(STEP)).await?;
            let due = if self.registry.is_leader() { due } else { self.left_undone(due).await? };
            if due.is_empty() {
                return Ok(());
            }
            // They are of different groups, so none depends on another.
            let written =
                futures::future::join_all(due.into_iter().map(|judgement| self.write(judgement))).await;
            let mut last = Revision::ZERO;
            for revision in written {
                last = last.max(revision?);
            }
            self.registry.folded(last, Deadline::after(STEP)).await?;
        }
    }

    /// The due verdicts that the leading replica does not write in time.
    async fn left_undone(&self, due: Vec<Judgement>) -> Result<Vec<Judgement>, ReconcileError> {
        if due.is_empty() {
            return Ok(due);
        }
        let before: Vec<_> = due.into_iter().map(|due| (due.name, due.object.revision())).collect();
        self.registry.deps().clock.sleep(GRACE).await;
        let mut due = self.registry.due(VERDICTS_AT_ONCE, Deadline::after(STEP)).await?;
        if !self.registry.is_leader() {
            due.retain(|due| before.contains(&(due.name.clone(), due.object.revision())));
        }
        Ok(due)
    }

    /// Writes one verdict; returns a revision after which it, or the change that came in between, is folded.
    async fn write(&self, judgement: Judgement) -> Result<Revision, ReconcileError> {
        let Judgement { name, object, mut crd, verdict, folded } = judgement;
        let seconds = self.registry.deps().clock.unix_seconds();
        let now = meta::time::format(seconds);
        let Some(spec) = self.registrations.spec() else { return Ok(folded) };
        let before = json::to_value(&crd.status);
        conditions::apply(&mut crd, &verdict, &now);
        crd.metadata.resource_version = String::new();
        let mut tree = crd.to_value();
        manage_status(&spec, Some(before), &mut tree, &now);
        let key = spec.storage_key(&name);
        let mut txn = Txn {
            compares: vec![Compare::mod_is(&key, object.revision())],
            ops: vec![Op::Put(key, spec.stored_value(tree.to_vec()))],
        };
        if verdict.claims {
            let ledger = Key::from(format!("{}{}", self.ledger, crd.spec.group));
            txn.compares.push(Compare::mod_before(&ledger, folded.next()));
            txn.ops.push(Op::Put(ledger, Bytes::copy_from_slice(name.as_bytes())));
        }
        match self.registrations.commit(txn, Deadline::after(STEP)).await? {
            TxnOutcome::Committed { revision } => Ok(revision),
            // Another writer was faster. It wrote a registration of this group, which the registry will fold; asking again
            // is useful only after that.
            TxnOutcome::Failed { .. } => Ok(folded.next()),
        }
    }
}

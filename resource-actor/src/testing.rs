//! For the tests of this crate and of those above it: a store that is slow, late and faulty on request, the dependencies of
//! types over it, and writes as tests make them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use kindom_actor_kit::{ActorTable, Arbiters, Clock, Deadline, Entropy, Supervisor};
use kindom_api::Value;
use kindom_objects::{PlanError, RuleContext, StoredObject};
use kindom_storage::{
    Applied, Key, KeyRange, Memory, Op, RangeRequest, RangeResult, Revision, Storage, StorageError,
    StorageFuture, Txn, TxnOutcome, Watch,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::unbounded_channel;

use crate::event_log::ObjectEvent;
use crate::handle::Deps;
use crate::request::WriteOptions;

/// Called right before a transaction is judged.
pub type Hook = Box<dyn FnMut(&Memory, &Txn) + Send>;

/// A store in memory that lets others run in the middle of every call, delays its watches, and fails on request.
pub struct FaultyStore {
    /// The store itself, without faults.
    pub inner: Memory,
    entropy: Entropy,
    /// The most times that a call lets others run before and after.
    pauses: u64,
    /// The most others' steps between a commit and its arrival in a watch.
    lag: u64,
    /// Called before each transaction.
    pub before_txn: Mutex<Option<Hook>>,
    /// Transactions wait for a permit while they are [`gated`](Self::gated).
    pub gate: Semaphore,
    /// See [`gate`](Self::gate).
    pub gated: AtomicBool,
    /// The fate of the next transactions' answers.
    pub answers: Mutex<Answers>,
    /// Deletions under this prefix are refused.
    pub undeletable: Mutex<Option<String>>,
    /// The store can't be reached: only what was delivered before is known.
    pub away: AtomicBool,
    /// No call comes back.
    pub hangs: AtomicBool,
}

/// The fate of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// They arrive, and so do their answers.
    Arrive,
    /// They arrive, and their answers get lost.
    Lost,
    /// They get lost themselves, and nobody knows.
    NeverAsked,
}

fn unavailable(applied: Applied) -> StorageError {
    StorageError::Unavailable { reason: "planned".to_owned(), applied }
}

impl FaultyStore {
    /// A view of `inner` without faults, as slow and as late as given.
    #[must_use]
    pub fn new(inner: Memory, entropy: Entropy, pauses: u64, lag: u64) -> Self {
        Self {
            inner,
            entropy,
            pauses,
            lag,
            before_txn: Mutex::default(),
            gate: Semaphore::new(0),
            gated: false.into(),
            answers: Mutex::new(Answers::Arrive),
            undeletable: Mutex::default(),
            away: false.into(),
            hangs: false.into(),
        }
    }

    /// The dependencies of types over it, at a fixed time of day.
    #[must_use]
    pub fn deps(self: &Arc<Self>, arbiters: Arbiters, table: &ActorTable, entropy: &Entropy) -> Arc<Deps> {
        Arc::new(Deps {
            storage: Arc::clone(self) as Arc<dyn Storage>,
            supervisor: Supervisor::new(table.clone(), entropy.fork()),
            arbiters,
            clock: Clock::starting_at(1_700_000_000_000),
            entropy: entropy.fork(),
            webhooks: Arc::new(crate::NoWebhooks),
            processors: None,
        })
    }

    /// Carries out operations past all faults.
    ///
    /// # Panics
    /// If the store refuses them.
    pub fn commit(&self, ops: Vec<Op>) -> Revision {
        match self.inner.txn(Txn { compares: Vec::new(), ops }).now_or_never() {
            Some(Ok(TxnOutcome::Committed { revision })) => revision,
            other => panic!("{other:?}"),
        }
    }

    /// Stores bytes past all faults.
    ///
    /// # Panics
    /// If the store refuses them.
    pub fn put(&self, key: &str, value: impl Into<Bytes>) -> Revision {
        self.commit(vec![Op::Put(Key::from(key), value.into())])
    }

    async fn pause(&self) {
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        for _ in 0..self.entropy.below(self.pauses + 1) {
            tokio::task::yield_now().await;
        }
    }

    fn refuses(&self, txn: &Txn) -> bool {
        let undeletable = self.undeletable.lock();
        let Some(prefix) = undeletable.as_deref() else { return false };
        txn.ops
            .iter()
            .any(|op| matches!(op, Op::Delete(_)) && op.key().as_bytes().starts_with(prefix.as_bytes()))
    }

    /// The same watch, later.
    fn delayed(&self, watch: Watch) -> Watch {
        let Watch { mut commits, progress } = watch;
        let (sender, receiver) = unbounded_channel();
        let (entropy, lag) = (self.entropy.fork(), self.lag);
        tokio::task::spawn_local(async move {
            while let Some(item) = commits.recv().await {
                for _ in 0..entropy.below(lag) {
                    tokio::task::yield_now().await;
                }
                if sender.send(item).is_err() {
                    break;
                }
            }
        });
        Watch { commits: receiver.into(), progress }
    }
}

impl Storage for FaultyStore {
    fn txn(&self, txn: Txn) -> StorageFuture<'_, TxnOutcome> {
        Box::pin(async move {
            self.pause().await;
            if self.gated.load(Ordering::SeqCst) {
                self.gate.acquire().await.map_err(|_| unavailable(Applied::No))?.forget();
            }
            if let Some(hook) = &mut *self.before_txn.lock() {
                hook(&self.inner, &txn);
            }
            let answers = *self.answers.lock();
            if answers == Answers::NeverAsked {
                return Err(unavailable(Applied::Unknown));
            }
            if self.refuses(&txn) {
                let reason = "refused by the test".to_owned();
                return Err(StorageError::Unavailable { reason, applied: Applied::No });
            }
            let outcome = self.inner.txn(txn).await;
            self.pause().await;
            if answers == Answers::Lost { Err(unavailable(Applied::Unknown)) } else { outcome }
        })
    }

    fn range(&self, request: RangeRequest) -> StorageFuture<'_, RangeResult> {
        Box::pin(async move {
            self.pause().await;
            let found = self.inner.range(request).await;
            self.pause().await;
            found
        })
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> StorageFuture<'_, Watch> {
        Box::pin(async move {
            self.pause().await;
            let watch = self.inner.watch(range, from).await?;
            Ok(if self.lag > 0 { self.delayed(watch) } else { watch })
        })
    }

    fn published(&self) -> Revision {
        self.inner.published()
    }

    fn fresh(&self) -> StorageFuture<'_, Revision> {
        if self.away.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(unavailable(Applied::No))));
        }
        self.inner.fresh()
    }

    fn compact(&self, revision: Revision) -> StorageFuture<'_, ()> {
        self.inner.compact(revision)
    }

    fn compacted(&self) -> Revision {
        self.inner.compacted()
    }

    fn close(&self) -> StorageFuture<'_, ()> {
        self.inner.close()
    }
}

/// A deadline that no test reaches.
#[must_use]
pub fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// The options of a plain write by the server itself.
#[must_use]
pub fn options() -> WriteOptions {
    WriteOptions { manager: "test".into(), ..WriteOptions::by_server(soon(), 1 << 20) }
}

/// A body as the type decodes it.
///
/// # Errors
/// [`PlanError::BadRequest`]
pub fn decoded(cx: &RuleContext<'_>, object: &Value) -> Result<Value, PlanError> {
    let mut object = object.clone();
    cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::BadRequest)?;
    Ok(object)
}

/// `+key`, `~key` or `-key` of each event.
#[must_use]
pub fn brief(events: &[Arc<ObjectEvent>]) -> Vec<String> {
    let key = |object: &Arc<StoredObject>| object.key().to_owned();
    let one = |event: &Arc<ObjectEvent>| match (&event.object, &event.previous) {
        (Some(object), None) => format!("+{}", key(object)),
        (Some(object), Some(_)) => format!("~{}", key(object)),
        (None, Some(previous)) => format!("-{}", key(previous)),
        (None, None) => "?".to_owned(),
    };
    events.iter().map(one).collect()
}

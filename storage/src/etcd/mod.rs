//! The engine of many processes: an etcd cluster, 3.4 to 3.6.
//!
//! ```text
//! txn, range ──► clients ──► the current endpoint; another when it fails        clients.rs, txn.rs, range.rs
//! watch ──► the past: ring, or a watch of its own ──► hub                       ring.rs, past.rs
//!                                                      ▲
//!           one watch over all that is ours ───────────┘                        follow.rs
//! compact ──► one replica an interval                                           compaction.rs
//! fresh ──► one read for all that wait ──► the watch has got there              fresh.rs, shared.rs
//! ```
//!
//! # Order and gaps
//! One watch, with one id, covers everything: etcd orders the events of one watcher, and sends all changes of a revision in
//! one message; between two watchers it promises nothing (`mvcc/watchable_store.go`, victims). A broken watch goes on at the
//! last revision that it saw. Only if that was compacted meanwhile is there a gap, and every subscription ends with
//! [`StorageError::Compacted`].
//!
//! # The proof that the watch is fresh
//! An event at or after the revision in question. If that revision changed no watched key, there is none: then a progress
//! notification asked for on the same stream, from servers where it can be trusted (≥ 3.4.31, ≥ 3.5.13; etcd-io/etcd#15220);
//! else the event of a marker key that is written for it. The revision in the header of a message with events proves
//! nothing.
//!
//! # A cluster that was replaced
//! A cluster that was restored from a backup, or another one at the same address, takes back revisions that clients have
//! seen, and uses them again. Then nothing in memory is true. It shows by the id of the cluster, or by a revision that went
//! back ([`Core::check_history`]); the store closes, and [`Etcd::replaced`] says why.

mod clients;
mod compaction;
mod follow;
mod fresh;
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "generated from storage/proto/etcd.proto"
)]
#[rustfmt::skip]
mod messages;
mod past;
mod range;
mod ring;
mod shared;
mod space;
mod status;
mod txn;
mod wire;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use self::clients::Clients;
pub use self::clients::EtcdTls;
use self::ring::Ring;
use self::shared::Shared;
pub use self::space::Area;
use self::space::Space;
use self::status::Trouble;
use self::txn::Prepared;
use self::wire::{Rpc, number};
use crate::hub::Hub;
use crate::index::last_op_of_each_key;
use crate::{
    Applied, KeyRange, Limits, RangeRequest, RangeResult, Revision, Storage, StorageError, StorageFuture,
    Txn, TxnOutcome, Watch,
};

/// So many calls may be under way.
const CALLS_MAX: u32 = 16 << 10;
/// The longest that closing waits for transactions under way.
const LAST_CALLS: Duration = Duration::from_secs(6);
/// The longest that the start waits for an answer before it tries again.
const START: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_secs(1);

/// The etcd cluster of an [`Etcd`] store, and the keys in it that are ours.
#[derive(Debug, Clone)]
pub struct EtcdOptions {
    /// `http://host:port` or `https://host:port`; at least one.
    pub endpoints: Vec<String>,
    /// For https.
    pub tls: Option<EtcdTls>,
    /// The keys that there are; disjoint.
    pub areas: Vec<Area>,
    /// The key that is written where nothing else can prove how fresh the watch is; nobody sees it.
    pub marker: Vec<u8>,
    /// The bounds on sizes and on the queues of watches.
    pub limits: Limits,
    /// Takes part in compacting: history is kept for one to two of these. `None`: it does not.
    pub compact_every: Option<Duration>,
    /// So many commits of the past are held in memory.
    pub recent_commits_max: usize,
    /// They may weigh so many bytes.
    pub recent_bytes_max: usize,
}

impl EtcdOptions {
    /// The defaults for production.
    #[must_use]
    pub fn new(endpoints: Vec<String>, areas: Vec<Area>, marker: impl Into<Vec<u8>>) -> Self {
        Self {
            endpoints,
            tls: None,
            areas,
            marker: marker.into(),
            limits: Limits::default(),
            compact_every: None,
            recent_commits_max: 10_000,
            recent_bytes_max: 32 << 20,
        }
    }
}

/// A store in an etcd cluster. Cloning gives another handle to the same store.
///
/// Its network work runs on a thread of its own. Dropping the last handle ends that at once; [`Storage::close`] first
/// waits for transactions that are under way.
#[derive(Clone)]
pub struct Etcd {
    inner: Arc<Inner>,
}

struct Inner {
    core: Arc<Core>,
    _worker: Worker,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.core.hub.close(&StorageError::closed());
    }
}

/// The thread that does the work. A runtime that is just dropped waits for its thread, and panics where it must not.
struct Worker(Option<Runtime>);

impl Worker {
    fn start() -> Result<(Self, Handle), StorageError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("etcd")
            .enable_all()
            .build()
            .map_err(|e| StorageError::Corrupt(format!("a thread for etcd cannot be started: {e}")))?;
        let handle = runtime.handle().clone();
        Ok((Self(Some(runtime)), handle))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// etcd's gRPC proxy does not say which cluster it is (`server/proxy/grpcproxy/watch_broadcast.go`, 3.6).
const UNTOLD: u64 = 0;

/// A cluster's own account of its id and revision.
#[derive(Debug, Clone, Copy)]
struct Head {
    cluster: u64,
    revision: Revision,
}

/// The state that all tasks share.
struct Core {
    runtime: Handle,
    clients: Clients,
    space: Space,
    limits: Limits,
    hub: Arc<Hub>,
    ring: Mutex<Ring>,
    /// Raised when more is published, and at the end.
    moved: watch::Sender<()>,
    /// The highest revision known to have changed something that is watched.
    inside: AtomicU64,
    compacted: AtomicU64,
    /// The id of the cluster.
    cluster: OnceLock<u64>,
    /// The reason why the published state is no longer true: the cluster was replaced.
    replaced: watch::Sender<Option<StorageError>>,
    calls: Arc<Semaphore>,
    heads: Shared<Revision>,
    markers: Shared<Revision>,
    /// `true` if the server at the other end of the watch answers requests for its progress.
    trusted: AtomicBool,
    /// Asks it.
    progress: Notify,
    /// The watch lags so far that it seems dead.
    suspect: Notify,
    /// Bounds the watches of the past.
    pasts: Semaphore,
}

impl Etcd {
    /// Waits until the cluster answers and the watch has reached the present. Every failed try calls `waiting` with its
    /// reason.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`] for options that cannot work; [`StorageError::Unavailable`] if waiting is useless:
    /// certificates or permissions are wrong.
    ///
    /// # Cancel safety
    /// Dropping it leaves nothing.
    pub async fn open(
        options: EtcdOptions,
        mut waiting: impl FnMut(&StorageError) + Send,
    ) -> Result<Self, StorageError> {
        let (worker, handle) = Worker::start()?;
        let (urls, tls) = (options.endpoints.clone(), options.tls.clone());
        // On the runtime, where its connections are to live.
        let connect = async move { Clients::new(&urls, tls.as_ref()) };
        let clients = handle.spawn(connect).await.map_err(|_| StorageError::closed())??;
        let limits = options.limits;
        let core = Arc::new(Core {
            runtime: handle.clone(),
            clients,
            space: Space::new(options.areas, options.marker),
            hub: Hub::new(Revision::ZERO, &limits),
            limits,
            ring: Mutex::new(Ring::new(options.recent_commits_max, options.recent_bytes_max)),
            moved: watch::Sender::new(()),
            inside: AtomicU64::new(0),
            compacted: AtomicU64::new(0),
            cluster: OnceLock::new(),
            replaced: watch::Sender::new(None),
            calls: Arc::new(Semaphore::new(CALLS_MAX as usize)),
            heads: Shared::new(),
            markers: Shared::new(),
            trusted: AtomicBool::new(false),
            progress: Notify::new(),
            suspect: Notify::new(),
            pasts: Semaphore::new(past::AT_ONCE),
        });
        let store = Self { inner: Arc::new(Inner { core: Arc::clone(&core), _worker: worker }) };
        let head = loop {
            match core.spawn(|core| async move { core.first_head(START).await }).await {
                Ok(Ok(head)) => break head,
                Ok(Err(trouble)) => {
                    let hopeless = !trouble.is_passing() || matches!(trouble, Trouble::Untrusted(_));
                    let error = trouble.into_error(true);
                    if hopeless {
                        return Err(error);
                    }
                    waiting(&error);
                }
                Err(error) => return Err(error),
            }
            // On its own runtime: the caller's may have no timers.
            core.spawn(|_| sleep(RETRY)).await?;
        };
        let back = options.recent_commits_max as u64;
        if head.cluster != UNTOLD {
            // Nobody else can have set it.
            let _ = core.cluster.set(head.cluster);
        }
        core.start_at(Revision(head.revision.0.saturating_sub(back).max(1)));
        let (followed, runtime) = (Arc::downgrade(&core), handle.clone());
        handle.spawn(again_after_panics(RETRY, move || runtime.spawn(follow::follow(followed.clone()))));
        while let Err(error) = store.fresh().await {
            if let Some(why) = core.replaced.borrow().clone() {
                return Err(why);
            }
            waiting(&error);
        }
        if let Some(every) = options.compact_every {
            let (compacted, runtime) = (Arc::downgrade(&core), handle.clone());
            handle.spawn(again_after_panics(RETRY, move || {
                runtime.spawn(compaction::keep(compacted.clone(), every))
            }));
        }
        Ok(store)
    }

    /// Waits until the cluster turns out to be another one than before, and returns that error. The store is closed then;
    /// only a new process can know what is true.
    ///
    /// # Cancel safety
    /// Dropping it has no effect.
    pub async fn replaced(&self) -> StorageError {
        let mut replaced = self.inner.core.replaced.subscribe();
        // The sender lives as long as `self`.
        let why = replaced.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.unwrap_or_else(StorageError::closed)
    }
}

/// Runs a task that must go on as long as the store does: starts it again after a panic.
async fn again_after_panics(pause: Duration, start: impl Fn() -> JoinHandle<()>) {
    while let Err(ended) = start().await {
        if !ended.is_panic() {
            return;
        }
        tracing::error!("etcd: a task panicked, and is started again");
        sleep(pause).await;
    }
}

impl Core {
    /// Runs on the engine's runtime, whatever becomes of the caller.
    async fn spawn<T, F>(self: &Arc<Self>, work: impl FnOnce(Arc<Self>) -> F) -> Result<T, StorageError>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.runtime.spawn(work(Arc::clone(self))).await.map_err(|_| StorageError::closed())
    }

    fn permit(&self) -> Result<OwnedSemaphorePermit, StorageError> {
        self.hub.check_open()?;
        Arc::clone(&self.calls).try_acquire_owned().map_err(|_| StorageError::Busy)
    }

    fn compacted(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    fn has_compacted(&self, to: Revision) {
        self.compacted.fetch_max(to.0, Ordering::AcqRel);
    }

    /// # Errors
    /// An answer with this head cannot come from the cluster that `published` came from before it was asked.
    fn check_history(&self, head: Head, published: Revision) -> Result<(), StorageError> {
        self.check_cluster(head.cluster)?;
        if head.revision < published && head.revision != Revision::ZERO {
            return Err(
                self.replace(&format!("its revision went back from {published} to {}", head.revision))
            );
        }
        Ok(())
    }

    /// # Errors
    /// This is another cluster.
    fn check_cluster(&self, cluster: u64) -> Result<(), StorageError> {
        match self.cluster.get() {
            Some(own) if ![*own, UNTOLD].contains(&cluster) => {
                Err(self.replace(&format!("cluster {cluster:x} answers instead of {own:x}")))
            }
            _ => Ok(()),
        }
    }

    fn replace(&self, why: &str) -> StorageError {
        let reason = format!("etcd is not the one it was: {why}; was a backup restored?");
        let error = StorageError::Unavailable { reason, applied: Applied::No };
        self.replaced.send_replace(Some(error.clone()));
        self.end(&error);
        error
    }

    /// Ends all watches, and whatever else waits.
    fn end(&self, error: &StorageError) {
        self.hub.close(error);
        self.moved.send_replace(());
        self.suspect.notify_one();
    }

    async fn txn(&self, prepared: Prepared, bytes: usize) -> Result<TxnOutcome, StorageError> {
        let call = |rpc: Rpc| {
            let request = prepared.request.clone();
            async move { rpc.txn(request).await }
        };
        let published = self.hub.published();
        let answer = match self.clients.write(call).await {
            Ok(answer) => answer,
            Err(Trouble::TooLarge(reason)) => return Err(StorageError::RequestTooLarge { bytes, reason }),
            Err(trouble) => return Err(trouble.into_error(false)),
        };
        let revision = answer.revision;
        if let Err(error) = self.check_history(Head { cluster: answer.cluster, revision }, published) {
            // It was committed, or not, to what nobody here knows.
            let reason = error.to_string();
            return Err(StorageError::Unavailable { reason, applied: Applied::Unknown });
        }
        if !answer.succeeded {
            return Ok(TxnOutcome::Failed { compare: prepared.first_failed(&answer.read), revision });
        }
        if prepared.puts {
            self.inside.fetch_max(revision.0, Ordering::AcqRel);
        }
        Ok(TxnOutcome::Committed { revision })
    }

    async fn compact(self: &Arc<Self>, to: Revision) -> Result<(), StorageError> {
        if to <= self.compacted() || to == Revision::ZERO {
            return Ok(());
        }
        let call = |rpc: Rpc| async move { rpc.compact(number(to)).await };
        match self.clients.write(call).await {
            // Somebody else was there first.
            Ok(_) | Err(Trouble::Compacted) => {
                self.has_compacted(to);
                Ok(())
            }
            Err(Trouble::Future) => Err(StorageError::Future { requested: to, current: self.head().await? }),
            Err(trouble) => Err(trouble.into_error(false)),
        }
    }
}

impl Storage for Etcd {
    fn txn(&self, mut txn: Txn) -> StorageFuture<'_, TxnOutcome> {
        tracing::trace!(compares = txn.compares.len(), "commit");
        let core = &self.inner.core;
        let prepared = core.permit().and_then(|permit| {
            let bytes = core.limits.check(&txn)?;
            last_op_of_each_key(&mut txn.ops);
            Ok((permit, Prepared::new(&txn, &core.space)?, bytes))
        });
        let (permit, prepared, bytes) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        // Begun here and not when it is first polled: dropping the future does not take it back.
        let work = Arc::clone(core);
        let running = core.runtime.spawn(async move {
            let _permit = permit;
            work.txn(prepared, bytes).await
        });
        Box::pin(async move {
            let lost = || "the store was closed while the transaction was under way".to_owned();
            running.await.unwrap_or_else(|_| {
                Err(StorageError::Unavailable { reason: lost(), applied: Applied::Unknown })
            })
        })
    }

    fn range(&self, request: RangeRequest) -> StorageFuture<'_, RangeResult> {
        Box::pin(async move {
            let permit = self.inner.core.permit()?;
            let read = |core: Arc<Core>| async move {
                let _permit = permit;
                core.range(&request).await
            };
            self.inner.core.spawn(read).await?
        })
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> StorageFuture<'_, Watch> {
        Box::pin(async move {
            self.inner.core.hub.check_open()?;
            self.inner.core.spawn(|core| async move { core.watch(range, from).await }).await?
        })
    }

    fn published(&self) -> Revision {
        self.inner.core.hub.published()
    }

    fn fresh(&self) -> StorageFuture<'_, Revision> {
        Box::pin(self.inner.core.fresh())
    }

    fn compact(&self, revision: Revision) -> StorageFuture<'_, ()> {
        Box::pin(async move {
            self.inner.core.hub.check_open()?;
            self.inner.core.spawn(move |core| async move { core.compact(revision).await }).await?
        })
    }

    fn compacted(&self) -> Revision {
        self.inner.core.compacted()
    }

    fn close(&self) -> StorageFuture<'_, ()> {
        let core = &self.inner.core;
        core.end(&StorageError::closed());
        Box::pin(async move {
            let under_way = |core: Arc<Core>| async move {
                // Whatever is not done by then is lost to its caller, as if the process had died.
                let all = timeout(LAST_CALLS, core.calls.acquire_many(CALLS_MAX)).await;
                drop(all);
            };
            // A runtime that is gone has nothing under way.
            let _ = core.spawn(under_way).await;
            Ok(())
        })
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd").field("published", &self.published()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_started_again() {
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        let start = move || {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move { assert!(run > 0, "as a bug does") })
        };
        again_after_panics(Duration::ZERO, start).await;
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}

//! The public face of a type's actor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use kindom_actor_kit::{
    Arbiters, AskError, Clock, Deadline, Entropy, Overloaded, Policy, Processors, Supervised, Supervisor,
    latest,
};
use kindom_storage::{KeyRange, RangeRequest, Revision, Storage, StorageError, StoredValue, Txn, TxnOutcome};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tracing::Span;

use crate::Snapshot;
use crate::actor::ResourceActor;
use crate::cost::Cost;
use crate::error::{ReadError, WriteError};
use crate::limits::{COMMITS_IN_FLIGHT_MAX, PAST_EVENTS_MAX, READ_YOUR_WRITE_MAX, TXN_OPS_MAX};
use crate::live::Live;
use crate::messages::CommitObject;
use crate::pages::Pages;
use crate::past;
use crate::webhooks::Webhooks;
use kindom_objects::{StoredObject, Strategy, TypeSpec};

/// The dependencies of every type's actor.
pub struct Deps {
    /// The store.
    pub storage: Arc<dyn Storage>,
    /// Supervises the actors.
    pub supervisor: Supervisor,
    /// The threads they live on.
    pub arbiters: Arbiters,
    /// The time of day, for timestamps.
    pub clock: Clock,
    /// For uids and generated names.
    pub entropy: Entropy,
    /// Asks the webhooks that convert objects.
    pub webhooks: Arc<dyn Webhooks>,
    /// Runs code of the program's where no request does; `None` where there is no such code.
    pub processors: Option<Processors>,
}

/// The freshness that a read needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// It includes every write answered anywhere before the read.
    Latest,
    /// Whatever is in memory.
    Any,
    /// It includes everything up to this revision.
    AtLeast(Revision),
}

/// A registered type: its objects, their changes, and the way to write them. Cheap to clone; usable from any thread.
///
/// # Guarantees
/// Reads enter no mailbox. The actor is started when the type is first used. A type that is gone from the registry
/// answers [`ReadError::Gone`] and [`WriteError::Gone`].
#[derive(Clone)]
pub struct ResourceHandle {
    cell: Arc<Cell>,
    /// The type as this handle shows it; its cell's own, but for other faces of a built-in type.
    spec: Arc<SpecSender>,
}

type SpecSender = latest::Sender<Option<Arc<TypeSpec>>>;

struct Cell {
    deps: Arc<Deps>,
    name: String,
    prefix: Arc<str>,
    /// The rules of the stored type.
    strategy: Arc<dyn Strategy>,
    spec: Arc<SpecSender>,
    /// The revision at which the type ended; 0 while it has not.
    ended: AtomicU64,
    /// The revision of the last write that was answered.
    written: AtomicU64,
    awake: ArcSwapOption<Awake>,
    /// Held while it awakes or falls asleep.
    turning: Mutex<()>,
    /// `true` if the type was used since the last call of [`ResourceHandle::doze`].
    used: AtomicBool,
    watches: AtomicUsize,
    cost: Cost,
}

/// The parts of a type that exist while it is awake.
pub(crate) struct Awake {
    pub(crate) live: Arc<Live>,
    actor: Supervised<ResourceActor>,
}

impl ResourceHandle {
    /// A type that is asleep until it is used.
    #[must_use]
    pub fn new(deps: Arc<Deps>, spec: Arc<TypeSpec>) -> Self {
        let gr = kindom_api::GroupResource::new(spec.group.clone(), prefix_plural(&spec.prefix));
        let (prefix, strategy) = (Arc::clone(&spec.prefix), Arc::clone(&spec.strategy));
        let spec = Arc::new(SpecSender::new(Some(spec)));
        Self {
            spec: Arc::clone(&spec),
            cell: Arc::new(Cell {
                deps,
                name: format!("resource/{gr}"),
                prefix,
                strategy,
                spec,
                ended: AtomicU64::new(0),
                written: AtomicU64::new(0),
                awake: ArcSwapOption::empty(),
                turning: Mutex::new(()),
                used: AtomicBool::new(false),
                watches: AtomicUsize::new(0),
                cost: Cost::default(),
            }),
        }
    }

    /// The same objects and the same actor under another group, name and versions: another face of a built-in type.
    /// `spec` has the keys of this one ([`TypeSpec::stored_as`]).
    #[must_use]
    pub fn face(&self, spec: TypeSpec) -> Self {
        Self { cell: Arc::clone(&self.cell), spec: Arc::new(SpecSender::new(Some(Arc::new(spec)))) }
    }

    /// What the type's writes cost.
    pub(crate) fn cost(&self) -> &Cost {
        &self.cell.cost
    }

    /// The dependencies of the type.
    #[must_use]
    pub fn deps(&self) -> &Arc<Deps> {
        &self.cell.deps
    }

    /// The type as it is registered now; none if it is gone.
    #[must_use]
    pub fn spec(&self) -> Option<Arc<TypeSpec>> {
        self.spec.get()
    }

    /// A receiver of changes of the type's registration.
    #[must_use]
    pub fn spec_changes(&self) -> latest::Receiver<Option<Arc<TypeSpec>>> {
        self.spec.subscribe()
    }

    /// Replaces the type's spec; called by the registry. Ends no watch.
    pub fn set_spec(&self, spec: Arc<TypeSpec>) {
        self.cell.spec.send_replace(Some(spec));
    }

    /// The registry's word that the type ended with `revision`: the actor stops, and watches end once they have delivered
    /// everything before it, and nothing of a type of the same name that came after.
    pub fn retire_at(&self, revision: Revision) {
        self.cell.ended.store(revision.0, Ordering::SeqCst);
        self.cell.spec.send_replace(None);
        self.sleep();
    }

    /// The revision at which the type ended; none while it has not.
    #[must_use]
    pub fn ended(&self) -> Option<Revision> {
        let ended = Revision(self.cell.ended.load(Ordering::SeqCst));
        (ended > Revision::ZERO).then_some(ended)
    }

    /// Stops the actor and drops its state; it starts again on the next use. Callers do not notice.
    pub fn sleep(&self) {
        let turning = self.cell.turning.lock();
        self.fall_asleep();
        drop(turning);
    }

    /// Puts the type to sleep if nobody used it since this was last called and nobody watches it; says whether it did.
    pub fn doze(&self) -> bool {
        let cell = &*self.cell;
        let idle = || !cell.used.load(Ordering::SeqCst) && cell.watches.load(Ordering::SeqCst) == 0;
        if !idle() {
            cell.used.store(false, Ordering::SeqCst);
            return false;
        }
        let turning = cell.turning.lock();
        let slept = idle() && self.fall_asleep();
        drop(turning);
        slept
    }

    /// With `turning` held.
    fn fall_asleep(&self) -> bool {
        let cell = &*self.cell;
        if let Some(spec) = cell.spec.get() {
            spec.drop_compiled();
        }
        let Some(awake) = cell.awake.swap(None) else { return false };
        // A caller that still waits for it then finds its successor, or that there is none.
        awake.live.feed.close();
        let stopping = cell.deps.arbiters.place(&cell.name);
        stopping.spawn(async move { awake.actor.stop().await });
        true
    }

    /// `true` if its actor is running.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.cell.awake.load().is_some()
    }

    pub(crate) fn awake(&self) -> Result<Arc<Awake>, ReadError> {
        let cell = &*self.cell;
        // Most often it is set already, and looking does not take the line from other processors.
        if !cell.used.load(Ordering::Relaxed) {
            cell.used.store(true, Ordering::SeqCst);
        }
        if let Some(awake) = cell.awake.load_full() {
            return Ok(awake);
        }
        let _turning = cell.turning.lock();
        if let Some(awake) = cell.awake.load_full() {
            return Ok(awake);
        }
        if cell.spec.get().is_none() {
            return Err(ReadError::Gone);
        }
        let new = Arc::new(self.start()?);
        cell.awake.store(Some(Arc::clone(&new)));
        Ok(new)
    }

    fn start(&self) -> Result<Awake, ReadError> {
        let deps = &self.cell.deps;
        let live = Arc::new(Live::new(Arc::clone(&deps.storage)));
        let factory = {
            let (storage, live, prefix, strategy) = (
                Arc::clone(&deps.storage),
                Arc::clone(&live),
                Arc::clone(&self.cell.prefix),
                Arc::clone(&self.cell.strategy),
            );
            move |incarnation| {
                let (storage, live) = (Arc::clone(&storage), Arc::clone(&live));
                ResourceActor::load(storage, live, Arc::clone(&prefix), Arc::clone(&strategy), incarnation)
            }
        };
        let policy = Policy { mailbox: COMMITS_IN_FLIGHT_MAX, ..Policy::default() };
        let arbiter = deps.arbiters.place(&self.cell.name);
        let mut started = deps.supervisor.start(self.cell.name.as_str(), &arbiter, policy, factory.clone());
        if started.is_err() {
            // The one before, of this registration or an earlier one of the name, is still on its way out.
            let name = format!("{}~{}", self.cell.name, deps.entropy.name_suffix());
            started = deps.supervisor.start(name.as_str(), &arbiter, policy, factory);
        }
        let actor = started.map_err(|e| {
            ReadError::Storage(StorageError::Unavailable {
                reason: e.to_string(),
                applied: kindom_storage::Applied::No,
            })
        })?;
        Ok(Awake { live, actor })
    }

    /// The type's objects, and the revision at which they are its state.
    ///
    /// # Errors
    /// [`ReadError::Timeout`], also for a revision that has not happened by the deadline.
    pub async fn snapshot(
        &self,
        freshness: Freshness,
        deadline: Deadline,
    ) -> Result<(Arc<Snapshot>, Revision), ReadError> {
        loop {
            let awake = self.awake()?;
            match Self::snapshot_of(&awake.live, freshness, deadline).await {
                // It fell asleep meanwhile. If the type is gone, awaking it returns that error.
                Err(ReadError::Gone) => {}
                other => return other,
            }
        }
    }

    async fn snapshot_of(
        live: &Live,
        freshness: Freshness,
        deadline: Deadline,
    ) -> Result<(Arc<Snapshot>, Revision), ReadError> {
        match freshness {
            Freshness::Latest => live.fresh(deadline).await,
            Freshness::Any => {
                let snapshot = live.cached(deadline).await?;
                let revision = snapshot.revision();
                Ok((snapshot, revision))
            }
            // The store's revision is what clients saw; the type's own may be older, and complete all the same.
            Freshness::AtLeast(revision) => {
                live.feed.happened(revision, deadline).await?;
                live.at(revision, deadline).await
            }
        }
    }

    /// The object of a key, as of every write answered before the call.
    ///
    /// # Errors
    /// As for [`ResourceHandle::snapshot`].
    pub async fn get(&self, key: &str, deadline: Deadline) -> Result<Option<Arc<StoredObject>>, ReadError> {
        let (snapshot, _) = self.snapshot(Freshness::Latest, deadline).await?;
        Ok(snapshot.get(key).cloned())
    }

    /// The object of a key, as fresh as a read needs it. Of a type that is not in memory, the store has it: the type begins to
    /// load, and the read does not wait for that.
    ///
    /// # Errors
    /// As for [`ResourceHandle::snapshot`].
    pub async fn read(
        &self,
        key: &str,
        freshness: Freshness,
        deadline: Deadline,
    ) -> Result<Option<Arc<StoredObject>>, ReadError> {
        if self.is_loaded()? {
            let (snapshot, _) = self.snapshot(freshness, deadline).await?;
            return Ok(snapshot.get(key).cloned());
        }
        self.stored_revision(freshness, deadline).await?;
        let request = RangeRequest::single(&self.storage_key(key));
        let read = timeout_at(deadline.instant(), self.cell.deps.storage.range(request)).await;
        let found = read.map_err(|_| ReadError::Timeout)??;
        if self.spec().is_none() {
            return Err(ReadError::Gone);
        }
        let object = |kv: kindom_storage::KeyValue| self.stored_object(key, kv.value, kv.mod_revision);
        Ok(found.kvs.into_iter().next().map(object).map(Arc::new))
    }

    /// Returns true if memory has the type's state; else it begins to load.
    ///
    /// # Errors
    /// [`ReadError::Gone`], and where the actor can't be started.
    pub fn is_loaded(&self) -> Result<bool, ReadError> {
        Ok(self.awake()?.live.is_loaded())
    }

    /// A revision of the store that is as fresh as a read needs it, without a look at the type's state.
    ///
    /// # Errors
    /// As for [`ResourceHandle::snapshot`].
    pub async fn stored_revision(
        &self,
        freshness: Freshness,
        deadline: Deadline,
    ) -> Result<Revision, ReadError> {
        if let Freshness::AtLeast(revision) = freshness {
            self.happened(revision, deadline).await?;
        }
        let fresh = timeout_at(deadline.instant(), self.cell.deps.storage.fresh()).await;
        Ok(fresh.map_err(|_| ReadError::Timeout)??)
    }

    /// The objects whose key starts with `prefix` and is at or after `start`, as of one revision of the store's history; and
    /// the number of all objects from `start` on. Memory serves the last few thousand changes of the type; for older
    /// revisions the store counts in O(n), and `hold` makes room for what is read of it, or refuses.
    ///
    /// # Errors
    /// [`StorageError::Compacted`] and [`StorageError::Future`]; [`ReadError::Timeout`], and what `hold` says.
    pub async fn list_at(
        &self,
        revision: Revision,
        prefix: &str,
        start: &str,
        limit: Option<usize>,
        deadline: Deadline,
        hold: &mut (dyn FnMut(usize) -> Result<(), Overloaded> + Send),
    ) -> Result<(Vec<Arc<StoredObject>>, usize), ReadError> {
        if let Some(page) = self.remembered(revision, (prefix, start), limit) {
            return Ok(page);
        }
        let whole = format!("{}{prefix}", self.cell.prefix);
        let mut range = KeyRange::prefix(whole.as_bytes());
        if start > prefix {
            range.start = format!("{}{start}", self.cell.prefix).into();
        }
        let object = |kv: kindom_storage::KeyValue| {
            let key = std::str::from_utf8(kv.key.as_bytes()).ok()?.strip_prefix(&*self.cell.prefix)?;
            Some(Arc::new(self.stored_object(key, kv.value, kv.mod_revision)))
        };
        let mut pages = Pages::at(range, revision).counted();
        let (mut objects, mut total, mut left) = (Vec::new(), None, limit.unwrap_or(usize::MAX));
        while left > 0 {
            let page = timeout_at(deadline.instant(), pages.next_of(&*self.cell.deps.storage, left)).await;
            let Some(page) = page.map_err(|_| ReadError::Timeout)?? else { break };
            hold(page.kvs.iter().filter_map(|kv| kv.value.as_ref().ok()).map(bytes::Bytes::len).sum())?;
            total.get_or_insert(page.kvs.len() + page.after);
            left -= page.kvs.len();
            objects.extend(page.kvs.into_iter().filter_map(object));
        }
        Ok((objects, total.unwrap_or(0)))
    }

    /// A page as of a revision that this process knows of, if memory reaches back to it.
    fn remembered(
        &self,
        revision: Revision,
        range: (&str, &str),
        limit: Option<usize>,
    ) -> Option<(Vec<Arc<StoredObject>>, usize)> {
        let storage = &self.cell.deps.storage;
        let awake = self.cell.awake.load_full()?;
        // A client whose revision has been compacted must list again, even if memory still has that revision by chance.
        let known = revision >= storage.compacted() && revision <= storage.published();
        if !known || !awake.live.feed.is_complete_at(revision) {
            return None;
        }
        // The snapshot first: the log has every change that is in it.
        let snapshot = awake.live.snapshot();
        let mut since = awake.live.log.after(revision, PAST_EVENTS_MAX + 1).ok()?;
        since.truncate(since.partition_point(|event| event.revision <= snapshot.revision()));
        (since.len() <= PAST_EVENTS_MAX)
            .then(|| past::page(&snapshot, &since, range, limit.unwrap_or(usize::MAX)))
    }

    /// The prefix of the type's keys.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.cell.prefix
    }

    /// The object of a stored value, whichever server wrote it; `key` is the part of its key behind the prefix.
    #[must_use]
    pub fn stored_object(&self, key: &str, value: StoredValue, revision: Revision) -> StoredObject {
        StoredObject::read(key, value, revision, |bytes| self.cell.strategy.translate(bytes))
    }

    pub(crate) fn storage_key(&self, object_key: &str) -> kindom_storage::Key {
        format!("{}{object_key}", self.cell.prefix).into()
    }

    /// Waits until this process knows of a revision. For a known one it does not ask the store.
    ///
    /// # Errors
    /// [`StorageError::Future`] if it has not happened; [`ReadError::Timeout`], or the store's error.
    pub async fn happened(&self, revision: Revision, deadline: Deadline) -> Result<(), ReadError> {
        self.awake()?.live.feed.happened(revision, deadline).await
    }

    /// Counts watches in and out: a watched type does not fall asleep.
    pub(crate) fn watches(&self) -> &AtomicUsize {
        &self.cell.watches
    }

    /// The freshness of a read that has to include the writes of the type that were answered here, and nothing else.
    ///
    /// # Errors
    /// As for [`ResourceHandle::is_loaded`].
    pub fn own_writes(&self) -> Result<Freshness, ReadError> {
        let written = Revision(self.cell.written.load(Ordering::Acquire));
        let are_known = self.awake()?.live.snapshot().revision() >= written;
        // What is in memory serves also while the actor starts anew.
        Ok(if are_known { Freshness::Any } else { Freshness::AtLeast(written) })
    }

    /// Commits a planned write through the actor. An admitted commit outlives this call.
    ///
    /// # Errors
    /// [`WriteError::Busy`], [`WriteError::Unknown`] and [`WriteError::Unavailable`].
    pub async fn commit(&self, txn: Txn, deadline: Deadline) -> Result<TxnOutcome, WriteError> {
        check_count(&txn);
        let mut awake = self.awake()?;
        let outcome = loop {
            if let Some(outcome) = self.commit_on(&awake, &txn, deadline).await? {
                break outcome;
            }
            let next = self.awake()?;
            if Arc::ptr_eq(&next, &awake) {
                // Nobody put it to sleep: everything is being stopped.
                return Err(WriteError::Unavailable("the server is ending".into()));
            }
            awake = next;
        };
        self.until_readable(&awake, &outcome, deadline).await;
        Ok(outcome)
    }

    /// As [`ResourceHandle::commit`], for drains and rewrites of stored objects: it does not count as use, and a type that
    /// is asleep stays asleep. An actor would load 100,000 objects only to see them deleted; the store judges the
    /// transaction either way, and a watch keeps its type awake.
    ///
    /// # Errors
    /// As for [`ResourceHandle::commit`].
    pub async fn commit_quietly(&self, txn: Txn, deadline: Deadline) -> Result<TxnOutcome, WriteError> {
        check_count(&txn);
        let awake = self.cell.awake.load_full();
        if let Some(awake) = awake
            && let Some(outcome) = self.commit_on(&awake, &txn, deadline).await?
        {
            self.until_readable(&awake, &outcome, deadline).await;
            return Ok(outcome);
        }
        match timeout_at(deadline.instant(), self.cell.deps.storage.txn(txn)).await {
            Ok(outcome) => self.answered(outcome),
            Err(_) => Err(WriteError::Unknown),
        }
    }

    /// Notes the revision of a commit before its caller knows of it.
    fn answered(&self, outcome: Result<TxnOutcome, StorageError>) -> Result<TxnOutcome, WriteError> {
        if let Ok(TxnOutcome::Committed { revision }) = outcome {
            self.cell.written.fetch_max(revision.0, Ordering::AcqRel);
        }
        Ok(outcome?)
    }

    /// The object that this revision wrote at a key, if memory has it, and can read it.
    pub(crate) fn known(&self, key: &str, revision: Revision) -> Option<Arc<StoredObject>> {
        let awake = self.cell.awake.load_full()?;
        let is_it = |known: &&Arc<StoredObject>| known.revision() == revision && known.corrupt().is_none();
        awake.live.snapshot().get(key).filter(is_it).cloned()
    }

    /// Waits a while until the committed change is in the snapshot.
    async fn until_readable(&self, awake: &Awake, outcome: &TxnOutcome, deadline: Deadline) {
        let TxnOutcome::Committed { revision } = *outcome else { return };
        let wait =
            Deadline::after(deadline.remaining().min(READ_YOUR_WRITE_MAX).max(Duration::from_millis(1)));
        if let Err(ReadError::Timeout) = awake.live.feed.complete_at(revision, wait).await {
            tracing::warn!(%revision, kind = %self.cell.name, "answering a durable write before it is readable");
        }
    }

    /// Commits through this actor; none if it was stopped before it admitted the commit.
    async fn commit_on(
        &self,
        awake: &Awake,
        txn: &Txn,
        deadline: Deadline,
    ) -> Result<Option<TxnOutcome>, WriteError> {
        let late = || WriteError::Unavailable("timed out before the write was admitted".into());
        loop {
            let (reply, outcome) = oneshot::channel();
            let message = CommitObject { txn: txn.clone(), span: Span::current(), reply };
            match awake.actor.handle().ask(message, deadline).await {
                Ok(()) | Err(AskError::Lost) => {}
                Err(AskError::Busy) => return Err(WriteError::Busy),
                Err(AskError::Gone) => return Ok(None),
                Err(AskError::DeadlineExceeded { delivered: true }) => return Err(WriteError::Unknown),
                Err(AskError::DeadlineExceeded { delivered: false }) => return Err(late()),
            }
            match timeout_at(deadline.instant(), outcome).await {
                Ok(Ok(outcome)) => return self.answered(outcome).map(Some),
                // The reply was dropped: the actor fell before it admitted the commit. Its successor may.
                Ok(Err(_)) if !deadline.passed() => {}
                Ok(Err(_)) => return Err(late()),
                Err(_) => return Err(WriteError::Unknown),
            }
        }
    }

    /// Waits until the registration is another than the one a plan was made with.
    pub(crate) async fn spec_after(
        &self,
        planned: &Arc<TypeSpec>,
        deadline: Deadline,
    ) -> Result<(), WriteError> {
        let mut changes = self.spec.subscribe();
        let other = changes.wait_for(|now| now.as_ref().is_none_or(|now| !Arc::ptr_eq(now, planned)));
        match timeout_at(deadline.instant(), other).await {
            Ok(_) => Ok(()),
            Err(_) => Err(WriteError::Unavailable("timed out waiting for the type's registration".into())),
        }
    }
}

/// Every transaction is one that etcd takes, whatever the engine.
fn check_count(txn: &Txn) {
    debug_assert!(txn.ops.len() <= TXN_OPS_MAX && txn.compares.len() <= TXN_OPS_MAX, "too many operations");
}

/// `widgets` of `/registry/example.com/widgets/`.
fn prefix_plural(prefix: &str) -> &str {
    prefix.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

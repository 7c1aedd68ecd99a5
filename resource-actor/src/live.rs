//! The state that a type's actor keeps and its readers share: the snapshot, the event log, and their revisions.

use std::sync::Arc;

use arc_swap::ArcSwap;
use kindom_actor_kit::Deadline;
use kindom_storage::{Progress, Revision, Storage};
use tokio::time::timeout_at;

use crate::error::ReadError;
use crate::feed::Feed;
use crate::{EventLog, Snapshot};

/// Shared by the incarnations of one type's actor and all who read the type. Only the running incarnation changes it.
/// When the type falls asleep it is closed, and the next awakening begins another: an actor on its way out can't disturb
/// it.
pub(crate) struct Live {
    snapshot: ArcSwap<Snapshot>,
    pub(crate) log: EventLog,
    /// Raised after snapshot and log.
    pub(crate) feed: Arc<Feed>,
}

impl Live {
    pub(crate) fn new(storage: Arc<dyn Storage>) -> Self {
        Self { snapshot: ArcSwap::default(), log: EventLog::default(), feed: Arc::new(Feed::new(storage)) }
    }

    /// A fresh incarnation's state: the objects that it read at the snapshot's revision, and the stream that continues
    /// there.
    pub(crate) fn install(&self, snapshot: Snapshot, progress: Arc<Progress>) {
        let revision = snapshot.revision();
        self.log.reset(revision);
        self.snapshot.store(Arc::new(snapshot));
        self.feed.begin(revision, progress);
    }

    pub(crate) fn publish(&self, snapshot: Snapshot) {
        let revision = snapshot.revision();
        self.snapshot.store(Arc::new(snapshot));
        self.feed.advance(revision);
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The snapshot, once it holds every change answered anywhere before the call; with the latest revision at which it
    /// is known to be the state of the type.
    pub(crate) async fn fresh(&self, deadline: Deadline) -> Result<(Arc<Snapshot>, Revision), ReadError> {
        let at = self.feed.fresh(deadline).await?;
        Ok(self.known_at(at))
    }

    /// The snapshot, once it holds every change up to `at`, which has happened; and the revision at which it is known to
    /// be the state.
    pub(crate) async fn at(
        &self,
        at: Revision,
        deadline: Deadline,
    ) -> Result<(Arc<Snapshot>, Revision), ReadError> {
        self.feed.complete_at(at, deadline).await?;
        Ok(self.known_at(at))
    }

    fn known_at(&self, at: Revision) -> (Arc<Snapshot>, Revision) {
        let snapshot = self.snapshot();
        let revision = snapshot.revision().max(at);
        (snapshot, revision)
    }

    /// Returns true once a snapshot was loaded.
    pub(crate) fn is_loaded(&self) -> bool {
        self.feed.folded().get() > Revision::ZERO || self.feed.is_running()
    }

    /// The snapshot as it is, once one was loaded; it is good enough also while the next incarnation loads.
    pub(crate) async fn cached(&self, deadline: Deadline) -> Result<Arc<Snapshot>, ReadError> {
        let mut folded = self.feed.folded();
        let loaded = folded.wait_for(|_| self.is_loaded() || self.feed.is_closed());
        match timeout_at(deadline.instant(), loaded).await {
            Ok(_) if self.feed.is_closed() => Err(ReadError::Gone),
            Ok(Ok(_)) => Ok(self.snapshot()),
            Ok(Err(_)) | Err(_) => Err(ReadError::Timeout),
        }
    }
}

//! How far a fold of the commit stream has got, and the way to wait for it without asking the actor that folds.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use arc_swap::ArcSwapOption;
use futures::Stream;
use kindom_actor_kit::{Deadline, latest};
use kindom_storage::{Change, Commit, CommitStream, Progress, Revision, Storage, StorageError};
use tokio::time::timeout_at;

use crate::error::ReadError;

/// The position of a fold that is kept behind an `Arc` beside this: an actor raises it, readers wait on it.
pub struct Feed {
    storage: Arc<dyn Storage>,
    /// The progress of the running incarnation's stream; `None` while none runs.
    progress: ArcSwapOption<Progress>,
    folded: latest::Sender<Revision>,
    closed: AtomicBool,
}

impl Feed {
    /// Nothing is folded yet.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            progress: ArcSwapOption::empty(),
            folded: latest::Sender::new(Revision::ZERO),
            closed: AtomicBool::new(false),
        }
    }

    /// A fresh incarnation has loaded the state at `at`, and continues with this stream.
    pub fn begin(&self, at: Revision, progress: Arc<Progress>) {
        self.progress.store(Some(progress));
        self.folded.send_replace(at);
    }

    /// The incarnation is gone: nothing is known to be fresh until the next one has loaded.
    pub fn end(&self) {
        self.progress.store(None);
        // Readers that wait look again.
        self.folded.send_modify(|_| ());
    }

    /// Ends the feed: no incarnation will follow, and callers that wait get an error.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.end();
    }

    /// `true` if it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Everything up to `revision` is in the state, which was stored before.
    pub fn advance(&self, revision: Revision) {
        self.folded.send_replace(revision);
    }

    /// The revision that the state has reached, to wait on.
    #[must_use]
    pub fn folded(&self) -> latest::Receiver<Revision> {
        self.folded.subscribe()
    }

    /// `true` if an incarnation is folding.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.progress.load().is_some()
    }

    /// `true` if the state holds every change up to `at`, which was read from the store before the call.
    #[must_use]
    pub fn is_complete_at(&self, at: Revision) -> bool {
        let progress = self.progress.load();
        progress.as_ref().is_some_and(|progress| self.folded.get() >= progress.last_sent().min(at))
    }

    /// Waits until the state holds every change answered anywhere before the call; returns a revision up to which it does.
    ///
    /// # Errors
    /// [`ReadError::Timeout`], [`ReadError::Gone`] once it is closed, or the store's error.
    pub async fn fresh(&self, deadline: Deadline) -> Result<Revision, ReadError> {
        let at = self.store_fresh(deadline).await?;
        self.complete_at(at, deadline).await?;
        Ok(at)
    }

    /// Waits until this process knows of `revision`. For a known one it does not ask the store.
    ///
    /// # Errors
    /// [`StorageError::Future`] if it has not happened; [`ReadError::Timeout`], or the store's error.
    pub async fn happened(&self, revision: Revision, deadline: Deadline) -> Result<(), ReadError> {
        if revision <= self.storage.published() {
            return Ok(());
        }
        let current = self.store_fresh(deadline).await?;
        if revision <= current {
            return Ok(());
        }
        Err(ReadError::Storage(StorageError::Future { requested: revision, current }))
    }

    async fn store_fresh(&self, deadline: Deadline) -> Result<Revision, ReadError> {
        let fresh = timeout_at(deadline.instant(), self.storage.fresh());
        Ok(fresh.await.map_err(|_| ReadError::Timeout)??)
    }

    /// Waits until the state holds every change up to `at`, a revision that this process knows of.
    ///
    /// # Errors
    /// [`ReadError::Timeout`], and [`ReadError::Gone`] once it is closed.
    pub async fn complete_at(&self, at: Revision, deadline: Deadline) -> Result<(), ReadError> {
        if self.is_complete_at(at) {
            return Ok(());
        }
        self.until(deadline, || self.is_complete_at(at)).await
    }

    /// Waits until the state has reached `revision`, at which something in it changes.
    ///
    /// # Errors
    /// [`ReadError::Timeout`], and [`ReadError::Gone`] once it is closed.
    pub async fn reaches(&self, revision: Revision, deadline: Deadline) -> Result<(), ReadError> {
        self.until(deadline, || self.folded.get() >= revision).await
    }

    async fn until(&self, deadline: Deadline, done: impl Fn() -> bool) -> Result<(), ReadError> {
        let mut folded = self.folded.subscribe();
        let wait = async {
            loop {
                // Before looking, so that no change falls in between.
                folded.mark_seen();
                if done() {
                    return Ok(());
                }
                if self.is_closed() || folded.changed().await.is_err() {
                    return Err(ReadError::Gone);
                }
            }
        };
        timeout_at(deadline.instant(), wait).await.unwrap_or(Err(ReadError::Timeout))
    }
}

/// The commits that one turn folds.
pub type Batch = Vec<Result<Arc<Commit>, StorageError>>;

/// The stream that an incarnation folds, in batches that fit into a turn.
///
/// When it is dropped, the feed's state counts as incomplete before the subscription to the store ends: a later commit would
/// be in no queue, and a reader must not take the state for complete.
pub struct Batches {
    feed: Arc<Feed>,
    commits: CommitStream,
    commits_max: usize,
    bytes_max: usize,
}

impl Batches {
    /// Batches of at most `commits_max` commits; one that reaches `bytes_max` bytes of values takes no more.
    #[must_use]
    pub fn new(feed: Arc<Feed>, commits: CommitStream, commits_max: usize, bytes_max: usize) -> Self {
        Self { feed, commits, commits_max, bytes_max }
    }
}

impl Stream for Batches {
    type Item = Batch;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Batch>> {
        let mut batch = Batch::new();
        let mut bytes = 0;
        while batch.len() < self.commits_max && bytes < self.bytes_max {
            match self.commits.poll_recv(cx) {
                Poll::Ready(Some(Ok(commit))) => {
                    bytes += commit.events.iter().map(|event| value_bytes(&event.change)).sum::<usize>();
                    batch.push(Ok(commit));
                }
                Poll::Ready(Some(Err(error))) => {
                    self.feed.end();
                    batch.push(Err(error));
                }
                Poll::Ready(None) if batch.is_empty() => return Poll::Ready(None),
                Poll::Pending if batch.is_empty() => return Poll::Pending,
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        Poll::Ready(Some(batch))
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.feed.end();
    }
}

fn value_bytes(change: &Change) -> usize {
    match change {
        Change::Put { value, .. } => value.as_ref().map_or(0, |value| value.len()),
        Change::Delete => 0,
    }
}

//! The caller's side of a running watch.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures::Stream;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::hub::Hub;
use crate::{Commit, Revision, StorageError};

/// The progress of a [`Watch`], readable without entering it.
///
/// With `S` read from [`crate::Storage::published`] *before* it, every event of the watch's range at a revision `<= S`
/// has been delivered once the receiver has folded the commit of revision [`Progress::last_sent`]. So a reader that
/// has folded up to `last_sent` knows the range's state at `S`, even where nothing changed in it for hours.
#[derive(Debug, Default)]
pub struct Progress {
    last_sent: AtomicU64,
}

impl Progress {
    /// The revision of the last commit put into the watch's queue; before the first, the revision right before the
    /// watch's first one. (A watch from `R + 1` starts at `R`, so a reader whose state is that of `R` has nothing to
    /// wait for.)
    #[must_use]
    pub fn last_sent(&self) -> Revision {
        Revision(self.last_sent.load(Ordering::Acquire))
    }

    pub(crate) fn sent(&self, revision: Revision) {
        // The maximum, because the revision that history ends with is found while live commits already come in.
        self.last_sent.fetch_max(revision.0, Ordering::AcqRel);
    }
}

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    /// Commits in revision order, without gap or duplicate. The last item is an error:
    /// [`StorageError::Compacted`] if the receiver fell too far behind (its queue has a bound, and history that was not
    /// yet read may be compacted away), [`StorageError::Unavailable`] when the store closes, or
    /// [`StorageError::Corrupt`] where history cannot be read; then the stream ends.
    pub commits: CommitStream,
    /// The progress of this watch.
    pub progress: Arc<Progress>,
}

/// History that a [`CommitStream`] reads piece by piece as its receiver asks for more, so that a watch from far back
/// never holds all of it in memory.
pub(crate) trait History: Send {
    /// The next commits of the watch in revision order; empty at the end of history.
    fn next_commits(&mut self) -> Result<VecDeque<Arc<Commit>>, StorageError>;
}

/// History that was read already.
pub(crate) struct Held(VecDeque<Arc<Commit>>);

impl Held {
    /// `commits` in revision order.
    pub(crate) fn new(commits: Vec<Arc<Commit>>) -> Self {
        Self(commits.into())
    }
}

impl History for Held {
    fn next_commits(&mut self) -> Result<VecDeque<Arc<Commit>>, StorageError> {
        Ok(std::mem::take(&mut self.0))
    }
}

/// The size of the queue of live commits, counted at both of its ends.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    commits: AtomicUsize,
    bytes: AtomicUsize,
}

impl Backlog {
    /// Counts a commit in; answers how many commits and bytes wait now.
    pub(crate) fn add(&self, bytes: usize) -> (usize, usize) {
        let commits = self.commits.fetch_add(1, Ordering::AcqRel) + 1;
        (commits, self.bytes.fetch_add(bytes, Ordering::AcqRel) + bytes)
    }

    fn remove(&self, bytes: usize) {
        self.commits.fetch_sub(1, Ordering::AcqRel);
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// The receiving end of a [`Watch`]: history first, then live commits. Also a [`Stream`].
///
/// # Cancel safety
/// Dropping the future of [`CommitStream::recv`] loses nothing.
pub struct CommitStream {
    history: Option<Box<dyn History>>,
    read: VecDeque<Arc<Commit>>,
    live: UnboundedReceiver<Result<Arc<Commit>, StorageError>>,
    /// None where the stream was made of a bare channel.
    source: Option<Source>,
    ended: bool,
}

struct Source {
    hub: Weak<Hub>,
    id: u64,
    backlog: Arc<Backlog>,
}

impl CommitStream {
    pub(crate) fn new(
        history: Option<Box<dyn History>>,
        live: UnboundedReceiver<Result<Arc<Commit>, StorageError>>,
        hub: Weak<Hub>,
        id: u64,
        backlog: Arc<Backlog>,
    ) -> Self {
        Self { history, read: VecDeque::new(), live, source: Some(Source { hub, id, backlog }), ended: false }
    }

    /// Delivers a history first.
    pub(crate) fn after(mut self, history: impl History + 'static) -> Self {
        self.history = Some(Box::new(history));
        self
    }

    /// The next commit; waits for it. After an error, or once the store is gone: `None`.
    pub async fn recv(&mut self) -> Option<Result<Arc<Commit>, StorageError>> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// The next commit if there is one now.
    ///
    /// # Errors
    /// As of tokio's channels: `Empty` if nothing waits, `Disconnected` at the end.
    pub fn try_recv(
        &mut self,
    ) -> Result<Result<Arc<Commit>, StorageError>, tokio::sync::mpsc::error::TryRecvError> {
        use tokio::sync::mpsc::error::TryRecvError;
        if let Some(item) = self.next_of_history() {
            return Ok(item);
        }
        if self.ended {
            return Err(TryRecvError::Disconnected);
        }
        self.live.try_recv().map(|item| self.received(item))
    }

    /// The next commit, for hand-written futures.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Arc<Commit>, StorageError>>> {
        if let Some(item) = self.next_of_history() {
            return Poll::Ready(Some(item));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        self.live.poll_recv(cx).map(|item| item.map(|item| self.received(item)))
    }

    fn next_of_history(&mut self) -> Option<Result<Arc<Commit>, StorageError>> {
        loop {
            if let Some(commit) = self.read.pop_front() {
                return Some(Ok(commit));
            }
            match self.history.as_mut()?.next_commits() {
                Ok(commits) if commits.is_empty() => self.history = None,
                Ok(commits) => self.read = commits,
                Err(error) => {
                    self.history = None;
                    self.ended = true;
                    self.live.close();
                    return Some(Err(error));
                }
            }
        }
    }

    fn received(&mut self, item: Result<Arc<Commit>, StorageError>) -> Result<Arc<Commit>, StorageError> {
        match (&item, &self.source) {
            (Ok(commit), Some(source)) => source.backlog.remove(commit.bytes()),
            (Ok(_), None) => {}
            (Err(_), _) => self.ended = true,
        }
        item
    }
}

impl Stream for CommitStream {
    type Item = Result<Arc<Commit>, StorageError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(cx)
    }
}

/// For tests that stand in for an engine.
impl From<UnboundedReceiver<Result<Arc<Commit>, StorageError>>> for CommitStream {
    fn from(live: UnboundedReceiver<Result<Arc<Commit>, StorageError>>) -> Self {
        Self { history: None, read: VecDeque::new(), live, source: None, ended: false }
    }
}

impl Drop for CommitStream {
    fn drop(&mut self) {
        // At once, not when the next commit finds it closed: that may never come.
        if let Some(source) = &self.source
            && let Some(hub) = source.hub.upgrade()
        {
            hub.unsubscribe(source.id);
        }
    }
}

impl fmt::Debug for CommitStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}

//! The caller's side of a running watch.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use futures::Stream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use crate::hub::Hub;
use crate::{Applied, Commit, Revision, StorageError};

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

    /// Returns true if [`History::next_commits`] may wait for a disk, so that it needs a thread that may wait.
    fn may_block(&self) -> bool;
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

    fn may_block(&self) -> bool {
        false
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
    /// The next part of it, which another thread reads.
    reading: Option<JoinHandle<ReadPart>>,
    read: VecDeque<Arc<Commit>>,
    live: UnboundedReceiver<Received>,
    /// None where the stream was made of a bare channel.
    source: Option<Source>,
    ended: bool,
}

type ReadPart = (Box<dyn History>, Result<VecDeque<Arc<Commit>>, StorageError>);

struct Source {
    hub: Weak<Hub>,
    id: u64,
    backlog: Arc<Backlog>,
}

/// An item of a [`CommitStream`].
pub type Received = Result<Arc<Commit>, StorageError>;

/// The error of a read whose thread was lost.
pub(crate) fn unread(lost: &JoinError) -> StorageError {
    StorageError::Unavailable { reason: format!("the store could not be read: {lost}"), applied: Applied::No }
}

impl CommitStream {
    pub(crate) fn new(
        history: Option<Box<dyn History>>,
        live: UnboundedReceiver<Received>,
        hub: Weak<Hub>,
        id: u64,
        backlog: Arc<Backlog>,
    ) -> Self {
        let source = Some(Source { hub, id, backlog });
        Self { history, reading: None, read: VecDeque::new(), live, source, ended: false }
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

    /// The next commit if there is one now. History is read on the caller's thread; a part of it that another thread is reading
    /// is not there yet.
    ///
    /// # Errors
    /// As of tokio's channels: `Empty` if nothing waits, `Disconnected` at the end.
    pub fn try_recv(&mut self) -> Result<Received, TryRecvError> {
        loop {
            if let Some(commit) = self.read.pop_front() {
                return Ok(Ok(commit));
            }
            if self.reading.is_some() {
                return Err(TryRecvError::Empty);
            }
            let Some(mut history) = self.history.take() else { return self.try_live() };
            let found = history.next_commits();
            if let Err(error) = self.keep(history, found) {
                return Ok(Err(error));
            }
        }
    }

    /// As [`CommitStream::try_recv`], but history is read by a thread that may wait for a disk, and `Pending` until it has come.
    ///
    /// # Errors
    /// As for [`CommitStream::try_recv`].
    pub fn poll_known(&mut self, cx: &mut Context<'_>) -> Poll<Result<Received, TryRecvError>> {
        match ready!(self.poll_history(cx)) {
            Some(item) => Poll::Ready(Ok(item)),
            None => Poll::Ready(self.try_live()),
        }
    }

    /// The next commit, for hand-written futures.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Received>> {
        if let Some(item) = ready!(self.poll_history(cx)) {
            return Poll::Ready(Some(item));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        self.live.poll_recv(cx).map(|item| item.map(|item| self.received(item)))
    }

    fn try_live(&mut self) -> Result<Received, TryRecvError> {
        if self.ended {
            return Err(TryRecvError::Disconnected);
        }
        self.live.try_recv().map(|item| self.received(item))
    }

    fn poll_history(&mut self, cx: &mut Context<'_>) -> Poll<Option<Received>> {
        loop {
            if let Some(commit) = self.read.pop_front() {
                return Poll::Ready(Some(Ok(commit)));
            }
            let kept = if let Some(reading) = &mut self.reading {
                let read = ready!(Pin::new(reading).poll(cx));
                self.reading = None;
                match read {
                    Ok((history, found)) => self.keep(history, found),
                    Err(lost) => self.end(unread(&lost)),
                }
            } else {
                let Some(mut history) = self.history.take() else { return Poll::Ready(None) };
                if history.may_block() {
                    self.reading = Some(spawn_blocking(move || {
                        let found = history.next_commits();
                        (history, found)
                    }));
                    continue;
                }
                let found = history.next_commits();
                self.keep(history, found)
            };
            if let Err(error) = kept {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    /// Keeps a part of history that was read, and the rest unless that was its end.
    fn keep(
        &mut self,
        history: Box<dyn History>,
        found: Result<VecDeque<Arc<Commit>>, StorageError>,
    ) -> Result<(), StorageError> {
        self.read = found.or_else(|error| self.end(error).map(|()| VecDeque::new()))?;
        self.history = (!self.read.is_empty()).then_some(history);
        Ok(())
    }

    fn end(&mut self, error: StorageError) -> Result<(), StorageError> {
        self.ended = true;
        self.live.close();
        Err(error)
    }

    fn received(&mut self, item: Received) -> Received {
        match (&item, &self.source) {
            (Ok(commit), Some(source)) => source.backlog.remove(commit.bytes()),
            (Ok(_), None) => {}
            (Err(_), _) => self.ended = true,
        }
        item
    }
}

impl Stream for CommitStream {
    type Item = Received;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(cx)
    }
}

/// For tests that stand in for an engine.
impl From<UnboundedReceiver<Result<Arc<Commit>, StorageError>>> for CommitStream {
    fn from(live: UnboundedReceiver<Received>) -> Self {
        Self { history: None, reading: None, read: VecDeque::new(), live, source: None, ended: false }
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

//! A watch: a cursor over a type's changes that survives the type's actor.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use kindom_actor_kit::latest;
use kindom_storage::{
    Change, Event, KeyRange, KeyValue, Received, Revision, StorageError, StoredValue, Watch,
};
use tokio::sync::mpsc::error::TryRecvError;

use crate::error::ReadError;
use crate::error::WatchError;
use crate::live::Live;
use crate::{ObjectEvent, ResourceHandle};

/// The changes of a type after a revision, in order, each once.
///
/// # Flow
/// It reads the type's shared log. Where the log does not reach back to the cursor (the type was just loaded, its actor
/// was replaced, or the client was slow) it reads the store's history until the two meet. When the type is gone, it
/// delivers what happened before that, and then [`WatchError::Gone`].
///
/// # Cancel safety
/// Dropping [`WatchCursor::next`]'s future loses nothing: the cursor moves when events are returned.
pub struct WatchCursor {
    watched: Watched,
    live: Arc<Live>,
    cursor: Revision,
    folded: latest::Receiver<Revision>,
    history: Option<Watch>,
    /// The revision that [`WatchCursor::finish`] goes up to.
    end: Option<Revision>,
    /// The error behind the events that were returned last.
    failed: Option<WatchError>,
}

/// A type that is counted as watched.
struct Watched(ResourceHandle);

impl Watched {
    fn new(handle: &ResourceHandle) -> Self {
        handle.watches().fetch_add(1, Ordering::SeqCst);
        Self(handle.clone())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.watches().fetch_sub(1, Ordering::SeqCst);
    }
}

/// The next commit of a history, or that there is none now. `None` while it is being read, if the caller may not wait: it has
/// events to return that must not be lost with its future.
async fn known(history: &mut Watch, may_wait: bool) -> Option<Result<Received, TryRecvError>> {
    poll_fn(|cx| match history.commits.poll_known(cx) {
        Poll::Pending if !may_wait => Poll::Ready(None),
        known => known.map(Some),
    })
    .await
}

impl ResourceHandle {
    /// A watch of the type's changes after `cursor`.
    ///
    /// # Errors
    /// [`ReadError::Gone`], and where the actor can't be started.
    pub fn watch(&self, cursor: Revision) -> Result<WatchCursor, ReadError> {
        WatchCursor::new(self, cursor)
    }
}

impl WatchCursor {
    pub(crate) fn new(handle: &ResourceHandle, cursor: Revision) -> Result<Self, ReadError> {
        // Counted before it is awoken, so that it does not fall asleep in between.
        let watched = Watched::new(handle);
        let live = Arc::clone(&handle.awake()?.live);
        let folded = live.feed.folded();
        Ok(Self { watched, live, cursor, folded, history: None, end: None, failed: None })
    }

    /// Everything up to here was returned.
    #[must_use]
    pub fn cursor(&self) -> Revision {
        self.cursor
    }

    /// The next changes, at least one and at most `max`; waits for them.
    ///
    /// # Errors
    /// [`WatchError::Expired`] if the cursor has left the history; [`WatchError::Gone`] after the last change of a type
    /// that is not registered any more.
    pub async fn next(&mut self, max: usize) -> Result<Vec<Arc<ObjectEvent>>, WatchError> {
        loop {
            // Before looking at anything, so that no change falls in between.
            self.folded.mark_seen();
            if let Some(end) = self.watched.0.ended() {
                let events = self.up_to(end, max).await?;
                return if events.is_empty() { Err(WatchError::Gone) } else { Ok(events) };
            }
            if self.live.feed.is_closed() {
                self.follow()?;
                continue;
            }
            let events =
                if self.history.is_some() { self.recorded(max).await? } else { self.logged(max).await? };
            if !events.is_empty() {
                return Ok(events);
            }
            let Some(history) = &mut self.history else {
                self.folded.changed().await.map_err(|_| WatchError::Gone)?;
                continue;
            };
            // Log and history both go on without a gap; whichever is first.
            tokio::select! {
                biased;
                commit = history.commits.recv() => {
                    let events = self.events_of(commit.ok_or_else(closed)?)?;
                    if let Some(last) = events.last() {
                        self.cursor = last.revision;
                        return Ok(events);
                    }
                }
                _ = self.folded.changed() => {}
            }
        }
    }

    /// The store's revision, if everything up to it was returned; the cursor moves there. For bookmarks, and so that a
    /// watch of a quiet type does not fall out of the history.
    pub fn advance(&mut self) -> Option<Revision> {
        let at = self.storage().published();
        let behind = self.cursor > at
            || !self.live.feed.is_complete_at(at)
            || self.history.is_some()
            || !self.live.log.after(self.cursor, 1).is_ok_and(|e| e.is_empty());
        if behind {
            return None;
        }
        self.cursor = at;
        Some(at)
    }

    /// The next of the remaining events, at most `max`, up to the end of the type, or, if it goes on, up to the store's
    /// revision at the first call: for a watch that ends because its type or version is gone. Empty behind the last one.
    ///
    /// # Errors
    /// As for [`WatchCursor::next`].
    pub async fn finish(&mut self, max: usize) -> Result<Vec<Arc<ObjectEvent>>, WatchError> {
        let end = self.end.or_else(|| self.watched.0.ended()).unwrap_or_else(|| self.storage().published());
        self.end = Some(end);
        self.up_to(end, max).await
    }

    fn storage(&self) -> &dyn kindom_storage::Storage {
        &*self.watched.0.deps().storage
    }

    /// The type fell asleep, which should not happen while it is watched, or it is gone.
    fn follow(&mut self) -> Result<(), WatchError> {
        match self.watched.0.awake() {
            Ok(awake) => {
                self.live = Arc::clone(&awake.live);
                self.folded = self.live.feed.folded();
                Ok(())
            }
            // The remaining events are delivered first.
            Err(ReadError::Gone) if self.watched.0.ended().is_some() => Ok(()),
            Err(ReadError::Storage(error)) => Err(self.error(error)),
            Err(
                ReadError::Gone | ReadError::Timeout | ReadError::Overloaded(_) | ReadError::Unreadable(_),
            ) => Err(WatchError::Gone),
        }
    }

    async fn read_history(&mut self) -> Result<(), WatchError> {
        let range = KeyRange::prefix(self.watched.0.prefix().as_bytes());
        let opened = self.storage().watch(range, Some(self.cursor.next())).await;
        self.history = Some(opened.map_err(|e| self.error(e))?);
        Ok(())
    }

    async fn logged(&mut self, max: usize) -> Result<Vec<Arc<ObjectEvent>>, WatchError> {
        if let Ok(events) = self.live.log.after(self.cursor, max) {
            if let Some(last) = events.last() {
                self.cursor = last.revision;
            }
            return Ok(events);
        }
        self.read_history().await?;
        self.recorded(max).await
    }

    async fn recorded(&mut self, max: usize) -> Result<Vec<Arc<ObjectEvent>>, WatchError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let mut events = Vec::new();
        while events.len() < max {
            // Read first: everything up to it is in the queue by now.
            let published = self.storage().published();
            let Some(history) = &mut self.history else { break };
            let Some(known) = known(history, events.is_empty()).await else { break };
            match known {
                Ok(commit) => self.take(commit, &mut events)?,
                Err(TryRecvError::Disconnected) => return Err(closed()),
                Err(TryRecvError::Empty) => {
                    let moved = published > self.cursor;
                    self.cursor = self.cursor.max(published);
                    if self.live.log.after(self.cursor, 1).is_ok() {
                        self.history = None;
                    } else if moved {
                        continue;
                    }
                    break;
                }
            }
            if self.failed.is_some() {
                break;
            }
        }
        Ok(events)
    }

    /// From the history only, which goes on when the actor is gone: at most `max` changes up to `end`.
    async fn up_to(&mut self, end: Revision, max: usize) -> Result<Vec<Arc<ObjectEvent>>, WatchError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if self.storage().published() < end {
            // The registry may know of the end by a read of the store that is ahead of this process's watches.
            self.storage().fresh().await.map_err(|e| self.error(e))?;
        }
        if self.history.is_none() && self.cursor < end {
            self.read_history().await?;
        }
        let mut events = Vec::new();
        while events.len() < max && self.cursor < end && self.failed.is_none() {
            let Some(history) = &mut self.history else { break };
            let Some(known) = known(history, events.is_empty()).await else { break };
            match known {
                Ok(Ok(commit)) if commit.revision > end => self.cursor = end,
                Ok(commit) => self.take(commit, &mut events)?,
                // `end` is published, so everything up to it has come.
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => self.cursor = end,
            }
        }
        Ok(events)
    }

    /// Adds a commit's changes and moves the cursor behind them. An error waits if there is something to return first.
    fn take(
        &mut self,
        commit: Result<Arc<kindom_storage::Commit>, StorageError>,
        events: &mut Vec<Arc<ObjectEvent>>,
    ) -> Result<(), WatchError> {
        match self.events_of(commit) {
            Ok(found) => {
                if let Some(last) = found.last() {
                    self.cursor = last.revision;
                }
                events.extend(found);
                Ok(())
            }
            Err(error) if events.is_empty() => Err(error),
            Err(error) => {
                self.failed = Some(error);
                Ok(())
            }
        }
    }

    fn events_of(
        &self,
        commit: Result<Arc<kindom_storage::Commit>, StorageError>,
    ) -> Result<Vec<Arc<ObjectEvent>>, WatchError> {
        let commit = commit.map_err(|e| self.error(e))?;
        let prefix = self.watched.0.prefix();
        let changed = commit.events.iter().filter_map(|event| {
            let key = std::str::from_utf8(event.key.as_bytes()).ok()?.strip_prefix(prefix)?;
            Some(self.event_of(event, key, commit.revision))
        });
        changed.collect()
    }

    fn event_of(&self, event: &Event, key: &str, revision: Revision) -> Result<Arc<ObjectEvent>, WatchError> {
        let object = |value: &StoredValue, revision| {
            Arc::new(self.watched.0.stored_object(key, value.clone(), revision))
        };
        let previous = event.prev.as_ref().map(|kv: &KeyValue| object(&kv.value, kv.mod_revision));
        let (now, is_new) = match &event.change {
            Change::Put { value, create_revision } => {
                (Some(object(value, revision)), *create_revision == revision)
            }
            Change::Delete => (None, false),
        };
        if previous.is_none() && !is_new {
            // Without the former object, the event for a watcher is unknown.
            return Err(WatchError::Expired { requested: revision, oldest: revision.next() });
        }
        Ok(Arc::new(ObjectEvent { revision, object: now, previous }))
    }

    fn error(&self, error: StorageError) -> WatchError {
        match error {
            StorageError::Compacted { requested, compacted } => {
                WatchError::Expired { requested, oldest: compacted.next() }
            }
            other => WatchError::Storage(other),
        }
    }
}

fn closed() -> WatchError {
    WatchError::Storage(StorageError::Unavailable {
        reason: "the store is closing".into(),
        applied: kindom_storage::Applied::No,
    })
}

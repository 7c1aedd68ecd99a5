//! A watch: a cursor over a type's changes that survives the type's actor.

use std::sync::Arc;

use kindom_storage::{Change, KeyRange, KeyValue, Revision, Storage, StorageError, Watch};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::watch;

use crate::error::WatchError;
use crate::live::Live;
use crate::{ObjectEvent, StoredObject};

/// The changes of a type after a revision, in order, each once.
///
/// # Flow
/// It reads the type's shared log. Where the log does not reach back to the cursor (the type was just loaded, its actor
/// was replaced, or the client was slow) it reads the store's history until the two meet.
///
/// # Cancel safety
/// Dropping [`WatchCursor::next`]'s future loses nothing: the cursor moves when events are returned.
pub struct WatchCursor {
    storage: Arc<dyn Storage>,
    live: Arc<Live>,
    prefix: Arc<str>,
    cursor: Revision,
    folded: watch::Receiver<Revision>,
    history: Option<Watch>,
}

impl WatchCursor {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        live: Arc<Live>,
        prefix: Arc<str>,
        cursor: Revision,
    ) -> Self {
        let folded = live.feed.folded();
        Self { storage, live, prefix, cursor, folded, history: None }
    }

    /// Everything up to here was returned.
    #[must_use]
    pub fn cursor(&self) -> Revision {
        self.cursor
    }

    /// The next changes, at least one and at most `max`; waits for them.
    ///
    /// # Errors
    /// [`WatchError::Expired`] if the cursor has left the history.
    pub async fn next(&mut self, max: usize) -> Result<Vec<Arc<ObjectEvent>>, WatchError> {
        loop {
            let events =
                if self.history.is_some() { self.from_history(max)? } else { self.from_log(max).await? };
            if let Some(last) = events.last() {
                self.cursor = last.revision;
                return Ok(events);
            }
            match &mut self.history {
                None => self.wait().await?,
                Some(history) => {
                    // Both continue without a gap; whichever is first.
                    let Some(commit) = history.commits.recv().await else { return Err(closed()) };
                    let events = self.events_of(commit)?;
                    if let Some(last) = events.last() {
                        self.cursor = last.revision;
                        return Ok(events);
                    }
                }
            }
        }
    }

    /// The store's revision, if everything up to it was returned; the cursor moves there. For bookmarks, and so that a
    /// watch of a quiet type does not fall out of the history.
    pub fn advance(&mut self) -> Option<Revision> {
        let at = self.storage.published();
        let behind = !self.live.feed.is_complete_at(at)
            || self.history.is_some()
            || !self.live.log.after(self.cursor, 1).is_ok_and(|e| e.is_empty());
        if behind {
            return None;
        }
        self.cursor = self.cursor.max(at);
        Some(self.cursor)
    }

    /// What is left to return up to the store's revision of now: for a watch whose type is gone.
    ///
    /// # Errors
    /// As for [`WatchCursor::next`].
    pub async fn finish(&mut self) -> Result<Vec<Arc<ObjectEvent>>, WatchError> {
        let range = KeyRange::prefix(self.prefix.as_bytes());
        let until = self.storage.published();
        let mut history = self.storage.watch(range, Some(self.cursor.next())).await.map_err(|e| self.error(e))?;
        let mut events = Vec::new();
        while let Ok(commit) = history.commits.try_recv() {
            events.extend(self.events_of(commit)?.into_iter().filter(|event| event.revision <= until));
        }
        self.cursor = self.cursor.max(until);
        Ok(events)
    }

    async fn from_log(&mut self, max: usize) -> Result<Vec<Arc<ObjectEvent>>, WatchError> {
        self.folded.borrow_and_update();
        if let Ok(events) = self.live.log.after(self.cursor, max) {
            return Ok(events);
        }
        let range = KeyRange::prefix(self.prefix.as_bytes());
        let history = self.storage.watch(range, Some(self.cursor.next())).await.map_err(|e| self.error(e))?;
        self.history = Some(history);
        self.from_history(max)
    }

    fn from_history(&mut self, max: usize) -> Result<Vec<Arc<ObjectEvent>>, WatchError> {
        let mut events = Vec::new();
        while events.len() < max {
            // Read first: everything up to it is in the queue by now.
            let published = self.storage.published();
            let Some(history) = &mut self.history else { break };
            match history.commits.try_recv() {
                Ok(commit) => events.extend(self.events_of(commit)?),
                Err(TryRecvError::Disconnected) => return Err(closed()),
                Err(TryRecvError::Empty) => {
                    if let Some(last) = events.last() {
                        self.cursor = last.revision;
                    }
                    self.cursor = self.cursor.max(published);
                    if self.live.log.after(self.cursor, 1).is_ok() {
                        self.history = None;
                    }
                    break;
                }
            }
        }
        Ok(events)
    }

    fn events_of(
        &self,
        commit: Result<Arc<kindom_storage::Commit>, StorageError>,
    ) -> Result<Vec<Arc<ObjectEvent>>, WatchError> {
        let commit = commit.map_err(|e| self.error(e))?;
        let key_of = |key: &kindom_storage::Key| {
            let text = std::str::from_utf8(key.as_bytes()).ok()?;
            text.strip_prefix(&*self.prefix).map(str::to_owned)
        };
        let object = |key: &str, value: &bytes::Bytes, revision| {
            Arc::new(StoredObject::new(key, value.clone(), revision))
        };
        let events = commit.events.iter().filter_map(|event| {
            let key = key_of(&event.key)?;
            let now = match &event.change {
                Change::Put { value, .. } => Some(object(&key, value, commit.revision)),
                Change::Delete => None,
            };
            let before = |kv: &KeyValue| object(&key, &kv.value, kv.mod_revision);
            let previous = event.prev.as_ref().map(before);
            Some(Arc::new(ObjectEvent { revision: commit.revision, object: now, previous }))
        });
        Ok(events.collect())
    }

    /// Waits until the actor has folded something, or was replaced.
    async fn wait(&mut self) -> Result<(), WatchError> {
        self.folded.changed().await.map_err(|_| WatchError::Gone)
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

//! A type's recent changes, once, for all who watch: a bounded log that the actor appends to and each watch reads with a
//! cursor of its own, the last revision it delivered.

use std::collections::VecDeque;
use std::sync::Arc;

use kindom_storage::Revision;
use parking_lot::RwLock;

use crate::limits::{EVENT_LOG_BYTES_MAX, EVENT_LOG_EVENTS_MAX};
use kindom_objects::StoredObject;

/// A change to one object.
#[derive(Debug, Clone)]
pub struct ObjectEvent {
    /// The revision of the change. Several objects of a type never change in one revision.
    pub revision: Revision,
    /// The object after it; none if it was deleted.
    pub object: Option<Arc<StoredObject>>,
    /// The object before it; none if it was created.
    pub previous: Option<Arc<StoredObject>>,
}

impl ObjectEvent {
    fn bytes(&self) -> usize {
        [&self.object, &self.previous].into_iter().flatten().map(|object| object.json().len()).sum()
    }
}

/// Events after the cursor have left the log (or were before it began); the store's history has them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Behind;

/// The log. Every event after `start` up to the last one folded is in it.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    start: Revision,
    bytes: usize,
    events: VecDeque<Arc<ObjectEvent>>,
}

impl EventLog {
    /// Starts over, empty: events after `start` will follow. Cursors before it are behind.
    pub(crate) fn reset(&self, start: Revision) {
        *self.inner.write() = Inner { start, ..Inner::default() };
    }

    /// Appends, in revision order, and drops the oldest events over the bounds.
    pub(crate) fn append(&self, events: impl IntoIterator<Item = Arc<ObjectEvent>>) {
        let mut inner = self.inner.write();
        for event in events {
            inner.bytes += event.bytes();
            inner.events.push_back(event);
        }
        while inner.events.len() > EVENT_LOG_EVENTS_MAX || inner.bytes > EVENT_LOG_BYTES_MAX {
            let Some(oldest) = inner.events.pop_front() else { break };
            inner.bytes -= oldest.bytes();
            inner.start = oldest.revision;
        }
    }

    /// At most `max` events after the cursor, oldest first. O(log n + result).
    ///
    /// # Errors
    /// [`Behind`]
    pub(crate) fn after(&self, cursor: Revision, max: usize) -> Result<Vec<Arc<ObjectEvent>>, Behind> {
        let inner = self.inner.read();
        if cursor < inner.start {
            return Err(Behind);
        }
        let first = inner.events.partition_point(|e| e.revision <= cursor);
        Ok(inner.events.iter().skip(first).take(max).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: u64) -> Arc<ObjectEvent> {
        Arc::new(ObjectEvent { revision: Revision(revision), object: None, previous: None })
    }

    fn read(log: &EventLog, cursor: u64, max: usize) -> Result<Vec<u64>, Behind> {
        Ok(log.after(Revision(cursor), max)?.iter().map(|e| e.revision.0).collect())
    }

    #[test]
    fn a_cursor_reads_what_follows_it() {
        let log = EventLog::default();
        log.reset(Revision(10));
        log.append([event(12), event(15), event(16)]);
        assert_eq!(read(&log, 10, 9), Ok(vec![12, 15, 16]));
        assert_eq!(read(&log, 12, 1), Ok(vec![15]));
        assert_eq!(read(&log, 16, 9), Ok(vec![]));
        assert_eq!(read(&log, 9, 9), Err(Behind));
    }

    #[test]
    fn the_oldest_events_leave_a_full_log() {
        let log = EventLog::default();
        log.append((1..=EVENT_LOG_EVENTS_MAX as u64 + 5).map(event));
        assert_eq!(read(&log, 4, 1), Err(Behind));
        assert_eq!(read(&log, 5, 1), Ok(vec![6]));
    }
}

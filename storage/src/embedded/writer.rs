//! The one thread that writes.
//!
//! Everything queued goes into one batch: each transaction is judged after those before it and entered into the index,
//! where readers, who ask for published revisions, do not see it yet. Then the batch is written and synced, and only
//! then published and answered. If that fails, what was entered is never published, and the store takes no more
//! writes: after a failed fsync nobody knows what the disk holds.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;

use super::frame::{self, FrameBuilder};
use super::mark::{Mark, MarkFile};
use super::queue::{Reply, Request};
use super::segment::{
    Extent, FIRST_FRAME, Location, Segment, SegmentHeader, SegmentId, Segments, create_log, new_salt,
    unusable,
};
use super::{Core, EmbeddedOptions, hint};
use crate::index::{Changes, last_op_of_each_key};
use crate::local::event_of;
use crate::vfs::{Vfs, VfsFolder};
use crate::{Applied, Key, Revision, StorageError, TxnOutcome};

/// How many compacted revisions are freed between two batches: about a millisecond's work.
const PRUNE_REVISIONS: usize = 2048;
/// So many requests in one batch mean that several write at once.
const COMPANY_MIN: usize = 4;
/// Space in a segment is reserved so much at a time. Writing into reserved space makes an fsync cheaper, and opening
/// after a crash looks through all of it.
pub(super) const ALLOCATE_BYTES: u64 = 8 << 20;

pub(super) struct Writer {
    pub(super) core: Arc<Core>,
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) folder: Arc<dyn VfsFolder>,
    pub(super) dir: PathBuf,
    pub(super) options: EmbeddedOptions,
    pub(super) mark: MarkFile,
    pub(super) marked_at: Instant,
    pub(super) active: Arc<Segment>,
    pub(super) position: u64,
    pub(super) allocated: u64,
    /// The last batch written.
    pub(super) batch: u64,
    pub(super) frame: FrameBuilder,
    /// Held until the very end.
    pub(super) lock: Box<dyn Send + Sync>,
}

/// A request that was judged, and waits for its batch to be durable.
struct Judged {
    reply: Answer,
    changes: Option<(Changes<Location>, Vec<Option<Bytes>>)>,
}

enum Answer {
    Txn(Reply<TxnOutcome>, TxnOutcome),
    Compact(Reply<()>, Result<Option<Revision>, StorageError>),
}

impl Writer {
    /// Runs until the store is closed.
    pub(super) fn run(mut self) {
        // How many asked at once the last time tells whether waiting for company pays; a lone writer never waits.
        let mut company = false;
        loop {
            let dirty = self.mark.mark.batch < self.batch && self.core.failed().is_none();
            let deadline = dirty.then(|| self.marked_at + self.options.mark_every);
            let pruned = self.prune();
            let deadline = if pruned { deadline } else { Some(Instant::now()) };
            let (most, bytes) = (self.options.batch_txns_max, self.options.batch_bytes_max);
            let mut requests = self.core.queue.take(most, bytes, deadline, company);
            company = requests.len() >= COMPANY_MIN;
            let close = match requests.pop() {
                Some(Request::Close { reply }) => Some(reply),
                last => {
                    requests.extend(last);
                    None
                }
            };
            if !requests.is_empty() {
                self.batch(requests);
            }
            if let Some(reply) = close {
                return self.close(reply);
            }
            if self.mark.mark.batch < self.batch && self.marked_at.elapsed() >= self.options.mark_every {
                self.write_mark();
            }
        }
    }

    fn prune(&self) -> bool {
        if self.core.local.state.read().index.is_pruned() {
            return true;
        }
        let mut state = self.core.local.state.write();
        let segments = state.loader.clone();
        let done = state.index.prune(PRUNE_REVISIONS, |location| segments.lost(&location));
        drop(state);
        if done {
            self.core.packer.wake();
        }
        done
    }

    fn batch(&mut self, requests: Vec<Request>) {
        let room = requests.iter().map(room).sum::<usize>() + frame::HEADER_BYTES + 8;
        if self.core.failed().is_none()
            && let Err(error) = self.make_room(room as u64)
        {
            self.fail(&error.to_string());
        }
        if let Some(reason) = self.core.failed() {
            for request in requests {
                refuse(request, &StorageError::ReadOnly { reason: reason.to_owned(), applied: Applied::No });
            }
            return;
        }
        let first = self.core.local.hub.published().next();
        self.frame.start(self.active.header.salt, self.position, self.batch + 1, first);
        let core = Arc::clone(&self.core);
        let (judged, segments) = {
            let state = &mut *core.local.state.write();
            let judged = requests.into_iter().filter_map(|request| self.judge(&mut state.index, request));
            // Both under one lock: the places that `judged` names are those of this loader. The packer may move the
            // values while the batch is being synced.
            (judged.collect::<Vec<_>>(), state.loader.clone())
        };
        if self.frame.is_empty() {
            return self.publish(judged, &segments);
        }
        if self.options.answers_before_sync() {
            // The planted bug: see `EmbeddedOptions::answer_before_sync`.
            self.publish(judged, &segments);
            if let Err(error) = self.write() {
                self.fail(&error.to_string());
            }
            return;
        }
        match self.write() {
            Ok(()) => {
                let txns = judged.iter().filter(|judged| judged.changes.is_some()).count();
                self.core.written(txns as u64);
                self.publish(judged, &segments);
            }
            Err(error) => {
                self.fail(&error.to_string());
                judged.into_iter().for_each(|judged| self.refuse_unwritten(judged));
            }
        }
    }

    fn judge(&mut self, index: &mut crate::index::Index<Location>, request: Request) -> Option<Judged> {
        let (mut txn, reply) = match request {
            Request::Txn { txn, reply, .. } => (txn, reply),
            Request::Compact { revision, reply } => {
                return Some(Judged { reply: self.judge_compact(revision, reply), changes: None });
            }
            // It ends a batch, and was taken off.
            Request::Close { .. } => return None,
        };
        if let Some(compare) = index.first_failed(&txn.compares) {
            let outcome = TxnOutcome::Failed { compare: Some(compare), revision: index.head() };
            return Some(Judged { reply: Answer::Txn(reply, outcome), changes: None });
        }
        last_op_of_each_key(&mut txn.ops);
        let mut values = Vec::with_capacity(txn.ops.len());
        let changes = index.commit(&txn.ops, |revision, created, op| {
            let value = op.value();
            let placed = self.frame.op(revision, created, op.key().as_bytes(), value.map(|value| &value[..]));
            self.active.gained(placed.map(|placed| placed.bytes));
            values.push(value.cloned());
            placed.map(|placed| Location::new(self.active.id(), placed))
        });
        self.frame.end_txn();
        let outcome = TxnOutcome::Committed { revision: index.head() };
        let changes = changes.map(|changes| (changes, values));
        Some(Judged { reply: Answer::Txn(reply, outcome), changes })
    }

    fn judge_compact(&mut self, revision: Revision, reply: Reply<()>) -> Answer {
        let current = self.core.local.hub.published();
        if revision > current {
            return Answer::Compact(reply, Err(StorageError::Future { requested: revision, current }));
        }
        if revision <= self.core.local.compacted() {
            return Answer::Compact(reply, Ok(None));
        }
        self.frame.compact(revision);
        Answer::Compact(reply, Ok(Some(revision)))
    }

    /// Writes and syncs the frame.
    fn write(&mut self) -> Result<(), StorageError> {
        let bytes = self.frame.finish();
        let file = &self.active.file;
        file.write_at(self.position, bytes).map_err(|error| unusable(&self.active.path, "write", &error))?;
        file.sync().map_err(|error| unusable(&self.active.path, "sync", &error))?;
        self.position += bytes.len() as u64;
        self.batch += 1;
        Ok(())
    }

    /// Publishes and answers what is durable. `segments` is the loader as it was when this was judged.
    fn publish(&self, judged: Vec<Judged>, segments: &Segments) {
        let mut answers = Vec::with_capacity(judged.len());
        {
            let mut publisher = self.core.local.hub.publish();
            for Judged { reply, changes } in judged {
                answers.push(reply);
                let Some((Changes { revision, changed }, values)) = changes else { continue };
                let keys: Vec<Key> = changed.iter().map(|changed| changed.key.clone()).collect();
                publisher.commit(revision, keys.iter(), || {
                    let both = changed.into_iter().zip(values);
                    both.map(|(changed, value)| event_of(changed, value.map(Ok), segments)).collect()
                });
            }
        }
        for answer in answers {
            // Whoever asked may be gone.
            let _ = match answer {
                Answer::Txn(reply, outcome) => reply.send(Ok(outcome)).is_ok(),
                Answer::Compact(reply, result) => {
                    let result = result.map(|to| {
                        if let Some(to) = to {
                            self.core.local.compact(to);
                        }
                    });
                    reply.send(result).is_ok()
                }
            };
        }
    }

    /// Answers a request whose batch could not be made durable.
    fn refuse_unwritten(&self, judged: Judged) {
        let reason = self.core.failed().unwrap_or_default().to_owned();
        let applied = if judged.changes.is_some() { Applied::Unknown } else { Applied::No };
        let error = StorageError::ReadOnly { reason, applied };
        let _ = match judged.reply {
            Answer::Txn(reply, _) => reply.send(Err(error)).is_ok(),
            Answer::Compact(reply, _) => reply.send(Err(error)).is_ok(),
        };
    }

    fn fail(&self, reason: &str) {
        tracing::error!(reason, "the store is read-only from now on");
        self.core.set_failed(reason);
    }

    /// Sees to it that the next `bytes` have a place, in a new segment if this one is full.
    fn make_room(&mut self, bytes: u64) -> Result<(), StorageError> {
        if self.position + bytes > self.options.segment_bytes && self.position > FIRST_FRAME {
            self.roll()?;
        }
        let needed = self.position + bytes;
        if needed > self.allocated {
            let ahead = self.options.segment_bytes.min(self.allocated + self.options.allocate_bytes());
            let wanted = needed.max(ahead);
            let path = &self.active.path;
            self.active.file.allocate(wanted).map_err(|error| unusable(path, "reserve space for", &error))?;
            self.allocated = wanted;
        }
        Ok(())
    }

    /// Seals the segment and starts the next.
    fn roll(&mut self) -> Result<(), StorageError> {
        self.seal(true)?;
        let core = Arc::clone(&self.core);
        let id = core.next_id.fetch_add(1, Ordering::Relaxed);
        let header = SegmentHeader {
            id: SegmentId(std::num::NonZeroU32::MIN.saturating_add(id - 1)),
            first_batch: self.batch + 1,
            first_revision: core.local.hub.published().next(),
            extent: None,
            compacted: core.local.compacted(),
            salt: new_salt(),
            clean: Revision::ZERO,
        };
        self.allocated = self.options.allocate_bytes();
        let active = create_log(&*self.vfs, &*self.folder, &self.dir, header, self.allocated);
        self.active = Arc::new(active.map_err(|failed| failed.error)?);
        self.position = FIRST_FRAME;
        {
            let loader = &mut core.local.state.write().loader;
            *loader = loader.with(&self.active);
        }
        core.packer.wake();
        Ok(())
    }

    fn seal(&self, for_good: bool) -> Result<Extent, StorageError> {
        let extent = Extent {
            last_batch: self.batch,
            last_revision: self.core.local.hub.published(),
            end: self.position,
        };
        let path = &self.active.path;
        let file = &self.active.file;
        file.set_len(self.position).map_err(|error| unusable(path, "cut", &error))?;
        file.sync().map_err(|error| unusable(path, "sync", &error))?;
        if for_good {
            // Only here, and once for each segment.
            let _ = self.active.sealed.set(extent);
        }
        Ok(extent)
    }

    fn write_mark(&mut self) {
        self.marked_at = Instant::now();
        let local = &self.core.local;
        let mark = Mark { batch: self.batch, revision: local.hub.published(), compacted: local.compacted() };
        if let Err(error) = self.mark.write(mark) {
            let error = unusable(self.mark.path(), "write", &error);
            self.fail(&error.to_string());
        }
    }

    fn close(mut self, reply: Reply<()>) {
        self.core.packer.stop();
        let saved = self.save();
        if let Err(error) = &saved {
            tracing::error!(%error, "the store was not closed in order");
        }
        self.core.local.hub.close(&StorageError::closed());
        drop(self.lock);
        let _ = reply.send(saved);
    }

    fn save(&mut self) -> Result<(), StorageError> {
        if let Some(reason) = self.core.failed() {
            return Err(StorageError::ReadOnly { reason: reason.to_owned(), applied: Applied::No });
        }
        let extent = self.seal(false)?;
        if self.position > FIRST_FRAME
            && let Err(error) = hint::write_for(&*self.vfs, &self.dir, &self.active, extent)
        {
            tracing::warn!(%error, "could not write the index of the newest segment; opening will take longer");
        }
        self.write_mark();
        match self.core.failed() {
            Some(reason) => Err(StorageError::ReadOnly { reason: reason.to_owned(), applied: Applied::No }),
            None => Ok(()),
        }
    }
}

fn room(request: &Request) -> usize {
    match request {
        Request::Txn { txn, .. } => frame::txn_bytes_max(&txn.ops),
        Request::Compact { .. } | Request::Close { .. } => 16,
    }
}

fn refuse(request: Request, error: &StorageError) {
    let _ = match request {
        Request::Txn { reply, .. } => reply.send(Err(error.clone())).is_ok(),
        Request::Compact { reply, .. } | Request::Close { reply } => reply.send(Err(error.clone())).is_ok(),
    };
}

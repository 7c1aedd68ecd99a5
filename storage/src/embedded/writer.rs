//! The one thread that writes.
//!
//! Everything queued goes into one batch: each transaction is judged after those before it and entered into the index, where
//! readers, who ask for published revisions, do not see it yet. Then the batch is written and synced, and only then
//! published and answered. If that fails, the batch is never published, and the store takes no more writes until it is
//! opened again: after a failed fsync the content of the disk is unknown.
//!
//! # Without space, or without descriptors
//! A batch is written only into space that is reserved for it, so a full disk refuses it before anything is written; and a
//! segment that cannot be followed by another, for lack of descriptors, goes on growing, up to four times its size. Only then,
//! or without space, the store is *short*: it refuses puts, which then certainly have not happened, and checks twice a second
//! if there is space again.
//!
//! It gets out of that by itself if enough of what it stores is deleted and compacted, however many deletes are sent:
//! - Behind the last batch there is always a reserve; it outlives closing and opening. Deletes go into its first half, and are
//!   refused once that is used up. What packs free extends it again.
//! - A compaction takes no space: the mark records it.
//! - The packer has its [spare](super::spare), and now packs what frees the most, however little that is.
//! - The newest segment can only be packed once it is followed by another. If some of it is dead, or deletes, and the store
//!   was short for some seconds, the second half of the reserve becomes the next segment.
//!
//! A new segment appears by a rename. If that, or the sync of the folder, fails, it has to be taken back before another
//! batch is written to the old one: found after a crash, it would say that the old one ended before.
//!
//! A file system that reserves nothing says that it is full when it is written to. Then the batch is cut off and the file
//! synced; if both succeed, nothing of it is left, and its transactions are taken out of the index.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::clock::now;
use super::frame::{self, FrameBuilder};
use super::mark::{Mark, MarkFile};
use super::queue::{Reply, Request};
use super::segment::{
    Extent, FIRST_FRAME, Location, NotNamed, Segment, SegmentHeader, SegmentId, Segments, create_log,
    is_full, is_out_of_descriptors, new_salt, unname, unusable,
};
use super::spare::Spare;
use super::{Core, EmbeddedOptions, hint};
use crate::index::{Changes, last_op_of_each_key};
use crate::local::event_of;
use crate::vfs::{Vfs, VfsFolder};
use crate::{Applied, Key, Revision, StorageError, TxnOutcome};

/// The number of compacted revisions freed between two batches: about a millisecond's work.
const PRUNE_REVISIONS: usize = 2048;
/// The room that deletes and compactions have on a full disk; less in small segments.
pub(super) const RESERVE_BYTES: u64 = 4 << 20;
/// A store that is short of something tries again after this time.
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// A store that is short seals the newest segment, if that frees space, after so many tries.
const TRIES: u32 = 8;
/// So many times its size may a segment grow to while no other can be made.
const OVERGROWN: u64 = 4;
/// So many requests in one batch mean that several write at once.
const COMPANY_MIN: usize = 4;
/// So many in one batch are many ([`EmbeddedOptions::in_company`]).
const CROWD_MIN: usize = 12;
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
    /// There is a spare for so many bytes of the segment.
    pub(super) covered: u64,
    /// The last batch written.
    pub(super) batch: u64,
    pub(super) frame: FrameBuilder,
    /// The time of the next try after a lack of space or descriptors.
    pub(super) try_again: Option<Instant>,
    /// So many bytes had no room.
    pub(super) lacking: u64,
    /// So many times it was tried again.
    pub(super) tries: u32,
    /// The name of a segment that was not made; no batch is written while it may be there.
    pub(super) undo: Option<PathBuf>,
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
        // The number of callers in the last batch shows if waiting for company pays; a lone writer never waits.
        let mut company = false;
        loop {
            let dirty = self.mark.mark.batch < self.batch && self.core.failed().is_none();
            let deadline = dirty.then(|| self.marked_at + self.options.mark_every);
            let pruned = self.prune();
            let deadline = if pruned { deadline } else { Some(now()) };
            let deadline = deadline.into_iter().chain(self.short_until()).min();
            let (most, bytes) = (self.options.batch_txns_max, self.options.batch_bytes_max);
            let mut requests = self.core.queue.take(most, bytes, deadline, company);
            company = requests.len() >= COMPANY_MIN;
            if !company || requests.len() >= CROWD_MIN {
                (self.options.in_company)(company);
            }
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
            if self.short_until().is_some_and(|at| at <= now()) && self.core.failed().is_none() {
                // Nobody asks: it heals all the same.
                self.room_for(&[]);
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

    /// The time at which a store that is short tries again.
    fn short_until(&self) -> Option<Instant> {
        self.try_again.filter(|_| self.core.short().is_some())
    }

    fn batch(&mut self, mut requests: Vec<Request>) {
        if let Some(reason) = self.core.failed() {
            let error = StorageError::ReadOnly { reason: reason.to_owned(), applied: Applied::No };
            return requests.into_iter().for_each(|request| refuse(request, &error));
        }
        self.room_for(&requests);
        if let Some(short) = self.core.short() {
            requests = self.only_what_frees(requests, &short);
            requests = self.compact_in_mark(requests);
        }
        if requests.is_empty() {
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
            if let Err(NotWritten { error, .. }) = self.write() {
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
            Err(NotWritten { error, nothing: true }) => {
                self.is_short(&error);
                self.take_back(judged);
            }
            Err(NotWritten { error, nothing: false }) => {
                self.fail(&error.to_string());
                judged.into_iter().for_each(|judged| self.refuse_unwritten(judged));
            }
        }
    }

    /// Takes transactions that are certainly not written out of the index, and refuses them.
    fn take_back(&mut self, judged: Vec<Judged>) {
        {
            let index = &mut self.core.local.state.write().index;
            for (changes, _) in judged.iter().rev().filter_map(|judged| judged.changes.as_ref()) {
                index.take_back(changes);
                for changed in &changes.changed {
                    self.active.took_back(changed.record.value.map(|value| value.bytes));
                }
            }
        }
        let error = self.core.short_error();
        for Judged { reply, .. } in judged {
            // Refused transactions get this error too: they may have been judged on the ones that are taken back.
            let _ = match reply {
                Answer::Txn(reply, _) => reply.send(Err(error.clone())).is_ok(),
                Answer::Compact(reply, _) => reply.send(Err(error.clone())).is_ok(),
            };
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
    fn write(&mut self) -> Result<(), NotWritten> {
        let bytes = self.frame.finish();
        let (path, file) = (&self.active.path, &self.active.file);
        let unknown = |error| NotWritten { error, nothing: false };
        if let Err(error) = file.write_at(self.position, bytes) {
            let nothing = is_full(&error) && file.set_len(self.position).and_then(|()| file.sync()).is_ok();
            if nothing {
                self.allocated = self.position;
            }
            return Err(NotWritten { error: unusable(path, "write", &error), nothing });
        }
        file.sync().map_err(|error| unknown(unusable(path, "sync", &error)))?;
        self.position += bytes.len() as u64;
        self.batch += 1;
        Ok(())
    }

    /// Publishes and answers durable transactions. `segments` is the loader as it was when this was judged.
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
            // The caller may be gone.
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

    /// Makes room for these requests, or puts the store into the state "short".
    fn room_for(&mut self, requests: &[Request]) {
        let bytes = requests.iter().map(room).sum::<usize>() + frame::HEADER_BYTES + 8;
        // As much as there was no room for before, so that it does not end with the first small batch.
        let bytes = self.lacking.max(bytes as u64);
        let is_short = self.core.is_short();
        if is_short && self.try_again.is_some_and(|at| at > now()) {
            self.lacking = bytes;
            return;
        }
        match self.make_room(bytes) {
            Ok(()) => {
                (self.lacking, self.tries) = (0, 0);
                self.core.set_short(None);
            }
            Err(error) => {
                (self.lacking, self.tries) = (bytes, self.tries.saturating_add(u32::from(is_short)));
                self.is_short(&error);
                self.make_room_for_deletes();
            }
        }
    }

    fn is_short(&mut self, error: &StorageError) {
        if self.try_again.is_none_or(|at| at <= now()) {
            self.try_again = Some(now() + TRY_AGAIN);
        }
        let why = match error {
            StorageError::Unavailable { reason, .. } => reason.clone(),
            error => error.to_string(),
        };
        self.core.set_short(Some(why));
    }

    /// Of these, what makes space and fits into the reserve; the rest is refused.
    fn only_what_frees(&mut self, requests: Vec<Request>, why: &str) -> Vec<Request> {
        let error = self.core.short_error_of(why);
        let taken = self.position + self.options.held_bytes() + frame::HEADER_BYTES as u64 + 8;
        let mut room_left = self.allocated.saturating_sub(taken);
        let mut kept = Vec::new();
        for request in requests {
            // A compaction goes into the mark.
            let bytes = if let Request::Compact { .. } = request { 0 } else { room(&request) as u64 };
            let fits = bytes == 0 || self.undo.is_none() && bytes <= room_left;
            if frees(&request) && fits {
                room_left -= bytes;
                kept.push(request);
            } else {
                refuse(request, &error);
            }
        }
        kept
    }

    /// Does what the compactions among these ask for, without space: the mark says it, and its place is written again.
    /// So deletes cannot take the space that a compaction needs. Returns the requests that are still to be judged.
    fn compact_in_mark(&mut self, requests: Vec<Request>) -> Vec<Request> {
        let local = Arc::clone(&self.core.local);
        let revision = local.hub.published();
        let wanted = requests.iter().filter_map(|request| match request {
            Request::Compact { revision: to, .. } if *to <= revision => Some(*to),
            _ => None,
        });
        let Some(compacted) = wanted.max().filter(|to| *to > local.compacted()) else { return requests };
        match self.mark.write(Mark { batch: self.batch, revision, compacted }) {
            Ok(()) => {
                local.compact(compacted);
                requests
            }
            Err(error) if is_full(&error) => {
                let error = self.core.short_error();
                let is_compaction = |request: &Request| matches!(request, Request::Compact { .. });
                let (refused, rest): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_compaction);
                refused.into_iter().for_each(|request| refuse(request, &error));
                rest
            }
            Err(error) => {
                let reason = unusable(self.mark.path(), "write", &error).to_string();
                self.fail(&reason);
                let error = StorageError::ReadOnly { reason, applied: Applied::No };
                requests.into_iter().for_each(|request| refuse(request, &error));
                Vec::new()
            }
        }
    }

    /// Sees to it that the next `bytes` have a place, and the reserve behind them, in a new segment if this one is full.
    ///
    /// # Errors
    /// Nothing of the log was written.
    fn make_room(&mut self, bytes: u64) -> Result<(), StorageError> {
        if let Some(path) = &self.undo {
            unname(&*self.vfs, &*self.folder, path).map_err(|error| unusable(path, "remove", &error))?;
            self.undo = None;
        }
        let is_due = self.try_again.is_none_or(|at| at <= now());
        let is_full = self.position + bytes > self.options.segment_bytes && self.position > FIRST_FRAME;
        if is_full || self.is_better_sealed() {
            let too_large = self.options.segment_bytes.saturating_mul(OVERGROWN).min(3 << 30);
            let overgrown = self.position + bytes > too_large;
            if is_due || overgrown {
                let needed = FIRST_FRAME + bytes + self.options.reserve_bytes();
                match self.roll(needed) {
                    Ok(()) => self.try_again = None,
                    Err(NotNamed { error, is_full, .. }) => {
                        self.try_again = Some(now() + TRY_AGAIN);
                        // Without space it must not grow: only what is sealed can be packed.
                        if overgrown || is_full || self.undo.is_some() {
                            return Err(error);
                        }
                        tracing::warn!(%error, "no new segment; the one before it goes on growing");
                    }
                }
            }
        }
        let needed = self.position + bytes + self.options.reserve_bytes();
        if needed > self.allocated || needed > self.covered {
            let more = if needed > self.allocated { self.options.allocate_bytes() } else { 0 };
            let ahead = self.options.segment_bytes.min(self.allocated + more);
            // There may be less than all that is wanted.
            let core = Arc::clone(&self.core);
            let mut spare = core.spare.lock();
            self.allocate(&mut spare, needed.max(ahead)).or_else(|_| self.allocate(&mut spare, needed))?;
        }
        Ok(())
    }

    /// Reserves so many bytes for the newest segment, and before that the spare that packing it can need.
    fn allocate(&mut self, spare: &mut Spare, bytes: u64) -> Result<(), StorageError> {
        let path = &self.active.path;
        let failed = |error: std::io::Error| unusable(path, "reserve space for", &error);
        match spare.cover(self.sealed_bytes() + bytes) {
            Ok(()) => self.covered = self.covered.max(bytes),
            // Space is not what the spare lacks, and this segment has its descriptor. The next write tries again.
            Err(error) if is_out_of_descriptors(&error) => {}
            Err(error) => return Err(failed(error)),
        }
        if bytes > self.allocated {
            self.active.file.allocate(bytes).map_err(failed)?;
            self.allocated = bytes;
        }
        Ok(())
    }

    /// Without room for all that is lacking, extends the room for deletes by as much as there is: what they free may be
    /// enough.
    fn make_room_for_deletes(&mut self) {
        let (reserve, held) = (self.options.reserve_bytes(), self.options.held_bytes());
        let core = Arc::clone(&self.core);
        let mut spare = core.spare.lock();
        for share in [1, 2, 4, 8] {
            let wanted = self.position + held + (reserve - held) / share;
            // What is larger than the spare could not be packed.
            if wanted <= self.options.log_bytes_max() && self.allocate(&mut spare, wanted).is_ok() {
                return;
            }
        }
    }

    fn sealed_bytes(&self) -> u64 {
        self.core.local.state.read().loader.sealed_bytes()
    }

    /// Returns true if the store was short for a while, or the newest segment is full, and that segment holds something that
    /// is dead, or deletes: it can only be packed once it is sealed.
    fn is_better_sealed(&self) -> bool {
        let of = |weight: &std::sync::atomic::AtomicU64| weight.load(Ordering::Relaxed);
        let dead = of(&self.active.puts).saturating_sub(of(&self.active.live)) + of(&self.active.deletes);
        let is_time = self.tries >= TRIES || self.position >= self.options.segment_bytes;
        self.core.is_short() && is_time && dead >= self.options.held_bytes() / 2
    }

    /// Starts the next segment, with at least `needed` bytes, and seals this one.
    fn roll(&mut self, needed: u64) -> Result<(), NotNamed> {
        let core = Arc::clone(&self.core);
        let mut spare = core.spare.lock();
        let stored = self.sealed_bytes() + self.position;
        let ahead = self.options.allocate_bytes();
        let larger = self.create_beside(&mut spare, stored, needed.max(ahead));
        let made = larger.or_else(|failed| match failed {
            NotNamed { is_full: true, undo: None, .. } => self.create_beside(&mut spare, stored, needed),
            failed => Err(failed),
        });
        let made = made.or_else(|failed| match failed {
            NotNamed { is_full: true, undo: None, .. } if self.is_better_sealed() => self.create_in_reserve(),
            failed => Err(failed),
        });
        let (next, allocated) = made.map_err(|mut failed| {
            self.undo = failed.undo.take();
            failed
        })?;
        {
            let loader = &mut core.local.state.write().loader;
            *loader = loader.with(&next);
        }
        // Once for each segment. All of it is durable; the bytes that are cut off are unused space.
        let _ = self.active.sealed.set(self.extent());
        if let Err(error) = self.active.file.set_len(self.position) {
            tracing::debug!(%error, file = %self.active.path.display(), "a full segment keeps its reserve");
        }
        (self.active, self.position, self.allocated) = (next, FIRST_FRAME, allocated);
        (self.covered, self.tries) = (0, 0);
        core.packer.wake();
        Ok(())
    }

    /// Creates the next segment, with so many bytes, once there is a spare for these and for all that is stored.
    fn create_beside(
        &self,
        spare: &mut Spare,
        stored: u64,
        bytes: u64,
    ) -> Result<(Arc<Segment>, u64), NotNamed> {
        spare.cover(stored + bytes).map_err(|error| NotNamed {
            is_full: is_full(&error),
            error: unusable(&self.active.path, "reserve space to pack", &error),
            undo: None,
        })?;
        self.create(bytes)
    }

    /// Creates the next segment in the space that deletes leave of this one's reserve.
    fn create_in_reserve(&mut self) -> Result<(Arc<Segment>, u64), NotNamed> {
        let held = self.options.held_bytes().max(FIRST_FRAME);
        let file = Arc::clone(&self.active.file);
        // If this fails, there is no space, and the next step says so.
        let _ = file.set_len(self.allocated.saturating_sub(held).max(self.position));
        self.create(held).inspect_err(|_| {
            if file.allocate(self.allocated).is_err() {
                self.allocated = self.position;
            }
        })
    }

    fn create(&self, bytes: u64) -> Result<(Arc<Segment>, u64), NotNamed> {
        let core = &self.core;
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
        let made = create_log(&*self.vfs, &*self.folder, &self.dir, header, bytes)?;
        Ok((Arc::new(made), bytes))
    }

    fn extent(&self) -> Extent {
        let last_revision = self.core.local.hub.published();
        Extent { last_batch: self.batch, last_revision, end: self.position }
    }

    fn write_mark(&mut self) {
        self.marked_at = now();
        let local = &self.core.local;
        let mark = Mark { batch: self.batch, revision: local.hub.published(), compacted: local.compacted() };
        match self.mark.write(mark) {
            Ok(()) => {}
            // A mark that is late is no harm, and its place is written again.
            Err(error) if is_full(&error) => {
                tracing::warn!(%error, "could not write the high-water mark yet")
            }
            Err(error) => {
                let error = unusable(self.mark.path(), "write", &error);
                self.fail(&error.to_string());
            }
        }
    }

    fn close(mut self, reply: Reply<()>) {
        self.core.packer.ask_to_stop();
        let saved = self.save();
        self.core.packer.stop();
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
        let (path, file) = (&self.active.path, &self.active.file);
        // The reserve stays: the disk may be full when it is opened again.
        let kept = self.allocated.min(self.position + self.options.reserve_bytes());
        if let Err(error) = file.set_len(kept) {
            tracing::warn!(%error, "the newest segment keeps more space than it needs");
        }
        file.sync().map_err(|error| unusable(path, "sync", &error))?;
        if self.position > FIRST_FRAME
            && let Err(error) = hint::write_for(&*self.vfs, &self.dir, &self.active, self.extent())
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

/// The reason why a batch is not durable.
struct NotWritten {
    error: StorageError,
    /// Nothing of it is in the file, nor will be.
    nothing: bool,
}

/// `true` if a request puts nothing, so that it makes space: as on an etcd without space, whose `applierV3Capped` takes
/// deletes and compactions, and transactions without a put (`server/etcdserver/apply`).
fn frees(request: &Request) -> bool {
    match request {
        Request::Txn { txn, .. } => !txn.puts(),
        Request::Compact { .. } | Request::Close { .. } => true,
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

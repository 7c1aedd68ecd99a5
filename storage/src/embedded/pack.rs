//! Reclaiming space: a thread that writes hints of sealed segments, and replaces segments that are mostly dead by a
//! pack of what is still needed.
//!
//! # What is still needed
//! Only segments whose last revision is at or before the compacted revision are packed. Of such a revision the index
//! has each live key's newest record, so a put is needed if the index still has it. A delete is needed as long as an
//! older segment, outside the pack, may hold a put of its key, which would come back to life without it: unless the
//! pack starts with the oldest segment, or a later record, also compacted, stands in its place.
//!
//! # Crashes
//! A pack is written and synced under another name, and renamed; then its folder is synced, and only then do the
//! segments that it replaces go. Opening finds either no pack, or a whole one, and then removes what it replaces.

use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};

use super::frame::{FrameBuilder, LoggedOp, Record};
use super::segment::{Extent, FIRST_FRAME, Location, Segment, SegmentHeader, SegmentId, new_salt};
use super::{Core, hint};
use crate::vfs::{Vfs, VfsFile};
use crate::{Key, Revision};

/// A pack is written in frames of about this size.
const FRAME_BYTES: usize = 1 << 20;
/// So many records change their place while the index is locked once.
const RELOCATE: usize = 1024;
/// So many neighbours that are small are packed although they are not dead.
const SMALL_SEGMENTS: usize = 4;

/// Wakes and stops the thread.
#[derive(Default)]
pub(super) struct Packer {
    state: Mutex<PackerState>,
    changed: Condvar,
}

#[derive(Default)]
struct PackerState {
    wanted: bool,
    stopping: bool,
    running: bool,
}

impl Packer {
    /// Makes it look again for something to do.
    pub(super) fn wake(&self) {
        self.state.lock().wanted = true;
        self.changed.notify_all();
    }

    /// Stops it, and waits until it is out of the folder.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        self.changed.notify_all();
        while state.running {
            self.changed.wait(&mut state);
        }
    }

    fn stopping(&self) -> bool {
        self.state.lock().stopping
    }

    /// Waits until there may be something to do; false: it is time to stop.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.wanted && !state.stopping {
            self.changed.wait(&mut state);
        }
        state.wanted = false;
        !state.stopping
    }
}

/// The thread's work.
pub(super) struct Packing {
    pub(super) core: Weak<Core>,
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) dir: PathBuf,
    pub(super) segment_bytes: u64,
}

/// Says that the thread is out of the folder, however it ended.
struct Running(Arc<Core>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.packer.state.lock().running = false;
        self.0.packer.changed.notify_all();
    }
}

impl Packing {
    /// Marks the packer as running; before its thread is started.
    pub(super) fn starting(core: &Core) {
        core.packer.state.lock().running = true;
    }

    /// Runs until it is stopped.
    pub(super) fn run(self) {
        let Some(core) = self.core.upgrade() else { return };
        let _running = Running(Arc::clone(&core));
        while core.packer.wait() {
            if let Err(error) = self.pass(&core) {
                // Nothing is lost: the segments are as they were. It is tried again when there is more to do.
                tracing::warn!(%error, dir = %self.dir.display(), "could not reclaim space");
            }
        }
    }

    fn pass(&self, core: &Core) -> io::Result<()> {
        let segments = core.local.state.read().loader.in_order();
        for segment in &segments {
            if let Some(extent) = segment.sealed.get()
                && !core.packer.stopping()
                && self.vfs.open(&hint::path(&self.dir, segment.id())).is_err()
            {
                hint::write_for(&*self.vfs, &self.dir, segment, *extent)?;
            }
        }
        while !core.packer.stopping() {
            let segments = core.local.state.read().loader.in_order();
            let Some(run) = self.choose(core, &segments) else { return Ok(()) };
            let id = core.next_id.fetch_add(1, Ordering::Relaxed);
            let id = SegmentId(NonZeroU32::MIN.saturating_add(id - 1));
            let temporary = self.dir.join(format!("{id}.pack.tmp"));
            self.pack(core, &run, id, &temporary).inspect_err(|_| {
                // It may not be there; the next opening would remove it too.
                let _ = self.vfs.remove(&temporary);
            })?;
        }
        Ok(())
    }

    /// The oldest run of neighbours that is worth it, and whether it starts with the oldest segment of all.
    fn choose(&self, core: &Core, segments: &[Arc<Segment>]) -> Option<Run> {
        let compacted = {
            let index = &core.local.state.read().index;
            if index.is_pruned() {
                index.compacted()
            } else {
                return None;
            };
            index.compacted()
        };
        let mut run = Run::default();
        for (position, segment) in segments.iter().enumerate() {
            let (live, weight) =
                (segment.live.load(Ordering::Relaxed), segment.weight.load(Ordering::Relaxed));
            let cold = segment.sealed.get().is_some_and(|extent| extent.last_revision <= compacted);
            // A pack of nothing has no weight; it only joins its neighbours.
            let dead = live * 2 < weight;
            let small = weight < self.segment_bytes / 4;
            let fits = run.live + live <= self.segment_bytes;
            if !(cold && (dead || small) && fits) {
                if run.is_worth_it() {
                    return Some(run);
                }
                run = Run::default();
                if !(cold && (dead || small)) {
                    continue;
                }
            }
            run.oldest |= position == 0;
            run.live += live;
            run.dead |= dead;
            run.segments.push(Arc::clone(segment));
        }
        run.is_worth_it().then_some(run)
    }

    fn pack(&self, core: &Core, run: &Run, id: SegmentId, temporary: &Path) -> io::Result<()> {
        let (Some(first), Some(last)) = (run.segments.first(), run.segments.last()) else { return Ok(()) };
        let Some(last) = last.sealed.get() else { return Ok(()) };
        let path = self.dir.join(format!("{id}.pack"));
        let file = self.vfs.create(temporary)?;
        let salt = new_salt();
        let mut output = Output {
            file: Arc::clone(&file),
            id,
            salt,
            position: FIRST_FRAME,
            frame: FrameBuilder::default(),
            frames: 0,
            moved: Vec::new(),
        };
        output.start();
        for segment in &run.segments {
            self.copy(core, run, segment, &mut output)?;
        }
        output.flush()?;
        let header = SegmentHeader {
            id,
            first_batch: first.header.first_batch,
            first_revision: first.header.first_revision,
            extent: Some(Extent { end: output.position, ..*last }),
            compacted: core.local.compacted(),
            salt,
        };
        file.write_at(0, &header.encode())?;
        file.sync()?;
        self.vfs.rename(temporary, &path)?;
        self.vfs.sync_dir(&self.dir)?;
        let pack = Arc::new(Segment::new(header, path, file));
        if let Some(extent) = header.extent {
            hint::write_for(&*self.vfs, &self.dir, &pack, extent)?;
        }
        self.install(core, &pack, output.moved);
        self.remove(core, run)
    }

    fn copy(&self, core: &Core, run: &Run, segment: &Segment, output: &mut Output) -> io::Result<()> {
        let Some(extent) = segment.sealed.get() else { return Ok(()) };
        let mut at = FIRST_FRAME;
        while at < extent.end {
            let Some(frame) = segment.frame_at(at, extent.end)? else {
                let what = segment.damaged(at, "a batch is unreadable");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what.to_string()));
            };
            for record in frame.records {
                let Record::Txn { revision, ops } = record else { continue };
                for op in ops {
                    if needed(core, run, revision, &op) {
                        output.op(revision, op);
                    }
                }
                output.end_txn()?;
            }
            at = frame.end;
        }
        Ok(())
    }

    /// Makes the index refer to the pack. Until that is done, old and new place hold the same.
    fn install(&self, core: &Core, pack: &Arc<Segment>, moved: Vec<Moved>) {
        {
            let loader = &mut core.local.state.write().loader;
            *loader = loader.with(pack);
        }
        for moved in moved.chunks(RELOCATE) {
            let mut state = core.local.state.write();
            for Moved { key, revision, to } in moved {
                let Some(to) = to else {
                    pack.gained(None);
                    continue;
                };
                pack.gained(Some(to.bytes));
                if !state.index.relocate(key, *revision, *to) {
                    pack.lost(to.bytes);
                }
            }
        }
    }

    fn remove(&self, core: &Core, run: &Run) -> io::Result<()> {
        {
            let loader = &mut core.local.state.write().loader;
            *loader = loader.without(&run.segments);
        }
        for segment in &run.segments {
            self.vfs.remove(&segment.path)?;
            // It may never have been written.
            let _ = self.vfs.remove(&hint::path(&self.dir, segment.id()));
        }
        self.vfs.sync_dir(&self.dir)
    }
}

fn needed(core: &Core, run: &Run, revision: Revision, op: &LoggedOp) -> bool {
    let state = core.local.state.read();
    let key = Key::new(op.key.clone());
    if op.value.is_some() {
        return state.index.find(&key, revision).is_some();
    }
    !run.oldest && state.index.last_compacted(&key).is_none_or(|later| later.revision <= revision)
}

/// Neighbouring segments.
#[derive(Default)]
struct Run {
    segments: Vec<Arc<Segment>>,
    live: u64,
    dead: bool,
    oldest: bool,
}

impl Run {
    fn is_worth_it(&self) -> bool {
        self.dead || self.segments.len() >= SMALL_SEGMENTS
    }
}

/// A record's new place; none for a delete, which the index does not have.
struct Moved {
    key: Key,
    revision: Revision,
    to: Option<Location>,
}

/// The pack in the making.
struct Output {
    file: Arc<dyn VfsFile>,
    id: SegmentId,
    salt: u64,
    position: u64,
    frame: FrameBuilder,
    frames: u64,
    moved: Vec<Moved>,
}

impl Output {
    fn start(&mut self) {
        self.frames += 1;
        self.frame.start(self.salt, self.position, self.frames, Revision::ZERO);
    }

    fn op(&mut self, revision: Revision, op: LoggedOp) {
        let value = op.value.as_ref().map(|(_, value)| &value[..]);
        // With its CRC: what is damaged stays damaged.
        let placed = self.frame.op_with(revision, op.created, &op.key, value, op.crc);
        let to = placed.map(|placed| Location::new(self.id, placed));
        // A copy, because the key is a slice of a whole batch.
        let key = Key::new(bytes::Bytes::copy_from_slice(&op.key));
        self.moved.push(Moved { key, revision, to });
    }

    fn end_txn(&mut self) -> io::Result<()> {
        self.frame.end_txn();
        if self.frame.bytes() >= FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.frame.is_empty() {
            let bytes = self.frame.finish();
            self.file.write_at(self.position, bytes)?;
            self.position += bytes.len() as u64;
            if u32::try_from(self.position).is_err() {
                // A place in a file has 32 bits.
                return Err(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    "the pack would be larger than 4 GiB",
                ));
            }
            self.start();
        }
        Ok(())
    }
}

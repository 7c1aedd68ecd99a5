//! Reclaiming space: a thread that writes hints of sealed segments, and replaces segments that are mostly dead by a pack of
//! the records that are still needed.
//!
//! # What is still needed
//! Only segments whose last revision is at or before the compacted revision are packed. Of such a revision the index
//! has each live key's newest record, so a put is needed if the index still has it. A delete is needed as long as an
//! older segment, outside the pack, may hold a put of its key, which would come back to life without it: unless all of
//! those are clean up to its revision (see [`runs`]), or a later record, also compacted, stands in its place.
//!
//! # Crashes and failures
//! A pack is written into the [spare](super::spare), a file whose space and descriptor are reserved, and synced; then it is
//! renamed, its folder is synced, the index refers to it, and only then do the segments that it replaces go, and the space
//! behind its end.
//! - Before the rename there is no pack, so any failure leaves the segments as they were.
//! - A rename or a sync of the folder that fails is undone: the pack's name is removed, and the folder synced. Until that
//!   succeeds nothing else is packed, so all that the pack would replace stays: whether it is there or not after a
//!   crash, it replaces only what it covers, and holds the same.
//! - After that the pack counts, here and after a crash. A hint that cannot be written is written later; a
//!   segment that cannot be removed is removed later, or by the next opening.
//!
//! # Damage
//! A batch that cannot be read does not stop the rest: the segment's hint lists its records. The pass copies those of them
//! that are needed, a damaged value with its wrong checksum, so that reads of its key still report the damage. A segment
//! without a hint, or with a needed value that cannot be read at all, stays; others are packed around it.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::clock::now;
use super::frame::{self, FrameBuilder, LoggedOp, Placed, Record};
use super::runs::{self, Bounds, View};
use super::segment::is_full as full;
use super::segment::{
    Extent, FIRST_FRAME, Location, NotNamed, Segment, SegmentHeader, SegmentId, name, new_salt, unname,
};
use super::{Core, hint};
use crate::vfs::{Vfs, VfsFile, VfsFolder};
use crate::{Key, Revision};

/// A pack is written in frames of about this size.
const FRAME_BYTES: usize = 1 << 20;
/// So many records change their place while the index is locked once.
const RELOCATE: usize = 1024;
/// The wait before a failed pack is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// A segment that could not be packed is left alone for so many passes.
const STUCK_PASSES: u32 = 64;

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

    /// Asks it to stop, in the middle of a pack too.
    pub(super) fn ask_to_stop(&self) {
        self.state.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Stops it, and waits until it is out of the folder.
    pub(super) fn stop(&self) {
        self.ask_to_stop();
        let mut state = self.state.lock();
        while state.running {
            self.changed.wait(&mut state);
        }
    }

    fn stopping(&self) -> bool {
        self.state.lock().stopping
    }

    /// Waits until there may be something to do, or for as long; false: it is time to stop.
    fn wait(&self, at_most: Option<Duration>) -> bool {
        let deadline = at_most.map(|at_most| now() + at_most);
        let mut state = self.state.lock();
        while !state.wanted && !state.stopping {
            match deadline {
                None => self.changed.wait(&mut state),
                Some(deadline) if self.changed.wait_until(&mut state, deadline).timed_out() => break,
                Some(_) => {}
            }
        }
        state.wanted = false;
        !state.stopping
    }
}

/// The thread's work.
pub(super) struct Packing {
    core: Weak<Core>,
    vfs: Arc<dyn Vfs>,
    folder: Arc<dyn VfsFolder>,
    dir: PathBuf,
    segment_bytes: u64,
    /// A name that must go before anything else is packed.
    undo: Option<PathBuf>,
    /// Replaced files that could not be removed.
    garbage: Vec<PathBuf>,
    /// Segments that cannot be packed, and for how many more passes they are left alone.
    stuck: BTreeMap<SegmentId, u32>,
    sweep: Option<Revision>,
    /// The last failure, as it was logged.
    complained: Option<String>,
}

/// Says that the thread is out of the folder, however it ended.
struct Running(Arc<Core>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.packer.state.lock().running = false;
        self.0.packer.changed.notify_all();
    }
}

/// The reason why a run was not packed.
enum NotPacked {
    /// A segment cannot be read well enough.
    Stuck(SegmentId, io::Error),
    Failed(io::Error),
}

impl From<io::Error> for NotPacked {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Packing {
    pub(super) fn new(
        core: &Arc<Core>,
        vfs: Arc<dyn Vfs>,
        folder: Arc<dyn VfsFolder>,
        dir: PathBuf,
        segment_bytes: u64,
    ) -> Self {
        Self {
            core: Arc::downgrade(core),
            vfs,
            folder,
            dir,
            segment_bytes,
            undo: None,
            garbage: Vec::new(),
            stuck: BTreeMap::new(),
            sweep: None,
            complained: None,
        }
    }

    /// Marks the packer as running; before its thread is started.
    pub(super) fn starting(core: &Core) {
        core.packer.state.lock().running = true;
    }

    /// Runs until it is stopped.
    pub(super) fn run(mut self) {
        let Some(core) = self.core.upgrade() else { return };
        let _running = Running(Arc::clone(&core));
        let mut again = None;
        while core.packer.wait(again) {
            let failure = self.pass(&core).err();
            again = failure.as_ref().map(|_| AGAIN);
            let failure = failure.map(|error| error.to_string());
            if failure != self.complained
                && let Some(error) = &failure
            {
                // Nothing is lost: segments that were not packed are as they were.
                tracing::warn!(error, dir = %self.dir.display(), "could not reclaim space; trying again");
            }
            self.complained = failure;
        }
    }

    /// Does all work that there is. A failure does not keep the rest from being done; the first one is returned.
    fn pass(&mut self, core: &Core) -> io::Result<()> {
        self.stuck.retain(|_, passes| {
            *passes -= 1;
            *passes > 0
        });
        if let Some(path) = &self.undo {
            unname(&*self.vfs, &*self.folder, path)?;
            self.undo = None;
        }
        let mut first = self.remove_garbage();
        first = first.and(self.write_hints(core));
        first.and(self.pack_all(core))
    }

    fn remove_garbage(&mut self) -> io::Result<()> {
        let mut first = Ok(());
        self.garbage.retain(|path| match self.vfs.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                if first.is_ok() {
                    first = Err(error);
                }
                true
            }
            _ => false,
        });
        first
    }

    /// Writes the hints of complete segments that have none, or one of their first part.
    fn write_hints(&mut self, core: &Core) -> io::Result<()> {
        if core.is_short() {
            // They would take the space that packs free.
            return Ok(());
        }
        let mut first = Ok(());
        let segments = core.local.state.read().loader.in_order();
        for segment in &segments {
            let Some(extent) = segment.sealed.get() else { continue };
            let hinted = segment.hinted.load(Ordering::Relaxed) == extent.end;
            if hinted || core.packer.stopping() || self.stuck.contains_key(&segment.id()) {
                continue;
            }
            match hint::write_for(&*self.vfs, &self.dir, segment, *extent) {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.is_stuck(segment.id(), &error)
                }
                result => first = first.and(result),
            }
        }
        first
    }

    fn pack_all(&mut self, core: &Core) -> io::Result<()> {
        let mut first = core.spare.lock().reserve();
        // No space for a pack that is chosen as usual.
        let mut is_full = false;
        while !core.packer.stopping() {
            let for_space = is_full || core.is_short();
            let Some(run) = self.choose(core, for_space) else { break };
            let id = core.next_id.fetch_add(1, Ordering::Relaxed);
            let id = SegmentId(NonZeroU32::MIN.saturating_add(id - 1));
            match self.pack(core, &run, id) {
                Ok(rest) => first = first.and(rest),
                Err(NotPacked::Stuck(id, error)) => self.is_stuck(id, &error),
                Err(NotPacked::Failed(error)) if full(&error) && !for_space => is_full = true,
                Err(NotPacked::Failed(error)) if full(&error) => {
                    // It was larger than it seemed. Others may fit.
                    self.stuck.extend(run.segments.iter().map(|segment| (segment.id(), STUCK_PASSES)));
                    first = first.and(Err(error));
                }
                Err(NotPacked::Failed(error)) => return Err(error),
            }
        }
        first
    }

    fn is_stuck(&mut self, id: SegmentId, error: &io::Error) {
        tracing::warn!(segment = %id, %error, "a damaged segment stays as it is");
        self.stuck.insert(id, STUCK_PASSES);
    }

    fn choose(&mut self, core: &Core, for_space: bool) -> Option<Run> {
        let (compacted, segments) = {
            let state = core.local.state.read();
            state.index.is_pruned().then(|| (state.index.compacted(), state.loader.in_order()))?
        };
        // The weights are read after the compacted revision: records that are live in them were live then.
        let is_cold =
            |segment: &&Arc<Segment>| segment.sealed.get().is_some_and(|it| it.last_revision <= compacted);
        let views: Vec<View> =
            segments.iter().take_while(is_cold).map(|segment| self.view(segment)).collect();
        let bounds = Bounds { compacted, segment_bytes: self.segment_bytes };
        let choice = if for_space {
            let room = core.spare.lock().reserved().saturating_sub(FIRST_FRAME);
            runs::choose_to_free(&views, bounds, room)?
        } else {
            runs::choose(&views, bounds, &mut self.sweep)?
        };
        let segments = segments.get(choice.range)?.to_vec();
        Some(Run { segments, compacted, clean_before: choice.clean_before })
    }

    fn view(&self, segment: &Segment) -> View {
        View {
            is_pack: segment.is_pack(),
            // Live before puts: a put that is entered in between makes it look less clean, not more.
            live: segment.live.load(Ordering::Relaxed),
            puts: segment.puts.load(Ordering::Relaxed),
            deletes: segment.deletes.load(Ordering::Relaxed),
            swept: segment.header.clean,
            bytes: segment.sealed.get().map_or(0, |extent| extent.end),
            stuck: self.stuck.contains_key(&segment.id()),
        }
    }

    /// Replaces the run by a pack. The answer says if something is left for the next pass.
    fn pack(&mut self, core: &Core, run: &Run, id: SegmentId) -> Result<io::Result<()>, NotPacked> {
        let (Some(first), Some(last)) = (run.segments.first(), run.segments.last()) else {
            return Ok(Ok(()));
        };
        let Some(last) = last.sealed.get() else { return Ok(Ok(())) };
        let Some(file) = core.spare.lock().lend() else {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space is reserved for a pack").into());
        };
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
        let header = self.write(core, run, &mut output).and_then(|()| {
            let header = SegmentHeader {
                id,
                first_batch: first.header.first_batch,
                first_revision: first.header.first_revision,
                extent: Some(Extent { end: output.position, ..*last }),
                compacted: run.compacted,
                salt,
                clean: run.compacted,
            };
            file.write_at(0, &header.encode())?;
            file.sync()?;
            Ok(header)
        });
        let header = header.inspect_err(|_| core.spare.lock().give_back())?;
        let path = self.dir.join(format!("{id}.pack"));
        let spare = core.spare.lock().path();
        if let Err(NotNamed { error, undo, .. }) = name(&*self.vfs, &*self.folder, &spare, &path) {
            core.spare.lock().spent();
            self.undo = undo;
            return Err(io::Error::other(error).into());
        }
        let pack = Arc::new(Segment::new(header, path, file));
        install(core, &pack, output.moved);
        let mut rest = {
            // The log gets what is left of the space that becomes free.
            let mut spare = core.spare.lock();
            self.remove(core, run);
            // After a crash, the next opening does this.
            let cut = pack.file.set_len(output.position);
            spare.spent();
            cut.and(spare.reserve())
        };
        // The pack is what counts, with a hint or without: the next pass tries again.
        if let Some(extent) = header.extent.filter(|_| !core.is_short()) {
            rest = rest.and(hint::write_for(&*self.vfs, &self.dir, &pack, extent));
        }
        Ok(rest)
    }

    fn write(&self, core: &Core, run: &Run, output: &mut Output) -> Result<(), NotPacked> {
        output.start();
        for segment in &run.segments {
            self.copy(core, run, segment, output)?;
        }
        Ok(output.flush()?)
    }

    fn copy(&self, core: &Core, run: &Run, segment: &Segment, output: &mut Output) -> Result<(), NotPacked> {
        let Some(extent) = segment.sealed.get() else { return Ok(()) };
        let mut copied = Copied { to: FIRST_FRAME, deletes: Revision::ZERO };
        while copied.to < extent.end {
            if core.packer.stopping() {
                // A caller that closes the store waits for this thread, and the next opening waits for that caller.
                return Err(io::Error::new(io::ErrorKind::Interrupted, "the store is closing").into());
            }
            let Ok(Some(frame)) = segment.frame_at(copied.to, extent.end) else {
                return self.copy_by_hint(core, run, segment, *extent, copied, output);
            };
            for record in frame.records {
                let Record::Txn { revision, ops } = record else { continue };
                for LoggedOp { key, created, value, crc } in ops {
                    let key = Key::new(key);
                    if needed(core, run, revision, &key, value.is_some()) {
                        let value = value.as_ref().map(|(_, value)| &value[..]);
                        output.op(revision, created, &key, value, Some(crc));
                    }
                }
                copied.deletes = revision;
                output.end_txn()?;
            }
            copied.to = frame.end;
        }
        Ok(())
    }

    /// Copies the rest of a segment, where its batches cannot be read.
    fn copy_by_hint(
        &self,
        core: &Core,
        run: &Run,
        segment: &Segment,
        extent: Extent,
        copied: Copied,
        output: &mut Output,
    ) -> Result<(), NotPacked> {
        let stuck = |what: &str, error: Option<io::Error>| {
            let kind = io::ErrorKind::InvalidData;
            let error =
                error.unwrap_or_else(|| io::Error::new(kind, format!("{}: {what}", segment.path.display())));
            NotPacked::Stuck(segment.id(), error)
        };
        let hint = hint::read(&*self.vfs, &self.dir, segment).filter(|hint| hint.covers == extent);
        let hint = hint.ok_or_else(|| stuck("a batch cannot be read, and there is no hint", None))?;
        let mut entries: Vec<_> = hint.entries().filter(|entry| !copied.has(entry)).collect();
        entries.sort_by_key(|entry| (entry.revision, entry.position));
        for ops in entries.chunk_by(|a, b| a.revision == b.revision) {
            for entry in ops {
                let key = Key::new(Bytes::copy_from_slice(entry.key));
                if !needed(core, run, entry.revision, &key, entry.placed.is_some()) {
                    continue;
                }
                let Some(placed) = entry.placed else {
                    output.op(entry.revision, entry.created, &key, None, None);
                    continue;
                };
                let (value, crc) = stored(segment, placed)
                    .map_err(|error| stuck("a value that is needed cannot be read", Some(error)))?;
                output.op(entry.revision, entry.created, &key, Some(&value), Some(crc));
            }
            output.end_txn()?;
        }
        Ok(())
    }

    fn remove(&mut self, core: &Core, run: &Run) {
        {
            let loader = &mut core.local.state.write().loader;
            *loader = loader.without(&run.segments);
        }
        for segment in &run.segments {
            // A file that cannot be removed now is removed later, or at the next opening: the pack covers it.
            let hint = hint::path(&self.dir, segment.id());
            for path in [segment.path.clone(), hint] {
                match self.vfs.remove(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => self.garbage.push(path),
                    _ => {}
                }
            }
        }
    }
}

/// The part of a segment that was copied batch by batch.
#[derive(Clone, Copy)]
struct Copied {
    /// Batches before this offset. A value is identified by its offset, not by its revision: a restored pack is in the order
    /// of its keys.
    to: u64,
    /// A delete has no offset. It is in the order of revisions: a restored pack holds none.
    deletes: Revision,
}

impl Copied {
    fn has(self, entry: &hint::Entry<'_>) -> bool {
        match entry.placed {
            Some(placed) => placed.offset < self.to,
            None => entry.revision <= self.deletes,
        }
    }
}

/// Makes the index refer to the pack. Until that is done, old and new place hold the same.
fn install(core: &Core, pack: &Arc<Segment>, moved: Vec<Moved>) {
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

fn needed(core: &Core, run: &Run, revision: Revision, key: &Key, is_put: bool) -> bool {
    let state = core.local.state.read();
    if is_put {
        return state.index.find(key, revision).is_some();
    }
    revision > run.clean_before
        && state.index.last_compacted(key).is_none_or(|later| later.revision <= revision)
}

/// The value and the CRC that lie at a place, whether they fit or not.
fn stored(segment: &Segment, placed: Placed) -> io::Result<(Vec<u8>, u32)> {
    let mut stored = vec![0; placed.bytes as usize + frame::CRC_BYTES];
    segment.file.read_at(placed.offset, &mut stored)?;
    let crc = stored.split_off(placed.bytes as usize);
    Ok((stored, crc.try_into().map_or(0, u32::from_le_bytes)))
}

/// Neighbouring segments.
struct Run {
    segments: Vec<Arc<Segment>>,
    /// All of them are at or before this revision, which history was compacted to when they were chosen.
    compacted: Revision,
    clean_before: Revision,
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

    /// `crc` is the value's own CRC: a damaged value stays damaged.
    fn op(
        &mut self,
        revision: Revision,
        created: Revision,
        key: &Key,
        value: Option<&[u8]>,
        crc: Option<u32>,
    ) {
        let bytes = key.as_bytes();
        let placed = match crc {
            Some(crc) => self.frame.op_with(revision, created, bytes, value, crc),
            None => self.frame.op(revision, created, bytes, value),
        };
        let to = placed.map(|placed| Location::new(self.id, placed));
        // A copy, because the key is a slice of a whole batch.
        let key = Key::new(Bytes::copy_from_slice(bytes));
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
                    io::ErrorKind::InvalidInput,
                    "the pack would be larger than 4 GiB",
                ));
            }
            self.start();
        }
        Ok(())
    }
}

//! Opening a folder: the choice of the files that count, their content, and the end of the log.
//!
//! Every write that could have been acknowledged must be there, or the folder is refused. Opening cuts only bytes behind the
//! last whole batch, and only if the high-water mark does not reach there and no later batch proves that they were durable.

use std::cmp::{Ordering, Reverse};
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::frame::Record;
use super::hint;
use super::mark::{Mark, MarkFile};
use super::segment::{
    Extent, FIRST_FRAME, Frame, Rest, Segment, SegmentHeader, SegmentId, Segments, create_log, damaged,
    is_zero, new_salt, search, too_new, unusable,
};
use crate::index::{Index, IndexBuilder};
use crate::vfs::{Vfs, VfsFolder};
use crate::{Revision, StorageError};

use super::segment::Location;

/// A folder that was opened.
pub(super) struct Recovered {
    pub(super) index: Index<Location>,
    pub(super) segments: Segments,
    pub(super) active: Arc<Segment>,
    /// The offset of the next batch, and the last batch's number.
    pub(super) position: u64,
    pub(super) batch: u64,
    pub(super) mark: MarkFile,
    pub(super) next_id: u32,
}

/// Opens the folder, which the caller has locked. `allocate`: the bytes to reserve in a new segment.
pub(super) fn recover(
    vfs: &dyn Vfs,
    folder: &dyn VfsFolder,
    dir: &Path,
    allocate: u64,
) -> Result<Recovered, StorageError> {
    let names = vfs.list(dir).map_err(|error| unusable(dir, "list", &error))?;
    let files = Files::of(vfs, dir, &names)?;
    let mut mark = open_mark(vfs, dir, &names, !files.segments.is_empty())?;
    let hinted = files.hinted();
    let segments = Segments::from_iter(files.segments.iter().map(|(segment, _)| Arc::clone(segment)));
    let mut load = Load {
        index: merge(&files, &segments, hinted, mark.mark.compacted)?,
        segments,
        batch: 0,
        revision: Revision::ZERO,
        last_frame: None,
        torn: false,
    };
    let mut position = FIRST_FRAME;
    for (at, (segment, hint)) in files.segments.iter().enumerate() {
        load.check_start(segment)?;
        let hint = hint.as_ref().filter(|_| at < hinted);
        // A segment that is followed by another was durable before that was made.
        let durable = if at + 1 < files.segments.len() { u64::MAX } else { mark.mark.batch };
        position = load.segment(segment, hint.map(|hint| hint.covers), durable)?;
        match files.segments.get(at + 1) {
            Some((next, _)) => load.check_end(segment, position, next)?,
            None if !segment.is_pack() => load.check_tail(segment, position, mark.mark.batch)?,
            None => {}
        }
    }
    let reached = (load.batch, load.revision);
    if reached.0 < mark.mark.batch || reached.1 < mark.mark.revision {
        let path = files.segments.last().map_or(mark.path(), |(segment, _)| &segment.path);
        let reason = format!(
            "the log ends at revision {} (batch {}), but {} says that revision {} (batch {}) was durable",
            reached.1,
            reached.0,
            mark.path().display(),
            mark.mark.revision,
            mark.mark.batch
        );
        return Err(damaged(path, position, &reason));
    }
    files.remove_leftovers(vfs, folder, dir)?;
    let Load { mut index, segments, batch, .. } = load;
    while !index.prune(usize::MAX, |location| segments.lost(&location)) {}
    let newest = files.segments.last().map(|(segment, _)| segment).filter(|segment| !segment.is_pack());
    let mut next_id = files.next_id;
    let (segments, active) = match newest {
        Some(active) => (segments, Arc::clone(active)),
        None => {
            let id = SegmentId(NonZeroU32::MIN.saturating_add(next_id - 1));
            next_id += 1;
            let header = SegmentHeader {
                id,
                first_batch: batch + 1,
                first_revision: index.head().next(),
                extent: None,
                compacted: index.compacted(),
                salt: new_salt(),
                clean: Revision::ZERO,
            };
            position = FIRST_FRAME;
            let active = create_log(vfs, folder, dir, header, allocate).map_err(|failed| failed.error)?;
            let active = Arc::new(active);
            (segments.with(&active), active)
        }
    };
    if mark.mark.batch < batch {
        let (revision, compacted) = (index.head(), index.compacted());
        let reached = Mark { batch, revision, compacted };
        mark.write(reached).map_err(|error| unusable(mark.path(), "write", &error))?;
    }
    Ok(Recovered { index, segments, active, position, batch, mark, next_id })
}

fn open_mark(
    vfs: &dyn Vfs,
    dir: &Path,
    names: &[String],
    any_segment: bool,
) -> Result<MarkFile, StorageError> {
    let path = dir.join("mark");
    let found = if names.iter().any(|name| name == "mark") { MarkFile::open(vfs, &path)? } else { None };
    match found {
        Some(mark) => Ok(mark),
        // It is durable before the first segment is made.
        None if any_segment => Err(damaged(&path, 0, "the high-water mark is missing or unreadable")),
        None => {
            let mark = MarkFile::create(vfs, path)?;
            vfs.sync_dir(dir).map_err(|error| unusable(dir, "sync", &error))?;
            if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                vfs.sync_dir(parent).map_err(|error| unusable(parent, "sync", &error))?;
            }
            Ok(mark)
        }
    }
}

/// Makes the index from the first `hinted` hints.
fn merge(
    files: &Files,
    all: &Segments,
    hinted: usize,
    marked: Revision,
) -> Result<Index<Location>, StorageError> {
    let compacted = files.segments.iter().map(|(segment, hint)| {
        let hinted = hint.as_ref().map_or(Revision::ZERO, |hint| hint.compacted);
        hinted.max(segment.header.compacted)
    });
    let mut builder = IndexBuilder::new(compacted.fold(marked, Revision::max));
    let hints = files.segments.iter().take(hinted);
    let hints = hints.filter_map(|(segment, hint)| Some((segment, hint.as_ref()?)));
    let segments: Vec<_> = hints.clone().map(|(segment, _)| segment).collect();
    let lost = |location: Location| all.lost(&location);
    let mut entries: Vec<_> = hints.clone().map(|(_, hint)| hint.entries()).collect();
    let head = hints.last().map_or(Revision::ZERO, |(_, hint)| hint.covers.last_revision);
    let mut heap = BinaryHeap::with_capacity(entries.len());
    for at in 0..entries.len() {
        heap.extend(next_entry(at, &mut entries));
    }
    while let Some(mut top) = heap.peek_mut() {
        let Reverse(Next { segment: at, entry, .. }) = *top;
        let Some(segment) = segments.get(at) else { break };
        segment.gained(entry.placed.map(|placed| placed.bytes));
        let value = entry.placed.map(|placed| Location::new(segment.id(), placed));
        let record = crate::index::Record { revision: entry.revision, created: entry.created, value };
        builder.push(entry.key, entry.position, record, lost);
        match next_entry(at, &mut entries) {
            Some(next) => *top = next,
            None => drop(PeekMut::pop(top)),
        }
    }
    match segments.iter().zip(&entries).find(|(_, entries)| !entries.is_done()) {
        Some((segment, _)) => Err(segment.damaged(0, "its hint makes no sense; remove the hint")),
        None => Ok(builder.finish(head)),
    }
}

fn next_entry<'a>(segment: usize, entries: &mut [hint::Entries<'a>]) -> Option<Reverse<Next<'a>>> {
    let entry = entries.get_mut(segment)?.next()?;
    Some(Reverse(Next { key: entry.key, segment, entry }))
}

/// The entry of a hint that comes next. Of equal keys, the older segment's comes first: its revisions are lower.
struct Next<'a> {
    key: &'a [u8],
    segment: usize,
    entry: hint::Entry<'a>,
}

impl Ord for Next<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(other.key).then(self.segment.cmp(&other.segment))
    }
}

impl PartialOrd for Next<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Next<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Next<'_> {}

/// The files that count, the oldest batch first.
struct Files {
    segments: Vec<(Arc<Segment>, Option<hint::Hint>)>,
    /// The files that packs replace, and hints that are of no use.
    leftovers: Vec<PathBuf>,
    next_id: u32,
}

impl Files {
    fn of(vfs: &dyn Vfs, dir: &Path, names: &[String]) -> Result<Self, StorageError> {
        let mut segments = Vec::new();
        let (mut logs, mut next_id) = (Vec::new(), 1);
        for name in names {
            let path = dir.join(name);
            if name.ends_with(".tmp") {
                remove(vfs, &path)?;
                continue;
            }
            let Some((id, kind)) = parse_name(name) else { continue };
            next_id = next_id.max(id.0.get() + 1);
            match kind {
                "log" => logs.push((id, path)),
                "pack" => segments.push(read_header(vfs, &path, id)?.ok_or_else(|| bad_header(&path))?),
                _ => {}
            }
        }
        logs.sort_by_key(|(id, _)| *id);
        let newest = logs.last().map(|(id, _)| *id);
        for (id, path) in logs {
            match read_header(vfs, &path, id)? {
                Some(segment) => segments.push(segment),
                None if Some(id) == newest => discard_unfinished(vfs, dir, &path)?,
                None => return Err(bad_header(&path)),
            }
        }
        let (segments, replaced) = cover(segments)?;
        let mut leftovers: Vec<_> = replaced.into_iter().map(|segment| segment.path).collect();
        let with_hint = |segment: Segment| {
            let hint = hint::read(vfs, dir, &segment);
            segment.hinted.store(hint.as_ref().map_or(0, |hint| hint.covers.end), Relaxed);
            (Arc::new(segment), hint)
        };
        let segments: Vec<_> = segments.into_iter().map(with_hint).collect();
        let hinted: BTreeSet<_> =
            segments.iter().filter_map(|(segment, hint)| hint.is_some().then_some(segment.id())).collect();
        // The hint belongs to a segment that is gone, or it is damaged: then it is written again.
        let is_useless = |name: &&String| {
            parse_name(name).is_some_and(|(id, kind)| kind == "hint" && !hinted.contains(&id))
        };
        leftovers.extend(names.iter().filter(is_useless).map(|name| dir.join(name)));
        Ok(Self { segments, leftovers, next_id })
    }

    /// Removes the files that others replace, once the latter are known to hold everything.
    fn remove_leftovers(
        &self,
        vfs: &dyn Vfs,
        folder: &dyn VfsFolder,
        dir: &Path,
    ) -> Result<(), StorageError> {
        if !self.leftovers.is_empty() {
            // The packs' names must be durable before the files that they replace are removed.
            folder.sync().map_err(|error| unusable(dir, "sync", &error))?;
        }
        self.leftovers.iter().try_for_each(|path| remove(vfs, path))?;
        for (segment, _) in &self.segments {
            // The packer was stopped before it cut off the unused rest of the spare.
            if let Some(extent) = segment.header.extent
                && segment.file.len().is_ok_and(|bytes| bytes > extent.end)
                && let Err(error) = segment.file.set_len(extent.end)
            {
                tracing::warn!(%error, file = %segment.path.display(), "a pack keeps more space than it needs");
            }
        }
        Ok(())
    }
}

impl Files {
    /// The number of the oldest segments that are read from their hints: as long as each hint covers its whole segment, and
    /// one more that may cover only a part. The segments behind are read from the log, in order.
    fn hinted(&self) -> usize {
        let mut hinted = 0;
        for (at, (_, hint)) in self.segments.iter().enumerate() {
            let Some(hint) = hint else { break };
            hinted = at + 1;
            let whole = self.segments.get(hinted).is_some_and(|(next, _)| {
                hint.covers.last_batch + 1 == next.header.first_batch
                    && hint.covers.last_revision.next() == next.header.first_revision
            });
            if !whole {
                break;
            }
        }
        hinted
    }
}

pub(super) fn parse_name(name: &str) -> Option<(SegmentId, &str)> {
    let (id, kind) = name.split_once('.')?;
    Some((SegmentId(u32::from_str_radix(id, 16).ok().and_then(NonZeroU32::new)?), kind))
}

fn remove(vfs: &dyn Vfs, path: &Path) -> Result<(), StorageError> {
    vfs.remove(path).map_err(|error| unusable(path, "remove", &error))
}

fn bad_header(path: &Path) -> StorageError {
    damaged(path, 0, "the segment's header is unreadable")
}

pub(super) fn read_header(
    vfs: &dyn Vfs,
    path: &Path,
    id: SegmentId,
) -> Result<Option<Segment>, StorageError> {
    let file = vfs.open(path).map_err(|error| unusable(path, "open", &error))?;
    let mut bytes = [0; 128];
    if file.len().map_err(|error| unusable(path, "read", &error))? < FIRST_FRAME {
        return Ok(None);
    }
    file.read_at(0, &mut bytes).map_err(|error| unusable(path, "read", &error))?;
    if let Some(format) = SegmentHeader::newer_format(&bytes) {
        return Err(too_new(path, format));
    }
    let header = SegmentHeader::decode(&bytes).filter(|header| header.id == id);
    Ok(header.map(|header| Segment::new(header, path.to_owned(), file)))
}

/// The newest log's header is synced before a batch goes into it. If it is not whole and nothing follows it, the
/// creation of the file was interrupted.
fn discard_unfinished(vfs: &dyn Vfs, dir: &Path, path: &Path) -> Result<(), StorageError> {
    let file = vfs.open(path).map_err(|error| unusable(path, "open", &error))?;
    let read = || {
        let bytes = file.len()?.min(FIRST_FRAME + 4096).saturating_sub(FIRST_FRAME);
        let mut rest = vec![0; usize::try_from(bytes).unwrap_or(0)];
        file.read_at(FIRST_FRAME, &mut rest).or_else(|error| if bytes == 0 { Ok(()) } else { Err(error) })?;
        Ok(rest)
    };
    let rest: Vec<u8> = read().map_err(|error| unusable(path, "read", &error))?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(bad_header(path));
    }
    tracing::warn!(file = %path.display(), "removing a segment whose creation was interrupted");
    remove(vfs, path)?;
    // Before another segment is made: this one would no longer be the newest if it came back.
    vfs.sync_dir(dir).map_err(|error| unusable(dir, "sync", &error))
}

/// Chooses the files that hold the whole log, each batch once, in order; the others are replaced by them.
///
/// A pack that is there is whole, so a crash may leave it beside the files that it replaces: of the files that start at a
/// batch the newest counts. It covers whole segments, so the file after a log is the one with the next higher first batch.
/// Older builds could leave packs that overlap in part: one that they did not install, and one made later of the files that
/// it should have replaced. Then the newest does not lead to the end of the log, and another does; if none does, nothing is
/// touched.
///
/// If a file is missing, the result is all files, unchosen, and the caller refuses them by name.
fn cover(segments: Vec<Segment>) -> Result<(Vec<Segment>, Vec<Segment>), StorageError> {
    let mut starts: BTreeMap<u64, Vec<SegmentHeader>> = BTreeMap::new();
    for segment in &segments {
        starts.entry(segment.header.first_batch).or_default().push(segment.header);
    }
    starts.values_mut().for_each(|headers| headers.sort_by_key(|header| Reverse(header.id)));
    // From the end of the log to its beginning: which file at each batch leads to the end, and from where it goes on.
    let mut leads: BTreeMap<u64, (SegmentId, Option<u64>)> = BTreeMap::new();
    for (first, headers) in starts.iter().rev() {
        let after = starts.range(first + 1..).next().map(|(after, _)| *after);
        let next = |header: &SegmentHeader| match header.extent {
            // Nothing lies behind it: a restored store.
            Some(extent) if starts.range(extent.last_batch + 1..).next().is_none() => None,
            Some(extent) => Some(extent.last_batch + 1),
            None => after,
        };
        let mut found = headers.iter().map(|header| (header.id, next(header)));
        if let Some(lead) = found.find(|(_, next)| next.is_none_or(|next| leads.contains_key(&next))) {
            leads.insert(*first, lead);
        }
    }
    let mut counts = BTreeSet::new();
    let mut at = starts.keys().next().copied();
    while let Some((id, next)) = at.and_then(|first| leads.get(&first)) {
        counts.insert(*id);
        at = *next;
    }
    if at.is_some() {
        // No file leads to the end.
        counts = without_replaced(&segments)?;
    }
    let (mut kept, replaced): (Vec<_>, Vec<_>) =
        segments.into_iter().partition(|segment| counts.contains(&segment.id()));
    kept.sort_by_key(|segment| segment.header.first_batch);
    Ok((kept, replaced))
}

/// All files but those that a newer pack covers, where some file is missing.
fn without_replaced(segments: &[Segment]) -> Result<BTreeSet<SegmentId>, StorageError> {
    let range = |header: &SegmentHeader| Some(header.first_batch..=header.extent?.last_batch);
    let packs = || segments.iter().filter_map(|segment| Some((segment, range(&segment.header)?)));
    for (one, batches) in packs() {
        let across = packs().find(|(_, others)| {
            others.contains(batches.end()) && others.start() > batches.start() && others.end() > batches.end()
        });
        if let Some((other, _)) = across {
            let reason = format!(
                "it and {} hold some of the same batches, and no other files hold the rest",
                other.path.display()
            );
            return Err(one.damaged(0, &reason));
        }
    }
    let is_replaced = |segment: &Segment| {
        packs()
            .any(|(pack, batches)| segment.id() < pack.id() && batches.contains(&segment.header.first_batch))
    };
    Ok(segments.iter().filter(|segment| !is_replaced(segment)).map(Segment::id).collect())
}

/// An index in the making, and up to where the log was read.
struct Load {
    index: Index<Location>,
    segments: Segments,
    batch: u64,
    revision: Revision,
    /// The offset of the last frame that was read, in the segment read last; `None` if its hint covered everything.
    last_frame: Option<u64>,
    /// A frame follows of which only the values are damaged, and nothing proves that it was durable once.
    torn: bool,
}

impl Load {
    fn check_start(&self, segment: &Segment) -> Result<(), StorageError> {
        let header = &segment.header;
        if header.first_batch == self.batch + 1 && header.first_revision == self.revision.next() {
            return Ok(());
        }
        let reason = format!(
            "it starts at revision {} (batch {}), but revision {} (batch {}) comes next: a segment before it is missing",
            header.first_revision,
            header.first_batch,
            self.revision.next(),
            self.batch + 1
        );
        Err(segment.damaged(0, &reason))
    }

    /// Reads a segment as far as it is whole, behind the part that the index already has; returns the offset of its end. Up
    /// to batch `durable`, and before any other batch, it is whole even if values are damaged.
    fn segment(
        &mut self,
        segment: &Arc<Segment>,
        known: Option<Extent>,
        durable: u64,
    ) -> Result<u64, StorageError> {
        let failed = |error: &std::io::Error| unusable(&segment.path, "read", error);
        let file_bytes = segment.file.len().map_err(|error| failed(&error))?;
        let mut position = FIRST_FRAME;
        self.last_frame = None;
        if let Some(known) = known {
            if known.end > file_bytes {
                return Err(segment.damaged(file_bytes, &format!("the file had {} bytes", known.end)));
            }
            position = known.end;
            (self.batch, self.revision) = (known.last_batch, known.last_revision);
        }
        match segment.header.extent {
            Some(extent) => {
                while position < extent.end {
                    let frame = segment.frame_at(position, file_bytes).map_err(|error| failed(&error))?;
                    let frame = frame.ok_or_else(|| segment.damaged(position, "a batch is unreadable"))?;
                    position = frame.end;
                    self.frame(segment, frame);
                }
                (self.batch, self.revision) = (extent.last_batch, extent.last_revision);
                self.index.restored_to(self.revision);
            }
            None => {
                while let Some(frame) =
                    segment.frame_at(position, file_bytes).map_err(|error| failed(&error))?
                {
                    if frame.batch != self.batch + 1 || !self.continues(&frame) {
                        break;
                    }
                    let last = || Ok(!matches!(search(segment, frame.end, false)?, Rest::Batch { .. }));
                    if frame.batch > durable
                        && !frame.is_whole()
                        && last().map_err(|error: std::io::Error| failed(&error))?
                    {
                        self.torn = true;
                        break;
                    }
                    self.last_frame = Some(position);
                    (self.batch, position) = (frame.batch, frame.end);
                    self.frame(segment, frame);
                }
            }
        }
        Ok(position)
    }

    /// `true` if the revisions of a frame are those that come next.
    fn continues(&self, frame: &Frame) -> bool {
        let mut last = self.revision;
        let mut is_next = |revision: Revision| {
            last = last.next();
            revision == last
        };
        frame.first == self.revision.next()
            && frame.records.iter().all(|record| match record {
                Record::Compact(_) => true,
                Record::Txn { revision, .. } => is_next(*revision),
            })
    }

    fn frame(&mut self, segment: &Arc<Segment>, frame: Frame) {
        if !frame.is_whole() {
            tracing::warn!(file = %segment.path.display(), batch = frame.batch, "values of a batch are damaged");
        }
        for record in frame.records {
            match record {
                Record::Compact(revision) => {
                    self.index.compact(revision);
                }
                Record::Txn { revision, ops } => {
                    let op = |op: super::frame::LoggedOp| {
                        (op.key, op.created, op.value.map(|(placed, _)| Location::new(segment.id(), placed)))
                    };
                    self.restore(segment, revision, ops.into_iter().map(op).collect());
                    self.revision = revision;
                }
            }
        }
    }

    fn restore(
        &mut self,
        segment: &Segment,
        revision: Revision,
        ops: Vec<(bytes::Bytes, Revision, Option<Location>)>,
    ) {
        for (_, _, location) in &ops {
            segment.gained(location.map(|location| location.bytes));
        }
        self.index.restore(revision, ops, |location| self.segments.lost(&location));
    }

    /// A segment that is followed by another was complete before that was made.
    fn check_end(&mut self, segment: &Segment, position: u64, next: &Segment) -> Result<(), StorageError> {
        let wanted = (next.header.first_batch - 1, Revision(next.header.first_revision.0.saturating_sub(1)));
        if (self.batch, self.revision) != wanted {
            let reason = format!(
                "the batch here is unreadable: revisions {} to {} are missing",
                self.revision.next(),
                wanted.1
            );
            return Err(segment.damaged(position, &reason));
        }
        let extent = Extent { last_batch: self.batch, last_revision: self.revision, end: position };
        // A pack has the same already.
        let _ = segment.sealed.set(extent);
        Ok(())
    }

    /// The newest log: decides whether what lies behind its last whole batch is the end of an interrupted write, and
    /// cuts it.
    fn check_tail(&self, segment: &Segment, position: u64, marked: u64) -> Result<(), StorageError> {
        let failed = |doing: &str| {
            let doing = doing.to_owned();
            move |error: std::io::Error| unusable(&segment.path, &doing, &error)
        };
        let rest = search(segment, position, self.torn).map_err(failed("read"))?;
        match rest {
            Rest::Empty => {}
            Rest::Batch { batch, offset } => {
                let reason = format!(
                    "batch {} is unreadable, but batch {batch} lies behind it, at offset {offset}",
                    self.batch + 1
                );
                return Err(segment.damaged(position, &reason));
            }
            Rest::Torn if self.batch < marked => {}
            Rest::Torn => tracing::warn!(
                file = %segment.path.display(),
                offset = position,
                revision = %self.revision,
                "cutting the torn end of a write that was never acknowledged"
            ),
        }
        if self.batch < marked {
            // Refused by the caller: nothing may be cut.
            return Ok(());
        }
        if rest == Rest::Torn {
            // Not cut: the disk may be full, and the space behind the log is reserved.
            clear(segment, position).map_err(failed("write"))?;
        }
        self.rewrite_last(segment, position).map_err(failed("write"))?;
        segment.file.sync().map_err(failed("sync"))
    }

    /// If the last process saw an fsync fail, the system may think that the last batch is on the disk although it is
    /// not. Writing it once more makes the next fsync count.
    fn rewrite_last(&self, segment: &Segment, end: u64) -> std::io::Result<()> {
        const PIECE: u64 = 1 << 20;
        let mut at = self.last_frame.unwrap_or(end);
        while at < end {
            let mut piece = vec![0; usize::try_from(PIECE.min(end - at)).unwrap_or(0)];
            segment.file.read_at(at, &mut piece)?;
            segment.file.write_at(at, &piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}

/// Writes zeros over what lies behind the log.
fn clear(segment: &Segment, from: u64) -> std::io::Result<()> {
    const PIECE: u64 = 1 << 20;
    let end = segment.file.len()?;
    let mut next = from;
    while next < end {
        let at = next;
        next += PIECE;
        let mut piece = vec![0; usize::try_from(PIECE.min(end - at)).unwrap_or(0)];
        segment.file.read_at(at, &mut piece)?;
        if !is_zero(&piece) {
            piece.fill(0);
            segment.file.write_at(at, &piece)?;
        }
    }
    Ok(())
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::testing::SimDisk;

    /// Files by their id, first batch and, of a pack, last batch; those that count, and those that are replaced.
    fn covered(files: &[(u32, u64, Option<u64>)]) -> Result<(Vec<u32>, Vec<u32>), String> {
        let disk = SimDisk::new(0);
        let segment = |&(id, first_batch, last): &(u32, u64, Option<u64>)| {
            let extent =
                |last_batch| Extent { last_batch, last_revision: Revision(last_batch), end: FIRST_FRAME };
            let header = SegmentHeader {
                id: SegmentId(NonZeroU32::MIN.saturating_add(id - 1)),
                first_batch,
                first_revision: Revision(first_batch),
                extent: last.map(extent),
                compacted: Revision::ZERO,
                salt: 0,
                clean: Revision::ZERO,
            };
            let path = PathBuf::from(format!("store/{id}"));
            disk.create(&path).map(|file| Segment::new(header, path, file))
        };
        let ids = |segments: Vec<Segment>| segments.iter().map(|segment| segment.id().0.get()).collect();
        let segments: Result<_, _> = files.iter().map(segment).collect();
        let found = cover(segments.map_err(|error| error.to_string())?);
        let (kept, replaced) = found.map_err(|error| error.to_string())?;
        Ok((ids(kept), ids(replaced)))
    }

    #[test]
    fn a_pack_replaces_what_it_covers_and_nothing_else() {
        assert_eq!(covered(&[]), Ok((vec![], vec![])));
        assert_eq!(covered(&[(1, 1, None), (2, 4, None)]), Ok((vec![1, 2], vec![])));
        // Some of the files that it replaces are still there.
        let left = [(1, 1, None), (3, 7, None), (4, 9, None), (9, 1, Some(8))];
        assert_eq!(covered(&left), Ok((vec![9, 4], vec![1, 3])));
        // A pack of packs.
        let packs = [(9, 1, Some(8)), (10, 9, Some(12)), (11, 1, Some(12)), (12, 13, None)];
        assert_eq!(covered(&packs), Ok((vec![11, 12], vec![9, 10])));
        // A restored store.
        assert_eq!(covered(&[(1, 1, Some(1)), (2, 2, Some(2))]), Ok((vec![1, 2], vec![])));
    }

    #[test]
    fn packs_that_overlap_in_part_leave_what_is_whole() {
        // Pack 20 was never installed. Later packs were made of the files that it should have replaced, and replaced some of
        // those.
        let logs =
            |ids: std::ops::RangeInclusive<u32>| ids.map(|id| (id, id.into(), None)).collect::<Vec<_>>();
        let with = |mut files: Vec<(u32, u64, Option<u64>)>, packs: &[(u32, u64, Option<u64>)]| {
            files.extend_from_slice(packs);
            covered(&files)
        };
        // It is in the way of a pack of older ones: 6 to 10 must stay.
        let found = with(logs(6..=12), &[(20, 3, Some(10)), (21, 1, Some(5))]);
        assert_eq!(found, Ok((vec![21, 6, 7, 8, 9, 10, 11, 12], vec![20])));
        // And of newer ones: 1 to 4 must stay.
        let found = with([logs(1..=4), logs(16..=16)].concat(), &[(20, 1, Some(10)), (21, 5, Some(15))]);
        assert_eq!(found, Ok((vec![1, 2, 3, 4, 21, 16], vec![20])));
        // An older build has removed them: nothing is touched, and both are named.
        let refused = with(logs(16..=16), &[(20, 1, Some(10)), (21, 5, Some(15))]).unwrap_err();
        assert!(refused.contains("store/20") && refused.contains("store/21"), "{refused}");
    }
}

//! Reading a closed folder as far as it can be read, however damaged: to list the damage, and to make a whole store of the
//! rest.
//!
//! Opening refuses a folder in which an acknowledged write is missing, as its content may not be true. Salvage reports that
//! instead. It changes nothing in the folder.
//!
//! # The loss that each damage means
//! - A damaged value: its key. (An older value of the key does not take its place.)
//! - A batch, or a stretch of them: the revisions in it. The store looks as if they had not happened: deleted keys are
//!   there again, written keys have their former values.
//! - A segment's header, or its file: likewise, unless its hint is whole.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::finding::{DamagedOf, Finding, Standing};
use super::frame::Record;
use super::mark::{Mark, MarkFile};
use super::recover::{self, parse_name};
use super::segment::{
    Extent, FIRST_FRAME, Frame, Location, Rest, Segment, SegmentHeader, SegmentId, Segments, search,
    search_past, unusable,
};
use super::{EmbeddedRestore, hint};
use crate::vfs::{Disk, Vfs};
use crate::{Applied, Key, KeyValue, Revision, StorageError};

/// The contents of the folder of an [`Embedded`](super::Embedded) store, as far as they can be read. The folder is locked as
/// long as this lives.
pub struct Salvage {
    segments: Segments,
    /// Each key's newest record.
    newest: BTreeMap<Key, Newest>,
    findings: Vec<Finding>,
    revision: Revision,
    values: u64,
    _lock: Box<dyn Send + Sync>,
}

/// The newest record of a key; without a place, it was deleted.
#[derive(Debug, Clone, Copy)]
struct Newest {
    revision: Revision,
    position: u32,
    created: Revision,
    location: Option<Location>,
}

/// A value that cannot be read, before it is known whether it is missed.
struct Unreadable {
    file: String,
    offset: u64,
    key: Key,
    revision: Revision,
    why: String,
}

impl Salvage {
    /// Reads all of a folder that no store has open: its batches, and every value. Blocks for as long as that takes.
    ///
    /// # Errors
    /// [`StorageError::Unavailable`] if there is no store, a server has it open, or the system refuses;
    /// [`StorageError::Corrupt`] for a folder that a newer build has written.
    pub fn read(dir: impl AsRef<Path>) -> Result<Self, StorageError> {
        Self::read_on(&Disk, dir)
    }

    /// As [`Salvage::read`], on another disk.
    ///
    /// # Errors
    /// As [`Salvage::read`].
    pub fn read_on(vfs: &dyn Vfs, dir: impl AsRef<Path>) -> Result<Self, StorageError> {
        let dir = dir.as_ref();
        let names = vfs.list(dir).map_err(|error| unusable(dir, "list", &error))?;
        let is_store = |name: &String| name == "mark" || parse_name(name).is_some();
        if !names.iter().any(is_store) {
            let reason = format!("{} holds no store", dir.display());
            return Err(StorageError::Unavailable { reason, applied: Applied::No });
        }
        let lock = super::lock(vfs, dir)?;
        let mut reading = Reading::new(vfs, dir);
        let mark = reading.mark(&names);
        let segments = reading.segments(&names)?;
        let mut reached = (0, Revision::ZERO);
        for (at, (segment, hint)) in segments.iter().enumerate() {
            let next = segments.get(at + 1).map(|(next, _)| next.header);
            reached = reading.segment(segment, hint.as_ref(), next, mark, reached);
        }
        if reached.0 < mark.batch || reached.1 < mark.revision {
            // Nothing that is there says where the newest log would begin.
            let (first, last) = (reached.1.next(), mark.revision);
            let lost = if first <= last {
                format!("revisions {first} to {last} are lost")
            } else {
                "its end is lost".into()
            };
            reading.find("mark", 0, format!("the newest log is missing or unreadable: {lost}"));
        }
        let Reading { newest, unreadable, mut findings, compacted, values, .. } = reading;
        let compacted = compacted.max(mark.compacted);
        findings.extend(unreadable.into_iter().map(|Unreadable { file, offset, key, revision, why }| {
            let standing = match newest.get(&key) {
                Some(newest) if newest.revision == revision => Standing::Live,
                _ if revision > compacted => Standing::History,
                _ => Standing::Dead,
            };
            Finding { file, offset, of: Some(DamagedOf { key, revision, standing }), what: why }
        }));
        let revision = reached.1.max(mark.revision);
        let segments = segments.into_iter().map(|(segment, _)| segment).collect();
        Ok(Self { segments, newest, findings, revision, values, _lock: lock })
    }

    /// Everything that is damaged.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The last revision that there was for certain.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The number of values that were read, those of former revisions included.
    #[must_use]
    pub fn values(&self) -> u64 {
        self.values
    }

    /// The number of keys, those included whose value is damaged.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.newest.values().filter(|newest| newest.location.is_some()).count()
    }

    /// Makes a store of everything that can be read: every key that has its value, at its revisions, as of
    /// [`Salvage::revision`]. There is no history. Returns the number of its keys.
    ///
    /// # Errors
    /// As for [`EmbeddedRestore`].
    pub fn restore(&self, mut restore: EmbeddedRestore) -> Result<u64, StorageError> {
        let mut keys = 0;
        for (key, newest) in &self.newest {
            let Some(location) = newest.location else { continue };
            let Some(Ok(value)) =
                self.segments.get(location.segment).map(|segment| segment.value(key, &location))
            else {
                continue;
            };
            let (mod_revision, create_revision) = (newest.revision, newest.created);
            restore.add(&KeyValue { key: key.clone(), value: Ok(value), mod_revision, create_revision })?;
            keys += 1;
        }
        restore.finish(self.revision)?;
        Ok(keys)
    }
}

/// Segments, each with its hint if that can be read.
type Hinted<S> = Vec<(S, Option<hint::Hint>)>;

/// A folder that is being read.
struct Reading<'a> {
    vfs: &'a dyn Vfs,
    dir: &'a Path,
    newest: BTreeMap<Key, Newest>,
    unreadable: Vec<Unreadable>,
    findings: Vec<Finding>,
    compacted: Revision,
    values: u64,
}

impl<'a> Reading<'a> {
    fn new(vfs: &'a dyn Vfs, dir: &'a Path) -> Self {
        Self {
            vfs,
            dir,
            newest: BTreeMap::new(),
            unreadable: Vec::new(),
            findings: Vec::new(),
            compacted: Revision::ZERO,
            values: 0,
        }
    }

    fn find(&mut self, file: &str, offset: u64, what: impl Into<String>) {
        self.findings.push(Finding { file: file.to_owned(), offset, of: None, what: what.into() });
    }

    /// The high-water mark; that of an empty store where it cannot be read.
    fn mark(&mut self, names: &[String]) -> Mark {
        let there = names.iter().any(|name| name == "mark");
        // The finding says that it cannot be read.
        let open = |there: bool| there.then(|| MarkFile::open(self.vfs, &self.dir.join("mark")).ok())?;
        let found = open(there).flatten();
        if found.is_none() {
            self.find("mark", 0, "the high-water mark is missing or unreadable: whether the end of the log is missing is unknown");
        }
        found.map_or_else(Mark::default, |file| file.mark)
    }

    /// The segments that count, the oldest first, with their hints.
    fn segments(&mut self, names: &[String]) -> Result<Hinted<Arc<Segment>>, StorageError> {
        let mut segments: Hinted<Segment> = Vec::new();
        let named = names.iter().filter_map(|name| Some((name, parse_name(name)?)));
        let named = named.filter(|(_, (_, kind))| ["log", "pack"].contains(kind));
        let mut files: Vec<_> = named.map(|(name, (id, kind))| (id, kind == "pack", name)).collect();
        files.sort();
        let newest_log = files.iter().filter(|(_, is_pack, _)| !is_pack).map(|(id, ..)| *id).max();
        for (id, is_pack, name) in files {
            let path = self.dir.join(name);
            let header = match recover::read_header(self.vfs, &path, id) {
                Err(StorageError::Unavailable { reason, .. }) => {
                    self.find(name, 0, reason);
                    None
                }
                header => header?,
            };
            match header {
                Some(segment) => {
                    let hint = hint::read(self.vfs, self.dir, &segment);
                    if hint.is_none() && names.iter().any(|name| *name == format!("{id}.hint")) {
                        self.find(&format!("{id}.hint"), 0, "it is damaged; nothing is lost with it");
                    }
                    segments.push((segment, hint));
                }
                // Its creation was interrupted.
                None if !is_pack && newest_log == Some(id) && is_unfinished(self.vfs, &path) => {}
                None => self.headless(id, is_pack, &path, &mut segments),
            }
        }
        let packs: Vec<_> = segments.iter().filter_map(|(s, _)| Some((s.header, s.header.extent?))).collect();
        segments.retain(|(segment, _)| !packs.iter().any(|pack| replaces(pack, &segment.header)));
        segments.sort_by_key(|(segment, _)| segment.header.first_batch);
        Ok(segments.into_iter().map(|(segment, hint)| (Arc::new(segment), hint)).collect())
    }

    /// Reads a segment whose header cannot be read: its hint may list its records.
    fn headless(&mut self, id: SegmentId, is_pack: bool, path: &Path, segments: &mut Hinted<Segment>) {
        let name = file_name(path);
        let Some((hint, salt)) = hint::read_alone(self.vfs, self.dir, id) else {
            self.find(
                &name,
                0,
                "the segment's header is unreadable, and it has no hint: all that is in it is lost",
            );
            return;
        };
        self.find(&name, 0, "the segment's header is unreadable; its hint says what is in it");
        let file = match self.vfs.open(path) {
            Ok(file) => file,
            Err(error) => return self.find(&name, 0, format!("it cannot be opened ({error})")),
        };
        let header =
            SegmentHeader { extent: is_pack.then_some(hint.covers), ..SegmentHeader::lost(id, &hint, salt) };
        segments.push((Segment::new(header, path.to_owned(), file), Some(hint)));
    }

    /// Reads one segment; gives back the last batch and revision up to which everything was met or is known to be lost.
    fn segment(
        &mut self,
        segment: &Segment,
        hint: Option<&hint::Hint>,
        next: Option<SegmentHeader>,
        mark: Mark,
        before: (u64, Revision),
    ) -> (u64, Revision) {
        let header = segment.header;
        let name = segment.name();
        self.compacted = self.compacted.max(header.compacted);
        if header.first_revision > before.1.next() {
            let (first, last) = (before.1.next(), header.first_revision.0 - 1);
            self.find(
                &name,
                0,
                format!("a segment before it is missing: revisions {first} to {last} are lost"),
            );
        }
        let file_bytes = segment.file.len().unwrap_or_else(|error| {
            self.find(&name, 0, format!("it cannot be read ({error})"));
            0
        });
        let mut reached =
            (header.first_batch.saturating_sub(1), Revision(header.first_revision.0.saturating_sub(1)));
        let mut at = FIRST_FRAME;
        if let Some(hint) = hint {
            self.hinted(segment, hint);
            self.walk_for_structure(segment, hint.covers.end.min(file_bytes));
            reached = (hint.covers.last_batch, hint.covers.last_revision);
            at = hint.covers.end;
        }
        let end = header.extent.map_or(file_bytes, |extent| extent.end.min(file_bytes));
        let sealed = header.extent.map(|extent| (extent.last_batch, extent.last_revision));
        let follows = |next: SegmentHeader| {
            (next.first_batch.saturating_sub(1), Revision(next.first_revision.0.saturating_sub(1)))
        };
        let is_tail = next.is_none() && header.extent.is_none();
        while at < end {
            match segment.frame_at(at, file_bytes) {
                Ok(Some(frame)) if !is_torn(segment, &frame, is_tail, mark.batch) => {
                    reached = (frame.batch.max(reached.0), reached.1);
                    at = frame.end;
                    reached.1 = self.frame(segment, frame).max(reached.1);
                }
                read => {
                    if let Err(error) = read {
                        self.find(&name, at, format!("it cannot be read ({error})"));
                    }
                    let Rest::Batch { offset, .. } = self.search(segment, at + 8) else { break };
                    let frame = segment.frame_at(offset, file_bytes);
                    let first = frame.ok().flatten().map_or(Revision::ZERO, |frame| frame.first);
                    let lost = match (header.extent, reached.1.next(), first.0.saturating_sub(1)) {
                        (None, first, last) if first.0 <= last => {
                            format!("revisions {first} to {last} are lost")
                        }
                        _ => "what is in it is lost".to_owned(),
                    };
                    self.find(&name, at, format!("a batch cannot be read: {lost}"));
                    at = offset;
                }
            }
        }
        let wanted = match (sealed, next) {
            (Some(sealed), _) => sealed,
            // A header that is lost does not say where its segment begins.
            (None, Some(next)) if next.first_revision == Revision(1) => reached,
            (None, Some(next)) => follows(next),
            // Without a later log, only the newest log's own header and the mark are known.
            (None, None) => (mark.batch, mark.revision),
        };
        if header.extent.map_or(reached.0 < wanted.0, |extent| at < extent.end) {
            let lost = match reached.1 < wanted.1 {
                true => format!("revisions {} to {} are lost", reached.1.next(), wanted.1),
                false => "what follows is lost".to_owned(),
            };
            self.find(&name, at, format!("nothing that can be read follows: {lost}"));
        }
        (reached.0.max(wanted.0), reached.1.max(wanted.1))
    }

    /// Enters the records of a hint, whose values are read one by one.
    fn hinted(&mut self, segment: &Segment, hint: &hint::Hint) {
        self.compacted = self.compacted.max(hint.compacted);
        for entry in hint.entries() {
            let key = Key::new(Bytes::copy_from_slice(entry.key));
            let location = entry.placed.map(|placed| Location::new(segment.id(), placed));
            if let Some(location) = &location {
                self.values += 1;
                if let Err(damage) = segment.value(&key, location) {
                    self.unreadable(segment, location, &key, entry.revision, damage.why());
                }
            }
            let (revision, position, created) = (entry.revision, entry.position, entry.created);
            self.enter(key, Newest { revision, position, created, location });
        }
    }

    /// Batches that cannot be read although their values can: opening does without them as long as there is the hint.
    fn walk_for_structure(&mut self, segment: &Segment, end: u64) {
        let mut at = FIRST_FRAME;
        while at < end {
            match segment.frame_at(at, end) {
                Ok(Some(frame)) => at = frame.end,
                _ => {
                    self.find(&segment.name(), at, "a batch cannot be read; its hint says what is in it");
                    match self.search(segment, at + 8) {
                        Rest::Batch { offset, .. } => at = offset,
                        Rest::Empty | Rest::Torn => return,
                    }
                }
            }
        }
    }

    /// Looks for the next batch, past what cannot be read.
    fn search(&mut self, segment: &Segment, offset: u64) -> Rest {
        let mut unreadable = Vec::new();
        let found = search_past(segment, offset, |at, error| unreadable.push((at, error)));
        for (at, error) in unreadable {
            self.find(&segment.name(), at, format!("it cannot be read ({error})"));
        }
        found.unwrap_or_else(|error| {
            self.find(&segment.name(), offset, format!("the rest was not searched ({error})"));
            Rest::Torn
        })
    }

    /// Gives back the frame's last revision.
    fn frame(&mut self, segment: &Segment, frame: Frame) -> Revision {
        let mut last = Revision(frame.first.0.saturating_sub(1));
        for record in frame.records {
            match record {
                Record::Compact(revision) => self.compacted = self.compacted.max(revision),
                Record::Txn { revision, ops } => {
                    last = last.max(revision);
                    for (position, op) in (0..).zip(ops) {
                        let whole = op.is_whole();
                        // A copy: the bytes are a slice of a whole batch.
                        let key = Key::new(Bytes::copy_from_slice(&op.key));
                        let location = op.value.map(|(placed, _)| Location::new(segment.id(), placed));
                        self.values += u64::from(location.is_some());
                        if let (Some(location), false) = (&location, whole) {
                            self.unreadable(segment, location, &key, revision, "it has a wrong checksum");
                        }
                        self.enter(key, Newest { revision, position, created: op.created, location });
                    }
                }
            }
        }
        last
    }

    fn unreadable(&mut self, segment: &Segment, at: &Location, key: &Key, revision: Revision, why: &str) {
        let (file, offset) = (segment.name(), u64::from(at.offset));
        self.unreadable.push(Unreadable { file, offset, key: key.clone(), revision, why: why.to_owned() });
    }

    fn enter(&mut self, key: Key, record: Newest) {
        let newest = self.newest.entry(key).or_insert(record);
        if (newest.revision, newest.position) < (record.revision, record.position) {
            *newest = record;
        }
    }
}

/// Returns true if a pack replaces a file. A pack that is there is whole, so a file that it replaces may still be there, and
/// no longer counts.
fn replaces((pack, extent): &(SegmentHeader, Extent), other: &SegmentHeader) -> bool {
    other.id < pack.id && (pack.first_batch..=extent.last_batch).contains(&other.first_batch)
}

/// Returns true for the end of a write that was never acknowledged: as when opening, that is no damage.
fn is_torn(segment: &Segment, frame: &Frame, is_tail: bool, marked: u64) -> bool {
    let may_be = is_tail && frame.batch > marked && !frame.is_whole();
    may_be && search(segment, frame.end, false).is_ok_and(|rest| !matches!(rest, Rest::Batch { .. }))
}

/// The newest log, whose header is synced before a batch goes into it, if nothing follows that header.
fn is_unfinished(vfs: &dyn Vfs, path: &Path) -> bool {
    let read = || {
        let file = vfs.open(path)?;
        let bytes = file.len()?.min(FIRST_FRAME + 4096).saturating_sub(FIRST_FRAME);
        let mut rest = vec![0; usize::try_from(bytes).unwrap_or(0)];
        file.read_at(FIRST_FRAME, &mut rest).or_else(|error| if bytes == 0 { Ok(()) } else { Err(error) })?;
        Ok::<_, std::io::Error>(rest.iter().all(|byte| *byte == 0))
    };
    read().unwrap_or(false)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

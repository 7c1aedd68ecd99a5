//! A file of the log: its header, its frames, its values.
//!
//! A *log* segment (`0000002a.log`) holds every batch from its first on, in order; batches are only ever appended to
//! the newest. A *pack* (`0000002b.pack`) replaces a run of older segments: of their records it holds those that are
//! still needed, all at or before the compacted revision. It appears by a rename, complete or not at all.

use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::frame::{self, Fields, HEADER_BYTES, Header, Record};
use crate::local::Loader;
use crate::vfs::{Vfs, VfsFile, VfsFolder};
use crate::{DamagedValue, Key, Revision, StorageError, StoredValue};

const MAGIC: u64 = u64::from_le_bytes(*b"kindomSG");
/// The format that is written. Format 1, in which the frames' CRCs cover the values too, can be read as well.
const FORMAT: u32 = 2;
const FORMAT_MIN: u32 = 1;
/// A header has a sector of its own, which no later write touches.
pub(super) const FIRST_FRAME: u64 = 512;

/// Names a file for ever: no number is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SegmentId(pub(super) NonZeroU32);

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The place of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(super) segment: SegmentId,
    pub(super) offset: u32,
    pub(super) bytes: u32,
}

impl Location {
    pub(super) fn new(segment: SegmentId, placed: frame::Placed) -> Self {
        // A segment is at most 1 GiB, plus one batch.
        Self { segment, offset: u32::try_from(placed.offset).unwrap_or(u32::MAX), bytes: placed.bytes }
    }
}

/// The last batch and revision that a complete segment covers, and the end of its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) last_batch: u64,
    pub(super) last_revision: Revision,
    pub(super) end: u64,
}

/// A segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) id: SegmentId,
    pub(super) first_batch: u64,
    pub(super) first_revision: Revision,
    /// Only packs have it; a log's is known once it is sealed.
    pub(super) extent: Option<Extent>,
    /// The compacted revision when it was written.
    pub(super) compacted: Revision,
    /// The start value of the CRCs of its frames.
    pub(super) salt: u64,
    /// In a pack: the pack holds no put whose key was deleted at or before this revision; see `pack`. It has a CRC of its
    /// own, because older builds do not write it.
    pub(super) clean: Revision,
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let extent = self.extent.unwrap_or(Extent { last_batch: 0, last_revision: Revision::ZERO, end: 0 });
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.id.0.get().to_le_bytes());
        for field in [
            self.first_batch,
            self.first_revision.0,
            extent.last_batch,
            extent.last_revision.0,
            extent.end,
            self.compacted.0,
            self.salt,
        ] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        let clean = self.clean.0.to_le_bytes();
        bytes.extend_from_slice(&clean);
        bytes.extend_from_slice(&clean_crc(self.salt, clean).to_le_bytes());
        bytes.resize(512, 0);
        bytes
    }

    /// A segment whose header cannot be read, but whose hint can. Its beginning is unknown, and it is ordered by its end.
    pub(super) fn lost(id: SegmentId, hint: &super::hint::Hint, salt: u64) -> Self {
        let (first_batch, first_revision) = (hint.covers.last_batch, Revision(1));
        let (compacted, clean) = (hint.compacted, Revision::ZERO);
        Self { id, first_batch, first_revision, extent: None, compacted, salt, clean }
    }

    /// The format of a segment that a newer build has written.
    pub(super) fn newer_format(bytes: &[u8]) -> Option<u32> {
        let mut fields = Fields(bytes);
        let is_segment = fields.u64()? == MAGIC;
        // Headers to come begin with magic and format; their checksum may be elsewhere.
        let format = fields.u32().filter(|format| is_segment && *format > FORMAT)?;
        let mut one_of_ours = bytes.to_vec();
        let is_damaged = (FORMAT_MIN..=FORMAT).any(|format| {
            one_of_ours.splice(8..12, format.to_le_bytes());
            Self::decode(&one_of_ours).is_some()
        });
        (!is_damaged).then_some(format)
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let covered = bytes.get(..72)?;
        if fields.u64()? != MAGIC || !(FORMAT_MIN..=FORMAT).contains(&fields.u32()?) {
            return None;
        }
        let id = SegmentId(NonZeroU32::new(fields.u32()?)?);
        let (first_batch, first_revision) = (fields.u64()?, Revision(fields.u64()?));
        let extent =
            Extent { last_batch: fields.u64()?, last_revision: Revision(fields.u64()?), end: fields.u64()? };
        let compacted = Revision(fields.u64()?);
        let salt = fields.u64()?;
        let extent = (extent.end > 0).then_some(extent);
        let intact = fields.u32()? == crc32c::crc32c(covered);
        let clean = fields.u64()?;
        let known = fields.u32()? == clean_crc(salt, clean.to_le_bytes());
        let clean = if known { Revision(clean) } else { Revision::ZERO };
        let header = Self { id, first_batch, first_revision, extent, compacted, salt, clean };
        intact.then_some(header)
    }
}

fn clean_crc(salt: u64, clean: [u8; 8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &clean)
}

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) header: SegmentHeader,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn VfsFile>,
    /// Set once nothing is appended any more.
    pub(super) sealed: OnceLock<Extent>,
    /// The weights of its puts, of those puts that the index still refers to, and of its deletes; see [`weight`].
    pub(super) puts: AtomicU64,
    pub(super) live: AtomicU64,
    pub(super) deletes: AtomicU64,
    /// The end of the part that its hint covers; 0 without a hint.
    pub(super) hinted: AtomicU64,
}

/// The weight of an operation when the share of a segment that is still needed is judged: the value, and about what goes
/// with it.
pub(super) fn weight(value_bytes: u32) -> u64 {
    u64::from(value_bytes) + 100
}

impl Segment {
    pub(super) fn new(header: SegmentHeader, path: PathBuf, file: Arc<dyn VfsFile>) -> Self {
        let sealed = OnceLock::new();
        if let Some(extent) = header.extent {
            // A fresh cell: it cannot be full.
            let _ = sealed.set(extent);
        }
        let [puts, live, deletes, hinted] = std::array::from_fn(|_| AtomicU64::new(0));
        Self { header, path, file, sealed, puts, live, deletes, hinted }
    }

    pub(super) fn id(&self) -> SegmentId {
        self.header.id
    }

    pub(super) fn is_pack(&self) -> bool {
        self.header.extent.is_some()
    }

    /// An operation was written here.
    pub(super) fn gained(&self, value_bytes: Option<u32>) {
        let Some(bytes) = value_bytes else {
            self.deletes.fetch_add(weight(0), Ordering::Relaxed);
            return;
        };
        self.puts.fetch_add(weight(bytes), Ordering::Relaxed);
        self.live.fetch_add(weight(bytes), Ordering::Relaxed);
    }

    /// An operation that was to be written here is not.
    pub(super) fn took_back(&self, value_bytes: Option<u32>) {
        let Some(bytes) = value_bytes else {
            self.deletes.fetch_sub(weight(0), Ordering::Relaxed);
            return;
        };
        self.puts.fetch_sub(weight(bytes), Ordering::Relaxed);
        self.live.fetch_sub(weight(bytes), Ordering::Relaxed);
    }

    /// The index no longer refers to a value that is here.
    pub(super) fn lost(&self, value_bytes: u32) {
        self.live.fetch_sub(weight(value_bytes), Ordering::Relaxed);
    }

    /// The value at a place in this segment.
    pub(super) fn value(&self, key: &Key, location: &Location) -> StoredValue {
        let offset = u64::from(location.offset);
        let mut stored = vec![0; location.bytes as usize + 4];
        match self.file.read_at(offset, &mut stored) {
            Ok(()) => frame::checked_value(key, stored)
                .ok_or_else(|| self.damage(offset, "it has a wrong checksum")),
            Err(error) => Err(self.damage(offset, &format!("it cannot be read ({error})"))),
        }
    }

    /// The damage of a value that lies at an offset.
    pub(super) fn damage(&self, offset: u64, why: &str) -> DamagedValue {
        DamagedValue::new(self.name(), offset, why.to_owned())
    }

    /// The name of its file.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The frame at an offset; `None` if there is no whole one.
    pub(super) fn frame_at(&self, offset: u64, file_bytes: u64) -> io::Result<Option<Frame>> {
        frame_at(&*self.file, self.header.salt, offset, file_bytes, &mut { u64::MAX })
    }

    /// As [`Segment::frame_at`], where what looks like a frame is read only as far as there is `budget` for its bytes.
    fn checked_frame_at(&self, offset: u64, file_bytes: u64, budget: &mut u64) -> io::Result<Option<Frame>> {
        frame_at(&*self.file, self.header.salt, offset, file_bytes, budget)
    }

    pub(super) fn damaged(&self, offset: u64, what: &str) -> StorageError {
        damaged(&self.path, offset, what)
    }
}

/// A frame whose CRC was checked; values in it may be damaged.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) batch: u64,
    pub(super) first: Revision,
    pub(super) records: Vec<Record>,
    /// The offset of the next one.
    pub(super) end: u64,
}

impl Frame {
    /// All of its values are as they were written.
    pub(super) fn is_whole(&self) -> bool {
        self.records.iter().all(|record| match record {
            Record::Compact(_) => true,
            Record::Txn { ops, .. } => ops.iter().all(frame::LoggedOp::is_whole),
        })
    }
}

/// The error for a segment of a format that only a newer build knows.
pub(super) fn too_new(path: &Path, format: u32) -> StorageError {
    StorageError::Corrupt(format!(
        "{} was written by a newer kindom (format {format}, this one reads up to {FORMAT}): start that one, or restore \
         the whole folder from a backup of before",
        path.display()
    ))
}

fn frame_at(
    file: &dyn VfsFile,
    salt: u64,
    offset: u64,
    file_bytes: u64,
    budget: &mut u64,
) -> io::Result<Option<Frame>> {
    let payload_at = offset + HEADER_BYTES as u64;
    if payload_at > file_bytes {
        return Ok(None);
    }
    let mut header = [0; HEADER_BYTES];
    file.read_at(offset, &mut header)?;
    let Some(header) = Header::parse(&header) else { return Ok(None) };
    if payload_at + header.payload_bytes as u64 > file_bytes {
        return Ok(None);
    }
    *budget = budget.checked_sub(header.payload_bytes as u64).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "too much of it looks like batches, and is none")
    })?;
    let mut payload = vec![0; header.payload_bytes];
    file.read_at(payload_at, &mut payload)?;
    let records = frame::records(&header, salt, &Bytes::from(payload), payload_at);
    let frame = |records| Frame {
        batch: header.batch,
        first: header.first,
        records,
        end: offset + header.frame_bytes(),
    };
    Ok(records.map(frame))
}

/// The bytes from an offset to the end of a file that should hold nothing more.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Zeros, or nothing.
    Empty,
    /// No whole frame, but not zeros either.
    Torn,
    /// A whole frame of this batch, here.
    Batch { batch: u64, offset: u64 },
}

/// `true` if all bytes are 0. Compares with itself, shifted: quick, because the tail of a log is long.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|first| *first == 0)
        && bytes.get(1..) == bytes.get(..bytes.len().saturating_sub(1))
}

/// Looks for frames at every multiple of 8 from `offset` on; `torn`: the one at `offset` itself does not count.
///
/// # Errors
/// The system's; `InvalidData` if so much looks like frames that checking all of it would take too long.
pub(super) fn search(segment: &Segment, offset: u64, torn: bool) -> io::Result<Rest> {
    search_with(segment, offset, torn, |_, error| Err(error))
}

/// As [`search`], past what cannot be read: `unreadable` gets the offset of each such stretch.
pub(super) fn search_past(
    segment: &Segment,
    offset: u64,
    mut unreadable: impl FnMut(u64, io::Error),
) -> io::Result<Rest> {
    let mut last = None;
    search_with(segment, offset, false, |at, error| {
        if last.replace(at) != at.checked_sub(BLOCK) {
            unreadable(at, error);
        }
        Ok(())
    })
}

/// What cannot be read is left out in pieces of so many bytes.
const BLOCK: u64 = 4096;

fn search_with(
    segment: &Segment,
    offset: u64,
    torn: bool,
    mut unreadable: impl FnMut(u64, io::Error) -> io::Result<()>,
) -> io::Result<Rest> {
    const PIECE: u64 = 1 << 20;
    let file = &segment.file;
    let file_bytes = file.len()?;
    let mut rest = Rest::Empty;
    let mut at = offset.next_multiple_of(8);
    if offset < file_bytes && at > offset {
        rest = Rest::Torn;
    }
    // Whatever it holds, the work is linear: what looks like a frame may claim to be as long as all that follows.
    let mut budget = 8 * file_bytes.saturating_sub(at) + PIECE;
    while at < file_bytes {
        let bytes = PIECE.min(file_bytes - at);
        let mut piece = vec![0; usize::try_from(bytes).unwrap_or(0)];
        if let Err(error) = file.read_at(at, &mut piece) {
            if bytes > BLOCK {
                // Up to the next border of a block, or one block.
                let block = (BLOCK - at % BLOCK).min(bytes);
                piece.truncate(usize::try_from(block).unwrap_or(0));
                if let Err(error) = file.read_at(at, &mut piece) {
                    unreadable(at - at % BLOCK, error)?;
                    piece.clear();
                }
            } else {
                unreadable(at - at % BLOCK, error)?;
                piece.clear();
            }
            if piece.is_empty() {
                rest = Rest::Torn;
                at = (at + 1).next_multiple_of(BLOCK);
                continue;
            }
        }
        let end = at + piece.len() as u64;
        if is_zero(&piece) {
            at = end;
            continue;
        }
        for (start, bytes) in (at..).step_by(8).zip(piece.chunks(8)) {
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            rest = Rest::Torn;
            if !Header::starts(bytes) || (torn && start == offset) {
                continue;
            }
            match segment.checked_frame_at(start, file_bytes, &mut budget) {
                Ok(None) => {}
                Ok(Some(frame)) => return Ok(Rest::Batch { batch: frame.batch, offset: start }),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                Err(error) => unreadable(start - start % BLOCK, error)?,
            }
        }
        at = end;
    }
    Ok(rest)
}

/// Every segment by its id. Cloning is cheap; a clone reads all values that the index held when it was made, because
/// an open file outlives its name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segments(pub(super) Arc<std::collections::BTreeMap<SegmentId, Arc<Segment>>>);

impl FromIterator<Arc<Segment>> for Segments {
    fn from_iter<I: IntoIterator<Item = Arc<Segment>>>(segments: I) -> Self {
        Self(Arc::new(segments.into_iter().map(|segment| (segment.id(), segment)).collect()))
    }
}

impl Segments {
    /// These, and one more.
    pub(super) fn with(&self, segment: &Arc<Segment>) -> Self {
        self.0.values().chain([segment]).cloned().collect()
    }

    /// These, without some.
    pub(super) fn without(&self, gone: &[Arc<Segment>]) -> Self {
        let kept = |segment: &&Arc<Segment>| !gone.iter().any(|gone| gone.id() == segment.id());
        self.0.values().filter(kept).cloned().collect()
    }

    /// The bytes of all segments that nothing is appended to.
    pub(super) fn sealed_bytes(&self) -> u64 {
        self.0.values().filter_map(|segment| segment.sealed.get()).map(|extent| extent.end).sum()
    }

    pub(super) fn get(&self, id: SegmentId) -> Option<&Arc<Segment>> {
        self.0.get(&id)
    }

    /// Oldest batch first.
    pub(super) fn in_order(&self) -> Vec<Arc<Segment>> {
        let mut segments: Vec<_> = self.0.values().cloned().collect();
        segments.sort_by_key(|segment| segment.header.first_batch);
        segments
    }

    pub(super) fn lost(&self, location: &Location) {
        if let Some(segment) = self.get(location.segment) {
            segment.lost(location.bytes);
        }
    }
}

impl Loader for Segments {
    type Value = Location;

    const MAY_BLOCK: bool = true;

    fn load(&self, key: &Key, location: &Location) -> Result<StoredValue, StorageError> {
        let Some(segment) = self.get(location.segment) else {
            return Err(StorageError::Corrupt(format!("segment {} of key {key} is gone", location.segment)));
        };
        Ok(segment.value(key, location))
    }
}

/// The error for bytes that differ from those that were written.
pub(super) fn damaged(path: &Path, offset: u64, what: &str) -> StorageError {
    StorageError::Corrupt(format!(
        "{} at offset {offset}: {what}; data that was durable is damaged or missing: restore the whole folder from a \
         backup, make a new one of what can be read (kindom storage salvage), or move it away to start empty",
        path.display()
    ))
}

/// The error for a file that cannot be worked with.
pub(super) fn unusable(path: &Path, doing: &str, error: &io::Error) -> StorageError {
    StorageError::Unavailable {
        reason: format!("cannot {doing} {}: {error}", path.display()),
        applied: crate::Applied::No,
    }
}

/// `true` if there was no space.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Returns true for the error of a file that could not be opened as the process, or the system, has too many (EMFILE, ENFILE).
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// A salt that nobody can guess: the standard library seeds its hash maps from the system's randomness.
pub(super) fn new_salt() -> u64 {
    std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0)
}

/// The reason why a file has not got its name, and the step that must be done before anything else.
#[derive(Debug)]
pub(super) struct NotNamed {
    pub(super) error: StorageError,
    /// There was no space.
    pub(super) is_full: bool,
    /// A name that may be there after a crash, and must not be; see [`unname`].
    pub(super) undo: Option<PathBuf>,
}

/// Creates a log segment, durably, before any batch may go into it. It is made under another name: if that fails, there
/// is no segment.
pub(super) fn create_log(
    vfs: &dyn Vfs,
    folder: &dyn VfsFolder,
    dir: &Path,
    header: SegmentHeader,
    allocate: u64,
) -> Result<Segment, NotNamed> {
    let path = dir.join(format!("{}.log", header.id));
    let temporary = dir.join(format!("{}.log.tmp", header.id));
    let make = || {
        let file = vfs.create(&temporary)?;
        file.allocate(allocate)?;
        file.write_at(0, &header.encode())?;
        file.sync()?;
        Ok(file)
    };
    let file = make().map_err(|error| {
        // It may not be there; the next opening would remove it too.
        let _ = vfs.remove(&temporary);
        NotNamed { is_full: is_full(&error), error: unusable(&path, "create", &error), undo: None }
    })?;
    name(vfs, folder, &temporary, &path)?;
    Ok(Segment::new(header, path, file))
}

/// Gives a complete file its name, durably. If that fails, whether it has the name is unknown, unless it could be taken
/// back at once.
pub(super) fn name(
    vfs: &dyn Vfs,
    folder: &dyn VfsFolder,
    temporary: &Path,
    path: &Path,
) -> Result<(), NotNamed> {
    let Err(error) = vfs.rename(temporary, path).and_then(|()| folder.sync()) else { return Ok(()) };
    let _ = vfs.remove(temporary);
    let (is_full, error) = (is_full(&error), unusable(path, "create", &error));
    let undo = unname(vfs, folder, path).is_err().then(|| path.to_owned());
    Err(NotNamed { error, is_full, undo })
}

/// Takes a file's name away, durably, if it has it.
pub(super) fn unname(vfs: &dyn Vfs, folder: &dyn VfsFolder, path: &Path) -> io::Result<()> {
    match vfs.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => folder.sync(),
    }
}

//! The hint: what of a segment goes into the index, without the values, so that opening a large store reads little.
//!
//! A hint may cover only the first part of its segment; the rest is read from the log. It is never the truth: one that
//! is missing or damaged is ignored, and the whole segment is read instead.
//!
//! ```text
//! hint     magic u64 · format u32 · segment u32 · end u64 · last batch u64 · last revision u64 · compacted u64 ·
//!          salt of the segment u64 · body bytes u64 · CRC-32C of the body u32 · CRC-32C of the above u32 · body
//! body     for each operation, in the order of keys, then revisions: key bytes u32 · position in its transaction u32 ·
//!          revision u64 · create revision u64 · offset u32 (0: a delete) · value bytes u32 · key
//! ```
//!
//! So hints are merged into an index that is built from its first key to its last.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::frame::{Fields, Placed, Record};
use super::segment::{Extent, FIRST_FRAME, Segment, SegmentId};
use crate::Revision;
use crate::vfs::Vfs;

const MAGIC: u64 = u64::from_le_bytes(*b"kindomHT");
const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 72;

pub(super) fn path(dir: &Path, id: SegmentId) -> PathBuf {
    dir.join(format!("{id}.hint"))
}

/// A hint that was read and checked.
#[derive(Debug)]
pub(super) struct Hint {
    pub(super) covers: Extent,
    pub(super) compacted: Revision,
    body: Bytes,
}

/// Reads a segment's hint, if there is one that fits it.
pub(super) fn read(vfs: &dyn Vfs, dir: &Path, segment: &Segment) -> Option<Hint> {
    let (hint, salt) = read_alone(vfs, dir, segment.id())?;
    (salt == segment.header.salt).then_some(hint)
}

/// Reads the hint of a segment whose header may be lost, and the salt that it names.
pub(super) fn read_alone(vfs: &dyn Vfs, dir: &Path, id: SegmentId) -> Option<(Hint, u64)> {
    let file = vfs.open(&path(dir, id)).ok()?;
    let bytes = usize::try_from(file.len().ok()?).ok()?;
    let mut content = vec![0; bytes];
    file.read_at(0, &mut content).ok()?;
    let content = Bytes::from(content);
    let mut fields = Fields(content.get(..HEAD_BYTES)?);
    let head = content.get(..HEAD_BYTES - 4)?;
    let known = fields.u64()? == MAGIC && fields.u32()? == FORMAT;
    let fits = fields.u32()? == id.0.get();
    let end = fields.u64()?;
    let covers = Extent { last_batch: fields.u64()?, last_revision: Revision(fields.u64()?), end };
    let compacted = Revision(fields.u64()?);
    let salt = fields.u64()?;
    let (body_bytes, body_crc) = (fields.u64()?, fields.u32()?);
    let intact = fields.u32()? == crc32c::crc32c(head);
    let body = content.slice(HEAD_BYTES..);
    let whole = body.len() as u64 == body_bytes && intact && crc32c::crc32c(&body) == body_crc;
    (known && fits && whole).then_some((Hint { covers, compacted, body }, salt))
}

/// An operation, as a hint records it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a [u8],
    pub(super) position: u32,
    pub(super) revision: Revision,
    pub(super) created: Revision,
    /// None: a delete.
    pub(super) placed: Option<Placed>,
}

impl Hint {
    /// Its entries in order; what makes no sense, which its CRC all but excludes, ends them with `false` from
    /// [`Entries::is_done`].
    pub(super) fn entries(&self) -> Entries<'_> {
        Entries(Fields(&self.body))
    }
}

/// Reads the entries of a hint.
pub(super) struct Entries<'a>(Fields<'a>);

impl Entries<'_> {
    /// `true` if all were read.
    pub(super) fn is_done(&self) -> bool {
        self.0.0.is_empty()
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let fields = &mut self.0;
        let key_bytes = usize::try_from(fields.u32()?).ok()?;
        let position = fields.u32()?;
        let (revision, created) = (Revision(fields.u64()?), Revision(fields.u64()?));
        let (offset, bytes) = (u64::from(fields.u32()?), fields.u32()?);
        let placed = (offset > 0).then_some(Placed { offset, bytes });
        Some(Entry { key: fields.take(key_bytes)?, position, revision, created, placed })
    }
}

/// Collects a hint.
#[derive(Debug, Default)]
struct HintBuilder {
    /// All keys, one after another: slices of batches would keep those in memory.
    keys: Vec<u8>,
    entries: Vec<Collected>,
    compacted: Revision,
}

/// The range of the key, and the rest of an [`Entry`]: position, revision, create revision, place.
type Collected = (Range<usize>, u32, Revision, Revision, Option<Placed>);

impl HintBuilder {
    fn record(&mut self, record: &Record) {
        match record {
            Record::Compact(revision) => self.compacted = self.compacted.max(*revision),
            Record::Txn { revision, ops } => {
                for (position, op) in (0..).zip(ops) {
                    let start = self.keys.len();
                    self.keys.extend_from_slice(&op.key);
                    let placed = op.value.as_ref().map(|(placed, _)| *placed);
                    self.entries.push((start..self.keys.len(), position, *revision, op.created, placed));
                }
            }
        }
    }

    fn body(mut self) -> Vec<u8> {
        let keys = &self.keys;
        let key = |range: &Range<usize>| keys.get(range.clone()).unwrap_or_default();
        self.entries.sort_by(|a, b| (key(&a.0), a.2).cmp(&(key(&b.0), b.2)));
        let mut body = Vec::with_capacity(keys.len() + self.entries.len() * 32);
        for (range, position, revision, created, placed) in &self.entries {
            let length = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
            let (offset, bytes) = placed.map_or((0, 0), |placed| (placed.offset, placed.bytes));
            body.extend_from_slice(&length(range.len() as u64));
            body.extend_from_slice(&position.to_le_bytes());
            body.extend_from_slice(&revision.0.to_le_bytes());
            body.extend_from_slice(&created.0.to_le_bytes());
            body.extend_from_slice(&length(offset));
            body.extend_from_slice(&bytes.to_le_bytes());
            body.extend_from_slice(key(range));
        }
        body
    }

    fn write(self, vfs: &dyn Vfs, dir: &Path, segment: &Segment, covers: Extent) -> io::Result<()> {
        let compacted = self.compacted;
        let body = self.body();
        let mut content = Vec::with_capacity(HEAD_BYTES + body.len());
        content.extend_from_slice(&MAGIC.to_le_bytes());
        content.extend_from_slice(&FORMAT.to_le_bytes());
        content.extend_from_slice(&segment.id().0.get().to_le_bytes());
        for field in [
            covers.end,
            covers.last_batch,
            covers.last_revision.0,
            compacted.0,
            segment.header.salt,
            body.len() as u64,
        ] {
            content.extend_from_slice(&field.to_le_bytes());
        }
        content.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        let crc = crc32c::crc32c(&content);
        content.extend_from_slice(&crc.to_le_bytes());
        content.extend_from_slice(&body);
        let path = path(dir, segment.id());
        let temporary = path.with_extension("hint.tmp");
        let make = || {
            let file = vfs.create(&temporary)?;
            file.write_at(0, &content)?;
            file.sync()?;
            vfs.rename(&temporary, &path)
        };
        make().inspect_err(|_| {
            // It may not be there; the next opening would remove it too.
            let _ = vfs.remove(&temporary);
        })?;
        segment.hinted.store(covers.end, Ordering::Relaxed);
        Ok(())
    }
}

/// Writes the hint of a complete segment, or of a log's first part, by reading it. Callers log a failure and go on: the
/// segment itself has everything.
pub(super) fn write_for(vfs: &dyn Vfs, dir: &Path, segment: &Segment, covers: Extent) -> io::Result<()> {
    let mut hint = HintBuilder { compacted: segment.header.compacted, ..HintBuilder::default() };
    let mut at = FIRST_FRAME;
    while at < covers.end {
        let Some(frame) = segment.frame_at(at, covers.end)? else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("damaged at offset {at}")));
        };
        frame.records.iter().for_each(|record| hint.record(record));
        at = frame.end;
    }
    hint.write(vfs, dir, segment, covers)
}

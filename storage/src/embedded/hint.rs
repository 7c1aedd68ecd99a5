//! The hint: what of a segment goes into the index, without the values, so that opening a large store reads little.
//!
//! A hint may cover only the first part of its segment; the rest is read from the log. It is never the truth: one that
//! is missing or damaged is ignored, and the whole segment is read instead.
//!
//! ```text
//! hint     magic u64 · format u32 · segment u32 · end u64 · last batch u64 · last revision u64 · compacted u64 ·
//!          salt of the segment u64 · body bytes u64 · CRC-32C of the body u32 · CRC-32C of the above u32 · body
//! body     for each transaction: revision u64 · operations u32, and for each of these:
//!          key bytes u32 · create revision u64 · offset u32 (0: a delete) · value bytes u32 · key
//! ```

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::frame::{Fields, Placed, Record};
use super::segment::{Extent, FIRST_FRAME, Location, Segment, SegmentId};
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
    let file = vfs.open(&path(dir, segment.id())).ok()?;
    let bytes = usize::try_from(file.len().ok()?).ok()?;
    let mut content = vec![0; bytes];
    file.read_at(0, &mut content).ok()?;
    let content = Bytes::from(content);
    let mut fields = Fields(content.get(..HEAD_BYTES)?);
    let head = content.get(..HEAD_BYTES - 4)?;
    let known = fields.u64()? == MAGIC && fields.u32()? == FORMAT;
    let fits = fields.u32()? == segment.id().0.get();
    let end = fields.u64()?;
    let covers = Extent { last_batch: fields.u64()?, last_revision: Revision(fields.u64()?), end };
    let compacted = Revision(fields.u64()?);
    let fits = fits && fields.u64()? == segment.header.salt;
    let (body_bytes, body_crc) = (fields.u64()?, fields.u32()?);
    let intact = fields.u32()? == crc32c::crc32c(head);
    let body = content.slice(HEAD_BYTES..);
    let whole = body.len() as u64 == body_bytes && intact && crc32c::crc32c(&body) == body_crc;
    (known && fits && whole).then_some(Hint { covers, compacted, body })
}

impl Hint {
    /// Calls `txn` for each transaction, in the order of the log, with its revision and its operations: key, create
    /// revision, and where the value is. `None` if it makes no sense, which its CRC all but excludes.
    pub(super) fn each(
        &self,
        segment: SegmentId,
        mut txn: impl FnMut(Revision, Vec<(Bytes, Revision, Option<Location>)>),
    ) -> Option<()> {
        let mut fields = Fields(&self.body);
        while !fields.0.is_empty() {
            let revision = Revision(fields.u64()?);
            let count = fields.u32()?;
            let mut ops = Vec::new();
            for _ in 0..count {
                let key_bytes = usize::try_from(fields.u32()?).ok()?;
                let created = Revision(fields.u64()?);
                let (offset, bytes) = (fields.u32()?, fields.u32()?);
                let key = self.body.slice_ref(fields.take(key_bytes)?);
                ops.push((key, created, (offset > 0).then_some(Location { segment, offset, bytes })));
            }
            txn(revision, ops);
        }
        Some(())
    }
}

/// Collects a hint.
#[derive(Debug, Default)]
pub(super) struct HintBuilder {
    body: Vec<u8>,
    compacted: Revision,
}

impl HintBuilder {
    pub(super) fn record(&mut self, record: &Record) {
        match record {
            Record::Compact(revision) => self.compacted = self.compacted.max(*revision),
            Record::Txn { revision, ops } => {
                self.body.extend_from_slice(&revision.0.to_le_bytes());
                self.u32(ops.len());
                for op in ops {
                    let placed = op.value.as_ref().map(|(placed, _)| *placed);
                    self.op(&op.key, op.created, placed);
                }
            }
        }
    }

    fn op(&mut self, key: &[u8], created: Revision, placed: Option<Placed>) {
        let (offset, bytes) = placed.map_or((0, 0), |placed| (placed.offset, placed.bytes));
        self.u32(key.len());
        self.body.extend_from_slice(&created.0.to_le_bytes());
        self.body.extend_from_slice(&u32::try_from(offset).unwrap_or(u32::MAX).to_le_bytes());
        self.body.extend_from_slice(&bytes.to_le_bytes());
        self.body.extend_from_slice(key);
    }

    fn u32(&mut self, number: usize) {
        self.body.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    }

    /// Writes it. Callers log a failure and go on: the segment itself has everything.
    pub(super) fn write(
        self,
        vfs: &dyn Vfs,
        dir: &Path,
        segment: &Segment,
        covers: Extent,
    ) -> io::Result<()> {
        let mut content = Vec::with_capacity(HEAD_BYTES + self.body.len());
        content.extend_from_slice(&MAGIC.to_le_bytes());
        content.extend_from_slice(&FORMAT.to_le_bytes());
        content.extend_from_slice(&segment.id().0.get().to_le_bytes());
        for field in [
            covers.end,
            covers.last_batch,
            covers.last_revision.0,
            self.compacted.0,
            segment.header.salt,
            self.body.len() as u64,
        ] {
            content.extend_from_slice(&field.to_le_bytes());
        }
        content.extend_from_slice(&crc32c::crc32c(&self.body).to_le_bytes());
        let crc = crc32c::crc32c(&content);
        content.extend_from_slice(&crc.to_le_bytes());
        content.extend_from_slice(&self.body);
        let path = path(dir, segment.id());
        let temporary = path.with_extension("hint.tmp");
        let file = vfs.create(&temporary)?;
        file.write_at(0, &content)?;
        file.sync()?;
        vfs.rename(&temporary, &path)
    }
}

/// Writes the hint of a complete segment, or of a log's first part, by reading it.
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

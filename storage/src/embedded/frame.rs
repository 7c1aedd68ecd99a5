//! The batch: the unit that becomes durable, and its records.
//!
//! ```text
//! frame    magic u32 · payload bytes u32 · CRC-32C u32 · records u32 · batch u64 · first revision u64 · payload
//! record   1 u8 · revision u64 · operations u32 · operation…
//!          2 u8 · revision u64                                  history is compacted up to there
//! op       1 put, 2 delete u8 · key bytes u32 · value bytes u32 · create revision u64 · key · value · CRC-32C u32
//! ```
//!
//! Little endian. A frame starts at a multiple of 8, which is where a search for frames looks. Its CRC starts from the
//! segment's salt, a random number: a value whose bytes look like a frame is not taken for one. It covers all but the magic,
//! itself and the values. An operation's CRC covers key and value, so that a read of one value needs nothing else; and as
//! the frame's covers keys and these CRCs, damage to a value can be distinguished from other damage: the frame still names
//! the key of the value. (Frames that begin with `kBAT`, which former builds wrote, have a CRC over the values too.)
//!
//! Batches are numbered without a gap, and batch `n + 1` is written only after `n` was synced. So if the bytes where frame
//! `n + 1` should be are damaged, and a whole frame of any later number lies behind it, then `n + 1` was durable once: that
//! is damage, not the torn end of a write that was never acknowledged.

use std::ops::Range;

use bytes::Bytes;

use crate::{Key, Op, Revision};

pub(super) const HEADER_BYTES: usize = 32;
const MAGIC: u32 = u32::from_le_bytes(*b"kBA2");
/// The magic of a frame whose CRC covers the values too.
const MAGIC_1: u32 = u32::from_le_bytes(*b"kBAT");
const RECORD_TXN: u8 = 1;
const RECORD_COMPACT: u8 = 2;
const OP_PUT: u8 = 1;
const OP_DELETE: u8 = 2;
/// The bytes of the CRC behind a value.
pub(super) const CRC_BYTES: usize = 4;
const OP_FIXED_BYTES: usize = 1 + 4 + 4 + 8 + CRC_BYTES;

/// More than any frame takes: a length beyond it is damage, not a reason to allocate.
pub(super) const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// The most bytes that a transaction of these operations takes in a frame.
pub(super) fn txn_bytes_max(ops: &[Op]) -> usize {
    let op = |op: &Op| OP_FIXED_BYTES + op.key().as_bytes().len() + op.value().map_or(0, Bytes::len);
    13 + ops.iter().map(op).sum::<usize>()
}

/// The place of a value in a frame: its offset in the file, and its length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

/// Builds one frame at a time in a buffer that it keeps.
#[derive(Debug, Default)]
pub(super) struct FrameBuilder {
    buffer: Vec<u8>,
    salt: u64,
    offset: u64,
    batch: u64,
    first: Revision,
    records: u32,
    /// The offset of the operation count of the open transaction, and the count.
    open: Option<(usize, u32)>,
    /// The ranges of the values, which the frame's CRC leaves out.
    values: Vec<Range<usize>>,
}

impl FrameBuilder {
    /// Starts a frame that will lie at `offset` of a file with this salt.
    pub(super) fn start(&mut self, salt: u64, offset: u64, batch: u64, first: Revision) {
        self.buffer.clear();
        self.buffer.resize(HEADER_BYTES, 0);
        (self.salt, self.offset, self.batch, self.first) = (salt, offset, batch, first);
        (self.records, self.open) = (0, None);
        self.values.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(super) fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Adds an operation to the open transaction, opening one first. The answer says where a put's value is.
    pub(super) fn op(
        &mut self,
        revision: Revision,
        created: Revision,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Option<Placed> {
        let crc = op_crc(key, value.unwrap_or_default());
        self.op_with(revision, created, key, value, crc)
    }

    /// As [`FrameBuilder::op`], with the CRC that the operation had elsewhere: a damaged value stays damaged.
    pub(super) fn op_with(
        &mut self,
        revision: Revision,
        created: Revision,
        key: &[u8],
        value: Option<&[u8]>,
        crc: u32,
    ) -> Option<Placed> {
        if self.open.is_none() {
            self.records += 1;
            self.buffer.push(RECORD_TXN);
            self.buffer.extend_from_slice(&revision.0.to_le_bytes());
            self.open = Some((self.buffer.len(), 0));
            self.buffer.extend_from_slice(&[0; 4]);
        }
        if let Some((_, count)) = &mut self.open {
            *count += 1;
        }
        let bytes = length(value.map_or(0, <[u8]>::len));
        self.buffer.push(if value.is_some() { OP_PUT } else { OP_DELETE });
        self.buffer.extend_from_slice(&length(key.len()).to_le_bytes());
        self.buffer.extend_from_slice(&bytes.to_le_bytes());
        self.buffer.extend_from_slice(&created.0.to_le_bytes());
        self.buffer.extend_from_slice(key);
        let offset = self.offset + self.buffer.len() as u64;
        let at = self.buffer.len();
        self.buffer.extend_from_slice(value.unwrap_or_default());
        self.values.push(at..self.buffer.len());
        self.buffer.extend_from_slice(&crc.to_le_bytes());
        value.map(|_| Placed { offset, bytes })
    }

    /// Ends the open transaction, if there is one.
    pub(super) fn end_txn(&mut self) {
        if let Some((at, count)) = self.open.take()
            && let Some(place) = self.buffer.get_mut(at..at + 4)
        {
            place.copy_from_slice(&count.to_le_bytes());
        }
    }

    pub(super) fn compact(&mut self, revision: Revision) {
        self.records += 1;
        self.buffer.push(RECORD_COMPACT);
        self.buffer.extend_from_slice(&revision.0.to_le_bytes());
    }

    /// The finished frame, padded so that the next one is aligned.
    pub(super) fn finish(&mut self) -> &[u8] {
        self.end_txn();
        let payload = length(self.buffer.len() - HEADER_BYTES).to_le_bytes();
        let mut header = [0; HEADER_BYTES];
        let (magic, records) = (MAGIC.to_le_bytes(), self.records.to_le_bytes());
        let (batch, first) = (self.batch.to_le_bytes(), self.first.0.to_le_bytes());
        let mut fill = |at: usize, bytes: &[u8]| {
            if let Some(place) = header.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        fill(0, &magic);
        fill(4, &payload);
        fill(12, &records);
        fill(16, &batch);
        fill(24, &first);
        if let Some(place) = self.buffer.get_mut(..HEADER_BYTES) {
            place.copy_from_slice(&header);
        }
        let mut crc = FrameCrc::new(self.salt, payload);
        let mut at = 12;
        for value in &self.values {
            crc.add(self.buffer.get(at..value.start).unwrap_or_default());
            at = value.end;
        }
        crc.add(self.buffer.get(at..).unwrap_or_default());
        let crc = crc.0.to_le_bytes();
        if let Some(place) = self.buffer.get_mut(8..12) {
            place.copy_from_slice(&crc);
        }
        self.buffer.resize(self.buffer.len().next_multiple_of(8), 0);
        &self.buffer
    }
}

/// Lengths are checked against the limits, far below 4 GiB, before they get here.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A frame's CRC in the making.
struct FrameCrc(u32);

impl FrameCrc {
    fn new(salt: u64, payload_bytes: [u8; 4]) -> Self {
        Self(crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &payload_bytes))
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }
}

fn op_crc(key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), value)
}

/// Splits what lies at a [`Placed`], 4 bytes longer than the value, into the value; `None` if the CRC is wrong.
pub(super) fn checked_value(key: &Key, mut stored: Vec<u8>) -> Option<Bytes> {
    let crc = stored.split_off(stored.len().checked_sub(4)?);
    (op_crc(key.as_bytes(), &stored).to_le_bytes()[..] == crc[..]).then(|| Bytes::from(stored))
}

/// A frame's header, not yet checked but for its magic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    covers_values: bool,
    pub(super) payload_bytes: usize,
    crc: u32,
    records: u32,
    pub(super) batch: u64,
    pub(super) first: Revision,
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let covers_values = match fields.u32()? {
            MAGIC => false,
            MAGIC_1 => true,
            _ => return None,
        };
        let payload_bytes =
            usize::try_from(fields.u32()?).ok().filter(|bytes| *bytes <= PAYLOAD_BYTES_MAX)?;
        let (crc, records) = (fields.u32()?, fields.u32()?);
        let (batch, first) = (fields.u64()?, Revision(fields.u64()?));
        Some(Self { covers_values, payload_bytes, crc, records, batch, first })
    }

    /// `true` if these bytes may be the beginning of a frame.
    pub(super) fn starts(bytes: &[u8]) -> bool {
        [MAGIC, MAGIC_1].iter().any(|magic| bytes.starts_with(&magic.to_le_bytes()))
    }

    /// The bytes of the whole frame with its padding.
    pub(super) fn frame_bytes(&self) -> u64 {
        (HEADER_BYTES + self.payload_bytes).next_multiple_of(8) as u64
    }

    /// The CRC of the part before the payload.
    fn covered(&self, salt: u64) -> FrameCrc {
        let mut crc = FrameCrc::new(salt, length(self.payload_bytes).to_le_bytes());
        crc.add(&self.records.to_le_bytes());
        crc.add(&self.batch.to_le_bytes());
        crc.add(&self.first.0.to_le_bytes());
        crc
    }
}

/// An operation as it lies in a frame.
#[derive(Debug, Clone)]
pub(super) struct LoggedOp {
    pub(super) key: Bytes,
    pub(super) created: Revision,
    /// None: a delete.
    pub(super) value: Option<(Placed, Bytes)>,
    /// The CRC of key and value as it was written; another than theirs now if the value is damaged.
    pub(super) crc: u32,
}

impl LoggedOp {
    /// The value, if there is one, is as it was written.
    pub(super) fn is_whole(&self) -> bool {
        let value = self.value.as_ref().map_or(&[][..], |(_, value)| value);
        op_crc(&self.key, value) == self.crc
    }
}

#[derive(Debug, Clone)]
pub(super) enum Record {
    Txn { revision: Revision, ops: Vec<LoggedOp> },
    Compact(Revision),
}

/// The records of a payload that lies at `offset`, of whose values some may be damaged; `None` if anything else is.
pub(super) fn records(header: &Header, salt: u64, payload: &Bytes, offset: u64) -> Option<Vec<Record>> {
    let mut fields = Fields(payload);
    let at = |fields: &Fields<'_>| payload.len() - fields.0.len();
    let mut crc = header.covered(salt);
    let mut covered_to = 0;
    let mut records = Vec::new();
    for _ in 0..header.records {
        let kind = fields.u8()?;
        let revision = Revision(fields.u64()?);
        if kind == RECORD_COMPACT {
            records.push(Record::Compact(revision));
            continue;
        }
        let count = (kind == RECORD_TXN).then(|| fields.u32())??;
        let mut ops = Vec::new();
        for _ in 0..count {
            let kind = fields.u8()?;
            let key_bytes = usize::try_from(fields.u32()?).ok()?;
            let value_bytes = fields.u32()?;
            let created = Revision(fields.u64()?);
            let key = payload.slice_ref(fields.take(key_bytes)?);
            let place = Placed { offset: offset + at(&fields) as u64, bytes: value_bytes };
            let value_at = at(&fields);
            let value = payload.slice_ref(fields.take(usize::try_from(value_bytes).ok()?)?);
            if !header.covers_values {
                crc.add(payload.get(covered_to..value_at)?);
                covered_to = at(&fields);
            }
            let op_crc = fields.u32()?;
            let value = match kind {
                OP_PUT => Some((place, value)),
                OP_DELETE => None,
                _ => return None,
            };
            ops.push(LoggedOp { key, created, value, crc: op_crc });
        }
        records.push(Record::Txn { revision, ops });
    }
    crc.add(payload.get(covered_to..)?);
    (fields.0.is_empty() && crc.0 == header.crc).then_some(records)
}

/// Reads little-endian fields off the front.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Vec<u8> {
        let mut builder = FrameBuilder::default();
        builder.start(9, 512, 7, Revision(3));
        let placed = builder.op(Revision(3), Revision(2), b"key", Some(b"value")).unwrap();
        assert_eq!(placed, Placed { offset: 512 + 32 + 13 + 17 + 3, bytes: 5 });
        builder.op(Revision(3), Revision(1), b"gone", None);
        builder.end_txn();
        builder.compact(Revision(2));
        builder.finish().to_vec()
    }

    fn decode(frame: &[u8]) -> Option<Vec<Record>> {
        let header = Header::parse(frame.get(..HEADER_BYTES)?)?;
        let payload = Bytes::copy_from_slice(frame.get(HEADER_BYTES..HEADER_BYTES + header.payload_bytes)?);
        records(&header, 9, &payload, 512 + 32)
    }

    #[test]
    fn what_is_built_is_read_back() {
        let records = decode(&frame()).unwrap();
        let [Record::Txn { revision: Revision(3), ops }, Record::Compact(Revision(2))] = &records[..] else {
            panic!("{records:?}")
        };
        assert_eq!(&ops[0].key[..], b"key");
        assert_eq!(ops[0].created, Revision(2));
        let (placed, value) = ops[0].value.clone().unwrap();
        assert_eq!((placed.offset, &value[..]), (512 + 32 + 13 + 17 + 3, &b"value"[..]));
        assert!(ops[1].value.is_none());
    }

    #[test]
    fn every_flipped_bit_is_seen_but_in_the_padding() {
        let frame = frame();
        let end = HEADER_BYTES + Header::parse(&frame).unwrap().payload_bytes;
        assert_eq!(frame.len(), end.next_multiple_of(8));
        let value = HEADER_BYTES + 13 + 17 + 3..HEADER_BYTES + 13 + 17 + 3 + 5;
        for at in 0..end {
            for bit in 0..8 {
                let mut flipped = frame.clone();
                flipped[at] ^= 1 << bit;
                let Some(records) = decode(&flipped) else { continue };
                // Only a value, and then it is known which.
                assert!(value.contains(&at), "byte {at} bit {bit}");
                let Record::Txn { ops, .. } = &records[0] else { panic!("{records:?}") };
                assert_eq!(
                    (&ops[0].key[..], ops[0].is_whole(), ops[1].is_whole()),
                    (&b"key"[..], false, true)
                );
            }
        }
        assert!(value.clone().all(|at| {
            let mut flipped = frame.clone();
            flipped[at] ^= 1;
            decode(&flipped).is_some()
        }));
    }

    /// The frame as former builds wrote it.
    #[test]
    fn a_frame_whose_checksum_covers_the_values_is_read() {
        let mut frame = frame();
        let payload_bytes = Header::parse(&frame).unwrap().payload_bytes;
        frame[..4].copy_from_slice(b"kBAT");
        let mut crc = FrameCrc::new(9, length(payload_bytes).to_le_bytes());
        crc.add(&frame[12..HEADER_BYTES + payload_bytes]);
        frame[8..12].copy_from_slice(&crc.0.to_le_bytes());
        assert_eq!(decode(&frame).unwrap().len(), 2);
        for at in 0..HEADER_BYTES + payload_bytes {
            let mut flipped = frame.clone();
            flipped[at] ^= 2;
            assert!(decode(&flipped).is_none(), "byte {at}");
        }
    }
}

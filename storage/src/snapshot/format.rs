//! The file.
//!
//! ```text
//! header   magic u64 · format u32 · revision u64 · prefixes u32 · (bytes u32 · prefix)… · CRC-32C u32
//! key      1 u8 · key bytes u32 · value bytes u32 · mod revision u64 · create revision u64 · key · value · CRC-32C u32
//! end      2 u8 · keys u64 · SHA-256 of all before it · CRC-32C u32
//! ```
//!
//! Little endian; keys in order. Each CRC covers the record before it, so that damage is found where it is; the end
//! proves that nothing is missing, and nothing comes behind it.

use std::io::{BufReader, Read};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::{DamagedValue, Key, KeyValue, Revision};

const MAGIC: [u8; 8] = *b"kindomSS";
const FORMAT: u32 = 1;
const KEY: u8 = 1;
const END: u8 = 2;
/// Far more than any store takes: a length beyond it is damage, not a reason to read on.
const KEY_BYTES_MAX: usize = 1 << 20;
const VALUE_BYTES_MAX: usize = 1 << 28;
const PREFIXES_MAX: usize = 64;
/// The most damages that are listed.
const LISTED_MAX: usize = 20;

/// The source of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The revision at which everything was read.
    pub revision: Revision,
    /// The prefixes of its keys, in order.
    pub prefixes: Vec<Bytes>,
}

/// Writes a snapshot, piece by piece, to the end of a buffer that the caller empties.
pub struct Encoder {
    keys: u64,
    hash: Sha256,
}

impl Encoder {
    /// Begins with the header.
    #[must_use]
    pub fn begin(header: &Header, out: &mut Vec<u8>) -> Self {
        let mut encoder = Self { keys: 0, hash: Sha256::new() };
        encoder.write(out, |out| {
            out.extend_from_slice(&MAGIC);
            out.extend_from_slice(&FORMAT.to_le_bytes());
            out.extend_from_slice(&header.revision.0.to_le_bytes());
            out.extend_from_slice(&length(header.prefixes.len()));
            for prefix in &header.prefixes {
                out.extend_from_slice(&length(prefix.len()));
                out.extend_from_slice(prefix);
            }
        });
        encoder
    }

    /// Adds the next key.
    ///
    /// # Errors
    /// Its value is damaged; nothing was written.
    pub fn add(&mut self, kv: &KeyValue, out: &mut Vec<u8>) -> Result<(), DamagedValue> {
        let value = kv.whole()?;
        self.keys += 1;
        self.write(out, |out| {
            out.push(KEY);
            out.extend_from_slice(&length(kv.key.as_bytes().len()));
            out.extend_from_slice(&length(value.len()));
            out.extend_from_slice(&kv.mod_revision.0.to_le_bytes());
            out.extend_from_slice(&kv.create_revision.0.to_le_bytes());
            out.extend_from_slice(kv.key.as_bytes());
            out.extend_from_slice(value);
        });
        Ok(())
    }

    /// Ends it.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        let hash = self.hash.clone().finalize();
        let keys = self.keys;
        self.write(out, |out| {
            out.push(END);
            out.extend_from_slice(&keys.to_le_bytes());
            out.extend_from_slice(&hash);
        });
    }

    fn write(&mut self, out: &mut Vec<u8>, record: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        record(out);
        let crc = crc32c::crc32c(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&crc.to_le_bytes());
        self.hash.update(out.get(start..).unwrap_or_default());
    }
}

/// Keys, values and prefixes are far below 4 GiB.
fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes()
}

/// The damage of a snapshot, and its place.
#[derive(Debug, thiserror::Error)]
#[error("at byte {offset}: {what}")]
pub struct Damage {
    /// The offset of the damaged record.
    pub offset: u64,
    /// The damage.
    pub what: String,
}

/// Reads a snapshot from its first byte to its last, in bounded memory.
pub struct Reader<R> {
    input: BufReader<R>,
    header: Header,
    offset: u64,
    keys: u64,
    /// The number of damaged keys so far; the end record has it, too.
    damaged: u64,
    hash: Sha256,
    last: Option<Key>,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// If the input is no snapshot, or has a damaged header.
    pub fn open(input: R) -> Result<Self, Damage> {
        let header = Header { revision: Revision::ZERO, prefixes: Vec::new() };
        let input = BufReader::with_capacity(1 << 16, input);
        let (offset, keys, damaged) = (0, 0, 0);
        let hash = Sha256::new();
        let mut reader = Self { input, header, offset, keys, damaged, hash, last: None, ended: false };
        let mut record = Record::default();
        if reader.fill(&mut record, MAGIC.len())? != MAGIC {
            return Err(Damage {
                offset: 0,
                what: "this is no snapshot: it does not begin as one".to_owned(),
            });
        }
        let format = reader.u32(&mut record)?;
        if format != FORMAT {
            let what =
                format!("it is of format {format}, of which nothing is known here, or its header is damaged");
            return Err(Damage { offset: 0, what });
        }
        let revision = Revision(reader.u64(&mut record)?);
        let prefixes = reader.length(&mut record, PREFIXES_MAX)?;
        for _ in 0..prefixes {
            let bytes = reader.length(&mut record, KEY_BYTES_MAX)?;
            let prefix = Bytes::copy_from_slice(reader.fill(&mut record, bytes)?);
            reader.header.prefixes.push(prefix);
        }
        reader.header.revision = revision;
        reader.check(&mut record, "the header has a wrong checksum")?;
        Ok(reader)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The number of bytes read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// `true` if nothing more can be read: it has ended, or its next record cannot be found.
    pub fn is_done(&self) -> bool {
        self.ended
    }

    /// The next key; none at the proven end.
    ///
    /// # Errors
    /// Damage to the next record. Unless [`Reader::is_done`], what follows it can still be read.
    pub fn next_key(&mut self) -> Result<Option<KeyValue>, Damage> {
        if self.ended {
            return Ok(None);
        }
        self.ended = true;
        let mut record = Record { offset: self.offset, ..Record::default() };
        let tag = self.fill(&mut record, 1)?.first().copied();
        match tag {
            Some(KEY) => self.key(record).map(Some),
            Some(END) => self.end(record).map(|()| None),
            _ => Err(record.damage("this is neither a key nor the end: nothing that follows can be read")),
        }
    }

    fn key(&mut self, mut record: Record) -> Result<KeyValue, Damage> {
        let key_bytes = self.length(&mut record, KEY_BYTES_MAX)?;
        let value_bytes = self.length(&mut record, VALUE_BYTES_MAX)?;
        let (modified, created) = (Revision(self.u64(&mut record)?), Revision(self.u64(&mut record)?));
        let key = Key::new(Bytes::copy_from_slice(self.fill(&mut record, key_bytes)?));
        let value = Bytes::copy_from_slice(self.fill(&mut record, value_bytes)?);
        let offset = record.offset;
        // It has been read to its end, whatever it says.
        let checked = self.check(&mut record, &format!("the key {key} or its value has a wrong checksum"));
        self.ended = false;
        if checked.is_err() {
            self.damaged += 1;
        }
        checked?;
        self.keys += 1;
        let wrong = |what: &str| Damage { offset, what: format!("the key {key} {what}") };
        let (last, header) = (self.last.replace(key.clone()), &self.header);
        if last.is_some_and(|last| last >= key) {
            return Err(wrong("does not come after the one before it"));
        }
        if !header.prefixes.iter().any(|prefix| key.as_bytes().starts_with(prefix)) {
            return Err(wrong("lies under none of the snapshot's prefixes"));
        }
        if created == Revision::ZERO || created > modified || modified > header.revision {
            return Err(wrong("has revisions that cannot be"));
        }
        Ok(KeyValue { key, value: Ok(value), mod_revision: modified, create_revision: created })
    }

    fn end(&mut self, mut record: Record) -> Result<(), Damage> {
        // The hash of everything before it.
        let hash = self.hash.clone().finalize();
        let keys = self.u64(&mut record)?;
        let same = self.fill(&mut record, hash.len())? == hash.as_slice();
        let offset = record.offset;
        self.check(&mut record, "the end has a wrong checksum")?;
        let wrong = |what: String| Err(Damage { offset, what });
        let found = self.keys + self.damaged;
        if keys != found {
            return wrong(format!("the end counts {keys} keys, but there are {found}"));
        }
        // Damaged records were reported already.
        if !same && self.damaged == 0 {
            return wrong("the SHA-256 of all that was read is not that of what was written".to_owned());
        }
        if !matches!(self.input.read(&mut [0]), Ok(0)) {
            let what = "something follows the end".to_owned();
            return Err(Damage { offset: self.offset, what });
        }
        Ok(())
    }

    /// Compares the checksum behind a record.
    fn check(&mut self, record: &mut Record, wrong: &str) -> Result<(), Damage> {
        let crc = crc32c::crc32c(&record.bytes);
        let stored_crc = self.u32(record)?;
        self.hash.update(&record.bytes);
        if stored_crc == crc { Ok(()) } else { Err(record.damage(wrong)) }
    }

    fn length(&mut self, record: &mut Record, max: usize) -> Result<usize, Damage> {
        let length = self.u32(record)?;
        usize::try_from(length).ok().filter(|bytes| *bytes <= max).ok_or_else(|| {
            record.damage(&format!("a length of {length} cannot be: nothing that follows can be read"))
        })
    }

    fn u32(&mut self, record: &mut Record) -> Result<u32, Damage> {
        Ok(self.fill(record, 4)?.try_into().map_or(0, u32::from_le_bytes))
    }

    fn u64(&mut self, record: &mut Record) -> Result<u64, Damage> {
        Ok(self.fill(record, 8)?.try_into().map_or(0, u64::from_le_bytes))
    }

    /// Reads so many more bytes of a record.
    fn fill<'r>(&mut self, record: &'r mut Record, bytes: usize) -> Result<&'r [u8], Damage> {
        let before = record.bytes.len();
        // The buffer grows with the bytes that are there: a damaged length reserves nothing.
        let read = (&mut self.input).take(bytes as u64).read_to_end(&mut record.bytes);
        let read = read.map_err(|error| record.damage(&format!("the file cannot be read: {error}")))?;
        self.offset += read as u64;
        if read < bytes {
            let keys = self.keys;
            let within = if before == 0 { "before its end" } else { "in the middle of a record" };
            return Err(
                record.damage(&format!("the file is cut off here, {within}, after {keys} whole keys"))
            );
        }
        Ok(record.bytes.get(before..).unwrap_or_default())
    }
}

/// A record, as far as it was read.
#[derive(Default)]
struct Record {
    offset: u64,
    bytes: Vec<u8>,
}

impl Record {
    fn damage(&self, what: &str) -> Damage {
        Damage { offset: self.offset, what: what.to_owned() }
    }
}

/// The result of checking a snapshot.
#[derive(Debug)]
pub struct Verdict {
    /// The header; `None` if not even that can be read.
    pub header: Option<Header>,
    /// The keys that are whole.
    pub content: super::Content,
    /// The first twenty damages, in order; empty if the snapshot is whole.
    pub damages: Vec<Damage>,
    /// The number of further damages.
    pub more: u64,
}

impl Verdict {
    fn damage(&mut self, damage: Damage) {
        if self.damages.len() < LISTED_MAX { self.damages.push(damage) } else { self.more += 1 }
    }
}

/// Reads all of a snapshot and lists its damages. Calls `read` after each key with the number of bytes read.
pub fn verify(input: impl Read, mut read: impl FnMut(u64)) -> Verdict {
    let content = super::Content::default();
    let mut verdict = Verdict { header: None, content, damages: Vec::new(), more: 0 };
    let mut reader = match Reader::open(input) {
        Ok(reader) => reader,
        Err(damage) => {
            verdict.damage(damage);
            return verdict;
        }
    };
    verdict.header = Some(reader.header().clone());
    while !reader.is_done() {
        match reader.next_key() {
            Ok(Some(kv)) => match verdict.content.add(&kv) {
                Ok(()) => {}
                Err(damaged) => verdict.damage(Damage { offset: reader.offset(), what: damaged.to_string() }),
            },
            Ok(None) => break,
            Err(damage) => verdict.damage(damage),
        }
        read(reader.offset());
    }
    verdict
}

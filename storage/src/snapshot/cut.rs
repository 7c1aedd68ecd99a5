//! Reading a store at one revision.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use futures::stream::unfold;

use super::format::{Encoder, Header};
use super::holds::{Hold, Holds};
use crate::{Key, KeyRange, KeyValue, RangeRequest, Storage, StorageError};

/// The number of keys looked up at once. Engines count the keys behind a page, which costs more than the page.
const KEYS: usize = 8192;
/// The bytes that a page of values should have, by the sizes in the page before, and the most objects on it: objects differ
/// a thousandfold, and 32 of the largest are 48 MiB.
const PAGE_BYTES: usize = 1 << 20;
const PAGE_KEYS_MAX: usize = 32;
/// A stream's pieces are about as large.
const PIECE_BYTES: usize = 256 << 10;

/// All keys of some prefixes at one revision, in order.
///
/// # Errors
/// [`StorageError::Compacted`] from any call if history was compacted past the revision: the part read before is no snapshot
/// then. [`StorageError::Corrupt`] names the first key whose value is damaged.
pub struct Cut {
    storage: Arc<dyn Storage>,
    header: Header,
    /// The ranges that are not yet listed.
    ranges: VecDeque<KeyRange>,
    /// The keys that are listed and not yet read.
    keys: VecDeque<Key>,
    page: usize,
    _hold: Option<Hold>,
}

impl Cut {
    /// Everything under these prefixes, none of which is part of another, as of now. Until the cut is dropped, `holds` keep
    /// its history, provided that the task which compacts asks them.
    ///
    /// # Errors
    /// Those of [`Storage::range`].
    pub async fn begin(
        storage: Arc<dyn Storage>,
        mut prefixes: Vec<Bytes>,
        holds: Option<&Holds>,
    ) -> Result<Self, StorageError> {
        prefixes.sort();
        let first = prefixes.first().cloned().unwrap_or_default();
        let now = RangeRequest { limit: Some(1), keys_only: true, ..RangeRequest::prefix(&first) };
        let revision = storage.range(now).await?.revision;
        let hold = holds.map(|holds| holds.hold(revision));
        let ranges = prefixes.iter().map(|prefix| KeyRange::prefix(prefix)).collect();
        let header = Header { revision, prefixes };
        Ok(Self { storage, header, ranges, keys: VecDeque::new(), page: 1, _hold: hold })
    }

    /// The header: the store, the revision and the prefixes.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The number of keys.
    ///
    /// # Errors
    /// See [`Cut`].
    pub async fn count(&self) -> Result<u64, StorageError> {
        let mut count = 0;
        for prefix in &self.header.prefixes {
            let request = RangeRequest {
                limit: Some(1),
                count_all: true,
                ..self.request(KeyRange::prefix(prefix), true)
            };
            count += self.storage.range(request).await?.count as u64;
        }
        Ok(count)
    }

    /// The next keys with their values; none at the end.
    ///
    /// # Errors
    /// See [`Cut`].
    pub async fn next_page(&mut self) -> Result<Option<Vec<KeyValue>>, StorageError> {
        while self.keys.is_empty() {
            let Some(range) = self.ranges.pop_front() else { return Ok(None) };
            self.look_up(range).await?;
        }
        let keys: Vec<Key> = self.keys.drain(..self.page.min(self.keys.len())).collect();
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return Ok(None) };
        let range = KeyRange { start: first.clone(), end: Some(after(last)) };
        let found = self.storage.range(self.request(range, false)).await?.kvs;
        if !found.iter().map(|kv| &kv.key).eq(&keys) {
            // A revision does not change; a store that answers so cannot be trusted with a backup.
            let (at, revision) = (first, self.header.revision);
            return Err(StorageError::Corrupt(format!(
                "the store answered differently of revision {revision} when asked again, from {at} on"
            )));
        }
        let mut bytes = 0;
        for kv in &found {
            let value =
                kv.whole().map_err(|damaged| StorageError::Corrupt(format!("{}: {damaged}", kv.key)))?;
            bytes += value.len();
        }
        let each = (bytes / found.len().max(1)).max(1);
        self.page = (PAGE_BYTES / each).clamp(1, PAGE_KEYS_MAX);
        Ok(Some(found))
    }

    async fn look_up(&mut self, range: KeyRange) -> Result<(), StorageError> {
        let request = RangeRequest { limit: Some(KEYS), ..self.request(range.clone(), true) };
        let found = self.storage.range(request).await?;
        self.keys = found.kvs.into_iter().map(|kv| kv.key).collect();
        if let Some(last) = self.keys.back().filter(|_| self.keys.len() < found.count) {
            self.ranges.push_front(KeyRange { start: after(last), end: range.end });
        }
        Ok(())
    }

    fn request(&self, range: KeyRange, keys_only: bool) -> RangeRequest {
        RangeRequest { range, revision: Some(self.header.revision), keys_only, ..RangeRequest::prefix(b"") }
    }
}

/// The first key after this one.
fn after(key: &Key) -> Key {
    let mut bytes = key.as_bytes().to_vec();
    bytes.push(0);
    Key::new(bytes)
}

/// Encodes keys from the front of a page, until there are so many bytes.
fn encode(
    encoder: &mut Encoder,
    page: &mut VecDeque<KeyValue>,
    bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), StorageError> {
    while out.len() < bytes
        && let Some(kv) = page.pop_front()
    {
        encoder.add(&kv, out)?;
    }
    Ok(())
}

/// A cut as the bytes of a snapshot. After an error the stream ends without an end record, so a [`Reader`] refuses it.
///
/// [`Reader`]: super::Reader
pub fn stream(cut: Cut) -> impl Stream<Item = Result<Bytes, StorageError>> + Send {
    enum State {
        Begin(Cut),
        /// Reads pages; the list holds the objects that are read and not yet sent. The cut keeps its history from compaction
        /// until all are sent.
        Pages(Cut, Encoder, VecDeque<KeyValue>),
        Ended,
    }
    unfold(State::Begin(cut), |state| async {
        let mut out = Vec::new();
        let (result, next) = match state {
            State::Begin(cut) => {
                let encoder = Encoder::begin(cut.header(), &mut out);
                (Ok(()), State::Pages(cut, encoder, VecDeque::new()))
            }
            State::Pages(cut, mut encoder, mut page) if !page.is_empty() => {
                match encode(&mut encoder, &mut page, PIECE_BYTES, &mut out) {
                    Ok(()) => (Ok(()), State::Pages(cut, encoder, page)),
                    Err(error) => (Err(error), State::Ended),
                }
            }
            State::Pages(mut cut, mut encoder, _) => match cut.next_page().await {
                Ok(Some(page)) => {
                    let mut page = VecDeque::from(page);
                    match encode(&mut encoder, &mut page, 1, &mut out) {
                        Ok(()) => (Ok(()), State::Pages(cut, encoder, page)),
                        Err(error) => (Err(error), State::Ended),
                    }
                }
                Ok(None) => {
                    encoder.finish(&mut out);
                    (Ok(()), State::Ended)
                }
                Err(error) => (Err(error), State::Ended),
            },
            State::Ended => return None,
        };
        Some((result.map(|()| Bytes::from(out)), next))
    })
}

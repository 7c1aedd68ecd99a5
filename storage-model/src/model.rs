//! The nouns of the contract.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// A point in the store's history: 0 before anything happened, then one more for every transaction that changed
/// something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

impl Revision {
    /// Before anything happened; as the mod revision in a compare: "the key is absent".
    pub const ZERO: Self = Self(0);

    /// The revision after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key: opaque bytes, ordered lexicographically. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

impl Key {
    /// A key of these bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes, shared.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }
}

impl From<String> for Key {
    fn from(s: String) -> Self {
        Self(Bytes::from(s))
    }
}

impl From<&str> for Key {
    fn from(s: &str) -> Self {
        Self(Bytes::copy_from_slice(s.as_bytes()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.0.escape_ascii())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// The keys `start <= key < end`; without an end, every key from `start` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key that may be in it.
    pub start: Key,
    /// The first key after it, or none for "to the last key".
    pub end: Option<Key>,
}

impl KeyRange {
    /// Every key that starts with these bytes: `prefix("/a/")` holds `/a/b` but not `/ab`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                break;
            }
        }
        Self {
            start: Key::new(Bytes::copy_from_slice(prefix)),
            end: (!end.is_empty()).then(|| Key::new(end)),
        }
    }

    /// Just this key.
    #[must_use]
    pub fn single(key: &Key) -> Self {
        let mut end = key.as_bytes().to_vec();
        end.push(0);
        Self { start: key.clone(), end: Some(Key::new(end)) }
    }

    /// The longest bytes that every key in it starts with.
    #[must_use]
    pub fn common_prefix(&self) -> &[u8] {
        let start = self.start.as_bytes();
        let Some(end) = &self.end else { return &[] };
        // `[p, successor of p)` has prefix p although p and its end differ in their last byte; `[k, k\0)` has k.
        let shared = start.iter().zip(end.as_bytes()).take_while(|(a, b)| a == b).count();
        let holds_all = |len: &usize| {
            let held = Self::prefix(start.get(..*len).unwrap_or_default());
            held.end.is_none_or(|held| held >= *end)
        };
        let len = (shared..=start.len()).rev().find(holds_all).unwrap_or(0);
        start.get(..len).unwrap_or_default()
    }

    /// The one key that it holds, where it was built as [`KeyRange::single`].
    #[must_use]
    pub fn as_single(&self) -> Option<&Key> {
        let end = self.end.as_ref()?.as_bytes();
        (end.strip_prefix(self.start.as_bytes()) == Some(&[0])).then_some(&self.start)
    }

    /// `true` if the key lies in it.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_bytes() <= key && self.end.as_ref().is_none_or(|end| key < end.as_bytes())
    }
}

/// A stored value that cannot be read back as it was written. It concerns its own key only: what lies beside it is whole.
///
/// Only the `embedded` engine finds damage itself; etcd's own checks end its server instead.
#[derive(Clone, PartialEq, Eq)]
pub struct DamagedValue(Arc<Damaged>);

#[derive(Debug, PartialEq, Eq)]
struct Damaged {
    file: String,
    offset: u64,
    why: String,
}

impl DamagedValue {
    /// The damage of the value that begins at `offset` of a file of the store's folder.
    #[must_use]
    pub fn new(file: String, offset: u64, why: String) -> Self {
        Self(Arc::new(Damaged { file, offset, why }))
    }

    /// The name of the file in the store's folder.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// The kind of damage, in words.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.0.why
    }

    /// The offset of the value in the file, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.0.offset
    }
}

impl fmt::Display for DamagedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damaged { file, offset, why } = &*self.0;
        write!(f, "the stored value is damaged: {why} ({file}, offset {offset})")
    }
}

impl fmt::Debug for DamagedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::error::Error for DamagedValue {}

/// A value as it was written, or the reason why nobody has it any more.
pub type StoredValue = Result<Bytes, DamagedValue>;

/// A key with its value at some revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Key,
    /// The value; empty where only keys were asked for.
    pub value: StoredValue,
    /// The revision that wrote this value.
    pub mod_revision: Revision,
    /// The revision that created the key, since it was last absent.
    pub create_revision: Revision,
}

impl KeyValue {
    /// The value, for callers that have no use for the rest without it.
    ///
    /// # Errors
    /// Its damage.
    pub fn whole(&self) -> Result<&Bytes, DamagedValue> {
        self.value.as_ref().map_err(Clone::clone)
    }
}

/// The number that a [`Compare`] reads of each key; 0 for an absent key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareTarget {
    /// `mod_revision = R`; with [`Revision::ZERO`]: the key is absent.
    ModEqual(Revision),
    /// `mod_revision < R` (an absent key has 0).
    ModLess(Revision),
    /// `mod_revision > R`.
    ModGreater(Revision),
}

/// A condition of a transaction. Over a range it holds if it holds for every key there; over a range without keys it
/// is judged as for one absent key (etcd's meaning), so `ModEqual(0)` over a prefix says "no key under it".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compare {
    /// The keys it speaks of.
    pub range: KeyRange,
    /// The condition for each key.
    pub target: CompareTarget,
}

impl Compare {
    /// The key was last written at `revision`; [`Revision::ZERO`]: it is absent.
    #[must_use]
    pub fn mod_is(key: &Key, revision: Revision) -> Self {
        Self { range: KeyRange::single(key), target: CompareTarget::ModEqual(revision) }
    }

    /// The key is absent.
    #[must_use]
    pub fn absent(key: &Key) -> Self {
        Self::mod_is(key, Revision::ZERO)
    }

    /// The key was last written before `revision`, or is absent.
    #[must_use]
    pub fn mod_before(key: &Key, revision: Revision) -> Self {
        Self { range: KeyRange::single(key), target: CompareTarget::ModLess(revision) }
    }

    /// No key starts with these bytes.
    #[must_use]
    pub fn empty_prefix(prefix: &[u8]) -> Self {
        Self { range: KeyRange::prefix(prefix), target: CompareTarget::ModEqual(Revision::ZERO) }
    }
}

/// One change of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Set the key to the value.
    Put(Key, Bytes),
    /// Remove the key. Removing an absent key changes nothing.
    Delete(Key),
}

impl Op {
    /// The key that it changes.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }

    /// The value that it sets, where it sets one.
    #[must_use]
    pub fn value(&self) -> Option<&Bytes> {
        match self {
            Self::Put(_, value) => Some(value),
            Self::Delete(_) => None,
        }
    }
}

/// A transaction: if every compare holds, all operations happen, atomically and in one revision; otherwise none. No
/// key should stand in two operations; where one does, its last operation counts and the others are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Txn {
    /// The conditions, all of which must hold.
    pub compares: Vec<Compare>,
    /// The operations, done if they hold.
    pub ops: Vec<Op>,
}

impl Txn {
    /// `true` if it stores anything; one that only deletes makes space.
    #[must_use]
    pub fn puts(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Put(..)))
    }
}

/// The outcome of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TxnOutcome {
    /// Done and durable. `revision` is its own; if nothing changed (no operation, or only deletes of absent keys) it is
    /// the store's current one.
    Committed {
        /// The transaction's revision.
        revision: Revision,
    },
    /// A compare did not hold; nothing happened.
    Failed {
        /// The index of the first compare that did not hold; etcd does not say, so `None` there.
        compare: Option<usize>,
        /// The store's revision when it was judged.
        revision: Revision,
    },
}

/// The keys to read, and their revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeRequest {
    /// The keys.
    pub range: KeyRange,
    /// At most so many, the first ones in key order.
    pub limit: Option<usize>,
    /// As of this revision; none: the current one.
    pub revision: Option<Revision>,
    /// Leave the values out.
    pub keys_only: bool,
    /// Count all keys of the range, which takes as long as reading them all.
    pub count_all: bool,
}

impl RangeRequest {
    /// Everything under a prefix, now; not counted beyond a limit.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        Self {
            range: KeyRange::prefix(prefix),
            limit: None,
            revision: None,
            keys_only: false,
            count_all: false,
        }
    }

    /// One key, now.
    #[must_use]
    pub fn single(key: &Key) -> Self {
        Self { range: KeyRange::single(key), ..Self::prefix(b"") }
    }
}

/// The answer to a [`RangeRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeResult {
    /// In key order.
    pub kvs: Vec<KeyValue>,
    /// The number of keys in the range, whatever the limit. Without [`RangeRequest::count_all`] only this much is certain: it
    /// is more than `kvs` holds if, and only if, there are more.
    pub count: usize,
    /// The store's revision when it was read (not the one asked for).
    pub revision: Revision,
}

/// The change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It was set.
    Put {
        /// Its new value; damaged only in history, never when it is delivered as it happens.
        value: StoredValue,
        /// The revision that created it, since it was last absent.
        create_revision: Revision,
    },
    /// It was removed.
    Delete,
}

/// A change to one key at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The key.
    pub key: Key,
    /// The change.
    pub change: Change,
    /// The value right before, where there was one. Engines whose history holds it always fill it in; where an event
    /// is the first after the compacted revision it may be missing.
    pub prev: Option<KeyValue>,
}

/// All changes that one revision made to the keys of a watch; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The revision.
    pub revision: Revision,
    /// In the order of the transaction's operations.
    pub events: Vec<Event>,
}

impl Commit {
    /// Its weight in a queue: the bytes of its keys and values, former values included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let length = |value: &StoredValue| value.as_ref().map_or(0, Bytes::len);
        let prev = |event: &Event| event.prev.as_ref().map_or(0, |prev| length(&prev.value));
        let value = |event: &Event| match &event.change {
            Change::Put { value, .. } => length(value),
            Change::Delete => 0,
        };
        self.events.iter().map(|event| event.key.as_bytes().len() + value(event) + prev(event)).sum()
    }
}

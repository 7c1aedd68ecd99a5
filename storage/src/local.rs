//! The part that the local engines share: reads and watches over one index and one hub.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::RwLock;

use crate::hub::Hub;
use crate::index::{Changed, Changes, Index};
use crate::watch::History;
use crate::{
    Change, Commit, CommitStream, Event, Key, KeyRange, KeyValue, Limits, RangeRequest, RangeResult,
    Revision, StorageError, StoredValue, Watch,
};

/// So many keys are read, or revisions scanned, while the index is locked once: a writer never waits for a long read.
const PIECE_KEYS: usize = 4096;
const PIECE_REVISIONS: u64 = 16 << 10;
/// So many commits of history are read at once.
const PIECE_COMMITS: usize = 128;

/// Gets values from where the index says they are. Cloning must be cheap; a clone can load every value that the index
/// held when it was cloned, whatever is moved later.
pub(crate) trait Loader: Clone + Send + Sync + 'static {
    /// The place of a value.
    type Value: Clone + Send + Sync + 'static;

    /// Loading a value may wait for a disk.
    const MAY_BLOCK: bool;

    /// The value, or its damage, which concerns nothing else.
    ///
    /// # Errors
    /// The loader does not belong to the index that the place is from.
    fn load(&self, key: &Key, value: &Self::Value) -> Result<StoredValue, StorageError>;
}

/// The index and the loader that fits it.
pub(crate) struct State<L: Loader> {
    pub(crate) index: Index<L::Value>,
    pub(crate) loader: L,
}

/// A local engine without its writer.
pub(crate) struct Local<L: Loader> {
    pub(crate) state: RwLock<State<L>>,
    pub(crate) hub: Arc<Hub>,
    /// The index's, readable without a lock.
    compacted: AtomicU64,
    pub(crate) limits: Limits,
}

impl<L: Loader> Local<L> {
    pub(crate) fn new(index: Index<L::Value>, loader: L, limits: Limits) -> Arc<Self> {
        let hub = Hub::new(index.head(), &limits);
        let compacted = AtomicU64::new(index.compacted().0);
        Arc::new(Self { state: RwLock::new(State { index, loader }), hub, compacted, limits })
    }

    pub(crate) fn compacted(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    /// Moves the compacted revision of the index; the caller prunes.
    pub(crate) fn compact(&self, to: Revision) -> bool {
        let mut state = self.state.write();
        let moved = state.index.compact(to);
        self.compacted.store(state.index.compacted().0, Ordering::Release);
        moved
    }

    pub(crate) fn range(&self, request: &RangeRequest) -> Result<RangeResult, StorageError> {
        self.hub.check_open()?;
        match self.range_in_pieces(request, PIECE_KEYS) {
            // Compaction overtook a read of the current state. Under one lock it cannot.
            Err(StorageError::Compacted { .. }) if request.revision.is_none() => {
                self.range_in_pieces(request, usize::MAX)
            }
            result => result,
        }
    }

    fn range_in_pieces(&self, request: &RangeRequest, piece: usize) -> Result<RangeResult, StorageError> {
        let limit = request.limit.unwrap_or(usize::MAX);
        let mut result = RangeResult { kvs: Vec::new(), count: 0, revision: Revision::ZERO };
        let (mut at, mut revision) = (request.revision, None);
        let mut rest = Some(request.range.clone());
        while let Some(range) = rest.take() {
            let mut found = Vec::new();
            let loader = {
                let state = self.state.read();
                // Read under the lock, hence at or after the compacted revision.
                let published = self.hub.published();
                let at = *at.get_or_insert(published);
                revision.get_or_insert(published);
                check_readable(at, state.index.compacted(), published)?;
                for (seen, (key, record)) in state.index.range_at(&range, at).take(piece).enumerate() {
                    result.count += 1;
                    if result.count <= limit {
                        found.push((key.clone(), record.clone()));
                    } else if !request.count_all {
                        break;
                    }
                    if seen + 1 == piece {
                        rest = Some(KeyRange { start: after(key), end: range.end.clone() });
                    }
                }
                state.loader.clone()
            };
            result.kvs.reserve(found.len());
            for (key, record) in found {
                let value = match &record.value {
                    Some(value) if !request.keys_only => loader.load(&key, value)?,
                    _ => Ok(Bytes::new()),
                };
                let (mod_revision, create_revision) = (record.revision, record.created);
                result.kvs.push(KeyValue { key, value, mod_revision, create_revision });
            }
        }
        result.revision = revision.unwrap_or_default();
        Ok(result)
    }

    pub(crate) fn watch(
        self: &Arc<Self>,
        range: KeyRange,
        from: Option<Revision>,
    ) -> Result<Watch, StorageError> {
        let subscribed = self.hub.subscribe(&range, from)?;
        let (after, upto) = (subscribed.after, subscribed.published);
        let compacted = self.compacted();
        let history: Option<Box<dyn History>> = (after < upto)
            .then(|| Box::new(Reader { local: Arc::clone(self), range: range.clone(), after, upto }) as _);
        let progress = subscribed.progress;
        // Made before the check: dropping it unsubscribes.
        let commits =
            CommitStream::new(history, subscribed.live, subscribed.hub, subscribed.id, subscribed.backlog);
        if let Some(from) = from
            && from <= compacted
            && compacted > Revision::ZERO
        {
            return Err(StorageError::Compacted { requested: from, compacted });
        }
        if let Some(last) = self.last_change(&range, after, upto) {
            progress.sent(last);
        }
        Ok(Watch { commits, progress })
    }

    /// The last revision after `after`, up to and including `upto`, that changed the range.
    fn last_change(&self, range: &KeyRange, after: Revision, mut upto: Revision) -> Option<Revision> {
        while upto > after {
            let down_to = after.max(Revision(upto.0.saturating_sub(PIECE_REVISIONS)));
            if let Some(found) = self.state.read().index.last_change(range, down_to, upto) {
                return Some(found);
            }
            upto = down_to;
        }
        None
    }
}

fn check_readable(at: Revision, compacted: Revision, published: Revision) -> Result<(), StorageError> {
    if at > published {
        return Err(StorageError::Future { requested: at, current: published });
    }
    if at < compacted {
        return Err(StorageError::Compacted { requested: at, compacted });
    }
    Ok(())
}

/// The first key after this one.
fn after(key: &Key) -> Key {
    let mut bytes = key.as_bytes().to_vec();
    bytes.push(0);
    Key::new(bytes)
}

/// Reads a watch's history.
struct Reader<L: Loader> {
    local: Arc<Local<L>>,
    range: KeyRange,
    after: Revision,
    upto: Revision,
}

impl<L: Loader> History for Reader<L> {
    fn next_commits(&mut self) -> Result<VecDeque<Arc<Commit>>, StorageError> {
        let mut commits = VecDeque::new();
        while commits.is_empty() && self.after < self.upto {
            let (found, loader) = {
                let state = self.local.state.read();
                let compacted = state.index.compacted();
                if self.after < compacted {
                    return Err(StorageError::Compacted { requested: self.after.next(), compacted });
                }
                let limits = (PIECE_REVISIONS, PIECE_COMMITS);
                let (found, reached) = state.index.changes(&self.range, self.after, self.upto, limits);
                self.after = reached;
                (found, state.loader.clone())
            };
            for changes in found {
                commits.push_back(Arc::new(commit_of(changes, &loader)?));
            }
        }
        Ok(commits)
    }

    fn may_block(&self) -> bool {
        L::MAY_BLOCK
    }
}

fn commit_of<L: Loader>(changes: Changes<L::Value>, loader: &L) -> Result<Commit, StorageError> {
    let event = |changed: Changed<L::Value>| {
        let value =
            changed.record.value.as_ref().map(|value| loader.load(&changed.key, value)).transpose()?;
        event_of(changed, value, loader)
    };
    let events = changes.changed.into_iter().map(event).collect::<Result<_, _>>()?;
    Ok(Commit { revision: changes.revision, events })
}

/// The event of a change whose new value (`None`: deleted) is at hand.
pub(crate) fn event_of<L: Loader>(
    changed: Changed<L::Value>,
    value: Option<StoredValue>,
    loader: &L,
) -> Result<Event, StorageError> {
    let Changed { key, record, prev } = changed;
    let prev = match prev.as_ref().and_then(|prev| Some((prev, prev.value.as_ref()?))) {
        None => None,
        Some((prev, at)) => Some(KeyValue {
            key: key.clone(),
            value: loader.load(&key, at)?,
            mod_revision: prev.revision,
            create_revision: prev.created,
        }),
    };
    let change = match value {
        Some(value) => Change::Put { value, create_revision: record.created },
        None => Change::Delete,
    };
    Ok(Event { key, change, prev })
}

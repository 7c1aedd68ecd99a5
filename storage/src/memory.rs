//! The engine without a disk: for tests and simulations, and for servers that may forget.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::index::{Changes, Index, last_op_of_each_key};
use crate::local::{Loader, Local, event_of};
use crate::{
    Key, KeyRange, Limits, RangeRequest, RangeResult, Revision, Storage, StorageError, StorageFuture,
    StoredValue, Txn, TxnOutcome, Watch,
};

/// A store in memory. Cloning gives another handle to the same store.
///
/// It has neither threads nor timers: a transaction is judged, entered and published inside the call of [`Storage::txn`],
/// before its future is polled. So on one thread the same calls give the same history. Nothing waits, so it is never
/// [`StorageError::Busy`].
#[derive(Clone)]
pub struct Memory {
    local: Arc<Local<InPlace>>,
    /// Held from judging to publishing, so that commits are published in the order of their revisions.
    writer: Arc<Mutex<()>>,
}

/// The values are in the index itself.
#[derive(Clone)]
struct InPlace;

impl Loader for InPlace {
    type Value = Bytes;

    const MAY_BLOCK: bool = false;

    fn load(&self, _key: &Key, value: &Bytes) -> Result<StoredValue, StorageError> {
        Ok(Ok(value.clone()))
    }
}

impl Memory {
    /// An empty store with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// An empty store with these limits.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Self {
        Self { local: Local::new(Index::new(), InPlace, limits), writer: Arc::default() }
    }

    fn run(&self, mut txn: Txn) -> Result<TxnOutcome, StorageError> {
        self.local.limits.check(&txn)?;
        last_op_of_each_key(&mut txn.ops);
        let _writer = self.writer.lock();
        self.local.hub.check_open()?;
        let changes = {
            let mut state = self.local.state.write();
            let index = &mut state.index;
            if let Some(compare) = index.first_failed(&txn.compares) {
                return Ok(TxnOutcome::Failed { compare: Some(compare), revision: index.head() });
            }
            match index.commit(&txn.ops, |_, _, op| op.value().cloned()) {
                None => return Ok(TxnOutcome::Committed { revision: index.head() }),
                Some(changes) => changes,
            }
        };
        let Changes { revision, changed } = changes;
        let keys: Vec<Key> = changed.iter().map(|changed| changed.key.clone()).collect();
        self.local.hub.publish().commit(revision, keys.iter(), || {
            let event = |changed: crate::index::Changed<Bytes>| {
                let value = changed.record.value.clone().map(Ok);
                event_of(changed, value, &InPlace)
            };
            changed.into_iter().map(event).collect()
        });
        Ok(TxnOutcome::Committed { revision })
    }

    fn compact_now(&self, revision: Revision) -> Result<(), StorageError> {
        let _writer = self.writer.lock();
        self.local.hub.check_open()?;
        let current = self.local.hub.published();
        if revision > current {
            return Err(StorageError::Future { requested: revision, current });
        }
        if self.local.compact(revision) {
            self.local.state.write().index.prune(usize::MAX, drop);
        }
        Ok(())
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Storage for Memory {
    fn txn(&self, txn: Txn) -> StorageFuture<'_, TxnOutcome> {
        tracing::trace!(compares = txn.compares.len(), "commit");
        ready(self.run(txn))
    }

    fn range(&self, request: RangeRequest) -> StorageFuture<'_, RangeResult> {
        ready(self.local.range(&request))
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> StorageFuture<'_, Watch> {
        ready(self.local.watch(range, from))
    }

    fn published(&self) -> Revision {
        self.local.hub.published()
    }

    fn fresh(&self) -> StorageFuture<'_, Revision> {
        ready(self.local.hub.fresh())
    }

    fn is_local(&self) -> bool {
        true
    }

    fn compact(&self, revision: Revision) -> StorageFuture<'_, ()> {
        ready(self.compact_now(revision))
    }

    fn compacted(&self) -> Revision {
        self.local.compacted()
    }

    fn close(&self) -> StorageFuture<'_, ()> {
        self.local.hub.close(&StorageError::closed());
        ready(Ok(()))
    }
}

fn ready<'a, T: Send + 'a>(result: Result<T, StorageError>) -> StorageFuture<'a, T> {
    Box::pin(std::future::ready(result))
}

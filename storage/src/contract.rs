//! The contract that every engine keeps; `conformance` tests it line by line.

use std::future::Future;
use std::pin::Pin;

use crate::{KeyRange, RangeRequest, RangeResult, Revision, StorageError, Txn, TxnOutcome, Watch};

/// A store that takes no puts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOnly {
    /// The system's words, with the file.
    pub reason: String,
    /// It ends by itself once there is space, or a descriptor, again, and deletes and compactions are taken meanwhile.
    /// Otherwise a write or an fsync has failed, and it ends when the store is opened again.
    pub heals: bool,
}

impl ReadOnly {
    /// One line for readers who may not know the machine's paths.
    #[must_use]
    pub fn summary(&self) -> String {
        let cause = self.reason.rsplit(": ").next().unwrap_or_default();
        let end = if self.heals {
            "deletes are accepted, and writes again once there is room"
        } else {
            "it has to be started again"
        };
        format!("the store is read-only: {cause}; {end}")
    }
}

/// The result of a storage call: boxed, so that an engine can stand behind `dyn Storage`.
pub type StorageFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StorageError>> + Send + 'a>>;

/// A revisioned key-value store.
///
/// # Cancel safety
/// Dropping the future of a read has no effect. Dropping the future of [`Storage::txn`] does not take the transaction
/// back: once it was queued it happens or fails all the same.
pub trait Storage: Send + Sync + 'static {
    /// Runs one transaction and answers once it is durable and [published](Storage::published).
    ///
    /// Transactions that wait at the same time share one durable batch, yet each is judged after all before it in the
    /// batch and has its own revision; a failed one takes none.
    ///
    /// # Errors
    /// By [`StorageError::applied`]: `No` (nothing happened, nothing will) or `Unknown`.
    fn txn(&self, txn: Txn) -> StorageFuture<'_, TxnOutcome>;

    /// The reason why the store refuses puts now, for its operator; `None` while it accepts them, or if the engine cannot
    /// know.
    fn read_only(&self) -> Option<ReadOnly> {
        None
    }

    /// Reads keys in order, as of one revision: all of them or none see any given transaction. The current state is
    /// linearizable: it includes every transaction answered before the call.
    ///
    /// # Errors
    /// [`StorageError::Compacted`] (a revision *at* the compacted one still works), [`StorageError::Future`].
    fn range(&self, request: RangeRequest) -> StorageFuture<'_, RangeResult>;

    /// Watches a range: every commit that touches it, from revision `from` on (`None`: after the current one), first
    /// from history, then as it happens, without gap or duplicate between the two.
    ///
    /// # Errors
    /// [`StorageError::Compacted`] if anything was compacted and `from` is at or before the compacted revision; 0 stands
    /// for the first revision. A `from` in the future is no error: nothing is delivered before it.
    fn watch(&self, range: KeyRange, from: Option<Revision>) -> StorageFuture<'_, Watch>;

    /// The highest revision `S` such that every commit up to `S` is readable and has been put into the queue of every
    /// watch it concerns. Lock-free on local engines, where every answered transaction is published.
    fn published(&self) -> Revision;

    /// A revision that is at least that of every transaction answered, and of every event that a watch of this process
    /// delivered, before the call; once this process has published it. On local engines this is [`Storage::published`],
    /// at once but for a commit that is just going out: its event may be seen before it counts as published.
    fn fresh(&self) -> StorageFuture<'_, Revision>;

    /// Returns true if [`Storage::fresh`] asks no other process: everything there is has been published here.
    fn is_local(&self) -> bool {
        false
    }

    /// Forgets history at and before `revision`, but for each live key's newest record. Compacting at or before the
    /// compacted revision does nothing.
    ///
    /// # Errors
    /// [`StorageError::Future`].
    fn compact(&self, revision: Revision) -> StorageFuture<'_, ()>;

    /// The compacted revision: history starts after it; 0 while all of it is kept.
    fn compacted(&self) -> Revision;

    /// Ends the store in order: writes queued transactions, and saves the high-water mark and the hints. Later calls fail
    /// with [`StorageError::Unavailable`] (`No`).
    fn close(&self) -> StorageFuture<'_, ()>;
}

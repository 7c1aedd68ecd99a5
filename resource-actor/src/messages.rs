//! What is said to a type's actor.

use kindom_storage::{StorageError, Txn, TxnOutcome};
use tokio::sync::oneshot;

/// From [`crate::ResourceHandle`]: commit a planned write. The answer comes through `reply`; if that is dropped without
/// one, the commit was never admitted and may be sent again.
pub(crate) struct CommitObject {
    /// The write, with its guards.
    pub(crate) txn: Txn,
    /// Gets the outcome once it is known.
    pub(crate) reply: oneshot::Sender<Result<TxnOutcome, StorageError>>,
}

//! The messages to a type's actor.

use kindom_storage::{Applied, StorageError, Txn, TxnOutcome};
use tokio::sync::oneshot;
use tracing::Span;

/// From [`crate::ResourceHandle`]: commit a planned write. The answer comes through `reply`; if that is dropped without
/// one, the commit was never admitted and may be sent again.
pub(crate) struct CommitObject {
    /// The write, with its guards.
    pub(crate) txn: Txn,
    /// The request that the write is of, for the log.
    pub(crate) span: Span,
    /// Gets the outcome once it is known.
    pub(crate) reply: oneshot::Sender<Result<TxnOutcome, StorageError>>,
}

/// A commit that the store may know of. If nobody lives to see its outcome (the thread ends, say), it is unknown: a reply
/// dropped without a word would say that it was never admitted.
pub(crate) struct Admitted {
    reply: Option<oneshot::Sender<Result<TxnOutcome, StorageError>>>,
}

impl Admitted {
    pub(crate) fn new(reply: oneshot::Sender<Result<TxnOutcome, StorageError>>) -> Self {
        Self { reply: Some(reply) }
    }

    pub(crate) fn answer(mut self, outcome: Result<TxnOutcome, StorageError>) {
        if self.reply.take().is_some_and(|reply| reply.send(outcome).is_err()) {
            tracing::debug!("a commit outlived its client");
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            let reason = "the commit's outcome was lost".to_owned();
            // A client that has gone needs no answer.
            let _ = reply.send(Err(StorageError::Unavailable { reason, applied: Applied::Unknown }));
        }
    }
}

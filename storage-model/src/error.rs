//! Storage errors, one variant for each reaction of a caller.

use crate::{DamagedValue, Revision};

/// The answer to the question: may the write that an error belongs to have happened?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It certainly did not and never will; the caller may try again.
    No,
    /// It may have, or may still; only reading back something that proves it settles the question.
    Unknown,
}

/// The errors of the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The revision asked for lies before the oldest one whose history is kept.
    #[error("required revision {requested} has been compacted; the oldest available is {compacted}")]
    Compacted {
        /// The revision that was asked for.
        requested: Revision,
        /// History starts after this revision: reads at it still work, watches start at the next.
        compacted: Revision,
    },
    /// The revision asked for has not happened yet.
    #[error("required revision {requested} is in the future; the current one is {current}")]
    Future {
        /// The revision that was asked for.
        requested: Revision,
        /// The store's revision at that moment.
        current: Revision,
    },
    /// The store's queue is full; nothing was done. Try again later.
    #[error("the store's queue is full")]
    Busy,
    /// A key or value is larger than the engine takes; nothing was done.
    #[error("{what} of {bytes} bytes is larger than the store's limit of {limit}")]
    TooLarge {
        /// `key`, `value` or `transaction`.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The engine's limit.
        limit: usize,
    },
    /// The server behind the store takes no request of this size; nothing was done.
    #[error("a request of {bytes} bytes is larger than etcd takes (--max-request-bytes): {reason}")]
    RequestTooLarge {
        /// The sum of its keys and values.
        bytes: usize,
        /// The server's words.
        reason: String,
    },
    /// The store accepts no puts, but still serves reads: until it is reopened after a failed write or fsync, or until there
    /// is space, or a descriptor, again.
    #[error("the store is read-only: {reason}")]
    ReadOnly {
        /// The cause, which names the file.
        reason: String,
        /// [`Applied::Unknown`] if *this* write may have reached the disk.
        applied: Applied,
    },
    /// The store can't be reached, or is closing.
    #[error("the store is unavailable: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
        /// [`Applied::Unknown`] if *this* write may have happened.
        applied: Applied,
    },
    /// The data on disk is damaged, or cannot be opened; the text names the file and the remedy.
    #[error("{0}")]
    Corrupt(String),
}

/// For callers that have no use for the rest without this value.
impl From<DamagedValue> for StorageError {
    fn from(damaged: DamagedValue) -> Self {
        Self::Corrupt(damaged.to_string())
    }
}

impl StorageError {
    /// The error of every call to a store that was closed.
    #[must_use]
    pub fn closed() -> Self {
        Self::Unavailable { reason: "the store is closed".to_owned(), applied: Applied::No }
    }

    /// [`Applied::Unknown`] if the failed write may have happened all the same. For reads always [`Applied::No`].
    #[must_use]
    pub fn applied(&self) -> Applied {
        match self {
            Self::ReadOnly { applied, .. } | Self::Unavailable { applied, .. } => *applied,
            Self::Compacted { .. }
            | Self::Future { .. }
            | Self::Busy
            | Self::TooLarge { .. }
            | Self::RequestTooLarge { .. }
            | Self::Corrupt(_) => Applied::No,
        }
    }
}

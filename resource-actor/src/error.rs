//! The failures of a read, a write or a watch, by the caller's reaction.

use kindom_actor_kit::Overloaded;
use kindom_objects::{PlanError, StoredObject, Unreadable};
use kindom_storage::{Applied, Revision, StorageError};

/// The reason why an object, or a list, could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The deadline passed before a fresh enough state was at hand.
    #[error("timed out waiting for a fresh state")]
    Timeout,
    /// The type is not registered any more.
    #[error("the type is not registered any more")]
    Gone,
    /// There is no room for as much as was asked for.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// The store could not say.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The stored bytes can't be shown.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// The reason why an object was not written. Unless the variant says otherwise, it certainly was not.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WriteError {
    /// It can't be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The object is larger than the server behind the store takes; in its words.
    #[error("{0}")]
    RequestTooLarge(String),
    /// The type, or the store, has too much to do; try again.
    #[error("too many requests")]
    Busy,
    /// Too much work for the user and the type waits for a processor.
    #[error("too much work for this type waits already")]
    Overloaded {
        /// The time after which the client may try again.
        retry_after_seconds: u32,
    },
    /// The deadline passed; the write may have happened, or may still.
    #[error("timed out; the write may have happened")]
    Unknown,
    /// The store takes no writes now.
    #[error("{0}")]
    Unavailable(String),
    /// The type is not registered any more.
    #[error("the type is not registered any more")]
    Gone,
    /// The stored state differs from the one it was planned on, which was only a guess: it has to be planned again.
    #[error("it was planned on what is stored no more")]
    Guessed,
}

impl From<StorageError> for WriteError {
    fn from(error: StorageError) -> Self {
        match error {
            error if error.applied() == Applied::Unknown => {
                tracing::error!(%error, "the outcome of a write is unknown");
                Self::Unknown
            }
            StorageError::Busy => Self::Busy,
            StorageError::TooLarge { bytes, limit, .. } => PlanError::TooLarge { bytes, limit }.into(),
            StorageError::RequestTooLarge { .. } => Self::RequestTooLarge(error.to_string()),
            StorageError::ReadOnly { .. } | StorageError::Unavailable { .. } => {
                Self::Unavailable(error.to_string())
            }
            StorageError::Compacted { .. } | StorageError::Future { .. } | StorageError::Corrupt(_) => {
                PlanError::Internal(error.to_string()).into()
            }
        }
    }
}

impl From<Overloaded> for WriteError {
    fn from(why: Overloaded) -> Self {
        let seconds = u32::try_from(why.retry_after.as_secs());
        Self::Overloaded { retry_after_seconds: seconds.unwrap_or(u32::MAX) }
    }
}

impl From<ReadError> for WriteError {
    fn from(error: ReadError) -> Self {
        match error {
            // Nothing was sent to the store yet when a plan reads.
            ReadError::Timeout => Self::Unavailable("timed out waiting for a fresh state".into()),
            ReadError::Gone => Self::Gone,
            ReadError::Overloaded(why) => why.into(),
            ReadError::Storage(error) => error.into(),
            ReadError::Unreadable(why) => PlanError::from(why).into(),
        }
    }
}

impl From<Unreadable> for WriteError {
    fn from(error: Unreadable) -> Self {
        Self::Plan(error.into())
    }
}

/// The reason why a watch ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The revision to start from, or to go on from, has left the history: the client lists again.
    #[error("too old resource version: {requested} ({oldest})")]
    Expired {
        /// The revision at which the watch wanted to go on.
        requested: Revision,
        /// The oldest revision it could have.
        oldest: Revision,
    },
    /// The type or its version is not served any more.
    #[error("the type is not served any more")]
    Gone,
    /// The store could not say.
    #[error(transparent)]
    Storage(StorageError),
}

/// Refuses to write an object that another server stored, if that would drop fields unknown here.
pub(crate) fn refuse_loss(current: &StoredObject) -> Result<(), PlanError> {
    let Some(fields) = current.would_lose() else { return Ok(()) };
    Err(PlanError::WouldLose { name: current.name().to_owned(), fields: fields.to_owned() })
}

//! The failures of a read or a write of an object, by the caller's reaction.

use std::error::Error;
use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_storage_model::{Applied, Revision, StorageError};

/// The reason why an object, or a list, could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The deadline passed before a fresh enough state was at hand.
    #[error("timed out waiting for a fresh state")]
    Timeout,
    /// The type is not registered any more.
    #[error("the type is not registered any more")]
    Gone,
    /// The store could not say.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The stored bytes are no object.
    #[error(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision={revision}: {why}"
    )]
    Corrupt {
        /// Its storage key.
        key: String,
        /// The revision that wrote them.
        revision: Revision,
        /// The reason.
        why: String,
    },
    /// The stored bytes can't be served in the version asked for.
    #[error("{0}")]
    Undecodable(String),
}

/// A field that somebody else manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldConflict {
    /// The text, which names the manager that has the field.
    pub message: String,
    /// Its path: `.spec.replicas`.
    pub field: String,
}

/// An error of a crate above, carried through a plan.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub struct Refusal(Arc<dyn Error + Send + Sync>);

impl Refusal {
    /// Wraps an error.
    #[must_use]
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// The wrapped error, if it has this type.
    #[must_use]
    pub fn get<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

/// Errors of the same text are equal.
impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

/// The reason why an object was not written. Unless the variant says otherwise, it certainly was not.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WriteError {
    /// There is no such object.
    #[error("{name:?} not found")]
    NotFound {
        /// Its name.
        name: String,
    },
    /// The namespace does not exist.
    #[error("namespace {name:?} not found")]
    NamespaceNotFound {
        /// Its name.
        name: String,
    },
    /// The namespace is being deleted, so nothing is created in it.
    #[error("namespace {namespace:?} is being terminated")]
    NamespaceTerminating {
        /// The namespace.
        namespace: String,
        /// The name of the object.
        name: String,
    },
    /// There is an object of that name already.
    #[error("{name:?} already exists")]
    AlreadyExists {
        /// Its name.
        name: String,
        /// The name was made from generateName: the client may just try again.
        generated: bool,
        /// It is being deleted.
        deleting: bool,
    },
    /// The object is not as the client thinks: changed since, or a precondition does not hold.
    #[error("{name:?}: {message}")]
    Conflict {
        /// Its name.
        name: String,
        /// The condition that does not hold.
        message: String,
    },
    /// An apply would change fields that others manage.
    #[error("{message}")]
    ApplyConflict {
        /// As upstream says it.
        message: String,
        /// The fields, and their managers.
        causes: Vec<FieldConflict>,
    },
    /// The object is not the one that a delete is meant for.
    #[error("{name:?}: {message}")]
    Precondition {
        /// Its name.
        name: String,
        /// The condition that does not hold.
        message: String,
    },
    /// The type has no unconditional updates, and this update names no resourceVersion.
    #[error("{name:?}: metadata.resourceVersion must be specified for an update")]
    NoRevision {
        /// Its name.
        name: String,
    },
    /// The object breaks rules.
    #[error("{name:?} is invalid")]
    Invalid {
        /// Its name.
        name: String,
        /// The errors, with the paths of the fields.
        errors: ErrorList,
    },
    /// The request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// Not allowed, whatever the object.
    #[error("{message}")]
    Forbidden {
        /// The object's name; may be empty.
        name: String,
        /// Why.
        message: String,
    },
    /// The object, encoded, is larger than the store takes.
    #[error("an object of {bytes} bytes is larger than the limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The object is larger than the server behind the store takes; in its words.
    #[error("{0}")]
    RequestTooLarge(String),
    /// The caller's own error, carried through: it can't say what it wants of the stored object.
    #[error(transparent)]
    Caller(Refusal),
    /// The stored bytes are no object.
    #[error("{0}")]
    Corrupt(String),
    /// The stored bytes have fields that are not known here, and would lose them: of an object that another API server
    /// stored.
    #[error(
        "{name:?} was stored by another server with fields that are not known here ({fields}); it is left as it is, lest they are lost"
    )]
    WouldLose {
        /// Its name.
        name: String,
        /// The fields.
        fields: String,
    },
    /// A bug, or damage: this should not happen.
    #[error("{0}")]
    Internal(String),
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
            StorageError::TooLarge { bytes, limit, .. } => Self::TooLarge { bytes, limit },
            StorageError::RequestTooLarge { .. } => Self::RequestTooLarge(error.to_string()),
            StorageError::ReadOnly { .. } | StorageError::Unavailable { .. } => {
                Self::Unavailable(error.to_string())
            }
            StorageError::Compacted { .. } | StorageError::Future { .. } | StorageError::Corrupt(_) => {
                Self::Internal(error.to_string())
            }
        }
    }
}

impl From<ReadError> for WriteError {
    fn from(error: ReadError) -> Self {
        match error {
            // Nothing was sent to the store yet when a plan reads.
            ReadError::Timeout => Self::Unavailable("timed out waiting for a fresh state".into()),
            ReadError::Gone => Self::Gone,
            ReadError::Storage(error) => error.into(),
            error @ ReadError::Corrupt { .. } => Self::Corrupt(error.to_string()),
            ReadError::Undecodable(message) => Self::Internal(message),
        }
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

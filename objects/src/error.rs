//! The reasons for which objects can't be read or written as a client wants, by the caller's reaction.

use std::error::Error;
use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_storage_model::Revision;

use crate::admission::AdmissionRefusal;

/// The reason why stored bytes can't be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// They are no object, or one that has no form in the version asked for.
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
    /// Nothing of the type can be served in the version asked for.
    #[error("{0}")]
    Undecodable(String),
}

impl Unreadable {
    /// The text for a request of one object: there upstream's keys lack the prefix of all (apiserver `pkg/storage/etcd3/store.go`,
    /// 1.37).
    #[must_use]
    pub fn of_one(&self) -> String {
        self.to_string().replacen("Key: /registry/", "Key: /", 1)
    }
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

/// The reason why a write can't be planned.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
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
    /// A webhook refuses it, or its answer is missing.
    #[error("{0:?}")]
    Refused(Box<AdmissionRefusal>),
    /// The caller's own error, carried through: it can't say what it wants of the stored object.
    #[error(transparent)]
    Caller(Refusal),
    /// The stored bytes are no object.
    #[error("{0}")]
    Corrupt(String),
    /// The stored bytes have fields that are not known here, and would lose them: of an object that another API server
    /// stored.
    #[error(
        "{name:?} was stored by another server with fields that are not known here ({fields}); a write would lose them, so the object is left unchanged"
    )]
    WouldLose {
        /// Its name.
        name: String,
        /// The fields.
        fields: String,
    },
    /// Nothing is left of the addresses or ports that the object needs, or it cannot have the one that it asks for.
    #[error("{0}")]
    Unallocated(String),
    /// A bug, or damage: this should not happen.
    #[error("{0}")]
    Internal(String),
}

impl From<Unreadable> for PlanError {
    fn from(error: Unreadable) -> Self {
        match error {
            Unreadable::Corrupt { revision, why, .. } => {
                Self::Internal(format!("object not decodable revision={revision}: {why}"))
            }
            Unreadable::Undecodable(message) => Self::Internal(message),
        }
    }
}

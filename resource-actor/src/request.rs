//! The options of a write, and its outcome.

use std::sync::Arc;

use kindom_actor_kit::{Deadline, Room};
use kindom_api::{User, Value};
use kindom_storage::{Compare, Revision};

use crate::ResourceHandle;
use crate::admission::{AskedAdmission, OwnPlugins};
use crate::error::WriteError;
use crate::explanation::Explanation;
use crate::quota::Quotas;
use kindom_objects::{PlanError, RuleContext, SERVER, StoredObject, Subresource, TypeSpec};

/// The settings of every write of a request.
#[derive(Clone)]
pub struct WriteOptions {
    /// The time at which the client gives up.
    pub deadline: Deadline,
    /// Do everything but store it.
    pub dry_run: bool,
    /// A dry run of which it is known that it would be refused: nobody judges it, or is asked about it.
    pub is_trial: bool,
    /// The largest object, encoded, in bytes.
    pub object_bytes_max: usize,
    /// The type of namespaces; `None` for a store without them.
    pub namespaces: Option<ResourceHandle>,
    /// The quotas that bound this write, if any do.
    pub quotas: Option<Quotas>,
    /// The admission plugins that are rules of kinds; `None` for writes of the server itself.
    pub plugins: Option<OwnPlugins>,
    /// The webhooks that change and judge this write; `None` for those of the server itself.
    pub admission: Option<AskedAdmission>,
    /// The user who asks.
    pub user: Arc<User>,
    /// The manager of the fields that the write sets (KEP-555); at most 128 bytes.
    pub manager: String,
    /// The state that the first plan is made on.
    pub knowledge: Knowledge,
    /// The bytes of the request's body.
    pub bytes: usize,
    /// The memory for what is kept of it while others are asked; `None` for writes of the server itself.
    pub room: Option<Room>,
    /// Records the stages of the write; `None` where nobody has it explained.
    pub explanation: Option<Arc<Explanation>>,
    /// One more condition of a commit. If it does not hold, the write is a conflict and is not planned again.
    pub fence: Option<Compare>,
}

impl WriteOptions {
    /// Those of a write by the server itself, of an object of at most so many bytes, at cluster scope or in a namespace that
    /// need not exist.
    #[must_use]
    pub fn by_server(deadline: Deadline, object_bytes_max: usize) -> Self {
        Self {
            deadline,
            dry_run: false,
            is_trial: false,
            object_bytes_max,
            namespaces: None,
            quotas: None,
            plugins: None,
            admission: None,
            user: Arc::new(User::api_server()),
            manager: SERVER.to_owned(),
            knowledge: Knowledge::Latest,
            bytes: 0,
            room: None,
            explanation: None,
            fence: None,
        }
    }

    /// Tells the record of the write's stages, if there is one.
    pub(crate) fn record(&self, tell: impl FnOnce(&Explanation)) {
        if let Some(explanation) = &self.explanation {
            tell(explanation);
        }
    }

    /// # Errors
    /// [`WriteError::Unavailable`] once the deadline has passed.
    pub(crate) fn refuse_if_late(&self) -> Result<(), WriteError> {
        match self.deadline.passed() {
            true => Err(WriteError::Unavailable("timed out: the object kept changing".into())),
            false => Ok(()),
        }
    }
}

/// The state of the store that a plan is made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// The state at this revision, which was read from the store after the request came, or later.
    AsOf(Revision),
    /// The present state of the store: the store is asked.
    Latest,
    /// The state known here, types and namespaces included, however old: a guess. It saves a round trip, as the store
    /// commits a plan only if the state that it was made on still holds; any other outcome proves nothing
    /// ([`WriteError::Guessed`], but see [`is_conclusive`]).
    Guess,
}

/// Returns `true` if the outcome of a write may be reported although the write was planned on possibly stale state: the
/// store has committed it, or could not be asked.
#[must_use]
pub fn is_conclusive(outcome: &Result<Written, WriteError>) -> bool {
    match outcome {
        Ok(written) => written.outcome.is_committed(),
        Err(error) => matches!(
            error,
            WriteError::Unknown
                | WriteError::Busy
                | WriteError::Overloaded { .. }
                | WriteError::Unavailable(_)
        ),
    }
}

/// A write that succeeded.
pub struct Written {
    /// The object as stored (a dry run: as it would be). For a deleted one its last state.
    pub object: Arc<StoredObject>,
    /// The type it was written under.
    pub spec: Arc<TypeSpec>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a write for its object; in a dry run, the outcome that it would have had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is new. In a dry run it has no resourceVersion.
    Created {
        /// Nothing was stored.
        dry_run: bool,
    },
    /// It has a new state, which may be the mark of its deletion.
    Updated {
        /// Nothing was stored.
        dry_run: bool,
    },
    /// It was as desired already; nothing was stored.
    Unchanged,
    /// It is gone.
    Deleted {
        /// Nothing was stored.
        dry_run: bool,
    },
}

impl Outcome {
    /// Returns `true` if the store has committed something.
    #[must_use]
    pub fn is_committed(self) -> bool {
        match self {
            Self::Created { dry_run } | Self::Updated { dry_run } | Self::Deleted { dry_run } => !dry_run,
            Self::Unchanged => false,
        }
    }

    /// Returns `true` if the object is gone, or would be.
    #[must_use]
    pub fn is_deleted(self) -> bool {
        matches!(self, Self::Deleted { .. })
    }
}

/// The place of an object, and the version in which the client sees it.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The version of the request.
    pub version: &'a str,
    /// The subresource; none for the object itself.
    pub subresource: Option<Subresource>,
    /// The namespace; none at cluster scope.
    pub namespace: Option<&'a str>,
    /// The name; empty for a create.
    pub name: &'a str,
}

/// Makes the object that a client wants, again for every plan: from the rules in force, and for updates from the stored
/// object. It gets `null` if nothing is stored; except in a create, only its error counts then.
pub type Wanted<'a> = dyn FnMut(&RuleContext<'_>, &Value) -> Result<Value, PlanError> + Send + 'a;

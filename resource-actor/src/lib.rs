//! One registered type: its objects, their changes, and the only way to write them.
//!
//! **Owns** a type's storage prefix, its snapshot, its event log and its watches' cursors, and the driver that plans
//! and commits its writes.
//!
//! **Messages:** `CommitObject`, from [`ResourceHandle`]: a planned transaction, admitted in one turn.
//!
//! # Invariants
//! - Snapshot and log change only by folding the commit stream, in revision order; no request writes them.
//! - A read enters no mailbox, and sees every write that was answered before it.
//! - An admitted commit outlives its client and its actor; a commit that was not admitted may be sent again.
//! - A successor trusts nothing that its predecessor left: it loads the type from storage, and watches that were behind
//!   go on through the store's history.
//!
//! # Sources
//! apiserver `pkg/registry/generic/registry/store.go`, `pkg/registry/rest`, `pkg/storage/cacher` (1.37), for behaviour.

mod access;
mod actor;
mod admission;
mod admitting;
mod apply;
mod conversion;
mod cost;
mod driver;
mod error;
mod event_limits;
mod event_log;
mod explanation;
mod feed;
mod handle;
mod limits;
mod live;
mod maintenance;
mod messages;
mod pages;
mod panics;
mod past;
mod permissions;
mod plugins;
pub mod quota;
mod request;
mod rules;
mod scale;
mod snapshot;
#[cfg(feature = "testing")]
pub mod testing;
mod turns;
mod watch;
mod webhooks;
mod write;

pub use admission::{
    AccessDecider, Admission, AskedAdmission, AuditTrail, ConfiguringTypes, Disabled, FindKind, OwnPlugins,
    PolicyTypes, SentOptions,
};
pub use apply::{Apply, Check as ApplyCheck};
pub use error::{ReadError, WatchError, WriteError};
pub use event_limits::{EventLimit, EventLimitType, EventLimits};
pub(crate) use event_log::EventLog;
pub use event_log::ObjectEvent;
pub use explanation::Explanation;
pub use feed::{Batch, Batches, Feed};
pub use handle::{Deps, Freshness, ResourceHandle};
pub use maintenance::{Drained, Rewritten};
pub use pages::{Page, Pages};
pub use permissions::{Permission, Permissions, RoleKinds};
pub use request::{Knowledge, Outcome, Target, Wanted, WriteOptions, Written, is_conclusive};
pub use snapshot::Snapshot;
pub use turns::WriteTurns;
pub use watch::WatchCursor;
pub use webhooks::{
    CountedChange, CountedFinding, EndedCall, EndedReview, NoWebhooks, ReviewFailure, Webhooks,
};
pub use write::Write;

//! The bounds of a type's actor.

use std::time::Duration;

/// The most events that a type's log keeps for its watches; older ones are read from the store's history.
pub(crate) const EVENT_LOG_EVENTS_MAX: usize = 16_384;

/// The most bytes of objects that a type's log keeps alive.
pub(crate) const EVENT_LOG_BYTES_MAX: usize = 16 << 20;

/// The most commits that may wait for one type's actor; more are answered 429.
pub(crate) const COMMITS_IN_FLIGHT_MAX: usize = 1024;

/// The most changes that are taken back to show a past state; older states are read from the store.
pub(crate) const PAST_EVENTS_MAX: usize = 4096;

/// The most commits of the stream that one turn folds: a turn stays under 500 µs.
pub(crate) const FOLD_PER_TURN_MAX: usize = 64;

/// A turn that has so many bytes of objects to read folds no more.
pub(crate) const FOLD_BYTES_PER_TURN_MAX: usize = 256 << 10;

/// The most operations, and the most compares, that etcd takes in one transaction (`--max-txn-ops`).
pub(crate) const TXN_OPS_MAX: usize = 128;

/// The longest that a write waits to see its own revision in the snapshot. It is durable by then, so it is answered as done
/// even if this runs out.
pub(crate) const READ_YOUR_WRITE_MAX: Duration = Duration::from_secs(5);

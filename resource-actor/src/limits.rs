//! The bounds of a type's actor.

use std::time::Duration;

/// How many events a type's log keeps for its watches; older ones are read from the store's history.
pub(crate) const EVENT_LOG_EVENTS_MAX: usize = 16_384;

/// How many bytes of objects a type's log keeps alive.
pub(crate) const EVENT_LOG_BYTES_MAX: usize = 16 << 20;

/// How many commits may wait for one type's actor; more are answered 429.
pub(crate) const COMMITS_IN_FLIGHT_MAX: usize = 1024;

/// So many changes are taken back to show a state that is past; for what is older the store is read.
pub(crate) const PAST_EVENTS_MAX: usize = 4096;

/// How many commits of the stream one turn folds: a turn stays under 500 µs.
pub(crate) const FOLD_PER_TURN_MAX: usize = 64;

/// A turn that has so many bytes of objects to read folds no more.
pub(crate) const FOLD_BYTES_PER_TURN_MAX: usize = 256 << 10;

/// How many operations, and how many compares, etcd takes in one transaction (`--max-txn-ops`).
pub(crate) const TXN_OPS_MAX: usize = 128;

/// How long a write may wait to see its own revision in the snapshot. It is durable by then, so it is answered as done
/// even if this runs out.
pub(crate) const READ_YOUR_WRITE_MAX: Duration = Duration::from_secs(5);

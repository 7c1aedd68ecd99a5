//! The choice of the replica that does the work which one can do for all: judging names, draining, rewriting.
//!
//! **For economy only.** Every step of that work is a guarded transaction, so two leaders at once, or one that wakes from
//! a pause of minutes and still thinks that it leads, do no harm. Nothing waits for a leader for ever: a lease that is not
//! renewed for [`EXPIRES`] is taken over.
//!
//! **Flow.** The lease is one key. Its holder rewrites it every [`RENEWS`]; the others read it every [`LOOKS`], and a
//! replica that has seen the same revision for [`EXPIRES`], by its own clock, writes it over that revision. So no clocks are
//! compared. A holder that ends in order deletes it.

mod handle;
mod keeper;

use std::time::Duration;

pub use handle::LeaderHandle;

/// The time between two renewals by the holder of the lease.
const RENEWS: Duration = Duration::from_secs(3);
/// The time between two reads by the other replicas.
const LOOKS: Duration = Duration::from_secs(2);
/// A lease that stood unchanged for so long is free; a holder that could not renew it for so long does not lead.
const EXPIRES: Duration = Duration::from_secs(10);
/// The longest that one call of the store may take.
const STEP: Duration = Duration::from_secs(3);

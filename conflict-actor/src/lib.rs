//! Turns verdicts on names into accepted names and conditions, the only writer of both.
//!
//! **Owns** `status.acceptedNames`, and the conditions `NamesAccepted` and `Established`, of every registration; and the
//! claim ledger.
//!
//! **Messages:** none; the registry wakes it, and it asks the registry for due verdicts.
//!
//! # Invariants
//! - A reconciler: it takes no input, so it loses nothing when it falls.
//! - A claim is accepted in one transaction with the group's ledger key, guarded by the registration's revision and by
//!   "no claim of this group was accepted after what the verdict took into account". So two writers, on one replica or
//!   several, never accept the same name (design, "A registration").
//! - Releasing a name writes no ledger: it only makes more names free than a verdict knew of.

mod conditions;
mod reconciler;

pub use reconciler::start;

//! Brings the objects of a type whose storage version changed to that version, and then updates `status.storedVersions`, so
//! that the former versions can be dropped from the spec.
//!
//! # The proof
//! Let `R` be a revision of the registration, and `S` its storage version. An object is only written under the
//! registration's revision that the write was planned with. So every object that any replica writes after `R`, for as long
//! as the spec is that of `R`, is stored in `S`; and a pass that reads every key at or after `R` and rewrites the objects
//! stored in another version leaves none in another version. `storedVersions` is then cut to `S` by a compare-and-swap on a
//! registration of the same uid and generation, that is, with the same spec. If the spec changed, the pass begins again.
//!
//! A pass begins once the registration has stayed as it is for a while ([`SETTLE`]), by what this process has seen: the
//! rewrite is not urgent, and a client that reads and then updates should not lose a race against it.
//!
//! A type whose conversion is a webhook is left alone, and so is a frozen one until it is released.

mod pass;
mod reconciler;

pub use reconciler::{SETTLE, start};

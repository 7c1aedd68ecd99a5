//! Garbage collection: what lost its owners goes, and an owner that is deleted in the foreground waits for what it owns (T-09,
//! T-55).
//!
//! One loop reads the whole store once, follows its commits, and knows from them who names whom as an owner ([`graph`]). That
//! only says what to look at: whether an owner is there is read from the store, after the commit that raised the question, and
//! every write carries the uid and the revision that it was decided on. A uid is given once, so an owner that is not there never
//! will be. An owner of a kind that is not served here is not judged, and nothing that it owns goes. Behind another server an owner of a
//! built-in kind that is not here may be there, and counts as one that is.
//!
//! Source: `pkg/controller/garbagecollector` (1.37).

mod collector;
mod graph;
mod owners;
mod todo;

pub use collector::start;

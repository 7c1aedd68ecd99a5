//! The registry over a store in memory: routes, handles, and what becomes of them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, missing_docs, reason = "tests")]

mod handles;
mod leaders;
mod rules;
mod sweep;
mod world;

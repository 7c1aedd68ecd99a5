//! Supervision, kills, asks and stops, each through the public API.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, missing_docs, reason = "tests")]

mod asks;
mod kill;
mod probe;
mod reconciler;
mod restart;
mod stop;
mod threads;

//! Every parser and every patch, on mutants of real inputs: no panic, bounded memory, a small stack.
//!
//! What a crate keeps to itself is reached through what it offers, or fuzzed beside it (`http/src/fuzz.rs`,
//! `server/src/fuzz.rs`).
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod api;
mod cel;
mod codec;
mod formats;
mod http;
mod managed_fields;
mod schema;
mod seeds;
mod storage;

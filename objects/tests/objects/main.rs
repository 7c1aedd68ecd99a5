//! Built-in kinds against what upstream's types make of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs, reason = "tests")]

// The comparison is the schema crate's.
#[path = "../../../schema/tests/schema/comparison.rs"]
mod comparison;
mod conversions;
mod declared;

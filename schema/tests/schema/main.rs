//! Black-box tests of the crate.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs,
    reason = "tests"
)]

mod comparison;
mod corpus;
mod corpus_folder;
mod differential;
mod gnostic;
mod json_schema;
mod merge;
mod openapi;
mod properties;
mod recorded;
mod remote;

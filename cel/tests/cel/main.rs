//! Black-box tests of the crate.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs,
    reason = "tests"
)]

mod bounds;
mod check;
mod evaluate;
mod notation;
mod parse;
mod schema;
mod texts;

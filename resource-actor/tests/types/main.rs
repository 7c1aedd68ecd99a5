//! One type over a store in memory, on one thread in virtual time unless a test says otherwise.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs,
    reason = "tests"
)]

mod damage;
mod guards;
mod kills;
mod remote;
mod schemas;
mod sleep;
mod stages;
mod turns;
mod watches;
mod world;
mod writes;

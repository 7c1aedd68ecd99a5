//! The field manager by tables and properties. `integration/expectations` has the real server's answers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod applies;
mod properties;
mod support;
mod updates;

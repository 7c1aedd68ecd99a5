//! The field manager by tables and properties. What it is held to by the real server is in `integration/expectations`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod applies;
mod properties;
mod support;
mod updates;

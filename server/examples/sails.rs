//! A server with a kind of its own: sloops, with defaults, rules and a form of their own.
//!
//! `cargo run --example sails -- serve --in-memory` serves it; `kubectl explain sloop` knows it.

use std::process::ExitCode;

use kindom_server::{Group, Server};

#[path = "sails/sloop.rs"]
mod sloop;

fn main() -> ExitCode {
    Server::from_args().group(Group::new().kind::<sloop::Sloop>()).run()
}

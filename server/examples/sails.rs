//! A server with a kind of its own: sloops, with defaults, rules and a form of their own, in two versions, and a subresource.
//!
//! `cargo run --example sails -- serve --in-memory` serves it; `kubectl explain sloop` knows it.

use std::process::ExitCode;

use kindom_server::{Group, Server, Versions};

#[path = "sails/hoist.rs"]
mod hoist;
#[path = "sails/sloop.rs"]
mod sloop;
#[path = "sails/v1alpha1.rs"]
mod v1alpha1;

fn sloops() -> Versions<sloop::Sloop> {
    Versions::stored_as::<sloop::Sloop>().with::<v1alpha1::Sloop>().subresource(
        "hoist",
        &["create", "get"],
        hoist::hoist,
    )
}

fn main() -> ExitCode {
    Server::from_args().group(Group::new().versions(sloops())).run()
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_versions_hold_the_same() {
        super::sloops().round_trips(1000, 1).unwrap_or_else(|loss| panic!("{loss}"));
    }
}

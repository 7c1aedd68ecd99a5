//! Claims on names from end to end: registry and conflict actor over a store in memory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, missing_docs, reason = "tests")]

mod claims;
mod races;
#[path = "../../../registry-actor/tests/registry/world.rs"]
mod world;

use std::future::Future;

use world::World;

pub(crate) const LEDGER: &str = "/kindom/registry/claims/";

/// A world with a conflict actor.
pub(crate) fn run<F: Future<Output = ()>>(seed: u64, pauses: u64, test: impl FnOnce(World) -> F) {
    world::run(seed, pauses, Vec::new(), |world| async move {
        kindom_conflict_actor::start(&world.registry, &world.registrations, LEDGER).unwrap();
        test(world).await;
    });
}

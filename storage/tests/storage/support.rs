//! Helpers that several of the tests use.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// A small random number generator: the same seed, the same numbers.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.next_u64() % bound as u64).unwrap()
    }
}

/// The number of cases to try: more under `./test --full`.
pub(crate) fn cases(quick: u64, full: u64) -> u64 {
    if std::env::var_os("KINDOM_TEST_FULL").is_some() { full } else { quick }
}

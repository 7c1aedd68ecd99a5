//! What several of the tests need.

/// A small random number generator: the same seed, the same numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

/// How many cases to try: more under `./test --full`.
pub(crate) fn cases(quick: u64, full: u64) -> u64 {
    if std::env::var_os("KINDOM_TEST_FULL").is_some() { full } else { quick }
}

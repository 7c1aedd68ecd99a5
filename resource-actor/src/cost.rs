//! What the writes of a type cost a processor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kindom_actor_kit::thread_time;

/// The part of a write's cost that does not depend on its size, in bytes that would cost as much.
const FIXED_BYTES: u64 = 2048;
/// Picoseconds for each byte, of a type of which nothing is known.
const UNKNOWN: u64 = 100_000;
/// Nanoseconds for each byte of a registration that is compiled.
const COMPILED: u64 = 300;

/// The dearest of a type's latest writes, by byte.
pub(crate) struct Cost(AtomicU64);

impl Default for Cost {
    fn default() -> Self {
        Self(AtomicU64::new(UNKNOWN))
    }
}

impl Cost {
    /// The cost of a write of so many bytes: the body, and the object that it replaces.
    pub(crate) fn estimate(&self, bytes: usize) -> Duration {
        let picoseconds = self.0.load(Ordering::Relaxed).saturating_mul(bytes as u64 + FIXED_BYTES);
        Duration::from_nanos(picoseconds / 1000)
    }

    /// Learns what a write took. A dear one counts at once, and cheap ones bring the estimate down slowly.
    fn learn(&self, bytes: usize, took: Duration) {
        let picoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000);
        let new = picoseconds / (bytes as u64 + FIXED_BYTES);
        let known = self.0.load(Ordering::Relaxed);
        let next = if new > known { new } else { known - (known - new) / 8 };
        self.0.store(next, Ordering::Relaxed);
    }
}

/// The cost of compiling a schema that stands in a registration of so many bytes.
pub(crate) fn compile(bytes: usize) -> Duration {
    Duration::from_nanos((bytes as u64).saturating_mul(COMPILED))
}

/// The processor's time that one plan has taken; the type learns it at the end, whatever that is.
pub(crate) struct Spent<'a> {
    cost: &'a Cost,
    bytes: usize,
    took: Duration,
}

impl<'a> Spent<'a> {
    pub(crate) fn new(cost: &'a Cost, bytes: usize) -> Self {
        Self { cost, bytes, took: Duration::ZERO }
    }

    /// Adds the time of a step.
    pub(crate) fn on<T>(&mut self, step: impl FnOnce() -> T) -> T {
        let began = thread_time();
        let result = step();
        self.took += thread_time().saturating_sub(began);
        result
    }
}

impl Drop for Spent<'_> {
    fn drop(&mut self) {
        self.cost.learn(self.bytes, self.took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dear_write_counts_at_once_and_is_forgotten_slowly() {
        let cost = Cost::default();
        assert_eq!(cost.estimate(2000).as_micros(), 404);
        cost.learn(2000, Duration::from_millis(500));
        assert!(cost.estimate(2000) > Duration::from_millis(499));
        assert!(cost.estimate(20_000) > Duration::from_secs(2), "more bytes cost more");
        cost.learn(2000, Duration::from_micros(100));
        assert!(cost.estimate(2000) > Duration::from_millis(430));
        for _ in 0..100 {
            cost.learn(2000, Duration::from_micros(100));
        }
        assert!(cost.estimate(2000) < Duration::from_micros(110));
        cost.learn(usize::MAX / 2, Duration::MAX);
        assert!(cost.estimate(usize::MAX / 2) > Duration::ZERO);
    }
}

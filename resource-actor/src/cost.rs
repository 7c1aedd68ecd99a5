//! What the writes of a type cost a processor.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kindom_actor_kit::{DEAR, thread_time};
use tokio::time::Instant;

/// The part of a write's cost that does not depend on its size, in bytes that would cost as much.
const FIXED_BYTES: u64 = 2048;
/// Picoseconds for each byte, of a type of which nothing is known.
const UNKNOWN: u64 = 100_000;
/// Nanoseconds for each byte of a registration that is compiled.
const COMPILED: u64 = 300;

/// Nanoseconds for the rules of a webhook, which are looked at several times.
const RULES: u64 = 500;

/// Nanoseconds for each byte of an object that is parsed.
const PARSED: u64 = 10;

/// The dearest of a type's latest writes, by byte.
pub(crate) struct Cost {
    /// Picoseconds for each byte.
    each: AtomicU64,
    /// The clock on the wall says so; perhaps the thread only had to wait for a processor.
    doubtful: AtomicBool,
}

/// The clock that a step is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The time that passed: nothing if it is short, and too much if the thread had to wait.
    Wall,
    /// The thread's own time, which costs a call into the kernel.
    Thread,
}

impl Default for Cost {
    fn default() -> Self {
        Self { each: AtomicU64::new(UNKNOWN), doubtful: AtomicBool::new(false) }
    }
}

impl Cost {
    /// Of expressions that nobody has evaluated yet: however small the objects are, it takes some evaluations to believe that they are
    /// cheap.
    pub(crate) fn of_expressions() -> Self {
        let dear = u64::try_from(DEAR.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000);
        Self { each: AtomicU64::new(dear.div_ceil(FIXED_BYTES)), ..Self::default() }
    }

    /// The cost of a write of so many bytes: the body, and the object that it replaces.
    pub(crate) fn estimate(&self, bytes: usize) -> Duration {
        let picoseconds = self.each.load(Ordering::Relaxed).saturating_mul(bytes as u64 + FIXED_BYTES);
        Duration::from_nanos(picoseconds / 1000)
    }

    /// The measure of the next write of so many bytes. What is thought to be dear is worth an exact one.
    fn measure(&self, bytes: usize) -> By {
        if self.estimate(bytes) < DEAR { By::Wall } else { By::Thread }
    }

    /// Learns what a write took. A dear one counts at once, and cheap ones bring the estimate down slowly; but what only the
    /// clock on the wall said gives way to the first exact measure. A write that is not `whole` (it was refused half-way, or was
    /// a delete) does not say that writes are cheap.
    fn learn(&self, bytes: usize, took: Duration, by: By, whole: bool) {
        let picoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000);
        let new = picoseconds / (bytes as u64 + FIXED_BYTES);
        let known = self.each.load(Ordering::Relaxed);
        if new <= known && !whole {
            return;
        }
        let replaces = by == By::Thread && self.doubtful.swap(false, Ordering::Relaxed);
        let next = if new > known || replaces { new } else { known - (known - new) / 8 };
        self.each.store(next, Ordering::Relaxed);
        if by == By::Wall && took >= DEAR {
            self.doubtful.store(true, Ordering::Relaxed);
        }
    }
}

/// The cost of compiling a schema that stands in a registration of so many bytes.
pub(crate) fn compile(bytes: usize) -> Duration {
    Duration::from_nanos((bytes as u64).saturating_mul(COMPILED))
}

/// The cost of looking at the rules and selectors of so many webhooks, whose configurations have so many bytes.
pub(crate) fn rules(webhooks: usize, bytes: usize) -> Duration {
    Duration::from_nanos((webhooks as u64).saturating_mul(RULES).saturating_add(bytes as u64))
}

/// So many things, each of which costs so many nanoseconds.
pub(crate) fn each(nanoseconds: u64, count: usize) -> Duration {
    Duration::from_nanos(nanoseconds.saturating_mul(count as u64))
}

/// The cost of parsing stored objects of so many bytes.
pub(crate) fn parse(bytes: usize) -> Duration {
    Duration::from_nanos((bytes as u64).saturating_mul(PARSED))
}

/// The processor's time that one plan has taken; the type learns it at the end, whatever that is.
pub(crate) struct Spent<'a> {
    cost: &'a Cost,
    bytes: usize,
    by: By,
    took: Duration,
    is_whole: bool,
    is_learned: bool,
}

impl<'a> Spent<'a> {
    pub(crate) fn new(cost: &'a Cost, bytes: usize) -> Self {
        Self { cost, bytes, by: cost.measure(bytes), took: Duration::ZERO, is_whole: false, is_learned: true }
    }

    /// The write turned out to be of so many more bytes.
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The cost of a write of as many bytes.
    pub(crate) fn estimate(&self) -> Duration {
        self.cost.estimate(self.bytes)
    }

    /// It says nothing about other writes.
    pub(crate) fn unlearned(mut self) -> Self {
        self.is_learned = false;
        self
    }

    /// Every step of a write is done.
    pub(crate) fn finished(&mut self) {
        self.is_whole = true;
    }

    /// Adds the time of a step.
    pub(crate) fn on<T>(&mut self, step: impl FnOnce() -> T) -> T {
        match self.by {
            By::Wall => {
                let began = Instant::now();
                let result = step();
                self.took += began.elapsed();
                result
            }
            By::Thread => {
                let began = thread_time();
                let result = step();
                self.took += thread_time().saturating_sub(began);
                result
            }
        }
    }
}

impl Drop for Spent<'_> {
    fn drop(&mut self) {
        if self.is_learned {
            self.cost.learn(self.bytes, self.took, self.by, self.is_whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dear_write_counts_at_once_and_is_forgotten_slowly() {
        let cost = Cost::default();
        assert_eq!(cost.estimate(2000).as_micros(), 404);
        cost.learn(2000, Duration::from_millis(500), By::Thread, true);
        assert!(cost.estimate(2000) > Duration::from_millis(499));
        assert!(cost.estimate(20_000) > Duration::from_secs(2), "more bytes cost more");
        cost.learn(2000, Duration::from_micros(100), By::Thread, true);
        assert!(cost.estimate(2000) > Duration::from_millis(430));
        for _ in 0..100 {
            cost.learn(2000, Duration::from_micros(100), By::Thread, true);
        }
        assert!(cost.estimate(2000) < Duration::from_micros(110));
        cost.learn(usize::MAX / 2, Duration::MAX, By::Thread, true);
        assert!(cost.estimate(usize::MAX / 2) > Duration::ZERO);
    }

    #[test]
    fn a_thread_that_waited_is_no_dear_write() {
        let cost = Cost::default();
        assert_eq!(cost.measure(2000), By::Wall);
        cost.learn(2000, Duration::from_millis(50), By::Wall, true);
        assert!(cost.estimate(2000) > Duration::from_millis(49), "it counts until it is known better");
        assert_eq!(cost.measure(2000), By::Thread);
        cost.learn(2000, Duration::from_micros(100), By::Thread, true);
        assert!(cost.estimate(2000) < Duration::from_micros(110), "it was the wait");
        assert_eq!(cost.measure(2000), By::Wall);
    }

    #[test]
    fn a_dear_write_is_measured_exactly_from_then_on() {
        let cost = Cost::default();
        cost.learn(2000, Duration::from_millis(50), By::Wall, true);
        cost.learn(2000, Duration::from_millis(40), By::Thread, true);
        cost.learn(2000, Duration::from_micros(100), By::Thread, true);
        assert!(cost.estimate(2000) > Duration::from_millis(30), "once confirmed it is forgotten slowly");
    }

    #[test]
    fn a_refused_write_does_not_say_that_writes_are_cheap() {
        let cost = Cost::default();
        cost.learn(2000, Duration::from_millis(500), By::Thread, true);
        for _ in 0..100 {
            cost.learn(2000, Duration::from_micros(10), By::Thread, false);
        }
        assert!(cost.estimate(2000) > Duration::from_millis(499));
        cost.learn(2000, Duration::from_secs(1), By::Thread, false);
        assert!(cost.estimate(2000) > Duration::from_millis(999), "but that they are dear");
    }
}

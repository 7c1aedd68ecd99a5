//! The times between a call that failed and the next one for the same object.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;

/// The time after the first failure.
const FIRST: Duration = Duration::from_millis(500);
/// The longest time.
const LONGEST: Duration = Duration::from_secs(300);

/// The failures in a row, by object.
pub(crate) struct Delays<K>(Mutex<HashMap<K, u32>>);

impl<K: Eq + Hash> Default for Delays<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Delays<K> {
    /// A call for an object succeeded, or the object has gone.
    pub(crate) fn succeeded(&self, object: &K) {
        self.0.lock().remove(object);
    }

    /// A call for an object failed: the time until the next one, which doubles.
    pub(crate) fn failed(&self, object: K) -> Duration {
        let mut failures = self.0.lock();
        let count = failures.entry(object).or_default();
        let delay = FIRST.saturating_mul(2_u32.saturating_pow(*count)).min(LONGEST);
        *count = count.saturating_add(1);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_take_longer_each_time() {
        let delays = Delays::default();
        let seconds = |object| delays.failed(object).as_secs_f64();
        assert_eq!([(); 4].map(|()| seconds("a")), [0.5, 1.0, 2.0, 4.0]);
        assert_eq!(seconds("b"), 0.5);
        delays.succeeded(&"a");
        assert_eq!(seconds("a"), 0.5);
        for _ in 0..100 {
            seconds("b");
        }
        assert_eq!(seconds("b"), 300.0);
    }
}

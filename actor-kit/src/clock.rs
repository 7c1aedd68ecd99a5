//! Time as a parameter: wall time for timestamps, tokio's time for waiting.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// An actor's source of time.
///
/// Waiting always goes through tokio's clock, so a paused runtime drives every sleep and deadline.
/// Wall time comes from the machine, or, in a simulation, from a fixed start plus tokio's clock.
#[derive(Clone, Debug)]
pub struct Clock(Wall);

#[derive(Clone, Debug)]
enum Wall {
    Machine,
    Virtual { start_ms: u64, start: Instant },
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(Wall::Machine)
    }

    /// A clock whose wall time is `start_ms` (milliseconds since the Unix epoch) now, and moves only
    /// with tokio's clock.
    #[must_use]
    pub fn starting_at(start_ms: u64) -> Self {
        Self(Wall::Virtual { start_ms, start: Instant::now() })
    }

    /// Wall time, in milliseconds since the Unix epoch. May go back when the machine's clock is set.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        self.wall_us() / 1000
    }

    /// The same in microseconds.
    #[expect(clippy::disallowed_methods, reason = "this is the clock that all others are to read")]
    #[must_use]
    pub fn wall_us(&self) -> u64 {
        let elapsed = match &self.0 {
            Wall::Machine => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            Wall::Virtual { start_ms, start } => Duration::from_millis(*start_ms) + start.elapsed(),
        };
        u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
    }

    /// Wall time in whole seconds since the Unix epoch, as a `metav1.Time` holds it.
    #[must_use]
    pub fn unix_seconds(&self) -> i64 {
        i64::try_from(self.wall_ms() / 1000).unwrap_or(i64::MAX)
    }

    /// Monotonic time; never goes back.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::now()
    }

    /// Waits for `duration`. Cancel-safe.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// The moment until which a caller waits for an answer.
///
/// Absolute, so that it can be handed down through several asks without growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// `duration` from now; a duration too long to add is cut to 30 years.
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
        let now = Instant::now();
        Self(now.checked_add(duration.min(FAR)).unwrap_or(now))
    }

    /// The instant itself.
    #[must_use]
    pub fn instant(self) -> Instant {
        self.0
    }

    /// The time left, zero once it has passed.
    #[must_use]
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Returns true if the deadline has passed.
    #[must_use]
    pub fn passed(self) -> bool {
        self.0 <= Instant::now()
    }
}

impl From<Instant> for Deadline {
    fn from(instant: Instant) -> Self {
        Self(instant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation;

    #[test]
    fn virtual_wall_time_moves_with_tokio_only() {
        simulation::run(async {
            let clock = Clock::starting_at(1_700_000_000_000);
            assert_eq!(clock.wall_ms(), 1_700_000_000_000);
            clock.sleep(Duration::from_secs(3600)).await;
            assert_eq!(clock.wall_ms(), 1_700_003_600_000);
            clock.sleep(Duration::from_millis(999)).await;
            assert_eq!(clock.unix_seconds(), 1_700_003_600, "the second is not over yet");
        })
        .unwrap();
    }

    #[test]
    fn the_machine_knows_that_2020_is_over() {
        assert!(Clock::system().wall_ms() > 1_600_000_000_000);
    }

    #[test]
    fn a_deadline_shrinks_and_passes() {
        simulation::run(async {
            let deadline = Deadline::after(Duration::from_secs(2));
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(deadline.remaining(), Duration::from_millis(1500));
            assert!(!deadline.passed());
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(deadline.remaining(), Duration::ZERO);
            assert!(deadline.passed());
            assert!(!Deadline::after(Duration::MAX).passed());
        })
        .unwrap();
    }
}

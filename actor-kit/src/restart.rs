//! The restarts of a fallen actor. Pure: time is an argument.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// The settings by which an actor is supervised.
///
/// The first failure within [`window`](Policy::window) restarts at once; each further one waits
/// twice as long as the one before, from [`backoff`](Policy::backoff) up to
/// [`backoff_max`](Policy::backoff_max), shortened by up to half at random. Once
/// [`budget`](Policy::budget) failures lie within the window the actor is reported as failed and
/// restarts only after the longest wait. Failures that have left the window are forgotten, so an
/// actor that runs well again starts over.
///
/// Choose `window > budget × backoff_max`, else an actor that never comes up leaves the failed
/// state from time to time only because its failures grow old.
///
/// Worked example, with the defaults and without the random part: failures one after another wait
/// 0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000 ms; the eleventh (after 16.35 s) finds ten in
/// the window and is `Failed`; from then on one attempt every 5 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The most asks under way at once; one more gets [`AskError::Busy`](crate::AskError).
    pub mailbox: usize,
    /// The wait before the second restart within the window.
    pub backoff: Duration,
    /// The longest wait.
    pub backoff_max: Duration,
    /// The number of failures within the window that still count as transient.
    pub budget: usize,
    /// The time for which a failure counts.
    pub window: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mailbox: 256,
            backoff: Duration::from_millis(50),
            backoff_max: Duration::from_secs(5),
            budget: 10,
            window: Duration::from_secs(60),
        }
    }
}

/// The failures of one actor that still count.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Oldest first; never longer than the budget.
    recent: VecDeque<Instant>,
}

/// The consequence of a failure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The wait before the restart, without its random part.
    pub(crate) delay: Duration,
    /// The budget is spent: report it.
    pub(crate) exhausted: bool,
}

impl Failures {
    /// Counts a failure that happened `now`. O(budget).
    pub(crate) fn failed(&mut self, now: Instant, policy: &Policy) -> Verdict {
        while self.recent.front().is_some_and(|at| now.saturating_duration_since(*at) >= policy.window) {
            self.recent.pop_front();
        }
        let before = self.recent.len();
        let exhausted = before >= policy.budget;
        self.recent.push_back(now);
        if exhausted {
            self.recent.pop_front();
        }
        let delay = match before {
            _ if exhausted => policy.backoff_max,
            0 => Duration::ZERO,
            // Past 2^20 times the first wait every sensible maximum is reached.
            n => policy.backoff.saturating_mul(1 << (n - 1).min(20)).min(policy.backoff_max),
        };
        Verdict { delay, exhausted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn waits_double_up_to_the_longest_then_the_budget_is_spent() {
        let policy = Policy::default();
        let mut failures = Failures::default();
        let mut now = Instant::now();
        let mut delays = Vec::new();
        for _ in 0..10 {
            let verdict = failures.failed(now, &policy);
            assert!(!verdict.exhausted);
            delays.push(verdict.delay);
            now += verdict.delay;
        }
        assert_eq!(delays, [0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000].map(ms));
        // For ever after: the longest wait, and reported.
        for _ in 0..100 {
            let verdict = failures.failed(now, &policy);
            assert_eq!(verdict, Verdict { delay: ms(5000), exhausted: true });
            now += verdict.delay;
            assert!(failures.recent.len() <= policy.budget);
        }
    }

    #[test]
    fn failures_older_than_the_window_are_forgotten() {
        let policy = Policy { budget: 2, window: ms(1000), ..Policy::default() };
        let mut failures = Failures::default();
        let start = Instant::now();
        assert_eq!(failures.failed(start, &policy).delay, ms(0));
        assert_eq!(failures.failed(start + ms(10), &policy).delay, ms(50));
        assert!(failures.failed(start + ms(20), &policy).exhausted);
        let later = failures.failed(start + ms(1020), &policy);
        assert_eq!(later, Verdict { delay: ms(0), exhausted: false });
    }

    #[test]
    fn odd_policies_do_not_overflow() {
        let policy = Policy {
            backoff: Duration::MAX,
            backoff_max: Duration::MAX,
            budget: usize::MAX,
            window: Duration::MAX,
            ..Policy::default()
        };
        let mut failures = Failures::default();
        for _ in 0..100 {
            let _ = failures.failed(Instant::now(), &policy);
        }
        let never = Policy { budget: 0, ..Policy::default() };
        assert!(Failures::default().failed(Instant::now(), &never).exhausted);
    }
}

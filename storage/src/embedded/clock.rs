//! The clock of the engine's threads.

use std::time::Instant;

/// Real time, also where a test has paused tokio's: the threads wait for each other on it, and for a disk.
#[expect(clippy::disallowed_methods, reason = "the writer is a thread of its own, which no runtime drives")]
pub(super) fn now() -> Instant {
    Instant::now()
}

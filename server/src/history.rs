//! The age of history: compacts revisions older than the interval, once in a fifth of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::Clock;
use kindom_storage::snapshot::Holds;
use kindom_storage::{Revision, Storage};

/// Compacts for ever, as far as running snapshots allow.
pub(crate) async fn keep(storage: Arc<dyn Storage>, holds: Holds, clock: Clock, interval: Duration) {
    let step = (interval / STEPS).max(Duration::from_secs(1));
    let mut seen = VecDeque::new();
    loop {
        clock.sleep(step).await;
        if let Some(revision) = due(&mut seen, storage.published())
            && let Err(error) = storage.compact(holds.allow(revision)).await
        {
            tracing::warn!(%error, "history was not compacted");
        }
    }
}

/// The number of steps in an interval.
const STEPS: u32 = 5;

/// Notes the present revision; returns the one of an interval ago.
fn due(seen: &mut VecDeque<Revision>, now: Revision) -> Option<Revision> {
    seen.push_back(now);
    if seen.len() > STEPS as usize { seen.pop_front() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_an_interval_old_is_due() {
        let mut seen = VecDeque::new();
        let due: Vec<_> = (1..=8).map(|r| due(&mut seen, Revision(r))).collect();
        assert_eq!(
            due,
            [None, None, None, None, None, Some(Revision(1)), Some(Revision(2)), Some(Revision(3))]
        );
    }
}

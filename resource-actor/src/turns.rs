//! Writes that count in the same object take turns: of those that count at once all but one would have to count again, so that
//! the work of many would grow with the square of their number. Other replicas take turns of their own; the store's conditions, not
//! the turns, keep the count exact.

use std::collections::HashMap;
use std::sync::Arc;

use kindom_actor_kit::Deadline;
use parking_lot::Mutex as Lock;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout_at;

use crate::error::WriteError;

/// So many keys are remembered between their writes.
const TURNS_KEPT: usize = 256;

/// The turns of writes, by a key. Each finds what the holder of the last one has left in it. No key waits for another. Cheap to
/// clone.
pub struct WriteTurns<T>(Arc<Lock<HashMap<String, Arc<Mutex<T>>>>>);

impl<T> Clone for WriteTurns<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for WriteTurns<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Default> WriteTurns<T> {
    /// Waits for the turn of a key's writes. Dropping the guard ends the turn; turns come in the order of the calls.
    ///
    /// # Errors
    /// [`WriteError::Unavailable`] if others hold the turn until the deadline.
    pub async fn wait(&self, key: &str, deadline: Deadline) -> Result<OwnedMutexGuard<T>, WriteError> {
        let turn = self.of(key).lock_owned();
        timeout_at(deadline.instant(), turn)
            .await
            .map_err(|_| WriteError::Unavailable("timed out while other writes were counted".into()))
    }

    fn of(&self, key: &str) -> Arc<Mutex<T>> {
        let mut turns = self.0.lock();
        if let Some(turn) = turns.get(key) {
            return Arc::clone(turn);
        }
        if turns.len() >= TURNS_KEPT {
            // What is forgotten costs a write one more plan, or a count from the beginning.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry(key.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn keys_take_turns_of_their_own() {
        let (turns, deadline) = (WriteTurns::default(), Deadline::after(Duration::from_secs(60)));
        let mut held = Vec::new();
        for index in 0..2 * TURNS_KEPT {
            let turn = turns.of(&format!("busy-{index}")).try_lock_owned();
            held.push(turn.expect("it is free"));
        }
        assert!(turns.of("busy-0").try_lock_owned().is_err(), "a turn was forgotten while it was held");
        held.clear();
        *turns.wait("busy-0", deadline).await.unwrap() = 7;
        assert_eq!(*turns.wait("busy-0", deadline).await.unwrap(), 7);
        turns.of("idle");
        assert_eq!(turns.0.lock().len(), 1);
    }
}

//! The phases in which the server ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// A phase of the server's life; it only ever goes on to a later one.
///
/// The phases are those of apiserver `pkg/server/genericapiserver.go` (`RunWithContext`; 1.37).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Requests are accepted and answered.
    Serving,
    /// Still so, but `/readyz` fails, so that load balancers stop sending requests.
    Announced,
    /// The listener is closed. Requests under way are answered, idle connections are closed, and watches end in order.
    Ending {
        /// The most time between the ends of the first and the last watch; zero ends all at once.
        watches: Duration,
    },
    /// All connections are gone, or time is up.
    Ended,
}

impl Phase {
    /// `true` once no connection may wait for another request.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self, Self::Ending { .. } | Self::Ended)
    }
}

/// Counts the open connections of all workers.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: AtomicUsize,
    gone: Notify,
}

impl Connections {
    /// Counts a connection until the guard is dropped.
    pub(super) fn open(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(self))
    }

    /// The number of open connections.
    pub(super) fn count(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Waits until no connection is open. Cancel-safe.
    pub(super) async fn all_gone(&self) {
        loop {
            // Created before the count is read: it hears of every `notify_waiters` after its creation.
            let gone = self.gone.notified();
            if self.count() == 0 {
                return;
            }
            gone.await;
        }
    }
}

/// A connection that is counted as open.
pub(super) struct Open(Arc<Connections>);

impl Drop for Open {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.gone.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_connection_to_go_wakes_whoever_waits() {
        let connections = Arc::new(Connections::default());
        connections.all_gone().await;
        let (one, other) = (connections.open(), connections.open());
        let waiting = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.all_gone().await }
        });
        tokio::task::yield_now().await;
        drop(one);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(other);
        waiting.await.unwrap();
    }
}

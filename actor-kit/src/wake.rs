//! Wake-ups: "the world may have changed, look again", without a message and without a queue.

use std::sync::Arc;

use crate::latest;
use futures::{Stream, stream};

/// Wakes every holder of a [`Woken`] of it. Cheap to clone, usable from any thread.
///
/// Wake-ups carry nothing and coalesce: any number of them before the sleeper looks are one. That
/// is the only way to talk upward in the order of dependencies, where an ask could deadlock.
#[derive(Clone, Debug)]
pub struct Wake(Arc<latest::Sender<()>>);

impl Default for Wake {
    fn default() -> Self {
        Self::new()
    }
}

impl Wake {
    /// One that nobody listens to yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(latest::Sender::new(())))
    }

    /// Wakes every [`Woken`]; one that is busy finds the wake-up when it next waits.
    pub fn wake(&self) {
        self.0.send_replace(());
    }

    /// Listens from now on. A successor that listens again first looks at the world, so a wake-up missed in between does no
    /// harm.
    #[must_use]
    pub fn listen(&self) -> Woken {
        Woken { seen: self.0.subscribe(), wake: self.clone() }
    }
}

/// The listening end of a [`Wake`].
#[derive(Clone, Debug)]
pub struct Woken {
    seen: latest::Receiver<()>,
    /// Keeps the channel open, so that waiting cannot fail.
    wake: Wake,
}

/// The item of [`Woken::into_stream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woke;

impl Woken {
    /// Waits for a wake-up later than the last one seen. Cancel-safe.
    pub async fn woken(&mut self) {
        // It fails only when no sender is left, and this holds one.
        let _ = self.seen.changed().await;
    }

    /// Listens to the same wake-ups, from now on.
    #[must_use]
    pub fn renewed(&self) -> Self {
        self.wake.listen()
    }

    /// An endless stream of wake-ups, for `AsyncContext::add_stream`.
    pub fn into_stream(self) -> impl Stream<Item = Woke> + Send + 'static {
        stream::unfold(self, |mut woken| async move {
            woken.woken().await;
            Some((Woke, woken))
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;
    use crate::simulation;

    #[test]
    fn wake_ups_coalesce_and_reach_everyone() {
        let wake = Wake::new();
        wake.wake();
        let mut early = wake.listen();
        assert!(early.woken().now_or_never().is_none(), "listens from now on");
        let mut other = wake.listen();
        for _ in 0..100 {
            wake.wake();
        }
        for woken in [&mut early, &mut other] {
            assert!(woken.woken().now_or_never().is_some());
            assert!(woken.woken().now_or_never().is_none());
        }
    }

    #[test]
    fn a_sleeper_is_woken_from_another_thread() {
        simulation::run(async {
            let wake = Wake::new();
            let mut woken = Box::pin(wake.listen().into_stream());
            let thread = std::thread::spawn(move || wake.wake());
            assert_eq!(woken.next().await, Some(Woke));
            thread.join().unwrap();
            assert!(woken.next().now_or_never().is_none(), "it does not end");
        })
        .unwrap();
    }
}

//! The latest of a value that many wait on.
//!
//! As tokio's `watch`, with two differences. That one spreads its waiters over eight lists by a random number that can't be
//! seeded, so the order of wake-ups changes from run to run; here the first one to wait is woken first, and a simulation
//! repeats. And readers get copies: a second look beside a borrowed value would
//! wait for a sender that waits until the value is given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use parking_lot::RwLock;
use tokio::sync::Notify;

/// Sets the value. Dropping it closes the channel for those that wait.
#[derive(Debug)]
pub struct Sender<T>(Arc<Channel<T>>);

/// Reads the value, and waits for another.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Channel<T>>,
    seen: u64,
}

#[derive(Debug)]
struct Channel<T> {
    value: RwLock<T>,
    /// Raised after the value was set.
    version: AtomicU64,
    closed: AtomicBool,
    changed: Notify,
}

/// The sender is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody sets the value any more")]
pub struct Closed;

impl<T> Sender<T> {
    /// One that nobody waits on yet.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(Channel {
            value: RwLock::new(value),
            version: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            changed: Notify::new(),
        }))
    }

    /// The value as it is now.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.0.value.read().clone()
    }

    /// Sets the value and gives back the one before; wakes everyone, also if they are equal.
    pub fn send_replace(&self, value: T) -> T {
        let before = std::mem::replace(&mut *self.0.value.write(), value);
        self.0.raise();
        before
    }

    /// Changes the value in place, where `change` may not look at it by any other way; wakes everyone.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.0.value.write());
        self.0.raise();
    }

    /// A receiver that has seen the value as it is now.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { shared: Arc::clone(&self.0), seen: self.0.version.load(SeqCst) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.closed.store(true, SeqCst);
        self.0.changed.notify_waiters();
    }
}

impl<T> Channel<T> {
    fn raise(&self) {
        self.version.fetch_add(1, SeqCst);
        self.changed.notify_waiters();
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Receiver<T> {
    /// The value as it is now.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.shared.value.read().clone()
    }

    /// The value as it is now counts as seen.
    pub fn mark_seen(&mut self) {
        self.seen = self.shared.version.load(SeqCst);
    }

    /// The value, which counts as seen.
    pub fn see(&mut self) -> T
    where
        T: Clone,
    {
        // Before the value is read: one that is set in between is seen twice rather than never.
        self.mark_seen();
        self.get()
    }

    /// Waits until the value was set since it was last seen. Cancel-safe.
    ///
    /// # Errors
    /// [`Closed`], once the last value has been seen.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // Listening before looking, so that no change falls in between.
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            let closed = self.shared.closed.load(SeqCst);
            let version = self.shared.version.load(SeqCst);
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
            if closed {
                return Err(Closed);
            }
            changed.await;
        }
    }

    /// Waits until the value is such; looks at once and after every change. Cancel-safe.
    ///
    /// # Errors
    /// [`Closed`]
    pub async fn wait_for(&mut self, such: impl Fn(&T) -> bool) -> Result<(), Closed>
    where
        T: Clone,
    {
        loop {
            if such(&self.see()) {
                return Ok(());
            }
            self.changed().await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use parking_lot::Mutex;

    use super::*;
    use crate::simulation;

    #[test]
    fn a_change_is_seen_once_and_the_last_one_counts() {
        let sender = Sender::new(1);
        let mut receiver = sender.subscribe();
        assert!(receiver.changed().now_or_never().is_none());
        assert_eq!(sender.send_replace(2), 1);
        sender.send_modify(|value| *value += 1);
        assert_eq!(receiver.changed().now_or_never(), Some(Ok(())));
        assert_eq!(receiver.get(), 3);
        assert!(receiver.changed().now_or_never().is_none());
        assert_eq!(receiver.wait_for(|value| *value == 3).now_or_never(), Some(Ok(())));
        sender.send_replace(4);
        drop(sender);
        assert_eq!(receiver.changed().now_or_never(), Some(Ok(())), "what was set last is told first");
        assert_eq!(receiver.changed().now_or_never(), Some(Err(Closed)));
        assert_eq!(receiver.wait_for(|value| *value == 5).now_or_never(), Some(Err(Closed)));
    }

    /// A sender comes between the two looks.
    #[test]
    fn a_waiter_may_look_again() {
        let sender = Sender::new(1);
        let mut receiver = sender.subscribe();
        std::thread::scope(|scope| {
            let (look, looks) = std::sync::mpsc::channel();
            let shared = &sender;
            let sending = scope.spawn(move || {
                looks.recv().unwrap();
                shared.send_replace(2);
            });
            let such = |_: &_| {
                // At the second look it has been set.
                let _ = look.send(());
                // The sender has set it, or waits for whoever holds it.
                while !sending.is_finished() && sender.0.value.try_read().is_some() {
                    std::thread::yield_now();
                }
                sender.get() == 2
            };
            let waiting = receiver.wait_for(such).now_or_never();
            assert_eq!(waiting, Some(Ok(())));
        });
    }

    #[test]
    fn who_waited_first_is_woken_first() {
        simulation::run(async {
            let sender = Sender::new(());
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            for i in 0..20 {
                let (mut receiver, order) = (sender.subscribe(), Arc::clone(&order));
                tasks.push(tokio::spawn(async move {
                    receiver.changed().await.unwrap();
                    order.lock().push(i);
                }));
            }
            tokio::task::yield_now().await;
            sender.send_replace(());
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*order.lock(), (0..20).collect::<Vec<_>>());
        })
        .unwrap();
    }
}

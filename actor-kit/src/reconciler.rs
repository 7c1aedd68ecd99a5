//! A supervised loop without a mailbox.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use crate::{
    supervisor::{Body, BoxError, End, Incarnation},
    table::{ActorInfo, ActorState, Entry},
    turn::{Fall, drop_caught, turn},
    wake::Woken,
};

/// The owner's side of a supervised loop ([`Supervisor::reconcile`](crate::Supervisor::reconcile)): an actor that takes
/// no message. It is woken and reads the world again, so there is nothing to ask of it, and nothing of it that a fall
/// could lose.
///
/// It stands in the [`ActorTable`](crate::ActorTable) with the actors that have a mailbox, is killed and restarted as
/// they are, and runs on the arbiter that it was given. Dropping this changes nothing: the loop lives until it is
/// stopped.
#[derive(Clone)]
pub struct Reconciler {
    entry: Arc<Entry>,
}

impl Reconciler {
    pub(crate) fn new(entry: Arc<Entry>) -> Self {
        Self { entry }
    }

    /// The state of the loop; also after it was stopped. Its mailbox is 0 of 0.
    #[must_use]
    pub fn info(&self) -> ActorInfo {
        self.entry.info()
    }

    /// Stops the loop for good and waits until it is gone and its name is free. Its future is dropped where it waits; tasks
    /// that it spawned go on. The loop itself must not await this.
    ///
    /// Dropping the future does not take the order back.
    pub async fn stop(&self) {
        self.entry.order_stop();
        self.entry.until_stopped().await;
    }
}

impl fmt::Debug for Reconciler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reconciler").field(&self.entry.name).finish()
    }
}

/// Makes a loop by its factory and polls it.
pub(crate) struct Looped<F> {
    entry: Arc<Entry>,
    changes: Woken,
    factory: F,
}

impl<F> Looped<F> {
    pub(crate) fn new(entry: Arc<Entry>, changes: Woken, factory: F) -> Self {
        Self { entry, changes, factory }
    }
}

impl<F, L> Body for Looped<F>
where
    F: Fn(Woken) -> L,
    L: Future<Output = BoxError> + 'static,
{
    async fn live(&self, _: &Incarnation) -> End {
        let entry = &self.entry;
        // Listening comes first: the loop's first look covers all wake-ups before this line, and `changes` reports all later
        // ones.
        let changes = self.changes.renewed();
        let mut body: Pin<Box<L>> = match turn(&entry.name, || Box::pin((self.factory)(changes))) {
            Ok(body) => body,
            Err(fall) => return End::Fell(fall),
        };
        let mut is_running = false;
        let end = poll_fn(|cx| {
            if let Some(end) = entry.ordered(cx) {
                return Poll::Ready(end);
            }
            match turn(&entry.name, || body.as_mut().poll(cx)) {
                Ok(Poll::Pending) => {
                    // Only now: a loop that falls at its first step never ran.
                    if !std::mem::replace(&mut is_running, true) {
                        entry.set_state(ActorState::Running);
                    }
                    Poll::Pending
                }
                Ok(Poll::Ready(why)) => Poll::Ready(End::Fell(Fall::reload(&why.to_string()))),
                Err(fall) => Poll::Ready(End::Fell(fall)),
            }
        })
        .await;
        drop_caught(&entry.name, body);
        end
    }
}

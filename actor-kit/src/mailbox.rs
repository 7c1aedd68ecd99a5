//! An actor behind a mailbox: actix runs its turns, the supervisor catches what falls out of them.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
};

use actix::{Actor, ActorContext as _, Addr, Context, dev::ContextFut};
use futures::FutureExt as _;

use crate::{
    clock::Deadline,
    handle::{Address, AskError, Handle},
    supervisor::{Body, BoxError, End, Incarnation},
    table::{ActorState, Entry},
    turn::{Fall, drop_caught, turn},
};

/// The owner's side of a supervised actor. Dropping it changes nothing: the actor lives until it is
/// stopped, so that an owner which is itself restarted does not take its actors along.
pub struct Supervised<A: Actor<Context = Context<A>>> {
    handle: Handle<A>,
}

impl<A: Actor<Context = Context<A>>> Supervised<A> {
    /// The callers' side.
    #[must_use]
    pub fn handle(&self) -> Handle<A> {
        self.handle.clone()
    }

    /// Waits until the actor takes messages and returns the number of its incarnation.
    ///
    /// # Errors
    /// [`AskError::DeadlineExceeded`] and [`AskError::Gone`].
    pub async fn ready(&self, deadline: Deadline) -> Result<u64, AskError> {
        self.handle.running(1, deadline).await
    }

    /// Stops the actor for good and waits until it is gone and its name is free.
    ///
    /// The actor handles the messages in its mailbox first; futures that it interleaves are dropped, detached ones go on. A
    /// start under way is abandoned. The actor itself must not await this.
    ///
    /// Dropping the future does not take the order back.
    pub async fn stop(&self) {
        let entry = &self.handle.shared().entry;
        entry.order_stop();
        entry.until_stopped().await;
    }
}

impl<A: Actor<Context = Context<A>>> Clone for Supervised<A> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<A: Actor<Context = Context<A>>> fmt::Debug for Supervised<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Supervised").field(&self.handle.name()).finish()
    }
}

/// Loads an actor by its factory and hosts it.
pub(crate) struct Hosted<A: Actor<Context = Context<A>>, F> {
    shared: Arc<Address<A>>,
    factory: F,
}

impl<A: Actor<Context = Context<A>>, F> Hosted<A, F> {
    pub(crate) fn new(entry: Arc<Entry>, factory: F) -> Self {
        Self { shared: Address::new(entry), factory }
    }

    pub(crate) fn supervised(&self) -> Supervised<A> {
        Supervised { handle: Handle::new(Arc::clone(&self.shared)) }
    }
}

impl<A: Actor<Context = Context<A>>, F> Drop for Hosted<A, F> {
    fn drop(&mut self) {
        self.shared.withdraw(true);
    }
}

impl<A, F, L> Body for Hosted<A, F>
where
    A: Actor<Context = Context<A>>,
    F: Fn(Incarnation) -> L,
    L: Future<Output = Result<A, BoxError>> + 'static,
{
    async fn live(&self, incarnation: &Incarnation) -> End {
        match self.load(incarnation).await {
            Ok(actor) => self.host(actor, incarnation).await,
            Err(end) => end,
        }
    }
}

impl<A, F, L> Hosted<A, F>
where
    A: Actor<Context = Context<A>>,
    F: Fn(Incarnation) -> L,
    L: Future<Output = Result<A, BoxError>> + 'static,
{
    /// Runs the factory. A kill or a stop drops the load where it stands.
    async fn load(&self, incarnation: &Incarnation) -> Result<A, End> {
        let entry = &self.shared.entry;
        // Boxed, so that a running actor does not carry the room that its load needed.
        let mut load: Pin<Box<L>> =
            turn(&entry.name, || Box::pin((self.factory)(incarnation.clone()))).map_err(End::Fell)?;
        let loaded = poll_fn(|cx| {
            entry.release_unhosted();
            if let Some(end) = entry.ordered(cx) {
                return Poll::Ready(Err(end));
            }
            match turn(&entry.name, || load.as_mut().poll(cx)) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(Ok(actor))) => Poll::Ready(Ok(actor)),
                Ok(Poll::Ready(Err(error))) => Poll::Ready(Err(End::Fell(Fall::unloadable(&*error)))),
                Err(fall) => Poll::Ready(Err(End::Fell(fall))),
            }
        })
        .await;
        drop_caught(&entry.name, load);
        loaded
    }

    /// Runs the actor until it ends.
    async fn host(&self, actor: A, incarnation: &Incarnation) -> End {
        let shared = &self.shared;
        let mut context = Context::new();
        // No bound here: the handle keeps it, and a capacity makes actix track parked senders.
        context.set_mailbox_capacity(0);
        let mut context = Box::new(context.into_future(actor));
        let mut address = Some(context.address());
        let end = poll_fn(|cx| self.take_turn(&mut context, &mut address, incarnation, cx)).await;
        // Before the mailbox closes, so that a caller that then gets `Lost` finds no dead address.
        shared.withdraw(matches!(end, End::Stopped));
        // A context that is dropped alive polls its actor once more, `stopping` and `stopped`
        // included, and a second panic there would end the process. A terminated one does not.
        context.ctx().terminate();
        drop_caught(&shared.entry.name, context);
        end
    }

    fn take_turn(
        &self,
        context: &mut ContextFut<A, Context<A>>,
        address: &mut Option<Addr<A>>,
        incarnation: &Incarnation,
        cx: &mut task::Context<'_>,
    ) -> Poll<End> {
        let shared = &self.shared;
        let entry = &shared.entry;
        let stop = match entry.ordered(cx) {
            Some(End::Fell(fall)) => return Poll::Ready(End::Fell(fall)),
            Some(End::Stopped) => true,
            None => false,
        };
        if stop {
            shared.withdraw(true);
        }
        let abandoned = entry.take_abandoned();
        let polled = turn(&entry.name, || context.poll_unpin(cx));
        entry.release(abandoned);
        match polled {
            Err(fall) if !stop => return Poll::Ready(End::Fell(fall)),
            Err(_) | Ok(Poll::Ready(())) => return Poll::Ready(End::Stopped),
            Ok(Poll::Pending) => {}
        }
        if stop {
            // The turn above emptied the mailbox; this one runs the hooks. A hook that panics or refuses to stop changes
            // nothing: the actor is gone all the same.
            context.ctx().stop();
            let _ = turn(&entry.name, || context.poll_unpin(cx));
            return Poll::Ready(End::Stopped);
        }
        if let Some(fall) = incarnation.reloads() {
            return Poll::Ready(End::Fell(fall));
        }
        // Only now: an actor that falls in `started` takes no message with it.
        if let Some(address) = address.take() {
            shared.publish(incarnation.number(), address);
            entry.set_state(ActorState::Running);
        }
        Poll::Pending
    }
}

//! Supervision by factory: an actor that falls is built anew from storage.

use std::{
    error::Error,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
};

use actix::{Actor, ActorContext as _, Addr, Context, dev::ContextFut};
use futures::FutureExt as _;
use tokio::time::{Instant, sleep};

use crate::{
    arbiters::ArbiterHandle,
    clock::Deadline,
    entropy::Entropy,
    handle::{AskError, Handle, Shared},
    restart::{Failures, Policy},
    table::{ActorState, ActorTable, Entry},
    turn::{Fall, die, turn},
};

/// What a factory fails with.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Which start of its actor a factory is called for, counting from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation(pub u64);

/// Why an actor was not started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// An actor of this name has not been stopped.
    #[error("an actor named {0:?} is supervised already")]
    NameTaken(Arc<str>),
    /// The arbiter's thread has ended.
    #[error("the arbiter has ended")]
    ArbiterGone,
}

/// Starts actors and keeps them alive. Cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct Supervisor {
    table: ActorTable,
    entropy: Entropy,
}

impl Supervisor {
    /// `entropy` spreads restarts.
    #[must_use]
    pub fn new(table: ActorTable, entropy: Entropy) -> Self {
        Self { table, entropy }
    }

    /// The actors it supervises.
    #[must_use]
    pub fn table(&self) -> &ActorTable {
        &self.table
    }

    /// Starts an actor on `arbiter` and supervises it until it is stopped. Returns at once; asks wait
    /// for the first incarnation.
    ///
    /// `factory` runs on the arbiter, once for every incarnation, and loads the actor's state from
    /// storage. What it returns must not depend on an earlier incarnation. An error, or a panic, in
    /// it counts as a failure of the actor.
    ///
    /// An actor that ends its own context (`ctx.stop()`) counts as stopped.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start<A, F, L>(
        &self,
        name: impl Into<Arc<str>>,
        arbiter: &ArbiterHandle,
        policy: Policy,
        factory: F,
    ) -> Result<Supervised<A>, StartError>
    where
        A: Actor<Context = Context<A>>,
        F: Fn(Incarnation) -> L + Send + 'static,
        L: Future<Output = Result<A, BoxError>> + 'static,
    {
        let name = name.into();
        let Some(entry) = self.table.insert(name.clone(), policy.mailbox) else {
            return Err(StartError::NameTaken(name));
        };
        let shared = Shared::new(entry);
        let handle = Handle::new(shared.clone());
        // Made here, so that an arbiter which drops the task unstarted leaves no entry behind.
        let registration = Registration { shared, table: self.table.clone() };
        let supervision = Supervision { registration, entropy: self.entropy.clone(), policy, factory };
        let spawned = arbiter.spawn(async move {
            actix::spawn(supervision.run());
        });
        if spawned { Ok(Supervised { handle }) } else { Err(StartError::ArbiterGone) }
    }

    /// Stops every actor, one after another, the one started last first: actors ask only those that
    /// were there before them.
    pub async fn stop_all(&self) {
        for entry in self.table.newest_first() {
            entry.order_stop();
            entry.until_stopped().await;
        }
    }
}

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
    pub async fn ready(&self, deadline: Deadline) -> Result<Incarnation, AskError> {
        self.handle.running(1, deadline).await.map(Incarnation)
    }

    /// Stops the actor for good and waits until it is gone and its name is free.
    ///
    /// What is in its mailbox is handled first; futures that it interleaves are dropped, detached
    /// ones go on. A start under way is abandoned. Not to be awaited by the actor itself.
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

/// Takes the actor off the list when its supervision ends, for whatever reason.
struct Registration<A: Actor<Context = Context<A>>> {
    shared: Arc<Shared<A>>,
    table: ActorTable,
}

impl<A: Actor<Context = Context<A>>> Drop for Registration<A> {
    fn drop(&mut self) {
        self.shared.withdraw(true);
        self.table.remove(&self.shared.entry);
        self.shared.entry.set_state(ActorState::Stopped);
    }
}

struct Supervision<A: Actor<Context = Context<A>>, F> {
    registration: Registration<A>,
    entropy: Entropy,
    policy: Policy,
    factory: F,
}

/// How an incarnation, or a wait, ended.
enum End {
    Stopped,
    Fell(Fall),
}

impl<A, F, L> Supervision<A, F>
where
    A: Actor<Context = Context<A>>,
    F: Fn(Incarnation) -> L,
    L: Future<Output = Result<A, BoxError>> + 'static,
{
    async fn run(self) {
        let mut failures = Failures::default();
        loop {
            let incarnation = Incarnation(self.entry().begin());
            let fall = match self.live(incarnation).await {
                End::Stopped => return,
                End::Fell(fall) => fall,
            };
            self.entry().fell(&fall);
            if self.pause(incarnation, &fall, &mut failures).await {
                return;
            }
        }
    }

    fn entry(&self) -> &Entry {
        &self.registration.shared.entry
    }

    async fn live(&self, incarnation: Incarnation) -> End {
        match self.load(incarnation).await {
            Ok(actor) => self.host(actor, incarnation).await,
            Err(end) => end,
        }
    }

    /// Runs the factory. A kill or a stop drops the load where it stands.
    async fn load(&self, incarnation: Incarnation) -> Result<A, End> {
        let name = &self.entry().name;
        // Boxed, so that a running actor does not carry the room that its load needed.
        let mut load: Pin<Box<L>> =
            turn(name, || Box::pin((self.factory)(incarnation))).map_err(End::Fell)?;
        let loaded = poll_fn(|cx| {
            self.entry().release_unhosted();
            if let Some(end) = self.ordered(cx) {
                return Poll::Ready(Err(end));
            }
            match turn(name, || load.as_mut().poll(cx)) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(Ok(actor))) => Poll::Ready(Ok(actor)),
                Ok(Poll::Ready(Err(error))) => {
                    Poll::Ready(Err(End::Fell(Fall::failed(&format!("could not load: {error}")))))
                }
                Err(fall) => Poll::Ready(Err(End::Fell(fall))),
            }
        })
        .await;
        drop_caught(name, load);
        loaded
    }

    /// Runs the actor until it ends.
    async fn host(&self, actor: A, incarnation: Incarnation) -> End {
        let shared = &self.registration.shared;
        let mut context = Context::new();
        // No bound here: the handle keeps it, and a capacity makes actix track parked senders.
        context.set_mailbox_capacity(0);
        let mut context = Box::new(context.into_future(actor));
        let mut address = Some(context.address());
        let end = poll_fn(|cx| self.take_turn(&mut context, &mut address, incarnation, cx)).await;
        // Before the mailbox closes, so that whoever then hears `Lost` finds no dead address.
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
        incarnation: Incarnation,
        cx: &mut task::Context<'_>,
    ) -> Poll<End> {
        let shared = &self.registration.shared;
        let entry = &shared.entry;
        let stop = match self.ordered(cx) {
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
            // The turn above emptied the mailbox; this one runs the hooks. What falls or refuses
            // to go in it is gone all the same.
            context.ctx().stop();
            let _ = turn(&entry.name, || context.poll_unpin(cx));
            return Poll::Ready(End::Stopped);
        }
        // Only now: an actor that falls in `started` takes no message with it.
        if let Some(address) = address.take() {
            shared.publish(incarnation.0, address);
            entry.set_state(ActorState::Running);
        }
        Poll::Pending
    }

    /// Waits before the next incarnation. Returns whether a stop was ordered.
    async fn pause(&self, incarnation: Incarnation, fall: &Fall, failures: &mut Failures) -> bool {
        let entry = self.entry();
        let delay = match fall {
            Fall::Killed => return entry.stop_ordered(),
            Fall::Failed(failure) => {
                let verdict = failures.failed(Instant::now(), &self.policy);
                let delay = self.entropy.jitter(verdict.delay);
                let exhausted = verdict.exhausted;
                entry.set_state(if exhausted { ActorState::Failed } else { ActorState::BackingOff });
                tracing::warn!(
                    actor = &*entry.name,
                    incarnation = incarnation.0,
                    failure,
                    delay_ms = delay.as_millis(),
                    exhausted,
                    "restarting"
                );
                delay
            }
        };
        if delay.is_zero() {
            return entry.stop_ordered();
        }
        let mut wait = Box::pin(sleep(delay));
        poll_fn(|cx| {
            entry.watch_orders(cx);
            entry.release_unhosted();
            match entry.stop_ordered() {
                true => Poll::Ready(true),
                false => wait.as_mut().poll(cx).map(|()| false),
            }
        })
        .await
    }

    /// An order that ends the incarnation; later ones will wake the task.
    fn ordered(&self, cx: &task::Context<'_>) -> Option<End> {
        let entry = self.entry();
        entry.watch_orders(cx);
        if entry.stop_ordered() {
            return Some(End::Stopped);
        }
        entry.take_kill().then(|| End::Fell(die(&entry.name)))
    }
}

/// Drops what an actor owned; a panic in it changes nothing any more.
fn drop_caught<T>(name: &Arc<str>, value: T) {
    let _ = turn(name, move || drop(value));
}

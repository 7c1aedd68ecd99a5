//! Supervision by factory: whatever falls is built again from storage.
//!
//! One loop of restarts ([`Supervision`]) serves two bodies: an actor behind a mailbox (`mailbox.rs`) and a loop
//! without one (`reconciler.rs`).

use std::{
    error::Error,
    future::{Future, poll_fn},
    sync::{Arc, OnceLock},
    task::{self, Poll},
};

use actix::{Actor, Context};
use tokio::time::{Instant, sleep};

use crate::{
    arbiters::ArbiterHandle,
    entropy::Entropy,
    mailbox::{Hosted, Supervised},
    reconciler::{Looped, Reconciler},
    restart::{Failures, Policy},
    table::{ActorState, ActorTable, Entry},
    turn::{Fall, die},
    wake::Woken,
};

/// The error of a factory, and the reason why an incarnation asks for a successor.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// One start of an actor, as its factory sees it.
#[derive(Clone, Debug)]
pub struct Incarnation {
    number: u64,
    /// Set once the incarnation has asked for a successor, with the reason.
    reload: Arc<OnceLock<String>>,
}

impl Incarnation {
    fn new(number: u64) -> Self {
        Self { number, reload: Arc::default() }
    }

    /// Counts the starts of this actor, from 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Ends this incarnation after the turn that calls this; the factory then loads a successor from storage.
    ///
    /// For state that can no longer be kept true although nothing is broken, such as a commit stream with a gap. It
    /// counts as a failure, so the successor waits for its back-off. The first reason is kept.
    pub fn reload(&self, why: impl Into<BoxError>) {
        self.reload.get_or_init(|| why.into().to_string());
    }

    /// The fall that the incarnation asked for.
    pub(crate) fn reloads(&self) -> Option<Fall> {
        self.reload.get().map(|why| Fall::reload(why))
    }
}

/// The reason why an actor was not started.
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
    /// `factory` runs on the arbiter, once for every incarnation, and loads the actor's state from storage. Its result must
    /// not depend on an earlier incarnation. An error, or a panic, in it counts as a failure of the actor.
    ///
    /// An actor that ends its own context (`ctx.stop()`) counts as stopped. One that needs a successor
    /// calls [`Incarnation::reload`].
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
        let registration = self.register(name.into(), policy.mailbox)?;
        let hosted = Hosted::new(Arc::clone(&registration.entry), factory);
        let supervised = hosted.supervised();
        self.supervise(registration, arbiter, policy, hosted)?;
        Ok(supervised)
    }

    /// Starts a loop on `arbiter` and supervises it until it is stopped. Returns at once.
    ///
    /// `factory` runs on the arbiter, once for every incarnation, and makes the loop's future. The loop begins with a look
    /// at the world, and looks again whenever its [`Woken`] wakes it. That listens before the factory runs, so no wake-up
    /// gets lost: the first look covers every earlier one. `changes` only names the source to listen to.
    ///
    /// A loop that returns, with the reason, counts as a failure as one that panics does, and is started again.
    /// `policy.mailbox` is not used: a loop has none.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn reconcile<F, L>(
        &self,
        name: impl Into<Arc<str>>,
        arbiter: &ArbiterHandle,
        policy: Policy,
        changes: Woken,
        factory: F,
    ) -> Result<Reconciler, StartError>
    where
        F: Fn(Woken) -> L + Send + 'static,
        L: Future<Output = BoxError> + 'static,
    {
        let registration = self.register(name.into(), 0)?;
        let entry = Arc::clone(&registration.entry);
        let looped = Looped::new(Arc::clone(&entry), changes, factory);
        self.supervise(registration, arbiter, policy, looped)?;
        Ok(Reconciler::new(entry))
    }

    /// Stops every actor, one after another, the one started last first: actors ask only those that
    /// were there before them.
    pub async fn stop_all(&self) {
        for entry in self.table.newest_first() {
            entry.order_stop();
            entry.until_stopped().await;
        }
    }

    fn register(&self, name: Arc<str>, mailbox_max: usize) -> Result<Registration, StartError> {
        match self.table.insert(Arc::clone(&name), mailbox_max) {
            Some(entry) => Ok(Registration { entry, table: self.table.clone() }),
            None => Err(StartError::NameTaken(name)),
        }
    }

    fn supervise<B: Body + Send + 'static>(
        &self,
        registration: Registration,
        arbiter: &ArbiterHandle,
        policy: Policy,
        body: B,
    ) -> Result<(), StartError> {
        // Made here, so that an arbiter which drops the task unstarted leaves no entry behind.
        let supervision = Supervision { body, registration, entropy: self.entropy.clone(), policy };
        let spawned = arbiter.spawn(async move {
            actix::spawn(supervision.run());
        });
        if spawned { Ok(()) } else { Err(StartError::ArbiterGone) }
    }
}

/// Takes the actor off the list when its supervision ends, for whatever reason.
struct Registration {
    entry: Arc<Entry>,
    table: ActorTable,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.table.remove(&self.entry);
        self.entry.set_state(ActorState::Stopped);
    }
}

/// A supervised body: it can be started any number of times. Dropping it ends it for those that wait for it.
pub(crate) trait Body {
    /// Runs one incarnation from its factory to its end. No panic escapes.
    async fn live(&self, incarnation: &Incarnation) -> End;
}

/// The end of an incarnation.
pub(crate) enum End {
    Stopped,
    Fell(Fall),
}

struct Supervision<B> {
    // Dropped first: nobody may still hand it messages once it is off the list.
    body: B,
    registration: Registration,
    entropy: Entropy,
    policy: Policy,
}

impl<B: Body> Supervision<B> {
    async fn run(self) {
        let mut failures = Failures::default();
        loop {
            let incarnation = Incarnation::new(self.entry().begin());
            let fall = match self.body.live(&incarnation).await {
                End::Stopped => return,
                End::Fell(fall) => fall,
            };
            self.entry().fell(&fall);
            if self.pause(incarnation.number, &fall, &mut failures).await {
                return;
            }
        }
    }

    fn entry(&self) -> &Entry {
        &self.registration.entry
    }

    /// Waits before the next incarnation. Returns whether a stop was ordered.
    async fn pause(&self, incarnation: u64, fall: &Fall, failures: &mut Failures) -> bool {
        let entry = self.entry();
        let Some(failure) = fall.failure() else { return entry.stop_ordered() };
        let verdict = failures.failed(Instant::now(), &self.policy);
        let delay = self.entropy.jitter(verdict.delay);
        let exhausted = verdict.exhausted;
        entry.set_state(if exhausted { ActorState::Failed } else { ActorState::BackingOff });
        tracing::warn!(
            actor = &*entry.name,
            incarnation,
            failure,
            delay_ms = delay.as_millis(),
            exhausted,
            "restarting"
        );
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
}

impl Entry {
    /// An order that ends the incarnation; later ones will wake the task.
    pub(crate) fn ordered(&self, cx: &task::Context<'_>) -> Option<End> {
        self.watch_orders(cx);
        if self.stop_ordered() {
            return Some(End::Stopped);
        }
        self.take_kill().then(|| End::Fell(die(&self.name)))
    }
}

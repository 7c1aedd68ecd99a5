//! The way to talk to a supervised actor: asks with a bound and a deadline.

use std::{fmt, sync::Arc, time::Duration};

use actix::{Actor, Addr, Context, Handler, Message};
use parking_lot::RwLock;
use tokio::time::{error::Elapsed, timeout_at};

use crate::{
    clock::Deadline,
    table::{ActorInfo, Entry, InFlight},
};

/// The most times that [`Handle::ask_retrying`] delivers its message. Bounded, so that a message which makes its actor panic
/// does not go round until the deadline.
const ATTEMPTS_MAX: usize = 5;

/// The time that [`Handle::ask_retrying`] waits for a successor. After it, the actor is taken to be alive, and only this
/// answer to be lost (a detached future of the handler panicked, say).
const SUCCESSOR_WAIT: Duration = Duration::from_millis(20);

/// The reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Too many asks are under way. The message was not handed over.
    #[error("the actor's mailbox is full")]
    Busy,
    /// The deadline passed.
    #[error("the deadline passed {}", if *delivered { "before the actor answered" } else { "before the actor could be asked" })]
    DeadlineExceeded {
        /// `true` if the message had been delivered, so that the actor may still act on it.
        delivered: bool,
    },
    /// The actor fell, or dropped the message, before it answered. It may have acted on it in part.
    #[error("the actor fell before it answered")]
    Lost,
    /// The actor was stopped for good. The message was not handed over.
    #[error("the actor has been stopped")]
    Gone,
}

impl AskError {
    /// Returns true if the message was delivered, so that the requested action may have happened. If false, it certainly did
    /// not happen.
    #[must_use]
    pub fn delivered(self) -> bool {
        match self {
            Self::Busy | Self::Gone => false,
            Self::DeadlineExceeded { delivered } => delivered,
            Self::Lost => true,
        }
    }
}

/// The way to a supervised actor, whichever its incarnation. Cheap to clone, usable from any thread.
///
/// A handle does not keep its actor alive; see [`Supervised::stop`](crate::Supervised::stop).
pub struct Handle<A: Actor<Context = Context<A>>> {
    shared: Arc<Address<A>>,
}

pub(crate) struct Address<A: Actor<Context = Context<A>>> {
    pub(crate) entry: Arc<Entry>,
    phase: RwLock<Phase<A>>,
}

enum Phase<A: Actor<Context = Context<A>>> {
    /// No incarnation takes messages now, one will.
    Absent,
    Running {
        incarnation: u64,
        address: Addr<A>,
    },
    Stopped,
}

/// The message comes back with the reason.
enum Refusal<M> {
    Absent(M),
    Stopped,
}

impl<A: Actor<Context = Context<A>>> Address<A> {
    pub(crate) fn new(entry: Arc<Entry>) -> Arc<Self> {
        Arc::new(Self { entry, phase: RwLock::new(Phase::Absent) })
    }

    /// Hands messages to this incarnation from now on. The caller changes the state next, which wakes
    /// those that wait for it.
    pub(crate) fn publish(&self, incarnation: u64, address: Addr<A>) {
        *self.phase.write() = Phase::Running { incarnation, address };
    }

    /// Hands out no more messages, until the next incarnation or `for_good`.
    pub(crate) fn withdraw(&self, for_good: bool) {
        let phase = if for_good { Phase::Stopped } else { Phase::Absent };
        // The address is dropped after the lock.
        let _before = std::mem::replace(&mut *self.phase.write(), phase);
    }

    /// Queues the message, if an incarnation later than `after` runs.
    fn send<M>(&self, msg: M, after: u64) -> Result<(actix::dev::Request<A, M>, u64), Refusal<M>>
    where
        A: Handler<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        match &*self.phase.read() {
            // A closed mailbox swallows the message, so check it first. It can still close in between; the caller then gets
            // `Lost`, which is true as well.
            Phase::Running { incarnation, address } if *incarnation > after && address.connected() => {
                Ok((address.send(msg), *incarnation))
            }
            Phase::Stopped => Err(Refusal::Stopped),
            Phase::Absent | Phase::Running { .. } => Err(Refusal::Absent(msg)),
        }
    }

    pub(crate) fn running(&self) -> Result<Option<u64>, AskError> {
        match &*self.phase.read() {
            Phase::Running { incarnation, .. } => Ok(Some(*incarnation)),
            Phase::Absent => Ok(None),
            Phase::Stopped => Err(AskError::Gone),
        }
    }
}

impl<A: Actor<Context = Context<A>>> Handle<A> {
    pub(crate) fn new(shared: Arc<Address<A>>) -> Self {
        Self { shared }
    }

    pub(crate) fn shared(&self) -> &Address<A> {
        &self.shared
    }

    /// The actor's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.entry.name
    }

    /// The state of the actor; available after it was stopped, too.
    #[must_use]
    pub fn info(&self) -> ActorInfo {
        self.shared.entry.info()
    }

    /// Sends `msg` and waits for the answer, at the latest until `deadline`. While no incarnation
    /// runs, waits for the next one.
    ///
    /// Dropping the future takes the message back unless the actor has begun with it.
    ///
    /// # Errors
    /// See [`AskError`]; [`AskError::delivered`] says whether the message may have been acted on.
    pub async fn ask<M>(&self, msg: M, deadline: Deadline) -> Result<M::Result, AskError>
    where
        A: Handler<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let mut place = self.admit()?;
        self.attempt(&mut place, msg, 0, deadline).await.map_err(|(error, _)| error)
    }

    /// Asks like [`ask`](Self::ask), and asks again when the answer was lost with the actor: for
    /// messages that may be handled twice. At most five times in all.
    ///
    /// # Errors
    /// As [`ask`](Self::ask); [`AskError::Lost`] once the attempts are used up.
    pub async fn ask_retrying<M>(
        &self,
        mut msg: impl FnMut() -> M,
        deadline: Deadline,
    ) -> Result<M::Result, AskError>
    where
        A: Handler<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let mut place = self.admit()?;
        let mut attempts = 1;
        let mut after = 0;
        let mut delivered = false;
        loop {
            match self.attempt(&mut place, msg(), after, deadline).await {
                Err((AskError::Lost, lost_with)) if attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    delivered = true;
                    after = self.successor(lost_with, deadline).await;
                }
                // An earlier attempt may have been acted on, whatever became of the last one.
                Err((AskError::DeadlineExceeded { .. }, _)) if delivered => {
                    return Err(AskError::DeadlineExceeded { delivered });
                }
                Err((AskError::Gone, _)) if delivered => return Err(AskError::Lost),
                other => return other.map_err(|(error, _)| error),
            }
        }
    }

    /// Waits until an incarnation of at least `incarnation` takes messages and returns its number.
    ///
    /// # Errors
    /// [`AskError::DeadlineExceeded`] and [`AskError::Gone`].
    pub async fn running(&self, incarnation: u64, deadline: Deadline) -> Result<u64, AskError> {
        let shared = &self.shared;
        let look = || match shared.running() {
            Ok(Some(now)) if now >= incarnation => Some(Ok(now)),
            Ok(_) => None,
            Err(gone) => Some(Err(gone)),
        };
        timeout_at(deadline.instant(), shared.entry.until(look))
            .await
            .map_err(|_: Elapsed| AskError::DeadlineExceeded { delivered: false })?
    }

    fn admit(&self) -> Result<InFlight, AskError> {
        self.shared.running()?;
        self.shared.entry.admit().ok_or(AskError::Busy)
    }

    /// The error comes with the incarnation that the message was handed to.
    async fn attempt<M>(
        &self,
        place: &mut InFlight,
        msg: M,
        after: u64,
        deadline: Deadline,
    ) -> Result<M::Result, (AskError, u64)>
    where
        A: Handler<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        const UNSENT: AskError = AskError::DeadlineExceeded { delivered: false };
        const UNANSWERED: AskError = AskError::DeadlineExceeded { delivered: true };
        if deadline.passed() {
            return Err((UNSENT, 0));
        }
        let (request, incarnation) = match self.shared.send(msg, after) {
            Ok(sent) => sent,
            Err(Refusal::Stopped) => return Err((AskError::Gone, 0)),
            Err(Refusal::Absent(msg)) => {
                let mut waiting = Some(msg);
                let look = || {
                    let msg = waiting.take()?;
                    match self.shared.send(msg, after) {
                        Ok(sent) => Some(Ok(sent)),
                        Err(Refusal::Stopped) => Some(Err((AskError::Gone, 0))),
                        Err(Refusal::Absent(msg)) => {
                            waiting = Some(msg);
                            None
                        }
                    }
                };
                timeout_at(deadline.instant(), self.shared.entry.until(look))
                    .await
                    .map_err(|_: Elapsed| (UNSENT, 0))??
            }
        };
        place.queued(true);
        let answer =
            timeout_at(deadline.instant(), request).await.map_err(|_: Elapsed| (UNANSWERED, incarnation))?;
        // Handled, or dropped with the mailbox: either way it is no longer in the queue.
        place.queued(false);
        // A closed mailbox is the only error: no actix timeout was set on the request.
        answer.map_err(|_closed| (AskError::Lost, incarnation))
    }

    /// The incarnation after which the next attempt may go: the lost one, if another has come or
    /// nobody runs; 0 if the actor goes on as if nothing had happened.
    async fn successor(&self, lost_with: u64, deadline: Deadline) -> u64 {
        let wait = Deadline::after(SUCCESSOR_WAIT).min(deadline);
        match self.running(lost_with + 1, wait).await {
            Ok(_) => lost_with,
            Err(_) => match self.shared.running() {
                Ok(Some(now)) if now == lost_with => 0,
                _ => lost_with,
            },
        }
    }
}

impl<A: Actor<Context = Context<A>>> Clone for Handle<A> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<A: Actor<Context = Context<A>>> fmt::Debug for Handle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.name()).finish()
    }
}

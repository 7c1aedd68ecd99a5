//! Work for processors, apart from the threads that talk to clients, in an order that is fair.
//!
//! A request begins on the thread of its connection. Where it comes to a step that costs more than handing it over does, it
//! says so ([`dear`]); [`Processors::run`] then moves the whole request, a future, to a thread of the pool, where it goes on
//! once it is its flow's turn ([`Flow`]). So the place that knows the cost decides, and what is cheap never leaves its thread.
//!
//! # Invariants
//! - A flow waits for the pieces of others that are under way, and for its share; never for all that another has queued.
//! - One thread of the pool takes only short pieces, so that a few long ones do not hold up everybody.
//! - A flow whose queue is longer than a client would wait for is refused ([`Overloaded`]), with the time after which it may try
//!   again.
//! - A request that nobody waits for any more is dropped, at the latest after its present step.
//! - A step that never ends ([`foreign`]) costs a thread, in whose place another one comes; of each name only so many.

mod overseer;
mod pool;
mod queue;
mod worker;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use async_task::FallibleTask;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, timeout_at};

use pool::{Boxed, Left, Meta, POLLED, ProcessorPool};

pub use queue::{FairQueue, Flow};
pub use worker::{Foreign, foreign, foreign_future, is_in_pool};

/// A step of less stays where it is: handing it over costs about a twentieth of this, and it holds up its thread for no longer.
pub const DEAR: Duration = Duration::from_millis(1);

/// The queue of a flow is full, or steps of a name that do not end have all the threads that they may have ([`foreign`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too much of this is waiting already")]
pub struct Overloaded {
    /// The time after which as much as waits now will have been done; at least a second.
    pub retry_after: Duration,
}

/// The request was lost: a step of it panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a step of the request failed")]
pub struct Lost;

/// The answer does not come: [`Run::within`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// A step of the request panicked.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The deadline has passed.
    #[error("the request did not complete in time")]
    Late,
}

/// A pool of threads. Cheap to clone; the threads end when the last clone is dropped.
#[derive(Clone)]
pub struct Processors {
    shared: Arc<ProcessorPool>,
    _ends: Arc<Ends>,
}

/// Ends the threads when it is dropped.
struct Ends(Arc<ProcessorPool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Processors {
    /// A pool of so many threads, and one for short pieces alone.
    ///
    /// # Errors
    /// Those of starting a thread.
    ///
    /// # Panics
    /// Outside a tokio runtime, whose timers the requests use.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let shared = ProcessorPool::new(threads.max(1));
        let ends = Arc::new(Ends(Arc::clone(&shared)));
        shared.start_all()?;
        Ok(Self { shared, _ends: ends })
    }

    /// Ends the threads and waits for them, whoever else has a clone; what waits in the queue is dropped. Blocks for as long as
    /// the present steps take, so it must not be called in one. A thread whose step does not end is left behind.
    pub fn shutdown(self) {
        self.shared.end();
        self.shared.join();
    }

    /// Runs a request: on the caller's thread as long as it is cheap.
    ///
    /// Dropping the answer drops the request.
    pub fn run<T: Send + 'static>(
        &self,
        flow: Flow,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Run<T> {
        Run { shared: Arc::clone(&self.shared), flow, at: At::Caller(Box::pin(request)) }
    }

    /// Runs a request that is thought to be cheap, on the caller's thread. `None` if it came to a dear step: it was given up
    /// there, so it must have had no effect, and may be [run](Self::run) from its beginning.
    pub async fn attempt<T>(&self, flow: Flow, mut request: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        poll_fn(|cx| match self.shared.poll_here(flow, request.as_mut(), cx) {
            (Poll::Ready(answer), _) => Poll::Ready(Some(answer)),
            (Poll::Pending, 0) => Poll::Pending,
            (Poll::Pending, _) => Poll::Ready(None),
        })
        .await
    }

    /// Runs a single step of this cost, of a request that cannot be refused any more.
    ///
    /// # Errors
    /// [`Lost`] if it panicked.
    pub async fn compute<T: Send + 'static>(
        &self,
        flow: Flow,
        cost: Duration,
        step: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Lost> {
        if cost < DEAR {
            return Ok(step());
        }
        self.run(flow, async move {
            turn(cost).await;
            step()
        })
        .await
    }

    /// The number of pieces that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.waiting()
    }
}

/// A request under way; see [`Processors::run`].
pub struct Run<T> {
    shared: Arc<ProcessorPool>,
    flow: Flow,
    at: At<T>,
}

enum At<T> {
    Caller(Boxed<T>),
    Pool(FallibleTask<Left<T>, Meta>),
    Done,
}

impl<T: Send + 'static> Run<T> {
    /// The answer, unless the deadline passes first. Nobody waits for the request then: needed for one with [`foreign`] steps, which
    /// do not look at a clock.
    ///
    /// # Errors
    /// [`NoAnswer`]
    pub async fn within(self, deadline: Instant) -> Result<T, NoAnswer> {
        match timeout_at(deadline, self).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(NoAnswer::Late),
        }
    }
}

impl<T: Send + 'static> Future for Run<T> {
    type Output = Result<T, Lost>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            match &mut this.at {
                At::Caller(request) => {
                    let dear = match this.shared.poll_here(this.flow, request.as_mut(), cx) {
                        (Poll::Ready(answer), _) => {
                            this.at = At::Done;
                            return Poll::Ready(Ok(answer));
                        }
                        (Poll::Pending, 0) => return Poll::Pending,
                        (Poll::Pending, dear) => dear,
                    };
                    if let At::Caller(request) = std::mem::replace(&mut this.at, At::Done) {
                        this.at = At::Pool(this.shared.take(this.flow, dear, request));
                    }
                }
                At::Pool(task) => match Pin::new(task).poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Left::GoesOn(request))) => this.at = At::Caller(request),
                    Poll::Ready(Some(Left::Answered(answer))) => {
                        this.at = At::Done;
                        return Poll::Ready(Ok(answer));
                    }
                    Poll::Ready(None) => {
                        this.at = At::Done;
                        return Poll::Ready(Err(Lost));
                    }
                },
                At::Done => return Poll::Ready(Err(Lost)),
            }
        }
    }
}

/// Says that the next step of the request that is being run takes a processor for about so long. A step that is dear goes on in
/// the pool, once it is its turn. Outside [`Processors::run`] nothing happens.
///
/// # Errors
/// [`Overloaded`]: the request should be refused.
pub async fn dear(cost: Duration) -> Result<(), Overloaded> {
    if cost < DEAR { Ok(()) } else { wait(cost, true).await }
}

/// As [`dear`], for a request that cannot be refused any more: it has had an effect, or half of its answer was sent.
pub async fn turn(cost: Duration) {
    if cost >= DEAR {
        // Only admission fails.
        let _ = wait(cost, false).await;
    }
}

/// Says that the request goes on with a wait: it leaves the pool, if it is there, so that its caller's thread is woken and not two. One
/// that waits within a [`foreign_future`] stays.
pub async fn back() {
    let mut is_back = worker::is_in_step();
    poll_fn(|cx| {
        if is_back {
            return Poll::Ready(());
        }
        is_back = true;
        POLLED.with_borrow_mut(|polled| match polled.as_mut().filter(|polled| polled.next.is_some()) {
            Some(polled) => {
                polled.goes_back = true;
                // Its caller polls it at once; but of several steps that are waited for together, only those that were woken.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
    })
    .await;
}

/// True within a request that is being [run](Processors::run), in the pool or not.
#[must_use]
pub fn is_run() -> bool {
    POLLED.with_borrow(Option::is_some)
}

/// True if the request that is being polled is not in the pool, and has just been told to go there.
fn sent_to_pool() -> bool {
    POLLED.with_borrow_mut(|polled| match polled.as_mut().filter(|polled| polled.next.is_none()) {
        Some(polled) => {
            polled.dear = polled.dear.saturating_add(nanos(DEAR));
            true
        }
        None => false,
    })
}

async fn wait(cost: Duration, may_be_refused: bool) -> Result<(), Overloaded> {
    let mut is_its_turn = false;
    let is_foreign = worker::is_in_step();
    poll_fn(|cx| {
        if is_its_turn {
            return Poll::Ready(Ok(()));
        }
        POLLED.with_borrow_mut(|polled| {
            let Some(polled) = polled else { return Poll::Ready(Ok(())) };
            // A foreign future may have done anything before.
            let may_be_refused = may_be_refused && !is_foreign;
            if may_be_refused && let Err(overloaded) = polled.shared.admit(polled.flow) {
                return Poll::Ready(Err(overloaded));
            }
            match &polled.next {
                Some(next) => drop(next.fetch_add(nanos(cost), Ordering::Relaxed)),
                None => polled.dear = polled.dear.saturating_add(nanos(cost)),
            }
            is_its_turn = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    })
    .await
}

/// The time that this thread has had a processor.
#[must_use]
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

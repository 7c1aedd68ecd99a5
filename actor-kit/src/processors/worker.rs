//! One thread of the pool, and what becomes of it where a step does not end.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

use super::pool::POLLED;
use super::{Overloaded, sent_to_pool};

/// The longest that a foreign step may take before another thread comes in the place of its own.
pub(super) const FOREIGN_MAX: Duration = Duration::from_secs(1);
/// The threads that steps of one kind may have that do not end; then requests of that kind are refused.
pub(super) const WRITTEN_OFF_MAX: usize = 4;

/// A thread of the pool.
pub(super) struct Worker {
    /// The dearest piece that it takes, in nanoseconds.
    pub(super) most: u64,
    step: Mutex<Step>,
    /// The thread has ended.
    ended: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The foreign step that a thread is in.
enum Step {
    None,
    /// Of this kind, and of this name in the log.
    Since(Instant, u64, Arc<str>),
    /// It takes too long, a step of this kind: another thread has the place of this one.
    WrittenOff(u64),
    /// Not any more: the thread has ended.
    Ended,
}

thread_local! {
    static WORKER: RefCell<Option<Arc<Worker>>> = const { RefCell::new(None) };
}

impl Worker {
    pub(super) fn new(most: u64) -> Self {
        Self { most, step: Mutex::new(Step::None), ended: Condvar::new(), thread: Mutex::default() }
    }

    /// The thread runs.
    pub(super) fn started(&self, thread: JoinHandle<()>) {
        *self.thread.lock() = Some(thread);
    }

    /// This thread is the worker's, and works.
    pub(super) fn live(self: &Arc<Self>, work: impl FnOnce()) {
        WORKER.set(Some(Arc::clone(self)));
        work();
        *self.step.lock() = Step::Ended;
        self.ended.notify_all();
    }

    /// True within a foreign step that is not known to last too long.
    pub(super) fn is_watched(&self) -> bool {
        matches!(*self.step.lock(), Step::Since(..))
    }

    /// Writes the thread off if its step has lasted too long, once; returns the step's kind then.
    pub(super) fn write_off(&self) -> Option<u64> {
        let mut step = self.step.lock();
        let kind = match &*step {
            Step::Since(began, kind, name) if began.elapsed() >= FOREIGN_MAX => {
                tracing::error!(%name, "a rule takes too long: its thread is written off until it ends");
                *kind
            }
            _ => return None,
        };
        *step = Step::WrittenOff(kind);
        Some(kind)
    }

    /// Takes back that it was written off. Nobody looks at its present step any more.
    pub(super) fn keep(&self) {
        *self.step.lock() = Step::None;
    }

    /// The kind of the step for which the thread was written off, if it was.
    pub(super) fn written_off(&self) -> Option<u64> {
        match *self.step.lock() {
            Step::WrittenOff(kind) => Some(kind),
            Step::None | Step::Since(..) | Step::Ended => None,
        }
    }

    /// Waits until the thread has ended, unless it is in a foreign step that does not end.
    pub(super) fn join(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        loop {
            let mut step = self.step.lock();
            match *step {
                Step::Ended => break,
                Step::WrittenOff(_) => {
                    tracing::error!("a thread is left behind, as a rule of a kind does not end");
                    return;
                }
                Step::None | Step::Since(..) => drop(self.ended.wait_for(&mut step, FOREIGN_MAX)),
            }
            drop(step);
            self.write_off();
        }
        if thread.join().is_err() {
            tracing::error!("a processor's thread ended with a panic");
        }
    }

    fn is_in_step(&self) -> bool {
        matches!(*self.step.lock(), Step::Since(..))
    }

    fn set(&self, to: Step) {
        let mut step = self.step.lock();
        if !matches!(*step, Step::WrittenOff(_)) {
            *step = to;
        }
    }
}

/// Ends a step, also after a panic.
struct EndOfStep<'a>(&'a Worker);

impl Drop for EndOfStep<'_> {
    fn drop(&mut self) {
        self.0.set(Step::None);
    }
}

/// A future of code that is not ours: each time that it goes on is a [`foreign`] step, in the pool.
///
/// # Errors
/// [`Overloaded`], as for such a step.
pub async fn foreign_future<F: Future>(name: &Arc<str>, future: F) -> Result<F::Output, Overloaded> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        // It may have left the pool by a wait of its own.
        if sent_to_pool() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match foreign(name, || future.as_mut().poll(cx)) {
            Ok(polled) => polled.map(Ok),
            Err(overloaded) => Poll::Ready(Err(overloaded)),
        }
    })
    .await
}

/// A step of code that is not ours, and may take for ever; `name` says in the log whose. Its request has to wait for a turn in the
/// pool before ([`dear`](super::dear)); elsewhere, nothing looks at how long the step takes.
///
/// # Errors
/// [`Overloaded`]: too many such steps of the request's kind do not end. A request that was admitted before gets it, too.
pub fn foreign<T>(name: &Arc<str>, step: impl FnOnce() -> T) -> Result<T, Overloaded> {
    let worker = WORKER.with_borrow(Clone::clone);
    let polled =
        POLLED.with_borrow(|polled| Some((Arc::clone(&polled.as_ref()?.shared), polled.as_ref()?.flow.kind)));
    let (Some(worker), Some((pool, kind))) = (worker, polled) else { return Ok(step()) };
    if worker.is_in_step() {
        // A part of the one that is looked after.
        return Ok(step());
    }
    pool.admit_foreign(kind)?;
    worker.set(Step::Since(Instant::now(), kind, Arc::clone(name)));
    let _end = EndOfStep(&worker);
    pool.oversee();
    drop(pool);
    Ok(step())
}

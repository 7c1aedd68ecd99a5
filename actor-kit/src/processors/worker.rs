//! One thread of the pool, and what becomes of it where a step does not end.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

use super::pool::{POLLED, ProcessorPool};
use super::{Overloaded, sent_to_pool};

/// The longest that a foreign step may take before another thread comes in the place of its own.
pub(super) const FOREIGN_MAX: Duration = Duration::from_secs(1);
/// The threads that steps of one kind may have that do not end; then requests of that kind are refused.
pub(super) const WRITTEN_OFF_MAX: usize = 4;

/// The threads that drop what was left outside the pool, and the most of them.
static ENDING: AtomicUsize = AtomicUsize::new(0);
const ENDING_MAX: usize = 64;

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
    /// Of this name.
    Since(Instant, Arc<str>),
    /// It takes too long, a step of this name: another thread has the place of this one.
    WrittenOff(Arc<str>),
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

    /// Writes the thread off if its step has lasted too long, once; returns the step's name then.
    pub(super) fn write_off(&self) -> Option<Arc<str>> {
        let mut step = self.step.lock();
        let name = match &*step {
            Step::Since(began, name) if began.elapsed() >= FOREIGN_MAX => {
                tracing::error!(%name, "a step of the program takes too long: its thread is written off until it ends");
                Arc::clone(name)
            }
            _ => return None,
        };
        *step = Step::WrittenOff(Arc::clone(&name));
        Some(name)
    }

    /// Takes back that it was written off. Nobody looks at its present step any more.
    pub(super) fn keep(&self) {
        *self.step.lock() = Step::None;
    }

    /// The name of the step for which the thread was written off, if it was.
    pub(super) fn written_off(&self) -> Option<Arc<str>> {
        match &*self.step.lock() {
            Step::WrittenOff(name) => Some(Arc::clone(name)),
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
                    tracing::error!("a thread is left behind, as a step of the program does not end");
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
        matches!(*self.step.lock(), Step::Since(..) | Step::WrittenOff(_))
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

/// A value of code that is not ours, such as a future: its destructor may panic, and it may take for ever. It runs as a [`foreign`] step
/// where the value is dropped in the pool, and on a thread of its own everywhere else, which nobody waits for.
pub struct Foreign<T: Send + 'static> {
    name: Arc<str>,
    value: Option<T>,
}

impl<T: Send + 'static> Foreign<T> {
    /// Looks after this value; `name` says in the log whose it is.
    pub fn new(name: &Arc<str>, value: T) -> Self {
        Self { name: Arc::clone(name), value: Some(value) }
    }

    /// The value, which its user looks after from now on.
    #[must_use]
    pub fn into_inner(mut self) -> Option<T> {
        self.value.take()
    }
}

impl<T: Send + 'static> Drop for Foreign<T> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        if let Some(place) = Place::here() {
            place.step(&self.name, || ended(value));
            return;
        }
        let left = Arc::new(Mutex::new(Some(value)));
        let ending = Arc::clone(&left);
        let end = move || {
            ended(ending.lock().take());
            ENDING.fetch_sub(1, Ordering::Relaxed);
        };
        let thread = || std::thread::Builder::new().name("dropped".to_owned()).spawn(end);
        if ENDING.fetch_add(1, Ordering::Relaxed) >= ENDING_MAX || thread().is_err() {
            ENDING.fetch_sub(1, Ordering::Relaxed);
            tracing::error!(name = %self.name, "what the program has left is not dropped: too much of it does not end");
            // Not on this thread, whatever becomes of it.
            std::mem::forget(left.lock().take());
        }
    }
}

/// Drops a value, whose destructor may panic: the hook logs that.
fn ended<T>(value: T) {
    drop(catch_unwind(AssertUnwindSafe(|| drop(value))));
}

/// A future of code that is not ours: each time that it goes on, and when it is dropped, is a [`foreign`] step in the pool.
///
/// # Errors
/// [`Overloaded`], as for such a step; only before it begins.
pub async fn foreign_future<F>(name: &Arc<str>, future: F) -> Result<F::Output, Overloaded>
where
    F: Future + Send + 'static,
{
    let mut future = Foreign::new(name, Box::pin(future));
    let (mut has_begun, mut parked) = (false, None);
    poll_fn(|cx| {
        // A wait of its own may have left the pool.
        if sent_to_pool() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let place = Place::here();
        if let Some(place) = &place
            && let Err(overloaded) = place.pool.admit_foreign(name)
        {
            if !has_begun {
                return Poll::Ready(Err(overloaded));
            }
            // What it has done cannot be refused any more: it waits for a thread, or for its deadline.
            let returned = match &mut parked {
                Some(returned) => returned,
                // Asked once more below: one may have come back before this.
                None => {
                    cx.waker().wake_by_ref();
                    parked.insert(Box::pin(Arc::clone(&place.pool.returned).notified_owned()))
                }
            };
            if returned.as_mut().poll(cx).is_ready() {
                parked = None;
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        (has_begun, parked) = (true, None);
        let Some(future) = future.value.as_mut() else { return Poll::Pending };
        match place {
            Some(place) => place.step(name, || future.as_mut().poll(cx)).map(Ok),
            None => future.as_mut().poll(cx).map(Ok),
        }
    })
    .await
}

/// A step of code that is not ours, and may take for ever; `name` says whose. Its request has to wait for a turn in the pool before
/// ([`dear`](super::dear)); elsewhere, nothing looks at how long the step takes.
///
/// # Errors
/// [`Overloaded`]: too many steps of this name do not end.
pub fn foreign<T>(name: &Arc<str>, step: impl FnOnce() -> T) -> Result<T, Overloaded> {
    let Some(place) = Place::here() else { return Ok(step()) };
    if place.worker.is_in_step() {
        // The outer step is watched already.
        return Ok(step());
    }
    place.pool.admit_foreign(name)?;
    Ok(place.step(name, step))
}

/// True on a thread of the pool that polls a request: a [`foreign`] step is watched here.
#[must_use]
pub fn is_in_pool() -> bool {
    Place::here().is_some()
}

/// True within a foreign step.
pub(super) fn is_in_step() -> bool {
    Place::here().is_some_and(|place| place.worker.is_in_step())
}

/// The thread of the pool that this is.
struct Place {
    worker: Arc<Worker>,
    pool: Arc<ProcessorPool>,
}

impl Place {
    /// None outside the pool.
    fn here() -> Option<Self> {
        // A thread that ends may have no such variables any more.
        let worker = WORKER.try_with(|worker| worker.borrow().clone()).ok().flatten()?;
        let pool =
            POLLED.try_with(|polled| polled.borrow().as_ref().map(|polled| Arc::clone(&polled.shared)));
        let pool = pool.ok().flatten()?;
        Some(Self { worker, pool })
    }

    /// Makes the step, which is watched.
    fn step<T>(self, name: &Arc<str>, step: impl FnOnce() -> T) -> T {
        let Self { worker, pool } = self;
        if worker.is_in_step() {
            return step();
        }
        worker.set(Step::Since(Instant::now(), Arc::clone(name)));
        let _end = EndOfStep(&worker);
        pool.oversee();
        drop(pool);
        step()
    }
}

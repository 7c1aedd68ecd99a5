//! The threads of a pool, the queue between them, and the requests in it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_task::{FallibleTask, Runnable};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::overseer::Overseer;
use super::queue::{FairQueue, Flow};
use super::worker::{self, Worker};
use super::{Overloaded, nanos, thread_time};

/// A piece of at most this is short.
const SHORT: Duration = Duration::from_millis(50);
/// The cost of going on after a wait, until it is known better.
const GOING_ON: Duration = Duration::from_micros(50);
/// The longest that a flow's queue may take the pool.
const QUEUE_MAX: Duration = Duration::from_secs(5);
/// The most pieces in a flow's queue.
const PIECES_MAX: usize = 1024;

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A piece of work that may be polled.
type Piece = Runnable<Meta>;

/// Who pays for a task, and what its next piece is thought to cost, in nanoseconds.
pub(super) struct Meta {
    flow: Flow,
    cost: Arc<AtomicU64>,
}

pub(super) struct ProcessorPool {
    state: Mutex<State>,
    /// A thread has a piece to take: one that takes any, and one that takes short ones alone.
    ready: [Condvar; 2],
    threads: u64,
    /// The threads, until they are joined.
    pub(super) workers: Mutex<Vec<Arc<Worker>>>,
    pub(super) overseer: Overseer,
    /// A thread that was written off has come back.
    pub(super) returned: Arc<Notify>,
    /// That of the requests.
    runtime: Handle,
}

struct State {
    queue: FairQueue<Piece>,
    /// The threads that steps of a name have, which do not end.
    written_off: HashMap<Arc<str>, usize>,
    /// The threads that wait for a piece, as in [`ProcessorPool::ready`], without those that were told of one.
    idle: [usize; 2],
    ended: bool,
}

/// A thread that takes any piece.
const ANY: usize = 0;
/// One that takes short ones alone.
const SHORT_ALONE: usize = 1;

/// The request that is being polled on this thread.
pub(super) struct Polled {
    pub(super) shared: Arc<ProcessorPool>,
    pub(super) flow: Flow,
    /// The cost of the dear step that it has come to on its caller's thread, in nanoseconds; 0 for none.
    pub(super) dear: u64,
    /// The cost of its next piece, in the pool.
    pub(super) next: Option<Arc<AtomicU64>>,
    /// It goes back from the pool to its caller's thread.
    pub(super) goes_back: bool,
}

thread_local! {
    pub(super) static POLLED: RefCell<Option<Polled>> = const { RefCell::new(None) };
}

/// Puts back what was polled before, also after a panic.
struct PutBack(Option<Polled>);

impl PutBack {
    fn replacing(polled: Polled) -> Self {
        Self(POLLED.replace(Some(polled)))
    }
}

impl Drop for PutBack {
    fn drop(&mut self) {
        POLLED.set(self.0.take());
    }
}

/// The end of a request's time in the pool.
pub(super) enum Left<T> {
    Answered(T),
    /// It goes on on its caller's thread ([`back`]).
    GoesOn(Boxed<T>),
}

/// A request in the pool.
struct InPool<T>(Option<Boxed<T>>);

impl<T> Future for InPool<T> {
    type Output = Left<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Left<T>> {
        let Some(request) = &mut self.0 else { return Poll::Pending };
        if let Poll::Ready(answer) = request.as_mut().poll(cx) {
            return Poll::Ready(Left::Answered(answer));
        }
        let goes_back = |polled: &mut Option<Polled>| {
            let Some(Polled { goes_back, next: Some(next), .. }) = polled else { return false };
            // Not while another part of it waits for a turn, and so has woken the task.
            std::mem::take(goes_back) && next.load(Ordering::Relaxed) == 0
        };
        match self.0.take_if(|_| POLLED.with_borrow_mut(goes_back)) {
            Some(request) => Poll::Ready(Left::GoesOn(request)),
            None => Poll::Pending,
        }
    }
}

impl State {
    /// # Errors
    /// [`Overloaded`]: steps of this name have too many threads that they do not give back.
    fn admit_foreign(&self, name: &str) -> Result<(), Overloaded> {
        match self.written_off.get(name) {
            Some(threads) if *threads >= worker::WRITTEN_OFF_MAX => {
                Err(Overloaded { retry_after: worker::FOREIGN_MAX })
            }
            _ => Ok(()),
        }
    }

    /// Chooses an idle thread for a new piece of this cost; none if all that can take it are at work, and will look for the next one.
    fn tell_of(&mut self, cost: u64) -> Option<usize> {
        if cost <= nanos(SHORT) { self.tell(&[SHORT_ALONE, ANY]) } else { self.tell(&[ANY]) }
    }

    /// Chooses an idle thread for what is left, after a piece was taken: the one that was told of it may have found a longer piece in
    /// its way.
    fn tell_of_rest(&mut self) -> Option<usize> {
        if self.queue.is_empty() { None } else { self.tell(&[ANY, SHORT_ALONE]) }
    }

    /// Chooses an idle thread, of the first of these sorts that has one.
    fn tell(&mut self, sorts: &[usize]) -> Option<usize> {
        let kind = sorts.iter().copied().find(|kind| self.idle.get(*kind).is_some_and(|idle| *idle > 0))?;
        if let Some(idle) = self.idle.get_mut(kind) {
            *idle -= 1;
        }
        Some(kind)
    }
}

impl ProcessorPool {
    /// A pool whose threads are to be [started](Self::start_all).
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(super) fn new(threads: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                queue: FairQueue::default(),
                written_off: HashMap::new(),
                idle: [0; 2],
                ended: false,
            }),
            ready: Default::default(),
            threads: threads as u64,
            workers: Mutex::default(),
            overseer: Overseer::default(),
            returned: Arc::default(),
            runtime: Handle::current(),
        })
    }

    /// Starts its threads, and the one for short pieces.
    pub(super) fn start_all(self: &Arc<Self>) -> std::io::Result<()> {
        (0..self.threads).try_for_each(|n| self.start(&format!("processor-{n}"), u64::MAX))?;
        self.start(&format!("processor-{}", self.threads), nanos(SHORT))
    }

    /// Waits for its threads, which were told to [end](Self::end).
    pub(super) fn join(&self) {
        // It starts others.
        self.overseer.join();
        let workers = std::mem::take(&mut *self.workers.lock());
        for worker in workers {
            worker.join();
        }
    }

    /// The number of pieces that wait.
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().queue.len()
    }

    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        for ready in &self.ready {
            ready.notify_all();
        }
        self.overseer.end();
    }

    /// Polls a request on this thread. Returns the cost of the dear steps that it came to, too, in nanoseconds.
    pub(super) fn poll_here<F: Future + ?Sized>(
        self: &Arc<Self>,
        flow: Flow,
        request: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> (Poll<F::Output>, u64) {
        let put_back = PutBack::replacing(Polled {
            shared: Arc::clone(self),
            flow,
            dear: 0,
            next: None,
            goes_back: false,
        });
        let polled = request.poll(cx);
        let dear = POLLED.with_borrow(|polled| polled.as_ref().map_or(0, |polled| polled.dear));
        drop(put_back);
        (polled, dear)
    }

    /// Puts a request into the queue.
    pub(super) fn take<T: Send + 'static>(
        self: &Arc<Self>,
        flow: Flow,
        cost: u64,
        request: Boxed<T>,
    ) -> FallibleTask<Left<T>, Meta> {
        let shared = Arc::clone(self);
        let schedule = move |piece: Piece| {
            let Meta { flow, cost } = piece.metadata();
            let (flow, cost) = (*flow, cost.swap(0, Ordering::Relaxed).max(nanos(GOING_ON)));
            let mut state = shared.state.lock();
            if state.ended {
                drop(state);
                // Outside the lock: dropping a piece drops its request.
                drop(piece);
                return;
            }
            state.queue.push(flow, cost, piece);
            let told = state.tell_of(cost);
            drop(state);
            shared.wake(told);
        };
        let meta = Meta { flow, cost: Arc::new(AtomicU64::new(cost)) };
        let (piece, task) =
            async_task::Builder::new().metadata(meta).spawn(|_| InPool(Some(request)), schedule);
        piece.schedule();
        task.fallible()
    }

    /// Starts a thread that takes pieces of at most this cost.
    fn start(self: &Arc<Self>, name: &str, most: u64) -> std::io::Result<()> {
        let worker = Arc::new(Worker::new(most));
        let (its_pool, its) = (Arc::clone(self), Arc::clone(&worker));
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _entered = its_pool.runtime.enter();
            its.live(|| its_pool.work(&its));
        })?;
        worker.started(thread);
        self.workers.lock().push(worker);
        Ok(())
    }

    /// Has other threads come in the place of those whose steps do not end.
    pub(super) fn replace_stuck(self: &Arc<Self>) {
        let workers = self.workers.lock().clone();
        for worker in workers {
            // Locked, so that a thread is counted before it sees that it was written off.
            let mut state = self.state.lock();
            let Some(name) = worker.write_off() else { continue };
            if let Err(error) = self.start("processor", worker.most) {
                tracing::error!(%error, "no thread comes in the place of one that is written off");
                worker.keep();
                continue;
            }
            *state.written_off.entry(name).or_default() += 1;
        }
    }

    /// Wakes a thread of the sort that was told.
    fn wake(&self, told: Option<usize>) {
        if let Some(ready) = told.and_then(|kind| self.ready.get(kind)) {
            ready.notify_one();
        }
    }

    /// Waits until this thread is told of a piece, which another one may take before it.
    fn wait(&self, state: &mut MutexGuard<'_, State>, most: u64) {
        let kind = if most == u64::MAX { ANY } else { SHORT_ALONE };
        if let (Some(idle), Some(ready)) = (state.idle.get_mut(kind), self.ready.get(kind)) {
            *idle += 1;
            ready.wait(state);
        }
    }

    /// A thread's life.
    fn work(self: &Arc<Self>, worker: &Arc<Worker>) {
        loop {
            let (flow, cost, piece, told) = {
                let mut state = self.state.lock();
                loop {
                    if state.ended {
                        // Outside the lock, as above.
                        let queue = std::mem::take(&mut state.queue);
                        drop(state);
                        drop(queue);
                        return;
                    }
                    match state.queue.pop(worker.most) {
                        Some((flow, cost, piece)) => break (flow, cost, piece, state.tell_of_rest()),
                        None => self.wait(&mut state, worker.most),
                    }
                }
            };
            self.wake(told);
            let next = Some(Arc::clone(&piece.metadata().cost));
            let polled = Polled { shared: Arc::clone(self), flow, dear: 0, next, goes_back: false };
            let put_back = PutBack::replacing(polled);
            let began = thread_time();
            // The hook has logged a panic; who waits for the task learns of it.
            let _ = catch_unwind(AssertUnwindSafe(|| piece.run()));
            let took = thread_time().saturating_sub(began);
            drop(put_back);
            let change = i64::try_from(nanos(took)).unwrap_or(i64::MAX);
            let change = change.saturating_sub(i64::try_from(cost).unwrap_or(i64::MAX));
            let mut state = self.state.lock();
            state.queue.charge(flow, change);
            let Some(name) = worker.written_off() else { continue };
            // Another thread has its place.
            if let Some(count) = state.written_off.get_mut(&name) {
                *count = count.saturating_sub(1);
            }
            drop(state);
            self.returned.notify_waiters();
            self.workers.lock().retain(|other| !Arc::ptr_eq(other, worker));
            return;
        }
    }

    /// # Errors
    /// [`Overloaded`]
    pub(super) fn admit_foreign(&self, name: &str) -> Result<(), Overloaded> {
        self.state.lock().admit_foreign(name)
    }

    /// # Errors
    /// [`Overloaded`]
    pub(super) fn admit(&self, flow: Flow) -> Result<(), Overloaded> {
        let state = self.state.lock();
        let (waiting, pieces) = state.queue.waiting(flow);
        drop(state);
        let each = waiting / self.threads;
        if pieces > 0 && (each > nanos(QUEUE_MAX) || pieces >= PIECES_MAX) {
            let seconds = each.div_ceil(1_000_000_000).max(1);
            return Err(Overloaded { retry_after: Duration::from_secs(seconds) });
        }
        Ok(())
    }
}

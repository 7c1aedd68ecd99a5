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
//! - A step that never ends ([`foreign`]) costs a thread, in whose place another one comes; of each kind only so many.

mod overseer;
mod queue;
mod worker;

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_task::{FallibleTask, Runnable};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use overseer::Overseer;
use worker::Worker;

pub use queue::{FairQueue, Flow};
pub use worker::foreign;

/// A step of less stays where it is: handing it over costs about a twentieth of this, and it holds up its thread for no longer.
pub const DEAR: Duration = Duration::from_millis(1);
/// A piece of at most this is short.
const SHORT: Duration = Duration::from_millis(50);
/// The cost of going on after a wait, until it is known better.
const GOING_ON: Duration = Duration::from_micros(50);
/// The longest that a flow's queue may take the pool.
const QUEUE_MAX: Duration = Duration::from_secs(5);
/// The most pieces in a flow's queue.
const PIECES_MAX: usize = 1024;

/// The queue of a flow is full.
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

/// A piece of work that may be polled.
type Piece = Runnable<Meta>;

/// Who pays for a task, and what its next piece is thought to cost, in nanoseconds.
struct Meta {
    flow: Flow,
    cost: Arc<AtomicU64>,
}

struct ProcessorPool {
    state: Mutex<State>,
    /// A thread has a piece to take: one that takes any, and one that takes short ones alone.
    ready: [Condvar; 2],
    threads: u64,
    /// The threads, until they are joined.
    workers: Mutex<Vec<Arc<Worker>>>,
    overseer: Overseer,
    /// That of the requests.
    runtime: Handle,
}

struct State {
    queue: FairQueue<Piece>,
    /// The threads that steps of a kind have, which do not end.
    written_off: HashMap<u64, usize>,
    /// The threads that wait for a piece, as in [`ProcessorPool::ready`], without those that were told of one.
    idle: [usize; 2],
    ended: bool,
}

/// A thread that takes any piece.
const ANY: usize = 0;
/// One that takes short ones alone.
const SHORT_ALONE: usize = 1;

/// Ends the threads when it is dropped.
struct Ends(Arc<ProcessorPool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The request that is being polled on this thread.
struct Polled {
    shared: Arc<ProcessorPool>,
    flow: Flow,
    /// The cost of the dear step that it has come to on its caller's thread, in nanoseconds; 0 for none.
    dear: u64,
    /// The cost of its next piece, in the pool.
    next: Option<Arc<AtomicU64>>,
    /// It goes back from the pool to its caller's thread.
    goes_back: bool,
}

thread_local! {
    static POLLED: RefCell<Option<Polled>> = const { RefCell::new(None) };
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

impl Processors {
    /// A pool of so many threads, and one for short pieces alone.
    ///
    /// # Errors
    /// Those of starting a thread.
    ///
    /// # Panics
    /// Outside a tokio runtime, whose timers the requests use.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let threads = threads.max(1);
        let shared = Arc::new(ProcessorPool {
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
            runtime: Handle::current(),
        });
        let ends = Arc::new(Ends(Arc::clone(&shared)));
        for n in 0..=threads {
            let most = if n == threads { nanos(SHORT) } else { u64::MAX };
            shared.start(&format!("processor-{n}"), most)?;
        }
        Ok(Self { shared, _ends: ends })
    }

    /// Ends the threads and waits for them, whoever else has a clone; what waits in the queue is dropped. Blocks for as long as
    /// the present steps take, so it must not be called in one. A thread whose step does not end is left behind.
    pub fn shutdown(self) {
        self.shared.end();
        self.shared.overseer.join();
        let workers = std::mem::take(&mut *self.shared.workers.lock());
        for worker in workers {
            worker.join();
        }
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
        self.shared.state.lock().queue.len()
    }
}

/// A request under way; see [`Processors::run`].
pub struct Run<T> {
    shared: Arc<ProcessorPool>,
    flow: Flow,
    at: At<T>,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum At<T> {
    Caller(Boxed<T>),
    Pool(FallibleTask<Left<T>, Meta>),
    Done,
}

/// The end of a request's time in the pool.
enum Left<T> {
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

impl State {
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
    fn end(&self) {
        self.state.lock().ended = true;
        for ready in &self.ready {
            ready.notify_all();
        }
        self.overseer.end();
    }

    /// Polls a request on this thread. Returns the cost of the dear steps that it came to, too, in nanoseconds.
    fn poll_here<F: Future + ?Sized>(
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
    fn take<T: Send + 'static>(
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
        let worker = Arc::new(Worker::new(most, Arc::downgrade(self)));
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
    fn replace_stuck(self: &Arc<Self>) {
        let stuck: Vec<_> = self
            .workers
            .lock()
            .iter()
            .filter_map(|worker| Some((Arc::clone(worker), worker.write_off()?)))
            .collect();
        for (worker, kind) in stuck {
            *self.state.lock().written_off.entry(kind).or_default() += 1;
            if let Err(error) = self.start("processor", worker.most) {
                tracing::error!(%error, "no thread in the place of one that is written off");
            }
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
            let Some(kind) = worker.written_off() else { continue };
            // Another thread has its place.
            if let Some(count) = state.written_off.get_mut(&kind) {
                *count = count.saturating_sub(1);
            }
            drop(state);
            self.workers.lock().retain(|other| !Arc::ptr_eq(other, worker));
            return;
        }
    }

    /// # Errors
    /// [`Overloaded`]
    fn admit(&self, flow: Flow) -> Result<(), Overloaded> {
        let state = self.state.lock();
        if state.written_off.get(&flow.kind).is_some_and(|threads| *threads >= worker::WRITTEN_OFF_MAX) {
            return Err(Overloaded { retry_after: worker::FOREIGN_MAX });
        }
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

/// Says that the request goes on with a wait: it leaves the pool, if it is there, so that its caller's thread is woken and not two.
pub async fn back() {
    let mut is_back = false;
    poll_fn(|_| {
        if is_back {
            return Poll::Ready(());
        }
        is_back = true;
        // Its caller polls it at once.
        POLLED.with_borrow_mut(|polled| match polled.as_mut().filter(|polled| polled.next.is_some()) {
            Some(polled) => {
                polled.goes_back = true;
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
    })
    .await;
}

async fn wait(cost: Duration, may_be_refused: bool) -> Result<(), Overloaded> {
    let mut is_its_turn = false;
    poll_fn(|cx| {
        if is_its_turn {
            return Poll::Ready(Ok(()));
        }
        POLLED.with_borrow_mut(|polled| {
            let Some(polled) = polled else { return Poll::Ready(Ok(())) };
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
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use tokio::sync::oneshot;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn flow(user: u64, kind: u64) -> Flow {
        Flow { user, kind }
    }

    fn thread() -> Option<String> {
        std::thread::current().name().map(str::to_owned)
    }

    /// Takes a thread of the pool until the sender is dropped; returns once it has begun.
    async fn block(pool: &Processors, of: Flow) -> (mpsc::Sender<()>, tokio::task::JoinHandle<bool>) {
        let (release, held) = mpsc::channel::<()>();
        let (began, begun) = oneshot::channel();
        let step = async move {
            dear(MINUTE).await.unwrap();
            let _ = began.send(());
            held.recv().is_err()
        };
        let running = pool.run(of, step);
        let blocked = tokio::spawn(async move { running.await == Ok(true) });
        begun.await.unwrap();
        (release, blocked)
    }

    #[tokio::test]
    async fn what_is_cheap_stays_and_what_is_dear_goes() {
        let pool = Processors::new(1).unwrap();
        let here = thread();
        let request = async move {
            let mut seen = vec![thread()];
            dear(Duration::from_micros(999)).await.unwrap();
            seen.push(thread());
            dear(Duration::from_millis(1)).await.unwrap();
            seen.push(thread());
            tokio::time::sleep(Duration::from_millis(1)).await;
            seen.push(thread());
            seen
        };
        let seen = pool.run(flow(1, 1), request).await.unwrap();
        assert_eq!(seen[..2], [here.clone(), here]);
        assert!(seen[2..].iter().all(|name| name.as_deref().is_some_and(|n| n.starts_with("processor-"))));
        assert_eq!(dear(MINUTE).await, Ok(()), "outside a pool");
    }

    /// A request with a foreign step that lasts until the sender is dropped.
    fn stuck(pool: &Processors, of: Flow) -> (mpsc::Sender<()>, Run<Result<bool, Overloaded>>) {
        let (release, held) = mpsc::channel::<()>();
        let request = async move {
            dear(DEAR).await?;
            Ok(foreign(&"a test".into(), || held.recv().is_err()))
        };
        (release, pool.run(of, request))
    }

    #[tokio::test]
    async fn a_step_that_does_not_end_costs_its_thread_alone() {
        let pool = Processors::new(1).unwrap();
        let mut releases = Vec::new();
        let in_time = || Instant::now() + MINUTE;
        // Each but the first two begins in the place of one that is written off.
        let waiting: Vec<_> = (0..worker::WRITTEN_OFF_MAX)
            .map(|_| {
                let (release, request) = stuck(&pool, flow(1, 7));
                releases.push(release);
                tokio::spawn(request.within(in_time()))
            })
            .collect();
        // Others have all the threads that there were.
        let (release, blocked) = block(&pool, flow(1, 1)).await;
        let short = pool.run(flow(1, 2), async { dear(DEAR).await.is_ok() });
        assert_eq!(short.await, Ok(true));
        drop(release);
        assert!(blocked.await.unwrap());
        // No more of this kind, once all of them are written off.
        let refused = Overloaded { retry_after: worker::FOREIGN_MAX };
        loop {
            let (release, request) = stuck(&pool, flow(2, 7));
            drop(release);
            match request.within(in_time()).await {
                Ok(Err(why)) => break assert_eq!(why, refused),
                answer => assert_eq!(answer, Ok(Ok(true))),
            }
        }
        assert_eq!(pool.shared.workers.lock().len(), 2 + worker::WRITTEN_OFF_MAX);
        let (_release, late) = stuck(&pool, flow(1, 8));
        assert_eq!(late.within(Instant::now() + DEAR).await, Err(NoAnswer::Late));
        // Once a step ends after all, its kind has room again.
        releases.pop();
        loop {
            let (release, request) = stuck(&pool, flow(1, 7));
            drop(release);
            match request.within(in_time()).await {
                Ok(Err(_)) => tokio::task::yield_now().await,
                answer => break assert_eq!(answer, Ok(Ok(true))),
            }
        }
        releases.clear();
        for answer in waiting {
            assert_eq!(answer.await.unwrap(), Ok(Ok(true)));
        }
        pool.shutdown();
    }

    #[tokio::test]
    async fn a_pool_ends_though_a_step_does_not() {
        let pool = Processors::new(1).unwrap();
        let (_release, request) = stuck(&pool, flow(1, 1));
        assert_eq!(request.within(Instant::now() + worker::FOREIGN_MAX / 10).await, Err(NoAnswer::Late));
        pool.shutdown();
    }

    #[tokio::test]
    async fn a_foreign_step_may_panic() {
        let pool = Processors::new(1).unwrap();
        let request = pool.run(flow(1, 1), async {
            dear(DEAR).await.unwrap();
            foreign(&"a test".into(), || panic!("a bug"))
        });
        let answer: Result<(), NoAnswer> = request.within(Instant::now() + MINUTE).await;
        assert_eq!(answer, Err(NoAnswer::Lost(Lost)));
        let (release, request) = stuck(&pool, flow(1, 1));
        drop(release);
        assert_eq!(request.within(Instant::now() + MINUTE).await, Ok(Ok(true)));
        assert!(foreign(&"a test".into(), || true), "outside a pool");
    }

    /// The thread for short pieces cannot take one that has a long one before it.
    #[tokio::test]
    async fn no_thread_stays_idle_while_pieces_wait() {
        let pool = Processors::new(2).unwrap();
        for _ in 0..200 {
            let (done, waits) = mpsc::channel();
            let long = pool.run(flow(1, 1), async move {
                dear(MINUTE).await.unwrap();
                waits.recv().unwrap()
            });
            let short = pool.run(flow(1, 1), async move {
                turn(DEAR).await;
                done.send(()).unwrap();
            });
            let both = futures::future::join(long, short);
            let (long, short) = timeout_at(Instant::now() + MINUTE, both).await.unwrap();
            assert_eq!((long, short), (Ok(()), Ok(())));
        }
    }

    #[tokio::test]
    async fn a_request_may_come_back() {
        let pool = Processors::new(1).unwrap();
        let here = thread();
        let request = async move {
            back().await;
            let mut seen = vec![thread()];
            for _ in 0..2 {
                dear(DEAR).await.unwrap();
                seen.push(thread());
                back().await;
                seen.push(thread());
                tokio::time::sleep(Duration::from_millis(1)).await;
                seen.push(thread());
            }
            seen
        };
        let seen = pool.run(flow(1, 1), request).await.unwrap();
        let away: Vec<bool> = seen.iter().map(|thread| *thread != here).collect();
        assert_eq!(away, [false, true, false, false, true, false, false]);
        // Parts of a request that wait for a turn of their own keep it there.
        let parts = pool.run(flow(1, 1), async {
            dear(DEAR).await.unwrap();
            let part = async {
                dear(DEAR).await.unwrap();
                thread()
            };
            futures::join!(back(), part).1
        });
        assert_ne!(parts.await.unwrap(), thread());
        let in_pool = pool.run(flow(1, 1), async {
            dear(DEAR).await.unwrap();
            back().await;
            dear(DEAR).await.unwrap();
            panic!("after it came back")
        });
        assert_eq!(in_pool.await, Err::<(), _>(Lost));
        back().await;
    }

    #[tokio::test]
    async fn an_attempt_ends_with_the_first_dear_step() {
        let pool = Processors::new(1).unwrap();
        let cheap = pin!(async {
            tokio::task::yield_now().await;
            dear(Duration::from_micros(999)).await.map(|()| thread())
        });
        assert_eq!(pool.attempt(flow(1, 1), cheap).await, Some(Ok(thread())));
        let went_on = AtomicUsize::new(0);
        let costly = pin!(async {
            went_on.fetch_add(1, Ordering::Relaxed);
            let _ = dear(MINUTE).await;
            went_on.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(pool.attempt(flow(1, 1), costly).await, None);
        assert_eq!((went_on.load(Ordering::Relaxed), pool.waiting()), (1, 0));
    }

    #[tokio::test]
    async fn a_newcomer_is_next_however_much_another_has_queued() {
        let pool = Processors::new(1).unwrap();
        let (release, blocked) = block(&pool, flow(9, 9)).await;
        let (order, mut done) = tokio::sync::mpsc::unbounded_channel();
        let mut running = Vec::new();
        let add = |of: Flow, name: &'static str| {
            let (pool, order) = (pool.clone(), order.clone());
            tokio::spawn(async move {
                let step = move || order.send(name).unwrap();
                pool.compute(of, Duration::from_secs(1), step).await.unwrap();
            })
        };
        for _ in 0..3 {
            running.push(add(flow(1, 1), "many"));
        }
        while pool.waiting() < 3 {
            tokio::task::yield_now().await;
        }
        running.push(add(flow(2, 1), "one"));
        while pool.waiting() < 4 {
            tokio::task::yield_now().await;
        }
        drop(release);
        assert!(blocked.await.unwrap());
        let mut names = Vec::new();
        for _ in 0..4 {
            names.push(done.recv().await.unwrap());
        }
        assert!(names[..2].contains(&"one"), "{names:?}");
    }

    /// All threads but one have a long piece; the last one still takes short ones.
    #[tokio::test]
    async fn long_pieces_leave_a_thread_to_short_ones() {
        let pool = Processors::new(1).unwrap();
        let (release, blocked) = block(&pool, flow(1, 1)).await;
        let short = pool.compute(flow(1, 2), Duration::from_millis(2), thread).await.unwrap();
        assert_eq!(short.as_deref(), Some("processor-1"));
        drop(release);
        assert!(blocked.await.unwrap());
    }

    #[tokio::test]
    async fn a_flow_that_waits_for_too_long_is_refused_and_others_are_not() {
        let pool = Processors::new(1).unwrap();
        let (release, blocked) = block(&pool, flow(9, 9)).await;
        let mut running = Vec::new();
        for n in 1..=2 {
            let pool_of_task = pool.clone();
            running.push(tokio::spawn(async move {
                pool_of_task.compute(flow(1, 1), Duration::from_secs(4), || ()).await.unwrap();
            }));
            while pool.waiting() < n {
                tokio::task::yield_now().await;
            }
        }
        let refused = pool.run(flow(1, 1), dear(Duration::from_secs(4))).await.unwrap();
        assert_eq!(refused, Err(Overloaded { retry_after: Duration::from_secs(8) }));
        let other = pool.compute(flow(1, 2), Duration::from_millis(3), || 7).await;
        assert_eq!(other, Ok(7));
        drop(release);
        assert!(blocked.await.unwrap());
        for task in running {
            task.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_request_that_nobody_waits_for_is_dropped() {
        let pool = Processors::new(1).unwrap();
        let (release, blocked) = block(&pool, flow(9, 9)).await;
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ran);
        let step = move || counted.fetch_add(1, Ordering::SeqCst);
        let mut left = Box::pin(pool.compute(flow(1, 1), MINUTE, step));
        assert!(futures::poll!(&mut left).is_pending());
        assert_eq!(pool.waiting(), 1);
        drop(left);
        drop(release);
        assert!(blocked.await.unwrap());
        pool.compute(flow(2, 1), MINUTE, || ()).await.unwrap();
        while pool.waiting() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        assert_eq!(Arc::strong_count(&ran), 1);
    }

    #[tokio::test]
    async fn a_panic_ends_its_request_alone() {
        let pool = Processors::new(1).unwrap();
        let lost = pool.compute(flow(1, 1), MINUTE, || assert!(thread().is_none(), "as planned")).await;
        assert_eq!(lost, Err(Lost));
        assert_eq!(pool.compute(flow(1, 1), MINUTE, || 7).await, Ok(7));
    }

    /// What waits when the pool ends is dropped, and who waits for it learns of it.
    #[tokio::test]
    async fn the_end_of_the_pool_ends_what_waits() {
        let pool = Processors::new(1).unwrap();
        let (release, blocked) = block(&pool, flow(9, 9)).await;
        let mut waits = Box::pin(pool.run(flow(1, 1), async { dear(MINUTE).await }));
        assert!(futures::poll!(&mut waits).is_pending());
        drop(pool);
        drop(release);
        assert!(blocked.await.unwrap());
        assert_eq!(waits.await, Err(Lost));
    }

    #[tokio::test]
    async fn a_pool_that_is_shut_down_has_no_thread_left() {
        let pool = Processors::new(2).unwrap();
        let clone = pool.clone();
        pool.shutdown();
        assert_eq!(Arc::strong_count(&clone.shared), 2, "the clone's and that of its end");
        assert_eq!(clone.compute(flow(1, 1), MINUTE, || 7).await, Err(Lost));
    }
}

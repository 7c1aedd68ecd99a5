//! The order in which a worker's thread attends to its connections: as they come, and fairly by user and type once they are
//! more than it can attend to at once.
//!
//! # Why
//! A runtime polls its tasks in the order in which they were woken. With a thousand connections that always have something to
//! do, a probe waits for each of them. Here it waits for about a millisecond of others' work.
//!
//! # How
//! A marker goes through the runtime's queue of tasks. If more than [`ROUND`] connections are polled before it comes out, the
//! thread is [busy](Inner::busy): from then on a connection that is polled only takes a place in a queue that is fair by flow,
//! and each time that the marker comes out, it wakes those whose turn it is, [`ROUND`] of them or a millisecond's work. Until
//! the queue is empty.
//!
//! A connection belongs to the flow of its last request. What a turn took is charged to the flow of the request that it was
//! about, so nobody gains by asking under another one's flow.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use actix_web::rt::spawn;
use kindom_actor_kit::{FairQueue, Flow};
use tokio::time::Instant;

/// The most connections that are polled in one round of a busy thread.
const ROUND: u32 = 32;
/// The work of one round.
const ROUND_TIME: Duration = Duration::from_millis(1);
/// The marker is sent whenever so many were polled.
const MARK_EVERY: u32 = 16;
/// The cost of a turn of which nothing is known, and the least of any, in nanoseconds.
const UNKNOWN: u64 = 20_000;
const LEAST: u64 = 1_000;
/// The flow of connections that have not asked for anything yet.
const NEWCOMERS: Flow = Flow { user: 0, kind: 0 };
/// The flow of probes and of /metrics.
pub(crate) const PROBES: Flow = Flow { user: 1, kind: 0 };

/// The turns of one worker. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Turns(Rc<Inner>);

#[derive(Default)]
struct Inner {
    queue: RefCell<FairQueue<Weak<Seat>>>,
    /// Connections wait for their turn.
    busy: Cell<bool>,
    /// The marker is on its way through the runtime's queue.
    marked: Cell<bool>,
    /// The polls since it was sent, or since it came out.
    polled: Cell<u32>,
    marker: RefCell<Option<Waker>>,
}

/// One connection, or a stream of one.
struct Seat {
    flow: Cell<Flow>,
    /// The time of its last turn, in nanoseconds.
    cost: Cell<u64>,
    waits: Cell<bool>,
    /// It is its turn.
    may: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// The connection of a stream.
    of: Option<Rc<Seat>>,
}

thread_local! {
    /// The seat that is being polled.
    static POLLED: RefCell<Option<Rc<Seat>>> = const { RefCell::new(None) };
}

/// Says that the connection which is being polled asks for something of this flow.
pub(crate) fn asks(flow: Flow) {
    POLLED.with_borrow(|polled| {
        if let Some(seat) = polled {
            seat.flow.set(flow);
            if let Some(connection) = &seat.of {
                connection.flow.set(flow);
            }
        }
    });
}

impl Turns {
    /// The turns of this thread, whose runtime runs the marker.
    pub(crate) fn new() -> Self {
        let inner = Rc::<Inner>::default();
        let turns = Rc::downgrade(&inner);
        spawn(poll_fn(move |cx| match turns.upgrade() {
            Some(turns) => {
                turns.come_out(cx);
                Poll::Pending
            }
            None => Poll::Ready(()),
        }));
        Self(inner)
    }

    /// Polls `work` when it is its turn. A stream's work begins in the flow of its connection.
    pub(crate) fn take<F: Future>(&self, work: F) -> InTurn<F> {
        let of = POLLED.with_borrow(Clone::clone);
        let flow = of.as_ref().map_or(NEWCOMERS, |of| of.flow.get());
        let seat = Seat {
            flow: Cell::new(flow),
            cost: Cell::new(UNKNOWN),
            waits: Cell::new(false),
            may: Cell::new(false),
            waker: RefCell::new(None),
            of,
        };
        InTurn { turns: self.clone(), seat: Rc::new(seat), work: Box::pin(work) }
    }
}

impl Inner {
    /// Counts a poll. Returns true if it has to wait.
    fn must_wait(&self) -> bool {
        if self.busy.get() {
            return true;
        }
        let polled = self.polled.get() + 1;
        self.polled.set(polled);
        if self.marked.get() {
            self.busy.set(polled > ROUND);
        } else if polled >= MARK_EVERY {
            self.send_marker();
        }
        self.busy.get()
    }

    fn send_marker(&self) {
        self.polled.set(0);
        if let Some(marker) = &*self.marker.borrow() {
            self.marked.set(true);
            marker.wake_by_ref();
        }
    }

    /// The marker has come through the runtime's queue.
    fn come_out(&self, cx: &mut Context<'_>) {
        self.marker.replace(Some(cx.waker().clone()));
        self.marked.set(false);
        self.polled.set(0);
        if !self.busy.get() {
            return;
        }
        let (mut woken, mut cost) = (0, 0);
        while woken < ROUND && u128::from(cost) < ROUND_TIME.as_nanos() {
            let Some((_, estimate, seat)) = self.queue.borrow_mut().pop(u64::MAX) else { break };
            let Some(seat) = seat.upgrade() else { continue };
            seat.waits.set(false);
            seat.may.set(true);
            (woken, cost) = (woken + 1, cost + estimate);
            if let Some(waker) = seat.waker.take() {
                waker.wake();
            }
        }
        if self.queue.borrow().is_empty() {
            self.busy.set(false);
        } else {
            self.send_marker();
        }
    }

    /// Charges a turn to the flow that it was about.
    fn charge(&self, seat: &Seat, before: Flow, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(LEAST);
        let estimate = seat.cost.replace(took);
        let mut queue = self.queue.borrow_mut();
        let (after, took) = (seat.flow.get(), i64::try_from(took).unwrap_or(i64::MAX));
        if after == before {
            queue.charge(after, took.saturating_sub_unsigned(estimate));
        } else {
            queue.charge(before, 0_i64.saturating_sub_unsigned(estimate));
            queue.charge(after, took);
        }
    }
}

/// Work that is polled when it is its turn; see [`Turns::take`].
pub(crate) struct InTurn<F> {
    turns: Turns,
    seat: Rc<Seat>,
    work: Pin<Box<F>>,
}

/// Puts back what was polled before, also after a panic.
struct PutBack(Option<Rc<Seat>>);

impl Drop for PutBack {
    fn drop(&mut self) {
        POLLED.set(self.0.take());
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let (turns, seat) = (&this.turns.0, &this.seat);
        let in_turn = seat.may.replace(false);
        if !in_turn && turns.must_wait() {
            seat.waker.replace(Some(cx.waker().clone()));
            if !seat.waits.replace(true) {
                turns.queue.borrow_mut().push(seat.flow.get(), seat.cost.get(), Rc::downgrade(seat));
            }
            return Poll::Pending;
        }
        let before = seat.flow.get();
        let began = in_turn.then(Instant::now);
        let put_back = PutBack(POLLED.replace(Some(Rc::clone(seat))));
        let polled = this.work.as_mut().poll(cx);
        drop(put_back);
        if let Some(began) = began {
            turns.charge(seat, before, began.elapsed());
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use actix_web::rt::System;
    use tokio::sync::Notify;
    use tokio::task::{spawn_local, yield_now};

    use super::*;

    /// The request waits for the round that has begun, for its turn in the next one, and to be seen.
    const FEW_ROUNDS: usize = 5 * ROUND as usize;

    fn flow(user: u64, kind: u64) -> Flow {
        Flow { user, kind }
    }

    /// Asks again and again, as fast as it is let.
    async fn asks_again(flow: Flow, count: Rc<Cell<usize>>) {
        loop {
            asks(flow);
            count.set(count.get() + 1);
            yield_now().await;
        }
    }

    async fn until(mut done: impl FnMut() -> bool) {
        while !done() {
            yield_now().await;
        }
    }

    /// The polls of others that pass between a request of `quiet` and its answer, beside a thousand connections of `loud`: the
    /// median of nineteen. A poll in whose middle the system takes the thread away looks dear, and is paid for: on a busy machine that
    /// happens to several.
    async fn passed(quiet: Flow, loud: Flow) -> usize {
        let turns = Turns::new();
        let count = Rc::new(Cell::new(0));
        let others: Vec<_> =
            (0..1000).map(|_| spawn_local(turns.take(asks_again(loud, Rc::clone(&count))))).collect();
        let (ask, answered) = (Rc::new(Notify::new()), Rc::new(Cell::new(0)));
        let answers = {
            let (ask, answered) = (Rc::clone(&ask), Rc::clone(&answered));
            turns.take(async move {
                loop {
                    ask.notified().await;
                    asks(quiet);
                    answered.set(answered.get() + 1);
                }
            })
        };
        let answers = spawn_local(answers);
        let mut passed = Vec::new();
        for n in 1..=20 {
            let until_then = count.get() + 2500;
            until(|| count.get() >= until_then).await;
            let before = count.get();
            ask.notify_one();
            until(|| answered.get() == n).await;
            // The first request is a newcomer's.
            if n > 1 {
                passed.push(count.get() - before);
            }
        }
        others.iter().for_each(tokio::task::JoinHandle::abort);
        answers.abort();
        passed.sort_unstable();
        passed[9]
    }

    #[test]
    fn a_quiet_flow_does_not_wait_for_a_thousand_connections() {
        System::new().block_on(async {
            let another_type = passed(flow(1, 2), flow(1, 1)).await;
            assert!(another_type <= FEW_ROUNDS, "{another_type} went ahead");
            let another_user = passed(flow(2, 1), flow(1, 1)).await;
            assert!(another_user <= FEW_ROUNDS, "{another_user} went ahead");
            let the_same = passed(flow(1, 1), flow(1, 1)).await;
            assert!(the_same > 500, "in one flow they come one after the other: {the_same}");
        });
    }

    #[test]
    fn nobody_is_forgotten() {
        System::new().block_on(async {
            let turns = Turns::new();
            let counts: Vec<_> = (0..500).map(|_| Rc::new(Cell::new(0))).collect();
            let mut tasks = Vec::new();
            for (n, count) in counts.iter().enumerate() {
                let work = turns.take(asks_again(flow(n as u64 % 7, n as u64 % 3), Rc::clone(count)));
                tasks.push(spawn_local(work));
            }
            until(|| counts.iter().all(|count| count.get() > 20)).await;
            // Those that go in the middle of their wait hold up nobody.
            for task in tasks.drain(..250) {
                task.abort();
            }
            let now: Vec<usize> = counts.iter().map(|count| count.get()).collect();
            until(|| counts[250..].iter().zip(&now[250..]).all(|(count, now)| count.get() > now + 20)).await;
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
            until(|| turns.0.queue.borrow().is_empty() && !turns.0.busy.get()).await;
        });
    }

    #[test]
    fn few_connections_do_not_wait() {
        System::new().block_on(async {
            let turns = Turns::new();
            let count = Rc::new(Cell::new(0));
            let tasks: Vec<_> =
                (0..8).map(|_| spawn_local(turns.take(asks_again(flow(1, 1), Rc::clone(&count))))).collect();
            for _ in 0..10_000 {
                yield_now().await;
                assert!(!turns.0.busy.get(), "after {}", count.get());
            }
            assert!(count.get() > 10_000);
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
        });
    }
}

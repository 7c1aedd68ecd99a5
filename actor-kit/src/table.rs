//! The list of supervised actors, and the orders that reach them past their mailboxes.

use std::{
    collections::{BTreeMap, btree_map},
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::Context,
};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::turn::Fall;

/// Every supervised actor that has not been stopped, by name. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct ActorTable(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    by_name: BTreeMap<Arc<str>, Arc<Entry>>,
    started: u64,
}

/// The state of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorState {
    /// Its factory is loading it.
    Starting,
    /// It takes messages.
    Running,
    /// It fell and waits for its next start.
    BackingOff,
    /// It spent its restart budget. It is still being restarted, at the longest back-off, and is
    /// `Running` again once a start succeeds.
    Failed,
    /// It was stopped; no start follows.
    Stopped,
}

impl ActorState {
    /// The state's name, as `GET /debug/actors` shows it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Running => "Running",
            Self::BackingOff => "BackingOff",
            Self::Failed => "Failed",
            Self::Stopped => "Stopped",
        }
    }
}

impl fmt::Display for ActorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An actor's row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorInfo {
    /// Its name, such as `resource/widgets.example.com`.
    pub name: Arc<str>,
    /// The state of the actor.
    pub state: ActorState,
    /// The number of starts, counted from 1; 0 before the first start.
    pub incarnation: u64,
    /// Asks under way: waiting for an incarnation, queued, or being handled.
    pub mailbox: usize,
    /// The bound of `mailbox`; 0 for a loop, which has none.
    pub mailbox_max: usize,
    /// The number of incarnations that ended by a panic, a kill, a failed load or a reload that they asked for.
    pub restarts: u64,
    /// The number of them that ended by a panic, which is always a bug.
    pub panics: u64,
    /// The reason why the last one of them ended.
    pub last_failure: Option<String>,
}

impl ActorTable {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All actors, ordered by name.
    #[must_use]
    pub fn list(&self) -> Vec<ActorInfo> {
        let entries: Vec<_> = self.0.lock().by_name.values().cloned().collect();
        entries.iter().map(|entry| entry.info()).collect()
    }

    /// One actor.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<ActorInfo> {
        Some(self.entry(name)?.info())
    }

    /// Makes the actor panic: at the end of the turn it is in, at once if it is idle, and in the middle of its load if it is
    /// starting. Its memory is gone, and callers that wait for it learn that their message is lost.
    ///
    /// A later incarnation than the one [`get`](Self::get) shows now follows, without back-off: a kill on request is no sign
    /// of a sick actor. An actor that is backing off has nothing to kill; its next incarnation comes anyway.
    ///
    /// Returns true if there is such an actor.
    pub fn kill(&self, name: &str) -> bool {
        let Some(entry) = self.entry(name) else {
            return false;
        };
        entry.order(&entry.kill);
        true
    }

    pub(crate) fn insert(&self, name: Arc<str>, mailbox_max: usize) -> Option<Arc<Entry>> {
        let mut entries = self.0.lock();
        entries.started += 1;
        let started = entries.started;
        match entries.by_name.entry(name.clone()) {
            btree_map::Entry::Occupied(_) => None,
            btree_map::Entry::Vacant(slot) => {
                Some(slot.insert(Arc::new(Entry::new(name, started, mailbox_max))).clone())
            }
        }
    }

    pub(crate) fn remove(&self, entry: &Entry) {
        self.0.lock().by_name.remove(&entry.name);
    }

    /// Every entry, the one started last first.
    pub(crate) fn newest_first(&self) -> Vec<Arc<Entry>> {
        let mut entries: Vec<_> = self.0.lock().by_name.values().cloned().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.started));
        entries
    }

    fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        self.0.lock().by_name.get(name).cloned()
    }
}

/// The state that the table, the supervisor and the handles of one actor share, whatever its type.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    /// The order of starts in this table.
    started: u64,
    status: Mutex<Status>,
    kill: AtomicBool,
    stop: AtomicBool,
    /// The supervisor's task, which looks at the two orders whenever it is polled.
    supervisor: AtomicWaker,
    /// Fires at every change of state.
    changed: Notify,
    mailbox_max: usize,
    in_flight: AtomicUsize,
    /// The number of messages in flight whose caller has gone; see [`InFlight`].
    abandoned: AtomicUsize,
}

#[derive(Debug)]
struct Status {
    state: ActorState,
    incarnation: u64,
    restarts: u64,
    panics: u64,
    last_failure: Option<String>,
}

impl Entry {
    fn new(name: Arc<str>, started: u64, mailbox_max: usize) -> Self {
        Self {
            name,
            started,
            status: Mutex::new(Status {
                state: ActorState::Starting,
                incarnation: 0,
                restarts: 0,
                panics: 0,
                last_failure: None,
            }),
            kill: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            supervisor: AtomicWaker::new(),
            changed: Notify::new(),
            mailbox_max,
            in_flight: AtomicUsize::new(0),
            abandoned: AtomicUsize::new(0),
        }
    }

    pub(crate) fn info(&self) -> ActorInfo {
        let status = self.status.lock();
        ActorInfo {
            name: self.name.clone(),
            state: status.state,
            incarnation: status.incarnation,
            mailbox: self.in_flight.load(SeqCst),
            mailbox_max: self.mailbox_max,
            restarts: status.restarts,
            panics: status.panics,
            last_failure: status.last_failure.clone(),
        }
    }

    fn order(&self, order: &AtomicBool) {
        order.store(true, SeqCst);
        self.supervisor.wake();
    }

    pub(crate) fn order_stop(&self) {
        self.order(&self.stop);
    }

    /// Lets orders wake the supervisor's task. To be called before looking at them.
    pub(crate) fn watch_orders(&self, cx: &Context<'_>) {
        self.supervisor.register(cx.waker());
    }

    pub(crate) fn stop_ordered(&self) -> bool {
        self.stop.load(SeqCst)
    }

    pub(crate) fn take_kill(&self) -> bool {
        self.kill.load(SeqCst) && self.kill.swap(false, SeqCst)
    }

    /// The next incarnation begins to load. A kill meant for an earlier one is void.
    pub(crate) fn begin(&self) -> u64 {
        let mut status = self.status.lock();
        self.kill.store(false, SeqCst);
        status.incarnation += 1;
        // One that has spent its budget stays failed until it runs.
        if status.state != ActorState::Failed {
            status.state = ActorState::Starting;
        }
        status.incarnation
    }

    pub(crate) fn fell(&self, fall: &Fall) {
        let mut status = self.status.lock();
        status.restarts += 1;
        status.panics += u64::from(matches!(fall, Fall::Panicked(_)));
        status.last_failure = Some(fall.failure().unwrap_or("killed by order").to_owned());
    }

    pub(crate) fn set_state(&self, state: ActorState) {
        self.status.lock().state = state;
        self.changed.notify_waiters();
    }

    /// Waits until `look` finds something; it is tried at once and after every change of state.
    /// Cancel-safe.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Listening before looking, so that no change falls in between.
            changed.as_mut().enable();
            if let Some(found) = look() {
                return found;
            }
            changed.await;
        }
    }

    /// Waits until the actor has been stopped.
    pub(crate) async fn until_stopped(&self) {
        self.until(|| (self.status.lock().state == ActorState::Stopped).then_some(())).await;
    }

    /// A place in the mailbox, unless it is full.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<InFlight> {
        self.in_flight.fetch_update(SeqCst, SeqCst, |n| (n < self.mailbox_max).then_some(n + 1)).ok()?;
        Some(InFlight { entry: self.clone(), queued: false })
    }

    /// The places of messages whose caller had gone before this turn.
    pub(crate) fn take_abandoned(&self) -> usize {
        match self.abandoned.load(SeqCst) {
            0 => 0,
            _ => self.abandoned.swap(0, SeqCst),
        }
    }

    pub(crate) fn release(&self, places: usize) {
        self.in_flight.fetch_sub(places, SeqCst);
    }

    /// While there is no mailbox, there is nothing for abandoned messages to lie in.
    pub(crate) fn release_unhosted(&self) {
        self.release(self.take_abandoned());
    }
}

/// A place in a mailbox.
///
/// actix queues without a bound (every request sends through a clone of the sender, and each clone
/// has a slot of its own), so the bound is kept here. A caller that goes away leaves its message in
/// the queue; its place is given back only once the actor has had a turn, which takes everything
/// out of the queue. (An actor that holds its mailbox back with `ctx.wait` gives such places back
/// early; kindom's do not.)
#[derive(Debug)]
pub(crate) struct InFlight {
    entry: Arc<Entry>,
    queued: bool,
}

impl InFlight {
    pub(crate) fn queued(&mut self, queued: bool) {
        self.queued = queued;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.queued {
            self.entry.abandoned.fetch_add(1, SeqCst);
            self.entry.supervisor.wake();
        } else {
            self.entry.release(1);
        }
    }
}

//! The one store, and how each replica sees it: late, through calls that take time, fail, and lose their answers.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use kindom_actor_kit::{Entropy, latest};
use kindom_api::json;
use kindom_storage::{
    Applied, Key, KeyRange, Limits, Memory, Op, RangeRequest, RangeResult, Revision, Storage, StorageError,
    StorageFuture, Txn, TxnOutcome, Watch,
};

use super::judge::{CRDS, Judge, LEDGER, NAMESPACES};
use super::trace::Trace;

/// The payload of a fault's panic. Thrown with `resume_unwind`, so that no hook prints it.
pub(super) struct Planned;

/// A defect that is put between the server and its store, to see whether the judge finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// Writes of objects are not guarded by the registration that they were planned under.
    GuardDropped,
    /// Claims are not guarded by the group's ledger.
    LedgerDropped,
    /// A drain misses the end of its last page, and a registration is removed whatever is left of its objects.
    RemovedEarly,
}

/// The most frequent action of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Even,
    /// They register, and want other names.
    Names,
    /// They create objects, and delete types that have some.
    Drains,
}

/// The severity of the faults in one run.
#[derive(Clone, Debug)]
pub(super) struct Weather {
    /// The longest that a commit takes to reach a replica's watches, in ms.
    pub(super) lag_ms_max: u64,
    /// One in so many times it takes many seconds; 0: never.
    pub(super) stall_one_in: u64,
    /// The longest that a call of the store takes each way, in ms.
    pub(super) call_ms_max: u64,
    /// Of 1,000 transactions, how many lose their answer.
    pub(super) lost: u64,
    /// Of 1,000 calls, how many fail and do nothing.
    pub(super) refused: u64,
    /// Of 1,000 waits for the store, how many end in a panic of the task that waits.
    pub(super) panics: u64,
    /// The time for which actors are left alone, in ms; 0: for ever.
    pub(super) kill_ms: u64,
    /// One in so many falls is a whole replica's; 0: none.
    pub(super) crash_one_in: u64,
    /// One in so many falls is a compaction instead; 0: none.
    pub(super) compact_one_in: u64,
    /// The number of commits by which a watch may be behind before it is cut off.
    pub(super) watch_commits_max: usize,
    pub(super) mood: Mood,
    /// `true` if stored objects follow a change of the storage version.
    pub(super) migrates: bool,
    /// `true` if one replica leads and does the work that one can do for all.
    pub(super) led: bool,
    /// The longest that a client does nothing, in ms.
    pub(super) think_ms_max: u64,
    /// `true` if all clients act at about the same moments.
    pub(super) bursts: bool,
    /// `true` if a transaction is answered only when its replica's watches have it, as local engines do.
    pub(super) answered_when_seen: bool,
}

impl Weather {
    /// Some kinds of trouble, not always all: what one kind hides another run shows.
    pub(super) fn of(chance: &Entropy) -> Self {
        let one_of = |choices: &[u64]| {
            let at = usize::try_from(chance.below(choices.len() as u64)).unwrap();
            choices[at]
        };
        Self {
            lag_ms_max: one_of(&[0, 20, 100, 400, 2000]),
            stall_one_in: one_of(&[0, 0, 200, 40]),
            call_ms_max: one_of(&[0, 20, 100, 200]),
            lost: one_of(&[0, 0, 5, 40]),
            refused: one_of(&[0, 0, 5, 20]),
            panics: one_of(&[0, 0, 3, 15]),
            kill_ms: one_of(&[0, 2000, 300, 60]),
            crash_one_in: one_of(&[0, 20, 5]),
            compact_one_in: one_of(&[0, 10]),
            watch_commits_max: usize::try_from(one_of(&[1024, 1024, 6])).unwrap(),
            mood: [Mood::Even, Mood::Names, Mood::Drains][usize::try_from(one_of(&[0, 1, 1, 2])).unwrap()],
            migrates: one_of(&[0, 1, 1]) == 1,
            led: one_of(&[0, 1]) == 1,
            think_ms_max: one_of(&[60, 300, 1000]),
            bursts: one_of(&[0, 1]) == 1,
            answered_when_seen: one_of(&[0, 1]) == 1,
        }
    }

    /// The weather after the faults have stopped: delays only.
    fn calm(&self) -> Self {
        Self {
            stall_one_in: 0,
            lost: 0,
            refused: 0,
            panics: 0,
            lag_ms_max: self.lag_ms_max.min(50),
            ..self.clone()
        }
    }
}

/// The state that all replicas share: the store, and the judge.
pub(super) struct Truth {
    memory: Memory,
    bug: Option<Bug>,
    pub(super) weather: Mutex<Weather>,
    /// Every change, in order of revisions.
    journal: Mutex<Vec<Vec<Op>>>,
    pub(super) judge: Mutex<Judge>,
    pub(super) trace: Mutex<Trace>,
    /// The first thing that should not have happened.
    violation: Mutex<Option<String>>,
    pub(super) violated: latest::Sender<bool>,
    /// Raised with every commit.
    pub(super) grown: latest::Sender<()>,
}

impl Truth {
    pub(super) fn new(bug: Option<Bug>, weather: Weather, trace: Trace) -> Self {
        Self {
            memory: Memory::new(),
            bug,
            weather: Mutex::new(weather),
            journal: Mutex::default(),
            judge: Mutex::default(),
            trace: Mutex::new(trace),
            violation: Mutex::default(),
            violated: latest::Sender::new(false),
            grown: latest::Sender::new(()),
        }
    }

    pub(super) fn note(&self, who: &str, what: std::fmt::Arguments<'_>) {
        self.trace.lock().unwrap().note(who, what);
    }

    /// Asks the judge; what it objects to ends the run.
    pub(super) fn demand(&self, who: &str, verdict: impl FnOnce(&mut Judge) -> Result<(), String>) {
        let verdict = verdict(&mut self.judge.lock().unwrap());
        let Err(why) = verdict else { return };
        self.note(who, format_args!("VIOLATION {why}"));
        self.violation.lock().unwrap().get_or_insert(why);
        self.violated.send_replace(true);
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.violation.lock().unwrap().clone()
    }

    pub(super) fn calm_down(&self) {
        let mut weather = self.weather.lock().unwrap();
        *weather = weather.calm();
    }

    pub(super) fn revision(&self) -> Revision {
        self.memory.published()
    }

    /// Commits, if the store's compares hold; every change goes past the judge.
    fn commit(&self, who: &str, mut txn: Txn) -> Result<TxnOutcome, StorageError> {
        self.plant(&mut txn);
        let before = self.memory.published();
        let (ops, compares) = (txn.ops.clone(), txn.compares.clone());
        let outcome = self.memory.txn(txn).now_or_never().unwrap()?;
        match &outcome {
            TxnOutcome::Committed { revision } if *revision > before => {
                self.journal.lock().unwrap().push(ops.clone());
                let mut trace = self.trace.lock().unwrap();
                for op in &ops {
                    let verb = if op.value().is_some() { "put" } else { "delete" };
                    trace.note(who, format_args!("r{revision} {verb} {}", op.key()));
                    trace.hash(op.value().map(|value| &**value).unwrap_or_default());
                }
                drop(trace);
                self.demand(who, |judge| judge.committed(*revision, &ops));
                self.grown.send_replace(());
            }
            TxnOutcome::Committed { .. } => {}
            TxnOutcome::Failed { compare, .. } => {
                let key = compare.and_then(|at| compares.get(at)).map(|compare| &compare.range.start);
                self.note(who, format_args!("loses a race for {}", key.unwrap()));
            }
        }
        Ok(outcome)
    }

    fn plant(&self, txn: &mut Txn) {
        let of_registration = |range: &KeyRange| range.start.as_bytes().starts_with(CRDS.as_bytes());
        let ours = |op: &Op| {
            [CRDS, NAMESPACES, LEDGER].iter().any(|prefix| op.key().as_bytes().starts_with(prefix.as_bytes()))
        };
        match self.bug {
            Some(Bug::GuardDropped) if !txn.ops.iter().any(ours) => {
                txn.compares.retain(|compare| !of_registration(&compare.range));
            }
            Some(Bug::LedgerDropped) => {
                txn.compares.retain(|compare| !compare.range.start.as_bytes().starts_with(LEDGER.as_bytes()));
            }
            Some(Bug::RemovedEarly) => {
                let removes =
                    |op: &Op| op.value().is_none() && op.key().as_bytes().starts_with(CRDS.as_bytes());
                if txn.ops.iter().any(removes) {
                    txn.compares.retain(|compare| of_registration(&compare.range));
                }
            }
            Some(Bug::GuardDropped) | None => {}
        }
    }

    /// Drops the end of each page read of a type that is being deleted, if the bug of drains is planted.
    fn cut_short(&self, request: &RangeRequest, found: &mut RangeResult) {
        let paged = request.revision.is_none() && request.limit.is_some();
        if self.bug == Some(Bug::RemovedEarly) && paged && self.is_going(&request.range) {
            found.kvs.pop();
        }
    }

    /// Returns true if the registration of the type whose objects a range ends with is being deleted.
    fn is_going(&self, range: &KeyRange) -> bool {
        let end = range.end.as_ref().map(|end| end.to_string()).unwrap_or_default();
        let Some(of) = end.strip_prefix("/registry/").and_then(|of| of.strip_suffix('0')) else {
            return false;
        };
        let Some((group, plural)) = of.split_once('/') else { return false };
        let key = Key::from(format!("{CRDS}{plural}.{group}"));
        let request = RangeRequest::single(&key);
        let stored = self.memory.range(request).now_or_never().unwrap().unwrap();
        let crd = stored.kvs.first().map(|kv| json::parse(kv.whole().unwrap()).unwrap());
        crd.is_some_and(|crd| crd.at(&["metadata", "deletionTimestamp"]).is_some())
    }
}

/// The store as one replica sees it.
///
/// Its watches, and what counts as published, come from a copy that follows the store's commits at its own pace: the
/// contract between the two holds by itself. Transactions and reads go to the store, as they do to a remote one.
pub(super) struct Lagging {
    pub(super) who: String,
    truth: Arc<Truth>,
    view: Memory,
    /// Raised when the copy has moved.
    moved: latest::Sender<()>,
    chance: Entropy,
    /// Its lag is divided by this: some replicas are nearer to the store than others.
    nearness: u64,
    /// Its process is gone: nothing it still does has an effect, and no call ever returns.
    dead: AtomicBool,
}

impl Lagging {
    pub(super) fn new(who: String, truth: Arc<Truth>, chance: Entropy) -> Self {
        let watch_commits_max = truth.weather.lock().unwrap().watch_commits_max;
        let view = Memory::with_limits(Limits { watch_commits_max, ..Limits::default() });
        let nearness = [1, 1, 4, 20][usize::try_from(chance.below(4)).unwrap()];
        let (moved, dead) = (latest::Sender::new(()), AtomicBool::new(false));
        let new = Self { who, truth, view, moved, chance, nearness, dead };
        new.follow(usize::MAX);
        new
    }

    pub(super) fn die(&self) {
        self.dead.store(true, SeqCst);
    }

    fn weather<T>(&self, read: impl FnOnce(&Weather) -> T) -> T {
        read(&self.truth.weather.lock().unwrap())
    }

    /// Takes over up to so many commits.
    fn follow(&self, most: usize) {
        let from = usize::try_from(self.view.published().0).unwrap();
        let ops: Vec<Vec<Op>> =
            self.truth.journal.lock().unwrap().iter().skip(from).take(most).cloned().collect();
        for ops in ops {
            let copied = self.view.txn(Txn { compares: Vec::new(), ops }).now_or_never().unwrap();
            assert!(matches!(copied, Ok(TxnOutcome::Committed { .. })), "{copied:?}");
        }
        let compacted = self.truth.memory.compacted();
        if compacted > self.view.compacted() && compacted <= self.view.published() {
            self.view.compact(compacted).now_or_never().unwrap().unwrap();
        }
        self.moved.send_replace(());
    }

    /// Follows the store for as long as the replica lives.
    pub(super) async fn keep_following(self: Arc<Self>) {
        let mut grown = self.truth.grown.subscribe();
        while !self.dead.load(SeqCst) {
            grown.mark_seen();
            if self.view.published() >= self.truth.revision() {
                let _ = grown.changed().await;
                continue;
            }
            let (lag, stall) = self.weather(|w| (w.lag_ms_max, w.stall_one_in));
            let mut lag = Duration::from_millis(self.chance.below(lag / self.nearness + 1));
            if stall > 0 && self.chance.below(stall) == 0 {
                lag = Duration::from_secs(3 + self.chance.below(15));
                self.truth.note(&self.who, format_args!("sees nothing for {lag:?}"));
            }
            pause(lag).await;
            let most = [1, 3, usize::MAX][usize::try_from(self.chance.below(3)).unwrap()];
            self.follow(most);
        }
    }

    async fn has_seen(&self, revision: Revision) {
        let mut moved = self.moved.subscribe();
        while self.view.published() < revision {
            moved.mark_seen();
            let _ = moved.changed().await;
        }
    }

    /// A message to the store, or back. Says whether the process still lives.
    async fn travel(&self) -> bool {
        let (most, panics) = self.weather(|w| (w.call_ms_max, w.panics));
        pause(Duration::from_millis(self.chance.below(most + 1))).await;
        let lives = !self.dead.load(SeqCst);
        if lives && self.happens(panics) {
            self.truth.note(&self.who, format_args!("a task panics"));
            std::panic::resume_unwind(Box::new(Planned));
        }
        lives
    }

    /// So many times in 1,000.
    fn happens(&self, of_1000: u64) -> bool {
        of_1000 > 0 && self.chance.below(1000) < of_1000
    }

    async fn call<T>(&self, run: impl FnOnce() -> Result<T, StorageError>) -> Result<T, StorageError> {
        if self.dead.load(SeqCst) {
            pending::<()>().await;
        }
        if !self.travel().await {
            // What was on its way may arrive all the same.
            if self.chance.below(2) == 0 {
                let _ = run();
            }
            return pending().await;
        }
        if self.happens(self.weather(|w| w.refused)) {
            return Err(unavailable(Applied::No));
        }
        let result = run();
        if !self.travel().await {
            return pending().await;
        }
        result
    }
}

/// Lets others run; for some time, if it is not zero.
async fn pause(time: Duration) {
    if time.is_zero() { tokio::task::yield_now().await } else { tokio::time::sleep(time).await }
}

fn unavailable(applied: Applied) -> StorageError {
    StorageError::Unavailable { reason: "planned".into(), applied }
}

impl Storage for Lagging {
    fn txn(&self, txn: Txn) -> StorageFuture<'_, TxnOutcome> {
        Box::pin(async move {
            let (lost, answered_when_seen) = self.weather(|w| (w.lost, w.answered_when_seen));
            let lost = self.happens(lost).then(|| self.chance.below(2));
            let call = self.call(|| {
                if lost == Some(0) {
                    self.truth.note(&self.who, format_args!("a transaction is lost"));
                    return Err(unavailable(Applied::Unknown));
                }
                self.truth.commit(&self.who, txn)
            });
            let outcome = call.await?;
            if lost.is_some() {
                self.truth.note(&self.who, format_args!("an answer is lost"));
                return Err(unavailable(Applied::Unknown));
            }
            if let TxnOutcome::Committed { revision } = outcome
                && answered_when_seen
            {
                self.has_seen(revision).await;
            }
            Ok(outcome)
        })
    }

    fn range(&self, request: RangeRequest) -> StorageFuture<'_, RangeResult> {
        Box::pin(async move {
            let read = || {
                let mut found = self.truth.memory.range(request.clone()).now_or_never().unwrap()?;
                self.truth.cut_short(&request, &mut found);
                Ok(found)
            };
            self.call(read).await
        })
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> StorageFuture<'_, Watch> {
        Box::pin(async move { self.call(|| self.view.watch(range, from).now_or_never().unwrap()).await })
    }

    fn published(&self) -> Revision {
        self.view.published()
    }

    fn fresh(&self) -> StorageFuture<'_, Revision> {
        Box::pin(async move {
            let revision = self.call(|| Ok(self.truth.revision())).await?;
            self.has_seen(revision).await;
            Ok(revision)
        })
    }

    fn compact(&self, revision: Revision) -> StorageFuture<'_, ()> {
        Box::pin(async move {
            self.truth.note(&self.who, format_args!("history up to r{revision} is forgotten"));
            self.truth.memory.compact(revision).await
        })
    }

    fn compacted(&self) -> Revision {
        self.view.compacted()
    }

    fn close(&self) -> StorageFuture<'_, ()> {
        self.view.close()
    }
}

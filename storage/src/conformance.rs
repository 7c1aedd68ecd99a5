//! One suite that every engine passes.
//!
//! `kindom_storage::conformance!(open)`, where `open` is `async fn(Limits) -> Subject`, makes a module's worth of
//! `#[tokio::test]`s of it, each on a store of its own.

#![allow(
    missing_docs,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test suite: the names of its cases say it, and a panic is a failed test"
)]

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;

use crate::{
    Change, Commit, Compare, CompareTarget, Event, Key, KeyRange, KeyValue, Limits, Op, RangeRequest,
    RangeResult, Revision, Storage, StorageError, StoredValue, Txn, TxnOutcome, Watch,
};

/// A store under test, with the values that must outlive it.
///
/// All revisions that it takes and gives count from the one that the store was opened at: etcd's first is 2.
pub struct Subject {
    store: Arc<dyn Storage>,
    base: u64,
    remote: bool,
    _keep: Box<dyn Any + Send + Sync>,
}

impl Subject {
    /// A store of this process: an answered transaction is published. `keep`, a temporary folder say, is dropped after the
    /// store.
    pub fn new(store: impl Storage, keep: impl Any + Send + Sync) -> Self {
        Self { store: Arc::new(store), base: 0, remote: false, _keep: Box::new(keep) }
    }

    /// A store of another process: an answered transaction is published once [`Storage::fresh`] returns.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn remote(store: impl Storage, keep: impl Any + Send + Sync) -> Result<Self, StorageError> {
        let base = store.fresh().await?.0;
        Ok(Self { store: Arc::new(store), base, remote: true, _keep: Box::new(keep) })
    }

    /// Waits until every answered transaction is published; in a local engine it is already.
    async fn settle(&self) {
        if self.remote {
            // A store that is closed has nothing to wait for.
            let _ = self.store.fresh().await;
        }
    }

    fn given(&self, revision: Revision) -> Revision {
        Revision(if revision == Revision::ZERO { 0 } else { revision.0 + self.base })
    }

    fn shown(&self, revision: Revision) -> Revision {
        Revision(revision.0.saturating_sub(self.base))
    }

    fn error(&self, error: StorageError) -> StorageError {
        match error {
            StorageError::Compacted { requested, compacted } => {
                StorageError::Compacted { requested: self.shown(requested), compacted: self.shown(compacted) }
            }
            StorageError::Future { requested, current } => {
                StorageError::Future { requested: self.shown(requested), current: self.shown(current) }
            }
            other => other,
        }
    }

    fn kv(&self, kv: KeyValue) -> KeyValue {
        let (mod_revision, create_revision) = (self.shown(kv.mod_revision), self.shown(kv.create_revision));
        KeyValue { mod_revision, create_revision, ..kv }
    }

    /// Begins at once, as the engine does.
    fn txn(&self, mut txn: Txn) -> impl Future<Output = Result<TxnOutcome, StorageError>> + Send + '_ {
        for compare in &mut txn.compares {
            compare.target = match compare.target {
                CompareTarget::ModEqual(at) => CompareTarget::ModEqual(self.given(at)),
                CompareTarget::ModLess(bound) => CompareTarget::ModLess(self.given(bound)),
                CompareTarget::ModGreater(bound) => CompareTarget::ModGreater(self.given(bound)),
            };
        }
        let outcome = self.store.txn(txn);
        async move {
            match outcome.await.map_err(|error| self.error(error))? {
                TxnOutcome::Committed { revision } => {
                    Ok(TxnOutcome::Committed { revision: self.shown(revision) })
                }
                TxnOutcome::Failed { compare, revision } => {
                    Ok(TxnOutcome::Failed { compare, revision: self.shown(revision) })
                }
            }
        }
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResult, StorageError> {
        let revision = request.revision.map(|at| Revision(at.0 + self.base));
        let read = self.store.range(RangeRequest { revision, ..request }).await;
        let RangeResult { kvs, count, revision } = read.map_err(|error| self.error(error))?;
        let kvs = kvs.into_iter().map(|kv| self.kv(kv)).collect();
        Ok(RangeResult { kvs, count, revision: self.shown(revision) })
    }

    async fn watch(&self, range: KeyRange, from: Option<Revision>) -> Result<Watching<'_>, StorageError> {
        let watch = self.store.watch(range, from.map(|from| self.given(from))).await;
        let watch = watch.map_err(|error| self.error(error))?;
        Ok(Watching { watch, subject: self })
    }

    fn published(&self) -> Revision {
        self.shown(self.store.published())
    }

    async fn fresh(&self) -> Result<Revision, StorageError> {
        self.store.fresh().await.map(|revision| self.shown(revision))
    }

    async fn compact(&self, revision: Revision) -> Result<(), StorageError> {
        // Revisions that are compacted before a remote store's watch has seen them are a gap; that is another test.
        self.settle().await;
        self.store.compact(self.given(revision)).await.map_err(|error| self.error(error))
    }

    fn compacted(&self) -> Revision {
        self.shown(self.store.compacted())
    }

    async fn close(&self) -> Result<(), StorageError> {
        self.store.close().await
    }
}

/// A watch whose revisions count from where its store was opened.
struct Watching<'a> {
    watch: Watch,
    subject: &'a Subject,
}

impl fmt::Debug for Watching<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.watch.fmt(f)
    }
}

impl Watching<'_> {
    fn item(&self, item: Result<Arc<Commit>, StorageError>) -> Result<Commit, StorageError> {
        let commit = item.map_err(|error| self.subject.error(error))?;
        let event = |event: &Event| {
            let change = match &event.change {
                Change::Put { value, create_revision } => Change::Put {
                    value: value.clone(),
                    create_revision: self.subject.shown(*create_revision),
                },
                Change::Delete => Change::Delete,
            };
            let prev = event.prev.clone().map(|prev| self.subject.kv(prev));
            Event { key: event.key.clone(), change, prev }
        };
        let events = commit.events.iter().map(event).collect();
        Ok(Commit { revision: self.subject.shown(commit.revision), events })
    }

    fn has_nothing_more(&mut self) -> bool {
        self.watch.commits.try_recv().is_err()
    }

    fn last_sent(&self) -> Revision {
        self.subject.shown(self.watch.progress.last_sent())
    }
}

/// Makes tests of the suite: `conformance!(open)`.
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance!(@ $open;
            an_empty_store_is_at_revision_zero, a_transaction_puts_and_deletes_several_keys,
            every_transaction_has_a_revision_of_its_own, concurrent_transactions_each_have_a_revision,
            a_failed_transaction_changes_nothing, transactions_without_effect_take_no_revision,
            compares_on_a_key, compares_on_a_range, compares_on_an_empty_range, compares_see_earlier_transactions,
            one_of_many_racing_creates_wins, the_last_operation_of_a_key_counts,
            create_revisions_start_again_after_a_delete, ranges_are_ordered_and_bounded,
            limits_and_counts, keys_only_leaves_values_out, reads_at_a_revision, reads_in_the_future_fail,
            odd_keys_and_values, sizes_beyond_the_limits_are_refused, a_long_range_is_consistent,
            a_watch_from_now_sees_only_what_follows, a_watch_from_history_goes_on_live, a_watch_from_zero_sees_all,
            a_watch_from_the_future_waits, a_watch_sees_only_its_range,
            a_watch_delivers_a_revision_as_one_commit, events_carry_the_previous_value,
            watches_have_no_gap_under_concurrent_writers, nested_watches_each_see_their_own, published_and_progress,
            progress_counts_history, a_slow_watch_ends_and_others_go_on, a_long_history_is_no_slow_watch,
            compaction_bounds_reads_and_watches,
            compaction_keeps_what_is_live, compaction_is_idempotent_and_never_in_the_future,
            compaction_keeps_previous_values, history_that_is_compacted_while_read_ends_the_watch,
            close_ends_everything, a_dropped_transaction_future_still_happens,
        );
    };
    (@ $open:path; $($case:ident),* $(,)?) => { $(
        #[tokio::test]
        async fn $case() {
            $crate::conformance::$case($open).await;
        }
    )* };
}

const PATIENCE: Duration = Duration::from_secs(30);

fn key(name: &str) -> Key {
    Key::from(name)
}

fn put(name: &str, value: &str) -> Op {
    Op::Put(key(name), Bytes::copy_from_slice(value.as_bytes()))
}

fn delete(name: &str) -> Op {
    Op::Delete(key(name))
}

fn txn(compares: Vec<Compare>, ops: Vec<Op>) -> Txn {
    Txn { compares, ops }
}

async fn commit(store: &Subject, ops: Vec<Op>) -> Revision {
    match store.txn(txn(vec![], ops)).await.unwrap() {
        TxnOutcome::Committed { revision } => revision,
        failed @ TxnOutcome::Failed { .. } => panic!("it compares nothing, but {failed:?}"),
    }
}

async fn read(store: &Subject, range: KeyRange, revision: Option<Revision>) -> RangeResult {
    store.range(RangeRequest { range, revision, ..RangeRequest::prefix(b"") }).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `a=1@3/2 …`: key, value, mod revision, create revision.
fn show(result: &RangeResult) -> String {
    let kv = |kv: &crate::KeyValue| {
        format!("{}={}@{}/{}", kv.key, text(kv.whole().unwrap()), kv.mod_revision, kv.create_revision)
    };
    result.kvs.iter().map(kv).collect::<Vec<_>>().join(" ")
}

async fn state(store: &Subject, revision: Option<u64>) -> String {
    show(&read(store, KeyRange::prefix(b""), revision.map(Revision)).await)
}

fn show_commit(commit: &Commit) -> String {
    let event = |event: &Event| {
        let prev = event.prev.as_ref().map_or(String::new(), |prev| {
            format!("<{}@{}/{}", text(prev.whole().unwrap()), prev.mod_revision, prev.create_revision)
        });
        match &event.change {
            Change::Put { value, create_revision } => {
                format!("{}={}/{create_revision}{prev}", event.key, text(value.as_ref().unwrap()))
            }
            Change::Delete => format!("{}!{prev}", event.key),
        }
    };
    format!("{}: {}", commit.revision, commit.events.iter().map(event).collect::<Vec<_>>().join(" "))
}

async fn next(watching: &mut Watching<'_>) -> Result<Commit, StorageError> {
    let item = tokio::time::timeout(PATIENCE, watching.watch.commits.recv()).await;
    let item = item.expect("a commit in time").expect("no end");
    watching.item(item)
}

async fn next_shown(watch: &mut Watching<'_>) -> String {
    show_commit(&next(watch).await.unwrap())
}

async fn ended(watching: &mut Watching<'_>) {
    assert!(
        tokio::time::timeout(PATIENCE, watching.watch.commits.recv())
            .await
            .expect("an end in time")
            .is_none()
    );
}

async fn watch_prefix<'a>(store: &'a Subject, prefix: &str, from: Option<u64>) -> Watching<'a> {
    store.watch(KeyRange::prefix(prefix.as_bytes()), from.map(Revision)).await.unwrap()
}

/// A function with which the suite opens a store.
pub trait Open: AsyncFn(Limits) -> Subject {}
impl<F: AsyncFn(Limits) -> Subject> Open for F {}

async fn open(open: impl Open) -> Subject {
    open(Limits::default()).await
}

pub async fn an_empty_store_is_at_revision_zero(factory: impl Open) {
    let store = open(factory).await;
    assert_eq!(store.published(), Revision::ZERO);
    assert_eq!(store.fresh().await.unwrap(), Revision::ZERO);
    assert_eq!(store.compacted(), Revision::ZERO);
    let all = read(&store, KeyRange::prefix(b""), None).await;
    assert_eq!(all, RangeResult { kvs: vec![], count: 0, revision: Revision::ZERO });
}

pub async fn a_transaction_puts_and_deletes_several_keys(factory: impl Open) {
    let store = open(factory).await;
    assert_eq!(commit(&store, vec![put("a", "1"), put("b", "2")]).await, Revision(1));
    assert_eq!(commit(&store, vec![put("c", "3"), delete("a"), put("b", "4")]).await, Revision(2));
    assert_eq!(state(&store, None).await, "b=4@2/1 c=3@2/2");
    store.settle().await;
    assert_eq!(store.published(), Revision(2));
    assert_eq!(store.fresh().await.unwrap(), Revision(2));
}

pub async fn every_transaction_has_a_revision_of_its_own(factory: impl Open) {
    let store = open(factory).await;
    for at in 1..=20 {
        assert_eq!(commit(&store, vec![put("same", "value")]).await, Revision(at));
    }
    assert_eq!(state(&store, None).await, "same=value@20/1");
}

pub async fn concurrent_transactions_each_have_a_revision(factory: impl Open) {
    let store = open(factory).await;
    let outcomes = join_all((0..64).map(|n| commit(&store, vec![put(&format!("k{n:02}"), "v")])));
    let mut revisions: Vec<_> = outcomes.await.into_iter().map(|revision| revision.0).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, (1..=64).collect::<Vec<_>>());
    store.settle().await;
    assert_eq!(store.published(), Revision(64));
    assert_eq!(read(&store, KeyRange::prefix(b"k"), None).await.count, 64);
}

pub async fn a_failed_transaction_changes_nothing(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("a", "1")]).await;
    let compares = vec![Compare::mod_is(&key("a"), Revision(1)), Compare::absent(&key("a"))];
    let outcome = store.txn(txn(compares, vec![put("b", "2"), delete("a")])).await.unwrap();
    let TxnOutcome::Failed { compare, revision } = outcome else { panic!("{outcome:?}") };
    assert!(compare.is_none_or(|compare| compare == 1), "{compare:?}");
    assert_eq!(revision, Revision(1));
    assert_eq!(state(&store, None).await, "a=1@1/1");
    assert_eq!(commit(&store, vec![put("c", "3")]).await, Revision(2));
}

pub async fn transactions_without_effect_take_no_revision(factory: impl Open) {
    let store = open(factory).await;
    assert_eq!(commit(&store, vec![]).await, Revision(0));
    assert_eq!(commit(&store, vec![delete("a")]).await, Revision(0));
    assert_eq!(commit(&store, vec![put("a", "1")]).await, Revision(1));
    assert_eq!(commit(&store, vec![delete("b"), delete("c")]).await, Revision(1));
    let guarded = txn(vec![Compare::mod_is(&key("a"), Revision(1))], vec![]);
    assert_eq!(store.txn(guarded).await.unwrap(), TxnOutcome::Committed { revision: Revision(1) });
    let mut watch = watch_prefix(&store, "", Some(1)).await;
    assert_eq!(commit(&store, vec![delete("b"), delete("a")]).await, Revision(2));
    assert_eq!(next_shown(&mut watch).await, "1: a=1/1");
    assert_eq!(next_shown(&mut watch).await, "2: a!<1@1/1");
    // Writing the same bytes again is a change all the same: a caller that wants otherwise compares first.
    assert_eq!(commit(&store, vec![put("a", "1")]).await, Revision(3));
}

async fn holds(store: &Subject, range: &KeyRange, target: CompareTarget) -> bool {
    let compare = Compare { range: range.clone(), target };
    matches!(store.txn(txn(vec![compare], vec![])).await.unwrap(), TxnOutcome::Committed { .. })
}

/// Of the mod revisions 0..=4: for which does "equal", "less", "greater" hold?
async fn table(store: &Subject, range: &KeyRange) -> String {
    let mut rows = Vec::new();
    let targets: [fn(Revision) -> CompareTarget; 3] =
        [CompareTarget::ModEqual, CompareTarget::ModLess, CompareTarget::ModGreater];
    for (sign, target) in ["=", "<", ">"].into_iter().zip(targets) {
        let mut row = sign.to_owned();
        for at in 0..=4 {
            if holds(store, range, target(Revision(at))).await {
                row.push_str(&at.to_string());
            }
        }
        rows.push(row);
    }
    rows.join(" ")
}

pub async fn compares_on_a_key(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("x", "")]).await;
    commit(&store, vec![put("a", "1"), put("gone", "")]).await;
    commit(&store, vec![delete("gone")]).await;
    assert_eq!(table(&store, &KeyRange::single(&key("a"))).await, "=2 <34 >01");
    assert_eq!(table(&store, &KeyRange::single(&key("gone"))).await, "=0 <1234 >");
    assert_eq!(table(&store, &KeyRange::single(&key("never"))).await, "=0 <1234 >");
}

pub async fn compares_on_a_range(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("p/a", "")]).await;
    commit(&store, vec![put("p/b", ""), put("q", "")]).await;
    commit(&store, vec![put("p/c", "")]).await;
    commit(&store, vec![delete("p/c")]).await;
    assert_eq!(table(&store, &KeyRange::prefix(b"p/")).await, "= <34 >0");
    assert_eq!(table(&store, &KeyRange::prefix(b"q")).await, "=2 <34 >01");
    let to_the_end = KeyRange { start: key("p/b"), end: None };
    assert_eq!(table(&store, &to_the_end).await, "=2 <34 >01");
}

pub async fn compares_on_an_empty_range(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("a", ""), put("c", "")]).await;
    for range in [
        KeyRange::prefix(b"b"),
        KeyRange { start: key("b"), end: Some(key("b")) },
        KeyRange { start: key("d"), end: None },
    ] {
        assert_eq!(table(&store, &range).await, "=0 <1234 >", "{range:?}");
    }
    let drained = txn(vec![Compare::empty_prefix(b"b/")], vec![delete("a")]);
    assert_eq!(store.txn(drained).await.unwrap(), TxnOutcome::Committed { revision: Revision(2) });
    let not_drained = txn(vec![Compare::empty_prefix(b"c")], vec![put("a", "")]);
    assert!(matches!(store.txn(not_drained).await.unwrap(), TxnOutcome::Failed { .. }));
}

pub async fn compares_see_earlier_transactions(factory: impl Open) {
    let store = open(factory).await;
    // Whatever batches they land in: each of a chain of guarded writes is judged after the one before.
    let chain = (0..50).map(|at| txn(vec![Compare::mod_is(&key("a"), Revision(at))], vec![put("a", "")]));
    let outcomes = join_all(chain.map(|txn| store.txn(txn))).await;
    let committed = outcomes.iter().filter(|outcome| matches!(outcome, Ok(TxnOutcome::Committed { .. })));
    let committed = committed.count() as u64;
    assert!(committed >= 1);
    store.settle().await;
    assert_eq!(store.published(), Revision(committed));
    for outcome in outcomes {
        // A failed one was judged at a revision that has been published by the time it is answered.
        if let TxnOutcome::Failed { revision, .. } = outcome.unwrap() {
            assert!(revision <= store.published());
        }
    }
}

pub async fn one_of_many_racing_creates_wins(factory: impl Open) {
    let store = open(factory).await;
    let create = |n: u32| txn(vec![Compare::absent(&key("name"))], vec![put("name", &n.to_string())]);
    let outcomes = join_all((0..64).map(|n| store.txn(create(n)))).await;
    let won = outcomes.iter().filter(|outcome| matches!(outcome, Ok(TxnOutcome::Committed { .. }))).count();
    assert_eq!(won, 1);
    store.settle().await;
    assert_eq!(store.published(), Revision(1));
}

pub async fn the_last_operation_of_a_key_counts(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("a", "1"), put("b", "2"), put("a", "3")]).await;
    commit(&store, vec![delete("b"), put("c", ""), put("b", "4")]).await;
    commit(&store, vec![put("c", "5"), delete("c")]).await;
    assert_eq!(state(&store, None).await, "a=3@1/1 b=4@2/1");
}

pub async fn create_revisions_start_again_after_a_delete(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("a", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    assert_eq!(state(&store, None).await, "a=2@2/1");
    commit(&store, vec![delete("a")]).await;
    assert_eq!(state(&store, None).await, "");
    commit(&store, vec![put("a", "4")]).await;
    assert_eq!(state(&store, None).await, "a=4@4/4");
}

pub async fn ranges_are_ordered_and_bounded(factory: impl Open) {
    let store = open(factory).await;
    let names = ["ns/b", "ns/a", "nsx/a", "ns/a/1", "n", "ns", "ns0", "ns/"];
    commit(&store, names.iter().map(|name| put(name, "")).collect()).await;
    let keys = async |range: KeyRange| {
        let read = read(&store, range, None).await;
        assert_eq!(read.count, read.kvs.len());
        read.kvs.iter().map(|kv| kv.key.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(KeyRange::prefix(b"ns/")).await, "ns/ ns/a ns/a/1 ns/b");
    assert_eq!(keys(KeyRange::prefix(b"")).await, "n ns ns/ ns/a ns/a/1 ns/b ns0 nsx/a");
    assert_eq!(keys(KeyRange::single(&key("ns/a"))).await, "ns/a");
    assert_eq!(keys(KeyRange { start: key("ns/a"), end: Some(key("ns0")) }).await, "ns/a ns/a/1 ns/b");
    assert_eq!(keys(KeyRange { start: key("ns0"), end: None }).await, "ns0 nsx/a");
    assert_eq!(keys(KeyRange { start: key("z"), end: Some(key("a")) }).await, "");
}

pub async fn limits_and_counts(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, (0..10).map(|n| put(&format!("k{n}"), "v")).collect()).await;
    commit(&store, vec![delete("k3")]).await;
    let read = async |limit, revision: Option<u64>| {
        let range = KeyRange::prefix(b"k");
        let revision = revision.map(Revision);
        let read = store
            .range(RangeRequest { range, limit, revision, count_all: true, ..RangeRequest::prefix(b"") })
            .await
            .unwrap();
        (read.kvs.len(), read.count, read.revision.0)
    };
    assert_eq!(read(Some(4), None).await, (4, 9, 2));
    assert_eq!(read(Some(9), None).await, (9, 9, 2));
    assert_eq!(read(Some(100), None).await, (9, 9, 2));
    assert_eq!(read(Some(4), Some(1)).await, (4, 10, 2));
    assert_eq!(read(Some(0), None).await, (0, 9, 2));
}

pub async fn keys_only_leaves_values_out(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("a", "value")]).await;
    let read = store.range(RangeRequest { keys_only: true, ..RangeRequest::prefix(b"") }).await.unwrap();
    assert_eq!(show(&read), "a=@1/1");
}

pub async fn reads_at_a_revision(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("a", "1")]).await;
    commit(&store, vec![put("b", "2"), put("a", "2")]).await;
    commit(&store, vec![delete("a")]).await;
    commit(&store, vec![put("a", "4")]).await;
    assert_eq!(state(&store, Some(0)).await, "");
    assert_eq!(state(&store, Some(1)).await, "a=1@1/1");
    assert_eq!(state(&store, Some(2)).await, "a=2@2/1 b=2@2/2");
    assert_eq!(state(&store, Some(3)).await, "b=2@2/2");
    assert_eq!(state(&store, Some(4)).await, "a=4@4/4 b=2@2/2");
    let at = read(&store, KeyRange::prefix(b""), Some(Revision(1))).await;
    assert_eq!(at.revision, Revision(4), "the store's revision, not the one asked for");
}

pub async fn reads_in_the_future_fail(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("a", "1")]).await;
    let request = RangeRequest { revision: Some(Revision(2)), ..RangeRequest::prefix(b"") };
    let expected = StorageError::Future { requested: Revision(2), current: Revision(1) };
    assert_eq!(store.range(request).await.unwrap_err(), expected);
}

pub async fn odd_keys_and_values(factory: impl Open) {
    let store = open(factory).await;
    let odd = [&b"\0"[..], b"\0\0", b"a\0", b"a", b"\xff", b"\xff\xff", b"a\xff"];
    for bytes in odd {
        let op = Op::Put(Key::new(bytes), Bytes::copy_from_slice(bytes));
        commit(&store, vec![op]).await;
    }
    commit(&store, vec![put("empty", "")]).await;
    let large = "x".repeat(100_000);
    commit(&store, vec![put("large", &large)]).await;
    let all = read(&store, KeyRange::prefix(b""), None).await;
    assert_eq!(all.count, odd.len() + 2);
    for kv in all.kvs {
        match kv.key.as_bytes() {
            b"empty" => assert!(kv.whole().unwrap().is_empty()),
            b"large" => assert_eq!(kv.whole().unwrap(), &large),
            key => assert_eq!(key, kv.whole().unwrap()),
        }
    }
    assert_eq!(read(&store, KeyRange::prefix(b"\xff"), None).await.count, 2);
    assert_eq!(read(&store, KeyRange::prefix(b"a"), None).await.count, 3);
}

pub async fn sizes_beyond_the_limits_are_refused(factory: impl Open) {
    let limits = Limits { key_bytes_max: 10, value_bytes_max: 20, txn_bytes_max: 60, ..Limits::default() };
    let store = factory(limits).await;
    let refused = async |ops: Vec<Op>| match store.txn(txn(vec![], ops)).await {
        Err(StorageError::TooLarge { what, bytes, limit }) => format!("{what} {bytes}>{limit}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(vec![put("12345678901", "")]).await, "key 11>10");
    assert_eq!(refused(vec![put("a", &"x".repeat(21))]).await, "value 21>20");
    let three = vec![put("a", &"x".repeat(20)), put("b", &"x".repeat(20)), put("c", &"x".repeat(20))];
    assert_eq!(refused(three).await, "transaction 63>60");
    assert_eq!(commit(&store, vec![put("1234567890", &"x".repeat(20))]).await, Revision(1));
}

pub async fn a_long_range_is_consistent(factory: impl Open) {
    let store = open(factory).await;
    let names: Vec<String> = (0..10_000).map(|n| format!("k{n:05}")).collect();
    for chunk in names.chunks(100) {
        commit(&store, chunk.iter().map(|name| put(name, "v")).collect()).await;
    }
    let all = read(&store, KeyRange::prefix(b"k"), None).await;
    assert_eq!(all.count, 10_000);
    let read_names: Vec<String> = all.kvs.iter().map(|kv| kv.key.to_string()).collect();
    assert_eq!(read_names, names);
    let request = RangeRequest { limit: Some(4100), count_all: true, ..RangeRequest::prefix(b"k") };
    let some = store.range(request.clone()).await.unwrap();
    assert_eq!((some.kvs.len(), some.count), (4100, 10_000));
    let uncounted = store.range(RangeRequest { count_all: false, ..request }).await.unwrap();
    assert_eq!((uncounted.kvs.len(), uncounted.count > 4100), (4100, true));
    for (limit, more) in [(9_999, true), (10_000, false), (10_001, false)] {
        let request = RangeRequest { limit: Some(limit), ..RangeRequest::prefix(b"k") };
        let found = store.range(request).await.unwrap();
        assert_eq!((found.kvs.len(), found.count > found.kvs.len()), (limit.min(10_000), more));
    }
    assert_eq!(some.kvs[..], all.kvs[..4100]);
}

pub async fn a_watch_from_now_sees_only_what_follows(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("a", "1")]).await;
    let mut watch = watch_prefix(&store, "", None).await;
    commit(&store, vec![put("a", "2")]).await;
    assert_eq!(next_shown(&mut watch).await, "2: a=2/1<1@1/1");
}

pub async fn a_watch_from_history_goes_on_live(factory: impl Open) {
    let store = open(factory).await;
    for n in 1..=500 {
        commit(&store, vec![put(&format!("k{}", n % 7), &n.to_string())]).await;
    }
    let mut watch = watch_prefix(&store, "k", Some(101)).await;
    for n in 501..=600 {
        commit(&store, vec![put(&format!("k{}", n % 7), &n.to_string())]).await;
    }
    for n in 101..=600 {
        let commit = next(&mut watch).await.unwrap();
        assert_eq!(commit.revision, Revision(n));
        assert!(
            matches!(&commit.events[0].change, Change::Put { value, .. } if *value.as_ref().unwrap() == n.to_string())
        );
    }
}

pub async fn a_watch_from_zero_sees_all(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("a", "1")]).await;
    commit(&store, vec![delete("a")]).await;
    for from in [0, 1] {
        let mut watch = watch_prefix(&store, "", Some(from)).await;
        assert_eq!(next_shown(&mut watch).await, "1: a=1/1");
        assert_eq!(next_shown(&mut watch).await, "2: a!<1@1/1");
    }
}

pub async fn a_watch_from_the_future_waits(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("a", "1")]).await;
    let mut watch = watch_prefix(&store, "", Some(4)).await;
    assert_eq!(watch.last_sent(), Revision(3));
    for n in 2..=5 {
        commit(&store, vec![put("a", &n.to_string())]).await;
    }
    assert_eq!(next_shown(&mut watch).await, "4: a=4/1<3@3/1");
    assert_eq!(next_shown(&mut watch).await, "5: a=5/1<4@4/1");
}

pub async fn a_watch_sees_only_its_range(factory: impl Open) {
    let store = open(factory).await;
    let mut watch = watch_prefix(&store, "ns/a/", None).await;
    let mut single = store.watch(KeyRange::single(&key("ns/a/1")), None).await.unwrap();
    commit(&store, vec![put("ns/ab/1", "")]).await;
    commit(&store, vec![put("ns/a", ""), put("ns/a/2", "x"), put("ns/b", "")]).await;
    commit(&store, vec![put("ns/a/1", "y")]).await;
    assert_eq!(next_shown(&mut watch).await, "2: ns/a/2=x/2");
    assert_eq!(next_shown(&mut watch).await, "3: ns/a/1=y/3");
    assert_eq!(next_shown(&mut single).await, "3: ns/a/1=y/3");
    let mut history = watch_prefix(&store, "ns/a/", Some(1)).await;
    assert_eq!(next_shown(&mut history).await, "2: ns/a/2=x/2");
    assert_eq!(next_shown(&mut history).await, "3: ns/a/1=y/3");
}

pub async fn a_watch_delivers_a_revision_as_one_commit(factory: impl Open) {
    let store = open(factory).await;
    let mut watch = watch_prefix(&store, "", None).await;
    commit(&store, vec![put("b", "1"), put("a", "2")]).await;
    commit(&store, vec![put("c", "3"), delete("never"), delete("b"), put("a", "4")]).await;
    assert_eq!(next_shown(&mut watch).await, "1: b=1/1 a=2/1");
    assert_eq!(next_shown(&mut watch).await, "2: c=3/2 b!<1@1/1 a=4/1<2@1/1");
    let mut history = watch_prefix(&store, "", Some(1)).await;
    assert_eq!(next_shown(&mut history).await, "1: b=1/1 a=2/1");
    assert_eq!(next_shown(&mut history).await, "2: c=3/2 b!<1@1/1 a=4/1<2@1/1");
}

pub async fn events_carry_the_previous_value(factory: impl Open) {
    let store = open(factory).await;
    let mut live = watch_prefix(&store, "", None).await;
    commit(&store, vec![put("a", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    commit(&store, vec![delete("a")]).await;
    commit(&store, vec![put("a", "4")]).await;
    let expected = ["1: a=1/1", "2: a=2/1<1@1/1", "3: a!<2@2/1", "4: a=4/4"];
    let mut history = watch_prefix(&store, "", Some(1)).await;
    for expected in expected {
        assert_eq!(next_shown(&mut live).await, expected);
        assert_eq!(next_shown(&mut history).await, expected);
    }
}

pub async fn watches_have_no_gap_under_concurrent_writers(factory: impl Open) {
    const WRITERS: usize = 8;
    const WRITES: usize = 100;
    let store = Arc::new(open(factory).await);
    let writers = (0..WRITERS).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for n in 0..WRITES {
                commit(&store, vec![put(&format!("k/{writer}/{}", n % 5), &n.to_string())]).await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    // Watches that start at every moment, each from the revision right behind the one that it read.
    let watchers = (0..10).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let listed = read(&store, KeyRange::prefix(b"k/"), None).await;
            tokio::task::yield_now().await;
            let mut watch = watch_prefix(&store, "k/", Some(listed.revision.0 + 1)).await;
            let mut fold: BTreeMap<Key, StoredValue> =
                listed.kvs.into_iter().map(|kv| (kv.key, kv.value)).collect();
            let mut at = listed.revision;
            while at < Revision((WRITERS * WRITES) as u64) {
                let commit = next(&mut watch).await.unwrap();
                assert_eq!(commit.revision, at.next());
                at = commit.revision;
                for event in &commit.events {
                    let prev = event.prev.as_ref().map(|prev| &prev.value);
                    assert_eq!(prev, fold.get(&event.key));
                    if let Change::Put { value, .. } = &event.change {
                        fold.insert(event.key.clone(), value.clone());
                    }
                }
            }
            fold
        })
    });
    let folds = join_all(watchers.collect::<Vec<_>>()).await;
    join_all(writers).await.into_iter().for_each(Result::unwrap);
    let last: BTreeMap<_, _> = read(&store, KeyRange::prefix(b"k/"), None)
        .await
        .kvs
        .into_iter()
        .map(|kv| (kv.key, kv.value))
        .collect();
    assert_eq!(last.len(), WRITERS * 5);
    for fold in folds {
        assert_eq!(fold.unwrap(), last);
    }
}

pub async fn nested_watches_each_see_their_own(factory: impl Open) {
    let store = open(factory).await;
    let mut watches = Vec::new();
    for n in 0..200 {
        watches.push((watch_prefix(&store, &format!("p{n:03}/"), None).await, n));
    }
    let mut all = watch_prefix(&store, "", None).await;
    let mut some = watch_prefix(&store, "p1", None).await;
    for n in 0..200 {
        commit(&store, vec![put(&format!("p{n:03}/x"), "")]).await;
    }
    for (mut watch, n) in watches {
        assert_eq!(next_shown(&mut watch).await, format!("{}: p{n:03}/x=/{}", n + 1, n + 1));
        assert!(watch.has_nothing_more());
    }
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        seen.insert(next(&mut all).await.unwrap().revision);
    }
    assert_eq!(seen.len(), 200);
    for n in 100..200 {
        assert_eq!(next(&mut some).await.unwrap().revision, Revision(n + 1));
    }
    assert!(some.has_nothing_more());
}

pub async fn published_and_progress(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("other", "")]).await;
    let mut watch = watch_prefix(&store, "k", Some(2)).await;
    assert_eq!(watch.last_sent(), Revision(1));
    let at = commit(&store, vec![put("k", "1")]).await;
    store.settle().await;
    assert!(store.published() >= at, "an answered transaction is published");
    assert_eq!(watch.last_sent(), at, "and queued");
    for _ in 0..5 {
        commit(&store, vec![put("other", "")]).await;
    }
    store.settle().await;
    // The reader's rule: S first, then last_sent; having folded that, the state is that of S.
    let published = store.published();
    let last_sent = watch.last_sent();
    assert_eq!((published, last_sent), (Revision(7), Revision(2)));
    assert_eq!(next(&mut watch).await.unwrap().revision, last_sent);
    assert!(watch.has_nothing_more());
}

pub async fn progress_counts_history(factory: impl Open) {
    let store = open(factory).await;
    for n in 0..9 {
        commit(&store, vec![put(if n % 3 == 0 { "k" } else { "other" }, "")]).await;
    }
    store.settle().await;
    // The range has revisions 1, 4 and 7; the watch starts after 1, and the last event that it has to deliver is at 7.
    let mut watch = watch_prefix(&store, "k", Some(2)).await;
    assert_eq!(watch.last_sent(), Revision(7));
    assert_eq!(next(&mut watch).await.unwrap().revision, Revision(4));
    assert_eq!(next(&mut watch).await.unwrap().revision, Revision(7));
    let nothing = watch_prefix(&store, "k", Some(8)).await;
    assert_eq!(nothing.last_sent(), Revision(7));
}

pub async fn a_slow_watch_ends_and_others_go_on(factory: impl Open) {
    let store = factory(Limits { watch_commits_max: 10, ..Limits::default() }).await;
    let mut slow = watch_prefix(&store, "", None).await;
    let mut elsewhere = watch_prefix(&store, "x", None).await;
    let mut fast = watch_prefix(&store, "", None).await;
    for n in 1..=50 {
        commit(&store, vec![put("a", "")]).await;
        assert_eq!(next(&mut fast).await.unwrap().revision, Revision(n));
    }
    for n in 1..=10 {
        assert_eq!(next(&mut slow).await.unwrap().revision, Revision(n));
    }
    assert!(matches!(next(&mut slow).await, Err(StorageError::Compacted { requested: Revision(11), .. })));
    ended(&mut slow).await;
    commit(&store, vec![put("x", "")]).await;
    assert_eq!(next(&mut elsewhere).await.unwrap().revision, Revision(51));
    // It can take up where it was.
    let mut again = watch_prefix(&store, "", Some(11)).await;
    assert_eq!(next(&mut again).await.unwrap().revision, Revision(11));
}

pub async fn a_long_history_is_no_slow_watch(factory: impl Open) {
    let store = factory(Limits { watch_commits_max: 10, ..Limits::default() }).await;
    for _ in 0..400 {
        commit(&store, vec![put("a", "")]).await;
    }
    store.settle().await;
    let mut watch = watch_prefix(&store, "a", Some(1)).await;
    for n in 1..=400 {
        assert_eq!(next(&mut watch).await.unwrap().revision, Revision(n));
    }
}

pub async fn compaction_bounds_reads_and_watches(factory: impl Open) {
    let store = open(factory).await;
    for n in 1..=10 {
        commit(&store, vec![put("a", &n.to_string())]).await;
    }
    store.compact(Revision(5)).await.unwrap();
    assert_eq!(store.compacted(), Revision(5));
    let request = |at| RangeRequest { revision: Some(Revision(at)), ..RangeRequest::prefix(b"") };
    let compacted = |at| StorageError::Compacted { requested: Revision(at), compacted: Revision(5) };
    assert_eq!(store.range(request(4)).await.unwrap_err(), compacted(4));
    assert_eq!(state(&store, Some(5)).await, "a=5@5/1");
    assert_eq!(state(&store, Some(6)).await, "a=6@6/1");
    assert_eq!(state(&store, None).await, "a=10@10/1");
    for from in [0, 1, 5] {
        let refused = store.watch(KeyRange::prefix(b""), Some(Revision(from))).await.unwrap_err();
        assert_eq!(refused, compacted(from));
    }
    let mut watch = watch_prefix(&store, "", Some(6)).await;
    assert_eq!(next_shown(&mut watch).await, "6: a=6/1<5@5/1");
}

pub async fn compaction_keeps_what_is_live(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("old", "1"), put("gone", "1"), put("back", "1"), put("later", "1")]).await;
    commit(&store, vec![delete("gone"), delete("back"), put("new", "2")]).await;
    commit(&store, vec![put("back", "3"), put("new", "3")]).await;
    commit(&store, vec![delete("later")]).await;
    let before = [state(&store, Some(3)).await, state(&store, Some(4)).await];
    store.compact(Revision(3)).await.unwrap();
    assert_eq!([state(&store, Some(3)).await, state(&store, Some(4)).await], before);
    assert_eq!(before[0], "back=3@3/3 later=1@1/1 new=3@3/2 old=1@1/1");
    store.compact(Revision(4)).await.unwrap();
    assert_eq!(state(&store, None).await, "back=3@3/3 new=3@3/2 old=1@1/1");
    let failed = store.txn(txn(vec![Compare::absent(&key("old"))], vec![])).await.unwrap();
    assert!(matches!(failed, TxnOutcome::Failed { .. }));
    commit(&store, vec![put("gone", "5"), put("old", "5")]).await;
    assert_eq!(state(&store, None).await, "back=3@3/3 gone=5@5/5 new=3@3/2 old=5@5/1");
}

pub async fn compaction_is_idempotent_and_never_in_the_future(factory: impl Open) {
    let store = open(factory).await;
    store.compact(Revision::ZERO).await.unwrap();
    for _ in 0..3 {
        commit(&store, vec![put("a", "")]).await;
    }
    let future = store.compact(Revision(4)).await.unwrap_err();
    assert_eq!(future, StorageError::Future { requested: Revision(4), current: Revision(3) });
    for (at, compacted) in [(2, 2), (2, 2), (1, 2), (3, 3)] {
        store.compact(Revision(at)).await.unwrap();
        assert_eq!(store.compacted(), Revision(compacted));
    }
    assert_eq!(state(&store, Some(3)).await, "a=@3/1");
    let mut watch = watch_prefix(&store, "", Some(4)).await;
    commit(&store, vec![put("b", "")]).await;
    assert_eq!(next_shown(&mut watch).await, "4: b=/4");
}

pub async fn compaction_keeps_previous_values(factory: impl Open) {
    let store = open(factory).await;
    let mut watch = watch_prefix(&store, "", None).await;
    commit(&store, vec![put("a", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    store.compact(Revision(2)).await.unwrap();
    commit(&store, vec![delete("a")]).await;
    assert_eq!(next_shown(&mut watch).await, "1: a=1/1");
    assert_eq!(next_shown(&mut watch).await, "2: a=2/1<1@1/1");
    assert_eq!(next_shown(&mut watch).await, "3: a!<2@2/1");
}

pub async fn history_that_is_compacted_while_read_ends_the_watch(factory: impl Open) {
    let store = open(factory).await;
    for _ in 0..1000 {
        commit(&store, vec![put("a", "")]).await;
    }
    let mut watch = watch_prefix(&store, "", Some(1)).await;
    assert_eq!(next(&mut watch).await.unwrap().revision, Revision(1));
    store.compact(Revision(1000)).await.unwrap();
    // Events that an engine has read ahead may still come, in order; then the error or, if it has read all, the end.
    let mut at = Revision(1);
    while at < Revision(1000) {
        match next(&mut watch).await {
            Ok(commit) => {
                assert_eq!(commit.revision, at.next());
                at = commit.revision;
            }
            Err(StorageError::Compacted { requested, compacted }) => {
                assert_eq!((requested, compacted), (at.next(), Revision(1000)));
                ended(&mut watch).await;
                break;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

pub async fn close_ends_everything(factory: impl Open) {
    let store = open(factory).await;
    commit(&store, vec![put("a", "1")]).await;
    let mut watch = watch_prefix(&store, "", Some(1)).await;
    store.settle().await;
    store.close().await.unwrap();
    assert_eq!(next_shown(&mut watch).await, "1: a=1/1");
    assert!(matches!(next(&mut watch).await, Err(StorageError::Unavailable { .. })));
    ended(&mut watch).await;
    let errors = [
        store.txn(txn(vec![], vec![put("a", "2")])).await.unwrap_err(),
        store.range(RangeRequest::prefix(b"")).await.unwrap_err(),
        store.watch(KeyRange::prefix(b""), None).await.unwrap_err(),
        store.compact(Revision(1)).await.unwrap_err(),
        store.fresh().await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, StorageError::Unavailable { .. }), "{error:?}");
        assert_eq!(error.applied(), crate::Applied::No);
    }
    assert_eq!(store.published(), Revision(1));
    store.close().await.unwrap();
}

pub async fn a_dropped_transaction_future_still_happens(factory: impl Open) {
    let store = open(factory).await;
    let mut watch = watch_prefix(&store, "", None).await;
    drop(store.txn(txn(vec![], vec![put("a", "1")])));
    commit(&store, vec![put("b", "2")]).await;
    let seen = [next_shown(&mut watch).await, next_shown(&mut watch).await];
    let seen = seen.each_ref().map(|seen| &**seen);
    // Between two that are under way at once, only a queue makes an order.
    assert!(
        seen == ["1: a=1/1", "2: b=2/2"] || (store.remote && seen == ["1: b=2/1", "2: a=1/2"]),
        "{seen:?}"
    );
}

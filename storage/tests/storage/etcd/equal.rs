//! The engine equals the one in memory on random transactions, reads and watches.

use bytes::Bytes;
use kindom_storage::{
    Change, Commit, Compare, CompareTarget, Key, KeyRange, Memory, Op, RangeRequest, RangeResult, Revision,
    Storage, Txn, TxnOutcome,
};

use super::{Cluster, in_time, next, options, watch};
use crate::support::{Random, cases};

/// etcd's first revision of ours is 2.
const BASE: u64 = 1;

fn range(random: &mut Random) -> KeyRange {
    let key = |random: &mut Random| Key::from(format!("k{}", random.below(12)));
    match random.below(6) {
        0 | 1 => KeyRange::single(&key(random)),
        2 => KeyRange::prefix(b"k1"),
        3 => KeyRange { start: key(random), end: None },
        4 => KeyRange::prefix(b""),
        _ => KeyRange { start: key(random), end: Some(key(random)) },
    }
}

fn txn(random: &mut Random, head: u64) -> Txn {
    let revision = |random: &mut Random| match random.below(4) {
        0 => 0,
        _ => random.below(usize::try_from(head).unwrap() + 3) as u64,
    };
    let compare = |random: &mut Random| {
        let (range, at) = (range(random), Revision(revision(random)));
        let targets =
            [CompareTarget::ModEqual(at), CompareTarget::ModLess(at), CompareTarget::ModGreater(at)];
        Compare { range, target: targets[random.below(3)] }
    };
    let compares = (0..[0, 0, 1, 2, 4][random.below(5)]).map(|_| compare(random)).collect();
    let op = |random: &mut Random| {
        let key = Key::from(format!("k{}", random.below(12)));
        if random.below(3) == 0 {
            Op::Delete(key)
        } else {
            Op::Put(key, Bytes::from(format!("{}", random.below(1000))))
        }
    };
    Txn { compares, ops: (0..random.below(4)).map(|_| op(random)).collect() }
}

fn given(revision: Revision) -> Revision {
    Revision(if revision == Revision::ZERO { 0 } else { revision.0 + BASE })
}

/// As etcd is asked.
fn to_etcd(mut txn: Txn) -> Txn {
    for compare in &mut txn.compares {
        compare.target = match compare.target {
            CompareTarget::ModEqual(at) => CompareTarget::ModEqual(given(at)),
            CompareTarget::ModLess(at) => CompareTarget::ModLess(given(at)),
            CompareTarget::ModGreater(at) => CompareTarget::ModGreater(given(at)),
        };
    }
    txn
}

fn outcome(outcome: TxnOutcome, base: u64) -> String {
    match outcome {
        TxnOutcome::Committed { revision } => format!("done at {}", revision.0 - base),
        TxnOutcome::Failed { compare, revision } => format!("{compare:?} fails at {}", revision.0 - base),
    }
}

fn found(found: &RangeResult, base: u64) -> String {
    let kvs = found.kvs.iter().map(|kv| {
        format!("{}={:?}@{}/{}", kv.key, kv.value, kv.mod_revision.0 - base, kv.create_revision.0 - base)
    });
    format!(
        "{} of {} at {}: {:?}",
        found.kvs.len(),
        found.count,
        found.revision.0 - base,
        kvs.collect::<Vec<_>>()
    )
}

fn shown(commit: &Commit, base: u64) -> String {
    let event = |event: &kindom_storage::Event| {
        let change = match &event.change {
            Change::Put { value, create_revision } => format!("{value:?}/{}", create_revision.0 - base),
            Change::Delete => "deleted".to_owned(),
        };
        let prev = event.prev.as_ref().map(|kv| (kv.value.clone(), kv.mod_revision.0 - base));
        format!("{} {change} {prev:?}", event.key)
    };
    let events: Vec<_> = commit.events.iter().map(event).collect();
    format!("{}: {events:?}", commit.revision.0 - base)
}

#[tokio::test]
async fn random_transactions_end_as_in_memory() {
    let (_cluster, etcd) = Cluster::with_store(1, |cluster| options(cluster, "")).await;
    let memory = Memory::new();
    assert_eq!(etcd.fresh().await, Ok(Revision(BASE)));
    let mut random = Random::new(7);
    for _ in 0..cases(600, 20_000) {
        let txn = txn(&mut random, memory.published().0);
        let said = format!("{txn:?}");
        let expected = outcome(memory.txn(txn.clone()).await.unwrap(), 0);
        let done = in_time("a transaction", etcd.txn(to_etcd(txn))).await.unwrap();
        assert_eq!(outcome(done, BASE), expected, "{said}");
        if random.below(4) == 0 {
            let head = memory.published().0;
            let revision = (random.below(2) == 0)
                .then(|| Revision(random.below(usize::try_from(head).unwrap() + 1) as u64));
            let limit = [None, Some(0), Some(1), Some(5)][random.below(4)];
            let keys_only = random.below(4) == 0;
            let range = range(&mut random);
            let request = RangeRequest { range, limit, revision, keys_only, count_all: true };
            let expected = found(&memory.range(request.clone()).await.unwrap(), 0);
            let revision = revision.map(|at| Revision(at.0 + BASE));
            let read =
                in_time("a read", etcd.range(RangeRequest { revision, ..request.clone() })).await.unwrap();
            assert_eq!(found(&read, BASE), expected, "{request:?}");
        }
    }
    in_time("freshness", etcd.fresh()).await.unwrap();
    let head = memory.published();
    for prefix in ["", "k1", "k5"] {
        let mut expected =
            memory.watch(KeyRange::prefix(prefix.as_bytes()), Some(Revision(1))).await.unwrap();
        let mut seen = watch(&etcd, prefix, Some(1 + BASE)).await;
        assert_eq!(seen.progress.last_sent().0 - BASE, expected.progress.last_sent().0);
        while let Ok(commit) = expected.commits.try_recv() {
            assert_eq!(shown(&next(&mut seen).await.unwrap(), BASE), shown(&commit.unwrap(), 0));
        }
        assert!(seen.commits.try_recv().is_err());
    }
    assert_eq!(etcd.published().0 - BASE, head.0);
}

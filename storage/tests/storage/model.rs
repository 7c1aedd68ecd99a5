//! The embedded engine equals a model, whatever is compacted, packed and reopened in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use kindom_storage::testing::SimDisk;
use kindom_storage::{
    Change, Compare, Embedded, EmbeddedOptions, Key, KeyRange, Op, RangeRequest, Revision, Storage, Txn,
    TxnOutcome,
};
use proptest::prelude::*;

use crate::support::cases;

#[derive(Debug, Clone)]
enum Step {
    /// Guarded by the mod revision of a key being what it is, or not.
    Commit {
        guard: Option<(u8, bool)>,
        ops: Vec<(u8, Option<u16>)>,
    },
    Compact(u8),
    /// Without and with closing it first.
    Crash,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ops = prop::collection::btree_map(0..12u8, prop::option::of(0..900u16), 0..4);
    let commit = (prop::option::of((0..12u8, any::<bool>())), ops)
        .prop_map(|(guard, ops)| Step::Commit { guard, ops: ops.into_iter().collect() });
    let step = prop_oneof![
        30 => commit,
        3 => any::<u8>().prop_map(Step::Compact),
        1 => Just(Step::Crash),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 0..120)
}

type State = BTreeMap<u8, (u64, u64, Bytes)>;

fn key(n: u8) -> Key {
    Key::from(format!("key/{n:02}"))
}

fn number(key: &Key) -> u8 {
    key.to_string().trim_start_matches("key/").parse().unwrap()
}

struct Pair {
    disk: SimDisk,
    options: EmbeddedOptions,
    store: Embedded,
    states: Vec<State>,
    compacted: u64,
}

impl Pair {
    fn open(disk: &SimDisk, options: &EmbeddedOptions) -> Embedded {
        Embedded::open_on(Arc::new(disk.process()), "store", options.clone()).unwrap()
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Commit { guard, ops } => self.commit(guard, ops).await,
            Step::Compact(share) => {
                let to = (self.states.len() as u64 - 1) * u64::from(share) / 255;
                self.store.compact(Revision(to)).await.unwrap();
                self.compacted = self.compacted.max(to);
            }
            Step::Crash => {
                // Everything was acknowledged, so all of it survives.
                self.disk.cut();
                self.disk.power_on();
                self.store = Self::open(&self.disk, &self.options);
            }
            Step::Reopen => {
                self.store.close().await.unwrap();
                self.store = Self::open(&self.disk, &self.options);
            }
        }
    }

    async fn commit(&mut self, guard: Option<(u8, bool)>, ops: Vec<(u8, Option<u16>)>) {
        let state = self.states.last().unwrap();
        let revision = self.states.len() as u64;
        let compares = guard.map(|(n, right)| {
            let at = state.get(&n).map_or(0, |(at, _, _)| *at);
            Compare::mod_is(&key(n), Revision(if right { at } else { at + 1 }))
        });
        let value = |size: u16| Bytes::from(format!("{revision}{}", "v".repeat(size.into())));
        let op = |(n, size): &(u8, Option<u16>)| match size {
            Some(size) => Op::Put(key(*n), value(*size)),
            None => Op::Delete(key(*n)),
        };
        let txn = Txn { compares: compares.into_iter().collect(), ops: ops.iter().map(op).collect() };
        let outcome = self.store.txn(txn).await.unwrap();
        let current = Revision(revision - 1);
        if guard.is_some_and(|(_, right)| !right) {
            assert_eq!(outcome, TxnOutcome::Failed { compare: Some(0), revision: current });
            return;
        }
        let mut next = state.clone();
        let mut any = false;
        for (n, size) in &ops {
            any |= size.is_some() || next.contains_key(n);
            match size {
                Some(size) => {
                    let created = next.get(n).map_or(revision, |(_, created, _)| *created);
                    next.insert(*n, (revision, created, value(*size)));
                }
                None => drop(next.remove(n)),
            }
        }
        let revision = if any { Revision(revision) } else { current };
        assert_eq!(outcome, TxnOutcome::Committed { revision });
        if any {
            self.states.push(next);
        }
    }

    async fn read(&self, revision: Option<Revision>) -> State {
        let range = KeyRange::prefix(b"key/");
        let read =
            self.store.range(RangeRequest { range, revision, ..RangeRequest::prefix(b"") }).await.unwrap();
        let kv = |kv: kindom_storage::KeyValue| {
            (number(&kv.key), (kv.mod_revision.0, kv.create_revision.0, kv.value.unwrap()))
        };
        read.kvs.into_iter().map(kv).collect()
    }

    async fn check(&self) {
        assert_eq!(self.store.compacted(), Revision(self.compacted));
        assert_eq!(self.store.published().0 + 1, self.states.len() as u64);
        assert_eq!(self.read(None).await, *self.states.last().unwrap());
        let at = self.compacted + (self.states.len() as u64 - 1 - self.compacted) / 2;
        assert_eq!(self.read(Some(Revision(at))).await, self.states[usize::try_from(at).unwrap()]);
        let from = Revision(self.compacted + 1);
        let mut watch = self.store.watch(KeyRange::prefix(b""), Some(from)).await.unwrap();
        let mut fold = self.states[usize::try_from(self.compacted).unwrap()].clone();
        for state in &self.states[usize::try_from(self.compacted).unwrap() + 1..] {
            let commit = watch.commits.try_recv().unwrap().unwrap();
            for event in &commit.events {
                let n = number(&event.key);
                let prev = event.prev.as_ref();
                let prev =
                    prev.map(|kv| (kv.mod_revision.0, kv.create_revision.0, kv.value.clone().unwrap()));
                assert_eq!(prev.as_ref(), fold.get(&n));
                match &event.change {
                    Change::Put { value, create_revision } => {
                        fold.insert(n, (commit.revision.0, create_revision.0, value.clone().unwrap()))
                    }
                    Change::Delete => fold.remove(&n),
                };
            }
            assert_eq!(fold, *state);
        }
        assert!(watch.commits.try_recv().is_err());
    }
}

async fn run(seed: u64, segment_bytes: u64, steps: Vec<Step>) {
    let disk = SimDisk::new(seed);
    let options = EmbeddedOptions { segment_bytes, ..EmbeddedOptions::default() };
    let store = Pair::open(&disk, &options);
    let mut pair = Pair { disk, options, store, states: vec![State::new()], compacted: 0 };
    for step in steps {
        let checks = !matches!(step, Step::Commit { .. });
        pair.step(step).await;
        if checks {
            pair.check().await;
        }
    }
    pair.check().await;
    pair.step(Step::Reopen).await;
    pair.check().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(u32::try_from(cases(100, 3000)).unwrap()))]
    #[test]
    fn equals_a_list_of_all_states(
        seed in any::<u64>(),
        segment_bytes in prop_oneof![Just(1500u64), Just(6000), Just(1 << 17)],
        steps in steps(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(seed, segment_bytes, steps));
    }
}

//! One call of the system fails: the next opening finds the served state, and everything heals.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use kindom_storage::testing::{CallFault, Done, SimDisk};
use kindom_storage::{
    Applied, Embedded, EmbeddedOptions, Key, KeyValue, Op, RangeRequest, Revision, Storage, StorageError, Txn,
};
use rustix::io::Errno;

use crate::support::{Random, cases};

type State = BTreeMap<Key, Bytes>;

fn options(random: &mut Random) -> EmbeddedOptions {
    EmbeddedOptions {
        segment_bytes: [1500, 4000, 12_000][random.below(3)],
        mark_every: [Duration::ZERO, Duration::from_secs(1000)][random.below(2)],
        ..EmbeddedOptions::default()
    }
}

fn fault(random: &mut Random) -> CallFault {
    CallFault {
        error: [Errno::MFILE, Errno::NOSPC, Errno::IO][random.below(3)],
        done: [Done::Nothing, Done::Half, Done::All][random.below(3)],
    }
}

/// The served state; an error if the failing call was one of these reads.
async fn state(store: &Embedded) -> Result<State, String> {
    let all = store.range(RangeRequest::prefix(b"")).await.map_err(|error| error.to_string())?;
    let read = |kv: KeyValue| Ok((kv.key, kv.value.map_err(|damage| damage.to_string())?));
    all.kvs.into_iter().map(read).collect()
}

fn apply(state: &mut State, op: &Op) {
    match op {
        Op::Put(key, value) => drop(state.insert(key.clone(), value.clone())),
        Op::Delete(key) => drop(state.remove(key)),
    }
}

/// The knowledge of a store's clients.
#[derive(Default)]
struct Known {
    /// The answered state.
    state: State,
    /// The state if the writes of unknown outcome happened.
    perhaps: Option<State>,
}

/// Some rounds of writes and compactions; says whether one failed.
async fn work(store: &Embedded, random: &mut Random, known: &mut Known, rounds: usize) -> bool {
    let mut failed = false;
    for round in 0..rounds {
        let ops: Vec<Op> = (0..=random.below(5))
            .map(|n| {
                let key = Key::from(format!("k{}", random.below(12)));
                match random.below(3) {
                    0 => Op::Delete(key),
                    _ => Op::Put(key, Bytes::from(format!("{round}-{n}-{}", "x".repeat(random.below(400))))),
                }
            })
            .collect();
        let txns = ops.iter().map(|op| store.txn(Txn { compares: vec![], ops: vec![op.clone()] }));
        for (outcome, op) in join_all(txns).await.into_iter().zip(&ops) {
            match outcome {
                Ok(_) => {
                    assert!(
                        known.perhaps.is_none(),
                        "something was acknowledged after a write whose outcome is unknown"
                    );
                    apply(&mut known.state, op);
                }
                Err(error) if error.applied() == Applied::Unknown => {
                    failed = true;
                    apply(known.perhaps.get_or_insert_with(|| known.state.clone()), op);
                }
                Err(_) => failed = true,
            }
        }
        if random.below(4) == 0 {
            let to = store.published().0.saturating_sub(random.below(8) as u64);
            failed |= store.compact(Revision(to)).await.is_err();
            // Time for the packer.
            for _ in 0..random.below(60) {
                tokio::task::yield_now().await;
                std::thread::yield_now();
            }
        }
    }
    failed
}

/// Opens it, which may fail once.
fn open(disk: &SimDisk, options: &EmbeddedOptions) -> Result<Embedded, String> {
    let open = || Embedded::open_on(Arc::new(disk.process()), "store", options.clone());
    open().or_else(|error| match error {
        StorageError::Corrupt(why) => Err(why),
        _ => open().map_err(|error| error.to_string()),
    })
}

/// Lets one call fail; returns that call, if it was reached.
async fn fail_one_call(seed: u64) -> Result<Option<String>, String> {
    let mut random = Random::new(seed);
    let disk = SimDisk::new(seed);
    let options = options(&mut random);
    let mut known = Known::default();
    let fault = fault(&mut random);
    // In the first opening, while it works, or in a later opening.
    let store = open(&disk, &options)?;
    work(&store, &mut random, &mut known, 20).await;
    store.close().await.map_err(|error| error.to_string())?;
    drop(store);
    // These are rare among all calls, and the most depends on them.
    let (what, calls) = [("", 900), ("", 900), ("create", 25), ("rename", 12)][random.below(4)];
    disk.fail_call(what, 1 + random.below(calls) as u64, fault);
    let store = open(&disk, &options)?;
    work(&store, &mut random, &mut known, 60).await;
    let failed = disk.failed_call();
    let live = match state(&store).await {
        Ok(live) => live,
        // It was this read.
        Err(_) => state(&store).await?,
    };
    if live != known.state {
        return Err(format!("after {failed:?}, what is served is not what was acknowledged"));
    }
    match random.below(3) {
        // Cut off, as by kill -9: the system still writes its buffers.
        0 => {
            let copy = disk.duplicate();
            drop(store);
            return reopened(&copy, &options, &mut random, known, failed).await;
        }
        1 => {
            disk.cut();
            disk.power_on();
        }
        // It may be read-only.
        _ => drop(store.close().await),
    }
    drop(store);
    reopened(&disk, &options, &mut random, known, failed).await
}

/// Reopens the store and checks that it has the served state, except for writes of unknown outcome, and that everything
/// works again.
async fn reopened(
    disk: &SimDisk,
    options: &EmbeddedOptions,
    random: &mut Random,
    mut known: Known,
    failed: Option<String>,
) -> Result<Option<String>, String> {
    let store = open(disk, options).map_err(|error| format!("after {failed:?}: {error}"))?;
    let found = match state(&store).await {
        Ok(found) => found,
        // It may be this read.
        Err(_) => state(&store).await.map_err(|error| format!("after {failed:?}: {error}"))?,
    };
    // Who works while it happens has been seen.
    disk.spare_calls();
    let failed = failed.or_else(|| disk.failed_call());
    if found != known.state && Some(&found) != known.perhaps.as_ref() {
        return Err(format!("after {failed:?}, what is found is not what was served"));
    }
    known = Known { state: found, perhaps: None };
    if work(&store, random, &mut known, 20).await {
        return Err(format!("after {failed:?} it takes no writes"));
    }
    for key in known.state.keys() {
        let txn = Txn { compares: vec![], ops: vec![Op::Delete(key.clone())] };
        store.txn(txn).await.map_err(|error| error.to_string())?;
    }
    store.compact(store.published()).await.map_err(|error| error.to_string())?;
    // Only the reserve is left, and less than a quarter of a segment of deletes.
    let patience = tokio::time::Instant::now() + Duration::from_secs(60);
    while disk.used() > 10_000 + 5 * options.segment_bytes || !all_hinted(disk) {
        if tokio::time::Instant::now() > patience {
            return Err(format!("after {failed:?}, {} bytes stay in {:?}", disk.used(), disk.files()));
        }
        tokio::task::yield_now().await;
    }
    store.close().await.map_err(|error| error.to_string())?;
    // The packer may have been stopped between a pack and its hint; then the next one makes it.
    let mut told = String::new();
    for _ in 0..2 {
        let before = disk.read_bytes();
        let store = open(disk, options)?;
        let read = disk.read_bytes() - before;
        if read <= 10_000 + 3 * options.segment_bytes {
            return Ok(failed);
        }
        let sizes: Vec<_> =
            disk.files().into_iter().map(|path| (disk.read(&path).map_or(0, |it| it.len()), path)).collect();
        told = format!("{read} bytes of {sizes:?}");
        while !all_hinted(disk) && tokio::time::Instant::now() < patience {
            tokio::task::yield_now().await;
        }
        store.close().await.map_err(|error| error.to_string())?;
    }
    Err(format!("after {failed:?}, opening read {told}"))
}

/// Returns true if all segments but the newest have a hint.
fn all_hinted(disk: &SimDisk) -> bool {
    let files = disk.files();
    let is = |path: &PathBuf, kind: &str| path.extension().is_some_and(|it| it == kind);
    let newest = files.iter().filter(|path| is(path, "log")).max();
    let sealed = files.iter().filter(|path| (is(path, "log") && Some(*path) != newest) || is(path, "pack"));
    sealed.map(|path| path.with_extension("hint")).all(|hint| files.contains(&hint))
}

#[tokio::test]
async fn one_failing_call_loses_nothing_and_heals() {
    let mut failed = BTreeMap::new();
    for seed in 0..cases(150, 5000) {
        match fail_one_call(seed).await {
            Ok(call) => {
                let call = call.unwrap_or_default();
                let (what, path) = call.split_once(' ').unwrap_or((&call, ""));
                let kind = path.rsplit_once('.').map_or("", |(_, kind)| kind);
                *failed.entry(format!("{what} {kind}")).or_insert(0_u32) += 1;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    println!("{failed:?}");
    for call in ["write ", "sync ", "create tmp", "rename hint"] {
        assert!(failed.contains_key(call), "{call:?} never failed: {failed:?}");
    }
}

/// Lets one call of the packer fail while it packs, then makes other things dead, or fills the disk, so that the next packs
/// are of other runs, some of which overlap those of before in part. At any moment of that, the folder of a process that is
/// killed holds the state.
async fn fail_a_pack(seed: u64) -> Result<Option<String>, String> {
    let mut random = Random::new(seed);
    let disk = SimDisk::new(seed);
    let segment_bytes = [1500, 2500, 4000][random.below(3)];
    let options = EmbeddedOptions { segment_bytes, batch_txns_max: 3, ..EmbeddedOptions::default() };
    let store = open(&disk, &options)?;
    let mut state = State::new();
    let keys = 30 + random.below(40);
    let all = (0..keys).map(|n| put(n, &mut random)).collect();
    write(&store, &mut state, all).await?;
    let phases = 2 + random.below(3);
    let mut first = random.below(keys);
    for phase in 1..=phases {
        if phase == phases - 1 {
            let (what, calls) = [("hint.tmp", 3), (".hint", 8), (".pack", 2)][random.below(3)];
            disk.fail_call(what, 1 + random.below(calls) as u64, fault(&mut random));
        }
        let is_last = phase == phases;
        if is_last && random.below(5) > 0 {
            // Then packs are chosen by what they free.
            disk.set_capacity(Some(disk.used()));
            while store.read_only().is_none() {
                write(&store, &mut state, vec![put(keys, &mut random)]).await?;
            }
        }
        // Some neighbours die, or move to the newest segment, and a few others; the next time, what is before or behind them.
        let count = 1 + random.below(25);
        first = (first + random.below(50)).saturating_sub(25) % keys;
        let window = first..keys.min(first + count);
        let share = 1 + random.below(4);
        let mut ops = Vec::new();
        for n in 0..keys {
            if (window.contains(&n) && random.below(4) < share) || random.below(30) == 0 {
                ops.push(if random.below(3) == 0 { put(n, &mut random) } else { Op::Delete(key(n)) });
            }
        }
        write(&store, &mut state, ops).await?;
        if is_last {
            // After this, only the packer changes the disk.
            disk.keep_copies([".pack", "remove"][random.below(2)]);
        }
        store.compact(store.published()).await.map_err(|error| error.to_string())?;
        rest(&disk).await;
    }
    let copies = disk.copies();
    drop(store.close().await);
    let failed = disk.failed_call();
    disk.set_capacity(None);
    for copy in copies.iter().chain([&disk]) {
        let found = holds(copy, &options, &state).await;
        found.map_err(|error| format!("after {failed:?}: {error}"))?;
    }
    Ok(failed)
}

/// Waits until the packer has nothing more to do, more or less.
async fn rest(disk: &SimDisk) {
    let (mut calls, mut same) = (disk.calls(), 0);
    while same < 150 {
        tokio::task::yield_now().await;
        std::thread::yield_now();
        same = if disk.calls() == calls { same + 1 } else { 0 };
        calls = disk.calls();
    }
}

fn key(n: usize) -> Key {
    Key::from(format!("k{n:03}"))
}

fn put(n: usize, random: &mut Random) -> Op {
    Op::Put(key(n), Bytes::from(format!("{n}-{}", "x".repeat(random.below(400)))))
}

/// Writes all of these that are not refused.
async fn write(store: &Embedded, state: &mut State, ops: Vec<Op>) -> Result<(), String> {
    let txns = ops.iter().map(|op| store.txn(Txn { compares: vec![], ops: vec![op.clone()] }));
    for (outcome, op) in join_all(txns).await.into_iter().zip(&ops) {
        match outcome {
            Ok(_) => apply(state, op),
            Err(error) if error.applied() == Applied::No => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// The folder of this disk, opened anew, holds this state.
async fn holds(disk: &SimDisk, options: &EmbeddedOptions, wanted: &State) -> Result<(), String> {
    let store = open(disk, options)?;
    let found = state(&store).await?;
    if found == *wanted { Ok(()) } else { Err("what is found is not what was acknowledged".to_owned()) }
}

#[tokio::test]
async fn one_failing_call_of_a_pack_loses_nothing_in_later_packs() {
    let mut failed = 0;
    for seed in 0..cases(400, 6000) {
        match fail_a_pack(seed).await {
            Ok(call) => failed += u32::from(call.is_some()),
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(failed > 0, "no call failed");
}

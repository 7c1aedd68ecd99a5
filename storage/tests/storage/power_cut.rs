//! Simulated power cuts, at any moment: everything acknowledged is there, and revisions are continuous.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use kindom_storage::testing::SimDisk;
use kindom_storage::{
    Change, Embedded, EmbeddedOptions, Key, KeyRange, Op, RangeRequest, Revision, Storage, StorageError, Txn,
    TxnOutcome,
};

use crate::support::{Random, cases};

/// A write that was answered.
struct Acknowledged {
    revision: Revision,
    key: Key,
    value: Option<Bytes>,
}

fn options(random: &mut Random, planted: bool) -> EmbeddedOptions {
    EmbeddedOptions {
        segment_bytes: [3000, 20_000, 1 << 20][random.below(3)],
        batch_txns_max: [2, 1000][random.below(2)],
        // With a mark after every batch, or (almost) never.
        mark_every: [Duration::ZERO, Duration::from_secs(1000)][random.below(2)],
        answer_before_sync: planted,
        ..EmbeddedOptions::default()
    }
}

/// Writes until the power is cut.
async fn work(store: &Embedded, random: &mut Random, acknowledged: &mut Vec<Acknowledged>) {
    for round in 0.. {
        let writes: Vec<(Key, Option<Bytes>)> = (0..=random.below(6))
            .map(|n| {
                let key = Key::from(format!("k{}", (random.below(4) * 7) + n));
                let value = format!("{round}-{n}-{}", "x".repeat(random.below(1500)));
                (key, (random.below(5) > 0).then(|| Bytes::from(value)))
            })
            .collect();
        let txns = writes.iter().map(|(key, value)| {
            let op = match value {
                Some(value) => Op::Put(key.clone(), value.clone()),
                None => Op::Delete(key.clone()),
            };
            store.txn(Txn { compares: vec![], ops: vec![op] })
        });
        let before = store.published();
        for (outcome, (key, value)) in join_all(txns).await.into_iter().zip(writes) {
            match outcome {
                Ok(TxnOutcome::Committed { revision }) => {
                    // A delete of an absent key has no revision of its own.
                    let own = value.is_some() || revision > before;
                    let taken = acknowledged.iter().rev().take(8).any(|other| other.revision == revision);
                    if own && !taken {
                        acknowledged.push(Acknowledged { revision, key, value });
                    }
                }
                Ok(failed) => panic!("it compares nothing, but {failed:?}"),
                Err(_) => return,
            }
        }
        if random.below(8) == 0 {
            let to = store.published().0.saturating_sub(random.below(10) as u64);
            if store.compact(Revision(to)).await.is_err() {
                return;
            }
        }
    }
}

/// Compares the content with the acknowledged writes.
async fn check(store: &Embedded, acknowledged: &[Acknowledged]) -> Result<(), String> {
    let published = store.published();
    let compacted = store.compacted();
    let mut watch = store
        .watch(KeyRange::prefix(b""), Some(compacted.next()))
        .await
        .map_err(|error| format!("no watch from {compacted}: {error}"))?;
    let mut history = std::collections::BTreeMap::new();
    for at in compacted.0 + 1..=published.0 {
        let commit = watch.commits.try_recv().map_err(|error| format!("no commit {at}: {error}"))?;
        let commit = commit.map_err(|error| format!("no commit {at}: {error}"))?;
        if commit.revision.0 != at {
            return Err(format!("commit {} where {at} was next", commit.revision));
        }
        history.insert(commit.revision, commit);
    }
    let mut last = std::collections::BTreeMap::new();
    for Acknowledged { revision, key, value } in acknowledged {
        if *revision > published {
            return Err(format!("{revision} was acknowledged, but {published} is the last"));
        }
        if *revision > compacted {
            let events = history.get(revision).map(|commit| commit.events.clone()).unwrap_or_default();
            let [event] = &events[..] else { return Err(format!("{revision}: {events:?}")) };
            let found = match &event.change {
                Change::Put { value, .. } => value.as_ref().ok(),
                Change::Delete => None,
            };
            if event.key != *key || found != value.as_ref() {
                return Err(format!("{revision} is not what was acknowledged"));
            }
        }
        last.insert(key.clone(), (*revision, value.clone()));
    }
    for (key, (revision, value)) in last {
        let range = KeyRange::single(&key);
        let request = RangeRequest { range, ..RangeRequest::prefix(b"") };
        let found = store.range(request).await.map_err(|error| error.to_string())?;
        let found = found.kvs.first();
        // Writes that were never answered may be there too, on top.
        let newer = history
            .values()
            .any(|commit| commit.revision > revision && commit.events.iter().any(|event| event.key == key));
        let same = found.and_then(|kv| kv.whole().ok()) == value.as_ref();
        if !same && !newer && revision > compacted {
            return Err(format!("{key} is not as revision {revision} left it"));
        }
        if value.is_some()
            && found.is_none_or(|kv| kv.mod_revision < revision)
            && !newer
            && revision > compacted
        {
            return Err(format!("{key} lost revision {revision}"));
        }
    }
    Ok(())
}

/// Answers whether a pack took the place of segments on the way.
async fn cut_power_again_and_again(seed: u64, planted: bool) -> Result<bool, String> {
    let mut random = Random::new(seed);
    let disk = SimDisk::new(seed);
    let mut acknowledged = Vec::new();
    let mut packed = false;
    for _ in 0..4 {
        let soon = [20, 120, 400][random.below(3)];
        disk.cut_after(1 + random.below(soon) as u64);
        match Embedded::open_on(Arc::new(disk.process()), "store", options(&mut random, planted)) {
            Ok(store) => {
                check(&store, &acknowledged)
                    .await
                    .or_else(|error| if disk.is_off() { Ok(()) } else { Err(error) })?;
                work(&store, &mut random, &mut acknowledged).await;
                disk.cut();
            }
            Err(StorageError::Corrupt(text)) => return Err(text),
            Err(error) if !disk.is_off() => return Err(error.to_string()),
            Err(_) => {}
        }
        disk.power_on();
        let is_pack = |path: &std::path::PathBuf| path.extension().is_some_and(|kind| kind == "pack");
        packed |= disk.files().iter().any(is_pack);
    }
    let options = options(&mut random, false);
    let store = Embedded::open_on(Arc::new(disk.process()), "store", options.clone());
    let store = store.map_err(|error| error.to_string())?;
    check(&store, &acknowledged).await?;
    let published = store.published();
    store.close().await.map_err(|error| error.to_string())?;
    let store =
        Embedded::open_on(Arc::new(disk.process()), "store", options).map_err(|error| error.to_string())?;
    if store.published() != published {
        return Err(format!("{published} became {}", store.published()));
    }
    check(&store, &acknowledged).await?;
    Ok(packed)
}

#[tokio::test]
async fn nothing_acknowledged_is_lost() {
    let mut packed = 0;
    for seed in 0..cases(80, 10_000) {
        let result = cut_power_again_and_again(seed, false).await;
        packed += u32::from(result.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
    }
    assert!(packed > 0, "no segment was ever packed, so that was not tested");
}

#[tokio::test]
async fn an_answer_before_the_sync_is_found() {
    for seed in 0..100 {
        if cut_power_again_and_again(seed, true).await.is_err() {
            return;
        }
    }
    panic!("a store that answers before it syncs passed 100 times");
}

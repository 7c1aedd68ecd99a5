//! Without space or descriptors: what wrote nothing is refused, deletes go on, and it ends by itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kindom_storage::testing::SimDisk;
use kindom_storage::{
    Applied, Embedded, EmbeddedOptions, Key, Op, RangeRequest, Revision, Storage, StorageError, Txn,
};
use tokio::time::Instant;

use crate::support::{Random, cases};

const SEGMENT: u64 = 20_000;

fn open(disk: &SimDisk) -> Embedded {
    let options = EmbeddedOptions { segment_bytes: SEGMENT, ..EmbeddedOptions::default() };
    Embedded::open_on(Arc::new(disk.process()), "store", options).unwrap()
}

async fn put(store: &Embedded, key: &str) -> Result<(), StorageError> {
    put_bytes(store, key, 500).await
}

async fn put_bytes(store: &Embedded, key: &str, bytes: usize) -> Result<(), StorageError> {
    let op = Op::Put(Key::from(key), Bytes::from("v".repeat(bytes)));
    store.txn(Txn { compares: vec![], ops: vec![op] }).await.map(drop)
}

async fn delete(store: &Embedded, key: &str) -> Result<(), StorageError> {
    store.txn(Txn { compares: vec![], ops: vec![Op::Delete(Key::from(key))] }).await.map(drop)
}

async fn keys(store: &Embedded) -> Vec<String> {
    let all = store.range(RangeRequest::prefix(b"")).await.unwrap();
    all.kvs.iter().map(|kv| kv.key.to_string()).collect()
}

/// Puts until one is refused; how many were not.
async fn fill(store: &Embedded) -> (usize, StorageError) {
    for n in 0.. {
        if let Err(error) = put(store, &format!("k{n:04}")).await {
            return (n, error);
        }
    }
    unreachable!()
}

fn segments(disk: &SimDisk) -> usize {
    let is = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "log" || kind == "pack");
    disk.files().iter().filter(|path| is(path)).count()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("k{n:04}")).collect()
}

fn refused(error: &StorageError) {
    let StorageError::ReadOnly { reason, applied } = error else { panic!("{error:?}") };
    assert_eq!(*applied, Applied::No, "nothing was written");
    assert!(reason.contains("deletes are accepted"), "{reason}");
}

/// It is taken again without a restart. Somebody who only looks sees it too.
async fn heals(store: &Embedded) {
    let patience = Instant::now() + Duration::from_secs(60);
    while let Some(why) = store.read_only() {
        assert!(Instant::now() < patience, "{why:?}");
        tokio::task::yield_now().await;
    }
    put(store, "healed").await.unwrap();
    delete(store, "healed").await.unwrap();
}

#[tokio::test]
async fn a_full_disk_refuses_puts_and_takes_deletes_until_there_is_space() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    assert_eq!(store.read_only(), None);
    disk.set_capacity(Some(60_000));
    let (written, error) = fill(&store).await;
    refused(&error);
    assert!(error.to_string().contains("no storage space"), "{error}");
    assert!(written > 5);
    let why = store.read_only().unwrap();
    assert!(why.heals && why.summary().contains("no storage space"), "{why:?}");
    assert!(!why.summary().contains("store/"), "{why:?}");
    refused(&put(&store, "k").await.unwrap_err());
    assert_eq!(keys(&store).await, names(written), "reads go on");
    delete(&store, "k0000").await.unwrap();
    store.compact(Revision(1)).await.unwrap();
    assert!(store.read_only().is_some(), "that was the reserve");
    disk.set_capacity(None);
    heals(&store).await;
    assert_eq!(keys(&store).await, names(written)[1..]);
    store.close().await.unwrap();
    assert_eq!(keys(&open(&disk)).await, names(written)[1..]);
}

#[tokio::test]
async fn what_is_deleted_on_a_full_disk_makes_room() {
    for seed in 0..cases(10, 100) {
        deleted_until_there_is_room(seed).await;
    }
}

/// Fills a disk. Then a client deletes one key after another, and compacts after each, and waits for nothing. However many of
/// these are refused: what was deleted makes room in the end, and the disk can be filled again.
async fn deleted_until_there_is_room(seed: u64) {
    let mut random = Random::new(seed);
    let disk = SimDisk::new(seed);
    let mut store = open(&disk);
    let capacity = [120_000, 300_000][random.below(2)] + random.below(30_000) as u64;
    disk.set_capacity(Some(capacity));
    let mut there: Vec<String> = Vec::new();
    for round in 0..4 {
        let bytes = [10, 500, 3000][random.below(3)];
        for n in 0.. {
            let key = format!("{round}/{n:05}");
            match put_bytes(&store, &key, bytes).await {
                Ok(()) => there.push(key),
                Err(error) => {
                    refused(&error);
                    break;
                }
            }
        }
        if random.below(3) == 0 {
            store.close().await.unwrap();
            store = open(&disk);
        }
        let in_order = random.below(2) == 0;
        let patience = Instant::now() + Duration::from_secs(60);
        while store.read_only().is_some() {
            let files = || disk.files().into_iter().map(|path| (disk.read(&path).map(|it| it.len()), path));
            assert!(
                Instant::now() < patience,
                "seed {seed}, round {round}: {} left in {:?} of {capacity}",
                there.len(),
                files().collect::<Vec<_>>()
            );
            if !there.is_empty() {
                let at = if in_order { 0 } else { random.below(there.len()) };
                match delete(&store, &there[at]).await {
                    Ok(()) => drop(there.remove(at)),
                    Err(error) => refused(&error),
                }
            }
            store.compact(store.published()).await.unwrap();
        }
        there.sort();
        assert_eq!(keys(&store).await, there, "seed {seed}, round {round}");
    }
    store.close().await.unwrap();
    assert_eq!(keys(&open(&disk)).await, there, "seed {seed}");
}

#[tokio::test]
async fn what_is_deleted_in_the_newest_segment_makes_room() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    // There is no other segment, and there will be none.
    disk.set_capacity(Some(45_000));
    let (written, error) = fill(&store).await;
    refused(&error);
    assert_eq!(segments(&disk), 1);
    let mut left = names(written);
    let patience = Instant::now() + Duration::from_secs(60);
    while store.read_only().is_some() {
        assert!(Instant::now() < patience, "{} left, {:?}", left.len(), disk.files());
        if let Some(key) = left.first() {
            match delete(&store, key).await {
                Ok(()) => drop(left.remove(0)),
                Err(error) => refused(&error),
            }
        }
        store.compact(store.published()).await.unwrap();
    }
    heals(&store).await;
    assert_eq!(keys(&store).await, left);
    store.close().await.unwrap();
    assert_eq!(keys(&open(&disk)).await, left);
}

#[tokio::test]
async fn started_on_a_full_disk_it_takes_deletes_and_heals() {
    for in_order in [true, false] {
        let disk = SimDisk::new(1);
        let store = open(&disk);
        disk.set_capacity(Some(60_000));
        let (written, _) = fill(&store).await;
        if in_order {
            store.close().await.unwrap();
        } else {
            disk.cut();
            disk.power_on();
        }
        drop(store);
        // Other programs took the space that it gave back.
        disk.set_capacity(Some(disk.used()));
        let store = open(&disk);
        assert_eq!(keys(&store).await, names(written));
        delete(&store, "k0000").await.unwrap();
        store.compact(store.published()).await.unwrap();
        let (more, error) = fill(&store).await;
        refused(&error);
        assert!(more < 5, "{more} were taken into the reserve");
        disk.set_capacity(None);
        heals(&store).await;
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn without_descriptors_a_segment_grows_and_then_waits() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    put(&store, "first").await.unwrap();
    // The packer has its spare by then, or not: it needs none.
    disk.set_descriptors(Some(disk.descriptors()));
    let (written, error) = fill(&store).await;
    refused(&error);
    assert!(written * 500 > 3 * usize::try_from(SEGMENT).unwrap(), "only {written} were taken");
    delete(&store, "k0000").await.unwrap();
    store.compact(store.published()).await.unwrap();
    assert_eq!(keys(&store).await.len(), written);
    disk.set_descriptors(None);
    heals(&store).await;
    for n in 0..100 {
        put(&store, &format!("k{n:04}")).await.unwrap();
    }
    store.close().await.unwrap();
    assert_eq!(keys(&open(&disk)).await.len(), written + 1);
}

/// A pack has taken the spare, and there is no descriptor for the next one: that lacks no space, so the log goes on.
#[tokio::test]
async fn without_a_descriptor_for_the_spare_writes_go_on() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    for key in names(150) {
        put(&store, &key).await.unwrap();
    }
    for key in names(149) {
        delete(&store, &key).await.unwrap();
    }
    // Nor for one after a segment that the pack replaced was closed.
    disk.set_descriptors(Some(0));
    store.compact(store.published()).await.unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while disk.files().iter().any(|path| path.ends_with("pack.spare")) {
        assert!(Instant::now() < patience, "{:?}", disk.files());
        tokio::task::yield_now().await;
    }
    // More than the space that the log has already.
    for n in 0..40 {
        put(&store, &format!("more{n}")).await.unwrap();
    }
    assert_eq!(store.read_only(), None);
    disk.set_descriptors(None);
    put(&store, "last").await.unwrap();
    store.close().await.unwrap();
    assert_eq!(keys(&open(&disk)).await.len(), 42);
}

#[tokio::test]
async fn a_disk_that_reserves_nothing_refuses_what_it_could_not_write() {
    let disk = SimDisk::new(1);
    disk.set_reserving(false);
    let store = open(&disk);
    disk.set_capacity(Some(40_000));
    let (written, error) = fill(&store).await;
    refused(&error);
    assert_eq!(keys(&store).await, names(written));
    // Writes that were taken back do not hinder later ones.
    disk.set_capacity(None);
    heals(&store).await;
    for n in written..written + 50 {
        put(&store, &format!("k{n:04}")).await.unwrap();
    }
    let found = keys(&store).await;
    assert_eq!(found, names(written + 50));
    disk.cut();
    disk.power_on();
    assert_eq!(keys(&open(&disk)).await, found);
}

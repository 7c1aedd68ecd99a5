//! Damaged files and failing disks: found and named, or provably without effect.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kindom_storage::testing::SimDisk;
use kindom_storage::{
    Applied, Change, Compare, Embedded, EmbeddedOptions, Key, KeyRange, KeyValue, Op, RangeRequest,
    RangeResult, Revision, Storage, StorageError, StoredValue, Txn, TxnOutcome,
};

use crate::support::cases;

fn options() -> EmbeddedOptions {
    EmbeddedOptions {
        segment_bytes: 2000,
        mark_every: Duration::from_secs(1000),
        ..EmbeddedOptions::default()
    }
}

fn open(disk: &SimDisk) -> Result<Embedded, StorageError> {
    Embedded::open_on(Arc::new(disk.process()), "store", options())
}

async fn put(store: &Embedded, key: &str, value: &str) -> Result<Revision, StorageError> {
    let op = Op::Put(Key::from(key), Bytes::copy_from_slice(value.as_bytes()));
    match store.txn(Txn { compares: vec![], ops: vec![op] }).await? {
        TxnOutcome::Committed { revision } => Ok(revision),
        failed @ TxnOutcome::Failed { .. } => panic!("{failed:?}"),
    }
}

async fn read(store: &Embedded) -> Result<RangeResult, StorageError> {
    store.range(RangeRequest::prefix(b"")).await
}

/// A place where a value is read from, and the value that was found there.
type Shown = (String, StoredValue);

/// Everything that can be read: the state, and history as far as it goes.
async fn everything(store: &Embedded) -> Result<Vec<Shown>, StorageError> {
    let found = read(store).await?;
    let none = || Ok(Bytes::new());
    let kv = |kv: KeyValue| (format!("{} {} {}", kv.key, kv.mod_revision, kv.create_revision), kv.value);
    let mut all = vec![(format!("{} at {}", found.count, found.revision), none())];
    all.extend(found.kvs.into_iter().map(kv));
    let from = Some(store.compacted().next());
    let mut watch = store.watch(KeyRange::prefix(b""), from).await?;
    while let Ok(commit) = watch.commits.try_recv() {
        let commit = commit?;
        for event in &commit.events {
            let what = format!("{}: {}", commit.revision, event.key);
            all.push(match &event.change {
                Change::Put { value, create_revision } => {
                    (format!("{what} {create_revision}"), value.clone())
                }
                Change::Delete => (format!("{what} is deleted"), none()),
            });
            all.extend(event.prev.clone().map(kv));
        }
    }
    Ok(all)
}

/// The number of damaged values; all others have to be as expected.
fn damaged(found: &[Shown], expected: &[Shown], what: &str) -> usize {
    assert_eq!(found.len(), expected.len(), "{what}: {found:?}");
    let differs = |((place, value), (expected_place, expected)): &(&Shown, &Shown)| {
        assert_eq!(place, expected_place, "{what}");
        if value.is_ok() {
            assert_eq!(value, expected, "{what}: wrong data of {place} was served");
        }
        value.is_err()
    };
    found.iter().zip(expected).filter(differs).count()
}

/// A closed store of several segments, some of them packed, and its content.
async fn sample() -> (SimDisk, Vec<Shown>) {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    for n in 0..30 {
        put(&store, &format!("key{}", n % 7), &"v".repeat(n * 11)).await.unwrap();
    }
    store.compact(Revision(20)).await.unwrap();
    put(&store, "last", "one").await.unwrap();
    store.close().await.unwrap();
    let store = open(&disk).unwrap();
    put(&store, "after", "all").await.unwrap();
    put(&store, "after", "all of it").await.unwrap();
    let all = everything(&store).await.unwrap();
    store.close().await.unwrap();
    (disk, all)
}

fn corrupt(error: &StorageError, path: &Path) {
    let StorageError::Corrupt(text) = error else { panic!("{}: {error:?}", path.display()) };
    assert!(text.contains("restore") && text.contains("store/"), "{text}");
}

/// Opens a damaged store: it is refused, or some values are damaged and all else is as it was.
async fn found_or_harmless(disk: &SimDisk, expected: &[Shown], what: &str) -> bool {
    let error = match open(disk) {
        Err(error) => error,
        Ok(store) => return damaged(&everything(&store).await.unwrap(), expected, what) > 0,
    };
    assert!(matches!(&error, StorageError::Corrupt(text) if text.contains("restore")), "{what}: {error:?}");
    true
}

#[tokio::test]
async fn a_flipped_byte_is_found_or_harmless() {
    let (disk, expected) = sample().await;
    let step = usize::try_from(cases(7, 1)).unwrap();
    let (mut flipped, mut found) = (0, 0);
    for path in disk.files() {
        let bytes = disk.read(&path).unwrap();
        for at in (0..bytes.len()).step_by(step) {
            // The zeros behind the end of the log.
            if bytes[at] == 0 && at % 5 > 0 {
                continue;
            }
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let disk = disk.duplicate();
            disk.replace(&path, &damaged);
            let what = format!("{} byte {at}", path.display());
            found += u32::from(found_or_harmless(&disk, &expected, &what).await);
            flipped += 1;
        }
    }
    assert!(found > flipped / 4, "{found} of {flipped} flipped bytes found");
}

#[tokio::test]
async fn a_lost_or_cut_file_is_found_or_harmless() {
    let (disk, expected) = sample().await;
    for path in disk.files() {
        let bytes = disk.read(&path).unwrap();
        let lost = disk.duplicate();
        lost.lose(&path);
        let name = path.display().to_string();
        // A spare is reserved space: it holds nothing yet.
        let needed = !name.ends_with(".hint") && !name.ends_with(".spare");
        assert_eq!(found_or_harmless(&lost, &expected, &name).await, needed, "{name} lost");
        for len in [0, bytes.len().min(100) - 1, bytes.len() / 2, bytes.len() - 1] {
            let cut = disk.duplicate();
            cut.replace(&path, &bytes[..len]);
            let what = format!("{name} cut to {len}");
            found_or_harmless(&cut, &expected, &what).await;
        }
    }
}

fn logs(disk: &SimDisk) -> Vec<PathBuf> {
    let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    disk.files().into_iter().filter(is_log).collect()
}

/// The start and the end of the last batch of a log, found by its magic.
fn last_batch(bytes: &[u8]) -> (usize, usize) {
    let start = (0..bytes.len() - 4).rev().find(|at| &bytes[*at..at + 4] == b"kBA2").unwrap();
    let payload = u32::from_le_bytes(bytes[start + 4..start + 8].try_into().unwrap());
    (start, start + 32 + usize::try_from(payload).unwrap())
}

#[tokio::test]
async fn a_torn_tail_without_a_mark_is_cut() {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    for n in 0..3 {
        put(&store, &format!("k{n}"), "value").await.unwrap();
    }
    // According to the mark nothing was durable yet.
    let path = logs(&disk).pop().unwrap();
    let mut bytes = disk.read(&path).unwrap();
    let (start, end) = last_batch(&bytes);
    for keep in [start, start + 10, end - 1] {
        bytes[keep..].fill(0);
        let torn = disk.duplicate();
        torn.replace(&path, &bytes);
        bytes = disk.read(&path).unwrap();
        let reopened = open(&torn).unwrap();
        assert_eq!(reopened.published(), Revision(2));
        // A value that is written in its place stays.
        assert_eq!(put(&reopened, "new", "value").await.unwrap(), Revision(3));
        torn.cut();
        torn.power_on();
        assert_eq!(read(&open(&torn).unwrap()).await.unwrap().kvs.last().unwrap().key, Key::from("new"));
    }
}

#[tokio::test]
async fn a_torn_tail_below_the_mark_is_refused() {
    let disk = SimDisk::new(1);
    let marks = EmbeddedOptions { mark_every: Duration::ZERO, ..options() };
    let store = Embedded::open_on(Arc::new(disk.process()), "store", marks).unwrap();
    for n in 0..3 {
        put(&store, &format!("k{n}"), "value").await.unwrap();
    }
    // Once it answers, the mark of the batch before is written.
    let path = logs(&disk).pop().unwrap();
    let mut bytes = disk.read(&path).unwrap();
    bytes[520..].fill(0);
    let torn = disk.duplicate();
    torn.replace(&path, &bytes);
    corrupt(&open(&torn).unwrap_err(), &path);
}

#[tokio::test]
async fn damage_before_a_later_batch_is_refused_without_a_mark() {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    for n in 0..3 {
        put(&store, &format!("k{n}"), "value").await.unwrap();
    }
    let path = logs(&disk).pop().unwrap();
    let bytes = disk.read(&path).unwrap();
    let (last, _) = last_batch(&bytes);
    let (middle, end) = last_batch(&bytes[..last]);
    let value = value_in(&bytes, middle..end);
    for at in middle..end {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let disk = disk.duplicate();
        disk.replace(&path, &damaged);
        if !value.contains(&at) {
            corrupt(&open(&disk).unwrap_err(), &path);
            continue;
        }
        // Only the value is damaged: one key is lost.
        let store = open(&disk).unwrap();
        let found = read(&store).await.unwrap();
        let whole: Vec<_> = found.kvs.iter().map(|kv| (kv.key.to_string(), kv.value.is_ok())).collect();
        assert_eq!(whole, [("k0".to_owned(), true), ("k1".to_owned(), false), ("k2".to_owned(), true)]);
        assert_eq!(put(&store, "k1", "new").await.unwrap(), Revision(4));
    }
}

/// The place of `value` in a part of a log.
fn value_in(bytes: &[u8], part: std::ops::Range<usize>) -> std::ops::Range<usize> {
    let at = bytes[part.clone()].windows(5).position(|window| window == b"value").unwrap() + part.start;
    at..at + 5
}

#[tokio::test]
async fn a_damaged_value_of_the_last_batch_is_told_from_a_torn_one_by_the_mark() {
    for marked in [false, true] {
        let disk = SimDisk::new(1);
        let mark_every = if marked { Duration::ZERO } else { Duration::from_secs(1000) };
        let options = EmbeddedOptions { mark_every, ..options() };
        let store = Embedded::open_on(Arc::new(disk.process()), "store", options).unwrap();
        for n in 0..3 {
            put(&store, &format!("k{n}"), "value").await.unwrap();
        }
        if marked {
            // Once this is refused, the mark of the batch before is written.
            let never = Txn { compares: vec![Compare::absent(&Key::from("k0"))], ops: vec![] };
            store.txn(never.clone()).await.unwrap();
            store.txn(never).await.unwrap();
        }
        let path = logs(&disk).pop().unwrap();
        let mut bytes = disk.read(&path).unwrap();
        let (last, end) = last_batch(&bytes);
        let at = value_in(&bytes, last..end).start;
        bytes[at] ^= 1;
        let copy = disk.duplicate();
        copy.replace(&path, &bytes);
        let store = open(&copy).unwrap();
        let found = read(&store).await.unwrap();
        assert_eq!(
            (found.count, store.published()),
            if marked { (3, Revision(3)) } else { (2, Revision(2)) }
        );
        assert_eq!(found.kvs.iter().filter(|kv| kv.value.is_err()).count(), usize::from(marked));
        put(&store, "k3", "value").await.unwrap();
    }
}

/// The error for a newer build's folder does not advise to restore a backup.
#[tokio::test]
async fn a_segment_of_a_newer_format_is_no_damage() {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    put(&store, "a", "b").await.unwrap();
    store.close().await.unwrap();
    let path = logs(&disk).pop().unwrap();
    let mut bytes = disk.read(&path).unwrap();
    bytes[8..12].copy_from_slice(&7_u32.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..72]);
    bytes[72..76].copy_from_slice(&crc.to_le_bytes());
    let newer = disk.duplicate();
    newer.replace(&path, &bytes);
    let StorageError::Corrupt(text) = open(&newer).unwrap_err() else { panic!("another error") };
    assert!(text.contains("written by a newer kindom (format 7, this one reads up to 2)"), "{text}");
    // A format that no build has written is damage.
    bytes[72] ^= 1;
    let crc = crc32c::crc32c(&disk.read(&path).unwrap()[..72]);
    bytes[72..76].copy_from_slice(&crc.to_le_bytes());
    disk.replace(&path, &bytes);
    corrupt(&open(&disk).unwrap_err(), &path);
}

/// A pack that takes a damaged value along does not make it whole.
#[tokio::test]
async fn a_damaged_value_stays_damaged_through_a_pack() {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    put(&store, "b", "to be damaged").await.unwrap();
    store.close().await.unwrap();
    let (path, at) = place_of(&disk, b"to be damaged");
    let mut bytes = disk.read(&path).unwrap();
    bytes[at] ^= 1;
    disk.replace(&path, &bytes);
    let store = open(&disk).unwrap();
    for n in 0..100 {
        put(&store, &format!("k{}", n % 3), &"v".repeat(300)).await.unwrap();
    }
    store.compact(store.published()).await.unwrap();
    // The packer runs on its own; wait for its work.
    let patience = tokio::time::Instant::now() + Duration::from_secs(60);
    while disk.files().contains(&path) {
        assert!(tokio::time::Instant::now() < patience, "{:?}", disk.files());
        tokio::task::yield_now().await;
    }
    let found = read(&store).await.unwrap();
    assert!(found.kvs[0].value.is_err(), "{found:?}");
    assert!(found.kvs[1..].iter().all(|kv| kv.value.is_ok()));
    store.close().await.unwrap();
    assert!(read(&open(&disk).unwrap()).await.unwrap().kvs[0].value.is_err());
}

#[tokio::test]
async fn a_value_that_looks_like_a_batch_is_none() {
    // The bytes of a later, whole batch, stored as a value, in a batch that is then torn.
    let other = SimDisk::new(2);
    let store = open(&other).unwrap();
    for n in 0..5 {
        put(&store, &format!("k{n}"), "value").await.unwrap();
    }
    let bytes = other.read(&logs(&other)[0]).unwrap();
    let (start, end) = last_batch(&bytes);
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    for pad in 0..8 {
        let mut value = vec![b'x'; pad];
        value.extend_from_slice(&bytes[start..end]);
        let op = Op::Put(Key::from("k"), Bytes::from(value));
        store.txn(Txn { compares: vec![], ops: vec![op] }).await.unwrap();
        let path = logs(&disk).pop().unwrap();
        let mut torn = disk.read(&path).unwrap();
        // The outer batch is the one whose magic comes first of the last two.
        let (inner, _) = last_batch(&torn);
        let (outer, _) = last_batch(&torn[..inner]);
        torn[outer + 9] ^= 1;
        let copy = disk.duplicate();
        copy.replace(&path, &torn);
        let reopened = open(&copy).unwrap();
        assert_eq!(reopened.published(), Revision(u64::try_from(pad).unwrap()));
    }
}

#[tokio::test]
async fn a_failed_sync_is_unknown_and_makes_it_read_only() {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    put(&store, "a", "1").await.unwrap();
    disk.fail_sync(1);
    let error = put(&store, "a", "2").await.unwrap_err();
    let StorageError::ReadOnly { reason, applied: Applied::Unknown } = &error else { panic!("{error:?}") };
    assert!(reason.contains(".log") && reason.contains("sync"), "{reason}");
    let later = put(&store, "a", "3").await.unwrap_err();
    assert!(matches!(later, StorageError::ReadOnly { applied: Applied::No, .. }));
    assert_eq!(store.published(), Revision(1), "what is not durable is not readable");
    assert_eq!(read(&store).await.unwrap().kvs[0].whole().unwrap(), "1");
    drop(store);
    // The write is there when it is opened again, and from then on it is durable, although the system believed so
    // before it was.
    let store = open(&disk).unwrap();
    assert_eq!(read(&store).await.unwrap().kvs[0].whole().unwrap(), "2");
    disk.cut();
    disk.power_on();
    assert_eq!(read(&open(&disk).unwrap()).await.unwrap().kvs[0].whole().unwrap(), "2");
    drop(store);
}

#[tokio::test]
async fn a_failed_write_is_unknown_and_makes_it_read_only() {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    put(&store, "a", "1").await.unwrap();
    disk.fail_write(1000);
    let error = put(&store, "a", &"2".repeat(1000)).await.unwrap_err();
    assert!(matches!(error, StorageError::ReadOnly { applied: Applied::Unknown, .. }), "{error:?}");
    drop(store);
    let store = open(&disk).unwrap();
    assert_eq!(read(&store).await.unwrap().kvs[0].whole().unwrap(), "1");
    assert_eq!(put(&store, "a", "2").await.unwrap(), Revision(2));
}

#[tokio::test]
async fn a_second_opening_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), options()).unwrap();
    let StorageError::Unavailable { reason, applied } = Embedded::open(dir.path(), options()).unwrap_err()
    else {
        panic!("another error")
    };
    assert_eq!(applied, Applied::No);
    assert!(reason.contains(&dir.path().display().to_string()) && reason.contains("in use"), "{reason}");
    store.close().await.unwrap();
    drop(Embedded::open(dir.path(), options()).unwrap());
    drop(Embedded::open(dir.path(), options()).unwrap());
}

#[tokio::test]
async fn space_is_reclaimed() {
    let disk = SimDisk::new(1);
    let options = EmbeddedOptions { segment_bytes: 20_000, ..options() };
    let store = Embedded::open_on(Arc::new(disk.process()), "store", options.clone()).unwrap();
    put(&store, "stays", "from the beginning").await.unwrap();
    put(&store, "goes", "from the beginning").await.unwrap();
    let delete = Txn { compares: vec![], ops: vec![Op::Delete(Key::from("goes"))] };
    store.txn(delete).await.unwrap();
    for n in 0..1000 {
        put(&store, &format!("k{}", n % 10), &"v".repeat(1000)).await.unwrap();
    }
    store.compact(store.published()).await.unwrap();
    let before = everything(&store).await.unwrap();
    let used =
        || disk.files().iter().map(|path| disk.read(path).map_or(0, |bytes| bytes.len())).sum::<usize>();
    // The packer runs on its own; wait for its work.
    let patience = tokio::time::Instant::now() + Duration::from_secs(60);
    while used() > 100_000 {
        assert!(tokio::time::Instant::now() < patience, "{} bytes in {:?}", used(), disk.files());
        tokio::task::yield_now().await;
    }
    assert_eq!(everything(&store).await.unwrap(), before);
    drop(store);
    let store = Embedded::open_on(Arc::new(disk.process()), "store", options).unwrap();
    assert_eq!(everything(&store).await.unwrap(), before);
}

/// The place of a value in a closed store's log, found by its bytes.
fn place_of(disk: &SimDisk, value: &[u8]) -> (PathBuf, usize) {
    let found = |path: PathBuf| {
        let bytes = disk.read(&path).unwrap();
        bytes.windows(value.len()).position(|window| window == value).map(|at| (path, at))
    };
    logs(disk).into_iter().find_map(found).unwrap()
}

/// A store of three keys, of which one value is damaged on the disk after it was closed.
async fn with_damage(history: bool) -> (SimDisk, Embedded) {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    put(&store, "a", "first").await.unwrap();
    put(&store, "b", "to be damaged").await.unwrap();
    put(&store, "c", "third").await.unwrap();
    if history {
        put(&store, "b", "whole again").await.unwrap();
    }
    store.close().await.unwrap();
    let (path, at) = place_of(&disk, b"to be damaged");
    let mut bytes = disk.read(&path).unwrap();
    bytes[at + 3] ^= 1;
    disk.replace(&path, &bytes);
    let store = open(&disk).unwrap();
    (disk, store)
}

#[tokio::test]
async fn a_damaged_value_is_one_key_that_says_so() {
    let (disk, store) = with_damage(false).await;
    let found = read(&store).await.unwrap();
    assert_eq!(found.count, 3);
    let whole: Vec<_> = found.kvs.iter().map(|kv| kv.whole().ok().map(|value| &value[..])).collect();
    assert_eq!(whole, [Some(&b"first"[..]), None, Some(b"third")]);
    let damage = found.kvs[1].value.clone().unwrap_err();
    let (path, at) = place_of(&disk, b"to ce damaged");
    assert_eq!((damage.file(), damage.offset()), (path.file_name().unwrap().to_str().unwrap(), at as u64));
    assert!(damage.to_string().contains("wrong checksum"), "{damage}");
    // A transaction that replaces or deletes it is like any other, and so is the watch that sees it.
    let mut watch = store.watch(KeyRange::prefix(b""), None).await.unwrap();
    put(&store, "b", "new").await.unwrap();
    let commit = watch.commits.recv().await.unwrap().unwrap();
    assert!(commit.events[0].prev.as_ref().unwrap().value.is_err());
    assert_eq!(read(&store).await.unwrap().kvs[1].whole().unwrap(), "new");
    // The watch goes on.
    put(&store, "c", "new").await.unwrap();
    let commit = watch.commits.recv().await.unwrap().unwrap();
    assert_eq!(commit.events[0].prev.as_ref().unwrap().whole().unwrap(), "third");
}

#[tokio::test]
async fn a_value_damaged_in_history_hurts_nothing_that_is_live() {
    let (_, store) = with_damage(true).await;
    let found = read(&store).await.unwrap();
    assert!(found.kvs.iter().all(|kv| kv.value.is_ok()), "{found:?}");
    let mut watch = store.watch(KeyRange::prefix(b""), Some(Revision(1))).await.unwrap();
    let mut seen = Vec::new();
    while let Ok(commit) = watch.commits.try_recv() {
        let event = &commit.unwrap().events[0];
        let Change::Put { value, .. } = &event.change else { panic!("{event:?}") };
        seen.push((value.is_ok(), event.prev.as_ref().map(|prev| prev.value.is_ok())));
    }
    assert_eq!(seen, [(true, None), (false, None), (true, None), (true, Some(false))]);
}

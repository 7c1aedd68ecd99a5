//! Data that is no longer needed goes, whatever else is in the folder, and opening reads little.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kindom_storage::testing::SimDisk;
use kindom_storage::{
    Embedded, EmbeddedOptions, EmbeddedRestore, Key, KeyRange, KeyValue, Op, RangeRequest, Revision, Storage,
    Txn,
};
use tokio::time::Instant;

const SEGMENT: u64 = 20_000;

fn open(disk: &SimDisk) -> Embedded {
    let options = EmbeddedOptions { segment_bytes: SEGMENT, ..EmbeddedOptions::default() };
    Embedded::open_on(Arc::new(disk.process()), "store", options).unwrap()
}

async fn write(store: &Embedded, op: Op) {
    store.txn(Txn { compares: vec![], ops: vec![op] }).await.unwrap();
}

async fn put(store: &Embedded, key: &str, value: &str) {
    write(store, Op::Put(Key::from(key), Bytes::copy_from_slice(value.as_bytes()))).await;
}

/// The value of a key, or the reason why there is none.
async fn get(store: &Embedded, key: &str) -> Result<Bytes, String> {
    let range = KeyRange::single(&Key::from(key));
    let request = RangeRequest { range, ..RangeRequest::prefix(b"") };
    let mut found = store.range(request).await.map_err(|error| error.to_string())?;
    found.kvs.remove(0).value.map_err(|damaged| format!("{damaged:?} is damaged"))
}

/// The packer runs on its own: waits for its work.
async fn until(what: &str, disk: &SimDisk, done: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < patience, "{what}: {} bytes in {:?}", disk.used(), disk.files());
        tokio::task::yield_now().await;
    }
}

fn of_kind(disk: &SimDisk, kind: &str) -> Vec<PathBuf> {
    disk.files().into_iter().filter(|path| path.extension().is_some_and(|it| it == kind)).collect()
}

#[tokio::test]
async fn deletes_do_not_pile_up_behind_what_lives() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    // More than a segment that is alive, with a little in it that is not: it is never packed for its own sake.
    for n in 0..60 {
        put(&store, &format!("lives/{n}"), &"v".repeat(1000)).await;
    }
    for n in 0..6 {
        put(&store, &format!("lives/{}", n * 10), &"w".repeat(1000)).await;
    }
    for n in 0..6000 {
        let key = format!("comes and goes/{n}");
        put(&store, &key, "v").await;
        write(&store, Op::Delete(Key::from(key))).await;
        if n % 100 == 99 {
            store.compact(store.published()).await.unwrap();
        }
    }
    store.compact(store.published()).await.unwrap();
    // The live data, as much again, a few segments, and the reserve. The deletes alone are four times that.
    until("the deletes go", &disk, || disk.used() < 2 * 66_000 + 5 * SEGMENT).await;
    store.close().await.unwrap();
    let store = open(&disk);
    let all = store.range(RangeRequest::prefix(b"")).await.unwrap();
    assert_eq!(all.kvs.len(), 60, "none of them came back, and none that lives is lost");
}

/// A closed store whose oldest segment holds `dead`, `kept` and `damaged`, the first of which is overwritten. One bit at a
/// distance from the start of the value of `flipped` is flipped.
async fn with_a_flipped_bit(flipped: &str, distance: isize) -> SimDisk {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    put(&store, "dead", "the value of dead").await;
    put(&store, "kept", "the value of kept").await;
    put(&store, "damaged", "the value of damaged").await;
    for n in 0..20 {
        put(&store, "dead", &format!("{n}{}", "v".repeat(1000))).await;
    }
    until("a hint", &disk, || !of_kind(&disk, "hint").is_empty()).await;
    store.close().await.unwrap();
    let oldest = of_kind(&disk, "log").remove(0);
    let mut bytes = disk.read(&oldest).unwrap();
    let value = format!("the value of {flipped}");
    let at = bytes.windows(value.len()).position(|window| window == value.as_bytes()).unwrap();
    bytes[at.checked_add_signed(distance).unwrap()] ^= 1;
    disk.replace(&oldest, &bytes);
    disk
}

#[tokio::test]
async fn a_flipped_bit_does_not_stop_reclaiming() {
    // In a value, and in a key: then nothing that the batch says counts.
    for (flipped, distance) in [("dead", 3), ("damaged", 3), ("dead", -1)] {
        let disk = with_a_flipped_bit(flipped, distance).await;
        let store = open(&disk);
        for n in 0..300 {
            put(&store, "dead", &format!("{n}{}", "v".repeat(1000))).await;
        }
        store.compact(store.published()).await.unwrap();
        until(flipped, &disk, || disk.used() < 4 * SEGMENT && !of_kind(&disk, "pack").is_empty()).await;
        for _ in 0..2 {
            let store = open_again(&store, &disk).await;
            assert_eq!(get(&store, "kept").await.unwrap(), "the value of kept");
            let damaged = get(&store, "damaged").await;
            if flipped == "damaged" {
                // The pack carries it as it is: found, named, and never served.
                let error = damaged.unwrap_err();
                assert!(error.contains("damaged"), "{error}");
            } else {
                assert_eq!(damaged.unwrap(), "the value of damaged");
            }
            store.close().await.unwrap();
        }
    }
}

/// A restored pack holds its keys in their order, not in that of their revisions.
#[tokio::test]
async fn a_flipped_bit_in_a_restored_pack_loses_no_other_key() {
    const KEYS: u64 = 30;
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let options = EmbeddedOptions::default();
    let mut restore = EmbeddedRestore::begin(&dir, &options).unwrap();
    let value = Bytes::from(vec![b'v'; 100_000]);
    for n in 0..KEYS {
        let revision = Revision(1000 - n);
        let (mod_revision, create_revision) = (revision, revision);
        let key = Key::from(format!("key {n:02}"));
        restore.add(&KeyValue { key, value: Ok(value.clone()), mod_revision, create_revision }).unwrap();
    }
    restore.finish(Revision(1000)).unwrap();
    let pack = dir.join("00000001.pack");
    let mut bytes = std::fs::read(&pack).unwrap();
    // In a batch behind the first, which is a megabyte.
    let damaged = b"key 15";
    let at = bytes.windows(damaged.len()).position(|window| window == damaged).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    let store = Embedded::open(&dir, options.clone()).unwrap();
    for n in 0..KEYS {
        if n % 3 > 0 {
            put(&store, &format!("key {n:02}"), "new").await;
        }
    }
    store.compact(store.published()).await.unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while pack.exists() {
        assert!(Instant::now() < patience, "it is not packed");
        tokio::task::yield_now().await;
    }
    for n in 0..KEYS {
        let found = get(&store, &format!("key {n:02}")).await.unwrap();
        assert_eq!(found, if n % 3 > 0 { Bytes::from_static(b"new") } else { value.clone() }, "{n}");
    }
    store.close().await.unwrap();
    let store = Embedded::open(&dir, options).unwrap();
    let all = store.range(RangeRequest::prefix(b"")).await.unwrap();
    assert_eq!(all.kvs.len() as u64, KEYS);
    assert!(all.kvs.iter().all(|kv| kv.value.is_ok()));
}

async fn open_again(store: &Embedded, disk: &SimDisk) -> Embedded {
    store.close().await.unwrap();
    open(disk)
}

/// A pack is written into the spare, which may be longer. A process that is killed may leave it so.
#[tokio::test]
async fn the_unused_end_of_a_pack_is_cut_off() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    for n in 0..60 {
        put(&store, &format!("k{}", n % 7), &"v".repeat(1000)).await;
    }
    store.compact(store.published()).await.unwrap();
    until("a pack", &disk, || !of_kind(&disk, "pack").is_empty()).await;
    store.close().await.unwrap();
    let pack = of_kind(&disk, "pack").remove(0);
    let bytes = disk.read(&pack).unwrap();
    assert!((bytes.len() as u64) < SEGMENT, "it has the rest of the spare");
    disk.replace(&pack, &[&bytes[..], &[7; 5000]].concat());
    let store = open(&disk);
    assert_eq!(disk.read(&pack), Some(bytes));
    for n in 0..7 {
        get(&store, &format!("k{n}")).await.unwrap();
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_spare_that_is_also_a_pack_is_not_written_to() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    // The first pack: half of it stays.
    for n in 0..40 {
        put(&store, &format!("k{}", n % 10), &"v".repeat(1000)).await;
    }
    store.compact(store.published()).await.unwrap();
    until("a pack", &disk, || !of_kind(&disk, "pack").is_empty()).await;
    store.close().await.unwrap();
    let (pack, spare) = (of_kind(&disk, "pack").remove(0), PathBuf::from("store/pack.spare"));
    let bytes = disk.read(&pack).unwrap();
    disk.lose(&spare);
    disk.link(&pack, &spare);
    let store = open(&disk);
    // Another pack, of segments behind it.
    for n in 0..60 {
        put(&store, "other", &format!("{n}{}", "v".repeat(1000))).await;
    }
    store.compact(store.published()).await.unwrap();
    until("another pack", &disk, || of_kind(&disk, "pack").iter().any(|path| *path != pack)).await;
    assert!(disk.read(&pack).is_none_or(|now| now == bytes), "it was written to");
    let store = open_again(&store, &disk).await;
    for n in 0..10 {
        get(&store, &format!("k{n}")).await.unwrap();
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn the_hint_of_a_first_part_is_replaced() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    put(&store, "a", "1").await;
    // The hint of the present content.
    let store = open_again(&store, &disk).await;
    for n in 0..100 {
        put(&store, &format!("k{n}"), &"v".repeat(1000)).await;
    }
    let sealed = || of_kind(&disk, "log").len() - 1;
    until("hints", &disk, || of_kind(&disk, "hint").len() >= sealed()).await;
    // The packer is done with a hint once it is done with all.
    let store = open_again(&store, &disk).await;
    let store = open_again(&store, &disk).await;
    store.close().await.unwrap();
    let before = disk.read_bytes();
    let store = open(&disk);
    let read = disk.read_bytes() - before;
    // The tail of the newest is looked through; of the others only hints are read.
    assert!(read < 2 * SEGMENT, "{read} bytes were read to open {} bytes", disk.used());
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_hint_is_replaced() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    for n in 0..100 {
        put(&store, &format!("k{n}"), &"v".repeat(1000)).await;
    }
    // Of a complete segment: that of the newest is written at the end, and is not put right until then.
    let hint = of_kind(&disk, "log").remove(0).with_extension("hint");
    until("the first hint", &disk, || disk.read(&hint).is_some()).await;
    store.close().await.unwrap();
    let good = disk.read(&hint).unwrap();
    let mut bytes = good.clone();
    *bytes.last_mut().unwrap() ^= 1;
    disk.replace(&hint, &bytes);
    let store = open(&disk);
    until("the hint", &disk, || disk.read(&hint) == Some(good.clone())).await;
    store.close().await.unwrap();
}

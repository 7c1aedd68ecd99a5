//! Snapshots: they are consistent, prove themselves whole, and make the same store again.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use kindom_storage::snapshot::{Content, Cut, Encoder, Header, Holds, Reader, stream, verify};
use kindom_storage::{
    Embedded, EmbeddedOptions, EmbeddedRestore, Key, KeyRange, KeyValue, Memory, Op, RangeRequest, Revision,
    Storage, StorageError, Txn,
};
use proptest::prelude::*;

use crate::etcd;
use crate::support::cases;

fn put(key: &str, value: impl Into<Bytes>) -> Op {
    Op::Put(Key::from(key), value.into())
}

async fn run(store: &dyn Storage, ops: Vec<Op>) {
    store.txn(Txn { compares: Vec::new(), ops }).await.unwrap();
}

async fn all(store: &dyn Storage) -> Vec<KeyValue> {
    store.range(RangeRequest::prefix(b"")).await.unwrap().kvs
}

async fn bytes_of(store: Arc<dyn Storage>, prefixes: &[&'static [u8]]) -> Vec<u8> {
    let prefixes = prefixes.iter().map(|prefix| Bytes::from_static(prefix)).collect();
    let chunks: Vec<_> = stream(Cut::begin(store, prefixes, None).await.unwrap()).collect().await;
    chunks.into_iter().flat_map(Result::unwrap).collect()
}

fn read(bytes: &[u8]) -> (Header, Vec<KeyValue>) {
    let mut reader = Reader::open(bytes).unwrap();
    let mut found = Vec::new();
    while let Some(kv) = reader.next_key().unwrap() {
        found.push(kv);
    }
    (reader.header().clone(), found)
}

fn encoded(header: &Header, kvs: &[KeyValue]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(header, &mut out);
    kvs.iter().for_each(|kv| encoder.add(kv, &mut out).unwrap());
    encoder.finish(&mut out);
    out
}

prop_compose! {
    fn snapshots()(
        entries in proptest::collection::btree_map("[a-z/]{1,12}", (proptest::collection::vec(any::<u8>(), 0..40), 1..50_u64, 0..50_u64), 0..12),
        prefixes in proptest::collection::btree_set("[a-z/]{0,4}", 0..3),
    ) -> (Header, Vec<KeyValue>) {
        let mut prefixes: Vec<_> = prefixes.into_iter().map(Bytes::from).collect();
        prefixes.insert(0, Bytes::new());
        prefixes.sort();
        let kv = |(key, (value, created, more)): (String, (Vec<u8>, u64, u64))| KeyValue {
            key: Key::from(key),
            value: Ok(value.into()),
            create_revision: Revision(created),
            mod_revision: Revision(created + more),
        };
        (Header { revision: Revision(100), prefixes }, entries.into_iter().map(kv).collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(u32::try_from(cases(24, 500)).unwrap()))]

    #[test]
    fn what_was_written_is_read((header, kvs) in snapshots()) {
        prop_assert_eq!(read(&encoded(&header, &kvs)), (header, kvs));
    }

    /// Whatever comes is read to its end, or to where it makes no sense; nothing of it is believed.
    #[test]
    fn garbage_is_damaged((header, kvs) in snapshots(), garbage in proptest::collection::vec(any::<u8>(), 0..200), at in any::<proptest::sample::Index>()) {
        prop_assert!(!verify(&garbage[..], |_| ()).damages.is_empty());
        let mut mixed = encoded(&header, &kvs);
        let at = at.index(mixed.len());
        mixed.truncate(at);
        mixed.extend(garbage);
        // Unless the new bytes equal the old ones.
        prop_assert!(mixed == encoded(&header, &kvs) || !verify(&mixed[..], |_| ()).damages.is_empty());
    }

    /// Every byte, one bit each; every length that is too short; and one that is too long.
    #[test]
    fn any_flipped_byte_and_any_cut_is_found((header, kvs) in snapshots(), bit in 0..8_u32) {
        let whole = encoded(&header, &kvs);
        prop_assert!(verify(&whole[..], |_| ()).damages.is_empty());
        let mut damaged = whole.clone();
        for at in 0..whole.len() {
            damaged[at] ^= 1 << bit;
            prop_assert!(!verify(&damaged[..], |_| ()).damages.is_empty(), "byte {} of {}", at, whole.len());
            damaged[at] = whole[at];
            let cut = verify(&whole[..at], |_| ());
            prop_assert!(!cut.damages.is_empty(), "cut to {} of {}", at, whole.len());
        }
        damaged.push(0);
        prop_assert!(!verify(&damaged[..], |_| ()).damages.is_empty());
    }
}

#[test]
fn damage_is_told_with_its_place_and_what_follows_is_still_read() {
    let kv = |key: &str| KeyValue {
        key: Key::from(key),
        value: Ok(Bytes::from_static(b"value")),
        create_revision: Revision(1),
        mod_revision: Revision(1),
    };
    let header = Header { revision: Revision(1), prefixes: vec![Bytes::from_static(b"/r/")] };
    let whole = encoded(&header, &["/r/a", "/r/b", "/r/c"].map(kv));
    let at = whole.windows(4).position(|w| w == b"/r/b").unwrap();
    let mut damaged = whole.clone();
    damaged[at + 5] ^= 1;
    let verdict = verify(&damaged[..], |_| ());
    let told: Vec<_> = verdict.damages.iter().map(ToString::to_string).collect();
    assert_eq!(told, [format!("at byte {}: the key /r/b or its value has a wrong checksum", at - 25)]);
    assert_eq!(verdict.content.keys(), 2, "the others are whole");

    // A record that is gone as a whole leaves no wrong checksum but the last.
    let record = at - 25..at + 4 + 5 + 4;
    let mut shorter = whole.clone();
    shorter.drain(record);
    let told = verify(&shorter[..], |_| ()).damages;
    assert!(told[0].what.contains("the end counts 3 keys, but there are 2"), "{told:?}");
    let foreign = encoded(&header, &[kv("/s/a")]);
    assert!(verify(&foreign[..], |_| ()).damages[0].what.contains("lies under none of"));
    let back = encoded(&header, &["/r/b", "/r/a"].map(kv));
    assert!(verify(&back[..], |_| ()).damages[0].what.contains("does not come after"));
}

#[tokio::test]
async fn a_cut_is_of_one_revision_whatever_is_written_meanwhile() {
    let store: Arc<dyn Storage> = Arc::new(Memory::new());
    let key = |n: u32| format!("/r/{n:05}");
    for n in 0..500 {
        run(&*store, vec![put(&key(n), format!("{n}"))]).await;
    }
    run(&*store, vec![put("/elsewhere", "x"), put("/ours/b", "y"), put("/r", "not under /r/")]).await;
    let before: Vec<_> = all(&*store).await;
    let prefixes = vec![Bytes::from_static(b"/r/"), Bytes::from_static(b"/ours/")];
    let mut cut = Cut::begin(Arc::clone(&store), prefixes, None).await.unwrap();
    assert_eq!((cut.header().revision, cut.count().await.unwrap()), (Revision(501), 501));
    let mut found = Vec::new();
    let mut n = 0;
    while let Some(page) = cut.next_page().await.unwrap() {
        assert!(page.len() <= 32);
        found.extend(page);
        n += 1;
        run(
            &*store,
            vec![
                put(&key(n), "later"),
                put(&format!("/r/new{n}"), "later"),
                Op::Delete(Key::from(key(499 - n))),
            ],
        )
        .await;
    }
    let wanted = before
        .into_iter()
        .filter(|kv| ["/r/", "/ours/"].iter().any(|p| kv.key.as_bytes().starts_with(p.as_bytes())));
    assert_eq!(found, wanted.collect::<Vec<_>>());
}

/// More keys than are looked up at once, and values of very different sizes.
async fn check_many_keys(store: Arc<dyn Storage>) {
    for batch in 0..100_u32 {
        let value =
            |n: u32| if (batch * 100 + n).is_multiple_of(511) { vec![1; 300_000] } else { vec![2; 3] };
        run(&*store, (0..100).map(|n| put(&format!("/r/{batch:02}/{n:04}"), value(n))).collect()).await;
    }
    let revision = store.fresh().await.unwrap();
    let (header, found) = read(&bytes_of(Arc::clone(&store), &[b"/r/"]).await);
    assert_eq!((header.revision, found.len()), (revision, 10_000));
    assert_eq!(found, store.range(RangeRequest::prefix(b"/r/")).await.unwrap().kvs);
}

#[tokio::test]
async fn a_cut_of_many_keys_misses_none() {
    check_many_keys(Arc::new(Memory::new())).await;
}

#[tokio::test]
async fn a_cut_of_many_keys_in_etcd_misses_none() {
    let (_cluster, store) = etcd::Cluster::with_store(1, |cluster| etcd::options(cluster, "/")).await;
    check_many_keys(Arc::new(store)).await;
}

#[tokio::test]
async fn a_cut_is_whole_or_fails_and_a_hold_keeps_it() {
    let store: Arc<dyn Storage> = Arc::new(Memory::new());
    for n in 0..300 {
        run(&*store, vec![put(&format!("/r/{n:03}"), "x")]).await;
    }
    let holds = Holds::default();
    let begin = |holds| Cut::begin(Arc::clone(&store), vec![Bytes::from_static(b"/r/")], holds);
    let (mut held, free) = (begin(Some(&holds)).await.unwrap(), begin(None).await.unwrap());
    held.next_page().await.unwrap();
    run(&*store, vec![put("/r/000", "y")]).await;
    assert_eq!(holds.allow(store.published()), Revision(300));
    store.compact(holds.allow(store.published())).await.unwrap();
    while held.next_page().await.unwrap().is_some() {}
    drop(held);
    assert_eq!(holds.allow(store.published()), Revision(301));
    store.compact(Revision(301)).await.unwrap();
    let chunks: Vec<_> = stream(free).collect().await;
    let (last, before) = chunks.split_last().unwrap();
    assert!(matches!(last, Err(StorageError::Compacted { .. })), "{last:?}");
    let cut_off: Vec<u8> = before.iter().flat_map(|chunk| chunk.clone().unwrap()).collect();
    assert!(!verify(&cut_off[..], |_| ()).damages.is_empty());
}

fn restore(bytes: &[u8], dir: &std::path::Path, options: &EmbeddedOptions) -> Result<(), StorageError> {
    let mut restore = EmbeddedRestore::begin(dir, options)?;
    let (header, found) = read(bytes);
    for kv in found {
        restore.add(&kv)?;
    }
    restore.finish(header.revision)
}

/// The restored store has the same keys, values and revisions, and goes on from there; through more openings, and packs
/// that are packed again.
#[tokio::test]
async fn a_restored_store_is_the_one_that_was_saved() {
    for segment_bytes in [2048, 64 << 20] {
        let options = EmbeddedOptions { segment_bytes, ..EmbeddedOptions::default() };
        let dir = tempfile::tempdir().unwrap();
        let origin = Embedded::open(dir.path().join("origin"), options.clone()).unwrap();
        let mut model = BTreeMap::new();
        for n in 0..cases(400, 4000) {
            let key = format!("/r/{}", n * 7 % 90);
            if n % 5 == 0 {
                run(&origin, vec![Op::Delete(Key::from(key.as_str()))]).await;
                model.remove(&key);
            } else {
                run(&origin, vec![put(&key, format!("{n}").repeat(20))]).await;
                model.insert(key, n);
            }
        }
        let (before, revision) = (all(&origin).await, origin.published());
        assert_eq!(before.len(), model.len());
        let bytes = bytes_of(Arc::new(origin.clone()), &[b"/"]).await;
        origin.close().await.unwrap();

        let target = dir.path().join("data/store");
        restore(&bytes, &target, &options).unwrap();
        assert!(!dir.path().join("data/store.restoring").exists());
        for round in 0..3_u64 {
            let store = Embedded::open(&target, options.clone()).unwrap();
            assert_eq!(store.published(), Revision(revision.0 + round));
            assert_eq!(store.compacted(), revision);
            let now = all(&store).await;
            let kept = |kv: &&KeyValue| !kv.key.as_bytes().starts_with(b"/r/new");
            assert!(now.iter().filter(kept).eq(&before), "the same revisions too");
            let watch = store.watch(KeyRange::prefix(b"/"), Some(revision)).await;
            assert!(matches!(watch, Err(StorageError::Compacted { .. })));
            run(&store, vec![put(&format!("/r/new{round}"), "x")]).await;
            store.close().await.unwrap();
        }
        // Its keys can all be deleted and compacted away.
        let store = Embedded::open(&target, options.clone()).unwrap();
        for kv in all(&store).await {
            run(&store, vec![Op::Delete(kv.key)]).await;
        }
        store.compact(store.published()).await.unwrap();
        store.close().await.unwrap();
        let store = Embedded::open(&target, options).unwrap();
        assert_eq!(all(&store).await, []);
    }
}

#[tokio::test]
async fn only_an_empty_folder_is_restored_to_and_only_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions::default();
    let target = dir.path().join("store");
    let header = Header { revision: Revision(7), prefixes: vec![Bytes::new()] };
    let kv = KeyValue {
        key: Key::from("a"),
        value: Ok(Bytes::from_static(b"1")),
        create_revision: Revision(3),
        mod_revision: Revision(5),
    };
    let whole = encoded(&header, std::slice::from_ref(&kv));

    // One that ended half way left nothing that could be opened.
    let mut half = EmbeddedRestore::begin(&target, &options).unwrap();
    half.add(&kv).unwrap();
    assert!(matches!(EmbeddedRestore::begin(&target, &options), Err(StorageError::Unavailable { .. })));
    drop(half);
    assert!(!target.exists());

    std::fs::create_dir(&target).unwrap();
    restore(&whole, &target, &options).unwrap();
    let store = Embedded::open(&target, options.clone()).unwrap();
    assert_eq!((all(&store).await, store.published()), (vec![kv], Revision(7)));
    drop(store);
    let error = restore(&whole, &target, &options).unwrap_err();
    assert!(error.to_string().contains("is not empty"), "{error}");

    // Nothing but revisions went by.
    let empty = dir.path().join("empty");
    restore(&encoded(&header, &[]), &empty, &options).unwrap();
    let store = Embedded::open(&empty, options.clone()).unwrap();
    assert_eq!((all(&store).await, store.published()), (Vec::new(), Revision(7)));
    drop(store);
    let none = dir.path().join("none");
    let header = Header { revision: Revision::ZERO, prefixes: vec![Bytes::new()] };
    restore(&encoded(&header, &[]), &none, &options).unwrap();
    assert_eq!(Embedded::open(&none, options).unwrap().published(), Revision::ZERO);
}

#[test]
fn contents_are_equal_if_and_only_if_keys_and_values_are() {
    let of = |pairs: &[(&str, &str)]| {
        let mut content = Content::default();
        for (n, (key, value)) in pairs.iter().enumerate() {
            let revision = Revision(n as u64 + 1);
            let (key, value) = (Key::from(*key), Ok(Bytes::copy_from_slice(value.as_bytes())));
            content.add(&KeyValue { key, value, mod_revision: revision, create_revision: revision }).unwrap();
        }
        content
    };
    assert_eq!(of(&[("a", "bc")]), of(&[("a", "bc")]));
    for other in [&[("ab", "c")][..], &[("a", "bd")], &[("a", "bc"), ("b", "")], &[]] {
        assert_ne!(of(&[("a", "bc")]), of(other));
    }
}

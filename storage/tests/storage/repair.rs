//! Finding damage before a client needs the value, and making a whole folder of the rest of a damaged one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kindom_storage::testing::SimDisk;
use kindom_storage::vfs::Vfs as _;
use kindom_storage::{
    Embedded, EmbeddedOptions, EmbeddedRestore, Finding, Key, KeyValue, Op, RangeRequest, Revision, Salvage,
    Standing, Storage, StorageError, Txn, TxnOutcome,
};

fn options() -> EmbeddedOptions {
    EmbeddedOptions {
        segment_bytes: 4000,
        mark_every: Duration::from_secs(1000),
        ..EmbeddedOptions::default()
    }
}

fn open(disk: &SimDisk, dir: &str) -> Result<Embedded, StorageError> {
    Embedded::open_on(Arc::new(disk.process()), dir, options())
}

async fn commit(store: &Embedded, op: Op) -> Revision {
    match store.txn(Txn { compares: vec![], ops: vec![op] }).await.unwrap() {
        TxnOutcome::Committed { revision } => revision,
        failed @ TxnOutcome::Failed { .. } => panic!("{failed:?}"),
    }
}

async fn put(store: &Embedded, key: &str, value: &str) -> Revision {
    commit(store, Op::Put(Key::from(key), Bytes::copy_from_slice(value.as_bytes()))).await
}

async fn read(store: &Embedded) -> Vec<KeyValue> {
    store.range(RangeRequest::prefix(b"")).await.unwrap().kvs
}

fn salvage(disk: &SimDisk) -> Salvage {
    Salvage::read_on(&disk.process(), "store").unwrap()
}

/// Makes a store of everything that can be read, and opens it.
fn restored(salvage: &Salvage) -> (tempfile::TempDir, Embedded) {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new");
    salvage.restore(EmbeddedRestore::begin(&new, &options()).unwrap()).unwrap();
    let store = Embedded::open(new, options()).unwrap();
    (folder, store)
}

fn files(disk: &SimDisk, kind: &str) -> Vec<PathBuf> {
    let in_store = |path: &PathBuf| path.starts_with("store") && path.extension().is_some_and(|e| e == kind);
    disk.files().into_iter().filter(in_store).collect()
}

fn change(disk: &SimDisk, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = disk.read(path).unwrap();
    change(&mut bytes);
    disk.replace(path, &bytes);
}

/// Flips a bit of every place where these bytes are.
fn flip(disk: &SimDisk, text: &str) -> usize {
    let mut flipped = 0;
    for path in files(disk, "log").into_iter().chain(files(disk, "pack")) {
        change(disk, &path, |bytes| {
            let at: Vec<_> =
                (0..bytes.len()).filter(|at| bytes[*at..].starts_with(text.as_bytes())).collect();
            at.iter().for_each(|at| bytes[*at] ^= 1);
            flipped += at.len();
        });
    }
    flipped
}

/// Several segments, closed; `a` has a former value, `gone` is deleted.
async fn sample() -> SimDisk {
    let disk = SimDisk::new(1);
    let store = open(&disk, "store").unwrap();
    put(&store, "a", "the former value of a").await;
    put(&store, "gone", "the value of gone").await;
    commit(&store, Op::Delete(Key::from("gone"))).await;
    for n in 0..40 {
        put(&store, &format!("k{n:02}"), &format!("value {n} {}", "v".repeat(300))).await;
    }
    put(&store, "a", "the value of a").await;
    // The packer writes the hints of sealed segments on its own; wait for them.
    let patience = tokio::time::Instant::now() + Duration::from_secs(60);
    while files(&disk, "hint").len() + 1 < files(&disk, "log").len() {
        assert!(tokio::time::Instant::now() < patience, "{:?}", disk.files());
        tokio::task::yield_now().await;
    }
    store.close().await.unwrap();
    disk
}

fn shown(findings: &[Finding]) -> Vec<(String, u64, Standing)> {
    let of = findings.iter().filter_map(|finding| finding.of.clone());
    of.map(|of| (of.key.to_string(), of.revision.0, of.standing)).collect()
}

#[tokio::test]
async fn a_whole_folder_has_no_findings_and_is_copied_as_it_is() {
    let disk = sample().await;
    let salvage = salvage(&disk);
    assert_eq!(salvage.findings(), []);
    assert_eq!((salvage.revision(), salvage.keys(), salvage.values()), (Revision(44), 41, 43));
    let (_folder, copy) = restored(&salvage);
    drop(salvage);
    let original = open(&disk, "store").unwrap();
    assert_eq!(read(&copy).await, read(&original).await);
    assert_eq!(copy.published(), original.published());
}

#[tokio::test]
async fn a_folder_that_is_open_is_not_read() {
    let disk = sample().await;
    let _store = open(&disk, "store").unwrap();
    let refused = Salvage::read_on(&disk.process(), "store").err().unwrap();
    assert!(refused.to_string().contains("is in use"), "{refused}");
    let refused = Salvage::read_on(&disk.process(), "elsewhere").err().unwrap();
    assert!(refused.to_string().contains("elsewhere"), "{refused}");
}

#[tokio::test]
async fn damaged_values_are_told_by_whether_they_are_missed() {
    let disk = sample().await;
    assert_eq!(flip(&disk, "value 7 "), 1);
    assert_eq!(flip(&disk, "the former value"), 1);
    assert_eq!(flip(&disk, "the value of gone"), 1);
    let before: Vec<_> = disk.files().into_iter().map(|path| (disk.read(&path), path)).collect();
    let salvage = salvage(&disk);
    let mut found = shown(salvage.findings());
    found.sort();
    let live = ("k07".to_owned(), 11, Standing::Live);
    assert_eq!(
        found,
        [("a".to_owned(), 1, Standing::History), ("gone".to_owned(), 2, Standing::History), live]
    );
    let (path, text) = (files(&disk, "log"), salvage.findings().iter().map(Finding::to_string));
    let text = text.collect::<Vec<_>>().join("\n");
    assert!(text.contains("the value of k07, revision 11 (live): it has a wrong checksum"), "{text}");
    assert!(path.iter().any(|path| text.contains(path.file_name().unwrap().to_str().unwrap())), "{text}");
    let (_folder, store) = restored(&salvage);
    let kvs = read(&store).await;
    assert_eq!((kvs.len(), store.published()), (40, Revision(44)));
    assert!(kvs.iter().all(|kv| kv.value.is_ok() && kv.key != Key::from("k07")));
    assert_eq!(kvs[0].whole().unwrap(), "the value of a");
    // Nothing was changed that was there.
    before.iter().filter(|(_, path)| !path.ends_with("lock")).for_each(|(bytes, path)| {
        assert_eq!(disk.read(path), *bytes, "{}", path.display());
    });
}

/// A folder that is not opened any more, as batches of it are missing; with and without hints.
#[tokio::test]
async fn what_lies_behind_lost_batches_is_salvaged() {
    let disk = sample().await;
    files(&disk, "hint").iter().for_each(|path| disk.lose(path));
    let log = files(&disk, "log").remove(1);
    // The header of a batch.
    change(&disk, &log, |bytes| bytes[512 + 20] ^= 1);
    let refused = open(&disk, "store").unwrap_err();
    assert!(refused.to_string().contains("kindom storage salvage"), "{refused}");
    let salvage = salvage(&disk);
    let [lost] = salvage.findings() else { panic!("{:?}", salvage.findings()) };
    assert!(lost.is_loss() && lost.offset == 512 && lost.what.contains("are lost"), "{lost}");
    let kvs = read(&restored(&salvage).1).await;
    assert_eq!(kvs.len(), 40, "one batch of one key is lost");
    drop(salvage);

    // A whole segment is gone.
    let disk = sample().await;
    let log = files(&disk, "log").remove(1);
    disk.lose(&log);
    assert!(open(&disk, "store").is_err());
    let salvage = self::salvage(&disk);
    let lost: Vec<_> = salvage.findings().iter().map(Finding::to_string).collect();
    assert!(
        lost.iter()
            .any(|lost| lost.contains("nothing that can be read follows: revisions 12 to 20 are lost")),
        "{lost:?}"
    );
    assert!((20..40).contains(&read(&restored(&salvage).1).await.len()));
    drop(salvage);

    // A segment's header is gone, and its hint is there.
    let disk = sample().await;
    let log = files(&disk, "log").remove(1);
    change(&disk, &log, |bytes| bytes[..512].fill(0));
    assert!(open(&disk, "store").is_err());
    let salvage = self::salvage(&disk);
    let [finding] = salvage.findings() else { panic!("{:?}", salvage.findings()) };
    assert!(finding.what.contains("its hint says what is in it"), "{finding}");
    assert_eq!(read(&restored(&salvage).1).await.len(), 41);
}

/// One segment of many blocks, with a hint or without.
async fn one_segment(hint: bool) -> (SimDisk, PathBuf) {
    let disk = SimDisk::new(1);
    let options = EmbeddedOptions { segment_bytes: 200_000, ..options() };
    let store = Embedded::open_on(Arc::new(disk.process()), "store", options).unwrap();
    for n in 0..60 {
        put(&store, &format!("k{n:02}"), &format!("value {n} {}", "v".repeat(1000))).await;
    }
    store.close().await.unwrap();
    if !hint {
        files(&disk, "hint").iter().for_each(|path| disk.lose(path));
    }
    let log = files(&disk, "log").remove(0);
    (disk, log)
}

/// The mark says how far the log went, whatever is left of it.
#[tokio::test]
async fn a_newest_log_that_is_gone_is_a_loss() {
    for left in [None, Some(0), Some(8), Some(20)] {
        let (disk, log) = one_segment(false).await;
        match left {
            None => disk.lose(&log),
            Some(bytes) => change(&disk, &log, |all| all.truncate(bytes)),
        }
        assert!(open(&disk, "store").is_err(), "{left:?}");
        let salvage = salvage(&disk);
        let lost =
            salvage.findings().iter().find(|finding| finding.what.contains("revisions 1 to 60 are lost"));
        assert!(lost.is_some_and(Finding::is_loss), "{left:?}: {:?}", salvage.findings());
        let (_folder, store) = restored(&salvage);
        assert_eq!((read(&store).await.len(), store.published()), (0, Revision(60)));
    }
    // Behind packs or logs, too.
    let disk = sample().await;
    let newest = files(&disk, "log").into_iter().max().unwrap();
    disk.lose(&newest);
    let salvage = salvage(&disk);
    assert!(salvage.findings().iter().any(Finding::is_loss), "{:?}", salvage.findings());
}

#[tokio::test]
async fn salvage_goes_on_past_what_cannot_be_read_and_names_it() {
    // In the middle of the batches: no more is lost than touches the block.
    for hint in [true, false] {
        let (disk, log) = one_segment(hint).await;
        disk.spoil(&log, 20_000..20_100);
        let salvage = salvage(&disk);
        let found: Vec<_> = salvage.findings().iter().map(Finding::to_string).collect();
        assert!(found.iter().any(|found| found.contains("cannot be read (")), "{found:?}");
        let kept = read(&restored(&salvage).1).await.len();
        assert!(if hint { kept >= 58 } else { (53..60).contains(&kept) }, "{kept} of 60: {found:?}");
    }
    // All to the end, more than once.
    let (disk, log) = one_segment(false).await;
    disk.spoil(&log, 30_000..30_001);
    disk.spoil(&log, 50_000..u64::MAX);
    let salvage = salvage(&disk);
    assert!((35..48).contains(&read(&restored(&salvage).1).await.len()), "{:?}", salvage.findings());
    drop(salvage);
    // The header, where the hint says what is in it; and the mark.
    let (disk, log) = one_segment(true).await;
    disk.spoil(&log, 0..512);
    disk.spoil(Path::new("store/mark"), 0..8192);
    let salvage = self::salvage(&disk);
    let found: Vec<_> = salvage.findings().iter().map(|found| found.file.clone()).collect();
    assert!(found.contains(&"mark".to_owned()) && found.contains(&"00000001.log".to_owned()), "{found:?}");
    assert_eq!(read(&restored(&salvage).1).await.len(), 60);
}

#[tokio::test]
async fn a_tail_of_what_looks_like_batches_is_read_a_few_times_at_most() {
    let (disk, log) = one_segment(false).await;
    let mut bytes = disk.read(&log).unwrap();
    let from = bytes.len().next_multiple_of(8);
    bytes.resize(from + 100_000, 0);
    // Each says that it is as long as all that follows.
    for at in (from..bytes.len() - 32).step_by(32) {
        let rest = u32::try_from(bytes.len() - at - 32).unwrap();
        bytes[at..at + 4].copy_from_slice(b"kBA2");
        bytes[at + 4..at + 8].copy_from_slice(&rest.to_le_bytes());
    }
    let length = bytes.len() as u64;
    disk.replace(&log, &bytes);
    let before = disk.read_bytes();
    let refused = open(&disk, "store").unwrap_err();
    assert!(refused.to_string().contains("looks like batches"), "{refused}");
    let salvage = salvage(&disk);
    assert!(salvage.findings().iter().any(|found| found.what.contains("was not searched")));
    assert_eq!(read(&restored(&salvage).1).await.len(), 60);
    let read = disk.read_bytes() - before;
    assert!(read < 30 * length + (4 << 20), "{read} bytes of {length}");
}

#[tokio::test]
async fn the_end_of_an_interrupted_write_is_no_finding() {
    let disk = SimDisk::new(1);
    let store = open(&disk, "store").unwrap();
    put(&store, "a", "first").await;
    put(&store, "b", "second").await;
    // The state after a crash: according to the mark nothing was durable.
    let disk = disk.duplicate();
    let log = files(&disk, "log").remove(0);
    change(&disk, &log, |bytes| {
        let at = bytes.windows(6).position(|window| window == b"second").unwrap();
        bytes[at] ^= 1;
    });
    let salvage = salvage(&disk);
    assert_eq!((salvage.findings(), salvage.keys()), (&[][..], 1));
}

#[tokio::test]
async fn a_scrub_finds_what_is_damaged_in_sealed_segments() {
    let disk = sample().await;
    assert_eq!(flip(&disk, "value 7 "), 1);
    assert_eq!(flip(&disk, "the former value"), 1);
    let store = open(&disk, "store").unwrap();
    let mut scrub = store.scrub();
    let (mut findings, mut steps) = (Vec::new(), 0);
    while let Some(step) = scrub.step(1000) {
        assert!((1..3000).contains(&step.bytes), "a step reads about what it is told to: {}", step.bytes);
        findings.extend(step.findings);
        steps += 1;
    }
    assert!(steps > 5, "{steps}");
    assert_eq!(shown(&findings), [("a".into(), 1, Standing::History), ("k07".into(), 11, Standing::Live)]);
    let counts = store.scrub_counts();
    assert_eq!((counts.passes, counts.damaged), (1, 2));
    assert!(counts.bytes > 10_000, "{counts:?}");
    // A batch that cannot be read is reported, and later ones are read.
    let log = files(&disk, "log").remove(2);
    let flip_header = || {
        let file = disk.process().open(&log).unwrap();
        let mut byte = [0];
        file.read_at(512 + 20, &mut byte).unwrap();
        file.write_at(512 + 20, &[byte[0] ^ 1]).unwrap();
    };
    flip_header();
    let mut scrub = store.scrub();
    let findings: Vec<_> =
        std::iter::from_fn(|| scrub.step(u64::MAX)).flat_map(|step| step.findings).collect();
    assert_eq!(findings.len(), 3);
    assert!(findings.iter().any(|finding| finding.of.is_none() && finding.offset == 512), "{findings:?}");
    assert_eq!(store.scrub_counts().damaged, 3);
    // Repaired damage is forgotten with the next pass.
    flip_header();
    let mut scrub = store.scrub();
    while scrub.step(u64::MAX).is_some() {}
    assert_eq!((store.scrub_counts().damaged, store.scrub_counts().passes), (2, 3));
}

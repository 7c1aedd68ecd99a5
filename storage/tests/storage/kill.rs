//! kill -9 of a process under load, and in the middle of a pack, again and again, on the same folder, which nobody else
//! may open meanwhile.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use kindom_storage::vfs::{Disk, Vfs, VfsFile, VfsFolder};
use kindom_storage::{Embedded, EmbeddedOptions, Key, KeyRange, Op, Revision, Storage, Txn, TxnOutcome};

use crate::support::{Random, cases};

const FOLDER: &str = "KINDOM_STORAGE_KILL_FOLDER";
const WRITERS: usize = 16;

fn options() -> EmbeddedOptions {
    EmbeddedOptions { segment_bytes: 1 << 20, ..EmbeddedOptions::default() }
}

/// The process to be killed: writes for ever, and prints each acknowledged write on a line.
#[tokio::test]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Embedded::open(&folder, options()).unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        async move {
            for n in 0.. {
                let key = format!("k{writer}/{}", n % 50);
                let value = format!("{writer} {n} {}", "v".repeat(n % 1500));
                let op = Op::Put(Key::from(key.as_str()), Bytes::from(value.clone()));
                let outcome = store.txn(Txn { compares: vec![], ops: vec![op] }).await.unwrap();
                let TxnOutcome::Committed { revision } = outcome else { panic!("{outcome:?}") };
                let line = format!("acknowledged {revision} {key} {}\n", crc32c::crc32c(value.as_bytes()));
                // In one write, so that a kill leaves whole lines or none.
                std::io::stdout().write_all(line.as_bytes()).unwrap();
            }
        }
    });
    futures::future::join_all(writers).await;
}

/// Runs a child in the folder until it has acknowledged some writes, and kills it. Returns the acknowledged writes, by
/// revision.
fn run_and_kill(folder: &Path, lines_min: usize) -> BTreeMap<u64, (String, u32)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = BTreeMap::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap() > 0 {
        if let Some((_, said)) = line.split_once("acknowledged ")
            && said.ends_with('\n')
        {
            let [revision, key, crc] = said.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("{said}")
            };
            acknowledged.insert(revision.parse().unwrap(), (key.to_owned(), crc.parse().unwrap()));
            if acknowledged.len() == 1 {
                let refused = Embedded::open(folder, options()).unwrap_err();
                assert!(refused.to_string().contains("in use"), "{refused}");
            }
            if acknowledged.len() == lines_min {
                child.kill().unwrap();
            }
        }
        line.clear();
    }
    assert!(acknowledged.len() >= lines_min, "the child ended by itself: {:?}", child.wait());
    child.wait().unwrap();
    acknowledged
}

#[tokio::test]
async fn nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::new(7);
    let mut last = Revision::ZERO;
    for _ in 0..cases(4, 40) {
        let acknowledged = run_and_kill(dir.path(), 1 + random.below(3000));
        let store = Embedded::open(dir.path(), options()).unwrap();
        let (published, compacted) = (store.published(), store.compacted());
        assert!(published >= last, "{published} after {last}");
        let from = Some(compacted.next());
        let mut watch = store.watch(KeyRange::prefix(b""), from).await.unwrap();
        let mut found = 0;
        for at in compacted.0 + 1..=published.0 {
            let commit = watch.commits.try_recv().unwrap().unwrap();
            assert_eq!(commit.revision, Revision(at));
            if let Some((key, crc)) = acknowledged.get(&at) {
                let event = &commit.events[0];
                assert_eq!(event.key, Key::from(key.as_str()));
                let kindom_storage::Change::Put { value, .. } = &event.change else { panic!("{event:?}") };
                assert_eq!(crc32c::crc32c(value.as_ref().unwrap()), *crc);
                found += 1;
            }
        }
        assert_eq!(found, acknowledged.len());
        last = published;
        // The next one opens a store that was closed in order, or not.
        if random.below(2) == 0 {
            store.compact(published).await.unwrap();
            store.close().await.unwrap();
        }
    }
}

const CALLS: &str = "KINDOM_STORAGE_KILL_CALLS";

/// The disk of a process that kills itself in the packer's so many-th call: before the call, or after it.
#[derive(Debug, Clone)]
struct Deadly {
    calls: Arc<AtomicU64>,
}

impl Deadly {
    fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        let die = || {
            if std::thread::current().name() == Some("kindom-store-pack")
                && self.calls.fetch_sub(1, Ordering::Relaxed) == 1
            {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
        };
        die();
        let done = call();
        die();
        done
    }

    fn file(&self, file: Arc<dyn VfsFile>) -> Arc<dyn VfsFile> {
        Arc::new(DeadlyFile { file, disk: self.clone() })
    }
}

#[derive(Debug)]
struct DeadlyFile {
    file: Arc<dyn VfsFile>,
    disk: Deadly,
}

impl Vfs for Deadly {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.create_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        Disk.lock(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        self.call(|| Disk.create(path)).map(|file| self.file(file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        self.call(|| Disk.open(path)).map(|file| self.file(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(|| Disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(|| Disk.remove(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Disk.list(dir)
    }

    fn folder(&self, dir: &Path) -> io::Result<Arc<dyn VfsFolder>> {
        Disk.folder(dir)
    }
}

impl VfsFile for DeadlyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        // Only what changes the folder counts: reads are most of the calls, and dying in one is dying before the next.
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.call(|| self.file.write_at(offset, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.call(|| self.file.sync())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.call(|| self.file.set_len(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.disk.call(|| self.file.allocate(len))
    }
}

fn packing_options() -> EmbeddedOptions {
    EmbeddedOptions { segment_bytes: 64 << 10, ..EmbeddedOptions::default() }
}

/// The process that dies in the middle of a pack: writes, deletes and compacts for ever, and prints each acknowledged change
/// on a line.
#[tokio::test]
async fn packing_child() {
    let (Some(folder), Some(calls)) = (std::env::var_os(FOLDER), std::env::var(CALLS).ok()) else { return };
    let disk = Deadly { calls: Arc::new(AtomicU64::new(calls.parse().unwrap())) };
    let store = Embedded::open_on(Arc::new(disk), &folder, packing_options()).unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        async move {
            for n in 0_usize.. {
                let key = format!("k{writer}/{}", n % 40);
                let value = (n % 5 > 0).then(|| format!("{writer} {n} {}", "v".repeat(n % 900)));
                let op = match &value {
                    Some(value) => Op::Put(Key::from(key.as_str()), Bytes::from(value.clone())),
                    None => Op::Delete(Key::from(key.as_str())),
                };
                let outcome = store.txn(Txn { compares: vec![], ops: vec![op] }).await.unwrap();
                let TxnOutcome::Committed { revision } = outcome else { panic!("{outcome:?}") };
                let crc = value.map_or(0, |value| crc32c::crc32c(value.as_bytes()));
                let line = format!("acknowledged {revision} {key} {crc}\n");
                io::stdout().write_all(line.as_bytes()).unwrap();
                if n % 20 == 0 {
                    store.compact(Revision(store.published().0.saturating_sub(50))).await.unwrap();
                }
            }
        }
    });
    futures::future::join_all(writers).await;
}

/// Runs such a child until it dies; adds its last acknowledged change of each key, with the revision and the value's CRC (0:
/// deleted).
fn run_until_it_dies(folder: &Path, calls: usize, last: &mut BTreeMap<String, (u64, u32)>) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::packing_child", "--nocapture"])
        .env(FOLDER, folder)
        .env(CALLS, calls.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(9), "{:?}", output.status);
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let Some((_, said)) = line.split_once("acknowledged ") else { continue };
        let [revision, key, crc] = said.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{said}") };
        let (revision, crc) = (revision.parse().unwrap(), crc.parse().unwrap());
        let known = last.entry(key.to_owned()).or_default();
        // Each writer has its own keys, and waits for one answer before the next write.
        *known = (revision, crc);
    }
}

#[tokio::test]
async fn killed_in_the_middle_of_a_pack_nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::new(11);
    let (mut last, mut packs) = (BTreeMap::new(), 0);
    let rounds = cases(8, 200);
    for round in 0..rounds {
        let calls = 10 + random.below(300);
        run_until_it_dies(dir.path(), calls, &mut last);
        packs += std::fs::read_dir(dir.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "pack"))
            .count();
        let store = Embedded::open(dir.path(), packing_options()).unwrap();
        let all = store.range(kindom_storage::RangeRequest::prefix(b"")).await.unwrap();
        let found: BTreeMap<_, _> = all.kvs.iter().map(|kv| (kv.key.to_string(), kv)).collect();
        for (key, (revision, crc)) in &last {
            match found.get(key) {
                // Writes that were no longer answered may be there too, on top.
                Some(kv) if kv.mod_revision.0 > *revision => {}
                Some(kv) => {
                    let same =
                        kv.mod_revision.0 == *revision && crc32c::crc32c(kv.value.as_ref().unwrap()) == *crc;
                    assert!(same, "round {round}, {key}: {} is not {revision}", kv.mod_revision);
                }
                // Deleted, or the delete that comes next was not answered any more.
                None => assert!(*crc == 0 || store.published().0 > *revision, "round {round}: {key} is lost"),
            }
        }
        assert!(store.published().0 >= last.values().map(|(revision, _)| *revision).max().unwrap_or(0));
        drop(store);
    }
    println!("killed in the middle of a pack: {rounds} times, {packs} packs found, nothing lost");
    assert!(packs > 0, "nothing was ever packed");
}

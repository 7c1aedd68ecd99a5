//! The packer, watches and a slow disk together: no watch ends with an error, and none misses an event.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::ThreadId;

use kindom_storage::testing::SimDisk;
use kindom_storage::vfs::{Vfs, VfsFile, VfsFolder};
use kindom_storage::{
    Change, Embedded, EmbeddedOptions, Key, KeyRange, Op, RangeRequest, Revision, Storage as _, Txn,
    TxnOutcome,
};
use parking_lot::{Condvar, Mutex};

use crate::support::{Random, cases};

/// A disk on which the writer's syncs, all that the packer does, and what is read for others, wait until the test lets them go.
#[derive(Debug, Clone)]
struct Gated {
    disk: SimDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    /// The writer waits, or will.
    closed: bool,
    waiting: bool,
    /// The packer waits.
    held: bool,
    /// The packer waits before it reads, or will.
    reads_held: bool,
    waits_to_read: bool,
    /// The thread of the store's callers, while others wait before they read for them.
    callers: Option<ThreadId>,
    /// The threads that wait so.
    readers: usize,
    /// The callers' own thread has read.
    callers_read: bool,
}

impl Gate {
    fn close(&self) {
        self.state.lock().closed = true;
    }

    fn open(&self) {
        self.state.lock().closed = false;
        self.changed.notify_all();
    }

    fn hold_the_packer(&self, held: bool) {
        self.state.lock().held = held;
        self.changed.notify_all();
    }

    /// Waits until the writer waits for the gate.
    fn wait_for_the_writer(&self) {
        let mut state = self.state.lock();
        while !state.waiting {
            self.changed.wait(&mut state);
        }
    }

    fn pass_packer(&self) {
        let mut state = self.state.lock();
        while state.held && std::thread::current().name() == Some("kindom-store-pack") {
            self.changed.wait(&mut state);
        }
    }

    fn pass_read(&self) {
        let mut state = self.state.lock();
        while state.reads_held && std::thread::current().name() == Some("kindom-store-pack") {
            state.waits_to_read = true;
            self.changed.notify_all();
            self.changed.wait(&mut state);
        }
        state.waits_to_read = false;
    }

    fn hold_reads(&self) {
        self.state.lock().reads_held = true;
    }

    fn let_read(&self) {
        self.state.lock().reads_held = false;
        self.changed.notify_all();
    }

    /// Waits until the packer waits to read.
    fn wait_for_a_read(&self) {
        let mut state = self.state.lock();
        while !state.waits_to_read {
            self.changed.wait(&mut state);
        }
    }

    /// Lets nobody read for the callers on this thread.
    fn hold_readers(&self) {
        self.state.lock().callers = Some(std::thread::current().id());
    }

    /// Lets them read; returns `true` if the callers' own thread has read meanwhile.
    fn let_readers(&self) -> bool {
        let mut state = self.state.lock();
        state.callers = None;
        self.changed.notify_all();
        state.callers_read
    }

    /// Waits until so many threads wait to read for the callers, or one of these reads itself.
    fn wait_for_readers(&self, readers: usize) {
        let mut state = self.state.lock();
        while state.readers < readers && !state.callers_read {
            self.changed.wait(&mut state);
        }
    }

    fn pass_reader(&self) {
        let mut state = self.state.lock();
        if state.callers == Some(std::thread::current().id()) {
            state.callers_read = true;
            self.changed.notify_all();
            return;
        }
        state.readers += 1;
        self.changed.notify_all();
        while state.callers.is_some() {
            self.changed.wait(&mut state);
        }
        state.readers -= 1;
    }

    fn pass(&self) {
        if std::thread::current().name() != Some("kindom-store") {
            return;
        }
        let mut state = self.state.lock();
        while state.closed {
            state.waiting = true;
            self.changed.notify_all();
            self.changed.wait(&mut state);
        }
        state.waiting = false;
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn VfsFile>,
    gate: Arc<Gate>,
}

impl Gated {
    fn file(&self, file: Arc<dyn VfsFile>) -> Arc<dyn VfsFile> {
        Arc::new(GatedFile { file, gate: Arc::clone(&self.gate) })
    }
}

impl Vfs for Gated {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.disk.lock(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        self.gate.pass_packer();
        Ok(self.file(self.disk.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        self.gate.pass_packer();
        Ok(self.file(self.disk.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn folder(&self, dir: &Path) -> io::Result<Arc<dyn VfsFolder>> {
        self.disk.folder(dir)
    }
}

impl VfsFile for GatedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match std::thread::current().name() {
            Some("kindom-store-pack") => self.gate.pass_read(),
            Some("kindom-store") => {}
            _ => self.gate.pass_reader(),
        }
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
}

fn put(key: &str, value: String) -> Txn {
    Txn { compares: vec![], ops: vec![Op::Put(Key::from(key), value.into())] }
}

fn name_of_oldest(disk: &SimDisk) -> String {
    let segment = |path: std::path::PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        (name.ends_with(".log") || name.ends_with(".pack")).then_some(name)
    };
    disk.files().into_iter().filter_map(segment).min().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_moves_during_an_fsync_is_still_the_one_before() {
    let disk = SimDisk::new(1);
    let gated = Gated { disk: disk.process(), gate: Arc::default() };
    let gate = Arc::clone(&gated.gate);
    let options = EmbeddedOptions { segment_bytes: 4000, ..EmbeddedOptions::default() };
    let store = Embedded::open_on(Arc::new(gated), "store", options).unwrap();
    store.txn(put("kept", "first".to_owned())).await.unwrap();
    for n in 0..20 {
        store.txn(put("other", format!("{n}{}", "v".repeat(500)))).await.unwrap();
    }
    let mut watch = store.watch(KeyRange::single(&Key::from("kept")), None).await.unwrap();
    gate.hold_the_packer(true);
    let oldest = name_of_oldest(&disk);
    store.compact(store.published()).await.unwrap();
    gate.close();
    let write = tokio::spawn({
        let store = store.clone();
        async move { store.txn(put("kept", "second".to_owned())).await }
    });
    tokio::task::spawn_blocking({
        let (gate, disk) = (Arc::clone(&gate), disk.clone());
        move || {
            // The write is judged, and refers to the oldest segment; now that goes.
            gate.wait_for_the_writer();
            gate.hold_the_packer(false);
            while name_of_oldest(&disk) == oldest {
                std::thread::yield_now();
            }
        }
    })
    .await
    .unwrap();
    gate.open();
    write.await.unwrap().unwrap();
    let commit = watch.commits.recv().await.unwrap().unwrap();
    assert_eq!(commit.events[0].prev.as_ref().unwrap().value.as_deref(), Ok(&b"first"[..]));
    store.close().await.unwrap();
}

#[tokio::test]
async fn what_waits_for_the_disk_leaves_its_thread_to_others() {
    let disk = SimDisk::new(1);
    let gated = Gated { disk: disk.process(), gate: Arc::default() };
    let gate = Arc::clone(&gated.gate);
    let options = EmbeddedOptions { segment_bytes: 4000, ..EmbeddedOptions::default() };
    let store = Embedded::open_on(Arc::new(gated), "store", options).unwrap();
    for n in 0..40 {
        store.txn(put(&format!("k{n}"), "v".repeat(500))).await.unwrap();
    }
    let mut live = store.watch(KeyRange::prefix(b""), None).await.unwrap();
    gate.hold_readers();
    let values = tokio::spawn({
        let store = store.clone();
        async move { store.range(RangeRequest::prefix(b"k")).await }
    });
    let history = tokio::spawn({
        let store = store.clone();
        async move {
            let mut watch = store.watch(KeyRange::prefix(b"k"), Some(Revision(2))).await?;
            watch.commits.recv().await.unwrap()
        }
    });
    tokio::task::spawn_blocking({
        let gate = Arc::clone(&gate);
        move || gate.wait_for_readers(2)
    })
    .await
    .unwrap();
    // Neither has an answer, and everything else goes on.
    store.txn(put("other", "v".to_owned())).await.unwrap();
    assert_eq!(live.commits.recv().await.unwrap().unwrap().events[0].key, Key::from("other"));
    let keys = RangeRequest { keys_only: true, ..RangeRequest::prefix(b"k") };
    assert_eq!(store.range(keys).await.unwrap().kvs.len(), 40);
    let have_ended = values.is_finished() || history.is_finished();
    assert!(!gate.let_readers(), "the callers' own thread has waited for the disk");
    assert!(!have_ended);
    assert_eq!(values.await.unwrap().unwrap().kvs.len(), 40);
    assert_eq!(history.await.unwrap().unwrap().revision, Revision(2));
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_ends_a_pack_in_its_middle_and_leaves_nothing_of_it() {
    let disk = SimDisk::new(1);
    let gated = Gated { disk: disk.process(), gate: Arc::default() };
    let gate = Arc::clone(&gated.gate);
    let options = EmbeddedOptions { segment_bytes: 100_000, ..EmbeddedOptions::default() };
    let store = Embedded::open_on(Arc::new(gated), "store", options.clone()).unwrap();
    // A segment of many batches, most of which is dead, and its hint.
    for n in 0..500 {
        store.txn(put(&format!("k{}", n % 30), format!("{n}{}", "v".repeat(200)))).await.unwrap();
    }
    let has_hint = |disk: &SimDisk| disk.files().iter().any(|path| path.ends_with("00000001.hint"));
    while !has_hint(&disk) {
        tokio::task::yield_now().await;
    }
    let before: Vec<_> = disk.files();
    gate.hold_reads();
    store.compact(store.published()).await.unwrap();
    tokio::task::spawn_blocking({
        let gate = Arc::clone(&gate);
        move || gate.wait_for_a_read()
    })
    .await
    .unwrap();
    // The store saves what a close saves: by then it has asked the packer to stop.
    gate.close();
    let close = tokio::spawn({
        let store = store.clone();
        async move { store.close().await }
    });
    tokio::task::spawn_blocking({
        let gate = Arc::clone(&gate);
        move || gate.wait_for_the_writer()
    })
    .await
    .unwrap();
    gate.let_read();
    gate.open();
    close.await.unwrap().unwrap();
    let is_pack = |path: &std::path::PathBuf| path.extension().is_some_and(|kind| kind == "pack");
    assert!(!disk.files().iter().any(is_pack), "{:?}", disk.files());
    assert!(before.iter().all(|path| disk.files().contains(path)), "{:?}", disk.files());
    drop(store);
    let store = Embedded::open_on(Arc::new(disk.process()), "store", options).unwrap();
    let all = store.range(RangeRequest::prefix(b"")).await.unwrap();
    assert_eq!(all.kvs.len(), 30);
    assert!(all.kvs.iter().all(|kv| kv.value.is_ok()));
    store.close().await.unwrap();
}

/// Writers, a compactor and watches (from now and from history) on a small store, whose syncs take long enough for the
/// packer to move the values that a batch refers to.
async fn churn(seed: u64) {
    let disk = SimDisk::new(seed);
    let options = EmbeddedOptions { segment_bytes: 6000, ..EmbeddedOptions::default() };
    let store = Embedded::open_on(Arc::new(disk.process()), "store", options).unwrap();
    let all = KeyRange::prefix(b"");
    let mut live = store.watch(all.clone(), None).await.unwrap();
    let mut random = Random::new(seed);
    let (rounds, mut from, mut followers) = (300, Revision::ZERO, Vec::new());
    for round in 0..rounds {
        let txns = (0..=random.below(8)).map(|n| {
            let key = format!("k{}", random.below(30));
            match random.below(4) {
                0 => Txn { compares: vec![], ops: vec![Op::Delete(Key::from(key.as_str()))] },
                _ => put(&key, format!("{round}-{n}-{}", "x".repeat(random.below(700)))),
            }
        });
        let txns: Vec<_> = txns.map(|txn| store.txn(txn)).collect();
        for outcome in futures::future::join_all(txns).await {
            assert!(matches!(outcome, Ok(TxnOutcome::Committed { .. })), "{outcome:?}");
        }
        if round % 10 == 0 {
            // The writes of the last rounds stay, for watches that start there.
            store.compact(from).await.unwrap();
            from = store.published();
            let watch = store.watch(all.clone(), Some(store.compacted().next())).await.unwrap();
            followers.push((store.compacted(), watch));
        }
        for (at, mut watch) in std::mem::take(&mut followers) {
            let upto = store.published();
            let mut last = at;
            while last < upto {
                let commit = watch
                    .commits
                    .recv()
                    .await
                    .unwrap()
                    .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                assert_eq!(commit.revision, last.next(), "seed {seed}");
                last = commit.revision;
            }
        }
    }
    let last = store.published();
    let mut state = std::collections::BTreeMap::new();
    for at in 1..=last.0 {
        let commit =
            live.commits.recv().await.unwrap().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(commit.revision, Revision(at), "seed {seed}");
        for event in &commit.events {
            let prev = event.prev.as_ref().map(|kv| kv.value.clone().unwrap());
            assert_eq!(prev, state.get(&event.key).cloned(), "seed {seed}: the value before {at}");
            match &event.change {
                Change::Put { value, .. } => state.insert(event.key.clone(), value.clone().unwrap()),
                Change::Delete => state.remove(&event.key),
            };
        }
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_the_packer_no_watch_ends_and_none_misses_an_event() {
    for seed in 0..cases(10, 500) {
        churn(seed).await;
    }
}

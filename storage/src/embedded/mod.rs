//! The engine of one process: a segmented, append-only log, and an index of it in memory.
//!
//! ```text
//! lock            held while the store is open
//! mark            up to where the log was durable, at least once a second            mark.rs
//! 00000001.log    batches of transactions, in order                        frame.rs, segment.rs
//! 00000004.pack   what is still needed of segments that it replaced                  pack.rs
//! 00000001.hint   a segment without its values, to open quickly                      hint.rs
//! pack.spare      space and a descriptor for the next pack                          spare.rs
//! ```
//!
//! A transaction goes through [`queue`] to the one [`writer`]; [`recover`] opens a folder. Values stay on disk: the
//! index holds keys and places, about 200 bytes for a key. [`runs`] decides which segments are packed.
//!
//! # What it stands on
//! - After a successful fsync, all writes before it survive a power cut; a sector of 512 bytes is written whole
//!   or not at all.
//! - A rename replaces a file's name atomically, and is durable once its folder is synced.
//! - The disk may return wrong bytes at any time. Every batch and every value has a CRC-32C.
//!
//! Damage to the last batches, those of the last second before a crash without a mark behind them, looks like the torn end
//! of an unacknowledged write and is cut. All other damage is found: at open or, for values in segments that have a hint,
//! when they are read, or by the scrub. A damaged value makes reads of its one key fail. With any other damage it is unknown
//! what is missing, so the store refuses the folder, and [`Salvage`] makes a new one of everything that can be read.

mod clock;
mod finding;
mod frame;
mod hint;
mod mark;
mod pack;
mod queue;
mod recover;
mod restore;
mod runs;
mod salvage;
mod scrub;
mod segment;
mod spare;
mod writer;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

pub use self::finding::{DamagedOf, Finding, Standing};
use self::frame::FrameBuilder;
use self::pack::{Packer, Packing};
use self::queue::{Queue, Request};
pub use self::restore::EmbeddedRestore;
pub use self::salvage::Salvage;
pub use self::scrub::{Scrub, ScrubCounts, Scrubbed};
use self::segment::{Segments, unusable};
use self::spare::Spare;
use self::writer::{ALLOCATE_BYTES, RESERVE_BYTES, Writer};
use crate::local::Local;
use crate::vfs::{Disk, Vfs};
use crate::watch::unread;
use crate::{
    Applied, KeyRange, Limits, RangeRequest, RangeResult, ReadOnly, Revision, Storage, StorageError,
    StorageFuture, Txn, TxnOutcome, Watch,
};

/// The name of the packer's thread.
pub(crate) const PACKER: &str = "kindom-store-pack";

/// The index of so many revisions is searched in no time.
const FEW_REVISIONS: u64 = 16 << 10;

/// The settings of an [`Embedded`] store; the defaults are for production.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// The bounds on sizes and queues.
    pub limits: Limits,
    /// A segment is full at this size; at most 1 GiB.
    pub segment_bytes: u64,
    /// At most so many transactions go into one batch.
    pub batch_txns_max: usize,
    /// At most so many bytes of keys and values go into one batch, but at least one transaction.
    pub batch_bytes_max: usize,
    /// The longest that the high-water mark lags behind a write.
    pub mark_every: Duration,
    /// Called on the writer's thread when so many transactions come at once that it could give way to other threads, and when
    /// there are few again.
    pub in_company: fn(bool),
    /// A planted bug, for tests that must find it: answer, then sync.
    #[cfg(feature = "testing")]
    pub answer_before_sync: bool,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            segment_bytes: 64 << 20,
            batch_txns_max: 1024,
            batch_bytes_max: 4 << 20,
            mark_every: Duration::from_secs(1),
            in_company: |_| (),
            #[cfg(feature = "testing")]
            answer_before_sync: false,
        }
    }
}

impl EmbeddedOptions {
    fn allocate_bytes(&self) -> u64 {
        ALLOCATE_BYTES.min(self.segment_bytes)
    }

    fn reserve_bytes(&self) -> u64 {
        RESERVE_BYTES.min(self.segment_bytes / 8)
    }

    /// A log is not larger, unless it could not be followed by another for lack of descriptors.
    fn log_bytes_max(&self) -> u64 {
        self.segment_bytes + self.reserve_bytes()
    }

    /// Of the reserve, the part that deletes leave, so that the segment can be followed by another.
    fn held_bytes(&self) -> u64 {
        self.reserve_bytes() / 2
    }

    #[cfg(feature = "testing")]
    fn answers_before_sync(&self) -> bool {
        self.answer_before_sync
    }

    #[cfg(not(feature = "testing"))]
    #[expect(clippy::unused_self, reason = "the twin of the one for tests")]
    fn answers_before_sync(&self) -> bool {
        false
    }
}

/// The number of writes of an [`Embedded`] store since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Durable batches: each is one write and one fsync.
    pub batches: u64,
    /// The transactions in them; those that changed nothing are not counted.
    pub txns: u64,
}

/// A store in a folder of this machine. Cloning gives another handle to the same store.
///
/// Dropping the last handle closes it, and waits for that; [`Storage::close`] does it without blocking. A folder is
/// open at most once: other openings fail, in this process and in others.
///
/// # Errors
/// If a write or an fsync fails, the store is [`StorageError::ReadOnly`] until it is opened again. If the disk is full, or
/// no file can be opened, every put fails in that way, with [`Applied::No`], until within a second of space being free
/// again; deletes and compactions go on. A panic in its writer ends the process: acknowledged writes are on the disk, others
/// may be.
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    core: Arc<Core>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// The state that the threads share.
struct Core {
    local: Arc<Local<Segments>>,
    queue: Queue,
    packer: Packer,
    next_id: AtomicU32,
    failed: OnceLock<String>,
    is_short: AtomicBool,
    short: Mutex<Option<String>>,
    /// Locked by whoever takes space for the log, or gives space back.
    spare: Mutex<Spare>,
    batches: AtomicU64,
    txns: AtomicU64,
    scrubs: scrub::Scrubs,
}

impl Core {
    fn written(&self, txns: u64) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.txns.fetch_add(txns, Ordering::Relaxed);
    }

    fn failed(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// The reason why puts are refused for now. Lock-free while they are not.
    fn short(&self) -> Option<String> {
        if self.is_short() { self.short.lock().clone() } else { None }
    }

    fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Acquire)
    }

    fn short_error(&self) -> StorageError {
        self.short_error_of(&self.short().unwrap_or_default())
    }

    fn short_error_of(&self, why: &str) -> StorageError {
        let reason = format!("{why}; deletes are accepted, and writes again once there is room");
        StorageError::ReadOnly { reason, applied: Applied::No }
    }

    fn set_short(&self, why: Option<String>) {
        let was = self.is_short.swap(why.is_some(), Ordering::AcqRel);
        match &why {
            Some(why) if !was => tracing::error!(why, "the store takes no creates and updates"),
            None if was => tracing::info!("the store takes writes again"),
            _ => {}
        }
        if was != why.is_some() {
            // It packs for the sake of space now, or does what had to wait for some.
            self.packer.wake();
        }
        if was || why.is_some() {
            *self.short.lock() = why;
        }
    }

    /// The first reason stays.
    fn set_failed(&self, reason: &str) {
        let _ = self.failed.set(reason.to_owned());
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("published", &self.published()).finish_non_exhaustive()
    }
}

impl Embedded {
    /// Opens the store in this folder, making it if it is not there. Blocks for as long as reading the index takes:
    /// a few milliseconds for a small store.
    ///
    /// # Errors
    /// [`StorageError::Unavailable`] if another opening holds the folder, or the system refuses;
    /// [`StorageError::Corrupt`] if durable data is damaged or missing.
    pub fn open(dir: impl AsRef<Path>, options: EmbeddedOptions) -> Result<Self, StorageError> {
        Self::open_on(Arc::new(Disk), dir, options)
    }

    /// As [`Embedded::open`], on another disk.
    ///
    /// # Errors
    /// As [`Embedded::open`].
    pub fn open_on(
        vfs: Arc<dyn Vfs>,
        dir: impl AsRef<Path>,
        options: EmbeddedOptions,
    ) -> Result<Self, StorageError> {
        let dir = dir.as_ref().to_owned();
        let options = EmbeddedOptions { segment_bytes: options.segment_bytes.min(1 << 30), ..options };
        vfs.create_dir(&dir).map_err(|error| unusable(&dir, "make", &error))?;
        let lock = lock(&*vfs, &dir)?;
        // Open from now on, so that no descriptor is needed to sync it.
        let folder = vfs.folder(&dir).map_err(|error| unusable(&dir, "open", &error))?;
        let recovered = recover::recover(&*vfs, &*folder, &dir, options.allocate_bytes())?;
        let (file, path) = (&recovered.active.file, &recovered.active.path);
        let allocated = file.len().map_err(|error| unusable(path, "read", &error))?;
        // A copy of a folder may have holes where space was reserved. On a full disk the writer tries again.
        let allocated = file.allocate(allocated).map_or(recovered.position, |()| allocated);
        let spare = Spare::new(Arc::clone(&vfs), dir.join("pack.spare"), options.log_bytes_max());
        let core = Arc::new(Core {
            local: Local::new(recovered.index, recovered.segments, options.limits.clone()),
            queue: Queue::default(),
            packer: Packer::default(),
            next_id: AtomicU32::new(recovered.next_id),
            failed: OnceLock::new(),
            is_short: AtomicBool::new(false),
            short: Mutex::new(None),
            spare: Mutex::new(spare),
            batches: AtomicU64::new(0),
            txns: AtomicU64::new(0),
            scrubs: scrub::Scrubs::default(),
        });
        let packing =
            Packing::new(&core, Arc::clone(&vfs), Arc::clone(&folder), dir.clone(), options.segment_bytes);
        let writer = Writer {
            core: Arc::clone(&core),
            vfs,
            folder,
            dir: dir.clone(),
            options,
            mark: recovered.mark,
            marked_at: clock::now(),
            active: recovered.active,
            position: recovered.position,
            allocated,
            covered: 0,
            batch: recovered.batch,
            frame: FrameBuilder::default(),
            try_again: None,
            lacking: 0,
            tries: 0,
            undo: None,
            lock,
        };
        let failed = |error| unusable(&dir, "start a thread for", &error);
        Packing::starting(&core);
        spawn(PACKER, move || packing.run()).map_err(failed)?;
        core.packer.wake();
        let writer = spawn("kindom-store", move || {
            if catch_unwind(AssertUnwindSafe(|| writer.run())).is_err() {
                tracing::error!("the store's writer panicked; ending the process");
                std::process::abort();
            }
        });
        let writer = writer.map_err(failed).inspect_err(|_| core.packer.stop())?;
        Ok(Self { inner: Arc::new(Inner { core, writer: Mutex::new(Some(writer)) }) })
    }

    fn core(&self) -> &Core {
        &self.inner.core
    }

    /// The writes since the store was opened: they show how well transactions share the cost of being durable.
    #[must_use]
    pub fn write_counts(&self) -> WriteCounts {
        let core = self.core();
        WriteCounts { batches: core.batches.load(Ordering::Relaxed), txns: core.txns.load(Ordering::Relaxed) }
    }

    fn queue<T: Send + 'static>(
        &self,
        request: impl FnOnce(queue::Reply<T>) -> Request,
    ) -> StorageFuture<'static, T> {
        let (reply, answer) = oneshot::channel();
        let queued = self.core().queue.push(request(reply), &self.core().local.limits);
        Box::pin(async move {
            queued?;
            answer.await.unwrap_or_else(|_| {
                let reason = "the store's writer is gone".to_owned();
                Err(StorageError::Unavailable { reason, applied: Applied::Unknown })
            })
        })
    }

    fn not_failed(&self) -> Result<(), StorageError> {
        match self.core().failed() {
            None => Ok(()),
            Some(reason) => Err(StorageError::ReadOnly { reason: reason.to_owned(), applied: Applied::No }),
        }
    }

    /// Refuses a transaction at once that the writer would refuse.
    fn takes(&self, txn: &Txn) -> Result<(), StorageError> {
        self.not_failed()?;
        match self.core().short() {
            Some(why) if txn.puts() => Err(self.core().short_error_of(&why)),
            _ => Ok(()),
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

fn lock(vfs: &dyn Vfs, dir: &Path) -> Result<Box<dyn Send + Sync>, StorageError> {
    let path: PathBuf = dir.join("lock");
    match vfs.lock(&path) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(StorageError::Unavailable {
            reason: format!(
                "{} is in use: another process (or another store in this one) holds its lock; end that one, or use \
                 another folder",
                dir.display()
            ),
            applied: Applied::No,
        }),
        Err(error) => Err(unusable(&path, "lock", &error)),
    }
}

fn failed<'a, T: Send + 'a>(error: StorageError) -> StorageFuture<'a, T> {
    Box::pin(std::future::ready(Err(error)))
}

impl Storage for Embedded {
    fn txn(&self, txn: Txn) -> StorageFuture<'_, TxnOutcome> {
        tracing::trace!(compares = txn.compares.len(), "commit");
        let checked = self.takes(&txn).and_then(|()| self.core().local.limits.check(&txn));
        match checked {
            Ok(bytes) => self.queue(|reply| Request::Txn { txn, bytes, reply }),
            Err(error) => failed(error),
        }
    }

    fn read_only(&self) -> Option<ReadOnly> {
        let core = self.core();
        let failed = core.failed().map(|reason| ReadOnly { reason: reason.to_owned(), heals: false });
        failed.or_else(|| core.short().map(|reason| ReadOnly { reason, heals: true }))
    }

    fn range(&self, request: RangeRequest) -> StorageFuture<'_, RangeResult> {
        let local = Arc::clone(&self.core().local);
        if request.keys_only && !request.count_all {
            return Box::pin(std::future::ready(local.range(&request)));
        }
        // Values are read from the disk, and many keys take long to count.
        Box::pin(async move {
            let read = spawn_blocking(move || local.range(&request)).await;
            read.unwrap_or_else(|lost| Err(unread(&lost)))
        })
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> StorageFuture<'_, Watch> {
        let local = Arc::clone(&self.core().local);
        let published = local.hub.published();
        if from.is_none_or(|from| published.0.saturating_sub(from.0) <= FEW_REVISIONS) {
            return Box::pin(std::future::ready(local.watch(range, from)));
        }
        // The last change of the range is looked for among all of them.
        Box::pin(async move {
            let begun = spawn_blocking(move || local.watch(range, from)).await;
            begun.unwrap_or_else(|lost| Err(unread(&lost)))
        })
    }

    fn published(&self) -> Revision {
        self.core().local.hub.published()
    }

    fn fresh(&self) -> StorageFuture<'_, Revision> {
        Box::pin(std::future::ready(self.core().local.hub.fresh()))
    }

    fn is_local(&self) -> bool {
        true
    }

    fn compact(&self, revision: Revision) -> StorageFuture<'_, ()> {
        match self.not_failed() {
            Ok(()) => self.queue(|reply| Request::Compact { revision, reply }),
            Err(error) => failed(error),
        }
    }

    fn compacted(&self) -> Revision {
        self.core().local.compacted()
    }

    fn close(&self) -> StorageFuture<'_, ()> {
        let closed = self.queue(|reply| Request::Close { reply });
        let hub = Arc::clone(&self.core().local.hub);
        Box::pin(async move {
            match closed.await {
                // It was closed before.
                Err(StorageError::Unavailable { applied: Applied::No, .. }) if hub.check_open().is_err() => {
                    Ok(())
                }
                result => result,
            }
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let (reply, _answer) = oneshot::channel();
        // It may be closed already.
        let _ = self.core.queue.push(Request::Close { reply }, &self.core.local.limits);
        if let Some(writer) = self.writer.lock().take() {
            // It does not panic: that would have ended the process.
            let _ = writer.join();
        }
    }
}

//! The thread that writes, and the queue before it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use kindom_actor_kit::{Clock, Held};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::event::{Level, Line};
use crate::file::{Open, Sink};
use crate::policy::Decided;

/// The bytes of the lines that wait in mode `batch`: so many may be lost at once.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// The bytes of lines that are written together.
const TOGETHER_BYTES: usize = 1 << 20;
/// A stage that waits for its line waits no longer: a disk that hangs fails its log, and not all requests.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request goes on when its line is in the file, or before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nobody waits. With so many lines on their way, more are lost.
    Batch(usize),
    /// Requests wait, and go on if the line could not be written.
    Blocking,
    /// A request whose receipt could not be written fails.
    BlockingStrict,
}

/// The settings of the log.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Lines go there.
    pub sink: Sink,
    /// Who waits for them.
    pub mode: Mode,
    /// The bytes of an event, above which it loses its objects, and then is lost; `None` for any.
    pub event_bytes_max: Option<usize>,
}

/// A part of the log that can fail, as metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    /// The file.
    Log,
    /// The queue of mode `batch`.
    Buffered,
    /// The bound on the bytes of an event.
    Truncate,
}

/// Counts for metrics.
#[derive(Debug, Default)]
pub struct Counts {
    events: AtomicU64,
    rejected: AtomicU64,
    levels: [AtomicU64; 4],
    failures: [AtomicU64; 3],
}

impl Counts {
    /// The events that were handed to the log.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// The requests that failed as their receipt could not be written.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// The requests of each level.
    pub fn levels(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Level::ALL.into_iter().map(Level::name).zip(self.levels.iter().map(|of| of.load(Ordering::Relaxed)))
    }

    /// The events that each part lost.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ["log", "buffered", "truncate"]
            .into_iter()
            .zip(self.failures.iter().map(|of| of.load(Ordering::Relaxed)))
    }

    pub(crate) fn count_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_level(&self, level: Level) {
        let place = Level::ALL.iter().position(|of| *of == level);
        if let Some(of) = place.and_then(|place| self.levels.get(place)) {
            of.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_failure(&self, of: Failing, events: u64) {
        let place = match of {
            Failing::Log => 0,
            Failing::Buffered => 1,
            Failing::Truncate => 2,
        };
        if let Some(of) = self.failures.get(place) {
            of.fetch_add(events, Ordering::Relaxed);
        }
    }
}

/// A line on its way, with the memory of its objects.
struct Queued {
    line: Line,
    written: Option<oneshot::Sender<bool>>,
    _held: Option<Held>,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Queued>,
    bytes: usize,
    is_ended: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// The log of a server.
pub struct AuditLog {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<Counts>,
    mode: Mode,
    event_bytes_max: Option<usize>,
    clock: Clock,
}

impl AuditLog {
    /// Opens the sink, and starts the thread.
    ///
    /// # Errors
    /// The file cannot be opened or made, or there can be no thread.
    pub fn open(settings: &Settings, clock: Clock) -> io::Result<Arc<Self>> {
        let open = Open::of(&settings.sink, clock.clone())?;
        let (queue, counts) = (Arc::new(Queue::default()), Arc::new(Counts::default()));
        let (of_thread, counted) = (Arc::clone(&queue), Arc::clone(&counts));
        let thread = std::thread::Builder::new()
            .name("audit-log".to_owned())
            .spawn(move || write_all(&of_thread, open, &counted))?;
        let (mode, event_bytes_max) = (settings.mode, settings.event_bytes_max);
        Ok(Arc::new(Self { queue, thread: Mutex::new(Some(thread)), counts, mode, event_bytes_max, clock }))
    }

    /// Returns true if a request is recorded. Counts it.
    #[must_use]
    pub fn wants(&self, decided: Decided) -> bool {
        self.counts.count_level(decided.level);
        decided.level != Level::None
    }

    /// Counts for metrics.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn event_bytes_max(&self) -> usize {
        self.event_bytes_max.unwrap_or(usize::MAX)
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns true if a request fails without its receipt.
    pub(crate) fn is_strict(&self) -> bool {
        self.mode == Mode::BlockingStrict
    }

    /// Takes a line, and waits until it is written if the mode wants that. Returns false if it was not written.
    pub(crate) async fn take(&self, line: Line, held: Option<Held>) -> bool {
        if matches!(self.mode, Mode::Batch(_)) {
            return self.take_late(line, held);
        }
        let (written, is_written) = oneshot::channel();
        self.push(Queued { line, written: Some(written), _held: held });
        match timeout(PATIENCE, is_written).await {
            Ok(is_written) => is_written.unwrap_or(false),
            Err(_) => {
                self.counts.count_failure(Failing::Log, 1);
                false
            }
        }
    }

    /// Takes a line for which nobody can wait. Returns false if there is no room for it.
    pub(crate) fn take_late(&self, line: Line, held: Option<Held>) -> bool {
        if let Mode::Batch(most) = self.mode {
            let waiting = self.queue.waiting.lock();
            if waiting.lines.len() >= most || waiting.bytes.saturating_add(line.bytes()) > BATCH_BYTES_MAX {
                drop(waiting);
                self.counts.count_failure(Failing::Buffered, 1);
                return false;
            }
        }
        self.push(Queued { line, written: None, _held: held });
        true
    }

    fn push(&self, queued: Queued) {
        let mut waiting = self.queue.waiting.lock();
        if waiting.is_ended {
            self.counts.count_failure(Failing::Log, 1);
            return;
        }
        waiting.bytes = waiting.bytes.saturating_add(queued.line.bytes());
        waiting.lines.push_back(queued);
        drop(waiting);
        self.queue.changed.notify_one();
    }

    /// Writes all lines that wait, and no more. Blocks the calling thread until then.
    pub fn close(&self) {
        self.queue.waiting.lock().is_ended = true;
        self.queue.changed.notify_one();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the audit log panicked");
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.close();
    }
}

/// The thread: writes lines together as they have come together.
fn write_all(queue: &Queue, mut open: Open, counts: &Counts) {
    let mut fails = false;
    loop {
        let (mut lines, mut others) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut waiting = queue.waiting.lock();
        while waiting.lines.is_empty() {
            if waiting.is_ended {
                return;
            }
            queue.changed.wait(&mut waiting);
        }
        while bytes < TOGETHER_BYTES
            && let Some(Queued { line, written, _held }) = waiting.lines.pop_front()
        {
            bytes += line.bytes();
            lines.push(line);
            others.push((written, _held));
        }
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        drop(waiting);
        let lines: Vec<Vec<u8>> = lines.into_iter().map(Line::into_whole).collect();
        let outcome = open.write(&lines);
        match &outcome {
            Ok(()) if fails => tracing::info!("the audit log is written again"),
            Ok(()) => {}
            Err(error) => {
                counts.count_failure(Failing::Log, lines.len() as u64);
                // Once, as there may be thousands in a second.
                if !fails {
                    tracing::error!(%error, "the audit log cannot be written: events are lost");
                }
            }
        }
        fails = outcome.is_err();
        for written in others.into_iter().filter_map(|(written, _)| written) {
            // Nobody may wait any more.
            let _ = written.send(!fails);
        }
    }
}

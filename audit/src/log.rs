//! The thread that writes, and the queue before it.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use kindom_actor_kit::Clock;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::event::{Level, Line};
use crate::file::{Open, Sink};
use crate::policy::Decided;

/// The bytes of the lines that wait. Beyond half of that a line loses its objects, and beyond that it is lost.
const QUEUE_BYTES_MAX: usize = 64 << 20;
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
    /// The place that lines go to.
    pub sink: Sink,
    /// The requests that wait for them.
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
        Level::ALL
            .into_iter()
            .map(Level::name)
            .zip(self.levels.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// The events that each part lost.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ["log", "buffered", "truncate"]
            .into_iter()
            .zip(self.failures.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    pub(crate) fn count_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_level(&self, level: Level) {
        let place = Level::ALL.iter().position(|known| *known == level);
        if let Some(count) = place.and_then(|place| self.levels.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_failure(&self, failing: Failing, events: u64) {
        let place = match failing {
            Failing::Log => 0,
            Failing::Buffered => 1,
            Failing::Truncate => 2,
        };
        if let Some(count) = self.failures.get(place) {
            count.fetch_add(events, Ordering::Relaxed);
        }
    }
}

/// A line on its way.
struct Queued {
    line: Line,
    /// None if nobody waits.
    waiter: Option<(oneshot::Sender<bool>, Arc<AtomicU8>)>,
}

/// The states of a line that somebody waits for.
const WAITS: u8 = 0;
const GIVEN_UP: u8 = 1;
const TAKEN: u8 = 2;

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Queued>,
    bytes: usize,
    /// No further lines are taken.
    is_ended: bool,
    /// The thread is gone.
    is_gone: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    gone: Condvar,
}

/// The log of a server.
pub struct AuditLog {
    queue: Arc<Queue>,
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
        let open = Open::new(&settings.sink, clock.clone())?;
        let (queue, counts) = (Arc::new(Queue::default()), Arc::new(Counts::default()));
        let (of_thread, counted) = (Arc::clone(&queue), Arc::clone(&counts));
        std::thread::Builder::new().name("audit-log".to_owned()).spawn(move || {
            let _leaving = Leaving(&of_thread, &counted);
            write_all(&of_thread, open, &counted);
        })?;
        let (mode, event_bytes_max) = (settings.mode, settings.event_bytes_max);
        Ok(Arc::new(Self { queue, counts, mode, event_bytes_max, clock }))
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

    /// Takes a line, and waits until it is written if the mode wants that. Returns false if it was not written, or will not be.
    pub(crate) async fn take(&self, line: Line) -> bool {
        if matches!(self.mode, Mode::Batch(_)) {
            return self.take_late(line);
        }
        let (written, is_written) = oneshot::channel();
        let state = Arc::new(AtomicU8::new(WAITS));
        if !self.push(Queued { line, waiter: Some((written, Arc::clone(&state))) }) {
            return false;
        }
        match timeout(PATIENCE, is_written).await {
            Ok(is_written) => is_written.unwrap_or(false),
            Err(_) => {
                // The thread counts what it has taken, and skips what was given up.
                if state.compare_exchange(WAITS, GIVEN_UP, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    self.counts.count_failure(Failing::Log, 1);
                }
                false
            }
        }
    }

    /// Takes a line for which nobody can wait. Returns false if there is no room for it.
    pub(crate) fn take_late(&self, line: Line) -> bool {
        self.push(Queued { line, waiter: None })
    }

    fn push(&self, mut queued: Queued) -> bool {
        let (most, failing) = match self.mode {
            Mode::Batch(most) => (most, Failing::Buffered),
            Mode::Blocking | Mode::BlockingStrict => (usize::MAX, Failing::Log),
        };
        let mut waiting = self.queue.waiting.lock();
        let mut bytes = waiting.bytes.saturating_add(queued.line.bytes());
        if bytes > QUEUE_BYTES_MAX / 2 && queued.line.strip() {
            bytes = waiting.bytes.saturating_add(queued.line.bytes());
        }
        if waiting.is_ended || waiting.lines.len() >= most || bytes > QUEUE_BYTES_MAX {
            drop(waiting);
            self.counts.count_failure(failing, 1);
            return false;
        }
        waiting.bytes = bytes;
        waiting.lines.push_back(queued);
        drop(waiting);
        self.queue.changed.notify_one();
        true
    }

    /// Takes no more lines, and waits for so long until those that wait are written. Blocks the calling thread. Returns true if they
    /// are.
    pub fn close(&self, patience: Duration) -> bool {
        let mut waiting = self.queue.waiting.lock();
        waiting.is_ended = true;
        self.queue.changed.notify_one();
        self.queue.gone.wait_while_for(&mut waiting, |waiting| !waiting.is_gone, patience);
        waiting.is_gone
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        // The thread ends with its last line.
        self.queue.waiting.lock().is_ended = true;
        self.queue.changed.notify_one();
    }
}

/// Says that the thread is gone, also if it has panicked: nobody waits for it then.
struct Leaving<'a>(&'a Queue, &'a Counts);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        (waiting.is_ended, waiting.is_gone, waiting.bytes) = (true, true, 0);
        if !waiting.lines.is_empty() {
            tracing::error!("the thread of the audit log has ended: events are lost");
            self.1.count_failure(Failing::Log, waiting.lines.len() as u64);
            waiting.lines.clear();
        }
        self.0.gone.notify_all();
    }
}

/// The thread: writes lines together as they have come together.
fn write_all(queue: &Queue, mut open: Open, counts: &Counts) {
    let mut fails = false;
    loop {
        let (mut lines, mut waiters) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut waiting = queue.waiting.lock();
        while waiting.lines.is_empty() {
            if waiting.is_ended {
                return;
            }
            queue.changed.wait(&mut waiting);
        }
        while bytes < TOGETHER_BYTES
            && let Some(Queued { line, waiter }) = waiting.lines.pop_front()
        {
            bytes += line.bytes();
            let is_wanted = waiter.as_ref().is_none_or(|(_, state)| {
                state.compare_exchange(WAITS, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            });
            if is_wanted {
                lines.push(line);
                waiters.push(waiter);
            }
        }
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        drop(waiting);
        let lines: Vec<Vec<u8>> = lines.into_iter().map(Line::into_whole).collect();
        let (written, outcome) = open.write(&lines);
        if let Err(error) = &outcome {
            counts.count_failure(Failing::Log, lines.len().saturating_sub(written) as u64);
            // Once, as there may be thousands in a second.
            if !fails {
                tracing::error!(%error, "the audit log cannot be written: events are lost");
            }
        } else if fails {
            tracing::info!("the audit log is written again");
        }
        fails = outcome.is_err();
        for (place, waiter) in waiters.into_iter().enumerate() {
            if let Some((answer, _)) = waiter {
                // Nobody may wait any more.
                let _ = answer.send(place < written);
            }
        }
    }
}

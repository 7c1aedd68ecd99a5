//! The objects that the collector still has to look at.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use kindom_storage::Key;
use tokio::time::Instant;

/// The wait after a failure before the next try, which doubles with each.
const RETRY: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// The wait after a change of registrations before objects of kinds that were not served are looked at.
const TYPES_SETTLE: Duration = Duration::from_millis(200);
/// The outcome of looking at an object.
pub(super) enum Looked {
    /// Nothing is left to do until something changes.
    Done,
    /// It changed meanwhile.
    Changed,
    /// Of a kind, or with an owner of one, that is not served here.
    Unknown,
    Failed(String),
}

/// The objects to look at, each once at a time.
#[derive(Default)]
pub(super) struct Todo {
    ready: VecDeque<Key>,
    /// Those in `ready`.
    queued: HashSet<Key>,
    /// Those that are looked at, and whether they have to be looked at again then.
    running: HashMap<Key, bool>,
    later: BTreeSet<(Instant, Key)>,
    failures: HashMap<Key, u32>,
    /// Those whose kind, or an owner's, is not served here.
    unknown: HashSet<Key>,
    /// The time when those are looked at again, as registrations have changed.
    types_changed: Option<Instant>,
}

impl Todo {
    /// The object has to be looked at.
    pub(super) fn add(&mut self, key: Key) {
        if let Some(again) = self.running.get_mut(&key) {
            *again = true;
        } else if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// The next object; it is looked at until it is [`done`](Self::done).
    pub(super) fn next(&mut self) -> Option<Key> {
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.unknown.remove(&key);
        self.running.insert(key.clone(), false);
        Some(key)
    }

    /// An object was looked at.
    pub(super) fn done(&mut self, key: &Key, looked: Looked) {
        let again = self.running.remove(key).unwrap_or(false);
        match looked {
            Looked::Done => drop(self.failures.remove(key)),
            Looked::Changed => drop(self.later.insert((Instant::now() + RETRY, key.clone()))),
            Looked::Unknown => drop(self.unknown.insert(key.clone())),
            Looked::Failed(error) => {
                let failures = self.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                // A failure that lasts is told ever more seldom.
                if failures.is_power_of_two() {
                    tracing::warn!(%key, error, failures, "garbage collection failed; trying again");
                }
                let wait = RETRY.saturating_mul(1 << (*failures - 1).min(20)).min(RETRY_MAX);
                self.later.insert((Instant::now() + wait, key.clone()));
            }
        }
        if again {
            self.add(key.clone());
        }
    }

    /// The object is followed no more.
    pub(super) fn forget(&mut self, key: &Key) {
        self.unknown.remove(key);
        self.failures.remove(key);
    }

    /// The time when something has to be looked at that nothing else makes due.
    pub(super) fn later(&self) -> Option<Instant> {
        let failed = self.later.first().map(|(at, _)| *at);
        failed.into_iter().chain(self.types_changed).min()
    }

    /// Time has passed.
    pub(super) fn wake(&mut self, now: Instant) {
        while self.later.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, key)) = self.later.pop_first()
        {
            self.add(key);
        }
        if self.types_changed.is_some_and(|at| at <= now) {
            self.types_changed = None;
            std::mem::take(&mut self.unknown).into_iter().for_each(|key| self.add(key));
        }
    }

    /// Other kinds may be served now. Registrations often change many at a time.
    pub(super) fn types_change(&mut self) {
        if !self.unknown.is_empty() {
            self.types_changed.get_or_insert_with(|| Instant::now() + TYPES_SETTLE);
        }
    }
}

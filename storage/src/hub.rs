//! Range subscriptions over the one commit stream, shared by the engines.
//!
//! # Routing, by example
//! Every subscription hangs at the longest bytes that all keys of its range start with: `/a/` (a prefix), `/a/x` (a single
//! key) and the empty string (the whole store) in one ordered map. The subscriptions of key `/a/x` hang at prefixes of
//! `/a/x`. To find them, take the last entry at or before the key: `/a/x`, a hit. The next shorter hit is the last entry
//! before `/a/x`: say `/a/b`, a miss, but the prefix that it shares with the key, `/a/`, bounds the rest: everything between
//! a prefix of the key and the key starts with that prefix. So the search goes on at `/a/`, a hit, then the empty string.
//! That is O(log n) for each hit or miss, however many disjoint prefixes there are.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::watch::Backlog;
use crate::{Commit, Event, Key, KeyRange, Limits, Progress, Revision, StorageError};

type Item = Result<Arc<Commit>, StorageError>;

/// Delivers commits to the watches they concern, and knows up to which revision it did.
#[derive(Debug)]
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    published: AtomicU64,
    /// The last revision that some watch may have: it is ahead of `published` while a commit is being delivered.
    delivered: AtomicU64,
    /// As in `inner`, readable without waiting for a publisher.
    closed: AtomicBool,
    commits_max: usize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    /// Subscription ids by the bytes that all their keys start with.
    routes: BTreeMap<Bytes, Vec<u64>>,
    subscriptions: BTreeMap<u64, Subscription>,
    last_id: u64,
    closed: bool,
}

#[derive(Debug)]
struct Subscription {
    range: KeyRange,
    /// The first revision that it wants.
    from: Revision,
    sender: UnboundedSender<Item>,
    progress: Arc<Progress>,
    backlog: Arc<Backlog>,
}

/// The result of [`Hub::subscribe`]: everything after `published` comes through `live`.
pub(crate) struct Subscribed {
    pub(crate) id: u64,
    pub(crate) live: UnboundedReceiver<Item>,
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) published: Revision,
    /// The revision right before the first one it delivers.
    pub(crate) after: Revision,
    pub(crate) hub: Weak<Hub>,
}

impl Hub {
    pub(crate) fn new(published: Revision, limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner::default()),
            published: AtomicU64::new(published.0),
            delivered: AtomicU64::new(published.0),
            closed: AtomicBool::new(false),
            commits_max: limits.watch_commits_max,
            bytes_max: limits.watch_bytes_max,
        })
    }

    /// Lock-free.
    pub(crate) fn published(&self) -> Revision {
        Revision(self.published.load(Ordering::Acquire))
    }

    /// A published revision, no older than any event that any watch delivered before the call: a client that has seen an
    /// event must not read an older state. Lock-free but for the moment in which a commit goes out.
    pub(crate) fn fresh(&self) -> Result<Revision, StorageError> {
        self.check_open()?;
        let delivered = Revision(self.delivered.load(Ordering::Acquire));
        if self.published() < delivered {
            // Held by the publisher until it is done.
            drop(self.inner.lock());
        }
        Ok(self.published())
    }

    /// Fails once the hub is closed. Lock-free.
    pub(crate) fn check_open(&self) -> Result<(), StorageError> {
        if self.closed.load(Ordering::Acquire) { Err(StorageError::closed()) } else { Ok(()) }
    }

    /// Subscribes from `from` on, or behind the published revision; atomically with publishing, so that published commits
    /// come from history, later ones through the queue, and none twice.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        range: &KeyRange,
        from: Option<Revision>,
    ) -> Result<Subscribed, StorageError> {
        let (sender, live) = unbounded_channel();
        let (progress, backlog) = (Arc::new(Progress::default()), Arc::new(Backlog::default()));
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(StorageError::closed());
        }
        let published = self.published();
        let after = from.map_or(published, |from| Revision(from.0.saturating_sub(1)));
        progress.sent(after);
        inner.last_id += 1;
        let id = inner.last_id;
        inner.routes.entry(Bytes::copy_from_slice(range.common_prefix())).or_default().push(id);
        let subscription = Subscription {
            range: range.clone(),
            from: from.unwrap_or(Revision::ZERO),
            sender,
            progress: Arc::clone(&progress),
            backlog: Arc::clone(&backlog),
        };
        inner.subscriptions.insert(id, subscription);
        Ok(Subscribed { id, live, backlog, progress, published, after, hub: Arc::downgrade(self) })
    }

    pub(crate) fn unsubscribe(&self, id: u64) {
        // Dropped after the lock is released: a sender's drop wakes its receiver.
        let _gone = self.inner.lock().remove(id);
    }

    /// Starts publishing; nobody subscribes until the publisher is dropped.
    pub(crate) fn publish(&self) -> Publisher<'_> {
        Publisher { hub: self, inner: self.inner.lock() }
    }

    /// Ends every watch with `error`, and refuses new ones.
    pub(crate) fn close(&self, error: &StorageError) {
        let ended = {
            let mut inner = self.inner.lock();
            inner.closed = true;
            self.closed.store(true, Ordering::Release);
            inner.routes.clear();
            std::mem::take(&mut inner.subscriptions)
        };
        for subscription in ended.into_values() {
            // A watcher that is gone needs no goodbye.
            let _ = subscription.sender.send(Err(error.clone()));
        }
    }

    #[cfg(test)]
    fn subscriptions(&self) -> usize {
        self.inner.lock().subscriptions.len()
    }
}

impl Inner {
    fn remove(&mut self, id: u64) -> Option<Subscription> {
        let gone = self.subscriptions.remove(&id)?;
        let at = gone.range.common_prefix();
        if let Some(ids) = self.routes.get_mut(at) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.routes.remove(at);
            }
        }
        Some(gone)
    }

    /// The ids of the subscriptions whose range holds the key.
    fn route(&self, key: &[u8], mut found: impl FnMut(u64)) {
        let mut bound = Bound::Included(key);
        while let Some((at, ids)) = self.routes.range::<[u8], _>((Bound::Unbounded, bound)).next_back() {
            let shared = at.iter().zip(key).take_while(|(a, b)| a == b).count();
            if shared < at.len() {
                bound = Bound::Included(key.get(..shared).unwrap_or_default());
                continue;
            }
            for id in ids {
                if self.subscriptions.get(id).is_some_and(|sub| sub.range.contains(key)) {
                    found(*id);
                }
            }
            bound = Bound::Excluded(key.get(..shared).unwrap_or_default());
        }
    }
}

/// Publishes commits in revision order.
pub(crate) struct Publisher<'a> {
    hub: &'a Hub,
    inner: MutexGuard<'a, Inner>,
}

impl Publisher<'_> {
    /// Publishes one commit. `keys` are those of its events, in their order; `build` is only called if somebody
    /// watches one of them. If it fails, the watches concerned end with its error, since they would have a gap.
    pub(crate) fn commit<'k>(
        &mut self,
        revision: Revision,
        keys: impl Iterator<Item = &'k Key>,
        build: impl FnOnce() -> Result<Vec<Event>, StorageError>,
    ) {
        // By subscription, because that is the order of delivery, whatever the order of keys.
        let mut concerned: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (position, key) in keys.enumerate() {
            self.inner.route(key.as_bytes(), |id| concerned.entry(id).or_default().push(position));
        }
        if !concerned.is_empty() {
            self.hub.delivered.store(revision.0, Ordering::Release);
            let commit = build().map(|events| Arc::new(Commit { revision, events }));
            for (id, positions) in concerned {
                self.deliver(id, &positions, &commit);
            }
        }
        // After every queue has it, as `Storage::published` promises.
        self.hub.published.store(revision.0, Ordering::Release);
    }

    /// Everything up to a revision has been published: revisions without a known event changed nothing of ours.
    pub(crate) fn skip_to(&mut self, revision: Revision) {
        self.hub.published.fetch_max(revision.0, Ordering::AcqRel);
    }

    /// Ends every watch with `error` and goes on after a revision, since what happened before it is not known. Says how
    /// many watches there were.
    pub(crate) fn gap(&mut self, error: &StorageError, after: Revision) -> usize {
        let ids: Vec<u64> = self.inner.subscriptions.keys().copied().collect();
        for id in &ids {
            self.end(*id, error.clone());
        }
        self.skip_to(after);
        ids.len()
    }

    fn deliver(&mut self, id: u64, positions: &[usize], commit: &Result<Arc<Commit>, StorageError>) {
        let Some(subscription) = self.inner.subscriptions.get(&id) else { return };
        let commit = match commit {
            Ok(commit) if commit.revision < subscription.from => return,
            Ok(commit) if commit.events.len() == positions.len() => Arc::clone(commit),
            Ok(commit) => {
                let events = positions.iter().filter_map(|at| commit.events.get(*at)).cloned().collect();
                Arc::new(Commit { revision: commit.revision, events })
            }
            Err(error) => return self.end(id, error.clone()),
        };
        let revision = commit.revision;
        let (commits, bytes) = subscription.backlog.add(commit.bytes());
        // One commit always fits, however large.
        if commits > self.hub.commits_max || (commits > 1 && bytes > self.hub.bytes_max) {
            return self.end(id, StorageError::Compacted { requested: revision, compacted: revision });
        }
        if subscription.sender.send(Ok(commit)).is_ok() {
            subscription.progress.sent(revision);
        }
    }

    fn end(&mut self, id: u64, error: StorageError) {
        if let Some(gone) = self.inner.remove(id) {
            // It gets no more, so no state that it was folded into is complete from here on.
            gone.progress.sent(Revision(u64::MAX));
            let _ = gone.sender.send(Err(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hub() -> Arc<Hub> {
        Hub::new(Revision::ZERO, &Limits { watch_commits_max: 3, ..Limits::default() })
    }

    fn routed(hub: &Hub, key: &[u8]) -> Vec<u64> {
        let mut ids = Vec::new();
        hub.inner.lock().route(key, |id| ids.push(id));
        ids.sort_unstable();
        ids
    }

    #[test]
    fn a_key_reaches_nested_single_and_whole_ranges_only() {
        let hub = hub();
        let whole = hub.subscribe(&KeyRange::prefix(b""), None).unwrap().id;
        let prefix = hub.subscribe(&KeyRange::prefix(b"/a/"), None).unwrap().id;
        let inner = hub.subscribe(&KeyRange::prefix(b"/a/x/"), None).unwrap().id;
        let single = hub.subscribe(&KeyRange::single(&Key::from("/a/x/1")), None).unwrap().id;
        let span = KeyRange { start: Key::from("/a/b"), end: Some(Key::from("/a/z")) };
        let span = hub.subscribe(&span, None).unwrap().id;
        hub.subscribe(&KeyRange::prefix(b"/a/x/0"), None).unwrap();
        hub.subscribe(&KeyRange::prefix(b"/aa/"), None).unwrap();
        assert_eq!(routed(&hub, b"/a/x/1"), [whole, prefix, inner, single, span]);
        assert_eq!(routed(&hub, b"/a/a"), [whole, prefix]);
        assert_eq!(routed(&hub, b"/a/x/12"), [whole, prefix, inner, span]);
        assert_eq!(routed(&hub, b"/"), [whole]);
    }

    #[test]
    fn whoever_saw_an_event_reads_no_older_state() {
        let hub = hub();
        let _watch = hub.subscribe(&KeyRange::prefix(b"/a/"), None).unwrap();
        let mut publisher = hub.publish();
        // As in the middle of a delivery.
        hub.delivered.store(5, Ordering::Release);
        let reader = {
            let hub = Arc::clone(&hub);
            std::thread::spawn(move || hub.fresh())
        };
        publisher.commit(Revision(5), [Key::from("/a/x")].iter(), || Ok(Vec::new()));
        drop(publisher);
        assert_eq!(reader.join().unwrap(), Ok(Revision(5)));
    }

    #[test]
    fn a_dropped_subscription_leaves_nothing() {
        let hub = hub();
        let id = hub.subscribe(&KeyRange::prefix(b"/a/"), None).unwrap().id;
        hub.unsubscribe(id);
        assert_eq!(hub.subscriptions(), 0);
        assert!(hub.inner.lock().routes.is_empty());
    }

    proptest! {
        #[test]
        fn routing_equals_a_linear_scan(
            ranges in prop::collection::vec(("[ab\u{ff}]{0,4}", prop::option::of("[ab\u{ff}]{0,4}"), any::<bool>()), 0..12),
            key in "[ab\u{ff}]{0,5}",
        ) {
            let hub = hub();
            let ranges: Vec<KeyRange> = ranges.into_iter().map(|(start, end, prefix)| {
                if prefix { KeyRange::prefix(start.as_bytes()) }
                else { KeyRange { start: Key::from(start), end: end.map(Key::from) } }
            }).collect();
            let mut expected = Vec::new();
            for range in &ranges {
                let id = hub.subscribe(range, None).unwrap().id;
                if range.contains(key.as_bytes()) { expected.push(id); }
            }
            prop_assert_eq!(routed(&hub, key.as_bytes()), expected);
        }
    }
}

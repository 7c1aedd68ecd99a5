//! The end of events: each goes some time after it was last written (kube-apiserver's `--event-ttl`).
//!
//! kube-apiserver has etcd's leases for that. Here one loop does it on every engine: it reads the events once, follows their
//! commits, and sleeps until the first is due. The time of an event's last write is not stored, so the first look goes by the
//! times that the event itself gives, and none of them counts if it is in the future. A delete is guarded by the revision that
//! was seen, so an event that is written again stays.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use kindom_actor_kit::{BoxError, Deadline, Policy, Reconciler, StartError};
use kindom_api::meta::time;
use kindom_api::{Value, json};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Pages, ResourceHandle};
use kindom_storage::{
    Change, Commit, Compare, Key, KeyRange, KeyValue, Op, Revision, StorageError, Txn, Watch,
};
use tokio::time::{Instant, sleep_until};

use crate::attempt::{STEP, pause};
use crate::error::DrainError;

/// The number of deletes in flight at once: enough to share a durable batch.
const IN_FLIGHT: usize = 64;
/// The wait after a failure before the next try.
const RETRY: Duration = Duration::from_secs(1);
/// The most deletes, or commits, before the others get their turn.
const AT_ONCE: usize = 1024;

/// Starts the loop, as the actor `event-expiry`: events go `ttl` after they were last written; with none, never.
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    events: &ResourceHandle,
    ttl: Duration,
) -> Result<Option<Reconciler>, StartError> {
    if ttl.is_zero() {
        return Ok(None);
    }
    let deps = registry.deps();
    let expiry = Expiry { registry: registry.clone(), events: events.clone(), ttl };
    let arbiter = deps.arbiters.place("event-expiry");
    let started = deps.supervisor.reconcile(
        "event-expiry",
        &arbiter,
        Policy::default(),
        registry.changes(),
        move |_| expiry.clone().run(),
    );
    started.map(Some)
}

#[derive(Clone)]
struct Expiry {
    registry: RegistryHandle,
    events: ResourceHandle,
    ttl: Duration,
}

impl Expiry {
    async fn run(self) -> BoxError {
        let mut failures = 0;
        loop {
            self.registry.leading().await;
            match self.look().await {
                Ok((mut queue, mut watch)) => {
                    failures = 0;
                    if let Err(error) = self.follow(&mut queue, &mut watch).await {
                        tracing::warn!(%error, "the events could not be followed; trying again");
                        pause(&self.registry, 1).await;
                    }
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, failures, "the events could not be read; trying again");
                    pause(&self.registry, failures).await;
                }
            }
        }
    }

    /// All events at one revision, and their commits from there on.
    async fn look(&self) -> Result<(Queue, Watch), DrainError> {
        let (storage, prefix) = (&self.events.deps().storage, self.events.prefix());
        let mut pages = Pages::as_of_first(prefix);
        let (mut queue, mut at) = (Queue::default(), Revision::ZERO);
        while let Some(page) = pages.next(&**storage).await.map_err(DrainError::List)? {
            at = page.revision;
            for kv in page.kvs {
                let due = Instant::now() + self.left(&kv);
                queue.put(kv.key, kv.mod_revision, due);
            }
            tokio::task::yield_now().await;
        }
        let range = KeyRange::prefix(prefix.as_bytes());
        let watch = storage.watch(range, Some(at.next())).await.map_err(DrainError::Check)?;
        Ok((queue, watch))
    }

    /// The time that a stored event has left, by the latest of the times that it gives.
    fn left(&self, kv: &KeyValue) -> Duration {
        let name = std::str::from_utf8(kv.key.as_bytes()).ok();
        let name = name.and_then(|key| key.strip_prefix(self.events.prefix())).unwrap_or_default();
        let object = self.events.stored_object(name, kv.value.clone(), kv.mod_revision);
        let tree = json::parse_own(object.json()).unwrap_or_default();
        let now = self.events.deps().clock.unix_seconds();
        let times: [&[&str]; 4] = [
            &["metadata", "creationTimestamp"],
            &["lastTimestamp"],
            &["eventTime"],
            &["series", "lastObservedTime"],
        ];
        let times = times.iter().filter_map(|path| tree.at(path).and_then(Value::as_str));
        let written = times.filter_map(|text| time::parse(text).ok()).filter(|then| *then <= now).max();
        let age = written.and_then(|then| u64::try_from(now - then).ok()).unwrap_or(0);
        self.ttl.saturating_sub(Duration::from_secs(age))
    }

    /// Deletes what is due, until the watch ends: then everything has to be read again.
    async fn follow(&self, queue: &mut Queue, watch: &mut Watch) -> Result<(), DrainError> {
        loop {
            if !self.registry.is_leader() {
                return Ok(());
            }
            let due = queue.first();
            let is_due = async {
                match due {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let mut next = tokio::select! {
                biased;
                () = is_due => {
                    self.delete(queue).await;
                    watch.commits.try_recv().ok()
                }
                commit = watch.commits.recv() => match commit {
                    Some(commit) => Some(commit),
                    None => return Ok(()),
                },
            };
            for _ in 0..AT_ONCE {
                match next {
                    Some(Ok(commit)) => self.fold(queue, &commit),
                    Some(Err(StorageError::Compacted { .. })) => return Ok(()),
                    Some(Err(error)) => return Err(DrainError::Check(error)),
                    None => break,
                }
                next = watch.commits.try_recv().ok();
            }
            if let Some(Err(error)) = next {
                return Err(DrainError::Check(error));
            }
            if let Some(Ok(commit)) = next {
                self.fold(queue, &commit);
            }
        }
    }

    fn fold(&self, queue: &mut Queue, commit: &Commit) {
        for event in &commit.events {
            match &event.change {
                Change::Put { .. } => {
                    queue.put(event.key.clone(), commit.revision, Instant::now() + self.ttl);
                }
                Change::Delete => queue.remove(&event.key),
            }
        }
    }

    /// Deletes what is due. One that has changed meanwhile comes back with its commit.
    async fn delete(&self, queue: &mut Queue) {
        let delete = |(key, revision): (Key, Revision)| async move {
            let compares = vec![Compare::mod_is(&key, revision)];
            let txn = Txn { compares, ops: vec![Op::Delete(key.clone())] };
            (key, revision, self.events.commit_quietly(txn, Deadline::after(STEP)).await)
        };
        let due = queue.take_due(Instant::now());
        let mut outcomes = stream::iter(due).map(delete).buffer_unordered(IN_FLIGHT);
        while let Some((key, revision, outcome)) = outcomes.next().await {
            if let Err(error) = outcome {
                tracing::warn!(%error, %key, "an event that is due could not be deleted; trying again");
                queue.put(key, revision, Instant::now() + RETRY);
            }
        }
    }
}

/// The events, by the time when they are due.
#[derive(Default)]
struct Queue {
    order: BTreeSet<(Instant, Key)>,
    known: HashMap<Key, (Instant, Revision)>,
}

impl Queue {
    fn put(&mut self, key: Key, revision: Revision, due: Instant) {
        self.remove(&key);
        self.order.insert((due, key.clone()));
        self.known.insert(key, (due, revision));
    }

    fn remove(&mut self, key: &Key) {
        if let Some((key, (due, _))) = self.known.remove_entry(key) {
            self.order.remove(&(due, key));
        }
    }

    /// The time when the first is due.
    fn first(&self) -> Option<Instant> {
        self.order.first().map(|(due, _)| *due)
    }

    /// Takes those that are due, but not too many.
    fn take_due(&mut self, now: Instant) -> Vec<(Key, Revision)> {
        let mut taken = Vec::new();
        while taken.len() < AT_ONCE && self.first().is_some_and(|due| due <= now) {
            let Some((_, key)) = self.order.pop_first() else { break };
            if let Some((_, revision)) = self.known.remove(&key) {
                taken.push((key, revision));
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_written_again_has_its_time_again() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        let key = |name: &str| Key::from(name.to_owned());
        queue.put(key("a"), Revision(1), at(5));
        queue.put(key("b"), Revision(2), at(3));
        assert_eq!(queue.first(), Some(at(3)));
        queue.put(key("b"), Revision(3), at(9));
        assert_eq!(queue.take_due(at(4)), []);
        assert_eq!(queue.take_due(at(7)), [(key("a"), Revision(1))]);
        queue.put(key("c"), Revision(4), at(8));
        queue.remove(&key("c"));
        assert_eq!(queue.take_due(at(20)), [(key("b"), Revision(3))]);
        assert_eq!((queue.first(), queue.known.len()), (None, 0));
    }
}

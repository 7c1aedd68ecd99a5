//! The one watch: publishes its events, and goes on where a broken one ended.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tonic::Status;

use super::Core;
use super::clients::Member;
use super::space::StoredRange;
use super::status::Trouble;
use super::wire::{self, WatchCreateRequest, WatchRequests, WatchResponse, WatchResponses, number, revision};
use crate::{Change, Commit, Event, Key, KeyValue, Revision, StorageError};

/// The longest that a server may take to begin a watch.
const BEGIN: Duration = Duration::from_secs(3);
/// A server that has said nothing for so long, while somebody waits for it, is left.
const SILENCE: Duration = Duration::from_millis(1500);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The reason why a watch ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The revision that it began at lies before this one, to which the server has compacted.
    Compacted(Revision),
    /// The connection, or the server, or nobody knows.
    Broken(String),
    Closed,
}

impl From<Status> for Ended {
    fn from(error: Status) -> Self {
        match Trouble::from(error) {
            Trouble::Lost(why) | Trouble::NotDone(why) | Trouble::Refused(why) => Self::Broken(why),
            other => Self::Broken(format!("{other:?}")),
        }
    }
}

/// Follows the cluster until the store is closed or gone.
pub(super) async fn follow(core: Weak<Core>) {
    let mut at = core.upgrade().map_or(0, |core| core.clients.current());
    let mut pause = PAUSE_MIN;
    // A broken watch is logged once, however often it is tried again.
    let mut is_logged = false;
    loop {
        let Some(core) = core.upgrade() else { return };
        let mut begun = false;
        match core.session(at, &mut begun).await {
            Ended::Closed => return,
            Ended::Compacted(to) => core.gap(to),
            Ended::Broken(why) => {
                is_logged &= !begun;
                let url = core.clients.member(at).map_or("", |member| &member.url);
                if std::mem::replace(&mut is_logged, true) {
                    tracing::debug!(url, why, "etcd: the watch does not begin");
                } else {
                    tracing::warn!(url, why, after = %core.hub.published(), "etcd: the watch broke; it goes on from there");
                }
                // Requests need not find out by themselves; where they go then is likely to be well.
                core.clients.leave(at);
                at = core.clients.current();
                pause = if begun { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
                sleep(pause).await;
            }
        }
    }
}

/// Begins a watch over everything, at `from`: at, not after, because a server that has compacted `from + 1` still
/// takes a watch from there, but no longer has all of it.
pub(super) async fn begin(
    core: &Core,
    member: &Member,
    from: Revision,
) -> Result<(WatchRequests, WatchResponses), Ended> {
    let StoredRange { key, end } = StoredRange::new(core.space.cover());
    // 0 would be "now".
    let create = WatchCreateRequest { key, range_end: end, start_revision: number(from).max(1) };
    match timeout(BEGIN, member.rpc.watch(create)).await {
        Ok(stream) => Ok(stream?),
        Err(_) => Err(Ended::Broken("etcd did not begin the watch in time".to_owned())),
    }
}

impl Core {
    /// Everything up to there counts as published; nobody watches yet.
    pub(super) fn start_at(&self, at: Revision) {
        self.ring.lock().restart(at);
        self.hub.publish().skip_to(at);
    }

    /// Watches through one member; sets `begun` once that member has accepted the watch.
    async fn session(&self, at: usize, begun: &mut bool) -> Ended {
        let Some(member) = self.clients.member(at) else { return Ended::Closed };
        self.trusted.store(false, Ordering::Release);
        let version = match self.version(member).await {
            Ok(version) => version,
            Err(ended) => return ended,
        };
        let (requests, mut responses) = match begin(self, member, self.hub.published()).await {
            Ok(stream) => stream,
            Err(ended) => return ended,
        };
        let trusted = progress_is_trusted(&version);
        self.trusted.store(trusted, Ordering::Release);
        let mut heard = Instant::now();
        loop {
            if self.hub.check_open().is_err() {
                return Ended::Closed;
            }
            tokio::select! {
                message = responses.message() => match message {
                    Ok(Some(message)) => {
                        *begun |= message.created;
                        heard = Instant::now();
                        if let Err(ended) = self.receive(message, trusted) {
                            return ended;
                        }
                    }
                    Ok(None) => return Ended::Broken("etcd ended the watch".to_owned()),
                    Err(error) => return error.into(),
                },
                () = self.progress.notified(), if trusted && *begun => requests.progress(),
                // If requests failed the watch may be dead too, and without a check nobody would notice.
                () = self.clients.left() => if let Err(why) = self.version(member).await {
                    return why;
                },
                // The caller that waits may have begun before this session did.
                () = self.suspect.notified() => if heard.elapsed() >= SILENCE {
                    return Ended::Broken("the watch lags behind".to_owned());
                },
            }
        }
    }

    async fn version(&self, member: &Member) -> Result<String, Ended> {
        match timeout(BEGIN, member.rpc.version()).await {
            Ok(version) => Ok(version?),
            Err(_) => Err(Ended::Broken("etcd did not tell its version in time".to_owned())),
        }
    }

    fn receive(&self, message: WatchResponse, trusted: bool) -> Result<(), Ended> {
        self.accept(&message)?;
        if message.events.is_empty() {
            if trusted && !message.created {
                let reached = message.revision;
                if reached > self.hub.published() {
                    self.hub.publish().skip_to(reached);
                    self.moved.send_replace(());
                }
            }
            return Ok(());
        }
        for commit in commits(self, message) {
            if commit.revision <= self.hub.published() {
                continue;
            }
            self.inside.fetch_max(commit.revision.0, Ordering::AcqRel);
            // Under the publisher's lock, so that a new subscriber finds in the ring everything that was published before.
            let mut publisher = self.hub.publish();
            // A closed store has no subscribers left.
            self.hub.check_open().map_err(|_| Ended::Closed)?;
            self.ring.lock().push(Arc::clone(&commit));
            let keys = commit.events.iter().map(|event| &event.key);
            publisher.commit(commit.revision, keys, || Ok(commit.events.clone()));
        }
        self.moved.send_replace(());
        Ok(())
    }

    /// Fails where the server ended the watch, or is another one than it was.
    pub(super) fn accept(&self, message: &WatchResponse) -> Result<(), Ended> {
        self.check_cluster(message.cluster).map_err(|_| Ended::Closed)?;
        match message.compact_revision {
            _ if !message.canceled => Ok(()),
            0 => Err(Ended::Broken(format!("etcd ended the watch: {}", message.cancel_reason))),
            compacted => Err(Ended::Compacted(revision(compacted))),
        }
    }

    /// Restarts behind a gap: events after the last published revision were compacted before the watch saw them.
    fn gap(&self, compacted: Revision) {
        self.has_compacted(compacted);
        let requested = self.hub.published().next();
        let compacted = compacted.max(requested);
        let mut publisher = self.hub.publish();
        self.ring.lock().restart(compacted);
        let ended = publisher.gap(&StorageError::Compacted { requested, compacted }, compacted);
        drop(publisher);
        if ended > 0 {
            tracing::warn!(from = %requested, to = %compacted, ended, "etcd: history was compacted before it was seen");
        }
        self.moved.send_replace(());
    }
}

/// The commits of a message, in order; of those that concern nobody only the revision.
pub(super) fn commits(core: &Core, message: WatchResponse) -> Vec<Arc<Commit>> {
    let mut commits: Vec<Commit> = Vec::new();
    for event in message.events {
        let kv = event.kv;
        let revision = kv.mod_revision;
        if commits.last().is_none_or(|last| last.revision != revision) {
            commits.push(Commit { revision, events: Vec::new() });
        }
        if let (Some(last), Some(key)) = (commits.last_mut(), core.space.name(&kv.key)) {
            last.events.push(event_of(key, event.deleted, kv, event.prev_kv));
        }
    }
    commits.into_iter().map(Arc::new).collect()
}

fn event_of(key: Key, deleted: bool, kv: wire::KeyValue, prev: Option<wire::KeyValue>) -> Event {
    let change = match deleted {
        true => Change::Delete,
        false => Change::Put { value: Ok(kv.value.into()), create_revision: kv.create_revision },
    };
    let prev = prev.map(|prev| KeyValue {
        key: key.clone(),
        value: Ok(prev.value.into()),
        mod_revision: prev.mod_revision,
        create_revision: prev.create_revision,
    });
    Event { key, change, prev }
}

/// Before 3.4.31 and 3.5.13 a progress notification may run ahead of events (etcd-io/etcd#15220).
fn progress_is_trusted(version: &str) -> bool {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().unwrap_or_default());
    let mut part = || parts.next().unwrap_or_default();
    match (part(), part(), part()) {
        (3, 4, patch) => patch >= 31,
        (3, 5, patch) => patch >= 13,
        (major, minor, _) => (major, minor) >= (3, 6),
    }
}

#[cfg(test)]
mod tests {
    use super::progress_is_trusted;

    #[test]
    fn old_servers_progress_is_not_trusted() {
        for version in ["3.4.31", "3.4.40", "3.5.13", "3.6.0", "3.7.0-rc.1", "4.0.0"] {
            assert!(progress_is_trusted(version), "{version}");
        }
        for version in ["3.4.23", "3.4.30", "3.5.12", "3.5.0-alpha.0", "3.3.99", "", "unknown"] {
            assert!(!progress_is_trusted(version), "{version}");
        }
    }
}

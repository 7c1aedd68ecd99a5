//! Watches: what happened first, then what happens.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::Core;
use super::follow::{Ended, begin, commits};
use super::ring::of_range;
use crate::watch::Held;
use crate::{Applied, Commit, CommitStream, KeyRange, Revision, StorageError, Watch};

/// The number of watches that read history from the server at once, because the ring no longer has it.
pub(super) const AT_ONCE: usize = 4;
/// The longest that the server may be silent while it reads history.
const SILENCE: Duration = Duration::from_secs(10);
/// The number of endpoints that are asked for history.
const TRIES: usize = 3;

impl Core {
    pub(super) async fn watch(
        self: &Arc<Self>,
        range: KeyRange,
        from: Option<Revision>,
    ) -> Result<Watch, StorageError> {
        let from = match from {
            Some(from) => from,
            // Events answered before the call must not come.
            None => self.fresh().await?.next(),
        };
        let subscribed = self.hub.subscribe(&range, Some(from))?;
        let (after, upto, progress) = (subscribed.after, subscribed.published, subscribed.progress);
        // Made before anything can fail: dropping it unsubscribes.
        let commits =
            CommitStream::new(None, subscribed.live, subscribed.hub, subscribed.id, subscribed.backlog);
        let compacted = self.compacted();
        if from <= compacted && compacted > Revision::ZERO {
            return Err(StorageError::Compacted { requested: from, compacted });
        }
        if after >= upto {
            return Ok(Watch { commits, progress });
        }
        let mut recent = self.ring.lock().since(&range, after, upto);
        if let Some(first) = recent.from {
            let mut all = self.past(&range, after, first).await?;
            all.append(&mut recent.commits);
            recent.commits = all;
        }
        if let Some(last) = recent.commits.last() {
            progress.sent(last.revision);
        }
        let commits = commits.after(Held::new(recent.commits));
        Ok(Watch { commits, progress })
    }

    /// The commits that concern a range after `after` and before `until`, by a watch of their own.
    async fn past(
        self: &Arc<Self>,
        range: &KeyRange,
        after: Revision,
        until: Revision,
    ) -> Result<Vec<Arc<Commit>>, StorageError> {
        let _permit = self.pasts.acquire().await.map_err(|_| StorageError::closed())?;
        if self.ring.lock().is_empty() {
            // Nothing that is watched has happened since: something must, or nobody knows when all has come.
            self.mark().await?;
        }
        let mut why = String::new();
        let first = self.clients.current();
        for at in (first..).take(TRIES.max(self.clients.len())) {
            match self.read_past(at, range, after, until).await {
                Ok(Ok(commits)) => return Ok(commits),
                Ok(Err(error)) => return Err(error),
                Err(Ended::Compacted(to)) => {
                    self.has_compacted(to);
                    return Err(StorageError::Compacted {
                        requested: after.next(),
                        compacted: self.compacted(),
                    });
                }
                Err(Ended::Closed) => return Err(StorageError::closed()),
                Err(Ended::Broken(reason)) => why = reason,
            }
        }
        Err(StorageError::Unavailable { reason: why, applied: Applied::No })
    }

    async fn read_past(
        &self,
        at: usize,
        range: &KeyRange,
        after: Revision,
        until: Revision,
    ) -> Result<Result<Vec<Arc<Commit>>, StorageError>, Ended> {
        let member = self.clients.member(at).ok_or(Ended::Closed)?;
        let (_requests, mut responses) = begin(self, member, after).await?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        loop {
            self.hub.check_open().map_err(|_| Ended::Closed)?;
            let message = match timeout(SILENCE, responses.message()).await {
                Ok(message) => message?,
                Err(_) => return Err(Ended::Broken("etcd does not go on with history".to_owned())),
            };
            let Some(message) = message else { return Err(Ended::Broken("etcd ended the watch".to_owned())) };
            self.accept(&message)?;
            for commit in commits(self, message) {
                if commit.revision >= until {
                    return Ok(Ok(found));
                }
                if commit.revision > after
                    && let Some(commit) = of_range(&commit, range)
                {
                    bytes += commit.bytes();
                    found.push(commit);
                }
            }
            if bytes > self.limits.watch_bytes_max {
                let requested = after.next();
                return Ok(Err(StorageError::Compacted { requested, compacted: requested }));
            }
        }
    }

    /// Finds out how far the cluster is compacted, given a revision that lies before that.
    pub(super) async fn learn_compacted(&self, compacted: Revision) -> Result<(), StorageError> {
        if compacted <= self.compacted() {
            return Ok(());
        }
        // Whatever else comes of it, that much is known.
        self.has_compacted(compacted);
        let Some(member) = self.clients.member(self.clients.current()) else { return Ok(()) };
        let Ok((_requests, mut responses)) =
            begin(self, member, Revision(compacted.0.saturating_sub(1))).await
        else {
            return Ok(());
        };
        while let Ok(Ok(Some(message))) = timeout(SILENCE, responses.message()).await {
            match self.accept(&message) {
                Err(Ended::Compacted(to)) => {
                    self.has_compacted(to);
                    break;
                }
                Err(Ended::Broken(_) | Ended::Closed) => break,
                Ok(()) if message.created => {}
                Ok(()) => break,
            }
        }
        Ok(())
    }
}

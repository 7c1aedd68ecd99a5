//! The freshness of the state that this process has seen.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::clients::READ;
use super::status::Trouble;
use super::wire::{RangeRequest, Rpc};
use super::{Core, Head};
use crate::{Applied, Revision, StorageError};

/// The watch usually gets there by itself within this time.
const PATIENCE: Duration = Duration::from_millis(4);
const PATIENCE_MAX: Duration = Duration::from_millis(200);
/// A watch that is so late is taken up elsewhere.
const DEAD: Duration = Duration::from_secs(2);
/// A caller waits no longer than this.
const REACH: Duration = Duration::from_secs(20);

impl Core {
    /// A revision that is at least that of all that was answered before the call, published here.
    pub(super) async fn fresh(self: &Arc<Self>) -> Result<Revision, StorageError> {
        self.hub.check_open()?;
        let head = self.head().await?;
        if self.hub.published() < head {
            self.spawn(|core| async move { core.reach(head).await }).await??;
        }
        Ok(head)
    }

    /// The cluster's revision: one read for all that wait.
    pub(super) async fn head(self: &Arc<Self>) -> Result<Revision, StorageError> {
        let core = Arc::downgrade(self);
        let read = move || {
            let core = core.upgrade();
            async move {
                let core = core.ok_or_else(StorageError::closed)?;
                let published = core.hub.published();
                let head = core.first_head(READ).await.map_err(|trouble| trouble.into_error(true))?;
                core.check_history(head, published)?;
                Ok(head.revision)
            }
        };
        self.heads.ask(&self.runtime, read).await
    }

    /// The cluster's revision, read within `limit`.
    pub(super) async fn first_head(&self, limit: Duration) -> Result<Head, Trouble> {
        let key = self.space.marker().to_bytes();
        let request = RangeRequest { key, keys_only: true, ..RangeRequest::default() };
        let call = |rpc: Rpc| {
            let request = request.clone();
            async move { rpc.range(request).await }
        };
        let found = self.clients.read_within(limit, call).await?;
        Ok(Head { cluster: found.cluster, revision: found.revision })
    }

    /// Waits until everything up to a revision that has happened is published.
    pub(super) async fn reach(self: &Arc<Self>, wanted: Revision) -> Result<(), StorageError> {
        let mut moved = self.moved.subscribe();
        let (start, mut patience) = (Instant::now(), PATIENCE);
        let (mut look, mut dead) = (start + patience, start + DEAD);
        let (mut marked, mut last) = (false, self.hub.published());
        loop {
            moved.mark_unchanged();
            self.hub.check_open()?;
            if self.hub.published() >= wanted {
                return Ok(());
            }
            tokio::select! {
                _ = moved.changed() => continue,
                () = sleep_until(look.min(dead)) => {}
            }
            let now = Instant::now();
            if now >= start + REACH {
                let reason = format!("the watch of etcd has not got to revision {wanted}");
                return Err(StorageError::Unavailable { reason, applied: Applied::No });
            }
            if now >= dead {
                dead = now + DEAD;
                self.suspect.notify_one();
            }
            if now < look {
                continue;
            }
            let published = self.hub.published();
            if std::mem::replace(&mut last, published) < published {
                // While it moves, it gets there.
                look = now + PATIENCE;
            } else {
                patience = (patience * 2).min(PATIENCE_MAX);
                look = now + patience;
                if !self.comes_by_itself(wanted) {
                    let trusted = self.trusted.load(Ordering::Acquire);
                    if trusted {
                        self.progress.notify_one();
                    }
                    // etcd's gRPC proxy drops the question.
                    if !marked && (!trusted || now >= start + DEAD) {
                        marked = matches!(timeout_at(dead, self.mark()).await, Ok(Ok(_)));
                    }
                }
            }
        }
    }

    /// Returns true if an event at or after the revision is certain to arrive without a marker.
    fn comes_by_itself(&self, wanted: Revision) -> bool {
        self.space.covers_all() || wanted.0 <= self.inside.load(Ordering::Acquire)
    }

    /// Makes an event, after everything that was answered before the call; gives back its revision.
    pub(super) async fn mark(self: &Arc<Self>) -> Result<Revision, StorageError> {
        let core = Arc::downgrade(self);
        let write = move || {
            let core = core.upgrade();
            async move {
                let core = core.ok_or_else(StorageError::closed)?;
                let call = |rpc: Rpc| {
                    let key = core.space.marker().to_bytes();
                    async move { rpc.put(key, Bytes::new()).await }
                };
                let revision = core.clients.write(call).await.map_err(|trouble| trouble.into_error(false))?;
                core.inside.fetch_max(revision.0, Ordering::AcqRel);
                Ok(revision)
            }
        };
        self.markers.ask(&self.runtime, write).await
    }
}

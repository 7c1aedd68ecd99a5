//! How far a fold of the commit stream has got, and the way to wait for it without asking the actor that folds.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use kindom_actor_kit::Deadline;
use kindom_storage::{Progress, Revision, Storage};
use tokio::sync::watch;
use tokio::time::timeout_at;

use crate::error::ReadError;

/// The position of a fold that is kept behind an `Arc` beside this: an actor raises it, readers wait on it.
pub struct Feed {
    storage: Arc<dyn Storage>,
    /// The stream of the running incarnation; none while there is none.
    progress: ArcSwapOption<Progress>,
    folded: watch::Sender<Revision>,
}

impl Feed {
    /// Nothing is folded yet.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self { storage, progress: ArcSwapOption::empty(), folded: watch::Sender::new(Revision::ZERO) }
    }

    /// A fresh incarnation has loaded the state at `at`, and continues with this stream.
    pub fn begin(&self, at: Revision, progress: Arc<Progress>) {
        self.progress.store(Some(progress));
        self.folded.send_replace(at);
    }

    /// The incarnation is gone: nothing is known to be fresh until the next one has loaded.
    pub fn end(&self) {
        self.progress.store(None);
        // Whoever waits looks again.
        self.folded.send_modify(|_| ());
    }

    /// Everything up to `revision` is in the state, which was stored before.
    pub fn advance(&self, revision: Revision) {
        self.folded.send_replace(revision);
    }

    /// The revision that the state has reached, to wait on.
    #[must_use]
    pub fn folded(&self) -> watch::Receiver<Revision> {
        self.folded.subscribe()
    }

    /// Whether an incarnation is folding.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.progress.load().is_some()
    }

    /// Whether the state holds every change up to `at`, which was read from the store before the call.
    #[must_use]
    pub fn is_complete_at(&self, at: Revision) -> bool {
        let progress = self.progress.load();
        progress.as_ref().is_some_and(|progress| *self.folded.borrow() >= progress.last_sent().min(at))
    }

    /// Waits until the state holds every change answered anywhere before the call; gives back a revision up to which it
    /// does.
    ///
    /// # Errors
    /// [`ReadError::Timeout`], or what the store says.
    pub async fn fresh(&self, deadline: Deadline) -> Result<Revision, ReadError> {
        let at =
            timeout_at(deadline.instant(), self.storage.fresh()).await.map_err(|_| ReadError::Timeout)??;
        if self.is_complete_at(at) {
            return Ok(at);
        }
        let mut folded = self.folded.subscribe();
        let wait = async {
            loop {
                folded.borrow_and_update();
                if self.is_complete_at(at) {
                    return Ok(at);
                }
                if folded.changed().await.is_err() {
                    return Err(ReadError::Timeout);
                }
            }
        };
        timeout_at(deadline.instant(), wait).await.unwrap_or(Err(ReadError::Timeout))
    }

    /// Waits until the state has reached `revision`.
    ///
    /// # Errors
    /// [`ReadError::Timeout`]
    pub async fn reaches(&self, revision: Revision, deadline: Deadline) -> Result<(), ReadError> {
        if *self.folded.borrow() >= revision {
            return Ok(());
        }
        let mut folded = self.folded.subscribe();
        match timeout_at(deadline.instant(), folded.wait_for(|r| *r >= revision)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ReadError::Timeout),
        }
    }
}

//! The actor: woken by the registry and by what it drains, it reads what is being deleted and drains it.

use std::time::Duration;

use actix::{Actor, AsyncContext as _, Context, WrapFuture as _};
use futures::future::{Either, select, select_all};
use futures::{FutureExt as _, pin_mut};
use kindom_actor_kit::{AskError, Deadline, Woken};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Freshness, ReadError, ResourceHandle, WatchCursor, WriteError};
use kindom_storage::{KeyRange, Revision, StorageError, Watch};

use crate::{namespace, registration};

/// How long one step may take before the world is read again.
pub(crate) const STEP: Duration = Duration::from_secs(10);
/// How long to wait after a failure before trying again.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a pass ended early. Whatever it was, the next one reads the world again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    #[error("the registry: {0}")]
    Ask(#[from] AskError),
    #[error("reading: {0}")]
    Read(#[from] ReadError),
    #[error("writing: {0}")]
    Write(#[from] WriteError),
    #[error("the store: {0}")]
    Storage(#[from] StorageError),
}

/// One incarnation; it knows nothing of its own.
pub(crate) struct FinalizerActor {
    pub(crate) world: World,
}

/// What a pass looks at.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) registry: RegistryHandle,
    pub(crate) registrations: ResourceHandle,
    pub(crate) namespaces: ResourceHandle,
}

impl Actor for FinalizerActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.spawn(self.world.clone().run().into_actor(self));
    }
}

impl World {
    async fn run(self) {
        let mut changes = self.registry.changes();
        let mut namespaces = None;
        loop {
            match self.pass(&mut namespaces).await {
                Ok(held) => wait(&mut changes, &mut namespaces, held).await,
                Err(error) => {
                    tracing::warn!(%error, "draining failed; trying again");
                    namespaces = None;
                    self.registry.deps().clock.sleep(PAUSE).await;
                }
            }
        }
    }

    /// Drains everything that is being deleted, and watches what finalizers still hold.
    async fn pass(&self, namespaces: &mut Option<WatchCursor>) -> Result<Vec<Watch>, ReconcileError> {
        let deadline = Deadline::after(STEP);
        let (snapshot, revision) = self.namespaces.snapshot(Freshness::Latest, deadline).await?;
        if namespaces.is_none() {
            // Before the pass, so that no change after it is missed.
            *namespaces = Some(self.namespaces.watch(revision)?);
        }
        if let Some(cursor) = namespaces {
            // Of what the snapshot shows already nothing needs to be told.
            let _ = cursor.advance();
        }
        self.registry.fresh(deadline).await?;
        let mut held = Vec::new();
        // What fails holds nothing else up.
        let mut failed = Ok(());
        for registered in self.registry.terminating(deadline).await? {
            match registration::finish(self, &registered).await {
                Ok(prefix) => held.extend(prefix),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        for object in snapshot.from_key("").filter(|object| object.deleting()) {
            match namespace::finish(self, object).await {
                Ok(prefixes) => held.extend(prefixes),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed?;
        let storage = &self.registry.deps().storage;
        let mut watches = Vec::with_capacity(held.len());
        for (prefix, from) in held {
            watches.push(storage.watch(KeyRange::prefix(prefix.as_bytes()), Some(from)).await?);
        }
        Ok(watches)
    }
}

/// A prefix that is not empty yet, and the revision from which its changes matter.
pub(crate) type Held = (String, Revision);

/// Waits for a change of a registration, of a namespace, or of anything that is held.
async fn wait(changes: &mut Woken, namespaces: &mut Option<WatchCursor>, held: Vec<Watch>) {
    let registry = changes.woken();
    let namespaces = async {
        match namespaces {
            // An error ends the wait as well: the next pass looks again, with a new cursor.
            Some(cursor) => {
                if cursor.next(usize::MAX).await.is_err() {
                    *namespaces = None;
                }
            }
            None => std::future::pending().await,
        }
    };
    let mut held: Vec<Watch> = held;
    let objects = async {
        if held.is_empty() {
            std::future::pending::<()>().await;
        }
        select_all(held.iter_mut().map(|watch| watch.commits.recv().boxed())).await;
    };
    pin_mut!(registry, namespaces, objects);
    match select(select(registry, namespaces), objects).await {
        Either::Left(_) | Either::Right(_) => {}
    }
}

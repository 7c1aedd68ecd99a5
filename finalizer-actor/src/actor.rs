//! The actor: woken by the registry and by namespaces, it reads what is being deleted and drains each beside the others.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, AsyncContext as _, Context, WrapFuture as _};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use kindom_actor_kit::{AskError, Deadline, Woken};
use kindom_registry_actor::{Registered, RegistryHandle};
use kindom_resource_actor::{Freshness, ReadError, ResourceHandle, StoredObject, WatchCursor, WriteError};
use kindom_storage::Revision;
use tokio::sync::Semaphore;

use crate::drain::DrainError;
use crate::{namespace, registration};

/// How long one step may take before the world is read again.
pub(crate) const STEP: Duration = Duration::from_secs(10);
/// How long to wait after a failure before trying again; twice as long after each further one, up to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// So many drains sweep at once, a page each; more wait for their turn. Those that wait for finalizers do not count.
const SWEEPS_AT_ONCE: usize = 4;

/// Why a step failed. Whatever it was, the next one reads the world again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    #[error("the registry: {0}")]
    Ask(#[from] AskError),
    #[error("reading: {0}")]
    Read(#[from] ReadError),
    #[error("writing: {0}")]
    Write(#[from] WriteError),
    #[error(transparent)]
    Drain(#[from] DrainError),
}

/// One incarnation; it knows nothing of its own.
pub(crate) struct FinalizerActor {
    pub(crate) registry: RegistryHandle,
    pub(crate) registrations: ResourceHandle,
    pub(crate) namespaces: ResourceHandle,
}

/// What drains look at.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) registry: RegistryHandle,
    pub(crate) registrations: ResourceHandle,
    pub(crate) namespaces: ResourceHandle,
    /// Whose turn it is to sweep.
    pub(crate) sweeps: Arc<Semaphore>,
}

impl Actor for FinalizerActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let world = World {
            registry: self.registry.clone(),
            registrations: self.registrations.clone(),
            namespaces: self.namespaces.clone(),
            sweeps: Arc::new(Semaphore::new(SWEEPS_AT_ONCE)),
        };
        ctx.spawn(world.run().into_actor(self));
    }
}

/// Something that is being deleted.
enum Going {
    Registration(Registered),
    Namespace(Arc<StoredObject>),
}

/// Which one: what it is, its name, and its uid, as another of the name may follow.
type Which = (&'static str, String, String);

impl Going {
    fn which(&self) -> Which {
        let which = |kind, object: &StoredObject| (kind, object.name().to_owned(), object.uid().to_owned());
        match self {
            Self::Registration(registered) => which("registration", &registered.object),
            Self::Namespace(object) => which("namespace", object),
        }
    }

    fn revision(&self) -> Revision {
        match self {
            Self::Registration(registered) => registered.object.revision(),
            Self::Namespace(object) => object.revision(),
        }
    }

    fn drain(self, world: World) -> BoxFuture<'static, Revision> {
        match self {
            Self::Registration(registered) => registration::finish(world, registered).boxed(),
            Self::Namespace(object) => namespace::finish(world, object).boxed(),
        }
    }
}

/// The drains under way, and those that came to their end.
#[derive(Default)]
struct Drains {
    running: FuturesUnordered<BoxFuture<'static, (Which, Revision)>>,
    /// None while it runs; then the revision of what is deleted up to which nothing was left to do.
    known: HashMap<Which, Option<Revision>>,
}

impl Drains {
    /// Runs a drain for each of these that has none and has something left to do.
    fn run(&mut self, all: Vec<Going>, world: &World) {
        let mut known = HashMap::with_capacity(all.len());
        for going in all {
            let which = going.which();
            let before = self.known.remove(&which);
            let idle = before.is_none_or(|at| at.is_some_and(|at| at < going.revision()));
            if idle {
                let (world, which) = (world.clone(), which.clone());
                self.running.push(async move { (which, going.drain(world).await) }.boxed());
            }
            known.insert(which, if idle { None } else { before.flatten() });
        }
        // What is gone needs no memory, but a drain that still runs does.
        self.known.retain(|_, at| at.is_none());
        self.known.extend(known);
    }

    /// Does `work` while the drains go on; or returns early, with none, when a drain came to its end.
    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            Some((which, at)) = self.running.next() => {
                self.known.insert(which, Some(at));
                None
            }
        }
    }
}

impl World {
    async fn run(self) {
        let mut changes = self.registry.changes();
        let mut namespaces = None;
        let mut drains = Drains::default();
        loop {
            let Some(look) = drains.beside(self.look(&mut namespaces)).await else { continue };
            match look {
                Ok(going) => {
                    drains.run(going, &self);
                    drains.beside(wait(&mut changes, &mut namespaces)).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "looking for what is being deleted failed; trying again");
                    namespaces = None;
                    drains.beside(self.pause(1)).await;
                }
            }
        }
    }

    /// Everything that is being deleted.
    async fn look(&self, namespaces: &mut Option<WatchCursor>) -> Result<Vec<Going>, ReconcileError> {
        let deadline = Deadline::after(STEP);
        let (snapshot, revision) = self.namespaces.snapshot(Freshness::Latest, deadline).await?;
        if namespaces.is_none() {
            // Before the look, so that no change after it is missed.
            *namespaces = Some(self.namespaces.watch(revision)?);
        }
        if let Some(cursor) = namespaces {
            // Of what the snapshot shows already nothing needs to be told.
            let _ = cursor.advance();
        }
        self.registry.fresh(deadline).await?;
        let registrations = self.registry.terminating(deadline).await?.into_iter().map(Going::Registration);
        let namespaces = snapshot.from_key("").filter(|object| object.deleting()).cloned();
        Ok(registrations.chain(namespaces.map(Going::Namespace)).collect())
    }

    /// Waits after so many failures in a row.
    pub(crate) async fn pause(&self, failures: u32) {
        let doubled = PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(6));
        self.registry.deps().clock.sleep(doubled.min(PAUSE_MAX)).await;
    }
}

/// Waits for a change of a registration or a namespace.
async fn wait(changes: &mut Woken, namespaces: &mut Option<WatchCursor>) {
    let namespace = async {
        match namespaces {
            // An error ends the wait as well: the next look begins a new cursor.
            Some(cursor) => cursor.next(usize::MAX).await.is_err(),
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        biased;
        () = changes.woken() => false,
        ended = namespace => ended,
    };
    if ended {
        *namespaces = None;
    }
}

//! The loop: woken by the registry and by namespaces, it reads the list of everything being deleted and drains all of it
//! concurrently.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kindom_actor_kit::{AskError, BoxError, Deadline, Policy, Reconciler, StartError, Woken};
use kindom_objects::StoredObject;
use kindom_registry_actor::{Registered, RegistryHandle};
use kindom_resource_actor::{Freshness, ResourceHandle, WatchCursor};
use kindom_resource_actor::{ReadError, WriteError};
use kindom_storage::Revision;
use tokio::sync::Semaphore;

use crate::drain::DrainError;
use crate::works::{Which, Work, Works};
use crate::{namespace, registration};

/// The longest that one step may take before the world is read again.
pub(crate) const STEP: Duration = Duration::from_secs(10);
/// The wait after a failure before the next try; it doubles with each further failure, up to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The number of drains that sweep at once, a page each; more wait for their turn. Those that wait for finalizers do not
/// count.
const SWEEPS_AT_ONCE: usize = 4;

/// The reason why a step failed. In any case the next one reads the world again.
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
    #[error("the registration can't be read, so its objects can't be deleted")]
    Unreadable,
}

/// Starts the loop, as the actor `finalizer`, over the type of registrations and that of namespaces.
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    registrations: &ResourceHandle,
    namespaces: &ResourceHandle,
) -> Result<Reconciler, StartError> {
    let deps = registry.deps();
    let (of, registrations, namespaces) = (registry.clone(), registrations.clone(), namespaces.clone());
    deps.supervisor.reconcile(
        "finalizer",
        &deps.arbiters.place("finalizer"),
        Policy::default(),
        registry.changes(),
        move |changes| {
            let world = World {
                registry: of.clone(),
                registrations: registrations.clone(),
                namespaces: namespaces.clone(),
                sweeps: Arc::new(Semaphore::new(SWEEPS_AT_ONCE)),
            };
            world.run(changes)
        },
    )
}

/// The sources that drains read.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) registry: RegistryHandle,
    pub(crate) registrations: ResourceHandle,
    pub(crate) namespaces: ResourceHandle,
    /// Permits to sweep.
    pub(crate) sweeps: Arc<Semaphore>,
}

/// Something that is being deleted.
enum Going {
    Registration(Registered),
    Namespace(Arc<StoredObject>),
}

/// With what its drain looks at.
struct GoingIn(World, Going);

impl Work for GoingIn {
    fn which(&self) -> Which {
        let which = |kind, object: &StoredObject| (kind, object.name().to_owned(), object.uid().to_owned());
        match &self.1 {
            Going::Registration(registered) => which("registration", &registered.object),
            Going::Namespace(object) => which("namespace", object),
        }
    }

    fn revision(&self) -> Revision {
        match &self.1 {
            Going::Registration(registered) => registered.object.revision(),
            Going::Namespace(object) => object.revision(),
        }
    }

    fn run(self) -> BoxFuture<'static, Revision> {
        let Self(world, going) = self;
        match going {
            Going::Registration(registered) => registration::finish(world, registered).boxed(),
            Going::Namespace(object) => namespace::finish(world, object).boxed(),
        }
    }
}

impl World {
    async fn run(self, mut changes: Woken) -> BoxError {
        let mut namespaces = None;
        let mut drains = Works::default();
        loop {
            if drains.beside(self.registry.leading()).await.is_none() {
                continue;
            }
            let Some(look) = drains.beside(self.look(&mut namespaces)).await else { continue };
            match look {
                Ok(going) => {
                    drains.start(going.into_iter().map(|going| GoingIn(self.clone(), going)).collect());
                    drains.beside(wait(&mut changes, &mut namespaces)).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "the list of types and namespaces to drain could not be read; trying again");
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
            // Changes that the snapshot already shows need no wake-up.
            let _ = cursor.advance();
        }
        self.registry.fresh(deadline).await?;
        let registrations = self.registry.terminating(deadline).await?.into_iter().map(Going::Registration);
        let namespaces = snapshot.from_key("").filter(|object| object.deleting()).cloned();
        Ok(registrations.chain(namespaces.map(Going::Namespace)).collect())
    }

    pub(crate) async fn pause(&self, failures: u32) {
        pause(&self.registry, failures).await;
    }
}

/// Waits after so many failures in a row.
pub(crate) async fn pause(registry: &RegistryHandle, failures: u32) {
    let doubled = PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(6));
    registry.deps().clock.sleep(doubled.min(PAUSE_MAX)).await;
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

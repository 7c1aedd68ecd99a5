//! The loop: woken by the registry and by namespaces, it reads the list of everything being deleted and drains all of it
//! concurrently.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kindom_actor_kit::{BoxError, Deadline, Policy, Reconciler, StartError, Woken};
use kindom_objects::StoredObject;
use kindom_registry_actor::{Registered, RegistryHandle};
use kindom_resource_actor::{Freshness, ResourceHandle, WatchCursor};
use kindom_storage::Revision;
use tokio::sync::Semaphore;

use crate::attempt::{DrainDeps, STEP};
use crate::error::ReconcileError;
use crate::tasks::{Task, Tasks, Which};
use crate::{namespace, registration};

/// The number of drains that sweep at once, a page each; more wait for their turn. Those that wait for finalizers do not
/// count.
const SWEEPS_AT_ONCE: usize = 4;

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
            let deps = DrainDeps {
                registry: of.clone(),
                registrations: registrations.clone(),
                namespaces: namespaces.clone(),
                sweeps: Arc::new(Semaphore::new(SWEEPS_AT_ONCE)),
            };
            deps.run(changes)
        },
    )
}

/// Something that is being deleted.
enum Going {
    Registration(Registered),
    Namespace(Arc<StoredObject>),
}

/// With what its drain looks at.
struct GoingIn(DrainDeps, Going);

impl Task for GoingIn {
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
        let Self(deps, going) = self;
        match going {
            Going::Registration(registered) => registration::finish(deps, registered).boxed(),
            Going::Namespace(object) => namespace::finish(deps, object).boxed(),
        }
    }
}

impl DrainDeps {
    async fn run(self, mut changes: Woken) -> BoxError {
        let mut namespaces = None;
        let mut drains = Tasks::default();
        loop {
            if drains.while_running(self.registry.leading()).await.is_none() {
                continue;
            }
            let Some(look) = drains.while_running(self.look(&mut namespaces)).await else { continue };
            match look {
                Ok(going) => {
                    drains.start(going.into_iter().map(|going| GoingIn(self.clone(), going)).collect());
                    drains.while_running(wait(&mut changes, &mut namespaces)).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "the list of types and namespaces to drain could not be read; trying again");
                    namespaces = None;
                    drains.while_running(self.pause(1)).await;
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

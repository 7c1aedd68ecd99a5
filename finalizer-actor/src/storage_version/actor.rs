//! The actor: woken by the registry, it runs a pass for each type that has objects in another version.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, AsyncContext as _, Context, WrapFuture as _};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kindom_actor_kit::Deadline;
use kindom_registry_actor::{Registered, RegistryHandle};
use kindom_resource_actor::ResourceHandle;
use kindom_storage::Revision;
use tokio::sync::Semaphore;

use super::pass;
use crate::actor::{ReconcileError, STEP, pause};
use crate::works::{Which, Work, Works};

/// So many types are read and rewritten at once: it is nobody's hurry.
const PASSES_AT_ONCE: usize = 2;

/// One incarnation; it knows nothing of its own.
pub(crate) struct StorageVersionActor {
    pub(crate) registry: RegistryHandle,
    pub(crate) registrations: ResourceHandle,
    pub(crate) settle: Duration,
}

/// What passes look at.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) registry: RegistryHandle,
    pub(crate) registrations: ResourceHandle,
    /// So long a registration has to stay as it is before its type is looked at.
    pub(crate) settle: Duration,
    /// Whose turn it is to read.
    pub(crate) passes: Arc<Semaphore>,
}

impl Actor for StorageVersionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let world = World {
            registry: self.registry.clone(),
            registrations: self.registrations.clone(),
            settle: self.settle,
            passes: Arc::new(Semaphore::new(PASSES_AT_ONCE)),
        };
        ctx.spawn(world.run().into_actor(self));
    }
}

/// A type with objects in another version, and what its pass looks at.
struct Outdated(World, Registered);

impl Work for Outdated {
    fn which(&self) -> Which {
        ("registration", self.1.name.clone(), self.1.object.uid().to_owned())
    }

    fn revision(&self) -> Revision {
        self.1.object.revision()
    }

    fn run(self) -> BoxFuture<'static, Revision> {
        pass::finish(self.0, self.1).boxed()
    }
}

impl World {
    async fn run(self) {
        let mut changes = self.registry.changes();
        let mut passes = Works::default();
        loop {
            if passes.beside(self.registry.leading()).await.is_none() {
                continue;
            }
            let Some(look) = passes.beside(self.look()).await else { continue };
            match look {
                Ok(outdated) => {
                    passes.start(outdated.into_iter().map(|of| Outdated(self.clone(), of)).collect());
                    passes.beside(changes.woken()).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "looking for stored versions failed; trying again");
                    passes.beside(pause(&self.registry, 1)).await;
                }
            }
        }
    }

    async fn look(&self) -> Result<Vec<Registered>, ReconcileError> {
        Ok(self.registry.outdated(Deadline::after(STEP)).await?)
    }
}

//! The loop: woken by the registry, it runs a pass for each type that has objects in another version.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kindom_actor_kit::{BoxError, Deadline, Policy, Reconciler, StartError, Woken};
use kindom_registry_actor::{Registered, RegistryHandle};
use kindom_resource_actor::ResourceHandle;
use kindom_storage::Revision;
use tokio::sync::Semaphore;

use super::pass::{self, RewriteDeps};
use crate::attempt::{STEP, pause};
use crate::error::ReconcileError;
use crate::tasks::{Task, Tasks, Which};

/// The number of types read and rewritten at once: the rewrite is not urgent.
const PASSES_AT_ONCE: usize = 2;

/// A registration stays as it is for so long before its objects are rewritten: a client that has just read it, or an
/// object, and writes it back meets no write of the server's own in between.
pub const SETTLE: Duration = Duration::from_secs(30);

/// Starts the loop, as the actor `storage-version`, over the type of registrations. It leaves a type alone until its
/// registration has stayed as it is for `settle` ([`SETTLE`] unless a test is about something else).
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    registrations: &ResourceHandle,
    settle: Duration,
) -> Result<Reconciler, StartError> {
    let deps = registry.deps();
    let (of, registrations) = (registry.clone(), registrations.clone());
    deps.supervisor.reconcile(
        "storage-version",
        &deps.arbiters.place("storage-version"),
        Policy::default(),
        registry.changes(),
        move |changes| {
            let deps = RewriteDeps {
                registry: of.clone(),
                registrations: registrations.clone(),
                settle,
                passes: Arc::new(Semaphore::new(PASSES_AT_ONCE)),
            };
            deps.run(changes)
        },
    )
}

/// A type with objects in another version, and what its pass looks at.
struct Outdated(RewriteDeps, Registered);

impl Task for Outdated {
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

impl RewriteDeps {
    async fn run(self, mut changes: Woken) -> BoxError {
        let mut passes = Tasks::default();
        loop {
            if passes.while_running(self.registry.leading()).await.is_none() {
                continue;
            }
            let Some(look) = passes.while_running(self.look()).await else { continue };
            match look {
                Ok(outdated) => {
                    passes.start(outdated.into_iter().map(|of| Outdated(self.clone(), of)).collect());
                    passes.while_running(changes.woken()).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "the list of types to rewrite could not be read; trying again");
                    passes.while_running(pause(&self.registry, 1)).await;
                }
            }
        }
    }

    async fn look(&self) -> Result<Vec<Registered>, ReconcileError> {
        Ok(self.registry.outdated(Deadline::after(STEP)).await?)
    }
}

//! The public face of the storage version actor.

use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::{Policy, StartError, Supervised};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::ResourceHandle;

use super::actor::StorageVersionActor;

/// The time that a registration stays as it is before its objects are rewritten: whoever has just read it, or an object, and
/// writes it back meets no write of the server's own in between.
pub const SETTLE: Duration = Duration::from_secs(30);

/// The storage version actor: there is nothing to ask of it.
pub struct StorageVersionHandle {
    _actor: Supervised<StorageVersionActor>,
}

impl StorageVersionHandle {
    /// Starts it over the type of registrations. It leaves a type alone until its registration has stayed as it is for
    /// `settle` ([`SETTLE`] unless a test is about something else).
    ///
    /// # Errors
    /// [`StartError`]
    pub fn start(
        registry: &RegistryHandle,
        registrations: &ResourceHandle,
        settle: Duration,
    ) -> Result<Self, StartError> {
        let deps = Arc::clone(registry.deps());
        let arbiter = deps.arbiters.place("storage-version");
        let (registry, registrations) = (registry.clone(), registrations.clone());
        let actor = deps.supervisor.start("storage-version", &arbiter, Policy::default(), move |_| {
            let actor = StorageVersionActor {
                registry: registry.clone(),
                registrations: registrations.clone(),
                settle,
            };
            async move { Ok(actor) }
        })?;
        Ok(Self { _actor: actor })
    }
}

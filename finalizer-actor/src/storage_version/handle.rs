//! The public face of the storage version actor.

use std::sync::Arc;

use kindom_actor_kit::{Policy, StartError, Supervised};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::ResourceHandle;

use super::actor::StorageVersionActor;

/// The storage version actor: there is nothing to ask of it.
pub struct StorageVersionHandle {
    _actor: Supervised<StorageVersionActor>,
}

impl StorageVersionHandle {
    /// Starts it over the type of registrations.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn start(registry: &RegistryHandle, registrations: &ResourceHandle) -> Result<Self, StartError> {
        let deps = Arc::clone(registry.deps());
        let arbiter = deps.arbiters.place("storage-version");
        let (registry, registrations) = (registry.clone(), registrations.clone());
        let actor = deps.supervisor.start("storage-version", &arbiter, Policy::default(), move |_| {
            let actor =
                StorageVersionActor { registry: registry.clone(), registrations: registrations.clone() };
            async move { Ok(actor) }
        })?;
        Ok(Self { _actor: actor })
    }
}

//! The public face of the finalizer actor.

use std::sync::Arc;

use kindom_actor_kit::{Policy, StartError, Supervised};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::ResourceHandle;

use crate::actor::FinalizerActor;

/// The finalizer actor: there is nothing to ask of it.
pub struct FinalizerHandle {
    _actor: Supervised<FinalizerActor>,
}

impl FinalizerHandle {
    /// Starts it over the type of registrations and that of namespaces.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn start(
        registry: &RegistryHandle,
        registrations: &ResourceHandle,
        namespaces: &ResourceHandle,
    ) -> Result<Self, StartError> {
        let deps = Arc::clone(registry.deps());
        let arbiter = deps.arbiters.place("finalizer");
        let (registry, registrations, namespaces) =
            (registry.clone(), registrations.clone(), namespaces.clone());
        let actor = deps.supervisor.start("finalizer", &arbiter, Policy::default(), move |_| {
            let actor = FinalizerActor {
                registry: registry.clone(),
                registrations: registrations.clone(),
                namespaces: namespaces.clone(),
            };
            async move { Ok(actor) }
        })?;
        Ok(Self { _actor: actor })
    }
}

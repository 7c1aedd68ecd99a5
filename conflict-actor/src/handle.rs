//! The public face of the conflict actor.

use kindom_actor_kit::{Policy, StartError, Supervised};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::ResourceHandle;

use crate::actor::ConflictActor;

/// The conflict actor: there is nothing to ask of it.
pub struct ConflictHandle {
    _actor: Supervised<ConflictActor>,
}

impl ConflictHandle {
    /// Starts it. `registrations` is the type of registrations themselves; ledger keys start with `ledger`.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn start(
        registry: &RegistryHandle,
        registrations: &ResourceHandle,
        ledger: &str,
    ) -> Result<Self, StartError> {
        let deps = registry.deps();
        let arbiter = deps.arbiters.place("conflict");
        let (registry, registrations, ledger) = (registry.clone(), registrations.clone(), ledger.to_owned());
        let supervisor = deps.supervisor.clone();
        let actor = supervisor.start("conflict", &arbiter, Policy::default(), move |_| {
            let actor = ConflictActor {
                registry: registry.clone(),
                registrations: registrations.clone(),
                ledger: ledger.clone(),
            };
            async move { Ok(actor) }
        })?;
        Ok(Self { _actor: actor })
    }
}

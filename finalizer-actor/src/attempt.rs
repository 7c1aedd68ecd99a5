//! An attempt at a drain or a rewrite: the parts of the server that it needs, its time, and the wait for the next one.

use std::sync::Arc;
use std::time::Duration;

use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::ResourceHandle;
use kindom_storage::{Storage, StorageError};
use tokio::sync::Semaphore;

/// The longest that one step may take before the world is read again.
pub(crate) const STEP: Duration = Duration::from_secs(10);
/// The wait after a failure before the next try; it doubles with each further failure, up to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The parts of the server that drains need.
#[derive(Clone)]
pub(crate) struct DrainDeps {
    pub(crate) registry: RegistryHandle,
    pub(crate) registrations: ResourceHandle,
    pub(crate) namespaces: ResourceHandle,
    /// Permits to sweep.
    pub(crate) sweeps: Arc<Semaphore>,
}

impl DrainDeps {
    pub(crate) async fn pause(&self, failures: u32) {
        pause(&self.registry, failures).await;
    }
}

/// Waits after so many failures in a row.
pub(crate) async fn pause(registry: &RegistryHandle, failures: u32) {
    let doubled = PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(6));
    registry.deps().clock.sleep(doubled.min(PAUSE_MAX)).await;
}

/// Waits until reads of the store show the commits that a watch of it has delivered: an event may come just before.
pub(crate) async fn catch_up(storage: &dyn Storage) -> Result<(), StorageError> {
    if storage.is_local() { storage.fresh().await.map(drop) } else { Ok(()) }
}

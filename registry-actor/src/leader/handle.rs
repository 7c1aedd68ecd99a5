//! The public face of the leader's loop.

use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::{Policy, Reconciler, StartError, Wake};
use kindom_storage::{Compare, Key, KeyValue, Op, RangeRequest, Storage, Txn};
use tokio::time::timeout;

use super::STEP;
use super::keeper::Keeper;
use crate::RegistryHandle;

/// The actor `leader`. [`RegistryHandle::is_leader`] has its findings.
pub struct LeaderHandle {
    lease: Lease,
    keeper: Reconciler,
}

/// The lease, and who we are.
#[derive(Clone)]
pub(super) struct Lease {
    pub(super) registry: RegistryHandle,
    pub(super) key: Key,
    /// Of this process.
    pub(super) identity: Arc<str>,
}

impl Lease {
    pub(super) fn storage(&self) -> &dyn Storage {
        &*self.registry.deps().storage
    }

    pub(super) fn request(&self) -> RangeRequest {
        RangeRequest::single(&self.key)
    }

    /// Returns true if the lease is ours. A lease that cannot be read belongs to no replica.
    pub(super) fn is_ours(&self, held: &KeyValue) -> bool {
        held.value.as_ref().is_ok_and(|value| *value == *self.identity.as_bytes())
    }

    /// Lets it go, if it is ours.
    async fn release(&self) {
        let Ok(found) = self.storage().range(self.request()).await else { return };
        let Some(held) = found.kvs.first().filter(|kv| self.is_ours(kv)) else {
            return;
        };
        let compares = vec![Compare::mod_is(&self.key, held.mod_revision)];
        let _ = self.storage().txn(Txn { compares, ops: vec![Op::Delete(self.key.clone())] }).await;
    }
}

impl LeaderHandle {
    /// From now on the replica that holds the lease at `key` leads; without it, every process does.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn start(registry: &RegistryHandle, key: Key) -> Result<Self, StartError> {
        let deps = Arc::clone(registry.deps());
        let lease = Lease { registry: registry.clone(), key, identity: deps.entropy.uuid_v4().into() };
        registry.lead(false);
        let arbiter = deps.arbiters.place("leader");
        let kept = lease.clone();
        // Only its own clock wakes it.
        let never = Wake::new().listen();
        let keeper = deps.supervisor.reconcile("leader", &arbiter, Policy::default(), never, move |_| {
            Keeper::new(kept.clone()).run()
        })?;
        Ok(Self { lease, keeper })
    }

    /// Leads no more, and lets another replica lead at once; gives up after a while.
    pub async fn resign(self) {
        self.keeper.stop().await;
        self.lease.registry.lead(false);
        let _ = timeout(STEP.min(Duration::from_secs(1)), self.lease.release()).await;
    }
}

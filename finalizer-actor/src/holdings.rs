//! The holdings of objects that another server stored, or that came with a snapshot: kube-apiserver holds ports of nodes in a
//! bitmap, which nobody reads here. Each object gets the holdings that nobody holds yet, as upstream's repair loops do.
//!
//! Sources: `pkg/registry/core/service/ipallocator/controller/repairip.go`,
//! `pkg/registry/core/service/portallocator/controller/repair.go` (1.37).

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kindom_actor_kit::{Deadline, Reconciler, StartError};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Freshness, ResourceHandle};
use kindom_storage::StoredValue;

use crate::attempt::STEP;
use crate::error::ReconcileError;
use crate::follower::{self, Settle};

/// Starts the loop for the objects of a type, as the actor `holdings`.
///
/// # Errors
/// [`StartError`]
pub fn start(registry: &RegistryHandle, holders: &ResourceHandle) -> Result<Reconciler, StartError> {
    follower::start("holdings", registry, Repair { holders: holders.clone() })
}

#[derive(Clone)]
struct Repair {
    holders: ResourceHandle,
}

impl Settle for Repair {
    fn types(&self) -> Vec<ResourceHandle> {
        vec![self.holders.clone()]
    }

    fn due(&self, _: usize, of: &str, value: Option<&StoredValue>) -> Option<String> {
        value.map(|_| of.to_owned())
    }

    fn settle<'a>(&'a self, key: &'a str) -> LocalBoxFuture<'a, Result<(), ReconcileError>> {
        async move {
            let (objects, _) = self.holders.snapshot(Freshness::Any, Deadline::after(STEP)).await?;
            if let Some(object) = objects.get(key) {
                self.holders.hold(object, Deadline::after(STEP)).await?;
            }
            Ok(())
        }
        .boxed_local()
    }
}

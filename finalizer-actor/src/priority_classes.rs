//! The two PriorityClasses of the system. They are made where they are missing; nobody may delete them, or change their values
//! (`pkg/registry/scheduling/rest/storage_scheduling.go`, 1.37).

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kindom_actor_kit::{Deadline, Reconciler, StartError};
use kindom_api::Value;
use kindom_objects::kinds::priority_class::of_system;
use kindom_objects::{PlanError, RuleContext};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{ResourceHandle, Target, WriteOptions};
use kindom_storage::StoredValue;

use crate::attempt::STEP;
use crate::error::ReconcileError;
use crate::follower::{self, Settle};
use crate::provision::{stored, unless_it_is_settled};

/// Starts the loop, as the actor `system-priority-classes`.
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    classes: &ResourceHandle,
    object_bytes_max: usize,
) -> Result<Reconciler, StartError> {
    let classes = SystemClasses { classes: classes.clone(), object_bytes_max };
    follower::start("system-priority-classes", registry, classes)
}

#[derive(Clone)]
struct SystemClasses {
    classes: ResourceHandle,
    object_bytes_max: usize,
}

impl Settle for SystemClasses {
    fn types(&self) -> Vec<ResourceHandle> {
        vec![self.classes.clone()]
    }

    fn reads(&self, _: usize) -> bool {
        false
    }

    fn begin(&self) -> Vec<String> {
        of_system().map(|(name, _)| name.to_owned()).collect()
    }

    fn due(&self, _: usize, of: &str, value: Option<&StoredValue>) -> Option<String> {
        let is_missing = value.is_none() && of_system().any(|(name, _)| name == of);
        is_missing.then(|| of.to_owned())
    }

    fn settle<'a>(&'a self, name: &'a str) -> LocalBoxFuture<'a, Result<(), ReconcileError>> {
        self.make(name).boxed_local()
    }
}

impl SystemClasses {
    async fn make(&self, name: &str) -> Result<(), ReconcileError> {
        let Some((_, class)) = of_system().find(|(known, _)| *known == name) else { return Ok(()) };
        if stored(&self.classes, None, name).await?.is_some() {
            return Ok(());
        }
        let mut wanted = |cx: &RuleContext<'_>, _: &Value| {
            let mut class = class.clone();
            cx.spec.strategy.decode(cx, &mut class, None).map_err(PlanError::Internal)?;
            Ok(class)
        };
        let options = WriteOptions::by_server(Deadline::after(STEP), self.object_bytes_max);
        let place = Target { version: "v1", subresource: None, namespace: None, name: "" };
        self.classes.create(place, &mut wanted, &options).await.map(drop).or_else(unless_it_is_settled)
    }
}

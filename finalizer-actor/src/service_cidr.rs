//! The ServiceCIDR `kubernetes`, which shows the ranges from which services get their addresses. It comes back if somebody
//! deletes it, and becomes ready if it has the server's ranges (`pkg/controlplane/controller/defaultservicecidr`, 1.37).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kindom_actor_kit::{Deadline, Reconciler, StartError};
use kindom_api::{Value, object};
use kindom_objects::kinds::service::ServiceNetwork;
use kindom_objects::{PlanError, RuleContext, Subresource};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{ResourceHandle, Target, WriteOptions};
use kindom_storage::StoredValue;

use crate::attempt::STEP;
use crate::error::ReconcileError;
use crate::follower::{self, Settle};
use crate::provision::{stored, unless_it_is_settled};

const NAME: &str = "kubernetes";
const READY: &str = "Kubernetes default Service CIDR is ready";

/// Starts the loop, as the actor `default-service-cidr`.
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    handle: &ResourceHandle,
    network: &ServiceNetwork,
    object_bytes_max: usize,
) -> Result<Reconciler, StartError> {
    let (first, second) = network.addresses;
    let ranges = [Some(first), second].into_iter().flatten().map(|range| Value::from(range.to_string()));
    let keeper = Keeper {
        handle: handle.clone(),
        ranges: ranges.collect(),
        is_logged: Arc::default(),
        object_bytes_max,
    };
    follower::start("default-service-cidr", registry, keeper)
}

#[derive(Clone)]
struct Keeper {
    handle: ResourceHandle,
    ranges: Vec<Value>,
    /// The log has it that the ranges differ.
    is_logged: Arc<AtomicBool>,
    object_bytes_max: usize,
}

impl Settle for Keeper {
    fn types(&self) -> Vec<ResourceHandle> {
        vec![self.handle.clone()]
    }

    fn begin(&self) -> Vec<String> {
        vec![NAME.to_owned()]
    }

    fn due(&self, _: usize, of: &str, _: Option<&StoredValue>) -> Option<String> {
        (of == NAME).then(|| NAME.to_owned())
    }

    fn settle<'a>(&'a self, _: &'a str) -> LocalBoxFuture<'a, Result<(), ReconcileError>> {
        self.keep().boxed_local()
    }
}

/// The next write of the object; each comes back as a change, after which the next one is due.
#[derive(Clone, Copy)]
enum Writing {
    Create,
    AddRange,
    MakeReady,
}

impl Keeper {
    async fn keep(&self) -> Result<(), ReconcileError> {
        let step = match stored(&self.handle, None, NAME).await? {
            None => Writing::Create,
            Some(object) => {
                let Some(step) = self.step(&object) else { return Ok(()) };
                step
            }
        };
        let mut wanted = |cx: &RuleContext<'_>, before: &Value| {
            let mut object = before.clone();
            if before.is_null() {
                object = object! {
                    "apiVersion": "networking.k8s.io/v1",
                    "kind": "ServiceCIDR",
                    "metadata": object! { "name": NAME },
                };
            }
            if let Some(object) = object.as_object_mut() {
                match step {
                    Writing::Create | Writing::AddRange => {
                        object.insert("spec", object! { "cidrs": self.ranges.clone() });
                    }
                    Writing::MakeReady => {
                        let ready = object! {
                            "type": "Ready",
                            "status": "True",
                            "reason": "",
                            "message": READY,
                            "lastTransitionTime": cx.now,
                        };
                        object.insert(
                            "status",
                            object! { "conditions": others(before).chain([ready]).collect::<Vec<_>>() },
                        );
                    }
                }
            }
            cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::Internal)?;
            Ok(object)
        };
        let options = WriteOptions::by_server(Deadline::after(STEP), self.object_bytes_max);
        let place = Target { version: "v1", subresource: None, namespace: None, name: "" };
        let written = match step {
            Writing::Create => self.handle.create(place, &mut wanted, &options).await,
            Writing::AddRange => {
                let place = Target { name: NAME, ..place };
                self.handle.update(place, true, &mut wanted, &options).await
            }
            Writing::MakeReady => {
                let place = Target { name: NAME, subresource: Some(Subresource::Status), ..place };
                self.handle.update(place, true, &mut wanted, &options).await
            }
        };
        written.map(drop).or_else(unless_it_is_settled)
    }

    /// The write that the object still needs (`sync` and `syncStatus`).
    fn step(&self, object: &Value) -> Option<Writing> {
        let ranges = object.at(&["spec", "cidrs"]).and_then(Value::as_array).unwrap_or_default();
        if self.ranges.len() > 1 && ranges.len() == 1 && ranges.first() == self.ranges.first() {
            return Some(Writing::AddRange);
        }
        if object.at(&["metadata", "deletionTimestamp"]).is_some() {
            return None;
        }
        if ranges != self.ranges {
            if !self.is_logged.swap(true, Ordering::Relaxed) {
                tracing::warn!("the ServiceCIDR kubernetes has other ranges than --service-cluster-ip-range");
            }
            return None;
        }
        let ready = conditions(object).iter().find(|condition| is_ready(condition));
        // Somebody who has said that it is not ready has a reason.
        let is_decided = ready.is_some_and(|ready| matches!(ready.text_at(&["status"]), "True" | "False"));
        (!is_decided).then_some(Writing::MakeReady)
    }
}

fn conditions(object: &Value) -> &[Value] {
    object.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default()
}

fn is_ready(condition: &Value) -> bool {
    condition.text_at(&["type"]) == "Ready"
}

fn others(object: &Value) -> impl Iterator<Item = Value> {
    conditions(object).iter().filter(|condition| !is_ready(condition)).cloned()
}

//! The statuses of ValidatingAdmissionPolicies: the warnings about expressions whose types are wrong for the objects that a policy
//! is about. Each generation of a policy is checked once, with the types as they are then.
//!
//! Source: `pkg/controller/validatingadmissionpolicystatus/controller.go` (1.37).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kindom_actor_kit::{Deadline, Reconciler, StartError};
use kindom_api::{GroupVersionKind, Value, object};
use kindom_objects::admission::{ExpressionWarning, KnownTypes, type_warnings};
use kindom_objects::{PlanError, Subresource, TypeSpec};
use kindom_registry_actor::{RegistryHandle, RouteTable};
use kindom_resource_actor::{Apply, ResourceHandle, Target, WriteError, WriteOptions};
use kindom_storage::StoredValue;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::attempt::STEP;
use crate::error::ReconcileError;
use crate::follower::{self, Settle};
use crate::provision::{stored, unless_it_is_settled};

/// The longest that one policy is checked, in which others wait.
const CHECK_MAX: Duration = Duration::from_secs(5);

/// The manager of the fields that the loop sets.
const MANAGER: &str = "validatingadmissionpolicy-status";

/// Starts the loop, as the actor `validating-admission-policy-status`.
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    policies: &ResourceHandle,
    object_bytes_max: usize,
) -> Result<Reconciler, StartError> {
    let checks = PolicyChecks { registry: registry.clone(), policies: policies.clone(), object_bytes_max };
    follower::start("validating-admission-policy-status", registry, checks)
}

#[derive(Clone)]
struct PolicyChecks {
    registry: RegistryHandle,
    policies: ResourceHandle,
    object_bytes_max: usize,
}

impl Settle for PolicyChecks {
    fn types(&self) -> Vec<ResourceHandle> {
        vec![self.policies.clone()]
    }

    fn due(&self, _: usize, of: &str, value: Option<&StoredValue>) -> Option<String> {
        value.map(|_| of.to_owned())
    }

    fn settle<'a>(&'a self, policy: &'a str) -> LocalBoxFuture<'a, Result<(), ReconcileError>> {
        self.settle_policy(policy).boxed_local()
    }
}

impl PolicyChecks {
    async fn settle_policy(&self, name: &str) -> Result<(), ReconcileError> {
        let Some(policy) = stored(&self.policies, None, name).await? else { return Ok(()) };
        let number = |path: &[&str]| policy.at(path).and_then(Value::as_i64).unwrap_or_default();
        let generation = number(&["metadata", "generation"]);
        if generation <= number(&["status", "observedGeneration"]) {
            return Ok(());
        }
        let checked = Checked { uid: policy.text_at(&["metadata", "uid"]).to_owned(), generation };
        // A policy comes with the types that it is about, and is checked once.
        self.registry.fresh(Deadline::after(STEP)).await?;
        let table = self.registry.routes().table();
        // Far from the threads of actors: all expressions for all kinds take a while.
        let warnings = spawn_blocking(move || type_warnings(&policy, &Served::new(table))).await;
        let warnings = warnings.map_err(|lost| ReconcileError::TypeCheck(lost.to_string()))?;
        let has_warnings = !warnings.is_empty();
        match self.write(name, &checked, warnings).await {
            Err(error) if does_not_fit(&error) && has_warnings => {
                tracing::warn!(policy = name, %error, "warnings about types do not fit beside the policy");
                self.write(name, &checked, Vec::new()).await
            }
            written => written,
        }
        .or_else(|error| match error {
            error if does_not_fit(&error) || matches!(error, WriteError::Plan(PlanError::Invalid { .. })) => {
                // It would be the same the next time.
                tracing::warn!(policy = name, %error, "the status of a policy cannot be written");
                Ok(())
            }
            error => unless_it_is_settled(error),
        })
    }

    async fn write(
        &self,
        name: &str,
        checked: &Checked,
        warnings: Vec<ExpressionWarning>,
    ) -> Result<(), WriteError> {
        let warning = |of: ExpressionWarning| object! { "fieldRef": of.field, "warning": of.warning };
        let warnings: Vec<Value> = warnings.into_iter().map(warning).collect();
        let found = match warnings.is_empty() {
            true => object! {},
            false => object! { "expressionWarnings": warnings },
        };
        let patch = object! {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": object! { "name": name },
            "status": object! { "observedGeneration": checked.generation, "typeChecking": found },
        };
        let mut still = |object: &mut Value, _| match checked.is_of(object) {
            true => Ok(()),
            false => Err(PlanError::NotFound { name: name.to_owned() }.into()),
        };
        let mut apply = Apply { patch: Ok(patch), force: true, check: &mut still };
        let options = WriteOptions {
            manager: MANAGER.to_owned(),
            ..WriteOptions::by_server(Deadline::after(STEP), self.object_bytes_max)
        };
        let place = Target { version: "v1", subresource: Some(Subresource::Status), namespace: None, name };
        self.policies.apply(place, &mut apply, &options).await.map(drop)
    }
}

/// The state of a policy that was checked.
struct Checked {
    uid: String,
    generation: i64,
}

impl Checked {
    /// False for a later state, or another policy of the name: its own change makes it due.
    fn is_of(&self, policy: &Value) -> bool {
        let generation = policy.at(&["metadata", "generation"]).and_then(Value::as_i64);
        policy.text_at(&["metadata", "uid"]) == self.uid && generation == Some(self.generation)
    }
}

fn does_not_fit(error: &WriteError) -> bool {
    matches!(error, WriteError::Plan(PlanError::TooLarge { .. }) | WriteError::RequestTooLarge(_))
}

/// The types that are served.
struct Served {
    table: Arc<RouteTable>,
    /// By their plural and singular names, without regard to case; of each, in the order of their groups.
    by_name: BTreeMap<String, Vec<Arc<TypeSpec>>>,
    until: Instant,
}

impl Served {
    fn new(table: Arc<RouteTable>) -> Self {
        let mut types: Vec<Arc<TypeSpec>> =
            table.groups().flat_map(|(_, types)| types.values()).filter_map(ResourceHandle::spec).collect();
        types.sort_by(|a, b| a.group.cmp(&b.group));
        let mut by_name = BTreeMap::<String, Vec<Arc<TypeSpec>>>::new();
        for spec in types {
            let names =
                BTreeSet::from([&spec.names.plural, &spec.names.singular].map(|name| name.to_lowercase()));
            for name in names {
                by_name.entry(name).or_default().push(Arc::clone(&spec));
            }
        }
        Self { table, by_name, until: Instant::now() + CHECK_MAX }
    }
}

impl KnownTypes for Served {
    type Found = Arc<TypeSpec>;

    fn named(&self, resource: &str) -> Vec<Arc<TypeSpec>> {
        self.by_name.get(&resource.to_lowercase()).cloned().unwrap_or_default()
    }

    fn has_time(&self) -> bool {
        Instant::now() < self.until
    }

    fn of_kind(&self, kind: &GroupVersionKind) -> Option<Arc<TypeSpec>> {
        self.table.of_kind(kind)?.spec()
    }
}

//! The statuses of ValidatingAdmissionPolicies: the warnings about expressions whose types are wrong for the objects that a policy
//! is about. Each generation of a policy is looked at once, so later changes of those types are not.
//!
//! Source: `pkg/controller/validatingadmissionpolicystatus/controller.go` (1.37).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kindom_actor_kit::{Deadline, Reconciler, StartError};
use kindom_api::{GroupVersionKind, Value, object};
use kindom_objects::admission::{ExpressionWarning, KnownTypes, type_warnings};
use kindom_objects::{Subresource, TypeSpec};
use kindom_registry_actor::{RegistryHandle, RouteTable};
use kindom_resource_actor::{Apply, ResourceHandle, Target, WriteOptions};
use kindom_storage::StoredValue;
use tokio::task::spawn_blocking;

use crate::attempt::STEP;
use crate::error::ReconcileError;
use crate::follower::{self, Settle};
use crate::provision::{stored, unless_it_is_settled};

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
        let table = self.registry.routes().table();
        // Far from the threads of actors: all expressions for all kinds take a while.
        let warnings = spawn_blocking(move || type_warnings(&policy, &Served::new(table))).await;
        let warnings = warnings.map_err(|lost| ReconcileError::Lost(lost.to_string()))?;
        self.write(name, generation, warnings).await
    }

    async fn write(
        &self,
        name: &str,
        generation: i64,
        warnings: Vec<ExpressionWarning>,
    ) -> Result<(), ReconcileError> {
        let warning = |of: ExpressionWarning| object! { "fieldRef": of.field, "warning": of.warning };
        let warnings: Vec<Value> = warnings.into_iter().map(warning).collect();
        let checked = match warnings.is_empty() {
            true => object! {},
            false => object! { "expressionWarnings": warnings },
        };
        let patch = object! {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": object! { "name": name },
            "status": object! { "observedGeneration": generation, "typeChecking": checked },
        };
        let mut apply = Apply { patch: Ok(patch), force: true, check: &mut |_, _| Ok(()) };
        let options = WriteOptions {
            manager: MANAGER.to_owned(),
            ..WriteOptions::by_server(Deadline::after(STEP), self.object_bytes_max)
        };
        let place = Target { version: "v1", subresource: Some(Subresource::Status), namespace: None, name };
        let written = self.policies.apply(place, &mut apply, &options).await;
        written.map(drop).or_else(unless_it_is_settled)
    }
}

/// The types that are served.
struct Served {
    table: Arc<RouteTable>,
    /// By their plural and singular names, without regard to case; of each, in the order of their groups.
    by_name: BTreeMap<String, Vec<Arc<TypeSpec>>>,
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
        Self { table, by_name }
    }
}

impl KnownTypes for Served {
    type Found = Arc<TypeSpec>;

    fn named(&self, group: &str, version: &str, resource: &str) -> Vec<Arc<TypeSpec>> {
        let named = self.by_name.get(&resource.to_lowercase()).into_iter().flatten();
        let is_meant = |spec: &&Arc<TypeSpec>| {
            (group.is_empty() || spec.group == group) && spec.version(version).is_some_and(|of| of.served)
        };
        named.filter(is_meant).cloned().collect()
    }

    fn of_kind(&self, kind: &GroupVersionKind) -> Option<Arc<TypeSpec>> {
        self.table.of_kind(kind)?.spec()
    }
}

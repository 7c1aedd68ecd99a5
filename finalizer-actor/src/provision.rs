//! The objects that every namespace has: the service account `default`, and the ConfigMap `kube-root-ca.crt`, by which clients
//! verify the server; and the Service `kubernetes` of the namespace `default`, whose endpoints `endpoints.rs` keeps. They come
//! with the namespace, and come back if somebody deletes them.
//!
//! Sources: `pkg/controller/serviceaccount/serviceaccounts_controller.go`,
//! `pkg/controller/certificates/rootcacertpublisher/publisher.go`,
//! `pkg/controlplane/controller/kubernetesservice/controller.go` (1.37).

use std::net::IpAddr;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kindom_actor_kit::{Deadline, Reconciler, StartError};
use kindom_api::{Value, json, object};
use kindom_objects::{PlanError, RuleContext, TypeSpec};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{ResourceHandle, Target, WriteError, WriteOptions};
use kindom_storage::{Key, RangeRequest, StoredValue};

use crate::attempt::STEP;
use crate::error::{DrainError, ReconcileError};
use crate::follower::{self, Settle};

const ACCOUNT: &str = "default";
/// The namespace and the name of the Service by which pods reach the server, and of its endpoints.
pub(crate) const DEFAULT: &str = "default";
pub(crate) const SERVICE: &str = "kubernetes";
const AUTHORITIES: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
                           internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
                           Kubernetes clusters.";

/// The types that the loops use.
#[derive(Clone)]
pub struct Types {
    /// Namespaces.
    pub namespaces: ResourceHandle,
    /// ServiceAccounts.
    pub accounts: ResourceHandle,
    /// ConfigMaps.
    pub config_maps: ResourceHandle,
    /// Secrets.
    pub secrets: ResourceHandle,
    /// Services.
    pub services: ResourceHandle,
    /// Endpoints.
    pub endpoints: ResourceHandle,
    /// EndpointSlices.
    pub endpoint_slices: ResourceHandle,
    /// The largest object, encoded, in bytes.
    pub object_bytes_max: usize,
}

/// Starts the loop that makes service accounts, as the actor `service-accounts`.
///
/// # Errors
/// [`StartError`]
pub fn accounts(registry: &RegistryHandle, types: &Types) -> Result<Reconciler, StartError> {
    let handle = types.accounts.clone();
    let object = object! { "apiVersion": "v1", "kind": "ServiceAccount" };
    let made = Made { handle, name: ACCOUNT, object, kept: &[] };
    follower::start("service-accounts", registry, Provision { types: types.clone(), within: None, made })
}

/// Starts the loop that publishes the authorities, PEM, as the actor `root-authorities`.
///
/// # Errors
/// [`StartError`]
pub fn authorities(
    registry: &RegistryHandle,
    types: &Types,
    authorities_pem: &str,
) -> Result<Reconciler, StartError> {
    let handle = types.config_maps.clone();
    let object = object! {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": object! { "annotations": object! { "kubernetes.io/description": DESCRIPTION } },
        "data": object! { "ca.crt": authorities_pem },
    };
    let made = Made { handle, name: AUTHORITIES, object, kept: &[&["data"]] };
    follower::start("root-authorities", registry, Provision { types: types.clone(), within: None, made })
}

/// Starts the loop that makes the Service `kubernetes` of this address, behind which the server listens on a port, as the
/// actor `kubernetes-service`.
///
/// # Errors
/// [`StartError`]
pub fn kubernetes_service(
    registry: &RegistryHandle,
    types: &Types,
    address: IpAddr,
    port: u16,
) -> Result<Reconciler, StartError> {
    let handle = types.services.clone();
    let address = address.to_string();
    let ports =
        vec![object! { "name": "https", "port": 443, "protocol": "TCP", "targetPort": i64::from(port) }];
    let object = object! {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object! { "labels": object! { "component": "apiserver", "provider": "kubernetes" } },
        "spec": object! {
            "clusterIP": address.as_str(),
            "clusterIPs": vec![Value::from(address.as_str())],
            "ports": ports,
        },
    };
    let made = Made { handle, name: SERVICE, object, kept: &[] };
    let provision = Provision { types: types.clone(), within: Some(DEFAULT), made };
    follower::start("kubernetes-service", registry, provision)
}

/// One object in every namespace, or in one.
#[derive(Clone)]
struct Provision {
    types: Types,
    /// The only namespace that has it.
    within: Option<&'static str>,
    made: Made,
}

/// An object that the server makes where it is missing.
#[derive(Clone)]
pub(crate) struct Made {
    /// Its type, which has a version `v1`.
    pub(crate) handle: ResourceHandle,
    pub(crate) name: &'static str,
    /// The object, apart from its name and its namespace.
    pub(crate) object: Value,
    /// The paths of the fields that are put right if somebody changes them.
    pub(crate) kept: &'static [&'static [&'static str]],
}

impl Settle for Provision {
    fn types(&self) -> Vec<ResourceHandle> {
        vec![self.types.namespaces.clone(), self.made.handle.clone()]
    }

    /// Every namespace is looked at; what other objects of the kind there are says nothing.
    fn reads(&self, place: usize) -> bool {
        place == 0
    }

    fn due(&self, place: usize, of: &str, value: Option<&StoredValue>) -> Option<String> {
        let has_it = |namespace: &str| self.within.is_none_or(|within| within == namespace);
        if place == 0 {
            return value.filter(|_| has_it(of)).map(|_| of.to_owned());
        }
        let (namespace, name) = of.split_once('/')?;
        let matters = name == self.made.name && (value.is_none() || !self.made.kept.is_empty());
        (matters && has_it(namespace)).then(|| namespace.to_owned())
    }

    fn settle<'a>(&'a self, namespace: &'a str) -> LocalBoxFuture<'a, Result<(), ReconcileError>> {
        self.provide(namespace).boxed_local()
    }
}

impl Provision {
    async fn provide(&self, namespace: &str) -> Result<(), ReconcileError> {
        let found = self.types.namespaces.get(namespace, Deadline::after(STEP)).await?;
        if found.is_none_or(|namespace| namespace.deleting()) {
            return Ok(());
        }
        self.made.put(&self.types, namespace).await
    }
}

impl Made {
    /// Makes it, or puts it right.
    pub(crate) async fn put(&self, types: &Types, namespace: &str) -> Result<(), ReconcileError> {
        let stored = stored(&self.handle, Some(namespace), self.name).await?;
        let is_right = |stored: &Value| self.kept.iter().all(|kept| stored.at(kept) == self.object.at(kept));
        if stored.as_ref().is_some_and(is_right) {
            return Ok(());
        }
        let mut wanted = |cx: &RuleContext<'_>, stored: &Value| {
            let mut object = if stored.is_null() { self.object.clone() } else { stored.clone() };
            set(&mut object, &["metadata", "name"], self.name.into());
            set(&mut object, &["metadata", "namespace"], namespace.into());
            for kept in self.kept {
                set(&mut object, kept, self.object.at(kept).cloned().unwrap_or_default());
            }
            cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::Internal)?;
            Ok(object)
        };
        let options = options(types);
        let place = Target { version: "v1", subresource: None, namespace: Some(namespace), name: "" };
        let written = match stored {
            None => self.handle.create(place, &mut wanted, &options).await,
            Some(_) => {
                let place = Target { name: self.name, ..place };
                self.handle.update(place, true, &mut wanted, &options).await
            }
        };
        written.map(drop).or_else(unless_it_is_settled)
    }
}

/// Sets a field; objects on the way to it are made.
fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((field, rest)) = path.split_first() else {
        *object = value;
        return;
    };
    if let Some(object) = object.as_object_mut() {
        set(object.entry_or_insert_with(field, || object! {}), rest, value);
    }
}

/// The options of a write in a namespace that has to be there.
pub(crate) fn options(types: &Types) -> WriteOptions {
    let by_server = WriteOptions::by_server(Deadline::after(STEP), types.object_bytes_max);
    WriteOptions { namespaces: Some(types.namespaces.clone()), ..by_server }
}

/// An object as the store has it. The type's actor stays asleep: there may be very many objects, and this loop needs one.
pub(crate) async fn stored(
    handle: &ResourceHandle,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Value>, ReconcileError> {
    let key = TypeSpec::object_key(namespace, name);
    let request = RangeRequest::single(&Key::from(format!("{}{key}", handle.prefix())));
    let found = handle.deps().storage.range(request).await.map_err(DrainError::Check)?;
    Ok(found.kvs.into_iter().next().map(|kv| {
        let object = handle.stored_object(&key, kv.value, kv.mod_revision);
        json::parse_own(object.json()).unwrap_or_default()
    }))
}

/// A write that came too late: the object is there, or its namespace goes; or it goes itself, which comes back as a change.
pub(crate) fn unless_it_is_settled(error: WriteError) -> Result<(), ReconcileError> {
    match error {
        WriteError::Plan(
            PlanError::AlreadyExists { .. }
            | PlanError::NotFound { .. }
            | PlanError::NamespaceNotFound { .. }
            | PlanError::NamespaceTerminating { .. },
        ) => Ok(()),
        error => Err(error.into()),
    }
}

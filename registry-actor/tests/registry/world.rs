//! A registry over a store in memory; also of the crates that ask the registry.
#![allow(dead_code, reason = "each test binary that includes this uses its part")]

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kindom_actor_kit::{ActorTable, Arbiters, Entropy, simulation};
use kindom_api::{Value, json, object};
use kindom_objects::kinds::registration::custom_resource_definitions;
use kindom_objects::{Removal, RuleContext, Subresource, TypeSpec};
use kindom_registry_actor::{RegistryHandle, RegistryOptions};
pub(crate) use kindom_resource_actor::testing::{FaultyStore, brief, decoded, options, soon};
use kindom_resource_actor::{Deps, ResourceHandle, Target, WatchCursor, WriteError, WriteOptions, Written};
use kindom_storage::{Key, Memory, Op, RangeRequest, Revision, Storage};

pub(crate) struct World {
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) table: ActorTable,
    pub(crate) entropy: Entropy,
    pub(crate) deps: Arc<Deps>,
    pub(crate) registrations: ResourceHandle,
    pub(crate) built_in: Vec<ResourceHandle>,
    pub(crate) registry: RegistryHandle,
}

pub(crate) const CRDS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
pub(crate) const IDLE: Duration = Duration::from_secs(300);

/// On one thread, in virtual time: with everything waiting, time jumps, so a test that waits for what never comes fails.
pub(crate) fn run<F: Future<Output = ()>>(
    seed: u64,
    pauses: u64,
    built_in: Vec<TypeSpec>,
    test: impl FnOnce(World) -> F,
) {
    kindom_actor_kit::install_panic_hook();
    let test = async {
        // The sweep keeps time going, so a wait without end has to be found out.
        let day = Duration::from_secs(24 * 3600);
        tokio::time::timeout(day, test(World::start(seed, pauses, built_in)))
            .await
            .expect("it waits for ever");
    };
    simulation::run(test).unwrap();
}

impl World {
    fn start(seed: u64, pauses: u64, built_in: Vec<TypeSpec>) -> Self {
        let entropy = Entropy::seeded(seed);
        let store = FaultyStore::new(Memory::new(), entropy.fork(), pauses, 0);
        Self::over(store, entropy, built_in)
    }

    /// Another server over the same store, with calls as slow and watches as late as given.
    pub(crate) fn replica(&self, pauses: u64, lag: u64, built_in: Vec<TypeSpec>) -> Self {
        let entropy = self.entropy.fork();
        let store = FaultyStore::new(self.store.inner.clone(), entropy.fork(), pauses, lag);
        Self::over(store, entropy, built_in)
    }

    fn over(store: FaultyStore, entropy: Entropy, built_in: Vec<TypeSpec>) -> Self {
        let (table, store) = (ActorTable::new(), Arc::new(store));
        let deps = store.deps(Arbiters::current().unwrap(), &table, &entropy);
        let handle = |spec| ResourceHandle::new(Arc::clone(&deps), Arc::new(spec));
        let registrations = handle(custom_resource_definitions());
        let built_in: Vec<_> = built_in.into_iter().map(handle).collect();
        let options = RegistryOptions { idle_after: IDLE, ..RegistryOptions::default() };
        let registry =
            RegistryHandle::start_with(Arc::clone(&deps), &registrations, built_in.clone(), options).unwrap();
        Self { store, table, entropy, deps, registrations, built_in, registry }
    }

    /// POST of a registration.
    pub(crate) async fn post(&self, crd: &Value) -> Result<Written, WriteError> {
        let mut wanted = |cx: &RuleContext<'_>, _: &Value| decoded(cx, crd);
        self.registrations.create(cluster(""), &mut wanted, &options()).await
    }

    /// PUT of what `change` makes of a registration.
    pub(crate) async fn edit(
        &self,
        name: &str,
        subresource: Option<Subresource>,
        mut change: impl FnMut(&mut Value) + Send,
    ) -> Result<Written, WriteError> {
        let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
            let mut object = old.clone();
            change(&mut object);
            decoded(cx, &object)
        };
        let target = Target { subresource, ..cluster(name) };
        self.registrations.update(target, true, &mut wanted, &options()).await
    }

    /// DELETE of a registration.
    pub(crate) async fn delete(&self, name: &str) -> Result<Written, WriteError> {
        self.registrations.delete(cluster(name), &Removal::default(), &options()).await
    }

    /// A registration as it is stored; none if it is not.
    pub(crate) async fn crd(&self, name: &str) -> Option<Value> {
        let found = self.registrations.get(name, soon()).await.unwrap()?;
        Some(json::parse(found.json()).unwrap())
    }

    /// `Type=Status Reason` of each condition.
    pub(crate) async fn conditions(&self, name: &str) -> Vec<String> {
        shown(&self.crd(name).await.unwrap())
    }

    /// Puts a registration into the store as one that holds all the names it asks for.
    pub(crate) fn put_established(&self, crd: &Value) -> Revision {
        let mut crd = crd.clone();
        let names = crd.at(&["spec", "names"]).unwrap().clone();
        let condition = |kind: &str, reason: &str| {
            object! {
                "type": kind, "status": "True", "reason": reason, "message": "m",
                "lastTransitionTime": "2023-11-14T22:13:20Z"
            }
        };
        let conditions =
            vec![condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted")];
        let root = crd.as_object_mut().unwrap();
        root.insert(
            "status",
            object! { "acceptedNames": names, "conditions": conditions, "storedVersions": vec!["v1"] },
        );
        let metadata = root.get_mut("metadata").unwrap().as_object_mut().unwrap();
        metadata.insert("uid", self.entropy.uuid_v4());
        let name = metadata.get("name").unwrap().as_str().unwrap().to_owned();
        self.put(&format!("{CRDS}{name}"), crd.to_vec())
    }

    pub(crate) fn put(&self, key: &str, value: impl Into<Bytes>) -> Revision {
        self.store.put(key, value)
    }

    /// Removes a key, as the last step of a drain does.
    pub(crate) fn remove(&self, key: &str) -> Revision {
        self.store.commit(vec![Op::Delete(Key::from(key))])
    }

    /// The keys under a prefix.
    pub(crate) fn keys(&self, prefix: &str) -> Vec<String> {
        let request = RangeRequest { keys_only: true, ..RangeRequest::prefix(prefix.as_bytes()) };
        let found = futures::FutureExt::now_or_never(self.store.inner.range(request)).unwrap().unwrap();
        found.kvs.iter().map(|kv| kv.key.to_string()).collect()
    }

    /// Waits until a change of `handle` leaves things so that `done` says yes.
    pub(crate) async fn until(&self, handle: &ResourceHandle, done: impl AsyncFn() -> bool) {
        let mut cursor = handle.watch(self.store.published()).unwrap();
        while !done().await {
            cursor.next(usize::MAX).await.unwrap();
        }
    }

    /// Waits until the registration's conditions show this.
    pub(crate) async fn until_shown(&self, name: &str, condition: &str) {
        let shows = async || {
            self.crd(name).await.is_some_and(|crd| shown(&crd).iter().any(|c| c.starts_with(condition)))
        };
        self.until(&self.registrations, shows).await;
    }

    /// Waits until the message of the registration's `NamesAccepted` has this text.
    pub(crate) async fn until_told(&self, name: &str, text: &str) {
        let tells = async || {
            let crd = self.crd(name).await.unwrap_or_default();
            let conditions = crd.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
            let said =
                |c: &Value, field: &str| c.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            conditions.iter().any(|c| said(c, "type") == "NamesAccepted" && said(c, "message").contains(text))
        };
        self.until(&self.registrations, tells).await;
    }

    /// Waits until the registration is gone.
    pub(crate) async fn until_gone(&self, name: &str) {
        self.until(&self.registrations, async || self.crd(name).await.is_none()).await;
    }

    /// The served type, once the routes show all that was answered.
    pub(crate) async fn routed(&self, group: &str, plural: &str) -> Option<ResourceHandle> {
        self.registry.fresh(soon()).await.unwrap();
        self.registry.routes().get(group, plural)
    }

    pub(crate) async fn yields(&self, most: u64) {
        for _ in 0..self.entropy.below(most) {
            tokio::task::yield_now().await;
        }
    }
}

pub(crate) fn shown(crd: &Value) -> Vec<String> {
    let text = |c: &Value, field: &str| c.get(field).unwrap().as_str().unwrap().to_owned();
    let conditions = crd.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    conditions
        .iter()
        .map(|c| format!("{}={} {}", text(c, "type"), text(c, "status"), text(c, "reason")))
        .collect()
}

pub(crate) fn cluster(name: &str) -> Target<'_> {
    Target { version: "v1", subresource: None, namespace: None, name }
}

/// A registration in `g.io`, of a kind whose name is the plural's without its last letter.
pub(crate) fn crd(plural: &str) -> Value {
    let singular = &plural[..plural.len() - 1];
    let kind = format!("{}{}", singular[..1].to_uppercase(), &singular[1..]);
    crd_named(plural, singular, &kind, &format!("{kind}List"), &[])
}

pub(crate) fn crd_named(plural: &str, singular: &str, kind: &str, list_kind: &str, short: &[&str]) -> Value {
    let short: Vec<Value> = short.iter().map(|s| Value::from(*s)).collect();
    let schema = object! { "type": "object", "x-kubernetes-preserve-unknown-fields": true };
    let version = object! {
        "name": "v1", "served": true, "storage": true, "schema": object! { "openAPIV3Schema": schema }
    };
    let mut names = object! { "plural": plural, "singular": singular, "kind": kind, "listKind": list_kind };
    if !short.is_empty() {
        names.as_object_mut().unwrap().insert("shortNames", short);
    }
    object! {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": object! { "name": format!("{plural}.g.io") },
        "spec": object! {
            "group": "g.io", "names": names, "scope": "Namespaced", "versions": vec![version],
            "conversion": object! { "strategy": "None" }
        }
    }
}

/// Creates an object of a type of [`crd`].
pub(crate) async fn create(
    handle: &ResourceHandle,
    namespace: &str,
    name: &str,
    finalizers: &[&str],
    namespaces: Option<ResourceHandle>,
) -> Result<Written, WriteError> {
    let mut wanted = |cx: &RuleContext<'_>, _: &Value| {
        let mut object = object! {
            "apiVersion": cx.spec.api_version("v1"), "kind": cx.spec.names.kind.as_str(),
            "metadata": object! { "name": name }
        };
        if !finalizers.is_empty() {
            let list: Vec<Value> = finalizers.iter().map(|f| Value::from(*f)).collect();
            object.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("finalizers", list);
        }
        decoded(cx, &object)
    };
    let target = Target { version: "v1", subresource: None, namespace: Some(namespace), name: "" };
    let options = WriteOptions { namespaces, ..options() };
    handle.create(target, &mut wanted, &options).await
}

/// Takes all finalizers off an object.
pub(crate) async fn release(
    handle: &ResourceHandle,
    namespace: &str,
    name: &str,
) -> Result<Written, WriteError> {
    let mut wanted = |_: &RuleContext<'_>, old: &Value| {
        let mut object = old.clone();
        object.get_mut("metadata").unwrap().as_object_mut().unwrap().remove("finalizers");
        Ok(object)
    };
    let target = Target { version: "v1", subresource: None, namespace: Some(namespace), name };
    handle.update(target, true, &mut wanted, &options()).await
}

/// The next `count` events.
pub(crate) async fn events(cursor: &mut WatchCursor, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(brief(&cursor.next(count - all.len()).await.unwrap()));
    }
    all
}

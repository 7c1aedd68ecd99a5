//! Drains from end to end: registry and finalizer actor over a store in memory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, missing_docs, reason = "tests")]

mod kills;
mod namespaces;
mod registrations;
mod replicas;
mod roles;
mod storage_versions;
#[path = "../../../registry-actor/tests/registry/world.rs"]
mod world;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;

use kindom_api::{Value, json, object};
use kindom_objects::Removal;
use kindom_resource_actor::WriteError;
use kindom_resource_actor::{ResourceHandle, Written};
use world::{World, cluster, options};

/// A world with namespaces and a finalizer actor.
pub(crate) fn run<F: Future<Output = ()>>(seed: u64, pauses: u64, test: impl FnOnce(World) -> F) {
    let built_in = vec![kindom_objects::kinds::namespace::namespaces()];
    world::run(seed, pauses, built_in, |world| async move {
        let namespaces = &world.built_in[0];
        kindom_finalizer_actor::start(&world.registry, &world.registrations, namespaces).unwrap();
        test(world).await;
    });
}

/// The refusals of a create by a type, or a namespace, that is being deleted or gone.
pub(crate) const GOING: [&str; 4] = ["NamespaceTerminating", "NamespaceNotFound", "Forbidden", "Gone"];

/// The outcomes of writes that race with a deletion.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    stored: Cell<usize>,
    refused: RefCell<BTreeMap<String, usize>>,
}

impl Tally {
    /// Counts one. Panics if it was refused with anything but one of these variants of [`WriteError`], or of a plan's error.
    #[track_caller]
    pub(crate) fn count<T>(&self, outcome: Result<T, WriteError>, may: &[&str]) {
        let Err(error) = outcome else { return self.stored.set(self.stored.get() + 1) };
        let all = match error {
            WriteError::Plan(error) => format!("{error:?}"),
            error => format!("{error:?}"),
        };
        let variant = all.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        assert!(may.contains(&variant), "{all}");
        *self.refused.borrow_mut().entry(variant.to_owned()).or_default() += 1;
    }

    /// Panics unless some were stored and some refused: else nothing raced.
    #[track_caller]
    pub(crate) fn both(&self) {
        assert!(self.stored.get() > 0 && !self.refused.borrow().is_empty(), "{self:?}");
    }
}

/// The number of histories to try.
pub(crate) fn seeds(short: u64, full: u64) -> u64 {
    if std::env::var_os("KINDOM_TEST_FULL").is_some() { full } else { short }
}

pub(crate) const NAMESPACES: &str = "/registry/namespaces/";

impl World {
    pub(crate) fn namespaces(&self) -> ResourceHandle {
        self.built_in[0].clone()
    }

    /// Registers a type that holds its names, and gives it back.
    pub(crate) async fn established(&self, plural: &str) -> ResourceHandle {
        self.put_established(&world::crd(plural));
        self.routed("g.io", plural).await.unwrap()
    }

    pub(crate) async fn make_namespace(&self, name: &str) {
        let namespaces = self.namespaces();
        let mut wanted = |cx: &kindom_objects::RuleContext<'_>, _: &Value| {
            let mut object =
                object! { "apiVersion": "v1", "kind": "Namespace", "metadata": object! { "name": name } };
            cx.spec.strategy.decode(cx, &mut object, None).unwrap();
            Ok(object)
        };
        namespaces.create(cluster(""), &mut wanted, &options()).await.unwrap();
    }

    pub(crate) async fn delete_namespace(&self, name: &str) -> Result<Written, WriteError> {
        self.namespaces().delete(cluster(name), &Removal::default(), &options()).await
    }

    pub(crate) async fn namespace(&self, name: &str) -> Option<Value> {
        let found = self.namespaces().get(name, world::soon()).await.unwrap()?;
        Some(json::parse(found.json()).unwrap())
    }

    pub(crate) async fn until_no_namespace(&self, name: &str) {
        self.until(&self.namespaces(), async || self.namespace(name).await.is_none()).await;
    }

    /// Waits until the namespace's condition says this.
    pub(crate) async fn until_namespace_says(&self, name: &str, message: &str) {
        let says = async || {
            let text = self.namespace(name).await.map(|tree| tree.to_string()).unwrap_or_default();
            text.contains(message)
        };
        self.until(&self.namespaces(), says).await;
    }
}

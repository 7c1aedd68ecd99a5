//! Types over a faulty store, which the tests share.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use kindom_actor_kit::{ActorTable, Arbiters, Entropy, simulation};
use kindom_api::{Value, json, object};
use kindom_objects::{
    BuiltInVersion, CustomObjects, Names, Removal, RuleContext, Scope, StoredObject, Strategy, TypeSpec,
};
pub(crate) use kindom_resource_actor::testing::{Answers, FaultyStore, brief, decoded, options, soon};
use kindom_resource_actor::{
    Deps, Freshness, ObjectEvent, ResourceHandle, Target, WatchCursor, WriteError, WriteOptions, Written,
};
use kindom_schema::columns::Columns;
use kindom_storage::{Change, Key, KeyRange, Memory, Op, Revision, Storage, Txn, TxnOutcome};

pub(crate) struct World {
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) table: ActorTable,
    pub(crate) deps: Arc<Deps>,
    pub(crate) entropy: Entropy,
}

impl World {
    pub(crate) fn new(arbiters: Arbiters, seed: u64, pauses: u64) -> Self {
        let entropy = Entropy::seeded(seed);
        let table = ActorTable::new();
        let store = Arc::new(FaultyStore::new(Memory::new(), entropy.fork(), pauses, 0));
        let deps = store.deps(arbiters, &table, &entropy);
        Self { store, table, deps, entropy }
    }

    /// Stores a registration of `widgets.g.io` and gives back its type.
    pub(crate) fn widgets(&self) -> ResourceHandle {
        ResourceHandle::new(Arc::clone(&self.deps), self.registered(&registration(&["v1"], &schema()), None))
    }

    /// Stores this registration; the type it describes.
    pub(crate) fn registered(&self, tree: &Value, before: Option<&TypeSpec>) -> Arc<TypeSpec> {
        self.registered_with(tree, Arc::new(CustomObjects), before)
    }

    pub(crate) fn registered_with(
        &self,
        tree: &Value,
        strategy: Arc<dyn Strategy>,
        before: Option<&TypeSpec>,
    ) -> Arc<TypeSpec> {
        let revision = self.put(REGISTRATION, &tree.to_string());
        let object = Arc::new(StoredObject::new("widgets.g.io", tree.to_vec().into(), revision));
        let key = Key::from(REGISTRATION);
        Arc::new(TypeSpec::from_registration(key, &object, tree, strategy, before).unwrap())
    }

    /// Changes the registration of a type, as the registry tells it.
    pub(crate) fn change(&self, handle: &ResourceHandle, tree: &Value) {
        handle.set_spec(self.registered(tree, handle.spec().as_deref()));
    }

    pub(crate) fn put(&self, key: &str, value: &str) -> Revision {
        self.store.put(key, value.to_owned())
    }

    /// A cluster-scoped built-in type that stands for namespaces.
    pub(crate) fn namespaces(&self) -> ResourceHandle {
        let names = Names { plural: "namespaces".into(), kind: "Namespace".into(), ..Names::default() };
        let columns = Columns::compile(&[]);
        let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
        let spec = TypeSpec::built_in("", names, Scope::Cluster, versions, Arc::new(CustomObjects));
        ResourceHandle::new(Arc::clone(&self.deps), Arc::new(spec))
    }

    pub(crate) fn before_txn(&self, hook: impl FnMut(&Memory, &Txn) + Send + 'static) {
        *self.store.before_txn.lock() = Some(Box::new(hook));
    }

    /// Every change of widgets since the beginning, from the store itself.
    pub(crate) async fn history(&self) -> Vec<Seen> {
        let range = KeyRange::prefix(WIDGETS.as_bytes());
        let mut watch = self.store.inner.watch(range, Some(Revision(1))).await.unwrap();
        let mut all = Vec::new();
        while let Ok(commit) = watch.commits.try_recv() {
            let commit = commit.unwrap();
            for event in &commit.events {
                let key = String::from_utf8(event.key.as_bytes().to_vec()).unwrap();
                let value = match &event.change {
                    Change::Put { value, .. } => {
                        let object = StoredObject::new("", value.clone().unwrap(), commit.revision);
                        Some(object.json().clone())
                    }
                    Change::Delete => None,
                };
                all.push((commit.revision.0, key.trim_start_matches(WIDGETS).to_owned(), value));
            }
        }
        all
    }
}

pub(crate) const REGISTRATION: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.g.io";
pub(crate) const WIDGETS: &str = "/registry/g.io/widgets/";

/// A change: revision, key, and the new value.
pub(crate) type Seen = (u64, String, Option<Bytes>);

pub(crate) fn seen(events: &[Arc<ObjectEvent>]) -> Vec<Seen> {
    let one = |e: &Arc<ObjectEvent>| {
        let key = e.object.as_ref().or(e.previous.as_ref()).unwrap().key().to_owned();
        (e.revision.0, key, e.object.as_ref().map(|o| o.json().clone()))
    };
    events.iter().map(one).collect()
}

/// Stores text in the store behind a hook.
pub(crate) fn put(store: &Memory, key: &str, value: &str) -> Revision {
    let op = Op::Put(Key::from(key), Bytes::copy_from_slice(value.as_bytes()));
    match futures::FutureExt::now_or_never(store.txn(Txn { compares: vec![], ops: vec![op] })).unwrap() {
        Ok(TxnOutcome::Committed { revision }) => revision,
        other => panic!("{other:?}"),
    }
}

/// On one thread, in virtual time.
pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    run_seeded(1, 0, test);
}

pub(crate) fn run_seeded<F: Future<Output = ()>>(seed: u64, pauses: u64, test: impl FnOnce(World) -> F) {
    kindom_actor_kit::install_panic_hook();
    simulation::run(async { test(World::new(Arbiters::current().unwrap(), seed, pauses)).await }).unwrap();
}

pub(crate) fn schema() -> Value {
    json::parse(
        br#"{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer"}}}}}"#,
    )
    .unwrap()
}

/// A registration of widgets in these versions, all with one schema; the first is the storage version.
pub(crate) fn registration(versions: &[&str], schema: &Value) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(i, name)| {
            object! {
                "name": *name, "served": true, "storage": i == 0,
                "schema": object! { "openAPIV3Schema": schema.clone() }
            }
        })
        .collect();
    let names =
        object! { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" };
    object! {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": object! { "name": "widgets.g.io", "uid": "crd-uid" },
        "spec": object! {
            "group": "g.io", "names": names.clone(), "scope": "Namespaced", "versions": versions
        },
        "status": object! { "acceptedNames": names }
    }
}

pub(crate) fn terminating(mut registration: Value) -> Value {
    let metadata = registration.get_mut("metadata").unwrap().as_object_mut().unwrap();
    metadata.insert("deletionTimestamp", "2026-01-01T00:00:00Z");
    registration
}

pub(crate) fn widget(name: &str, n: i64) -> Value {
    object! {
        "apiVersion": "g.io/v1", "kind": "Widget", "metadata": object! { "name": name },
        "spec": object! { "n": n }
    }
}

pub(crate) fn at<'a>(name: &'a str) -> Target<'a> {
    Target { version: "v1", subresource: None, namespace: Some("ns"), name }
}

pub(crate) async fn create(handle: &ResourceHandle, object: Value) -> Result<Written, WriteError> {
    create_with(handle, object, &options()).await
}

pub(crate) async fn create_with(
    handle: &ResourceHandle,
    object: Value,
    options: &WriteOptions,
) -> Result<Written, WriteError> {
    let mut wanted = |cx: &RuleContext<'_>, _: &Value| decoded(cx, &object);
    handle.create(at(""), &mut wanted, options).await
}

/// A patch: what `change` makes of what is stored.
pub(crate) async fn patch(
    handle: &ResourceHandle,
    name: &str,
    mut change: impl FnMut(&mut Value) + Send,
) -> Result<Written, WriteError> {
    let mut wanted = |_: &RuleContext<'_>, old: &Value| {
        let mut object = old.clone();
        change(&mut object);
        Ok(object)
    };
    handle.update(at(name), true, &mut wanted, &options()).await
}

pub(crate) async fn replace(
    handle: &ResourceHandle,
    name: &str,
    object: Value,
) -> Result<Written, WriteError> {
    handle.update(at(name), false, &mut |_, _| Ok(object.clone()), &options()).await
}

pub(crate) async fn delete(handle: &ResourceHandle, name: &str) -> Result<Written, WriteError> {
    handle.delete(at(name), &Removal::default(), &options()).await
}

pub(crate) async fn get(handle: &ResourceHandle, name: &str) -> Option<Arc<StoredObject>> {
    handle.get(&format!("ns/{name}"), soon()).await.unwrap()
}

pub(crate) async fn stored(handle: &ResourceHandle) -> BTreeMap<String, Bytes> {
    let (snapshot, _) = handle.snapshot(Freshness::Latest, soon()).await.unwrap();
    snapshot.from_key("").map(|o| (o.key().to_owned(), o.json().clone())).collect()
}

pub(crate) fn tree(object: &StoredObject) -> Value {
    json::parse(object.json()).unwrap()
}

/// Everything that the cursor has to say now.
pub(crate) async fn drained(cursor: &mut WatchCursor, until: Revision) -> Vec<Arc<ObjectEvent>> {
    let mut all = Vec::new();
    while cursor.cursor() < until {
        all.extend(cursor.next(7).await.unwrap());
    }
    all
}

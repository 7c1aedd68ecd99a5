//! What the tests share: a store that can be slowed down and tampered with, and types over it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kindom_actor_kit::{ActorTable, Arbiters, Clock, Deadline, Entropy, Supervisor, simulation};
use kindom_api::User;
use kindom_api::{Value, json, object};
use kindom_objects::{
    BuiltInVersion, CustomObjects, Names, PlanError, Preconditions, Scope, StoredObject, Strategy, TypeSpec,
};
use kindom_resource_actor::WriteError;
use kindom_resource_actor::{
    Deps, Freshness, Knowledge, ObjectEvent, ResourceHandle, Target, WatchCursor, WriteOptions, Written,
};
use kindom_schema::columns::Columns;
use kindom_storage::{
    Applied, Change, Key, KeyRange, Memory, Op, RangeRequest, RangeResult, Revision, Storage, StorageError,
    StorageFuture, Txn, TxnOutcome, Watch,
};

pub(crate) type Hook = Box<dyn FnMut(&Memory, &Txn) + Send>;

/// A store in memory that takes its time, and lets a test act right before a transaction is judged.
pub(crate) struct Tampered {
    pub(crate) inner: Memory,
    pub(crate) entropy: Entropy,
    /// The most times that a call lets others run before and after.
    pub(crate) pauses: u64,
    pub(crate) before_txn: parking_lot::Mutex<Option<Hook>>,
    /// Transactions wait for a permit while this is closed to them.
    pub(crate) gate: tokio::sync::Semaphore,
    pub(crate) gated: std::sync::atomic::AtomicBool,
    /// The fate of the next transactions' answers.
    pub(crate) answers: parking_lot::Mutex<Answers>,
    /// The store can't be reached: only what was delivered before is known.
    pub(crate) away: std::sync::atomic::AtomicBool,
}

/// The fate of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    /// They arrive, and so do their answers.
    Arrive,
    /// They arrive, and their answers get lost.
    Lost,
    /// They get lost themselves, and nobody knows.
    NeverAsked,
}

fn away(applied: Applied) -> StorageError {
    StorageError::Unavailable { reason: "planned".to_owned(), applied }
}

impl Tampered {
    async fn pause(&self) {
        for _ in 0..self.entropy.below(self.pauses + 1) {
            tokio::task::yield_now().await;
        }
    }
}

impl Storage for Tampered {
    fn txn(&self, txn: Txn) -> StorageFuture<'_, TxnOutcome> {
        Box::pin(async move {
            self.pause().await;
            if self.gated.load(std::sync::atomic::Ordering::SeqCst) {
                self.gate.acquire().await.unwrap().forget();
            }
            if let Some(hook) = &mut *self.before_txn.lock() {
                hook(&self.inner, &txn);
            }
            let answers = *self.answers.lock();
            if answers == Answers::NeverAsked {
                return Err(away(Applied::Unknown));
            }
            let outcome = self.inner.txn(txn).await;
            self.pause().await;
            if answers == Answers::Lost { Err(away(Applied::Unknown)) } else { outcome }
        })
    }

    fn range(&self, request: RangeRequest) -> StorageFuture<'_, RangeResult> {
        Box::pin(async move {
            self.pause().await;
            let result = self.inner.range(request).await;
            self.pause().await;
            result
        })
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> StorageFuture<'_, Watch> {
        Box::pin(async move {
            self.pause().await;
            self.inner.watch(range, from).await
        })
    }

    fn published(&self) -> Revision {
        self.inner.published()
    }

    fn fresh(&self) -> StorageFuture<'_, Revision> {
        if self.away.load(std::sync::atomic::Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(away(Applied::No))));
        }
        self.inner.fresh()
    }

    fn compact(&self, revision: Revision) -> StorageFuture<'_, ()> {
        self.inner.compact(revision)
    }

    fn compacted(&self) -> Revision {
        self.inner.compacted()
    }

    fn close(&self) -> StorageFuture<'_, ()> {
        self.inner.close()
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<Tampered>,
    pub(crate) table: ActorTable,
    pub(crate) deps: Arc<Deps>,
    pub(crate) entropy: Entropy,
}

impl World {
    pub(crate) fn new(arbiters: Arbiters, seed: u64, pauses: u64) -> Self {
        let entropy = Entropy::seeded(seed);
        let table = ActorTable::new();
        let store = Arc::new(Tampered {
            inner: Memory::new(),
            entropy: entropy.fork(),
            pauses,
            before_txn: parking_lot::Mutex::default(),
            gate: tokio::sync::Semaphore::new(0),
            gated: false.into(),
            answers: parking_lot::Mutex::new(Answers::Arrive),
            away: false.into(),
        });
        let deps = Arc::new(Deps {
            storage: Arc::clone(&store) as Arc<dyn Storage>,
            supervisor: Supervisor::new(table.clone(), entropy.fork()),
            arbiters,
            clock: Clock::starting_at(1_700_000_000_000),
            entropy: entropy.fork(),
        });
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
        put(&self.store.inner, key, value)
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

/// `+key`, `~key` or `-key` of each event.
pub(crate) fn brief(events: &[Arc<ObjectEvent>]) -> Vec<String> {
    let one = |e: &Arc<ObjectEvent>| match (&e.object, &e.previous) {
        (Some(o), None) => format!("+{}", o.key()),
        (Some(o), Some(_)) => format!("~{}", o.key()),
        (None, Some(p)) => format!("-{}", p.key()),
        (None, None) => "?".to_owned(),
    };
    events.iter().map(one).collect()
}

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

pub(crate) fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

pub(crate) fn options() -> WriteOptions {
    WriteOptions {
        deadline: soon(),
        dry_run: false,
        object_bytes_max: 1 << 20,
        namespaces: None,
        manager: "test".into(),
        user: Arc::new(User::api_server()),
        knowledge: Knowledge::Latest,
        bytes: 0,
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
    let mut wanted = |cx: &kindom_objects::RuleContext<'_>, _: &Value| {
        let mut object = object.clone();
        cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::BadRequest)?;
        Ok(object)
    };
    handle.create(at(""), &mut wanted, options).await
}

/// A patch: what `change` makes of what is stored.
pub(crate) async fn patch(
    handle: &ResourceHandle,
    name: &str,
    mut change: impl FnMut(&mut Value) + Send,
) -> Result<Written, WriteError> {
    let mut wanted = |_: &kindom_objects::RuleContext<'_>, old: &Value| {
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
    handle.delete(at(name), &Preconditions::default(), &options()).await
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

//! The loop: it follows the store's commits and takes the steps that the graph asks for, many at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use kindom_actor_kit::{BoxError, Deadline, Policy, Reconciler, StartError, Woken};
use kindom_api::names::split_api_version;
use kindom_api::{Map, Value, json, object};
use kindom_objects::metadata::metadata_mut;
use kindom_objects::{
    FOREGROUND, ORPHAN, PlanError, Propagation, Removal, RuleContext, Scope, StoredObject, TypeSpec,
};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Pages, ReadError, ResourceHandle, Target, WriteError, WriteOptions};
use kindom_storage::{
    Change, Commit, Key, KeyRange, KeyValue, RangeRequest, Revision, Storage, StorageError, StoredValue,
    Watch,
};
use tokio::time::{Instant, sleep_until};

use super::graph::{Ending, Graph, Item, Owner, Standing, Step, Uid, Verdict, judge};
use crate::attempt::{STEP, pause};
use crate::error::DrainError;

/// Everything that API servers store.
const ALL: &str = "/registry/";
/// The number of objects looked at at once: enough to share a durable batch.
const AT_ONCE: usize = 64;
/// The most commits folded before the work goes on.
const COMMITS_AT_ONCE: usize = 256;
/// The number of an owner's dependents that lose their reference at once.
const ORPHANS_AT_ONCE: usize = 16;
/// The wait after a failure before the next try, which doubles with each.
const RETRY: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// The wait after a change of registrations before objects of kinds that were not served are looked at.
const TYPES_SETTLE: Duration = Duration::from_millis(200);
/// The most keys of a kind that are looked through for an owner in another namespace, to say so.
const ELSEWHERE_MAX: usize = 1_000;

/// Starts the loop, as the actor `garbage-collector`, with the types of events and of namespaces.
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    events: &ResourceHandle,
    namespaces: &ResourceHandle,
    object_bytes_max: usize,
) -> Result<Reconciler, StartError> {
    let deps = registry.deps();
    let (events, namespaces) = (events.clone(), namespaces.clone());
    let collector = Collector { registry: registry.clone(), events, namespaces, object_bytes_max };
    let arbiter = deps.arbiters.place("garbage-collector");
    deps.supervisor.reconcile(
        "garbage-collector",
        &arbiter,
        Policy::default(),
        registry.changes(),
        move |changes| collector.clone().run(changes),
    )
}

#[derive(Clone)]
struct Collector {
    registry: RegistryHandle,
    events: ResourceHandle,
    namespaces: ResourceHandle,
    object_bytes_max: usize,
}

/// The outcome of looking at an object.
enum Looked {
    /// Nothing is left to do until something changes.
    Done,
    /// It changed meanwhile.
    Changed,
    /// Of a kind, or with an owner of one, that is not served here.
    Unknown,
    Failed(String),
}

/// Why a step could not be taken.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("a kind is not served here")]
    Unknown,
    #[error("it changed")]
    Changed,
    #[error("{0} cannot be read")]
    Unreadable(Key),
    #[error("reading: {0}")]
    Read(#[from] StorageError),
    #[error("the registry: {0}")]
    Registry(#[from] ReadError),
    #[error("writing: {0}")]
    Write(#[from] WriteError),
}

impl Collector {
    async fn run(self, mut changes: Woken) -> BoxError {
        let mut failures = 0;
        loop {
            self.registry.leading().await;
            match self.look().await {
                Ok((graph, watch)) => {
                    failures = 0;
                    if let Err(error) = self.follow(graph, watch, &mut changes).await {
                        tracing::warn!(%error, "the garbage collector lost the store's commits; it looks again");
                        pause(&self.registry, 1).await;
                    }
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, failures, "the garbage collector could not read the store; trying again");
                    pause(&self.registry, failures).await;
                }
            }
        }
    }

    fn storage(&self) -> &dyn Storage {
        &*self.registry.deps().storage
    }

    /// All objects at one revision, and the commits from there on.
    async fn look(&self) -> Result<(Graph, Watch), DrainError> {
        let (mut graph, mut at, mut due) = (Graph::default(), Revision::ZERO, Vec::new());
        let mut pages = Pages::as_of_first(ALL);
        while let Some(page) = pages.next(self.storage()).await.map_err(DrainError::List)? {
            at = page.revision;
            for kv in &page.kvs {
                if let Some(item) = self.item(&kv.key, &kv.value) {
                    graph.put(&kv.key, Some(item), &mut due);
                    due.clear();
                }
            }
            tokio::task::yield_now().await;
        }
        let range = KeyRange::prefix(ALL.as_bytes());
        let watch = self.storage().watch(range, Some(at.next())).await.map_err(DrainError::Check)?;
        Ok((graph, watch))
    }

    /// The handle of a key's type, and the part of the key behind its prefix.
    fn type_of<'k>(&self, key: &'k Key) -> Option<(ResourceHandle, &'k str)> {
        let key = std::str::from_utf8(key.as_bytes()).ok()?;
        let stores = |handle: &&ResourceHandle| {
            key.starts_with(handle.prefix()) && handle.spec().is_some_and(|spec| spec.shows_what_is_stored())
        };
        if let Some(handle) = self.registry.built_in().find(stores) {
            return Some((handle.clone(), key.strip_prefix(handle.prefix())?));
        }
        let (group, rest) = key.strip_prefix(ALL)?.split_once('/')?;
        let (plural, rest) = rest.split_once('/')?;
        let handle = self.registry.routes().get(group, plural)?;
        key.starts_with(handle.prefix()).then_some((handle, rest))
    }

    /// What the collector has to know of a stored value. Most values need no parser to see that it is nothing.
    fn item(&self, key: &Key, value: &StoredValue) -> Option<Item> {
        // As upstream's, which ignores events.
        if key.as_bytes().starts_with(self.events.prefix().as_bytes()) {
            return None;
        }
        let bytes = value.as_ref().ok()?;
        let has = |text: &str| memchr::memmem::find(bytes, text.as_bytes()).is_some();
        if !has("ownerReferences") && !has(FOREGROUND) && !has(ORPHAN) && !bytes.starts_with(b"k8s\0") {
            return None;
        }
        Item::read(&self.tree(key, value.clone(), Revision::ZERO)?)
    }

    /// A stored object's tree, whichever server wrote it.
    fn tree(&self, key: &Key, value: StoredValue, revision: Revision) -> Option<Value> {
        let object = match self.type_of(key) {
            Some((handle, name)) => handle.stored_object(name, value, revision),
            None => StoredObject::of("", value, revision),
        };
        json::parse_own(object.json()).ok()
    }

    /// Takes step after step, until the commits can be followed no longer.
    async fn follow(
        &self,
        mut graph: Graph,
        mut watch: Watch,
        changes: &mut Woken,
    ) -> Result<(), DrainError> {
        let mut todo = Todo::default();
        graph.keys().cloned().for_each(|key| todo.add(key));
        let mut work: FuturesUnordered<BoxFuture<'_, (Key, Looked)>> = FuturesUnordered::new();
        loop {
            if !self.registry.is_leader() {
                return Ok(());
            }
            while work.len() < AT_ONCE
                && let Some(key) = todo.next()
            {
                match graph.step(&key) {
                    Some(step) => {
                        work.push(async move { (key.clone(), self.take(&key, step).await) }.boxed())
                    }
                    None => todo.done(&key, Looked::Done),
                }
            }
            let later = async {
                match todo.later() {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let mut next = tokio::select! {
                biased;
                Some((key, looked)) = work.next() => {
                    todo.done(&key, looked);
                    watch.commits.try_recv().ok()
                }
                commit = watch.commits.recv() => match commit {
                    Some(commit) => Some(commit),
                    None => return Ok(()),
                },
                () = later => {
                    todo.wake(Instant::now());
                    None
                }
                () = changes.woken() => {
                    todo.types_change();
                    None
                }
            };
            for _ in 0..COMMITS_AT_ONCE {
                match next {
                    Some(Ok(commit)) => self.fold(&mut graph, &mut todo, &commit),
                    Some(Err(StorageError::Compacted { .. })) => return Ok(()),
                    Some(Err(error)) => return Err(DrainError::Check(error)),
                    None => break,
                }
                next = watch.commits.try_recv().ok();
            }
            match next {
                Some(Ok(commit)) => self.fold(&mut graph, &mut todo, &commit),
                Some(Err(error)) => return Err(DrainError::Check(error)),
                None => {}
            }
        }
    }

    fn fold(&self, graph: &mut Graph, todo: &mut Todo, commit: &Commit) {
        let mut due = Vec::new();
        for event in &commit.events {
            match &event.change {
                Change::Put { value, .. } => {
                    let item = self.item(&event.key, value);
                    graph.put(&event.key, item, &mut due);
                }
                // Nobody has an owner.
                Change::Delete if graph.is_empty() => {}
                Change::Delete => {
                    let uid = event.prev.as_ref().and_then(|kv| self.uid(kv)).unwrap_or_default();
                    graph.delete(&event.key, &uid, &mut due);
                }
            }
        }
        due.into_iter().for_each(|key| todo.add(key));
        for event in commit.events.iter().filter(|event| !graph.follows(&event.key)) {
            todo.forget(&event.key);
        }
    }

    fn uid(&self, kv: &KeyValue) -> Option<Uid> {
        let object = match self.type_of(&kv.key) {
            Some((handle, name)) => handle.stored_object(name, kv.value.clone(), kv.mod_revision),
            // Its type went before.
            None => StoredObject::of("", kv.value.clone(), kv.mod_revision),
        };
        Some(object.uid().into())
    }

    async fn take(&self, key: &Key, step: Step) -> Looked {
        tracing::debug!(%key, ?step, "garbage collection looks at an object");
        if let Err(error) = self.catch_up().await {
            return Looked::Failed(error.to_string());
        }
        let taken = match step {
            Step::Judge { uid, has_dependents, may_be_in_a_circle, gone } => {
                self.judge(key, &uid, has_dependents, may_be_in_a_circle, &gone).await
            }
            Step::Release { uid, finalizer } => self.release(key, &uid, finalizer).await,
            Step::Orphan { uid, dependents } => self.orphan(key, &uid, dependents).await,
        };
        tracing::debug!(%key, outcome = ?taken, "garbage collection has looked at an object");
        match taken {
            Ok(()) => Looked::Done,
            Err(Trouble::Unknown) => Looked::Unknown,
            Err(Trouble::Changed) => Looked::Changed,
            Err(error) => Looked::Failed(error.to_string()),
        }
    }

    /// Waits until reads of the store show the commits that were folded: an event may come just before.
    async fn catch_up(&self) -> Result<(), StorageError> {
        if self.storage().is_local() { self.storage().fresh().await.map(drop) } else { Ok(()) }
    }

    /// The object at a key, read from the store.
    async fn read(&self, key: &Key) -> Result<Option<(StoredObject, Value, ResourceHandle)>, Trouble> {
        let (handle, name) = self.type_of(key).ok_or(Trouble::Unknown)?;
        let request = RangeRequest { range: KeyRange::single(key), ..RangeRequest::prefix(b"") };
        let Some(kv) = self.storage().range(request).await?.kvs.pop() else { return Ok(None) };
        let object = handle.stored_object(name, kv.value, kv.mod_revision);
        match json::parse_own(object.json()) {
            Ok(tree) if object.corrupt().is_none() => Ok(Some((object, tree, handle))),
            _ => Err(Trouble::Unreadable(key.clone())),
        }
    }

    /// As [`Collector::read`], of an object that has to do with its owners: bytes that are no object have none.
    async fn owned(&self, key: &Key) -> Result<Option<(StoredObject, Value, ResourceHandle)>, Trouble> {
        match self.read(key).await {
            Err(Trouble::Unreadable(_)) => Ok(None),
            other => other,
        }
    }

    /// Deletes an object without an owner that is there (`attemptToDeleteItem`).
    async fn judge(
        &self,
        key: &Key,
        uid: &str,
        has_dependents: bool,
        may_be_in_a_circle: bool,
        gone: &[Uid],
    ) -> Result<(), Trouble> {
        let Some((object, tree, handle)) = self.owned(key).await? else { return Ok(()) };
        let Some(item) = Item::read(&tree).filter(|item| *item.uid == *uid && item.ending == Ending::No)
        else {
            return Ok(());
        };
        let Some(owners) = self.standings(&item.owners, &object, &handle, gone).await? else { return Ok(()) };
        let propagation = match judge(&owners, has_dependents, may_be_in_a_circle) {
            Verdict::Keep => return Ok(()),
            Verdict::Drop(uids) => {
                return self
                    .change(&handle, &object, |metadata| drop_owners(metadata, &uids))
                    .await
                    .map(drop);
            }
            Verdict::Delete => as_its_finalizers_say(&tree),
            Verdict::DeleteInForeground { unblock: false } => Propagation::Foreground,
            Verdict::DeleteInForeground { unblock: true } => {
                let Some(now) = self.change(&handle, &object, unblock_owners).await? else { return Ok(()) };
                if now != object.revision() {
                    // Perhaps it has another owner by now: the verdict is on what was read.
                    return Err(Trouble::Changed);
                }
                Propagation::Foreground
            }
        };
        let removal = Removal {
            uid: Some(object.uid().to_owned()),
            resource_version: Some(object.revision().to_string()),
            propagation,
        };
        let Some(version) = stored_version(&handle) else { return Err(Trouble::Unknown) };
        let deleted = handle.delete(target(&object, &version), &removal, &self.options()).await;
        unless_it_changed(deleted.map(drop))
    }

    /// What became of the owners that an object names, each once. `None` if there is one that nothing follows from. Those whose
    /// end was seen are not read.
    async fn standings(
        &self,
        owners: &[Owner],
        object: &StoredObject,
        of: &ResourceHandle,
        gone: &[Uid],
    ) -> Result<Option<Vec<(Uid, Standing)>>, Trouble> {
        // An owner of a namespaced kind is none of an object at cluster scope, gone or not.
        let gone: HashSet<&str> = match object.namespace() {
            Some(_) => gone.iter().map(|uid| &**uid).collect(),
            None => HashSet::new(),
        };
        let is_left = |owner: &&Owner| !gone.contains(&*owner.uid);
        if owners.iter().any(|owner| is_left(&owner)) && !self.storage().is_local() {
            // What is a kind here may be another one by now.
            self.registry.fresh(Deadline::after(STEP)).await?;
        }
        // Before anything is read: one that is unknown is enough.
        let mut left = BTreeMap::new();
        for owner in owners.iter().filter(is_left) {
            let handle = self.kind(owner).ok_or(Trouble::Unknown)?;
            let spec = handle.spec().ok_or(Trouble::Unknown)?;
            left.insert((&owner.api_version, &owner.kind, &owner.name, &owner.uid), (owner, handle, spec));
        }
        let namespaced = |scope| scope == Scope::Namespaced;
        let odd = left.values().find(|(.., spec)| namespaced(spec.scope) && object.namespace().is_none());
        if let Some((owner, handle, _)) = odd {
            self.tell_of_owner_elsewhere(owner, handle, object, of).await?;
            return Ok(None);
        }
        let mut standings: Vec<(Uid, Standing)> =
            gone.iter().map(|uid| ((*uid).into(), Standing::Absent)).collect();
        let mut elsewhere = None;
        for (owner, handle, spec) in left.into_values() {
            let namespace = object.namespace().filter(|_| namespaced(spec.scope));
            let key = spec.storage_key(&TypeSpec::object_key(namespace, &owner.name));
            let standing = self.standing(owner, &key).await?;
            if standing == Standing::Absent && namespace.is_some() {
                elsewhere.get_or_insert((owner, handle));
            }
            standings.push((owner.uid.clone(), standing));
        }
        if let Some((owner, handle)) = elsewhere {
            self.tell_of_owner_elsewhere(owner, &handle, object, of).await?;
        }
        Ok(Some(standings))
    }

    /// What became of an owner whose place is this.
    async fn standing(&self, owner: &Owner, key: &Key) -> Result<Standing, Trouble> {
        let found = self.read(key).await?;
        let Some((_, tree, _)) = found.filter(|(found, ..)| *found.uid() == *owner.uid) else {
            return Ok(Standing::Absent);
        };
        let ending = tree.get("metadata").map_or(Ending::No, Ending::of);
        let finalizers = tree.at(&["metadata", "finalizers"]).and_then(Value::as_array).unwrap_or_default();
        let waits = ending != Ending::No && finalizers.iter().any(|of| of.as_str() == Some(FOREGROUND));
        Ok(if waits { Standing::Waiting } else { Standing::Solid })
    }

    /// The type of a kind, if it is served in the version that a reference names.
    fn kind(&self, owner: &Owner) -> Option<ResourceHandle> {
        let (group, version) = split_api_version(&owner.api_version)?;
        let table = self.registry.routes().table();
        let types = table.group(group)?.values();
        let found = types.filter_map(|handle| Some((handle, handle.spec()?))).find(|(_, spec)| {
            *spec.names.kind == *owner.kind && spec.version(version).is_some_and(|version| version.served)
        });
        found.map(|(handle, _)| handle.clone())
    }

    /// Writes an event if an object names an owner that lives in another namespace (`reportInvalidNamespaceOwnerRef`).
    async fn tell_of_owner_elsewhere(
        &self,
        owner: &Owner,
        owners: &ResourceHandle,
        object: &StoredObject,
        of: &ResourceHandle,
    ) -> Result<(), Trouble> {
        let request = RangeRequest {
            limit: Some(ELSEWHERE_MAX),
            keys_only: true,
            ..RangeRequest::prefix(owners.prefix().as_bytes())
        };
        let end = format!("/{}", owner.name);
        let found = self.storage().range(request).await?;
        for kv in found.kvs.iter().filter(|kv| kv.key.as_bytes().ends_with(end.as_bytes())) {
            let there = self.read(&kv.key).await?;
            if there.is_some_and(|(there, ..)| *there.uid() == *owner.uid) {
                return self.tell(owner, object, of).await;
            }
        }
        Ok(())
    }

    async fn tell(&self, owner: &Owner, object: &StoredObject, of: &ResourceHandle) -> Result<(), Trouble> {
        let Some(spec) = of.spec() else { return Ok(()) };
        let version = stored_version(of).unwrap_or_default();
        let deps = self.registry.deps();
        let now = kindom_api::meta::time::format(deps.clock.unix_seconds());
        let in_namespace = object.namespace().unwrap_or_default();
        let namespace = object.namespace().unwrap_or("default");
        // As Go prints a reference.
        let reference = format!(
            "[{}/{}, namespace: {in_namespace}, name: {}, uid: {}]",
            short_of(&owner.api_version),
            short_of(&owner.kind),
            short_of(&owner.name),
            short_of(&owner.uid),
        );
        let note = format!("ownerRef {reference} does not exist in namespace {in_namespace:?}");
        let short: String = object.name().chars().take(200).collect();
        // One for each object.
        let name = format!("{short}.{}", object.uid().get(..8).unwrap_or_default());
        let event = object! {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": object! { "name": name, "namespace": namespace },
            "involvedObject": object! {
                "apiVersion": spec.api_version(&version),
                "kind": spec.names.kind.as_str(),
                "namespace": in_namespace,
                "name": object.name(),
                "uid": object.uid(),
            },
            "reason": "OwnerRefInvalidNamespace",
            "message": note,
            "source": object! { "component": "garbage-collector-controller" },
            "firstTimestamp": now.as_str(),
            "lastTimestamp": now.as_str(),
            "count": 1,
            "type": "Warning",
        };
        let mut wanted = |cx: &RuleContext<'_>, _: &Value| {
            let mut event = event.clone();
            cx.spec.strategy.decode(cx, &mut event, None).map_err(PlanError::Internal)?;
            Ok(event)
        };
        let target = Target { version: "v1", subresource: None, namespace: Some(namespace), name: "" };
        let options = WriteOptions { namespaces: Some(self.namespaces.clone()), ..self.options() };
        let told = self.events.create(target, &mut wanted, &options).await;
        if let Err(error) = told.map(drop).or_else(unless_it_exists) {
            // It changes nothing about what has to be done.
            tracing::warn!(%error, "an event could not be written");
        }
        Ok(())
    }

    /// Removes one of the collector's finalizers (`removeFinalizer`).
    async fn release(&self, key: &Key, uid: &str, finalizer: &str) -> Result<(), Trouble> {
        let Some((object, tree, handle)) = self.owned(key).await? else { return Ok(()) };
        let is_it = Item::read(&tree).is_some_and(|item| *item.uid == *uid && item.ending != Ending::No);
        if !is_it {
            return Ok(());
        }
        self.change(&handle, &object, |metadata| {
            if let Some(all) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
                all.retain(|of| of.as_str() != Some(finalizer));
            }
        })
        .await
        .map(drop)
    }

    /// Removes the references to an owner, and then its finalizer (`attemptToOrphanWorker`).
    async fn orphan(&self, key: &Key, uid: &str, dependents: Vec<Key>) -> Result<(), Trouble> {
        let uids = [Uid::from(uid)];
        let one = |dependent: Key| {
            let uids = &uids;
            async move {
                let Some((object, _, handle)) = self.owned(&dependent).await? else { return Ok(()) };
                self.change(&handle, &object, |metadata| drop_owners(metadata, uids)).await.map(drop)
            }
        };
        let mut all = futures::stream::iter(dependents).map(one).buffer_unordered(ORPHANS_AT_ONCE);
        let mut failed = Ok(());
        while let Some(outcome) = all.next().await {
            // One that cannot be written holds up no other.
            failed = failed.and(outcome);
        }
        drop(all);
        failed?;
        self.release(key, uid, ORPHAN).await
    }

    /// Changes an object's metadata. Gives back its new revision; `None` if it is another object by now, or gone.
    async fn change(
        &self,
        handle: &ResourceHandle,
        object: &StoredObject,
        change: impl Fn(&mut Map) + Send + Sync,
    ) -> Result<Option<Revision>, Trouble> {
        let Some(version) = stored_version(handle) else { return Err(Trouble::Unknown) };
        let uid = object.uid().to_owned();
        let mut wanted = |_: &RuleContext<'_>, old: &Value| {
            if old.at(&["metadata", "uid"]).and_then(Value::as_str) != Some(&uid) {
                return Err(PlanError::NotFound { name: object.name().to_owned() });
            }
            let mut new = old.clone();
            change(metadata_mut(&mut new));
            Ok(new)
        };
        match handle.update(target(object, &version), true, &mut wanted, &self.options()).await {
            Ok(written) => Ok(Some(written.object.revision())),
            Err(WriteError::Plan(PlanError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn options(&self) -> WriteOptions {
        WriteOptions::by_server(Deadline::after(STEP), self.object_bytes_max)
    }
}

/// The version that a type is stored in.
fn stored_version(handle: &ResourceHandle) -> Option<String> {
    Some(handle.spec()?.storage()?.name.clone())
}

fn target<'a>(object: &'a StoredObject, version: &'a str) -> Target<'a> {
    Target { version, subresource: None, namespace: object.namespace(), name: object.name() }
}

/// A text of a client, at a length that an event can hold.
fn short_of(text: &str) -> String {
    text.chars().take(253).collect()
}

fn unless_it_exists(error: WriteError) -> Result<(), WriteError> {
    match error {
        WriteError::Plan(PlanError::AlreadyExists { .. }) => Ok(()),
        other => Err(other),
    }
}

/// What is gone needs nothing more.
fn unless_it_changed(outcome: Result<(), WriteError>) -> Result<(), Trouble> {
    match outcome {
        Err(WriteError::Plan(PlanError::NotFound { .. })) => Ok(()),
        Err(WriteError::Plan(PlanError::Precondition { .. } | PlanError::Conflict { .. })) => {
            Err(Trouble::Changed)
        }
        other => Ok(other?),
    }
}

fn drop_owners(metadata: &mut Map, uids: &[Uid]) {
    if let Some(all) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
        all.retain(|of| {
            let uid = of.get("uid").and_then(Value::as_str).unwrap_or_default();
            !uids.iter().any(|gone| **gone == *uid)
        });
    }
}

/// The object no longer holds up the end of its owners.
fn unblock_owners(metadata: &mut Map) {
    let all = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
    for owner in all.into_iter().flatten().filter_map(Value::as_object_mut) {
        if owner.get("blockOwnerDeletion") == Some(&Value::Bool(true)) {
            owner.insert("blockOwnerDeletion", false);
        }
    }
}

/// The treatment of dependents that an object's own finalizers ask for.
fn as_its_finalizers_say(object: &Value) -> Propagation {
    let finalizers = object.at(&["metadata", "finalizers"]).and_then(Value::as_array).unwrap_or_default();
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer.as_str() == Some(name));
    match (has(ORPHAN), has(FOREGROUND)) {
        (true, _) => Propagation::Orphan,
        (false, true) => Propagation::Foreground,
        (false, false) => Propagation::Background,
    }
}

/// The objects to look at, each once at a time.
#[derive(Default)]
struct Todo {
    ready: VecDeque<Key>,
    /// Those in `ready`.
    queued: HashSet<Key>,
    /// Those that are looked at, and whether they have to be looked at again then.
    running: HashMap<Key, bool>,
    later: BTreeSet<(Instant, Key)>,
    failures: HashMap<Key, u32>,
    /// Those whose kind, or an owner's, is not served here.
    unknown: HashSet<Key>,
    /// The time when those are looked at again, as registrations have changed.
    types_changed: Option<Instant>,
}

impl Todo {
    fn add(&mut self, key: Key) {
        if let Some(again) = self.running.get_mut(&key) {
            *again = true;
        } else if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn next(&mut self) -> Option<Key> {
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.unknown.remove(&key);
        self.running.insert(key.clone(), false);
        Some(key)
    }

    fn done(&mut self, key: &Key, looked: Looked) {
        let again = self.running.remove(key).unwrap_or(false);
        match looked {
            Looked::Done => drop(self.failures.remove(key)),
            Looked::Changed => drop(self.later.insert((Instant::now() + RETRY, key.clone()))),
            Looked::Unknown => drop(self.unknown.insert(key.clone())),
            Looked::Failed(error) => {
                let failures = self.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                tracing::warn!(%key, error, failures, "garbage collection failed; trying again");
                let wait = RETRY.saturating_mul(1 << (*failures - 1).min(20)).min(RETRY_MAX);
                self.later.insert((Instant::now() + wait, key.clone()));
            }
        }
        if again {
            self.add(key.clone());
        }
    }

    /// The object is followed no more.
    fn forget(&mut self, key: &Key) {
        self.unknown.remove(key);
        self.failures.remove(key);
    }

    /// The time when something has to be looked at that nothing else makes due.
    fn later(&self) -> Option<Instant> {
        let failed = self.later.first().map(|(at, _)| *at);
        failed.into_iter().chain(self.types_changed).min()
    }

    fn wake(&mut self, now: Instant) {
        while self.later.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, key)) = self.later.pop_first()
        {
            self.add(key);
        }
        if self.types_changed.is_some_and(|at| at <= now) {
            self.types_changed = None;
            std::mem::take(&mut self.unknown).into_iter().for_each(|key| self.add(key));
        }
    }

    /// Other kinds may be served now. Registrations often change many at a time.
    fn types_change(&mut self) {
        if !self.unknown.is_empty() {
            self.types_changed.get_or_insert_with(|| Instant::now() + TYPES_SETTLE);
        }
    }
}

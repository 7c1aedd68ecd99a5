//! The loop: it follows the store's commits and takes the steps that the graph asks for, many at a time.

use std::collections::HashSet;
use std::sync::LazyLock;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use kindom_actor_kit::{BoxError, Deadline, Policy, Reconciler, StartError, Woken};
use kindom_api::{Map, Value, json};
use kindom_objects::metadata::metadata_mut;
use kindom_objects::{
    FOREGROUND, ORPHAN, PlanError, Propagation, Removal, RuleContext, StoredObject, has_finalizer,
};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Pages, ReadError, ResourceHandle, Target, WriteError, WriteOptions};
use kindom_storage::{
    Change, Commit, Key, KeyRange, KeyValue, RangeRequest, Revision, Storage, StorageError, StoredValue,
    Watch,
};
use memchr::memmem::Finder;
use tokio::time::{Instant, sleep_until};

use super::graph::{Ending, Graph, Item, Step, Uid, Verdict, judge};
use super::todo::{Looked, Todo};
use crate::attempt::{STEP, catch_up, pause};
use crate::error::DrainError;

/// Everything that API servers store.
const ALL: &str = "/registry/";
/// The number of objects looked at at once: enough to share a durable batch.
const AT_ONCE: usize = 64;
/// The most commits folded before the work goes on.
const COMMITS_AT_ONCE: usize = 256;
/// The number of an owner's dependents that lose their reference at once.
const ORPHANS_AT_ONCE: usize = 16;
/// The texts of which one is in every object that the collector has to know. Each stored value is searched for them.
static MARKS: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["ownerReferences", FOREGROUND, ORPHAN].map(Finder::new));

/// Starts the loop, as the actor `garbage-collector`, with the types of events and of namespaces. `is_fronted` says that another
/// API server may forward requests: objects of built-in kinds are those of that server, as far as its clients know.
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    events: &ResourceHandle,
    namespaces: &ResourceHandle,
    is_fronted: bool,
    object_bytes_max: usize,
) -> Result<Reconciler, StartError> {
    let deps = registry.deps();
    let (registry, events, namespaces) = (registry.clone(), events.clone(), namespaces.clone());
    let collector = Collector { registry, events, namespaces, is_fronted, object_bytes_max };
    let arbiter = deps.arbiters.place("garbage-collector");
    deps.supervisor.reconcile(
        "garbage-collector",
        &arbiter,
        Policy::default(),
        collector.registry.changes(),
        move |changes| collector.clone().run(changes),
    )
}

#[derive(Clone)]
pub(super) struct Collector {
    pub(super) registry: RegistryHandle,
    pub(super) events: ResourceHandle,
    pub(super) namespaces: ResourceHandle,
    pub(super) is_fronted: bool,
    object_bytes_max: usize,
}

/// The reason why a step could not be taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
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

    pub(super) fn storage(&self) -> &dyn Storage {
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

    /// A stored value, as far as the collector has to know it. Most need no parser to see that it is nothing.
    fn item(&self, key: &Key, value: &StoredValue) -> Option<Item> {
        // As upstream's, which ignores events.
        if key.as_bytes().starts_with(self.events.prefix().as_bytes()) {
            return None;
        }
        let bytes = value.as_ref().ok()?;
        if !MARKS.iter().any(|mark| mark.find(bytes).is_some()) && !bytes.starts_with(b"k8s\0") {
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
                    if uid.is_empty() && !graph.follows(&event.key) {
                        // Bytes that nobody could read may have been anybody's owner.
                        due.extend(graph.keys().cloned());
                    }
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
        if let Err(error) = catch_up(self.storage()).await {
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

    /// The object at a key, read from the store.
    pub(super) async fn read(
        &self,
        key: &Key,
    ) -> Result<Option<(StoredObject, Value, ResourceHandle)>, Trouble> {
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
                let uids = uids.iter().map(|uid| &**uid).collect();
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
            grace: None,
        };
        let Some(version) = stored_version(&handle) else { return Err(Trouble::Unknown) };
        let deleted = handle.delete(target(&object, &version), &removal, &self.options()).await;
        unless_it_changed(deleted.map(drop))
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
        let uids = HashSet::from([uid]);
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

    pub(super) fn options(&self) -> WriteOptions {
        WriteOptions::by_server(Deadline::after(STEP), self.object_bytes_max)
    }
}

/// The version that a type is stored in.
pub(super) fn stored_version(handle: &ResourceHandle) -> Option<String> {
    Some(handle.spec()?.storage()?.name.clone())
}

fn target<'a>(object: &'a StoredObject, version: &'a str) -> Target<'a> {
    Target { version, subresource: None, namespace: object.namespace(), name: object.name() }
}

/// An object that is gone needs nothing more.
fn unless_it_changed(outcome: Result<(), WriteError>) -> Result<(), Trouble> {
    match outcome {
        Err(WriteError::Plan(PlanError::NotFound { .. })) => Ok(()),
        Err(WriteError::Plan(PlanError::Precondition { .. } | PlanError::Conflict { .. })) => {
            Err(Trouble::Changed)
        }
        other => Ok(other?),
    }
}

fn drop_owners(metadata: &mut Map, uids: &HashSet<&str>) {
    if let Some(all) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
        all.retain(|of| !uids.contains(of.get("uid").and_then(Value::as_str).unwrap_or_default()));
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
    match (has_finalizer(object, ORPHAN), has_finalizer(object, FOREGROUND)) {
        (true, _) => Propagation::Orphan,
        (false, true) => Propagation::Foreground,
        (false, false) => Propagation::Background,
    }
}

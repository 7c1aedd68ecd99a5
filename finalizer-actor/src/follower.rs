//! A loop that settles keys: each once when it begins, and again whenever something that it depends on has changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, OptionFuture};
use futures::stream::{self, LocalBoxStream, SelectAll, StreamExt as _, select_all};
use kindom_actor_kit::{BoxError, Policy, Reconciler, StartError};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Pages, ResourceHandle};
use kindom_storage::{Change, Commit, KeyRange, RangeRequest, Revision, StorageError, StoredValue};

use crate::attempt::{catch_up, pause};
use crate::error::{DrainError, ReconcileError};

/// The types to follow, and the work on each key.
pub(crate) trait Settle: Clone + Send + 'static {
    /// The types whose objects are looked at, in the order in which they are read.
    fn types(&self) -> Vec<ResourceHandle>;

    /// True if the stored objects of a type say what is due at the start; else only their changes are followed.
    fn reads(&self, _place: usize) -> bool {
        true
    }

    /// Called before everything is read; returns the keys that are due then, whatever is stored.
    fn begin(&self) -> Vec<String> {
        Vec::new()
    }

    /// The keys that are due because this one was settled.
    fn due_after(&self, _key: &str) -> Vec<String> {
        Vec::new()
    }

    /// The key that is to be settled because an object of a type, by its place among [`types`](Self::types), is there or has
    /// gone (`None`). `of` is the object's key within its type.
    fn due(&self, place: usize, of: &str, value: Option<&StoredValue>) -> Option<String>;

    /// False if [`types`](Self::types) would give others by now, so that everything is read again.
    fn is_current(&self) -> bool {
        true
    }

    /// Settles a key; it may be settled already.
    fn settle<'a>(&'a self, key: &'a str) -> LocalBoxFuture<'a, Result<(), ReconcileError>>;
}

/// Starts the loop, as the actor of this name.
///
/// # Errors
/// [`StartError`]
pub(crate) fn start(
    name: &'static str,
    registry: &RegistryHandle,
    settle: impl Settle,
) -> Result<Reconciler, StartError> {
    let deps = registry.deps();
    let arbiter = deps.arbiters.place(name);
    let (changes, registry) = (registry.changes(), registry.clone());
    deps.supervisor.reconcile(name, &arbiter, Policy::default(), changes, move |_| {
        Follower { name, registry: registry.clone(), settle: settle.clone() }.run()
    })
}

struct Follower<S> {
    name: &'static str,
    registry: RegistryHandle,
    settle: S,
}

type Commits = SelectAll<LocalBoxStream<'static, (usize, Result<Arc<Commit>, StorageError>)>>;

impl<S: Settle> Follower<S> {
    async fn run(self) -> BoxError {
        let mut failures = 0;
        loop {
            self.registry.leading().await;
            match self.look().await {
                Ok((due, commits)) => {
                    failures = 0;
                    if let Err(error) = self.follow(due, commits).await {
                        tracing::warn!(name = self.name, %error, "changes could not be followed; trying again");
                        pause(&self.registry, 1).await;
                    }
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(name = self.name, %error, failures, "objects could not be read; trying again");
                    pause(&self.registry, failures).await;
                }
            }
        }
    }

    /// The keys that are due by what is stored, and the commits from there on.
    async fn look(&self) -> Result<(BTreeSet<String>, Commits), DrainError> {
        let (mut due, mut watches) = (BTreeSet::from_iter(self.settle.begin()), Vec::new());
        for (place, handle) in self.settle.types().into_iter().enumerate() {
            let storage = &handle.deps().storage;
            let prefix = handle.prefix();
            let mut at = Revision::ZERO;
            if !self.settle.reads(place) {
                let request = RangeRequest {
                    limit: Some(1),
                    keys_only: true,
                    ..RangeRequest::prefix(prefix.as_bytes())
                };
                at = storage.range(request).await.map_err(DrainError::Check)?.revision;
            }
            let mut pages = self.settle.reads(place).then(|| Pages::as_of_first(prefix));
            while let Some(pages) = &mut pages
                && let Some(page) = pages.next(&**storage).await.map_err(DrainError::List)?
            {
                at = page.revision;
                for kv in &page.kvs {
                    due.extend(self.due(place, &handle, kv.key.as_bytes(), Some(&kv.value)));
                }
                tokio::task::yield_now().await;
            }
            let range = KeyRange::prefix(handle.prefix().as_bytes());
            let watch = storage.watch(range, Some(at.next())).await.map_err(DrainError::Check)?;
            let commits = stream::unfold(watch, move |mut watch| async move {
                let commit = watch.commits.recv().await?;
                Some(((place, commit), watch))
            });
            watches.push(commits.boxed_local());
        }
        Ok((due, select_all(watches)))
    }

    fn due(
        &self,
        place: usize,
        handle: &ResourceHandle,
        key: &[u8],
        value: Option<&StoredValue>,
    ) -> Option<String> {
        let of = std::str::from_utf8(key).ok()?.strip_prefix(handle.prefix())?;
        self.settle.due(place, of, value)
    }

    /// Settles what is due, until a watch ends: then everything has to be read again.
    async fn follow(&self, mut due: BTreeSet<String>, mut commits: Commits) -> Result<(), DrainError> {
        let types = self.settle.types();
        let (mut failures, mut later) = (0, BTreeSet::new());
        let mut again = OptionFuture::default();
        loop {
            if !self.registry.is_leader() || due.is_empty() && !self.settle.is_current() {
                return Ok(());
            }
            if let Some(key) = due.pop_first() {
                match self.settle.settle(&key).await {
                    Ok(()) => {
                        failures = 0;
                        due.extend(self.settle.due_after(&key));
                    }
                    Err(error) => {
                        failures += 1;
                        tracing::warn!(name = self.name, key, %error, failures, "trying again");
                        // One that cannot be settled holds up no others, and commits hold up none of these.
                        if later.is_empty() {
                            again = Some(pause(&self.registry, failures).boxed_local()).into();
                        }
                        later.insert(key);
                    }
                }
                continue;
            }
            let next = tokio::select! {
                biased;
                Some(()) = &mut again => {
                    due.append(&mut later);
                    again = None.into();
                    continue;
                }
                next = commits.next() => next,
            };
            let Some((place, commit)) = next else { return Ok(()) };
            let commit = match commit {
                Ok(commit) => commit,
                Err(StorageError::Compacted { .. }) => return Ok(()),
                Err(error) => return Err(DrainError::Check(error)),
            };
            let Some(handle) = types.get(place) else { continue };
            catch_up(&*handle.deps().storage).await.map_err(DrainError::Check)?;
            for event in &commit.events {
                let value = match &event.change {
                    Change::Put { value, .. } => Some(value),
                    Change::Delete => None,
                };
                due.extend(self.due(place, handle, event.key.as_bytes(), value));
            }
        }
    }
}

//! Emptying a prefix page by page, and waiting for objects that finalizers hold.
//!
//! # A worked example
//! 100,000 objects, of which 1,000 have finalizers. The sweep reads a page, deletes 990 of its objects and marks 10 as being
//! deleted, and so on to the last page. Then stock is taken at one revision `R`: 1,000 objects, counted by finalizer, none
//! kept. From `R + 1` on each event of the prefix changes the count, as it carries the previous value; when nothing is left,
//! the caller reads the prefix once more before it concludes. So there is one page of objects in memory at any time, and the
//! removal of a finalizer costs no pass.

use futures::stream::{self, StreamExt as _};
use kindom_actor_kit::Deadline;
use kindom_resource_actor::WriteError;
use kindom_resource_actor::{Drained, Pages, ResourceHandle};
use kindom_storage::{
    Change, Commit, Compare, Key, KeyRange, KeyValue, Op, RangeRequest, Revision, Storage, StorageError,
    StoredValue, Txn, TxnOutcome, Watch,
};

use crate::attempt::STEP;
use crate::error::DrainError;
use crate::progress::Tally;

/// The number of objects of a page whose deletes are in flight at once: enough to share a durable batch.
const IN_FLIGHT: usize = 64;
/// The most changes folded before other tasks get a turn.
const CHANGES_AT_ONCE: usize = 256;

/// The objects of a type that are to go.
pub(crate) struct Drain<'a> {
    handle: &'a ResourceHandle,
    prefix: String,
    guards: Vec<Compare>,
}

impl<'a> Drain<'a> {
    /// The objects whose key starts with `within` (a namespace and `/`, or nothing). They are deleted only while the type's
    /// registration is the one known here and if `guards` hold: a replica that lags behind must not empty a later type of
    /// the same name.
    pub(crate) fn new(handle: &'a ResourceHandle, within: &str, guards: Vec<Compare>) -> Self {
        Self { handle, prefix: format!("{}{within}", handle.prefix()), guards }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    fn storage(&self) -> &'a dyn Storage {
        &*self.handle.deps().storage
    }

    /// Deletes objects without finalizers and marks the rest.
    pub(crate) fn sweep(&self) -> Sweep<'_> {
        Sweep { drain: self, pages: Pages::new(&self.prefix).counted(), left: 0 }
    }

    async fn delete(&self, kv: KeyValue) -> Result<Drained, WriteError> {
        // A whole page would exceed the budget of a turn.
        tokio::task::yield_now().await;
        let name = std::str::from_utf8(kv.key.as_bytes()).ok();
        if let Some(name) = name.and_then(|key| key.strip_prefix(self.handle.prefix())) {
            let object = self.handle.stored_object(name, kv.value, kv.mod_revision);
            return self.handle.delete_stored(&object, &self.guards, Deadline::after(STEP)).await;
        }
        // A key that is no text is no object, and would keep the prefix from ever being empty.
        let mut compares = vec![Compare::mod_is(&kv.key, kv.mod_revision)];
        let spec = self.handle.spec().ok_or(WriteError::Gone)?;
        compares.extend(spec.registration.as_ref().map(|r| Compare::mod_is(&r.key, r.object.revision())));
        compares.extend_from_slice(&self.guards);
        let txn = Txn { compares, ops: vec![Op::Delete(kv.key)] };
        match self.handle.commit_quietly(txn, Deadline::after(STEP)).await? {
            TxnOutcome::Committed { .. } => Ok(Drained::Gone),
            TxnOutcome::Failed { .. } => Ok(Drained::LookAgain),
        }
    }

    /// Counts the remaining objects, as of one revision, and follows them from there.
    pub(crate) async fn count_remaining(&self) -> Result<Remains, DrainError> {
        let mut pages = Pages::as_of_first(&self.prefix);
        let mut tally = Tally::default();
        let mut at = None;
        loop {
            let page = match pages.next(self.storage()).await {
                Ok(Some(page)) => page,
                Ok(None) => break,
                // Counting takes longer than history lasts.
                Err(StorageError::Compacted { .. }) => return Ok(Remains::Unsettled),
                Err(error) => return Err(DrainError::Check(error)),
            };
            if !page.kvs.is_empty() {
                at = Some(page.revision);
            }
            for kv in page.kvs {
                match held_by(self.handle, &kv.key, &kv.value) {
                    Some(finalizers) => tally.put(&finalizers),
                    None => return Ok(Remains::Unsettled),
                }
            }
            tokio::task::yield_now().await;
        }
        let Some(at) = at else { return Ok(Remains::Empty) };
        let range = KeyRange::prefix(self.prefix.as_bytes());
        match self.storage().watch(range, Some(at.next())).await {
            Ok(watch) => Ok(Remains::Held(Held { handle: self.handle.clone(), tally, watch })),
            // Counting took longer than history lasts.
            Err(StorageError::Compacted { .. }) => Ok(Remains::Unsettled),
            Err(error) => Err(DrainError::Check(error)),
        }
    }
}

/// The finalizers of an object that is marked already; none where there is something left to do.
fn held_by(handle: &ResourceHandle, key: &Key, value: &StoredValue) -> Option<Vec<String>> {
    let name = std::str::from_utf8(key.as_bytes()).ok()?.strip_prefix(handle.prefix())?;
    kindom_objects::held_by(&handle.stored_object(name, value.clone(), Revision::ZERO))
}

/// A sweep under way.
pub(crate) struct Sweep<'a> {
    drain: &'a Drain<'a>,
    pages: Pages,
    left: usize,
}

impl Sweep<'_> {
    /// `true` if the page that was swept last is the last one.
    pub(crate) fn is_last(&self) -> bool {
        self.pages.at_end()
    }

    /// Sweeps one page, and says how many objects there still are in all; none at the end.
    pub(crate) async fn page(&mut self) -> Result<Option<usize>, DrainError> {
        let page = self.pages.next(self.drain.storage()).await.map_err(DrainError::List)?;
        let Some(page) = page else { return Ok(None) };
        let mut outcomes = stream::iter(page.kvs).map(|kv| self.drain.delete(kv)).buffer_unordered(IN_FLIGHT);
        let mut failed = Ok(());
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Ok(Drained::Gone) => {}
                Ok(Drained::LookAgain | Drained::Held(_)) => self.left += 1,
                // A failed delete does not hold up the rest of the page.
                Err(error) => failed = failed.and(Err(DrainError::Delete(error))),
            }
        }
        failed.map(|()| Some(self.left + page.after))
    }
}

/// The objects that a sweep left.
pub(crate) enum Remains {
    /// Nothing.
    Empty,
    /// Objects that finalizers hold.
    Held(Held),
    /// Something that another sweep has to look at.
    Unsettled,
}

/// Objects that finalizers hold, and the way to know when they go.
pub(crate) struct Held {
    handle: ResourceHandle,
    pub(crate) tally: Tally,
    watch: Watch,
}

/// The objects that are left after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    Something,
    /// Unknown until the prefix is read again.
    Unsettled,
}

impl Held {
    /// Waits for changes and counts them. The store bounds the queue; a drain that falls behind it reads the prefix again.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn change(&mut self) -> Result<Left, DrainError> {
        let mut next = self.watch.commits.recv().await;
        let mut folded = 0;
        loop {
            let commit = match next {
                Some(Ok(commit)) => commit,
                Some(Err(StorageError::Compacted { .. })) => return Ok(Left::Unsettled),
                Some(Err(error)) => return Err(DrainError::Check(error)),
                None => return Ok(Left::Unsettled),
            };
            if !self.fold(&commit) {
                return Ok(Left::Unsettled);
            }
            folded += 1;
            // What is taken out of the queue is counted: no more is taken than this turn folds.
            if folded == CHANGES_AT_ONCE {
                break;
            }
            match self.watch.commits.try_recv() {
                Ok(item) => next = Some(item),
                Err(_) => break,
            }
        }
        Ok(if self.tally.objects == 0 { Left::Nothing } else { Left::Something })
    }

    /// Returns true if the whole commit was as expected of held objects: marked, and held by fewer and fewer finalizers.
    fn fold(&mut self, commit: &Commit) -> bool {
        commit.events.iter().all(|event| {
            let before = event.prev.as_ref().and_then(|kv| held_by(&self.handle, &event.key, &kv.value));
            let Some(before) = before else { return false };
            self.tally.take(&before);
            match &event.change {
                Change::Delete => true,
                Change::Put { value, .. } => {
                    let now = held_by(&self.handle, &event.key, value);
                    now.inspect(|finalizers| self.tally.put(finalizers)).is_some()
                }
            }
        })
    }
}

/// `true` if a prefix holds no key.
pub(crate) async fn is_empty(storage: &dyn Storage, prefix: &str) -> Result<bool, StorageError> {
    Ok(first_keys(storage, prefix, 1).await?.is_empty())
}

/// The first keys under the prefix as text, without the prefix.
pub(crate) async fn first_keys(
    storage: &dyn Storage,
    prefix: &str,
    limit: usize,
) -> Result<Vec<String>, StorageError> {
    let request =
        RangeRequest { limit: Some(limit), keys_only: true, ..RangeRequest::prefix(prefix.as_bytes()) };
    let found = storage.range(request).await?;
    let name = |kv: KeyValue| {
        let name = kv.key.as_bytes().get(prefix.len()..).unwrap_or_default();
        Key::new(bytes::Bytes::copy_from_slice(name)).to_string()
    };
    Ok(found.kvs.into_iter().map(name).collect())
}

//! Emptying a prefix, page by page.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use kindom_actor_kit::Deadline;
use kindom_resource_actor::{Drained, ResourceHandle, StoredObject, WriteError};
use kindom_storage::{Compare, KeyRange, KeyValue, Op, RangeRequest, Revision, Storage, Txn, TxnOutcome};

/// How many objects are read and deleted at once: enough to share a durable batch, little to hold in memory.
const PAGE: usize = 256;
/// How long the deletion of one page may take before the world is read again.
const STEP: Duration = Duration::from_secs(10);

/// What is left under a prefix after a pass.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Remaining {
    /// How many objects.
    pub(crate) objects: usize,
    /// How many of them each finalizer holds.
    pub(crate) finalizers: BTreeMap<String, usize>,
}

impl Remaining {
    pub(crate) fn add(&mut self, other: Self) {
        self.objects += other.objects;
        for (finalizer, count) in other.finalizers {
            *self.finalizers.entry(finalizer).or_default() += count;
        }
    }
}

/// One pass over the objects of a type whose key starts with `within` (a namespace and `/`, or nothing): those without
/// finalizers go, the others are marked. Holds one page in memory.
pub(crate) async fn drain(handle: &ResourceHandle, within: &str) -> Result<Remaining, WriteError> {
    let storage = &handle.deps().storage;
    let prefix = format!("{}{within}", handle.prefix());
    let mut request = RangeRequest { limit: Some(PAGE), ..RangeRequest::prefix(prefix.as_bytes()) };
    let mut remaining = Remaining::default();
    loop {
        let page = storage.range(request.clone()).await?;
        let Some(last) = page.kvs.last() else { return Ok(remaining) };
        request.range.start = KeyRange::single(&last.key).end.unwrap_or_else(|| last.key.clone());
        let full = page.kvs.len() == PAGE;
        let deletions = page.kvs.into_iter().map(|kv| delete(handle, kv));
        for outcome in join_all(deletions).await {
            match outcome? {
                Drained::Gone => {}
                Drained::LookAgain => remaining.objects += 1,
                Drained::Held(finalizers) => {
                    remaining.objects += 1;
                    for finalizer in finalizers {
                        *remaining.finalizers.entry(finalizer).or_default() += 1;
                    }
                }
            }
        }
        if !full {
            return Ok(remaining);
        }
    }
}

async fn delete(handle: &ResourceHandle, kv: KeyValue) -> Result<Drained, WriteError> {
    let name = std::str::from_utf8(kv.key.as_bytes()).ok().and_then(|key| key.strip_prefix(handle.prefix()));
    if let Some(name) = name {
        let object = StoredObject::new(name, kv.value, kv.mod_revision);
        return handle.delete_stored(&object, Deadline::after(STEP)).await;
    }
    // A key that is no text is nobody's object, and would hold the prefix for ever.
    let compares = vec![Compare::mod_is(&kv.key, kv.mod_revision)];
    match handle.commit(Txn { compares, ops: vec![Op::Delete(kv.key)] }, Deadline::after(STEP)).await? {
        TxnOutcome::Committed { .. } => Ok(Drained::Gone),
        TxnOutcome::Failed { .. } => Ok(Drained::LookAgain),
    }
}

/// Whether a prefix holds any key; with the revision at which that was so.
pub(crate) async fn is_empty(storage: &dyn Storage, prefix: &str) -> Result<(bool, Revision), WriteError> {
    let request = RangeRequest { limit: Some(1), keys_only: true, ..RangeRequest::prefix(prefix.as_bytes()) };
    let found = storage.range(request).await?;
    Ok((found.kvs.is_empty(), found.revision))
}

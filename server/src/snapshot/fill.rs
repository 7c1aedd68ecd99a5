//! Filling a store of any kind, such as an etcd cluster, with another one's content.
//!
//! **Guarantees.** A key marks the store as unfinished from before the first key is written until all of it was read and
//! compared. Every write is guarded by that mark: two processes that fill the same store cannot mix their keys, and one that
//! wakes up late writes nothing. No server serves a store with the mark.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{TryStreamExt as _, stream};
use kindom_storage::snapshot::Content;
use kindom_storage::{
    Applied, Compare, Key, KeyValue, Op, RangeRequest, Revision, Storage, StorageError, Txn, TxnOutcome,
};

use super::{PREFIXES, content_of};
use crate::BoxError;

/// There as long as a store is not whole.
const MARK: &str = "/kindom/registry/restoring";
/// So many transactions are under way. Each has one key: objects of a type have revisions of their own.
const IN_FLIGHT: usize = 64;
/// The most tries of a transaction with an unknown outcome, or one that the store could not take; and the wait between two
/// tries.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);
/// So many keys of an unfinished attempt are removed at once.
const REMOVED: usize = 100;

/// Returns true if filling the store has begun and not finished.
///
/// # Errors
/// Those of [`Storage::range`].
pub(crate) async fn is_unfinished(store: &dyn Storage) -> Result<bool, StorageError> {
    Ok(mark(store).await? != Revision::ZERO)
}

async fn mark(store: &dyn Storage) -> Result<Revision, StorageError> {
    let request = RangeRequest { keys_only: true, ..RangeRequest::single(&Key::from(MARK)) };
    let found = store.range(request).await?.kvs;
    Ok(found.first().map_or(Revision::ZERO, |kv| kv.mod_revision))
}

/// A store that is being filled.
pub(super) struct Filling {
    store: Arc<dyn Storage>,
    name: String,
    guard: Compare,
}

impl Filling {
    /// Begins, if the store is empty; what an attempt before this one has left goes.
    ///
    /// # Errors
    /// It is not empty.
    pub(super) async fn begin(store: Arc<dyn Storage>, name: String) -> Result<Self, BoxError> {
        let key = Key::from(MARK);
        let left = mark(&*store).await?;
        let mut compares = vec![Compare::mod_is(&key, left)];
        if left == Revision::ZERO {
            compares.extend(PREFIXES.map(|prefix| Compare::empty_prefix(prefix.as_bytes())));
        }
        let ops = vec![Op::Put(key.clone(), Bytes::from_static(b"a snapshot is being restored"))];
        // Not tried again: after an unknown outcome, our own mark looks like another process's.
        let TxnOutcome::Committed { revision } = store.txn(Txn { compares, ops }).await? else {
            return Err(format!("{name} is not empty: only an empty store can be restored").into());
        };
        let filling = Self { store, name, guard: Compare::mod_is(&key, revision) };
        if left != Revision::ZERO {
            filling.clear().await?;
        }
        Ok(filling)
    }

    async fn clear(&self) -> Result<(), BoxError> {
        for prefix in PREFIXES {
            loop {
                let request = RangeRequest {
                    limit: Some(REMOVED),
                    keys_only: true,
                    ..RangeRequest::prefix(prefix.as_bytes())
                };
                let found = self.store.range(request).await?.kvs;
                if found.is_empty() {
                    break;
                }
                self.commit(found.into_iter().map(|kv| Op::Delete(kv.key)).collect()).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn add(&self, page: Vec<KeyValue>) -> Result<(), BoxError> {
        let mut puts = Vec::with_capacity(page.len());
        for kv in page {
            puts.push(Ok(self.commit(vec![Op::Put(kv.key, kv.value?)])));
        }
        stream::iter(puts).try_buffer_unordered(IN_FLIGHT).try_collect().await
    }

    /// Reads the whole store, compares it with `content`, and removes the mark. Returns its revision.
    ///
    /// # Errors
    /// The content differs from the written one; then the mark stays.
    pub(super) async fn finish(self, content: &Content) -> Result<Revision, BoxError> {
        let (revision, found) = content_of(&self.store).await?;
        super::place::same(&self.name, content, &found)?;
        self.commit(vec![Op::Delete(Key::from(MARK))]).await?;
        self.store.close().await?;
        Ok(revision)
    }

    /// Commits operations that may be committed twice.
    async fn commit(&self, ops: Vec<Op>) -> Result<(), BoxError> {
        let mut tries = 1;
        let mut unknown = false;
        let ends = ops.iter().any(|op| op.key().as_bytes() == MARK.as_bytes());
        loop {
            let txn = Txn { compares: vec![self.guard.clone()], ops: ops.clone() };
            match self.store.txn(txn).await {
                Ok(TxnOutcome::Committed { .. }) => return Ok(()),
                // It was ours, and it has ended.
                Ok(TxnOutcome::Failed { .. })
                    if ends && unknown && mark(&*self.store).await? == Revision::ZERO =>
                {
                    return Ok(());
                }
                Ok(TxnOutcome::Failed { .. }) => {
                    return Err(format!("{} is being restored by somebody else since", self.name).into());
                }
                Err(error @ (StorageError::Busy | StorageError::Unavailable { .. })) if tries < TRIES => {
                    unknown |= error.applied() == Applied::Unknown;
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kindom_storage::Memory;

    use super::*;

    fn store() -> Arc<dyn Storage> {
        Arc::new(Memory::new())
    }

    fn kv(key: &str, value: &'static str) -> KeyValue {
        let (key, value) = (Key::from(key), Ok(Bytes::from_static(value.as_bytes())));
        KeyValue { key, value, mod_revision: Revision(70), create_revision: Revision(7) }
    }

    async fn begin(store: &Arc<dyn Storage>) -> Result<Filling, BoxError> {
        Filling::begin(Arc::clone(store), "it".to_owned()).await
    }

    fn contents(kvs: &[KeyValue]) -> Content {
        let mut content = Content::default();
        kvs.iter().for_each(|kv| content.add(kv).unwrap());
        content
    }

    #[tokio::test]
    async fn it_is_unfinished_until_it_was_compared() {
        let store = store();
        let kvs = [kv("/kindom/registry/claims/g", "1"), kv("/registry/a", "x"), kv("/registry/b", "y")];
        let filling = begin(&store).await.unwrap();
        filling.add(kvs.to_vec()).await.unwrap();
        assert!(is_unfinished(&*store).await.unwrap());
        let error = filling.finish(&contents(&kvs[1..])).await.unwrap_err().to_string();
        assert!(error.contains("does not hold what was written"), "{error}");
        assert!(is_unfinished(&*store).await.unwrap());

        // The next attempt starts again, and the former one can no longer write.
        let late = Filling {
            store: Arc::clone(&store),
            name: "it".to_owned(),
            guard: begin(&store).await.unwrap().guard,
        };
        let filling = begin(&store).await.unwrap();
        let error = late.add(vec![kv("/registry/late", "z")]).await.unwrap_err().to_string();
        assert!(error.contains("by somebody else"), "{error}");
        filling.add(kvs[1..].to_vec()).await.unwrap();
        let all = store.range(RangeRequest::prefix(b"/")).await.unwrap().kvs;
        let names: Vec<_> = all.iter().map(|kv| kv.key.to_string()).collect();
        assert_eq!(names, [MARK, "/registry/a", "/registry/b"]);
        filling.finish(&contents(&kvs[1..])).await.unwrap();
    }

    #[tokio::test]
    async fn only_an_empty_store_is_filled() {
        for prefix in PREFIXES {
            let store = store();
            let op = Op::Put(Key::from(format!("{prefix}x").as_str()), Bytes::new());
            store.txn(Txn { compares: Vec::new(), ops: vec![op] }).await.unwrap();
            let error = begin(&store).await.err().unwrap().to_string();
            assert!(error.contains("is not empty"), "{error}");
            assert!(!is_unfinished(&*store).await.unwrap());
        }
        // Keys that no server knows, and leases, do not matter.
        let store = store();
        let op = Op::Put(Key::from("/kindom/registry/leases/x"), Bytes::new());
        store.txn(Txn { compares: Vec::new(), ops: vec![op] }).await.unwrap();
        let filling = begin(&store).await.unwrap();
        filling.finish(&contents(&[])).await.unwrap();
    }
}

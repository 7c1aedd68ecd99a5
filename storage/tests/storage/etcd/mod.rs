//! The etcd engine on real servers: processes of the tests.

mod cluster;
mod equal;
mod faults;
mod messages;
mod prefix;
mod proxy;
mod replaced;
mod tls;

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use kindom_storage::{
    Commit, Etcd, Key, KeyRange, Op, RangeRequest, Revision, Storage, StorageError, Txn, TxnOutcome, Watch,
};

pub(crate) use cluster::{Cluster, options};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not in time"),
    }
}

fn put_txn(key: &str, value: &str) -> Txn {
    let op = Op::Put(Key::from(key), Bytes::copy_from_slice(value.as_bytes()));
    Txn { compares: Vec::new(), ops: vec![op] }
}

async fn put(store: &Etcd, key: &str, value: &str) -> Revision {
    match in_time("a write", store.txn(put_txn(key, value))).await.unwrap() {
        TxnOutcome::Committed { revision } => revision,
        failed @ TxnOutcome::Failed { .. } => panic!("{failed:?}"),
    }
}

/// Writes until it is certain that it happened once; the values tell attempts apart.
async fn put_surely(store: &Etcd, key: &str, value: &str) -> Revision {
    let work = async {
        loop {
            match store.txn(put_txn(key, value)).await {
                Ok(TxnOutcome::Committed { revision }) => return revision,
                Ok(failed) => panic!("{failed:?}"),
                Err(StorageError::Unavailable { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    in_time("a write", work).await
}

async fn read(store: &Etcd, prefix: &str) -> String {
    let found = in_time("a read", store.range(RangeRequest::prefix(prefix.as_bytes()))).await.unwrap();
    let kv = |kv: &kindom_storage::KeyValue| {
        format!("{}={}", kv.key, String::from_utf8_lossy(kv.whole().unwrap()))
    };
    found.kvs.iter().map(kv).collect::<Vec<_>>().join(" ")
}

async fn watch(store: &Etcd, prefix: &str, from: Option<u64>) -> Watch {
    let range = KeyRange::prefix(prefix.as_bytes());
    in_time("a watch", store.watch(range, from.map(Revision))).await.unwrap()
}

async fn next(watch: &mut Watch) -> Result<std::sync::Arc<Commit>, StorageError> {
    in_time("a commit", watch.commits.recv()).await.expect("no end")
}

/// The keys of the next commit.
async fn next_keys(watch: &mut Watch) -> String {
    let commit = next(watch).await.unwrap();
    commit.events.iter().map(|event| event.key.to_string()).collect::<Vec<_>>().join(" ")
}

//! A cluster that took back commits that it had reported.

use futures::FutureExt as _;
use kindom_storage::{Etcd, EtcdOptions, KeyRange, Storage as _, StorageError};

use super::{Cluster, in_time, next, options, put, watch};

/// The name of every cluster that has no other.
const DEFAULT: &str = "etcd-cluster";

/// As the server is started.
async fn started() -> (Cluster, Etcd) {
    let all = |cluster: &Cluster| EtcdOptions { recent_commits_max: 4, ..options(cluster, "") };
    let (cluster, store) = Cluster::with_store(1, all).await;
    for n in 0..10 {
        put(&store, "a", &n.to_string()).await;
    }
    in_time("freshness", store.fresh()).await.unwrap();
    (cluster, store)
}

async fn is_closed(store: &Etcd, why: &str) {
    let told = in_time("the reason", store.replaced()).await.to_string();
    assert!(told.contains(why), "{told}");
    for error in
        [store.fresh().await.unwrap_err(), store.watch(KeyRange::prefix(b"a"), None).await.unwrap_err()]
    {
        assert!(matches!(error, StorageError::Unavailable { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_revision_that_went_back_ends_the_store() {
    let (mut cluster, store) = started().await;
    let mut watching = watch(&store, "a", None).await;
    cluster.start_over(DEFAULT).await;
    let fresh = async { while store.fresh().await.is_ok() {} };
    in_time("an error", fresh).await;
    is_closed(&store, "its revision went back from 11 to 1").await;
    assert!(next(&mut watching).await.is_err());
}

/// It has more revisions than the former one: only the watch shows the difference.
#[tokio::test]
async fn another_cluster_ends_the_store() {
    let (mut cluster, store) = started().await;
    let mut watching = watch(&store, "a", None).await;
    cluster.start_over("another").await;
    in_time("an end", store.replaced()).await;
    is_closed(&store, "answers instead of").await;
    assert!(next(&mut watching).await.is_err());
}

#[tokio::test]
async fn a_cluster_that_comes_back_is_the_same() {
    let (mut cluster, store) = started().await;
    let mut watching = watch(&store, "a", None).await;
    cluster.kill(0).await;
    cluster.launch(0);
    let written = super::put_surely(&store, "a", "again").await;
    assert!(in_time("freshness", store.fresh()).await.unwrap() >= written);
    next(&mut watching).await.unwrap();
    assert!(store.replaced().now_or_never().is_none());
}

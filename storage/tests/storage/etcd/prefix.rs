//! A cluster that is not ours alone.

use kindom_storage::{Area, Etcd, EtcdOptions, Storage as _};

use super::{Cluster, in_time, next_keys, put, read, watch};

/// As the server has it, under another prefix.
fn ours(cluster: &Cluster) -> EtcdOptions {
    let areas = vec![
        Area { name: b"/registry/".to_vec(), stored: b"/other/".to_vec() },
        Area { name: b"/kindom/registry/".to_vec(), stored: b"/kindom/other/".to_vec() },
    ];
    EtcdOptions::new(cluster.urls(), areas, "/kindom/other/freshness")
}

/// All keys, by their names in etcd.
async fn everything(cluster: &Cluster) -> Etcd {
    let options = EtcdOptions::new(cluster.urls(), vec![Area::same("")], "/nobody");
    in_time("a store", Etcd::open(options, |_| ())).await.unwrap()
}

#[tokio::test]
async fn keys_are_stored_under_the_prefix_and_strangers_are_not_seen() {
    let (cluster, store) = Cluster::with_store(1, ours).await;
    let stranger = everything(&cluster).await;
    let mut seen = watch(&store, "", None).await;
    for key in ["/a", "/kindom/otherwise", "/lock/x", "/other", "/z"] {
        put(&stranger, key, "theirs").await;
    }
    put(&store, "/registry/g/a", "1").await;
    put(&store, "/kindom/registry/claims/g", "2").await;
    put(&stranger, "/other/g/b", "3").await;
    assert_eq!(next_keys(&mut seen).await, "/registry/g/a");
    assert_eq!(next_keys(&mut seen).await, "/kindom/registry/claims/g");
    assert_eq!(next_keys(&mut seen).await, "/registry/g/b");
    assert_eq!(read(&store, "").await, "/kindom/registry/claims/g=2 /registry/g/a=1 /registry/g/b=3");
    assert_eq!(read(&stranger, "/other/").await, "/other/g/a=1 /other/g/b=3");
    assert_eq!(read(&stranger, "/kindom/other/claims").await, "/kindom/other/claims/g=2");
    assert!(store.txn(super::put_txn("/elsewhere", "")).await.is_err());
}

#[tokio::test]
async fn freshness_is_proved_where_no_event_comes() {
    let (cluster, store) = Cluster::with_store(1, ours).await;
    let stranger = everything(&cluster).await;
    for n in 0..20 {
        // Our own write's event comes by itself; so nothing has to be proved.
        let written = put(&store, "/registry/a", "").await;
        assert_eq!(in_time("freshness", store.fresh()).await, Ok(written));
        assert!(store.published() >= written);
        if n == 0 {
            assert_eq!(read(&stranger, "/kindom/").await, "", "no marker was needed");
        }
        let theirs = put(&stranger, ["/lock", "/zzz"][n % 2], "").await;
        assert!(in_time("freshness", store.fresh()).await.unwrap() >= theirs);
        assert!(store.published() >= theirs);
    }
    let marked = !read(&stranger, "/kindom/other/freshness").await.is_empty();
    assert_eq!(marked, !cluster.progress_is_trusted().await, "old servers need the marker, new ones don't");
    assert_eq!(read(&store, "/kindom/").await, "", "nobody sees it");
}

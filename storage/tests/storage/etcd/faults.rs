//! Faults between the engine and its cluster.

use std::sync::Arc;

use kindom_storage::{
    Applied, Area, Etcd, EtcdOptions, Key, KeyRange, Op, RangeRequest, Revision, Storage, StorageError, Txn,
};
use tokio::time::Instant;

use super::proxy::Proxy;
use super::{Cluster, PATIENCE, in_time, next, next_keys, options, put, put_surely, put_txn, read, watch};
use crate::support::cases;

/// A store that reaches the first member only through a proxy.
async fn behind_proxy(cluster: &Cluster) -> (Proxy, Etcd) {
    let proxy = Proxy::start(cluster.port(0)).await;
    let options = EtcdOptions { endpoints: vec![proxy.url.clone()], ..options(cluster, "") };
    let store = in_time("an opened store", Etcd::open(options, |_| ())).await.unwrap();
    (proxy, store)
}

#[tokio::test]
async fn a_cut_connection_leaves_no_gap() {
    let (cluster, direct) = Cluster::with_store(1, |cluster| options(cluster, "")).await;
    let (mut proxy, store) = behind_proxy(&cluster).await;
    let mut seen = watch(&store, "k", None).await;
    let rounds = cases(20, 300);
    for round in 0..rounds {
        let mut last = put(&direct, &format!("k/{round}/a"), "").await;
        proxy.cut();
        for n in 0..3 {
            last = put(&direct, &format!("k/{round}/b{n}"), "").await;
        }
        // A read fails over to another endpoint, and sees the writes of the meantime.
        assert!(in_time("freshness", store.fresh()).await.unwrap() >= last);
        assert!(store.published() >= last);
    }
    for round in 0..rounds {
        for key in ["a", "b0", "b1", "b2"] {
            assert_eq!(next_keys(&mut seen).await, format!("k/{round}/{key}"));
        }
    }
    assert!(seen.commits.try_recv().is_err());
}

#[tokio::test]
async fn history_that_is_compacted_before_it_is_seen_is_told() {
    let (cluster, direct) = Cluster::with_store(1, |cluster| options(cluster, "")).await;
    let (mut proxy, store) = behind_proxy(&cluster).await;
    let mut seen = watch(&store, "k", None).await;
    put(&direct, "k/1", "").await;
    assert_eq!(next_keys(&mut seen).await, "k/1");
    let before = in_time("freshness", store.fresh()).await.unwrap();
    proxy.close();
    for n in 2..6 {
        put(&direct, &format!("k/{n}"), "").await;
    }
    let last = put(&direct, "k/6", "").await;
    direct.compact(last).await.unwrap();
    proxy.cut();
    let refused = next(&mut seen).await.unwrap_err();
    assert_eq!(refused, StorageError::Compacted { requested: before.next(), compacted: last });
    assert!(in_time("the end", seen.commits.recv()).await.is_none());
    // It goes on from there.
    assert_eq!(in_time("freshness", store.fresh()).await.unwrap(), last);
    assert_eq!(read(&store, "k/6").await, "k/6=");
    assert_eq!(store.compacted(), last);
    let again = in_time("a refusal", store.watch(KeyRange::prefix(b"k"), Some(before.next()))).await;
    assert_eq!(again.unwrap_err(), StorageError::Compacted { requested: before.next(), compacted: last });
    let mut seen = watch(&store, "k", Some(last.0 + 1)).await;
    put(&direct, "k/7", "").await;
    assert_eq!(next_keys(&mut seen).await, "k/7");
}

#[tokio::test]
async fn what_nobody_compacted_here_is_learnt_from_a_refusal() {
    let (cluster, other) = Cluster::with_store(1, |cluster| options(cluster, "")).await;
    let store = in_time("a store", Etcd::open(options(&cluster, ""), |_| ())).await.unwrap();
    for n in 0..10 {
        put(&other, "k", &n.to_string()).await;
    }
    let head = in_time("freshness", store.fresh()).await.unwrap();
    let (old, to) = (Revision(head.0 - 6), Revision(head.0 - 4));
    other.compact(to).await.unwrap();
    let request = RangeRequest { revision: Some(old), ..RangeRequest::prefix(b"") };
    let refused = in_time("a refusal", store.range(request)).await.unwrap_err();
    assert_eq!(refused, StorageError::Compacted { requested: old, compacted: to });
    assert_eq!(store.compacted(), to);
    assert!(store.watch(KeyRange::prefix(b""), Some(to)).await.is_err());
    assert_eq!(next(&mut watch(&store, "", Some(to.0 + 1)).await).await.unwrap().revision, to.next());
}

#[tokio::test]
async fn a_paused_member_is_left() {
    let (cluster, direct) = Cluster::with_store(3, |cluster| options(cluster, "")).await;
    let mut seen = watch(&direct, "k", None).await;
    let mut expected = Vec::new();
    for round in 0..cases(3, 12) {
        let paused = usize::try_from(round % 3).unwrap();
        cluster.pause(paused);
        for n in 0..3 {
            let key = format!("k/{round}/{n}");
            // An attempt whose answer is lost may have happened: the last one certainly did.
            let revision = put_surely(&direct, &key, "").await;
            expected.push((revision, key));
        }
        let last = expected.last().unwrap().0;
        let fresh = async {
            loop {
                match direct.fresh().await {
                    Ok(fresh) => return fresh,
                    Err(StorageError::Unavailable { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        assert!(in_time("freshness", fresh).await >= last);
        cluster.go_on(paused);
    }
    let mut at = Revision::ZERO;
    for (revision, key) in expected {
        let commit = loop {
            let commit = next(&mut seen).await.unwrap();
            assert!(commit.revision > at, "in order");
            at = commit.revision;
            if at >= revision {
                break commit;
            }
        };
        assert_eq!((commit.revision, commit.events[0].key.to_string()), (revision, key));
    }
}

#[tokio::test]
async fn a_store_opens_by_whichever_member_answers() {
    let (cluster, direct) = Cluster::with_store(3, |cluster| options(cluster, "")).await;
    put(&direct, "k", "1").await;
    cluster.pause(0);
    let store = in_time("a store", Etcd::open(options(&cluster, ""), |_| ())).await.unwrap();
    assert_eq!(read(&store, "k").await, "k=1");
    let mut seen = watch(&store, "k", None).await;
    put_surely(&direct, "k", "2").await;
    assert_eq!(next_keys(&mut seen).await, "k");
}

#[tokio::test]
async fn a_watch_of_a_paused_member_goes_on_though_nobody_asks() {
    let (cluster, writer) = Cluster::with_store(3, |cluster| options(cluster, "")).await;
    // It reads and watches by the first member, and only waits for events.
    let idle = in_time("a store", Etcd::open(options(&cluster, ""), |_| ())).await.unwrap();
    let mut seen = watch(&idle, "k", None).await;
    cluster.pause(0);
    let revision = put_surely(&writer, "k", "").await;
    loop {
        let commit = next(&mut seen).await.unwrap();
        assert!(commit.revision <= revision);
        if commit.revision == revision {
            break;
        }
    }
}

#[tokio::test]
async fn a_cluster_that_comes_back_is_found_again() {
    let (mut cluster, store) = Cluster::with_store(1, |cluster| options(cluster, "")).await;
    let mut seen = watch(&store, "k", None).await;
    let before = put(&store, "k/1", "").await;
    assert_eq!(next_keys(&mut seen).await, "k/1");
    cluster.kill(0).await;
    let refused = in_time("a refusal", store.txn(put_txn("k/never", ""))).await.unwrap_err();
    assert!(matches!(refused, StorageError::Unavailable { .. }), "{refused:?}");
    // A write may still go to a connection that is about to end. Once that one is known to be gone, nothing is sent.
    let (mut refused, start) = (refused, Instant::now());
    while refused.applied() != Applied::No && start.elapsed() < PATIENCE {
        refused = in_time("a refusal", store.txn(put_txn("k/never", ""))).await.unwrap_err();
    }
    assert_eq!(refused.applied(), Applied::No, "{refused:?}");
    assert!(in_time("a refusal", store.fresh()).await.is_err());
    assert_eq!(store.published(), before);
    cluster.launch(0);
    let mut back = Ok(Revision::ZERO);
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        back = store.fresh().await;
        if back.is_ok() {
            break;
        }
    }
    assert_eq!(back, Ok(before));
    put(&store, "k/2", "").await;
    assert_eq!(next_keys(&mut seen).await, "k/2");
    assert_eq!(read(&store, "k").await, "k/1= k/2=");
}

#[tokio::test]
async fn an_answer_that_does_not_come_says_nothing() {
    let (cluster, store) = Cluster::with_store(1, |cluster| options(cluster, "")).await;
    cluster.pause(0);
    let lost = in_time("an error", store.txn(put_txn("k", ""))).await.unwrap_err();
    assert!(matches!(lost, StorageError::Unavailable { applied: Applied::Unknown, .. }), "{lost:?}");
    assert!(in_time("a refusal", store.range(RangeRequest::prefix(b""))).await.is_err());
    cluster.go_on(0);
    put_surely(&store, "k2", "").await;
}

#[tokio::test]
async fn a_request_that_is_too_large_is_named() {
    let (_cluster, store) = Cluster::with_store(1, |cluster| {
        let mut options = options(cluster, "");
        (options.limits.value_bytes_max, options.limits.txn_bytes_max) = (16 << 20, 16 << 20);
        options
    })
    .await;
    // Beyond etcd's limit, and beyond that of its gRPC server.
    for bytes in [1_600_000, 3 << 20] {
        let refused = in_time("a refusal", store.txn(put_txn("k", &"x".repeat(bytes)))).await.unwrap_err();
        assert!(
            matches!(refused, StorageError::RequestTooLarge { bytes: b, .. } if b == bytes + 1),
            "{refused:?}"
        );
        assert!(refused.to_string().contains("--max-request-bytes"), "{refused}");
        assert_eq!(refused.applied(), Applied::No);
    }
    let ops = (0..129).map(|n| Op::Delete(Key::from(format!("k{n}")))).collect();
    let refused = in_time("a refusal", store.txn(Txn { compares: Vec::new(), ops })).await.unwrap_err();
    assert!(refused.to_string().contains("128"), "{refused}");
    // Many large values are read in pages, each far smaller than one reply with all of them.
    let value = "x".repeat(1 << 20);
    for n in 0..12 {
        put(&store, &format!("large/{n:02}"), &value).await;
    }
    let all = in_time("a read", store.range(RangeRequest::prefix(b"large/"))).await.unwrap();
    assert_eq!((all.kvs.len(), all.count), (12, 12));
    assert!(all.kvs.iter().all(|kv| kv.whole().unwrap().len() == 1 << 20));
    let mut seen = watch(&store, "large/", Some(1)).await;
    for _ in 0..12 {
        assert!(next(&mut seen).await.is_ok());
    }
}

#[tokio::test]
async fn replicas_agree_on_who_compacts() {
    let (cluster, writer) = Cluster::with_store(1, |cluster| options(cluster, "/k")).await;
    let replica = async || {
        let every = Some(std::time::Duration::from_millis(100));
        let options = EtcdOptions { compact_every: every, ..options(&cluster, "/k") };
        in_time("a store", Etcd::open(options, |_| ())).await.unwrap()
    };
    let replicas = [replica().await, replica().await];
    let mut last = Revision::ZERO;
    let work = async {
        while replicas.iter().any(|replica| replica.compacted() <= Revision(4)) {
            last = put(&writer, "/k/a", "").await;
        }
    };
    in_time("compaction", work).await;
    // Whichever replica compacted, all of it is gone, and nothing newer.
    let old = RangeRequest { revision: Some(Revision(3)), ..RangeRequest::prefix(b"") };
    assert!(matches!(writer.range(old).await, Err(StorageError::Compacted { .. })));
    assert!(replicas.iter().all(|replica| replica.compacted() <= last));
    let own = Area::same("compact_rev_key");
    let options = EtcdOptions::new(cluster.urls(), vec![own], "/mark");
    let root = in_time("a store", Etcd::open(options, |_| ())).await.unwrap();
    assert!(read(&root, "compact_rev_key").await.starts_with("compact_rev_key="));
}

#[tokio::test]
async fn history_beyond_memory_is_read_from_the_cluster() {
    let (_cluster, store) = Cluster::with_store(1, |cluster| {
        let mut options = options(cluster, "");
        options.recent_commits_max = 3;
        options
    })
    .await;
    let mut revisions = Vec::new();
    for n in 0..60 {
        revisions.push((put(&store, if n % 3 == 0 { "k" } else { "other" }, &n.to_string()).await, n));
    }
    in_time("freshness", store.fresh()).await.unwrap();
    let ours: Vec<_> = revisions.iter().filter(|(_, n)| n % 3 == 0).map(|(revision, _)| *revision).collect();
    let store = Arc::new(store);
    // More at once than may read history at once.
    let readers = ours.iter().take(12).enumerate().map(|(skip, from)| {
        let (store, ours, from) = (Arc::clone(&store), ours.clone(), *from);
        tokio::spawn(async move {
            let mut seen = watch(&store, "k", Some(from.0)).await;
            assert_eq!(seen.progress.last_sent(), *ours.last().unwrap());
            for revision in &ours[skip..] {
                assert_eq!(next(&mut seen).await.unwrap().revision, *revision);
            }
            assert!(seen.commits.try_recv().is_err());
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
    // One who wants nothing of it all starts where he said.
    let nothing = watch(&store, "nothing", Some(ours[0].0)).await;
    assert_eq!(nothing.progress.last_sent().0, ours[0].0 - 1);
}

//! The engine's counts of its own batches.

use kindom_storage::{Compare, Embedded, EmbeddedOptions, Key, Op, Storage as _, Txn};

#[tokio::test]
async fn batches_and_transactions_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), EmbeddedOptions::default()).unwrap();
    assert_eq!((store.write_counts().batches, store.write_counts().txns), (0, 0));
    let key = Key::from("/a");
    let create =
        Txn { compares: vec![Compare::absent(&key)], ops: vec![Op::Put(key.clone(), b"x".to_vec().into())] };
    store.txn(create.clone()).await.unwrap();
    // Refused: nothing is written.
    store.txn(create).await.unwrap();
    assert_eq!((store.write_counts().batches, store.write_counts().txns), (1, 1));

    let many = (0..50).map(|i| {
        let key = Key::from(format!("/b/{i}"));
        store.txn(Txn { compares: Vec::new(), ops: vec![Op::Put(key, b"x".to_vec().into())] })
    });
    futures::future::join_all(many).await;
    let counts = store.write_counts();
    assert_eq!(counts.txns, 51);
    assert!((2..=51).contains(&counts.batches), "{counts:?}");
    store.close().await.unwrap();
}

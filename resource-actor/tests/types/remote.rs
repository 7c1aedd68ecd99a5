//! A store that is reached over a network: answers get lost, and it may be away.

use std::sync::atomic::Ordering;

use kindom_api::object;
use kindom_resource_actor::{Freshness, ReadError, WriteError};
use kindom_storage::{Applied, Revision, StorageError};

use crate::world::*;

/// Design, invariant 1: an unknown outcome is resolved where what is stored proves that the write happened.
#[test]
fn a_write_whose_answer_was_lost_is_found() {
    run(|world| async move {
        let widgets = world.widgets();
        *world.store.answers.lock() = Answers::Lost;
        let created = create(&widgets, widget("a", 1)).await.unwrap();
        assert!(created.created);
        let there = get(&widgets, "a").await.unwrap();
        assert_eq!((created.object.json(), created.object.revision()), (there.json(), there.revision()));

        let hold = |o: &mut kindom_api::Value| {
            let metadata = o.get_mut("metadata").unwrap().as_object_mut().unwrap();
            metadata.insert("finalizers", vec!["example.com/held"]);
        };
        let changed = patch(&widgets, "a", hold).await.unwrap();
        assert!(changed.object.revision() > created.object.revision());
        assert_eq!(changed.object.revision(), get(&widgets, "a").await.unwrap().revision());

        let marked = delete(&widgets, "a").await.unwrap();
        assert!(!marked.deleted && marked.object.deleting());
        assert_eq!(marked.object.revision(), get(&widgets, "a").await.unwrap().revision());
        assert_eq!(world.history().await.len(), 3, "each of them happened once");
    });
}

#[test]
fn absence_proves_nothing() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 1)).await.unwrap();
        *world.store.answers.lock() = Answers::NeverAsked;
        let created = create(&widgets, widget("b", 1)).await;
        assert!(matches!(created.err(), Some(WriteError::Unknown)));
        let change = |o: &mut kindom_api::Value| *o.get_mut("spec").unwrap() = object! { "n": 7 };
        let changed = patch(&widgets, "a", change).await;
        assert!(matches!(changed.err(), Some(WriteError::Unknown)));
        assert_eq!(world.history().await.len(), 1);

        // What is gone may be gone by another's hand.
        *world.store.answers.lock() = Answers::Lost;
        assert!(matches!(delete(&widgets, "a").await.err(), Some(WriteError::Unknown)));
        assert!(get(&widgets, "a").await.is_none());
    });
}

#[test]
fn what_is_known_here_needs_no_store() {
    run(|world| async move {
        let widgets = world.widgets();
        let a = create(&widgets, widget("a", 1)).await.unwrap().object.revision();
        let b = create(&widgets, widget("b", 1)).await.unwrap().object.revision();
        world.store.away.store(true, Ordering::SeqCst);
        for freshness in [Freshness::Any, Freshness::AtLeast(a), Freshness::AtLeast(b)] {
            let (snapshot, at) = widgets.snapshot(freshness, soon()).await.unwrap();
            assert_eq!((snapshot.len(), at), (2, b), "{freshness:?}");
        }
        widgets.happened(b, soon()).await.unwrap();
        let mut watch = widgets.watch(a).unwrap();
        assert_eq!(brief(&watch.next(9).await.unwrap()), ["+ns/b"]);
        let away = |error| {
            let is_away = matches!(
                error,
                Some(ReadError::Storage(StorageError::Unavailable { applied: Applied::No, .. }))
            );
            assert!(is_away, "{error:?}");
        };
        away(widgets.snapshot(Freshness::Latest, soon()).await.err());
        away(widgets.snapshot(Freshness::AtLeast(b.next()), soon()).await.err());
        away(widgets.happened(b.next(), soon()).await.err());
        let refused = create(&widgets, widget("c", 1)).await;
        assert!(refused.is_ok(), "a create looks at nothing first: the store judges it");

        world.store.away.store(false, Ordering::SeqCst);
        let future = Revision(b.0 + 100);
        let early = widgets.snapshot(Freshness::AtLeast(future), soon()).await.err();
        assert!(
            matches!(early, Some(ReadError::Storage(StorageError::Future { requested, .. })) if requested == future)
        );
    });
}

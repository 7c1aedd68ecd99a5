//! A store that is reached over a network: answers get lost, and it may be away.

use std::sync::atomic::Ordering;

use kindom_api::object;
use kindom_objects::Removal;
use kindom_resource_actor::{Freshness, Knowledge, ResourceHandle, WriteOptions, Written, is_conclusive};
use kindom_resource_actor::{ReadError, WriteError};
use kindom_storage::{Applied, Revision, StorageError};

use crate::world::*;

/// Design, invariant 1: an unknown outcome is resolved where what is stored proves that the write happened.
#[test]
fn a_write_whose_answer_was_lost_is_found() {
    run(|world| async move {
        let widgets = world.widgets();
        *world.store.answers.lock() = Answers::Lost;
        let created = create(&widgets, widget("a", 1)).await.unwrap();
        assert_eq!(created.outcome, kindom_resource_actor::Outcome::Created { dry_run: false });
        let there = get(&widgets, "a").await.unwrap();
        assert_eq!((created.object.json(), created.object.revision()), (there.json(), there.revision()));

        let hold = |o: &mut kindom_api::Value| {
            let metadata = o.get_mut("metadata").unwrap().as_object_mut().unwrap();
            metadata.insert("finalizers", vec!["example.com/held"]);
        };
        // Another client may have written the very same: one of two updates of one revision has lost.
        let changed = patch(&widgets, "a", hold).await;
        assert!(matches!(changed.err(), Some(WriteError::Unknown)));
        assert!(get(&widgets, "a").await.unwrap().revision() > created.object.revision());

        let marked = delete(&widgets, "a").await.unwrap();
        assert!(!marked.outcome.is_deleted() && marked.object.deleting());
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

type Outcome = Result<Written, WriteError>;

fn guess() -> WriteOptions {
    WriteOptions { knowledge: Knowledge::Guess, ..options() }
}

async fn guess_change(widgets: &ResourceHandle, name: &str, n: i64) -> Outcome {
    let mut wanted = |_: &kindom_objects::RuleContext<'_>, old: &kindom_api::Value| {
        let mut object = old.clone();
        *object.get_mut("spec").unwrap() = object! { "n": n };
        Ok(object)
    };
    widgets.update(at(name), true, &mut wanted, &guess()).await
}

async fn guess_delete(widgets: &ResourceHandle, name: &str) -> Outcome {
    widgets.delete(at(name), &Removal::default(), &guess()).await
}

fn is_guessed(outcome: &Outcome) -> bool {
    matches!(outcome, Err(WriteError::Guessed)) && !is_conclusive(outcome)
}

/// A plan on the state known here asks the store once: to commit it.
#[test]
fn a_guess_that_holds_is_committed() {
    run(|world| async move {
        let widgets = world.widgets();
        widgets.snapshot(Freshness::Any, soon()).await.unwrap();
        world.store.away.store(true, Ordering::SeqCst);
        let created = create_with(&widgets, widget("a", 1), &guess()).await;
        assert!(is_conclusive(&created));
        let at = created.unwrap().object.revision();
        widgets.happened(at, soon()).await.unwrap();
        let changed = guess_change(&widgets, "a", 2).await;
        assert!(is_conclusive(&changed));
        widgets.happened(changed.unwrap().object.revision(), soon()).await.unwrap();
        let deleted = guess_delete(&widgets, "a").await;
        assert!(is_conclusive(&deleted) && deleted.unwrap().outcome.is_deleted());
        assert_eq!(world.history().await.len(), 3);
    });
}

/// A refusal, and that nothing had to be changed, may be true only of the past.
#[test]
fn a_guess_that_is_not_committed_says_nothing() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 1)).await.unwrap();
        let before = world.history().await;
        for outcome in [
            guess_change(&widgets, "a", 1).await,
            guess_change(&widgets, "b", 1).await,
            guess_delete(&widgets, "b").await,
            create_with(&widgets, widget("b", 1), &WriteOptions { dry_run: true, ..guess() }).await,
        ] {
            assert!(!is_conclusive(&outcome), "{:?}", outcome.err());
        }
        assert!(is_guessed(&create_with(&widgets, widget("a", 1), &guess()).await));
        assert_eq!(world.history().await, before);

        // Nobody knows: asking again would not tell.
        *world.store.answers.lock() = Answers::NeverAsked;
        let unknown = create_with(&widgets, widget("b", 1), &guess()).await;
        assert!(matches!(unknown, Err(WriteError::Unknown)) && is_conclusive(&unknown));
    });
}

/// A second plan would cost more than the look at the store that a good guess spares.
#[test]
fn what_is_dear_is_not_planned_on_a_guess() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 1)).await.unwrap();
        let before = world.history().await;
        let mut asked = 0;
        let mut wanted = |_: &kindom_objects::RuleContext<'_>, old: &kindom_api::Value| {
            asked += 1;
            Ok(old.clone())
        };
        let options = WriteOptions { bytes: 20_000, ..guess() };
        let outcome = widgets.update(at("a"), true, &mut wanted, &options).await;
        assert!(is_guessed(&outcome));
        assert_eq!((asked, world.history().await), (0, before));
    });
}

/// Another replica was faster, by the object or by the registration; of which nobody waits to hear.
#[test]
fn a_guess_that_was_overtaken_is_not_committed() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 1)).await.unwrap();
        let other = tree(&get(&widgets, "a").await.unwrap()).to_string();
        let overtakes = |key: &'static str, value: String| {
            let mut once = true;
            world.before_txn(move |store, _| {
                if std::mem::take(&mut once) {
                    put(store, key, &value);
                }
            });
        };
        overtakes("/registry/g.io/widgets/ns/a", other.clone());
        assert!(is_guessed(&guess_change(&widgets, "a", 2).await));
        overtakes("/registry/g.io/widgets/ns/a", other);
        assert!(is_guessed(&guess_delete(&widgets, "a").await));
        overtakes(REGISTRATION, "{}".to_owned());
        assert!(is_guessed(&create_with(&widgets, widget("b", 1), &guess()).await));
        assert!(is_guessed(&guess_change(&widgets, "a", 2).await), "it is still the old one here");
        assert_eq!(world.history().await.len(), 3, "none of it is ours");
    });
}

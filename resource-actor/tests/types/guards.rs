//! A write commits only under the registration and the namespace that it was planned with (design, invariant 6).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kindom_actor_kit::Deadline;
use kindom_api::object;
use kindom_objects::PlanError;
use kindom_resource_actor::{Freshness, WriteOptions};
use kindom_resource_actor::{ReadError, WriteError};
use kindom_storage::{Compare, Revision};

use crate::world::*;

/// T-47: the registration is marked after the create was planned, before it is committed.
#[test]
fn a_create_planned_under_an_older_registration_never_commits() {
    run(|world| async move {
        let widgets = world.widgets();
        let marked = terminating(registration(&["v1"], &schema()));
        let text = marked.to_string();
        let mut once = true;
        world.before_txn(move |store, _| {
            if std::mem::take(&mut once) {
                put(store, REGISTRATION, &text);
            }
        });
        let told = async {
            // It waits for the registry's word; nothing is stored meanwhile.
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(world.history().await.is_empty());
            world.change(&widgets, &marked);
        };
        let (created, ()) = tokio::join!(create(&widgets, widget("a", 1)), told);
        assert!(matches!(created.err(), Some(WriteError::Plan(PlanError::Forbidden { .. }))));
        assert!(world.history().await.is_empty());
    });
}

/// T-54: no write that was planned before the type was frozen lands after it, plain deletions included.
#[test]
fn a_write_planned_before_the_type_was_frozen_never_commits() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 1)).await.unwrap();
        create(&widgets, widget("b", 1)).await.unwrap();
        let before = world.history().await;
        let mut frozen = registration(&["v1"], &schema());
        let metadata = frozen.get_mut("metadata").unwrap().as_object_mut().unwrap();
        metadata.insert("annotations", object! { "kindom.dev/read-only": "true" });
        let text = frozen.to_string();
        let mut once = true;
        world.before_txn(move |store, _| {
            if std::mem::take(&mut once) {
                put(store, REGISTRATION, &text);
            }
        });
        let told = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            world.change(&widgets, &frozen);
        };
        let change = patch(&widgets, "a", |o| *o.get_mut("spec").unwrap() = object! { "n": 7 });
        let (created, changed, deleted, ()) =
            tokio::join!(create(&widgets, widget("c", 1)), change, delete(&widgets, "b"), told);
        for outcome in [created, changed, deleted] {
            assert!(
                matches!(outcome.as_ref().err(), Some(WriteError::Plan(PlanError::Forbidden { .. }))),
                "{:?}",
                outcome.err()
            );
        }
        assert_eq!(world.history().await, before);
    });
}

#[test]
fn a_write_that_never_hears_of_the_new_registration_gives_up() {
    run(|world| async move {
        let widgets = world.widgets();
        widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
        world.put(REGISTRATION, "{}");
        let brief = WriteOptions { deadline: Deadline::after(Duration::from_secs(2)), ..options() };
        let created = create_with(&widgets, widget("a", 1), &brief).await.err();
        assert!(matches!(created, Some(WriteError::Unavailable(_))), "{created:?}");
        assert!(world.history().await.is_empty());
    });
}

#[test]
fn an_update_is_planned_again_under_the_new_schema() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 1)).await.unwrap();
        let mut strict = schema();
        let n = strict.get_mut("properties").unwrap().get_mut("spec").unwrap().get_mut("properties").unwrap();
        *n.get_mut("n").unwrap() = object! { "type": "integer", "maximum": 5 };
        let changed = registration(&["v1"], &strict);
        let text = changed.to_string();
        let mut once = true;
        world.before_txn(move |store, _| {
            if std::mem::take(&mut once) {
                put(store, REGISTRATION, &text);
            }
        });
        let told = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            world.change(&widgets, &changed);
        };
        let seven = patch(&widgets, "a", |o| *o.get_mut("spec").unwrap() = object! { "n": 7 });
        let (updated, ()) = tokio::join!(seven, told);
        assert!(
            matches!(updated.as_ref().err(), Some(WriteError::Plan(PlanError::Invalid { .. }))),
            "{:?}",
            updated.err()
        );
    });
}

#[test]
fn a_write_behind_a_fence_that_moved_is_a_conflict() {
    run(|world| async move {
        let widgets = world.widgets();
        let key = kindom_storage::Key::from("/kindom/fence");
        let absent = WriteOptions { fence: Some(Compare::absent(&key)), ..options() };
        create_with(&widgets, widget("a", 1), &absent).await.unwrap();
        let before = world.history().await.len();
        world.put("/kindom/fence", "{}");
        let refused = create_with(&widgets, widget("b", 1), &absent).await.err();
        assert!(matches!(refused, Some(WriteError::Plan(PlanError::Conflict { .. }))), "{refused:?}");
        assert!(widgets.get("ns/b", soon()).await.unwrap().is_none());
        assert_eq!(world.history().await.len(), before, "and is not planned again");
    });
}

#[test]
fn a_create_needs_a_living_namespace() {
    run(|world| async move {
        let (widgets, namespaces) = (world.widgets(), world.namespaces());
        let options = WriteOptions { namespaces: Some(namespaces.clone()), ..options() };
        let missing = create_with(&widgets, widget("a", 1), &options).await.err();
        assert_eq!(missing, Some(WriteError::Plan(PlanError::NamespaceNotFound { name: "ns".into() })));

        let alive = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ns","uid":"u"}}"#;
        let marked = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","name":"ns","uid":"u"}}"#;
        world.put("/registry/namespaces/ns", alive);
        create_with(&widgets, widget("a", 1), &options).await.unwrap();

        // A change of the namespace between plan and commit is looked at again.
        let steps = Arc::new(AtomicUsize::new(0));
        let step = Arc::clone(&steps);
        world.before_txn(move |store, _| match step.fetch_add(1, Ordering::Relaxed) + 1 {
            1 => drop(put(store, "/registry/namespaces/ns", &alive.replace("\"u\"", "\"v\""))),
            3 => drop(put(store, "/registry/namespaces/ns", marked)),
            _ => {}
        });
        create_with(&widgets, widget("b", 1), &options).await.unwrap();
        assert_eq!(
            steps.load(Ordering::Relaxed),
            2,
            "the first try met another namespace, the second one committed"
        );
        let refused = create_with(&widgets, widget("c", 1), &options).await.err();
        assert!(
            matches!(refused, Some(WriteError::Plan(PlanError::NamespaceTerminating { .. }))),
            "{refused:?}"
        );
        let names: Vec<_> = stored(&widgets).await.into_keys().collect();
        assert_eq!(names, ["ns/a", "ns/b"]);
    });
}

/// A mark stores the object again, and what goes must not go from a type that was frozen meanwhile (T-54).
#[test]
fn deletions_are_guarded_by_the_registration() {
    run(|world| async move {
        let widgets = world.widgets();
        let mut object = widget("a", 1);
        object.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("finalizers", vec!["g.io/x"]);
        create(&widgets, object).await.unwrap();
        create(&widgets, widget("b", 1)).await.unwrap();
        let changed = registration(&["v1", "v2"], &schema());
        world.put(REGISTRATION, &changed.to_string());
        let told = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!get(&widgets, "a").await.unwrap().deleting());
            assert!(get(&widgets, "b").await.is_some());
            world.change(&widgets, &changed);
        };
        let (marked, gone, ()) = tokio::join!(delete(&widgets, "a"), delete(&widgets, "b"), told);
        assert!(marked.unwrap().object.deleting());
        assert!(gone.unwrap().outcome.is_deleted());
    });
}

/// T-52: who still holds a handle of a type that is gone reaches nothing through it.
#[test]
fn a_type_that_is_gone_answers_so() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 1)).await.unwrap();
        let wait = widgets.snapshot(Freshness::Latest, soon());
        widgets.retire_at(Revision(99));
        assert_eq!(wait.await.err(), Some(ReadError::Gone));
        assert_eq!(create(&widgets, widget("b", 1)).await.err(), Some(WriteError::Gone));
        assert_eq!(delete(&widgets, "a").await.err(), Some(WriteError::Gone));
        assert!(widgets.watch(Revision(1)).is_err());
        let txn = kindom_storage::Txn::default();
        assert_eq!(widgets.commit(txn, soon()).await.err(), Some(WriteError::Gone));
        assert!(!widgets.is_awake());
        // Its successor of the same name does not wait for it to leave.
        let next = world.widgets();
        create(&next, widget("b", 1)).await.unwrap();
        assert!(Arc::strong_count(&world.deps) > 1);
    });
}

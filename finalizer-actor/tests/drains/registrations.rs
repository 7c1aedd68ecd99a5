//! A registration that is deleted takes its objects along, and goes last.

use std::sync::Arc;
use std::time::Duration;

use kindom_api::{Value, object};
use kindom_objects::{CustomObjects, StoredObject, TypeSpec};
use kindom_resource_actor::{Drained, Freshness, ResourceHandle};
use kindom_resource_actor::{WatchError, WriteError};
use kindom_storage::{Compare, Op, Revision, Storage as _};
use tokio::time::Instant;

use crate::world::*;
use crate::{GOING, Tally, run};

const NAME: &str = "widgets.g.io";

async fn message(world: &World) -> String {
    let crd = world.crd(NAME).await.unwrap();
    let conditions = crd.at(&["status", "conditions"]).and_then(Value::as_array).unwrap();
    let one = conditions.iter().find(|c| c.get("type").unwrap().as_str() == Some("Terminating")).unwrap();
    one.get("message").unwrap().as_str().unwrap().to_owned()
}

/// T-45, T-48, T-49, T-56: every key goes, whatever its namespace and state; the registration last.
#[test]
fn a_deleted_registration_drains_and_goes() {
    run(1, 1, |world| async move {
        let widgets = world.established("widgets").await;
        // A type whose name begins with the other's is not touched.
        let other = world.established("widgetsets").await;
        create(&other, "ns0", "a", &[], None).await.unwrap();
        let puts = (0..3_000).map(|i| {
            let json = format!(r#"{{"apiVersion":"g.io/v1","metadata":{{"uid":"{i}"}}}}"#);
            Op::Put(format!("{}ns{}/o{i}", widgets.prefix(), i % 7).into(), json.into())
        });
        for op in puts {
            world.store.commit(vec![op]);
        }
        world.put(&format!("{}ns0/garbage", widgets.prefix()), "no json at all");
        world.put(
            &format!("{}ns0/old", widgets.prefix()),
            r#"{"apiVersion":"gone.io/v0","metadata":{"uid":"u"}}"#,
        );
        world.store.commit(vec![Op::Put(
            kindom_storage::Key::new([widgets.prefix().as_bytes(), b"\xff\xfe"].concat()),
            "x".into(),
        )]);
        let (_, now) = widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
        let mut cursor = widgets.watch(now).unwrap();
        let start = Instant::now();
        world.delete(NAME).await.unwrap();
        world.until_gone(NAME).await;
        assert_eq!(Instant::now(), start, "nothing waited for a timer");
        assert!(world.keys(widgets.prefix()).is_empty());
        let mut seen = 0;
        let end = loop {
            match cursor.next(100).await {
                Ok(events) => {
                    assert!(events.iter().all(|e| e.object.is_none()));
                    seen += events.len();
                }
                Err(error) => break error,
            }
        };
        assert_eq!((seen, end), (3_002, WatchError::Gone));
        assert!(world.routed("g.io", "widgets").await.is_none());
        assert_eq!(world.keys(other.prefix()).len(), 1);
    });
}

/// The last finalizer's removal completes it, by an event; until then the condition lists the finalizers.
#[test]
fn finalizers_hold_a_drain_and_its_condition_says_so() {
    run(2, 1, |world| async move {
        let widgets = world.established("widgets").await;
        for i in 0..5 {
            create(&widgets, "ns", &format!("free{i}"), &[], None).await.unwrap();
        }
        create(&widgets, "ns", "one", &["g.io/x"], None).await.unwrap();
        create(&widgets, "ns", "two", &["g.io/x", "g.io/y"], None).await.unwrap();
        let start = Instant::now();
        world.delete(NAME).await.unwrap();
        world.until_shown(NAME, "Terminating=True InstanceDeletionInProgress").await;
        let two = "CustomResource deletion is in progress: 2 objects remain (ns/one, ns/two), held by finalizers: g.io/x in 2 objects, g.io/y in 1 object";
        world.until(&world.registrations, async || message(&world).await == two).await;
        assert_eq!(world.keys(widgets.prefix()).len(), 2);
        assert!(release(&widgets, "ns", "one").await.unwrap().outcome.is_deleted());
        world
            .until(&world.registrations, async || message(&world).await.contains("1 object remains (ns/two)"))
            .await;
        assert!(release(&widgets, "ns", "two").await.unwrap().outcome.is_deleted());
        world.until_gone(NAME).await;
        assert_eq!(Instant::now(), start, "nothing waited for a timer");
    });
}

/// A release costs no pass over the held objects, and few releases cost a write of the status (T-46).
#[test]
fn progress_is_told_at_a_bounded_rate() {
    run(7, 0, |world| async move {
        let widgets = world.established("widgets").await;
        let finalizers = |i: usize| if i.is_multiple_of(10) { r#""g.io/x","g.io/y""# } else { r#""g.io/x""# };
        for i in 0..2_000 {
            let json = format!(
                r#"{{"apiVersion":"g.io/v1","kind":"Widget","metadata":{{"finalizers":[{}],"name":"o{i}","namespace":"ns","uid":"{i}"}}}}"#,
                finalizers(i)
            );
            world.put(&format!("{}ns/o{i:04}", widgets.prefix()), json);
        }
        let mut cursor = world.registrations.watch(world.store.published()).unwrap();
        world.delete(NAME).await.unwrap();
        let all = "2000 objects remain (ns/o0000, ns/o0001, ns/o0002 and 1997 more), held by finalizers: g.io/x in 2000 objects, g.io/y in 200 objects";
        world.until(&world.registrations, async || message(&world).await.contains(all)).await;
        for i in 0..2_000 {
            release(&widgets, "ns", &format!("o{i:04}")).await.unwrap();
            // The last change but a few is reported as well, after a while.
            if i == 1_000 {
                world
                    .until(&world.registrations, async || message(&world).await.contains(": 999 objects"))
                    .await;
            }
        }
        world.until_gone(NAME).await;
        let mut seen = 0;
        while let Ok(Ok(events)) = tokio::time::timeout(Duration::ZERO, cursor.next(1000)).await {
            seen += events.len();
        }
        assert!((20..60).contains(&seen), "{seen} changes of the registration");
    });
}

/// However many objects are released at once, all are counted.
#[test]
fn a_drain_counts_all_that_is_released_at_once() {
    run(13, 0, |world| async move {
        let widgets = world.established("widgets").await;
        let key = |i: usize| format!("{}ns/o{i:04}", widgets.prefix());
        for i in 0..1_000 {
            let json = format!(
                r#"{{"apiVersion":"g.io/v1","kind":"Widget","metadata":{{"finalizers":["g.io/x"],"name":"o{i:04}","namespace":"ns","uid":"{i}"}}}}"#
            );
            world.put(&key(i), json);
        }
        world.delete(NAME).await.unwrap();
        world
            .until(&world.registrations, async || message(&world).await.contains("g.io/x in 1000 objects"))
            .await;
        // Before anybody else has a turn.
        for i in 0..1_000 {
            world.remove(&key(i));
        }
        world.until_gone(NAME).await;
    });
}

/// A type that nobody uses is drained without being loaded.
#[test]
fn a_type_that_is_asleep_is_drained_asleep() {
    run(8, 1, |world| async move {
        let widgets = world.established("widgets").await;
        for i in 0..100 {
            let finalizers = if i == 50 { r#""finalizers":["g.io/x"],"# } else { "" };
            let json = format!(
                r#"{{"apiVersion":"g.io/v1","kind":"Widget","metadata":{{{finalizers}"name":"o{i}","namespace":"ns","uid":"{i}"}}}}"#
            );
            world.put(&format!("{}ns/o{i}", widgets.prefix()), json);
        }
        world.delete(NAME).await.unwrap();
        world.until(&world.registrations, async || message(&world).await.contains("(ns/o50)")).await;
        assert_eq!(world.keys(widgets.prefix()).len(), 1);
        assert!(!widgets.is_awake() && world.table.get("resource/widgets.g.io").is_none());
        release(&widgets, "ns", "o50").await.unwrap();
        world.until_gone(NAME).await;
    });
}

/// T-48: what nobody can read goes, and what only looks like it is marked once and waited for.
#[test]
fn odd_objects_hold_no_drain() {
    run(9, 1, |world| async move {
        let widgets = world.established("widgets").await;
        let put = |key: &str, json: &str| world.put(&format!("{}{key}", widgets.prefix()), json.to_owned());
        put("ns/list", "[]");
        put("ns/text", r#""text""#);
        put("ns/cut", r#"{"metadata":{"finalizers":["g.io/x"]"#);
        put("ns/no-metadata", "{}");
        put("deep/er/than/keys/are", "{}");
        put("ns/", "{}");
        put("ns/odd-finalizers", r#"{"metadata":{"finalizers":{"g.io/x":1},"uid":"u"}}"#);
        put("ns/odd-labels", r#"{"metadata":{"finalizers":["g.io/x"],"labels":{"a":1},"uid":"u"}}"#);
        put("ns/null", r#"{"metadata":{"deletionTimestamp":null,"finalizers":["g.io/x"],"uid":"v"}}"#);
        world.delete(NAME).await.unwrap();
        let two = "2 objects remain (ns/null, ns/odd-labels), held by finalizers: g.io/x in 2 objects";
        world.until(&world.registrations, async || message(&world).await.contains(two)).await;
        assert_eq!(world.keys(widgets.prefix()).len(), 2);
        for key in ["ns/null", "ns/odd-labels"] {
            world.remove(&format!("{}{key}", widgets.prefix()));
        }
        world.until_gone(NAME).await;
    });
}

/// A store that refuses is tried again and again, and the condition says so with upstream's reason and text.
#[test]
fn a_drain_that_fails_says_why_and_goes_on_later() {
    run(12, 1, |world| async move {
        let widgets = world.established("widgets").await;
        let other = world.established("gadgets").await;
        for handle in [&widgets, &other] {
            create(handle, "ns", "a", &[], None).await.unwrap();
        }
        *world.store.undeletable.lock() = Some(widgets.prefix().to_owned());
        world.delete(NAME).await.unwrap();
        world.delete("gadgets.g.io").await.unwrap();
        world.until_shown(NAME, "Terminating=True InstanceDeletionFailed").await;
        assert!(
            message(&world).await.starts_with("could not issue all deletes: "),
            "{}",
            message(&world).await
        );
        world.until_gone("gadgets.g.io").await;
        *world.store.undeletable.lock() = None;
        world.until_gone(NAME).await;
        assert!(world.keys(widgets.prefix()).is_empty());
    });
}

/// Many drains at once: one that is held, or large, holds no other up.
#[test]
fn drains_go_on_beside_each_other() {
    run(10, 1, |world| async move {
        let mut handles = Vec::new();
        for i in 0..20 {
            let handle = world.established(&format!("type{i:02}s")).await;
            let finalizers: &[&str] = if i < 10 { &["g.io/x"] } else { &[] };
            for j in 0..10 {
                create(&handle, "ns", &format!("o{j}"), finalizers, None).await.unwrap();
            }
            handles.push(handle);
        }
        let start = Instant::now();
        for i in 0..20 {
            world.delete(&format!("type{i:02}s.g.io")).await.unwrap();
        }
        for i in 10..20 {
            world.until_gone(&format!("type{i:02}s.g.io")).await;
        }
        for (i, handle) in handles.iter().enumerate().take(10) {
            assert_eq!(world.keys(handle.prefix()).len(), 10);
            for j in 0..10 {
                release(handle, "ns", &format!("o{j}")).await.unwrap();
            }
            world.until_gone(&format!("type{i:02}s.g.io")).await;
        }
        assert_eq!(Instant::now(), start, "nothing waited for a timer");
    });
}

/// T-52: a drain that was left behind does not touch the objects of the next registration of the name.
#[test]
fn a_late_deletion_does_not_reach_the_next_registration() {
    run(11, 1, |world| async move {
        let old = world.established("widgets").await;
        world.delete(NAME).await.unwrap();
        world.until_gone(NAME).await;
        let new = world.established("widgets").await;
        create(&new, "ns", "a", &[], None).await.unwrap();
        let object = new.get("ns/a", soon()).await.unwrap().unwrap();
        assert_eq!(old.delete_stored(&object, &[], soon()).await, Err(WriteError::Gone));
        // A replica that has not heard of the end yet has the old registration in its handle.
        let spec = new.spec().unwrap();
        let tree = world.crd(NAME).await.unwrap();
        let registration = spec.registration.as_ref().unwrap();
        let before = StoredObject::new(NAME, registration.object.json().clone(), Revision(1));
        let stale = TypeSpec::from_registration(
            registration.key.clone(),
            &Arc::new(before),
            &tree,
            Arc::new(CustomObjects),
            None,
        );
        let behind = ResourceHandle::new(Arc::clone(&world.deps), Arc::new(stale.unwrap()));
        assert_eq!(behind.delete_stored(&object, &[], soon()).await, Ok(Drained::LookAgain));
        assert!(new.get("ns/a", soon()).await.unwrap().is_some());
        let wrong = Compare::absent(&format!("{CRDS}{NAME}").as_str().into());
        assert_eq!(new.delete_stored(&object, &[wrong], soon()).await, Ok(Drained::LookAgain));
        assert_eq!(new.delete_stored(&object, &[], soon()).await, Ok(Drained::Gone));
    });
}

/// Invariant 6: objects created while the registration is deleted are refused, or drained.
#[test]
fn a_create_that_races_with_the_deletion_never_survives_it() {
    let tally = Tally::default();
    for seed in 0..30 {
        run(seed, 4, |world| async {
            let world = world;
            let widgets = world.established("widgets").await;
            let creates = (0..20).map(|i| {
                let (world, widgets, tally) = (&world, &widgets, &tally);
                async move {
                    world.yields(60).await;
                    tally.count(create(widgets, "ns", &format!("o{i}"), &[], None).await, &GOING);
                }
            });
            let delete = async {
                world.yields(60).await;
                world.delete(NAME).await.unwrap();
                world.until_gone(NAME).await;
                assert!(world.keys(widgets.prefix()).is_empty());
            };
            tokio::join!(futures::future::join_all(creates), delete);
            assert!(world.keys(widgets.prefix()).is_empty());
            assert!(world.routed("g.io", "widgets").await.is_none());
        });
    }
    tally.both();
}

/// T-52: registered again, it is empty.
#[test]
fn old_objects_do_not_come_back() {
    run(3, 2, |world| async move {
        for round in 0..5 {
            let widgets = world.established("widgets").await;
            let (snapshot, _) = widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
            assert!(snapshot.is_empty(), "round {round}");
            create(&widgets, "ns", "a", &[], None).await.unwrap();
            world.delete(NAME).await.unwrap();
            world.until_gone(NAME).await;
        }
    });
}

/// T-36: its objects are those of the built-in type, and stay.
#[test]
fn a_registration_that_overlaps_a_built_in_type_never_drains() {
    run(4, 1, |world| async move {
        world.put_established(&crd("widgets"));
        let name = "customresourcedefinitions.apiextensions.k8s.io";
        let mut overlapping = crd("customresourcedefinitions");
        overlapping.get_mut("spec").unwrap().as_object_mut().unwrap().insert("group", "apiextensions.k8s.io");
        *overlapping.get_mut("metadata").unwrap() = object! { "name": name, "finalizers": vec!["g.io/mine"] };
        world.put_established(&overlapping);
        world.delete(name).await.unwrap();
        world.until_shown(name, "Terminating=False OverlappingBuiltInResource").await;
        let release = |crd: &mut Value| {
            crd.get_mut("metadata").unwrap().as_object_mut().unwrap().remove("finalizers");
        };
        world.edit(name, None, release).await.unwrap();
        world.until_gone(name).await;
        assert_eq!(world.keys(CRDS), [format!("{CRDS}{NAME}")]);
    });
}

/// One whose names were never accepted goes too, and leaves nothing behind (T-48).
#[test]
fn a_registration_that_was_never_established_goes_as_well() {
    run(5, 1, |world| async move {
        let mut held = crd_named("widgets", "gadget", "Gadget", "GadgetList", &[]);
        held.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("finalizers", vec!["g.io/mine"]);
        world.post(&held).await.unwrap();
        world.put("/registry/g.io/widgets/ns/left-over", r#"{"metadata":{"uid":"u"}}"#);
        // Another registration holds names that it wants; that one's objects are not its own.
        let holder = world.established("gadgets").await;
        create(&holder, "ns", "a", &[], None).await.unwrap();
        world.delete(NAME).await.unwrap();
        world.until_shown(NAME, "Terminating=False NeverEstablished").await;
        assert!(world.keys("/registry/g.io/widgets/").is_empty());
        let release = |crd: &mut Value| {
            crd.get_mut("metadata").unwrap().as_object_mut().unwrap().remove("finalizers");
        };
        world.edit(NAME, None, release).await.unwrap();
        world.until_gone(NAME).await;
        assert_eq!(world.keys(holder.prefix()).len(), 1);
    });
}

/// A registration that can't be read is not removed: a later registration of the name would find its objects.
#[test]
fn damage_is_never_drained_by_guess() {
    run(6, 1, |world| async move {
        let damaged = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"deletionTimestamp":"2023-11-14T22:13:20Z","finalizers":["customresourcecleanup.apiextensions.k8s.io"],"name":"widgets.g.io","uid":"u"},"spec":{"group":"g.io","names":{"plural":"widgets"},"scope":"Namespaced","versions":[]}}"#;
        world.put(&format!("{CRDS}{NAME}"), damaged);
        world.put("/registry/g.io/widgets/ns/a", "{}");
        // Another drain runs to its end meanwhile.
        world.established("gadgets").await;
        world.delete("gadgets.g.io").await.unwrap();
        world.until_gone("gadgets.g.io").await;
        assert!(world.crd(NAME).await.is_some());
        assert_eq!(world.keys("/registry/g.io/widgets/").len(), 1);
    });
}

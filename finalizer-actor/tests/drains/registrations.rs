//! A registration that is deleted takes its objects along, and goes last.

use kindom_api::{Value, object};
use kindom_resource_actor::{Freshness, WatchError};
use kindom_storage::Op;
use tokio::time::Instant;

use crate::run;
use crate::world::*;

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
            world.txn(vec![op]);
        }
        world.put(&format!("{}ns0/garbage", widgets.prefix()), "no json at all");
        world.put(
            &format!("{}ns0/old", widgets.prefix()),
            r#"{"apiVersion":"gone.io/v0","metadata":{"uid":"u"}}"#,
        );
        world.txn(vec![Op::Put(
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

/// The last finalizer's removal completes it, by an event; until then the condition says what holds it.
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
        let two = "CustomResource deletion is in progress: 2 objects remain, held by finalizers: g.io/x in 2 objects, g.io/y in 1 objects";
        world.until(&world.registrations, async || message(&world).await == two).await;
        assert_eq!(world.keys(widgets.prefix()).len(), 2);
        assert!(release(&widgets, "ns", "one").await.unwrap().deleted);
        world.until(&world.registrations, async || message(&world).await.contains("1 objects remain")).await;
        assert!(release(&widgets, "ns", "two").await.unwrap().deleted);
        world.until_gone(NAME).await;
        assert_eq!(Instant::now(), start, "nothing waited for a timer");
    });
}

/// Invariant 6: what is created while the registration is deleted is refused, or drained.
#[test]
fn a_create_that_races_with_the_deletion_never_survives_it() {
    for seed in 0..30 {
        run(seed, 4, |world| async move {
            let widgets = world.established("widgets").await;
            let creates = (0..20).map(|i| {
                let (world, widgets) = (&world, &widgets);
                async move {
                    world.yields(60).await;
                    create(widgets, "ns", &format!("o{i}"), &[], None).await.is_ok()
                }
            });
            let delete = async {
                world.yields(60).await;
                world.delete(NAME).await.unwrap();
                world.until_gone(NAME).await;
                assert!(world.keys(widgets.prefix()).is_empty());
            };
            let _ = tokio::join!(futures::future::join_all(creates), delete);
            assert!(world.keys(widgets.prefix()).is_empty());
            assert!(world.routed("g.io", "widgets").await.is_none());
        });
    }
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
        let mut held = crd("widgets");
        held.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("finalizers", vec!["g.io/mine"]);
        world.post(&held).await.unwrap();
        world.put("/registry/g.io/widgets/ns/left-over", r#"{"metadata":{"uid":"u"}}"#);
        world.delete(NAME).await.unwrap();
        world.until_shown(NAME, "Terminating=False NeverEstablished").await;
        assert!(world.keys("/registry/g.io/widgets/").is_empty());
        let release = |crd: &mut Value| {
            crd.get_mut("metadata").unwrap().as_object_mut().unwrap().remove("finalizers");
        };
        world.edit(NAME, None, release).await.unwrap();
        world.until_gone(NAME).await;
    });
}

/// A registration that can't be read is not removed: whoever registers the name again would find its objects.
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

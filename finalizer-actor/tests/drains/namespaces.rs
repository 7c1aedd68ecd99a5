//! A namespace that is deleted takes its content along.

use std::time::Duration;

use kindom_api::{Value, object};
use kindom_objects::Subresource;
use kindom_objects::{PlanError, RuleContext};
use kindom_resource_actor::Target;
use kindom_resource_actor::WriteError;
use kindom_storage::Storage as _;
use tokio::time::Instant;

use crate::world::*;
use crate::{GOING, NAMESPACES, Tally, run};

fn conditions(tree: &Value) -> Vec<String> {
    shown(tree)
}

/// Every type is visited: awake, asleep, not served, Terminating; other namespaces keep their content.
#[test]
fn a_deleted_namespace_is_emptied_of_every_type() {
    run(1, 1, |world| async move {
        for name in ["a", "ab"] {
            world.make_namespace(name).await;
        }
        let (awake, asleep) = (world.established("awakes").await, world.established("asleeps").await);
        let going = world.established("goings").await;
        world.post(&crd("unserveds")).await.unwrap();
        let options = Some(world.namespaces());
        for handle in [&awake, &asleep, &going] {
            for namespace in ["a", "ab"] {
                create(handle, namespace, "x", &[], options.clone()).await.unwrap();
            }
        }
        create(&going, "b", "held", &["g.io/x"], None).await.unwrap();
        world.put("/registry/g.io/unserveds/a/x", r#"{"metadata":{"uid":"u"}}"#);
        world.put("/registry/g.io/awakes/a/garbage", "garbage");
        world.delete("goings.g.io").await.unwrap();
        world.until_shown("goings.g.io", "Terminating=True InstanceDeletionInProgress").await;
        asleep.sleep();

        let start = Instant::now();
        let marked = world.delete_namespace("a").await.unwrap();
        assert!(!marked.outcome.is_deleted() && marked.object.deleting());
        world.until_no_namespace("a").await;
        assert_eq!(Instant::now(), start, "nothing waited for a timer");
        for plural in ["awakes", "asleeps", "goings", "unserveds"] {
            assert!(world.keys(&format!("/registry/g.io/{plural}/a/")).is_empty(), "{plural}");
        }
        assert_eq!(world.keys("/registry/g.io/awakes/ab/").len(), 1);
        assert_eq!(world.keys(NAMESPACES), [format!("{NAMESPACES}ab")]);
    });
}

/// Upstream's five conditions, and the drain goes on by itself when the last finalizer goes.
#[test]
fn what_holds_a_namespace_is_said_in_its_conditions() {
    run(2, 1, |world| async move {
        world.make_namespace("a").await;
        let widgets = world.established("widgets").await;
        create(&widgets, "a", "free", &[], None).await.unwrap();
        create(&widgets, "a", "held", &["g.io/x"], None).await.unwrap();
        world.delete_namespace("a").await.unwrap();
        world.until_namespace_says("a", "g.io/x in 1 resource instances").await;
        let tree = world.namespace("a").await.unwrap();
        assert_eq!(tree.at(&["status", "phase"]).unwrap().as_str(), Some("Terminating"));
        assert_eq!(
            conditions(&tree),
            [
                "NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered",
                "NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions",
                "NamespaceDeletionContentFailure=False ContentDeleted",
                "NamespaceContentRemaining=True SomeResourcesRemain",
                "NamespaceFinalizersRemaining=True SomeFinalizerRemain",
            ]
        );
        assert!(
            tree.to_string().contains("Some resources are remaining: widgets.g.io has 1 resource instances")
        );
        let refused = create(&widgets, "a", "late", &[], Some(world.namespaces())).await.err();
        assert!(
            matches!(refused, Some(WriteError::Plan(PlanError::NamespaceTerminating { .. }))),
            "{refused:?}"
        );
        release(&widgets, "a", "held").await.unwrap();
        world.until_no_namespace("a").await;
    });
}

/// Invariant 6: nothing lands in a namespace that is going.
#[test]
fn a_create_that_races_with_the_namespace_never_survives_it() {
    let tally = Tally::default();
    for seed in 0..30 {
        run(seed, 4, |world| async {
            let world = world;
            world.make_namespace("a").await;
            let widgets = world.established("widgets").await;
            let creates = (0..20).map(|i| {
                let (world, widgets, tally) = (&world, &widgets, &tally);
                async move {
                    world.yields(60).await;
                    tally.count(
                        create(widgets, "a", &format!("o{i}"), &[], Some(world.namespaces())).await,
                        &GOING,
                    );
                }
            });
            let delete = async {
                world.yields(60).await;
                world.delete_namespace("a").await.unwrap();
                world.until_no_namespace("a").await;
            };
            tokio::join!(futures::future::join_all(creates), delete);
            assert!(world.keys(widgets.prefix()).is_empty());
        });
    }
    tally.both();
}

/// Every change is reported in the end, but many of them with one write.
#[test]
fn what_is_left_in_a_namespace_is_told_at_a_bounded_rate() {
    run(6, 1, |world| async move {
        world.make_namespace("a").await;
        let (widgets, gadgets) = (world.established("widgets").await, world.established("gadgets").await);
        for i in 0..100 {
            create(&widgets, "a", &format!("o{i}"), &["g.io/x"], None).await.unwrap();
        }
        create(&gadgets, "a", "o", &["g.io/x"], None).await.unwrap();
        let mut cursor = world.namespaces().watch(world.store.published()).unwrap();
        world.delete_namespace("a").await.unwrap();
        world.until_namespace_says("a", "g.io/x in 101 resource instances").await;
        for i in 0..3 {
            release(&widgets, "a", &format!("o{i}")).await.unwrap();
        }
        world.until_namespace_says("a", "widgets.g.io has 97 resource instances").await;
        for i in 3..100 {
            release(&widgets, "a", &format!("o{i}")).await.unwrap();
        }
        release(&gadgets, "a", "o").await.unwrap();
        world.until_no_namespace("a").await;
        let mut seen = 0;
        while let Ok(Ok(events)) = tokio::time::timeout(Duration::ZERO, cursor.next(1000)).await {
            seen += events.len();
        }
        assert!((10..40).contains(&seen), "{seen} changes of the namespace");
    });
}

#[test]
fn the_first_namespaces_may_not_be_deleted() {
    run(3, 0, |world| async move {
        for name in kindom_objects::kinds::namespace::STANDARD_NAMESPACES {
            world.make_namespace(name).await;
            let deleted = world.delete_namespace(name).await;
            if name == "kube-node-lease" {
                deleted.unwrap();
                world.until_no_namespace(name).await;
                continue;
            }
            let message = "this namespace may not be deleted".to_owned();
            assert_eq!(
                deleted.err(),
                Some(WriteError::Plan(PlanError::Forbidden { name: name.into(), message }))
            );
        }
    });
}

/// Others' finalizers in spec hold it until `/finalize` takes them out.
#[test]
fn other_finalizers_in_spec_are_waited_for() {
    run(4, 1, |world| async move {
        world.make_namespace("a").await;
        let change = async |finalizers: Vec<&'static str>| {
            let mut wanted = |_: &RuleContext<'_>, old: &Value| {
                let mut object = old.clone();
                let spec = object! { "finalizers": finalizers.clone() };
                object.as_object_mut().unwrap().insert("spec", spec);
                Ok(object)
            };
            let target = Target { subresource: Some(Subresource::Finalize), ..cluster("a") };
            world.namespaces().update(target, false, &mut wanted, &options()).await.unwrap()
        };
        change(vec!["kubernetes", "g.io/x"]).await;
        world.delete_namespace("a").await.unwrap();
        world.until_namespace_says("a", r#""finalizers":["g.io/x"]"#).await;
        change(vec![]).await;
        world.until_no_namespace("a").await;
    });
}

/// A PUT of a namespace needs no resourceVersion; a generated name is in its label too.
#[test]
fn namespaces_as_objects() {
    run(5, 0, |world| async move {
        world.make_namespace("a").await;
        let put = |label: &'static str| {
            move |cx: &RuleContext<'_>, _: &Value| {
                let metadata = object! { "name": "a", "labels": object! { "l": label } };
                let mut object = object! { "apiVersion": "v1", "kind": "Namespace", "metadata": metadata };
                cx.spec.strategy.decode(cx, &mut object, None).unwrap();
                Ok(object)
            }
        };
        let namespaces = world.namespaces();
        let written = namespaces.update(cluster("a"), false, &mut put("x"), &options()).await.unwrap();
        assert_eq!(written.object.label("l"), Some("x"));
        assert_eq!(written.object.label("kubernetes.io/metadata.name"), Some("a"));
        let again = namespaces.update(cluster("a"), false, &mut put("x"), &options()).await.unwrap();
        assert_eq!(again.object.revision(), written.object.revision());
        let mut generated = |cx: &RuleContext<'_>, _: &Value| {
            let metadata = object! { "generateName": "g-" };
            let mut object = object! { "apiVersion": "v1", "kind": "Namespace", "metadata": metadata };
            cx.spec.strategy.decode(cx, &mut object, None).unwrap();
            Ok(object)
        };
        let made = namespaces.create(cluster(""), &mut generated, &options()).await.unwrap();
        assert_eq!(made.object.label("kubernetes.io/metadata.name"), Some(made.object.name()));
    });
}

//! Drains while actors fall at any moment.

use kindom_resource_actor::Freshness;

use crate::world::*;
use crate::{GOING, Tally, run};

const ACTORS: [&str; 5] = [
    "finalizer",
    "registry",
    "resource/widgets.g.io",
    "resource/namespaces",
    "resource/customresourcedefinitions.apiextensions.k8s.io",
];

async fn fall(world: &World, times: usize) {
    for _ in 0..times {
        world.yields(60).await;
        let which = usize::try_from(world.entropy.below(5)).unwrap();
        world.table.kill(ACTORS[which]);
    }
}

/// Invariants 1 and 5: whatever falls, the drain ends, and nothing but it ends.
#[test]
fn falls_do_not_stop_a_drain() {
    for seed in 0..12 {
        run(seed, 3, |world| async move {
            world.make_namespace("a").await;
            world.make_namespace("b").await;
            let widgets = world.established("widgets").await;
            let gadgets = world.established("gadgets").await;
            for i in 0..60 {
                let namespace = if i % 2 == 0 { "a" } else { "b" };
                let finalizers: &[&str] = if i % 10 == 0 { &["g.io/x"] } else { &[] };
                create(&widgets, namespace, &format!("w{i}"), finalizers, None).await.unwrap();
                create(&gadgets, namespace, &format!("w{i}"), &[], None).await.unwrap();
            }
            let (_, now) = gadgets.snapshot(Freshness::Latest, soon()).await.unwrap();
            let mut cursor = gadgets.watch(now).unwrap();
            let drains = async {
                world.delete_namespace("a").await.unwrap();
                world.delete("widgets.g.io").await.unwrap();
                world.yields(100).await;
                for i in (0..60).step_by(10) {
                    // The drain may have marked it or not; its finalizer goes either way.
                    release(&widgets, "a", &format!("w{i}")).await.unwrap();
                }
                world.until_no_namespace("a").await;
                world.until_gone("widgets.g.io").await;
            };
            tokio::join!(drains, fall(&world, 50));
            assert!(world.keys(widgets.prefix()).is_empty());
            assert!(world.keys(&format!("{}a/", gadgets.prefix())).is_empty());
            assert_eq!(world.keys(&format!("{}b/", gadgets.prefix())).len(), 30);
            let mut gone = events(&mut cursor, 30).await;
            gone.sort();
            gone.dedup();
            assert_eq!(gone.len(), 30, "each deletion once");
            assert!(gone.iter().all(|e| e.starts_with("-a/")));
        });
    }
}

/// T-52 with falls: a new registration of the name never sees an object of the old one.
#[test]
fn falls_bring_no_old_object_back() {
    let tally = Tally::default();
    for seed in 0..10 {
        run(seed, 3, |world| async {
            let world = world;
            for _ in 0..4 {
                let widgets = world.established("widgets").await;
                let (snapshot, _) = widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
                assert!(snapshot.is_empty());
                let work = async {
                    for i in 0..10 {
                        let created = create(&widgets, "ns", &format!("w{i}"), &[], None).await;
                        tally.count(created, &GOING);
                    }
                };
                let delete = async {
                    world.yields(50).await;
                    world.delete("widgets.g.io").await.unwrap();
                    world.until_gone("widgets.g.io").await;
                    assert!(world.keys(widgets.prefix()).is_empty());
                };
                tokio::join!(work, delete, fall(&world, 12));
                assert!(world.keys(widgets.prefix()).is_empty());
            }
        });
    }
    tally.both();
}

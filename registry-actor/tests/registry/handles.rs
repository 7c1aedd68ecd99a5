//! Routes and the types behind them, through changes, deletion, and the registry's own falls.

use kindom_api::{Value, object};
use kindom_resource_actor::Freshness;
use kindom_resource_actor::WatchError;
use kindom_storage::Op;

use crate::world::*;

const WIDGETS: &str = "widgets.g.io";

fn with_version(mut crd: Value, name: &str) -> Value {
    let spec = crd.get_mut("spec").unwrap();
    let versions = spec.get_mut("versions").unwrap().as_array_mut().unwrap();
    let mut version = versions[0].clone();
    version.as_object_mut().unwrap().insert("name", name);
    version.as_object_mut().unwrap().insert("storage", false);
    versions.push(version);
    crd
}

/// T-19, T-42, T-43: the status decides what is served.
#[test]
fn a_type_is_routed_once_its_names_are_accepted() {
    run(1, 0, vec![], |world| async move {
        world.post(&crd("widgets")).await.unwrap();
        assert!(world.routed("g.io", "widgets").await.is_none());
        let generation = world.registry.routes().generation();
        world.put_established(&crd("widgets"));
        let widgets = world.routed("g.io", "widgets").await.unwrap();
        assert!(world.registry.routes().generation() > generation);
        assert!(!widgets.is_awake(), "it sleeps until it is used");
        create(&widgets, "ns", "a", &[], None).await.unwrap();
        assert!(world.registry.routes().table().group("other.io").is_none());
    });
}

/// A gap in the commit stream is no bug: the registry loads again, nothing panics, and types go on being routed.
#[test]
fn a_commit_stream_with_a_gap_is_a_reload() {
    run(1, 0, vec![], |world| async move {
        world.put_established(&crd("widgets"));
        let widgets = world.routed("g.io", "widgets").await.unwrap();
        // More than the queue of a watch holds, and the registry has no turn in between.
        let stored = world.crd(WIDGETS).await.unwrap().to_vec();
        for _ in 0..17_000 {
            world.put(&format!("{CRDS}{WIDGETS}"), stored.clone());
        }
        world.put_established(&crd("gadgets"));
        assert!(world.routed("g.io", "gadgets").await.is_some());
        let info = world.table.get("registry").unwrap();
        assert_eq!((info.incarnation, info.restarts, info.panics), (2, 1, 0));
        let why = info.last_failure.unwrap();
        assert!(why.starts_with("reload: the commit stream of registrations ended: "), "{why}");
        create(&widgets, "ns", "a", &[], None).await.unwrap();
    });
}

/// B-42: a change of the registration cuts no watch, and neither does a fall of the registry.
#[test]
fn handles_and_watches_outlive_changes_and_the_registry() {
    run(2, 2, vec![], |world| async move {
        world.put_established(&crd("widgets"));
        let widgets = world.routed("g.io", "widgets").await.unwrap();
        let (_, now) = widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
        let mut cursor = widgets.watch(now).unwrap();
        create(&widgets, "ns", "a", &[], None).await.unwrap();
        let changed = world.edit(WIDGETS, None, |crd| *crd = with_version(crd.clone(), "v2")).await.unwrap();
        world.registry.fresh(soon()).await.unwrap();
        let spec = widgets.spec().unwrap();
        assert_eq!(spec.versions.len(), 2);
        assert_eq!(spec.registration.as_ref().unwrap().object.revision(), changed.object.revision());
        for _ in 0..5 {
            assert!(world.table.kill("registry"));
            world.yields(20).await;
        }
        // Changed while nobody looked.
        world.table.kill("registry");
        world.edit(WIDGETS, None, |crd| *crd = with_version(crd.clone(), "v3")).await.unwrap();
        world.registry.fresh(soon()).await.unwrap();
        assert_eq!(widgets.spec().unwrap().versions.len(), 3);
        create(&widgets, "ns", "b", &[], None).await.unwrap();
        assert_eq!(events(&mut cursor, 2).await, ["+ns/a", "+ns/b"]);
    });
}

/// T-52, T-56: the old type ends for its handles; the new one has nothing of it.
#[test]
fn a_registration_made_anew_is_another_type() {
    for down in [false, true] {
        run(3, 1, vec![], |world| async move {
            world.put_established(&crd("widgets"));
            let old = world.routed("g.io", "widgets").await.unwrap();
            let (_, now) = old.snapshot(Freshness::Latest, soon()).await.unwrap();
            let mut cursor = old.watch(now).unwrap();
            create(&old, "ns", "a", &[], None).await.unwrap();
            let key = format!("{}ns/a", old.prefix());
            if down {
                // The registry falls, and sees only the result.
                world.table.kill("registry");
            }
            world.remove(&key);
            world.remove(&format!("{CRDS}{WIDGETS}"));
            world.put_established(&crd("widgets"));
            let new = world.routed("g.io", "widgets").await.unwrap();
            assert!(old.spec().is_none());
            create(&new, "ns", "b", &[], None).await.unwrap();
            assert!(create(&old, "ns", "c", &[], None).await.is_err());
            assert_eq!(events(&mut cursor, 2).await, ["+ns/a", "-ns/a"]);
            assert_eq!(cursor.next(1).await.err(), Some(WatchError::Gone));
            let (snapshot, _) = new.snapshot(Freshness::Latest, soon()).await.unwrap();
            assert_eq!(snapshot.from_key("").map(|o| o.key()).collect::<Vec<_>>(), ["ns/b"]);
        });
    }
}

#[test]
fn a_removed_registration_is_gone_from_the_routes_also_after_a_fall() {
    for down in [false, true] {
        run(4, 1, vec![], |world| async move {
            world.put_established(&crd("widgets"));
            world.put_established(&crd("gadgets"));
            let widgets = world.routed("g.io", "widgets").await.unwrap();
            if down {
                world.table.kill("registry");
            }
            world.remove(&format!("{CRDS}{WIDGETS}"));
            assert!(world.routed("g.io", "widgets").await.is_none());
            assert!(widgets.spec().is_none());
            assert!(world.routed("g.io", "gadgets").await.is_some());
        });
    }
}

/// A registration whose group and plural are built in never serves (`OverlappingBuiltInResource`).
#[test]
fn a_built_in_type_is_not_replaced() {
    run(5, 0, vec![], |world| async move {
        let mut overlapping = crd("customresourcedefinitions");
        overlapping.get_mut("spec").unwrap().as_object_mut().unwrap().insert("group", "apiextensions.k8s.io");
        let name = "customresourcedefinitions.apiextensions.k8s.io";
        *overlapping.get_mut("metadata").unwrap() = object! { "name": name };
        world.put_established(&overlapping);
        let routed = world.routed("apiextensions.k8s.io", "customresourcedefinitions").await.unwrap();
        assert!(routed.spec().unwrap().registration.is_none());
        let registered = world.registry.registered(soon()).await.unwrap();
        assert!(registered[0].built_in && registered[0].handle.is_none());
        world.remove(&format!("{CRDS}{name}"));
        assert!(world.routed("apiextensions.k8s.io", "customresourcedefinitions").await.is_some());
    });
}

/// Bytes that are no registration are skipped, and hold nothing up.
#[test]
fn damaged_registrations_serve_nothing() {
    run(6, 0, vec![], |world| async move {
        world.store.commit(vec![Op::Put(format!("{CRDS}broken.g.io").into(), "{".into())]);
        world.put(&format!("{CRDS}empty.g.io"), "{}");
        world.put(&format!("{CRDS}odd.g.io"), r#"{"spec":{"group":"g.io","names":{"plural":"odd"}}}"#);
        world.put_established(&crd("widgets"));
        assert!(world.routed("g.io", "widgets").await.is_some());
        world.table.kill("registry");
        assert!(world.routed("g.io", "widgets").await.is_some());
        // One that becomes unreadable is not served any more.
        world.put(&format!("{CRDS}{WIDGETS}"), "{");
        assert!(world.routed("g.io", "widgets").await.is_none());
    });
}

#[test]
fn many_registrations_are_loaded_in_pages() {
    run(7, 0, vec![], |world| async move {
        for i in 0..600 {
            world.put_established(&crd(&format!("w{i:03}s")));
        }
        world.table.kill("registry");
        world.registry.fresh(soon()).await.unwrap();
        assert_eq!(world.registry.routes().table().group("g.io").unwrap().len(), 600);
        assert_eq!(world.registry.registered(soon()).await.unwrap().len(), 600);
    });
}

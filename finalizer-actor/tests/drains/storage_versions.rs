//! A change of the storage version: the stored objects follow, and storedVersions never omits a version in use.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt as _;
use kindom_actor_kit::Reconciler;
use kindom_api::{Value, json, object};
use kindom_finalizer_actor::storage_version::{self, SETTLE};
use kindom_objects::RuleContext;
use kindom_resource_actor::{ResourceHandle, Target};
use kindom_storage::{Change, KeyRange, Revision, Storage as _};
use tokio::time::Instant;

use crate::seeds;
use crate::world::*;

const NAME: &str = "widgets.g.io";

/// A type with v1 and v2, stored in the one or the other.
fn two_versions(storage: &str, strategy: &str) -> Value {
    let mut crd = crd("widgets");
    let spec = crd.get_mut("spec").unwrap().as_object_mut().unwrap();
    spec.insert("conversion", object! { "strategy": strategy });
    if strategy == "Webhook" {
        let config = object! { "url": "https://localhost/convert" };
        let webhook = object! { "clientConfig": config, "conversionReviewVersions": vec!["v1"] };
        spec.get_mut("conversion").unwrap().as_object_mut().unwrap().insert("webhook", webhook);
    }
    let versions = spec.get_mut("versions").unwrap().as_array_mut().unwrap();
    let mut second = versions[0].clone();
    second.as_object_mut().unwrap().insert("name", "v2");
    versions.push(second);
    store_in(&mut crd, storage);
    crd
}

fn store_in(crd: &mut Value, storage: &str) {
    let versions = crd.get_mut("spec").unwrap().get_mut("versions").unwrap().as_array_mut().unwrap();
    for version in versions {
        let is = version.get("name").unwrap().as_str() == Some(storage);
        version.as_object_mut().unwrap().insert("storage", is);
    }
}

fn relabel(crd: &mut Value, value: &str) {
    let metadata = crd.get_mut("metadata").unwrap().as_object_mut().unwrap();
    metadata.insert("labels", object! { "changed": value });
}

fn stored_versions(crd: &Value) -> Vec<String> {
    let listed = crd.at(&["status", "storedVersions"]).and_then(Value::as_array).unwrap_or_default();
    listed.iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}

impl World {
    async fn until_stored_in(&self, versions: &[&str]) {
        let done = async || stored_versions(&self.crd(NAME).await.unwrap()) == versions;
        self.until(&self.registrations, done).await;
    }

    /// The apiVersions of the objects in the store; empty for bytes that are no object.
    fn api_versions(&self) -> Vec<String> {
        let request = kindom_storage::RangeRequest::prefix(b"/registry/g.io/widgets/");
        let found = self.store.inner.range(request).now_or_never().unwrap().unwrap();
        found.kvs.iter().map(|kv| version_of(kv.whole().unwrap())).collect()
    }

    async fn change_storage(&self, version: &str) {
        self.edit(NAME, None, |crd| store_in(crd, version)).await.unwrap();
    }

    /// The invariant, over all that ever happened: at every revision, each object is stored in a version that
    /// storedVersions names. Gives back how often it was cut, and how many objects were written in the meantime.
    fn judge(&self) -> (usize, usize) {
        let watch = self.store.inner.watch(KeyRange::prefix(b"/registry/"), Some(Revision(1)));
        let mut watch = watch.now_or_never().unwrap().unwrap();
        let (mut stored, mut objects) = (Vec::new(), BTreeMap::new());
        let (mut cuts, mut writes) = (0, 0);
        while let Ok(commit) = watch.commits.try_recv() {
            let commit = commit.unwrap();
            for event in &commit.events {
                let key = event.key.to_string();
                let Change::Put { value, .. } = &event.change else {
                    objects.remove(&key);
                    continue;
                };
                if key.starts_with(CRDS) {
                    let now = stored_versions(&json::parse(value.as_ref().unwrap()).unwrap());
                    cuts += usize::from(now.len() < stored.len());
                    stored = now;
                } else {
                    writes += 1;
                    objects.insert(key, version_of(value.as_ref().unwrap()));
                }
            }
            for (key, version) in &objects {
                let named = version.strip_prefix("g.io/").is_some_and(|v| stored.iter().any(|s| s == v));
                assert!(named, "{}: {key} is stored in {version}, of {stored:?}", commit.revision);
            }
        }
        (cuts, writes)
    }
}

fn version_of(value: &[u8]) -> String {
    let tree = json::parse(value).unwrap_or_default();
    tree.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn run<F: Future<Output = ()>>(seed: u64, pauses: u64, test: impl FnOnce(World) -> F) {
    crate::world::run(seed, pauses, Vec::new(), test);
}

fn start(world: &World) -> Reconciler {
    start_settling(world, Duration::ZERO)
}

fn start_settling(world: &World, settle: Duration) -> Reconciler {
    storage_version::start(&world.registry, &world.registrations, settle).unwrap()
}

/// Writes over an object, through any served version.
async fn touch(handle: &ResourceHandle, version: &str, name: &str, value: u64) -> bool {
    let mut wanted = |_: &RuleContext<'_>, old: &Value| {
        let mut object = old.clone();
        object.as_object_mut().unwrap().insert("n", value.to_string());
        Ok(object)
    };
    let target = Target { version, subresource: None, namespace: Some("ns"), name };
    handle.update(target, true, &mut wanted, &options()).await.is_ok()
}

/// From end to end, without a timer and without waking the type.
#[test]
fn objects_follow_the_storage_version() {
    run(1, 1, |world| async move {
        let _actor = start(&world);
        world.put_established(&two_versions("v1", "None"));
        let widgets = world.routed("g.io", "widgets").await.unwrap();
        for i in 0..100 {
            create(&widgets, "ns", &format!("o{i}"), &[], None).await.unwrap();
        }
        widgets.sleep();
        let start = Instant::now();
        world.change_storage("v2").await;
        world.until_stored_in(&["v2"]).await;
        assert_eq!(world.api_versions(), vec!["g.io/v2"; 100]);
        assert!(!widgets.is_awake());
        assert_eq!(Instant::now(), start, "nothing waited for a timer");
        assert_eq!(world.judge(), (1, 200));
        // The version that was left can be dropped.
        let drop_v1 = |crd: &mut Value| {
            let versions = crd.get_mut("spec").unwrap().get_mut("versions").unwrap();
            versions.as_array_mut().unwrap().retain(|v| v.get("name").unwrap().as_str() == Some("v2"));
        };
        world.edit(NAME, None, drop_v1).await.unwrap();
    });
}

/// A client that reads and then updates loses no race against the server: the server waits until the registration has not
/// changed for a while, and a change in between makes it wait again.
#[test]
fn a_rewrite_waits_until_the_registration_has_settled() {
    run(4, 1, |world| async move {
        let _actor = start_settling(&world, SETTLE);
        world.put_established(&two_versions("v1", "None"));
        let widgets = world.routed("g.io", "widgets").await.unwrap();
        create(&widgets, "ns", "a", &[], None).await.unwrap();
        world.change_storage("v2").await;
        let mut changed = Instant::now();
        for value in ["a", "b", "c"] {
            let unread = world.api_versions();
            tokio::time::sleep(SETTLE - Duration::from_secs(1)).await;
            world.yields(1000).await;
            assert_eq!(world.api_versions(), unread, "an object was rewritten");
            assert_eq!(stored_versions(&world.crd(NAME).await.unwrap()), ["v1", "v2"]);
            world.edit(NAME, None, |crd| relabel(crd, value)).await.unwrap();
            changed = Instant::now();
        }
        world.until_stored_in(&["v2"]).await;
        assert_eq!(Instant::now() - changed, SETTLE);
        assert_eq!(world.api_versions(), ["g.io/v2"]);
        assert_eq!(world.judge().0, 1);
    });
}

/// Another spec is another wait, and one alone.
#[test]
fn a_spec_that_changes_while_it_settles_is_waited_for_once() {
    run(5, 1, |world| async move {
        let _actor = start_settling(&world, SETTLE);
        world.put_established(&two_versions("v1", "None"));
        world.routed("g.io", "widgets").await.unwrap();
        world.change_storage("v2").await;
        tokio::time::sleep(SETTLE / 2).await;
        world.change_storage("v1").await;
        let changed = Instant::now();
        world.until_stored_in(&["v1"]).await;
        assert_eq!(Instant::now() - changed, SETTLE);
    });
}

/// The design's proof, with a replica that goes on writing under an older registration until its guard refuses, changes
/// back and forth, and an actor that falls at any moment.
#[test]
fn storage_versions_are_never_cut_too_early() {
    let (mut cuts, mut writes) = (0, 0);
    for seed in 0..seeds(40, 1000) {
        run(seed, 3, |world| async {
            let world = world;
            let behind = world.replica(3, 200, Vec::new());
            let _actors = (start(&world), start(&behind));
            world.put_established(&two_versions("v1", "None"));
            let here = world.routed("g.io", "widgets").await.unwrap();
            let there = behind.routed("g.io", "widgets").await.unwrap();
            // More than a page.
            for i in 0..40 {
                create(&here, "ns", &format!("o{i}"), &[], None).await.unwrap();
            }
            let done = Cell::new(false);
            let writer = async |handle: &ResourceHandle, which: &str| {
                let mut i = 0;
                while !done.get() {
                    i += 1;
                    world.yields(30).await;
                    let version = if world.entropy.below(2) == 0 { "v1" } else { "v2" };
                    if i < 30 {
                        create(handle, "ns", &format!("{which}{i}"), &[], None).await.unwrap();
                    }
                    touch(handle, version, &format!("o{}", world.entropy.below(40)), i).await;
                }
            };
            let changer = async {
                for i in 0..=seed % 4 {
                    let (now, next) = if i % 2 == 0 { ("g.io/v1", "v2") } else { ("g.io/v2", "v1") };
                    // At any moment, or right when a pass comes to its end.
                    for _ in 0..world.entropy.below(1500) {
                        tokio::task::yield_now().await;
                        if i > 0 && seed % 8 > 3 && world.api_versions().iter().all(|v| v == now) {
                            break;
                        }
                    }
                    world.change_storage(next).await;
                    // Changes that leave the spec alone only make writes plan again.
                    for change in 0..world.entropy.below(5) {
                        world.yields(100).await;
                        world.edit(NAME, None, |crd| relabel(crd, &change.to_string())).await.unwrap();
                    }
                }
                let last = if seed % 2 == 0 { "v2" } else { "v1" };
                world.until_stored_in(&[last]).await;
                // A replica that lags goes on for a while.
                world.yields(1000).await;
                done.set(true);
            };
            let killer = async {
                while !done.get() && seed % 3 == 0 {
                    world.yields(200).await;
                    world.table.kill("storage-version");
                    behind.table.kill("storage-version");
                }
            };
            tokio::join!(writer(&here, "a"), writer(&there, "b"), changer, killer);
            let judged = world.judge();
            assert!(judged.0 > 0);
            (cuts, writes) = (cuts + judged.0, writes + judged.1);
        });
    }
    println!("{cuts} cuts, {writes} writes");
}

/// An unreadable object stays as it is, and storedVersions with it, until the object is changed.
#[test]
fn an_object_that_cannot_be_read_keeps_its_version() {
    run(2, 1, |world| async move {
        let _actor = start(&world);
        world.put_established(&two_versions("v1", "None"));
        let widgets = world.routed("g.io", "widgets").await.unwrap();
        create(&widgets, "ns", "a", &[], None).await.unwrap();
        world.put("/registry/g.io/widgets/ns/odd", "garbage");
        world.change_storage("v2").await;
        let a = async || world.api_versions() == ["g.io/v2", ""];
        world.until(&widgets, a).await;
        world.yields(1000).await;
        assert_eq!(stored_versions(&world.crd(NAME).await.unwrap()), ["v1", "v2"]);
        let start = Instant::now();
        world.remove("/registry/g.io/widgets/ns/odd");
        world.until_stored_in(&["v2"]).await;
        assert_eq!(Instant::now(), start, "nothing waited for a timer");
    });
}

/// The objects of a frozen type stay as they are, whenever it is frozen, and follow when it is released.
#[test]
fn frozen_objects_wait_until_they_are_released() {
    for seed in 0..20 {
        run(seed, 3, |world| async move {
            let _actor = start(&world);
            world.put_established(&two_versions("v1", "None"));
            let widgets = world.routed("g.io", "widgets").await.unwrap();
            for i in 0..40 {
                create(&widgets, "ns", &format!("o{i:02}"), &[], None).await.unwrap();
            }
            let freeze = |value: &'static str| {
                move |crd: &mut Value| {
                    let metadata = crd.get_mut("metadata").unwrap().as_object_mut().unwrap();
                    metadata.insert("annotations", object! { "kindom.dev/read-only": value });
                }
            };
            world.change_storage("v2").await;
            world.yields(400).await;
            world.edit(NAME, None, freeze("true")).await.unwrap();
            let frozen = world.api_versions();
            world.yields(3000).await;
            assert_eq!(world.api_versions(), frozen);
            let start = Instant::now();
            world.edit(NAME, None, freeze("false")).await.unwrap();
            world.until_stored_in(&["v2"]).await;
            assert_eq!(world.api_versions(), vec!["g.io/v2"; 40]);
            assert_eq!(Instant::now(), start, "nothing waited for a timer");
        });
    }
}

/// Conversion by webhook is somebody else's word on objects; types that are going have no future to prepare for.
#[test]
fn some_types_are_left_alone() {
    run(3, 1, |world| async move {
        let _actor = start(&world);
        world.put_established(&two_versions("v1", "Webhook"));
        world.put("/registry/g.io/widgets/ns/a", r#"{"apiVersion":"g.io/v1","metadata":{"uid":"u"}}"#);
        world.change_storage("v2").await;
        world.yields(2000).await;
        assert_eq!(world.api_versions(), ["g.io/v1"]);
        assert_eq!(stored_versions(&world.crd(NAME).await.unwrap()), ["v1", "v2"]);
        // Without the webhook there is something to do, and a deletion stops it.
        world.delete(NAME).await.unwrap();
        world.yields(2000).await;
        assert_eq!(world.api_versions(), ["g.io/v1"]);
    });
}

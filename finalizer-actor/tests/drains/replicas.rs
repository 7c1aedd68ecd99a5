//! Two servers over one store, one of which sees everything late: both drain, and neither may touch objects of a later type,
//! nor let a write commit in a deleted one.

use std::cell::Cell;
use std::collections::BTreeSet;

use futures::FutureExt as _;
use kindom_api::{Value, json};
use kindom_storage::{Change, KeyRange, Revision, Storage as _};

use crate::world::*;
use crate::{GOING, Tally, run, seeds};

const NAME: &str = "widgets.g.io";
/// The number of times that the type is registered, used and deleted in each history.
const ROUNDS: usize = 8;
const PREFIX: &str = "/registry/g.io/widgets/";

/// Over all that ever happened: nothing is created unless the registration is there and not going, nothing ends or is
/// marked unless it is going, and it goes when nothing is left. Gives back how many objects ended, and registrations.
fn judge(world: &World) -> (usize, usize) {
    let watch = world.store.inner.watch(KeyRange::prefix(b"/registry/"), Some(Revision(1)));
    let mut watch = watch.now_or_never().unwrap().unwrap();
    let (mut objects, mut going) = (BTreeSet::new(), None);
    let (mut ended, mut rounds) = (0, 0);
    while let Ok(commit) = watch.commits.try_recv() {
        let commit = commit.unwrap();
        let at = commit.revision;
        for event in &commit.events {
            let key = event.key.to_string();
            let value = match &event.change {
                Change::Put { value, .. } => Some(json::parse(value.as_ref().unwrap()).unwrap()),
                Change::Delete => None,
            };
            let marked = |v: &Value| v.at(&["metadata", "deletionTimestamp"]).is_some();
            if key == format!("{CRDS}{NAME}") {
                if value.is_none() {
                    assert!(objects.is_empty(), "{at}: gone before {objects:?}");
                    rounds += 1;
                }
                going = value.as_ref().map(marked);
            } else if key.starts_with(PREFIX) {
                match &value {
                    None => {
                        assert_eq!(going, Some(true), "{at}: {key} ended");
                        assert!(objects.remove(&key));
                        ended += 1;
                    }
                    Some(object) if marked(object) => assert_eq!(going, Some(true), "{at}: {key} was marked"),
                    // Clients may still release it.
                    Some(_) if objects.contains(&key) => {}
                    Some(_) => {
                        assert_eq!(going, Some(false), "{at}: {key} was created");
                        objects.insert(key);
                    }
                }
            }
        }
    }
    (ended, rounds)
}

/// Invariant 6, T-52: however late a replica is, a create never lands in a type that is going, and a drain never reaches
/// the next registration of the name.
#[test]
fn a_replica_that_is_late_drains_only_what_is_going() {
    let mut total = (0, 0);
    let (creates_of_both, releases) = (Tally::default(), Tally::default());
    for seed in 0..seeds(16, 400) {
        run(seed, 3, |world| async {
            let world = world;
            let late = world.replica(150, 300, vec![kindom_objects::kinds::namespace::namespaces()]);
            kindom_finalizer_actor::start(&late.registry, &late.registrations, &late.built_in[0]).unwrap();
            for round in 0..ROUNDS {
                let here = world.established("widgets").await;
                let done = Cell::new(false);
                let creates = async |through: &World, which: &str| {
                    // Until the late one hears of it, the other has objects already.
                    let Some(handle) = through.routed("g.io", "widgets").await else { return };
                    for i in 0..20 {
                        world.yields(20).await;
                        let finalizers: &[&str] =
                            if i % 10 == 9 && round % 2 == 0 { &["g.io/x"] } else { &[] };
                        let created = create(&handle, "ns", &format!("{which}{i}"), finalizers, None).await;
                        creates_of_both.count(created, &GOING);
                    }
                };
                let delete = async {
                    world.yields(600).await;
                    world.delete(NAME).await.unwrap();
                    while world.crd(NAME).await.is_some() {
                        tokio::task::yield_now().await;
                        for key in world.keys(PREFIX) {
                            let name = key.rsplit('/').next().unwrap();
                            releases.count(release(&here, "ns", name).await, &["NotFound", "Gone"]);
                        }
                    }
                    done.set(true);
                };
                let falls = async {
                    while !done.get() && seed % 2 == 0 {
                        world.yields(300).await;
                        let which = if world.entropy.below(2) == 0 { &world } else { &late };
                        which.table.kill("finalizer");
                    }
                };
                let (h, t) = (format!("h{round}-"), format!("t{round}-"));
                tokio::join!(creates(&world, &h), creates(&late, &t), delete, falls);
            }
            let judged = judge(&world);
            assert_eq!(judged.1, ROUNDS);
            total = (total.0 + judged.0, total.1 + judged.1);
        });
    }
    println!("{} objects of {} registrations ended", total.0, total.1);
    assert!(total.0 > 0);
    creates_of_both.both();
    releases.both();
}

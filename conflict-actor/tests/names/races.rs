//! Many registrants of one name, and actors that fall while they are judged.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kindom_api::{Value, json};
use kindom_storage::{Change, KeyRange, Revision, Storage as _};

use crate::run;
use crate::world::*;

/// T-20, T-35: one singular name, 200 who want it.
#[test]
fn of_200_racing_registrants_one_holds_the_name() {
    run(1, 3, |world| async move { race(&world, 200, 0).await });
}

/// T-20: the same while registry and conflict actor fall, also between claim and write.
#[test]
fn falls_during_a_race_give_no_name_twice() {
    for seed in 0..12 {
        run(seed, 3, |world| async move { race(&world, 30, 60).await });
    }
}

async fn race(world: &World, registrants: usize, kills: usize) {
    let posts: FuturesUnordered<_> = (0..registrants)
        .map(|i| async move {
            world.yields(40).await;
            let kind = format!("R{i}");
            let crd = crd_named(&format!("r{i}s"), "wanted", &kind, &format!("{kind}List"), &["w"]);
            world.post(&crd).await.unwrap();
        })
        .collect();
    let fall = async {
        for _ in 0..kills {
            world.yields(40).await;
            let actors = ["registry", "conflict", "resource/customresourcedefinitions.apiextensions.k8s.io"];
            world.table.kill(actors[usize::try_from(world.entropy.below(3)).unwrap()]);
        }
    };
    tokio::join!(posts.collect::<Vec<()>>(), fall);
    let judged = async || {
        let mut holders = Vec::new();
        for i in 0..registrants {
            let name = format!("r{i}s.g.io");
            let shows = world.conditions(&name).await;
            match shows.first().map(String::as_str) {
                Some("NamesAccepted=True NoConflicts") => holders.push(name),
                Some("NamesAccepted=False ShortNamesConflict" | "NamesAccepted=False SingularConflict") => {}
                _ => return false,
            }
        }
        assert_eq!(holders.len(), 1, "{holders:?}");
        true
    };
    world.until(&world.registrations, judged).await;
    never_held_twice(world).await;
    let table = world.registry.routes().table();
    world.registry.fresh(soon()).await.unwrap();
    drop(table);
    assert_eq!(world.registry.routes().table().group("g.io").unwrap().len(), 1);
}

/// T-12, T-14: at no revision of the history do two registrations hold one name.
async fn never_held_twice(world: &World) {
    let range = KeyRange::prefix(CRDS.as_bytes());
    let mut watch = world.store.inner.watch(range, Some(Revision(1))).await.unwrap();
    let mut held: BTreeMap<String, Vec<String>> = BTreeMap::new();
    while let Ok(commit) = watch.commits.try_recv() {
        let commit = commit.unwrap();
        for event in &commit.events {
            let Change::Put { value, .. } = &event.change else {
                held.remove(&event.key.to_string());
                continue;
            };
            let tree = json::parse(value.as_ref().unwrap()).unwrap();
            let names = tree.at(&["status", "acceptedNames"]).unwrap();
            let text = |field| names.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let short = names.get("shortNames").and_then(Value::as_array).unwrap_or_default();
            let mut own: Vec<String> = short.iter().map(|s| s.as_str().unwrap().to_owned()).collect();
            own.extend([text("plural"), text("singular")]);
            own.retain(|name| !name.is_empty());
            held.insert(event.key.to_string(), own);
        }
        let mut all: Vec<&String> = held.values().flatten().collect();
        all.sort();
        let doubled = all.windows(2).find(|pair| pair[0] == pair[1]);
        assert!(doubled.is_none(), "{doubled:?} at revision {}", commit.revision);
    }
}

/// Freed while the actors fall, a name still finds its next holder.
#[test]
fn a_freed_name_is_promoted_whatever_falls() {
    for seed in 0..10 {
        run(seed, 3, |world| async move {
            for i in 0..5 {
                let kind = format!("R{i}");
                let crd = crd_named(&format!("r{i}s"), "wanted", &kind, &format!("{kind}List"), &[]);
                world.post(&crd).await.unwrap();
            }
            for i in 0..5 {
                let name = format!("r{i}s.g.io");
                let wait = world.until_shown(&name, "Established=True");
                let fall = async {
                    for _ in 0..6 {
                        world.yields(30).await;
                        world.table.kill("registry");
                        world.yields(10).await;
                        world.table.kill("conflict");
                    }
                };
                tokio::join!(wait, fall);
                world.remove(&format!("{CRDS}{name}"));
            }
            never_held_twice(&world).await;
        });
    }
}

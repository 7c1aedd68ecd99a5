//! Actors that fall at any moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kindom_actor_kit::{Arbiters, Deadline, run_system};
use kindom_api::Value;
use kindom_resource_actor::WriteError;
use kindom_resource_actor::{Freshness, WriteOptions};
use kindom_storage::{Revision, Storage as _};

use crate::world::*;
use crate::writes::increment;

const NAME: &str = "resource/widgets.g.io";

/// Invariant 1: an admitted commit outlives its actor, and its answer reaches the client.
#[test]
fn a_commit_outlives_its_actor() {
    run(|world| async move {
        let widgets = world.widgets();
        widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
        world.store.gated.store(true, Ordering::SeqCst);
        let fall = async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            assert!(world.table.kill(NAME));
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            assert!(world.table.get(NAME).unwrap().incarnation > 1);
            assert!(world.history().await.is_empty());
            world.store.gate.add_permits(1);
        };
        let (created, ()) = tokio::join!(create(&widgets, widget("a", 1)), fall);
        assert_eq!(get(&widgets, "a").await.unwrap().revision(), created.unwrap().object.revision());
    });
}

/// A client that gives up while the store has its write is told that it may have happened.
#[test]
fn an_outcome_that_nobody_waited_for_is_unknown() {
    run(|world| async move {
        let widgets = world.widgets();
        world.store.gated.store(true, Ordering::SeqCst);
        let hasty = WriteOptions { deadline: Deadline::after(Duration::from_secs(1)), ..options() };
        let lost = create_with(&widgets, widget("a", 1), &hasty).await.err();
        assert_eq!(lost, Some(WriteError::Unknown));
        world.store.gate.add_permits(1);
        // It happens all the same.
        let mut cursor = widgets.watch(Revision(1)).unwrap();
        assert_eq!(brief(&cursor.next(1).await.unwrap()), ["+ns/a"]);
    });
}

#[test]
fn a_write_to_a_fallen_actor_goes_to_its_successor() {
    run(|world| async move {
        let widgets = world.widgets();
        widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
        for i in 0..20 {
            let name = format!("w{i}");
            let (created, _) = tokio::join!(create(&widgets, widget(&name, i)), async {
                world.table.kill(NAME);
            });
            created.unwrap();
            assert!(get(&widgets, &name).await.is_some());
        }
        assert!(world.table.get(NAME).unwrap().restarts >= 19);
    });
}

/// A gap in the commit stream is no bug: the actor loads again, nothing panics, and the type goes on.
#[test]
fn a_commit_stream_with_a_gap_is_a_reload() {
    run(|world| async move {
        let widgets = world.widgets();
        let created = create(&widgets, widget("a", 0)).await.unwrap();
        let mut cursor = widgets.watch(created.object.revision()).unwrap();
        let key = format!("{}ns/a", widgets.prefix());
        // More than the queue of a watch holds, and the actor has no turn in between.
        for i in 1..=17_000 {
            world.put(&key, &widget("a", i).to_string());
        }
        let found = get(&widgets, "a").await.unwrap();
        assert_eq!(tree(&found).at(&["spec", "n"]).and_then(Value::as_i64), Some(17_000));
        let info = world.table.get(NAME).unwrap();
        assert_eq!((info.incarnation, info.restarts, info.panics), (2, 1, 0));
        let why = info.last_failure.unwrap();
        assert!(why.starts_with("reload: the commit stream of /registry/g.io/widgets/ ended: "), "{why}");
        create(&widgets, widget("b", 1)).await.unwrap();
        let mut last = created.object.revision();
        let mut events = 0;
        while events < 17_001 {
            for event in cursor.next(1000).await.unwrap() {
                assert!(event.revision > last, "each once, in order");
                last = event.revision;
                events += 1;
            }
        }
        assert_eq!(last, get(&widgets, "b").await.unwrap().revision());
    });
}

/// A store that closes ends every stream and lets nothing load; it makes no actor panic.
#[test]
fn a_store_that_closes_makes_no_actor_panic() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 0)).await.unwrap();
        world.store.close().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let info = world.table.get(NAME).unwrap();
        assert!(info.restarts >= 2, "{info:?}");
        assert_eq!(info.panics, 0);
        assert!(info.last_failure.unwrap().starts_with("could not load: "));
    });
}

/// 200 kills under writers, readers and watchers; the whole judged by the store's own history. The same seed gives the
/// same run.
#[test]
fn kills_lose_double_and_reorder_nothing() {
    for seed in 0..10 {
        run_seeded(seed, 3, |world| storm(world, 20));
    }
}

async fn storm(world: World, kills: usize) {
    let widgets = world.widgets();
    let (_, start) = widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
    let names = ["a", "b", "c"];
    for name in names {
        create(&widgets, widget(name, 0)).await.unwrap();
    }
    let (done, quiet) = (AtomicBool::new(false), AtomicBool::new(false));
    let acknowledged: Vec<AtomicU64> = names.iter().map(|_| AtomicU64::new(0)).collect();
    let n =
        |object: &Value| u64::try_from(object.at(&["spec", "n"]).and_then(Value::as_i64).unwrap()).unwrap();
    let write = async |who: usize| {
        let mut own = 0;
        while !done.load(Ordering::SeqCst) {
            patch(&widgets, names[who % 3], increment).await.unwrap();
            acknowledged[who % 3].fetch_add(1, Ordering::SeqCst);
            let name = format!("w{who}-{own}");
            create(&widgets, widget(&name, 1)).await.unwrap();
            assert!(get(&widgets, &name).await.is_some(), "an answered create is readable");
            if own % 2 == 0 {
                delete(&widgets, &name).await.unwrap();
                assert!(get(&widgets, &name).await.is_none(), "an answered delete is readable");
            }
            own += 1;
        }
    };
    let read = async || {
        let mut last = Revision::ZERO;
        while !done.load(Ordering::SeqCst) {
            let before: Vec<u64> = acknowledged.iter().map(|a| a.load(Ordering::SeqCst)).collect();
            let (snapshot, revision) = widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
            assert!(revision >= last, "reads never go back");
            last = revision;
            for (name, before) in names.iter().zip(before) {
                assert!(n(&tree(snapshot.get(&format!("ns/{name}")).unwrap())) >= before);
            }
            tokio::task::yield_now().await;
        }
    };
    let watch = async |mut from: Revision, lazy: u64| {
        let mut cursor = widgets.watch(from).unwrap();
        let mut all = Vec::new();
        loop {
            if cursor.advance().is_some_and(|at| at < from) {
                panic!("a bookmark went back");
            }
            from = cursor.cursor();
            if quiet.load(Ordering::SeqCst) {
                all.extend(cursor.finish(usize::MAX).await.unwrap());
                return all;
            }
            tokio::select! {
                biased;
                events = cursor.next(5) => all.extend(events.unwrap()),
                () = tokio::task::yield_now() => {}
            }
            for _ in 0..lazy {
                tokio::task::yield_now().await;
            }
        }
    };
    let kill = async {
        for i in 0..kills {
            for _ in 0..world.entropy.below(30) {
                tokio::task::yield_now().await;
            }
            // Mostly in the middle of something, now and then in its own start, and sometimes put to sleep instead.
            if i % 7 == 3 {
                widgets.sleep();
            } else {
                world.table.kill(NAME);
            }
        }
        done.store(true, Ordering::SeqCst);
    };
    let writers = async {
        tokio::join!(write(0), write(1), write(2), write(3));
        quiet.store(true, Ordering::SeqCst);
    };
    let (.., one, two) = tokio::join!(writers, read(), read(), kill, watch(start, 0), watch(start, 40));
    let history = world.history().await;
    let short = |seen: &[Seen]| seen.iter().map(|(r, key, _)| format!("{r} {key}")).collect::<Vec<_>>();
    for events in [one, two] {
        assert_eq!(short(&seen(&events)), short(&history), "every change once, in order");
        assert_eq!(seen(&events), history);
    }
    let mut model = std::collections::BTreeMap::new();
    for (_, key, value) in history {
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
    assert_eq!(stored(&widgets).await, model, "the snapshot is the fold of the history");
    for (name, acknowledged) in names.iter().zip(&acknowledged) {
        assert_eq!(n(&tree(&get(&widgets, name).await.unwrap())), acknowledged.load(Ordering::SeqCst));
    }
}

/// Invariant 3, with real threads: readers on other threads than the actor's see every answered write, also while it
/// falls and comes back.
#[test]
fn reads_from_other_threads_see_every_answered_write() {
    kindom_actor_kit::install_panic_hook();
    run_system(async {
        let world = World::new(Arbiters::new(1).unwrap(), 7, 0);
        let widgets = world.widgets();
        create(&widgets, widget("a", 0)).await.unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let reader = {
            let (widgets, done, answered) = (widgets.clone(), Arc::clone(&done), Arc::clone(&answered));
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    let mut reads = 0_u64;
                    while !done.load(Ordering::SeqCst) || reads == 0 {
                        let before = answered.load(Ordering::SeqCst);
                        let found = get(&widgets, "a").await.unwrap();
                        let n = tree(&found).at(&["spec", "n"]).and_then(Value::as_i64).unwrap();
                        assert!(
                            u64::try_from(n).unwrap() >= before,
                            "{n} was read after {before} was answered"
                        );
                        reads += 1;
                    }
                    reads
                })
            })
        };
        for i in 1..=2_000_u64 {
            patch(&widgets, "a", increment).await.unwrap();
            answered.store(i, Ordering::SeqCst);
            if i % 20 == 0 {
                world.table.kill(NAME);
            }
        }
        done.store(true, Ordering::SeqCst);
        assert!(reader.join().unwrap() > 0);
        world.deps.supervisor.stop_all().await;
    })
    .unwrap();
}

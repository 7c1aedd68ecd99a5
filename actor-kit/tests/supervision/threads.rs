//! Real threads and real time.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use kindom_actor_kit::{
    ActorTable, ArbiterError, Arbiters, AskError, Entropy, Handle, Policy, Supervised, Supervisor,
    install_panic_hook, run_system,
};

use crate::probe::*;

fn assert_send<T: Send>(value: T) -> T {
    value
}

fn assert_shared<T: Clone + Send + Sync + 'static>() {}

#[test]
fn handles_cross_threads() {
    assert_shared::<Handle<Probe>>();
    assert_shared::<Supervised<Probe>>();
    assert_shared::<Supervisor>();
    assert_shared::<kindom_actor_kit::Wake>();
}

#[test]
fn arbiters_need_a_system() {
    assert!(matches!(Arbiters::new(1), Err(ArbiterError::NoSystem)));
    assert!(matches!(Arbiters::current(), Err(ArbiterError::NoSystem)));
}

#[test]
fn asks_and_kills_from_other_threads_lose_no_acknowledged_write() {
    const CALLERS: u64 = 4;
    const ASKS: u64 = 500;
    const KILLS: u64 = 200;
    install_panic_hook();
    let world = Arc::new(World::default());
    let (acknowledged, lost) = run_system(async {
        let arbiters = Arbiters::new(2).unwrap();
        let supervisor = Supervisor::new(ActorTable::new(), Entropy::system().unwrap());
        let probe = start(&supervisor, &arbiters, &world, NAME, Policy::default()).unwrap();
        let caller = || {
            let handle = probe.handle();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let (mut acknowledged, mut lost) = (0, 0);
                runtime.block_on(assert_send(async {
                    for _ in 0..ASKS {
                        match handle.ask(Add(1), soon()).await {
                            Ok(_) => acknowledged += 1,
                            Err(AskError::Lost) => lost += 1,
                            Err(other) => panic!("{other}"),
                        }
                        assert!(handle.ask_retrying(|| Get, soon()).await.is_ok_and(|(n, _)| n >= 1));
                    }
                }));
                (acknowledged, lost)
            })
        };
        let callers: Vec<_> = (0..CALLERS).map(|_| caller()).collect();
        for _ in 0..KILLS {
            // Paced by what the callers get done, so that no ask meets five kills in a row.
            let enough = world.handled.load(SeqCst) + 50;
            while world.handled.load(SeqCst) < enough {
                let _ = probe.handle().ask(Get, soon()).await;
            }
            let incarnation = probe.ready(soon()).await.unwrap();
            assert!(supervisor.table().kill(NAME));
            probe.handle().running(incarnation + 1, soon()).await.unwrap();
        }
        let counts = tokio::task::spawn_blocking(move || {
            callers
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
        })
        .await
        .unwrap();
        supervisor.stop_all().await;
        assert_eq!(probe.handle().info().mailbox, 0);
        arbiters.shutdown();
        counts
    })
    .unwrap();
    let stored = world.stored.load(SeqCst);
    assert_eq!(acknowledged + lost, CALLERS * ASKS);
    assert!(stored >= acknowledged, "{stored} stored, {acknowledged} acknowledged");
    assert!(stored <= acknowledged + lost, "{stored} stored, {acknowledged} acknowledged, {lost} lost");
}

#[test]
fn an_arbiter_that_ends_takes_its_actors_off_the_list() {
    install_panic_hook();
    run_system(async {
        let arbiters = Arbiters::new(1).unwrap();
        let place = arbiters.place(NAME);
        let supervisor = Supervisor::new(ActorTable::new(), Entropy::seeded(1));
        let world = Arc::new(World::default());
        let probe = start(&supervisor, &arbiters, &world, NAME, Policy::default()).unwrap();
        probe.ready(soon()).await.unwrap();
        arbiters.shutdown();
        assert_eq!(probe.handle().ask(Get, soon()).await, Err(AskError::Gone));
        probe.stop().await;
        assert_eq!(supervisor.table().list(), []);
        let late =
            supervisor.start("late", &place, Policy::default(), |_| async { Err::<Probe, _>("no".into()) });
        assert!(late.is_err());
        assert_eq!(supervisor.table().list(), []);
    })
    .unwrap();
}

#[test]
fn placement_is_stable_and_spread() {
    install_panic_hook();
    run_system(async {
        let arbiters = Arbiters::new(4).unwrap();
        let supervisor = Supervisor::new(ActorTable::new(), Entropy::seeded(1));
        let mut used = std::collections::BTreeMap::<_, u32>::new();
        for n in 0..64 {
            let (seen, thread) = tokio::sync::oneshot::channel();
            let place = arbiters.place(&format!("resource/{n}"));
            assert!(place.spawn(async move {
                seen.send(format!("{:?}", std::thread::current().id())).unwrap();
            }));
            *used.entry(thread.await.unwrap()).or_default() += 1;
        }
        assert_eq!(used.len(), 4, "{used:?}");
        assert!(used.values().all(|n| *n >= 6), "{used:?}");
        drop(supervisor);
        arbiters.shutdown();
    })
    .unwrap();
}

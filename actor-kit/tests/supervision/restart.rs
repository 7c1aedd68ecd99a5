use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use kindom_actor_kit::{ActorState, AskError, Policy};
use tokio::time::Instant;

use crate::probe::*;

#[test]
fn a_fresh_incarnation_loads_from_storage_and_the_handle_finds_it() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let handle = f.probe.handle();
        assert_eq!(handle.ask(Add(5), soon()).await, Ok(5));
        handle.ask(Dirty(99), soon()).await.unwrap();
        assert_eq!(f.get().await, (1, 99));
        assert_eq!(handle.ask(Boom, soon()).await, Err(AskError::Lost));
        assert_eq!(f.get().await, (2, 5), "what was not stored is forgotten");
        let info = f.info();
        assert_eq!((info.state, info.incarnation, info.restarts), (ActorState::Running, 2, 1));
        assert_eq!(info.last_failure.as_deref(), Some("panic: boom"));
        assert_eq!(f.world.stops.load(SeqCst), 0, "no hook of the broken actor ran");
    });
}

#[test]
fn an_actor_that_asks_for_a_successor_backs_off_and_counts_no_panic() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let handle = f.probe.handle();
        assert_eq!(handle.ask(Add(5), soon()).await, Ok(5));
        handle.ask(Dirty(99), soon()).await.unwrap();
        let before = Instant::now();
        assert_eq!(handle.ask(Stale, soon()).await, Ok(()), "the turn goes to its end");
        assert_eq!(f.get().await, (2, 5));
        let info = f.info();
        assert_eq!((info.restarts, info.panics), (1, 0));
        assert_eq!(info.last_failure.as_deref(), Some("reload: stale"));
        assert_eq!(before.elapsed(), Duration::ZERO, "the first restart is immediate");
        handle.ask(Stale, soon()).await.unwrap();
        f.until_state(ActorState::BackingOff).await;
        assert_eq!(f.get().await, (3, 5));
        assert!(before.elapsed() >= ms(25));
        assert_eq!(handle.ask(Boom, soon()).await, Err(AskError::Lost));
        assert_eq!(f.get().await.0, 4);
        assert_eq!((f.info().restarts, f.info().panics), (3, 1));
        // One that is stopped in the turn in which it asks stays stopped.
        let (stale, ()) = futures::join!(handle.ask(Stale, soon()), f.probe.stop());
        assert_eq!((stale, f.info().state), (Ok(()), ActorState::Stopped));
    });
}

#[test]
fn a_panic_in_an_interleaved_future_is_a_fall() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        assert_eq!(f.probe.handle().ask(BoomInterleaved, soon()).await, Err(AskError::Lost));
        assert_eq!(f.get().await.0, 2);
    });
}

#[test]
fn a_panic_in_started_loses_no_message() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        f.world.panicking_starts.store(3, SeqCst);
        assert_eq!(f.get().await.0, 4, "the ask waited for an incarnation that came up");
        assert_eq!(f.info().last_failure.as_deref(), Some("panic: started panics"));
    });
}

#[test]
fn a_broken_actor_that_also_panics_while_it_is_dropped_does_not_end_the_process() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        f.world.panic_in_stopping.store(true, SeqCst);
        f.world.panic_in_stopped.store(true, SeqCst);
        f.world.panic_in_drop.store(true, SeqCst);
        let handle = f.probe.handle();
        for incarnation in 1..=5 {
            assert_eq!(f.get().await.0, incarnation);
            assert_eq!(handle.ask(Boom, soon()).await, Err(AskError::Lost));
        }
        // An ordered stop runs into the same panics, and still ends.
        assert_eq!(f.get().await.0, 6);
        f.probe.stop().await;
        assert_eq!(f.table().list(), []);
        f.world.panic_in_drop.store(false, SeqCst);
    });
}

#[test]
fn loads_that_fail_or_panic_are_tried_again() {
    simulate(async {
        let world = World::default();
        world.failing_loads.store(2, SeqCst);
        let f = Fixture::with(world, Policy::default());
        assert_eq!(f.get().await.0, 3);
        assert_eq!(f.info().last_failure.as_deref(), Some("could not load: storage is away"));
        f.world.panicking_loads.store(2, SeqCst);
        assert_eq!(f.probe.handle().ask(Boom, soon()).await, Err(AskError::Lost));
        assert_eq!(f.get().await.0, 6);
        assert_eq!(f.info().last_failure.as_deref(), Some("panic: the load panics"));
    });
}

#[test]
fn queued_and_waiting_asks_are_told_and_later_ones_wait() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        assert_eq!(f.get().await.0, 1);
        f.world.gated.store(true, SeqCst);
        let handle = f.probe.handle();
        // All in one mailbox before the actor has a turn; `join` polls in order.
        let (hung, boom, queued) =
            futures::join!(handle.ask(Hang, soon()), handle.ask(Boom, soon()), handle.ask(Get, soon()));
        assert_eq!(hung, Err(AskError::Lost), "it was being handled");
        assert_eq!(boom, Err(AskError::Lost));
        assert_eq!(queued, Err(AskError::Lost), "it was behind the panic");
        let mut late = Box::pin(handle.ask(Get, soon()));
        assert!(futures::poll!(&mut late).is_pending());
        assert_eq!(f.info().state, ActorState::Starting);
        f.world.gate.0.add_permits(1);
        assert_eq!(late.await.unwrap().0, 2);
    });
}

#[test]
fn back_off_grows_and_the_budget_is_reported_but_never_final() {
    simulate(async {
        let world = World::default();
        world.failing_loads.store(u64::MAX, SeqCst);
        let policy = Policy { budget: 5, ..Policy::default() };
        let f = Fixture::with(world, policy);
        let mut loads = Vec::new();
        let start = Instant::now();
        for _ in 0..20 {
            f.world.loading.notified().await;
            loads.push(start.elapsed());
        }
        let waits: Vec<_> = loads.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(waits[0], Duration::ZERO, "the first restart is immediate");
        for (wait, nominal) in waits[1..5].iter().zip([50, 100, 200, 400]) {
            // Up to half is cut at random; tokio's timer rounds up to the next millisecond.
            assert!(*wait >= ms(nominal / 2) && *wait <= ms(nominal + 1), "{wait:?} of {nominal} ms");
        }
        for wait in &waits[5..] {
            assert!(*wait >= ms(2500) && *wait <= ms(5001), "{wait:?}");
        }
        assert_eq!(f.info().state, ActorState::Failed);
        assert_eq!(f.info().incarnation, 20);

        // It comes up as soon as it can, and says so.
        f.world.failing_loads.store(0, SeqCst);
        assert_eq!(f.get().await.0, 21);
        assert_eq!(f.info().state, ActorState::Running);

        // Another fall within the window is over the budget at once; after it, all is forgiven.
        let handle = f.probe.handle();
        assert_eq!(handle.ask(Boom, soon()).await, Err(AskError::Lost));
        f.settle().await;
        assert_eq!(f.info().state, ActorState::Failed);
        assert_eq!(f.get().await.0, 22);
        tokio::time::sleep(policy.window).await;
        assert_eq!(handle.ask(Boom, soon()).await, Err(AskError::Lost));
        let before = Instant::now();
        assert_eq!(f.get().await.0, 23);
        assert_eq!(before.elapsed(), Duration::ZERO);
    });
}

#[test]
fn the_same_seed_waits_the_same() {
    let run = || {
        simulate(async {
            let world = World::default();
            world.failing_loads.store(u64::MAX, SeqCst);
            let f = Fixture::with(world, Policy::default());
            let start = Instant::now();
            let mut loads = Vec::new();
            for _ in 0..30 {
                f.world.loading.notified().await;
                loads.push(start.elapsed());
            }
            loads
        })
    };
    assert_eq!(run(), run());
}

#[test]
fn names_are_held_by_one_actor_at_a_time() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let again = || start(&f.supervisor, &f.arbiters, &f.world, NAME, Policy::default());
        assert_eq!(
            again().unwrap_err().to_string(),
            format!("an actor named {NAME:?} is supervised already")
        );
        f.probe.stop().await;
        let second = again().unwrap();
        assert_eq!(second.ready(soon()).await.unwrap(), 1);
        assert_eq!(
            f.probe.handle().ask(Get, soon()).await,
            Err(AskError::Gone),
            "the old handle stays ended"
        );
    });
}

#[test]
fn ten_thousand_actors_live_side_by_side() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let mut actors = Vec::new();
        for n in 0..10_000 {
            let name = format!("resource/{n:05}.example.com");
            actors.push(start(&f.supervisor, &f.arbiters, &f.world, &name, Policy::default()).unwrap());
        }
        for actor in &actors {
            assert_eq!(actor.handle().ask(Get, soon()).await, Ok((1, 0)));
        }
        let list = f.table().list();
        assert_eq!(list.len(), 10_001);
        assert!(list.is_sorted_by(|a, b| a.name < b.name));
        f.supervisor.stop_all().await;
        assert_eq!(f.table().list(), []);
    });
}

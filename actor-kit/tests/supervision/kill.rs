use std::sync::atomic::Ordering::SeqCst;

use kindom_actor_kit::{ActorState, AskError, Policy};

use crate::probe::*;

#[test]
fn an_idle_actor_is_replaced() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        assert_eq!(f.probe.handle().ask(Add(3), soon()).await, Ok(3));
        assert!(f.table().kill(NAME));
        assert_eq!(f.probe.handle().running(2, soon()).await, Ok(2));
        assert_eq!(f.get().await, (2, 3));
        let info = f.info();
        assert_eq!((info.restarts, info.last_failure.as_deref()), (1, Some("killed by order")));
        assert!(!f.table().kill("resource/none"));
    });
}

#[test]
fn a_busy_actor_loses_what_it_was_doing() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let handle = f.probe.handle();
        let kill = async {
            f.world.entered.notified().await;
            assert_eq!(f.info().mailbox, 1);
            assert!(f.table().kill(NAME));
        };
        let (hung, ()) = futures::join!(handle.ask(Hang, soon()), kill);
        assert_eq!(hung, Err(AskError::Lost));
        assert_eq!(f.get().await.0, 2);
        assert_eq!(f.info().mailbox, 0);
    });
}

#[test]
fn a_detached_commit_outlives_its_actor() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let handle = f.probe.handle();
        let kill = async {
            f.world.entered.notified().await;
            assert!(f.table().kill(NAME));
            assert_eq!(handle.running(2, soon()).await, Ok(2));
            f.world.gate.0.add_permits(1);
        };
        let (answer, ()) = futures::join!(handle.ask(Detached, soon()), kill);
        assert_eq!(answer, Ok(1), "answered by the first incarnation, after its death");
    });
}

#[test]
fn a_kill_in_its_own_restart_starts_the_load_over() {
    simulate(async {
        let world = World::default();
        world.gated.store(true, SeqCst);
        let f = Fixture::with(world, Policy::default());
        for incarnation in 1..=50 {
            f.world.loading.notified().await;
            assert_eq!((f.info().state, f.info().incarnation), (ActorState::Starting, incarnation));
            assert!(f.table().kill(NAME));
        }
        f.world.gate.0.add_permits(1);
        assert_eq!(f.get().await.0, 51);
        assert_eq!(f.world.loads.load(SeqCst), 51);
    });
}

#[test]
fn a_kill_while_backing_off_does_not_reach_the_next_incarnation() {
    simulate(async {
        let world = World::default();
        world.failing_loads.store(2, SeqCst);
        let f = Fixture::with(world, Policy::default());
        f.until_state(ActorState::BackingOff).await;
        assert!(f.table().kill(NAME));
        let info = f.info();
        assert_eq!(f.get().await.0, info.incarnation + 1);
        f.settle().await;
        assert_eq!(f.info().restarts, info.restarts);
    });
}

#[test]
fn an_actor_may_order_its_own_death() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let handle = f.probe.handle();
        handle.ask(Suicide(f.table().clone()), soon()).await.unwrap();
        assert_eq!(handle.running(2, soon()).await, Ok(2));
    });
}

#[test]
fn a_thousand_kills_lose_nothing_that_was_stored_and_never_back_off() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let handle = f.probe.handle();
        let begin = tokio::time::Instant::now();
        for n in 1..=1000 {
            assert_eq!(handle.ask(Add(1), soon()).await, Ok(n));
            assert!(f.table().kill(NAME));
            assert_eq!(handle.running(n + 1, soon()).await, Ok(n + 1));
        }
        assert_eq!(f.get().await, (1001, 1000));
        assert_eq!(begin.elapsed(), std::time::Duration::ZERO, "no back-off");
        assert_eq!(f.info().state, ActorState::Running);
    });
}

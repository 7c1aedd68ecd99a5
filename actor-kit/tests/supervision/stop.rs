use std::sync::atomic::Ordering::SeqCst;

use kindom_actor_kit::{ActorState, AskError, Policy};

use crate::probe::*;

#[test]
fn stopping_is_final_and_handles_what_was_queued() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let handle = f.probe.handle();
        assert_eq!(f.get().await.0, 1);
        let (queued, hung, ()) =
            futures::join!(handle.ask(Add(2), soon()), handle.ask(Hang, soon()), f.probe.stop());
        assert_eq!(queued, Ok(2));
        assert_eq!(hung, Err(AskError::Lost), "an interleaved future ends with its actor");
        assert_eq!(f.world.stops.load(SeqCst), 1, "its hooks ran");
        assert_eq!(handle.ask(Get, soon()).await, Err(AskError::Gone));
        assert_eq!(handle.ask_retrying(|| Get, soon()).await, Err(AskError::Gone));
        assert_eq!(handle.running(1, soon()).await, Err(AskError::Gone));
        assert_eq!(f.info().state, ActorState::Stopped);
        assert_eq!(f.table().get(NAME), None);
        assert!(!f.table().kill(NAME));
        f.settle().await;
        assert_eq!(f.world.loads.load(SeqCst), 1);
        f.probe.stop().await;
    });
}

#[test]
fn a_stop_ends_a_load_and_a_back_off() {
    simulate(async {
        let world = World::default();
        world.gated.store(true, SeqCst);
        let f = Fixture::with(world, Policy::default());
        let handle = f.probe.handle();
        f.world.loading.notified().await;
        let (waiting, ()) = futures::join!(handle.ask(Get, soon()), f.probe.stop());
        assert_eq!(waiting, Err(AskError::Gone));

        let world = World::default();
        world.failing_loads.store(u64::MAX, SeqCst);
        let f = Fixture::with(world, Policy::default());
        f.until_state(ActorState::Failed).await;
        f.probe.stop().await;
        assert_eq!(f.info().state, ActorState::Stopped);
    });
}

#[test]
fn a_stop_wins_over_a_kill_and_over_a_panic() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        assert_eq!(f.get().await.0, 1);
        let handle = f.probe.handle();
        let (boom, ()) = futures::join!(handle.ask(Boom, soon()), async {
            assert!(f.table().kill(NAME));
            f.probe.stop().await;
        });
        assert_eq!(boom, Err(AskError::Lost));
        assert_eq!(f.info().state, ActorState::Stopped);
        assert_eq!(f.world.loads.load(SeqCst), 1);
    });
}

#[test]
fn an_actor_that_ends_itself_is_stopped() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let handle = f.probe.handle();
        handle.ask(End, soon()).await.unwrap();
        f.until_state(ActorState::Stopped).await;
        assert_eq!(handle.ask(Get, soon()).await, Err(AskError::Gone));
        assert_eq!(f.world.loads.load(SeqCst), 1);
    });
}

#[test]
fn owners_may_go_without_their_actors() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let handle = f.probe.handle();
        drop(f);
        assert_eq!(handle.ask(Get, soon()).await, Ok((1, 0)));
    });
}

use std::sync::atomic::Ordering::SeqCst;

use futures::future::join_all;
use kindom_actor_kit::{AskError, Deadline, Policy};

use crate::probe::*;

fn small(mailbox: usize) -> Policy {
    Policy { mailbox, ..Policy::default() }
}

#[test]
fn a_full_mailbox_is_busy_at_once() {
    simulate(async {
        let f = Fixture::new(small(3));
        let handle = f.probe.handle();
        let mut held: Vec<_> = (0..3).map(|_| Box::pin(handle.ask(Hang, soon()))).collect();
        for ask in &mut held {
            assert!(futures::poll!(ask).is_pending());
        }
        assert_eq!(f.info().mailbox, 3);
        assert_eq!(handle.ask(Get, soon()).await, Err(AskError::Busy));
        assert!(!AskError::Busy.delivered());
        drop(held.pop());
        assert_eq!(f.get().await.0, 1, "a place is free again");
    });
}

#[test]
fn waiting_for_a_start_takes_a_place_too() {
    simulate(async {
        let world = World::default();
        world.gated.store(true, SeqCst);
        let f = Fixture::with(world, small(2));
        let handle = f.probe.handle();
        let mut held: Vec<_> = (0..2).map(|_| Box::pin(handle.ask(Get, soon()))).collect();
        for ask in &mut held {
            assert!(futures::poll!(ask).is_pending());
        }
        assert_eq!(handle.ask(Get, soon()).await, Err(AskError::Busy));
        f.world.gate.0.add_permits(1);
        for answer in join_all(held).await {
            assert_eq!(answer, Ok((1, 0)));
        }
    });
}

#[test]
fn callers_that_go_away_free_their_places_only_once_the_queue_was_emptied() {
    simulate(async {
        let f = Fixture::new(small(2));
        let handle = f.probe.handle();
        assert_eq!(f.get().await.0, 1);
        let handled = f.world.handled.load(SeqCst);
        // No turn of the actor happens in between: the messages are still queued.
        for _ in 0..2 {
            let mut ask = Box::pin(handle.ask(Get, soon()));
            assert!(futures::poll!(&mut ask).is_pending());
        }
        assert_eq!(handle.ask(Get, soon()).await, Err(AskError::Busy));
        f.settle().await;
        assert_eq!(f.info().mailbox, 0);
        assert_eq!(f.get().await.0, 1);
        assert_eq!(f.world.handled.load(SeqCst), handled + 1, "messages without a caller are skipped");
    });
}

#[test]
fn callers_that_go_away_while_nobody_runs_free_their_places() {
    simulate(async {
        let f = Fixture::new(small(1));
        let handle = f.probe.handle();
        assert_eq!(f.get().await.0, 1);
        f.world.failing_loads.store(u64::MAX, SeqCst);
        // Handed to an incarnation that dies, and abandoned before it learns of that.
        let mut ask = Box::pin(handle.ask(Boom, soon()));
        assert!(futures::poll!(&mut ask).is_pending());
        f.settle().await;
        drop(ask);
        f.settle().await;
        assert_eq!(f.info().mailbox, 0);
    });
}

#[test]
fn deadlines_say_whether_the_message_was_handed_over() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let handle = f.probe.handle();
        let unanswered = handle.ask(Hang, Deadline::after(ms(100))).await.unwrap_err();
        assert_eq!(unanswered, AskError::DeadlineExceeded { delivered: true });
        assert_eq!(unanswered.to_string(), "the deadline passed before the actor answered");
        assert!(unanswered.delivered());

        f.world.gated.store(true, SeqCst);
        assert!(f.table().kill(NAME));
        f.settle().await;
        let unsent = handle.ask(Get, Deadline::after(ms(100))).await.unwrap_err();
        assert_eq!(unsent, AskError::DeadlineExceeded { delivered: false });
        assert_eq!(unsent.to_string(), "the deadline passed before the actor could be asked");
        assert_eq!(
            handle.running(3, Deadline::after(ms(100))).await,
            Err(AskError::DeadlineExceeded { delivered: false })
        );
        f.world.gate.0.add_permits(1);
        assert_eq!(f.get().await.0, 2);

        let handled = f.world.handled.load(SeqCst);
        let past = Deadline::after(ms(0));
        assert_eq!(handle.ask(Get, past).await, Err(AskError::DeadlineExceeded { delivered: false }));
        f.settle().await;
        assert_eq!(f.world.handled.load(SeqCst), handled);
    });
}

#[test]
fn a_message_is_not_sent_twice_unless_the_caller_says_so() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let handle = f.probe.handle();
        assert_eq!(handle.ask(BoomTimes(1), soon()).await, Err(AskError::Lost));
        assert_eq!(f.get().await.0, 2);
        let handled = f.world.handled.load(SeqCst);
        let answer = handle.ask_retrying(|| BoomTimes(handled + 3), soon()).await;
        assert_eq!(answer, Ok(handled + 3));
        assert_eq!(f.get().await.0, 5);
    });
}

#[test]
fn a_message_that_always_kills_is_given_up() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        assert_eq!(f.probe.handle().ask_retrying(|| Boom, soon()).await, Err(AskError::Lost));
        assert_eq!(f.world.handled.load(SeqCst), 5);
    });
}

#[test]
fn an_answer_lost_without_a_fall_is_asked_for_again() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        assert_eq!(f.probe.handle().ask_retrying(|| BoomDetached, soon()).await, Err(AskError::Lost));
        assert_eq!(f.world.handled.load(SeqCst), 5);
        assert_eq!(f.get().await.0, 1, "the actor itself was never hurt");
    });
}

#[test]
fn retrying_ends_at_the_deadline_and_remembers_that_it_delivered() {
    simulate(async {
        let f = Fixture::new(Policy::default());
        let handle = f.probe.handle();
        assert_eq!(f.get().await.0, 1);
        f.world.failing_loads.store(u64::MAX, SeqCst);
        let late = handle.ask_retrying(|| Boom, Deadline::after(ms(500))).await;
        assert_eq!(late, Err(AskError::DeadlineExceeded { delivered: true }));
        let stop = async {
            f.settle().await;
            f.probe.stop().await;
        };
        let (gone, ()) = futures::join!(handle.ask_retrying(|| Get, soon()), stop);
        assert_eq!(gone, Err(AskError::Gone));
    });
}

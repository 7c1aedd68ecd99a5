//! Loops without a mailbox: they fall, are killed, stopped and listed as actors are, and lose no wake-up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use kindom_actor_kit::{
    ActorInfo, ActorState, ActorTable, Arbiters, BoxError, Entropy, Policy, Reconciler, StartError,
    Supervisor, Wake, Woken, install_panic_hook, run_system,
};
use proptest::prelude::*;
use tokio::time::{Instant, sleep};

use crate::probe::{NAME, World as ProbeWorld, ms, simulate, start as start_probe};

const LOOP: &str = "finalizer";

/// The state that the loop reads, and the switches of a test.
#[derive(Default)]
struct World {
    truth: AtomicU64,
    changes: Wake,
    /// The truth as the loop saw it last.
    seen: AtomicU64,
    looks: AtomicU64,
    /// Futures of the loop that have not been dropped.
    alive: AtomicU64,
    /// The number of times that it yields before and after a look.
    slow: AtomicU64,
    panicking_factories: AtomicU64,
    panicking_looks: AtomicU64,
    returning_looks: AtomicU64,
    panic_in_drop: AtomicBool,
}

fn one_of(counter: &AtomicU64) -> bool {
    counter.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok()
}

impl World {
    fn change(&self) {
        self.truth.fetch_add(1, SeqCst);
        self.changes.wake();
    }
}

/// Counts a loop's future while it lives.
struct Alive(Arc<World>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, SeqCst);
        if self.0.panic_in_drop.load(SeqCst) && !std::thread::panicking() {
            panic!("drop panics");
        }
    }
}

async fn reconcile(world: Arc<World>, mut changes: Woken) -> BoxError {
    world.alive.fetch_add(1, SeqCst);
    let _alive = Alive(Arc::clone(&world));
    loop {
        for _ in 0..world.slow.load(SeqCst) {
            tokio::task::yield_now().await;
        }
        let truth = world.truth.load(SeqCst);
        world.looks.fetch_add(1, SeqCst);
        for _ in 0..world.slow.load(SeqCst) {
            tokio::task::yield_now().await;
        }
        assert!(!one_of(&world.panicking_looks), "the look panics");
        if one_of(&world.returning_looks) {
            return "what it looked at is stale".into();
        }
        world.seen.store(truth, SeqCst);
        changes.woken().await;
    }
}

struct Fixture {
    world: Arc<World>,
    supervisor: Supervisor,
    arbiters: Arbiters,
    reconciler: Reconciler,
}

impl Fixture {
    fn new(world: World, policy: Policy) -> Self {
        install_panic_hook();
        let (arbiters, world) = (Arbiters::current().unwrap(), Arc::new(world));
        let supervisor = Supervisor::new(ActorTable::new(), Entropy::seeded(7));
        let reconciler = start(&supervisor, &arbiters, &world, policy).unwrap();
        Self { world, supervisor, arbiters, reconciler }
    }

    fn info(&self) -> ActorInfo {
        self.reconciler.info()
    }

    /// Lets everything that can run do so, without letting time pass.
    async fn settle(&self) {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    async fn until(&self, done: impl Fn(&World, ActorInfo) -> bool) {
        while !done(&self.world, self.info()) {
            sleep(ms(1)).await;
        }
    }
}

fn start(
    supervisor: &Supervisor,
    arbiters: &Arbiters,
    world: &Arc<World>,
    policy: Policy,
) -> Result<Reconciler, StartError> {
    let (of, changes) = (Arc::clone(world), world.changes.listen());
    supervisor.reconcile(LOOP, &arbiters.place(LOOP), policy, changes, move |changes| {
        assert!(!one_of(&of.panicking_factories), "the factory panics");
        reconcile(Arc::clone(&of), changes)
    })
}

#[test]
fn it_looks_when_it_starts_and_when_it_is_woken() {
    simulate(async {
        let world = World::default();
        world.truth.store(3, SeqCst);
        let f = Fixture::new(world, Policy::default());
        assert_eq!((f.info().state, f.info().incarnation), (ActorState::Starting, 0));
        f.settle().await;
        assert_eq!((f.world.seen.load(SeqCst), f.world.looks.load(SeqCst)), (3, 1));
        assert_eq!((f.info().state, f.info().incarnation), (ActorState::Running, 1));
        for _ in 0..10 {
            f.world.change();
        }
        f.settle().await;
        assert_eq!((f.world.seen.load(SeqCst), f.world.looks.load(SeqCst)), (13, 2), "they coalesce");
    });
}

#[test]
fn it_stands_in_the_table_with_the_others() {
    simulate(async {
        let f = Fixture::new(World::default(), Policy::default());
        let probe_world = Arc::new(ProbeWorld::default());
        start_probe(&f.supervisor, &f.arbiters, &probe_world, NAME, Policy::default()).unwrap();
        f.settle().await;
        let list = f.supervisor.table().list();
        assert_eq!(list.iter().map(|info| &*info.name).collect::<Vec<_>>(), [LOOP, NAME]);
        assert!(list.iter().all(|info| info.state == ActorState::Running));
        assert_eq!((list[0].mailbox, list[0].mailbox_max), (0, 0));
        assert_eq!(f.supervisor.table().get(LOOP), Some(f.info()));
        // One name is one actor, of whichever kind.
        let again = start(&f.supervisor, &f.arbiters, &f.world, Policy::default());
        assert_eq!(again.unwrap_err(), StartError::NameTaken(LOOP.into()));
        assert!(start_probe(&f.supervisor, &f.arbiters, &probe_world, LOOP, Policy::default()).is_err());
        f.supervisor.stop_all().await;
        assert_eq!(f.supervisor.table().list(), []);
    });
}

#[test]
fn a_kill_replaces_it_at_once() {
    simulate(async {
        let f = Fixture::new(World::default(), Policy::default());
        f.settle().await;
        let begin = Instant::now();
        for n in 1..=1000 {
            assert_eq!(f.info().incarnation, n);
            f.world.truth.fetch_add(1, SeqCst);
            assert!(f.supervisor.table().kill(LOOP));
            f.settle().await;
            assert_eq!(f.world.seen.load(SeqCst), n, "a fresh one looks by itself");
            assert_eq!(f.world.alive.load(SeqCst), 1);
        }
        assert_eq!(begin.elapsed(), Duration::ZERO, "no back-off");
        let info = f.info();
        assert_eq!((info.state, info.restarts, info.panics), (ActorState::Running, 1000, 0));
        assert_eq!(info.last_failure.as_deref(), Some("killed by order"));
    });
}

#[test]
fn a_kill_in_the_middle_of_a_look_ends_it_there() {
    simulate(async {
        let world = World::default();
        world.slow.store(5, SeqCst);
        let f = Fixture::new(world, Policy::default());
        while f.world.looks.load(SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert!(f.supervisor.table().kill(LOOP));
        f.until(|world, info| info.incarnation == 2 && world.looks.load(SeqCst) == 2).await;
        assert_eq!(f.world.alive.load(SeqCst), 1);
    });
}

#[test]
fn panics_are_counted_and_back_off_and_end_nothing_else() {
    simulate(async {
        let f = Fixture::new(World::default(), Policy::default());
        f.settle().await;
        f.world.panicking_looks.store(3, SeqCst);
        f.world.panic_in_drop.store(true, SeqCst);
        let begin = Instant::now();
        f.world.change();
        f.until(|world, _| world.seen.load(SeqCst) == 1).await;
        // The first restart is immediate; then 50 ms and 100 ms, shortened by up to half.
        assert!(begin.elapsed() >= ms(75), "{:?}", begin.elapsed());
        let info = f.info();
        assert_eq!((info.state, info.incarnation), (ActorState::Running, 4));
        assert_eq!((info.restarts, info.panics), (3, 3));
        assert_eq!(info.last_failure.as_deref(), Some("panic: the look panics"));
        f.world.panicking_factories.store(1, SeqCst);
        f.supervisor.table().kill(LOOP);
        f.until(|_, info| info.panics == 4 && info.state == ActorState::Running).await;
        assert_eq!(f.info().last_failure.as_deref(), Some("panic: the factory panics"));
    });
}

#[test]
fn a_loop_that_returns_is_started_again_and_counts_no_panic() {
    simulate(async {
        let world = World::default();
        world.returning_looks.store(u64::MAX, SeqCst);
        let policy = Policy { budget: 5, ..Policy::default() };
        let f = Fixture::new(world, policy);
        f.until(|_, info| info.state == ActorState::BackingOff).await;
        f.until(|_, info| info.state == ActorState::Failed).await;
        assert_eq!(f.info().last_failure.as_deref(), Some("reload: what it looked at is stale"));
        assert_eq!((f.info().panics, f.world.alive.load(SeqCst)), (0, 0));
        // A kill finds nothing to kill, and the next incarnation comes in its time.
        let incarnation = f.info().incarnation;
        assert!(f.supervisor.table().kill(LOOP));
        f.settle().await;
        assert_eq!(f.info().incarnation, incarnation);
        f.world.returning_looks.store(0, SeqCst);
        f.until(|_, info| info.state == ActorState::Running).await;
        assert_eq!(f.info().restarts, incarnation);
    });
}

#[test]
fn a_stop_is_final_wherever_it_finds_the_loop() {
    simulate(async {
        // Where it waits; its future is dropped.
        let f = Fixture::new(World::default(), Policy::default());
        f.settle().await;
        f.reconciler.stop().await;
        assert_eq!((f.info().state, f.world.alive.load(SeqCst)), (ActorState::Stopped, 0));
        assert_eq!(f.supervisor.table().list(), []);
        assert!(!f.supervisor.table().kill(LOOP));
        f.world.change();
        f.settle().await;
        assert_eq!(f.world.looks.load(SeqCst), 1);
        f.reconciler.stop().await;
        // Its name is free.
        let second = start(&f.supervisor, &f.arbiters, &f.world, Policy::default()).unwrap();
        f.settle().await;
        assert_eq!((second.info().incarnation, f.world.seen.load(SeqCst)), (1, 1));

        // While it backs off, and against a kill.
        let world = World::default();
        world.panicking_looks.store(u64::MAX, SeqCst);
        let f = Fixture::new(world, Policy::default());
        f.until(|_, info| info.state == ActorState::BackingOff).await;
        f.reconciler.stop().await;
        assert_eq!(f.info().state, ActorState::Stopped);
        let f = Fixture::new(World::default(), Policy::default());
        f.settle().await;
        f.supervisor.table().kill(LOOP);
        f.reconciler.stop().await;
        assert_eq!((f.info().state, f.info().incarnation), (ActorState::Stopped, 1));
    });
}

#[test]
fn owners_may_go_without_their_loops() {
    simulate(async {
        let Fixture { world, supervisor, reconciler, .. } = Fixture::new(World::default(), Policy::default());
        drop((supervisor, reconciler));
        sleep(ms(1)).await;
        world.change();
        sleep(ms(1)).await;
        assert_eq!(world.seen.load(SeqCst), 1);
    });
}

#[test]
fn it_runs_on_its_arbiter_and_ends_with_it() {
    install_panic_hook();
    run_system(async {
        let arbiters = Arbiters::new(2).unwrap();
        let supervisor = Supervisor::new(ActorTable::new(), Entropy::seeded(1));
        let (thread, here) = std::sync::mpsc::channel();
        let place = arbiters.place(LOOP);
        let changes = Wake::new().listen();
        let reconciler = supervisor
            .reconcile(LOOP, &place, Policy::default(), changes, move |_| {
                thread.send(std::thread::current().id()).unwrap();
                std::future::pending()
            })
            .unwrap();
        let (sent, placed) = tokio::sync::oneshot::channel();
        assert!(place.spawn(async move { sent.send(std::thread::current().id()).unwrap() }));
        let placed = placed.await.unwrap();
        assert_eq!(here.recv().unwrap(), placed);
        assert_ne!(placed, std::thread::current().id());
        arbiters.shutdown();
        reconciler.stop().await;
        assert_eq!((reconciler.info().state, supervisor.table().list()), (ActorState::Stopped, vec![]));
    })
    .unwrap();
}

#[derive(Debug, Clone)]
enum Step {
    Change,
    Kill,
    PanicNext,
    ReturnNext,
    Yield(u64),
    Sleep(u64),
    Slow(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Change),
        2 => Just(Step::Kill),
        1 => Just(Step::PanicNext),
        1 => Just(Step::ReturnNext),
        4 => (0..12_u64).prop_map(Step::Yield),
        1 => (0..200_u64).prop_map(Step::Sleep),
        1 => (0..6_u64).prop_map(Step::Slow),
    ]
}

proptest! {
    /// Whatever falls, at whatever moment, the loop sees every change without another one having to follow it.
    #[test]
    fn a_wake_up_is_never_lost(steps in prop::collection::vec(step(), 0..60)) {
        simulate(async {
            let f = Fixture::new(World::default(), Policy::default());
            for step in steps {
                match step {
                    Step::Change => f.world.change(),
                    Step::Kill => assert!(f.supervisor.table().kill(LOOP)),
                    Step::PanicNext => drop(f.world.panicking_looks.fetch_add(1, SeqCst)),
                    Step::ReturnNext => drop(f.world.returning_looks.fetch_add(1, SeqCst)),
                    Step::Yield(times) => {
                        for _ in 0..times {
                            tokio::task::yield_now().await;
                        }
                    }
                    Step::Sleep(millis) => sleep(ms(millis)).await,
                    Step::Slow(yields) => f.world.slow.store(yields, SeqCst),
                }
            }
            // Falls that are still due happen at the next look; none follows the last change but by a wake-up.
            f.world.panicking_looks.store(0, SeqCst);
            f.world.returning_looks.store(0, SeqCst);
            sleep(Duration::from_secs(60)).await;
            assert_eq!(f.world.seen.load(SeqCst), f.world.truth.load(SeqCst));
            assert_eq!((f.info().state, f.world.alive.load(SeqCst)), (ActorState::Running, 1));
        });
    }
}

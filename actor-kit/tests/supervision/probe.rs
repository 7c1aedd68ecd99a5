//! The actor under test, the world it loads from, and a supervisor around it.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use actix::{
    Actor, ActorContext, Context, Handler, Message, ResponseActFuture, ResponseFuture, Running, WrapFuture,
};
use kindom_actor_kit::{
    ActorInfo, ActorState, ActorTable, Arbiters, Deadline, Entropy, Incarnation, Policy, Supervised,
    Supervisor, install_panic_hook, simulation,
};
use tokio::sync::{Notify, Semaphore};

/// The state that outlives every incarnation: the storage, and the switches of a test.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) stored: AtomicU64,
    /// Messages whose handling began.
    pub(crate) handled: AtomicU64,
    pub(crate) loads: AtomicU64,
    pub(crate) stops: AtomicU64,
    /// The number of the next loads that fail, or panic.
    pub(crate) failing_loads: AtomicU64,
    pub(crate) panicking_loads: AtomicU64,
    pub(crate) panicking_starts: AtomicU64,
    pub(crate) panic_in_stopping: AtomicBool,
    pub(crate) panic_in_stopped: AtomicBool,
    pub(crate) panic_in_drop: AtomicBool,
    /// If set, loads wait for a permit of `gate`.
    pub(crate) gated: AtomicBool,
    pub(crate) gate: Gate,
    pub(crate) loading: Notify,
    pub(crate) entered: Notify,
}

pub(crate) struct Gate(pub(crate) Semaphore);

impl Default for Gate {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

fn one_of(counter: &AtomicU64) -> bool {
    counter.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok()
}

/// A cache of `World::stored`.
pub(crate) struct Probe {
    pub(crate) world: Arc<World>,
    pub(crate) incarnation: Incarnation,
    pub(crate) cached: u64,
}

impl Probe {
    async fn load(world: Arc<World>, incarnation: Incarnation) -> Result<Self, kindom_actor_kit::BoxError> {
        world.loads.fetch_add(1, SeqCst);
        world.loading.notify_one();
        if world.gated.load(SeqCst) {
            world.gate.0.acquire().await.unwrap().forget();
        }
        assert!(!one_of(&world.panicking_loads), "the load panics");
        if one_of(&world.failing_loads) {
            return Err("storage is away".into());
        }
        let cached = world.stored.load(SeqCst);
        Ok(Self { world, incarnation, cached })
    }
}

impl Actor for Probe {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Self::Context) {
        assert!(!one_of(&self.world.panicking_starts), "started panics");
    }

    fn stopping(&mut self, _: &mut Self::Context) -> Running {
        assert!(!self.world.panic_in_stopping.load(SeqCst), "stopping panics");
        Running::Stop
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.world.stops.fetch_add(1, SeqCst);
        assert!(!self.world.panic_in_stopped.load(SeqCst), "stopped panics");
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if self.world.panic_in_drop.load(SeqCst) && !std::thread::panicking() {
            panic!("drop panics");
        }
    }
}

macro_rules! message {
    ($(#[$doc:meta])* $name:ident $(($($field:ty),*))? -> $result:ty) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub(crate) struct $name $(($(pub(crate) $field),*))?;
        impl Message for $name {
            type Result = $result;
        }
    };
}

message!(
    /// Answers with the incarnation and the cached value.
    Get -> (u64, u64));
message!(
    /// Stores the sum and caches it.
    Add(u64) -> u64);
message!(
    /// Caches without storing: what a fall must forget.
    Dirty(u64) -> ());
message!(
    /// Panics in the handler.
    Boom -> ());
message!(
    /// Panics while the world's gate is closed to it: the first so many times it is handled.
    BoomTimes(u64) -> u64);
message!(
    /// Panics in a future that is interleaved with other messages.
    BoomInterleaved -> ());
message!(
    /// Never answers; holds on to its caller in an interleaved future.
    Hang -> ());
message!(
    /// Answers once the gate opens, from a future detached from the actor.
    Detached -> u64);
message!(
    /// Panics in a detached future, which leaves the actor alone.
    BoomDetached -> ());
message!(
    /// The actor's cache can no longer be kept true.
    Stale -> ());
message!(
    /// The actor ends itself.
    End -> ());
message!(
    /// The actor kills itself by its name.
    Suicide(ActorTable) -> ());

impl Handler<Get> for Probe {
    type Result = actix::MessageResult<Get>;
    fn handle(&mut self, _: Get, _: &mut Context<Self>) -> Self::Result {
        self.world.handled.fetch_add(1, SeqCst);
        actix::MessageResult((self.incarnation.number(), self.cached))
    }
}

impl Handler<Add> for Probe {
    type Result = u64;
    fn handle(&mut self, Add(n): Add, _: &mut Context<Self>) -> u64 {
        self.cached += n;
        self.world.stored.store(self.cached, SeqCst);
        self.cached
    }
}

impl Handler<Dirty> for Probe {
    type Result = ();
    fn handle(&mut self, Dirty(n): Dirty, _: &mut Context<Self>) {
        self.cached = n;
    }
}

impl Handler<Boom> for Probe {
    type Result = ();
    fn handle(&mut self, _: Boom, _: &mut Context<Self>) {
        self.world.handled.fetch_add(1, SeqCst);
        panic!("boom");
    }
}

impl Handler<BoomTimes> for Probe {
    type Result = u64;
    fn handle(&mut self, BoomTimes(n): BoomTimes, _: &mut Context<Self>) -> u64 {
        let before = self.world.handled.fetch_add(1, SeqCst);
        assert!(before >= n, "boom {before}");
        before
    }
}

impl Handler<BoomInterleaved> for Probe {
    type Result = ResponseActFuture<Self, ()>;
    fn handle(&mut self, _: BoomInterleaved, _: &mut Context<Self>) -> Self::Result {
        Box::pin(
            async {
                tokio::task::yield_now().await;
                panic!("boom, interleaved");
            }
            .into_actor(self),
        )
    }
}

impl Handler<Hang> for Probe {
    type Result = ResponseActFuture<Self, ()>;
    fn handle(&mut self, _: Hang, _: &mut Context<Self>) -> Self::Result {
        self.world.entered.notify_one();
        Box::pin(std::future::pending().into_actor(self))
    }
}

impl Handler<Detached> for Probe {
    type Result = ResponseFuture<u64>;
    fn handle(&mut self, _: Detached, _: &mut Context<Self>) -> Self::Result {
        let (world, incarnation) = (self.world.clone(), self.incarnation.number());
        world.entered.notify_one();
        Box::pin(async move {
            world.gate.0.acquire().await.unwrap().forget();
            incarnation
        })
    }
}

impl Handler<BoomDetached> for Probe {
    type Result = ResponseFuture<()>;
    fn handle(&mut self, _: BoomDetached, _: &mut Context<Self>) -> Self::Result {
        self.world.handled.fetch_add(1, SeqCst);
        Box::pin(async { panic!("boom, detached") })
    }
}

impl Handler<Stale> for Probe {
    type Result = ();
    fn handle(&mut self, _: Stale, _: &mut Context<Self>) {
        self.incarnation.reload("stale");
        self.incarnation.reload("the first reason is kept");
    }
}

impl Handler<End> for Probe {
    type Result = ();
    fn handle(&mut self, _: End, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

impl Handler<Suicide> for Probe {
    type Result = ();
    fn handle(&mut self, Suicide(table): Suicide, _: &mut Context<Self>) {
        assert!(table.kill(NAME));
    }
}

pub(crate) const NAME: &str = "resource/widgets.example.com";

/// A world, a supervisor over it and one probe, all on this thread.
pub(crate) struct Fixture {
    pub(crate) world: Arc<World>,
    pub(crate) supervisor: Supervisor,
    pub(crate) arbiters: Arbiters,
    pub(crate) probe: Supervised<Probe>,
}

impl Fixture {
    pub(crate) fn new(policy: Policy) -> Self {
        Self::with(World::default(), policy)
    }

    pub(crate) fn with(world: World, policy: Policy) -> Self {
        install_panic_hook();
        let arbiters = Arbiters::current().unwrap();
        let world = Arc::new(world);
        let supervisor = Supervisor::new(ActorTable::new(), Entropy::seeded(7));
        let probe = start(&supervisor, &arbiters, &world, NAME, policy).unwrap();
        Self { world, supervisor, arbiters, probe }
    }

    pub(crate) async fn get(&self) -> (u64, u64) {
        self.probe.handle().ask(Get, soon()).await.unwrap()
    }

    pub(crate) fn info(&self) -> ActorInfo {
        self.probe.handle().info()
    }

    pub(crate) fn table(&self) -> &ActorTable {
        self.supervisor.table()
    }

    /// Lets everything that can run do so, without letting time pass.
    pub(crate) async fn settle(&self) {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn until_state(&self, state: ActorState) {
        while self.info().state != state {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

pub(crate) fn start(
    supervisor: &Supervisor,
    arbiters: &Arbiters,
    world: &Arc<World>,
    name: &str,
    policy: Policy,
) -> Result<Supervised<Probe>, kindom_actor_kit::StartError> {
    let world = world.clone();
    supervisor.start(name, &arbiters.place(name), policy, move |incarnation| {
        Probe::load(world.clone(), incarnation)
    })
}

pub(crate) fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(3600))
}

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// In virtual time, on one thread.
pub(crate) fn simulate<T>(future: impl Future<Output = T>) -> T {
    simulation::run(future).unwrap()
}

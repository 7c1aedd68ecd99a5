//! Replicas over one store, as `kindom serve` wires them, and what befalls them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use kindom_actor_kit::{
    ActorState, ActorTable, Arbiters, Clock, Deadline, Entropy, Supervisor, latest, simulation,
};
use kindom_finalizer_actor::storage_version;
use kindom_objects::kinds::namespace::namespaces;
use kindom_objects::kinds::registration::{custom_resource_definitions, third_party_resources};
use kindom_registry_actor::{LeaderHandle, RegistryHandle, RegistryOptions};
use kindom_resource_actor::{Deps, Freshness, NoWebhooks, ResourceHandle};
use kindom_storage::{Key, Storage as _};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::client::{self, Client};
use super::judge::LEDGER;
use super::lagging::{Bug, Lagging, Truth, Weather};
use super::trace::Trace;
use super::watcher::Watcher;

/// The longest, in virtual time, that everything may take to settle once the faults have stopped.
const SETTLES: Duration = Duration::from_secs(300);
/// The longest that a run may take in all.
const ENDS: Duration = Duration::from_secs(3600);
/// The key at which replicas agree on their leader.
const LEASE: &str = "/kindom/registry/leases/leader";
/// A type that nobody uses sleeps after so long: short enough to happen in a run.
const IDLE: Duration = Duration::from_secs(5);

/// The outcome of a run.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) seed: u64,
    /// Of everything that happened, in order and time.
    pub(super) digest: u64,
    pub(super) steps: u64,
    pub(super) commits: u64,
    /// The invariant that does not hold, if one was found so.
    pub(super) violation: Option<String>,
    pub(super) trace: Vec<String>,
}

/// One process of the server.
#[derive(Clone)]
pub(super) struct Replica {
    pub(super) who: String,
    store: Arc<Lagging>,
    supervisor: Supervisor,
    pub(super) registrations: ResourceHandle,
    pub(super) namespaces: ResourceHandle,
    pub(super) third_party: ResourceHandle,
    pub(super) registry: RegistryHandle,
    pub(super) died: Rc<latest::Sender<bool>>,
}

impl Replica {
    /// One of the registered types that it serves.
    pub(super) fn some_type(&self, chance: &Entropy) -> Option<ResourceHandle> {
        let table = self.registry.routes().table();
        let types = ["a.sim", "b.sim"].into_iter().filter_map(|group| table.group(group));
        let types: Vec<&ResourceHandle> = types.flat_map(|types| types.values()).collect();
        let at = usize::try_from(chance.below(types.len() as u64)).unwrap();
        types.get(at).map(|handle| ResourceHandle::clone(handle))
    }
}

/// Everything of one run.
pub(super) struct World {
    pub(super) truth: Arc<Truth>,
    entropy: Entropy,
    replicas: RefCell<Vec<Replica>>,
    pub(super) ended: latest::Sender<bool>,
    pub(super) start: Instant,
}

/// Runs one seed: the same seed does the same, step by step.
pub(super) fn run(seed: u64, bug: Option<Bug>, kept: bool) -> Outcome {
    simulation::run(async {
        let entropy = Entropy::seeded(seed);
        let weather = Weather::of(&entropy.fork());
        let mut trace = Trace::new(kept);
        trace.note("seed", format_args!("{seed} {weather:?}"));
        let truth = Arc::new(Truth::new(bug, weather, trace));
        let world = Rc::new(World {
            truth: Arc::clone(&truth),
            entropy,
            replicas: RefCell::default(),
            ended: latest::Sender::new(false),
            start: Instant::now(),
        });
        let mut violated = truth.violated.subscribe();
        let judged = async {
            let _ = violated.wait_for(|violated| *violated).await;
        };
        let living = timeout(ENDS, world.live());
        futures::pin_mut!(judged, living);
        if let Either::Right((Err(_), _)) = select(judged, living).await {
            truth.demand("world", |_| Err("a client, or the end of an actor, waits for ever".to_owned()));
        }
        let mut trace = truth.trace.lock().unwrap();
        Outcome {
            seed,
            digest: trace.digest(),
            steps: trace.steps,
            commits: truth.revision().0,
            violation: truth.violation(),
            trace: trace.take_lines(),
        }
    })
    .unwrap()
}

impl World {
    async fn live(self: &Rc<Self>) {
        for index in 0..2 + self.entropy.below(2) {
            let replica = self.start(&format!("s{index}"));
            self.replicas.borrow_mut().push(replica);
        }
        let (mut clients, mut watchers) = (Vec::new(), Vec::new());
        let replicas = self.replicas.borrow().len();
        for seat in 0..replicas {
            for _ in 0..2 {
                let client = Client::new(self, seat, clients.len(), self.entropy.fork());
                clients.push(tokio::task::spawn_local(client.run()));
            }
            for everything in [true, false] {
                let watcher = Watcher::new(self, seat, everything, self.entropy.fork());
                watchers.push(tokio::task::spawn_local(watcher.run()));
            }
        }
        let faults = tokio::task::spawn_local(Rc::clone(self).faults(self.entropy.fork()));
        self.all(clients).await;
        sleep(Duration::from_millis(self.entropy.below(4000))).await;
        faults.abort();
        self.truth.calm_down();
        self.truth.note("world", format_args!("no more faults"));
        if self.entropy.below(2) == 0 {
            client::release_everything(self).await;
        }
        self.settle().await;
        self.ended.send_replace(true);
        self.all(watchers).await;
        self.truth.demand("world", |judge| judge.accounts());
        let replicas: Vec<Replica> = self.replicas.borrow().clone();
        for replica in replicas {
            replica.supervisor.stop_all().await;
        }
    }

    async fn all(&self, tasks: Vec<JoinHandle<()>>) {
        for task in tasks {
            if let Err(error) = task.await {
                self.truth.demand("world", |_| Err(format!("a task of the simulation fell: {error}")));
            }
        }
    }

    /// Starts a replica as `kindom serve` does.
    fn start(&self, who: &str) -> Replica {
        let entropy = self.entropy.fork();
        let store = Arc::new(Lagging::new(who.to_owned(), Arc::clone(&self.truth), entropy.fork()));
        tokio::task::spawn_local(Arc::clone(&store).keep_following());
        let supervisor = Supervisor::new(ActorTable::new(), entropy.fork());
        let deps = Arc::new(Deps {
            storage: Arc::<Lagging>::clone(&store),
            supervisor: supervisor.clone(),
            arbiters: Arbiters::current().unwrap(),
            clock: Clock::starting_at(1_700_000_000_000),
            entropy,
            webhooks: Arc::new(NoWebhooks),
            processors: None,
        });
        let registrations = ResourceHandle::new(Arc::clone(&deps), Arc::new(custom_resource_definitions()));
        let namespaces = ResourceHandle::new(Arc::clone(&deps), Arc::new(namespaces()));
        let third_party = registrations.face(third_party_resources(&custom_resource_definitions()));
        let built_in = [namespaces.clone(), third_party.clone()];
        let options = RegistryOptions { idle_after: IDLE, ..RegistryOptions::default() };
        let registry =
            RegistryHandle::start_with(Arc::clone(&deps), &registrations, built_in, options).unwrap();
        // Dropping the handles stops nothing.
        if self.truth.weather.lock().unwrap().led {
            LeaderHandle::start(&registry, Key::from(LEASE)).unwrap();
        }
        kindom_conflict_actor::start(&registry, &registrations, LEDGER).unwrap();
        kindom_finalizer_actor::start(&registry, &registrations, &namespaces).unwrap();
        if self.truth.weather.lock().unwrap().migrates {
            storage_version::start(&registry, &registrations, Duration::ZERO).unwrap();
        }
        let died = Rc::new(latest::Sender::new(false));
        Replica {
            who: who.to_owned(),
            store,
            supervisor,
            registrations,
            namespaces,
            third_party,
            registry,
            died,
        }
    }

    /// The replica that serves a seat now.
    pub(super) fn replica(&self, seat: usize) -> Replica {
        self.replicas.borrow()[seat].clone()
    }

    pub(super) fn seats(&self) -> usize {
        self.replicas.borrow().len()
    }

    async fn faults(self: Rc<Self>, chance: Entropy) {
        let (kill_ms, crash_one_in, compact_one_in) = {
            let weather = self.truth.weather.lock().unwrap();
            (weather.kill_ms, weather.crash_one_in, weather.compact_one_in)
        };
        if kill_ms == 0 {
            return;
        }
        let one_in = |n: u64| n > 0 && chance.below(n) == 0;
        loop {
            sleep(Duration::from_millis(1 + chance.below(2 * kill_ms))).await;
            let seat = usize::try_from(chance.below(self.seats() as u64)).unwrap();
            let replica = self.replica(seat);
            if one_in(compact_one_in) {
                let upto = replica.store.published();
                let _ = replica.store.compact(upto).await;
            } else if one_in(crash_one_in) {
                self.crash(seat);
            } else {
                self.check_actors(&replica);
                let actors = replica.supervisor.table().list();
                let Some(actor) =
                    usize::try_from(chance.below(actors.len() as u64)).ok().and_then(|i| actors.get(i))
                else {
                    continue;
                };
                self.truth.note(&replica.who, format_args!("{} is killed", actor.name));
                replica.supervisor.table().kill(&actor.name);
            }
        }
    }

    /// The process ends in the middle of everything, and another one is started.
    fn crash(&self, seat: usize) {
        let gone = self.replica(seat);
        self.truth.note(&gone.who, format_args!("dies"));
        gone.store.die();
        gone.died.send_replace(true);
        // Nothing that its actors still do gets anywhere.
        let supervisor = gone.supervisor.clone();
        tokio::task::spawn_local(async move { supervisor.stop_all().await });
        let (seat_name, life) = gone.who.split_once('.').unwrap_or((&gone.who, "1"));
        let life: u64 = life.parse().unwrap();
        let next = self.start(&format!("{seat_name}.{}", life + 1));
        self.replicas.borrow_mut()[seat] = next;
    }

    /// Actors fall when they are told to, and where a stream or a call of the store failed; not for other reasons. The
    /// only panic is that of a task that the simulation makes panic.
    fn check_actors(&self, replica: &Replica) {
        for actor in replica.supervisor.table().list() {
            let Some(failure) = actor.last_failure else { continue };
            let planned = [
                "killed by order",
                "panic: a value that is no text",
                "could not load",
                "reload: the commit stream of ",
            ];
            if !planned.iter().any(|text| failure.starts_with(text)) {
                self.truth.demand(&replica.who, |_| Err(format!("{} fell by itself: {failure}", actor.name)));
            }
        }
    }

    /// Waits until nothing is left to do.
    async fn settle(&self) {
        let start = Instant::now();
        let mut why = String::new();
        while start.elapsed() < SETTLES {
            let migrates = self.truth.weather.lock().unwrap().migrates;
            let settled = self.truth.judge.lock().unwrap().settled(migrates);
            let settled = match settled {
                Ok(()) => self.replicas_agree().await,
                Err(why) => Err(why),
            };
            match settled {
                Ok(()) => {
                    self.truth.note("world", format_args!("settled"));
                    return;
                }
                Err(now) => why = now,
            }
            sleep(Duration::from_millis(250)).await;
        }
        self.truth.demand("world", |_| Err(format!("it does not settle: {why}")));
    }

    /// Checks that every replica serves the store's state.
    async fn replicas_agree(&self) -> Result<(), String> {
        for seat in 0..self.seats() {
            let replica = self.replica(seat);
            self.check_actors(&replica);
            let who = &replica.who;
            let soon = Deadline::after(Duration::from_secs(5));
            if let Err(error) = replica.registry.fresh(soon).await {
                return Err(format!("{who}: the registry is not fresh: {error}"));
            }
            let expected = self.truth.judge.lock().unwrap().served();
            let mut routed = Vec::new();
            let table = replica.registry.routes().table();
            for (group, types) in table.groups().filter(|(group, _)| group.ends_with(".sim")) {
                for (plural, handle) in types {
                    let spec = handle.spec();
                    let registration = spec.as_ref().and_then(|spec| spec.registration.as_ref());
                    let revision = registration.map(|r| r.object.revision()).unwrap_or_default();
                    routed.push((group.to_owned(), plural.clone(), revision));
                }
            }
            routed.sort();
            if routed != expected {
                return Err(format!("{who} serves {routed:?} for {expected:?}"));
            }
            for (group, plural, _) in &expected {
                let Some(handle) = replica.registry.routes().get(group, plural) else { continue };
                self.list(&replica, &handle).await?;
            }
            self.list(&replica, &replica.registrations).await?;
            let down: Vec<_> = replica
                .supervisor
                .table()
                .list()
                .into_iter()
                .filter(|actor| actor.state != ActorState::Running)
                .map(|actor| format!("{} is {}", actor.name, actor.state))
                .collect();
            if !down.is_empty() {
                return Err(format!("{who}: {down:?}"));
            }
        }
        Ok(())
    }

    async fn list(&self, replica: &Replica, handle: &ResourceHandle) -> Result<(), String> {
        let asked = self.truth.revision();
        let soon = Deadline::after(Duration::from_secs(5));
        let listed = handle.snapshot(Freshness::Latest, soon).await;
        let (snapshot, at) = listed.map_err(|e| format!("{}: {e}", replica.who))?;
        self.truth.demand(&replica.who, |judge| judge.listed(handle.prefix(), &snapshot, at, asked));
        Ok(())
    }
}

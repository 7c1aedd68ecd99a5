//! Clients that register, write and delete at random, and remember what they were told.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{Either, select};
use kindom_actor_kit::{Deadline, Entropy};
use kindom_api::User;
use kindom_api::{Map, Value, object};
use kindom_objects::Subresource;
use kindom_objects::{PlanError, Removal, RuleContext};
use kindom_resource_actor::WriteError;
use kindom_resource_actor::{Knowledge, ResourceHandle, Target, WriteOptions, Written, is_conclusive};
use tokio::time::sleep;

use super::judge::{CRDS, MARK, Told};
use super::lagging::{Mood, Planned};
use super::world::{Replica, World};

/// The number of things that a client does.
const ACTS: usize = 14;
const GROUPS: [&str; 4] = ["a.sim", "a.sim", "a.sim", "b.sim"];
const PLURALS: [&str; 3] = ["apples", "pears", "plums"];
// Overlapping on purpose, within and between the roles.
const SINGULARS: [&str; 3] = ["apple", "fruit", "plums"];
const SHORTS: [&str; 3] = ["f", "fruit", "apples"];
const KINDS: [&str; 4] = ["Apple", "Pear", "Fruit", "FruitList"];
const LIST_KINDS: [&str; 3] = ["FruitList", "PearList", "Basket"];
const NAMESPACES: [&str; 3] = ["n1", "n1", "n2"];
const NAMES: [&str; 4] = ["o1", "o2", "o3", "o4"];
const FINALIZER: &str = "sim.io/hold";

pub(super) struct Client {
    world: Rc<World>,
    seat: usize,
    name: String,
    acts: usize,
    chance: Entropy,
}

/// Runs a call of a client. None if its server fell meanwhile, so that nobody knows what became of it.
pub(super) async fn guarded<T>(world: &World, replica: &Replica, call: impl Future<Output = T>) -> Option<T> {
    let mut died = replica.died.subscribe();
    let died = died.wait_for(|died| *died);
    let call = AssertUnwindSafe(call).catch_unwind();
    futures::pin_mut!(died, call);
    let result = match select(call, died).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => return None,
    };
    result.map_err(|panic| unplanned(world, replica, &*panic)).ok()
}

fn unplanned(world: &World, replica: &Replica, panic: &(dyn Any + Send)) {
    if !panic.is::<Planned>() {
        let text =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        world.truth.demand(&replica.who, |_| Err(format!("a request panicked: {text:?}")));
    }
}

fn told<T>(outcome: &Option<Result<T, WriteError>>) -> Told {
    match outcome {
        Some(Ok(_)) => Told::Done,
        None | Some(Err(WriteError::Unknown)) => Told::Unknown,
        Some(Err(_)) => Told::Refused,
    }
}

fn map<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map {
    let mut at = value;
    for field in path {
        at = at.as_object_mut().unwrap().entry_or_insert_with(field, || Value::Object(Map::new()));
    }
    at.as_object_mut().unwrap()
}

fn decoded(cx: &RuleContext<'_>, mut object: Value) -> Result<Value, PlanError> {
    cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::BadRequest)?;
    Ok(object)
}

impl Client {
    pub(super) fn new(world: &Rc<World>, seat: usize, number: usize, chance: Entropy) -> Self {
        Self { world: Rc::clone(world), seat, name: format!("c{number}"), acts: 0, chance }
    }

    pub(super) async fn run(mut self) {
        if self.name == "c0" {
            self.make_namespaces().await;
        }
        while self.acts < ACTS {
            self.acts += 1;
            self.think().await;
            self.act().await;
        }
    }

    async fn think(&self) {
        let (most, bursts) = {
            let weather = self.world.truth.weather.lock().unwrap();
            (weather.think_ms_max, weather.bursts)
        };
        let ms = if bursts {
            // Until all do something again.
            let into = u64::try_from(self.world.start.elapsed().as_millis()).unwrap() % most;
            most - into + self.chance.below(1 + most / 20)
        } else {
            self.chance.below(most)
        };
        sleep(Duration::from_millis(ms)).await;
    }

    fn one_of<T: Copy>(&self, choices: &[T]) -> T {
        choices[usize::try_from(self.chance.below(choices.len() as u64)).unwrap()]
    }

    fn mark(&self) -> String {
        format!("{}-{}", self.name, self.acts)
    }

    fn replica(&self) -> Replica {
        self.world.replica(self.seat)
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(Duration::from_secs(1 + self.chance.below(20)))
    }

    /// As a request has them: planned on a guess, or on the state at which the registry was fresh when it came.
    async fn options(&self, replica: &Replica) -> WriteOptions {
        let deadline = self.deadline();
        let knowledge = match self.chance.below(3) {
            0 => Knowledge::Latest,
            1 => Knowledge::Guess,
            _ => guarded(&self.world, replica, replica.registry.fresh(deadline))
                .await
                .and_then(Result::ok)
                .map_or(Knowledge::Latest, Knowledge::AsOf),
        };
        WriteOptions {
            deadline,
            dry_run: false,
            is_trial: false,
            explanation: None,
            object_bytes_max: 1 << 20,
            namespaces: Some(replica.namespaces.clone()),
            manager: self.name.clone(),
            user: Arc::new(User::api_server()),
            knowledge,
            bytes: 0,
            room: None,
            quotas: None,
            plugins: None,
            admission: None,
            fence: None,
        }
    }

    /// The outcome of a write, if it proves anything: a guess that the store has not committed does not.
    async fn outcome(
        &self,
        replica: &Replica,
        knowledge: Knowledge,
        write: impl Future<Output = Result<Written, WriteError>>,
    ) -> Option<Result<Written, WriteError>> {
        let outcome = guarded(&self.world, replica, write).await;
        outcome.filter(|outcome| knowledge != Knowledge::Guess || is_conclusive(outcome))
    }

    async fn act(&self) {
        let mood = self.world.truth.weather.lock().unwrap().mood;
        let likely: [u64; 13] = match mood {
            Mood::Even => [14, 4, 9, 4, 5, 4, 4, 10, 24, 8, 6, 5, 5],
            Mood::Names => [25, 5, 40, 0, 0, 0, 5, 8, 4, 2, 1, 1, 0],
            Mood::Drains => [12, 3, 0, 2, 6, 3, 0, 15, 40, 6, 8, 2, 3],
        };
        let mut at = self.chance.below(likely.iter().sum());
        let mut act = 0;
        while at >= likely[act] {
            at -= likely[act];
            act += 1;
        }
        match act {
            0 => self.register().await,
            1 => self.propose().await,
            2 if self.chance.below(2) == 0 => self.rival().await,
            2 => self.amend(Amendment::Names(self.new_names())).await,
            3 => self.amend(Amendment::Epoch(self.epoch())).await,
            4 => self.amend(Amendment::StorageVersion).await,
            5 => self.amend(self.policy()).await,
            6 => self.forge().await,
            7 => self.deregister().await,
            8 => self.create().await,
            9 => self.change().await,
            10 => self.release().await,
            11 => self.delete().await,
            _ if self.chance.below(2) == 0 => self.read().await,
            _ => self.namespace().await,
        }
    }

    fn note<T>(&self, replica: &Replica, what: &str, outcome: &Option<Result<T, WriteError>>) {
        let result = match outcome {
            Some(Ok(_)) => "done".to_owned(),
            Some(Err(error)) => format!("{error} {}", details(error)),
            None => "nobody knows".to_owned(),
        };
        self.world.truth.note(&replica.who, format_args!("{} {what}: {result}", self.mark()));
    }

    /// Records the client's answer to a write that carries its mark.
    fn learned(&self, replica: &Replica, what: &str, outcome: &Option<Result<Written, WriteError>>) {
        self.learned_of(&self.mark(), replica, what, outcome);
    }

    fn learned_of(
        &self,
        mark: &str,
        replica: &Replica,
        what: &str,
        outcome: &Option<Result<Written, WriteError>>,
    ) {
        self.note(replica, what, outcome);
        let told = match outcome {
            // Its last finalizer went: the write that carried the mark became a delete.
            Some(Ok(written)) if written.outcome.is_deleted() => Told::Unknown,
            outcome => told(outcome),
        };
        self.world.truth.demand(&replica.who, |judge| judge.told(mark, told));
    }

    async fn make_namespaces(&self) {
        for name in ["n1", "n2"] {
            self.make_namespace(name).await;
        }
    }

    async fn make_namespace(&self, name: &str) {
        let replica = self.replica();
        let mut wanted = |cx: &RuleContext<'_>, _: &Value| {
            let metadata = object! { "name": name };
            decoded(cx, object! { "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
        };
        let options = WriteOptions { namespaces: None, ..self.options(&replica).await };
        let create = replica.namespaces.create(cluster(""), &mut wanted, &options);
        let outcome = self.outcome(&replica, options.knowledge, create).await;
        self.note(&replica, &format!("makes namespace {name}"), &outcome);
    }

    async fn namespace(&self) {
        if self.chance.below(3) > 0 {
            return self.make_namespace("n2").await;
        }
        let replica = self.replica();
        let options = WriteOptions { namespaces: None, ..self.options(&replica).await };
        let none = Removal::default();
        let delete = replica.namespaces.delete(cluster("n2"), &none, &options);
        let outcome = self.outcome(&replica, options.knowledge, delete).await;
        self.note(&replica, "deletes namespace n2", &outcome);
    }

    fn names(&self, plural: &str) -> Value {
        let (kind, list_kind) = (self.one_of(&KINDS), self.one_of(&LIST_KINDS));
        let list_kind = if kind == list_kind { "Basket" } else { list_kind };
        let mut names = object! {
            "plural": plural, "singular": self.one_of(&SINGULARS), "kind": kind, "listKind": list_kind
        };
        let short: Vec<Value> =
            SHORTS.iter().filter(|_| self.chance.below(4) == 0).map(|short| Value::from(*short)).collect();
        if !short.is_empty() {
            names.as_object_mut().unwrap().insert("shortNames", short);
        }
        names
    }

    /// Other names; most often not another kind, as that is refused once a type is established.
    fn new_names(&self) -> Value {
        let mut names = self.names("");
        if self.chance.below(4) > 0 {
            names.as_object_mut().unwrap().retain(|field, _| field == "singular" || field == "shortNames");
        }
        names
    }

    fn epoch(&self) -> i64 {
        i64::try_from(self.chance.below(1 << 40)).unwrap()
    }

    async fn register(&self) {
        let (group, plural) = (self.one_of(&GROUPS), self.one_of(&PLURALS));
        let names = self.names(plural);
        let epoch = self.epoch();
        let crd = object! {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": object! {
                "name": format!("{plural}.{group}"), "annotations": object! { "sim.io/mark": self.mark() }
            },
            "spec": object! {
                "group": group, "names": names, "scope": "Namespaced",
                "versions": vec![version("v1", true, epoch), version("v2", false, epoch)],
                "conversion": object! { "strategy": "None" }
            }
        };
        let replica = self.replica();
        let mut wanted = |cx: &RuleContext<'_>, _: &Value| decoded(cx, crd.clone());
        let options = self.options(&replica).await;
        let create = replica.registrations.create(cluster(""), &mut wanted, &options);
        let outcome = self.outcome(&replica, options.knowledge, create).await;
        self.learned(&replica, &format!("registers {plural}.{group}"), &outcome);
    }

    /// Registers a type through the proposal's face.
    async fn propose(&self) {
        let (group, plural) = (self.one_of(&GROUPS), self.one_of(&PLURALS));
        let tpr = object! {
            "apiVersion": "apiextension.k8s.io/v1beta1", "kind": "ThirdPartyResource",
            "metadata": object! {
                "name": format!("{plural}.{group}"), "annotations": object! { "sim.io/mark": self.mark() }
            },
            "spec": object! { "group": group, "version": "v1", "names": self.names(plural), "scope": "Namespaced" }
        };
        let replica = self.replica();
        let mut wanted = |cx: &RuleContext<'_>, _: &Value| decoded(cx, tpr.clone());
        let options = self.options(&replica).await;
        let target = Target { version: "v1beta1", ..cluster("") };
        let create = replica.third_party.create(target, &mut wanted, &options);
        let outcome = self.outcome(&replica, options.knowledge, create).await;
        self.learned(&replica, &format!("proposes {plural}.{group}"), &outcome);
    }

    fn policy(&self) -> Amendment {
        match self.chance.below(4) {
            0 => Amendment::Annotation("kindom.dev/read-only", Some("true")),
            1 => Amendment::Annotation("kindom.dev/read-only", None),
            2 => Amendment::Annotation("kindom.dev/deletion-policy", Some("RefuseWhileInstances")),
            _ => Amendment::Annotation("kindom.dev/deletion-policy", None),
        }
    }

    /// Changes a registration, whatever it is by then.
    async fn amend(&self, amendment: Amendment) {
        self.amend_through(&self.replica(), &self.registration(), &self.mark(), &amendment).await;
    }

    /// Through two replicas at about the same time, two registrations of a group come to want the same names.
    async fn rival(&self) {
        let (one, other) = (self.registration(), self.registration());
        if one == other {
            return;
        }
        let name = format!("s{}", self.chance.below(1 << 30));
        let amendment =
            Amendment::Names(object! { "singular": name.as_str(), "shortNames": vec![format!("{name}s")] });
        let elsewhere =
            self.world.replica(usize::try_from(self.chance.below(self.world.seats() as u64)).unwrap());
        let (here, mark) = (self.replica(), self.mark());
        let (first, second) = (format!("{mark}a"), format!("{mark}b"));
        let pause = Duration::from_millis(self.chance.below(100));
        let later = async {
            sleep(pause).await;
            self.amend_through(&elsewhere, &other, &second, &amendment).await;
        };
        futures::join!(self.amend_through(&here, &one, &first, &amendment), later);
    }

    async fn amend_through(&self, replica: &Replica, name: &str, mark: &str, amendment: &Amendment) {
        let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
            let mut crd = old.clone();
            map(&mut crd, &["metadata", "annotations"]).insert(MARK, mark);
            amendment.apply(&mut crd);
            decoded(cx, crd)
        };
        let options = self.options(replica).await;
        let update = replica.registrations.update(cluster(name), true, &mut wanted, &options);
        let outcome = self.outcome(replica, options.knowledge, update).await;
        self.learned_of(mark, replica, &format!("amends {name}, {amendment:?}"), &outcome);
    }

    /// Writes names that it never got into the status, where kindom writes those that are accepted.
    async fn forge(&self) {
        let name = self.registration();
        let names = self.names("forged");
        let replica = self.replica();
        let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
            let mut crd = old.clone();
            map(&mut crd, &["status"]).insert("acceptedNames", names.clone());
            decoded(cx, crd)
        };
        let options = self.options(&replica).await;
        let target = Target { subresource: Some(Subresource::Status), ..cluster(&name) };
        let update = replica.registrations.update(target, true, &mut wanted, &options);
        let outcome = self.outcome(&replica, options.knowledge, update).await;
        self.note(&replica, &format!("forges the status of {name}"), &outcome);
    }

    async fn deregister(&self) {
        let name = self.registration();
        let replica = self.replica();
        let (none, options) = (Removal::default(), self.options(&replica).await);
        let delete = replica.registrations.delete(cluster(&name), &none, &options);
        let outcome = self.outcome(&replica, options.knowledge, delete).await;
        self.note(&replica, &format!("deletes {name}"), &outcome);
        self.told_deleted(&replica, &format!("{CRDS}{name}"), &outcome);
    }

    fn told_deleted(&self, replica: &Replica, key: &str, outcome: &Option<Result<Written, WriteError>>) {
        if let Some(Ok(written)) = outcome {
            let uid = written.object.uid();
            self.world.truth.demand(&replica.who, |judge| judge.told_deleted(key, uid));
        }
    }

    /// A registration's name; most often one that exists.
    fn registration(&self) -> String {
        let judge = self.world.truth.judge.lock().unwrap();
        let known = judge.registrations.len() as u64;
        if known > 0 && self.chance.below(4) > 0 {
            let at = usize::try_from(self.chance.below(known)).unwrap();
            return judge.registrations.keys().nth(at).unwrap().clone();
        }
        format!("{}.{}", self.one_of(&PLURALS), self.one_of(&GROUPS))
    }

    /// Some clients make sure first that their replica knows of everything.
    async fn refresh(&self, replica: &Replica) {
        if self.chance.below(2) == 0 {
            let fresh = replica.registry.fresh(self.deadline());
            let _ = guarded(&self.world, replica, fresh).await;
        }
    }

    /// A type as this replica serves it.
    async fn served(&self, replica: &Replica) -> Option<ResourceHandle> {
        self.refresh(replica).await;
        replica.some_type(&self.chance)
    }

    /// An object, most often one that exists: its type as this replica serves it, its namespace and its name.
    async fn existing(&self, replica: &Replica) -> Option<(ResourceHandle, String, String)> {
        let key = {
            let judge = self.world.truth.judge.lock().unwrap();
            let known = judge.objects().len() as u64;
            let at = usize::try_from(self.chance.below(known)).unwrap();
            judge.objects().nth(at).filter(|_| self.chance.below(4) > 0).cloned()
        };
        self.refresh(replica).await;
        let Some(key) = key else {
            let (namespace, name) = self.object();
            return Some((replica.some_type(&self.chance)?, namespace.to_owned(), name.to_owned()));
        };
        let mut parts = key.trim_start_matches("/registry/").splitn(4, '/');
        let handle = replica.registry.routes().get(parts.next()?, parts.next()?)?;
        Some((handle, parts.next()?.to_owned(), parts.next()?.to_owned()))
    }

    fn object(&self) -> (&'static str, &'static str) {
        (self.one_of(&NAMESPACES), self.one_of(&NAMES))
    }

    fn version(&self) -> &'static str {
        self.one_of(&["v1", "v2"])
    }

    async fn create(&self) {
        let replica = self.replica();
        let Some(handle) = self.served(&replica).await else { return };
        let ((namespace, name), version, mark) = (self.object(), self.version(), self.mark());
        let held = self.chance.below(4) == 0;
        let mut wanted = |cx: &RuleContext<'_>, _: &Value| {
            let mut object = object! {
                "apiVersion": cx.spec.api_version(version), "kind": cx.spec.names.kind.as_str(),
                "metadata": object! { "name": name }, "mark": mark.as_str()
            };
            if held {
                map(&mut object, &["metadata"]).insert("finalizers", vec![FINALIZER]);
            }
            decoded(cx, object)
        };
        let options = self.options(&replica).await;
        let target = Target { version, subresource: None, namespace: Some(namespace), name: "" };
        let create = handle.create(target, &mut wanted, &options);
        let outcome = self.outcome(&replica, options.knowledge, create).await;
        self.learned(&replica, &format!("creates {}{namespace}/{name}", handle.prefix()), &outcome);
    }

    async fn change(&self) {
        let replica = self.replica();
        let Some((handle, namespace, name)) = self.existing(&replica).await else { return };
        let (version, mark) = (self.version(), self.mark());
        let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
            let mut object = old.clone();
            let root = map(&mut object, &[]);
            root.insert("mark", mark.as_str());
            // The schema in force says it anew.
            root.remove("epoch");
            decoded(cx, object)
        };
        let options = self.options(&replica).await;
        let target = Target { version, subresource: None, namespace: Some(&namespace), name: &name };
        let update = handle.update(target, true, &mut wanted, &options);
        let outcome = self.outcome(&replica, options.knowledge, update).await;
        self.learned(&replica, &format!("changes {}{namespace}/{name}", handle.prefix()), &outcome);
    }

    async fn release(&self) {
        let replica = self.replica();
        let Some((handle, namespace, name)) = self.existing(&replica).await else { return };
        let version = self.version();
        let mut wanted = without_finalizers(&self.world);
        let options = self.options(&replica).await;
        let target = Target { version, subresource: None, namespace: Some(&namespace), name: &name };
        let update = handle.update(target, true, &mut wanted, &options);
        let outcome = self.outcome(&replica, options.knowledge, update).await;
        self.note(&replica, &format!("releases {}{namespace}/{name}", handle.prefix()), &outcome);
    }

    async fn delete(&self) {
        let replica = self.replica();
        let Some((handle, namespace, name)) = self.existing(&replica).await else { return };
        let version = self.version();
        let (none, options) = (Removal::default(), self.options(&replica).await);
        let target = Target { version, subresource: None, namespace: Some(&namespace), name: &name };
        let delete = handle.delete(target, &none, &options);
        let outcome = self.outcome(&replica, options.knowledge, delete).await;
        let key = format!("{}{namespace}/{name}", handle.prefix());
        self.note(&replica, &format!("deletes {key}"), &outcome);
        self.told_deleted(&replica, &key, &outcome);
    }

    async fn read(&self) {
        let replica = self.replica();
        let Some((handle, namespace, name)) = self.existing(&replica).await else { return };
        let asked = self.world.truth.revision();
        let key = format!("{namespace}/{name}");
        let read = handle.get(&key, self.deadline());
        if let Some(Ok(found)) = guarded(&self.world, &replica, read).await {
            let found = found.map(|object| object.revision());
            let key = format!("{}{key}", handle.prefix());
            self.world.truth.note(&replica.who, format_args!("{} reads {key} at {found:?}", self.mark()));
            self.world.truth.demand(&replica.who, |judge| judge.read(&key, found, asked));
        }
    }
}

/// A change of a registration, planned before it is known what it changes.
#[derive(Debug)]
enum Amendment {
    Names(Value),
    Epoch(i64),
    StorageVersion,
    Annotation(&'static str, Option<&'static str>),
}

impl Amendment {
    fn apply(&self, crd: &mut Value) {
        if let Self::Names(names) = self {
            let all = map(crd, &["spec", "names"]);
            all.remove("shortNames");
            for field in ["singular", "kind", "listKind", "shortNames"] {
                if let Some(value) = names.get(field) {
                    all.insert(field, value.clone());
                }
            }
            return;
        }
        if let Self::Annotation(name, value) = self {
            let all = map(crd, &["metadata", "annotations"]);
            all.remove(name);
            if let Some(value) = value {
                all.insert(*name, *value);
            }
            return;
        }
        let versions = map(crd, &["spec"]).get_mut("versions").and_then(Value::as_array_mut).unwrap();
        for version in versions {
            match self {
                Self::Epoch(epoch) => {
                    let path = ["schema", "openAPIV3Schema", "properties", "epoch"];
                    map(version, &path).insert("default", *epoch);
                }
                Self::StorageVersion => {
                    let stored = version.get("storage").and_then(Value::as_bool) == Some(true);
                    map(version, &[]).insert("storage", !stored);
                }
                Self::Names(_) | Self::Annotation(..) => {}
            }
        }
    }
}

/// The details that an error's text lacks.
fn details(error: &WriteError) -> String {
    match error {
        WriteError::Plan(PlanError::Invalid { errors, .. }) => kindom_api::field::aggregate(errors),
        _ => String::new(),
    }
}

fn version(name: &str, storage: bool, epoch: i64) -> Value {
    let properties = object! {
        "mark": object! { "type": "string" },
        "epoch": object! { "type": "integer", "format": "int64", "default": epoch }
    };
    let schema = object! { "type": "object", "properties": properties };
    object! {
        "name": name, "served": true, "storage": storage, "schema": object! { "openAPIV3Schema": schema }
    }
}

fn cluster(name: &str) -> Target<'_> {
    Target { version: "v1", subresource: None, namespace: None, name }
}

/// The object without its finalizers. The judge learns before that they may go.
fn without_finalizers(
    world: &World,
) -> impl FnMut(&RuleContext<'_>, &Value) -> Result<Value, PlanError> + Send + use<> {
    let truth = Arc::clone(&world.truth);
    move |cx, old| {
        let mut object = old.clone();
        map(&mut object, &["metadata"]).remove("finalizers");
        let uid = old.at(&["metadata", "uid"]).and_then(Value::as_str).unwrap_or_default();
        truth.judge.lock().unwrap().released.insert(uid.to_owned());
        decoded(cx, object)
    }
}

/// Takes the finalizers off every object that has some.
pub(super) async fn release_everything(world: &Rc<World>) {
    let held: Vec<String> = world.truth.judge.lock().unwrap().held();
    for key in held {
        let replica = world.replica(0);
        let mut parts = key.trim_start_matches("/registry/").splitn(4, '/');
        let mut part = || parts.next().unwrap_or_default().to_owned();
        let (group, plural, namespace, name) = (part(), part(), part(), part());
        for _ in 0..20 {
            let deadline = Deadline::after(Duration::from_secs(10));
            let _ = replica.registry.fresh(deadline).await;
            let Some(handle) = replica.registry.routes().get(&group, &plural) else { break };
            let mut wanted = without_finalizers(world);
            let options = WriteOptions {
                deadline,
                dry_run: false,
                is_trial: false,
                explanation: None,
                object_bytes_max: 1 << 20,
                namespaces: None,
                manager: "releaser".to_owned(),
                user: Arc::new(User::api_server()),
                knowledge: Knowledge::Latest,
                bytes: 0,
                room: None,
                quotas: None,
                plugins: None,
                admission: None,
                fence: None,
            };
            let target =
                Target { version: "v1", subresource: None, namespace: Some(&namespace), name: &name };
            match handle.update(target, true, &mut wanted, &options).await {
                // Nothing of a type that is read-only can be released.
                Ok(_)
                | Err(
                    WriteError::Plan(PlanError::NotFound { .. })
                    | WriteError::Plan(PlanError::Forbidden { .. }),
                ) => break,
                Err(_) => sleep(Duration::from_millis(500)).await,
            }
        }
    }
}

//! Controllers against a server in the test's process.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kindom_controller::{Action, Context, Controller, Error, Manager};
use kindom_server::Group;
use kindom_testing::TestServer;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;

#[path = "../../server/examples/sails/sloop.rs"]
mod sloop;

use sloop::{Sloop, SloopSpec};

async fn server() -> TestServer {
    TestServer::builder().group(Group::new().kind::<Sloop>()).start().await.unwrap()
}

/// A manager that runs, and what ends it.
struct Running {
    end: oneshot::Sender<()>,
    run: JoinHandle<Result<(), String>>,
}

impl Running {
    fn start<C: Controller>(client: Client) -> Self {
        Self::of(Manager::new("test", client).controller::<C>())
    }

    fn of(manager: Manager) -> Self {
        let (end, ended) = oneshot::channel();
        let run = async move { manager.run(async { drop(ended.await) }).await.map_err(|e| e.to_string()) };
        Self { end, run: tokio::spawn(run) }
    }

    async fn end(self) {
        self.end.send(()).unwrap();
        self.run.await.unwrap().unwrap();
    }
}

fn wanted(name: &str) -> Sloop {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    Sloop { metadata, spec: SloopSpec { hull: "oak".to_owned(), ..SloopSpec::default() }, status: None }
}

/// Hires a crew, and keeps a log book for each sloop.
struct Harbour {
    context: Context,
}

impl Controller for Harbour {
    type Resource = Sloop;

    const FINALIZER: Option<&'static str> = Some("sails.example.com/berth");

    async fn init(context: &Context) -> Result<Self, Error> {
        Ok(Self { context: context.clone() })
    }

    fn watch(
        context: &Context,
        triggers: kube::runtime::Controller<Sloop>,
    ) -> kube::runtime::Controller<Sloop> {
        triggers.owns(Api::<ConfigMap>::all(context.client()), watcher::Config::default())
    }

    async fn reconcile(&self, sloop: Arc<Sloop>) -> Result<Action, Error> {
        let (client, name) = (self.context.client(), sloop.name_any());
        let namespace = sloop.namespace().ok_or("a sloop without a namespace")?;
        let book = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": format!("{name}-log"), "ownerReferences": [sloop.controller_owner_ref(&())] },
        });
        let books: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let apply = PatchParams::apply("harbour").force();
        books.patch(&format!("{name}-log"), &apply, &Patch::Apply(book)).await?;
        if sloop.status.as_ref().map(|status| status.crew) != sloop.spec.crew {
            let sloops: Api<Sloop> = Api::namespaced(client, &namespace);
            let status = json!({ "status": { "crew": sloop.spec.crew } });
            sloops.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
            self.context.report(&sloop.object_ref(&()), "Hired", "the crew is on board").await?;
        }
        Ok(Action::await_change())
    }

    async fn finalize(&self, sloop: Arc<Sloop>) -> Result<(), Error> {
        self.context.warn(&sloop.object_ref(&()), "Paid", "the crew has gone").await
    }
}

/// B-05, B-08, B-36 to B-43: what is declared becomes what is, and what is owned goes with its owner.
#[tokio::test]
async fn a_controller_makes_what_is_declared() {
    let server = server().await;
    let client = server.client();
    let running = Running::start::<Harbour>(client.clone());
    let sloops: Api<Sloop> = Api::default_namespaced(client.clone());
    let books: Api<ConfigMap> = Api::default_namespaced(client.clone());
    sloops.create(&PostParams::default(), &wanted("argo")).await.unwrap();
    let has_crew = |crew| {
        move |sloop: Option<&Sloop>| {
            sloop.and_then(|sloop| sloop.status.as_ref()).is_some_and(|status| status.crew == crew)
        }
    };
    await_condition(sloops.clone(), "argo", has_crew(2)).await.unwrap();
    let crew = Patch::Merge(json!({ "spec": { "crew": 5 } }));
    sloops.patch("argo", &PatchParams::default(), &crew).await.unwrap();
    await_condition(sloops.clone(), "argo", has_crew(5)).await.unwrap();

    // What it owns comes again.
    let book = books.get("argo-log").await.unwrap();
    books.delete("argo-log", &DeleteParams::default()).await.unwrap();
    let is_another = move |new: Option<&ConfigMap>| new.is_some_and(|new| new.uid() != book.uid());
    await_condition(books.clone(), "argo-log", is_another).await.unwrap();

    let uid = sloops.get("argo").await.unwrap().uid().unwrap();
    let owned = books.get("argo-log").await.unwrap().uid().unwrap();
    sloops.delete("argo", &DeleteParams::default()).await.unwrap();
    await_condition(sloops.clone(), "argo", conditions::is_deleted(&uid)).await.unwrap();
    await_condition(books, "argo-log", conditions::is_deleted(&owned)).await.unwrap();
    let events: Api<Event> = Api::default_namespaced(client);
    let reasons = events.list(&ListParams::default()).await.unwrap();
    let mut reasons: Vec<_> = reasons.into_iter().filter_map(|event| event.reason).collect();
    reasons.sort();
    assert_eq!(reasons, ["Hired", "Paid"]);
    running.end().await;
    server.stop().await.unwrap();
}

/// A controller whose calls the test counts, holds up and has fail.
struct Probe;

/// The crew that each call has seen.
static CALLS: LazyLock<watch::Sender<Vec<Option<i32>>>> = LazyLock::new(watch::Sender::default);
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
static MOST_UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
static TURNS: Semaphore = Semaphore::const_new(0);

impl Controller for Probe {
    type Resource = Sloop;

    async fn init(_: &Context) -> Result<Self, Error> {
        Ok(Self)
    }

    async fn reconcile(&self, sloop: Arc<Sloop>) -> Result<Action, Error> {
        CALLS.send_modify(|calls| calls.push(sloop.spec.crew));
        MOST_UNDER_WAY.fetch_max(UNDER_WAY.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        TURNS.acquire().await?.forget();
        UNDER_WAY.fetch_sub(1, Ordering::SeqCst);
        let count = CALLS.borrow().len();
        match count {
            1 => Err("the first call fails".into()),
            2 => panic!("the second call has a bug"),
            _ => Ok(Action::await_change()),
        }
    }
}

/// B-07, B-41: calls that fail are repeated, one at a time for an object, with the object as it is then; the end waits for the
/// last one.
#[tokio::test]
async fn a_call_sees_the_object_as_it_is() {
    let server = server().await;
    let running = Running::start::<Probe>(server.client());
    let sloops: Api<Sloop> = Api::default_namespaced(server.client());
    sloops.create(&PostParams::default(), &wanted("argo")).await.unwrap();
    let mut calls = CALLS.subscribe();
    calls.wait_for(|calls| calls.len() == 1).await.unwrap();
    TURNS.add_permits(1);
    calls.wait_for(|calls| calls.len() == 2).await.unwrap();
    for crew in 3..=9 {
        let crew = Patch::Merge(json!({ "spec": { "crew": crew } }));
        sloops.patch("argo", &PatchParams::default(), &crew).await.unwrap();
    }
    let mut count = 2;
    while CALLS.borrow().last() != Some(&Some(9)) {
        TURNS.add_permits(1);
        count += 1;
        calls.wait_for(|calls| calls.len() == count).await.unwrap();
    }
    let seen = CALLS.borrow().clone();
    // The second call was under way for all changes: what it had not seen came after it, at most once each.
    assert!(seen.len() <= 9 && seen[..2] == [Some(2), Some(2)] && seen.is_sorted(), "{seen:?}");
    let end = running.end();
    let mut end = std::pin::pin!(end);
    assert!(futures::poll!(end.as_mut()).is_pending());
    TURNS.add_permits(1);
    end.await;
    assert_eq!((UNDER_WAY.load(Ordering::SeqCst), MOST_UNDER_WAY.load(Ordering::SeqCst)), (0, 1));
    server.stop().await.unwrap();
}

struct Broken;

impl Controller for Broken {
    type Resource = Sloop;

    fn init(_: &Context) -> impl Future<Output = Result<Self, Error>> + Send {
        std::future::ready(Err("no anchorage".into()))
    }

    async fn reconcile(&self, _: Arc<Sloop>) -> Result<Action, Error> {
        Err("never made".into())
    }
}

/// B-40: a controller that cannot be made ends the start.
#[tokio::test]
async fn a_controller_that_cannot_be_made_is_an_error() {
    let server = server().await;
    let manager = Manager::new("test", server.client()).controller::<Harbour>().controller::<Broken>();
    let refused = manager.run(std::future::pending()).await.unwrap_err();
    assert_eq!(refused.to_string(), "no anchorage");
    server.stop().await.unwrap();
}

/// A manager whose controllers have seen nothing yet ends as any other: it is told to before it begins, or its server does not answer.
#[tokio::test]
async fn a_manager_ends_before_the_first_list() {
    let server = server().await;
    let ended = |client| Manager::new("test", client).controller::<Harbour>().run(std::future::ready(()));
    ended(server.client()).await.unwrap();
    let client = server.client();
    server.stop().await.unwrap();
    let (end, told) = oneshot::channel();
    let run = Manager::new("test", client).controller::<Harbour>().run(async { drop(told.await) });
    let run = tokio::spawn(async move { run.await.map_err(|e| e.to_string()) });
    tokio::task::yield_now().await;
    end.send(()).unwrap();
    run.await.unwrap().unwrap();
}

static MADE: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// Counts how often it is made.
struct Candidate;

impl Controller for Candidate {
    type Resource = Sloop;

    fn init(_: &Context) -> impl Future<Output = Result<Self, Error>> + Send {
        MADE.send_modify(|made| *made += 1);
        std::future::ready(Ok(Self))
    }

    async fn reconcile(&self, _: Arc<Sloop>) -> Result<Action, Error> {
        Ok(Action::await_change())
    }
}

/// Of two managers with one lease the second begins when the first has ended; one whose lease somebody takes stops at once.
#[tokio::test]
async fn one_of_several_managers_acts() {
    let server = server().await;
    let candidate =
        || Manager::new("test", server.client()).controller::<Candidate>().elected("default", "captain");
    let mut made = MADE.subscribe();
    let first = Running::of(candidate());
    made.wait_for(|made| *made == 1).await.unwrap();
    let leases: Api<Lease> = Api::default_namespaced(server.client());
    let holder = async || leases.get("captain").await.unwrap().spec.unwrap().holder_identity;
    let holds_it = holder().await.unwrap();

    let second = Running::of(candidate());
    // The second tries every two seconds: after two renewals by the first it has tried.
    for _ in 0..2 {
        let before = leases.get("captain").await.unwrap().metadata.resource_version;
        let renewed =
            move |lease: Option<&Lease>| lease.is_some_and(|l| l.metadata.resource_version != before);
        await_condition(leases.clone(), "captain", renewed).await.unwrap();
    }
    assert_eq!((*made.borrow_and_update(), holder().await.unwrap()), (1, holds_it.clone()));
    first.end().await;
    made.wait_for(|made| *made == 2).await.unwrap();
    assert_ne!(holder().await.unwrap(), holds_it);

    let taken = json!({ "spec": { "holderIdentity": "a pirate", "leaseDurationSeconds": 60 } });
    leases.patch("captain", &PatchParams::default(), &Patch::Merge(taken)).await.unwrap();
    let lost = second.run.await.unwrap().unwrap_err();
    assert_eq!(lost, "the lease default/captain was lost");
    server.stop().await.unwrap();
}

/// Fails the first call, panics in the second, and then does nothing more.
#[derive(Default)]
struct Clumsy {
    calls: AtomicUsize,
}

impl Controller for Clumsy {
    type Resource = Sloop;

    async fn init(_: &Context) -> Result<Self, Error> {
        Ok(Self::default())
    }

    async fn reconcile(&self, _: Arc<Sloop>) -> Result<Action, Error> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        assert!(call != 1, "a bug");
        if call == 0 { Err("not yet".into()) } else { Ok(Action::await_change()) }
    }
}

/// One answer to a GET of a manager.
async fn asked(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!("{request} HTTP/1.1\r\nhost: manager\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Calls are counted under controller-runtime's names.
#[tokio::test]
async fn a_manager_has_metrics() {
    let server = server().await;
    let client = server.client();
    let manager = Manager::new("test", client.clone()).controller::<Clumsy>();
    let manager = manager.elected("default", "clumsy").monitored("127.0.0.1:0").unwrap();
    let (address, metrics) = (manager.metrics_address().unwrap(), manager.metrics());
    assert!(Manager::new("test", client.clone()).monitored(&address.to_string()).is_err());
    assert!(Manager::new("test", client.clone()).monitored("localhost").is_err());
    let running = Running::of(manager);
    let sloops: Api<Sloop> = Api::default_namespaced(client);
    sloops.create(&PostParams::default(), &wanted("argo")).await.unwrap();
    let done = "controller_runtime_reconcile_total{controller=\"Clumsy\",result=\"success\"} 1";
    let mut shown = asked(address, "GET /metrics").await;
    while !shown.contains(done) {
        shown = asked(address, "GET /metrics").await;
    }
    assert!(metrics.text().contains(done));
    assert!(shown.starts_with("HTTP/1.1 200 OK\r\ncontent-type: application/openmetrics-text"), "{shown}");
    for line in [
        done,
        "controller_runtime_reconcile_total{controller=\"Clumsy\",result=\"error\"} 2",
        "controller_runtime_reconcile_total{controller=\"Clumsy\",result=\"requeue_after\"} 0",
        "controller_runtime_reconcile_errors_total{controller=\"Clumsy\"} 2",
        "controller_runtime_reconcile_panics_total{controller=\"Clumsy\"} 1",
        "controller_runtime_reconcile_time_seconds_count{controller=\"Clumsy\"} 3",
        "controller_runtime_active_workers{controller=\"Clumsy\"} 0",
        "leader_election_master_status{name=\"clumsy\"} 1",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
    }
    for path in ["/healthz", "/readyz"] {
        assert!(asked(address, &format!("GET {path}")).await.ends_with("\r\n\r\nok"));
    }
    assert!(asked(address, "GET /other").await.starts_with("HTTP/1.1 404"));
    assert!(asked(address, "POST /metrics").await.starts_with("HTTP/1.1 405"));
    running.end().await;
    server.stop().await.unwrap();
}

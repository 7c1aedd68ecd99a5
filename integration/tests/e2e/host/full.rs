//! Scenarios that take long, for `./test --full`.

use std::time::Duration;

use kindom_integration::history::History;
use kindom_integration::{Caller, Client, ServerOptions, full, tools};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;

use super::Behind;
use crate::chaos::{actors, kill};
use crate::load::{self, Type, Watcher, Writer};
use crate::secrets;
use crate::sessions;
use crate::support::{AGGREGATED, crd, eventually, object, register};

const WRITERS: usize = 4;
/// The kills of each actor, and of each server.
const ROUNDS: usize = 3;
/// Before each kill the writers get at least this much done.
const WRITES: u64 = 20;
/// The aggregator waits up to half a minute before it looks again at a server that was away.
const STUCK: Duration = Duration::from_secs(120);

/// Every recorded session of kubectl prints the same through the host as it did with Kubernetes itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_session_of_kubectl_goes_through_the_host() {
    if !full() {
        return;
    }
    let Some(behind) = Behind::start().await else { return };
    let faults = sessions::through(&behind).await;
    assert!(faults.is_empty(), "{faults}");
}

/// An ordinary operator, made with controller-runtime: it elects its leader by a lease of the host, keeps config maps of the host,
/// and its informers go on when kindom is killed (B-46).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_of_controller_runtime_works_through_the_host() {
    if !full() {
        return;
    }
    let Some(program) = tools::built("controller-runtime").unwrap() else { return };
    let Some(mut behind) = Behind::unknown(ServerOptions::default()).await else { return };
    with_widgets(&behind).await;
    let admin = behind.admin();
    let mut command = tokio::process::Command::new(program);
    admin.environment(&mut command);
    let log = std::fs::File::create(behind.host.scratch().join("operator.log")).unwrap();
    let mut operator = command.stderr(log).kill_on_drop(true).spawn().unwrap();

    apply(&admin, "one", 3).await;
    admin.kubectl(&["wait", "widget/one", "--for=jsonpath={.status.size}=3", "--timeout=60s"]).await.unwrap();
    let kept = admin.kubectl(&["get", "configmap", "one", "-o", "jsonpath={.data.size}"]).await.unwrap();
    assert_eq!(kept, "3");

    behind.server.kill9().unwrap();
    behind.server.restart().await.unwrap();
    behind.front.aim(&[behind.server.address().unwrap()]);
    let client = behind.host.admin().unwrap();
    let path = "/apis/shop.example.com/v1/namespaces/default/widgets/one";
    let changed = json!({"spec": {"size": 9}});
    // The host takes kindom for gone until it looks again.
    eventually("the host forwards again", async || {
        (client.merge_patch(path, &changed).await.unwrap().status == 200).then_some(())
    })
    .await;
    admin.kubectl(&["wait", "widget/one", "--for=jsonpath={.status.size}=9", "--timeout=60s"]).await.unwrap();
    let kept = admin.kubectl(&["get", "configmap", "one", "-o", "jsonpath={.data.size}"]).await.unwrap();
    assert_eq!(kept, "9");

    admin.kubectl(&["delete", "widget", "one", "--timeout=60s"]).await.unwrap();
    let left = admin.kubectl(&["get", "configmap", "one", "--ignore-not-found", "-o", "name"]).await.unwrap();
    assert_eq!(left, "");
    operator.kill().await.unwrap();
}

/// Helm keeps its releases in secrets of the host, and installs, upgrades, rolls back and removes objects of kindom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helm_manages_objects_through_the_host() {
    if !full() {
        return;
    }
    let Some(behind) = Behind::unknown(ServerOptions::default()).await else { return };
    with_widgets(&behind).await;
    secrets::helm(&behind.admin(), behind.host.scratch(), None).await;
}

/// The host reads discovery and OpenAPI again by itself, at most once a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_type_of_a_known_group_appears_by_itself() {
    if !full() {
        return;
    }
    let Some(behind) = Behind::unknown(ServerOptions::default()).await else { return };
    with_widgets(&behind).await;
    let own = behind.server.client().unwrap();
    register(&own, &crd("shop.example.com", "gadgets", "Gadget", "Namespaced")).await;
    let client = behind.host.admin().unwrap();
    let appears = async {
        let mut missing = vec![
            ("/apis", r#""resource":"gadgets""#),
            ("/openapi/v2", r#""com.example.shop.v1.Gadget""#),
            ("/openapi/v3/apis/shop.example.com/v1", r#""com.example.shop.v1.Gadget""#),
        ];
        while let Some((path, text)) = missing.pop() {
            let request = client.request("GET", path).accept(if path == "/apis" {
                AGGREGATED
            } else {
                "application/json"
            });
            if !request.send().await.unwrap().text().contains(text) {
                missing.push((path, text));
            }
        }
    };
    tokio::time::timeout(2 * STUCK, appears).await.expect("the host never hears of it");
    let gadget = object("shop.example.com", "Gadget", "one", json!({"size": 2}));
    let created = behind.admin().kubectl_with(&["create", "-f", "-"], &gadget.to_string()).await.unwrap();
    assert_eq!(created.success().unwrap(), "gadget.shop.example.com/one created\n");
}

/// The aggregator sends the requests of all users over few connections. So many watches need more than one.
const CROWD: usize = 250;
/// Events of a megabyte that no buffer on the way holds.
const LARGE: usize = 40;

/// A user who opens many watches, or reads none of what he asked for, takes nothing from another user of the same host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_the_host_does_not_disturb_another() {
    if !full() {
        return;
    }
    let Some(behind) = Behind::unknown(ServerOptions::default()).await else { return };
    let own = behind.server.client().unwrap();
    for (plural, kind) in [("louds", "Loud"), ("quiets", "Quiet")] {
        register(&own, &crd("crowd.example.com", plural, kind, "Namespaced")).await;
    }
    behind.publish().await;
    let path = |plural: &str| format!("/apis/crowd.example.com/v1/namespaces/default/{plural}");
    let watched = |plural: &str| format!("{}?watch=true", path(plural));
    let (loud, quiet) =
        ["loud", "quiet"].map(|user| behind.host.client(user, Some("system:masters"), false).unwrap()).into();
    let create = async |client: &Client, plural: &str, kind: &str, name: String, note: String| {
        let body = object("crowd.example.com", kind, &name, json!({"note": note}));
        client.post(&path(plural), &body).await.unwrap().expect_status(201).unwrap();
    };
    let under_way = async || {
        let metrics = own.get("/metrics").await.unwrap().text();
        let lines = metrics
            .lines()
            .filter(|l| l.starts_with("apiserver_longrunning_requests") && l.contains("louds"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum::<usize>()
    };

    let mut watch = quiet.watch(&watched("quiets")).await.unwrap();
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(loud.watch(&watched("louds")).await.unwrap());
    }
    create(&loud, "louds", "Loud", "first".to_owned(), String::new()).await;
    for one in &mut crowd {
        assert_eq!(one.event().await.unwrap()["object"]["metadata"]["name"], "first");
    }
    create(&quiet, "quiets", "Quiet", "first".to_owned(), String::new()).await;
    assert_eq!(watch.event().await.unwrap()["object"]["metadata"]["name"], "first");
    drop(crowd);
    eventually("kindom hears that they left", async || (under_way().await == 0).then_some(())).await;

    let mut stalled = behind.host.dial("loud", Some("system:masters")).await.unwrap();
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", watched("louds"));
    stalled.write_all(request.as_bytes()).await.unwrap();
    eventually("it watches", async || (under_way().await == 1).then_some(())).await;
    for i in 0..LARGE {
        create(&loud, "louds", "Loud", format!("large-{i}"), "x".repeat(1 << 20)).await;
    }
    eventually("who reads nothing is left behind", async || (under_way().await == 0).then_some(())).await;
    create(&quiet, "quiets", "Quiet", "second".to_owned(), String::new()).await;
    assert_eq!(watch.event().await.unwrap()["object"]["metadata"]["name"], "second");
}

/// Registers widgets, with a status, and publishes them.
async fn with_widgets(behind: &Behind) {
    let mut widgets = crd("shop.example.com", "widgets", "Widget", "Namespaced");
    widgets["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    register(&behind.server.client().unwrap(), &widgets).await;
    behind.publish().await;
}

async fn apply(caller: &Caller, name: &str, size: u32) {
    let widget = object("shop.example.com", "Widget", name, json!({"size": size}));
    caller.kubectl_with(&["apply", "-f", "-"], &widget.to_string()).await.unwrap().success().unwrap();
}

/// Clients of the host that go on when it, or kindom, comes back.
struct Clients {
    of: Type,
    writers: Vec<tokio::task::JoinHandle<Writer>>,
    watchers: Vec<tokio::task::JoinHandle<(Watcher, Vec<String>)>>,
    written: watch::Receiver<u64>,
    /// `false` while a server is away: then nobody asks.
    up: watch::Sender<bool>,
    stop: watch::Sender<bool>,
}

impl Clients {
    async fn start(clients: [Client; 2], of: Type) -> Self {
        let (from, nothing) = load::list(&clients[0], &of).await;
        assert!(nothing.is_empty());
        let (acknowledged, written) = watch::channel(0);
        let (up, is_up) = watch::channel(true);
        let (stop, stopped) = watch::channel(false);
        let watchers = clients.iter().map(|client| {
            let (client, mut watcher, mut up) = (client.clone(), Watcher::new(&of, from), is_up.clone());
            tokio::spawn(async move {
                let mut ends = Vec::new();
                while let Err(end) = watcher.run(&client).await {
                    ends.push(end);
                    up.wait_for(|up| *up).await.unwrap();
                }
                (watcher, ends)
            })
        });
        let watchers = watchers.collect();
        let writers = (0..WRITERS).map(|i| {
            let (client, acknowledged, stop) =
                (clients[i % 2].clone(), acknowledged.clone(), stopped.clone());
            let (mut writer, mut up) = (Writer::new(&of, format!("key-{i}")), is_up.clone());
            tokio::spawn(async move {
                while writer.run(&client, &acknowledged, &stop).await.is_err() {
                    up.wait_for(|up| *up).await.unwrap();
                }
                writer
            })
        });
        let writers = writers.collect();
        Self { of, writers, watchers, written, up, stop }
    }

    /// Waits for more acknowledged writes.
    async fn progress(&mut self, after: &str) {
        let done = *self.written.borrow();
        tokio::time::timeout(STUCK, self.written.wait_for(|n| *n >= done + WRITES))
            .await
            .unwrap_or_else(|_| panic!("no progress after {after}"))
            .unwrap();
    }

    /// Ends all clients, and checks that nothing was lost or doubled; returns how many writes there were and how often a
    /// watch ended.
    async fn judge(self, client: &Client) -> (usize, usize) {
        self.stop.send_replace(true);
        let mut history = History::default();
        for writer in self.writers {
            let writer = writer.await.unwrap();
            assert!(writer.faults.is_empty(), "answers no client should see:\n{}", writer.faults.join("\n"));
            history.attempts.extend(writer.attempts);
        }
        history.attempts.extend(load::sentinel(client, &self.of).await);
        let mut ended = 0;
        for watcher in self.watchers {
            let (watcher, ends) =
                tokio::time::timeout(STUCK, watcher).await.expect("a watcher misses the end").unwrap();
            ended += ends.len();
            history.watchers.push(watcher.events);
        }
        history.last = load::list(client, &self.of).await.1;
        history.check().unwrap();
        (history.attempts.len(), ended)
    }
}

/// kindom's actors are killed, and then kindom and the host with `kill -9`, while clients of the host write and watch: no
/// acknowledged write is lost, and every watch goes on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_whatever_falls() {
    if !full() {
        return;
    }
    let Some(mut behind) = Behind::start_with(ServerOptions::default().chaos()).await else { return };
    let own = behind.server.client().unwrap();
    register(&own, &crd("falls.example.com", "pawns", "Pawn", "Namespaced")).await;
    behind.publish().await;
    let of = Type {
        api_version: "falls.example.com/v1".to_owned(),
        kind: "Pawn".to_owned(),
        collection: "/apis/falls.example.com/v1/namespaces/default/pawns".to_owned(),
    };
    let client = behind.host.admin().unwrap();
    let both = || {
        let http2 = behind.host.client("kubernetes-admin", Some("system:masters"), true).unwrap();
        [client.clone(), http2]
    };

    let mut clients = Clients::start(both(), of.clone()).await;
    for _ in 0..ROUNDS {
        for actor in actors(&own).await {
            kill(&own, &actor.name).await;
            clients.progress(&actor.name).await;
        }
    }
    let (writes, ended) = clients.judge(&client).await;
    assert_eq!(ended, 0, "a watch through the host outlives every actor");
    println!("actors: {writes} writes");
    client.delete(&format!("{}/{}", of.collection, load::SENTINEL)).await.unwrap();
    for object in load::list(&client, &of).await.1 {
        client.delete(&format!("{}/{}", of.collection, object.key)).await.unwrap();
    }

    let mut clients = Clients::start(both(), of).await;
    for _ in 0..ROUNDS {
        clients.progress("the start").await;
        clients.up.send_replace(false);
        behind.server.kill9().unwrap();
        behind.server.restart().await.unwrap();
        behind.front.aim(&[behind.server.address().unwrap()]);
        clients.up.send_replace(true);
        clients.progress("the end of kindom").await;
        clients.up.send_replace(false);
        behind.host.kill9().unwrap();
        behind.host.restart().await.unwrap();
        clients.up.send_replace(true);
        clients.progress("the end of the host").await;
    }
    let (writes, ended) = clients.judge(&client).await;
    assert!(ended >= 2 * ROUNDS, "{ended}");
    println!("servers: {writes} writes, {ended} ends of watches");
}

//! The way through a server in front, a cluster's host or a kindom, to a kindom behind it: what holds whichever is in front.

use std::path::Path;
use std::time::Duration;

use kindom_integration::history::History;
use kindom_integration::{Client, Server, tools};
use serde_json::json;
use tokio::sync::watch;

use crate::chaos::{actors, kill};
use crate::load::{self, Type, Watcher, Writer};
use crate::sessions::Front;
use crate::support::{crd, eventually, object, register};

const WRITERS: usize = 4;
/// The kills of each actor, and of each server.
const ROUNDS: usize = 3;
/// Before each kill the writers get at least this much done.
const WRITES: u64 = 20;
/// A cluster's aggregator waits up to half a minute before it looks again at a server that was away.
pub(crate) const STUCK: Duration = Duration::from_secs(120);

pub(crate) trait Passage: Front {
    /// The server behind.
    fn back(&self) -> &Server;
    /// An administrator's client of the server in front, which stays good while either server is killed.
    fn through(&self, http2: bool) -> Client;
    /// A folder for the logs of programs.
    fn scratch(&self) -> &Path;
    /// Kills the server behind with `kill -9`, and starts it again.
    async fn restart_back(&mut self);
    /// Kills the server in front with `kill -9`, and starts it again.
    async fn restart_front(&mut self);
}

/// Registers widgets, with a status, and publishes them.
pub(crate) async fn with_widgets(passage: &impl Passage) {
    let mut widgets = crd("shop.example.com", "widgets", "Widget", "Namespaced");
    widgets["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    register(&passage.back().client().unwrap(), &widgets).await;
    passage.publish().await;
}

fn widget(size: u32) -> String {
    object("shop.example.com", "Widget", "one", json!({"size": size})).to_string()
}

/// An ordinary operator, made with controller-runtime: it elects its leader by a lease of the front, keeps config maps there, and
/// its informers go on when the kindom behind is killed (B-46). The types are those of [`with_widgets`].
pub(crate) async fn operator_works(passage: &mut impl Passage) {
    let Some(program) = tools::built("controller-runtime").unwrap() else { return };
    let admin = passage.caller();
    let mut command = tokio::process::Command::new(program);
    admin.environment(&mut command);
    let log = std::fs::File::create(passage.scratch().join("operator.log")).unwrap();
    let mut operator = command.stderr(log).kill_on_drop(true).spawn().unwrap();
    let sized = async |size: &str| {
        let reached = format!("--for=jsonpath={{.status.size}}={size}");
        admin.kubectl(&["wait", "widget/one", &reached, "--timeout=60s"]).await.unwrap();
        let kept = admin.kubectl(&["get", "configmap", "one", "-o", "jsonpath={.data.size}"]).await.unwrap();
        assert_eq!(kept, size);
    };

    admin.kubectl_with(&["apply", "-f", "-"], &widget(3)).await.unwrap().success().unwrap();
    sized("3").await;

    passage.restart_back().await;
    let client = passage.through(false);
    let path = "/apis/shop.example.com/v1/namespaces/default/widgets/one";
    let changed = json!({"spec": {"size": 9}});
    // The front takes kindom for gone until it looks again.
    eventually("the front forwards again", async || {
        (client.merge_patch(path, &changed).await.unwrap().status == 200).then_some(())
    })
    .await;
    sized("9").await;

    admin.kubectl(&["delete", "widget", "one", "--timeout=60s"]).await.unwrap();
    let left = admin.kubectl(&["get", "configmap", "one", "--ignore-not-found", "-o", "name"]).await.unwrap();
    assert_eq!(left, "");
    operator.kill().await.unwrap();
}

/// Clients of the front that go on when it, or the kindom behind, comes back.
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

/// The actors of the kindom behind are killed, and then both servers with `kill -9`, while clients of the front write and watch: no
/// acknowledged write is lost, and every watch goes on where it was. The server behind serves `--chaos`.
pub(crate) async fn nothing_is_lost(passage: &mut impl Passage) {
    let own = passage.back().client().unwrap();
    register(&own, &crd("falls.example.com", "pawns", "Pawn", "Namespaced")).await;
    passage.publish().await;
    let of = Type {
        api_version: "falls.example.com/v1".to_owned(),
        kind: "Pawn".to_owned(),
        collection: "/apis/falls.example.com/v1/namespaces/default/pawns".to_owned(),
    };
    let both = [false, true].map(|http2| passage.through(http2));
    let client = both[0].clone();

    let mut clients = Clients::start(both.clone(), of.clone()).await;
    for _ in 0..ROUNDS {
        for actor in actors(&own).await {
            kill(&own, &actor.name).await;
            clients.progress(&actor.name).await;
        }
    }
    let (writes, ended) = clients.judge(&client).await;
    assert_eq!(ended, 0, "a watch through the front outlives every actor");
    println!("actors: {writes} writes");
    client.delete(&format!("{}/{}", of.collection, load::SENTINEL)).await.unwrap();
    for object in load::list(&client, &of).await.1 {
        client.delete(&format!("{}/{}", of.collection, object.key)).await.unwrap();
    }

    let mut clients = Clients::start(both, of).await;
    for _ in 0..ROUNDS {
        clients.progress("the start").await;
        clients.up.send_replace(false);
        passage.restart_back().await;
        clients.up.send_replace(true);
        clients.progress("the end of kindom").await;
        clients.up.send_replace(false);
        passage.restart_front().await;
        clients.up.send_replace(true);
        clients.progress("the end of the front").await;
    }
    let (writes, ended) = clients.judge(&client).await;
    assert!(ended >= 2 * ROUNDS, "{ended}");
    println!("servers: {writes} writes, {ended} ends of watches");
}

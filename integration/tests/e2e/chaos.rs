//! Every actor is killed in turn under continuous writes and watches.

use std::time::Duration;

use kindom_integration::history::History;
use kindom_integration::{Client, ServerOptions, count};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::fair::{DEAR, dear, dear_type};
use crate::load::{self, Type, Watcher, Writer};
use crate::support::{CRDS, condition, crd, eventually, object, register, until_gone};

const WRITERS: usize = 4;
/// Between two kills the writers get at least this much done.
const WRITES_BETWEEN_KILLS: u64 = 10;
/// The longest time without progress; a client that needs longer hangs.
const STUCK: Duration = Duration::from_secs(60);

/// The actor of the type that comes and goes.
const PASSING: &str = "resource/bishops.passing.example.com";
/// The actor of the type that everything befalls.
const SUFFERING: &str = "resource/dears.shares.example.com";

pub(crate) struct Actor {
    pub(crate) name: String,
    incarnation: u64,
}

pub(crate) async fn actors(client: &Client) -> Vec<Actor> {
    let answer = client.get("/debug/actors").await.unwrap().expect_status(200).unwrap().json();
    let all = answer.as_array().or_else(|| answer["actors"].as_array()).expect("a list of actors").clone();
    let read = |actor: &Value| {
        assert_eq!(actor["panics"], 0, "a kill is no panic, and nothing else may be one: {actor}");
        Actor {
            name: actor["name"].as_str().expect("a name").to_owned(),
            incarnation: actor["incarnation"].as_u64().expect("an incarnation"),
        }
    };
    all.iter().map(read).collect()
}

pub(crate) async fn kill(client: &Client, name: &str) -> u16 {
    client.request("POST", &format!("/debug/actors/{name}/kill")).send().await.unwrap().status
}

struct UnderLoad {
    of: Type,
    writers: Vec<tokio::task::JoinHandle<Writer>>,
    watchers: Vec<tokio::task::JoinHandle<(Result<(), String>, Watcher)>>,
}

async fn put_under_load(
    clients: [Client; 2],
    of: Type,
    acknowledged: &watch::Sender<u64>,
    stop: &watch::Receiver<bool>,
) -> UnderLoad {
    let (from, nothing) = load::list(&clients[0], &of).await;
    assert!(nothing.is_empty());
    let watchers = clients
        .iter()
        .map(|client| {
            let (client, mut watcher) = (client.clone(), Watcher::new(&of, from));
            tokio::spawn(async move { (watcher.run(&client).await, watcher) })
        })
        .collect();
    let writers = (0..WRITERS)
        .map(|i| {
            let (client, acknowledged, stop) = (clients[i % 2].clone(), acknowledged.clone(), stop.clone());
            let mut writer = Writer::new(&of, format!("key-{i}"));
            tokio::spawn(async move {
                writer.run(&client, &acknowledged, &stop).await.expect("a connection broke");
                writer
            })
        })
        .collect();
    UnderLoad { of, writers, watchers }
}

/// Asks until the answer is not one of those that mean "later"; `repeated` is the answer to a repeated request that did
/// happen before.
async fn insist(client: &Client, method: &str, path: &str, body: &Value, repeated: u16) -> u64 {
    let mut retriable = 0;
    loop {
        let answer = client.request(method, path).json(body).send().await.unwrap();
        match answer.status {
            200 | 201 => return retriable,
            429 | 503 | 504 => retriable += 1,
            status if status == repeated && retriable > 0 => return retriable,
            _ => panic!("{} → {} {}", answer.what, answer.status, answer.text()),
        }
    }
}

/// Registers a type, uses it and deletes it with its object, again and again, so that the actors that do this are
/// killed at work too. Returns how often, and how many answers were retriable.
async fn register_and_delete(
    client: &Client,
    acknowledged: &watch::Sender<u64>,
    stop: &watch::Receiver<bool>,
) -> (u64, u64) {
    let (group, name) = ("passing.example.com", "bishops.passing.example.com");
    let registration = crd(group, "bishops", "Bishop", "Namespaced");
    let bishops = format!("/apis/{group}/v1/namespaces/default/bishops");
    let bishop = object(group, "Bishop", "one", json!({"note": "passes"}));
    let (mut cycles, mut retriable) = (0, 0);
    while !*stop.borrow() {
        retriable += insist(client, "POST", CRDS, &registration, 409).await;
        condition(client, name, "Established", "True").await;
        retriable += insist(client, "POST", &bishops, &bishop, 409).await;
        retriable += insist(client, "DELETE", &format!("{CRDS}/{name}"), &json!({}), 404).await;
        until_gone(client, CRDS, name).await;
        cycles += 1;
        acknowledged.send_modify(|n| *n += 1);
    }
    (cycles, retriable)
}

/// Collects the observations of one type's clients; fails on a stream that ended and on an answer worse than retriable.
async fn settle(client: &Client, load: UnderLoad) -> (History, u64) {
    let mut history = History::default();
    let mut retriable = 0;
    for writer in load.writers {
        let writer = writer.await.unwrap();
        assert!(writer.faults.is_empty(), "answers no client should see:\n{}", writer.faults.join("\n"));
        history.attempts.extend(writer.attempts);
        retriable += writer.retriable;
    }
    history.attempts.extend(load::sentinel(client, &load.of).await);
    for watcher in load.watchers {
        let (ended, watcher) =
            tokio::time::timeout(STUCK, watcher).await.expect("a watcher misses the end").unwrap();
        assert_eq!(ended, Ok(()), "a watch stream ended");
        history.watchers.push(watcher.events);
    }
    history.last = load::list(client, &load.of).await.1;
    (history, retriable)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_every_actor_loses_doubles_and_ends_nothing() {
    let server = ServerOptions::default().chaos().start().await.unwrap();
    let (client, other) = (server.client().unwrap(), server.client_http2().unwrap());
    register(&client, &crd("chaos.example.com", "pawns", "Pawn", "Namespaced")).await;
    register(&client, &crd("chaos.example.com", "kings", "King", "Cluster")).await;
    let of = |kind: &str, collection: &str| Type {
        api_version: "chaos.example.com/v1".to_owned(),
        kind: kind.to_owned(),
        collection: format!("/apis/chaos.example.com/v1/{collection}"),
    };

    let (acknowledged, mut progress) = watch::channel(0);
    let (stop, stopped) = watch::channel(false);
    let mut loads = Vec::new();
    for of in [of("Pawn", "namespaces/default/pawns"), of("King", "kings")] {
        loads.push(put_under_load([client.clone(), other.clone()], of, &acknowledged, &stopped).await);
    }
    let registrar = {
        let (client, acknowledged, stopped) = (other.clone(), acknowledged.clone(), stopped.clone());
        tokio::spawn(async move { register_and_delete(&client, &acknowledged, &stopped).await })
    };
    drop(acknowledged);

    let kills = count(20, 200);
    let first = actors(&client).await;
    assert!(!first.is_empty(), "no actor to kill");
    for round in 0..kills {
        let target = &first[round % first.len()].name;
        let done = *progress.borrow();
        assert_eq!(kill(&client, target).await / 100, 2, "kill {target}");
        if round % 4 == 1 {
            // If there is one just now.
            kill(&client, PASSING).await;
        }
        if round % 3 == 2 {
            // Once more at once: in its own restart, or in its first turn after it.
            kill(&client, target).await;
        }
        tokio::time::timeout(STUCK, progress.wait_for(|n| *n >= done + WRITES_BETWEEN_KILLS))
            .await
            .unwrap_or_else(|_| panic!("no progress after the kill of {target}"))
            .expect("the writers have stopped");
    }

    stop.send_replace(true);
    let (cycles, retriable) =
        tokio::time::timeout(STUCK, registrar).await.expect("a registration is stuck").unwrap();
    assert!(cycles > 0);
    let mut total = (0, retriable);
    for load in loads {
        let (history, retriable) = settle(&client, load).await;
        history.check().unwrap();
        prove_that_a_doubled_event_is_found(&history);
        total = (total.0 + history.attempts.len(), total.1 + retriable);
    }
    println!(
        "chaos: {kills} kills of {} actors, {} writes, {cycles} types came and went, {} retriable answers",
        first.len(),
        total.0,
        total.1
    );

    for actor in actors(&client).await {
        let before = first.iter().take(kills).find(|a| a.name == actor.name);
        if let Some(before) = before {
            assert!(actor.incarnation > before.incarnation, "{} was never replaced", actor.name);
        }
    }
}

/// The planted bug: had the server appended any one event twice, this very history would not have passed.
fn prove_that_a_doubled_event_is_found(history: &History) {
    let log = &history.watchers[0];
    for position in [0, log.len() / 2, log.len() - 1] {
        let mut doubled = history.clone();
        for watcher in &mut doubled.watchers {
            let event = watcher[position].clone();
            watcher.insert(position + 1, event);
        }
        assert!(doubled.check().is_err(), "the checker is blind to a doubled event");
    }
}

/// Everything that can befall a type and its clients befalls one: its actor is killed again and again, its objects are dear,
/// its watchers do not read, its writers stop in the middle. The other type's clients see none of it: not one answer that
/// asks them to come again, and every event, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_befalls_one_type_leaves_another_untouched() {
    let server = ServerOptions::default().chaos().start().await.unwrap();
    let (client, other) = (server.client().unwrap(), server.client_http2().unwrap());
    register(&client, &crd("chaos.example.com", "pawns", "Pawn", "Namespaced")).await;
    register(&client, &dear_type()).await;
    let of = Type {
        api_version: "chaos.example.com/v1".to_owned(),
        kind: "Pawn".to_owned(),
        collection: "/apis/chaos.example.com/v1/namespaces/default/pawns".to_owned(),
    };
    let (acknowledged, mut progress) = watch::channel(0);
    let (stop, stopped) = watch::channel(false);
    let load = put_under_load([client.clone(), other.clone()], of, &acknowledged, &stopped).await;
    drop(acknowledged);

    let mut sufferers = JoinSet::new();
    for number in 0..8 {
        let (connection, stopped) = (server.client().unwrap(), stopped.clone());
        sufferers.spawn(async move {
            let mut made = 0;
            while !*stopped.borrow() {
                let answer = connection.post(DEAR, &dear(&format!("dear-{number}-{made}"))).await.unwrap();
                assert!(matches!(answer.status, 201 | 409 | 429 | 503 | 504), "{}", answer.text());
                made += 1;
            }
            made
        });
    }
    let mut stalled = Vec::new();
    for _ in 0..8 {
        let mut watcher = server.dial_holding(4096).await.unwrap();
        let head = format!("GET {DEAR}?watch=true&resourceVersion=0 HTTP/1.1\r\nHost: x\r\n\r\n");
        watcher.write_all(head.as_bytes()).await.unwrap();
        let mut writer = server.dial().await.unwrap();
        let head = format!("POST {DEAR} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{");
        writer.write_all(head.as_bytes()).await.unwrap();
        stalled.push((watcher, writer));
    }
    let is_there = async || actors(&client).await.iter().any(|actor| actor.name == SUFFERING).then_some(());
    eventually("the actor of the type", is_there).await;
    for round in 0..count(20, 200) {
        let done = *progress.borrow();
        assert_eq!(kill(&client, SUFFERING).await / 100, 2, "round {round}");
        tokio::time::timeout(STUCK, progress.wait_for(|n| *n >= done + WRITES_BETWEEN_KILLS))
            .await
            .unwrap_or_else(|_| panic!("no progress after kill {round}"))
            .expect("the writers have stopped");
    }
    stop.send_replace(true);
    let (history, retriable) = settle(&client, load).await;
    history.check().unwrap();
    assert_eq!(retriable, 0, "an answer asked the other type's clients to come again");
    let made: usize = sufferers.join_all().await.into_iter().sum();
    println!("{} writes of the one type, {made} of the other", *progress.borrow());
    assert!(made > 0);
    drop(stalled);
}

#[tokio::test]
async fn actors_are_listed_and_killed_only_with_the_flag() {
    let server = ServerOptions::default().start().await.unwrap();
    let client = server.client().unwrap();
    assert_eq!(client.get("/debug/actors").await.unwrap().status, 404);

    let server = ServerOptions::default().chaos().start().await.unwrap();
    let client = server.client().unwrap();
    assert_eq!(server.anonymous().unwrap().get("/debug/actors").await.unwrap().status, 403);
    for actor in actors(&client).await {
        assert!(actor.incarnation >= 1, "{}", actor.name);
    }
    assert_eq!(kill(&client, "no-such-actor").await, 404);
}

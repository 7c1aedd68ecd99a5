//! A type in use is deleted while clients go on creating and while everything falls (issue "Registration to the letter",
//! Show 3), and large types that nobody uses are drained.

use std::collections::{BTreeMap, BTreeSet};

use kindom_integration::history::{Attempt, Change, History, Outcome, Seen};
use kindom_integration::{Client, Server, ServerOptions, count};
use kindom_storage::{Op, Txn, TxnOutcome};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{
    CRDS, condition, crd, names, namespace, object, refused, register, revision, store, stored, until,
    until_gone,
};

const GROUP: &str = "drain.example.com";
const NAME: &str = "pawns.drain.example.com";
const ALL: &str = "/apis/drain.example.com/v1/pawns";
const PREFIX: &str = "/registry/drain.example.com/pawns/";
const HOLD: [&str; 2] = ["drain.example.com/hold", "drain.example.com/keep"];
const NAMESPACES: [&str; 3] = ["default", "white", "black"];
const CREATORS: usize = 16;
/// Every so many objects have one finalizer; of those, every second has another one.
const HELD_EVERY: usize = 40;
const REFUSED: &str = "is forbidden: create not allowed while custom resource definition is terminating";

/// The number of finalizers that the object has from the start; it is part of its name.
fn finalizers_of(name: &str) -> usize {
    name.strip_prefix('f').and_then(|rest| rest.get(..1)).and_then(|n| n.parse().ok()).unwrap_or_default()
}

fn path_of(name: &str) -> String {
    let namespace = NAMESPACES.iter().find(|n| name.ends_with(**n)).expect("a namespace at the end");
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/pawns")
}

fn pawn(name: &str) -> Value {
    let mut pawn = object(GROUP, "Pawn", name, json!({"note": "x".repeat(700)}));
    let finalizers = HOLD.get(..finalizers_of(name)).unwrap_or_default();
    if !finalizers.is_empty() {
        pawn["metadata"]["finalizers"] = json!(finalizers);
    }
    pawn
}

/// The state of an object's life: marked or not, and the number of finalizers that it has lost.
fn state_of(pawn: &Value) -> u64 {
    let metadata = &pawn["metadata"];
    let left = metadata["finalizers"].as_array().map_or(0, Vec::len);
    let lost = finalizers_of(metadata["name"].as_str().unwrap()) - left;
    u64::from(metadata["deletionTimestamp"].is_string()) + 2 * u64::try_from(lost).unwrap()
}

/// The server that there is now; clients that lose one wait for the next.
type Now = watch::Receiver<Client>;

/// One client that creates objects until the type refuses them; nobody else creates these names.
struct Creator {
    id: usize,
    made: usize,
    attempts: Vec<Attempt>,
    /// The numbers of refusals with 403 and with 404.
    refused: [usize; 2],
}

impl Creator {
    fn next_name(&mut self) -> String {
        self.made += 1;
        let held = match self.made + 5 * self.id {
            n if n.is_multiple_of(2 * HELD_EVERY) => 2,
            n if n.is_multiple_of(HELD_EVERY) => 1,
            _ => 0,
        };
        format!("f{held}-{}-{}-{}", self.id, self.made, NAMESPACES[self.made % NAMESPACES.len()])
    }

    /// One create. `deleted` says whether the DELETE of the registration was answered before.
    async fn create(&mut self, now: &mut Now, deleted: bool) {
        let name = self.next_name();
        let client = now.borrow_and_update().clone();
        let outcome = match client.post(&path_of(&name), &pawn(&name)).await {
            Ok(answer) => match answer.status {
                201 => {
                    assert!(!deleted, "{name} was created after the deletion was answered");
                    Outcome::Acknowledged(Some(revision(&answer.json())))
                }
                403 => {
                    let message = answer.at("/message");
                    assert!(message.as_str().unwrap().ends_with(REFUSED), "{message}");
                    self.refused[0] += 1;
                    Outcome::Refused
                }
                404 => {
                    self.refused[1] += 1;
                    Outcome::Refused
                }
                429 | 503 => Outcome::Refused,
                504 => Outcome::Unknown,
                _ => panic!("{} → {} {}", answer.what, answer.status, answer.text()),
            },
            Err(_) => {
                // The process fell; if it is the last one the channel is closed.
                let _ = now.changed().await;
                Outcome::Unknown
            }
        };
        self.attempts.push(Attempt { key: name, change: Change::Put, number: 0, outcome });
    }
}

/// A watcher of the whole type that goes on from its last revision wherever it has to connect again, until the type is gone.
struct Watcher {
    events: Vec<(String, Seen)>,
    cursor: u64,
    /// The number of deletions seen.
    deleted: watch::Sender<usize>,
    /// The number of times that it was connected.
    connected: watch::Sender<usize>,
}

impl Watcher {
    async fn run(mut self, mut now: Now) -> Self {
        loop {
            let client = now.borrow_and_update().clone();
            let path = format!("{ALL}?watch=true&resourceVersion={}", self.cursor);
            match client.request("GET", &path).open().await {
                Ok(kindom_integration::Opened::Stream(mut stream)) => {
                    self.connected.send_modify(|n| *n += 1);
                    while let Ok(Some(event)) = stream.next().await {
                        let kind = event["type"].as_str().unwrap().to_owned();
                        if kind == "ERROR" {
                            assert_eq!(event["object"]["code"], 410, "{event}");
                            break;
                        }
                        self.see(kind, &event["object"]);
                    }
                }
                Ok(kindom_integration::Opened::Answer(answer)) => match answer.status {
                    // The type is gone, and this watcher was connected when it went.
                    404 => return self,
                    429 | 503 | 504 => {}
                    _ => panic!("{} → {} {}", answer.what, answer.status, answer.text()),
                },
                Err(_) => {
                    let _ = now.changed().await;
                }
            }
        }
    }

    fn see(&mut self, kind: String, pawn: &Value) {
        let change = if kind == "DELETED" { Change::Delete } else { Change::Put };
        let key = pawn["metadata"]["name"].as_str().unwrap().to_owned();
        let seen = Seen { revision: revision(pawn), key, change, number: state_of(pawn) };
        self.cursor = seen.revision;
        self.events.push((kind, seen));
        if change == Change::Delete {
            self.deleted.send_modify(|n| *n += 1);
        }
    }
}

/// Every name comes once and goes once, and is only changed in between. Gives back how many there were.
fn lives(events: &[(String, Seen)]) -> usize {
    let (mut here, mut gone) = (BTreeSet::new(), BTreeSet::new());
    for (kind, seen) in events {
        let fits = match kind.as_str() {
            "ADDED" => !gone.contains(&seen.key) && here.insert(&seen.key),
            "MODIFIED" => here.contains(&seen.key),
            "DELETED" => here.remove(&seen.key) && gone.insert(&seen.key),
            _ => false,
        };
        assert!(fits, "{kind} {seen}");
    }
    assert!(here.is_empty(), "never deleted: {here:?}");
    gone.len()
}

/// All changes that a drain and a client that releases may make to each object, whether they did or not.
fn with_the_drain(creates: Vec<Attempt>) -> Vec<Attempt> {
    let mut all = Vec::new();
    for create in creates {
        let attempt = |change, number| {
            let (key, outcome) = (create.key.clone(), Outcome::Unknown);
            Attempt { key, change, number, outcome }
        };
        let mut after = Vec::new();
        if create.outcome != Outcome::Refused {
            for number in 0..6 {
                after.extend((number > 0).then(|| attempt(Change::Put, number)));
                after.push(attempt(Change::Delete, number));
            }
        }
        all.push(create);
        all.extend(after);
    }
    all
}

/// Takes finalizers off the object until it is gone, whatever falls.
async fn release(name: &str, mut now: Now) {
    for left in (0..finalizers_of(name)).rev() {
        let patch = json!({"metadata": {"finalizers": HOLD.get(..left)}});
        loop {
            let client = now.borrow_and_update().clone();
            match client.merge_patch(&format!("{}/{name}", path_of(name)), &patch).await {
                Ok(answer) => match answer.status {
                    200 | 404 => break,
                    409 | 429 | 503 | 504 => {}
                    _ => panic!("{} → {} {}", answer.what, answer.status, answer.text()),
                },
                Err(_) => {
                    let _ = now.changed().await;
                }
            }
        }
    }
}

/// Kills actors whenever so many more objects were deleted, and then again and again until it has to stop.
async fn kill_actors(
    step: usize,
    mut deleted: watch::Receiver<usize>,
    now: Now,
    stop: watch::Receiver<bool>,
) -> usize {
    let mut kills = 0;
    while !*stop.borrow() {
        let seen = *deleted.borrow_and_update();
        let client = now.borrow().clone();
        for (i, actor) in ["finalizer", "registry", "resource/pawns.drain.example.com"].iter().enumerate() {
            if kills % 3 >= i {
                let kill = client.request("POST", &format!("/debug/actors/{actor}/kill")).send().await;
                kills += usize::from(kill.is_ok_and(|answer| answer.status / 100 == 2));
            }
        }
        // Each fall sees some progress, so that the deletion ends.
        let more = deleted.wait_for(|n| *n > seen + step);
        let mut stop = stop.clone();
        tokio::select! { _ = more => {}, _ = stop.wait_for(|stop| *stop) => {} }
    }
    kills
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", f64::from(u32::try_from(bytes >> 10).unwrap()) / 1024.0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_in_use_goes_to_its_last_object_whatever_falls() {
    let objects = count(600, 100_000);
    let process_kills = count(2, 5);
    let mut server = ServerOptions::default().chaos().start().await.unwrap();
    let client = server.client_http2().unwrap();
    for name in NAMESPACES.iter().skip(1) {
        namespace(&client, name).await;
    }
    register(&client, &crd(GROUP, "pawns", "Pawn", "Namespaced")).await;
    let from = revision(&client.get(ALL).await.unwrap().json());
    let (next, now) = watch::channel(client.clone());

    let mut watchers = Vec::new();
    let mut connected = Vec::new();
    let deleted = watch::Sender::new(0);
    for i in 0..2 {
        let connections = watch::Sender::new(0);
        connected.push(connections.subscribe());
        let deleted = if i == 0 { deleted.clone() } else { watch::Sender::new(0) };
        let watcher = Watcher { events: Vec::new(), cursor: from, deleted, connected: connections };
        watchers.push(tokio::spawn(watcher.run(now.clone())));
    }

    // Creates go on until some time after the type is gone.
    let (created, mut progress) = watch::channel(0);
    let (is_deleted, stop_creating) = (watch::Sender::new(false), watch::Sender::new(false));
    let creators: Vec<_> = (0..CREATORS)
        .map(|id| {
            let (mut now, created) = (now.clone(), created.clone());
            let (is_deleted, stop) = (is_deleted.subscribe(), stop_creating.subscribe());
            let mut gone = deleted.subscribe();
            let mut creator = Creator { id, made: 0, attempts: Vec::new(), refused: [0; 2] };
            tokio::spawn(async move {
                while !*stop.borrow() {
                    let deleted = *is_deleted.borrow();
                    creator.create(&mut now, deleted).await;
                    created.send_modify(|n| *n += 1);
                    if deleted {
                        // As the drain goes on: enough to be in its way, and no flood.
                        let (mut stop, so_far) = (stop.clone(), *gone.borrow());
                        let more = gone.wait_for(|n| *n > so_far + 10);
                        tokio::select! { _ = more => {}, _ = stop.wait_for(|stop| *stop) => {} }
                    }
                }
                creator
            })
        })
        .collect();
    let begun = tokio::time::Instant::now();
    progress.wait_for(|n| *n >= objects).await.unwrap();
    let (filled, before) = (begun.elapsed(), server.memory_bytes().unwrap());

    let begun = tokio::time::Instant::now();
    let registration = format!("{CRDS}/{NAME}");
    let marked = client.delete(&registration).await.unwrap().expect_status(200).unwrap().json();
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    is_deleted.send_replace(true);
    let stop_killing = watch::Sender::new(false);
    let killer = kill_actors(objects / 100, deleted.subscribe(), now.clone(), stop_killing.subscribe());
    let killer = tokio::spawn(killer);

    let mut peak = 0;
    let mut seen = deleted.subscribe();
    for kill in 0..process_kills {
        // Objects without finalizers.
        let due = objects / HELD_EVERY * (HELD_EVERY - 2) * kill / process_kills;
        seen.wait_for(|n| *n > due).await.unwrap();
        peak = peak.max(server.peak_memory_bytes().unwrap());
        server.kill9().unwrap();
        server.restart().await.unwrap();
        next.send_replace(server.client_http2().unwrap());
    }
    stop_killing.send_replace(true);
    let mut actor_kills = killer.await.unwrap();

    // The condition lists the rest. The holders let go, the last objects when all watchers are back.
    let client = next.borrow().clone();
    let held = until(&client, CRDS, NAME, |crd| message(crd).contains("held by finalizers")).await;
    assert!(message(&held).starts_with("CustomResource deletion is in progress: "), "{}", message(&held));
    assert_eq!(terminating(&held)["reason"], "InstanceDeletionInProgress");
    let left = client.get(&format!("{ALL}?limit=100000")).await.unwrap().json();
    let mut left = names(&left);
    left.retain(|name| finalizers_of(name) > 0);
    assert!(left.len() > 8, "{left:?}");
    let last = left.split_off(left.len() - 4);
    let released = left.len() + last.len();
    for some in left.chunks(left.len().div_ceil(10)) {
        // In the middle of its wait, of its next look, or of a write of the status.
        let kill = client.request("POST", "/debug/actors/finalizer/kill").send().await.unwrap();
        assert_eq!(kill.status / 100, 2, "{}", kill.text());
        actor_kills += 1;
        futures::future::join_all(some.iter().map(|name| release(name, now.clone()))).await;
    }
    let four = until(&client, CRDS, NAME, |crd| message(crd).contains(": 4 objects remain (")).await;
    assert!(message(&four).contains(&format!("{} in ", HOLD[0])), "{}", message(&four));
    for connections in &mut connected {
        connections.wait_for(|n| *n > process_kills).await.unwrap();
    }
    for name in &last {
        release(name, now.clone()).await;
    }
    until_gone(&client, CRDS, NAME).await;
    let drained = begun.elapsed();
    stop_creating.send_replace(true);
    peak = peak.max(server.peak_memory_bytes().unwrap());

    // The observations of all clients add up.
    let (mut attempts, mut refused) = (Vec::new(), [0; 2]);
    for creator in creators {
        let creator = creator.await.unwrap();
        attempts.extend(creator.attempts);
        refused = [refused[0] + creator.refused[0], refused[1] + creator.refused[1]];
    }
    assert!(refused[0] > 0, "nobody was refused");
    let acknowledged = attempts.iter().filter(|a| matches!(a.outcome, Outcome::Acknowledged(_))).count();
    let mut history = History { attempts: with_the_drain(attempts), ..History::default() };
    let mut counts = Vec::new();
    for watcher in watchers {
        let watcher = watcher.await.unwrap();
        counts.push(lives(&watcher.events));
        history.watchers.push(watcher.events.into_iter().map(|(_, seen)| seen).collect());
    }
    history.check().unwrap();
    assert!(counts.iter().all(|count| *count >= acknowledged));
    assert_eq!(client.get(ALL).await.unwrap().status, 404);

    // Registered again at once, nothing old is there; and nothing is left in the store either.
    register(&client, &crd(GROUP, "pawns", "Pawn", "Namespaced")).await;
    assert!(names(&client.get(ALL).await.unwrap().json()).is_empty());
    assert!(server.terminate().await.unwrap().success());
    assert!(stored(&server, PREFIX).await.is_empty());
    println!(
        "deletion: {} objects of {acknowledged} acknowledged creates, {released} released from finalizers, {refused:?} creates refused (403, 404); filled in {filled:.1?}, gone after {drained:.1?}; {actor_kills} actor kills, {process_kills} process kills; {} resident before, {} at its peak",
        counts[0],
        mib(before),
        mib(peak)
    );
}

fn terminating(crd: &Value) -> Value {
    let all = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|c| c["type"] == "Terminating").unwrap_or_default()
}

fn message(crd: &Value) -> String {
    terminating(crd)["message"].as_str().unwrap_or_default().to_owned()
}

/// Puts these into a store that no server has open.
async fn prepare(server: &Server, puts: BTreeMap<Vec<u8>, Vec<u8>>) {
    let store = store(server).await;
    let puts: Vec<_> = puts.into_iter().collect();
    for chunk in puts.chunks(1000) {
        let txns = chunk.iter().map(|(key, value)| {
            let op = Op::Put(kindom_storage::Key::new(key.clone()), value.clone().into());
            store.txn(Txn { compares: Vec::new(), ops: vec![op] })
        });
        for outcome in futures::future::join_all(txns).await {
            assert!(matches!(outcome, Ok(TxnOutcome::Committed { .. })), "{outcome:?}");
        }
    }
    store.close().await.unwrap();
}

/// T-48: every key goes, whatever its version, namespace and state, and the type is not loaded for that. Prepared below
/// the server, as no server would store all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_type_that_nobody_uses_goes_without_being_loaded() {
    let objects = count(2_000, 100_000);
    let mut server = ServerOptions::default().chaos().start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "pawns", "Pawn", "Namespaced")).await;
    register(&client, &crd(GROUP, "pawnshops", "Pawnshop", "Namespaced")).await;
    // Its kind is taken, so it is never established; objects under its prefix are deleted all the same.
    let mut never = crd(GROUP, "rooks", "Pawn", "Namespaced");
    never["spec"]["names"]["listKind"] = json!("RookList");
    client.post(CRDS, &never).await.unwrap().expect_status(201).unwrap();
    condition(&client, "rooks.drain.example.com", "Established", "False").await;
    assert!(server.terminate().await.unwrap().success());

    let mut puts = BTreeMap::new();
    let note = "x".repeat(800);
    for i in 0..objects {
        let (namespace, version) = (i % 50, if i % 3 == 0 { "v0" } else { "v1" });
        let json = format!(
            r#"{{"apiVersion":"{GROUP}/{version}","kind":"Pawn","metadata":{{"name":"p{i}","namespace":"n{namespace}","uid":"u{i}"}},"spec":{{"note":"{note}"}}}}"#
        );
        puts.insert(format!("{PREFIX}n{namespace}/p{i}").into_bytes(), json.into_bytes());
    }
    let odd: [(&[u8], &str); 6] = [
        (b"default/cut", r#"{"apiVersion":"drain.example.com/v1","metadata":{"finalizers":["a/b"]"#),
        (b"default/empty", ""),
        (b"default/NOT A NAME/", "{}"),
        (b"\xff\xfe", "{}"),
        (b"", "{}"),
        (b"default/list", "[]"),
    ];
    for (key, value) in odd {
        puts.insert([PREFIX.as_bytes(), key].concat(), value.into());
    }
    puts.insert(b"/registry/drain.example.com/rooks/default/a".to_vec(), b"{}".to_vec());
    puts.insert(b"/registry/drain.example.com/pawnshops/default/a".to_vec(), b"{}".to_vec());
    prepare(&server, puts).await;

    server.restart().await.unwrap();
    let client = server.client().unwrap();
    let before = server.memory_bytes().unwrap();
    let begun = tokio::time::Instant::now();
    for name in ["rooks.drain.example.com", NAME] {
        client.delete(&format!("{CRDS}/{name}")).await.unwrap().expect_status(200).unwrap();
        until_gone(&client, CRDS, name).await;
    }
    let (drained, peak) = (begun.elapsed(), server.peak_memory_bytes().unwrap());
    let actors = client.get("/debug/actors").await.unwrap().expect_status(200).unwrap().text();
    assert!(!actors.contains("resource/pawns.drain.example.com"), "it was loaded: {actors}");
    register(&client, &crd(GROUP, "pawns", "Pawn", "Namespaced")).await;
    assert!(names(&client.get(ALL).await.unwrap().json()).is_empty());
    assert!(server.terminate().await.unwrap().success());
    for prefix in [PREFIX, "/registry/drain.example.com/rooks/"] {
        assert!(stored(&server, prefix).await.is_empty());
    }
    assert_eq!(stored(&server, "/registry/drain.example.com/pawnshops/").await.len(), 1);
    println!(
        "asleep: {objects} objects and {} odd keys gone after {drained:.1?}; {} resident before, {} at its peak",
        odd.len(),
        mib(before),
        mib(peak)
    );
}

/// The namespace's end is reported like the registration's, and nothing waits for anything else.
#[tokio::test]
async fn a_namespace_goes_after_its_content() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "pawns", "Pawn", "Namespaced")).await;
    namespace(&client, "white").await;
    for name in ["f0-1-white", "f1-2-white", "f2-3-white"] {
        client.post(&path_of(name), &pawn(name)).await.unwrap().expect_status(201).unwrap();
    }
    client.delete("/api/v1/namespaces/white").await.unwrap().expect_status(200).unwrap();
    let remaining = "Some resources are remaining: pawns.drain.example.com has 2 resource instances";
    let told = |namespace: &Value| namespace["status"]["conditions"].to_string().contains(remaining);
    until(&client, "/api/v1/namespaces", "white", told).await;
    let (_sender, now) = watch::channel(client.clone());
    for name in ["f2-3-white", "f1-2-white"] {
        release(name, now.clone()).await;
    }
    until_gone(&client, "/api/v1/namespaces", "white").await;
    assert!(names(&client.get(ALL).await.unwrap().json()).is_empty());
}

/// Without a collector nobody would remove the finalizers that a delete may ask for.
#[tokio::test]
async fn without_a_collector_no_delete_waits_for_one() {
    let server = ServerOptions::default().args(&["--enable-garbage-collector=false"]).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "pawns", "Pawn", "Namespaced")).await;
    let all = path_of("f0-1-default");
    for policy in ["Foreground", "Orphan", "Background"] {
        client.post(&all, &pawn("f0-1-default")).await.unwrap().expect_status(201).unwrap();
        let path = format!("{all}/f0-1-default?propagationPolicy={policy}");
        client.delete(&path).await.unwrap().expect_status(200).unwrap();
        refused(client.get(&format!("{all}/f0-1-default")).await, 404, "NotFound", "");
    }
}

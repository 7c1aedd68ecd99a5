//! kill -9 and SIGTERM under load, each followed by a restart on the same folder.

use kindom_integration::history::History;
use kindom_integration::{Server, ServerOptions, count};
use tokio::sync::watch;

use crate::load::{self, ENDED, Type, Watcher, Writer};
use crate::support::{CRDS, crd, refused, register, revision};

const WRITERS: usize = 8;
const WRITES_PER_ROUND: u64 = 200;

/// Everything that the clients know about the one type under load.
struct Clients {
    of: Type,
    writers: Vec<Writer>,
    watcher: Watcher,
}

/// The way in which the server ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Kill9,
    Sigterm,
}

/// Runs all clients until enough was acknowledged, then ends the server under their hands.
async fn load_and_end(server: &mut Server, clients: Clients, end: End) -> Clients {
    let Clients { of, writers, mut watcher } = clients;
    let client = server.client().unwrap();
    let (acknowledged, mut progress) = watch::channel(0);
    let (_stop, stopped) = watch::channel(false);
    let tasks: Vec<_> = writers
        .into_iter()
        .map(|mut writer| {
            let (client, acknowledged, stopped) = (client.clone(), acknowledged.clone(), stopped.clone());
            tokio::spawn(async move {
                // The only end is the server's.
                writer.run(&client, &acknowledged, &stopped).await.unwrap_err();
                writer
            })
        })
        .collect();
    let reader = tokio::spawn(async move {
        let ended = watcher.run(&client).await.expect_err("there is no sentinel yet");
        // In order means that the stream is closed, not torn.
        assert!(end == End::Kill9 || ended == ENDED, "{ended}");
        watcher
    });
    progress.wait_for(|n| *n >= WRITES_PER_ROUND).await.unwrap();
    match end {
        End::Kill9 => server.kill9().unwrap(),
        End::Sigterm => assert!(server.terminate().await.unwrap().success()),
    }
    let mut writers = Vec::new();
    for task in tasks {
        writers.push(task.await.unwrap());
    }
    Clients { of, writers, watcher: reader.await.unwrap() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_under_load_loses_no_acknowledged_write() {
    let (rounds, writes) = end_again_and_again(End::Kill9, count(3, 20)).await;
    println!("kill -9: {rounds} rounds, {writes} writes, nothing lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_under_load_closes_the_watches_and_loses_no_acknowledged_write() {
    let (rounds, writes) = end_again_and_again(End::Sigterm, count(2, 5)).await;
    println!("SIGTERM: {rounds} rounds, {writes} writes, nothing lost");
}

/// Ends the server under load so many times, and judges what the clients saw; returns the rounds and the writes.
async fn end_again_and_again(end: End, rounds: usize) -> (usize, usize) {
    let mut server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd("kill.example.com", "pawns", "Pawn", "Namespaced")).await;
    let of = Type {
        api_version: "kill.example.com/v1".to_owned(),
        kind: "Pawn".to_owned(),
        collection: "/apis/kill.example.com/v1/namespaces/default/pawns".to_owned(),
    };
    let (from, _) = load::list(&client, &of).await;
    let mut clients = Clients {
        writers: (0..WRITERS).map(|i| Writer::new(&of, format!("key-{i}"))).collect(),
        watcher: Watcher::new(&of, from),
        of,
    };

    for round in 0..rounds {
        clients = load_and_end(&mut server, clients, end).await;
        let highest = clients.writers.iter().map(|w| w.floor).chain([clients.watcher.cursor]).max().unwrap();
        server.restart().await.unwrap();

        let (at, last) = load::list(&server.client().unwrap(), &clients.of).await;
        assert!(at >= highest, "round {round}: the revision went back from {highest} to {at}");
        let attempts = clients.writers.iter().flat_map(|w| w.attempts.clone()).collect();
        History { attempts, watchers: Vec::new(), last }.check_last().unwrap();
        for writer in &mut clients.writers {
            assert!(writer.faults.is_empty(), "{}", writer.faults.join("\n"));
            writer.floor = at;
        }
    }

    // The watcher went on from its cursor after each restart: it saw everything once, in order.
    let client = server.client().unwrap();
    let mut attempts = load::sentinel(&client, &clients.of).await;
    clients.watcher.run(&client).await.unwrap();
    attempts.extend(clients.writers.into_iter().flat_map(|w| w.attempts));
    let history = History {
        attempts,
        watchers: vec![clients.watcher.events],
        last: load::list(&client, &clients.of).await.1,
    };
    history.check().unwrap();
    (rounds, history.attempts.len())
}

#[tokio::test]
async fn an_orderly_end_and_a_restart_keep_everything() {
    let mut server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd("end.example.com", "pawns", "Pawn", "Namespaced")).await;
    let path = "/apis/end.example.com/v1/namespaces/default/pawns";
    let pawn = crate::support::object("end.example.com", "Pawn", "a", serde_json::json!({"note": "kept"}));
    let before = client.post(path, &pawn).await.unwrap().expect_status(201).unwrap().json();

    assert!(server.terminate().await.unwrap().success());
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    let after = client.get(&format!("{path}/a")).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(before, after);
    let list = client.get(CRDS).await.unwrap().json();
    assert!(revision(&list) >= revision(&before));
}

#[tokio::test]
async fn a_second_process_on_the_same_folder_is_refused() {
    // A folder holds nothing that replicas on etcd could spoil.
    let server = ServerOptions::default().embedded().start().await.unwrap();
    let folder = server.data_dir();
    let Err(error) = ServerOptions::default().succeeding(&server).start().await else {
        panic!("two processes on one folder")
    };
    let error = error.to_string();
    assert!(error.contains("ended before it was ready"), "{error}");
    assert!(error.contains(folder.to_str().unwrap()), "it does not name the folder: {error}");
    // The first one is none the worse.
    refused(server.client().unwrap().get("/api/v1/namespaces/none").await, 404, "NotFound", "not found");
}

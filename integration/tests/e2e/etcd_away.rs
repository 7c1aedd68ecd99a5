//! A server whose etcd is away, or takes less than the server would.

use std::time::Duration;

use kindom_integration::{Client, Etcd, EtcdOptions, Server, ServerOptions};
use serde_json::{Value, json};

use crate::support::{crd, refused, register};

const PATIENCE: Duration = Duration::from_secs(60);
const PAWNS: &str = "/apis/away.example.com/v1/namespaces/default/pawns";

fn pawn(name: &str) -> Value {
    json!({"apiVersion": "away.example.com/v1", "kind": "Pawn", "metadata": {"name": name}})
}

async fn serving(etcd: &Etcd) -> (Server, Client) {
    let server = ServerOptions::default().etcd(&etcd.endpoints()).start().await.unwrap();
    let client = server.client_http2().unwrap();
    register(&client, &crd("away.example.com", "pawns", "Pawn", "Namespaced")).await;
    (server, client)
}

/// Reads that may be old go on; all else is refused, to be tried again; and then all of it is as before, for clients that
/// stayed too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_be_old_is_served_while_etcd_is_away() {
    let mut etcd = Etcd::start().await.unwrap();
    let (_server, client) = serving(&etcd).await;
    let first = client.post(PAWNS, &pawn("first")).await.unwrap().expect_status(201).unwrap().json();
    let from = first["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = client.watch(&format!("{PAWNS}?watch=true&resourceVersion={from}")).await.unwrap();
    client.get(PAWNS).await.unwrap().expect_status(200).unwrap();
    etcd.kill9(0).unwrap();

    for path in [format!("{PAWNS}/first?resourceVersion=0"), format!("{PAWNS}?resourceVersion=0")] {
        let found = client.get(&path).await.unwrap().expect_status(200).unwrap().text();
        assert!(found.contains("first"), "{found}");
    }
    let answers = tokio::join!(
        client.get(PAWNS),
        async { client.get(&format!("{PAWNS}/first")).await },
        async { client.post(PAWNS, &pawn("second")).await },
        async { client.delete(&format!("{PAWNS}/first")).await },
    );
    for answer in [answers.0, answers.1, answers.2, answers.3] {
        let answer = answer.unwrap();
        assert!(matches!(answer.status, 503 | 504), "{} {}", answer.status, answer.text());
        assert!(!answer.header("retry-after").is_empty(), "{}", answer.text());
    }
    let ready = client.get("/readyz").await.unwrap();
    assert_ne!(ready.status, 200);
    assert!(ready.text().contains("[-]storage failed"), "{}", ready.text());
    client.get("/livez").await.unwrap().expect_status(200).unwrap();

    etcd.restart(0).await.unwrap();
    // Every one of these takes its time until the server knows.
    let ready = async { while client.get("/readyz").await.unwrap().status != 200 {} };
    tokio::time::timeout(PATIENCE, ready).await.expect("ready again");
    client.get(&format!("{PAWNS}/first")).await.unwrap().expect_status(200).unwrap();
    client.post(PAWNS, &pawn("third")).await.unwrap().expect_status(201).unwrap();
    let event = watch.event().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("third")));
}

/// The etcd that is there now has never had writes that the server has reported to clients: the server says so and ends, and
/// the next one starts with the present state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_took_back_what_it_had_is_not_served_on() {
    let mut etcd = Etcd::start().await.unwrap();
    let (mut server, client) = serving(&etcd).await;
    client.post(PAWNS, &pawn("first")).await.unwrap().expect_status(201).unwrap();
    etcd.start_over().await.unwrap();
    // Whatever comes first needs a revision: a request, or the server's own work.
    let asked = client.get(PAWNS).await;
    assert!(asked.is_err() || asked.unwrap().status == 503);
    let ended = tokio::time::timeout(PATIENCE, server.ended()).await.expect("it ends").unwrap();
    let log = server.log_tail();
    assert!(!ended.success() && log.contains("was a backup restored?"), "{log}");

    server.restart().await.unwrap();
    let client = server.client_http2().unwrap();
    client.get(PAWNS).await.unwrap().expect_status(404).unwrap();
    register(&client, &crd("away.example.com", "pawns", "Pawn", "Namespaced")).await;
    client.post(PAWNS, &pawn("first")).await.unwrap().expect_status(201).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_etcd_finds_too_large_is_told_with_its_limit() {
    let etcd = EtcdOptions::default().args(&["--max-request-bytes", "60000"]).start().await.unwrap();
    let (server, client) = serving(&etcd).await;
    let with = |name: &str, bytes: usize| {
        let mut pawn = pawn(name);
        pawn["metadata"]["annotations"] = json!({"example.com/large": "x".repeat(bytes)});
        pawn
    };
    client.post(PAWNS, &with("fits", 50_000)).await.unwrap().expect_status(201).unwrap();
    // Beyond etcd's own limit, and beyond that of its transport.
    for bytes in [70_000, 200_000] {
        let answer = client.post(PAWNS, &with("large", bytes)).await;
        refused(answer, 413, "RequestEntityTooLarge", "--max-request-bytes");
    }
    client.get(&format!("{PAWNS}/large")).await.unwrap().expect_status(404).unwrap();
    let manifest = with("large", 70_000).to_string();
    let told = server.kubectl_with(&["create", "-f", "-"], &manifest).await.unwrap();
    assert!(!told.status.success() && told.stderr.contains("--max-request-bytes"), "{}", told.stderr);
}

//! The end of a server that is told to end, as its clients see it.

use kindom_integration::{Client, Server, ServerOptions};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::frames::{DATA, END_STREAM, Frames, HEADERS, goaways};
use crate::support::{crd, eventually, object, register};

const GROUP: &str = "ends.example.com";
const ENDS: &str = "/apis/ends.example.com/v1/namespaces/default/ends";

async fn start(args: &[&str]) -> (Server, Client) {
    let server = ServerOptions::default().args(args).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "ends", "End", "Namespaced")).await;
    (server, client)
}

#[tokio::test]
async fn an_idle_http2_connection_is_told_to_go_away_and_closed() {
    let (mut server, _client) = start(&[]).await;
    let mut frames = Frames::begin(server.dial_http2().await.unwrap()).await;
    frames.get(1, "/version").await;
    assert_eq!(frames.until(HEADERS).await.stream, 1);
    while frames.until(DATA).await.flags & END_STREAM == 0 {}
    server.ask_to_end().unwrap();
    let rest = frames.rest().await;
    // First that no more should come, then what came last.
    assert_eq!(goaways(&rest), [(0x7fff_ffff, 0), (1, 0)], "{rest:?}");
    assert!(server.ended().await.unwrap().success());
}

#[tokio::test]
async fn watches_end_in_order_when_the_server_ends() {
    let (mut server, client) = start(&[]).await;
    let mut over_http1 = client.watch(&format!("{ENDS}?watch=true")).await.unwrap();
    let mut frames = Frames::begin(server.dial_http2().await.unwrap()).await;
    frames.get(1, &format!("{ENDS}?watch=true")).await;
    frames.until(HEADERS).await;
    client.post(ENDS, &object(GROUP, "End", "a", json!({}))).await.unwrap().expect_status(201).unwrap();
    assert_eq!(over_http1.event().await.unwrap()["type"], "ADDED");
    assert!(String::from_utf8_lossy(&frames.until(DATA).await.payload).contains("ADDED"));
    server.ask_to_end().unwrap();
    // A body that is cut off is an error here.
    assert_eq!(over_http1.next().await.unwrap(), None);
    let rest = frames.rest().await;
    assert!(rest.iter().any(|f| f.kind == DATA && f.stream == 1 && f.flags & END_STREAM != 0), "{rest:?}");
    assert_eq!(goaways(&rest), [(0x7fff_ffff, 0), (1, 0)], "{rest:?}");
    assert!(server.ended().await.unwrap().success());
}

#[tokio::test]
async fn watches_may_end_one_after_the_other() {
    let (mut server, client) = start(&["--shutdown-watch-termination-grace-period", "10m"]).await;
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(client.watch(&format!("{ENDS}?watch=true")).await.unwrap());
    }
    server.ask_to_end().unwrap();
    for watch in &mut watches {
        assert_eq!(watch.next_in_time().await.unwrap(), None);
    }
    assert!(server.ended().await.unwrap().success());
}

#[tokio::test]
async fn readyz_fails_first_while_requests_are_still_answered() {
    let (mut server, client) = start(&["--shutdown-delay-duration", "10h"]).await;
    let path = "/readyz?verbose";
    assert!(client.get(path).await.unwrap().expect_status(200).unwrap().text().contains("[+]shutdown ok"));
    server.ask_to_end().unwrap();
    let unready = eventually("readyz fails", async || {
        let answer = client.get(path).await.unwrap();
        (answer.status == 500).then(|| answer.text())
    });
    assert!(unready.await.contains("[-]shutdown failed: reason withheld"));
    client.get("/livez").await.unwrap().expect_status(200).unwrap();
    client.get("/healthz").await.unwrap().expect_status(200).unwrap();
    // A connection that is made now is served as well.
    let late = server.client().unwrap();
    late.post(ENDS, &object(GROUP, "End", "late", json!({}))).await.unwrap().expect_status(201).unwrap();
    // Whoever does not want to wait says so again.
    server.ask_to_end().unwrap();
    assert_eq!(server.ended().await.unwrap().code(), Some(1));
}

#[tokio::test]
async fn requests_under_way_are_answered_and_new_connections_refused() {
    let (mut server, _client) = start(&[]).await;
    let address = server.address().unwrap();
    let body = object(GROUP, "End", "slow", json!({})).to_string();
    let (first, second) = body.split_at(body.len() / 2);
    let mut slow = server.dial().await.unwrap();
    let head = format!(
        "POST {ENDS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{first}",
        body.len()
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    slow.flush().await.unwrap();
    // Its head has come once it is counted: the one request beside the one that asks.
    let idle = server.client().unwrap();
    eventually("the request has begun", async || {
        let metrics = idle.get("/metrics").await.unwrap().text();
        metrics.contains("apiserver_current_inflight_requests{request_kind=\"mutating\"} 1").then_some(())
    })
    .await;
    server.ask_to_end().unwrap();
    eventually("new connections are refused", async || {
        TcpStream::connect(address).await.is_err().then_some(())
    })
    .await;
    slow.write_all(second.as_bytes()).await.unwrap();
    slow.flush().await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    let (head, _) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 201 ") && head.to_ascii_lowercase().contains("connection: close"),
        "{head}"
    );
    assert!(server.ended().await.unwrap().success());
    // It was no lie.
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    client.get(&format!("{ENDS}/slow")).await.unwrap().expect_status(200).unwrap();
}

#[tokio::test]
async fn a_peer_that_never_spoke_does_not_hold_the_end_up() {
    let (mut server, _client) = start(&[]).await;
    // One that says nothing, and one that says half a hello.
    let silent = server.dial_tcp().await.unwrap();
    let mut half = server.dial_tcp().await.unwrap();
    half.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await.unwrap();
    // One with TLS and no request, and one with half a preface of HTTP/2.
    let quiet = server.dial().await.unwrap();
    let mut preface = server.dial_http2().await.unwrap();
    preface.write_all(b"PRI * HTT").await.unwrap();
    preface.flush().await.unwrap();
    assert!(server.terminate().await.unwrap().success());
    let log = server.log_tail();
    assert!(!log.contains("cut off"), "{log}");
    drop((silent, half, quiet, preface));
}

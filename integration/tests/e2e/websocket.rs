//! Watches over WebSockets, as fabric8's informers and browsers open them (item 14). The handshake's answers are those of
//! the real server, looked at on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::StreamExt as _;
use kindom_codec::protobuf;
use kindom_integration::{Client, Server, ServerOptions, count};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::client::TlsStream;

use crate::host::Behind;
use crate::protobuf::opened;
use crate::support::{crd, object, register};

const GROUP: &str = "ws.example.com";
const BUGS: &str = "/apis/ws.example.com/v1/namespaces/default/bugs";

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

async fn start(options: ServerOptions) -> (Server, Client) {
    let server = options.start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "bugs", "Bug", "Namespaced")).await;
    (server, client)
}

async fn create(client: &Client, name: &str) -> Value {
    let body = object(GROUP, "Bug", name, json!({"note": "kept"}));
    client.post(BUGS, &body).await.unwrap().expect_status(201).unwrap().json()
}

/// A connection on which a WebSocket was asked for: the head of the answer, and what came behind it.
struct Socket<S> {
    stream: S,
    status: u16,
    head: String,
    received: Vec<u8>,
}

/// Asks for a WebSocket. What `changes` names is set instead of, or beside, what a client sends; empty ones are left out.
async fn dial<S>(mut stream: S, path: &str, changes: &[(&str, &str)]) -> Socket<S>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut headers = vec![
        ("Host", "x"),
        ("Upgrade", "websocket"),
        ("Connection", "keep-alive, Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Origin", "https://example.com"),
    ];
    for change in changes {
        headers.retain(|(name, _)| name != &change.0);
        headers.push(*change);
    }
    let lines: Vec<String> =
        headers.iter().filter(|(_, v)| !v.is_empty()).map(|(n, v)| format!("{n}: {v}\r\n")).collect();
    stream.write_all(format!("GET {path} HTTP/1.1\r\n{}\r\n", lines.concat()).as_bytes()).await.unwrap();
    let mut received = Vec::new();
    loop {
        if let Some(at) = received.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&received[..at]).to_lowercase();
            let status = head.split(' ').nth(1).unwrap().parse().unwrap();
            return Socket { stream, status, head, received: received.split_off(at + 4) };
        }
        assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0, "closed in the head");
    }
}

/// A frame as clients send it.
fn frame(code: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | code];
    match payload.len() {
        n @ 0..126 => out.push(0x80 | u8::try_from(n).unwrap()),
        n => {
            out.push(0x80 | 127);
            out.extend((n as u64).to_be_bytes());
        }
    }
    out.extend(b"mask");
    out.extend(payload.iter().zip(b"mask".iter().cycle()).map(|(a, b)| a ^ b));
    out
}

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> Socket<S> {
    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next frame: its code and its payload. None where the connection ends.
    async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            if let Some(frame) = self.whole() {
                return Some(frame);
            }
            match self.stream.read_buf(&mut self.received).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    fn whole(&mut self) -> Option<(u8, Vec<u8>)> {
        let [first, second, rest @ ..] = self.received.as_slice() else { return None };
        assert_eq!(first & 0xf0, 0x80, "a whole frame, without extensions");
        assert_eq!(second & 0x80, 0, "servers do not mask");
        let (length, rest) = match second {
            126 => rest.split_first_chunk().map(|(n, rest)| (usize::from(u16::from_be_bytes(*n)), rest))?,
            127 => rest
                .split_first_chunk()
                .map(|(n, rest)| (usize::try_from(u64::from_be_bytes(*n)).unwrap(), rest))?,
            n => (usize::from(*n), rest),
        };
        let payload = rest.get(..length)?.to_vec();
        let frame = (first & 0xf, payload);
        let used = self.received.len() - rest.len() + length;
        self.received.drain(..used);
        Some(frame)
    }

    /// The next event, in a text frame that ends its line.
    async fn event(&mut self) -> Value {
        let (code, payload) = self.next().await.expect("an event");
        assert_eq!(code, TEXT, "{:?}", String::from_utf8_lossy(&payload));
        assert_eq!(payload.last(), Some(&b'\n'));
        serde_json::from_slice(&payload).unwrap()
    }

    /// A close frame with this code is next, and then the end.
    async fn closes(mut self, code: u16) {
        loop {
            match self.next().await {
                Some((CLOSE, payload)) => {
                    assert_eq!(payload, code.to_be_bytes());
                    assert_eq!(self.next().await, None);
                    return;
                }
                Some((TEXT | PONG, _)) => {}
                other => panic!("{other:?} instead of a close"),
            }
        }
    }
}

async fn open(server: &Server, path: &str) -> Socket<TlsStream<tokio::net::TcpStream>> {
    let socket = dial(server.dial().await.unwrap(), path, &[]).await;
    assert_eq!(socket.status, 101, "{}", socket.head);
    socket
}

#[tokio::test]
async fn a_watch_is_one_event_a_text_frame() {
    let (server, client) = start(ServerOptions::default()).await;
    create(&client, "before").await;
    let mut socket = open(&server, &format!("{BUGS}?watch=true&resourceVersion=0")).await;
    // The key's answer is the example of RFC 6455.
    for line in ["upgrade: websocket", "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="] {
        assert!(socket.head.contains(line), "{}", socket.head);
    }
    assert!(!socket.head.contains("sec-websocket-protocol"), "{}", socket.head);
    let added = socket.event().await;
    assert_eq!(
        (added["type"].as_str(), &added["object"]["metadata"]["name"]),
        (Some("ADDED"), &json!("before"))
    );
    create(&client, "after").await;
    assert_eq!(socket.event().await["object"]["metadata"]["name"], "after");
    // What is larger than a short frame, and than 64 KiB.
    for size in [200, 100_000] {
        let patch = json!({"spec": {"note": "x".repeat(size)}});
        client.merge_patch(&format!("{BUGS}/after"), &patch).await.unwrap().expect_status(200).unwrap();
        let event = socket.event().await;
        assert_eq!(event["type"], "MODIFIED");
        assert_eq!(event["object"]["spec"]["note"].as_str().unwrap().len(), size);
    }
    // Pings are answered, all else is dropped, a close is answered and ends it.
    socket.send(&[frame(TEXT, b"hello"), frame(PING, b"there"), frame(BINARY, b"")].concat()).await;
    assert_eq!(socket.next().await, Some((PONG, b"there".to_vec())));
    client.delete(&format!("{BUGS}/after")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(socket.event().await["type"], "DELETED");
    socket.send(&frame(CLOSE, &1000_u16.to_be_bytes())).await;
    socket.closes(1000).await;

    // The other forms of a watch: bookmarks that end the initial events, tables, protobuf in binary frames.
    let initial =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut socket = open(&server, &format!("{BUGS}?{initial}")).await;
    assert_eq!(socket.event().await["type"], "ADDED");
    let bookmark = socket.event().await;
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let path = format!("{BUGS}?watch=true&resourceVersion=0");
    let table = [("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let mut socket = dial(server.dial().await.unwrap(), &path, &table).await;
    assert_eq!(socket.event().await["object"]["rows"][0]["cells"][0], "before");
    let metadata =
        [("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")];
    let mut socket = dial(server.dial().await.unwrap(), &path, &metadata).await;
    let (code, event) = socket.next().await.unwrap();
    assert_eq!(code, BINARY);
    let (kind, object) = opened(&event);
    assert_eq!(kind, "ADDED");
    let meta = protobuf::message("meta.k8s.io/v1", "PartialObjectMetadata").unwrap();
    let object = protobuf::decode(&object, meta).unwrap();
    assert_eq!(object.at(&["metadata", "name"]).and_then(kindom_api::Value::as_str), Some("before"));
}

/// The aggregator passes an upgrade on by a connection of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_goes_through_the_host() {
    let Some(behind) = Behind::unknown(ServerOptions::default()).await else { return };
    register(&behind.server.client().unwrap(), &crd(GROUP, "bugs", "Bug", "Namespaced")).await;
    behind.publish().await;
    let client = behind.host.admin().unwrap();
    create(&client, "before").await;
    let path = format!("{BUGS}?watch=true&resourceVersion=0");
    let jane = behind.host.dial("jane", None).await.unwrap();
    assert_eq!(dial(jane, &path, &[]).await.status, 403);
    let stream = behind.host.dial("admin", Some("system:masters")).await.unwrap();
    let mut socket = dial(stream, &path, &[]).await;
    assert_eq!(socket.status, 101, "{}", socket.head);
    assert_eq!(socket.event().await["object"]["metadata"]["name"], "before");
    create(&client, "after").await;
    assert_eq!(socket.event().await["object"]["metadata"]["name"], "after");
    socket.send(&frame(CLOSE, &1000_u16.to_be_bytes())).await;
    socket.closes(1000).await;
}

#[tokio::test]
async fn watches_end_as_they_do_in_chunks() {
    let (mut server, client) = start(ServerOptions::default()).await;
    create(&client, "one").await;
    open(&server, &format!("{BUGS}?watch=true&timeoutSeconds=1")).await.closes(1000).await;
    // A type that goes: the last event says so.
    let mut socket = open(&server, &format!("{BUGS}?watch=true")).await;
    let registration = format!("{}/bugs.{GROUP}", crate::support::CRDS);
    client.delete(&registration).await.unwrap().expect_status(200).unwrap();
    loop {
        let event = socket.event().await;
        if event["type"] == "ERROR" {
            assert_eq!(event["object"]["reason"], "Expired");
            break;
        }
    }
    socket.closes(1000).await;
    // A server that stops.
    let socket = open(&server, &format!("{}?watch=true", crate::support::CRDS)).await;
    let ended = tokio::spawn(socket.closes(1000));
    assert!(server.terminate().await.unwrap().success());
    ended.await.unwrap();
}

#[tokio::test]
async fn handshakes_are_answered_as_upstream_does() {
    let (server, _client) = start(ServerOptions::default()).await;
    let watch = format!("{BUGS}?watch=true&timeoutSeconds=1");
    let ask = async |changes: &[(&str, &str)]| dial(server.dial().await.unwrap(), &watch, changes).await;
    // One subprotocol is taken whatever it is; of several none is chosen.
    for protocol in ["base64.binary.k8s.io", "binary.k8s.io", "anything"] {
        let socket = ask(&[("Sec-WebSocket-Protocol", protocol)]).await;
        assert_eq!(socket.status, 101, "{}", socket.head);
        assert!(socket.head.contains(&format!("sec-websocket-protocol: {protocol}")), "{}", socket.head);
    }
    for (changes, code) in [
        (("Sec-WebSocket-Protocol", "a, b"), 400),
        (("Sec-WebSocket-Version", "12"), 400),
        (("Sec-WebSocket-Version", ""), 400),
        (("Sec-WebSocket-Key", ""), 400),
        (("Origin", ""), 403),
        (("Origin", "null"), 403),
        // No handshake at all: a watch in chunks.
        (("Connection", "keep-alive"), 200),
        (("Upgrade", "h2c"), 200),
        (("Upgrade", ""), 200),
    ] {
        let socket = ask(&[changes]).await;
        assert_eq!(socket.status, code, "{changes:?} {}", socket.head);
    }
    let version = ask(&[("Sec-WebSocket-Version", "12")]).await;
    assert!(version.head.contains("sec-websocket-version: 13"), "{}", version.head);
    // What is wrong with the watch is said before, as to anybody; and what is none is none.
    for (path, code) in [
        (format!("{BUGS}?watch=true&resourceVersion=x"), 500),
        (format!("{BUGS}?watch=true&fieldSelector=a%3Db"), 400),
        ("/apis/ws.example.com/v1/nothing?watch=true".to_owned(), 404),
        (BUGS.to_owned(), 200),
        ("/version".to_owned(), 200),
    ] {
        let socket = dial(server.dial().await.unwrap(), &path, &[]).await;
        assert_eq!(socket.status, code, "{path} {}", socket.head);
    }
}

#[tokio::test]
async fn a_token_may_be_a_subprotocol() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "secret,alice,1,\n").unwrap();
    let (server, _client) =
        start(ServerOptions::default().args(&["--token-auth-file", tokens.to_str().unwrap()])).await;
    let watch = format!("{BUGS}?watch=true&timeoutSeconds=1");
    let token =
        |secret: &str| format!("base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode(secret));
    let ask = async |protocols: &str| {
        let stream = server.dial_anonymous().await.unwrap();
        dial(stream, &watch, &[("Sec-WebSocket-Protocol", protocols)]).await
    };
    let (right, wrong) = (token("secret"), token("other"));
    let socket = ask(&format!("{right}, base64.binary.k8s.io")).await;
    assert_eq!(socket.status, 101, "{}", socket.head);
    assert!(
        socket.head.ends_with("sec-websocket-protocol: base64.binary.k8s.io")
            || socket.head.contains("sec-websocket-protocol: base64.binary.k8s.io\r\n"),
        "{}",
        socket.head
    );
    assert!(!socket.head.contains("bearer"), "the token is not sent back: {}", socket.head);
    for protocols in [
        format!("{wrong}, a"),
        // Alone, malformed, twice.
        right.clone(),
        format!("{right}!, a"),
        format!("{right}, {right}, a"),
        // None: who is nobody may not watch.
        String::new(),
    ] {
        let code = ask(&protocols).await.status;
        assert!(code == 401 || (protocols.is_empty() && code == 403), "{protocols}: {code}");
    }
    // Two beside the token: upstream chooses none.
    assert_eq!(ask(&format!("{right}, a, b")).await.status, 400);
    // The admin's certificate comes first, and so the token is a second subprotocol.
    let stream = server.dial().await.unwrap();
    let offers = format!("{right}, a");
    assert_eq!(dial(stream, &watch, &[("Sec-WebSocket-Protocol", &offers)]).await.status, 400);
}

#[tokio::test]
async fn malformed_and_oversized_frames_close_it() {
    let (server, client) = start(ServerOptions::default()).await;
    let watch = format!("{BUGS}?watch=true");
    let unmasked = b"\x81\x02hi".to_vec();
    let huge_head = [&[0x82, 0xff][..], &u64::MAX.to_be_bytes(), b"mask"].concat();
    let long_ping = frame(PING, &[b'x'; 200]);
    for (what, bytes, code) in [
        ("unmasked", unmasked, 1002),
        ("reserved code", frame(3, b"x"), 1002),
        ("a length of 2^64-1", huge_head, 1002),
        ("a ping of 200 bytes", long_ping, 1002),
    ] {
        let mut socket = open(&server, &watch).await;
        socket.send(&bytes).await;
        println!("{what}");
        socket.closes(code).await;
    }
    // A frame of 1 GiB that never ends is not waited for; nor is one that is whole and too long.
    let (mut tried, mut cut) = (0, 0);
    for length in [1_u64 << 30, 100_000] {
        let mut socket = open(&server, &watch).await;
        let head = [&[0x82, 0xff][..], &length.to_be_bytes(), b"mask"].concat();
        socket.send(&head).await;
        // The server may be gone before all is written.
        cut += usize::from(socket.stream.write_all(&vec![0; 100_000]).await.is_err());
        tried += 1;
        let (code, payload) = socket.next().await.unwrap();
        assert_eq!(code, CLOSE);
        assert!([1002_u16, 1009].map(u16::to_be_bytes).contains(&[payload[0], payload[1]]), "{payload:?}");
    }
    println!("{cut} of {tried} writes were cut off");
    assert_eq!(tried, 2);
    // Frames in bits and pieces, and many at once, are as good as any.
    let mut socket = open(&server, &watch).await;
    for byte in frame(PING, b"slow") {
        socket.send(&[byte]).await;
    }
    assert_eq!(socket.next().await, Some((PONG, b"slow".to_vec())));
    let pings = count(1_000, 20_000);
    let all: Vec<u8> =
        (0..pings).flat_map(|i| frame(PING, &u64::try_from(i).unwrap().to_be_bytes())).collect();
    socket.send(&all).await;
    for i in 0..pings {
        assert_eq!(socket.next().await, Some((PONG, u64::try_from(i).unwrap().to_be_bytes().to_vec())));
    }
    create(&client, "after").await;
    assert_eq!(socket.event().await["type"], "ADDED");
    // Gone without a word.
    drop(socket);
    create(&client, "later").await;
}

/// Back-pressure is as with chunks: nothing is kept for who does not read, and nobody waits for him.
#[tokio::test]
async fn who_does_not_read_is_not_waited_for() {
    let (server, client) = start(ServerOptions::default()).await;
    let mut stalled = Vec::new();
    for _ in 0..8 {
        let stream = server.dial_holding(4096).await.unwrap();
        let mut socket = dial(stream, &format!("{BUGS}?watch=true"), &[]).await;
        assert_eq!(socket.status, 101);
        // Some ask to be answered beside.
        socket.send(&frame(PING, b"x").repeat(1_000)).await;
        stalled.push(socket);
    }
    let mut reader = open(&server, &format!("{BUGS}?watch=true")).await;
    create(&client, "busy").await;
    assert_eq!(reader.event().await["type"], "ADDED");
    let note = "x".repeat(100_000);
    for i in 0..count(200, 2_000) {
        let patch = json!({"spec": {"note": format!("{i} {note}")}});
        client.merge_patch(&format!("{BUGS}/busy"), &patch).await.unwrap().expect_status(200).unwrap();
        assert_eq!(reader.event().await["type"], "MODIFIED");
    }
    let held = server.memory_bytes().unwrap();
    assert!(held < 512 * 1024 * 1024, "{held} bytes for stalled watchers");
    drop(stalled);
    create(&client, "after").await;
}

/// Opened and closed in every way, thousands of times: nothing is left of them.
#[tokio::test]
async fn opens_and_closes_leave_nothing_behind() {
    let (server, client) = start(ServerOptions::default()).await;
    create(&client, "one").await;
    let watching = async || {
        let text = client.get("/metrics").await.unwrap().text();
        let line = text.lines().find(|line| {
            line.starts_with("apiserver_longrunning_requests{") && line.contains("resource=\"bugs\"")
        });
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let rounds = count(200, 4_000);
    let server = &server;
    let round = async |round: usize| {
        let mut socket = open(server, &format!("{BUGS}?watch=true&resourceVersion=0")).await;
        match round % 4 {
            0 => drop(socket),
            1 => {
                socket.event().await;
                socket.send(&frame(CLOSE, b"")).await;
                socket.closes(1000).await;
            }
            2 => {
                socket.send(b"\x81\x02hi").await;
                socket.closes(1002).await;
            }
            _ => {
                socket.send(&frame(PING, b"")[..3]).await;
                drop(socket);
            }
        }
    };
    // After its close frame the server gives a client a second to go first, and so these wait together.
    futures::stream::iter(0..rounds).for_each_concurrent(8, round).await;
    // The server sees the last of them go when it reads: an event is how it tries to write.
    let mut i = 0;
    while watching().await > 0 {
        i += 1;
        assert!(i < 1_000, "{} watches are left", watching().await);
        let patch = json!({"spec": {"note": i.to_string()}});
        client.merge_patch(&format!("{BUGS}/one"), &patch).await.unwrap().expect_status(200).unwrap();
    }
}

/// actix-http takes what follows such a head for a body without an end; the body has the length that it says.
#[tokio::test]
async fn a_body_beside_an_upgrade_ends_where_it_says() {
    let (server, client) = start(ServerOptions::default()).await;
    let body = object(GROUP, "Bug", "beside", json!({})).to_string();
    // It does so in HTTP/1.0 too, whatever else is upgraded to, and if the connection is not to be upgraded at all.
    for (version, upgrade) in [
        ("1.1", "Connection: Upgrade\r\nUpgrade: websocket"),
        ("1.1", "Upgrade: h2c\r\nUpgrade: WebSocket"),
        ("1.1", "Connection: close\r\nUpgrade: websocket"),
        ("1.0", "Connection: Upgrade\r\nUpgrade: websocket"),
    ] {
        for (method, path, body, code) in
            [("POST", BUGS.to_owned(), body.as_str(), "201"), ("DELETE", format!("{BUGS}/beside"), "", "200")]
        {
            let mut stream = server.dial().await.unwrap();
            let head = format!(
                "{method} {path} HTTP/{version}\r\nHost: x\r\n{upgrade}\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}and more",
                body.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = vec![0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/{version} {code}"), "{upgrade}");
        }
    }
    create(&client, "after").await;
}

/// Chunks are unknown to HTTP/1.0, and actix-http sends none where a WebSocket was named.
#[tokio::test]
async fn a_watch_without_chunks_ends_with_its_connection() {
    let (server, client) = start(ServerOptions::default()).await;
    create(&client, "a").await;
    for (version, more) in [("1.0", "X: y"), ("1.0", "Connection: keep-alive"), ("1.1", "Upgrade: websocket")]
    {
        let mut stream = server.dial().await.unwrap();
        let head =
            format!("GET {BUGS}?watch=true&timeoutSeconds=1 HTTP/{version}\r\nHost: x\r\n{more}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with(&format!("HTTP/{version} 200")) && !head.contains("chunked"),
            "{more}: {head}"
        );
        let event: Value = serde_json::from_str(body).unwrap();
        assert_eq!(event["object"]["metadata"]["name"], "a", "{more}");
    }
}

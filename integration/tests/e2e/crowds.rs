//! Connections that want more than their share: of streams, of headers, of places, of patience.

use kindom_integration::{Server, ServerOptions, count};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, RST_STREAM, SETTINGS,
};
use crate::support::{crd, eventually, object, register};

const GROUP: &str = "crowds.example.com";
const ONES: &str = "/apis/crowds.example.com/v1/namespaces/default/ones";
const MIB: u64 = 1024 * 1024;

async fn start(args: &[&str]) -> Server {
    let server = ServerOptions::default().args(args).start().await.unwrap();
    register(&server.client().unwrap(), &crd(GROUP, "ones", "One", "Namespaced")).await;
    server
}

/// `:status` 200 and 431, in HPACK: by the table, and in Huffman's code.
const OK: &[u8] = &[0x88];
const TOO_LARGE: &[u8] = &[0x48, 0x83, 0x69, 0x90, 0xff];

/// A header block of so many headers with different names.
fn headers(range: std::ops::Range<usize>) -> Vec<u8> {
    let mut block = Vec::new();
    for n in range {
        let name = format!("x{n:06x}");
        // A literal without indexing, with a new name and no value.
        block.extend([0, u8::try_from(name.len()).unwrap()]);
        block.extend(name.as_bytes());
        block.push(0);
    }
    block
}

#[tokio::test]
async fn a_connection_has_so_many_streams() {
    let server = start(&[]).await;
    let mut frames = Frames::begin(server.dial_http2().await.unwrap()).await;
    for n in 0..150 {
        frames.get(2 * n + 1, &format!("{ONES}?watch=true")).await;
    }
    let (mut begun, mut refused) = (0, 0);
    while begun + refused < 150 {
        let frame = frames.next().await.expect("the connection goes on");
        match frame.kind {
            HEADERS => begun += 1,
            // REFUSED_STREAM: the client may send it again.
            RST_STREAM => {
                assert_eq!(frame.payload, [0, 0, 0, 7]);
                refused += 1;
            }
            _ => {}
        }
    }
    assert_eq!((begun, refused), (100, 50));
    let server = start(&["--http2-max-streams-per-connection", "3"]).await;
    let mut frames = Frames::begin(server.dial_http2().await.unwrap()).await;
    for n in 0..4 {
        frames.get(2 * n + 1, &format!("{ONES}?watch=true")).await;
    }
    assert_eq!(frames.until(RST_STREAM).await.stream, 7);
}

/// 40,000 headers were a panic in the map that holds them.
#[tokio::test]
async fn very_many_headers_are_431() {
    let server = start(&[]).await;
    for (many, code) in [(10_000, OK), (24_576, TOO_LARGE), (24_577, TOO_LARGE), (40_000, TOO_LARGE)] {
        let mut frames = Frames::begin(server.dial_http2().await.unwrap()).await;
        let mut block = vec![0x82, 0x87, 0x01, 1, b'h', 0x04, 8];
        block.extend(b"/version");
        block.extend(headers(0..many));
        let mut pieces = block.chunks(16_384).peekable();
        frames.write(HEADERS, END_STREAM, 1, pieces.next().unwrap()).await;
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_none() { END_HEADERS } else { 0 };
            frames.write(CONTINUATION, flags, 1, piece).await;
        }
        let head = frames.until(HEADERS).await;
        assert!(head.payload.starts_with(code), "{many}: {head:?}");
        frames.get(3, "/version").await;
        assert_eq!(frames.until(HEADERS).await.stream, 3, "the connection goes on");
    }
    let log = std::fs::read_to_string(server.log_path()).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

/// A header block that does not end holds a bounded part of memory, and then its connection ends.
#[tokio::test]
async fn a_header_block_without_an_end_is_bounded() {
    let server = start(&[]).await;
    let before = server.memory_bytes().unwrap();
    let mut held = Vec::new();
    for _ in 0..count(10, 40) {
        let mut frames = Frames::begin(server.dial_http2().await.unwrap()).await;
        frames.write(HEADERS, END_STREAM, 1, &[0x82, 0x87]).await;
        // A name of 16,000 bytes whose value never comes whole: 15 MiB, if somebody takes them.
        let mut taken = 0_u64;
        let piece = vec![0; 16_000];
        while taken < 15 * MIB && frames.try_write(CONTINUATION, 0, 1, &piece).await {
            taken += piece.len() as u64;
        }
        assert!(taken < 15 * MIB, "all of it was taken");
        held.push(frames);
    }
    let after = server.memory_bytes().unwrap();
    println!("{} KiB for {} connections", after.saturating_sub(before) / 1024, held.len());
    assert!(after.saturating_sub(before) < held.len() as u64 * 2 * MIB + 32 * MIB, "{before} to {after}");
    server.client().unwrap().get("/livez").await.unwrap().expect_status(200).unwrap();
}

/// A byte of a header block may stand for a whole header: what a few bytes become is held for few requests at a time.
#[tokio::test]
async fn many_headers_of_few_bytes_are_held_for_few_requests() {
    let server = start(&[]).await;
    // Without the bounds, the full count takes 170 MiB; those of `http2`'s own tests are exact.
    let (connections, streams) = (4, u32::try_from(count(3, 40)).unwrap());
    let mut begun = Vec::new();
    for _ in 0..connections {
        let mut frames = Frames::begin(server.dial_http2().await.unwrap()).await;
        // The server gives a connection little time to begin, and is busy once the others attack.
        frames.until(SETTINGS).await;
        begun.push(frames);
    }
    let mut attackers = tokio::task::JoinSet::new();
    for mut frames in begun {
        attackers.spawn(async move {
            // `x: y` enters the table that both sides keep; from then on a byte names it.
            let mut block = vec![0x82, 0x87, 0x01, 1, b'h', 0x04, 6];
            block.extend(b"/livez");
            block.extend([0x40, 1, b'x', 1, b'y']);
            block.extend([0xbe; 22_000]);
            for n in 0..streams {
                let (first, rest) = block.split_at(16_000);
                frames.write(HEADERS, END_STREAM, 2 * n + 1, first).await;
                frames.write(CONTINUATION, END_HEADERS, 2 * n + 1, rest).await;
            }
            for _ in 0..streams {
                let head = frames.until(HEADERS).await;
                assert!(head.payload.starts_with(OK), "{head:?}");
            }
        });
    }
    while let Some(attacker) = attackers.join_next().await {
        attacker.unwrap();
    }
    let peak = server.peak_memory_bytes().unwrap();
    println!("{} MiB at the peak, {connections} connections", peak / MIB);
    assert!(peak < 128 * MIB, "{peak}");
}

/// Those who say nothing do not keep others out: the oldest of them leaves.
#[tokio::test]
async fn silent_connections_make_room() {
    let server = start(&[]).await;
    let mut silent = Vec::new();
    for _ in 0..count(600, 6_000) {
        silent.push(server.dial_tcp().await.unwrap());
        if silent.len() % 200 == 0 {
            server.client().unwrap().get("/livez").await.unwrap().expect_status(200).unwrap();
        }
    }
    // Their time for a handshake is bounded too.
    for mut connection in silent {
        let mut rest = Vec::new();
        let _ = connection.read_to_end(&mut rest).await;
    }
}

/// With few descriptors the idlest connection goes, not the newest comer, and never one with a request under way.
#[tokio::test]
async fn the_idlest_connection_makes_room() {
    let limited = ["sh", "-c", "ulimit -n 256; exec \"$@\"", "sh"].map(str::to_owned);
    let server = ServerOptions::default().launcher(&limited).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "ones", "One", "Namespaced")).await;
    let mut watch = server.client().unwrap().watch(&format!("{ONES}?watch=true")).await.unwrap();
    let mut idle = Vec::new();
    for n in 0..400 {
        // Each asks once and stays.
        let mut connection = server.dial().await.unwrap();
        connection.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        connection.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200", "connection {n}");
        idle.push(connection);
    }
    let one = object(GROUP, "One", "one", json!({}));
    server.client().unwrap().post(ONES, &one).await.unwrap().expect_status(201).unwrap();
    assert_eq!(watch.event().await.unwrap()["type"], "ADDED", "the watch was never idle");
    let mut rest = Vec::new();
    let _ = idle.remove(0).read_to_end(&mut rest).await;
}

#[tokio::test]
async fn an_address_has_its_connections() {
    let server =
        ServerOptions::default().args(&["--max-connections-per-address", "3"]).start().await.unwrap();
    let connect = async || server.dial().await.ok();
    let mut open = Vec::new();
    while let Some(connection) = connect().await {
        open.push(connection);
        assert!(open.len() <= 3, "all come from one address");
    }
    drop(open.pop());
    let again = eventually("the place to be free", connect).await;
    drop((open, again));
}

/// A stream without a window holds its answer for a bounded time; `paced` has the tests in virtual time.
#[tokio::test]
async fn a_stream_without_a_window_is_given_up() {
    let server = start(&[]).await;
    let mut frames = Frames::begin_without_window(server.dial_http2().await.unwrap()).await;
    frames.get(1, "/openapi/v2").await;
    assert_eq!(frames.until(HEADERS).await.stream, 1);
    // The server waits for 30 seconds.
    let end = loop {
        let frame = frames.next().await.expect("the connection goes on");
        assert_ne!(frame.kind, DATA, "there is no window");
        if [RST_STREAM, GOAWAY].contains(&frame.kind) {
            break frame;
        }
    };
    assert_eq!((end.kind, end.stream), (RST_STREAM, 1));
    assert!(std::fs::read_to_string(server.log_path()).unwrap().contains("an answer is given up"));
}

/// Clients that ask for much and take nothing hold a little of it each: what is made follows what is taken.
#[tokio::test]
async fn answers_that_nobody_takes_are_not_made() {
    let server = start(&[]).await;
    let client = server.client().unwrap();
    let large = "x".repeat(512 * 1024);
    for n in 0..count(64, 200) {
        let one = object(GROUP, "One", &format!("one-{n}"), json!({"note": large}));
        client.post(ONES, &one).await.unwrap().expect_status(201).unwrap();
    }
    let before = server.memory_bytes().unwrap();
    let mut stalled = Vec::new();
    for path in [
        ONES.to_owned(),
        format!("{ONES}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
    ] {
        for _ in 0..10 {
            let mut connection = server.dial_holding(4096).await.unwrap();
            let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
            connection.write_all(head.as_bytes()).await.unwrap();
            let mut answer = [0; 1024];
            connection.read_exact(&mut answer).await.unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
            stalled.push(connection);
        }
    }
    // They are served further, as far as they take it.
    for _ in 0..50 {
        client.get("/livez").await.unwrap().expect_status(200).unwrap();
    }
    let held = server.memory_bytes().unwrap().saturating_sub(before);
    println!("{} MiB for {} readers of {} MiB", held / MIB, stalled.len(), count(32, 100));
    assert!(held < stalled.len() as u64 * 3 * MIB + 32 * MIB, "{held} bytes");
}

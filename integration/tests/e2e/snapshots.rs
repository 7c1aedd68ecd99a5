//! `kindom snapshot`: saved from a server that goes on, checked, restored, and copied.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::StreamExt as _;
use kindom_integration::{Client, Etcd, Output, Server, ServerOptions, count, tools};
use kindom_storage::snapshot::{Encoder, Header};
use kindom_storage::{Area, Key, KeyRange, KeyValue, Revision, Storage as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{CRDS, crd, kindom, names, namespace, object, refused, register, revision};

const GROUP: &str = "snap.example.com";
const SHIPS: &str = "/apis/snap.example.com/v1/namespaces/default/ships";

fn ship(name: &str, spec: Value) -> Value {
    object(GROUP, "Ship", name, spec)
}

async fn started() -> (Server, Client) {
    ships(ServerOptions::default().quiet().start().await.unwrap()).await
}

/// For tests of the folder: there is none on etcd.
async fn started_on_a_folder() -> (Server, Client) {
    ships(ServerOptions::default().quiet().embedded().start().await.unwrap()).await
}

async fn ships(server: Server) -> (Server, Client) {
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "ships", "Ship", "Namespaced")).await;
    (server, client)
}

async fn fill(client: &Client, ships: usize) {
    for n in 0..ships {
        let ship = ship(&format!("ship-{n:04}"), json!({"note": "x".repeat(n % 50)}));
        client.post(SHIPS, &ship).await.unwrap().expect_status(201).unwrap();
    }
}

async fn snapshot(server: &Server, args: &[&str]) -> Output {
    kindom(server, &[&["snapshot"], args].concat(), "").await
}

async fn told(server: &Server, args: &[&str]) -> String {
    snapshot(server, args).await.success().unwrap()
}

async fn refusal(server: &Server, args: &[&str], why: &str) {
    let out = snapshot(server, args).await;
    let said = format!("{} → {} {}", out.what, out.stdout, out.stderr);
    assert!(!out.status.success() && out.stderr.contains(why), "no {why:?} in {said}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The revision that `kindom snapshot` tells.
fn told_revision(told: &str) -> u64 {
    let (_, rest) = told.split_once("revision ").unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

/// Everything that is served of some collections, as of a revision.
async fn all(client: &Client, at: Option<u64>) -> Vec<Value> {
    let mut all = Vec::new();
    for path in [SHIPS, CRDS, "/api/v1/namespaces"] {
        let at = at.map(|at| format!("?resourceVersion={at}&resourceVersionMatch=Exact")).unwrap_or_default();
        let list = client.get(&format!("{path}{at}")).await.unwrap().expect_status(200).unwrap().json();
        all.extend(list["items"].as_array().unwrap().clone());
    }
    all
}

/// Saves while clients write, and history is compacted; what is restored is what was there at the revision that the file
/// is of, with the resourceVersions that it had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_under_load_is_one_revision_and_is_served_again() {
    let (server, client) = started().await;
    namespace(&client, "harbour").await;
    fill(&client, count(300, 20_000)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut n = 0_usize;
                while !stop.load(Ordering::Relaxed) {
                    let name = format!("busy-{writer}-{}", n % 7);
                    let path = format!("{SHIPS}/{name}");
                    let answer = match n % 3 {
                        0 => client.post(SHIPS, &ship(&name, json!({}))).await,
                        1 => client.merge_patch(&path, &json!({"spec": {"note": format!("{n}")}})).await,
                        _ => client.delete(&path).await,
                    };
                    answer.unwrap();
                    n += 1;
                }
                n
            })
        })
        .collect();
    let file = server.scratch().join("a.snapshot");
    let mut saved = String::new();
    for _ in 0..count(3, 10) {
        saved = told(&server, &["save", text(&file)]).await;
        assert!(saved.starts_with(&format!("saved {}: revision ", text(&file))), "{saved}");
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(writer.await.unwrap() > 0);
    }
    let at = told_revision(&saved);
    let before = all(&client, Some(at)).await;
    assert!(before.len() > count(300, 20_000));
    let checked = told(&server, &["verify", text(&file)]).await;
    assert_eq!(told_revision(&checked), at);
    assert!(!file.with_file_name("a.snapshot.partial").exists());

    let folder = server.scratch().join("again");
    let restored = told(&server, &["restore", text(&file), "--data-dir", text(&folder)]).await;
    let contents = |told: &str| told.trim().rsplit("sha256:").next().unwrap().to_owned();
    assert_eq!((told_revision(&restored), contents(&restored)), (at, contents(&saved)));
    // All that clients keep to themselves is in there.
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(&folder), mode(&folder.join("store"))), (0o600, 0o700, 0o700));
    let again = ServerOptions::default().quiet().data_dir(&folder).start().await.unwrap();
    let other = again.client().unwrap();
    assert_eq!(all(&other, None).await, before);
    let listed = again.kubectl(&["get", "ships", "-o", "name"]).await.unwrap();
    let ships = before.iter().filter(|object| object["kind"] == "Ship").count();
    assert_eq!(listed.lines().count(), ships);

    // It goes on from there: revisions never go back, and names are held as they were.
    let new = other.post(SHIPS, &ship("new", json!({}))).await.unwrap().expect_status(201).unwrap().json();
    assert!(revision(&new) > at);
    let rival = crd(GROUP, "ships2", "Ship", "Namespaced");
    other.post(CRDS, &rival).await.unwrap().expect_status(201).unwrap();
    let rival = crate::support::condition(&other, "ships2.snap.example.com", "NamesAccepted", "False").await;
    assert_eq!(rival["status"]["acceptedNames"]["kind"], "");
}

/// Nothing is made of what is damaged, and nothing is made where something is.
#[tokio::test]
async fn what_is_wrong_is_told_and_leaves_all_as_it_was() {
    let (mut server, client) = started_on_a_folder().await;
    fill(&client, 20).await;
    let scratch = server.scratch().to_owned();
    let file = scratch.join("a.snapshot");
    told(&server, &["save", text(&file)]).await;
    let whole = std::fs::read(&file).unwrap();
    let damaged = scratch.join("damaged.snapshot");
    let target = scratch.join("target");
    let in_a_ship = whole.windows(9).position(|bytes| bytes == b"ship-0007").unwrap();
    for (bytes, why) in [
        (
            [&whole[..in_a_ship], b"S", &whole[in_a_ship + 1..]].concat(),
            "Ship-0007 or its value has a wrong checksum",
        ),
        (whole[..whole.len() / 2].to_vec(), "the file is cut off here"),
        ([&whole[..], b"\n"].concat(), "something follows the end"),
        (b"apiVersion: v1\nkind: List\n".to_vec(), "this is no snapshot"),
    ] {
        std::fs::write(&damaged, bytes).unwrap();
        refusal(&server, &["verify", text(&damaged)], why).await;
        refusal(&server, &["restore", text(&damaged), "--data-dir", text(&target)], why).await;
        assert!(!target.exists());
    }

    // What can be read once only is no file to restore.
    let pipe = ["restore", "/dev/stdin", "--data-dir", text(&target)];
    refusal(&server, &pipe, "not a pipe").await;
    assert!(!target.exists());

    // Two that save to one name would mix.
    let partial = std::fs::File::create(scratch.join("twice.snapshot.partial")).unwrap();
    partial.lock().unwrap();
    let twice = scratch.join("twice.snapshot");
    refusal(&server, &["save", text(&twice)], "somebody else saves to it").await;
    drop(partial);
    told(&server, &["save", text(&twice)]).await;

    // A folder in use can neither be read nor written without its server, nor can one that has something.
    let used = server.data_dir();
    refusal(&server, &["save", text(&damaged), "--data-dir", text(&used)], "is in use").await;
    refusal(&server, &["restore", text(&file), "--data-dir", text(&used)], "is not empty").await;
    refusal(&server, &["save", text(&damaged), "--data-dir", text(&scratch)], "holds no store").await;
    assert_eq!(std::fs::read(&damaged).unwrap(), b"apiVersion: v1\nkind: List\n", "nothing took its name");
    let ships = names(&client.get(SHIPS).await.unwrap().json());
    assert_eq!(ships.len(), 20);

    // What a restore that was killed has left is not served, and another restore does away with it.
    let left: PathBuf = target.join("store.restoring");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("00000001.pack"), "half").unwrap();
    let Err(error) = ServerOptions::default().quiet().data_dir(&target).start().await else {
        panic!("it is served")
    };
    assert!(error.to_string().contains("was begun and not finished"), "{error}");
    told(&server, &["restore", text(&file), "--data-dir", text(&target)]).await;
    let again = ServerOptions::default().quiet().data_dir(&target).start().await.unwrap();
    assert_eq!(names(&again.client().unwrap().get(SHIPS).await.unwrap().json()), ships);

    // Without a server the folder itself is saved, and copied.
    assert!(server.terminate().await.unwrap().success());
    let offline = scratch.join("offline.snapshot");
    told(&again, &["save", text(&offline), "--data-dir", text(&used)]).await;
    told(&again, &["verify", text(&offline)]).await;
    let copy = scratch.join("copy");
    let copied = told(&again, &["copy", "--from", text(&used), "--to", text(&copy)]).await;
    assert!(copied.contains("both were read and are equal"), "{copied}");
    refusal(&again, &["copy", "--from", text(&used), "--to", text(&copy)], "is not empty").await;
    refusal(&again, &["copy", "--from", text(&used), "--to", text(&used)], "are the same store").await;
    // What cannot be read leaves no mark where it was to go.
    let (nothing, nowhere) = (scratch.join("nothing"), scratch.join("nowhere"));
    refusal(&again, &["copy", "--from", text(&nothing), "--to", text(&nowhere)], "holds no store").await;
    assert!(!nowhere.exists());
    let third = ServerOptions::default().quiet().data_dir(&copy).start().await.unwrap();
    assert_eq!(names(&third.client().unwrap().get(SHIPS).await.unwrap().json()), ships);
}

fn without_revision(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    object
}

/// The store moves to etcd and back; there it gets revisions of its own, and keeps them on the way back.
#[tokio::test]
async fn a_store_moves_to_etcd_and_back() {
    let etcd = Etcd::start().await.unwrap();
    let urls = etcd.endpoints().join(",");
    let (mut server, client) = started_on_a_folder().await;
    fill(&client, 60).await;
    let before = all(&client, None).await;
    let (folder, scratch) = (server.data_dir(), server.scratch().to_owned());
    assert!(server.terminate().await.unwrap().success());
    let copied = told(&server, &["copy", "--from", text(&folder), "--to", &urls]).await;
    assert!(copied.contains("both were read and are equal"), "{copied}");
    refusal(&server, &["copy", "--from", text(&folder), "--to", &urls], "is not empty").await;

    let on_etcd = ServerOptions::default().quiet().etcd(&etcd.endpoints()).start().await.unwrap();
    let there = all(&on_etcd.client().unwrap(), None).await;
    let bare = |objects: &[Value]| objects.iter().cloned().map(without_revision).collect::<Vec<_>>();
    assert_eq!(bare(&there), bare(&before));
    // From the running server, and from the cluster itself: the same.
    let contents = |told: &str| told.trim().rsplit("sha256:").next().unwrap().to_owned();
    let (online, offline) = (scratch.join("online.snapshot"), scratch.join("offline.snapshot"));
    for saved in [
        told(&on_etcd, &["save", text(&online)]).await,
        told(&on_etcd, &["save", text(&offline), "--etcd-servers", &urls]).await,
    ] {
        assert_eq!(contents(&saved), contents(&copied));
    }

    let back = scratch.join("back");
    told(&on_etcd, &["copy", "--from", &urls, "--to", text(&back)]).await;
    let again = ServerOptions::default().quiet().data_dir(&back).start().await.unwrap();
    assert_eq!(all(&again.client().unwrap(), None).await, there, "with the same resourceVersions");
    // Another prefix of the same cluster is another store.
    let other = ["restore", text(&online), "--etcd-servers", &urls, "--etcd-prefix", "/other/place"];
    assert_eq!(contents(&told(&on_etcd, &other).await), contents(&copied));
    let other =
        ServerOptions::default().quiet().etcd(&etcd.endpoints()).args(&["--etcd-prefix", "/other/place"]);
    let other = other.start().await.unwrap();
    assert_eq!(bare(&all(&other.client().unwrap(), None).await), bare(&before));
}

/// kill -9 in the middle of a restore into etcd.
#[tokio::test]
async fn a_killed_restore_into_etcd_is_not_served_and_begins_anew() {
    let etcd = Etcd::start().await.unwrap();
    let urls = etcd.endpoints();
    let (server, client) = started().await;
    fill(&client, 10).await;
    let (whole, long) = (server.scratch().join("whole.snapshot"), server.scratch().join("long.snapshot"));
    told(&server, &["save", text(&whole)]).await;
    let mut bytes = Vec::new();
    let header = Header { revision: Revision(1), prefixes: vec![Bytes::from_static(b"/registry/")] };
    let mut encoder = Encoder::begin(&header, &mut bytes);
    for n in 0..20_000 {
        let (key, value) = (Key::from(format!("/registry/long/{n:05}")), Ok(Bytes::from_static(b"{}")));
        let (mod_revision, create_revision) = (Revision(1), Revision(1));
        encoder.add(&KeyValue { key, value, mod_revision, create_revision }, &mut bytes).unwrap();
    }
    encoder.finish(&mut bytes);
    std::fs::write(&long, bytes).unwrap();

    let areas = ["/registry/", "/kindom/registry/"].map(Area::same).to_vec();
    let options = kindom_storage::EtcdOptions::new(urls.clone(), areas, "/kindom/registry/freshness");
    let store = kindom_storage::Etcd::open(options, |_| ()).await.unwrap();
    let mut keys = store.watch(KeyRange::prefix(b"/registry/long/"), None).await.unwrap();
    let mut restore = tokio::process::Command::new(tools::kindom().unwrap());
    restore.args(["snapshot", "restore", text(&long), "--etcd-servers", &urls.join(",")]).kill_on_drop(true);
    let mut restore = restore.spawn().unwrap();
    for _ in 0..100 {
        keys.commits.next().await.unwrap().unwrap();
    }
    restore.kill().await.unwrap();

    let serve = ServerOptions::default().quiet().etcd(&urls);
    let Err(error) = serve.clone().start().await else { panic!("it is served") };
    assert!(error.to_string().contains("was begun and not finished"), "{error}");
    let file = server.scratch().join("unfinished.snapshot");
    let why = "it is not whole";
    refusal(&server, &["save", text(&file), "--etcd-servers", &urls.join(",")], why).await;
    let folder = server.scratch().join("unfinished");
    refusal(&server, &["copy", "--from", &urls.join(","), "--to", text(&folder)], why).await;
    assert!(!file.exists() && !folder.exists());
    told(&server, &["restore", text(&whole), "--etcd-servers", &urls.join(",")]).await;
    let left = store.range(kindom_storage::RangeRequest::prefix(b"/registry/long/")).await.unwrap();
    assert_eq!(left.count, 0);
    let served = serve.start().await.unwrap();
    let ships = names(&served.client().unwrap().get(SHIPS).await.unwrap().json());
    assert_eq!(ships, names(&client.get(SHIPS).await.unwrap().json()));
}

/// The body of an answer in chunks.
fn unchunked(answer: &[u8]) -> Vec<u8> {
    let start = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let (mut rest, mut body) = (&answer[start..], Vec::new());
    loop {
        let end = rest.windows(2).position(|bytes| bytes == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
}

/// History is compacted every second; for a reader that takes its time it is kept until that has all.
#[tokio::test]
async fn compaction_waits_for_a_slow_reader() {
    // On etcd every replica compacts for all, and knows nothing of the readers of the others.
    let options = ServerOptions::default().quiet().embedded().args(&["--etcd-compaction-interval", "1s"]);
    let server = options.start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "ships", "Ship", "Namespaced")).await;
    // More than connections hold.
    for n in 0..16 {
        let ship = ship(&format!("large-{n}"), json!({"note": "x".repeat(1_000_000)}));
        client.post(SHIPS, &ship).await.unwrap().expect_status(201).unwrap();
    }
    let exact = async |at: u64| {
        let path = format!("{SHIPS}?limit=1&resourceVersion={at}&resourceVersionMatch=Exact");
        client.get(&path).await.unwrap().status
    };
    let mut stream = server.dial_holding(64 << 10).await.unwrap();
    stream
        .write_all(b"GET /debug/snapshot HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    // Up to the revision in the header.
    let mut answer = Vec::new();
    let at = loop {
        answer.push(stream.read_u8().await.unwrap());
        if let Some([b'k', b'i', b'n', b'd', b'o', b'm', b'S', b'S', _, _, _, _, at @ ..]) =
            answer.last_chunk::<20>()
        {
            break u64::from_le_bytes(*at);
        }
    };
    let mut writes = 0;
    while exact(at - 1).await != 410 {
        writes += 1;
        let change = json!({"spec": {"note": format!("{writes}")}});
        client
            .merge_patch(&format!("{SHIPS}/large-{}", writes % 16), &change)
            .await
            .unwrap()
            .expect_status(200)
            .unwrap();
    }
    assert!(writes > 1);
    assert_eq!(exact(at).await, 200);
    stream.read_to_end(&mut answer).await.unwrap();
    let file = server.scratch().join("slow.snapshot");
    std::fs::write(&file, unchunked(&answer)).unwrap();
    let checked = told(&server, &["verify", text(&file)]).await;
    assert_eq!(told_revision(&checked), at);
    while exact(at).await != 410 {}
}

/// Everything of everybody is in it.
#[tokio::test]
async fn only_masters_are_given_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "one,ann,1,\"dev\"\ntwo,root,2,\"system:masters\"\n").unwrap();
    let options = ServerOptions::default().quiet().args(&["--token-auth-file", text(&tokens)]);
    let server = options.start().await.unwrap();
    let anybody = server.anonymous().unwrap();
    let path = "/debug/snapshot";
    refused(
        anybody.clone().with_token("one").get(path).await,
        403,
        "Forbidden",
        "cannot get path \"/debug/snapshot\"",
    );
    assert_eq!(anybody.get(path).await.unwrap().status, 403);
    let master = anybody.with_token("two");
    let answer = master.get(path).await.unwrap().expect_status(200).unwrap();
    assert_eq!(answer.header("content-type"), "application/vnd.kindom.snapshot");
    assert!(answer.body.starts_with(b"kindomSS"));
    assert_eq!(master.post(path, &json!({})).await.unwrap().status, 405);
}

//! `kindom snapshot`: saved from a server that goes on, checked, restored, and copied.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kindom_integration::{Client, Output, Server, ServerOptions, count};
use serde_json::{Value, json};

use crate::support::{CRDS, crd, kindom, names, namespace, object, refused, register, revision};

const GROUP: &str = "snap.example.com";
const SHIPS: &str = "/apis/snap.example.com/v1/namespaces/default/ships";

fn ship(name: &str, spec: Value) -> Value {
    object(GROUP, "Ship", name, spec)
}

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
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
    let again = ServerOptions::default().data_dir(&folder).start().await.unwrap();
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
    let (mut server, client) = started().await;
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
    let Err(error) = ServerOptions::default().data_dir(&target).start().await else { panic!("it is served") };
    assert!(error.to_string().contains("was begun and not finished"), "{error}");
    told(&server, &["restore", text(&file), "--data-dir", text(&target)]).await;
    let again = ServerOptions::default().data_dir(&target).start().await.unwrap();
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
    let third = ServerOptions::default().data_dir(&copy).start().await.unwrap();
    assert_eq!(names(&third.client().unwrap().get(SHIPS).await.unwrap().json()), ships);
}

/// Everything of everybody is in it.
#[tokio::test]
async fn only_masters_are_given_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "one,ann,1,\"dev\"\ntwo,root,2,\"system:masters\"\n").unwrap();
    let options = ServerOptions::default().args(&["--token-auth-file", text(&tokens)]);
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

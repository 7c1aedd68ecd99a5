//! Damaged values in the folder: each is one corrupt object, and everything else goes on.

use std::fs;
use std::path::{Path, PathBuf};

use kindom_integration::{Answer, Client, HarnessError, Random, Server, ServerOptions, count};
use serde_json::{Value, json};

use crate::pages;
use crate::support::{CRDS, crd, kindom, names, object, refused, register, revision, until_gone};

const WIDGETS: &str = "/apis/d.example.com/v1/namespaces/default/widgets";
const ANYWAY: &str = "ignoreStoreReadErrorWithClusterBreakingPotential=true";

fn segments(server: &Server) -> Vec<PathBuf> {
    let entries = fs::read_dir(server.data_dir().join("store")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|kind| kind == "log" || kind == "pack")).collect()
}

/// Flips a bit in every stored value that holds this text, while no server runs. Gives back how many there were.
fn damage(server: &Server, text: &str) -> usize {
    let mut count = 0;
    for path in segments(server) {
        let mut bytes = fs::read(&path).unwrap();
        let windows = bytes.windows(text.len()).enumerate();
        let found: Vec<usize> = windows.filter(|(_, at)| *at == text.as_bytes()).map(|(at, _)| at).collect();
        for at in &found {
            bytes[*at] ^= 1;
        }
        count += found.len();
        fs::write(&path, &bytes).unwrap();
    }
    count
}

async fn get(client: &Client, path: &str) -> Value {
    client.get(path).await.unwrap().expect_status(200).unwrap().json()
}

async fn create(client: &Client, path: &str, object: &Value) -> Value {
    client.post(path, object).await.unwrap().expect_status(201).unwrap().json()
}

fn corrupt(answer: Result<Answer, HarnessError>) {
    refused(answer, 500, "InternalError", "the stored value is damaged: it has a wrong checksum");
}

#[tokio::test]
async fn a_damaged_value_is_one_corrupt_object() {
    let mut server = ServerOptions::default().embedded().start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd("d.example.com", "widgets", "Widget", "Namespaced")).await;
    register(&client, &crd("d.example.com", "gadgets", "Gadget", "Namespaced")).await;
    register(&client, &crd("broken.example.com", "broken", "Broken", "Namespaced")).await;
    let widget = |name: &str, note: &str| object("d.example.com", "Widget", name, json!({"note": note}));
    create(&client, WIDGETS, &widget("fine", "n")).await;
    let before = revision(&create(&client, WIDGETS, &widget("broken", "to-be-damaged")).await) - 1;
    // Only the former value of this one is damaged.
    create(&client, WIDGETS, &widget("past", "past-to-be-damaged")).await;
    let patch = json!({"spec": {"note": "whole"}});
    let path = format!("{WIDGETS}/past");
    client.merge_patch(&path, &patch).await.unwrap().expect_status(200).unwrap();
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    for name in ["broken-namespace", "fine-namespace"] {
        create(&client, "/api/v1/namespaces", &namespace(name)).await;
    }
    assert!(server.terminate().await.unwrap().success());
    assert!(damage(&server, "to-be-damaged") >= 2);
    assert!(damage(&server, "\"name\":\"broken-namespace\"") >= 1);
    assert!(damage(&server, "\"name\":\"broken.broken.example.com\"") >= 1);
    server.restart().await.unwrap();
    let client = server.client().unwrap();

    // The object: as one that cannot be decoded.
    corrupt(client.get(&format!("{WIDGETS}/broken")).await);
    let refusal = refused(client.get(WIDGETS).await, 500, "StorageReadError", "the stored value is damaged");
    assert_eq!(refusal["details"]["causes"][0]["field"], "/registry/d.example.com/widgets/default/broken");
    assert_eq!(refusal["details"]["causes"].as_array().unwrap().len(), 1);
    let patched = client.merge_patch(&format!("{WIDGETS}/broken"), &patch).await;
    refused(patched, 500, "", "the stored value is damaged: it has a wrong checksum");
    corrupt(client.delete(&format!("{WIDGETS}/broken")).await);
    // Its neighbours, before and after, and another type.
    assert_eq!(get(&client, &format!("{WIDGETS}/past")).await["spec"]["note"], "whole");
    let patched = client.merge_patch(&format!("{WIDGETS}/fine"), &patch).await.unwrap().expect_status(200);
    let now = revision(&patched.unwrap().json());
    assert_eq!(names(&get(&client, "/apis/d.example.com/v1/gadgets").await), [""; 0]);
    // A watch that reads it in history, and one that reads it as its start, end: no client can go on there.
    let mut watch = client.watch(&format!("{WIDGETS}?watch=true&resourceVersion={before}")).await.unwrap();
    let error = watch.event().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)), "{error}");
    assert!(watch.next_in_time().await.unwrap().is_none());
    let initial =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = client.watch(&format!("{WIDGETS}?{initial}")).await.unwrap();
    let error = watch.event().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(500)), "{error}");
    assert!(watch.next_in_time().await.unwrap().is_none(), "no bookmark says that this was all");
    // Its removal: a watcher has to list again, as the removed state is unknown.
    let mut all = client.watch(&format!("{WIDGETS}?watch=true&resourceVersion={now}")).await.unwrap();
    let selected = format!("{WIDGETS}?watch=true&labelSelector=a%3Db&resourceVersion={now}");
    let mut selected = client.watch(&selected).await.unwrap();
    let elsewhere = "/apis/d.example.com/v1/namespaces/fine-namespace/widgets";
    let mut elsewhere_watch = client.watch(&format!("{elsewhere}?watch=true")).await.unwrap();
    client.delete(&format!("{WIDGETS}/broken?{ANYWAY}")).await.unwrap().expect_status(200).unwrap();
    for watch in [&mut all, &mut selected] {
        let error = watch.event().await.unwrap();
        assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)), "{error}");
    }
    create(&client, elsewhere, &widget("new", "n")).await;
    assert_eq!(elsewhere_watch.event().await.unwrap()["type"], "ADDED");
    let mut left = names(&get(&client, WIDGETS).await);
    left.sort();
    assert_eq!(left, ["fine", "past"]);

    // A namespace.
    refused(client.get("/api/v1/namespaces").await, 500, "StorageReadError", "broken-namespace");
    corrupt(client.get("/api/v1/namespaces/broken-namespace").await);
    client.delete("/api/v1/namespaces/fine-namespace").await.unwrap().expect_status(200).unwrap();
    until_gone(&client, "/api/v1/namespaces", "fine-namespace").await;
    let path = format!("/api/v1/namespaces/broken-namespace?{ANYWAY}");
    client.delete(&path).await.unwrap().expect_status(200).unwrap();
    // A registration.
    refused(client.get(CRDS).await, 500, "StorageReadError", "broken.broken.example.com");
    register(&client, &crd("d.example.com", "others", "Other", "Namespaced")).await;
    assert!(server.log_tail().contains("broken.broken.example.com"), "{}", server.log_tail());
    let path = format!("{CRDS}/broken.broken.example.com?{ANYWAY}");
    client.delete(&path).await.unwrap().expect_status(200).unwrap();
    assert_eq!(names(&get(&client, CRDS).await).len(), 3);
    register(&client, &crd("broken.example.com", "broken", "Broken", "Namespaced")).await;
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A damaged folder is reported, and a whole one is made of the rest; by the page's own commands.
#[tokio::test]
async fn a_damaged_folder_is_checked_and_salvaged() {
    let mut server = ServerOptions::default().embedded().start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd("d.example.com", "widgets", "Widget", "Namespaced")).await;
    let widget = |name: &str, note: &str| object("d.example.com", "Widget", name, json!({"note": note}));
    for (name, note) in [("a", "n"), ("broken", "to-be-damaged"), ("c", "n")] {
        create(&client, WIDGETS, &widget(name, note)).await;
    }
    let before = get(&client, &format!("{WIDGETS}/a")).await;
    let data_dir = server.data_dir();
    let check = ["storage", "check", "--data-dir", text(&data_dir)];
    let used = kindom(&server, &check, "").await;
    assert!(!used.status.success() && used.stderr.contains("is in use"), "{used:?}");
    assert!(server.terminate().await.unwrap().success());
    let whole = kindom(&server, &check, "").await.success().unwrap();
    assert!(whole.contains(" is whole: revision "), "{whole}");
    assert_eq!(damage(&server, "to-be-damaged"), 1);
    let damaged = kindom(&server, &check, "").await;
    assert_eq!(damaged.status.code(), Some(1));
    let told = "the value of /registry/d.example.com/widgets/default/broken, revision ";
    assert!(damaged.stderr.contains(told) && damaged.stderr.contains("(live)"), "{damaged:?}");
    assert!(damaged.stderr.contains("00000001.log at offset "), "{damaged:?}");

    // Where the page's commands run.
    let copied = std::process::Command::new("cp")
        .args(["-r", text(&data_dir), text(&server.scratch().join("kindom-data"))])
        .status();
    assert!(copied.unwrap().success());
    pages::run(&server, "docs/repair.md", "## A new folder", 0).await;
    let new = ServerOptions::default().data_dir(&server.scratch().join("kindom-new")).start().await.unwrap();
    let client = new.client().unwrap();
    assert_eq!(names(&get(&client, WIDGETS).await), ["a", "c"]);
    assert_eq!(get(&client, &format!("{WIDGETS}/a")).await, before);
    create(&client, WIDGETS, &widget("broken", "again")).await;
}

/// The folder of a server that has ended, damaged at random: served values are right, and so is every type.
#[tokio::test]
async fn random_damage_to_the_folder_of_a_real_server() {
    let mut server = ServerOptions::default().embedded().start().await.unwrap();
    let client = server.client().unwrap();
    let types = ["widgets", "gadgets"];
    for (plural, kind) in types.into_iter().zip(["Widget", "Gadget"]) {
        register(&client, &crd("d.example.com", plural, kind, "Namespaced")).await;
        for n in 0..20 {
            let spec = json!({"note": format!("{plural} {n} {}", "n".repeat(n * 40))});
            let path = format!("/apis/d.example.com/v1/namespaces/default/{plural}");
            create(&client, &path, &object("d.example.com", kind, &format!("thing-{n:02}"), spec)).await;
        }
    }
    assert!(server.terminate().await.unwrap().success());
    let store = server.data_dir().join("store");
    let files = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
    let original: Vec<_> = files.map(|path| (fs::read(&path).unwrap(), path)).collect();
    let mut random = Random::new(5);
    let mut hit = 0;
    for round in 0..count(3, 30) {
        // The same folder every time, without the writes of the round before.
        fs::remove_dir_all(&store).unwrap();
        fs::create_dir(&store).unwrap();
        for (bytes, path) in &original {
            let mut bytes = bytes.clone();
            if path.extension().is_some_and(|kind| kind == "log") {
                // Behind the header, whose loss is a refusal.
                let at = random.below(bytes.len() - 512) + 512;
                if round % 2 == 0 {
                    let sector = at / 512 * 512;
                    let end = bytes.len().min(sector + 512);
                    bytes[sector..end].fill(0);
                } else {
                    bytes[at] ^= 1;
                }
            }
            fs::write(path, bytes).unwrap();
        }
        server.restart().await.unwrap();
        let client = server.client().unwrap();
        for plural in types {
            let path = format!("/apis/d.example.com/v1/namespaces/default/{plural}");
            let list = client.get(&path).await.unwrap();
            // A registration that is damaged is not served; that is the damaged object here.
            let registration = client.get(&format!("{CRDS}/{plural}.d.example.com")).await.unwrap();
            if registration.status == 500 {
                assert!(
                    registration.text().contains("the stored value is damaged"),
                    "{}",
                    registration.text()
                );
                hit += 1;
                continue;
            }
            assert!(list.status == 200 || list.text().contains("StorageReadError"), "{}", list.text());
            let mut read = 0;
            for n in 0..20 {
                let answer = client.get(&format!("{path}/thing-{n:02}")).await.unwrap();
                if answer.status == 200 {
                    let note = format!("{plural} {n} {}", "n".repeat(n * 40));
                    assert_eq!(answer.at("/spec/note"), json!(note), "a wrong value");
                    read += 1;
                } else {
                    assert!(answer.text().contains("the stored value is damaged"), "{}", answer.text());
                    assert_eq!(list.status, 500);
                    hit += 1;
                }
            }
            assert!(read >= 16, "{read} of 20 {plural}");
        }
        server.kill9().unwrap();
    }
    println!("{hit} objects were damaged");
}

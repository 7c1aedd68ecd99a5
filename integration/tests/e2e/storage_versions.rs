//! A type changes the version that its objects are stored in, and drops the old one, with its objects in place.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt as _};
use kindom_integration::{ServerOptions, count};
use serde_json::{Value, json};

use crate::support::{CRDS, crd, object, refused, register, revision, stored, until, version};

const GROUP: &str = "stored.example.com";
const NAME: &str = "vaults.stored.example.com";
const PREFIX: &str = "/registry/stored.example.com/vaults/";

fn at(version: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/default/vaults")
}

fn stored_versions(crd: &Value) -> &Value {
    &crd["status"]["storedVersions"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_follow_the_storage_version_and_the_old_one_can_be_dropped() {
    let objects = count(300, 10_000);
    let mut server = ServerOptions::default().start().await.unwrap();
    let client = server.client_http2().unwrap();
    let mut registration = crd(GROUP, "vaults", "Vault", "Namespaced");
    let (v1, mut v2) = (version("v1", true), version("v2", false));
    let spec = &mut v2["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    spec["lock"] = json!({"type": "string", "default": "brass"});
    registration["spec"]["versions"] = json!([v1, v2]);
    register(&client, &registration).await;
    let created = stream::iter(0..objects).map(|i| {
        let (client, name) = (client.clone(), format!("vault-{i}"));
        async move {
            let body = object(GROUP, "Vault", &name, json!({"note": name}));
            revision(&client.post(&at("v1"), &body).await.unwrap().expect_status(201).unwrap().json())
        }
    });
    let from = created.buffer_unordered(32).fold(0, async |last, at| at.max(last)).await;
    let path = format!("{}?watch=true&resourceVersion={from}", at("v1"));
    let mut watch = client.watch(&path).await.unwrap();
    let registration = format!("{CRDS}/{NAME}");

    // What is stored in v1 keeps v1 in the spec.
    let only_v2 = |storage: bool| {
        let mut v2 = v2.clone();
        v2["storage"] = json!(storage);
        json!({"spec": {"versions": [v2]}})
    };
    let dropped = client.merge_patch(&registration, &only_v2(true)).await;
    refused(dropped, 422, "Invalid", "v1 was previously a storage version, and must remain in spec.versions");

    let mut v1 = v1.clone();
    v1["storage"] = json!(false);
    let both = json!({"spec": {"versions": [v1, only_v2(true)["spec"]["versions"][0]]}});
    let changed = client.merge_patch(&registration, &both).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(stored_versions(&changed), &json!(["v1", "v2"]));
    // Every object is rewritten, and its watchers are told, each once. The process may fall meanwhile.
    let mut rewritten = BTreeSet::new();
    for _ in 0..objects / 3 {
        let event = watch.event().await.unwrap();
        assert_eq!(event["type"], "MODIFIED");
        assert!(rewritten.insert(event["object"]["metadata"]["name"].to_string()), "{event}");
    }
    server.kill9().unwrap();
    server.restart().await.unwrap();
    let client = server.client_http2().unwrap();
    let cut = until(&client, CRDS, NAME, |crd| stored_versions(crd) == &json!(["v2"])).await;
    assert_eq!(
        cut["metadata"]["generation"], changed["metadata"]["generation"],
        "no word of the user's changed"
    );

    // The field that came with v2 is stored with its default; of v1 it is no part.
    let one = client.get(&format!("{}/vault-7", at("v2"))).await.unwrap().expect_status(200).unwrap();
    assert_eq!((one.at("/spec/note"), one.at("/spec/lock")), (json!("vault-7"), json!("brass")));
    assert_eq!(one.at("/metadata/generation"), 1);
    let one = client.get(&format!("{}/vault-7", at("v1"))).await.unwrap().expect_status(200).unwrap();
    assert_eq!((one.at("/spec/note"), one.at("/spec/lock")), (json!("vault-7"), Value::Null));

    let patch = only_v2(true).to_string();
    server.kubectl(&["patch", "crd", NAME, "--type=merge", "-p", &patch]).await.unwrap();
    let dropped =
        until(&client, CRDS, NAME, |crd| crd["spec"]["versions"].as_array().unwrap().len() == 1).await;
    assert_eq!(stored_versions(&dropped), &json!(["v2"]));
    assert_eq!(client.get(&at("v1")).await.unwrap().status, 404);
    let list = client.get(&format!("{}?limit=1", at("v2"))).await.unwrap().expect_status(200).unwrap();
    assert_eq!(list.at("/metadata/remainingItemCount"), objects - 1);

    assert!(server.terminate().await.unwrap().success());
    let found = stored(&server, PREFIX).await;
    assert_eq!(found.len(), objects);
    for kv in found {
        let stored: Value = serde_json::from_slice(kv.whole().unwrap()).unwrap();
        assert_eq!(stored["apiVersion"], format!("{GROUP}/v2"), "{}", kv.key);
    }
}

/// The commands of `docs/deletion.md` work with kubectl as they stand.
#[tokio::test]
async fn the_page_on_leaving_a_version_runs_word_by_word() {
    let server = kindom_integration::Server::start().await.unwrap();
    crate::pages::run(&server, "docs/deletion.md", "## Changing the storage version", 0).await;
}

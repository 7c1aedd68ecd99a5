//! The status subresource of registered types ("Subresources for CustomResources"; the script `object-status` has what
//! the real server answers).

use kindom_integration::{Client, Server};
use serde_json::{Value, json};

use crate::support::{CRDS, crd, object, refused, register, revision};

const GROUP: &str = "status.example.com";
const LAMPS: &str = "/apis/status.example.com/v1/namespaces/default/lamps";

/// A type with a status, written as any field unless `endpoint`.
fn lamps(endpoint: bool) -> Value {
    let mut registration = crd(GROUP, "lamps", "Lamp", "Namespaced");
    let v1 = &mut registration["spec"]["versions"][0];
    v1["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"watts": {"type": "integer", "maximum": 100}}},
        "status": {"type": "object", "properties": {"hours": {"type": "integer", "minimum": 0}}},
    }});
    if endpoint {
        v1["subresources"] = json!({"status": {}});
    }
    registration
}

async fn started(endpoint: bool) -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &lamps(endpoint)).await;
    let mut one = object(GROUP, "Lamp", "one", json!({"watts": 60}));
    one["status"] = json!({"hours": 1});
    client.post(LAMPS, &one).await.unwrap().expect_status(201).unwrap();
    (server, client)
}

async fn read(client: &Client) -> Value {
    client.get(&format!("{LAMPS}/one")).await.unwrap().expect_status(200).unwrap().json()
}

/// S-01, S-02, S-26; S-18, S-28 and B-51 as superseded by it.
#[tokio::test]
async fn only_the_endpoint_writes_the_status_and_nothing_else() {
    let (server, client) = started(true).await;
    assert_eq!(read(&client).await.get("status"), None, "a create loses it");

    let patch = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"watts":5},"status":{"hours":2}}"#;
    server
        .kubectl(&["patch", "lamp", "one", "--subresource=status", "--type=merge", "-p", patch])
        .await
        .unwrap();
    let lamp = read(&client).await;
    assert_eq!((&lamp["status"], &lamp["spec"]), (&json!({"hours": 2}), &json!({"watts": 60})));
    assert_eq!((lamp["metadata"].get("labels"), &lamp["metadata"]["generation"]), (None, &json!(1)));

    server.kubectl(&["patch", "lamp", "one", "--type=merge", "-p", patch]).await.unwrap();
    let patched = read(&client).await;
    assert_eq!((&patched["status"], &patched["spec"]), (&json!({"hours": 2}), &json!({"watts": 5})));
    assert_eq!(patched["metadata"]["generation"], 2);

    let shown = ["get", "lamp", "one", "--subresource=status", "-o", "json", "--show-managed-fields"];
    let shown = server.kubectl(&shown).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), patched);
}

/// S-07, S-19
#[tokio::test]
async fn the_endpoint_validates_the_status_only() {
    let (_server, client) = started(true).await;
    let path = format!("{LAMPS}/one/status");
    let mut lamp = read(&client).await;
    lamp["status"] = json!({"hours": -1});
    refused(
        client.put(&path, &lamp).await,
        422,
        "Invalid",
        "Lamp.status.example.com \"one\" is invalid: status.hours: Invalid value: -1: hours in body should be greater than or equal to 0",
    );
    lamp["status"] = json!({"hours": 1});
    lamp["spec"] = json!({"watts": 500});
    let stored = client.put(&path, &lamp).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!((&stored["status"], &stored["spec"]), (&json!({"hours": 1}), &json!({"watts": 60})));
}

/// S-19: what is stored outside the status may have become invalid; the status can be written all the same.
#[tokio::test]
async fn a_spec_that_is_no_longer_valid_does_not_keep_the_status_from_being_written() {
    let (_server, client) = started(true).await;
    let (one, path) = (format!("{LAMPS}/one"), format!("{LAMPS}/one/status"));
    let mut stricter = lamps(true);
    let schema = &mut stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["watts"]["maximum"] = json!(10);
    schema["properties"]["spec"]["required"] = json!(["colour"]);
    schema["properties"]["spec"]["properties"]["colour"] = json!({"type": "string"});
    let versions = json!({"spec": {"versions": stricter["spec"]["versions"]}});
    client
        .merge_patch(&format!("{CRDS}/lamps.{GROUP}"), &versions)
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();

    // The new schema holds: the main endpoint refuses what it does not allow.
    let dimmed = client.merge_patch(&one, &json!({"spec": {"watts": 50}})).await;
    let told = refused(dimmed, 422, "Invalid", "spec.watts");
    let fields = told["details"]["causes"].as_array().unwrap().iter().map(|cause| &cause["field"]);
    assert!(fields.clone().any(|field| field == "spec.watts"), "{told}");

    let mut lamp = read(&client).await;
    lamp["status"] = json!({"hours": 5});
    let stored = client.put(&path, &lamp).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!((&stored["status"], &stored["spec"]), (&json!({"hours": 5}), &json!({"watts": 60})));
    let patched = client.merge_patch(&path, &json!({"status": {"hours": 6}})).await.unwrap();
    assert_eq!(patched.expect_status(200).unwrap().at("/status/hours"), 6);
    let operations = json!([{"op": "replace", "path": "/status/hours", "value": 7}]);
    let patched = client.json_patch(&path, &operations).await.unwrap();
    assert_eq!(patched.expect_status(200).unwrap().at("/status/hours"), 7);
    let applied = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Lamp", "status": {"hours": 8}});
    let apply = client.request("PATCH", &format!("{path}?fieldManager=s&force=true"));
    let apply = apply.body("application/apply-patch+yaml", applied.to_string()).send().await.unwrap();
    assert_eq!(apply.expect_status(200).unwrap().at("/status/hours"), 8);
    // And nothing but the status is told when the status is wrong.
    lamp["status"] = json!({"hours": -1});
    lamp["metadata"]["resourceVersion"] = read(&client).await["metadata"]["resourceVersion"].clone();
    let told = refused(client.put(&path, &lamp).await, 422, "Invalid", "status.hours");
    assert_eq!(told["details"]["causes"].as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!(read(&client).await["status"], json!({"hours": 8}));
}

/// S-05, S-06
#[tokio::test]
async fn a_type_in_use_turns_it_on_without_a_change_to_its_objects() {
    let (_server, client) = started(false).await;
    let before = read(&client).await;
    assert_eq!(before["status"], json!({"hours": 1}), "it is a field like any other");
    let status = format!("{LAMPS}/one/status");
    assert_eq!(client.get(&status).await.unwrap().status, 404);

    let from = revision(&client.get(LAMPS).await.unwrap().json());
    let mut watch = client.watch(&format!("{LAMPS}?watch=true&resourceVersion={from}")).await.unwrap();
    let versions = json!({"spec": {"versions": lamps(true)["spec"]["versions"]}});
    let registration = format!("{CRDS}/lamps.{GROUP}");
    client.merge_patch(&registration, &versions).await.unwrap().expect_status(200).unwrap();

    assert_eq!(read(&client).await, before);
    assert_eq!(client.get(&status).await.unwrap().expect_status(200).unwrap().json(), before);
    let patch = json!({"status": {"hours": 3}});
    client.merge_patch(&format!("{LAMPS}/one"), &patch).await.unwrap().expect_status(200).unwrap();
    assert_eq!(read(&client).await, before, "a write that changes nothing stores nothing");
    let written = client.merge_patch(&status, &patch).await.unwrap().expect_status(200).unwrap().json();
    let event = watch.event().await.unwrap();
    assert_eq!((&event["type"], &event["object"]), (&json!("MODIFIED"), &written));
    assert_eq!(written["status"], json!({"hours": 3}));
}

/// B-27, B-50: a create and writes to the main endpoint, of every kind, change spec and metadata only.
#[tokio::test]
async fn the_main_endpoint_writes_spec_and_metadata_only() {
    let (server, client) = started(true).await;
    let one = format!("{LAMPS}/one");
    let status = json!({"hours": 7});
    client
        .merge_patch(&format!("{one}/status"), &json!({"status": status}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();

    let mut replaced = read(&client).await;
    replaced["spec"] = json!({"watts": 5});
    replaced["metadata"]["labels"] = json!({"a": "1"});
    for other in [json!({"hours": 9}), Value::Null] {
        replaced["status"] = other;
        let stored = client.put(&one, &replaced).await.unwrap().expect_status(200).unwrap().json();
        assert_eq!((&stored["spec"], &stored["status"]), (&json!({"watts": 5}), &status));
        replaced["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    }
    let merged = client.merge_patch(&one, &json!({"spec": {"watts": 6}, "status": null})).await.unwrap();
    assert_eq!(merged.expect_status(200).unwrap().at("/status"), status);
    let operations = json!([
        {"op": "replace", "path": "/spec/watts", "value": 7}, {"op": "remove", "path": "/status"},
        {"op": "add", "path": "/metadata/labels/b", "value": "2"},
    ]);
    let patched = client.json_patch(&one, &operations).await.unwrap().expect_status(200).unwrap();
    assert_eq!((patched.at("/status"), patched.at("/spec/watts")), (status.clone(), json!(7)));
    assert_eq!(
        (patched.at("/metadata/labels"), patched.at("/metadata/generation")),
        (json!({"a": "1", "b": "2"}), json!(4))
    );

    let manifest = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Lamp", "metadata": {"name": "two"},
        "spec": {"watts": 1}, "status": {"hours": 1},
    });
    server.kubectl_with(&["apply", "-f", "-"], &manifest.to_string()).await.unwrap().success().unwrap();
    let two = client.get(&format!("{LAMPS}/two")).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!((two.get("status"), &two["spec"]), (None, &json!({"watts": 1})));
}

//! ConfigMap, `v1`, as kube-apiserver serves it (`objects/src/kinds/config_map`).

use kindom_integration::Server;
use serde_json::json;

use crate::support::{namespace, refused, until_gone};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn kubectl_creates_edits_and_lists() {
    let server = Server::start().await.unwrap();
    server
        .kubectl(&["create", "configmap", "one", "--from-literal=a=1", "--from-literal=b=2"])
        .await
        .unwrap();
    let table = server.kubectl(&["get", "cm"]).await.unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "DATA", "AGE"]);
    assert!(rows.iter().any(|row| row[..2] == ["one", "2"]), "{table}");
    // A strategic merge patch, as kubectl sends for a type that it knows.
    server.kubectl(&["patch", "cm", "one", "-p", r#"{"data":{"a":null,"c":"3"}}"#]).await.unwrap();
    let data = server.kubectl(&["get", "cm", "one", "-o", "jsonpath={.data}"]).await.unwrap();
    assert_eq!(data, r#"{"b":"2","c":"3"}"#);
    assert!(server.kubectl(&["explain", "configmap.binaryData"]).await.unwrap().contains("binaryData"));
    let client = server.client().unwrap();
    let stored = client.request("GET", &format!("{MAPS}/one"));
    let stored = stored.accept("application/vnd.kubernetes.protobuf").send().await.unwrap();
    assert!(stored.expect_status(200).unwrap().body.starts_with(b"k8s\0"));
}

#[tokio::test]
async fn what_is_immutable_stays() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "1"},
        "binaryData": {"b": "AAE="}, "immutable": true});
    client.post(MAPS, &map).await.unwrap().expect_status(201).unwrap();
    let path = format!("{MAPS}/one");
    let message = "data: Forbidden: field is immutable when `immutable` is set";
    refused(client.merge_patch(&path, &json!({"data": {"a": "2"}})).await, 422, "Invalid", message);
    let message = "immutable: Forbidden: field is immutable when `immutable` is set";
    refused(client.merge_patch(&path, &json!({"immutable": null})).await, 422, "Invalid", message);
    let labelled = client.merge_patch(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
    labelled.expect_status(200).unwrap();
    let large = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"},
        "data": {"a": "x".repeat(1024 * 1024 + 1)}});
    refused(client.post(MAPS, &large).await, 422, "Invalid", "Too long: may not be more than 1048576 bytes");
}

#[tokio::test]
async fn a_namespace_takes_its_config_maps_with_it() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    namespace(&client, "team").await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    let maps = MAPS.replace("default", "team");
    client.post(&maps, &map).await.unwrap().expect_status(201).unwrap();
    client.delete("/api/v1/namespaces/team").await.unwrap().expect_status(200).unwrap();
    until_gone(&client, "/api/v1/namespaces", "team").await;
    assert_eq!(client.get(&format!("{maps}/one")).await.unwrap().status, 404);
}

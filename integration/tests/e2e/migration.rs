//! The migration procedure of the proposal "Moving ThirdPartyResources to beta", as `docs/migration.md` tells it.

use kindom_integration::{Client, Server};
use serde_json::{Value, json};

use crate::pages;
use crate::support::{CRDS, condition, crd, kindom, object, refused, register, until, until_gone};

const PAGE: &str = "docs/migration.md";
const GROUP: &str = "farm.example.com";

async fn oxen(client: &Client) -> Vec<Value> {
    let list =
        client.get(&format!("/apis/{GROUP}/v1/oxen")).await.unwrap().expect_status(200).unwrap().json();
    list["items"].as_array().unwrap().clone()
}

/// T-05: a registration of Kubernetes 1.7 is served.
#[tokio::test]
async fn old_manifests_are_converted_word_by_word() {
    let server = Server::start().await.unwrap();
    pages::run(&server, PAGE, "## Old manifests", 0).await;
    let client = server.client().unwrap();
    let crd = client.get(&format!("{CRDS}/oxs.{GROUP}")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(crd.at("/spec/names/kind"), "Ox");
    assert_eq!(client.get(&format!("{CRDS}/cows.{GROUP}")).await.unwrap().status, 404);
}

/// A reader begins at the top of the page and has one server.
#[tokio::test]
async fn the_parts_of_the_page_follow_each_other_on_one_server() {
    let server = Server::start().await.unwrap();
    pages::run(&server, PAGE, "## Old manifests", 0).await;
    pages::run(&server, PAGE, "## With ThirdPartyResources", 4).await;
    pages::run(&server, PAGE, "## With CustomResourceDefinitions", 2).await;
}

/// T-05: the three kinds of former times, and what each of them let its objects be.
#[tokio::test]
async fn converted_registrations_serve_the_same_objects() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let old = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "extensions/v1beta1", "kind": "ThirdPartyResource",
            "metadata": {"name": format!("farm-hand.{GROUP}")}, "versions": [{"name": "v1"}],
        },
        {
            "apiVersion": "apiextension.k8s.io/v1beta1", "kind": "ThirdPartyResource",
            "metadata": {"name": format!("oxen.{GROUP}")},
            "spec": {"group": GROUP, "version": "v1", "Names": {"plural": "oxen", "kind": "Ox"}},
        },
        {
            "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("cows.{GROUP}"), "uid": "an-old-one"},
            "spec": {
                "group": GROUP, "version": "v1", "names": {"plural": "cows", "kind": "Cow"},
                "additionalPrinterColumns": [{"name": "Milk", "type": "integer", "JSONPath": ".spec.milk"}],
                "validation": {"openAPIV3Schema": {"properties": {
                    "spec": {"properties": {"milk": {"type": "integer", "minimum": 0}}},
                }}},
            },
            "status": {"storedVersions": ["v0"]},
        },
    ]});
    let output = kindom(&server, &["convert", "-f", "-", "-o", "json"], &old.to_string()).await;
    let new = output.success().unwrap();
    server.kubectl_with(&["create", "-f", "-"], &new).await.unwrap().success().unwrap();
    for (plural, kind) in [("farmhands", "FarmHand"), ("oxen", "Ox"), ("cows", "Cow")] {
        condition(&client, &format!("{plural}.{GROUP}"), "Established", "True").await;
        let path = format!("/apis/{GROUP}/v1/namespaces/default/{plural}");
        let spec = json!({"milk": 7, "any": {"thing": [1.5]}});
        let mut body = object(GROUP, kind, "a", spec.clone());
        body["more"] = json!({"of": "it"});
        let created = client.post(&path, &body).await.unwrap().expect_status(201).unwrap().json();
        assert_eq!((&created["spec"], &created["more"]), (&spec, &body["more"]), "{kind}");
    }
    let dry = object(GROUP, "Cow", "dry", json!({"milk": -1}));
    let cows = format!("/apis/{GROUP}/v1/namespaces/default/cows");
    refused(client.post(&cows, &dry).await, 422, "Invalid", "spec.milk: Invalid value: -1");
    let shown = server.kubectl(&["get", "cows"]).await.unwrap();
    assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), ["NAME", "MILK", "a", "7"]);
    // What is v1 already is left alone.
    let again = kindom(&server, &["convert", "-f", "-", "-o", "json"], &new).await.success().unwrap();
    assert_eq!(again, new);
}

/// T-05, T-50, T-52, T-53, T-54, T-56: the seven steps as the proposal prints them.
#[tokio::test]
async fn the_seven_steps_run_word_by_word() {
    let server = Server::start().await.unwrap();
    pages::run(&server, PAGE, "## With ThirdPartyResources", 4).await;
    let oxen = oxen(&server.client().unwrap()).await;
    let weights: Vec<&Value> = oxen.iter().map(|ox| &ox["spec"]["weight"]).collect();
    assert_eq!(weights, [700, 900, 80]);
    assert_eq!(oxen[2]["metadata"]["ownerReferences"][0]["uid"], oxen[1]["metadata"]["uid"], "adopted again");
    let data = std::fs::read_to_string(server.scratch().join("data.yaml")).unwrap();
    for ox in &oxen {
        assert!(!data.contains(ox["metadata"]["uid"].as_str().unwrap()), "it is another object");
    }
}

/// T-05, T-50, T-52, T-53, T-54, T-56: the same where no write can slip in between.
#[tokio::test]
async fn a_frozen_type_is_migrated_word_by_word() {
    let server = Server::start().await.unwrap();
    pages::run(&server, PAGE, "## With CustomResourceDefinitions", 2).await;
    let oxen = oxen(&server.client().unwrap()).await;
    let weights: Vec<&Value> = oxen.iter().map(|ox| &ox["spec"]["weight"]).collect();
    assert_eq!(weights, [950, 80]);
    assert_eq!(oxen[1]["metadata"]["ownerReferences"][0]["uid"], oxen[0]["metadata"]["uid"]);
}

/// T-54: a frozen type drains, but what its finalizers wait for is a write.
#[tokio::test]
async fn finalizers_hold_a_frozen_type_until_it_is_released() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let registration = crd(GROUP, "oxen", "Ox", "Namespaced");
    register(&client, &registration).await;
    let oxen = format!("/apis/{GROUP}/v1/namespaces/default/oxen");
    for (name, finalizers) in [("abe", json!([])), ("bo", json!(["farm.example.com/barn"]))] {
        let mut ox = object(GROUP, "Ox", name, json!({}));
        ox["metadata"]["finalizers"] = finalizers;
        client.post(&oxen, &ox).await.unwrap().expect_status(201).unwrap();
    }
    let path = format!("{CRDS}/oxen.{GROUP}");
    let frozen = |value: Value| json!({"metadata": {"annotations": {"kindom.dev/read-only": value}}});
    client.merge_patch(&path, &frozen(json!("true"))).await.unwrap().expect_status(200).unwrap();
    client.delete(&path).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, &oxen, "abe").await;
    until(&client, &oxen, "bo", |ox| ox["metadata"]["deletionTimestamp"].is_string()).await;
    let release = json!({"metadata": {"finalizers": null}});
    let bo = format!("{oxen}/bo");
    refused(client.merge_patch(&bo, &release).await, 403, "Forbidden", "read-only");
    client.merge_patch(&path, &frozen(Value::Null)).await.unwrap().expect_status(200).unwrap();
    client.merge_patch(&bo, &release).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, CRDS, &format!("oxen.{GROUP}")).await;
    register(&client, &registration).await;
    assert_eq!(client.get(&oxen).await.unwrap().at("/items"), json!([]));
}

/// T-51: whatever way it is asked for.
#[tokio::test]
async fn deletion_with_orphaning_leaves_dependents() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "herds", "Herd", "Namespaced")).await;
    register(&client, &crd(GROUP, "oxen", "Ox", "Namespaced")).await;
    let at = |plural: &str| format!("/apis/{GROUP}/v1/namespaces/default/{plural}");
    let options =
        |field: &str, value: Value| json!({"apiVersion": "v1", "kind": "DeleteOptions", field: value});
    let ways = [
        ("", options("propagationPolicy", json!("Orphan"))),
        ("", options("orphanDependents", json!(true))),
        ("?propagationPolicy=Orphan", Value::Null),
        ("?orphanDependents=true", Value::Null),
    ];
    for (i, (query, body)) in ways.into_iter().enumerate() {
        let herd = object(GROUP, "Herd", &format!("h{i}"), json!({}));
        let herd = client.post(&at("herds"), &herd).await.unwrap().expect_status(201).unwrap().json();
        let mut ox = object(GROUP, "Ox", &format!("o{i}"), json!({}));
        let (name, uid) = (&herd["metadata"]["name"], &herd["metadata"]["uid"]);
        ox["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "farm.example.com/v1", "kind": "Herd", "name": name, "uid": uid}]);
        client.post(&at("oxen"), &ox).await.unwrap().expect_status(201).unwrap();
        let path = format!("{}/h{i}", at("herds"));
        let request = client.request("DELETE", &format!("{path}{query}"));
        let request = if body.is_null() { request } else { request.json(&body) };
        request.send().await.unwrap().expect_status(200).unwrap();
        until_gone(&client, &at("herds"), &format!("h{i}")).await;
        let left =
            client.get(&format!("{}/o{i}", at("oxen"))).await.unwrap().expect_status(200).unwrap().json();
        assert_eq!(left["metadata"].get("ownerReferences"), None);
    }
    // And of a whole type.
    client.delete(&format!("{CRDS}/herds.{GROUP}")).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, CRDS, &format!("herds.{GROUP}")).await;
    assert_eq!(oxen(&client).await.len(), 4);
}

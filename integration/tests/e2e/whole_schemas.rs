//! A registration's whole JSON Schema (`kindom.dev/json-schema`): what structural schemas cannot say holds for every write.

use kindom_integration::{Client, Server};
use serde_json::{Value, json};

use crate::support::{CRDS, crd, object, refused, register};

const GROUP: &str = "whole.example.com";
const LAMPS: &str = "/apis/whole.example.com/v1/namespaces/default/lamps";
const ANNOTATION: &str = "kindom.dev/json-schema";

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"size": {"type": "integer", "minimum": 3}},
        "properties": {"spec": {
            "properties": {"size": {"$ref": "#/$defs/size"}},
            "if": {"properties": {"size": {"minimum": 10}}, "required": ["size"]},
            "then": {"required": ["colour"]},
        }},
    })
}

fn lamps(annotation: &Value) -> Value {
    let mut lamps = crd(GROUP, "lamps", "Lamp", "Namespaced");
    lamps["metadata"]["annotations"] = json!({ANNOTATION: annotation.to_string()});
    lamps
}

/// B-28: of each verb, with field errors in upstream's form; what an object already had wrong is a warning.
#[tokio::test]
async fn every_write_matches_it() {
    let (server, client) = started().await;
    register(&client, &lamps(&schema())).await;
    let lamp = |name: &str, spec: Value| object(GROUP, "Lamp", name, spec);
    let path = LAMPS;
    client.post(path, &lamp("one", json!({"size": 4}))).await.unwrap().expect_status(201).unwrap();
    let zero = client.post(path, &lamp("zero", json!({"size": 2}))).await;
    let why = "spec.size: Invalid value: 2: it is less than the minimum of 3 (of its JSON Schema)";
    let status = refused(zero, 422, "Invalid", why);
    assert_eq!(status["details"]["causes"][0]["field"], "spec.size");
    let without = client.post(path, &lamp("large", json!({"size": 12}))).await;
    refused(without, 422, "Invalid", "spec.colour: Required value");
    let at = format!("{path}/one");
    refused(
        client.merge_patch(&at, &json!({"spec": {"size": 12}})).await,
        422,
        "Invalid",
        "spec.colour: Required value",
    );
    let zero = lamp("one", json!({"size": 2})).to_string();
    let applied = server
        .kubectl_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &zero)
        .await
        .unwrap();
    assert!(applied.stderr.contains("less than the minimum of 3"), "{applied:?}");
    client
        .merge_patch(&at, &json!({"spec": {"size": 12, "colour": "red"}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();

    // A stricter one: the object may be labelled, and its new mistakes are refused.
    let name = format!("{CRDS}/lamps.{GROUP}");
    let mut stricter = schema();
    stricter["$defs"]["size"]["maximum"] = json!(9);
    let annotate = json!({"metadata": {"annotations": {ANNOTATION: stricter.to_string()}}});
    client.merge_patch(&name, &annotate).await.unwrap().expect_status(200).unwrap();
    let labelled = client.merge_patch(&at, &json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
    let labelled = labelled.expect_status(200).unwrap();
    assert!(labelled.header("warning").contains("12: it is greater than the maximum of 9"), "{labelled:?}");
    refused(
        client.merge_patch(&at, &json!({"spec": {"size": 13}})).await,
        422,
        "Invalid",
        "13: it is greater than",
    );

    // Editors get it with the rest.
    let told = client
        .get(&format!("/schemas/{GROUP}/v1/Lamp.json"))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap()
        .json();
    assert_eq!(told["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(
        told["$defs"]["whole"]["properties"]["spec"]["properties"]["size"]["$ref"],
        "#/$defs/whole/$defs/size"
    );

    let remove = json!({"metadata": {"annotations": {ANNOTATION: null}}});
    client.merge_patch(&name, &remove).await.unwrap().expect_status(200).unwrap();
    client.merge_patch(&at, &json!({"spec": {"size": 2}})).await.unwrap().expect_status(200).unwrap();
}

/// One that is no schema, leads out of itself or never ends is refused where it is set; one that takes too long, where it does.
#[tokio::test]
async fn a_schema_that_cannot_be_kept_to_is_refused() {
    let (_server, client) = started().await;
    for (schema, why) in [
        (json!({"type": "text"}), "must be a JSON Schema: #/type"),
        (json!({"$ref": "https://127.0.0.1:1/schema"}), "must lead to a schema within it"),
        (json!({"$ref": "file:///etc/passwd"}), "must lead to a schema within it"),
    ] {
        let status = refused(client.post(CRDS, &lamps(&schema)).await, 422, "Invalid", why);
        assert_eq!(status["details"]["causes"][0]["field"], format!("metadata.annotations[{ANNOTATION}]"));
    }
    let mut definitions = serde_json::Map::new();
    for i in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
        definitions.insert(format!("d{i}"), json!({"anyOf": [{"allOf": [next, false]}, next]}));
    }
    definitions.insert("d40".to_owned(), json!(false));
    let endless = json!({"$defs": definitions, "properties": {"spec": {"$ref": "#/$defs/d0"}}});
    register(&client, &lamps(&endless)).await;
    let created = client.post(LAMPS, &object(GROUP, "Lamp", "one", json!({"size": 2}))).await;
    refused(created, 422, "Invalid", "its JSON Schema takes too long to evaluate");
}

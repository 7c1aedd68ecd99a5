//! The FlowSchemas, PriorityLevelConfigurations and PriorityClasses that the server keeps, as users see and change them. Whether they
//! are kube-apiserver's is compared in `replay.rs`.

use std::collections::BTreeSet;

use kindom_integration::{Client, ServerOptions};
use serde_json::{Value, json};

use crate::support::{until, until_gone};

const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// The largest object of a server.
const LARGEST: usize = 20_000;

fn schema(name: &str, level: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"priorityLevelConfiguration": {"name": level}},
    })
}

fn level(name: &str) -> Value {
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": {"name": name},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    })
}

/// The status of the condition that the server's word stands in.
fn dangling(schema: &Value) -> Option<&str> {
    let conditions = schema["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Dangling")?["status"].as_str()
}

async fn precedence_is(client: &Client, name: &str, precedence: i64) -> Value {
    until(client, SCHEMAS, name, |schema| schema["spec"]["matchingPrecedence"] == precedence).await
}

async fn change(client: &Client, path: &str, patch: &Value) -> Value {
    client.merge_patch(path, patch).await.unwrap().expect_status(200).unwrap().json()
}

/// B-36: they are there in a moment, come back, and are the server's until somebody says otherwise; while the loop that keeps them is
/// killed, and after a start.
#[tokio::test]
async fn the_servers_own_come_back() {
    let mut server = ServerOptions::default().chaos().start().await.unwrap();
    let client = server.client().unwrap();
    let kill = async || {
        let killed = client.request("POST", "/debug/actors/flow-schemas/kill").send().await.unwrap();
        killed.expect_status(200).unwrap();
    };
    until(&client, SCHEMAS, "exempt", |schema| dangling(schema) == Some("False")).await;
    kill().await;
    let probes = until(&client, SCHEMAS, "probes", |schema| dangling(schema) == Some("False")).await;
    kill().await;
    client.delete(&format!("{SCHEMAS}/probes")).await.unwrap().expect_status(200).unwrap();
    until(&client, SCHEMAS, "probes", |again| {
        again["metadata"]["uid"] != probes["metadata"]["uid"] && dangling(again) == Some("False")
    })
    .await;
    kill().await;
    // The answer shows the client's change, which does not last.
    let path = format!("{SCHEMAS}/probes");
    let changed = change(&client, &path, &json!({"spec": {"matchingPrecedence": 77}})).await;
    assert_eq!(changed["spec"]["matchingPrecedence"], 77);
    precedence_is(&client, "probes", 2).await;
    kill().await;
    let own =
        json!({"metadata": {"annotations": {AUTO_UPDATE: "false"}}, "spec": {"matchingPrecedence": 78}});
    change(&client, &path, &own).await;
    client.delete(&format!("{LEVELS}/catch-all")).await.unwrap().expect_status(200).unwrap();
    let catch_all = until(&client, LEVELS, "catch-all", |_| true).await;
    assert_eq!(catch_all["metadata"]["annotations"][AUTO_UPDATE], "true");
    until(&client, SCHEMAS, "catch-all", |schema| dangling(schema) == Some("False")).await;
    // One that a server of before has kept goes.
    let former = schema("former", "exempt", &json!({AUTO_UPDATE: "true"}));
    client.post(SCHEMAS, &former).await.unwrap().expect_status(201).unwrap();
    until_gone(&client, SCHEMAS, "former").await;

    server.terminate().await.unwrap();
    let server = ServerOptions::default().succeeding(&server).start().await.unwrap();
    let client = server.client().unwrap();
    let before = client.get(&format!("{SCHEMAS}/service-accounts")).await.unwrap().json();
    client.delete(&format!("{SCHEMAS}/service-accounts")).await.unwrap().expect_status(200).unwrap();
    until(&client, SCHEMAS, "service-accounts", |again| {
        again["metadata"]["uid"] != before["metadata"]["uid"] && dangling(again) == Some("False")
    })
    .await;
    precedence_is(&client, "probes", 78).await;
    let listed = server.kubectl(&["get", "flowschemas", "--no-headers"]).await.unwrap();
    let missing: BTreeSet<&str> = listed.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!((listed.lines().count(), missing), (11, BTreeSet::from(["False"])), "{listed}");
    let levels = server.kubectl(&["get", "prioritylevelconfigurations", "-o", "name"]).await.unwrap();
    assert_eq!(levels.lines().count(), 8, "{levels}");
}

/// Many schemas that name a level learn that it comes and goes, also behind one that leaves no room for the condition; others are left
/// alone.
#[tokio::test]
async fn every_schema_learns_of_its_level() {
    let flags = ["--max-object-bytes", &LARGEST.to_string()];
    let server = ServerOptions::default().args(&flags).start().await.unwrap();
    let client = server.client().unwrap();
    let names: Vec<String> = (0..20).map(|n| format!("s{n}")).collect();
    for name in &names {
        client.post(SCHEMAS, &schema(name, "late", &Value::Null)).await.unwrap().expect_status(201).unwrap();
    }
    let largest = schema("a", "late", &json!({"filler": "x".repeat(LARGEST - 700)}));
    client.post(SCHEMAS, &largest).await.unwrap().expect_status(201).unwrap();
    client.post(SCHEMAS, &schema("other", "never", &Value::Null)).await.unwrap().expect_status(201).unwrap();
    let other = until(&client, SCHEMAS, "other", |schema| dangling(schema) == Some("True")).await;
    for _ in 0..2 {
        client.post(LEVELS, &level("late")).await.unwrap().expect_status(201).unwrap();
        for name in &names {
            until(&client, SCHEMAS, name, |schema| dangling(schema) == Some("False")).await;
        }
        client.delete(&format!("{LEVELS}/late")).await.unwrap().expect_status(200).unwrap();
        for name in &names {
            until(&client, SCHEMAS, name, |schema| dangling(schema) == Some("True")).await;
        }
    }
    assert_eq!(client.get(&format!("{SCHEMAS}/other")).await.unwrap().json(), other);
}

/// Without flow control nobody writes; the classes of the system do not depend on it, and cannot go.
#[tokio::test]
async fn flow_control_can_be_off() {
    let flags = ["--enable-priority-and-fairness=false", "--profile=kubernetes"];
    let server = ServerOptions::default().args(&flags).start().await.unwrap();
    let client = server.client().unwrap();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    for name in ["system-node-critical", "system-cluster-critical"] {
        until(&client, classes, name, |_| true).await;
        client.delete(&format!("{classes}/{name}")).await.unwrap().expect_status(403).unwrap();
    }
    assert_eq!(client.get(SCHEMAS).await.unwrap().json()["items"], json!([]));
}

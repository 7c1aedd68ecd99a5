//! Event, `v1` and `events.k8s.io/v1`, as kube-apiserver serves them (`objects/src/kinds/event`), and their end
//! (`finalizer-actor/src/expiry.rs`).

use kindom_integration::{Client, Server, ServerOptions};
use serde_json::{Value, json};

use crate::shell::prints;
use crate::support::{namespace, until_gone};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const LATER: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn event(name: &str, last: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": name }, "reason": "Tested", "message": "It was tested",
        "involvedObject": { "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "p" }, "lastTimestamp": last, "type": "Normal",
        "source": { "component": "a-test" } })
}

async fn create(client: &Client, name: &str, last: &str) {
    client.post(EVENTS, &event(name, last)).await.unwrap().expect_status(201).unwrap();
}

#[tokio::test]
async fn kubectl_shows_them_through_both_groups() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    create(&client, "one", "2026-01-02T03:04:05Z").await;
    let caller = &server.caller();
    let table = prints(caller, "kubectl get events").await;
    let words = |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    let rows: Vec<Vec<String>> = table.lines().map(words).collect();
    assert_eq!(rows[0], ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    assert_eq!(rows[1][1..], ["Normal", "Tested", "configmap/p", "It", "was", "tested"]);
    let table = prints(caller, "kubectl get events.v1.events.k8s.io -o wide").await;
    assert!(table.contains("a-test") && table.contains("one"), "{table}");
    let table = prints(caller, "kubectl events --for configmap/p").await;
    assert!(table.contains("Tested") && table.contains("It was tested"), "{table}");
    let note = prints(caller, "kubectl get events.v1.events.k8s.io one -o jsonpath='{.note}'").await;
    assert_eq!(note, "It was tested");
    let explained = prints(caller, "kubectl explain event.involvedObject").await;
    assert!(explained.contains("The object that this event is about"), "{explained}");
    namespace(&client, "other").await;
    prints(caller, "kubectl delete event one").await;
    assert_eq!(client.get(&format!("{LATER}/one")).await.unwrap().status, 404);
}

/// Watches of both groups see each write, in their own shape.
#[tokio::test]
async fn a_write_through_one_group_is_seen_through_the_other() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let mut watch = client.watch(&format!("{LATER}?watch=true")).await.unwrap();
    create(&client, "one", "2026-01-02T03:04:05Z").await;
    let seen = watch.event().await.unwrap();
    assert_eq!((&seen["type"], &seen["object"]["note"]), (&json!("ADDED"), &json!("It was tested")));
    assert_eq!(seen["object"]["apiVersion"], "events.k8s.io/v1");
    assert_eq!(seen["object"].get("message"), None);
}

/// An event goes some time after its last write; by its own times, where nobody saw that.
#[tokio::test]
async fn they_end() {
    let options = ServerOptions::default().args(&["--event-ttl", "6s"]);
    let mut server = options.start().await.unwrap();
    let client = server.client().unwrap();
    let mut watch = client.watch(&format!("{EVENTS}?watch=true")).await.unwrap();
    // Nobody can make one last longer.
    create(&client, "one", "9999-01-02T03:04:05Z").await;
    create(&client, "two", "2026-01-02T03:04:05Z").await;
    let patch = ("application/merge-patch+json", json!({ "count": 2 }).to_string());
    let path = format!("{EVENTS}/one");
    client.request("PATCH", &path).body(patch.0, patch.1).send().await.unwrap().expect_status(200).unwrap();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let event = watch.event().await.unwrap();
        let name = event["object"]["metadata"]["name"].as_str().unwrap();
        seen.push(format!("{} {name}", event["type"].as_str().unwrap()));
    }
    assert_eq!(seen, ["ADDED one", "ADDED two", "MODIFIED one", "DELETED two", "DELETED one"]);
    // What is due when the process starts goes then.
    create(&client, "three", "2026-01-02T03:04:05Z").await;
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    until_gone(&client, EVENTS, "three").await;
}

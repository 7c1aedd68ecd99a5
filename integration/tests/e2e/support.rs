//! Helpers that several modules use.

use std::sync::Arc;
use std::time::Duration;

use kindom_integration::{Answer, Client, HarnessError, Output, Server, tools};
use kindom_storage::{Area, Embedded, EmbeddedOptions, Etcd, EtcdOptions, KeyValue, RangeRequest, Storage};
use serde_json::{Value, json};

/// The longest wait; an event that has not happened by then never will.
const NEVER: Duration = Duration::from_secs(60);
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The media type of aggregated discovery.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A registration of `<plural>.<group>` at version v1, with a small schema:
/// `spec.size` (1 to 100, default 1), `spec.colour` (an enum), `spec.note`, and an open `status`.
pub(crate) fn crd(group: &str, plural: &str, kind: &str, scope: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": [version("v1", true)],
        },
    })
}

/// One served version with the small schema.
pub(crate) fn version(name: &str, storage: bool) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": storage,
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "size": {"type": "integer", "minimum": 1, "maximum": 100, "default": 1},
                        "colour": {"type": "string", "enum": ["red", "green", "blue"]},
                        "note": {"type": "string"},
                    },
                },
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        }},
    })
}

/// An object of a type made by [`crd`].
pub(crate) fn object(group: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Registers a type and waits until its condition Established is True.
pub(crate) async fn register(client: &Client, crd: &Value) {
    client.post(CRDS, crd).await.unwrap().expect_status(201).unwrap();
    condition(client, crd["metadata"]["name"].as_str().unwrap(), "Established", "True").await;
}

/// Waits, on a watch, until the registration's condition has this status; returns the registration.
pub(crate) async fn condition(client: &Client, name: &str, condition: &str, status: &str) -> Value {
    until(client, CRDS, name, |object| {
        object["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == condition && c["status"] == status))
    })
    .await
}

/// Waits, on a watch, until the named object, or without a name any, is as asked; returns it.
pub(crate) async fn until(
    client: &Client,
    collection: &str,
    name: &str,
    ready: impl Fn(&Value) -> bool,
) -> Value {
    let path = match name {
        "" => format!("{collection}?watch=true"),
        name => format!("{collection}?watch=true&fieldSelector=metadata.name%3D{name}"),
    };
    let watching = async {
        let mut watch = client.watch(&path).await.unwrap();
        loop {
            // A server may end a watch at any time; a new one begins with what there is.
            let Some(event) = watch.next_in_time().await.unwrap() else {
                watch = client.watch(&path).await.unwrap();
                continue;
            };
            if event["type"] != "DELETED" && ready(&event["object"]) {
                return event["object"].clone();
            }
        }
    };
    // Each new watch brings an event in time, even where nothing changes any more.
    tokio::time::timeout(5 * NEVER, watching).await.unwrap_or_else(|_| panic!("it never was so: {path}"))
}

/// Asks again and again until it is so.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(NEVER, asking).await.unwrap_or_else(|_| panic!("it never was so: {what}"))
}

/// Waits until the named object is gone.
pub(crate) async fn until_gone(client: &Client, collection: &str, name: &str) {
    // The watch begins before the look, so that a deletion between the two is seen as an event.
    let path = format!("{collection}?watch=true&fieldSelector=metadata.name%3D{name}");
    let mut watch = client.watch(&path).await.unwrap();
    if client.get(&format!("{collection}/{name}")).await.unwrap().status == 404 {
        return;
    }
    while watch.event().await.unwrap()["type"] != "DELETED" {}
}

/// Runs the binary with other arguments than `serve`, as a client of this server.
pub(crate) async fn kindom(server: &Server, args: &[&str], stdin: &str) -> Output {
    let mut command = tokio::process::Command::new(tools::kindom().unwrap());
    command.args(args);
    server.run(command, stdin).await.unwrap()
}

/// The store of a server that has ended.
pub(crate) async fn store(server: &Server) -> Arc<dyn Storage> {
    let endpoints = server.etcd_endpoints();
    if endpoints.is_empty() {
        let folder = server.data_dir().join("store");
        return Arc::new(Embedded::open(folder, EmbeddedOptions::default()).unwrap());
    }
    let areas = ["/registry/", "/kindom/registry/"].map(Area::same).to_vec();
    let options = EtcdOptions::new(endpoints, areas, "/kindom/registry/freshness");
    Arc::new(Etcd::open(options, |_| ()).await.unwrap())
}

/// The stored values under a prefix of a server that has ended.
pub(crate) async fn stored(server: &Server, prefix: &str) -> Vec<KeyValue> {
    let store = store(server).await;
    let found = store.range(RangeRequest::prefix(prefix.as_bytes())).await.unwrap().kvs;
    store.close().await.unwrap();
    found
}

/// Creates a namespace.
pub(crate) async fn namespace(client: &Client, name: &str) {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    client.post("/api/v1/namespaces", &body).await.unwrap().expect_status(201).unwrap();
}

/// Asserts a failure Status of this code and reason whose message contains the text, and returns it.
#[track_caller]
pub(crate) fn refused(answer: Result<Answer, HarnessError>, code: u16, reason: &str, message: &str) -> Value {
    let answer = answer.unwrap();
    let status = answer.json();
    let told = format!("{} → {} {}", answer.what, answer.status, answer.text());
    assert_eq!(answer.status, code, "{told}");
    assert_eq!(status["kind"], "Status", "{told}");
    assert_eq!(status["status"], "Failure", "{told}");
    assert_eq!(status["code"], code, "{told}");
    assert_eq!(status["reason"].as_str().unwrap_or_default(), reason, "{told}");
    assert!(status["message"].as_str().unwrap_or_default().contains(message), "no {message:?} in {told}");
    status
}

/// The names in a list, in its order.
pub(crate) fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|i| i["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A resourceVersion as a number.
pub(crate) fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse().unwrap()
}

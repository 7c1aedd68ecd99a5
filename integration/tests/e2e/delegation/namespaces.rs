//! Namespaces begin and end with the host's.

use kindom_integration::Client;
use serde_json::{Value, json};

use super::{WIDGETS, ask, behind, decide, widget};
use crate::stand_in::StandIn;
use crate::support::{crd, eventually, refused, register};

const NAMESPACES: &str = "/api/v1/namespaces";

fn namespace(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": uid}})
}

fn terminating(name: &str, uid: &str) -> Value {
    let mut namespace = namespace(name, uid);
    namespace["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    namespace
}

fn within(name: &str) -> String {
    WIDGETS.replace("default", name)
}

/// Waits until a namespace is here or not.
async fn is(client: &Client, name: &str, status: u16) {
    eventually(name, async || {
        (ask(client, &format!("{NAMESPACES}/{name}")).await.status == status).then_some(())
    })
    .await;
}

async fn create(client: &Client, namespace: &str, name: &str) -> u16 {
    client.post(&within(namespace), &widget(name)).await.unwrap().status
}

#[tokio::test]
async fn they_begin_and_end_with_the_hosts() {
    let mut host = StandIn::start().await;
    for (name, uid) in [("kube-system", "system"), ("default", "d"), ("team", "1")] {
        host.put(NAMESPACES, &namespace(name, uid));
    }
    decide(&host, "", |_| json!({"allowed": true}));
    let args = ["--namespaces-from-host", "--authentication-skip-lookup"];
    let mut server = behind(&host).args(&args).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd("example.com", "widgets", "Widget", "Namespaced")).await;
    // Those of the host, and no others.
    let names = ask(&client, NAMESPACES).await.json();
    assert_eq!(crate::support::names(&names), ["default", "kube-system", "team"]);
    assert_eq!(create(&client, "team", "a").await, 201);
    refused(
        client.post(&within("other"), &widget("a")).await,
        404,
        "NotFound",
        "namespaces \"other\" not found",
    );
    let here = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let message = "namespaces is forbidden: namespaces are those of the host: change it there";
    refused(client.post(NAMESPACES, &here("mine")).await, 403, "Forbidden", message);
    let team = format!("{NAMESPACES}/team");
    assert_eq!(client.delete(&team).await.unwrap().status, 403);
    assert_eq!(
        client.merge_patch(&team, &json!({"metadata": {"finalizers": []}})).await.unwrap().status,
        403
    );
    host.put(NAMESPACES, &namespace("other", "2"));
    is(&client, "other", 200).await;
    assert_eq!(create(&client, "other", "a").await, 201);
    // It ends there: what is in it here goes, and nothing comes.
    host.put(NAMESPACES, &terminating("team", "1"));
    eventually("it is drained", async || {
        (ask(&client, &format!("{}/a", within("team"))).await.status == 404).then_some(())
    })
    .await;
    let ended = client.post(&within("team"), &widget("b")).await;
    let ended = refused(
        ended,
        403,
        "Forbidden",
        "widgets.example.com \"b\" is forbidden: unable to create new content in namespace team because it is being \
         terminated",
    );
    assert_eq!(ended["details"]["causes"][0]["reason"], "NamespaceTerminating");
    assert_eq!(ask(&client, &team).await.at("/status/phase"), "Terminating", "as long as the host's");
    host.delete(NAMESPACES, "team");
    is(&client, "team", 404).await;
    // Another of the same name is another.
    host.put(NAMESPACES, &namespace("team", "3"));
    is(&client, "team", 200).await;
    assert_eq!(create(&client, "team", "a").await, 201);
    // While the host is away, what was known holds.
    host.go_away();
    assert_eq!(create(&client, "team", "b").await, 201);
    assert_eq!(create(&client, "other", "b").await, 201);
    // Meanwhile one is deleted there, and one is made again.
    host.delete(NAMESPACES, "other");
    host.delete(NAMESPACES, "team");
    host.put(NAMESPACES, &namespace("team", "4"));
    host.come_back().await;
    is(&client, "other", 404).await;
    eventually("the former one's objects are gone", async || {
        (ask(&client, &format!("{}/b", within("team"))).await.status == 404).then_some(())
    })
    .await;
    eventually("the new one takes objects", async || {
        (create(&client, "team", "c").await == 201).then_some(())
    })
    .await;
    assert_eq!(ask(&client, &team).await.at("/metadata/labels/kindom.dev~1host-uid"), "4");
    // A start without the host serves what was known.
    host.go_away();
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    assert_eq!(create(&client, "team", "d").await, 201);
    assert_eq!(create(&client, "other", "d").await, 404);
}

/// The leader falls; what ended under it does not come back, and the other one goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_replica_goes_on() {
    let host = StandIn::start().await;
    for (name, uid) in [("kube-system", "system"), ("team", "1"), ("other", "2")] {
        host.put(NAMESPACES, &namespace(name, uid));
    }
    let etcd = kindom_integration::Etcd::start().await.unwrap();
    let args = ["--namespaces-from-host", "--authentication-skip-lookup"];
    let start = || behind(&host).args(&args).etcd(&etcd.endpoints()).start();
    let mut first = start().await.unwrap();
    let second = start().await.unwrap();
    let client = second.client().unwrap();
    register(&client, &crd("example.com", "widgets", "Widget", "Namespaced")).await;
    assert_eq!(create(&client, "team", "a").await, 201);
    host.put(NAMESPACES, &terminating("team", "1"));
    eventually("it ends for both", async || (create(&client, "team", "b").await == 403).then_some(())).await;
    first.kill9().unwrap();
    host.put(NAMESPACES, &namespace("third", "3"));
    host.delete(NAMESPACES, "other");
    is(&client, "third", 200).await;
    is(&client, "other", 404).await;
    assert_eq!(create(&client, "third", "a").await, 201);
    assert_eq!(create(&client, "team", "b").await, 403, "as on the host");
}

/// A wrong kubeconfig, or a host that lost its namespaces, drains nothing.
#[tokio::test]
async fn another_cluster_changes_nothing() {
    let mut host = StandIn::start().await;
    for (name, uid) in [("kube-system", "system"), ("team", "1")] {
        host.put(NAMESPACES, &namespace(name, uid));
    }
    let args = ["--namespaces-from-host", "--authentication-skip-lookup"];
    let server = behind(&host).args(&args).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd("example.com", "widgets", "Widget", "Namespaced")).await;
    assert_eq!(create(&client, "team", "a").await, 201);
    host.go_away();
    host.put(NAMESPACES, &namespace("kube-system", "another"));
    host.delete(NAMESPACES, "team");
    host.come_back().await;
    let log = async || std::fs::read_to_string(server.log_path()).unwrap();
    eventually("the log says so", async || {
        log().await.contains("the host is another cluster than before").then_some(())
    })
    .await;
    ask(&client, &format!("{}/a", within("team"))).await.expect_status(200).unwrap();
    host.delete(NAMESPACES, "kube-system");
    eventually("the log says so", async || {
        log().await.contains("the host has no namespace kube-system").then_some(())
    })
    .await;
    assert_eq!(create(&client, "team", "b").await, 201);
}

/// Those that were here before the flag was given, and never the host's.
#[tokio::test]
async fn what_was_here_before_stays() {
    let host = StandIn::start().await;
    for (name, uid) in [("kube-system", "system"), ("default", "d")] {
        host.put(NAMESPACES, &namespace(name, uid));
    }
    let own = kindom_integration::Server::start().await.unwrap();
    let client = own.client().unwrap();
    register(&client, &crd("example.com", "widgets", "Widget", "Namespaced")).await;
    crate::support::namespace(&client, "mine").await;
    assert_eq!((create(&client, "mine", "a").await, create(&client, "default", "a").await), (201, 201));
    let mut own = own;
    own.terminate().await.unwrap();
    let args = ["--namespaces-from-host", "--authentication-skip-lookup"];
    let server = behind(&host).args(&args).succeeding(&own).start().await.unwrap();
    let client = server.client().unwrap();
    let label = |name: &str| format!("{NAMESPACES}/{name}");
    eventually("the standard one is the host's", async || {
        let found = ask(&client, &label("default")).await;
        (found.at("/metadata/labels/kindom.dev~1host-uid") == "d").then_some(())
    })
    .await;
    for namespace in ["mine", "default"] {
        ask(&client, &format!("{}/a", within(namespace))).await.expect_status(200).unwrap();
    }
    host.put(NAMESPACES, &namespace("mine", "m"));
    eventually("it is the host's now", async || {
        let found = ask(&client, &label("mine")).await;
        (found.at("/metadata/labels/kindom.dev~1host-uid") == "m").then_some(())
    })
    .await;
    host.delete(NAMESPACES, "mine");
    is(&client, "mine", 404).await;
}

//! Other people's operators, unmodified, against kindom alone: each leads, reconciles, owns, emits events and cleans up (B-42,
//! B-43).

use kindom_integration::{Server, ServerOptions, tools};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::support::{crd, object, register, until, until_gone};

const WIDGETS: &str = "/apis/shop.example.com/v1/namespaces/default/widgets";

async fn server() -> Server {
    let server = ServerOptions::default().args(&["--profile=kubernetes"]).start().await.unwrap();
    let mut widgets = crd("shop.example.com", "widgets", "Widget", "Namespaced");
    widgets["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    register(&server.client().unwrap(), &widgets).await;
    server
}

/// Starts a program as a client of the server, whose output goes to a file of this name.
fn start(server: &Server, mut command: Command, log: &str) -> Child {
    server.environment(&mut command);
    let log = std::fs::File::create(server.scratch().join(log)).unwrap();
    let errors = log.try_clone().unwrap();
    command.stdout(log).stderr(errors).kill_on_drop(true).spawn().unwrap()
}

/// Asks a program to end, as an orchestrator does, and waits until it has.
async fn end(mut program: Child) {
    let id = program.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
    program.wait().await.unwrap();
}

async fn until_sized(server: &Server, name: &str, size: i64) {
    until(&server.client().unwrap(), WIDGETS, name, |widget| widget["status"]["size"] == size).await;
}

/// A manager of controller-runtime, and another one that takes over from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_of_controller_runtime_reconciles() {
    let Some(program) = tools::built("controller-runtime").unwrap() else { return };
    let server = server().await;
    let first = start(&server, Command::new(&program), "first.log");
    let client = server.client().unwrap();
    let widget = object("shop.example.com", "Widget", "one", json!({"size": 3}));
    client.post(WIDGETS, &widget).await.unwrap().expect_status(201).unwrap();
    until_sized(&server, "one", 3).await;
    let replicas =
        server.kubectl(&["get", "deployment", "one", "-o", "jsonpath={.spec.replicas}"]).await.unwrap();
    assert_eq!(replicas, "3");
    let secret = server.kubectl(&["get", "secret", "one", "-o", "jsonpath={.data.size}"]).await.unwrap();
    assert_eq!(secret, "Mw==");
    let event = until(&client, "/apis/events.k8s.io/v1/namespaces/default/events", "", |event| {
        event["reason"] == "Sized" && event["regarding"]["name"] == "one"
    });
    assert_eq!(event.await["note"], "the widget has size 3");
    let status = server.kubectl(&["rollout", "status", "deployment/one", "--timeout=1s"]).await;
    assert!(status.unwrap_err().to_string().contains("Waiting for deployment"), "nothing runs a pod");

    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let holder = |lease: &Value| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
    let leader = holder(&until(&client, leases, "widgets", |lease| !holder(lease).is_empty()).await);
    let second = start(&server, Command::new(&program), "second.log");
    end(first).await;
    until(&client, leases, "widgets", |lease| !holder(lease).is_empty() && holder(lease) != leader).await;
    let larger = json!({"spec": {"size": 9}});
    client.merge_patch(&format!("{WIDGETS}/one"), &larger).await.unwrap().expect_status(200).unwrap();
    until_sized(&server, "one", 9).await;
    client.delete(&format!("{WIDGETS}/one")).await.unwrap().expect_status(200).unwrap();
    for owned in ["/apis/apps/v1/namespaces/default/deployments", "/api/v1/namespaces/default/secrets"] {
        until_gone(&client, owned, "one").await;
    }
    until_gone(&client, WIDGETS, "one").await;
    until_gone(&client, "/api/v1/namespaces/default/configmaps", "one").await;
    end(second).await;
}

/// kopf keeps its progress in annotations, and its finalizer until its handler has run.
#[tokio::test]
async fn an_operator_of_kopf_reconciles() {
    let server = server().await;
    let mut kopf = Command::new(tools::python().unwrap());
    let operator = tools::root().join("integration/python/widget_operator.py");
    kopf.args(["-B", "-m", "kopf", "run", "--standalone", "--namespace=default"]).arg(operator);
    let kopf = start(&server, kopf, "kopf.log");
    let client = server.client().unwrap();
    let widget = object("shop.example.com", "Widget", "one", json!({"size": 3}));
    client.post(WIDGETS, &widget).await.unwrap().expect_status(201).unwrap();
    until_sized(&server, "one", 3).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    until(&client, maps, "one", |map| map["data"]["size"] == "3").await;
    let larger = json!({"spec": {"size": 9}});
    client.merge_patch(&format!("{WIDGETS}/one"), &larger).await.unwrap().expect_status(200).unwrap();
    until_sized(&server, "one", 9).await;
    until(&client, maps, "one", |map| map["data"]["size"] == "9").await;
    let events = "/api/v1/namespaces/default/events";
    until(&client, events, "", |event| event["reason"] == "Resized" && event["message"] == "from 3 to 9")
        .await;
    client.delete(&format!("{WIDGETS}/one")).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, WIDGETS, "one").await;
    until_gone(&client, maps, "one").await;
    until(&client, events, "", |event| event["reason"] == "Removed").await;
    end(kopf).await;
}

//! Services: addresses and ports that no two of them have, whoever asks at the same time.

use std::collections::BTreeSet;

use futures::future::join_all;
use kindom_integration::{Client, ClusterOptions, Server, ServerOptions, count};
use kindom_storage::{Key, Op, RangeRequest, Txn};
use serde_json::{Value, json};

use crate::support::{eventually, namespace, refused, store, until, until_gone};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec.get("ports").is_none() {
        spec["ports"] = json!([{"port": 80}]);
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

/// Addresses and node ports of a service.
fn held(service: &Value) -> Vec<String> {
    let addresses = service["spec"]["clusterIPs"].as_array().into_iter().flatten();
    let ports = service["spec"]["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
    addresses.chain(ports).filter(|value| !value.is_null()).map(Value::to_string).collect()
}

async fn all(client: &Client) -> Vec<Value> {
    let list = client.get("/api/v1/services").await.unwrap().expect_status(200).unwrap().json();
    list["items"].as_array().unwrap().clone()
}

/// Creates services until nothing is left, from all clients at once, and returns the number of those that were created.
async fn create_all(clients: &[Client], names: &str, of_each: usize, spec: &Value) -> usize {
    let one = |client: Client, at: usize| async move {
        let mut created = 0;
        for n in 0..of_each {
            let answer = client.post(SERVICES, &service(&format!("{names}{at}-{n}"), spec)).await.unwrap();
            match answer.status {
                201 => created += 1,
                500 => {
                    let body: Value = answer.json();
                    let message = body["message"].as_str().unwrap();
                    assert!(message.ends_with("range is full"), "{message}");
                    assert_eq!(body["reason"], "InternalError");
                }
                other => panic!("{other}: {:?}", answer.body),
            }
        }
        created
    };
    let created = join_all(clients.iter().cloned().enumerate().map(|(at, client)| one(client, at))).await;
    created.into_iter().sum()
}

/// Fills both ranges from several clients, and checks that nothing was given twice and that everything was given.
async fn fill(clients: &[Client], addresses: usize, ports: usize) {
    let client = &clients[0];
    let before = all(client).await.len();
    let of_each = (addresses + 8).div_ceil(clients.len());
    let spec = json!({"type": "ClusterIP"});
    let created = create_all(clients, "c", of_each, &spec).await;
    assert_eq!(created, addresses - before, "every address but those that were taken before");
    let services = all(client).await;
    let distinct: BTreeSet<String> = services.iter().flat_map(held).collect();
    assert_eq!(distinct.len(), addresses);

    // What one gives back another gets.
    client.delete(&format!("{SERVICES}/c0-0")).await.unwrap().expect_status(200).unwrap();
    let freed = services.iter().find(|service| service["metadata"]["name"] == "c0-0").unwrap();
    let address = freed["spec"]["clusterIP"].as_str().unwrap();
    let again = client.post(SERVICES, &service("again", &json!({}))).await.unwrap();
    let again: Value = again.expect_status(201).unwrap().json();
    assert_eq!(again["spec"]["clusterIP"], address);
    let answer = client.post(SERVICES, &service("one-more", &json!({"clusterIP": address}))).await;
    refused(answer, 422, "Invalid", "provided IP is already allocated");

    // Ports: of services without addresses no more are left, so those that are there get them.
    let patches = services.iter().map(|service| service["metadata"]["name"].as_str().unwrap().to_owned());
    let patches: Vec<String> = patches.filter(|name| name.starts_with('c') && name != "c0-0").collect();
    let to_ports = json!({"spec": {"type": "NodePort"}});
    let patched = join_all(patches.iter().zip(clients.iter().cycle()).map(|(name, client)| {
        let (path, to_ports) = (format!("{SERVICES}/{name}"), to_ports.clone());
        async move { client.merge_patch(&path, &to_ports).await.unwrap().status }
    }));
    let patched = patched.await;
    let got = patched.iter().filter(|status| **status == 200).count();
    assert_eq!(got, ports.min(patches.len()), "{patched:?}");
    let with_ports = all(client).await;
    let of_nodes = with_ports.iter().filter_map(|service| service["spec"]["ports"][0]["nodePort"].as_i64());
    let of_nodes: Vec<i64> = of_nodes.collect();
    assert_eq!(of_nodes.iter().collect::<BTreeSet<_>>().len(), of_nodes.len(), "{of_nodes:?}");
}

#[tokio::test]
async fn no_two_services_have_an_address_or_a_port() {
    let args = ["--service-cluster-ip-range=10.9.0.0/26", "--service-node-port-range=31000-31019"];
    let server = ServerOptions::default().args(&args).start().await.unwrap();
    let client = server.client().unwrap();
    until_kubernetes(&client, "10.9.0.1").await;
    fill(&vec![client; 8], 62, 20).await;
}

#[tokio::test]
async fn no_two_services_of_several_replicas_have_an_address_or_a_port() {
    let args = ["--service-cluster-ip-range=10.9.0.0/27", "--service-node-port-range=31000-31009"];
    let cluster = ClusterOptions::default().args(&args).start().await.unwrap();
    let clients: Vec<Client> = (0..3).map(|replica| cluster.client(replica, false).unwrap()).collect();
    until_kubernetes(&clients[0], "10.9.0.1").await;
    fill(&clients, 30, 10).await;
}

/// Waits for the service that leads to the server.
async fn until_kubernetes(client: &Client, address: &str) {
    let kubernetes = until(client, SERVICES, "kubernetes", |_| true).await;
    assert_eq!(kubernetes["spec"]["clusterIP"], address);
    assert_eq!(kubernetes["spec"]["ports"][0]["name"], "https");
}

#[tokio::test]
async fn addresses_go_with_a_namespace_and_come_back_after_a_restart() {
    let mut server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    namespace(&client, "team").await;
    let team = SERVICES.replace("default", "team");
    let wanted = service(
        "one",
        &json!({"type": "NodePort", "clusterIP": "10.0.0.77",
        "ports": [{"port": 80, "nodePort": 30_777}]}),
    );
    client.post(&team, &wanted).await.unwrap().expect_status(201).unwrap();
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    let other = service("two", &json!({"clusterIP": "10.0.0.77"}));
    refused(client.post(SERVICES, &other).await, 422, "Invalid", "provided IP is already allocated");
    client.delete("/api/v1/namespaces/team").await.unwrap().expect_status(200).unwrap();
    until_gone(&client, "/api/v1/namespaces", "team").await;
    let again = service(
        "two",
        &json!({"type": "NodePort", "clusterIP": "10.0.0.77",
        "ports": [{"port": 80, "nodePort": 30_777}]}),
    );
    client.post(SERVICES, &again).await.unwrap().expect_status(201).unwrap();
}

#[tokio::test]
async fn both_families_are_given_where_both_are_there() {
    let args = ["--service-cluster-ip-range=10.9.0.0/24,fd00:9::/112"];
    let server = ServerOptions::default().args(&args).start().await.unwrap();
    let client = server.client().unwrap();
    let wanted = service("dual", &json!({"ipFamilyPolicy": "PreferDualStack"}));
    let dual: Value = client.post(SERVICES, &wanted).await.unwrap().expect_status(201).unwrap().json();
    assert_eq!(dual["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let second = dual["spec"]["clusterIPs"][1].as_str().unwrap().to_owned();
    assert!(second.starts_with("fd00:9::"), "{second}");
    let path = format!("{SERVICES}/dual");
    let single =
        client.merge_patch(&path, &json!({"spec": {"ipFamilyPolicy": "SingleStack"}})).await.unwrap();
    let single: Value = single.expect_status(200).unwrap().json();
    assert_eq!(single["spec"]["ipFamilies"], json!(["IPv4"]));
    // The second one is free again.
    let wanted = service("six", &json!({"ipFamilies": ["IPv6"], "clusterIP": second}));
    client.post(SERVICES, &wanted).await.unwrap().expect_status(201).unwrap();
    let back =
        client.merge_patch(&path, &json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}})).await.unwrap();
    let back: Value = back.expect_status(200).unwrap().json();
    assert_ne!(back["spec"]["clusterIPs"][1], second.as_str());
}

#[tokio::test]
async fn a_service_with_too_many_ports_is_refused() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let ports: Vec<Value> =
        (1..=count(120, 2000)).map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
    let many = service("many", &json!({"type": "NodePort", "ports": ports}));
    let answer = client.post(SERVICES, &many).await.unwrap();
    assert_eq!(answer.status, 413, "{:?}", answer.body);
    let inside = service("inside", &json!({"ports": ports}));
    client.post(SERVICES, &inside).await.unwrap().expect_status(201).unwrap();
}

#[tokio::test]
async fn kubectl_creates_exposes_and_describes() {
    let server = ServerOptions::default().args(&["--profile=kubernetes"]).start().await.unwrap();
    let client = server.client().unwrap();
    until_kubernetes(&client, "10.0.0.1").await;
    server.kubectl(&["create", "service", "clusterip", "web", "--tcp=80:8080"]).await.unwrap();
    server
        .kubectl(&["create", "deployment", "app", "--image=example.com/app:1", "--port=8080"])
        .await
        .unwrap();
    server.kubectl(&["expose", "deployment", "app", "--type=NodePort", "--port=80"]).await.unwrap();
    let table = server.kubectl(&["get", "svc", "-o", "wide"]).await.unwrap();
    assert!(table.contains("kubernetes") && table.contains("app=app"), "{table}");
    let described = server.kubectl(&["describe", "svc", "app"]).await.unwrap();
    assert!(described.contains("NodePort:") && described.contains("IP Families:"), "{described}");
    let addresses = server.kubectl(&["get", "ipaddresses"]).await.unwrap();
    assert!(addresses.contains("services/default/app"), "{addresses}");
    server.kubectl(&["delete", "svc", "app", "web"]).await.unwrap();
    let addresses = server.kubectl(&["get", "ipaddresses"]).await.unwrap();
    assert!(!addresses.contains("default/app"), "{addresses}");
}

#[tokio::test]
async fn a_service_gets_the_claims_that_its_store_lacks() {
    let mut server = ServerOptions::default().args(&["--profile=kubernetes"]).start().await.unwrap();
    let client = server.client().unwrap();
    let held = service(
        "held",
        &json!({"type": "NodePort", "clusterIP": "10.0.0.77",
        "ports": [{"port": 80, "nodePort": 30_777}]}),
    );
    client.post(SERVICES, &held).await.unwrap().expect_status(201).unwrap();
    server.terminate().await.unwrap();
    let store = store(&server).await;
    let keys = ["/registry/ipaddresses/10.0.0.77", "/registry/ranges/servicenodeports/30777"].map(Key::from);
    for key in &keys {
        let request = RangeRequest { keys_only: true, ..RangeRequest::single(key) };
        assert_eq!(store.range(request).await.unwrap().kvs.len(), 1, "{key}");
    }
    // As a server would leave it that holds ports in another way.
    let ops = keys.into_iter().map(Op::Delete).collect();
    store.txn(Txn { compares: vec![], ops }).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    until(&client, "/apis/networking.k8s.io/v1/ipaddresses", "10.0.0.77", |_| true).await;
    let other = service("other", &json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_777}]}));
    eventually("the port is held", async || {
        let dry = client.post(&format!("{SERVICES}?dryRun=All"), &other).await.unwrap();
        (dry.status == 422).then_some(())
    })
    .await;
    refused(client.post(SERVICES, &other).await, 422, "Invalid", "provided port is already allocated");
}

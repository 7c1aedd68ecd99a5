//! Evictions: as many pods go as a PodDisruptionBudget allows, and no more, whoever evicts at the same time.

use futures::future::{join, join_all};
use kindom_integration::{Client, ClusterOptions, Server, ServerOptions, count};
use serde_json::{Value, json};

use crate::support::{namespace, refused};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const PROFILE: &str = "--profile=kubernetes";

async fn create(client: &Client, collection: &str, object: &Value) {
    client.post(collection, object).await.unwrap().expect_status(201).unwrap();
}

async fn patch(client: &Client, path: &str, patch: &Value) -> Value {
    client.merge_patch(path, patch).await.unwrap().expect_status(200).unwrap().json()
}

/// A pod that runs on a node, and is ready or not.
async fn pod(client: &Client, name: &str, ready: &str) {
    let spec = json!({"nodeName": "node", "containers": [{"name": "c", "image": "example.com/c:1"}]});
    let metadata = json!({"name": name, "labels": {"app": "a"}});
    create(client, PODS, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
        .await;
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
    patch(client, &format!("{PODS}/{name}/status"), &json!({"status": status})).await;
}

/// A budget for all pods, whose status allows so many.
async fn budget(client: &Client, allowed: usize) {
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}});
    let kind = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec});
    create(client, BUDGETS, &kind).await;
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 20, "desiredHealthy": 15});
    patch(client, &format!("{BUDGETS}/b/status"), &json!({"status": status})).await;
}

/// The status with which an eviction is answered.
async fn evict(client: &Client, name: &str) -> u16 {
    let metadata = json!({"name": name});
    let options = json!({"gracePeriodSeconds": 0});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options});
    let answer = client.post(&format!("{PODS}/{name}/eviction"), &eviction).await.unwrap();
    if answer.status == 429 {
        let why = "Cannot evict pod as it would violate the pod's disruption budget.";
        assert_eq!(answer.json()["message"], why);
        assert_eq!(answer.at("/details/causes/0/reason"), "DisruptionBudget");
    }
    answer.status
}

/// Twenty evictions at once of which five may pass, while somebody else writes the budget, too; and once more when it allows more.
async fn race(clients: &[Client]) {
    let client = &clients[0];
    budget(client, 5).await;
    let names: Vec<String> = (0..20).map(|at| format!("p{at}")).collect();
    for name in &names {
        pod(client, name, "True").await;
    }
    let mut left = names;
    for (round, allowed) in [5, 3].into_iter().enumerate() {
        let status = json!({"status": {"disruptionsAllowed": allowed}});
        patch(client, &format!("{BUDGETS}/b/status"), &status).await;
        let others = async {
            for at in 0..10 {
                let labels = json!({"metadata": {"labels": {"at": format!("{round}-{at}")}}});
                patch(&clients[clients.len() - 1], &format!("{BUDGETS}/b"), &labels).await;
            }
        };
        let evictions = left.iter().zip(clients.iter().cycle()).map(|(name, client)| evict(client, name));
        let (statuses, ()) = join(join_all(evictions), others).await;
        let of = |status: u16| statuses.iter().filter(|found| **found == status).count();
        assert_eq!((of(201), of(429)), (allowed, left.len() - allowed), "{statuses:?}");
        let gone = left.iter().zip(&statuses).filter(|(_, status)| **status == 201).map(|(name, _)| name);
        let budget = client.get(&format!("{BUDGETS}/b")).await.unwrap().json();
        assert_eq!(budget["status"]["disruptionsAllowed"], 0);
        let named = budget["status"]["disruptedPods"].as_object().unwrap();
        assert!(gone.clone().all(|name| named.contains_key(name)), "{named:?}");
        left = left
            .iter()
            .zip(&statuses)
            .filter(|(_, status)| **status == 429)
            .map(|(name, _)| name.clone())
            .collect();
        let list = client.get(PODS).await.unwrap().json();
        let mut there: Vec<&str> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap())
            .collect();
        there.sort_unstable();
        let mut expected: Vec<&str> = left.iter().map(String::as_str).collect();
        expected.sort_unstable();
        assert_eq!(there, expected);
    }
    for name in &left {
        client
            .delete(&format!("{PODS}/{name}?gracePeriodSeconds=0"))
            .await
            .unwrap()
            .expect_status(200)
            .unwrap();
    }
    client.delete(&format!("{BUDGETS}/b")).await.unwrap().expect_status(200).unwrap();
}

#[tokio::test]
async fn as_many_pods_go_at_once_as_a_budget_allows() {
    let server = ServerOptions::default().args(&[PROFILE]).start().await.unwrap();
    for _ in 0..count(2, 10) {
        race(&vec![server.client().unwrap(); 20]).await;
    }
}

#[tokio::test]
async fn as_many_pods_go_at_once_on_several_replicas_as_a_budget_allows() {
    let cluster = ClusterOptions::default().args(&[PROFILE]).start().await.unwrap();
    let clients: Vec<Client> = (0..3).map(|replica| cluster.client(replica, false).unwrap()).collect();
    for _ in 0..count(1, 10) {
        race(&clients).await;
    }
}

/// A pod that gets ready while it is evicted counts, or goes while it is not ready: it is never evicted ready without a count.
#[tokio::test]
async fn a_pod_that_gets_ready_meanwhile_is_not_spared() {
    let server = ServerOptions::default().args(&[PROFILE]).start().await.unwrap();
    let client = server.client().unwrap();
    budget(&client, 0).await;
    for at in 0..count(15, 150) {
        let name = format!("r{at}");
        pod(&client, &name, "False").await;
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let path = format!("{PODS}/{name}/status");
        let (evicted, ready) = join(evict(&client, &name), client.merge_patch(&path, &status)).await;
        let ready = ready.unwrap();
        match evicted {
            // Between the mark and the deletion it may get ready, and then it does not go.
            429 => assert_eq!(ready.status, 200),
            201 => assert_eq!(ready.status, 404, "it went although it was ready: {}", ready.text()),
            other => panic!("{other}"),
        }
    }
}

async fn drain(server: &Server) -> String {
    let args = [
        "drain",
        "node",
        "--force",
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--grace-period=0",
        "--timeout=3s",
    ];
    let drained = server.kubectl_with(&args, "").await.unwrap();
    format!("{}{}", drained.stdout, drained.stderr)
}

#[tokio::test]
async fn kubectl_drains_a_node_as_far_as_a_budget_allows() {
    let server = ServerOptions::default().args(&[PROFILE]).start().await.unwrap();
    let client = server.client().unwrap();
    create(
        &client,
        "/api/v1/nodes",
        &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}}),
    )
    .await;
    for name in ["one", "two", "three"] {
        pod(&client, name, "True").await;
    }
    budget(&client, 1).await;
    let drained = drain(&server).await;
    assert_eq!(drained.matches(" evicted").count(), 1, "{drained}");
    let refused = "(will retry after 5s): Cannot evict pod as it would violate the pod's disruption budget.";
    assert_eq!(drained.matches(refused).count(), 2, "{drained}");
    let left = server.kubectl(&["get", "pods", "-o", "name"]).await.unwrap();
    assert_eq!(left.lines().count(), 2, "{left}");
    client.delete(&format!("{BUDGETS}/b")).await.unwrap().expect_status(200).unwrap();
    let drained = drain(&server).await;
    assert!(drained.contains("node/node drained"), "{drained}");
    assert_eq!(server.kubectl(&["get", "pods", "-o", "name"]).await.unwrap(), "");
}

/// The bytes of a field of protobuf.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

#[tokio::test]
async fn an_eviction_comes_in_protobuf_of_both_versions() {
    let server = ServerOptions::default().args(&[PROFILE]).start().await.unwrap();
    let client = server.client().unwrap();
    for version in ["policy/v1", "policy/v1beta1"] {
        pod(&client, "one", "True").await;
        let grace = field(2, &[1 << 3, 0]);
        let eviction = [field(1, &field(1, b"one")), grace].concat();
        let kind = [field(1, version.as_bytes()), field(2, b"Eviction")].concat();
        let body = [b"k8s\0".to_vec(), field(1, &kind), field(2, &eviction)].concat();
        let evict = client.request("POST", &format!("{PODS}/one/eviction"));
        let answer = evict.body("application/vnd.kubernetes.protobuf", body).send().await.unwrap();
        assert_eq!(answer.status, 201, "{version}: {}", answer.text());
        client.get(&format!("{PODS}/one")).await.unwrap().expect_status(404).unwrap();
    }
}

#[tokio::test]
async fn nothing_is_evicted_from_a_namespace_that_is_ending() {
    let server = ServerOptions::default().args(&[PROFILE]).start().await.unwrap();
    let client = server.client().unwrap();
    namespace(&client, "team").await;
    let pods = PODS.replace("default", "team");
    let spec = json!({"containers": [{"name": "c", "image": "example.com/c:1"}]});
    let metadata = json!({"name": "one", "finalizers": ["example.com/hold"]});
    create(&client, &pods, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
        .await;
    client.delete("/api/v1/namespaces/team").await.unwrap();
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one"}});
    let answer = client.post(&format!("{pods}/one/eviction"), &eviction).await;
    let why = "pods \"one\" is forbidden: unable to create new content in namespace team because it is being terminated";
    refused(answer, 403, "Forbidden", why);
}

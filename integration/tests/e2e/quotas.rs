//! ResourceQuotas: as many objects as they allow, and no more, whoever creates at the same time.

use futures::future::join_all;
use kindom_integration::{Client, ClusterOptions, Server, ServerOptions, count};
use serde_json::{Value, json};

use crate::support::{crd, namespace, refused, register, until};

const TEAM: &str = "/api/v1/namespaces/team";
const QUOTAS: &str = "/api/v1/namespaces/team/resourcequotas";
const MAPS: &str = "/api/v1/namespaces/team/configmaps";

fn quota(name: &str, hard: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}})
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn create(client: &Client, collection: &str, object: &Value) -> Value {
    client.post(collection, object).await.unwrap().expect_status(201).unwrap().json()
}

/// Waits until a quota's status says that so much is in use.
async fn until_used(client: &Client, name: &str, used: &Value) {
    until(client, QUOTAS, name, |quota| quota["status"]["used"] == *used).await;
}

/// Creates from all clients at once, more than the quota allows; returns how many were created.
async fn create_many(clients: &[Client], names: &str, of_each: usize) -> usize {
    let one = |client: Client, at: usize| async move {
        let mut created = 0;
        for n in 0..of_each {
            let answer = client.post(MAPS, &map(&format!("{names}{at}-{n}"))).await.unwrap();
            match answer.status {
                201 => created += 1,
                403 => assert!(answer.json()["message"].as_str().unwrap().contains("exceeded quota: q")),
                other => panic!("{other}: {:?}", answer.body),
            }
        }
        created
    };
    join_all(clients.iter().cloned().enumerate().map(|(at, client)| one(client, at))).await.into_iter().sum()
}

async fn maps(client: &Client) -> usize {
    client.get(MAPS).await.unwrap().expect_status(200).unwrap().json()["items"].as_array().unwrap().len()
}

/// Fills a namespace from several clients, frees some of it, and fills it again.
async fn fill(clients: &[Client], hard: usize) {
    let client = &clients[0];
    namespace(client, "team").await;
    // The server's own.
    until(client, MAPS, "kube-root-ca.crt", |_| true).await;
    create(client, QUOTAS, &quota("q", &json!({"count/configmaps": hard.to_string(), "secrets": "3"}))).await;
    let of_each = hard.div_ceil(clients.len()) + 3;
    assert_eq!(create_many(clients, "m", of_each).await, hard - 1);
    assert_eq!(maps(client).await, hard);
    until_used(client, "q", &json!({"count/configmaps": hard.to_string(), "secrets": "0"})).await;
    let list = client.get(MAPS).await.unwrap().json();
    let names = list["items"].as_array().unwrap().iter().map(|map| map["metadata"]["name"].as_str().unwrap());
    let names: Vec<&str> = names.filter(|name| name.starts_with('m')).take(5).collect();
    for name in &names {
        client.delete(&format!("{MAPS}/{name}")).await.unwrap().expect_status(200).unwrap();
    }
    until_used(client, "q", &json!({"count/configmaps": (hard - 5).to_string(), "secrets": "0"})).await;
    assert_eq!(create_many(clients, "again", of_each).await, 5);
    assert_eq!(maps(client).await, hard);
}

#[tokio::test]
async fn as_many_objects_as_a_quota_allows_are_created_at_once() {
    let server = Server::start().await.unwrap();
    fill(&vec![server.client().unwrap(); 8], count(20, 200)).await;
}

#[tokio::test]
async fn as_many_objects_as_a_quota_allows_are_created_on_several_replicas() {
    let cluster = ClusterOptions::default().start().await.unwrap();
    let clients: Vec<Client> = (0..3).map(|replica| cluster.client(replica, false).unwrap()).collect();
    fill(&clients, count(12, 100)).await;
}

#[tokio::test]
async fn a_refusal_is_kubernetes() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    namespace(&client, "team").await;
    register(&client, &crd("example.com", "widgets", "Widget", "Namespaced")).await;
    let hard = json!({"count/widgets.example.com": "1", "services": "2", "count/services": "5", "services.nodeports": "2",
        "services.loadbalancers": "0"});
    create(&client, QUOTAS, &quota("q", &hard)).await;
    let zero = json!({"count/widgets.example.com": "0", "services": "0", "count/services": "0", "services.nodeports": "0",
        "services.loadbalancers": "0"});
    until_used(&client, "q", &zero).await;
    let widgets = "/apis/example.com/v1/namespaces/team/widgets";
    let widget =
        |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    create(&client, widgets, &widget("one")).await;
    let why = "widgets.example.com \"two\" is forbidden: exceeded quota: q, requested: count/widgets.example.com=1, used: \
               count/widgets.example.com=1, limited: count/widgets.example.com=1";
    refused(client.post(widgets, &widget("two")).await, 403, "Forbidden", why);
    let dry = client.post(&format!("{widgets}?dryRun=All"), &widget("two")).await;
    refused(dry, 403, "Forbidden", "exceeded quota: q");
    // Other namespaces have none.
    let elsewhere = widgets.replace("team", "default");
    create(&client, &elsewhere, &widget("two")).await;
    // A change of an object that is there costs nothing more.
    let path = format!("{widgets}/one");
    client
        .merge_patch(&path, &json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();

    let services = "/api/v1/namespaces/team/services";
    let service = |name: &str, kind: &str, ports: usize| {
        let ports: Vec<Value> =
            (1..=ports).map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"type": kind, "ports": ports}})
    };
    let why = "exceeded quota: q, requested: services.nodeports=3, used: services.nodeports=0, limited: services.nodeports=2";
    refused(client.post(services, &service("a", "NodePort", 3)).await, 403, "Forbidden", why);
    create(&client, services, &service("a", "NodePort", 2)).await;
    create(&client, services, &service("b", "ClusterIP", 1)).await;
    let why = "exceeded quota: q, requested: services=1, used: services=2, limited: services=2";
    refused(client.post(services, &service("c", "ClusterIP", 1)).await, 403, "Forbidden", why);
    let to_nodes = client.merge_patch(&format!("{services}/b"), &json!({"spec": {"type": "NodePort"}})).await;
    let why = "exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=2, limited: services.nodeports=2";
    refused(to_nodes, 403, "Forbidden", why);
    let balancer = client
        .merge_patch(
            &format!("{services}/b"),
            &json!({"spec": {"type": "LoadBalancer",
        "allocateLoadBalancerNodePorts": false}}),
        )
        .await;
    let why = "exceeded quota: q, requested: services.loadbalancers=1, used: services.loadbalancers=0, limited: \
               services.loadbalancers=0";
    refused(balancer, 403, "Forbidden", why);
    client
        .merge_patch(&format!("{services}/a"), &json!({"spec": {"type": "ClusterIP"}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    client
        .merge_patch(&format!("{services}/b"), &json!({"spec": {"type": "NodePort"}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();

    // More is allowed once the quota says so, and the quota goes.
    client
        .merge_patch(&format!("{QUOTAS}/q"), &json!({"spec": {"hard": {"count/widgets.example.com": "2"}}}))
        .await
        .unwrap();
    create(&client, widgets, &widget("two")).await;
    refused(
        client.post(widgets, &widget("three")).await,
        403,
        "Forbidden",
        "used: count/widgets.example.com=2",
    );
    let shown = server.kubectl(&["describe", "quota", "q", "-n", "team"]).await.unwrap();
    assert!(shown.contains("count/widgets.example.com  2     2"), "{shown}");
    client.delete(&format!("{QUOTAS}/q")).await.unwrap().expect_status(200).unwrap();
    create(&client, widgets, &widget("three")).await;
}

#[tokio::test]
async fn quotas_with_scopes_are_about_pods_and_a_full_namespace_can_go() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    namespace(&client, "team").await;
    let mut scoped = quota("scoped", &json!({"pods": "0"}));
    scoped["spec"]["scopes"] = json!(["BestEffort"]);
    create(&client, QUOTAS, &scoped).await;
    create(&client, QUOTAS, &quota("q", &json!({"secrets": "0", "resourcequotas": "3"}))).await;
    create(&client, QUOTAS, &quota("r", &json!({"count/secrets": "5"}))).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}});
    let why = "exceeded quota: q, requested: secrets=1, used: secrets=0, limited: secrets=0";
    refused(client.post(&format!("{TEAM}/secrets"), &secret).await, 403, "Forbidden", why);
    let one_more = client.post(QUOTAS, &quota("s", &json!({}))).await;
    refused(
        one_more,
        403,
        "Forbidden",
        "exceeded quota: q, requested: resourcequotas=1, used: resourcequotas=3",
    );
    create(&client, MAPS, &map("one")).await;
    client.delete(TEAM).await.unwrap().expect_status(200).unwrap();
    crate::support::until_gone(&client, "/api/v1/namespaces", "team").await;
}

/// Twenty pods want what three may have; what one that has ended gives back another gets.
async fn share(clients: &[Client]) {
    let pods = "/api/v1/namespaces/team/pods";
    let client = &clients[0];
    namespace(client, "team").await;
    create(client, QUOTAS, &quota("q", &json!({"requests.cpu": "1", "pods": "10", "count/pods": "10"})))
        .await;
    let of = |cpu: &str, running: &str, all: &str| json!({"requests.cpu": cpu, "pods": running, "count/pods": all});
    until_used(client, "q", &of("0", "0", "0")).await;
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "300m"}}}]}})
    };
    let wanted = (0..20).map(|n| {
        let (client, pod) = (clients[n % clients.len()].clone(), pod(&format!("p{n}")));
        async move { client.post(pods, &pod).await.unwrap() }
    });
    let answers = join_all(wanted).await;
    let refused_with =
        "exceeded quota: q, requested: requests.cpu=300m, used: requests.cpu=900m, limited: requests.cpu=1";
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!(answer.status, 403, "{}", answer.text());
        assert!(answer.text().contains(refused_with), "{}", answer.text());
    }
    let created: Vec<Value> =
        answers.iter().filter(|answer| answer.status == 201).map(kindom_integration::Answer::json).collect();
    assert_eq!(created.len(), 3);
    until_used(client, "q", &of("900m", "3", "3")).await;
    let ended = format!("{pods}/{}/status", created[0]["metadata"]["name"].as_str().unwrap());
    let status = json!({"status": {"phase": "Succeeded"}});
    client.merge_patch(&ended, &status).await.unwrap().expect_status(200).unwrap();
    until_used(client, "q", &of("600m", "2", "3")).await;
    create(client, pods, &pod("later")).await;
    until_used(client, "q", &of("900m", "3", "4")).await;
    let less = json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "100m"}}}]}});
    let resize = client.request("PATCH", &format!("{pods}/later/resize"));
    let resize = resize.body("application/strategic-merge-patch+json", less.to_string()).send().await;
    resize.unwrap().expect_status(200).unwrap();
    until_used(client, "q", &of("700m", "3", "4")).await;
}

#[tokio::test]
async fn pods_share_what_they_may_request() {
    let server = ServerOptions::default().args(&["--profile=kubernetes"]).start().await.unwrap();
    share(&vec![server.client().unwrap(); 4]).await;
}

#[tokio::test]
async fn pods_of_several_replicas_share_what_they_may_request() {
    let cluster = ClusterOptions::default().args(&["--profile=kubernetes"]).start().await.unwrap();
    let clients: Vec<Client> = (0..3).map(|replica| cluster.client(replica, false).unwrap()).collect();
    share(&clients).await;
}

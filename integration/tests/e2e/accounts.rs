//! The loops of service accounts: what every namespace has, and the secrets that hold tokens (`finalizer-actor/src/provision.rs`,
//! `account_secrets.rs`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kindom_integration::{Client, Server, ServerOptions};
use serde_json::{Value, json};

use crate::support::{namespace, until_gone};

const MERGE: &str = "application/merge-patch+json";

/// Waits for an event of an object of a collection in which something holds.
async fn until(client: &Client, collection: &str, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{collection}?watch=true&fieldSelector=metadata.name%3D{name}");
    let mut watch = client.watch(&path).await.unwrap();
    loop {
        let event = watch.event().await.unwrap();
        if event["type"] != "DELETED" && holds(&event["object"]) {
            return event["object"].clone();
        }
    }
}

fn account(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/serviceaccounts")
}

fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

async fn has_everything(client: &Client, namespace: &str) -> String {
    let found = until(client, &account(namespace), "default", |_| true).await;
    let has_authority =
        |map: &Value| map["data"]["ca.crt"].as_str().is_some_and(|pem| pem.starts_with("-----BEGIN CERT"));
    until(client, &config_maps(namespace), "kube-root-ca.crt", has_authority).await;
    found["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_namespace_has_an_account_and_the_authorities() {
    let mut server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        has_everything(&client, name).await;
    }
    for i in 0..20 {
        namespace(&client, &format!("n{i}")).await;
    }
    for i in 0..20 {
        has_everything(&client, &format!("n{i}")).await;
    }
    // What somebody deletes comes back, and what somebody changes is put right.
    let before = has_everything(&client, "n0").await;
    client.delete(&format!("{}/default", account("n0"))).await.unwrap().expect_status(200).unwrap();
    let again = until(&client, &account("n0"), "default", |found| found["metadata"]["uid"] != before).await;
    let map = format!("{}/kube-root-ca.crt", config_maps("n0"));
    client.delete(&map).await.unwrap().expect_status(200).unwrap();
    has_everything(&client, "n0").await;
    let wrong = json!({ "data": { "ca.crt": "no", "more": "x" } }).to_string();
    client.request("PATCH", &map).body(MERGE, wrong).send().await.unwrap().expect_status(200).unwrap();
    until(&client, &config_maps("n0"), "kube-root-ca.crt", |map| {
        map["data"]["ca.crt"] != "no" && map["data"].get("more").is_none()
    })
    .await;
    // They go with their namespace, and hold it up no longer than it takes.
    client.delete("/api/v1/namespaces/n1").await.unwrap().expect_status(200).unwrap();
    until_gone(&client, "/api/v1/namespaces", "n1").await;
    for path in [account("n1"), config_maps("n1")] {
        assert_eq!(client.get(&path).await.unwrap().at("/items"), json!([]));
    }
    // A new process changes nothing of what is right.
    server.kill9().unwrap();
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    namespace(&client, "later").await;
    has_everything(&client, "later").await;
    let found = client.get(&format!("{}/default", account("n0"))).await.unwrap();
    assert_eq!(found.at("/metadata/uid"), again["metadata"]["uid"]);
}

#[tokio::test]
async fn a_secret_gets_the_token_of_its_account_and_goes_with_it() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    let body = json!({ "metadata": { "name": "builder" } });
    client.post(&account("default"), &body).await.unwrap().expect_status(201).unwrap();
    let secret = |name: &str, account: &str| {
        json!({
            "metadata": { "name": name, "annotations": { "kubernetes.io/service-account.name": account } },
            "type": "kubernetes.io/service-account-token",
        })
    };
    client.post(SECRETS, &secret("t", "builder")).await.unwrap().expect_status(201).unwrap();
    let filled = until(&client, SECRETS, "t", |secret| secret["data"]["token"].is_string()).await;
    let data = |field: &str| {
        String::from_utf8(BASE64.decode(filled["data"][field].as_str().unwrap()).unwrap()).unwrap()
    };
    assert_eq!(data("namespace"), "default");
    assert!(data("ca.crt").starts_with("-----BEGIN CERTIFICATE-----"));
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let who = async |token: &str| {
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer = server.anonymous().unwrap().with_token(token).post(path, &review).await.unwrap();
        (answer.status, answer.at("/status/userInfo/username"))
    };
    let token = data("token");
    assert_eq!(who(&token).await, (201, json!("system:serviceaccount:default:builder")));
    // A token that was taken out is another one's no more; the secret gets a new one.
    let none = json!({ "data": { "token": null } }).to_string();
    let path = format!("{SECRETS}/t");
    client.request("PATCH", &path).body(MERGE, none).send().await.unwrap().expect_status(200).unwrap();
    let again = until(&client, SECRETS, "t", |secret| secret["data"]["token"].is_string()).await;
    let again = BASE64.decode(again["data"]["token"].as_str().unwrap()).unwrap();
    assert_ne!(again, token.as_bytes());
    assert_eq!(who(&token).await.0, 401);
    assert_eq!(who(&String::from_utf8(again).unwrap()).await.0, 201);
    // A secret of nobody goes, at once or with its account.
    client.post(SECRETS, &secret("orphan", "nobody")).await.unwrap().expect_status(201).unwrap();
    until_gone(&client, SECRETS, "orphan").await;
    let path = format!("{}/builder", account("default"));
    client.delete(&path).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, SECRETS, "t").await;
}

#[tokio::test]
async fn they_run_unless_they_are_taken_out() {
    let flag = "--controllers=*,-serviceaccount-controller,-serviceaccount-token-controller";
    let server = ServerOptions::default().args(&[flag]).start().await.unwrap();
    let client = server.client().unwrap();
    namespace(&client, "n").await;
    // The one that runs is done, and there is nothing of the others.
    until(&client, &config_maps("n"), "kube-root-ca.crt", |_| true).await;
    assert_eq!(client.get("/api/v1/serviceaccounts").await.unwrap().at("/items"), json!([]));
    let minimal = ServerOptions::default().args(&["--profile=minimal"]).start().await.unwrap();
    let client = minimal.client().unwrap();
    let served = client.get("/api/v1").await.unwrap().at("/resources");
    let names: Vec<&str> =
        served.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["namespaces", "namespaces/finalize", "namespaces/status"]);
    assert_eq!(client.get("/api/v1/namespaces/default/configmaps").await.unwrap().status, 404);
    assert_eq!(client.get("/openid/v1/jwks").await.unwrap().status, 404);
    namespace(&client, "n").await;
    client.delete("/api/v1/namespaces/n").await.unwrap().expect_status(200).unwrap();
    until_gone(&client, "/api/v1/namespaces", "n").await;
}

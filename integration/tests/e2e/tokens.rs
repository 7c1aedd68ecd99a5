//! Service accounts: the tokens that they get, whom those make, and when they end (`http/src/accounts.rs`).

use kindom_integration::{Client, ClusterOptions, Server, ServerOptions, count};
use serde_json::{Value, json};

use crate::shell::prints;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

async fn account(client: &Client, name: &str) {
    let body = json!({ "metadata": { "name": name } });
    client.post(ACCOUNTS, &body).await.unwrap().expect_status(201).unwrap();
}

async fn token(client: &Client, account: &str, spec: Value) -> String {
    let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
    let path = format!("{ACCOUNTS}/{account}/token");
    let answer = client.post(&path, &body).await.unwrap().expect_status(201).unwrap();
    answer.at("/status/token").as_str().unwrap().to_owned()
}

/// The answer to a request with nothing but the token, and the name that it gives.
async fn who(server: &Server, token: &str) -> (u16, String) {
    let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let answer = server.anonymous().unwrap().with_token(token).post(SELF, &body).await.unwrap();
    (answer.status, answer.at("/status/userInfo/username").as_str().unwrap_or_default().to_owned())
}

const BUILDER: &str = "system:serviceaccount:default:builder";

fn is_builder() -> (u16, String) {
    (201, BUILDER.to_owned())
}

fn is_nobody() -> (u16, String) {
    (401, String::new())
}

#[tokio::test]
async fn kubectl_gets_a_token_and_is_the_account_with_it() {
    let server = Server::start().await.unwrap();
    let caller = &server.caller();
    prints(caller, "kubectl create serviceaccount builder").await;
    let token = prints(caller, "kubectl create token builder --duration=20m").await;
    let token = token.trim();
    assert_eq!(token.split('.').count(), 3, "{token}");
    // kubectl prefers the certificate of its configuration, so it gets one without.
    let bare = format!(
        "kubectl --kubeconfig=/dev/null --server={} --insecure-skip-tls-verify --token={token} auth whoami -o jsonpath='{{.status.userInfo}}'",
        server_url(&server)
    );
    let info: Value = serde_json::from_str(&prints(caller, &bare).await).unwrap();
    assert_eq!(info["username"], BUILDER);
    assert_eq!(
        info["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    let id = info["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
    assert!(id.starts_with("JTI="), "{id}");
}

fn server_url(server: &Server) -> String {
    format!("https://{}", server.address().unwrap())
}

#[tokio::test]
async fn a_token_ends_with_its_account_and_with_what_it_is_bound_to() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    account(&client, "builder").await;
    let free = token(&client, "builder", json!({})).await;
    let secret = json!({ "metadata": { "name": "s" } });
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    client.post(SECRETS, &secret).await.unwrap().expect_status(201).unwrap();
    let to = json!({ "boundObjectRef": { "apiVersion": "v1", "kind": "Secret", "name": "s" } });
    let bound = token(&client, "builder", to).await;
    for token in [&free, &bound] {
        assert_eq!(who(&server, token).await, is_builder());
    }
    client.delete(&format!("{SECRETS}/s")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(who(&server, &bound).await, is_nobody());
    // Another one of that name is not the one.
    client.post(SECRETS, &secret).await.unwrap().expect_status(201).unwrap();
    assert_eq!(who(&server, &bound).await, is_nobody());
    assert_eq!(who(&server, &free).await, is_builder());
    client.delete(&format!("{ACCOUNTS}/builder")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(who(&server, &free).await, is_nobody());
    account(&client, "builder").await;
    assert_eq!(who(&server, &free).await, is_nobody());
}

/// Tokens end with the answer to a deletion, even where the store is another process that answers before it tells of the change.
#[tokio::test]
async fn a_token_is_over_when_the_deletion_is_answered() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    account(&client, "builder").await;
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    for round in 0..count(100, 2_000) {
        let secret = json!({ "metadata": { "name": "s" } });
        client.post(SECRETS, &secret).await.unwrap().expect_status(201).unwrap();
        let to = json!({ "boundObjectRef": { "apiVersion": "v1", "kind": "Secret", "name": "s" } });
        let bound = token(&client, "builder", to).await;
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": bound }
        });
        let holds = async || {
            let answer = client.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
            answer.unwrap().expect_status(201).unwrap().at("/status/authenticated") == true
        };
        assert!(holds().await, "round {round}");
        client.delete(&format!("{SECRETS}/s")).await.unwrap().expect_status(200).unwrap();
        assert!(!holds().await, "round {round}");
    }
}

#[tokio::test]
async fn forged_tokens_and_those_for_others_let_nobody_in() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    account(&client, "builder").await;
    let good = token(&client, "builder", json!({})).await;
    assert_eq!(who(&server, &good).await, is_builder());
    let vault = token(&client, "builder", json!({ "audiences": ["vault"] })).await;
    let elsewhere = Server::start().await.unwrap();
    let theirs = elsewhere.client().unwrap();
    account(&theirs, "builder").await;
    let foreign = token(&theirs, "builder", json!({})).await;
    let parts: Vec<&str> = good.split('.').collect();
    // {"alg":"none"}
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", parts[1]);
    let swapped = format!("{}.{}.{}", parts[0], vault.split('.').nth(1).unwrap(), parts[2]);
    let long = format!("{good}{}", "A".repeat(20_000));
    for token in [
        &vault,
        &foreign,
        &unsigned,
        &swapped,
        &long,
        &format!("{good}.x"),
        &good[..good.len() - 1].to_owned(),
    ] {
        assert_eq!(who(&server, token).await, is_nobody(), "{token}");
    }
    assert_eq!(who(&server, &good).await, is_builder());
}

#[tokio::test]
async fn a_token_outlives_its_server_and_keys_may_be_files() {
    let mut server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    account(&client, "builder").await;
    let own = token(&client, "builder", json!({})).await;
    server.restart().await.unwrap();
    assert_eq!(who(&server, &own).await, is_builder());

    let folder = tempfile::tempdir().unwrap();
    let caller = &server.caller();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (rsa, elliptic, public) = (file("rsa.key"), file("ec.key"), file("ec.pub"));
    prints(caller, &format!("openssl genrsa -traditional -out {rsa} 2048")).await;
    prints(caller, &format!("openssl ecparam -genkey -name prime256v1 -noout -out {elliptic}")).await;
    prints(caller, &format!("openssl ec -in {elliptic} -pubout -out {public}")).await;
    let with = |args: [String; 3]| ServerOptions::default().args(&args.each_ref().map(String::as_str));
    let flag = |name: &str, file: &str| format!("--service-account-{name}={file}");
    let issuer = "--service-account-issuer=https://example.com".to_owned();
    let first =
        with([flag("signing-key-file", &elliptic), issuer.clone(), "--api-audiences=here".to_owned()]);
    let mut first = first.start().await.unwrap();
    account(&first.client().unwrap(), "builder").await;
    let older = token(&first.client().unwrap(), "builder", json!({})).await;
    assert_eq!(who(&first, &older).await, is_builder());
    let keys = first.client().unwrap().get("/openid/v1/jwks").await.unwrap().expect_status(200).unwrap();
    assert_eq!(keys.header("content-type"), "application/jwk-set+json");
    assert_eq!(keys.at("/keys/0/alg"), "ES256");
    let about = first.client().unwrap().get("/.well-known/openid-configuration").await.unwrap();
    let keys_at = format!("{}/openid/v1/jwks", server_url(&first));
    assert_eq!((about.at("/issuer"), about.at("/jwks_uri")), (json!("https://example.com"), json!(keys_at)));

    // The key is another one, and the older one still verifies.
    let rotated = ServerOptions::default()
        .args(&[&flag("signing-key-file", &rsa), &flag("key-file", &public), &issuer, "--api-audiences=here"])
        .succeeding(&first);
    first.terminate().await.unwrap();
    let second = rotated.start().await.unwrap();
    assert_eq!(who(&second, &older).await, is_builder());
    let newer = token(&second.client().unwrap(), "builder", json!({})).await;
    assert_eq!(who(&second, &newer).await, is_builder());
    let keys = second.client().unwrap().get("/openid/v1/jwks").await.unwrap();
    assert_eq!((keys.at("/keys/0/alg"), keys.at("/keys/1/alg")), (json!("RS256"), json!("ES256")));
    assert_eq!(who(&second, &own).await, is_nobody());
}

#[tokio::test]
async fn a_token_holds_at_every_replica() {
    let cluster = ClusterOptions::default().nodes(1).start().await.unwrap();
    let replicas = cluster.replicas();
    let client = replicas[0].client().unwrap();
    account(&client, "builder").await;
    let token = token(&client, "builder", json!({})).await;
    for replica in replicas {
        assert_eq!(who(replica, &token).await, is_builder());
    }
    client.delete(&format!("{ACCOUNTS}/builder")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(who(&replicas[0], &token).await, is_nobody());
}

#[tokio::test]
async fn a_key_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "no key").unwrap();
    let flag = format!("--service-account-signing-key-file={}", file.display());
    let refused = ServerOptions::default().args(&[&flag]).start().await.err().unwrap().to_string();
    assert!(
        refused.contains(&format!("--service-account-signing-key-file: {}", file.display())),
        "{refused}"
    );
}

//! Reviews: objects that are questions, answered and never stored (`objects/src/kinds/self_subject_review`).

use kindom_integration::Server;
use serde_json::{Value, json};

use crate::support::refused;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn review() -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
}

#[tokio::test]
async fn kubectl_learns_who_it_is() {
    let server = Server::start().await.unwrap();
    let told = server.kubectl(&["auth", "whoami"]).await.unwrap();
    let rows: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["ATTRIBUTE", "VALUE"]);
    assert_eq!(rows[1], ["Username", "kubernetes-admin"]);
    assert_eq!(rows[2], ["Groups", "[system:masters", "system:authenticated]"]);
    let told = server.kubectl(&["auth", "whoami", "-o", "json"]).await.unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["status"]["userInfo"]["username"], "kubernetes-admin");
    let explained = server.kubectl(&["explain", "selfsubjectreviews.status.userInfo.extra"]).await.unwrap();
    assert!(explained.contains("FIELD: extra <map[string][]string>"), "{explained}");
}

#[tokio::test]
async fn a_review_is_answered_and_not_stored() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let before = client.get("/api/v1/namespaces").await.unwrap().at("/metadata/resourceVersion");
    let mut question = review();
    question["metadata"] = json!({"name": "x", "uid": "y", "labels": {"a": "b"}});
    question["status"] = json!({"userInfo": {"username": "somebody else"}});
    let answer = client.post(REVIEWS, &question).await.unwrap().expect_status(201).unwrap().json();
    let mut metadata = answer["metadata"].as_object().unwrap().clone();
    assert!(metadata.remove("creationTimestamp").unwrap().is_string());
    assert!(metadata.is_empty(), "{metadata:?}");
    let groups = json!(["system:masters", "system:authenticated"]);
    assert_eq!(answer["status"]["userInfo"], json!({"username": "kubernetes-admin", "groups": groups}));

    let in_protobuf = client.request("POST", REVIEWS).accept(PROTOBUF).json(&review()).send().await.unwrap();
    let in_protobuf = in_protobuf.expect_status(201).unwrap().body;
    let again = client.request("POST", REVIEWS).body(PROTOBUF, in_protobuf).send().await.unwrap();
    assert_eq!(again.expect_status(201).unwrap().at("/status"), answer["status"]);

    let after = client.get("/api/v1/namespaces").await.unwrap().at("/metadata/resourceVersion");
    assert_eq!(before, after, "nothing was written");
    let group = client.get("/apis/authentication.k8s.io/v1").await.unwrap().json();
    assert_eq!(group["resources"].as_array().unwrap().len(), 1);
    assert_eq!(group["resources"][0]["verbs"], json!(["create"]));
    assert_eq!(group["resources"][0].get("storageVersionHash"), None);
}

#[tokio::test]
async fn what_is_no_review_is_refused() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let not_allowed = "the server does not allow this method on the requested resource";
    for (method, path) in [
        ("GET", REVIEWS.to_owned()),
        ("DELETE", REVIEWS.to_owned()),
        ("GET", format!("{REVIEWS}/one")),
        ("PUT", format!("{REVIEWS}/one")),
        ("GET", format!("{REVIEWS}?watch=true")),
    ] {
        let answer = client.request(method, &path).json(&review()).send().await;
        refused(answer, 405, "MethodNotAllowed", not_allowed);
    }
    let strict = format!("{REVIEWS}?fieldValidation=Strict");
    let mut odd = review();
    odd["stats"] = json!({});
    refused(client.post(&strict, &odd).await, 400, "BadRequest", r#"unknown field "stats""#);
    let mut other = review();
    other["kind"] = json!("TokenReview");
    refused(client.post(REVIEWS, &other).await, 400, "BadRequest", "TokenReview");
    refused(client.post(REVIEWS, &json!([])).await, 400, "BadRequest", "");
}

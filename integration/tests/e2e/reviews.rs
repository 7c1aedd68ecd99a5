//! Reviews: objects that are questions, answered and never stored (`objects/src/kinds/self_subject_review`).

use kindom_integration::{Server, ServerOptions};
use serde_json::{Value, json};

use crate::support::{refused, until};

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
    let server = ServerOptions::default().quiet().start().await.unwrap();
    let client = server.client().unwrap();
    // The last that a server writes that is to be quiet.
    until(&client, "/api/v1/namespaces/default/services", "kubernetes", |_| true).await;
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
    let resources = group["resources"].as_array().unwrap();
    let names: Vec<&str> = resources.iter().map(|resource| resource["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["selfsubjectreviews", "tokenreviews"]);
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
        ("GET", format!("{REVIEWS}?watch=true")),
    ] {
        let answer = client.request(method, &path).json(&review()).send().await;
        refused(answer, 405, "MethodNotAllowed", not_allowed);
    }
    for method in ["GET", "PUT"] {
        let answer = client.request(method, &format!("{REVIEWS}/one")).json(&review()).send().await;
        refused(answer, 404, "NotFound", "the server could not find the requested resource");
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

const ACCESS: &str = "/apis/authorization.k8s.io/v1";

#[tokio::test]
async fn kubectl_learns_what_it_may_do() {
    let server = Server::start().await.unwrap();
    assert_eq!(
        server.kubectl(&["auth", "can-i", "create", "leases.coordination.k8s.io"]).await.unwrap(),
        "yes\n"
    );
    assert_eq!(server.kubectl(&["auth", "can-i", "get", "/debug/actors"]).await.unwrap(), "yes\n");
    let explained = server
        .kubectl(&["explain", "selfsubjectaccessreview.spec.resourceAttributes.labelSelector"])
        .await
        .unwrap();
    assert!(explained.contains("requirements"), "{explained}");
}

/// The answer is what the server would do, for whomever it is asked.
#[tokio::test]
async fn access_is_reviewed_as_it_is_given() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let ask = async |plural: &str, kind: &str, review: Value| {
        let mut body = review;
        body["apiVersion"] = json!("authorization.k8s.io/v1");
        body["kind"] = json!(kind);
        client.post(&format!("{ACCESS}/{plural}"), &body).await
    };
    let list = json!({"verb": "list", "group": "example.com", "resource": "widgets", "namespace": "default"});
    for (user, groups, path, allowed) in [
        ("jane", json!(["system:authenticated"]), None, true),
        ("system:anonymous", json!(["system:unauthenticated"]), None, false),
        ("system:anonymous", json!(["system:unauthenticated"]), Some("/healthz"), true),
        ("system:anonymous", json!(["system:unauthenticated"]), Some("/apis"), false),
    ] {
        let mut spec = json!({"user": user, "groups": groups});
        match path {
            None => spec["resourceAttributes"] = list.clone(),
            Some(path) => spec["nonResourceAttributes"] = json!({"verb": "get", "path": path}),
        }
        let answer = ask("subjectaccessreviews", "SubjectAccessReview", json!({"spec": spec.clone()})).await;
        let answer = answer.unwrap().expect_status(201).unwrap().json();
        assert_eq!(
            (&answer["spec"], &answer["status"]),
            (&spec, &json!({"allowed": allowed})),
            "{user} {path:?}"
        );
    }
    let local =
        json!({"spec": {"user": "jane", "groups": ["system:authenticated"], "resourceAttributes": list}});
    let path = "namespaces/default/localsubjectaccessreviews";
    let answer =
        ask(path, "LocalSubjectAccessReview", local.clone()).await.unwrap().expect_status(201).unwrap();
    assert_eq!(answer.at("/status"), json!({"allowed": true}));
    let elsewhere = path.replace("default", "kube-system");
    let message =
        "spec.resourceAttributes.namespace: Invalid value: \"default\": must match metadata.namespace";
    refused(ask(&elsewhere, "LocalSubjectAccessReview", local).await, 422, "Invalid", message);
    let message = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    refused(
        ask("selfsubjectaccessreviews", "SelfSubjectAccessReview", json!({})).await,
        422,
        "Invalid",
        message,
    );
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get"}}});
    let anonymous =
        server.anonymous().unwrap().post(&format!("{ACCESS}/selfsubjectaccessreviews"), &review).await;
    refused(anonymous, 403, "Forbidden", "system:anonymous");
}

#[tokio::test]
async fn a_token_is_reviewed() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "secret,jane,42,\"dev,ops\"\n").unwrap();
    let server = ServerOptions::default()
        .args(&["--token-auth-file", &tokens.to_string_lossy()])
        .start()
        .await
        .unwrap();
    let client = server.client().unwrap();
    let ask = async |spec: Value| {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
        client.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await
    };
    let status = async |spec: Value| ask(spec).await.unwrap().expect_status(201).unwrap().at("/status");
    let user = json!({"username": "jane", "uid": "42", "groups": ["dev", "ops", "system:authenticated"]});
    let audiences = json!(["https://kubernetes.default.svc.cluster.local"]);
    let right = json!({"authenticated": true, "user": user, "audiences": audiences});
    assert_eq!(status(json!({"token": "secret"})).await, right);
    assert_eq!(status(json!({"token": "secret", "audiences": audiences})).await, right);
    let wrong = json!({"user": {}, "error": "invalid bearer token"});
    assert_eq!(status(json!({"token": "wrong"})).await, wrong);
    // The tokens of the file are meant for the server.
    assert_eq!(status(json!({"token": "secret", "audiences": ["vault"]})).await, wrong);
    assert_eq!(status(json!({"token": " "})).await, json!({"user": {}}));
    refused(ask(json!({})).await, 400, "BadRequest", "token is required for TokenReview in authentication");
}

//! `status.typeChecking` of ValidatingAdmissionPolicies: warnings about expressions whose types are wrong for the objects that the
//! policy is about (`pkg/controller/validatingadmissionpolicystatus`, 1.37).

use kindom_integration::{Client, Server, ServerOptions, fingerprint};
use serde_json::{Value, json};

use crate::support::{register, until};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const CASES: &str = "expectations/types";

async fn started() -> (Server, Client) {
    let server = ServerOptions::default().args(&["--profile=kubernetes"]).start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

fn policy(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": spec})
}

fn about(group: &str, resources: &[&str], expressions: &[&str]) -> Value {
    let validations: Vec<Value> = expressions.iter().map(|of| json!({"expression": of})).collect();
    json!({"validations": validations, "matchConstraints": {"resourceRules": [
        {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": resources}]}})
}

/// The policy, once its present generation was looked at.
async fn looked_at(client: &Client, name: &str) -> Value {
    until(client, POLICIES, name, |of| {
        of["metadata"]["generation"].is_i64()
            && of["status"]["observedGeneration"] == of["metadata"]["generation"]
    })
    .await
}

async fn create(client: &Client, policy: &Value) {
    client.post(POLICIES, policy).await.unwrap().expect_status(201).unwrap();
}

fn warnings(policy: &Value) -> Value {
    policy["status"]["typeChecking"]["expressionWarnings"].clone()
}

/// As the checker of kube-controller-manager has them: fields and operators of built-in and registered kinds, parameters, variables,
/// and the kinds that the rules name.
#[tokio::test]
async fn the_warnings_are_upstreams() {
    let read = |name: &str| std::fs::read(format!("{}/{CASES}/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let text = read("cases.json");
    let (cases, expected): (Value, Value) =
        (serde_json::from_slice(&text).unwrap(), serde_json::from_slice(&read("expected.json")).unwrap());
    assert_eq!(expected["cases"], fingerprint(&text), "the cases have changed since they were recorded");
    let (_server, client) = started().await;
    for registration in cases["types"].as_array().unwrap() {
        register(&client, registration).await;
    }
    let policies = cases["policies"].as_array().unwrap();
    for of in policies {
        create(&client, &policy(of["name"].as_str().unwrap(), &of["spec"])).await;
    }
    let mut wrong = Vec::new();
    for of in expected["found"].as_array().unwrap() {
        let found = looked_at(&client, of["policy"].as_str().unwrap()).await;
        assert!(found["status"]["typeChecking"].is_object(), "{found}");
        if warnings(&found) != of["warnings"] {
            wrong.push(format!("{}: {:#} is not {:#}", of["policy"], warnings(&found), of["warnings"]));
        }
    }
    assert!(policies.len() > 30 && wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The status is an apply of the controller's; each new generation is looked at, and what the checker says changes no verdict.
#[tokio::test]
async fn each_generation_is_looked_at() {
    let (server, client) = started().await;
    let wrong = about("apps", &["deployments"], &["object.spec.replicas > 'x'"]);
    server.kubectl_with(&["apply", "-f", "-"], &policy("replicas", &wrong).to_string()).await.unwrap();
    let found = looked_at(&client, "replicas").await;
    let text = warnings(&found)[0]["warning"].as_str().unwrap().to_owned();
    assert!(
        text.starts_with("apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload"),
        "{text}"
    );
    let managers = found["metadata"]["managedFields"].as_array().unwrap();
    let own = managers.iter().find(|of| of["manager"] == "validatingadmissionpolicy-status").unwrap();
    assert_eq!((&own["operation"], &own["subresource"]), (&json!("Apply"), &json!("status")));

    let right = about("apps", &["deployments"], &["object.spec.replicas > 1"]);
    server.kubectl_with(&["apply", "-f", "-"], &policy("replicas", &right).to_string()).await.unwrap();
    let found = looked_at(&client, "replicas").await;
    assert_eq!((&found["status"]["observedGeneration"], warnings(&found)), (&json!(2), Value::Null));
}

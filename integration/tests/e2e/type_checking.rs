//! `status.typeChecking` of ValidatingAdmissionPolicies: warnings about expressions whose types are wrong for the objects that the
//! policy is about (`pkg/controller/validatingadmissionpolicystatus`, 1.37).

use kindom_integration::{Client, Server, ServerOptions, fingerprint};
use serde_json::{Value, json};

use crate::support::{eventually, register, until};

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

/// The policy, once its present generation was checked.
async fn checked(client: &Client, name: &str) -> Value {
    until(client, POLICIES, name, |of| {
        of["metadata"]["generation"].is_i64()
            && of["status"]["observedGeneration"] == of["metadata"]["generation"]
    })
    .await
}

async fn create(client: &Client, policy: &Value) {
    client.post(POLICIES, policy).await.unwrap().expect_status(201).unwrap();
}

/// Upstream tells the type of parameters from that of objects of the same kind by a number, which is cut out of its recorded names.
fn warnings(policy: &Value) -> Value {
    let text = policy["status"]["typeChecking"]["expressionWarnings"].to_string();
    serde_json::from_str(&text.replace("params.ConfigMap", "ConfigMap")).unwrap()
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
    let (recorded, mut wrong) = (expected["found"].as_array().unwrap(), Vec::new());
    for of in recorded {
        let found = checked(&client, of["policy"].as_str().unwrap()).await;
        assert!(found["status"]["typeChecking"].is_object(), "{found}");
        if warnings(&found) != of["warnings"] {
            wrong.push(format!("{}: {:#} is not {:#}", of["policy"], warnings(&found), of["warnings"]));
        }
    }
    assert!(
        recorded.len() == policies.len() && recorded.len() > 30 && wrong.is_empty(),
        "{}",
        wrong.join("\n")
    );
}

/// The status is an apply of the controller's; each new generation is checked, and the policy judges as it would without.
#[tokio::test]
async fn each_generation_is_checked() {
    let (server, client) = started().await;
    let wrong = about("apps", &["deployments"], &["object.spec.replicas > 'x'"]);
    server.kubectl_with(&["apply", "-f", "-"], &policy("replicas", &wrong).to_string()).await.unwrap();
    let found = checked(&client, "replicas").await;
    let text = warnings(&found)[0]["warning"].as_str().unwrap().to_owned();
    assert!(
        text.starts_with("apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload"),
        "{text}"
    );
    let managers = found["metadata"]["managedFields"].as_array().unwrap();
    let own = managers.iter().find(|of| of["manager"] == "validatingadmissionpolicy-status").unwrap();
    assert_eq!((&own["operation"], &own["subresource"]), (&json!("Apply"), &json!("status")));

    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "replicas"}, "spec": {"policyName": "replicas", "validationActions": ["Deny"]}});
    let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    client.post(bindings, &binding).await.unwrap().expect_status(201).unwrap();
    let deployment = ["create", "deployment", "web", "--image", "web"];
    let refused = server.kubectl(&deployment).await.unwrap_err().to_string();
    assert!(refused.contains("no such overload"), "{refused}");

    let right = about("apps", &["deployments"], &["object.spec.replicas > 0"]);
    server.kubectl_with(&["apply", "-f", "-"], &policy("replicas", &right).to_string()).await.unwrap();
    let found = checked(&client, "replicas").await;
    assert_eq!((&found["status"]["observedGeneration"], warnings(&found)), (&json!(2), Value::Null));
    eventually("the deployment is made", async || server.kubectl(&deployment).await.ok()).await;
}

/// A policy beside which its warnings do not fit has none; one beside which nothing fits is left alone, and holds up no others.
#[tokio::test]
async fn a_status_that_does_not_fit_is_left_out() {
    let args = ["--profile=kubernetes", "--max-object-bytes=20000"];
    let server = ServerOptions::default().args(&args).start().await.unwrap();
    let client = server.client().unwrap();
    let wrong = |name: &str, bytes: usize| {
        let mut policy = policy(name, &about("apps", &["deployments"], &["object.spec.replicas > 'x'"]));
        policy["metadata"]["annotations"] = json!({"filler": "a".repeat(bytes)});
        policy
    };
    // As it is created: its status comes at once.
    let measured = client.post(POLICIES, &wrong("measured", 0)).await.unwrap().expect_status(201).unwrap();
    let without = measured.body.len();
    checked(&client, "measured").await;
    create(&client, &wrong("b-no-warnings", 20_000 - without - 400)).await;
    let found = checked(&client, "b-no-warnings").await;
    assert_eq!((warnings(&found), &found["status"]["typeChecking"]), (Value::Null, &json!({})));
    create(&client, &wrong("a-nothing-fits", 20_000 - without - 20)).await;
    create(&client, &wrong("c-after-it", 0)).await;
    assert_ne!(warnings(&checked(&client, "c-after-it").await), Value::Null);
    let left = client.get(&format!("{POLICIES}/a-nothing-fits")).await.unwrap().json();
    assert_eq!(left["status"]["observedGeneration"], Value::Null);
}

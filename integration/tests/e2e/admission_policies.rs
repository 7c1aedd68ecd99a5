//! Admission policies (apiserver `pkg/admission/plugin/policy`, 1.37). What kube-apiserver answers to writes that some judge is in
//! `expectations/built-in/admission-policies-judge.script.json`, and its rules of policies beside it.

use std::collections::BTreeSet;

use kindom_integration::{Client, Server, ServerOptions, count};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{crd, object, refused, register};

const GROUP: &str = "judged.example.com";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn things() -> String {
    format!("/apis/{GROUP}/v1/namespaces/default/things")
}

fn thing(name: &str, size: i64) -> Value {
    object(GROUP, "Thing", name, json!({"size": size}))
}

async fn started() -> (Server, Client) {
    let server = ServerOptions::default().quiet().start().await.unwrap();
    let client = server.client().unwrap();
    let mut registration = crd(GROUP, "things", "Thing", "Namespaced");
    let version = &mut registration["spec"]["versions"][0];
    let size = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    version["schema"] = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": size}}});
    register(&client, &registration).await;
    (server, client)
}

/// A policy of all writes of things.
fn policy(name: &str, expression: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "operations": ["*"], "apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["*"],
            }]},
            "validations": [{"expression": expression}],
        },
    })
}

fn binding(policy: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy}, "spec": {"policyName": policy, "validationActions": ["Deny"]},
    })
}

async fn create(client: &Client, path: &str, object: &Value) {
    client.post(path, object).await.unwrap().expect_status(201).unwrap();
}

/// B-49: rules of a cluster's administrator, without a webhook.
#[tokio::test]
async fn kubectl_meets_policies() {
    let (server, client) = started().await;
    let mut limited = policy("limited", "variables.size <= int(params.data.most)");
    limited["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    limited["spec"]["variables"] = json!([{"name": "size", "expression": "object.spec.size"}]);
    limited["spec"]["validations"][0]["messageExpression"] = json!("'at most ' + params.data.most");
    limited["spec"]["matchConstraints"]["resourceRules"][0]["operations"] = json!(["CREATE", "UPDATE"]);
    let mut bound = binding("limited");
    bound["spec"]["paramRef"] = json!({"name": "limit", "parameterNotFoundAction": "Deny"});
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limit"}, "data": {"most": "5"}});
    for object in [&limited, &bound, &config] {
        let applied = server.kubectl_with(&["apply", "-f", "-"], &object.to_string()).await.unwrap();
        assert!(applied.status.success(), "{applied:?}");
    }
    // In force at once: what was answered is known.
    let large = server.kubectl_with(&["create", "-f", "-"], &thing("large", 6).to_string()).await.unwrap();
    let expected = "ValidatingAdmissionPolicy 'limited' with binding 'limited' denied request: at most 5";
    assert!(!large.status.success() && large.stderr.contains(expected), "{large:?}");
    let small = server.kubectl_with(&["create", "-f", "-"], &thing("small", 5).to_string()).await.unwrap();
    assert!(small.status.success(), "{small:?}");
    // Parameters and bindings count as they are when a write begins.
    server.kubectl(&["patch", "configmap", "limit", "-p", r#"{"data":{"most":"7"}}"#]).await.unwrap();
    create(&client, &things(), &thing("large", 6)).await;
    server.kubectl(&["delete", "configmap", "limit"]).await.unwrap();
    let message =
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    refused(client.post(&things(), &thing("none", 1)).await, 422, "Invalid", message);
    let warn = ["patch", "validatingadmissionpolicybinding", "limited", "--type=merge", "-p"];
    let warn: Vec<&str> =
        warn.into_iter().chain([r#"{"spec":{"paramRef":null,"validationActions":["Warn"]}}"#]).collect();
    server.kubectl(&warn).await.unwrap();
    let warned = server.kubectl_with(&["create", "-f", "-"], &thing("none", 1).to_string()).await.unwrap();
    let expected = "Warning: Validation failed for ValidatingAdmissionPolicy 'limited' with binding 'limited': expression";
    assert!(warned.status.success() && warned.stderr.contains(expected), "{warned:?}");
    let table = server.kubectl(&["get", "validatingadmissionpolicies"]).await.unwrap();
    assert!(table.contains("PARAMKIND") && table.contains("v1/ConfigMap"), "{table}");
    server.kubectl(&["delete", "validatingadmissionpolicy", "limited"]).await.unwrap();
    create(&client, &things(), &thing("free", 1000)).await;
    let metrics = client.get("/metrics").await.unwrap().text();
    let counted = r#"apiserver_validating_admission_policy_check_total{policy="limited",policy_binding="limited",error_type="no_error",enforcement_action="deny"} 1"#;
    assert!(metrics.contains(counted), "{counted} in {metrics}");
}

/// Writers race each other and the policies that judge them: what was refused is nowhere, and what was answered is kept.
#[tokio::test]
async fn racing_writers_are_judged_by_what_is_stored() {
    let (_server, client) = started().await;
    let total = count(60, 600);
    create(
        &client,
        POLICIES,
        &policy("grows", "oldObject == null || object.spec.size == oldObject.spec.size + 1"),
    )
    .await;
    create(&client, BINDINGS, &binding("grows")).await;
    create(&client, &things(), &thing("counter", 0)).await;
    let path = format!("{}/counter", things());
    let mut writers = JoinSet::new();
    for _ in 0..4 {
        let (client, path) = (client.clone(), path.clone());
        writers.spawn(async move {
            let mut answered = BTreeSet::new();
            loop {
                let size = client.get(&path).await.unwrap().json()["spec"]["size"].as_i64().unwrap();
                if size >= total as i64 {
                    return answered;
                }
                // It names no version, so only the policy keeps two writers from one number.
                let patch = json!({"spec": {"size": size + 1}});
                let answer = client.merge_patch(&path, &patch).await.unwrap();
                match answer.status {
                    200 => drop(answered.insert(answer.json()["metadata"]["resourceVersion"].to_string())),
                    422 => {}
                    other => panic!("{other}: {}", answer.text()),
                }
            }
        });
    }
    let mut answered = BTreeSet::new();
    while let Some(of_one) = writers.join_next().await {
        answered.extend(of_one.unwrap());
    }
    let end = client.get(&path).await.unwrap().json();
    assert_eq!(end["spec"]["size"], total);
    // A patch that changes nothing is judged, too: it does not grow, and is refused. So each answer is one step.
    assert_eq!(answered.len(), total);
    refused(
        client.merge_patch(&path, &json!({"spec": {"size": 1}})).await,
        422,
        "Invalid",
        "failed expression",
    );
}

/// Policies that are hostile, many or wrong stop those who write what they name, in bounded time, and nobody else.
#[tokio::test]
async fn a_dear_policy_holds_up_nobody_else() {
    let (_server, client) = started().await;
    let list = format!("[{}]", vec!["1"; 100].join(","));
    let dear = format!("{list}.all(a, {list}.all(b, {list}.all(c, a + b + c > 0)))");
    create(&client, POLICIES, &policy("dear", &dear)).await;
    create(&client, BINDINGS, &binding("dear")).await;
    let mut unknown = policy("unknown", "true");
    unknown["spec"]["paramKind"] = json!({"apiVersion": "nobody.example.com/v1", "kind": "Nothing"});
    unknown["spec"]["failurePolicy"] = json!("Ignore");
    create(&client, POLICIES, &unknown).await;
    create(&client, BINDINGS, &binding("unknown")).await;
    create(&client, BINDINGS, &binding("absent")).await;
    let message = "resulted in error: operation cancelled: actual cost limit exceeded";
    refused(client.post(&things(), &thing("one", 1)).await, 422, "Invalid", message);
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "free"}});
    create(&client, CONFIG_MAPS, &config).await;
    // Policies judge neither themselves nor their bindings: whoever made a wrong one can take it away.
    create(&client, POLICIES, &policy("all", "false")).await;
    let everything = json!({"spec": {"matchConstraints": {"resourceRules": [{
        "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
    }]}}});
    let all = format!("{POLICIES}/all");
    client.merge_patch(&all, &everything).await.unwrap().expect_status(200).unwrap();
    create(&client, BINDINGS, &binding("all")).await;
    let denied =
        "ValidatingAdmissionPolicy 'all' with binding 'all' denied request: failed expression: false";
    refused(client.delete(&format!("{CONFIG_MAPS}/free")).await, 422, "Invalid", denied);
    // Of webhooks' configurations they judge.
    let webhooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "none"},
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    refused(client.post(path, &webhooks).await, 422, "Invalid", denied);
    client.delete(&all).await.unwrap().expect_status(200).unwrap();
    create(&client, path, &webhooks).await;
    client.delete(&format!("{CONFIG_MAPS}/free")).await.unwrap().expect_status(200).unwrap();
}

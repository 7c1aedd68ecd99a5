//! Policies that change objects (apiserver `pkg/admission/plugin/policy/mutating`, 1.37). What kube-apiserver answers to writes that
//! some change is in `expectations/built-in/mutating-policies-change.script.json`, and its rules of policies beside it.

use std::sync::Arc;

use kindom_integration::{Client, Random, Server, ServerOptions, count};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{crd, object, refused, register};
use crate::webhook::{Said, Webhook, allowed, patched};

const GROUP: &str = "changed.example.com";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn things() -> String {
    format!("/apis/{GROUP}/v1/namespaces/default/things")
}

fn thing(name: &str) -> Value {
    object(GROUP, "Thing", name, json!({"size": 1}))
}

async fn started() -> (Server, Client) {
    let server = ServerOptions::default().args(&["--profile=kubernetes"]).quiet().start().await.unwrap();
    let client = server.client().unwrap();
    let mut registration = crd(GROUP, "things", "Thing", "Namespaced");
    let version = &mut registration["spec"]["versions"][0];
    version["schema"] = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "maximum": 100},
            "trace": {"type": "string"},
            "words": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    }}}});
    register(&client, &registration).await;
    (server, client)
}

fn applies(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patches(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// A policy of all writes of things.
fn policy(name: &str, mutation: Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "operations": ["*"], "apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["*"],
            }]},
            "mutations": [mutation],
            "reinvocationPolicy": "Never",
        },
    })
}

fn binding(policy: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": policy}, "spec": {"policyName": policy},
    })
}

async fn create(client: &Client, path: &str, object: &Value) {
    client.post(path, object).await.unwrap().expect_status(201).unwrap();
}

/// Creates a policy and its binding.
async fn bound(client: &Client, policy: &Value) {
    create(client, POLICIES, policy).await;
    create(client, BINDINGS, &binding(policy["metadata"]["name"].as_str().unwrap())).await;
}

/// B-49: changes of a cluster's administrator, without a webhook.
#[tokio::test]
async fn kubectl_meets_policies_that_change() {
    let (server, client) = started().await;
    let mut sidecar = policy(
        "sidecar",
        applies(
            "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [\
             Object.spec.template.spec.containers{name: 'proxy', image: params.data.image}]}}}}",
        ),
    );
    sidecar["spec"]["matchConstraints"]["resourceRules"] = json!([{
        "operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
    }]);
    sidecar["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let mut with = binding("sidecar");
    with["spec"]["paramRef"] = json!({"name": "proxy", "parameterNotFoundAction": "Deny"});
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "proxy"}, "data": {"image": "proxy:1"}});
    for object in [&sidecar, &with, &config] {
        let applied = server.kubectl_with(&["apply", "-f", "-"], &object.to_string()).await.unwrap();
        assert!(applied.status.success(), "{applied:?}");
    }
    server.kubectl(&["create", "deployment", "main", "--image=main:1"]).await.unwrap();
    let images = ["get", "deployment", "main", "-o", "jsonpath={.spec.template.spec.containers[*].image}"];
    assert_eq!(server.kubectl(&images).await.unwrap(), "main:1 proxy:1");
    server.kubectl(&["delete", "configmap", "proxy"]).await.unwrap();
    let missing =
        server.kubectl_with(&["create", "deployment", "other", "--image=main:1"], "").await.unwrap();
    let expected = "policy 'sidecar' with binding 'sidecar' denied request: failed to configure binding: no params found";
    assert!(!missing.status.success() && missing.stderr.contains(expected), "{missing:?}");
    let table = server.kubectl(&["get", "mutatingadmissionpolicies"]).await.unwrap();
    assert!(table.contains("MUTATIONS") && table.contains("v1/ConfigMap"), "{table}");
    // By every way to write, and never for a DELETE.
    bound(&client, &policy("trace", applies("Object{spec: Object.spec{trace: request.operation}}"))).await;
    let applied =
        server.kubectl_with(&["apply", "--server-side", "-f", "-"], &thing("one").to_string()).await;
    assert!(applied.unwrap().status.success());
    let trace = ["get", "things.changed.example.com", "one", "-o", "jsonpath={.spec.trace}"];
    assert_eq!(server.kubectl(&trace).await.unwrap(), "CREATE");
    server.kubectl(&["label", "things.changed.example.com", "one", "a=b"]).await.unwrap();
    assert_eq!(server.kubectl(&trace).await.unwrap(), "UPDATE");
    server.kubectl(&["delete", "things.changed.example.com", "one"]).await.unwrap();
    let metrics = client.get("/metrics").await.unwrap().text();
    let counted = r#"apiserver_mutating_admission_policy_check_total{policy="sidecar",policy_binding="sidecar",error_type="no_error"} 1"#;
    assert!(metrics.contains(counted), "{counted} in {metrics}");
}

/// Policies go by name, before webhooks; those with `IfNeeded` once more if something changed after them, and then webhooks
/// (`mutating/dispatcher.go`, `reinvocation.go`).
#[tokio::test]
async fn changes_are_made_in_order_and_again() {
    let (_server, client) = started().await;
    let webhook = Webhook::start(Arc::new(|_, review| {
        let trace = review["request"]["object"]["spec"]["trace"].as_str().unwrap_or_default();
        match trace.len() < 20 {
            true => {
                let patch = json!([{"op": "add", "path": "/spec/trace", "value": format!("{trace}w")}]);
                Said::Json(patched(review, &patch))
            }
            false => Said::Json(allowed(review)),
        }
    }))
    .await;
    let adds = |letter: &str| {
        let old = "(has(object.spec.trace) ? object.spec.trace : '')";
        applies(&format!("Object{{spec: Object.spec{{trace: {old} + '{letter}'}}}}"))
    };
    let mut again = policy("b", adds("b"));
    again["spec"]["reinvocationPolicy"] = json!("IfNeeded");
    bound(&client, &policy("c", adds("c"))).await;
    bound(&client, &again).await;
    bound(&client, &policy("a", adds("a"))).await;
    let traced = async |name: &str| {
        let made = client.post(&things(), &thing(name)).await.unwrap().expect_status(201).unwrap();
        made.json()["spec"]["trace"].as_str().unwrap().to_owned()
    };
    assert_eq!(traced("one").await, "abcb");
    let mut hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hook"},
        "webhooks": [{
            "name": "hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://127.0.0.1:{}/", webhook.port), "caBundle": webhook.authorities},
            "rules": [{
                "operations": ["*"], "apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["*"],
            }],
        }],
    });
    let hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    create(&client, hooks, &hook).await;
    assert_eq!(traced("two").await, "abcwb");
    hook["webhooks"][0]["reinvocationPolicy"] = json!("IfNeeded");
    let patch = json!({"webhooks": hook["webhooks"]});
    client.merge_patch(&format!("{hooks}/hook"), &patch).await.unwrap().expect_status(200).unwrap();
    assert_eq!(traced("three").await, "abcwbw");
}

/// Writers race each other under a policy that counts: each answer has its own count, and none is lost.
#[tokio::test]
async fn racing_writers_are_changed_once_each() {
    let (_server, client) = started().await;
    let counts = "Object{spec: Object.spec{size: oldObject == null ? 0 : oldObject.spec.size + 1}}";
    bound(&client, &policy("counts", applies(counts))).await;
    create(&client, &things(), &thing("counter")).await;
    let path = format!("{}/counter", things());
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let (client, path) = (client.clone(), path.clone());
        writers.spawn(async move {
            let mut sizes = Vec::new();
            for step in 0..20 {
                let patch = json!({"metadata": {"labels": {"by": format!("{writer}-{step}")}}});
                let answer = client.merge_patch(&path, &patch).await.unwrap().expect_status(200).unwrap();
                sizes.push(answer.json()["spec"]["size"].as_i64().unwrap());
            }
            sizes
        });
    }
    let mut sizes: Vec<i64> = writers.join_all().await.concat();
    sizes.sort_unstable();
    assert_eq!(sizes, (1..=80).collect::<Vec<_>>());
}

/// A policy may make huge, deep or endless values: its own writes are refused in bounded time, and nobody else's.
#[tokio::test]
async fn hostile_changes_stop_their_own_writes_alone() {
    let (_server, client) = started().await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "free"}});
    let doubled = |first: &str, next: fn(&str) -> String| {
        let mut variables = vec![json!({"name": "v0", "expression": first})];
        for at in 1..60 {
            let before = format!("variables.v{}", at - 1);
            variables.push(json!({"name": format!("v{at}"), "expression": next(&before)}));
        }
        json!(variables)
    };
    let cases = [
        // A list that holds another twice, and so on: few values, and more than 2^59 in their tree.
        ("dyn([1])", (|v| format!("dyn([{v}, {v}])")) as fn(&str) -> String),
        ("dyn({'a': 'b'})", |v| format!("dyn({{'a': {v}, 'b': {v}}})")),
    ];
    let too_large = "the expression made a value of more than 3145728 bytes";
    for (first, next) in cases {
        let mut of = policy(
            "huge",
            patches("[JSONPatch{op: 'add', path: '/spec/free', value: {'a': variables.v59}}]"),
        );
        of["spec"]["variables"] = doubled(first, next);
        bound(&client, &of).await;
        refused(client.post(&things(), &thing("one")).await, 403, "Invalid", too_large);
        client.delete(&format!("{POLICIES}/huge")).await.unwrap().expect_status(200).unwrap();
        client.delete(&format!("{BINDINGS}/huge")).await.unwrap().expect_status(200).unwrap();
    }
    let mut made = policy(
        "made",
        applies("Object{spec: Object.spec{free: Object.spec.free{a: object.metadata.labels}}}"),
    );
    made["spec"]["mutations"] = json!([
        patches("[JSONPatch{op: 'add', path: '/spec/free', value: {'a': [1]}}]"),
        patches("lists.range(5000).map(x, JSONPatch{op: 'copy', from: '/spec/free', path: '/spec/free/b'})"),
    ]);
    bound(&client, &made).await;
    let deep = "JSON Patch: exceeded max depth";
    refused(client.post(&things(), &thing("one")).await, 403, "Invalid", deep);
    client.delete(&format!("{POLICIES}/made")).await.unwrap().expect_status(200).unwrap();
    // A great many errors, each with the path to it.
    let wide = "Object{spec: Object.spec{words: lists.range(20000).transformMapEntry(i, v, {string(i): 1})}}";
    bound(&client, &policy("wide", applies(wide))).await;
    let answer = client.post(&things(), &thing("one")).await.unwrap();
    assert!(answer.status == 403 && answer.text().len() < 100_000, "{} bytes", answer.text().len());
    client.delete(&format!("{POLICIES}/wide")).await.unwrap().expect_status(200).unwrap();
    create(&client, CONFIG_MAPS, &config).await;
    // A policy that refuses everything can be taken away.
    let mut all = policy("all", applies("Object{nothing: object.nothing}"));
    all["spec"]["matchConstraints"]["resourceRules"] = json!([{
        "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
    }]);
    bound(&client, &all).await;
    let denied = "policy 'all' with binding 'all' denied request: expression";
    let patch = json!({"data": {"a": "b"}});
    refused(client.merge_patch(&format!("{CONFIG_MAPS}/free"), &patch).await, 403, "Invalid", denied);
    // It has no say where an object ends.
    client.delete(&format!("{CONFIG_MAPS}/free")).await.unwrap().expect_status(200).unwrap();
    client.delete(&format!("{POLICIES}/all")).await.unwrap().expect_status(200).unwrap();
    create(&client, CONFIG_MAPS, &config).await;
}

/// The server's own part of an object is the server's, whatever a policy makes of it.
#[tokio::test]
async fn metadata_stays_the_servers() {
    let (_server, client) = started().await;
    let of = |name: &str, path: &str, value: &str| {
        policy(name, patches(&format!("[JSONPatch{{op: 'add', path: '/metadata/{path}', value: {value}}}]")))
    };
    for (name, path, value) in [
        ("uid", "uid", "'other'"),
        ("end", "deletionTimestamp", "'2020-01-01T00:00:00Z'"),
        ("begin", "creationTimestamp", "'2020-01-01T00:00:00Z'"),
        ("generation", "generation", "77"),
        ("managers", "managedFields", "[]"),
        ("garbage", "managedFields", "[{'manager': 'x', 'fieldsType': 'nothing'}]"),
    ] {
        bound(&client, &of(name, path, value)).await;
        let made = client.post(&things(), &thing(name)).await.unwrap().expect_status(201).unwrap().json();
        let patched =
            client.merge_patch(&format!("{}/{name}", things()), &json!({"spec": {"size": 2}})).await.unwrap();
        client.delete(&format!("{POLICIES}/{name}")).await.unwrap().expect_status(200).unwrap();
        let stored = client.get(&format!("{}/{name}", things())).await.unwrap().json();
        for object in [&made, &stored] {
            let metadata = &object["metadata"];
            assert_eq!(metadata["name"], name);
            assert!(metadata["uid"].as_str().unwrap().len() == 36, "{name}: {metadata}");
            assert!(metadata["deletionTimestamp"].is_null(), "{name}: {metadata}");
            assert!(metadata["creationTimestamp"].as_str().unwrap() > "2025", "{name}: {metadata}");
            assert!(metadata["generation"].as_i64().unwrap() < 5, "{name}: {metadata}");
        }
        assert_eq!(made["metadata"]["uid"], stored["metadata"]["uid"], "{name}");
        assert!(patched.status == 200 || patched.status >= 400, "{name}: {}", patched.text());
    }
    bound(&client, &of("version", "resourceVersion", "'1'")).await;
    let created = client.post(&things(), &thing("version")).await.unwrap();
    assert_eq!(created.at("/message"), "resourceVersion should not be set on objects to be created");
    client.delete(&format!("{POLICIES}/version")).await.unwrap().expect_status(200).unwrap();
    // Another name is another object on no update.
    create(&client, &things(), &thing("named")).await;
    bound(&client, &of("renames", "name", "'other'")).await;
    let patch = json!({"spec": {"size": 2}});
    let renamed = client.merge_patch(&format!("{}/named", things()), &patch).await.unwrap();
    assert!(renamed.status >= 400, "{}", renamed.text());
    client.get(&format!("{}/other", things())).await.unwrap().expect_status(404).unwrap();
}

/// Random changes: nothing that the schema forbids is stored, and the server lives.
#[tokio::test]
async fn random_changes_store_nothing_wrong() {
    let (_server, client) = started().await;
    let mut random = Random::new(22);
    let mut first = policy("random", applies("Object{}"));
    first["spec"]["failurePolicy"] = json!("Ignore");
    bound(&client, &first).await;
    let (mut stored, mut not_stored, mut compiled) = (0, 0, 0);
    for number in 0..count(300, 5_000) {
        let mutation = match random.percent(50) {
            true => applies(&format!("Object{{{}}}", random_fields(&mut random, "Object", 3))),
            false => patches(&random_operations(&mut random)),
        };
        let policy = random.text(&["Ignore", "Fail"]);
        let patch = json!({"spec": {"mutations": [mutation], "failurePolicy": policy}});
        let changed = client.merge_patch(&format!("{POLICIES}/random"), &patch).await.unwrap();
        match changed.status {
            200 => compiled += 1,
            422 => continue,
            other => panic!("{other}: {} for {patch}", changed.text()),
        }
        let answer = client.post(&things(), &thing(&format!("n{number}"))).await.unwrap();
        match answer.status {
            201 => stored += 1,
            400..=599 => {
                assert_eq!(answer.at("/kind"), "Status", "{}", answer.text());
                not_stored += 1;
                continue;
            }
            other => panic!("{other}: {}", answer.text()),
        }
        let name = answer.json()["metadata"]["name"].as_str().unwrap().to_owned();
        let object =
            client.get(&format!("{}/{name}", things())).await.unwrap().expect_status(200).unwrap().json();
        let size = &object["spec"]["size"];
        assert!(size.is_null() || size.as_i64().is_some_and(|size| size <= 100), "{object} by {patch}");
        let trace = &object["spec"]["trace"];
        assert!(trace.is_null() || trace.is_string(), "{object} by {patch}");
        let words = object["spec"]["words"].as_object();
        assert!(words.is_none_or(|words| words.values().all(Value::is_string)), "{object} by {patch}");
        let known = ["size", "trace", "words", "free"];
        let fields = object["spec"].as_object().into_iter().flat_map(|spec| spec.keys());
        assert!(fields.into_iter().all(|field| known.contains(&field.as_str())), "{object} by {patch}");
    }
    assert!(stored > 20 && not_stored > 20 && compiled > 50, "{stored} {not_stored} {compiled}");
    client.get("/readyz").await.unwrap().expect_status(200).unwrap();
}

fn random_fields(random: &mut Random, of: &str, depth: usize) -> String {
    let names = ["spec", "size", "trace", "words", "free", "metadata", "labels", "name", "a", "status"];
    let field = |random: &mut Random| {
        let name = match of {
            "Object" if random.percent(80) => "spec",
            _ => random.text(&names),
        };
        let mark = random.text(&["", "", "", "", "?"]);
        format!("{mark}{name}: {}", random_value(random, &format!("{of}.{name}"), depth))
    };
    let fields: Vec<String> = (0..1 + random.below(2)).map(|_| field(random)).collect();
    fields.join(", ")
}

fn random_value(random: &mut Random, of: &str, depth: usize) -> String {
    let scalars = [
        "1",
        "200",
        "-1.5",
        "'x'",
        "true",
        "null",
        "7u",
        "b'a'",
        "object.spec",
        "object.metadata.labels",
        "timestamp('2026-01-01T00:00:00Z')",
        "duration('1s')",
        "optional.of('x')",
        "optional.none()",
        "object.spec.size",
        "type(1)",
        "quantity('1')",
        "1.0 / 0.0",
        "request.userInfo",
        "object",
    ];
    match random.below(if depth == 0 { 1 } else { 5 }) {
        0 => random.text(&scalars).to_owned(),
        1 => format!("[{}]", random_value(random, of, depth - 1)),
        2 => format!("{{'a': {}}}", random_value(random, of, depth - 1)),
        _ => {
            let name = if random.percent(90) { of } else { "Object.other" };
            format!("{name}{{{}}}", random_fields(random, name, depth - 1))
        }
    }
}

fn random_operations(random: &mut Random) -> String {
    let paths = [
        "/spec/size",
        "/spec/trace",
        "/spec/words",
        "/spec/words/a",
        "/spec/free",
        "/spec",
        "",
        "/metadata",
        "/metadata/name",
        "/kind",
        "/apiVersion",
        "/status",
        "/spec/nothing/deep",
        "/spec/free/-",
        "x",
    ];
    let operation = |random: &mut Random| {
        let op = random.text(&["add", "replace", "remove", "test", "move", "copy", "mangle"]);
        let (path, from) = (random.text(&paths), random.text(&paths));
        let value = random_value(random, "Object", 2);
        format!("JSONPatch{{op: '{op}', path: '{path}', from: '{from}', value: {value}}}")
    };
    let operations: Vec<String> = (0..1 + random.below(3)).map(|_| operation(random)).collect();
    format!("[{}]", operations.join(", "))
}

/// `--disable-admission-plugins` by kube-apiserver's names (`pkg/server/options/admission.go`).
#[tokio::test]
async fn plugins_are_switched_off() {
    let args = [
        "--disable-admission-plugins=MutatingAdmissionPolicy,ResourceQuota,LimitRanger",
        "--enable-admission-plugins=NodeRestriction,ValidatingAdmissionPolicy",
    ];
    let server = ServerOptions::default().args(&args).quiet().start().await.unwrap();
    let client = server.client().unwrap();
    let mut labels = policy("labels", applies("Object{metadata: Object.metadata{labels: {'a': 'b'}}}"));
    labels["spec"]["matchConstraints"]["resourceRules"] = json!([{
        "operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"],
    }]);
    bound(&client, &labels).await;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
        "spec": {"hard": {"count/configmaps": "0"}},
    });
    create(&client, "/api/v1/namespaces/default/resourcequotas", &quota).await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "free"}});
    let made = client.post(CONFIG_MAPS, &config).await.unwrap().expect_status(201).unwrap().json();
    assert!(made["metadata"]["labels"].is_null(), "{made}");
    let both = [
        "--disable-admission-plugins=LimitRanger,MutatingAdmissionPolicy",
        "--enable-admission-plugins=MutatingAdmissionPolicy",
    ];
    let refused = ServerOptions::default().args(&both).start().await.err().unwrap().to_string();
    let why =
        "[MutatingAdmissionPolicy] in enable-admission-plugins and disable-admission-plugins overlapped";
    assert!(refused.contains(why), "{refused}");
    let unknown = ["--enable-admission-plugins=Nobody"];
    let refused = ServerOptions::default().args(&unknown).start().await.err().unwrap().to_string();
    assert!(refused.contains("plugin \"Nobody\" is unknown"), "{refused}");
}

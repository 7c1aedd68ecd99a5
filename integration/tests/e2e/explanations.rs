//! `?dryRun=All&explain=stages` and `kindom explain write`: what each stage of a write takes and changes.

use std::sync::Arc;

use kindom_integration::{Answer, Client, HarnessError, Server, ServerOptions};
use serde_json::{Value, json};

use crate::support::{CRDS, crd, eventually, kindom, object, refused, register};
use crate::webhook::{Said, Webhook, allowed, patched};

const GROUP: &str = "explained.example.com";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";
const EXPLAIN: &str = "dryRun=All&explain=stages";

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
    version["schema"] = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "maximum": 100},
            "colour": {"type": "string", "default": "blue"},
            "words": {"type": "object", "additionalProperties": {"type": "string"}},
        }},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
    }}});
    version["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready",
    }});
    register(&client, &registration).await;
    (server, client)
}

/// Creates a policy of things, and its binding.
async fn bound(client: &Client, kind: &str, name: &str, spec: &Value) {
    let mut spec = spec.clone();
    spec["matchConstraints"] = json!({"resourceRules": [{
        "operations": ["*"], "apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["*"],
    }]});
    let api_version = "admissionregistration.k8s.io/v1";
    let policy = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    let mut binding = json!({"apiVersion": api_version, "kind": format!("{kind}Binding"), "metadata": {"name": name},
        "spec": {"policyName": name}});
    let plural = match kind {
        "ValidatingAdmissionPolicy" => {
            binding["spec"]["validationActions"] = json!(["Deny"]);
            "validatingadmissionpolicies"
        }
        _ => "mutatingadmissionpolicies",
    };
    let bindings = plural.replace("policies", "policybindings");
    for (plural, object) in [(plural, &policy), (&*bindings, &binding)] {
        client.post(&format!("{POLICIES}/{plural}"), object).await.unwrap().expect_status(201).unwrap();
    }
}

/// A policy that sets a word, and one that forbids sizes above 50.
async fn with_policies(client: &Client) {
    let expression = "Object{spec: Object.spec{words: {'policy': 'was here'}}}";
    let mutation =
        json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let spec = json!({"mutations": [mutation], "reinvocationPolicy": "Never"});
    bound(client, "MutatingAdmissionPolicy", "speaks", &spec).await;
    let spec = json!({"validations": [{"expression": "object.spec.size <= 50"}]});
    bound(client, "ValidatingAdmissionPolicy", "small", &spec).await;
}

/// The names of the stages, and of those who have a part in them.
fn stages(explanation: &Value) -> Vec<String> {
    let stages = explanation["stages"].as_array().unwrap().iter();
    let name = |stage: &Value| {
        assert!(stage["microseconds"].as_i64().is_some_and(|micros| micros >= 0), "{stage}");
        let (name, by) = (stage["stage"].as_str().unwrap(), stage["by"].as_str().unwrap_or_default());
        format!("{name} {by}").trim_end().to_owned()
    };
    stages.map(name).collect()
}

/// The changes of a stage that are shown, as `op path value`.
fn changes(explanation: &Value, stage: &str, by: &str) -> Vec<String> {
    let stages = explanation["stages"].as_array().unwrap().iter();
    let mut found = stages.filter(|of| of["stage"] == stage && of["by"].as_str().unwrap_or_default() == by);
    let found = found.next().unwrap_or_else(|| panic!("no {stage} {by} in {explanation}"));
    let shown = |change: &Value| {
        let value = change.get("value").map(Value::to_string).unwrap_or_default();
        format!("{} {} {value}", change["op"].as_str().unwrap(), change["path"].as_str().unwrap())
            .trim_end()
            .to_owned()
    };
    found["changes"].as_array().into_iter().flatten().map(shown).collect()
}

fn explained(answer: Result<Answer, HarnessError>) -> Value {
    let explanation = answer.unwrap().expect_status(200).unwrap().json();
    assert_eq!(explanation["kind"], "WriteExplanation", "{explanation}");
    explanation
}

#[tokio::test]
async fn each_stage_tells_what_it_changed() {
    let (_server, client) = started().await;
    with_policies(&client).await;
    let webhook = Webhook::start(Arc::new(|path, review| match path {
        "/changes" => {
            let operation = json!([{"op": "add", "path": "/spec/words/webhook", "value": "too"}]);
            Said::Json(patched(review, &operation))
        }
        _ => Said::Json(allowed(review)),
    }))
    .await;
    for (kind, name) in
        [("MutatingWebhookConfiguration", "changes"), ("ValidatingWebhookConfiguration", "judges")]
    {
        let hook = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
            "webhooks": [{
                "name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": format!("https://127.0.0.1:{}/{name}", webhook.port), "caBundle": webhook.authorities},
                "rules": [{"operations": ["*"], "apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["*"]}],
            }],
        });
        let path = format!("{POLICIES}/{}s", kind.to_lowercase());
        client.post(&path, &hook).await.unwrap().expect_status(201).unwrap();
    }
    let policy = "MutatingAdmissionPolicy speaks with binding speaks";
    let hook = "webhook changes.example.com of changes";
    let create =
        explained(client.post(&format!("{}?{EXPLAIN}&fieldManager=me", things()), &thing("one")).await);
    let after = [
        "manage",
        "admit (mutating)",
        "admit (mutating) plugins",
        &format!("admit (mutating) {policy}"),
        &format!("admit (mutating) {hook}"),
        "admit (mutating) plugins",
        "prepare",
        "validate",
        "canonicalize",
        "admit (validating) plugins",
        "encode",
        "admit (validating) ValidatingAdmissionPolicy small with binding small",
        "admit (validating) webhook judges.example.com of judges",
    ];
    assert_eq!(stages(&create), [&["decode", "default"], &after[..]].concat());
    assert_eq!((&create["code"], &create["attempts"]), (&json!(201), &json!(1)));
    assert_eq!(changes(&create, "default", ""), [r#"add /spec/colour "blue""#]);
    assert_eq!(changes(&create, "manage", ""), [r#"add /metadata/managedFields ["me Update"]"#]);
    assert_eq!(changes(&create, "admit (mutating)", policy), [r#"add /spec/words {"policy":"was here"}"#]);
    assert_eq!(changes(&create, "admit (mutating)", hook), [r#"add /spec/words/webhook "too""#]);
    let prepared = changes(&create, "prepare", "").join("\n");
    for field in ["/metadata/uid", "/metadata/creationTimestamp", "/metadata/generation 1"] {
        assert!(prepared.contains(&format!("add {field}")), "{prepared}");
    }
    let result = &create["result"];
    assert_eq!(result["spec"]["words"], json!({"policy": "was here", "webhook": "too"}));
    assert_eq!(result["metadata"].get("resourceVersion"), None, "nothing was stored: {result}");
    refused(client.get(&format!("{}/one", things())).await, 404, "NotFound", "not found");

    // What is explained is what happens.
    let made = client.post(&format!("{}?fieldManager=me", things()), &thing("one")).await.unwrap().json();
    assert_eq!(made["spec"], result["spec"]);

    // A PUT shows nothing of what is stored but by its result.
    let path = format!("{}/one?{EXPLAIN}&fieldManager=me", things());
    let mut other = thing("one");
    other["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    let update = explained(client.put(&path, &other).await);
    assert_eq!(stages(&update), [&["read", "decode", "default"], &after[..]].concat());
    assert_eq!(changes(&update, "decode", ""), [""; 0]);
    assert_eq!(
        (&update["code"], &update["result"]["metadata"]["uid"]),
        (&json!(200), &made["metadata"]["uid"])
    );

    let patch = json!({"spec": {"size": 7, "colour": null}});
    let patch = explained(client.merge_patch(&path, &patch).await);
    assert_eq!(stages(&patch), [&["read", "patch", "default"], &after[..]].concat());
    assert_eq!(changes(&patch, "patch", ""), ["remove /spec/colour", "replace /spec/size 7"]);
    assert_eq!(changes(&patch, "default", ""), [r#"add /spec/colour "blue""#]);

    let apply = client.request("PATCH", &format!("{path}&force=true"));
    let apply = apply.body(
        "application/apply-patch+yaml",
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Thing",
        "metadata": {"name": "one"}, "spec": {"size": 9}})
        .to_string(),
    );
    let apply = explained(apply.send().await);
    assert_eq!(stages(&apply), [&["read", "patch"], &after[..]].concat());
    let merged = changes(&apply, "patch", "");
    assert_eq!(
        merged,
        [r#"replace /metadata/managedFields ["me Apply","me Update"]"#, "replace /spec/size 9"]
    );
}

#[tokio::test]
async fn a_refused_write_tells_how_far_it_came() {
    let (_server, client) = started().await;
    with_policies(&client).await;
    let path = format!("{}?{EXPLAIN}", things());
    let explain = async |name: &str, spec: Value| {
        explained(client.post(&path, &object(GROUP, "Thing", name, spec)).await)
    };
    let invalid = explain("one", json!({"size": 101})).await;
    assert_eq!(stages(&invalid).last().unwrap(), "prepare");
    assert_eq!((&invalid["code"], &invalid["result"]["reason"]), (&json!(422), &json!("Invalid")));
    let denied = explain("one", json!({"size": 51})).await;
    assert_eq!(
        stages(&denied).last().unwrap(),
        "admit (validating) ValidatingAdmissionPolicy small with binding small"
    );
    assert!(
        denied["result"]["message"].as_str().unwrap().contains("ValidatingAdmissionPolicy 'small'"),
        "{denied}"
    );
    let undecodable = client.request("POST", &path).body("application/json", "{\"spec\": ").send().await;
    let undecodable = explained(undecodable);
    assert_eq!((stages(&undecodable), &undecodable["code"]), (Vec::new(), &json!(400)));

    // A body of another kind is refused late, and is compared with nothing.
    client
        .post(&things(), &object(GROUP, "Thing", "kept", json!({"size": 1, "words": {"hidden": "yes"}})))
        .await
        .unwrap()
        .expect_status(201)
        .unwrap();
    let mut other = object(GROUP, "Other", "kept", json!({"size": 1}));
    other["metadata"]["resourceVersion"] = json!("1");
    let other = explained(client.put(&format!("{}/kept?{EXPLAIN}", things()), &other).await);
    assert!(other["code"].as_i64().unwrap() >= 400 && !other.to_string().contains("hidden"), "{other}");

    // Long changes are counted, and large ones shown without their value.
    let words: serde_json::Map<String, Value> = (0..200).map(|n| (format!("w{n}"), json!("x"))).collect();
    client
        .post(&things(), &object(GROUP, "Thing", "wordy", json!({"size": 1, "words": words})))
        .await
        .unwrap();
    let wordy = format!("{}/wordy?{EXPLAIN}", things());
    let fewer = explained(client.merge_patch(&wordy, &json!({"spec": {"words": null}})).await);
    let removed = changes(&fewer, "patch", "");
    assert_eq!(removed, ["remove /spec/words"]);
    let longer: serde_json::Map<String, Value> = (0..200).map(|n| (format!("w{n}"), json!("y"))).collect();
    let longer = explained(client.merge_patch(&wordy, &json!({"spec": {"words": longer}})).await);
    let patched = &longer["stages"][1];
    assert_eq!((patched["changes"].as_array().unwrap().len(), &patched["omitted"]), (64, &json!(136)));
    let huge = json!({"spec": {"words": {"w0": "z".repeat(100_000), "~/": "y"}}});
    let huge = explained(client.merge_patch(&wordy, &huge).await);
    assert_eq!(changes(&huge, "patch", ""), ["replace /spec/words/w0", r#"add /spec/words/~0~1 "y""#]);
}

#[tokio::test]
async fn dry_runs_of_objects_alone_are_explained() {
    let (_server, client) = started().await;
    client.post(&things(), &thing("one")).await.unwrap().expect_status(201).unwrap();
    let bad = async |path: &str, body: &Value, why: &str| {
        refused(client.post(path, body).await, 400, "BadRequest", why);
    };
    bad(&format!("{}?explain=stages", things()), &thing("two"), "explain is only for dry runs").await;
    bad(&format!("{}?dryRun=All&explain=1", things()), &thing("two"), "explain: unknown value \"1\"").await;
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    bad(&format!("{reviews}?{EXPLAIN}"), &review, "explain is only for writes of objects").await;
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": 2}});
    let scale = client.put(&format!("{}/one/scale?{EXPLAIN}", things()), &scale).await;
    refused(scale, 400, "BadRequest", "explain is only for writes of objects");
    for path in [format!("{}/one", things()), things()] {
        let deleted = client.delete(&format!("{path}?{EXPLAIN}")).await;
        refused(deleted, 400, "BadRequest", "explain is only for writes of objects");
    }
    let status = json!({"status": {"ready": 3}});
    let status = explained(client.merge_patch(&format!("{}/one/status?{EXPLAIN}", things()), &status).await);
    assert_eq!(changes(&status, "patch", ""), [r#"add /status {"ready":3}"#]);
    assert_eq!(status["result"]["status"]["ready"], 3);
    // A built-in kind, in whatever form the client would take it.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    let request =
        client.request("POST", &format!("{maps}?{EXPLAIN}")).accept("application/vnd.kubernetes.protobuf");
    assert_eq!(explained(request.json(&map).send().await)["result"]["data"]["a"], "b");
}

#[tokio::test]
async fn the_command_prints_stages() {
    let (server, client) = started().await;
    with_policies(&client).await;
    let manifest = format!(
        "apiVersion: {GROUP}/v1\nkind: Thing\nmetadata: {{name: one}}\nspec: {{size: 1}}\n---\n\
         apiVersion: {GROUP}/v1\nkind: Thing\nmetadata: {{name: two}}\nspec: {{size: 51}}\n"
    );
    let output = kindom(&server, &["explain", "write", "-f", "-"], &manifest).await;
    assert_eq!(output.status.code(), Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("1 of 2 writes would be refused"), "{}", output.stderr);
    for part in [
        "thing.explained.example.com/one would be created\n  decode ",
        "\n      add     /spec/colour  \"blue\"\n",
        "\n      add     /metadata/managedFields  [\"kindom-explain Update\"]\n",
        "MutatingAdmissionPolicy speaks with binding speaks\n      add     /spec/words  {\"policy\":\"was here\"}\n",
        "thing.explained.example.com/two would be refused: 422 things.explained.example.com \"two\" is forbidden",
    ] {
        assert!(output.stdout.contains(part), "{part:?} in {}", output.stdout);
    }
    client.post(&things(), &thing("one")).await.unwrap().expect_status(201).unwrap();
    let (one, _) = manifest.split_once("---\n").unwrap();
    let one = one.replace("size: 1", "size: 2");
    let output = kindom(&server, &["explain", "write", "-f", "-"], &one).await;
    assert!(
        output.status.success() && output.stdout.contains("/one would be written\n  read"),
        "{}",
        output.stdout
    );
    let args = ["explain", "write", "-f", "-", "--server-side", "--force-conflicts", "-o", "json"];
    let output = kindom(&server, &args, &one).await;
    let explanation: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(explanation["result"]["spec"]["size"], 2, "{}", output.stderr);
    let output = kindom(&server, &["explain", "write", "-f", "-"], "apiVersion: v1\nkind: Nothing\n").await;
    assert!(
        !output.status.success() && output.stderr.contains("no kind \"Nothing\" is served"),
        "{}",
        output.stderr
    );
    let stored = client.get(&format!("{}/one", things())).await.unwrap().json();
    assert_eq!(stored["spec"]["size"], 1);
}

/// Users who may write a part of an object are not shown the rest of it.
#[tokio::test]
async fn parts_are_not_explained() {
    let (_server, client) = started().await;
    let parts = json!({"colour": {"writes": [".spec.colour"]}});
    let annotation = json!({"metadata": {"annotations": {"kindom.dev/subresources": parts.to_string()}}});
    let registration = format!("{CRDS}/things.{GROUP}");
    client.merge_patch(&registration, &annotation).await.unwrap().expect_status(200).unwrap();
    let path = format!("{}/one/colour", things());
    client.post(&things(), &thing("one")).await.unwrap().expect_status(201).unwrap();
    let patch = json!({"spec": {"colour": "red"}});
    eventually("the part is served", async || (client.get(&path).await.unwrap().status == 200).then_some(()))
        .await;
    client.merge_patch(&format!("{path}?dryRun=All"), &patch).await.unwrap().expect_status(200).unwrap();
    let answer = client.merge_patch(&format!("{path}?{EXPLAIN}"), &patch).await;
    refused(answer, 400, "BadRequest", "explain is only for writes of objects");
}

/// A registration that is written in an older form is compared in that form, and in the stored one after it.
#[tokio::test]
async fn an_older_form_is_compared_in_its_own() {
    let (_server, client) = started().await;
    let old = json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("olds.{GROUP}")},
        "spec": {"group": GROUP, "version": "v1", "names": {"plural": "olds", "kind": "Old"}, "scope": "Namespaced"}});
    let path = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";
    let create = explained(client.post(&format!("{path}?{EXPLAIN}&fieldManager=me"), &old).await);
    assert_eq!(changes(&create, "manage", ""), [r#"add /metadata/managedFields ["me Update"]"#]);
    client.post(path, &old).await.unwrap().expect_status(201).unwrap();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let path = format!("{path}/olds.{GROUP}?{EXPLAIN}");
    let patch = explained(client.merge_patch(&path, &label).await);
    assert_eq!(changes(&patch, "patch", ""), [r#"add /metadata/labels {"a":"b"}"#]);
    for stage in ["manage", "prepare"] {
        let changed = changes(&patch, stage, "");
        assert!(
            changed.iter().all(|change| change.starts_with("replace /metadata/")),
            "{stage}: {changed:?}"
        );
    }
    assert_eq!(changes(&patch, "manage", "").len(), 1);
    assert_eq!(patch["result"]["apiVersion"], "apiextensions.k8s.io/v1beta1");
}

#[tokio::test]
async fn warnings_come_with_an_explanation() {
    let (_server, client) = started().await;
    let deprecated = json!([{"op": "add", "path": "/spec/versions/0/deprecated", "value": true}]);
    let registration = format!("{CRDS}/things.{GROUP}");
    client.json_patch(&registration, &deprecated).await.unwrap().expect_status(200).unwrap();
    let path = format!("{}?{EXPLAIN}", things());
    let warns = async |spec: Value| {
        let answer = client.post(&path, &object(GROUP, "Thing", "one", spec)).await.unwrap();
        let warnings = answer.warnings().join("\n");
        let has = |text: &str| warnings.matches(text).count() == 1;
        (has("is deprecated") && has("unknown field")).then_some(())
    };
    eventually("a write warns", async || warns(json!({"size": 1, "unknown": 1})).await).await;
    warns(json!({"size": 101, "unknown": 1})).await.expect("a refused write warns");
}

/// An object that is too large with its managedFields is planned once more without them.
#[tokio::test]
async fn a_second_attempt_tells_what_the_first_one_changed() {
    let (_server, client) = started().await;
    with_policies(&client).await;
    let path = format!("{}?{EXPLAIN}", things());
    let explain = async |letters: usize| {
        let words = json!({"size": 1, "colour": "x".repeat(letters)});
        explained(client.post(&path, &object(GROUP, "Thing", "one", words)).await)
    };
    let most = 1_572_864;
    let beyond = explain(most).await["result"]["message"].as_str().unwrap().to_owned();
    let bytes: usize =
        beyond.split(' ').find_map(|word| word.parse().ok()).unwrap_or_else(|| panic!("{beyond}"));
    let fits = explain(most - (bytes - most)).await;
    assert_eq!((&fits["code"], &fits["attempts"]), (&json!(201), &json!(2)), "{}", fits["result"]["message"]);
    assert_eq!(fits["result"]["metadata"].get("managedFields"), None);
    let before = changes(&fits, "admit (mutating)", "as in the attempt before");
    assert!(before.contains(&r#"add /spec/words {"policy":"was here"}"#.to_owned()), "{before:?}");
}

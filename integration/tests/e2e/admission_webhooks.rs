//! Admission webhooks (apiserver `pkg/admission/plugin/webhook`, 1.37). What kube-apiserver answers to 169 requests that meet some is
//! in `expectations/built-in/admission-webhooks.script.json`.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kindom_integration::Random;
use kindom_integration::{Answer, Client, Server, ServerOptions, count};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::authority::Files;
use crate::declared_subresources::Echo;
use crate::fair::metric;
use crate::support::{
    CRDS, crd, eventually, names, namespace, object, refused, register, until_gone, version,
};
use crate::webhook::{Caller, Rule, Said, Webhook, allowed, denied, patched, reviewed, widened};

const GROUP: &str = "admitted.example.com";
const MUTATING: &str = "MutatingWebhookConfiguration";
const VALIDATING: &str = "ValidatingWebhookConfiguration";

fn configurations(kind: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{}s", kind.to_lowercase())
}

/// A configuration with one webhook, which is asked about everything that happens to a resource.
fn configuration(kind: &str, name: &str, webhook: &Webhook, resource: (&str, &str)) -> Value {
    let (group, resource) = resource;
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "webhooks": [{
            "name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": format!("https://127.0.0.1:{}/{name}", webhook.port),
                "caBundle": webhook.authorities,
            },
            "rules": [{
                "operations": ["*"], "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource],
            }],
        }],
    })
}

async fn configure(client: &Client, configuration: &Value) {
    let path = configurations(configuration["kind"].as_str().unwrap());
    client.post(&path, configuration).await.unwrap().expect_status(201).unwrap();
}

/// Gives a configuration other webhooks.
async fn reconfigure(client: &Client, configuration: &Value) {
    let (kind, name) = (configuration["kind"].as_str(), configuration["metadata"]["name"].as_str());
    let path = format!("{}/{}", configurations(kind.unwrap()), name.unwrap());
    let patch = json!({"webhooks": configuration["webhooks"]});
    client.merge_patch(&path, &patch).await.unwrap().expect_status(200).unwrap();
}

fn things(namespace: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/things")
}

fn at(name: &str) -> String {
    format!("{}/{name}", things("default"))
}

fn thing(name: &str) -> Value {
    object(GROUP, "Thing", name, json!({"size": 1}))
}

/// With a size of at most 100, a status and a scale.
fn registration() -> Value {
    let mut registration = crd(GROUP, "things", "Thing", "Namespaced");
    let version = &mut registration["spec"]["versions"][0];
    version["schema"] = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "maximum": 100},
            "replicas": {"type": "integer"},
            "words": {"type": "object", "additionalProperties": {"type": "string"}},
        }},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
    }}});
    version["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.ready",
    }});
    registration
}

async fn started(rule: Rule) -> (Server, Client, Webhook) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &registration()).await;
    (server, client, Webhook::start(rule).await)
}

fn allowing() -> Rule {
    Arc::new(|_, review| Said::Json(allowed(review)))
}

fn refusing(message: &'static str) -> Rule {
    Arc::new(move |_, review| Said::Json(denied(review, message)))
}

/// B-49: kubectl meets webhooks that change, refuse and warn, from the moment at which they are configured until they are not.
#[tokio::test]
async fn kubectl_meets_webhooks() {
    let (server, client, webhook) = started(Arc::new(|path, review| {
        let request = &review["request"];
        let mut answer = match (path, request["operation"].as_str().unwrap()) {
            ("/judge", "DELETE") => denied(review, "nobody goes"),
            ("/change", "CREATE") => {
                patched(review, &json!([{"op": "add", "path": "/spec/words", "value": {"by": "webhook"}}]))
            }
            ("/judge", "UPDATE") if request["object"]["spec"]["size"] == 13 => denied(review, "not 13"),
            _ => allowed(review),
        };
        answer["response"]["warnings"] = json!([format!("seen at {path}")]);
        Said::Json(answer)
    }))
    .await;
    for (kind, name) in [(MUTATING, "change"), (VALIDATING, "judge")] {
        let body = configuration(kind, name, &webhook, (GROUP, "things")).to_string();
        let applied = server.kubectl_with(&["apply", "-f", "-"], &body).await.unwrap();
        assert!(applied.status.success(), "{applied:?}");
    }
    let created = server.kubectl_with(&["create", "-f", "-"], &thing("one").to_string()).await.unwrap();
    let errors = created.stderr;
    assert!(created.status.success(), "{errors}");
    assert!(
        errors.contains("Warning: seen at /change") && errors.contains("Warning: seen at /judge"),
        "{errors}"
    );
    let shown = server.kubectl(&["get", "thing", "one", "-o=jsonpath={.spec.words.by}"]).await.unwrap();
    assert_eq!(shown, "webhook");
    let refused = ["patch", "thing", "one", "--type=merge", "-p", r#"{"spec":{"size":13}}"#];
    let refused = server.kubectl_with(&refused, "").await.unwrap();
    let errors = refused.stderr;
    let expected = r#"admission webhook "judge.example.com" denied the request: not 13"#;
    assert!(!refused.status.success() && errors.contains(expected), "{errors}");
    let held = server.kubectl_with(&["delete", "thing", "one"], "").await.unwrap();
    let errors = held.stderr;
    assert!(errors.contains("denied the request: nobody goes"), "{errors}");

    let metrics = client.get("/metrics").await.unwrap().text();
    for line in [
        r#"apiserver_admission_webhook_request_total{name="change.example.com",type="admit",operation="CREATE",code="200",rejected="false"} 1"#,
        r#"apiserver_admission_webhook_rejection_count_total{name="judge.example.com",type="validating",operation="DELETE",error_type="no_error",rejection_code="400"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    server.kubectl(&["delete", "validatingwebhookconfiguration", "judge"]).await.unwrap();
    webhook.asked();
    server.kubectl(&["delete", "thing", "one"]).await.unwrap();
    let asked = webhook.asked();
    assert!(
        asked.iter().all(|review| review["request"]["operation"] == "DELETE") && asked.len() == 1,
        "{asked:?}"
    );
}

/// A patched object is as valid as any other, and a change that loses a race is made again: no writer's change is lost.
#[tokio::test]
async fn racing_writers_lose_nothing() {
    let number = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&number);
    let (_server, client, webhook) = started(Arc::new(move |_, review| {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        let word = json!([{"op": "add", "path": format!("/spec/words/w{number}"), "value": "webhook"}]);
        Said::Json(patched(review, &word))
    }))
    .await;
    let mut one = thing("one");
    one["spec"]["words"] = json!({"first": "x"});
    client.post(&things("default"), &one).await.unwrap().expect_status(201).unwrap();
    configure(&client, &configuration(MUTATING, "words", &webhook, (GROUP, "things"))).await;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let client = client.clone();
        writers.spawn(async move {
            for write in 0..count(5, 25) {
                let patch = json!({"spec": {"words": {format!("{writer}-{write}"): "client"}}});
                client.merge_patch(&at("one"), &patch).await.unwrap().expect_status(200).unwrap();
            }
        });
    }
    writers.join_all().await;
    let stored = client.get(&at("one")).await.unwrap().json();
    let words = stored["spec"]["words"].as_object().unwrap();
    assert_eq!(words.values().filter(|by| **by == "client").count(), 8 * count(5, 25));
    // Each of them went with what the webhook made of it.
    assert_eq!(words.values().filter(|by| **by == "webhook").count(), 8 * count(5, 25));
    assert_eq!(stored["metadata"]["generation"], 8 * count(5, 25) + 1);
}

/// A webhook that is dead, slow or refuses everything stops the writes that it is asked about, and nothing else: not other types, not
/// reads, not the end of its type or of a namespace.
#[tokio::test]
async fn a_dead_webhook_stops_its_own_writes_alone() {
    let (_server, client, webhook) = started(allowing()).await;
    namespace(&client, "going").await;
    for path in [things("default"), things("going")] {
        client.post(&path, &thing("one")).await.unwrap().expect_status(201).unwrap();
    }
    let mut judge = configuration(VALIDATING, "judge", &webhook, (GROUP, "*"));
    judge["webhooks"][0]["timeoutSeconds"] = json!(1);
    configure(&client, &judge).await;
    webhook.answer(Arc::new(|_, _| Said::Nothing));
    let mut waiting = JoinSet::new();
    // As many as a silent host is still asked at once.
    for number in 0..7 {
        let client = client.clone();
        waiting.spawn(async move { client.post(&things("default"), &thing(&format!("n{number}"))).await });
    }
    let map = object("", "ConfigMap", "other", json!({}));
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": map["metadata"], "data": {"a": "b"}});
    client.post("/api/v1/namespaces/default/configmaps", &map).await.unwrap().expect_status(201).unwrap();
    assert_eq!(names(&client.get(&things("default")).await.unwrap().json()), ["one"]);
    let mut texts = BTreeSet::new();
    for answer in waiting.join_all().await {
        let answer = answer.unwrap().expect_status(500).unwrap();
        texts.insert(answer.at("/message").as_str().unwrap().to_owned());
    }
    let late = format!(
        "Internal error occurred: failed calling webhook \"judge.example.com\": failed to call webhook: Post \"https://127.0.0.1:{}/judge?timeout=1s\": context deadline exceeded",
        webhook.port
    );
    assert_eq!(texts.into_iter().collect::<Vec<_>>(), [late]);

    webhook.answer(Arc::new(|_, _| Said::Late(Duration::from_millis(1500), json!({}))));
    judge["webhooks"][0]["failurePolicy"] = json!("Ignore");
    reconfigure(&client, &judge).await;
    client.post(&things("default"), &thing("two")).await.unwrap().expect_status(201).unwrap();

    webhook.answer(refusing("nothing goes"));
    judge["webhooks"][0]["failurePolicy"] = json!("Fail");
    judge["webhooks"][0]["timeoutSeconds"] = json!(30);
    reconfigure(&client, &judge).await;
    let refusal = client.delete(&at("two")).await;
    refused(refusal, 400, "", "nothing goes");
    client.delete("/api/v1/namespaces/going").await.unwrap().expect_status(200).unwrap();
    until_gone(&client, "/api/v1/namespaces", "going").await;
    let name = format!("things.{GROUP}");
    client.delete(&format!("{CRDS}/{name}")).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, CRDS, &name).await;
}

/// Whichever way a write comes, its webhooks are asked about it: by a subresource, an apply, a delete of all, another face.
#[tokio::test]
async fn every_way_to_write_is_asked_about() {
    let (_server, client, webhook) = started(allowing()).await;
    client.post(&things("default"), &thing("one")).await.unwrap().expect_status(201).unwrap();
    let mut things_judge = configuration(VALIDATING, "things", &webhook, (GROUP, "things/*"));
    // A Scale has no labels, and so not this one.
    things_judge["webhooks"][0]["objectSelector"] =
        json!({"matchExpressions": [{"key": "unasked", "operator": "DoesNotExist"}]});
    configure(&client, &things_judge).await;
    let crds = ("apiextensions.k8s.io", "customresourcedefinitions");
    configure(&client, &configuration(VALIDATING, "types", &webhook, crds)).await;
    webhook.answer(refusing("no"));
    let patch = json!({"spec": {"size": 2}, "status": {"ready": 1}});
    let apply = |path: String, body: Value| {
        client
            .request("PATCH", &format!("{path}?fieldManager=me"))
            .body("application/apply-patch+yaml", body.to_string())
            .send()
    };
    let fresh = crd("other.example.com", "widgets", "Widget", "Namespaced");
    let named = format!("things.{GROUP}");
    let stored = client.get(&format!("{CRDS}/{named}")).await.unwrap().json();
    let mut wrote = vec![
        client.post(&things("default"), &thing("two")).await,
        client.put(&at("one"), &client.get(&at("one")).await.unwrap().json()).await,
        client.merge_patch(&at("one"), &patch).await,
        client.json_patch(&at("one"), &json!([{"op": "add", "path": "/spec/size", "value": 3}])).await,
        apply(at("one"), thing("one")).await,
        apply(at("new"), thing("new")).await,
        client.merge_patch(&format!("{}/status", at("one")), &patch).await,
        client.delete(&at("one")).await,
        client.delete(&things("default")).await,
        client.post(CRDS, &fresh).await,
        client.put(&format!("{CRDS}/{named}"), &stored).await,
        client.delete(&format!("{CRDS}/{named}")).await,
    ];
    let scale = format!("{}/scale", at("one"));
    wrote.push(client.merge_patch(&scale, &json!({"spec": {"replicas": 3}})).await);
    for answer in wrote {
        refused(answer, 400, "", "denied the request: no");
    }
    let asked = webhook.asked();
    let scale = asked.iter().find(|review| review["request"]["subResource"] == "scale").unwrap();
    assert_eq!(scale["request"]["object"]["kind"], "Scale");
    assert_eq!(scale["request"]["object"]["spec"]["replicas"], 3);
    assert_eq!(scale["request"]["kind"]["group"], "autoscaling");
    assert_eq!(client.get(&at("one")).await.unwrap().at("/spec"), json!({"size": 1}));

    // A webhook changes the Scale, and so the object.
    webhook.answer(allowing());
    configure(&client, &configuration(MUTATING, "scales", &webhook, (GROUP, "things/scale"))).await;
    webhook.answer(Arc::new(|path, review| {
        Said::Json(match path {
            "/scales" => patched(review, &json!([{"op": "replace", "path": "/spec/replicas", "value": 7}])),
            _ => allowed(review),
        })
    }));
    let scaled = client.merge_patch(&format!("{}/scale", at("one")), &json!({"spec": {"replicas": 3}})).await;
    assert_eq!(scaled.unwrap().expect_status(200).unwrap().at("/spec/replicas"), 7);
    assert_eq!(client.get(&at("one")).await.unwrap().at("/spec/replicas"), 7);
}

/// A webhook that names one version is asked in it about writes through another, which a second webhook converts.
#[tokio::test]
async fn objects_are_converted_for_webhooks() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let webhook = Webhook::start(Arc::new(|path, review| {
        Said::Json(match path {
            "/convert" => reviewed(review, widened),
            _ => {
                let object = &review["request"]["object"];
                assert_eq!(object["apiVersion"], format!("{GROUP}/v1"));
                let width = object["spec"]["size"]["width"].as_u64().unwrap();
                patched(review, &json!([{"op": "replace", "path": "/spec/size/width", "value": width + 1}]))
            }
        })
    }))
    .await;
    let mut registration = crd(GROUP, "things", "Thing", "Namespaced");
    let spec = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    registration["spec"]["versions"] = json!([
        {"name": "v1", "served": true, "storage": true, "schema": spec},
        {"name": "v1beta1", "served": true, "storage": false, "schema": spec},
    ]);
    registration["spec"]["conversion"] = webhook.conversion("/convert");
    register(&client, &registration).await;
    configure(&client, &configuration(MUTATING, "wider", &webhook, (GROUP, "things"))).await;
    let old = format!("/apis/{GROUP}/v1beta1/namespaces/default/things");
    let mut body = object(GROUP, "Thing", "one", json!({"width": 3}));
    body["apiVersion"] = json!(format!("{GROUP}/v1beta1"));
    let made = client.post(&old, &body).await.unwrap().expect_status(201).unwrap();
    assert_eq!(made.at("/spec"), json!({"width": 4}));
    let patch = json!({"spec": {"width": 9}});
    let patched =
        client.merge_patch(&format!("{old}/one"), &patch).await.unwrap().expect_status(200).unwrap();
    assert_eq!(patched.at("/spec"), json!({"width": 10}));
    assert_eq!(client.get(&at("one")).await.unwrap().at("/spec"), json!({"size": {"width": 10}}));
}

/// A Service that a webhook names is found by `--service-resolver`.
#[tokio::test]
async fn services_are_resolved() {
    let webhook = Webhook::start(refusing("by the service")).await;
    let resolver = format!("--service-resolver=hooks/judge:443=127.0.0.1:{}", webhook.port);
    let server = ServerOptions::default().args(&[&resolver]).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &registration()).await;
    let mut judge = configuration(VALIDATING, "judge", &webhook, (GROUP, "things"));
    let config = &mut judge["webhooks"][0]["clientConfig"];
    *config = json!({"service": {"namespace": "hooks", "name": "judge", "path": "/x"}, "caBundle": webhook.authorities});
    configure(&client, &judge).await;
    // Its certificate is for an address.
    let unknown = client.post(&things("default"), &thing("one")).await;
    let status = refused(unknown, 500, "InternalError", "https://judge.hooks.svc:443/x?timeout=10s");
    assert!(status["message"].as_str().unwrap().contains("certificate"), "{status}");
}

/// Ten thousand random answers: nothing that the schema forbids is stored, and the server lives.
#[tokio::test]
async fn random_answers_store_nothing_wrong() {
    let random = Arc::new(std::sync::Mutex::new(Random::new(21)));
    let chance = Arc::clone(&random);
    let (_server, client, webhook) =
        started(Arc::new(move |_, review| random_answer(&mut chance.lock().unwrap(), review))).await;
    configure(&client, &configuration(MUTATING, "change", &webhook, (GROUP, "things"))).await;
    configure(&client, &configuration(VALIDATING, "judge", &webhook, (GROUP, "things"))).await;
    let (mut stored, mut refused) = (0, 0);
    for number in 0..count(600, 10_000) {
        let name = format!("n{number}");
        let answer = client.post(&things("default"), &thing(&name)).await.unwrap();
        match answer.status {
            201 => stored += 1,
            400..=599 => {
                assert_eq!(answer.at("/kind"), "Status", "{}", answer.text());
                refused += 1;
            }
            other => panic!("{other}: {}", answer.text()),
        }
        if answer.status == 201 {
            let name = answer.at("/metadata/name");
            let object =
                client.get(&at(name.as_str().unwrap())).await.unwrap().expect_status(200).unwrap().json();
            assert_eq!(
                (&object["kind"], &object["metadata"]["namespace"]),
                (&json!("Thing"), &json!("default"))
            );
            let size = &object["spec"]["size"];
            assert!(size.is_null() || size.as_i64().is_some_and(|size| size <= 100), "{object}");
            let fields = object["spec"].as_object().into_iter().flat_map(|spec| spec.keys());
            assert!(
                fields.into_iter().all(|field| ["size", "words", "replicas"].contains(&field.as_str())),
                "{object}"
            );
        }
    }
    assert!(stored > 20 && refused > 20, "{stored} {refused}");
    client.get("/readyz").await.unwrap().expect_status(200).unwrap();
}

fn random_value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => json!(random.percent(50)),
        2 => json!(random.below(200)),
        3 => json!(random.text(&["", "x", "JSONPatch", "Thing", "v1", "Failure", "e30=", "\u{fffd}"])),
        4 => json!(-1.5),
        5 => (0..random.below(3)).map(|_| random_value(random, depth - 1)).collect(),
        _ => {
            let keys = ["size", "name", "labels", "code", "message", "details", "words"];
            (0..random.below(3))
                .map(|_| (random.text(&keys).to_owned(), random_value(random, depth - 1)))
                .collect()
        }
    }
}

fn random_answer(random: &mut Random, review: &Value) -> Said {
    const PATHS: [&str; 14] = [
        "/spec/size",
        "/spec/words",
        "/spec/strange",
        "/spec",
        "/metadata/name",
        "/metadata/labels",
        "/metadata",
        "/metadata/namespace",
        "/kind",
        "/apiVersion",
        "",
        "/status",
        "/metadata/managedFields",
        "/metadata/uid",
    ];
    let mut answer = allowed(review);
    if random.percent(60) {
        let operations: Vec<Value> = (0..random.below(4))
            .map(|_| {
                json!({
                    "op": random.text(&["add", "replace", "remove", "test", "copy", "move", "jump"]),
                    "path": random.text(&PATHS), "from": random.text(&PATHS), "value": random_value(random, 3),
                })
            })
            .collect();
        answer = patched(review, &json!(operations));
    }
    if random.percent(25) {
        let field =
            random.text(&["uid", "allowed", "status", "patch", "patchType", "auditAnnotations", "warnings"]);
        answer["response"][field] = random_value(random, 3);
    }
    if random.percent(5) {
        let field = random.text(&["kind", "apiVersion", "response"]);
        answer[field] = random_value(random, 3);
    }
    if random.percent(5) {
        let text = answer.to_string();
        let end = random.below(text.len());
        return Said::Text(200, text.chars().take(end).collect());
    }
    Said::Json(answer)
}

/// The users of a kubeconfig are shown to the webhooks of their hosts, and to those that a plugin asks alone: a registration's never
/// sees any.
#[tokio::test]
async fn webhooks_see_the_users_of_a_kubeconfig() {
    let webhook = Webhook::start(Arc::new(move |path, review| match path {
        "/convert" => Said::Json(reviewed(review, |mut object, wanted| {
            object["apiVersion"] = json!(wanted);
            object
        })),
        _ => Said::Json(allowed(review)),
    }))
    .await;
    let files = Files::new();
    let (certificate, key) = webhook.authority.issue("kindom", ExtendedKeyUsagePurpose::ClientAuth);
    let host = format!("127.0.0.1:{}", webhook.port);
    files.write("token", "of-file\n");
    let users = json!({"apiVersion": "v1", "kind": "Config", "users": [
        {"name": host, "user": {
            "client-certificate-data": STANDARD.encode(certificate), "client-key-data": STANDARD.encode(key),
            "tokenFile": files.arg("token"),
        }},
        {"name": "*", "user": {"token": "of-anybody"}},
    ]});
    files.write("users.kubeconfig", &users.to_string());
    let webhooks = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": files.arg("users.kubeconfig"),
    });
    let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": [
        {"name": "ValidatingAdmissionWebhook", "configuration": webhooks},
    ]});
    files.write("admission.json", &configuration.to_string());
    let flag = format!("--admission-control-config-file={}", files.arg("admission.json"));
    let server = ServerOptions::default().args(&[&flag]).quiet().start().await.unwrap();
    let client = server.client().unwrap();
    let mut registration = crd("users.example.com", "things", "Thing", "Namespaced");
    registration["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
    registration["spec"]["conversion"] = webhook.conversion("/convert");
    register(&client, &registration).await;
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let name = if kind.starts_with('V') { "judges" } else { "changes" };
        configure(&client, &configuration_of_maps(kind, name, &webhook)).await;
    }
    webhook.callers();
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let maps = "/api/v1/namespaces/default/configmaps";
    client.post(maps, &map("one")).await.unwrap().expect_status(201).unwrap();
    let caller = |path: &str, authorization: &str| Caller {
        path: path.to_owned(),
        authorization: authorization.to_owned(),
        has_certificate: !authorization.is_empty(),
    };
    assert_eq!(webhook.callers(), [caller("/changes", ""), caller("/judges", "Bearer of-file")]);
    // A token's file is read for each question.
    files.write("token", "later");
    client.post(maps, &map("two")).await.unwrap().expect_status(201).unwrap();
    assert_eq!(webhook.callers(), [caller("/changes", ""), caller("/judges", "Bearer later")]);
    std::fs::remove_file(files.path("token")).unwrap();
    let refusal = client.post(maps, &map("three")).await;
    refused(refusal, 500, "InternalError", "No such file or directory");
    std::os::unix::fs::symlink("/dev/zero", files.path("token")).unwrap();
    let refusal = client.post(maps, &map("three")).await;
    refused(refusal, 500, "InternalError", "it is no regular file");
    // Who converts is nobody whom the operator trusts.
    let things = "/apis/users.example.com/v1/namespaces/default/things";
    let thing = object("users.example.com", "Thing", "one", json!({"size": 1}));
    client.post(things, &thing).await.unwrap().expect_status(201).unwrap();
    client.get("/apis/users.example.com/v2/namespaces/default/things/one").await.unwrap();
    let callers = webhook.callers();
    let converts: Vec<&Caller> = callers.iter().filter(|caller| caller.path == "/convert").collect();
    assert!(!converts.is_empty(), "{callers:?}");
    assert!(
        converts.iter().all(|caller| caller.authorization.is_empty() && !caller.has_certificate),
        "{converts:?}"
    );
}

fn configuration_of_maps(kind: &str, name: &str, webhook: &Webhook) -> Value {
    configuration(kind, name, webhook, ("", "configmaps"))
}

/// The registration with a subresource that another program answers.
fn executed_by(program: &Echo) -> Value {
    let service = json!({"service": {"namespace": "default", "name": "echo"}, "caBundle": program.bundle});
    let declared = json!({"exec": {"webhook": service, "verbs": ["get", "create", "delete"]}});
    let mut registration = registration();
    registration["metadata"]["annotations"] = json!({"kindom.dev/subresources": declared.to_string()});
    registration
}

/// B-49, S-37: whoever judges writes judges what goes on to the program behind a subresource, too: its name and its user, as nobody has
/// read a body (`ConnectResource`).
#[tokio::test]
async fn a_request_for_a_program_is_judged() {
    let echo = Echo::start("echo.default.svc").await;
    let resolver = format!("--service-resolver=default/echo:443=127.0.0.1:{}", echo.port);
    let server = ServerOptions::default().args(&[&resolver]).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &executed_by(&echo)).await;
    for name in ["fine", "changed", "refused", "warned", "ruled"] {
        client.post(&things("default"), &thing(name)).await.unwrap().expect_status(201).unwrap();
    }
    let webhook = Webhook::start(Arc::new(|path, review| {
        Said::Json(match (path, review["request"]["name"].as_str().unwrap()) {
            ("/changes", "changed") => {
                patched(review, &json!([{"op": "add", "path": "/metadata/labels", "value": {}}]))
            }
            ("/judges", "refused") => denied(review, "not into this one"),
            ("/judges", "warned" | "gone") => {
                let mut answer = allowed(review);
                answer["response"]["warnings"] = json!(["somebody looks on"]);
                answer
            }
            _ => allowed(review),
        })
    }))
    .await;
    for (kind, name) in [(MUTATING, "changes"), (VALIDATING, "judges")] {
        let mut configuration = configuration(kind, name, &webhook, (GROUP, "things/exec"));
        configuration["webhooks"][0]["rules"][0]["operations"] = json!(["CONNECT"]);
        configure(&client, &configuration).await;
    }
    let (policies, bindings) = ("validatingadmissionpolicies", "validatingadmissionpolicybindings");
    let made = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{
            "operations": ["CONNECT"], "apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["*/*"],
        }]},
        "validations": [{"expression": "object != null || oldObject != null || request.name != 'ruled'",
            "messageExpression": "request.operation + ' of ' + request.subResource + ' by ' + request.userInfo.username"}],
    }});
    let bound =
        json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    for (plural, object) in [(policies, made), (bindings, bound)] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        client.post(&path, &object).await.unwrap().expect_status(201).unwrap();
    }

    let exec = |name: &str| format!("{}/exec?command=ls", at(name));
    for method in ["GET", "POST", "DELETE"] {
        let answer = client.request(method, &exec("fine")).send().await.unwrap();
        assert_eq!(answer.expect_status(200).unwrap().json()["method"], method);
    }
    let asked = webhook.asked();
    assert_eq!(asked.len(), 6);
    for review in &asked {
        let request = &review["request"];
        assert_eq!(
            json!([
                request["operation"],
                request["kind"]["kind"],
                request["resource"]["resource"],
                request["subResource"]
            ]),
            json!(["CONNECT", "Thing", "things", "exec"])
        );
        assert_eq!(
            json!([
                request["name"],
                request["namespace"],
                request["userInfo"]["username"],
                request["dryRun"]
            ]),
            json!(["fine", "default", "kubernetes-admin", false])
        );
        assert_eq!(
            json!([request["object"], request["oldObject"], request["options"]]),
            json!([null, null, null])
        );
    }
    refused(
        client.get(&exec("changed")).await,
        500,
        "InternalError",
        "attempted to modify the object, which is not supported for this operation",
    );
    refused(client.get(&exec("refused")).await, 400, "", "denied the request: not into this one");
    let warned = client.get(&exec("warned")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(warned.warnings(), ["299 - \"somebody looks on\""]);
    let why = "denied request: CONNECT of exec by kubernetes-admin";
    refused(client.get(&exec("ruled")).await, 422, "Invalid", why);
    // The program would carry it out.
    for dry_run in ["All", "None", ""] {
        let path = format!("{}&dryRun={dry_run}", exec("ruled"));
        refused(client.get(&path).await, 400, "BadRequest", "dryRun is not supported");
    }
    assert_eq!(client.request("HEAD", &exec("refused")).send().await.unwrap().status, 400);
    // The object is looked for once the request was admitted.
    let gone = client.get(&exec("gone")).await.unwrap();
    assert_eq!(gone.warnings(), ["299 - \"somebody looks on\""]);
    refused(Ok(gone), 404, "NotFound", "\"gone\" not found");

    // An upgraded connection is the program's alone.
    for (name, head, end) in [("refused", "HTTP/1.1 400", "}\n"), ("warned", "HTTP/1.1 101", "\r\n\r\n")] {
        let mut stream = server.dial().await.unwrap();
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            exec(name)
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut received = Vec::new();
        while !received.ends_with(end.as_bytes()) {
            let read = tokio::time::timeout(Duration::from_secs(30), stream.read_buf(&mut received)).await;
            assert!(read.unwrap().unwrap() > 0, "{}", String::from_utf8_lossy(&received));
        }
        let received = String::from_utf8_lossy(&received).to_lowercase();
        assert!(received.starts_with(&head.to_lowercase()) && !received.contains("warning:"), "{received}");
    }
}

/// A request whose answer may have no end is in flight until it was admitted: it holds no more questions to webhooks than others.
#[tokio::test]
async fn a_request_for_a_program_is_in_flight_until_it_was_admitted() {
    let echo = Echo::start("echo.default.svc").await;
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "secret,bob,1\n").unwrap();
    let resolver = format!("--service-resolver=default/echo:443=127.0.0.1:{}", echo.port);
    let args = [&resolver, "--token-auth-file", tokens.to_str().unwrap(), "--max-requests-inflight", "1"];
    let server = ServerOptions::default().args(&args).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &executed_by(&echo)).await;
    client.post(&things("default"), &thing("one")).await.unwrap().expect_status(201).unwrap();
    let webhook = Webhook::start(Arc::new(|_, _| Said::Nothing)).await;
    let silent = configuration(VALIDATING, "silent", &webhook, (GROUP, "things/exec"));
    configure(&client, &silent).await;
    let bob = server.anonymous().unwrap().with_token("secret");
    let exec = format!("{}/exec", at("one"));
    let mut first = pin!(bob.get(&exec));
    let asked = eventually("the webhook is asked", async || (!webhook.asked().is_empty()).then_some(()));
    tokio::select! {
        answer = &mut first => panic!("{}", answer.unwrap().text()),
        () = asked => {}
    }
    assert_eq!(bob.get(&exec).await.unwrap().status, 429);
    // A master has no bound.
    webhook.answer(allowing());
    client.get(&exec).await.unwrap().expect_status(200).unwrap();
}

/// Objects, bodies that are carried out and what webhooks are sent of them count as long as they wait: what one connection holds of
/// memory is bounded.
#[tokio::test]
async fn what_waits_for_a_webhook_is_in_the_budget() {
    let server = ServerOptions::default().args(&["--memory-budget", "8388608"]).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &registration()).await;
    namespace(&client, "bounded").await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/bounded/serviceaccounts";
    client.post(accounts, &account).await.unwrap().expect_status(201).unwrap();
    let token = format!("{accounts}/robot/token");
    let held = async || metric(&client, "kindom_memory_held_bytes").await.unwrap();
    let too_much = |answer: Answer| {
        assert_eq!((answer.status, answer.header("retry-after")), (429, "1"), "{:.300}", answer.text());
    };
    // In memory they take far more than the bytes of a body.
    let wordy = |count: usize| {
        let words: serde_json::Map<_, _> = (0..count).map(|n| (format!("k{n}"), json!(""))).collect();
        object(GROUP, "Thing", "wordy", json!({"words": words}))
    };
    let request = |count: usize| {
        let audiences: Vec<_> = (0..count).map(|n| n.to_string()).collect();
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": audiences}})
    };
    too_much(client.post(&token, &request(50_000)).await.unwrap());
    let webhook = Webhook::start(Arc::new(|_, _| Said::Nothing)).await;
    for kind in [MUTATING, VALIDATING] {
        let name = kind.to_lowercase();
        configure(&client, &configuration(kind, &name, &webhook, (GROUP, "things"))).await;
        drop(webhook.asked());
        let path = format!("{}?dryRun=All", things("default"));
        let post = async |count: usize| client.post(&path, &wordy(count)).await.unwrap();
        too_much(post(20_000).await);
        assert!(webhook.asked().is_empty());
        let mut waits = pin!(post(2_000));
        let counted = async {
            eventually("its object is counted", async || (held().await >= 2_000 * 60).then_some(())).await;
            // The next round is to see none of this one's questions.
            eventually("the webhook is asked", async || (!webhook.asked().is_empty()).then_some(())).await;
        };
        tokio::select! {
            answer = &mut waits => panic!("{}", answer.text()),
            () = counted => {}
        }
        let path = format!("{}/{name}", configurations(kind));
        client.delete(&path).await.unwrap().expect_status(200).unwrap();
    }
    eventually("nothing is held", async || (held().await == 0).then_some(())).await;
}

//! Conversion by a registration's webhook (apiextensions `pkg/apiserver/conversion`, 1.37).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kindom_integration::{Client, Server, count};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{CRDS, crd, eventually, names, object, register, revision, until, until_gone};
use crate::webhook::{Rule, Said, Webhook, reviewed, widened};

const GROUP: &str = "asked.example.com";

fn things(version: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/default/things")
}

fn at(version: &str, name: &str) -> String {
    format!("{}/{name}", things(version))
}

/// v1 has `spec.size.width`, v1beta1 `spec.width`; both have a status and a scale.
fn registration(conversion: Value, storage: &str) -> Value {
    let integer = json!({"type": "integer"});
    let version = |name: &str, width: Value, replicas: &str| {
        json!({
            "name": name, "served": true, "storage": name == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": width},
                "status": {"type": "object", "properties": {"ready": integer, "replicas": integer}},
            }}},
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": replicas, "statusReplicasPath": ".status.replicas",
            }},
        })
    };
    let nested =
        json!({"size": {"type": "object", "properties": {"width": integer}}, "note": {"type": "string"}});
    let flat = json!({"width": integer, "note": {"type": "string"}});
    let mut registration = crd(GROUP, "things", "Thing", "Namespaced");
    registration["spec"]["versions"] =
        json!([version("v1", nested, ".spec.size.width"), version("v1beta1", flat, ".spec.width")]);
    registration["spec"]["conversion"] = conversion;
    registration
}

fn honest() -> Rule {
    Arc::new(|_, review| Said::Json(reviewed(review, widened)))
}

/// Changes every object that an honest webhook would answer with.
fn changing(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Rule {
    Arc::new(move |_, review| {
        Said::Json(reviewed(review, |object, wanted| {
            let mut object = widened(object, wanted);
            change(&mut object);
            object
        }))
    })
}

/// Changes the whole of an honest webhook's answer.
fn answering(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Rule {
    Arc::new(move |_, review| {
        let mut answer = reviewed(review, widened);
        change(&mut answer);
        Said::Json(answer)
    })
}

fn thing(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

async fn started(storage: &str) -> (Server, Client, Webhook) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let webhook = Webhook::start(honest()).await;
    register(&client, &registration(webhook.conversion("/convert"), storage)).await;
    (server, client, webhook)
}

/// B-20, B-21: an object is the same through both versions, whichever it is written, listed, watched or applied in.
#[tokio::test]
async fn versions_convert_by_a_webhook() {
    let (server, client, webhook) = started("v1").await;
    let from = revision(&client.get(&things("v1")).await.unwrap().json());
    let path = |version| format!("{}?watch=true&resourceVersion={from}", things(version));
    let mut old = client.watch(&path("v1beta1")).await.unwrap();
    let mut new = client.watch(&path("v1")).await.unwrap();

    let made = client.post(&things("v1beta1"), &thing("v1beta1", "one", json!({"width": 3}))).await.unwrap();
    assert_eq!(made.expect_status(201).unwrap().at("/spec"), json!({"width": 3}));
    assert_eq!(client.get(&at("v1", "one")).await.unwrap().at("/spec"), json!({"size": {"width": 3}}));
    assert_eq!(old.event().await.unwrap()["object"]["spec"], json!({"width": 3}));
    assert_eq!(new.event().await.unwrap()["object"]["spec"], json!({"size": {"width": 3}}));
    // A PUT through one, a patch through the other.
    let mut read = client.get(&at("v1beta1", "one")).await.unwrap().json();
    read["spec"]["width"] = json!(4);
    client.put(&at("v1beta1", "one"), &read).await.unwrap().expect_status(200).unwrap();
    assert_eq!(client.get(&at("v1", "one")).await.unwrap().at("/spec/size/width"), 4);
    let patched =
        client.merge_patch(&at("v1", "one"), &json!({"spec": {"size": {"width": 5}}})).await.unwrap();
    assert_eq!(patched.expect_status(200).unwrap().at("/metadata/generation"), 3);
    let patch = json!({"status": {"ready": 1, "replicas": 2}});
    let patched = client.merge_patch(&format!("{}/status", at("v1beta1", "one")), &patch).await.unwrap();
    assert_eq!(patched.expect_status(200).unwrap().at("/spec"), json!({"width": 5}));
    let scale = format!("{}/scale", at("v1beta1", "one"));
    assert_eq!(client.get(&scale).await.unwrap().at("/spec/replicas"), 5);
    client.merge_patch(&scale, &json!({"spec": {"replicas": 6}})).await.unwrap().expect_status(200).unwrap();
    for width in [4, 5, 5, 6] {
        assert_eq!(old.event().await.unwrap()["object"]["spec"]["width"], width);
        assert_eq!(new.event().await.unwrap()["object"]["spec"]["size"]["width"], width);
    }
    // Managers know the fields in the version that they apply.
    let apply = |version: &str, manager: &str, spec: Value| {
        let path = format!("{}?fieldManager={manager}", at(version, "applied"));
        client
            .request("PATCH", &path)
            .body("application/apply-patch+yaml", thing(version, "applied", spec).to_string())
    };
    apply("v1beta1", "a", json!({"width": 1})).send().await.unwrap().expect_status(201).unwrap();
    let conflict = apply("v1", "b", json!({"size": {"width": 2}})).send().await.unwrap();
    let conflict = conflict.expect_status(409).unwrap();
    let message = conflict.at("/message");
    let of_a = "conflict with \"a\": .spec.width";
    assert!(message.as_str().unwrap().contains(of_a), "{message}");
    apply("v1", "b", json!({"note": "x"})).send().await.unwrap().expect_status(200).unwrap();
    // What a manager does not apply any more goes, as the other version names it.
    apply("v1beta1", "a", json!({})).send().await.unwrap().expect_status(200).unwrap();
    assert_eq!(client.get(&at("v1", "applied")).await.unwrap().at("/spec"), json!({"note": "x"}));
    // kubectl, which shows a table and deletes.
    let shown =
        server.kubectl(&["get", "things.v1beta1.asked.example.com", "one", "-o=jsonpath={.spec.width}"]);
    assert_eq!(shown.await.unwrap(), "6");
    server.kubectl(&["delete", "things.v1beta1.asked.example.com", "one", "applied"]).await.unwrap();
    let deleted = ["ADDED", "MODIFIED", "MODIFIED", "DELETED", "DELETED"];
    for kind in deleted {
        assert_eq!(old.event().await.unwrap()["type"], kind);
    }
    // The webhook has seen objects as they are stored, and no others.
    let reviews = webhook.asked();
    let objects = || reviews.iter().flat_map(|review| review["request"]["objects"].as_array().unwrap());
    assert!(objects().all(|object| object["metadata"]["uid"].is_string()), "{reviews:?}");
    let metrics = client.get("/metrics").await.unwrap().text();
    let counted = r#"apiserver_conversion_webhook_request_total{result="success",failure_type=""}"#;
    assert!(metrics.contains(counted), "{metrics}");
}

/// A list asks of all its objects at once, in bounded reviews, and none of those that are there in its version.
#[tokio::test]
async fn lists_ask_in_few_reviews() {
    let (_server, client, webhook) = started("v1").await;
    let objects = 600;
    for number in 0..objects {
        let version = if number % 3 == 0 { "v1beta1" } else { "v1" };
        let spec =
            if version == "v1" { json!({"size": {"width": number}}) } else { json!({"width": number}) };
        let name = format!("n{number:03}");
        client
            .post(&things(version), &thing(version, &name, spec))
            .await
            .unwrap()
            .expect_status(201)
            .unwrap();
    }
    webhook.asked();
    client.get(&things("v1")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(webhook.asked().len(), 0, "all are stored as they are listed");
    let listed = client.get(&things("v1beta1")).await.unwrap().expect_status(200).unwrap().json();
    let widths =
        listed["items"].as_array().unwrap().iter().map(|item| item["spec"]["width"].as_u64().unwrap());
    assert_eq!(widths.collect::<Vec<_>>(), (0..objects).collect::<Vec<_>>());
    let reviews = webhook.asked();
    let sizes: Vec<usize> =
        reviews.iter().map(|r| r["request"]["objects"].as_array().unwrap().len()).collect();
    assert!(sizes.len() < 6 && sizes.iter().sum::<usize>() == 600, "{sizes:?}");
    let path = format!(
        "{}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        things("v1beta1")
    );
    let mut watch = client.watch(&path).await.unwrap();
    let mut seen = BTreeSet::new();
    while seen.len() < 600 {
        let event = watch.event().await.unwrap();
        assert_eq!(event["type"], "ADDED", "{event}");
        seen.insert(event["object"]["spec"]["width"].as_u64().unwrap());
    }
    assert_eq!(watch.event().await.unwrap()["type"], "BOOKMARK");
    assert!(webhook.asked().len() < 20);
}

/// A field that a version declares selects objects as that version shows them, whichever they are stored in; by a webhook, and by
/// rules.
#[tokio::test]
async fn fields_are_those_of_the_version_that_is_asked() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let webhook = Webhook::start(honest()).await;
    let mut asked = registration(webhook.conversion("/convert"), "v1");
    asked["spec"]["versions"][1]["selectableFields"] = json!([{"jsonPath": ".spec.width"}]);
    let mut ruled = asked.clone();
    ruled["spec"]["conversion"] = json!({"strategy": "None"});
    let rules =
        json!({"hub": "v1", "versions": {"v1beta1": [{"move": ".spec.width", "to": ".spec.size.width"}]}});
    ruled["metadata"]["annotations"] = json!({"conversion.kindom.dev/rules": rules.to_string()});
    for registration in [asked, ruled] {
        register(&client, &registration).await;
        for (name, width) in [("one", 1), ("two", 2), ("three", 3)] {
            let made =
                client.post(&things("v1"), &thing("v1", name, json!({"size": {"width": width}}))).await;
            made.unwrap().expect_status(201).unwrap();
        }
        // More of those that are not selected than are asked about at once.
        for number in 0..150 {
            let other = thing("v1", &format!("n{number}"), json!({"size": {"width": 9}}));
            client.post(&things("v1"), &other).await.unwrap().expect_status(201).unwrap();
        }
        let selected = |width: u64| format!("{}?fieldSelector=spec.width%3D{width}", things("v1beta1"));
        let two = client.get(&selected(2)).await.unwrap().expect_status(200).unwrap().json();
        assert_eq!(names(&two), ["two"]);
        let page = client.get(&format!("{}&limit=1", selected(3))).await.unwrap().json();
        assert_eq!(names(&page), ["three"]);
        let from = revision(&two);
        let past = format!("{}&resourceVersion={from}&resourceVersionMatch=Exact", selected(1));
        assert_eq!(names(&client.get(&past).await.unwrap().json()), ["one"]);
        let mut later =
            client.watch(&format!("{}&watch=true&resourceVersion={from}", selected(2))).await.unwrap();
        let initial = format!(
            "{}&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            selected(2)
        );
        let mut initial = client.watch(&initial).await.unwrap();
        assert_eq!(initial.event().await.unwrap()["object"]["metadata"]["name"], "two");
        assert_eq!(initial.event().await.unwrap()["type"], "BOOKMARK");
        for width in [2, 4] {
            let patch = json!({"spec": {"size": {"width": width}}});
            client.merge_patch(&at("v1", "one"), &patch).await.unwrap().expect_status(200).unwrap();
        }
        client.delete(&at("v1", "two")).await.unwrap().expect_status(200).unwrap();
        for watch in [&mut later, &mut initial] {
            for (kind, name) in [("ADDED", "one"), ("DELETED", "one"), ("DELETED", "two")] {
                let event = watch.event().await.unwrap();
                assert_eq!(
                    (&event["type"], &event["object"]["metadata"]["name"]),
                    (&json!(kind), &json!(name))
                );
                assert_eq!(event["object"]["spec"]["width"], 2, "{event}");
            }
        }
        client.delete(&selected(3)).await.unwrap().expect_status(200).unwrap();
        client.delete(&selected(9)).await.unwrap().expect_status(200).unwrap();
        assert_eq!(names(&client.get(&things("v1")).await.unwrap().json()), ["one"]);
        let name = format!("things.{GROUP}");
        client.delete(&format!("{CRDS}/{name}")).await.unwrap().expect_status(200).unwrap();
        until_gone(&client, CRDS, &name).await;
    }
}

/// Every lie is named in upstream's words, and nothing is stored of it.
#[tokio::test]
async fn answers_that_lie_are_refused() {
    let (_server, client, webhook) = started("v1").await;
    client.post(&things("v1"), &thing("v1", "one", json!({"size": {"width": 1}}))).await.unwrap();
    let gvk = format!("conversion webhook for {GROUP}/v1, Kind=Thing");
    let cases: Vec<(Rule, String)> = vec![
        (answering(|of| of["response"]["uid"] = json!("other")), "failed: expected response.uid=".to_owned()),
        (
            answering(|of| of["response"]["result"] = json!({"status": "Failure", "message": "not today"})),
            "failed: not today".to_owned(),
        ),
        (
            answering(|of| of["response"]["result"] = json!({})),
            "failed: response.result.status was '', not 'Success'".to_owned(),
        ),
        (answering(|of| drop(of["response"].take())), "failed: no response provided".to_owned()),
        (
            answering(|of| of["kind"] = json!("Conversion")),
            "failed: no kind \"Conversion\" is registered for version \"apiextensions.k8s.io/v1\" in scheme".to_owned(),
        ),
        (
            answering(|of| of["response"]["convertedObjects"] = json!([])),
            "returned 0 objects, expected 1".to_owned(),
        ),
        (
            changing(|of| of["apiVersion"] = json!("asked.example.com/v1")),
            "returned invalid object at index 0: invalid groupVersion (expected asked.example.com/v1beta1, received asked.example.com/v1)".to_owned(),
        ),
        (
            changing(|of| of["kind"] = json!("Other")),
            "returned invalid object at index 0: invalid kind (expected Thing, received Other)".to_owned(),
        ),
        (
            changing(|of| of["metadata"]["name"] = json!("two")),
            "returned invalid object: must have the same name: one != two".to_owned(),
        ),
        (
            changing(|of| of["metadata"]["namespace"] = json!("kube-system")),
            "returned invalid object: must have the same namespace: default != kube-system".to_owned(),
        ),
        (changing(|of| of["metadata"]["uid"] = json!("u")), "returned invalid object: must have the same UID: ".to_owned()),
        (
            changing(|of| drop(of.as_object_mut().unwrap().remove("metadata"))),
            "returned invalid object: must have the same name: one != ".to_owned(),
        ),
        (
            changing(|of| of["metadata"]["labels"] = json!({"a": 1})),
            "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object".to_owned(),
        ),
        (
            changing(|of| of["metadata"]["labels"] = json!({"a": "not a label!"})),
            "returned invalid metadata: metadata.labels: Invalid value: \"not a label!\": ".to_owned(),
        ),
        (
            changing(|of| of["metadata"]["annotations"] = json!([])),
            "returned invalid metadata: invalid metadata.annotations of type []interface {} in converted object".to_owned(),
        ),
        (Arc::new(|_, _| Said::Text(500, "boom".to_owned())), "failed: an error on the server (\"boom\") has prevented the request from succeeding".to_owned()),
        (Arc::new(|_, _| Said::Text(404, "gone".to_owned())), "failed: the server could not find the requested resource".to_owned()),
        (Arc::new(|_, _| Said::Text(200, "{".to_owned())), "failed: couldn't get version/kind; json parse error: ".to_owned()),
        (Arc::new(|_, _| Said::Text(200, " ".repeat(300 << 10))), "failed: the answer has more than 26".to_owned()),
        (Arc::new(|_, _| Said::End), format!("failed: Post \"https://127.0.0.1:{}/convert?timeout=30s\": EOF", webhook.port)),
    ];
    for (rule, expected) in cases {
        webhook.answer(rule);
        let message = client.get(&at("v1beta1", "one")).await.unwrap().expect_status(500).unwrap();
        let message = message.at("/message");
        assert!(message.as_str().unwrap().contains(&format!("{gvk} {expected}")), "{message}\n{expected}");
        let list = client.get(&things("v1beta1")).await.unwrap();
        assert!(list.text().contains(&expected.replace('"', "\\\"")), "{}", list.text());
        // Who writes through that version is told so, and nothing has happened.
        let patched =
            client.merge_patch(&at("v1beta1", "one"), &json!({"spec": {"width": 9}})).await.unwrap();
        patched.expect_status(500).unwrap();
    }
    webhook.answer(honest());
    assert_eq!(client.get(&at("v1beta1", "one")).await.unwrap().at("/spec/width"), 1);
    // Labels and annotations are its to change, and nothing else of the metadata.
    webhook.answer(changing(|of| {
        of["metadata"]["labels"] = json!({"by": "webhook"});
        of["metadata"]["finalizers"] = json!(["example.com/none"]);
        of["metadata"]["generation"] = json!(77);
    }));
    let read = client.get(&at("v1beta1", "one")).await.unwrap();
    assert_eq!(read.at("/metadata/labels"), json!({"by": "webhook"}));
    assert_eq!((read.at("/metadata/finalizers"), read.at("/metadata/generation")), (Value::Null, json!(1)));
}

/// A webhook that never answers costs those alone who need it: other types, other versions, and the type's own end go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_webhook_holds_up_nobody_else() {
    let (server, client, webhook) = started("v1").await;
    register(&client, &crd("free.example.com", "widgets", "Widget", "Namespaced")).await;
    client.post(&things("v1"), &thing("v1", "one", json!({"size": {"width": 1}}))).await.unwrap();
    webhook.answer(Arc::new(|_, _| Said::Stalled));
    let mut waiting = JoinSet::new();
    for _ in 0..200 {
        let client = client.clone();
        waiting.spawn(async move { client.get(&at("v1beta1", "one")).await.unwrap() });
    }
    // Those that are too many fail once it is known to be silent, but for a few that try whether it still is.
    for _ in 0..200 - 64 - 4 {
        let refused = waiting.join_next().await.unwrap().unwrap();
        assert!(refused.text().contains("too many questions to it are under way"), "{}", refused.text());
    }
    // It answers again: somebody tries, whoever still waits.
    webhook.answer(honest());
    let read = async || client.get(&at("v1beta1", "one")).await.unwrap().expect_status(200).ok();
    eventually("the webhook is asked again", read).await;
    while let Some(refused) = waiting.try_join_next() {
        let refused = refused.unwrap();
        assert!(refused.text().contains("too many questions"), "it was asked only then: {}", refused.text());
    }
    webhook.answer(Arc::new(|_, _| Said::Nothing));
    let widgets = "/apis/free.example.com/v1/namespaces/default/widgets";
    let made = client.post(widgets, &object("free.example.com", "Widget", "a", json!({}))).await.unwrap();
    made.expect_status(201).unwrap();
    client.get(&at("v1", "one")).await.unwrap().expect_status(200).unwrap();
    client.get("/apis").await.unwrap().expect_status(200).unwrap();
    server.kubectl(&["api-resources"]).await.unwrap();
    let name = format!("things.{GROUP}");
    client.delete(&format!("{CRDS}/{name}")).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, CRDS, &name).await;
    assert!(!waiting.is_empty(), "somebody still waits");
}

/// A webhook that is slow and answers is waited for, by however many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_wait_for_a_slow_webhook() {
    let (_server, client, webhook) = started("v1").await;
    client.post(&things("v1"), &thing("v1", "one", json!({"size": {"width": 1}}))).await.unwrap();
    webhook.answer(Arc::new(|_, review| Said::Late(Duration::from_millis(100), reviewed(review, widened))));
    let mut waiting = JoinSet::new();
    for _ in 0..count(150, 300) {
        let client = client.clone();
        waiting.spawn(async move { client.get(&at("v1beta1", "one")).await.unwrap() });
    }
    while let Some(read) = waiting.join_next().await {
        assert_eq!(read.unwrap().expect_status(200).unwrap().at("/spec/width"), 1);
    }
}

/// Objects that are stored in a version that is not the storage version any more are read and written on.
#[tokio::test]
async fn the_storage_version_changes_under_a_webhook() {
    let (_server, client, webhook) = started("v1beta1").await;
    client.post(&things("v1"), &thing("v1", "one", json!({"size": {"width": 1}}))).await.unwrap();
    let mut changed = client.get(&format!("{CRDS}/things.{GROUP}")).await.unwrap().json();
    changed["spec"]["versions"] = registration(json!({}), "v1")["spec"]["versions"].clone();
    client.put(&format!("{CRDS}/things.{GROUP}"), &changed).await.unwrap().expect_status(200).unwrap();
    until(&client, CRDS, &format!("things.{GROUP}"), |of| {
        of["status"]["storedVersions"] == json!(["v1beta1", "v1"])
    })
    .await;
    assert_eq!(client.get(&at("v1", "one")).await.unwrap().at("/spec/size/width"), 1);
    client
        .merge_patch(&at("v1beta1", "one"), &json!({"spec": {"width": 2}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    webhook.answer(Arc::new(|_, _| Said::Nothing));
    assert_eq!(client.get(&at("v1", "one")).await.unwrap().at("/spec/size/width"), 2);
}

/// The versions of a type that a webhook converts among, and where each has its width.
const VERSIONS: [(&str, &str); 3] =
    [("v1", "/spec/size/width"), ("v1beta1", "/spec/width"), ("v1alpha1", "/spec/w")];

fn width(version: &str, width: u64) -> Value {
    match version {
        "v1" => json!({"size": {"width": width}}),
        "v1beta1" => json!({"width": width}),
        _ => json!({"w": width}),
    }
}

/// The width of an object of any of the versions.
fn width_of(object: &Value) -> Option<u64> {
    let version = object["apiVersion"].as_str()?.rsplit('/').next()?;
    let (_, place) = VERSIONS.iter().find(|(known, _)| *known == version)?;
    let spec = object["spec"].as_object()?;
    object.pointer(place).filter(|_| spec.len() == 1)?.as_u64()
}

/// Show 2 of conversion: the webhook is honest, slow, away and lying in turn. Who is told that a write has happened finds it in every
/// version, and nobody ever sees an object that is not what its version says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_the_webhook_fails() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let honest = |review: &Value| {
        reviewed(review, |mut object, wanted| {
            let width = width_of(&object).unwrap();
            object["apiVersion"] = json!(wanted);
            object["spec"] = self::width(wanted.rsplit('/').next().unwrap(), width);
            object
        })
    };
    let turn = AtomicUsize::new(0);
    let webhook =
        Webhook::start(Arc::new(move |_, review| match turn.fetch_add(1, Ordering::Relaxed) % 11 {
            2 => Said::End,
            4 => Said::Text(503, "away".to_owned()),
            6 => Said::Late(Duration::from_millis(50), honest(review)),
            8 => {
                let mut lie = honest(review);
                lie["response"]["convertedObjects"][0]["metadata"]["name"] = json!("another");
                Said::Json(lie)
            }
            10 => {
                let mut lie = honest(review);
                lie["response"]["convertedObjects"] = json!([]);
                Said::Json(lie)
            }
            _ => Said::Json(honest(review)),
        }))
        .await;
    let mut registration = registration(webhook.conversion("/convert"), "v1");
    let mut alpha = registration["spec"]["versions"][1].clone();
    alpha["name"] = json!("v1alpha1");
    alpha["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        json!({"w": {"type": "integer"}});
    alpha["subresources"] = json!({});
    registration["spec"]["versions"].as_array_mut().unwrap().push(alpha);
    register(&client, &registration).await;

    let from = revision(&client.get(&things("v1")).await.unwrap().json());
    let mut watching = JoinSet::new();
    for (version, _) in VERSIONS {
        let client = client.clone();
        watching.spawn(async move {
            let (mut since, mut errors) = (from.to_string(), 0);
            let mut seen: BTreeMap<String, u64> = BTreeMap::new();
            loop {
                let path = format!("{}?watch=true&resourceVersion={since}", things(version));
                let mut watch = client.watch(&path).await.unwrap();
                loop {
                    let event = watch.event().await.unwrap();
                    let object = &event["object"];
                    // An event that cannot be converted ends the watch; the next one begins with it.
                    if event["type"] == "ERROR" {
                        assert!(watch.event().await.is_err(), "the watch goes on after {event}");
                        errors += 1;
                        break;
                    }
                    since = object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
                    let name = object["metadata"]["name"].as_str().unwrap();
                    if name == "last" {
                        return (seen, errors);
                    }
                    let width = width_of(object).unwrap_or_else(|| panic!("{version}: {object}"));
                    let before = seen.insert(name.to_owned(), width).unwrap_or_default();
                    assert!(before < width, "{version}: {name} went from {before} to {width}");
                }
            }
        });
    }
    let mut writing = JoinSet::new();
    for (number, (version, _)) in VERSIONS.into_iter().cycle().take(6).enumerate() {
        let client = client.clone();
        writing.spawn(async move {
            let (name, mut refused) = (format!("n{number}"), 0);
            let (mut exists, mut last) = (false, 0);
            for next in 1..=count(40, 400) as u64 {
                loop {
                    let answer = if exists {
                        client.merge_patch(&at(version, &name), &json!({"spec": width(version, next)})).await
                    } else {
                        client.post(&things(version), &thing(version, &name, width(version, next))).await
                    };
                    let answer = answer.unwrap();
                    match answer.status {
                        200 | 201 => {
                            assert_eq!(width_of(&answer.json()), Some(next), "{}", answer.text());
                            (exists, last) = (true, next);
                            break;
                        }
                        // It has happened, and could not be shown; or it has not.
                        409 => exists = true,
                        500 => refused += 1,
                        other => panic!("{other}: {}", answer.text()),
                    }
                }
            }
            (name, last, refused)
        });
    }
    let written = writing.join_all().await;
    assert!(
        written.iter().map(|(_, _, refused)| refused).sum::<usize>() > 20,
        "the webhook has failed often"
    );
    webhook.answer(Arc::new(move |_, review| Said::Json(honest(review))));
    for (name, last, _) in &written {
        for (version, _) in VERSIONS {
            let found = client.get(&at(version, name)).await.unwrap().expect_status(200).unwrap();
            assert_eq!(width_of(&found.json()), Some(*last), "{version}: {}", found.text());
        }
    }
    client
        .post(&things("v1"), &thing("v1", "last", width("v1", 1)))
        .await
        .unwrap()
        .expect_status(201)
        .unwrap();
    let seen = watching.join_all().await;
    for (name, last, _) in &written {
        assert!(seen.iter().all(|(seen, _)| seen.get(name) == Some(last)), "{name}: {seen:?}");
    }
    assert!(seen.iter().map(|(_, errors)| errors).sum::<usize>() > 0, "no event could not be converted");
}

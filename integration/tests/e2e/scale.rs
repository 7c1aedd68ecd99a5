//! The scale subresource of registered types ("Subresources for CustomResources"; the scripts `object-scale`,
//! `object-scale-paths` and `crd-subresources` have what the real server answers).

use kindom_api::json as tree;
use kindom_codec::protobuf;
use kindom_integration::{Answer, Client, Server, ServerOptions};
use serde_json::{Value, json};

use crate::support::{CRDS, condition, crd, object, refused, register};

const GROUP: &str = "scale.example.org";
const FLOCKS: &str = "/apis/scale.example.org/v1/namespaces/default/flocks";
const ONE: &str = "/apis/scale.example.org/v1/namespaces/default/flocks/one";
const SCALE: &str = "/apis/scale.example.org/v1/namespaces/default/flocks/one/scale";
const V1BETA1: &str = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";

/// A type whose replicas are at a path of its own.
fn flocks() -> Value {
    let mut registration = crd(GROUP, "flocks", "Flock", "Namespaced");
    let v1 = &mut registration["spec"]["versions"][0];
    v1["schema"]["openAPIV3Schema"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    v1["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.birds.count",
        "statusReplicasPath": ".status.seen",
        "labelSelectorPath": ".status.selector",
    }});
    registration
}

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &flocks()).await;
    let one = object(GROUP, "Flock", "one", json!({"birds": {"count": 3, "kind": "gull"}, "note": "x"}));
    client.post(FLOCKS, &one).await.unwrap().expect_status(201).unwrap();
    (server, client)
}

async fn read(client: &Client, path: &str) -> Value {
    client.get(path).await.unwrap().expect_status(200).unwrap().json()
}

fn scale(replicas: i64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": replicas}})
}

fn ok(answer: Result<Answer, kindom_integration::HarnessError>) -> Value {
    answer.unwrap().expect_status(200).unwrap().json()
}

/// S-04, S-16, S-34, S-35
#[tokio::test]
async fn kubectl_scales() {
    let (server, client) = started().await;
    let out = server.kubectl(&["scale", "flock/one", "--replicas=5"]).await.unwrap();
    assert_eq!(out.trim(), "flock.scale.example.org/one scaled");
    assert_eq!(read(&client, ONE).await["spec"]["birds"], json!({"count": 5, "kind": "gull"}));

    let shown = server.kubectl(&["get", "flock", "one", "--subresource=scale", "-o", "json"]).await.unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["apiVersion"], &shown["kind"]), (&json!("autoscaling/v1"), &json!("Scale")));
    assert_eq!((&shown["spec"], &shown["status"]), (&json!({"replicas": 5}), &json!({"replicas": 0})));
    assert_eq!(shown["metadata"]["uid"], read(&client, ONE).await["metadata"]["uid"]);

    server
        .kubectl(&[
            "patch",
            "flock",
            "one",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"seen":4}}"#,
        ])
        .await
        .unwrap();
    let table = server.kubectl(&["get", "flock", "one", "--subresource=scale"]).await.unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "DESIRED", "AVAILABLE", "AGE"]);
    assert_eq!(rows[1][..3], ["one", "5", "4"]);

    let patch = r#"{"spec":{"replicas":6},"status":{"replicas":77}}"#;
    server
        .kubectl(&["patch", "flock", "one", "--subresource=scale", "--type=merge", "-p", patch])
        .await
        .unwrap();
    let flock = read(&client, ONE).await;
    assert_eq!((&flock["spec"]["birds"]["count"], &flock["status"]["seen"]), (&json!(6), &json!(4)));

    // With a precondition kubectl reads and PUTs, and sends no Content-Type.
    server.kubectl(&["scale", "flock/one", "--current-replicas=6", "--replicas=7"]).await.unwrap();
    let failed = server
        .kubectl_with(&["scale", "flock/one", "--current-replicas=6", "--replicas=8"], "")
        .await
        .unwrap();
    assert!(failed.success().is_err(), "there are seven");
    assert_eq!(read(&client, SCALE).await["spec"]["replicas"], 7);
}

/// S-21, S-31, S-32: whatever a Scale says beside, only the value at the path changes.
#[tokio::test]
async fn only_the_replicas_are_written() {
    let (_server, client) = started().await;
    let status = json!({"status": {"seen": 2, "selector": "a=b"}});
    ok(client.merge_patch(&format!("{ONE}/status"), &status).await);
    let before = read(&client, ONE).await;
    let mut sent = scale(9);
    sent["metadata"] =
        json!({"name": "one", "labels": {"x": "y"}, "finalizers": ["a.b/c"], "generation": 50});
    sent["status"] = json!({"replicas": 100, "selector": "no=no"});
    let answer = ok(client.put(SCALE, &sent).await);
    assert_eq!(answer["spec"], json!({"replicas": 9}));
    assert_eq!(answer["status"], json!({"replicas": 2, "selector": "a=b"}));

    let mut wanted = before.clone();
    let after = read(&client, ONE).await;
    wanted["spec"]["birds"]["count"] = json!(9);
    wanted["metadata"]["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap() + 1);
    // Who writes what has tests of its own.
    for field in ["resourceVersion", "managedFields"] {
        if let Some(value) = after["metadata"].get(field) {
            wanted["metadata"][field] = value.clone();
        }
    }
    assert_eq!(after, wanted);
}

/// As with every other patch (`handlers/patch.go` decodes one to apply it): what is JSON but no patch of its kind is only
/// told where there is an object.
#[tokio::test]
async fn a_malformed_patch_is_told_after_a_missing_object_but_for_what_is_no_json() {
    let (_server, client) = started().await;
    let missing = SCALE.replace("/one/", "/none/");
    let send = async |path: &str, kind: &str, body: &'static str| {
        let answer = client.request("PATCH", path).body(kind, body).send().await.unwrap();
        answer.status
    };
    for (kind, body) in [
        ("application/json-patch+json", r#"{"op":"add"}"#),
        ("application/merge-patch+json", "[]"),
        ("application/merge-patch+json", "7"),
    ] {
        assert_eq!(send(&missing, kind, body).await, 404, "{kind} {body}");
        assert_eq!(send(SCALE, kind, body).await, 400, "{kind} {body}");
        for path in [&missing, SCALE] {
            assert_eq!(send(path, kind, "{").await, 400, "{kind} {path}");
        }
    }
}

/// S-29, S-33
#[tokio::test]
async fn a_scale_has_its_objects_revision() {
    let (_server, client) = started().await;
    let first = read(&client, SCALE).await;
    assert_eq!(first["metadata"]["resourceVersion"], read(&client, ONE).await["metadata"]["resourceVersion"]);

    let written = ok(client.merge_patch(&format!("{ONE}/status"), &json!({"status": {"seen": 1}})).await);
    let second = read(&client, SCALE).await;
    assert_eq!(second["metadata"]["resourceVersion"], written["metadata"]["resourceVersion"]);
    assert_ne!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);

    let mut stale = first.clone();
    stale["spec"]["replicas"] = json!(4);
    let why = "flocks.scale.example.org \"one\": the object has been modified";
    refused(client.put(SCALE, &stale).await, 409, "Conflict", why);
    let mut fresh = second;
    fresh["spec"]["replicas"] = json!(4);
    let third = ok(client.put(SCALE, &fresh).await);
    assert_eq!(ok(client.put(SCALE, &scale(4)).await), third, "a write that changes nothing keeps it");
    assert_eq!(ok(client.put(SCALE, &scale(5)).await)["spec"]["replicas"], 5, "without one it overwrites");
}

/// The requests of the HorizontalPodAutoscaler: it finds the kind of the Scale in discovery, reads it (it prefers protobuf),
/// and writes it as JSON, without a Content-Type and with the revision that it read, until no other write comes between.
#[tokio::test]
async fn an_autoscaler_finds_reads_and_writes_it() {
    let (_server, client) = started().await;
    let resources = read(&client, "/apis/scale.example.org/v1").await["resources"].clone();
    let found = resources.as_array().unwrap().iter().find(|r| r["name"] == "flocks/scale").unwrap().clone();
    assert_eq!(found["verbs"], json!(["get", "patch", "update"]));
    let kind = |field: &str| found[field].as_str().unwrap().to_owned();
    let api_version = format!("{}/{}", kind("group"), kind("version"));

    let mut rivals = vec![31, 32];
    let written = loop {
        let answer =
            client.request("GET", SCALE).accept("application/vnd.kubernetes.protobuf, */*").send().await;
        let answer = answer.unwrap().expect_status(200).unwrap();
        assert_eq!(answer.header("content-type"), "application/vnd.kubernetes.protobuf");
        let read =
            protobuf::decode(&answer.body, protobuf::message("autoscaling/v1", "Scale").unwrap()).unwrap();
        let mut scale: Value = serde_json::from_str(&read.to_string()).unwrap();
        assert_eq!(
            (scale["apiVersion"].as_str(), scale["kind"].as_str()),
            (Some(&*api_version), Some("Scale"))
        );
        assert_eq!(scale["metadata"]["namespace"], "default");
        scale["spec"]["replicas"] = json!(scale["spec"]["replicas"].as_i64().unwrap() * 2);
        if let Some(rival) = rivals.pop() {
            ok(client.put(SCALE, &self::scale(rival)).await);
        }
        let answer = client.request("PUT", SCALE).bare_body(scale.to_string()).send().await.unwrap();
        match answer.status {
            409 => {}
            _ => break answer.expect_status(200).unwrap().json(),
        }
    };
    assert_eq!(written["spec"]["replicas"], 62);

    // One that writes protobuf too.
    let sent = tree::parse(scale(5).to_string().as_bytes()).unwrap();
    let body = protobuf::encode(&sent).unwrap();
    let answer = client.request("PUT", SCALE).body(protobuf::MEDIA_TYPE, body).accept("application/json");
    assert_eq!(ok(answer.send().await)["spec"]["replicas"], 5);
    let cut = client.request("PUT", SCALE).body(protobuf::MEDIA_TYPE, &b"k8s\0\x12\xff"[..]);
    refused(cut.send().await, 400, "BadRequest", "no kind is registered for the type v1.Scale");
}

/// A scale write is one of the object: each of many that race is there in the end, beside what others write.
#[tokio::test]
async fn racing_writers_lose_nothing() {
    let (server, client) = started().await;
    ok(client.put(SCALE, &scale(0)).await);
    let (scalers, times) = (4, kindom_integration::count(5, 50));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..=scalers {
        let client = server.client().unwrap();
        writers.spawn(async move {
            for i in 0..times {
                if writer == scalers {
                    let note = json!({"spec": {"note": format!("{i}")}});
                    ok(client.merge_patch(ONE, &note).await);
                    continue;
                }
                loop {
                    let mut scale = read(&client, SCALE).await;
                    let now = scale["spec"].get("replicas").map_or(0, |n| n.as_i64().unwrap());
                    scale["spec"]["replicas"] = json!(now + 1);
                    let answer = client.put(SCALE, &scale).await.unwrap();
                    if answer.status != 409 {
                        answer.expect_status(200).unwrap();
                        break;
                    }
                }
            }
        });
    }
    writers.join_all().await;
    let flock = read(&client, ONE).await;
    let (scaled, noted) = (scalers * times, times);
    assert_eq!(flock["spec"]["birds"], json!({"count": scaled, "kind": "gull"}));
    assert_eq!(flock["spec"]["note"], json!(format!("{}", times - 1)));
    assert_eq!(flock["metadata"]["generation"], json!(2 + scaled + noted), "each counts once");
}

/// T-54 holds for it too.
#[tokio::test]
async fn a_frozen_type_is_not_scaled() {
    let (_server, client) = started().await;
    let registration = format!("{CRDS}/flocks.scale.example.org");
    let frozen = json!({"metadata": {"annotations": {"kindom.dev/read-only": "true"}}});
    ok(client.merge_patch(&registration, &frozen).await);
    refused(client.put(SCALE, &scale(4)).await, 403, "Forbidden", "objects of this type are read-only");
    assert_eq!(read(&client, SCALE).await["spec"]["replicas"], 3);
}

/// S-22, S-23, S-25: on the Scale, the object and its status.
#[tokio::test]
async fn the_values_are_checked_wherever_they_are_written() {
    let (_server, client) = started().await;
    let spec = ".spec.birds.count: Invalid value";
    refused(client.put(SCALE, &scale(-1)).await, 422, "Invalid", spec);
    let wrong_spec = |value: Value| json!({"spec": {"birds": {"count": value}}});
    for wrong in [json!(-1), json!(2_147_483_648_i64), json!("3"), json!(1.5), json!([3])] {
        refused(client.merge_patch(ONE, &wrong_spec(wrong.clone())).await, 422, "Invalid", spec);
        let made = object(GROUP, "Flock", "two", wrong_spec(wrong)["spec"].clone());
        refused(client.post(FLOCKS, &made).await, 422, "Invalid", spec);
    }
    let status = format!("{ONE}/status");
    for (field, wrong) in [("seen", json!(-1)), ("seen", json!("x")), ("selector", json!(["a=b"]))] {
        let patch = json!({"status": {field: wrong}});
        let message = format!(".status.{field}: Invalid value");
        refused(client.merge_patch(&status, &patch).await, 422, "Invalid", &message);
    }
    // Of the rest of the object /status asks nothing, and what is not there is only missed by readers of the Scale.
    ok(client.merge_patch(ONE, &json!({"spec": null})).await);
    ok(client.merge_patch(&status, &json!({"status": {"seen": 3}})).await);
    let answer = client.get(SCALE).await;
    let message = "the spec replicas field \".spec.birds.count\" does not exist";
    refused(answer, 500, "InternalError", message);
    assert_eq!(ok(client.put(SCALE, &scale(2)).await)["spec"]["replicas"], 2);
    assert_eq!(read(&client, ONE).await["spec"], json!({"birds": {"count": 2}}));
}

/// S-36, and S-24 as it is today: any string.
#[tokio::test]
async fn the_selector_is_the_objects_and_never_another() {
    let (_server, client) = started().await;
    assert_eq!(read(&client, SCALE).await["status"].get("selector"), None, "it has none");
    let labels = json!({"metadata": {"labels": {"app": "one"}}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    ok(client.merge_patch(ONE, &labels).await);
    assert_eq!(read(&client, SCALE).await["status"].get("selector"), None, "and is given none");
    for selector in ["app=one,tier in (a, b)", "no (selector", ""] {
        let status = json!({"status": {"selector": selector}});
        ok(client.merge_patch(&format!("{ONE}/status"), &status).await);
        let shown = read(&client, SCALE).await["status"]["selector"].clone();
        assert_eq!(shown.as_str().unwrap_or_default(), selector);
    }
}

/// S-12, S-24: what was only proposed allows a type without a count, and wants selectors that are some.
#[tokio::test]
async fn the_proposed_scale_needs_no_count_and_wants_selectors() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let mut proposed = crd(GROUP, "flocks", "Flock", "Namespaced");
    proposed["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
    proposed["spec"]["preserveUnknownFields"] = json!(true);
    proposed["spec"]["version"] = json!("v1");
    proposed["spec"].as_object_mut().unwrap().remove("versions");
    proposed["spec"]["subResources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.count", "labelSelectorPath": ".spec.selector"}});
    for (path, field) in [(".spec.counts[0]", "specReplicasPath"), (".spec.x['y']", "labelSelectorPath")] {
        let mut array = proposed.clone();
        array["spec"]["subResources"]["scale"][field] = json!(path);
        let message = format!(
            "spec.subResources.scale.{field}: Invalid value: \"{path}\": must be a simple json path without array notation"
        );
        refused(client.post(V1BETA1, &array).await, 422, "Invalid", &message);
    }
    client.post(V1BETA1, &proposed).await.unwrap().expect_status(201).unwrap();
    condition(&client, "flocks.scale.example.org", "Established", "True").await;

    let wrong = object(GROUP, "Flock", "one", json!({"count": 1, "selector": "a in b"}));
    refused(client.post(FLOCKS, &wrong).await, 422, "Invalid", ".spec.selector: Invalid value: \"a in b\"");
    let mut one = object(GROUP, "Flock", "one", json!({"count": 1, "selector": "a in (b)"}));
    one["status"] = json!({"seen": 4});
    client.post(FLOCKS, &one).await.unwrap().expect_status(201).unwrap();
    let shown = read(&client, SCALE).await;
    assert_eq!(
        (&shown["spec"], &shown["status"]),
        (&json!({"replicas": 1}), &json!({"replicas": 0, "selector": "a in (b)"}))
    );
    refused(
        client.merge_patch(ONE, &json!({"spec": {"selector": "a in b"}})).await,
        422,
        "Invalid",
        ".spec.selector: Invalid value: \"a in b\"",
    );
    let table = server.kubectl(&["get", "flock", "one", "--subresource=scale"]).await.unwrap();
    assert_eq!(
        table.lines().next().unwrap().split_whitespace().collect::<Vec<_>>(),
        ["NAME", "DESIRED", "AGE"]
    );
    assert_eq!(ok(client.put(SCALE, &scale(2)).await)["spec"]["replicas"], 2);
}

/// S-24: what was there before the rule may stay.
#[tokio::test]
async fn a_selector_that_was_none_may_stay() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let resource = json!({
        "apiVersion": "apiextension.k8s.io/v1beta1", "kind": "ThirdPartyResource",
        "metadata": {"name": "flocks.scale.example.org"},
        "spec": {"group": GROUP, "version": "v1", "Names": {"plural": "flocks", "kind": "Flock"}},
    });
    client
        .post("/apis/apiextension.k8s.io/v1beta1/thirdpartyresources", &resource)
        .await
        .unwrap()
        .expect_status(201)
        .unwrap();
    condition(&client, "flocks.scale.example.org", "Established", "True").await;
    let one = object(GROUP, "Flock", "one", json!({"birds": {"count": 1}, "selector": "a in b"}));
    client.post(FLOCKS, &one).await.unwrap().expect_status(201).unwrap();
    let add = json!([{"op": "add", "path": "/spec/versions/0/subresources", "value": {"scale": {
        "specReplicasPath": ".spec.birds.count", "statusReplicasPath": ".status.seen", "labelSelectorPath": ".spec.selector",
    }}}]);
    ok(client.json_patch(&format!("{CRDS}/flocks.scale.example.org"), &add).await);

    assert_eq!(ok(client.put(SCALE, &scale(2)).await)["status"]["selector"], "a in b");
    ok(client.merge_patch(ONE, &json!({"metadata": {"labels": {"a": "b"}}})).await);
    let other = json!({"spec": {"selector": "c in d"}});
    refused(
        client.merge_patch(ONE, &other).await,
        422,
        "Invalid",
        ".spec.selector: Invalid value: \"c in d\"",
    );
    ok(client.merge_patch(ONE, &json!({"spec": {"selector": "c in (d)"}})).await);
}

async fn generation(client: &Client, patch: Value) -> i64 {
    ok(client.merge_patch(ONE, &patch).await)["metadata"]["generation"].as_i64().unwrap()
}

/// S-03, S-27: by the annotation only a change of the spec counts; without it any but of metadata and status does.
#[tokio::test]
async fn generation_counts_what_the_annotation_says() {
    let (_server, client) = started().await;
    let registration = format!("{CRDS}/flocks.scale.example.org");
    assert_eq!(generation(&client, json!({"data": 1})).await, 2, "any field counts");
    let annotate = |value: Value| json!({"metadata": {"annotations": {"kindom.dev/generation": value}}});
    let message = "metadata.annotations[kindom.dev/generation]: Unsupported value: \"status\": supported values: \"spec\"";
    refused(client.merge_patch(&registration, &annotate(json!("status"))).await, 422, "Invalid", message);

    ok(client.merge_patch(&registration, &annotate(json!("spec"))).await);
    assert_eq!(generation(&client, json!({"data": 2})).await, 2);
    assert_eq!(generation(&client, json!({"spec": {"note": "y"}, "data": 3})).await, 3);
    assert_eq!(generation(&client, json!({"metadata": {"labels": {"a": "b"}}})).await, 3);
    ok(client.merge_patch(&format!("{ONE}/status"), &json!({"status": {"seen": 1}})).await);
    ok(client.put(SCALE, &scale(8)).await);
    assert_eq!(
        generation(&client, json!({"metadata": {"labels": {"a": "c"}}})).await,
        4,
        "a Scale writes the spec"
    );
    ok(client.put(SCALE, &scale(8)).await);
    assert_eq!(generation(&client, json!({"spec": null})).await, 5);

    ok(client.merge_patch(&registration, &annotate(Value::Null)).await);
    assert_eq!(generation(&client, json!({"data": 4})).await, 6);
}

/// S-03: what was registered in a way that was only proposed follows the proposal without being told.
#[tokio::test]
async fn proposed_registrations_count_changes_of_the_spec() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let mut proposed = flocks();
    proposed["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
    let spec = proposed["spec"].as_object_mut().unwrap();
    let v1 = spec.remove("versions").unwrap()[0].clone();
    spec.insert("version".to_owned(), v1["name"].clone());
    spec.insert("validation".to_owned(), v1["schema"].clone());
    spec.insert("subResources".to_owned(), v1["subresources"].clone());
    client.post(V1BETA1, &proposed).await.unwrap().expect_status(201).unwrap();
    condition(&client, "flocks.scale.example.org", "Established", "True").await;
    let one = object(GROUP, "Flock", "one", json!({"birds": {"count": 1}}));
    client.post(FLOCKS, &one).await.unwrap().expect_status(201).unwrap();
    assert_eq!(generation(&client, json!({"data": 1})).await, 1);
    assert_eq!(generation(&client, json!({"spec": {"note": "z"}})).await, 2);
}

/// S-08, S-38: there are /status and /scale at .status and .spec, and no others.
#[tokio::test]
async fn there_are_no_other_subresources() {
    let (_server, client) = started().await;
    let mut other = flocks();
    other["metadata"]["name"] = json!("herds.scale.example.org");
    other["spec"]["names"] = json!({"plural": "herds", "kind": "Herd"});
    other["spec"]["versions"][0]["subresources"] = json!({"log": {}, "status": {"path": ".state"}});
    let strictly = format!("{CRDS}?fieldValidation=Strict");
    let message = "unknown field \"spec.versions[0].subresources.log\", unknown field \"spec.versions[0].subresources.status.path\"";
    refused(client.post(&strictly, &other).await, 400, "BadRequest", message);
    for path in ["log", "exec", "bind", "eviction"] {
        for method in ["GET", "PUT", "PATCH", "POST"] {
            let path = format!("{ONE}/{path}");
            let answer = client.request(method, &path).json(&json!({})).send().await;
            refused(answer, 404, "NotFound", "flocks.scale.example.org \"one\" not found");
        }
    }
}

/// S-10: with the feature off what is new has no subresources, and what is in use keeps them.
#[tokio::test]
async fn the_feature_gate_drops_the_field_unless_it_is_in_use() {
    let (mut server, client) = started().await;
    drop(client);
    server.terminate().await.unwrap();
    let off = ServerOptions::default()
        .args(&["--feature-gates=CustomResourceSubresources=false"])
        .succeeding(&server);
    let restarted = off.start().await.unwrap();
    let client = restarted.client().unwrap();
    let registration = format!("{CRDS}/flocks.scale.example.org");
    assert_eq!(ok(client.put(SCALE, &scale(8)).await)["spec"]["replicas"], 8, "it is in use");
    let more = json!([{"op": "add", "path": "/spec/versions/0/subresources/scale/specReplicasPath", "value": ".spec.n"}]);
    let kept = ok(client.json_patch(&registration, &more).await);
    assert_eq!(kept["spec"]["versions"][0]["subresources"]["scale"]["specReplicasPath"], ".spec.n");

    let mut herds = flocks();
    herds["metadata"]["name"] = json!("herds.scale.example.org");
    herds["spec"]["names"] = json!({"plural": "herds", "kind": "Herd"});
    let subresources = herds["spec"]["versions"][0]["subresources"].clone();
    let made = client.post(CRDS, &herds).await.unwrap().expect_status(201).unwrap().json();
    assert_eq!(made["spec"]["versions"][0].get("subresources"), None, "on create");
    condition(&client, "herds.scale.example.org", "Established", "True").await;
    let add = json!([{"op": "add", "path": "/spec/versions/0/subresources", "value": subresources}]);
    let updated = ok(client.json_patch(&format!("{CRDS}/herds.scale.example.org"), &add).await);
    assert_eq!(updated["spec"]["versions"][0].get("subresources"), None, "on update");
    let herd = "/apis/scale.example.org/v1/namespaces/default/herds";
    let one = json!({"apiVersion": "scale.example.org/v1", "kind": "Herd", "metadata": {"name": "one"}, "spec": {}});
    client.post(herd, &one).await.unwrap().expect_status(201).unwrap();
    assert_eq!(client.get(&format!("{herd}/one/scale")).await.unwrap().status, 404);

    let once_off = json!([{"op": "remove", "path": "/spec/versions/0/subresources"}]);
    ok(client.json_patch(&registration, &once_off).await);
    let again = ok(client.json_patch(&registration, &add).await);
    assert_eq!(
        again["spec"]["versions"][0].get("subresources"),
        None,
        "what was given up does not come back"
    );
}

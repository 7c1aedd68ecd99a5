//! The requirements of the document on building and using APIs (B-…).

use kindom_integration::{Client, Server};
use serde_json::{Value, json};

use crate::support::{CRDS, crd, names, object, refused, register, revision, until, until_gone, version};

const GROUP: &str = "build.example.com";
const TOYS: &str = "/apis/build.example.com/v1/namespaces/default/toys";

async fn server() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "toys", "Toy", "Namespaced")).await;
    (server, client)
}

fn toy(name: &str, spec: Value) -> Value {
    object(GROUP, "Toy", name, spec)
}

fn at(name: &str) -> String {
    format!("{TOYS}/{name}")
}

async fn create(client: &Client, body: &Value) -> Value {
    client.post(TOYS, body).await.unwrap().expect_status(201).unwrap().json()
}

#[tokio::test]
async fn the_server_runs_alone() {
    let server = Server::start().await.unwrap();
    assert!(
        server.said().contains(&format!("export KUBECONFIG={}", server.kubeconfig().display())),
        "{}",
        server.said()
    );
    assert_eq!(server.kubectl(&["get", "--raw", "/readyz"]).await.unwrap().trim(), "ok");
    let namespaces = server.client().unwrap().get("/api/v1/namespaces").await.unwrap().json();
    assert_eq!(names(&namespaces), ["default", "kube-node-lease", "kube-public", "kube-system"]);
}

#[tokio::test]
async fn a_write_succeeds_if_and_only_if_it_is_valid_and_stored() {
    let (mut server, client) = server().await;
    let stored = create(&client, &toy("good", json!({"size": 5}))).await;
    let bad = client.post(TOYS, &toy("bad", json!({"size": 101}))).await;
    let message = "spec.size: Invalid value: 101: spec.size in body should be less than or equal to 100";
    let status = refused(bad, 422, "Invalid", message);
    assert_eq!(status["details"]["causes"][0]["field"], "spec.size");
    // Stored means on disk: nothing is lost if the process goes at once.
    server.kill9().unwrap();
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    assert_eq!(client.get(&at("good")).await.unwrap().json(), stored);
    refused(client.get(&at("bad")).await, 404, "NotFound", "");
}

#[tokio::test]
async fn controllers_see_every_write() {
    let (_server, client) = server().await;
    let from = revision(&client.get(TOYS).await.unwrap().json());
    let mut watch = client.watch(&format!("{TOYS}?watch=true&resourceVersion={from}")).await.unwrap();
    let created = create(&client, &toy("a", json!({}))).await;
    let updated = client.merge_patch(&at("a"), &json!({"spec": {"size": 2}})).await.unwrap().json();
    client.delete(&at("a")).await.unwrap().expect_status(200).unwrap();
    let events = [watch.event().await.unwrap(), watch.event().await.unwrap(), watch.event().await.unwrap()];
    assert_eq!((&events[0]["type"], &events[0]["object"]), (&json!("ADDED"), &created));
    assert_eq!((&events[1]["type"], &events[1]["object"]), (&json!("MODIFIED"), &updated));
    assert_eq!(events[2]["type"], "DELETED");
    assert!(revision(&events[2]["object"]) > revision(&updated), "a deletion has a revision of its own");
}

#[tokio::test]
async fn groups_have_no_capitals() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let post = client.post(CRDS, &crd("Build.example.com", "toys", "Toy", "Namespaced")).await;
    refused(post, 422, "Invalid", "spec.group");
    refused(
        client.post(CRDS, &crd("example", "toys", "Toy", "Namespaced")).await,
        422,
        "Invalid",
        "spec.group",
    );
}

/// B-13, B-15: conventions that the server does not insist on.
#[tokio::test]
async fn unconventional_names_are_accepted_with_a_warning() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let conventional = client.post(CRDS, &crd(GROUP, "toys", "Toy", "Namespaced")).await.unwrap();
    assert_eq!((conventional.status, conventional.warnings()), (201, vec![]));
    let mut body = crd(GROUP, "blocks", "block", "Namespaced");
    body["spec"]["versions"] = json!([version("v1", true), version("rc1", false)]);
    let answer = client.post(CRDS, &body).await.unwrap().expect_status(201).unwrap();
    let warnings = answer.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains(r#"version \"rc1\" has none of the forms v1, v1beta1 and v1alpha1"#),
        "{warnings:?}"
    );
    assert!(warnings[1].contains(r#"kind \"block\" is not in UpperCamelCase"#), "{warnings:?}");
    let blocks = format!("{CRDS}/blocks.{GROUP}");
    let labelled = client.merge_patch(&blocks, &json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
    assert_eq!((labelled.status, labelled.warnings()), (200, vec![]), "it is known already");
    body["spec"]["versions"].as_array_mut().unwrap().push(version("rc2", false));
    let more =
        client.merge_patch(&blocks, &json!({"spec": {"versions": body["spec"]["versions"]}})).await.unwrap();
    assert_eq!((more.status, more.warnings().len()), (200, 1));
    // Both faces say it, and kubectl shows it.
    let tpr = json!({
        "apiVersion": "apiextension.k8s.io/v1beta1", "kind": "ThirdPartyResource",
        "metadata": {"name": format!("dolls.{GROUP}")},
        "spec": {"group": GROUP, "version": "first", "names": {"plural": "dolls", "kind": "Doll"}},
    });
    let output = server.kubectl_with(&["create", "-f", "-"], &tpr.to_string()).await.unwrap();
    assert!(output.status.success());
    assert!(
        output.stderr.starts_with(r#"Warning: version "first" has none of the forms"#),
        "{}",
        output.stderr
    );
}

/// B-23 to B-25: the schema of the version that an object is written in fills in unset fields, and they are stored.
#[tokio::test]
async fn defaults_are_of_a_version_and_are_stored() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let with_default = |name: &str, storage: bool, default: Value| {
        let mut version = version(name, storage);
        let properties = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        properties["size"].as_object_mut().unwrap().remove("default");
        if !default.is_null() {
            properties["size"]["default"] = default;
        }
        version
    };
    let mut registration = crd(GROUP, "toys", "Toy", "Namespaced");
    registration["spec"]["versions"] = json!([
        with_default("v1", false, json!(10)),
        with_default("v2", false, json!(20)),
        with_default("v3", true, Value::Null),
    ]);
    register(&client, &registration).await;
    for (i, version) in ["v1", "v2", "v3"].into_iter().enumerate() {
        let mut body = toy(version, json!({"note": "n"}));
        body["apiVersion"] = json!(format!("{GROUP}/{version}"));
        let path = TOYS.replace("/v1/", &format!("/{version}/"));
        let created = client.post(&path, &body).await.unwrap().expect_status(201).unwrap().json();
        let filled = [json!(10), json!(20), Value::Null];
        assert_eq!(created["spec"]["size"], filled[i], "{version}");
        // Through the stored version, which has no default: the filled-in value was written to the object.
        let stored = client.get(&format!("{}/{version}", TOYS.replace("/v1/", "/v3/"))).await.unwrap().json();
        assert_eq!(stored["spec"]["size"], filled[i], "{version}");
    }
    // On reading it is the stored version's that count, and that one has none.
    for version in ["v1", "v2", "v3"] {
        let path = TOYS.replace("/v1/", &format!("/{version}/"));
        assert_eq!(client.get(&format!("{path}/v3")).await.unwrap().at("/spec"), json!({"note": "n"}));
    }
}

/// B-28: a create is refused with the path, the value and the reason of each field that is wrong.
#[tokio::test]
async fn an_invalid_create_is_refused_with_its_fields() {
    let (_server, client) = server().await;
    let body = toy("bad", json!({"size": 0, "colour": "pink", "note": 3}));
    let status = refused(
        client.post(TOYS, &body).await,
        422,
        "Invalid",
        r#"Toy.build.example.com "bad" is invalid: ["#,
    );
    let causes: Vec<(&str, &str)> = status["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| (cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap()))
        .collect();
    assert_eq!(
        causes,
        [
            ("spec.colour", r#"Unsupported value: "pink": supported values: "red", "green", "blue""#),
            ("spec.note", r#"Invalid value: "integer": spec.note in body must be of type string: "integer""#),
            ("spec.size", "Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ]
    );
    refused(client.get(&at("bad")).await, 404, "NotFound", "");
}

/// B-29: without rules of its own a type takes any object; v1 wants that said, v1beta1 and ThirdPartyResources do not.
#[tokio::test]
async fn without_a_schema_nothing_is_validated() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let mut registration = crd(GROUP, "toys", "Toy", "Namespaced");
    registration["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");
    refused(client.post(CRDS, &registration).await, 422, "Invalid", "schema");
    registration["spec"]["versions"][0]["schema"] =
        json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    register(&client, &registration).await;
    let v1beta1 = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("blocks.{GROUP}")},
        "spec": {"group": GROUP, "version": "v1", "scope": "Namespaced", "names": {"plural": "blocks", "kind": "Block"}},
    });
    let v1beta1_path = CRDS.replace("/v1/", "/v1beta1/");
    client.post(&v1beta1_path, &v1beta1).await.unwrap().expect_status(201).unwrap();
    until(&client, CRDS, &format!("blocks.{GROUP}"), |crd| crd["status"]["acceptedNames"]["kind"] == "Block")
        .await;
    for (plural, kind) in [("toys", "Toy"), ("blocks", "Block")] {
        let body = object(GROUP, kind, "any", json!([{"deep": [1, null, {"x": "y"}]}, "text"]));
        let path = TOYS.replace("toys", plural);
        let created = client.post(&path, &body).await.unwrap().expect_status(201).unwrap().json();
        assert_eq!(created["spec"], body["spec"]);
    }
}

#[tokio::test]
async fn versions_share_their_objects() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let mut registration = crd(GROUP, "toys", "Toy", "Namespaced");
    registration["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
    register(&client, &registration).await;
    let v2 = TOYS.replace("/v1/", "/v2/");
    create(&client, &toy("one", json!({}))).await;
    let mut second = toy("two", json!({}));
    second["apiVersion"] = json!(format!("{GROUP}/v2"));
    client.post(&v2, &second).await.unwrap().expect_status(201).unwrap();
    for (path, version) in [(TOYS, "v1"), (&v2, "v2")] {
        let list = client.get(path).await.unwrap().json();
        assert_eq!(names(&list), ["one", "two"], "{path}");
        for item in list["items"].as_array().unwrap() {
            assert_eq!(item["apiVersion"], format!("{GROUP}/{version}"));
        }
    }
}

#[tokio::test]
async fn objects_have_metadata_spec_and_status() {
    let (_server, client) = server().await;
    let mut body = toy("parts", json!({"note": "n"}));
    body["status"] = json!({"phase": "Ready"});
    body["surplus"] = json!(1);
    let stored = create(&client, &body).await;
    let parts: Vec<&String> = stored.as_object().unwrap().keys().collect();
    assert_eq!(parts, ["apiVersion", "kind", "metadata", "spec", "status"]);
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "name", "namespace"] {
        assert!(!stored["metadata"][field].is_null(), "metadata.{field}");
    }
}

#[tokio::test]
async fn names_are_unique_per_namespace() {
    let (_server, client) = server().await;
    create(&client, &toy("one", json!({}))).await;
    let message = "toys.build.example.com \"one\" already exists";
    refused(client.post(TOYS, &toy("one", json!({}))).await, 409, "AlreadyExists", message);
    let elsewhere = TOYS.replace("/default/", "/kube-public/");
    client.post(&elsewhere, &toy("one", json!({}))).await.unwrap().expect_status(201).unwrap();
    let all = client.get("/apis/build.example.com/v1/toys").await.unwrap().json();
    assert_eq!(names(&all), ["one", "one"]);
}

#[tokio::test]
async fn annotations_are_kept_and_not_queryable() {
    let (_server, client) = server().await;
    let mut body = toy("noted", json!({}));
    body["metadata"]["annotations"] = json!({"example.com/why": "because: anything {goes}"});
    let stored = create(&client, &body).await;
    assert_eq!(stored["metadata"]["annotations"], body["metadata"]["annotations"]);
    let list = client.get(&format!("{TOYS}?labelSelector=example.com%2Fwhy")).await.unwrap().json();
    assert!(names(&list).is_empty());
    refused(
        client.get(&format!("{TOYS}?fieldSelector=metadata.annotations%3Dx")).await,
        400,
        "BadRequest",
        "",
    );

    body["metadata"] = json!({"name": "heavy", "annotations": {"a": "x".repeat(256 * 1024)}});
    refused(
        client.post(TOYS, &body).await,
        422,
        "Invalid",
        "metadata.annotations: Too long: may not be more than 262144 bytes",
    );
}

#[tokio::test]
async fn labels_are_queryable() {
    let (_server, client) = server().await;
    for (name, labels) in [("a", json!({"tier": "gold"})), ("b", json!({"tier": "tin"})), ("c", json!({}))] {
        let mut body = toy(name, json!({}));
        body["metadata"]["labels"] = labels;
        create(&client, &body).await;
    }
    for (selector, expected) in [
        ("tier%3Dgold", vec!["a"]),
        ("tier%3D%3Dgold", vec!["a"]),
        ("tier!%3Dgold", vec!["b", "c"]),
        ("tier", vec!["a", "b"]),
        ("!tier", vec!["c"]),
        ("tier%20in%20(gold,tin)", vec!["a", "b"]),
        ("tier%20notin%20(gold)", vec!["b", "c"]),
        ("tier%3Dgold,!tier", vec![]),
    ] {
        let list = client
            .get(&format!("{TOYS}?labelSelector={selector}"))
            .await
            .unwrap()
            .expect_status(200)
            .unwrap();
        assert_eq!(names(&list.json()), expected, "{selector}");
    }
    // An object that leaves the selection is a deletion to whoever watches it.
    let from = revision(&client.get(TOYS).await.unwrap().json());
    let path = format!("{TOYS}?watch=true&resourceVersion={from}&labelSelector=tier%3Dgold");
    let mut watch = client.watch(&path).await.unwrap();
    for (name, tier) in [("a", "tin"), ("b", "gold")] {
        let patch = json!({"metadata": {"labels": {"tier": tier}}});
        client.merge_patch(&at(name), &patch).await.unwrap().expect_status(200).unwrap();
    }
    let events = [watch.event().await.unwrap(), watch.event().await.unwrap()];
    assert_eq!(
        (&events[0]["type"], &events[0]["object"]["metadata"]["name"]),
        (&json!("DELETED"), &json!("a"))
    );
    assert_eq!(
        (&events[1]["type"], &events[1]["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("b"))
    );
    let gone = client.delete(&format!("{TOYS}?labelSelector=tier%3Dtin")).await.unwrap();
    assert_eq!(gone.status, 200);
    assert_eq!(names(&client.get(TOYS).await.unwrap().json()), ["b", "c"]);
}

#[tokio::test]
async fn an_update_goes_through_the_same_pieces_as_a_create() {
    let (_server, client) = server().await;
    let created = create(&client, &toy("one", json!({"size": 5, "surplus": 1}))).await;
    assert_eq!(created["spec"], json!({"size": 5}), "pruned");

    let mut body = created.clone();
    body["spec"] = json!({"note": "n", "surplus": 2});
    let updated = client.put(&at("one"), &body).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(updated["spec"], json!({"note": "n", "size": 1}), "pruned and defaulted");
    assert_eq!(
        (&created["metadata"]["generation"], &updated["metadata"]["generation"]),
        (&json!(1), &json!(2))
    );

    body = updated.clone();
    body["spec"]["colour"] = json!("mauve");
    let message = "spec.colour: Unsupported value: \"mauve\": supported values: \"red\", \"green\", \"blue\"";
    refused(client.put(&at("one"), &body).await, 422, "Invalid", message);
    refused(client.merge_patch(&at("one"), &json!({"spec": {"size": 0}})).await, 422, "Invalid", "spec.size");

    let same = client.put(&at("one"), &updated).await.unwrap().json();
    assert_eq!(same, updated, "a write that changes nothing keeps the resourceVersion");
}

#[tokio::test]
async fn validation_of_an_update_sees_old_and_new() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let mut registration = crd(GROUP, "toys", "Toy", "Namespaced");
    let schema = |rules: Value| {
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer", "x-kubernetes-validations": rules},
            "note": {"type": "string"},
        }}}})
    };
    let grows =
        json!({"rule": "self >= oldSelf", "messageExpression": "'from %d to %d'.format([oldSelf, self])"});
    registration["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema(json!([grows]));
    register(&client, &registration).await;
    create(&client, &toy("one", json!({"size": 5}))).await;
    let size = |size: i64| json!({"spec": {"size": size}});
    client.merge_patch(&at("one"), &size(6)).await.unwrap().expect_status(200).unwrap();
    let message = "spec.size: Invalid value: 4: from 6 to 4";
    refused(client.merge_patch(&at("one"), &size(4)).await, 422, "Invalid", message);

    // A later rule lets existing violations through, as long as they do not change.
    let odd = json!({"rule": "self % 2 == 1", "message": "must be odd"});
    let at_crd = format!("{CRDS}/toys.{GROUP}");
    let patch = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema",
        "value": schema(json!([grows, odd]))}]);
    client.json_patch(&at_crd, &patch).await.unwrap().expect_status(200).unwrap();
    let refusal = "spec.size: Invalid value: 8: must be odd";
    refused(client.merge_patch(&at("one"), &size(8)).await, 422, "Invalid", refusal);
    let noted = client.merge_patch(&at("one"), &json!({"spec": {"note": "n"}})).await.unwrap();
    let noted = noted.expect_status(200).unwrap();
    assert_eq!(noted.warnings(), ["299 - \"spec.size: Invalid value: 6: must be odd\""]);
}

#[tokio::test]
async fn a_delete_returns_before_any_garbage_collection() {
    let (_server, client) = server().await;
    let owner = create(&client, &toy("owner", json!({}))).await;
    let mut dependent = toy("dependent", json!({}));
    dependent["metadata"]["ownerReferences"] = json!([{
        "apiVersion": format!("{GROUP}/v1"), "kind": "Toy", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    // The collector, where there is one, cannot finish this one: somebody outside holds it.
    dependent["metadata"]["finalizers"] = json!(["build.example.com/outside"]);
    create(&client, &dependent).await;
    let answer = client.delete(&at("owner")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(answer.at("/status"), "Success");
    refused(client.get(&at("owner")).await, 404, "NotFound", "");
    assert_eq!(client.get(&at("dependent")).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_delete_with_finalizers_marks_the_object_and_keeps_it() {
    let (_server, client) = server().await;
    let mut body = toy("held", json!({}));
    body["metadata"]["finalizers"] = json!(["build.example.com/a", "build.example.com/b"]);
    let created = create(&client, &body).await;
    let from = revision(&created);
    let mut watch = client.watch(&format!("{TOYS}?watch=true&resourceVersion={from}")).await.unwrap();

    let marked = client.delete(&at("held")).await.unwrap().expect_status(200).unwrap().json();
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    let event = watch.event().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]),
        (&json!("MODIFIED"), &marked),
        "no hook: an update tells of it"
    );

    let again = client.delete(&at("held")).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(again["metadata"]["deletionTimestamp"], marked["metadata"]["deletionTimestamp"]);
    let added = json!({"metadata": {"finalizers": ["build.example.com/a", "build.example.com/b", "build.example.com/c"]}});
    let message =
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted";
    refused(client.merge_patch(&at("held"), &added).await, 422, "Invalid", message);

    // The things outside are the finalizers' business: the object stays as long as one of them does.
    let one = json!({"metadata": {"finalizers": ["build.example.com/b"]}});
    client.merge_patch(&at("held"), &one).await.unwrap().expect_status(200).unwrap();
    assert_eq!(client.get(&at("held")).await.unwrap().status, 200);
    let none = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
    client.json_patch(&at("held"), &none).await.unwrap().expect_status(200).unwrap();
    refused(client.get(&at("held")).await, 404, "NotFound", "");
    until_gone(&client, TOYS, "held").await;
    let types = [watch.event().await.unwrap()["type"].clone(), watch.event().await.unwrap()["type"].clone()];
    assert_eq!(types, [json!("MODIFIED"), json!("DELETED")]);
}

#[tokio::test]
async fn status_can_be_written_back() {
    let (_server, client) = server().await;
    create(&client, &toy("one", json!({"size": 3}))).await;
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}], "message": "made"}});
    client.merge_patch(&at("one"), &status).await.unwrap().expect_status(200).unwrap();
    let object = until(&client, TOYS, "one", |o| !o["status"].is_null()).await;
    assert_eq!(object["status"], status["status"]);
    assert_eq!(object["spec"]["size"], 3);
}

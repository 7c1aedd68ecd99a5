//! The faces of one registration: what the proposal calls a ThirdPartyResource is a CustomResourceDefinition too.

use kindom_integration::{Client, Server};
use serde_json::{Value, json};

use crate::support::{
    CRDS, condition, crd, names, object, refused, register, revision, until, until_gone, version,
};

const TPRS: &str = "/apis/apiextension.k8s.io/v1beta1/thirdpartyresources";
const GROUP: &str = "farm.example.com";
const OXEN: &str = "/apis/farm.example.com/v1/namespaces/default/oxen";

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

fn tpr(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextension.k8s.io/v1beta1",
        "kind": "ThirdPartyResource",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {"group": GROUP, "version": "v1", "names": {"plural": plural, "kind": kind}},
    })
}

async fn register_tpr(client: &Client, body: &Value) -> Value {
    client.post(TPRS, body).await.unwrap().expect_status(201).unwrap();
    let name = body["metadata"]["name"].as_str().unwrap();
    until(client, TPRS, name, |tpr| status_of(tpr, "NameConflict") == "False").await
}

fn status_of(registration: &Value, kind: &str) -> String {
    let all = registration["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|c| c["type"] == kind).unwrap_or_default();
    found["status"].as_str().unwrap_or_default().to_owned()
}

/// T-03, T-06, T-21 to T-27, T-32, T-38, T-39: the proposal's own object, and its form on the other face.
#[tokio::test]
async fn a_third_party_resource_is_a_registration_of_one_version() {
    let (_server, client) = started().await;
    let from = revision(&client.get(TPRS).await.unwrap().json());
    let mut tprs = client.watch(&format!("{TPRS}?watch=true&resourceVersion={from}")).await.unwrap();
    let mut crds = client.watch(&format!("{CRDS}?watch=true&resourceVersion={from}")).await.unwrap();
    let mut body = tpr("oxen", "Ox");
    body["spec"]["Names"] = body["spec"]["names"].take();
    body["spec"].as_object_mut().unwrap().remove("names");
    let created = client.post(TPRS, &body).await.unwrap().expect_status(201).unwrap().json();
    let spec = json!({
        "group": GROUP, "version": "v1", "scope": "Namespaced",
        "names": {"plural": "oxen", "singular": "ox", "kind": "Ox", "listKind": "OxList"},
    });
    assert_eq!(created["spec"], spec);
    assert_eq!(created["status"]["conditions"], Value::Null, "nothing is decided yet (T-40)");

    let seen =
        until(&client, TPRS, "oxen.farm.example.com", |tpr| status_of(tpr, "NameConflict") == "False").await;
    assert_eq!(status_of(&seen, "KindNameConflict"), "False");
    assert_eq!(status_of(&seen, "Established"), "", "the proposal has no such condition");
    assert_eq!(seen["status"]["acceptedNames"], spec["names"]);
    let list = client.get(TPRS).await.unwrap().json();
    assert_eq!(
        (&list["kind"], &list["apiVersion"], names(&list)),
        (
            &json!("ThirdPartyResourceList"),
            &json!("apiextension.k8s.io/v1beta1"),
            vec!["oxen.farm.example.com".to_owned()]
        )
    );

    let other = client.get(&format!("{CRDS}/oxen.{GROUP}")).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(other["metadata"], seen["metadata"], "the annotations of faces are hidden on all of them");
    assert_eq!(other["spec"]["conversion"], json!({"strategy": "None"}));
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    assert_eq!(
        other["spec"]["versions"],
        json!([{"name": "v1", "served": true, "storage": true, "schema": schema}])
    );
    for expected in ["ADDED", "MODIFIED"] {
        let (tpr, crd) = (tprs.event().await.unwrap(), crds.event().await.unwrap());
        assert_eq!((&tpr["type"], &crd["type"]), (&json!(expected), &json!(expected)));
        assert_eq!(tpr["object"]["kind"], "ThirdPartyResource");
        assert_eq!(crd["object"]["kind"], "CustomResourceDefinition");
        assert_eq!(tpr["object"]["metadata"], crd["object"]["metadata"]);
    }
    let ox =
        client.post(OXEN, &object(GROUP, "Ox", "bo", json!({"weight": 1.5, "any": [{}]}))).await.unwrap();
    assert_eq!(ox.expect_status(201).unwrap().at("/spec"), json!({"weight": 1.5, "any": [{}]}));
}

/// T-16, T-24, T-25, T-28, T-33
#[tokio::test]
async fn what_is_wrong_is_named_by_the_proposal_s_own_fields() {
    let (_server, client) = started().await;
    let mut body = tpr("oxen", "Ox");
    body["metadata"]["name"] = json!("ox.farm.example.com");
    refused(
        client.post(TPRS, &body).await,
        422,
        "Invalid",
        "metadata.name: Invalid value: \"ox.farm.example.com\"",
    );
    for (field, message) in [
        ("group", "spec.group: Required value"),
        ("version", "spec.version: "),
        ("names", "spec.names.plural: Required value"),
        ("scope", "spec.scope: Unsupported value: \"Galaxy\""),
    ] {
        let mut body = tpr("oxen", "Ox");
        body["spec"].as_object_mut().unwrap().remove(field);
        if field == "scope" {
            body["spec"]["scope"] = json!("Galaxy");
        }
        let status = refused(client.post(TPRS, &body).await, 422, "Invalid", message);
        assert_eq!(status["details"]["kind"], "ThirdPartyResource");
        assert!(!status["message"].as_str().unwrap().contains("versions["), "{status}");
    }
    let tpr = register_tpr(&client, &tpr("oxen", "Ox")).await;
    let mut wrong = tpr.clone();
    wrong["status"]["conditions"] = json!([{"type": "Mine", "status": "Perhaps"}]);
    let path = format!("{TPRS}/oxen.{GROUP}/status");
    let message = r#"status.conditions[0].status: Unsupported value: "Perhaps""#;
    refused(client.put(&path, &wrong).await, 422, "Invalid", message);
    // Conditions of others are kept, computed ones cannot be set.
    wrong["status"]["conditions"] = json!([
        {"type": "Mine", "status": "Unknown", "reason": "Why", "message": "m", "lastTransitionTime": null},
        {"type": "NameConflict", "status": "True", "reason": "No", "message": "m", "lastTransitionTime": null},
    ]);
    let kept = client.put(&path, &wrong).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(
        (status_of(&kept, "Mine").as_str(), status_of(&kept, "NameConflict").as_str()),
        ("Unknown", "False")
    );
}

/// T-10
#[tokio::test]
async fn the_one_version_changes_only_while_there_are_no_objects() {
    let (_server, client) = started().await;
    register_tpr(&client, &tpr("oxen", "Ox")).await;
    let path = format!("{TPRS}/oxen.{GROUP}");
    client.post(OXEN, &object(GROUP, "Ox", "bo", json!({}))).await.unwrap().expect_status(201).unwrap();
    let change = json!({"spec": {"version": "v2"}});
    let message = "spec.version: Invalid value: \"v2\"";
    refused(client.merge_patch(&path, &change).await, 422, "Invalid", message);
    refused(client.merge_patch(&format!("{path}?dryRun=All"), &change).await, 422, "Invalid", message);
    client.delete(&format!("{OXEN}/bo")).await.unwrap().expect_status(200).unwrap();
    client.merge_patch(&path, &change).await.unwrap().expect_status(200).unwrap();
    let crd = client.get(&format!("{CRDS}/oxen.{GROUP}")).await.unwrap().json();
    assert_eq!(crd["status"]["storedVersions"], json!(["v2"]));
    let oxen = OXEN.replace("/v1/", "/v2/");
    assert_eq!(client.get(&oxen).await.unwrap().at("/apiVersion"), "farm.example.com/v2");
    assert_eq!(client.get(OXEN).await.unwrap().status, 404);
}

#[tokio::test]
async fn a_write_through_the_narrower_face_loses_nothing() {
    let (_server, client) = started().await;
    let mut registration = crd(GROUP, "oxen", "Ox", "Namespaced");
    registration["spec"]["names"]["categories"] = json!(["all"]);
    registration["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
    register(&client, &registration).await;
    let path = format!("{TPRS}/oxen.{GROUP}");
    let before = client.get(&format!("{CRDS}/oxen.{GROUP}")).await.unwrap().json();
    let mut tpr = client.get(&path).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(tpr["spec"]["version"], "v1");
    tpr["spec"]["names"]["shortNames"] = json!(["ox1"]);
    client.put(&path, &tpr).await.unwrap().expect_status(200).unwrap();
    let mut after = client.get(&format!("{CRDS}/oxen.{GROUP}")).await.unwrap().json();
    assert_eq!(after["spec"]["names"]["shortNames"], json!(["ox1"]));
    after["spec"]["names"].as_object_mut().unwrap().remove("shortNames");
    assert_eq!(after["spec"], before["spec"]);
    let change = json!({"spec": {"version": "v2"}});
    refused(client.merge_patch(&path, &change).await, 422, "Invalid", "spec.version: Invalid value: \"v2\"");
    refused(
        client
            .merge_patch(
                &path,
                &json!({"metadata": {"annotations": {"face.kindom.dev/registered-through": "x"}}}),
            )
            .await,
        422,
        "Invalid",
        "metadata.annotations[face.kindom.dev/registered-through]",
    );
}

/// T-47; on types of the other face updates stay allowed.
#[tokio::test]
async fn a_terminating_type_takes_only_what_lets_it_end() {
    let (_server, client) = started().await;
    register_tpr(&client, &tpr("oxen", "Ox")).await;
    let held = |name: &str, finalizers: Value| {
        let mut body = object(GROUP, "Ox", name, json!({}));
        body["metadata"]["finalizers"] = finalizers;
        body
    };
    for name in ["bo", "abe"] {
        let body = held(name, json!(["farm.example.com/a", "farm.example.com/b"]));
        client.post(OXEN, &body).await.unwrap().expect_status(201).unwrap();
    }
    client.delete(&format!("{TPRS}/oxen.{GROUP}")).await.unwrap().expect_status(200).unwrap();
    let going = until(&client, TPRS, "oxen.farm.example.com", |tpr| {
        status_of(tpr, "Terminating") == "True"
            && tpr["status"]["conditions"].to_string().contains("farm.example.com/a")
    });
    going.await;
    let bo = format!("{OXEN}/bo");
    let now = client.get(&bo).await.unwrap().json();
    let creates = "create not allowed while custom resource definition is terminating";
    refused(client.post(OXEN, &held("new", json!([]))).await, 403, "Forbidden", creates);
    let updates = "update not allowed while custom resource definition is terminating";
    let mut changed = now.clone();
    changed["spec"] = json!({"more": 1});
    refused(client.put(&bo, &changed).await, 403, "Forbidden", updates);
    changed["metadata"]["finalizers"] = json!(["farm.example.com/a"]);
    refused(client.put(&bo, &changed).await, 403, "Forbidden", updates);
    refused(client.put(&bo, &now).await, 403, "Forbidden", updates);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    refused(client.merge_patch(&bo, &label).await, 403, "Forbidden", updates);
    let more = json!({"metadata": {"finalizers": ["farm.example.com/c"]}});
    refused(client.merge_patch(&bo, &more).await, 403, "Forbidden", updates);
    client.delete(&bo).await.unwrap().expect_status(200).unwrap();
    client.delete(OXEN).await.unwrap().expect_status(200).unwrap();

    let fewer = json!({"metadata": {"finalizers": ["farm.example.com/b"]}});
    client.merge_patch(&bo, &fewer).await.unwrap().expect_status(200).unwrap();
    let mut last = client.get(&bo).await.unwrap().json();
    last["metadata"].as_object_mut().unwrap().remove("finalizers");
    client.put(&bo, &last).await.unwrap().expect_status(200).unwrap();
    let none = json!({"metadata": {"finalizers": null}});
    client.merge_patch(&format!("{OXEN}/abe"), &none).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, TPRS, "oxen.farm.example.com").await;

    register(&client, &crd(GROUP, "oxen", "Ox", "Namespaced")).await;
    client.post(OXEN, &held("bo", json!(["farm.example.com/a"]))).await.unwrap().expect_status(201).unwrap();
    client.delete(&format!("{CRDS}/oxen.{GROUP}")).await.unwrap().expect_status(200).unwrap();
    client.merge_patch(&bo, &label).await.unwrap().expect_status(200).unwrap();
    client.merge_patch(&bo, &none).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, CRDS, "oxen.farm.example.com").await;
}

/// T-53
#[tokio::test]
async fn exported_objects_are_created_again_as_they_are() {
    let (_server, client) = started().await;
    register_tpr(&client, &tpr("oxen", "Ox")).await;
    let body = object(GROUP, "Ox", "bo", json!({"a": 1}));
    let exported = client.post(OXEN, &body).await.unwrap().expect_status(201).unwrap().json();
    client.delete(&format!("{OXEN}/bo")).await.unwrap().expect_status(200).unwrap();
    let again = client.post(OXEN, &exported).await.unwrap().expect_status(201).unwrap().json();
    assert_ne!(again["metadata"]["uid"], exported["metadata"]["uid"]);
    assert!(revision(&again) > revision(&exported));

    register(&client, &crd(GROUP, "cows", "Cow", "Namespaced")).await;
    let mut exported = object(GROUP, "Cow", "bo", json!({}));
    exported["metadata"]["resourceVersion"] = json!("7");
    let answer = client.post(&OXEN.replace("oxen", "cows"), &exported).await.unwrap();
    assert_eq!(
        (answer.status, answer.at("/message")),
        (500, json!("resourceVersion should not be set on objects to be created"))
    );
}

/// T-34, T-35, T-41, with kubectl (Show 4).
#[tokio::test]
async fn kubectl_sees_both_faces_a_conflict_and_a_promotion() {
    let (server, client) = started().await;
    let manifest = |plural: &str, kind: &str| {
        let mut body = tpr(plural, kind);
        body["spec"]["names"]["shortNames"] = json!(["beast"]);
        body.to_string()
    };
    let apply = async |body: String| {
        server.kubectl_with(&["apply", "-f", "-"], &body).await.unwrap().success().unwrap()
    };
    assert_eq!(
        apply(manifest("oxen", "Ox")).await,
        "thirdpartyresource.apiextension.k8s.io/oxen.farm.example.com created\n"
    );
    assert_eq!(
        apply(manifest("oxen", "Ox")).await,
        "thirdpartyresource.apiextension.k8s.io/oxen.farm.example.com unchanged\n"
    );
    until(&client, TPRS, "oxen.farm.example.com", |tpr| status_of(tpr, "NameConflict") == "False").await;
    apply(manifest("yaks", "Yak")).await;
    let second =
        until(&client, TPRS, "yaks.farm.example.com", |tpr| status_of(tpr, "NameConflict") == "True").await;
    assert_eq!(status_of(&second, "KindNameConflict"), "True");
    assert_eq!(second["status"]["acceptedNames"].get("shortNames"), None);
    condition(&client, "yaks.farm.example.com", "Established", "False").await;

    let shown = server.kubectl(&["get", "tpr,crd"]).await.unwrap();
    let words: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    let first = |line: &[&str], n: usize| line.iter().take(n).map(|w| (*w).to_owned()).collect::<Vec<_>>();
    assert_eq!(first(&words[0], 7), ["NAME", "GROUP", "VERSION", "KIND", "SCOPE", "CONFLICT", "AGE"]);
    let oxen = "thirdpartyresource.apiextension.k8s.io/oxen.farm.example.com";
    assert_eq!(first(&words[1], 6), [oxen, GROUP, "v1", "Ox", "Namespaced", "False"]);
    assert_eq!(words[2][5], "True");
    assert_eq!(words[3], Vec::<&str>::new());
    assert_eq!(first(&words[4], 4), ["NAME", "SCOPE", "VERSIONS", "CREATED"]);
    let oxen = "customresourcedefinition.apiextensions.k8s.io/oxen.farm.example.com";
    assert_eq!(first(&words[5], 3), [oxen, "Namespaced", "v1(storage)"]);

    server.kubectl(&["delete", "tpr", "oxen.farm.example.com"]).await.unwrap();
    until(&client, TPRS, "yaks.farm.example.com", |tpr| status_of(tpr, "NameConflict") == "False").await;
    server.kubectl(&["get", "beast"]).await.unwrap();
    server.kubectl(&["delete", "crd/yaks.farm.example.com"]).await.unwrap();
    assert_eq!(names(&client.get(TPRS).await.unwrap().json()), Vec::<String>::new());
}

fn v1beta1(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {"group": GROUP, "version": "v1", "names": {"plural": plural, "kind": kind}},
    })
}

/// T-03, T-25, T-27, B-29: the older face of today's Kubernetes, with a schema that v1 would refuse.
#[tokio::test]
async fn v1beta1_registrations_keep_their_unknown_fields_and_say_so() {
    const OLD: &str = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";
    let (_server, client) = started().await;
    let mut body = v1beta1("oxen", "Ox");
    let schema = json!({"properties": {"spec": {"properties": {"weight": {"maximum": 10}}}}});
    body["spec"]["validation"] = json!({ "openAPIV3Schema": schema });
    body["spec"]["additionalPrinterColumns"] =
        json!([{"name": "Weight", "type": "integer", "JSONPath": ".spec.weight"}]);
    let created = client.post(OLD, &body).await.unwrap().expect_status(201).unwrap();
    assert!(
        created
            .header("warning")
            .contains("apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated")
    );
    let created = created.json();
    assert_eq!(
        (&created["spec"]["scope"], &created["spec"]["preserveUnknownFields"]),
        (&json!("Namespaced"), &json!(true))
    );
    let violations = condition(&client, "oxen.farm.example.com", "NonStructuralSchema", "True").await;
    assert_eq!(status_of(&violations, "Established"), "True");
    assert!(
        violations["status"]
            .to_string()
            .contains("spec.preserveUnknownFields: Invalid value: true: must be false")
    );

    let ox = object(GROUP, "Ox", "bo", json!({"weight": 3, "other": {"deep": [1]}}));
    let stored = client.post(OXEN, &ox).await.unwrap().expect_status(201).unwrap().json();
    assert_eq!(stored["spec"], ox["spec"]);
    let heavy = object(GROUP, "Ox", "abe", json!({"weight": 30}));
    refused(client.post(OXEN, &heavy).await, 422, "Invalid", "spec.weight: Invalid value: 30");

    // Made structural through v1, it prunes, and the condition goes.
    let path = format!("{CRDS}/oxen.{GROUP}");
    let mut now = client.get(&path).await.unwrap().json();
    let weight = json!({"weight": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": weight}}});
    now["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    now["spec"]["preserveUnknownFields"] = json!(false);
    client.put(&path, &now).await.unwrap().expect_status(200).unwrap();
    until(&client, CRDS, "oxen.farm.example.com", |crd| status_of(crd, "NonStructuralSchema").is_empty())
        .await;
    assert_eq!(client.get(&format!("{OXEN}/bo")).await.unwrap().at("/spec"), json!({"weight": 3}));
    let old = client.get(&format!("{OLD}/oxen.{GROUP}")).await.unwrap().json();
    assert_eq!(
        (&old["spec"]["version"], &old["spec"]["preserveUnknownFields"]),
        (&json!("v1"), &json!(false))
    );

    for (field, value, message) in [
        ("version", Value::Null, "spec.version"),
        ("versions", json!([{"name": "v2", "served": true, "storage": true}]), "spec.version"),
        ("group", json!("nodots"), "spec.group: Invalid value: \"nodots\""),
    ] {
        let mut wrong = v1beta1("yaks", "Yak");
        wrong["spec"][field] = value;
        refused(client.post(OLD, &wrong).await, 422, "Invalid", message);
    }
}

/// Strategic merge patches on the other faces and on namespaces, for which there is no recording: each merges as its Go
/// type says.
#[tokio::test]
async fn strategic_merge_patches_merge_by_the_type_of_the_face() {
    let (_server, client) = started().await;
    let patch = async |path: &str, body: Value| {
        let request = client.request("PATCH", path);
        request.body("application/strategic-merge-patch+json", body.to_string()).send().await.unwrap()
    };
    register_tpr(&client, &tpr("oxen", "Ox")).await;

    let oxen = format!("{TPRS}/oxen.{GROUP}");
    let changed =
        patch(&oxen, json!({"metadata": {"labels": {"a": "1"}}, "spec": {"names": {"shortNames": ["o"]}}}))
            .await;
    assert_eq!(changed.expect_status(200).unwrap().at("/spec/names/shortNames"), json!(["o"]));
    let unknown = patch(&oxen, json!({"spec": {"versions": []}})).await.expect_status(200).unwrap();
    assert_eq!(unknown.warnings(), [r#"299 - "unknown field \"spec.versions\"""#]);
    let mine = json!([{"type": "Mine", "status": "True", "lastTransitionTime": null}]);
    let status = patch(&format!("{oxen}/status"), json!({"status": {"conditions": mine}})).await;
    let kinds: Vec<Value> = status
        .expect_status(200)
        .unwrap()
        .at("/status/conditions")
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["type"].clone())
        .collect();
    assert!(kinds.contains(&json!("Mine")) && kinds.contains(&json!("NameConflict")), "{kinds:?}");

    // v1beta1 shows the schema of one version beside the versions, and rules of schemas have a key there.
    let crd = format!("/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions/oxen.{GROUP}");
    let rules = |rule: &str, message: &str| {
        let rules = json!([{"rule": rule, "message": message}]);
        json!({"spec": {"validation": {"openAPIV3Schema": {"x-kubernetes-validations": rules}}}})
    };
    for (rule, message, want) in [
        ("true", "a", json!([{"rule": "true", "message": "a"}])),
        ("1 == 1", "b", json!([{"rule": "1 == 1", "message": "b"}, {"rule": "true", "message": "a"}])),
        ("true", "c", json!([{"rule": "1 == 1", "message": "b"}, {"rule": "true", "message": "c"}])),
    ] {
        let patched = patch(&crd, rules(rule, message)).await.expect_status(200).unwrap();
        assert_eq!(patched.at("/spec/validation/openAPIV3Schema/x-kubernetes-validations"), want);
        assert_eq!(patched.at("/metadata/labels"), json!({"a": "1"}));
    }

    let namespaces = "/api/v1/namespaces";
    client
        .post(namespaces, &json!({"metadata": {"name": "barn"}}))
        .await
        .unwrap()
        .expect_status(201)
        .unwrap();
    let barn = format!("{namespaces}/barn");
    let kept = json!({"metadata": {"finalizers": ["farm.example.com/hay"], "labels": {"a": "1"}}});
    patch(&barn, kept).await.expect_status(200).unwrap();
    let more = patch(&barn, json!({"metadata": {"finalizers": ["farm.example.com/straw"]}})).await;
    let both = json!(["farm.example.com/straw", "farm.example.com/hay"]);
    assert_eq!(more.expect_status(200).unwrap().at("/metadata/finalizers"), both);
    let time = "2026-01-01T00:00:00Z";
    let condition =
        |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": time});
    let conditions = |all: &[Value]| json!({"status": {"conditions": all}});
    let status = format!("{barn}/status");
    patch(&status, conditions(&[condition("A", "True"), condition("B", "True")]))
        .await
        .expect_status(200)
        .unwrap();
    let merged = patch(&status, conditions(&[condition("B", "False")])).await.expect_status(200).unwrap();
    assert_eq!(merged.at("/status/conditions"), json!([condition("A", "True"), condition("B", "False")]));
    let gone = patch(&barn, json!({"metadata": {"$deleteFromPrimitiveList/finalizers": both}})).await;
    assert_eq!(gone.expect_status(200).unwrap().at("/metadata/finalizers"), Value::Null);

    // The objects of a custom type have no Go type.
    client.post(OXEN, &object(GROUP, "Ox", "berta", json!({}))).await.unwrap().expect_status(201).unwrap();
    let refused = patch(&format!("{OXEN}/berta"), json!({})).await.expect_status(415).unwrap();
    assert!(
        refused.at("/message").as_str().unwrap().contains("application/merge-patch+json"),
        "{}",
        refused.text()
    );
}

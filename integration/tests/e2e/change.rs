//! Registrations that change while their objects are watched (issue "Registration to the letter", Show 5).

use kindom_integration::{Client, Server, WatchStream};
use serde_json::{Value, json};

use crate::support::{CRDS, crd, object, refused, register, revision, until_gone, version};

const GROUP: &str = "change.example.com";
/// The number of changes of the registration.
const CHANGES: usize = 50;

fn at(version: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/default/rings")
}

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

/// Changes the registration's spec. Patches are planned again after a lost race, as this is no test of conflicts.
async fn change(client: &Client, patch: &Value) -> Value {
    let path = format!("{CRDS}/rings.{GROUP}");
    client.merge_patch(&path, &json!({ "spec": patch })).await.unwrap().expect_status(200).unwrap().json()
}

/// v1, stored, with a field for every change so far; v2 that comes, goes and is switched off.
fn versions_in(round: usize) -> Value {
    let mut v1 = version("v1", true);
    let spec = &mut v1["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    for i in 0..=round {
        spec[format!("f{i}")] = json!({"type": "integer", "default": i});
    }
    let column = format!("Round {}", round / 5);
    v1["additionalPrinterColumns"] = json!([{"name": column, "type": "integer", "jsonPath": ".spec.size"}]);
    let mut v2 = version("v2", false);
    v2["served"] = json!(round.is_multiple_of(3));
    match round % 4 {
        0 => json!([v1]),
        1 | 2 => json!([v1, v2]),
        _ => json!([v2, v1]),
    }
}

#[tokio::test]
async fn a_watch_outlives_fifty_changes_of_the_registration_and_misses_nothing() {
    let (_server, client) = started().await;
    register(&client, &crd(GROUP, "rings", "Ring", "Namespaced")).await;
    let from = revision(&client.get(&at("v1")).await.unwrap().json());
    let path = format!("{}?watch=true&resourceVersion={from}", at("v1"));
    let mut plain = client.watch(&path).await.unwrap();
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut table = client.request("GET", &path).accept(TABLE).stream().await.unwrap();
    let mut columns = Vec::new();
    for round in 0..CHANGES {
        change(
            &client,
            &json!({"versions": versions_in(round), "names": {"shortNames": [format!("r{round}")]}}),
        )
        .await;
        let body = object(GROUP, "Ring", &format!("ring-{round}"), json!({}));
        let created = client.post(&at("v1"), &body).await.unwrap().expect_status(201).unwrap().json();
        assert_eq!(created["spec"][format!("f{round}")], round, "the write is planned under the new schema");

        let event = plain.event().await.unwrap();
        assert_eq!((&event["type"], &event["object"]), (&json!("ADDED"), &created));
        let event = table.event().await.unwrap();
        assert_eq!(event["type"], "ADDED");
        let rows = &event["object"]["rows"];
        assert_eq!(rows[0]["object"]["metadata"]["name"], format!("ring-{round}"));
        let sent = &event["object"]["columnDefinitions"];
        if let Some(sent) = sent.as_array().filter(|sent| !sent.is_empty()) {
            columns.push(sent.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>());
        }
    }
    // Columns are sent first, and again whenever they may be others.
    columns.dedup();
    let expected: Vec<_> = (0..CHANGES / 5).map(|i| vec!["Name".to_owned(), format!("Round {i}")]).collect();
    assert_eq!(columns, expected);

    // Stored objects show the fields that were added later.
    let first = client.get(&format!("{}/ring-0", at("v1"))).await.unwrap().json();
    assert_eq!(first["spec"][format!("f{}", CHANGES - 1)], CHANGES - 1);
    client.delete(&format!("{}/ring-0", at("v1"))).await.unwrap().expect_status(200).unwrap();
    assert_eq!(plain.event().await.unwrap()["type"], "DELETED");
}

/// The last event of a stream: the Status that makes a client list again.
async fn ends_expired(watch: &mut WatchStream, why: &str) {
    let event = watch.event().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
    assert_eq!(event["object"]["reason"], "Expired");
    assert!(event["object"]["message"].as_str().unwrap().contains(why), "{event}");
    assert_eq!(watch.next_in_time().await.unwrap(), None);
}

#[tokio::test]
async fn dropping_the_watched_version_ends_its_watches_and_no_others() {
    let (_server, client) = started().await;
    let mut registration = crd(GROUP, "rings", "Ring", "Namespaced");
    registration["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
    register(&client, &registration).await;
    let from = revision(&client.get(&at("v1")).await.unwrap().json());
    let watch = |version: &str| format!("{}?watch=true&resourceVersion={from}", at(version));
    let (mut v1, mut v2) =
        (client.watch(&watch("v1")).await.unwrap(), client.watch(&watch("v2")).await.unwrap());
    client
        .post(&at("v1"), &object(GROUP, "Ring", "one", json!({})))
        .await
        .unwrap()
        .expect_status(201)
        .unwrap();
    change(&client, &json!({"versions": [version("v1", true)]})).await;
    let last = v2.event().await.unwrap();
    assert_eq!(
        (&last["type"], &last["object"]["apiVersion"]),
        (&json!("ADDED"), &json!("change.example.com/v2"))
    );
    ends_expired(&mut v2, "not served").await;
    assert_eq!(client.get(&at("v2")).await.unwrap().status, 404);

    client
        .post(&at("v1"), &object(GROUP, "Ring", "two", json!({})))
        .await
        .unwrap()
        .expect_status(201)
        .unwrap();
    for name in ["one", "two"] {
        let event = v1.event().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!(name)));
    }
}

#[tokio::test]
async fn a_watch_ends_when_the_field_it_selects_by_is_no_longer_selectable() {
    let (_server, client) = started().await;
    let mut registration = crd(GROUP, "rings", "Ring", "Namespaced");
    registration["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.colour"}, {"jsonPath": ".spec.note"}]);
    register(&client, &registration).await;
    let watch = |field: &str| format!("{}?watch=true&fieldSelector={field}%3Dred", at("v1"));
    let mut colour = client.watch(&watch("spec.colour")).await.unwrap();
    let mut note = client.watch(&watch("spec.note")).await.unwrap();
    let mut versions = registration["spec"]["versions"].clone();
    versions[0]["selectableFields"] = json!([{"jsonPath": ".spec.colour"}]);
    change(&client, &json!({ "versions": versions })).await;
    ends_expired(&mut note, "spec.note").await;
    let body = object(GROUP, "Ring", "one", json!({"colour": "red"}));
    client.post(&at("v1"), &body).await.unwrap().expect_status(201).unwrap();
    assert_eq!(colour.event().await.unwrap()["type"], "ADDED");
}

/// T-54
#[tokio::test]
async fn a_read_only_type_refuses_every_write_to_its_objects_until_it_is_released() {
    let (_server, client) = started().await;
    register(&client, &crd(GROUP, "rings", "Ring", "Namespaced")).await;
    let body = object(GROUP, "Ring", "one", json!({}));
    let created = client.post(&at("v1"), &body).await.unwrap().expect_status(201).unwrap().json();
    let registration = format!("{CRDS}/rings.{GROUP}");
    let frozen = |value: Value| json!({"metadata": {"annotations": {"kindom.dev/read-only": value}}});
    refused(
        client.merge_patch(&registration, &frozen(json!("yes"))).await,
        422,
        "Invalid",
        r#"metadata.annotations[kindom.dev/read-only]: Unsupported value: "yes": supported values: "false", "true""#,
    );
    client.merge_patch(&registration, &frozen(json!("true"))).await.unwrap().expect_status(200).unwrap();

    let one = format!("{}/one", at("v1"));
    let two = object(GROUP, "Ring", "two", json!({}));
    for answer in [
        client.post(&at("v1"), &two).await,
        client.put(&one, &created).await,
        client.merge_patch(&one, &json!({"spec": {"size": 2}})).await,
        client.delete(&one).await,
        client.delete(&at("v1")).await,
    ] {
        refused(answer, 403, "Forbidden", "read-only (annotation kindom.dev/read-only");
    }
    assert_eq!(client.get(&one).await.unwrap().expect_status(200).unwrap().json(), created);

    client.merge_patch(&registration, &frozen(Value::Null)).await.unwrap().expect_status(200).unwrap();
    client.delete(&one).await.unwrap().expect_status(200).unwrap();
}

#[tokio::test]
async fn a_type_in_use_can_be_protected_from_deletion() {
    let (_server, client) = started().await;
    let mut registration = crd(GROUP, "rings", "Ring", "Namespaced");
    registration["metadata"]["annotations"] = json!({"kindom.dev/deletion-policy": "RefuseWhileInstances"});
    register(&client, &registration).await;
    let body = object(GROUP, "Ring", "one", json!({}));
    client.post(&at("v1"), &body).await.unwrap().expect_status(201).unwrap();
    let path = format!("{CRDS}/rings.{GROUP}");
    for query in ["", "?dryRun=All"] {
        let answer = client.delete(&format!("{path}{query}")).await;
        refused(answer, 403, "Forbidden", "there are objects of this type");
    }
    let kept = client.get(&path).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(kept["metadata"]["deletionTimestamp"], Value::Null);
    client.delete(&format!("{}/one", at("v1"))).await.unwrap().expect_status(200).unwrap();
    client.delete(&path).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, CRDS, &format!("rings.{GROUP}")).await;

    registration["metadata"]["annotations"] = json!({"kindom.dev/deletion-policy": "Never"});
    refused(
        client.post(CRDS, &registration).await,
        422,
        "Invalid",
        r#"metadata.annotations[kindom.dev/deletion-policy]: Unsupported value: "Never""#,
    );
}

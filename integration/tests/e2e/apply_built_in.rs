//! The managers of fields in cases without a recording: on the two older faces of registrations, and of namespaces.
//!
//! The rules are those of `managedfields` in apimachinery 1.37: a create and an update are tracked before the strategy
//! prepares the stored object (`handlers/create.go`, `handlers/update.go`), an applier owns what it sent
//! (`structuredmerge.go` `Apply`), an entry is in the version that it was written through (`managers` of
//! `versionconverter.go`), and no manager gets a field through an endpoint that resets it (`stripmeta.go`,
//! `GetResetFields`).

use kindom_integration::{Answer, Client, Server};
use serde_json::{Value, json};

use crate::support::{CRDS, refused, revision, until};

const OLD: &str = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";
const TPRS: &str = "/apis/apiextension.k8s.io/v1beta1/thirdpartyresources";
const NAMESPACES: &str = "/api/v1/namespaces";
const NAME: &str = "oxen.farm.example.com";

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

async fn apply(client: &Client, path: &str, manager: &str, configuration: &Value) -> Answer {
    let path = format!("{path}{}fieldManager={manager}", if path.contains('?') { '&' } else { '?' });
    let request = client.request("PATCH", &path);
    request.body("application/apply-patch+yaml", configuration.to_string()).send().await.unwrap()
}

fn ok(answer: Answer) -> Value {
    answer.expect_status(200).unwrap().json()
}

/// The entries without their times, but for those of the server itself, which come whenever it is ready.
fn managers(object: &Value) -> Vec<Value> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mut entries: Vec<Value> = entries.into_iter().filter(|e| e["manager"] != "kindom").collect();
    for entry in &mut entries {
        let fields = entry.as_object_mut().unwrap();
        assert!(fields.remove("time").is_some_and(|time| time.as_str().is_some_and(|t| t.ends_with('Z'))));
        assert_eq!(fields.remove("fieldsType"), Some(json!("FieldsV1")));
    }
    // Which of two comes first depends on the second in which they were written.
    entries.sort_by_key(|e| {
        [e["operation"].to_string(), e["manager"].to_string(), e["subresource"].to_string()]
    });
    entries
}

fn applied(manager: &str, api_version: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": "Apply", "apiVersion": api_version, "fieldsV1": fields})
}

fn updated(manager: &str, api_version: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": "Update", "apiVersion": api_version, "fieldsV1": fields})
}

fn through(mut entry: Value, subresource: &str) -> Value {
    entry["subresource"] = json!(subresource);
    entry
}

/// Create by apply, apply again, conflict and force, the same on a face whose registrations have `version` and names.
async fn applies_through(client: &Client, face: &str, registration: &Value, owned: &Value) {
    let api_version = registration["apiVersion"].as_str().unwrap();
    let path = format!("{face}/{NAME}");
    let created = apply(client, &path, "alice", registration).await.expect_status(201).unwrap().json();
    assert_eq!(
        (&created["apiVersion"], &created["kind"]),
        (&registration["apiVersion"], &registration["kind"])
    );
    assert_eq!(managers(&created), [applied("alice", api_version, owned.clone())]);

    let decided = until(client, face, NAME, |seen| !seen["status"]["conditions"].is_null());
    decided.await;
    until(client, CRDS, NAME, |crd| crd["status"]["conditions"].to_string().contains("Established")).await;
    let before = client.get(&path).await.unwrap().json();
    let again = ok(apply(client, &path, "alice", registration).await);
    assert_eq!(again, before, "an apply that changes nothing writes nothing");
    assert_eq!(revision(&again), revision(&before));

    let other = json!({
        "apiVersion": registration["apiVersion"], "kind": registration["kind"], "metadata": {"name": NAME},
        "spec": {"names": {"shortNames": ["o"]}},
    });
    let status = refused(
        Ok(apply(client, &path, "bob", &other).await),
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"alice\": .spec.names.shortNames",
    );
    let cause = json!({"reason": "FieldManagerConflict", "message": "conflict with \"alice\"", "field": ".spec.names.shortNames"});
    assert_eq!(status["details"]["causes"], json!([cause]));
    let forced = ok(apply(client, &format!("{path}?force=true"), "bob", &other).await);
    assert_eq!(forced["spec"]["names"]["shortNames"], json!(["o"]));
    let mut left = owned.clone();
    left["f:spec"]["f:names"].as_object_mut().unwrap().remove("f:shortNames");
    let bobs = json!({"f:spec": {"f:names": {"f:shortNames": {}}}});
    assert_eq!(managers(&forced), [applied("alice", api_version, left), applied("bob", api_version, bobs)]);
    // The server's own fields may have changed since.
    assert_eq!(managers(&client.get(&path).await.unwrap().json()), managers(&forced));

    // A field that bob no longer wants is removed: it has no other manager.
    let nothing =
        json!({"apiVersion": other["apiVersion"], "kind": other["kind"], "metadata": {"name": NAME}});
    let left = ok(apply(client, &path, "bob", &nothing).await);
    assert_eq!(left["spec"]["names"].get("shortNames"), None);
}

#[tokio::test]
async fn the_older_face_of_registrations_is_applied_in_its_own_shape() {
    let (_server, client) = started().await;
    let registration = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "labels": {"a": "b"}},
        "spec": {
            "group": "farm.example.com",
            "version": "v1",
            "scope": "Namespaced",
            "preserveUnknownFields": false,
            "names": {"plural": "oxen", "kind": "Ox", "shortNames": ["ox1"]},
            "validation": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
            "additionalPrinterColumns": [{"name": "Age", "type": "date", "JSONPath": ".metadata.creationTimestamp"}],
        },
    });
    let owned = json!({
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {
            "f:group": {}, "f:version": {}, "f:scope": {}, "f:preserveUnknownFields": {},
            "f:names": {"f:plural": {}, "f:kind": {}, "f:shortNames": {}},
            "f:validation": {"f:openAPIV3Schema": {"f:type": {}, "f:properties": {"f:spec": {".": {}, "f:type": {}}}}},
            "f:additionalPrinterColumns": {},
        },
    });
    applies_through(&client, OLD, &registration, &owned).await;

    // v1 has no field for what is said once there: yet a change of it is one of what alice owns. What only goes is no
    // conflict (`merge/update.go` in structured-merge-diff).
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let column = json!({"name": "Born", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    let versions = json!([{
        "name": "v1", "served": true, "storage": true, "schema": schema, "additionalPrinterColumns": [column],
    }]);
    let v1 = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": NAME},
        "spec": {"versions": versions},
    });
    let path = format!("{CRDS}/{NAME}");
    let message = "Apply failed with 1 conflict: conflict with \"alice\": .spec.additionalPrinterColumns";
    refused(Ok(apply(&client, &path, "carol", &v1).await), 409, "Conflict", message);
    let forced = ok(apply(&client, &format!("{path}?force=true"), "carol", &v1).await);
    let carols = applied("carol", "apiextensions.k8s.io/v1", json!({"f:spec": {"f:versions": {}}}));
    let mut left = owned;
    let spec = left["f:spec"].as_object_mut().unwrap();
    spec.remove("f:additionalPrinterColumns");
    spec["f:validation"] = json!({"f:openAPIV3Schema": {"f:type": {}}});
    spec["f:names"].as_object_mut().unwrap().remove("f:shortNames");
    let alices = applied("alice", "apiextensions.k8s.io/v1beta1", left);
    assert_eq!(managers(&forced), [alices, carols]);
}

#[tokio::test]
async fn third_party_resources_are_applied_in_their_own_shape() {
    let (_server, client) = started().await;
    let registration = json!({
        "apiVersion": "apiextension.k8s.io/v1beta1",
        "kind": "ThirdPartyResource",
        "metadata": {"name": NAME, "annotations": {"a": "b"}},
        "spec": {
            "group": "farm.example.com", "version": "v1",
            "names": {"plural": "oxen", "kind": "Ox", "shortNames": ["ox1"]},
        },
    });
    let owned = json!({
        "f:metadata": {"f:annotations": {"f:a": {}}},
        "f:spec": {
            "f:group": {}, "f:version": {}, "f:names": {"f:plural": {}, "f:kind": {}, "f:shortNames": {}},
        },
    });
    applies_through(&client, TPRS, &registration, &owned).await;

    // An update is tracked in the shape of its face too, and each face shows the same entries.
    let path = format!("{TPRS}/{NAME}?fieldManager=dave");
    let change = json!({"spec": {"names": {"shortNames": ["o2"]}}});
    let changed = ok(client.merge_patch(&path, &change).await.unwrap());
    let daves =
        updated("dave", "apiextension.k8s.io/v1beta1", json!({"f:spec": {"f:names": {"f:shortNames": {}}}}));
    assert!(managers(&changed).contains(&daves), "{:?}", managers(&changed));
    let v1 = client.get(&format!("{CRDS}/{NAME}")).await.unwrap().json();
    assert!(managers(&v1).contains(&daves), "{:?}", managers(&v1));
}

fn namespace(name: &str, more: Value) -> Value {
    let mut body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    for (field, value) in more.as_object().unwrap() {
        match (field.as_str(), value.as_object()) {
            ("metadata", Some(metadata)) => {
                body["metadata"].as_object_mut().unwrap().extend(metadata.clone())
            }
            _ => body[field] = value.clone(),
        }
    }
    body
}

/// `namespaceStrategy` resets status; what `PrepareForCreate` adds, the finalizer and the phase, is nobody's, while the
/// label with the name is a default (`SetDefaults_Namespace`), and so the creator's.
#[tokio::test]
async fn namespaces_say_who_manages_them() {
    let (_server, client) = started().await;
    let path = format!("{NAMESPACES}/farm");
    let name_label = json!({".": {}, "f:kubernetes.io/metadata.name": {}});
    let body = namespace("farm", json!({"status": {"phase": "Terminating"}}));
    let created = client.post(&format!("{NAMESPACES}?fieldManager=alice"), &body).await.unwrap();
    let created = created.expect_status(201).unwrap().json();
    assert_eq!(
        (&created["spec"]["finalizers"], &created["status"]["phase"]),
        (&json!(["kubernetes"]), &json!("Active"))
    );
    let alice = updated("alice", "v1", json!({"f:metadata": {"f:labels": name_label}}));
    assert_eq!(managers(&created), std::slice::from_ref(&alice));

    let change = json!({"metadata": {"annotations": {"a": "b"}}, "status": {"phase": "Terminating"}});
    let changed = ok(client.merge_patch(&format!("{path}?fieldManager=bob"), &change).await.unwrap());
    let bob = updated("bob", "v1", json!({"f:metadata": {"f:annotations": {".": {}, "f:a": {}}}}));
    assert_eq!(managers(&changed), [alice.clone(), bob.clone()]);

    let wanted = namespace(
        "farm",
        json!({"metadata": {"labels": {"team": "ox"}, "annotations": {"a": "c"}}, "status": {"phase": "Active"}}),
    );
    let message = "Apply failed with 1 conflict: conflict with \"bob\" using v1: .metadata.annotations.a";
    refused(Ok(apply(&client, &path, "carol", &wanted).await), 409, "Conflict", message);
    let forced = ok(apply(&client, &format!("{path}?force=true"), "carol", &wanted).await);
    let carol = applied(
        "carol",
        "v1",
        json!({"f:metadata": {"f:labels": {"f:team": {}}, "f:annotations": {"f:a": {}}}}),
    );
    let bob = updated("bob", "v1", json!({"f:metadata": {"f:annotations": {}}}));
    assert_eq!(managers(&forced), [carol.clone(), alice.clone(), bob]);
    let again = ok(apply(&client, &path, "carol", &wanted).await);
    assert_eq!(again, forced);

    // Create by apply: the applier owns the fields that it sent, and no default.
    let wanted = namespace("barn", json!({"metadata": {"labels": {"team": "ox"}}}));
    let created = apply(&client, &format!("{NAMESPACES}/barn"), "carol", &wanted)
        .await
        .expect_status(201)
        .unwrap()
        .json();
    assert_eq!(created["metadata"]["labels"], json!({"team": "ox", "kubernetes.io/metadata.name": "barn"}));
    assert_eq!(
        managers(&created),
        [applied("carol", "v1", json!({"f:metadata": {"f:labels": {"f:team": {}}}}))]
    );
}

/// `namespaceStatusStrategy` resets spec, `namespaceFinalizeStrategy` status; `conditions` is a list by type, `finalizers`
/// one value (`+listType=atomic`).
#[tokio::test]
async fn the_endpoints_of_a_namespace_have_entries_of_their_own() {
    let (_server, client) = started().await;
    let path = format!("{NAMESPACES}/farm");
    client.post(&format!("{NAMESPACES}?fieldManager=alice"), &namespace("farm", json!({}))).await.unwrap();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2020-01-01T00:00:00Z"});
    let whole = json!({".": {}, "f:type": {}, "f:status": {}, "f:reason": {}, "f:message": {}, "f:lastTransitionTime": {}});

    let mut body = ok(client.get(&path).await.unwrap());
    body["status"]["conditions"] = json!([condition("Mine")]);
    body["spec"]["finalizers"] = json!([]);
    let put = ok(client.put(&format!("{path}/status?fieldManager=bob"), &body).await.unwrap());
    assert_eq!(put["spec"]["finalizers"], json!(["kubernetes"]));
    let bob = json!({"f:status": {"f:conditions": {".": {}, "k:{\"type\":\"Mine\"}": whole}}});
    let bob = through(updated("bob", "v1", bob), "status");
    assert!(managers(&put).contains(&bob), "{:?}", managers(&put));

    let wanted = namespace(
        "farm",
        json!({"spec": {"finalizers": ["x.y/z"]}, "status": {"conditions": [condition("Applied")]}}),
    );
    let applied_status = ok(apply(&client, &format!("{path}/status"), "carol", &wanted).await);
    assert_eq!(applied_status["spec"]["finalizers"], json!(["kubernetes"]));
    let types = applied_status["status"]["conditions"].as_array().unwrap().iter().map(|c| c["type"].clone());
    assert_eq!(types.collect::<Vec<_>>(), ["Mine", "Applied"]);
    let carol = json!({"f:status": {"f:conditions": {"k:{\"type\":\"Applied\"}": whole}}});
    let carol = through(applied("carol", "v1", carol), "status");
    assert!(managers(&applied_status).contains(&carol), "{:?}", managers(&applied_status));

    let mut body = applied_status;
    body["spec"]["finalizers"] = json!(["kubernetes", "farm.example.com/hold"]);
    body["status"]["conditions"] = json!([]);
    let finalized = ok(client.put(&format!("{path}/finalize?fieldManager=dave"), &body).await.unwrap());
    assert_eq!(finalized["spec"]["finalizers"], body["spec"]["finalizers"]);
    assert_eq!(finalized["status"]["conditions"].as_array().unwrap().len(), 2, "{finalized}");
    let dave = through(updated("dave", "v1", json!({"f:spec": {"f:finalizers": {}}})), "finalize");
    let alice = updated(
        "alice",
        "v1",
        json!({"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}),
    );
    assert_eq!(managers(&finalized), [carol, alice, bob, dave]);
    // Only an update goes through it.
    assert_eq!(client.get(&format!("{path}/finalize")).await.unwrap().status, 405);
    assert_eq!(apply(&client, &format!("{path}/finalize"), "erin", &wanted).await.status, 405);
}

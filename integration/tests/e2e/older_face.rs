//! `apiextensions.k8s.io/v1beta1`, the face that Kubernetes served until 1.21.

use kindom_integration::Server;
use serde_json::{Value, json};

use crate::support::{CRDS, condition, object, refused, until};

const OLD: &str = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";
const TPRS: &str = "/apis/apiextension.k8s.io/v1beta1/thirdpartyresources";
const NAME: &str = "oxen.farm.example.com";
const OXEN: &str = "/apis/farm.example.com/v1/namespaces/default/oxen";

/// A registration as it was written in its time.
fn oxen(more: Value) -> Value {
    let mut body = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {"group": "farm.example.com", "version": "v1", "names": {"plural": "oxen", "kind": "Ox"}},
    });
    let spec = body["spec"].as_object_mut().unwrap();
    spec.extend(more.as_object().unwrap().clone());
    body
}

/// T-03, T-25, T-27: what is said once there is said of each version here; a schema that is not structural holds.
#[tokio::test]
async fn a_v1beta1_registration_is_the_same_one_on_every_face() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let schema = json!({"openAPIV3Schema": {"properties": {"spec": {
        "required": ["weight"], "properties": {"weight": {"type": "number", "minimum": 1}},
    }}}});
    let body = oxen(json!({
        "validation": schema,
        "additionalPrinterColumns": [{"name": "Weight", "type": "number", "JSONPath": ".spec.weight"}],
    }));
    let created = client.post(OLD, &body).await.unwrap().expect_status(201).unwrap();
    let warnings = created.warnings().join("\n");
    assert!(
        warnings.contains("apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated"),
        "{warnings}"
    );
    let created = created.json();
    assert_eq!(created["apiVersion"], "apiextensions.k8s.io/v1beta1");
    let spec = json!({
        "group": "farm.example.com", "version": "v1", "scope": "Namespaced", "preserveUnknownFields": true,
        "names": {"plural": "oxen", "singular": "ox", "kind": "Ox", "listKind": "OxList"},
        "versions": [{"name": "v1", "served": true, "storage": true}],
        "validation": schema,
        "additionalPrinterColumns": [{"name": "Weight", "type": "number", "JSONPath": ".spec.weight"}],
        "conversion": {"strategy": "None"},
    });
    assert_eq!(created["spec"], spec);

    let v1 = condition(&client, NAME, "Established", "True").await;
    assert_eq!(
        v1["spec"]["versions"],
        json!([{
            "name": "v1", "served": true, "storage": true, "schema": schema,
            "additionalPrinterColumns": [{"name": "Weight", "type": "number", "jsonPath": ".spec.weight"}],
        }])
    );
    assert_eq!(v1["spec"]["preserveUnknownFields"], true);
    assert!(v1["metadata"]["annotations"].is_null(), "{v1}");
    let tpr = client.get(&format!("{TPRS}/{NAME}")).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(tpr["spec"]["version"], "v1");
    assert_eq!(tpr["metadata"], v1["metadata"]);

    // Unknown fields are preserved, known ones are held to what the schema says.
    let ox = object("farm.example.com", "Ox", "bo", json!({"weight": 700, "colour": {"r": 1}}));
    let ox = client.post(OXEN, &ox).await.unwrap().expect_status(201).unwrap();
    assert_eq!(ox.at("/spec"), json!({"weight": 700, "colour": {"r": 1}}));
    let ghost = object("farm.example.com", "Ox", "ghost", json!({"weight": 0}));
    refused(
        client.post(OXEN, &ghost).await,
        422,
        "Invalid",
        "spec.weight in body should be greater than or equal to 1",
    );
}

/// A write through one face keeps what the other says; what v1 would not take anew it leaves as it is.
#[tokio::test]
async fn writes_through_the_two_faces_of_crds_meet() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let body = oxen(json!({"validation": {"openAPIV3Schema": {"properties": {"spec": {}}}}}));
    client.post(OLD, &body).await.unwrap().expect_status(201).unwrap();
    let v1 = condition(&client, NAME, "Established", "True").await;

    let mut changed = v1.clone();
    changed["spec"]["names"]["shortNames"] = json!(["o"]);
    let changed =
        client.put(&format!("{CRDS}/{NAME}"), &changed).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(changed["spec"]["versions"], v1["spec"]["versions"]);
    until(&client, OLD, NAME, |crd| crd["status"]["acceptedNames"]["shortNames"] == json!(["o"])).await;

    let patch = json!({"spec": {"subresources": {"status": {}}}});
    let patched =
        client.merge_patch(&format!("{OLD}/{NAME}"), &patch).await.unwrap().expect_status(200).unwrap();
    assert_eq!(patched.at("/spec/names/shortNames"), json!(["o"]));
    let v1 = client.get(&format!("{CRDS}/{NAME}")).await.unwrap().json();
    assert_eq!(v1["spec"]["versions"][0]["subresources"], json!({"status": {}}));

    let second = json!({"spec": {"versions": [
        {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
    ]}});
    let message = "spec.validation: Forbidden: top-level and per-version schemas are mutually exclusive";
    refused(client.merge_patch(&format!("{OLD}/{NAME}"), &second).await, 422, "Invalid", message);
    let defaults =
        json!({"spec": {"validation": {"openAPIV3Schema": {"properties": {"spec": {"default": {}}}}}}});
    let message = "cannot set default values in apiextensions.k8s.io/v1beta1 CRDs";
    refused(client.merge_patch(&format!("{OLD}/{NAME}"), &defaults).await, 422, "Invalid", message);
}

/// S-09, S-12, S-15: the field as it was proposed.
#[tokio::test]
async fn proposed_subresources_are_taken_and_shown_by_today_s_name() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let proposed = |group_version: &str| {
        oxen(json!({"subResources": {"status": {}, "scale": {
            "specReplicasPath": ".spec.replicas", "groupVersion": group_version,
        }}}))
    };
    refused(
        client.post(OLD, &proposed("autoscaling/v2")).await,
        422,
        "Invalid",
        "spec.subResources.scale.groupVersion: Unsupported value: \"autoscaling/v2\"",
    );
    let created = client.post(OLD, &proposed("autoscaling/v1")).await.unwrap().expect_status(201).unwrap();
    let warnings = created.warnings().join("\n");
    assert!(
        warnings.contains("spec.subResources: this name was only proposed; use spec.subresources"),
        "{warnings}"
    );
    let shown = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas"}});
    assert_eq!(created.at("/spec/subresources"), shown);
    assert_eq!(created.at("/spec/subResources"), Value::Null);
    // v1 cannot say it, so it neither shows it nor loses it.
    let mut v1 = condition(&client, NAME, "Established", "True").await;
    assert_eq!(v1["spec"]["versions"][0]["subresources"], json!({"status": {}}));
    v1["spec"]["names"]["categories"] = json!(["all"]);
    client.put(&format!("{CRDS}/{NAME}"), &v1).await.unwrap().expect_status(200).unwrap();
    let again = client.get(&format!("{OLD}/{NAME}")).await.unwrap().json();
    assert_eq!(again["spec"]["subresources"], shown);
    let hidden = json!({"metadata": {"annotations": {"face.kindom.dev/sub-resources": "{}"}}});
    let message = "metadata.annotations[face.kindom.dev/sub-resources]: Forbidden";
    refused(client.merge_patch(&format!("{CRDS}/{NAME}"), &hidden).await, 422, "Invalid", message);
}

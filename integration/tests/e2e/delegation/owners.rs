//! Whoever changes the owners of an object has to be able to delete it.

use serde_json::{Value, json};

use super::{Extension, WIDGETS, ask, decide, host_asked_last, widget};
use crate::support::refused;

/// The texts are those of `plugin/pkg/admission/gc/gc_admission.go`, 1.37.
#[tokio::test]
async fn owners_are_chosen_by_those_who_may() {
    let plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
    let extension = Extension::start(&[plugin]).await;
    let (client, admin) = (extension.with_token("good"), extension.server.client().unwrap());
    decide(&extension.host, "good", |spec| {
        let asked = &spec["resourceAttributes"];
        let is_kept = asked["verb"] == "delete" && asked["name"] == "kept";
        let of_owner = asked["subresource"] == "finalizers" && asked["name"] != "open";
        match is_kept || of_owner {
            true => json!({"allowed": false, "reason": "not yours"}),
            false => json!({"allowed": true}),
        }
    });
    let owner = |kind: &str, name: &str, uid: &str, blocks: Option<bool>| {
        let mut owner = json!({"apiVersion": "example.com/v1", "kind": kind, "name": name, "uid": uid});
        if let Some(blocks) = blocks {
            owner["blockOwnerDeletion"] = json!(blocks);
        }
        owner
    };
    let owned = |name: &str, owners: &[Value]| {
        let mut object = widget(name);
        object["metadata"]["ownerReferences"] = json!(owners);
        object
    };
    let owners = |owners: &[Value]| json!({"metadata": {"ownerReferences": owners}});
    let (free, blocking) = (owner("Widget", "a", "1", None), owner("Widget", "a", "1", Some(true)));

    // Whoever creates an object might not have done it.
    for name in ["kept", "other"] {
        client
            .post(WIDGETS, &owned(name, std::slice::from_ref(&free)))
            .await
            .unwrap()
            .expect_status(201)
            .unwrap();
    }
    let cannot_delete = "widgets.example.com \"kept\" is forbidden: cannot set an ownerRef on a resource you can't delete: kubernetes.io/webhook: not yours, <nil>";
    let kept = format!("{WIDGETS}/kept");
    refused(client.merge_patch(&kept, &owners(&[])).await, 403, "Forbidden", cannot_delete);
    let wanted = json!({"verb": "delete", "group": "example.com", "version": "v1", "resource": "widgets",
        "namespace": "default", "name": "kept"});
    assert_eq!(host_asked_last(&extension), wanted);
    assert_eq!(ask(&client, &kept).await.at("/metadata/ownerReferences/0/uid"), "1");
    // Anything else about it may change, and an administrator is asked nothing.
    client
        .merge_patch(&kept, &json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    admin
        .merge_patch(&kept, &owners(std::slice::from_ref(&blocking)))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();

    let cannot_hold = |name: &str| {
        format!(
            "widgets.example.com \"{name}\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you \
             can't set finalizers on: kubernetes.io/webhook: not yours, <nil>"
        )
    };
    let other = format!("{WIDGETS}/other");
    let patched = client.merge_patch(&other, &owners(std::slice::from_ref(&blocking))).await;
    refused(patched, 403, "Forbidden", &cannot_hold("other"));
    let wanted = json!({"verb": "update", "group": "example.com", "version": "v1", "resource": "widgets",
        "subresource": "finalizers", "namespace": "default", "name": "a"});
    assert_eq!(host_asked_last(&extension), wanted);
    refused(client.post(WIDGETS, &owned("new", &[blocking])).await, 403, "Forbidden", &cannot_hold("new"));
    let unknown = "widgets.example.com \"new\" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for \
                   APIVersion example.com/v1 Kind Nothing: no matches for kind \"Nothing\" in version \"example.com/v1\"";
    let nothing = owned("new", &[owner("Nothing", "a", "1", Some(true))]);
    refused(client.post(WIDGETS, &nothing).await, 403, "Forbidden", unknown);
    let open = [owner("Widget", "open", "2", Some(true)), owner("Widget", "a", "1", Some(false))];
    client.merge_patch(&other, &owners(&open)).await.unwrap().expect_status(200).unwrap();
}

#[tokio::test]
async fn owners_are_anybodys_choice_by_default() {
    let extension = Extension::start(&[]).await;
    decide(&extension.host, "good", |spec| {
        json!({"allowed": spec["resourceAttributes"]["subresource"] != "finalizers"
            && spec["resourceAttributes"]["verb"] != "delete"})
    });
    let client = extension.with_token("good");
    client.post(WIDGETS, &widget("a")).await.unwrap().expect_status(201).unwrap();
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "b", "uid": "1", "blockOwnerDeletion": true});
    let patch = json!({"metadata": {"ownerReferences": [owner]}});
    client.merge_patch(&format!("{WIDGETS}/a"), &patch).await.unwrap().expect_status(200).unwrap();
}

//! Garbage collection by ownerReferences (`finalizer-actor/src/garbage`).

use kindom_integration::{Client, Server, count};
use kindom_storage::{Key, Op, Txn, TxnOutcome};
use serde_json::{Value, json};

use crate::shell::prints;
use crate::support::{
    crd, eventually, names, namespace, object, register, store, until, until_gone, version,
};

const GROUP: &str = "garbage.example.com";
const WIDGETS: &str = "/apis/garbage.example.com/v1/namespaces/default/widgets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const EVENTS: &str = "/api/v1/namespaces/default/events";

async fn start() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "widgets", "Widget", "Namespaced")).await;
    (server, client)
}

fn widget(name: &str) -> Value {
    object(GROUP, "Widget", name, json!({}))
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

async fn create(client: &Client, path: &str, object: &Value) -> Value {
    client.post(path, object).await.unwrap().expect_status(201).unwrap().json()
}

/// A reference to an object; it holds up the owner's end if `blocks`.
fn reference(owner: &Value, blocks: bool) -> Value {
    let metadata = &owner["metadata"];
    json!({ "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"],
        "blockOwnerDeletion": blocks })
}

fn owned(mut object: Value, owners: &[Value]) -> Value {
    object["metadata"]["ownerReferences"] = json!(owners);
    object
}

fn held(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

async fn delete(client: &Client, path: &str, policy: &str) -> Value {
    let path = format!("{path}?propagationPolicy={policy}");
    client.delete(&path).await.unwrap().expect_status(200).unwrap().json()
}

async fn patch(client: &Client, path: &str, patch: &Value) {
    let body = ("application/merge-patch+json", patch.to_string());
    client.request("PATCH", path).body(body.0, body.1).send().await.unwrap().expect_status(200).unwrap();
}

async fn get(client: &Client, path: &str) -> Value {
    client.get(path).await.unwrap().expect_status(200).unwrap().json()
}

/// Waits until the collector has looked at everything up to now: an object without an owner that is there is gone.
async fn settled(client: &Client) {
    let ghost = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "never" });
    let of_ghost = create(
        client,
        MAPS,
        &owned(
            json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "generateName": "settled-" } }),
            &[ghost],
        ),
    )
    .await;
    until_gone(client, MAPS, of_ghost["metadata"]["name"].as_str().unwrap()).await;
}

/// T-55: what an object owns goes after it, whatever kind it is of.
#[tokio::test]
async fn what_lost_its_owner_goes() {
    let (_server, client) = start().await;
    let owner = create(&client, WIDGETS, &widget("owner")).await;
    let of_owner = [reference(&owner, true)];
    create(&client, MAPS, &owned(map("mine"), &of_owner)).await;
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "mine" } });
    create(&client, SECRETS, &owned(secret, &of_owner)).await;
    let child = create(&client, WIDGETS, &owned(widget("child"), &of_owner)).await;
    create(&client, MAPS, &owned(map("grandchild"), &[reference(&child, false)])).await;
    create(&client, MAPS, &map("nobodys")).await;
    settled(&client).await;
    get(&client, &format!("{MAPS}/mine")).await;
    let status = delete(&client, &format!("{WIDGETS}/owner"), "Background").await;
    assert_eq!(status["status"], "Success");
    until_gone(&client, MAPS, "mine").await;
    until_gone(&client, MAPS, "grandchild").await;
    until_gone(&client, SECRETS, "mine").await;
    until_gone(&client, WIDGETS, "child").await;
    get(&client, &format!("{MAPS}/nobodys")).await;
}

/// T-09: an owner that is deleted in the foreground goes after what it owns.
#[tokio::test]
async fn a_foreground_delete_waits_for_what_blocks_it() {
    let (_server, client) = start().await;
    let owner = create(&client, WIDGETS, &widget("owner")).await;
    create(&client, MAPS, &held(owned(map("blocks"), &[reference(&owner, true)]))).await;
    create(&client, MAPS, &held(owned(map("follows"), &[reference(&owner, false)]))).await;
    create(&client, MAPS, &owned(map("goes"), &[reference(&owner, true)])).await;
    let marked = delete(&client, &format!("{WIDGETS}/owner"), "Foreground").await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    until_gone(&client, MAPS, "goes").await;
    let is_going = |map: &Value| map["metadata"]["deletionTimestamp"].is_string();
    until(&client, MAPS, "blocks", is_going).await;
    until(&client, MAPS, "follows", is_going).await;
    settled(&client).await;
    get(&client, &format!("{WIDGETS}/owner")).await;
    patch(&client, &format!("{MAPS}/blocks"), &json!({ "metadata": { "finalizers": null } })).await;
    // What does not block it may stay longer.
    until_gone(&client, WIDGETS, "owner").await;
    get(&client, &format!("{MAPS}/follows")).await;
}

#[tokio::test]
async fn an_orphan_loses_its_reference_and_stays() {
    let (_server, client) = start().await;
    let owner = create(&client, WIDGETS, &widget("owner")).await;
    let other = create(&client, WIDGETS, &widget("other")).await;
    create(&client, MAPS, &owned(map("one"), &[reference(&owner, true)])).await;
    create(&client, MAPS, &owned(map("two"), &[reference(&owner, true), reference(&other, false)])).await;
    let marked = delete(&client, &format!("{WIDGETS}/owner"), "Orphan").await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
    until_gone(&client, WIDGETS, "owner").await;
    settled(&client).await;
    assert_eq!(get(&client, &format!("{MAPS}/one")).await["metadata"].get("ownerReferences"), None);
    let two = get(&client, &format!("{MAPS}/two")).await;
    assert_eq!(two["metadata"]["ownerReferences"], json!([reference(&other, false)]));
}

/// T-55: what was orphaned can have another owner.
#[tokio::test]
async fn orphans_can_be_adopted() {
    let (_server, client) = start().await;
    let owner = create(&client, WIDGETS, &widget("owner")).await;
    create(&client, MAPS, &owned(map("one"), &[reference(&owner, true)])).await;
    delete(&client, &format!("{WIDGETS}/owner"), "Orphan").await;
    until_gone(&client, WIDGETS, "owner").await;
    let next = create(&client, WIDGETS, &widget("owner")).await;
    let adopted = json!({ "metadata": { "ownerReferences": [reference(&next, true)] } });
    patch(&client, &format!("{MAPS}/one"), &adopted).await;
    settled(&client).await;
    get(&client, &format!("{MAPS}/one")).await;
    delete(&client, &format!("{WIDGETS}/owner"), "Foreground").await;
    until_gone(&client, WIDGETS, "owner").await;
    assert_eq!(client.get(&format!("{MAPS}/one")).await.unwrap().status, 404);
}

/// T-09: whichever version of an owner a reference names, it is the same owner.
#[tokio::test]
async fn an_owner_is_the_same_in_each_of_its_versions() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let mut crd = crd(GROUP, "widgets", "Widget", "Namespaced");
    let versions = crd["spec"]["versions"].as_array_mut().unwrap();
    versions.push(version("v2", false));
    register(&client, &crd).await;
    let owner = create(&client, WIDGETS, &widget("owner")).await;
    let mut by_v2 = reference(&owner, true);
    by_v2["apiVersion"] = json!(format!("{GROUP}/v2"));
    create(&client, MAPS, &owned(map("one"), &[by_v2])).await;
    settled(&client).await;
    get(&client, &format!("{MAPS}/one")).await;
    delete(&client, &format!("{}/owner", WIDGETS.replace("/v1/", "/v2/")), "Foreground").await;
    until_gone(&client, WIDGETS, "owner").await;
    assert_eq!(client.get(&format!("{MAPS}/one")).await.unwrap().status, 404);
}

#[tokio::test]
async fn an_object_with_another_owner_loses_the_reference_alone() {
    let (_server, client) = start().await;
    let [one, two] = ["one", "two"].map(widget);
    let (one, two) = (create(&client, WIDGETS, &one).await, create(&client, WIDGETS, &two).await);
    create(&client, MAPS, &owned(map("both"), &[reference(&one, true), reference(&two, true)])).await;
    delete(&client, &format!("{WIDGETS}/one"), "Foreground").await;
    until_gone(&client, WIDGETS, "one").await;
    let left = json!([reference(&two, true)]);
    until(&client, MAPS, "both", |map| map["metadata"]["ownerReferences"] == left).await;
    delete(&client, &format!("{WIDGETS}/two"), "Background").await;
    until_gone(&client, MAPS, "both").await;
}

#[tokio::test]
async fn objects_that_own_each_other_go() {
    let (_server, client) = start().await;
    let one = create(&client, WIDGETS, &widget("one")).await;
    let two = create(&client, WIDGETS, &owned(widget("two"), &[reference(&one, true)])).await;
    let three = create(&client, WIDGETS, &owned(widget("three"), &[reference(&two, true)])).await;
    let back = json!({ "metadata": { "ownerReferences": [reference(&three, true)] } });
    patch(&client, &format!("{WIDGETS}/one"), &back).await;
    let own = create(&client, WIDGETS, &widget("own")).await;
    patch(
        &client,
        &format!("{WIDGETS}/own"),
        &json!({ "metadata": { "ownerReferences": [reference(&own, true)] } }),
    )
    .await;
    settled(&client).await;
    assert_eq!(names(&get(&client, WIDGETS).await).len(), 4);
    delete(&client, &format!("{WIDGETS}/own"), "Background").await;
    delete(&client, &format!("{WIDGETS}/one"), "Foreground").await;
    for name in ["one", "two", "three", "own"] {
        until_gone(&client, WIDGETS, name).await;
    }
}

/// An owner of a kind that is not served may be there for all we know.
#[tokio::test]
async fn an_owner_of_an_unknown_kind_is_not_judged() {
    let (_server, client) = start().await;
    let gadget = |version: &str| json!({ "apiVersion": format!("{GROUP}/{version}"), "kind": "Gadget", "name": "g", "uid": "never" });
    let pod = json!({ "apiVersion": "example.org/v1", "kind": "Pod", "name": "p", "uid": "never" });
    let one = create(&client, WIDGETS, &widget("one")).await;
    create(&client, MAPS, &owned(map("gadgets"), &[gadget("v1")])).await;
    create(&client, MAPS, &owned(map("of-a-version"), &[gadget("v7")])).await;
    create(&client, MAPS, &owned(map("pods"), std::slice::from_ref(&pod))).await;
    create(&client, MAPS, &owned(map("both"), &[reference(&one, true), pod])).await;
    delete(&client, &format!("{WIDGETS}/one"), "Background").await;
    settled(&client).await;
    let mut left = names(&get(&client, MAPS).await);
    left.retain(|name| !name.starts_with("kube"));
    assert_eq!(left, ["both", "gadgets", "of-a-version", "pods"]);
    // Now it is known that there is none.
    register(&client, &crd(GROUP, "gadgets", "Gadget", "Namespaced")).await;
    until_gone(&client, MAPS, "gadgets").await;
    get(&client, &format!("{MAPS}/of-a-version")).await;
}

/// Owners are in the same namespace, or at cluster scope.
#[tokio::test]
async fn an_owner_elsewhere_is_none_and_an_event_says_so() {
    let (_server, client) = start().await;
    namespace(&client, "other").await;
    let owner =
        create(&client, "/apis/garbage.example.com/v1/namespaces/other/widgets", &widget("owner")).await;
    register(&client, &crd(GROUP, "regions", "Region", "Cluster")).await;
    let regions = "/apis/garbage.example.com/v1/regions";
    let region = create(&client, regions, &object(GROUP, "Region", "region", json!({}))).await;
    create(&client, MAPS, &owned(map("of-region"), &[reference(&region, true)])).await;
    create(&client, MAPS, &owned(map("of-another"), &[reference(&owner, true)])).await;
    let below = owned(object(GROUP, "Region", "below", json!({})), &[reference(&owner, true)]);
    create(&client, regions, &below).await;
    until_gone(&client, MAPS, "of-another").await;
    let said = eventually("an event of the region", async || {
        let events = get(&client, EVENTS).await;
        let of = |event: &&Value| event["involvedObject"]["name"] == "below";
        events["items"].as_array().unwrap().iter().find(of).cloned()
    })
    .await;
    assert_eq!((&said["reason"], &said["type"]), (&json!("OwnerRefInvalidNamespace"), &json!("Warning")));
    let events = get(&client, &format!("{EVENTS}?fieldSelector=involvedObject.name=of-another")).await;
    let message = events["items"][0]["message"].as_str().unwrap();
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    let start = format!("ownerRef [{GROUP}/v1/Widget, namespace: default, name: owner, uid: {uid}]");
    assert_eq!(message, format!("{start} does not exist in namespace \"default\""));
    get(&client, &format!("{MAPS}/of-region")).await;
    get(&client, &format!("{regions}/below")).await;
    delete(&client, &format!("{regions}/region"), "Background").await;
    until_gone(&client, MAPS, "of-region").await;
    // The end of what it cannot own to is no end of it.
    delete(&client, "/apis/garbage.example.com/v1/namespaces/other/widgets/owner", "Background").await;
    settled(&client).await;
    get(&client, &format!("{regions}/below")).await;
}

/// As upstream's collector, which ignores them: they go by themselves.
#[tokio::test]
async fn events_are_not_collected() {
    let (_server, client) = start().await;
    let owner = create(&client, WIDGETS, &widget("owner")).await;
    let event = json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": "one" },
        "involvedObject": { "kind": "Widget", "namespace": "default", "name": "owner" } });
    create(&client, EVENTS, &held(owned(event, &[reference(&owner, true)]))).await;
    delete(&client, &format!("{WIDGETS}/owner"), "Foreground").await;
    until_gone(&client, WIDGETS, "owner").await;
    settled(&client).await;
    get(&client, &format!("{EVENTS}/one")).await;
    // It owns nothing, whatever its finalizers say.
    let finalizers = json!({ "metadata": { "finalizers": ["foregroundDeletion"] } });
    patch(&client, &format!("{EVENTS}/one"), &finalizers).await;
    client.delete(&format!("{EVENTS}/one")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(client.get(&format!("{EVENTS}/one")).await.unwrap().status, 404);
}

/// While its content goes, nothing changes how a namespace goes.
#[tokio::test]
async fn a_namespace_is_deleted_in_one_way() {
    let (_server, client) = start().await;
    namespace(&client, "one").await;
    let widgets = "/apis/garbage.example.com/v1/namespaces/one/widgets";
    create(&client, widgets, &held(widget("holds"))).await;
    let marked = delete(&client, "/api/v1/namespaces/one", "Foreground").await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    until(&client, "/api/v1/namespaces", "one", |one| one["metadata"].get("finalizers").is_none()).await;
    let again = delete(&client, "/api/v1/namespaces/one", "Orphan").await;
    assert_eq!(again["metadata"].get("finalizers"), None);
    patch(&client, &format!("{widgets}/holds"), &json!({ "metadata": { "finalizers": null } })).await;
    until_gone(&client, "/api/v1/namespaces", "one").await;
}

/// An owner whose bytes nobody can read is there, for all we know; when it goes, that counts.
#[tokio::test]
async fn an_owner_that_cannot_be_read_is_not_judged() {
    let (mut server, client) = start().await;
    let owner = create(&client, WIDGETS, &widget("owner")).await;
    create(&client, MAPS, &owned(map("mine"), &[reference(&owner, true)])).await;
    server.kill9().unwrap();
    let store = store(&server).await;
    let key = Key::from("/registry/garbage.example.com/widgets/default/owner".to_owned());
    let txn = Txn { compares: Vec::new(), ops: vec![Op::Put(key, "no object".into())] };
    assert!(matches!(store.txn(txn).await.unwrap(), TxnOutcome::Committed { .. }));
    store.close().await.unwrap();
    drop(store);
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    settled(&client).await;
    get(&client, &format!("{MAPS}/mine")).await;
    let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1",
        "ignoreStoreReadErrorWithClusterBreakingPotential": true });
    let path = format!("{WIDGETS}/owner");
    client.request("DELETE", &path).json(&options).send().await.unwrap().expect_status(200).unwrap();
    until_gone(&client, MAPS, "mine").await;
}

/// An owner's name may be another's by now.
#[tokio::test]
async fn a_successor_of_the_same_name_owns_nothing() {
    let (_server, client) = start().await;
    let first = create(&client, WIDGETS, &held(widget("owner"))).await;
    create(&client, MAPS, &owned(map("of-first"), &[reference(&first, true)])).await;
    delete(&client, &format!("{WIDGETS}/owner"), "Background").await;
    patch(&client, &format!("{WIDGETS}/owner"), &json!({ "metadata": { "finalizers": null } })).await;
    let second = create(&client, WIDGETS, &widget("owner")).await;
    create(&client, MAPS, &owned(map("of-second"), &[reference(&second, true)])).await;
    until_gone(&client, MAPS, "of-first").await;
    get(&client, &format!("{MAPS}/of-second")).await;
}

#[tokio::test]
async fn kubectl_cascades_in_all_three_ways() {
    let (server, client) = start().await;
    let caller = &server.caller();
    for cascade in ["background", "foreground", "orphan"] {
        let owner = create(&client, WIDGETS, &widget(cascade)).await;
        create(&client, MAPS, &owned(map(cascade), &[reference(&owner, true)])).await;
        prints(caller, &format!("kubectl delete widget {cascade} --cascade={cascade} --timeout=60s")).await;
        if cascade == "orphan" {
            assert_eq!(
                get(&client, &format!("{MAPS}/orphan")).await["metadata"].get("ownerReferences"),
                None
            );
        } else {
            until_gone(&client, MAPS, cascade).await;
        }
    }
}

/// What was there before the process, and what happened while it was away.
#[tokio::test]
async fn a_restart_forgets_nothing() {
    let (mut server, client) = start().await;
    let owner = create(&client, WIDGETS, &widget("owner")).await;
    create(&client, MAPS, &held(owned(map("one"), &[reference(&owner, true)]))).await;
    delete(&client, &format!("{WIDGETS}/owner"), "Foreground").await;
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    until(&client, MAPS, "one", |map| map["metadata"]["deletionTimestamp"].is_string()).await;
    patch(&client, &format!("{MAPS}/one"), &json!({ "metadata": { "finalizers": null } })).await;
    until_gone(&client, WIDGETS, "owner").await;
}

#[tokio::test]
async fn many_dependents_go() {
    let (server, client) = start().await;
    let owner = create(&client, WIDGETS, &widget("owner")).await;
    let many = count(300, 10_000);
    let of_owner = [reference(&owner, true)];
    let creates = (0..many).map(|n| {
        let (client, body) = (client.clone(), owned(map(&format!("m{n}")), &of_owner));
        async move { create(&client, MAPS, &body).await }
    });
    futures::StreamExt::collect::<Vec<_>>(futures::StreamExt::buffer_unordered(
        futures::stream::iter(creates),
        32,
    ))
    .await;
    let began = tokio::time::Instant::now();
    delete(&client, &format!("{WIDGETS}/owner"), "Foreground").await;
    until_gone(&client, WIDGETS, "owner").await;
    println!("{many} dependents went in {:?}", began.elapsed());
    let left = names(&get(&client, MAPS).await);
    assert!(!left.iter().any(|name| name.starts_with('m')), "{left:?}");
    println!("{} MiB at the peak", server.peak_memory_bytes().unwrap() >> 20);
}

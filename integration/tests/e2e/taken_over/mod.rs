//! A prefix that another API server wrote is served as it is (docs/taking-over.md).

mod corpus;
mod prefix;

use kindom_integration::Client;
use serde_json::{Value, json};

use crate::support::{CRDS, names, object, refused, revision, until, until_gone};
use prefix::{Keys, Place, recorded};

const REGISTRATIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
const WIDGETS: &str = "/apis/taken.example.com/v1/namespaces/default/widgets";

async fn get(client: &Client, path: &str) -> Value {
    client.get(path).await.unwrap().expect_status(200).unwrap().json()
}

fn text(value: &bytes::Bytes) -> &str {
    std::str::from_utf8(value).unwrap()
}

/// Takes out what is the store's and not the object's, and what kindom says on purpose in its own way.
fn comparable(mut answer: Value) -> Value {
    if let Some(resources) = answer.get_mut("resources").and_then(Value::as_array_mut) {
        resources.sort_by_key(|r| r["name"].as_str().unwrap_or_default().to_owned());
    }
    if answer["kind"] == "CustomResourceDefinitionList" {
        // Go leaves out what a typed list says already.
        for item in answer["items"].as_array_mut().unwrap().iter_mut().filter_map(Value::as_object_mut) {
            item.retain(|field, _| field != "apiVersion" && field != "kind");
        }
    }
    mask(&mut answer);
    answer
}

fn mask(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::Object(map) => {
            map.remove("resourceVersion");
            if map.get("continue").is_some_and(|token| token == "") {
                map.remove("continue");
            }
            // Who holds a name that is refused is told too, and so the status is written once more.
            if map.get("metadata").and_then(|m| m.get("name")) == Some(&json!("thieves.taken.example.com")) {
                map["metadata"].as_object_mut().unwrap().remove("managedFields");
                let conditions = map["status"]["conditions"].as_array_mut().unwrap();
                for condition in conditions.iter_mut().filter(|c| c["type"] == "NamesAccepted") {
                    let message = condition["message"].as_str().unwrap();
                    let upstream = r#""WidgetList" is already in use"#;
                    assert!(message.contains(upstream), "{message}");
                    condition["message"] = json!(upstream);
                }
            }
            map.values_mut().for_each(mask);
        }
        // An object that only its type's webhook converts, which nobody runs here, is named with its revision.
        Value::String(text) if text.contains("not decodable revision=") => {
            let revision = regex::Regex::new(r"not decodable revision=\d+").unwrap();
            *text = revision.replace_all(text, "not decodable").into_owned();
        }
        _ => {}
    }
}

/// Issue 7, show 5: what the real apiextensions-apiserver stored (registrations as v1beta1, as it always does; custom
/// resources in several versions; namespaces in protobuf) is answered as that server answered it, and not touched.
#[tokio::test]
async fn what_the_real_server_stored_is_answered_as_it_was() {
    for place in Place::of_each_engine().await {
        answered_in(&place).await;
    }
}

async fn answered_in(place: &Place) {
    let (keys, answers) = recorded();
    let mut server = place.over(&keys, &["--feature-gates", "StorageVersionMigrator=false"]).await;
    let client = server.client().unwrap();
    until(&client, CRDS, "thieves.taken.example.com", |crd| {
        crd["status"]["conditions"][0]["message"].as_str().unwrap().contains("widgets.taken.example.com")
    })
    .await;
    for (path, expected) in answers {
        let mut expected = comparable(expected);
        if path.starts_with("/api/v1/namespaces/") {
            // kube-apiserver's own defaulting adds it; the recording's library has none.
            let name = expected["metadata"]["name"].clone();
            expected["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        }
        let mut answer = comparable(get(&client, &path).await);
        if path.ends_with("/going") {
            // It goes on being deleted, and says how far it is.
            answer["status"].as_object_mut().unwrap().remove("conditions");
        }
        assert!(
            answer == expected,
            "{path}\n{}\n{}",
            serde_json::to_string_pretty(&answer).unwrap(),
            serde_json::to_string_pretty(&expected).unwrap()
        );
    }
    // As a stream and as a table, too: no line end of Go's breaks a line of a watch.
    let mut watch = client.watch(&format!("{WIDGETS}?watch=true")).await.unwrap();
    assert_eq!(watch.event().await.unwrap()["object"]["metadata"]["name"], "one");
    let table = server.kubectl(&["get", "relics,tools,widgets.taken.example.com", "-A"]).await.unwrap();
    assert!(table.contains("amphora") && table.contains("2000") && table.contains("hammer"), "{table}");
    let table = server.kubectl(&["get", "namespaces"]).await.unwrap();
    assert!(table.contains("shop") && table.contains("Terminating"), "{table}");

    server.terminate().await.unwrap();
    let after = place.all("/registry/").await;
    for (key, value) in &keys {
        if !key.ends_with("/thieves.taken.example.com") && !key.ends_with("/going") {
            assert_eq!(after.get(key), Some(value), "{key}");
        }
    }
    let made: Vec<&String> = after.keys().filter(|key| !keys.contains_key(*key)).collect();
    let standard = [
        "ipaddresses/10.0.0.1",
        "namespaces/kube-node-lease",
        "namespaces/kube-public",
        "namespaces/kube-system",
        "services/specs/default/kubernetes",
    ];
    assert_eq!(made, standard.map(|key| format!("/registry/{key}")).iter().collect::<Vec<_>>());
}

/// An object that is written again is written in kindom's form; an unchanged one, or one that would lose fields, is not
/// written.
#[tokio::test]
async fn a_write_brings_it_to_the_stored_form() {
    for place in Place::of_each_engine().await {
        written_in(&place).await;
    }
}

async fn written_in(place: &Place) {
    let (keys, _) = recorded();
    let mut server = place.over(&keys, &[]).await;
    let client = server.client().unwrap();
    let revision = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();

    // The migrator has brought what was stored in another version along.
    let sprockets = "sprockets.taken.example.com";
    until(&client, CRDS, sprockets, |crd| crd["status"]["storedVersions"] == json!(["v1"])).await;

    // Laid out as another server does it is no change.
    let path = format!("{WIDGETS}/one");
    let one = get(&client, &path).await;
    let same = client.put(&path, &one).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(revision(&same), revision(&one));
    // In another form it is one, as there.
    let path = format!("{CRDS}/widgets.taken.example.com");
    let crd = get(&client, &path).await;
    let same = client.put(&path, &crd).await.unwrap().expect_status(200).unwrap().json();
    assert_ne!(revision(&same), revision(&crd));
    assert_eq!(comparable(same), comparable(crd));

    let relic = "/apis/old.example.com/v1/namespaces/default/relics";
    let patch = json!({"spec": {"age": 2001}});
    let patched = client.merge_patch(&format!("{relic}/amphora"), &patch).await.unwrap();
    let patched = patched.expect_status(200).unwrap();
    assert_eq!(patched.at("/spec/colour"), json!({"r": 1, "g": 0.5}));
    assert_eq!(patched.at("/metadata/generation"), 2);
    // It may stay wrong, but not become so.
    let labels = json!({"metadata": {"labels": {"seen": "yes"}}});
    let wrong = client.merge_patch(&format!("{relic}/malformed"), &labels).await.unwrap();
    wrong.expect_status(200).unwrap();
    let worse = client.merge_patch(&format!("{relic}/amphora"), &json!({"spec": {"age": "old"}})).await;
    refused(worse, 422, "Invalid", "spec.age");

    let namespaces = "/api/v1/namespaces";
    let shop = client.merge_patch(&format!("{namespaces}/shop"), &labels).await.unwrap();
    let shop = shop.expect_status(200).unwrap();
    assert_eq!(shop.at("/metadata/labels/team"), "carts");
    let text_of_refusal = "fields that are not known here (99)";
    let later = format!("{namespaces}/later");
    refused(client.merge_patch(&later, &labels).await, 500, "InternalError", text_of_refusal);
    refused(client.delete(&later).await, 500, "InternalError", text_of_refusal);
    let body = get(&client, &later).await;
    refused(
        client
            .put(
                &format!("{later}/finalize"),
                &json!({
                    "apiVersion": "v1", "kind": "Namespace", "metadata": body["metadata"], "spec": {},
                }),
            )
            .await,
        500,
        "InternalError",
        text_of_refusal,
    );
    // What is created in it is no write to it.
    let widget = object("taken.example.com", "Widget", "new", json!({"colour": "green"}));
    let created = client.post("/apis/taken.example.com/v1/namespaces/later/widgets", &widget).await.unwrap();
    created.expect_status(201).unwrap();

    server.terminate().await.unwrap();
    let after = place.all("/registry/").await;
    let now = |key: &str| text(&after[key]).to_owned();
    let head = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","#;
    assert!(now(&format!("{REGISTRATIONS}widgets.taken.example.com")).starts_with(head));
    for same in [
        format!("{REGISTRATIONS}relics.old.example.com"),
        "/registry/taken.example.com/widgets/default/one".to_owned(),
        "/registry/namespaces/later".to_owned(),
    ] {
        assert_eq!(after[&same], keys[&same], "{same}");
    }
    assert!(now("/registry/namespaces/shop").starts_with(r#"{"apiVersion":"v1","kind":"Namespace","#));
    assert!(now("/registry/old.example.com/relics/default/amphora").contains(r#""age":2001"#));
    let front = now("/registry/taken.example.com/sprockets/default/front");
    assert!(front.contains(r#""apiVersion":"taken.example.com/v1","kind""#), "{front}");
}

/// The whole of a working day: get, apply, edit, delete, watch; and the end of a namespace whose other content is none of
/// kindom's business.
#[tokio::test]
async fn kubectl_works_on_it() {
    for place in Place::of_each_engine().await {
        worked_on_in(&place).await;
    }
}

async fn worked_on_in(place: &Place) {
    let (keys, _) = recorded();
    let mut server = place.over(&keys, &[]).await;
    let client = server.client().unwrap();
    let mut watch = client.watch(&format!("{WIDGETS}?watch=true&resourceVersion=0")).await.unwrap();
    assert_eq!(watch.event().await.unwrap()["object"]["spec"]["replicas"], 5);

    let manifest = "apiVersion: taken.example.com/v1\nkind: Widget\nmetadata: {name: one, namespace: default}\nspec: {note: applied}\n";
    let applied = server.kubectl_with(&["apply", "-f", "-"], manifest).await.unwrap().success().unwrap();
    assert!(applied.contains("widget.taken.example.com/one configured"), "{applied}");
    assert_eq!(watch.event().await.unwrap()["object"]["spec"]["note"], "applied");
    let served = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    server.kubectl_with(&served, manifest).await.unwrap().success().unwrap();
    server.kubectl(&["scale", "widgets.taken.example.com/one", "--replicas", "7"]).await.unwrap();
    while watch.event().await.unwrap()["object"]["spec"]["replicas"] != 7 {}

    let mut edit = tokio::process::Command::new(kindom_integration::tools::kubectl().unwrap());
    edit.args(["edit", "crd", "tools.old.example.com"]);
    server.environment(&mut edit);
    edit.env("KUBE_EDITOR", "sed -i s/singular:.tool$/singular:\\ implement/");
    let edited = server.run(edit, "").await.unwrap().success().unwrap();
    assert!(edited.contains("tools.old.example.com edited"), "{edited}");
    until(&client, CRDS, "tools.old.example.com", |c| {
        c["status"]["acceptedNames"]["singular"] == "implement"
    })
    .await;
    server.kubectl(&["get", "implement", "hammer"]).await.unwrap();
    server.kubectl(&["delete", "implement", "hammer"]).await.unwrap();

    // A registration goes with what was stored under it.
    server.kubectl(&["delete", "crd", "sprockets.taken.example.com"]).await.unwrap();
    // And a namespace, once who else holds it lets go.
    let widget = object("taken.example.com", "Widget", "inside", json!({}));
    let inside = "/apis/taken.example.com/v1/namespaces/shop/widgets";
    client.post(inside, &widget).await.unwrap().expect_status(201).unwrap();
    server.kubectl(&["delete", "namespace", "shop", "--wait=false"]).await.unwrap();
    until(&client, "/api/v1/namespaces", "shop", |n| {
        n["spec"]["finalizers"] == json!(["example.com/billing"])
    })
    .await;
    assert_eq!(get(&client, inside).await["items"], json!([]));
    let mut shop = get(&client, "/api/v1/namespaces/shop").await;
    shop["spec"]["finalizers"] = json!([]);
    client.put("/api/v1/namespaces/shop/finalize", &shop).await.unwrap().expect_status(200).unwrap();
    server
        .kubectl(&["patch", "namespace", "shop", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#])
        .await
        .unwrap();
    until_gone(&client, "/api/v1/namespaces", "shop").await;

    server.terminate().await.unwrap();
    let after = place.all("/registry/").await;
    // Of a profile that is not served.
    let left = "/registry/pods/shop/cart-0";
    assert_eq!(after.get(left), keys.get(left), "{left}");
    for gone in [
        "/registry/services/specs/shop/cart",
        "/registry/old.example.com/tools/hammer",
        "/registry/taken.example.com/sprockets/default/rear",
        "/registry/namespaces/shop",
    ] {
        assert!(!after.contains_key(gone), "{gone}");
    }
}

fn keys(of: &[(&str, &str)]) -> Keys {
    of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned().into())).collect()
}

/// A registration as an older server stored it, with these names accepted.
fn relics(plural: &str, kind: &str) -> (String, bytes::Bytes) {
    let names = json!({"plural": plural, "singular": plural, "kind": kind, "listKind": format!("{kind}List"), "shortNames": ["re"]});
    let condition = |kind| json!({"type": kind, "status": "True", "lastTransitionTime": "2019-03-04T05:06:08Z", "reason": "R", "message": "m"});
    let name = format!("{plural}.old.example.com");
    let registration = json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1",
        "metadata": {"name": name, "uid": format!("uid-of-{plural}"), "generation": 1, "creationTimestamp": "2019-03-04T05:06:07Z"},
        "spec": {"group": "old.example.com", "version": "v1", "names": names, "scope": "Namespaced", "preserveUnknownFields": false,
            "validation": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
        "status": {"conditions": [condition("NamesAccepted"), condition("Established")], "acceptedNames": names, "storedVersions": ["v1"]},
    });
    (format!("{REGISTRATIONS}{name}"), format!("{registration}\n").into())
}

/// An unreadable value fails the lists that it belongs to, with its key, as upstream; nothing else. It can be deleted with
/// an explicit option.
#[tokio::test]
async fn what_nobody_can_read_is_named_and_holds_nothing_else_up() {
    let mut stored = keys(&[
        ("/registry/old.example.com/relics/default/broken", "{\"apiVersion\":\"old.example.com/v1\",\n"),
        (
            "/registry/old.example.com/relics/default/fine",
            "{\"apiVersion\":\"old.example.com/v1\",\"kind\":\"Relic\",\"metadata\":{\"name\":\"fine\",\"namespace\":\"default\",\"uid\":\"u\"}}\n",
        ),
        (
            "/registry/old.example.com/relics/kube-public/fine",
            "{\"apiVersion\":\"old.example.com/v1\",\"kind\":\"Relic\",\"metadata\":{\"name\":\"fine\",\"namespace\":\"kube-public\",\"uid\":\"v\"}}\n",
        ),
        ("/registry/namespaces/broken", "k8s\0\x0a\x0c"),
    ]);
    stored.extend([relics("relics", "Relic")]);
    stored.insert(format!("{REGISTRATIONS}broken.old.example.com"), "{]".into());
    stored.insert(
        format!("{REGISTRATIONS}strange.old.example.com"),
        r#"{"kind":"Strange","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"strange.old.example.com"}}"#.into(),
    );
    let place = Place::folder();
    let server = place.over(&stored, &[]).await;
    let client = server.client().unwrap();
    let relics = "/apis/old.example.com/v1/namespaces/default/relics";
    let key = "/registry/old.example.com/relics/default/broken";
    let told = format!(
        "failed to read one or more relics.old.example.com from the storage: StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision="
    );
    for path in [relics, "/apis/old.example.com/v1/relics", &format!("{relics}?labelSelector=a%3Db&limit=1")]
    {
        let refusal = refused(client.get(path).await, 500, "StorageReadError", &told);
        assert_eq!(refusal["details"]["name"], "list");
        assert_eq!(refusal["details"]["causes"][0]["field"], key);
        assert_eq!(refusal["details"]["causes"][0]["reason"], "UnexpectedServerResponse");
    }
    refused(client.get(&format!("{relics}/broken")).await, 500, "InternalError", "corrupt object");
    let elsewhere = get(&client, "/apis/old.example.com/v1/namespaces/kube-public/relics").await;
    assert_eq!(names(&elsewhere), ["fine"]);
    assert_eq!(names(&get(&client, &format!("{relics}?fieldSelector=metadata.name%3Dfine")).await), ["fine"]);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    client.merge_patch(&format!("{relics}/fine"), &labels).await.unwrap().expect_status(200).unwrap();
    let undecodable = "object not decodable revision=";
    refused(client.merge_patch(&format!("{relics}/broken"), &labels).await, 500, "", undecodable);

    let anyway = "ignoreStoreReadErrorWithClusterBreakingPotential=true";
    let decodable = "unsafe deletion is not allowed because the object is decodable from storage";
    refused(client.delete(&format!("{relics}/fine?{anyway}")).await, 409, "Conflict", decodable);
    refused(client.delete(&format!("{relics}/broken")).await, 500, "InternalError", "corrupt object");
    client.delete(&format!("{relics}/broken?dryRun=All&{anyway}")).await.unwrap().expect_status(200).unwrap();
    client.delete(&format!("{relics}/broken?{anyway}")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(names(&get(&client, relics).await), ["fine"]);
    refused(
        client.delete(&format!("{relics}?{anyway}")).await,
        422,
        "Invalid",
        "is not allowed with DELETECOLLECTION",
    );

    // The registry serves the others, and a namespace that can be read goes.
    let refusal = refused(client.get(CRDS).await, 500, "StorageReadError", "(and 1 more)");
    let fields: Vec<&Value> =
        refusal["details"]["causes"].as_array().unwrap().iter().map(|c| &c["field"]).collect();
    assert_eq!(
        fields,
        ["broken", "strange"]
            .map(|n| format!("{REGISTRATIONS}{n}.old.example.com"))
            .iter()
            .collect::<Vec<_>>()
    );
    let strange = format!("{CRDS}/strange.old.example.com");
    refused(client.get(&strange).await, 500, "InternalError", r#"no kind "Strange" is registered"#);
    for (path, name) in [
        (CRDS, "broken.old.example.com"),
        (CRDS, "strange.old.example.com"),
        ("/api/v1/namespaces", "broken"),
    ] {
        refused(client.get(path).await, 500, "StorageReadError", name);
        client.delete(&format!("{path}/{name}?{anyway}")).await.unwrap().expect_status(200).unwrap();
    }
    assert_eq!(names(&get(&client, CRDS).await), ["relics.old.example.com"]);
    client.delete(&format!("{CRDS}/relics.old.example.com")).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, CRDS, "relics.old.example.com").await;
}

/// Its objects cannot be drained, and would come back with the next namespace of the name.
#[tokio::test]
async fn a_namespace_waits_for_a_registration_that_nobody_can_read() {
    let mut stored = keys(&[
        (
            "/registry/namespaces/shop",
            r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop","uid":"uid-of-shop"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#,
        ),
        ("/registry/old.example.com/broken/shop/thing", "{}"),
        // Of another namespace, whose name begins so.
        ("/registry/old.example.com/empty/shopping/thing", "{}"),
    ]);
    stored.insert(format!("{REGISTRATIONS}broken.old.example.com"), "{]".into());
    stored.insert(format!("{REGISTRATIONS}empty.old.example.com"), "{]".into());
    let place = Place::folder();
    let server = place.over(&stored, &[]).await;
    let client = server.client().unwrap();
    let path = "/api/v1/namespaces";
    client.delete(&format!("{path}/shop")).await.unwrap().expect_status(200).unwrap();
    let told = |namespace: &Value| {
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions
            .iter()
            .filter(|c| c["status"] == "True")
            .map(|c| c["message"].to_string())
            .collect::<String>()
    };
    let waits = until(&client, path, "shop", |shop| told(shop).contains("broken.old.example.com")).await;
    assert!(!told(&waits).contains("empty.old.example.com"), "{waits}");
    assert_eq!(waits["status"]["phase"], "Terminating");

    let anyway = "ignoreStoreReadErrorWithClusterBreakingPotential=true";
    let registration = format!("{CRDS}/broken.old.example.com?{anyway}");
    client.delete(&registration).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, path, "shop").await;
}

/// A watch that comes upon what nobody can read says so, and what comes after it.
#[tokio::test]
async fn a_watch_tells_what_nobody_can_read() {
    let place = Place::of_etcd().await;
    let server = place.over(&[relics("relics", "Relic")].into_iter().collect(), &[]).await;
    let client = server.client().unwrap();
    let relics = "/apis/old.example.com/v1/namespaces/default/relics";
    let relic = |name| object("old.example.com", "Relic", name, json!({}));
    client.post(relics, &relic("before")).await.unwrap().expect_status(201).unwrap();
    let mut watch = client.watch(&format!("{relics}?watch=true")).await.unwrap();
    assert_eq!(watch.event().await.unwrap()["object"]["metadata"]["name"], "before");
    let key = "/registry/old.example.com/relics/default/broken";
    place.put(&keys(&[(key, "{]")])).await;
    let error = watch.event().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!((&error["object"]["kind"], &error["object"]["code"]), (&json!("Status"), &json!(500)));
    assert!(error["object"]["message"].as_str().unwrap().contains(key), "{error}");

    // The others are served as ever, and watches that begin behind it.
    let after = client.post(relics, &relic("after")).await.unwrap().expect_status(201).unwrap().json();
    let from = revision(&after) - 1;
    let mut watch = client.watch(&format!("{relics}?watch=true&resourceVersion={from}")).await.unwrap();
    assert_eq!(watch.event().await.unwrap()["object"]["metadata"]["name"], "after");
    // Its removal shows a state that nobody can read: whoever watches has to list again, and so can go on after it.
    let selected = format!("{relics}?watch=true&labelSelector=a%3Db&resourceVersion={from}");
    let mut selected = client.watch(&selected).await.unwrap();
    let anyway = "ignoreStoreReadErrorWithClusterBreakingPotential=true";
    client.delete(&format!("{relics}/broken?{anyway}")).await.unwrap().expect_status(200).unwrap();
    for watch in [&mut watch, &mut selected] {
        let error = watch.event().await.unwrap();
        assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)), "{error}");
        assert!(watch.next_in_time().await.unwrap().is_none());
    }
    assert_eq!(names(&get(&client, relics).await), ["after", "before"]);
}

/// A prefix has no ledger, and may have two registrations that hold one name: both keep it, and nobody else gets it.
#[tokio::test]
async fn two_that_hold_one_name_both_keep_it() {
    let stored: Keys = [relics("relics", "Relic"), relics("remains", "Remains")].into_iter().collect();
    let place = Place::folder();
    let server = place.over(&stored, &[]).await;
    let client = server.client().unwrap();
    let newcomer = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "reds.old.example.com"},
        "spec": {"group": "old.example.com", "scope": "Cluster", "names": {"plural": "reds", "kind": "Red", "shortNames": ["re"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    client.post(CRDS, &newcomer).await.unwrap().expect_status(201).unwrap();
    let judged = until(&client, CRDS, "reds.old.example.com", |crd| {
        crd["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == "NamesAccepted"))
    })
    .await;
    assert_eq!(judged["status"]["acceptedNames"]["shortNames"], Value::Null);
    for (plural, kind) in [("relics", "Relic"), ("remains", "Remains")] {
        let crd = get(&client, &format!("{CRDS}/{plural}.old.example.com")).await;
        assert_eq!(crd["status"]["acceptedNames"]["shortNames"], json!(["re"]));
        assert_eq!(crd["status"]["conditions"][0]["lastTransitionTime"], "2019-03-04T05:06:08Z");
        let path = format!("/apis/old.example.com/v1/namespaces/default/{plural}");
        let body = object("old.example.com", kind, "a", json!({}));
        client.post(&path, &body).await.unwrap().expect_status(201).unwrap();
    }
}

//! Conversion by the rules of a registration (`conversion.kindom.dev/rules`), without a webhook.

use kindom_integration::{Client, Server};
use serde_json::{Value, json};

use crate::support::{CRDS, crd, refused, register, revision, until};

const GROUP: &str = "declared.example.com";
const ANNOTATION: &str = "conversion.kindom.dev/rules";
const KEPT: &str = "conversion.kindom.dev/kept";

fn things(version: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/default/things")
}

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

/// v1 has `replicas`, `hosts` and a note; v1beta1 `count`, `host`, and another word for its mode.
fn registration(rules: &Value, storage: &str) -> Value {
    let text = json!({"type": "string"});
    let v1 = json!({
        "replicas": {"type": "integer"}, "hosts": {"type": "array", "items": text, "maxItems": 1},
        "mode": {"type": "string", "enum": ["Enabled", "Disabled"]}, "note": text,
        "ports": {"type": "array", "items": {"type": "object", "properties": {"number": {"type": "integer"}}}},
    });
    let beta = json!({
        "count": {"type": "integer"}, "host": text, "mode": {"type": "string", "enum": ["on", "off"]},
        "ports": {"type": "array", "items": {"type": "object", "properties": {"port": {"type": "integer"}}}},
    });
    let version = |name: &str, spec: &Value| {
        json!({
            "name": name, "served": true, "storage": name == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": spec},
                "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
            }}},
            "subresources": {"status": {}},
        })
    };
    let mut registration = crd(GROUP, "things", "Thing", "Namespaced");
    registration["spec"]["versions"] = json!([version("v1", &v1), version("v1beta1", &beta)]);
    registration["metadata"]["annotations"] = json!({ANNOTATION: rules.to_string()});
    registration
}

fn rules() -> Value {
    json!({"hub": "v1", "versions": {"v1beta1": [
        {"move": ".spec.count", "to": ".spec.replicas"},
        {"wrap": ".spec.host", "to": ".spec.hosts"},
        {"map": ".spec.mode", "values": {"on": "Enabled", "off": "Disabled"}},
        {"move": ".spec.ports[].port", "to": ".spec.ports[].number"},
        {"keep": ".spec.note"},
    ]}})
}

fn thing(version: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

/// B-20, B-21: an object is the same through both versions, whichever it is written, watched, applied or stored in.
#[tokio::test]
async fn versions_that_differ_convert_by_declared_rules() {
    let (server, client) = started().await;
    register(&client, &registration(&rules(), "v1")).await;
    let from = revision(&client.get(&things("v1")).await.unwrap().json());
    let path = format!("{}?watch=true&resourceVersion={from}", things("v1beta1"));
    let mut watch = client.watch(&path).await.unwrap();

    let old = json!({"count": 3, "host": "a", "mode": "on", "ports": [{"port": 80}]});
    let new = json!({"replicas": 3, "hosts": ["a"], "mode": "Enabled", "ports": [{"number": 80}]});
    let created = client.post(&things("v1beta1"), &thing("v1beta1", "one", &old)).await.unwrap();
    assert_eq!(created.expect_status(201).unwrap().at("/spec"), old);
    let at = |version: &str| format!("{}/one", things(version));
    assert_eq!(client.get(&at("v1")).await.unwrap().at("/spec"), new);
    assert_eq!(watch.event().await.unwrap()["object"]["spec"], old);

    // A field that the old version lacks survives its writes.
    let noted = client.merge_patch(&at("v1"), &json!({"spec": {"note": "of v1"}})).await.unwrap();
    noted.expect_status(200).unwrap();
    let event = watch.event().await.unwrap();
    assert_eq!(event["object"]["metadata"]["annotations"][KEPT], r#"{".spec.note":"of v1"}"#);
    let mut written = client.get(&at("v1beta1")).await.unwrap().json();
    assert_eq!(written["spec"], old);
    written["spec"]["count"] = json!(4);
    client.put(&at("v1beta1"), &written).await.unwrap().expect_status(200).unwrap();
    let both = client.get(&at("v1")).await.unwrap();
    assert_eq!((both.at("/spec/replicas"), both.at("/spec/note")), (json!(4), json!("of v1")));
    assert_eq!(both.at("/metadata/annotations"), Value::Null);
    assert_eq!(both.at("/metadata/generation"), 3);
    // Nothing changes by what is the same in the other version.
    let again = client.get(&at("v1beta1")).await.unwrap().json();
    let same = client.put(&at("v1beta1"), &again).await.unwrap().expect_status(200).unwrap();
    assert_eq!(same.at("/metadata/resourceVersion"), both.at("/metadata/resourceVersion"));

    // kubectl applies to one version, and another manager to the other.
    let applied = thing("v1beta1", "two", &json!({"count": 1})).to_string();
    let apply = ["apply", "--server-side", "-f", "-"];
    server.kubectl_with(&apply, &applied).await.unwrap().success().unwrap();
    let applied = thing("v1", "two", &json!({"replicas": 2})).to_string();
    let conflict = server
        .kubectl_with(&["apply", "--server-side", "--field-manager=b", "-f", "-"], &applied)
        .await
        .unwrap();
    assert!(conflict.stderr.contains("conflict with \"kubectl\""), "{conflict:?}");
    assert!(conflict.stderr.contains(".spec.count"), "{conflict:?}");
    let ready = json!({"status": {"ready": 1}});
    let status = client.merge_patch(&format!("{}/two/status", things("v1beta1")), &ready).await.unwrap();
    assert_eq!(status.expect_status(200).unwrap().at("/status/ready"), 1);

    // The other version is stored: what there is, is rewritten, and stays the same.
    let other = registration(&rules(), "v1beta1");
    let name = format!("things.{GROUP}");
    let versions = json!({"spec": {"versions": other["spec"]["versions"]}});
    client.merge_patch(&format!("{CRDS}/{name}"), &versions).await.unwrap().expect_status(200).unwrap();
    until(&client, CRDS, &name, |crd| crd["status"]["storedVersions"] == json!(["v1beta1"])).await;
    let both = client.get(&at("v1")).await.unwrap();
    assert_eq!((both.at("/spec/replicas"), both.at("/spec/note")), (json!(4), json!("of v1")));
    let listed = client.get(&things("v1")).await.unwrap().json();
    let replicas: Vec<&Value> =
        listed["items"].as_array().unwrap().iter().map(|item| &item["spec"]["replicas"]).collect();
    assert_eq!(replicas, [&json!(4), &json!(1)]);
}

/// B-20: rules that lose something are refused, with the object that loses it; so is a change of the schema that makes them do so.
#[tokio::test]
async fn rules_that_lose_are_refused() {
    let (_server, client) = started().await;
    let mut lossy = rules();
    lossy["versions"]["v1beta1"].as_array_mut().unwrap().pop();
    let status = refused(
        client.post(CRDS, &registration(&lossy, "v1")).await,
        422,
        "Invalid",
        "loses .spec.note of v1",
    );
    assert_eq!(status["details"]["causes"][0]["field"], format!("metadata.annotations[{ANNOTATION}]"));
    let unknown = json!({"hub": "v1", "versions": {"v1beta1": [{"rename": ".spec.a", "to": ".spec.b"}]}});
    let why = "versions.v1beta1[0] must have exactly one of move, wrap, unwrap, map, default, constant, keep, keepOwn, cel";
    refused(client.post(CRDS, &registration(&unknown, "v1")).await, 422, "Invalid", why);
    let mut webhook = registration(&rules(), "v1");
    webhook["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"}}});
    refused(client.post(CRDS, &webhook).await, 422, "Invalid", "needs spec.conversion.strategy None");

    register(&client, &registration(&rules(), "v1")).await;
    let add = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/more",
        "value": {"type": "string"}}]);
    let name = format!("{CRDS}/things.{GROUP}");
    refused(client.json_patch(&name, &add).await, 422, "Invalid", "loses .spec.more of v1");
}

/// v1 has `waitSeconds`; v1beta1 has `wait`, a duration in words, and `tier`. Both have lists of names.
fn waiting(to_version: &str) -> Value {
    let text = json!({"type": "string"});
    let named = json!({"type": "array", "items": {"type": "object", "properties": {"n": text}}});
    let version = |name: &str, spec: &Value| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({"name": name, "served": true, "storage": name == "v1", "schema": schema})
    };
    let seconds = json!({"type": "integer", "minimum": 0, "maximum": 9_000_000});
    let v1 = json!({"type": "object", "properties": {"waitSeconds": seconds, "l": named}});
    let tier = json!({"type": "string", "enum": ["old"], "default": "old"});
    let beta =
        json!({"type": "object", "default": {}, "properties": {"wait": text, "l": named, "tier": tier}});
    let mut registration = crd(GROUP, "things", "Thing", "Namespaced");
    registration["spec"]["versions"] = json!([version("v1", &v1), version("v1beta1", &beta)]);
    let rules = json!({"hub": "v1", "versions": {"v1beta1": [
        {"cel": ".spec.wait", "to": ".spec.waitSeconds", "toHub": "duration(self).getSeconds()", "toVersion": to_version},
        {"constant": ".spec.tier", "value": "old"},
        {"cel": ".spec.l[].n", "toHub": "self", "toVersion": "self == 'unsayable' ? self.x : self"},
    ]}});
    registration["metadata"]["annotations"] = json!({ANNOTATION: rules.to_string()});
    registration
}

/// B-20: expressions convert what no other rule does; they are tested, which the registration says, and an object that they have no value for
/// is not written.
#[tokio::test]
async fn values_convert_by_expressions() {
    let (server, client) = started().await;
    for (wrong, why) in [
        ("string(self) + 'm'", "loses .spec.wait"),
        ("self.text", "has no form in v1beta1: versions.v1beta1[0] of "),
        ("self +", "versions.v1beta1[0].toVersion: ERROR: <input>:1:7: Syntax error"),
    ] {
        refused(client.post(CRDS, &waiting(wrong)).await, 422, "Invalid", why);
    }
    let mut honest = waiting("string(self) + 's'");
    honest["status"] = json!({"conditions": [{"type": "ConversionTested", "status": "False"}]});
    register(&client, &honest).await;
    let name = format!("things.{GROUP}");
    let tested = |crd: &Value| {
        let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "ConversionTested")
    };
    let registered = client.get(&format!("{CRDS}/{name}")).await.unwrap().json();
    let condition = tested(&registered).unwrap();
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("Sampled")));
    assert!(condition["message"].as_str().unwrap().contains("that is a test and no proof"), "{condition}");

    let applied = thing("v1beta1", "one", &json!({"wait": "1m30s"})).to_string();
    server.kubectl_with(&["apply", "--server-side", "-f", "-"], &applied).await.unwrap().success().unwrap();
    let at = |version: &str| format!("{}/one", things(version));
    assert_eq!(client.get(&at("v1")).await.unwrap().at("/spec"), json!({"waitSeconds": 90}));
    assert_eq!(client.get(&at("v1beta1")).await.unwrap().at("/spec"), json!({"wait": "90s", "tier": "old"}));
    let longer = client.merge_patch(&at("v1"), &json!({"spec": {"waitSeconds": 91}})).await.unwrap();
    longer.expect_status(200).unwrap();
    let listed = client.get(&things("v1beta1")).await.unwrap();
    assert_eq!(listed.at("/items/0/spec/wait"), json!("91s"));

    let soon = thing("v1beta1", "two", &json!({"wait": "soon"}));
    let why = "Thing two of version v1beta1 has no form in version v1: versions.v1beta1[0] of ";
    refused(client.post(&things("v1beta1"), &soon).await, 400, "BadRequest", why);
    client.get(&format!("{}/two", things("v1"))).await.unwrap().expect_status(404).unwrap();
    assert_eq!(client.get(&things("v1beta1")).await.unwrap().at("/items").as_array().unwrap().len(), 1);

    // An object that nobody could read there is not written through any version.
    let why =
        "has no form in version v1beta1: versions.v1beta1[2] of conversion.kindom.dev/rules: no such key: x";
    let unsayable = json!({"l": [{"n": "a"}, {"n": "unsayable"}]});
    refused(
        client.post(&things("v1"), &thing("v1", "three", &unsayable)).await,
        400,
        "BadRequest",
        &format!("Thing three of version v1 {why}"),
    );
    let patched = client.merge_patch(&at("v1"), &json!({"spec": unsayable})).await;
    refused(patched, 400, "BadRequest", &format!("Thing one of version v1 {why}"));
    client.get(&things("v1beta1")).await.unwrap().expect_status(200).unwrap();

    let none = json!({"metadata": {"annotations": {ANNOTATION: null}}});
    client.merge_patch(&format!("{CRDS}/{name}"), &none).await.unwrap().expect_status(200).unwrap();
    until(&client, CRDS, &name, |crd| tested(crd).is_none()).await;
    // One that was there before the rules can still be changed, and go.
    let mut old = thing("v1", "old", &unsayable);
    old["metadata"]["finalizers"] = json!(["example.com/wait"]);
    client.post(&things("v1"), &old).await.unwrap().expect_status(201).unwrap();
    let again = json!({"metadata": {"annotations": honest["metadata"]["annotations"]}});
    client.merge_patch(&format!("{CRDS}/{name}"), &again).await.unwrap().expect_status(200).unwrap();
    // Reads follow the registration; on etcd they may be behind its writer.
    until(&client, CRDS, &name, |crd| tested(crd).is_some()).await;
    let failed = client.get(&things("v1beta1")).await.unwrap();
    assert_eq!(failed.status, 500, "{}", failed.text());
    let old = format!("{}/old", things("v1"));
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    client.merge_patch(&old, &labels).await.unwrap().expect_status(200).unwrap();
    client.delete(&old).await.unwrap().expect_status(200).unwrap();
    let last = json!({"metadata": {"finalizers": null}});
    client.merge_patch(&old, &last).await.unwrap().expect_status(200).unwrap();
    client.get(&things("v1beta1")).await.unwrap().expect_status(200).unwrap();
}

/// Takes away what Go's types show or leave out by their tags: zeros of any kind.
fn without_zeros(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(without_zeros);
            let zeros = [json!(null), json!(false), json!(0), json!(""), json!([]), json!({})];
            map.retain(|_, value| !zeros.contains(value));
        }
        Value::Array(items) => items.iter_mut().for_each(without_zeros),
        _ => {}
    }
}

/// B-20: what rules make of an object is what the projects' own code in Go makes of it (`integration/expectations/conversions`), but that
/// rules keep in an annotation what the code loses.
#[tokio::test]
async fn kinds_of_public_projects_convert_as_by_their_own_code() {
    let (_server, client) = started().await;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("expectations/conversions");
    let mut kinds = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path.to_str().and_then(|path| path.strip_suffix(".expected.json")) else { continue };
        let recorded: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let text = |field: &str| recorded[field].as_str().unwrap().to_owned();
        let (group, plural, hub) = (text("group"), text("plural"), text("hub"));
        let mut registration = crd(&group, &plural, &text("kind"), "Namespaced");
        let schemas = recorded["schemas"].as_object().unwrap().iter();
        registration["spec"]["versions"] = schemas
            .map(|(version, schema)| {
                let schema = json!({"openAPIV3Schema": schema});
                json!({"name": version, "served": true, "storage": *version == hub, "schema": schema})
            })
            .collect();
        let rules = std::fs::read_to_string(format!("{name}.rules.json")).unwrap();
        registration["metadata"]["annotations"] =
            json!({ANNOTATION: rules, "api-approved.kubernetes.io": "unapproved, a test"});
        register(&client, &registration).await;
        for (place, conversion) in recorded["conversions"].as_array().unwrap().iter().enumerate() {
            let at = |version: &Value| {
                format!("/apis/{group}/{}/namespaces/default/{plural}", version.as_str().unwrap())
            };
            let mut object = conversion["object"].clone();
            object["metadata"]["name"] = json!(format!("made-{place}"));
            let created = client.post(&at(&conversion["from"]), &object).await.unwrap();
            created.expect_status(201).unwrap();
            let shown = client.get(&format!("{}/made-{place}", at(&conversion["to"]))).await.unwrap().json();
            let (mut made, mut wanted) = (json!({}), json!({}));
            for field in ["spec", "status", "scopes"] {
                made[field] = shown[field].clone();
                wanted[field] = conversion["converted"][field].clone();
            }
            without_zeros(&mut made);
            without_zeros(&mut wanted);
            assert_eq!(made, wanted, "{name}: {object}");
        }
        kinds += 1;
    }
    assert_eq!(kinds, 7);
}

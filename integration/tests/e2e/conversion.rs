//! One object through the versions of its type (B-20, B-21), and the one form in which it is stored (B-30, B-31).

use kindom_integration::{Client, Random, Server, count};
use serde_json::{Map, Value, json};

use crate::support::{CRDS, condition, crd, names, object, refused, register, revision, until};

const GROUP: &str = "forms.example.com";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v2"];

fn things(version: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/default/things")
}

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

fn registration(schema: &Value, storage: &str) -> Value {
    let mut registration = crd(GROUP, "things", "Thing", "Namespaced");
    let version = |name: &&str| {
        json!({
            "name": name, "served": true, "storage": *name == storage,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        })
    };
    registration["spec"]["versions"] = VERSIONS.iter().map(version).collect();
    registration
}

/// Trees that the same number always gives.
struct Trees(Random);

impl Trees {
    fn value(&mut self, depth: u64) -> Value {
        const SCALARS: [&str; 13] = [
            "0",
            "1.5",
            "1e300",
            "9007199254740993",
            "-9223372036854775808",
            "true",
            "false",
            "null",
            "\"\"",
            "\"\\u0000\\ud83d\\ude00 \\u2028<&>\"",
            "\"2020-01-01T00:00:00Z\"",
            "\"1\"",
            "1e21",
        ];
        match self.0.below(if depth == 0 { 1 } else { 4 }) {
            0 | 1 => serde_json::from_str(self.0.text(&SCALARS)).unwrap(),
            2 => (0..self.0.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object(self.map(depth - 1)),
        }
    }

    fn map(&mut self, depth: u64) -> Map<String, Value> {
        const KEYS: [&str; 8] = ["a", "apiVersion", "kind", "metadata", "spec", "", "a.b/c~d", "$patch"];
        let count = self.0.below(4);
        let mut map = Map::new();
        for _ in 0..count {
            map.insert(self.0.text(&KEYS).to_owned(), self.value(depth));
        }
        map
    }
}

/// An object as another version shows it.
fn shown(object: &Value, version: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(format!("{GROUP}/{version}"));
    object
}

/// The part of an object that does not change when it is stored again in another version.
fn content(object: &Value) -> Value {
    let mut object = shown(object, "any");
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    object
}

/// B-20, B-21: an object reads the same through every version, and reading and writing it back through one version changes
/// nothing, whichever version it is stored in.
#[tokio::test]
async fn versions_convert_back_and_forth_without_loss() {
    let (_server, client) = started().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    register(&client, &registration(&schema, "v1")).await;
    let mut trees = Trees(Random::new(7));
    let mut objects = Vec::new();
    for number in 0..count(30, 300) {
        let version = VERSIONS[number % VERSIONS.len()];
        let mut body = object(GROUP, "Thing", &format!("t{number}"), Value::Object(trees.map(3)));
        for field in ["data", "status"] {
            body[field] = Value::Object(trees.map(2));
        }
        body["metadata"]["annotations"] = json!({"example.com/n": "\u{1} \u{1f600}"});
        let created = client.post(&things(version), &shown(&body, version)).await.unwrap();
        let created = created.expect_status(201).unwrap().json();
        for field in ["spec", "data"] {
            assert_eq!(created[field], body[field], "{field} through {version}");
        }
        assert_eq!(created["metadata"]["annotations"], body["metadata"]["annotations"], "through {version}");
        assert_eq!(created.get("status"), None, "a create loses the status");
        // The status comes through another version than the rest.
        let (other, name) = (VERSIONS[(number + 1) % VERSIONS.len()], &created["metadata"]["name"]);
        let path = format!("{}/{}/status", things(other), name.as_str().unwrap());
        let written = client.merge_patch(&path, &json!({"status": {"was": null}})).await.unwrap();
        let mut written = written.expect_status(200).unwrap().json();
        written["status"] = body["status"].clone();
        let written = client.put(&path, &written).await.unwrap().expect_status(200).unwrap().json();
        assert_eq!(written["status"], body["status"], "through {other}");
        assert_eq!(content(&written)["spec"], content(&created)["spec"], "through {other}");
        objects.push(written);
    }
    for storage in ["v1", "v2", "v1beta1"] {
        if storage != "v1" {
            let path = format!("{CRDS}/things.{GROUP}");
            let versions = &registration(&schema, storage)["spec"]["versions"];
            let patch = json!({"spec": {"versions": versions}});
            client.merge_patch(&path, &patch).await.unwrap().expect_status(200).unwrap();
            let done = |crd: &Value| crd["status"]["storedVersions"] == json!([storage]);
            until(&client, CRDS, &format!("things.{GROUP}"), done).await;
        }
        for object in &mut objects {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            let now =
                client.get(&format!("{}/{name}", things("v1"))).await.unwrap().expect_status(200).unwrap();
            assert_eq!(content(&now.json()), content(object), "stored in {storage}");
            *object = now.json();
            for version in VERSIONS {
                let path = format!("{}/{name}", things(version));
                let read = client.get(&path).await.unwrap().expect_status(200).unwrap().json();
                assert_eq!(read, shown(object, version), "stored in {storage}, read through {version}");
                for path in [&path, &format!("{path}/status")] {
                    let back = client.put(path, &read).await.unwrap().expect_status(200).unwrap().json();
                    assert_eq!(back, read, "stored in {storage}, written back through {path}");
                }
            }
        }
    }
}

/// B-20: writing back a registration through a face as that face shows it changes nothing, on the other faces either.
#[tokio::test]
async fn faces_convert_back_and_forth_without_loss() {
    const FACES: [&str; 3] = [
        CRDS,
        "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions",
        "/apis/apiextension.k8s.io/v1beta1/thirdpartyresources",
    ];
    let (_server, client) = started().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut plain = registration(&schema, "v1beta1");
    plain["metadata"]["annotations"] = json!({"example.com/a": "b"});
    plain["spec"]["versions"][2]["additionalPrinterColumns"] =
        json!([{"name": "A", "type": "string", "jsonPath": ".spec.a", "priority": 1}]);
    plain["spec"]["versions"][1]["selectableFields"] = json!([]);
    register(&client, &plain).await;
    let older = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("jars.{GROUP}")},
        "spec": {
            "group": GROUP, "version": "v1", "scope": "Cluster", "names": {"plural": "jars", "kind": "Jar"},
            "validation": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
            "subResources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
        },
    });
    client.post(FACES[1], &older).await.unwrap().expect_status(201).unwrap();
    let proposed = json!({
        "apiVersion": "apiextension.k8s.io/v1beta1", "kind": "ThirdPartyResource",
        "metadata": {"name": format!("oxen.{GROUP}")},
        "spec": {"group": GROUP, "version": "v1", "Names": {"plural": "oxen", "kind": "Ox", "shortNames": ["o"]}},
    });
    client.post(FACES[2], &proposed).await.unwrap().expect_status(201).unwrap();
    for plural in ["things", "jars", "oxen"] {
        let name = format!("{plural}.{GROUP}");
        condition(&client, &name, "Established", "True").await;
        let mut all = Vec::new();
        for face in FACES {
            all.push(client.get(&format!("{face}/{name}")).await.unwrap().expect_status(200).unwrap().json());
        }
        for (face, shown) in FACES.iter().zip(&all) {
            for path in [format!("{face}/{name}"), format!("{face}/{name}/status")] {
                let back = client.put(&path, shown).await.unwrap().expect_status(200).unwrap().json();
                assert_eq!(back, *shown, "{path}");
            }
            for (face, shown) in FACES.iter().zip(&all) {
                let now = client.get(&format!("{face}/{name}")).await.unwrap().expect_status(200).unwrap();
                assert_eq!(now.json(), *shown, "{face}/{name}");
            }
        }
    }
}

fn with_lists(annotation: Option<&str>) -> Value {
    let items = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "note": {"type": "string"},
    }});
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "hosts": set,
            "plain": {"type": "array", "items": {"type": "string"}},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "items": items,
                      "x-kubernetes-list-map-keys": ["port", "protocol"]},
        }},
        "status": {"type": "object", "properties": {"seen": set}},
    }});
    let mut registration = registration(&schema, "v1");
    if let Some(annotation) = annotation {
        registration["metadata"]["annotations"] = json!({"kindom.dev/sorted-lists": annotation});
    }
    registration
}

/// B-30, B-31: a registration names lists whose order means nothing, and they are stored, shown and watched in one order,
/// through whichever version they are written; who only writes another order changes nothing.
#[tokio::test]
async fn lists_without_an_order_are_stored_in_one() {
    let (_server, client) = started().await;
    register(&client, &with_lists(Some(".spec.hosts, .spec.ports,.status.seen"))).await;
    let from = revision(&client.get(&things("v2")).await.unwrap().json());
    let mut watch =
        client.watch(&format!("{}?watch=true&resourceVersion={from}", things("v2"))).await.unwrap();
    let ports = json!([{"port": 80, "protocol": "UDP"}, {"port": 443}, {"port": 80, "note": "n"}]);
    let spec = json!({"hosts": ["b", "a", "B"], "plain": ["2", "1"], "ports": ports});
    let created = client.post(&things("v1"), &object(GROUP, "Thing", "one", spec.clone())).await.unwrap();
    let created = created.expect_status(201).unwrap().json();
    let sorted = json!({
        "hosts": ["B", "a", "b"],
        "plain": ["2", "1"],
        "ports": [
            {"port": 80, "protocol": "TCP", "note": "n"},
            {"port": 80, "protocol": "UDP"},
            {"port": 443, "protocol": "TCP"},
        ],
    });
    assert_eq!(created["spec"], sorted);
    let path = |version: &str| format!("{}/one", things(version));
    for version in VERSIONS {
        assert_eq!(client.get(&path(version)).await.unwrap().at("/spec"), sorted, "{version}");
    }
    assert_eq!(watch.event().await.unwrap()["object"]["spec"], sorted);

    // Another order is no change, of whichever version.
    for version in ["v1", "v2"] {
        let mut again = shown(&created, version);
        again["spec"] = spec.clone();
        let written = client.put(&path(version), &again).await.unwrap().expect_status(200).unwrap().json();
        assert_eq!(written, shown(&created, version));
    }
    let reversed =
        client.merge_patch(&path("v2"), &json!({"spec": {"hosts": ["b", "a", "B"]}})).await.unwrap();
    assert_eq!(reversed.expect_status(200).unwrap().json(), shown(&created, "v2"));
    // Lists with an order keep it.
    let plain = client.merge_patch(&path("v1"), &json!({"spec": {"plain": ["1", "2"]}})).await.unwrap();
    assert_eq!(plain.at("/metadata/generation"), 2);
    let added = json!([{"op": "add", "path": "/spec/hosts/-", "value": "A"}]);
    let added = client.json_patch(&path("v2"), &added).await.unwrap().expect_status(200).unwrap();
    assert_eq!(
        (added.at("/spec/hosts"), added.at("/metadata/generation")),
        (json!(["A", "B", "a", "b"]), json!(3))
    );
    let seen =
        client.merge_patch(&format!("{}/status", path("v1")), &json!({"status": {"seen": ["y", "x"]}})).await;
    assert_eq!(seen.unwrap().expect_status(200).unwrap().at("/status/seen"), json!(["x", "y"]));
}

/// B-30: an annotation that does not fit is refused where it is set; one that was there stays, and does nothing.
#[tokio::test]
async fn lists_with_an_order_are_not_sorted() {
    let (_server, client) = started().await;
    let name = format!("things.{GROUP}");
    for (said, why) in [
        (
            ".spec.plain",
            ".spec.plain is no list of x-kubernetes-list-type set or map in the storage version v1",
        ),
        (".spec.none", ".spec.none is no list"),
        ("spec.hosts", "must be paths of fields"),
        (".spec.hosts,.spec.hosts", ".spec.hosts stands twice"),
        ("", "must be paths of fields"),
    ] {
        let answer = client.post(CRDS, &with_lists(Some(said))).await;
        let status = refused(answer, 422, "Invalid", why);
        assert_eq!(status["details"]["causes"][0]["field"], "metadata.annotations[kindom.dev/sorted-lists]");
    }
    register(&client, &with_lists(None)).await;
    let unsorted = json!({"hosts": ["b", "a"]});
    let one = object(GROUP, "Thing", "one", unsorted.clone());
    assert_eq!(
        client.post(&things("v1"), &one).await.unwrap().expect_status(201).unwrap().at("/spec"),
        unsorted
    );

    let annotate = json!({"metadata": {"annotations": {"kindom.dev/sorted-lists": ".spec.hosts"}}});
    let path = format!("{CRDS}/{name}");
    client.merge_patch(&path, &annotate).await.unwrap().expect_status(200).unwrap();
    // A stored object is sorted with its next write, whose generation is that of a change or of none.
    let at = format!("{}/one", things("v1"));
    assert_eq!(client.get(&at).await.unwrap().at("/spec"), unsorted);
    let labelled = client.merge_patch(&at, &json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
    let labelled = labelled.expect_status(200).unwrap();
    assert_eq!(
        (labelled.at("/spec/hosts"), labelled.at("/metadata/generation")),
        (json!(["a", "b"]), json!(1))
    );

    // The list gets an order: the annotation stays, without effect.
    let mut ordered = with_lists(None)["spec"]["versions"].clone();
    for version in ordered.as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["hosts"]["x-kubernetes-list-type"] =
            json!("atomic");
    }
    client
        .merge_patch(&path, &json!({"spec": {"versions": ordered}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    let two = object(GROUP, "Thing", "two", unsorted.clone());
    assert_eq!(
        client.post(&things("v1"), &two).await.unwrap().expect_status(201).unwrap().at("/spec"),
        unsorted
    );
    assert_eq!(names(&client.get(&things("v1")).await.unwrap().json()), ["one", "two"]);
}

/// B-26: `metadata.initializers`, which Kubernetes had until 1.15, is accepted and dropped, and the client gets a warning.
#[tokio::test]
async fn initializers_are_dropped_with_a_warning() {
    let (_server, client) = started().await;
    register(&client, &with_lists(None)).await;
    let told = [r#"299 - "unknown field \"metadata.initializers\"""#];
    let initializers = json!({"pending": [{"name": "example.com/first"}]});
    let mut one = object(GROUP, "Thing", "one", json!({}));
    one["metadata"]["initializers"] = initializers.clone();
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "barn"}});
    namespace["metadata"]["initializers"] = initializers.clone();
    let mut type_ = crd(GROUP, "jars", "Jar", "Namespaced");
    type_["metadata"]["initializers"] = initializers.clone();
    let oxen = json!({
        "apiVersion": "apiextension.k8s.io/v1beta1", "kind": "ThirdPartyResource",
        "metadata": {"name": format!("oxen.{GROUP}"), "initializers": initializers},
        "spec": {"group": GROUP, "version": "v1", "names": {"plural": "oxen", "kind": "Ox"}},
    });
    let tprs = "/apis/apiextension.k8s.io/v1beta1/thirdpartyresources";
    for (path, body) in
        [(things("v1").as_str(), &one), ("/api/v1/namespaces", &namespace), (CRDS, &type_), (tprs, &oxen)]
    {
        let strict = client.post(&format!("{path}?fieldValidation=Strict"), body).await;
        refused(strict, 400, "BadRequest", "unknown field \"metadata.initializers\"");
        let created = client.post(path, body).await.unwrap().expect_status(201).unwrap();
        assert_eq!(created.warnings(), told, "{path}");
        let name = body["metadata"]["name"].as_str().unwrap();
        let stored = client.get(&format!("{path}/{name}")).await.unwrap().expect_status(200).unwrap();
        assert!(stored.json()["metadata"].get("initializers").is_none(), "{path}");
    }
    // Through a patch too; a client that asks for no validation gets no warning.
    let patch = json!({"metadata": {"initializers": initializers}});
    let path = format!("{}/one", things("v1"));
    let patched = client.merge_patch(&path, &patch).await.unwrap().expect_status(200).unwrap();
    assert_eq!(patched.warnings(), told);
    let silent = client.merge_patch(&format!("{path}?fieldValidation=Ignore"), &patch).await.unwrap();
    assert!(silent.expect_status(200).unwrap().warnings().is_empty());
}

/// An object that one version lets in, and whose embedded metadata another one cannot have.
#[tokio::test]
async fn malformed_metadata_takes_no_list_of_another_version_down() {
    let (_server, client) = started().await;
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut embedded = free.clone();
    embedded["x-kubernetes-embedded-resource"] = json!(true);
    let schema = |spec: &Value| json!({"type": "object", "properties": {"spec": spec}});
    let mut registration = registration(&schema(&embedded), "v1");
    registration["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema(&free);
    register(&client, &registration).await;
    let thing = |name: &str, metadata: Value| {
        object(GROUP, "Thing", name, json!({"apiVersion": "v1", "kind": "K", "metadata": metadata}))
    };
    let malformed = json!({"labels": 5, "name": "n", "x": 1});
    for (name, metadata) in [("a", malformed.clone()), ("b", json!(null)), ("c", json!("text"))] {
        client.post(&things("v1"), &thing(name, metadata)).await.unwrap().expect_status(201).unwrap();
    }
    let list = client.get(&things("v2")).await.unwrap().expect_status(200).unwrap().json();
    let items = list["items"].as_array().unwrap().iter();
    let shown: Vec<Value> = items.map(|item| item["spec"]["metadata"].clone()).collect();
    assert_eq!(shown, [json!({"name": "n"}), json!({}), json!("text")]);
    let stored = client.get(&format!("{}/a", things("v1"))).await.unwrap().json();
    assert_eq!(stored["spec"]["metadata"], malformed);
    // An object that is written through that version has to be well formed there.
    let mut new = thing("new", malformed);
    new["apiVersion"] = json!(format!("{GROUP}/v2"));
    client.post(&things("v2"), &new).await.unwrap().expect_status(400).unwrap();
}

/// B-30: values are stored and shown in the forms that the registration names, whichever way they are written; another writing of the same is
/// no change, and the form is what the schema has to allow.
#[tokio::test]
async fn values_are_stored_in_their_canonical_forms() {
    let (server, client) = started().await;
    let forms = |forms: &Value| {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "host": {"type": "string", "maxLength": 8}, "memory": {"x-kubernetes-int-or-string": true},
            "tags": {"type": "array", "minItems": 2, "items": {"type": "string"}},
            "options": {"type": "object", "additionalProperties": {"type": "string"}},
        }}}});
        let mut registration = registration(&schema, "v1");
        registration["metadata"]["annotations"] = json!({"kindom.dev/canonical-forms": forms.to_string()});
        registration
    };
    for (wrong, why) in [
        (
            json!({".spec.host": "upper"}),
            ".spec.host: \"upper\" is none of trimmed, lowercase, quantity, unique, no-empty-map",
        ),
        (json!({".spec.tags": "trimmed"}), ".spec.tags is no text in version v1"),
        (json!({".metadata.name": "trimmed"}), "must not be in apiVersion, kind or metadata"),
    ] {
        let status = refused(client.post(CRDS, &forms(&wrong)).await, 422, "Invalid", why);
        let field = "metadata.annotations[kindom.dev/canonical-forms]";
        assert_eq!(status["details"]["causes"][0]["field"], field);
    }
    register(
        &client,
        &forms(&json!({".spec.host": ["trimmed", "lowercase"], ".spec.memory": "quantity",
        ".spec.tags": "unique", ".spec.options": "no-empty-map"})),
    )
    .await;
    let sent = json!({"host": " Web ", "memory": "1024Mi", "tags": ["b", "a", "b"], "options": {}});
    let stored = json!({"host": "web", "memory": "1Gi", "tags": ["b", "a"]});
    let created = client.post(&things("v1"), &object(GROUP, "Thing", "one", sent.clone())).await.unwrap();
    let created = created.expect_status(201).unwrap().json();
    assert_eq!(created["spec"], stored);
    let path = |version: &str| format!("{}/one", things(version));
    for version in ["v1", "v2"] {
        let patched = client.merge_patch(&path(version), &json!({"spec": sent})).await.unwrap();
        assert_eq!(patched.expect_status(200).unwrap().json(), shown(&created, version));
    }
    let changed = client.merge_patch(&path("v2"), &json!({"spec": {"host": "X"}})).await.unwrap();
    let changed = changed.expect_status(200).unwrap();
    assert_eq!((changed.at("/spec/host"), changed.at("/metadata/generation")), (json!("x"), json!(2)));
    let applied = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Thing",
        "metadata": {"name": "two", "namespace": "default"}, "spec": sent});
    let apply = ["apply", "--server-side", "-f", "-"];
    for _ in 0..2 {
        server.kubectl_with(&apply, &applied.to_string()).await.unwrap().success().unwrap();
        let two = client.get(&format!("{}/two", things("v1"))).await.unwrap();
        assert_eq!((two.at("/spec"), two.at("/metadata/generation")), (stored.clone(), json!(1)));
    }
    // The form has to be valid, too.
    let one = json!({"spec": {"tags": ["a", "a"]}});
    let status = refused(client.merge_patch(&path("v1"), &one).await, 422, "Invalid", "spec.tags");
    assert_eq!(status["details"]["causes"][0]["field"], "spec.tags");
    let short = object(GROUP, "Thing", "three", json!({"host": "         A"}));
    client.post(&things("v1"), &short).await.unwrap().expect_status(201).unwrap();
    let long = object(GROUP, "Thing", "four", json!({"host": " ABCDEFGHI"}));
    refused(client.post(&things("v1"), &long).await, 422, "Invalid", "spec.host: Too long");
}

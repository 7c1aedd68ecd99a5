//! Subresources that a registration declares: parts of an object with endpoints of their own, and endpoints of other programs (B-52,
//! S-37).

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kindom_integration::{Answer, Client, Random, Server, ServerOptions, count};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::authority::Authority;

use crate::support::{CRDS, crd, eventually, object, refused, register, until};

const GROUP: &str = "shop.example.com";
const ORDERS: &str = "/apis/shop.example.com/v1/namespaces/default/orders";
const ANNOTATION: &str = "kindom.dev/subresources";

fn orders(subresources: &Value) -> Value {
    let mut registration = crd(GROUP, "orders", "Order", "Namespaced");
    registration["metadata"]["annotations"] = json!({ANNOTATION: subresources.to_string()});
    let v1 = &mut registration["spec"]["versions"][0];
    v1["subresources"] = json!({"status": {}});
    v1["additionalPrinterColumns"] = json!([
        {"name": "Approved", "type": "boolean", "jsonPath": ".spec.approved"},
        {"name": "Price", "type": "integer", "jsonPath": ".spec.price"},
    ]);
    v1["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["price"], "properties": {
            "price": {"type": "integer", "maximum": 1000}, "secret": {"type": "string"},
            "approved": {"type": "boolean"}, "approver": {"type": "string", "default": "nobody"},
            "size": {"type": "object", "properties": {"cpu": {"type": "integer"}, "memory": {"type": "integer"}}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "frozen": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": {"type": "integer"}}},
        }},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "seen": {"type": "integer"}}},
    }});
    registration
}

fn declared() -> Value {
    json!({
        "approval": {"writes": [".spec.approved", ".spec.approver"], "reads": [".spec.price"], "exclusive": true,
            "schema": {"properties": {"spec": {"if": {"properties": {"approved": {"const": true}}, "required": ["approved"]},
                "then": {"properties": {"price": {"maximum": 100}}}}}}},
        "resize": {"writes": [".spec.size"]},
        "sight": {"writes": [".status.seen"], "exclusive": true},
        "price": {"reads": [".spec.price"]},
        "loose": {"writes": [".spec.any.deep"]},
    })
}

fn order() -> Value {
    let mut order = object(GROUP, "Order", "one", json!({"price": 50, "secret": "s3cret", "approved": true}));
    order["metadata"]["labels"] = json!({"secret": "s3cret"});
    order
}

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &orders(&declared())).await;
    (server, client)
}

fn one(subresource: &str) -> String {
    match subresource {
        "" => format!("{ORDERS}/one"),
        subresource => format!("{ORDERS}/one/{subresource}"),
    }
}

async fn read(client: &Client, subresource: &str) -> Value {
    client.get(&one(subresource)).await.unwrap().expect_status(200).unwrap().json()
}

async fn applied(client: &Client, path: &str, configuration: &Value) -> Answer {
    let request = client.request("PATCH", path);
    request.body("application/apply-patch+yaml", configuration.to_string()).send().await.unwrap()
}

/// The managers of an object: by whom, through what.
fn managers(object: &Value) -> Vec<(String, String, Value)> {
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries.iter().map(|e| (text(e, "manager"), text(e, "subresource"), e["fieldsV1"].clone())).collect()
}

/// B-52: a part shows and writes its fields alone, and who writes them elsewhere leaves them as they are.
#[tokio::test]
async fn a_part_of_an_object_has_an_endpoint_of_its_own() {
    let (server, client) = started().await;
    let created = client.post(ORDERS, &order()).await.unwrap().expect_status(201).unwrap().json();
    // What is the part's alone is not created, and has its default.
    assert_eq!(created["spec"], json!({"price": 50, "secret": "s3cret", "approver": "nobody"}));
    let shown = read(&client, "approval").await;
    assert_eq!(shown["spec"], json!({"price": 50, "approver": "nobody"}));
    assert!(!shown.to_string().contains("s3cret"), "{shown}");
    let names: Vec<&String> = shown["metadata"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["creationTimestamp", "generation", "name", "namespace", "resourceVersion", "uid"]);

    // PUT with what was read, and more that does not count.
    let mut approved = shown.clone();
    approved["spec"] = json!({"approved": true, "price": 1, "secret": "other", "approver": "ann"});
    approved["metadata"]["labels"] = json!({"a": "b"});
    let answer = client.put(&one("approval"), &approved).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(answer["spec"], json!({"approved": true, "price": 50, "approver": "ann"}));
    let stored = read(&client, "").await;
    let spec = json!({"price": 50, "secret": "s3cret", "approved": true, "approver": "ann"});
    assert_eq!((&stored["spec"], &stored["metadata"]["labels"]), (&spec, &order()["metadata"]["labels"]));
    assert_eq!(stored["metadata"]["generation"], 2);
    let through: Vec<_> =
        managers(&stored).into_iter().filter(|(_, through, _)| through == "approval").collect();
    let [(_, _, fields)] = through.as_slice() else { panic!("{through:?}") };
    assert_eq!(*fields, json!({"f:spec": {"f:approved": {}, "f:approver": {}}}));
    // It is based on a state that is not there any more.
    refused(client.put(&one("approval"), &approved).await, 409, "Conflict", "the object has been modified");
    // And what is left out goes, or gets its default.
    let mut withdrawn = answer.clone();
    withdrawn["spec"] = json!({});
    let answer = client.put(&one("approval"), &withdrawn).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(answer["spec"], json!({"price": 50, "approver": "nobody"}));

    // Elsewhere they stay as they are: by PUT, a patch, an apply, and the status.
    client
        .merge_patch(&one("approval"), &json!({"spec": {"approved": true}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    let mut put = read(&client, "").await;
    put["spec"] = json!({"price": 60, "approved": false, "approver": "eve"});
    let put = client.put(&one(""), &put).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(put["spec"], json!({"price": 60, "approved": true, "approver": "nobody"}));
    let patch = json!([{"op": "remove", "path": "/spec/approved"}, {"op": "replace", "path": "/spec/price", "value": 70}]);
    let patched = client.json_patch(&one(""), &patch).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(patched["spec"], json!({"price": 70, "approved": true, "approver": "nobody"}));
    let applied = json!({"apiVersion": "shop.example.com/v1", "kind": "Order", "metadata": {"name": "one", "namespace": "default"},
        "spec": {"price": 70, "approved": false}});
    server
        .kubectl_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &applied.to_string())
        .await
        .unwrap()
        .success()
        .unwrap();
    let after = read(&client, "").await;
    assert_eq!(after["spec"], patched["spec"]);
    let of_apply = managers(&after).into_iter().find(|(manager, _, _)| manager == "kubectl").unwrap();
    assert_eq!(of_apply.2, json!({"f:spec": {"f:price": {}}}));
    let status = json!({"status": {"phase": "x", "seen": 9}});
    client.merge_patch(&one("status"), &status).await.unwrap().expect_status(200).unwrap();
    assert_eq!(read(&client, "").await["status"], json!({"phase": "x"}));
    let seen = client.merge_patch(&one("sight"), &status).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(seen["status"], json!({"seen": 9}));
    let both = read(&client, "").await;
    assert_eq!(both["status"], json!({"phase": "x", "seen": 9}));
    assert_eq!(both["metadata"]["generation"], after["metadata"]["generation"], "the status is not counted");
}

/// kubectl knows a subresource of this name; discovery and OpenAPI have all.
#[tokio::test]
async fn clients_find_declared_subresources() {
    let (server, client) = started().await;
    client.post(ORDERS, &order()).await.unwrap().expect_status(201).unwrap();
    let patch = ["patch", "order", "one", "--subresource=resize", "--type=merge", "-p"];
    let patch: Vec<&str> = patch.into_iter().chain([r#"{"spec":{"size":{"cpu":2},"price":1}}"#]).collect();
    server.kubectl(&patch).await.unwrap();
    let shown = server.kubectl(&["get", "order", "one", "--subresource=resize", "-o", "json"]).await.unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["spec"], json!({"size": {"cpu": 2}}));
    assert_eq!(read(&client, "").await["spec"]["price"], 50);
    let table =
        server.kubectl(&["get", "order", "one", "--subresource=resize", "--no-headers"]).await.unwrap();
    assert_eq!(table.split_whitespace().collect::<Vec<_>>(), ["one"]);
    let raw = server.kubectl(&["get", "--raw", &one("price")]).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&raw).unwrap()["spec"], json!({"price": 50}));

    let resources = client.get("/apis/shop.example.com/v1").await.unwrap().json();
    let listed = resources["resources"].as_array().unwrap().iter();
    let listed: Vec<_> =
        listed.map(|of| (of["name"].clone(), of["kind"].clone(), of["verbs"].clone())).collect();
    let verbs = json!(["get", "patch", "update"]);
    for (name, verbs) in [("approval", &verbs), ("resize", &verbs), ("price", &json!(["get"]))] {
        assert!(
            listed.contains(&(json!(format!("orders/{name}")), json!("Order"), verbs.clone())),
            "{listed:?}"
        );
    }
    let document = client.get("/openapi/v3/apis/shop.example.com/v1").await.unwrap().json();
    let path = |name: &str| {
        let path = format!("/apis/shop.example.com/v1/namespaces/{{namespace}}/orders/{{name}}/{name}");
        let operations = document["paths"][path].as_object().cloned().unwrap_or_default();
        operations.keys().filter(|key| *key != "parameters").cloned().collect::<Vec<_>>()
    };
    assert_eq!(
        (path("approval"), path("price")),
        (["get", "patch", "put"].map(str::to_owned).to_vec(), vec!["get".to_owned()])
    );

    refused(client.put(&one("price"), &order()).await, 405, "MethodNotAllowed", "update is not supported");
    refused(client.delete(&one("approval")).await, 405, "MethodNotAllowed", "");
    refused(client.get(&one("refund")).await, 404, "NotFound", "");
    refused(
        client.get(&format!("{ORDERS}/two/approval")).await,
        404,
        "NotFound",
        "orders.shop.example.com \"two\" not found",
    );
    refused(
        client.merge_patch(&format!("{ORDERS}/two/approval"), &json!({})).await,
        404,
        "NotFound",
        "\"two\" not found",
    );
}

/// A client that may patch a part alone learns nothing else by it, and changes nothing else.
#[tokio::test]
async fn a_part_is_no_way_to_the_rest() {
    let (_server, client) = started().await;
    client.post(ORDERS, &order()).await.unwrap().expect_status(201).unwrap();
    let before = read(&client, "").await;
    for (patch, code) in [
        (json!([{"op": "test", "path": "/spec/secret", "value": "s3cret"}]), 422),
        (json!([{"op": "test", "path": "/metadata/labels/secret", "value": "s3cret"}]), 422),
        (json!([{"op": "copy", "from": "/spec/secret", "path": "/spec/approver"}]), 200),
        (json!([{"op": "move", "from": "/metadata/labels/secret", "path": "/spec/approver"}]), 422),
        (json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]), 200),
        (json!([{"op": "add", "path": "/metadata/finalizers", "value": ["a.b/c"]}]), 200),
        (json!([{"op": "add", "path": "/metadata/deletionTimestamp", "value": "2020-01-01T00:00:00Z"}]), 200),
        (
            json!([{"op": "replace", "path": "/spec", "value": {"secret": "x", "price": 3, "approver": "nobody"}}]),
            200,
        ),
        (json!([{"op": "add", "path": "/status", "value": {"phase": "x", "seen": 1}}]), 200),
    ] {
        client.json_patch(&one("approval"), &patch).await.unwrap().expect_status(code).unwrap();
        assert_eq!(read(&client, "").await, before, "{patch}");
    }
    let apply = |spec: Value| json!({"apiVersion": "shop.example.com/v1", "kind": "Order", "metadata": {"name": "one", "labels": {"a": "b"}}, "spec": spec});
    let path = format!("{}?fieldManager=m&force=true", one("approval"));
    let sent = apply(json!({"approved": true, "secret": "x", "price": 7}));
    let answer = applied(&client, &path, &sent).await.expect_status(200).unwrap().json();
    assert_eq!(answer["spec"], json!({"approved": true, "price": 50, "approver": "nobody"}));
    let after = read(&client, "").await;
    assert_eq!(after["spec"]["secret"], "s3cret");
    let mine = managers(&after).into_iter().find(|(manager, _, _)| manager == "m").unwrap();
    assert_eq!((mine.1.as_str(), mine.2), ("approval", json!({"f:spec": {"f:approved": {}}})));
    // What is not applied any more goes.
    applied(&client, &path, &apply(json!({}))).await.expect_status(200).unwrap();
    assert_eq!(read(&client, "").await["spec"], before["spec"]);

    // Its own schema, and the version's.
    client.merge_patch(&one(""), &json!({"spec": {"price": 500}})).await.unwrap().expect_status(200).unwrap();
    let dear = client.merge_patch(&one("approval"), &json!({"spec": {"approved": true}})).await;
    refused(dear, 422, "Invalid", "spec.price");
    refused(
        client.merge_patch(&one("approval"), &json!({"spec": {"approved": 1}})).await,
        422,
        "Invalid",
        "spec.approved",
    );
    // A value without the maps around it, from either side.
    client
        .merge_patch(&one("loose"), &json!({"spec": {"any": {"deep": 1}}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    assert_eq!(read(&client, "loose").await["spec"], json!({"any": {"deep": 1}}));
}

/// A client that writes a part is told nothing of what was wrong in the rest of the object before, and no value of a new mistake there.
#[tokio::test]
async fn errors_and_warnings_tell_of_the_part_alone() {
    let (_server, client) = started().await;
    client.post(ORDERS, &order()).await.unwrap().expect_status(201).unwrap();
    let path = format!("{CRDS}/orders.{GROUP}");
    let mut registration = client.get(&path).await.unwrap().json();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    *registration.pointer_mut(&format!("{spec}/properties/secret")).unwrap() =
        json!({"type": "string", "pattern": "^x$"});
    registration.pointer_mut(spec).unwrap()["x-kubernetes-validations"] = json!([
        {"rule": "!(has(self.approved) && self.approved && has(self.size))", "messageExpression": "'no: ' + self.secret"},
    ]);
    client.put(&path, &registration).await.unwrap().expect_status(200).unwrap();
    until(&client, ORDERS, "one", |_| true).await;
    let patch = async |subresource: &str, spec: Value| {
        client.merge_patch(&one(subresource), &json!({"spec": spec})).await.unwrap()
    };
    let labelled = client.merge_patch(&one(""), &json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
    assert!(labelled.warnings().is_empty() && labelled.status == 200, "{}", labelled.text());
    let approved = patch("approval", json!({"approved": true})).await.expect_status(200).unwrap();
    assert!(!format!("{:?}", approved.headers).contains("s3cret"), "{:?}", approved.headers);
    let status = refused(
        Ok(patch("resize", json!({"size": {"cpu": 1}})).await),
        422,
        "Invalid",
        "the rest of the object would be invalid",
    );
    assert!(!status.to_string().contains("s3cret"), "{status}");
    refused(Ok(patch("", json!({"size": {"cpu": 1}})).await), 422, "Invalid", "no: s3cret");
}

/// Defaults are those of the whole object: a part has none of its own, and what is new around its fields has them.
#[tokio::test]
async fn defaults_are_filled_in_the_whole_object() {
    let (_server, client) = started().await;
    let mut registration =
        orders(&json!({"resize": {"writes": [".spec.size.cpu"], "reads": [".spec.price"]},
        "kept": {"writes": [".spec.size.disk"], "exclusive": true}}));
    registration["metadata"]["name"] = json!("carts.shop.example.com");
    registration["spec"]["names"] =
        json!({"plural": "carts", "singular": "cart", "kind": "Cart", "listKind": "CartList"});
    let number = json!({"type": "integer"});
    registration["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] = json!({
        "type": "object", "default": {"cpu": 4}, "properties": {"cpu": number, "memory": {"type": "integer", "default": 5}, "disk": number},
    });
    register(&client, &registration).await;
    let carts = "/apis/shop.example.com/v1/namespaces/default/carts";
    let cart = |name: &str, size: Value| object(GROUP, "Cart", name, json!({"price": 1, "size": size}));
    client
        .post(carts, &cart("some", json!({"memory": 2, "disk": 7})))
        .await
        .unwrap()
        .expect_status(201)
        .unwrap();
    let read = async |name: &str| client.get(&format!("{carts}/{name}")).await.unwrap().json();
    let before = read("some").await;
    assert_eq!(before["spec"]["size"], json!({"memory": 2}));
    // Nothing is changed by a patch of nothing, nor by the part as it was read.
    let part = format!("{carts}/some/resize");
    client.merge_patch(&part, &json!({})).await.unwrap().expect_status(200).unwrap();
    let shown = client.get(&part).await.unwrap().json();
    client.put(&part, &shown).await.unwrap().expect_status(200).unwrap();
    assert_eq!(read("some").await, before);
    let clear = json!([{"op": "remove", "path": "/spec/size"}]);
    client.json_patch(&format!("{carts}/some"), &clear).await.unwrap().expect_status(200).unwrap();
    assert_eq!(read("some").await["spec"]["size"], json!({"cpu": 4, "memory": 5}));
    client
        .merge_patch(&format!("{carts}/some/kept"), &json!({"spec": {"size": {"disk": 1}}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    let mut bare = read("some").await;
    bare["spec"] = json!({"price": 2, "size": {}});
    client.put(&format!("{carts}/some"), &bare).await.unwrap().expect_status(200).unwrap();
    assert_eq!(read("some").await["spec"]["size"], json!({"memory": 5, "disk": 1}));
}

/// A declaration that changes changes what is served; who applies through a part first owns nothing but that part.
#[tokio::test]
async fn declarations_change_in_place() {
    let (_server, client) = started().await;
    client.post(ORDERS, &order()).await.unwrap().expect_status(201).unwrap();
    let untracked = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]);
    client.json_patch(&one(""), &untracked).await.unwrap().expect_status(200).unwrap();
    let sent = json!({"apiVersion": "shop.example.com/v1", "kind": "Order", "spec": {"approved": true}});
    let path = format!("{}?fieldManager=m", one("approval"));
    applied(&client, &path, &sent).await.expect_status(200).unwrap();
    let entries = managers(&read(&client, "").await);
    let through = |wanted: &str| {
        entries
            .iter()
            .filter(|(_, through, _)| through == wanted)
            .map(|(by, _, _)| by.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!((through("approval"), through("")), (vec!["m"], vec!["before-first-apply"]), "{entries:?}");

    let path = format!("{CRDS}/orders.{GROUP}");
    let declare = async |declared: Value| {
        let patch = json!({"metadata": {"annotations": {ANNOTATION: declared.to_string()}}});
        client.merge_patch(&path, &patch).await.unwrap()
    };
    // What was approval's is now another's, and anybody's.
    declare(json!({"resize": {"writes": [".spec.approved"]}})).await.expect_status(200).unwrap();
    eventually("the part is gone", async || {
        (client.get(&one("approval")).await.unwrap().status == 404).then_some(())
    })
    .await;
    refused(client.merge_patch(&one("approval"), &json!({})).await, 404, "NotFound", "not found");
    let patch = json!({"spec": {"approved": false, "size": {"cpu": 3}}});
    let resized =
        client.merge_patch(&one("resize"), &patch).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(resized["spec"], json!({"approved": false}));
    client
        .merge_patch(&one(""), &json!({"spec": {"approved": true}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    assert_eq!(read(&client, "").await["spec"]["approved"], true);
    // A version that lacks the field is refused, as is a schema.
    let versions = json!([{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/approved"}]);
    refused(
        client.json_patch(&path, &versions).await,
        422,
        "Invalid",
        "resize: .spec.approved is not in the schema of version v1",
    );
}

/// A registration whose declaration is wrong is refused for it.
#[tokio::test]
async fn wrong_declarations_say_what_is_wrong() {
    let (_server, client) = started().await;
    for (wrong, why) in [
        (json!([]), "must be a map of names and declarations"),
        (
            json!({"Approval": {"writes": [".spec.price"]}}),
            "\"Approval\" must be at most 32 lower-case letters",
        ),
        (json!({"status": {"writes": [".spec.price"]}}), "status is declared in spec.versions"),
        (json!({"a": 1}), "a: invalid type: integer `1`, expected struct"),
        (json!({"a": {}}), "a.writes: must have paths, or reads must"),
        (
            json!({"a": {"write": []}}),
            "a: unknown field `write`, expected one of `writes`, `reads`, `exclusive`, `versions`",
        ),
        (json!({"a": {"webhook": {"url": "http://a.b"}}}), "a.webhook.url: Invalid value: \"http\""),
        (
            json!({"a": {"webhook": {"url": "https://a.b/c"}}}),
            "a.webhook: must have no path: requests keep theirs",
        ),
        (
            json!({"a": {"webhook": {}}}),
            "a.webhook: Required value: exactly one of url or service is required",
        ),
        (
            json!({"a": {"webhook": {"url": "https://a.b"}, "verbs": ["list"]}}),
            "a: unknown variant `list`, expected one of `create`",
        ),
        (
            json!({"a": {"webhook": {"url": "https://a.b"}, "writes": [".spec.price"]}}),
            "a.webhook: must be without writes, reads",
        ),
        (
            json!({"a": {"program": true, "webhook": {"url": "https://a.b"}}}),
            "a.program: must be without webhook",
        ),
        (
            json!({"a": {"program": true, "reads": [".spec.price"]}}),
            "a.program: must be without writes, reads",
        ),
        (json!({"a": {"verbs": ["get"]}}), "a.verbs: only an endpoint of a program has them"),
        (json!({"a": {"writes": ["spec"]}}), "a.writes: must be a path such as"),
        (
            json!({"a": {"writes": [".metadata.labels"]}}),
            "a.writes: must not be in apiVersion, kind or metadata",
        ),
        (json!({"a": {"writes": [".spec.list[].x"]}}), "a.writes: must lead to one value: .spec.list[].x"),
        (
            json!({"a": {"writes": [".spec.size"], "reads": [".spec.size.cpu"]}}),
            "a.writes: .spec.size.cpu is named twice, or lies in another path",
        ),
        (json!({"a": {"writes": [".spec.none"]}}), "a: .spec.none is not in the schema of version v1"),
        (json!({"a": {"reads": [".spec.price"], "exclusive": true}}), "a.exclusive: nothing is written"),
        (json!({"a": {"reads": [".spec.price"], "versions": ["v9"]}}), "a.versions: there is no version v9"),
        (json!({"a": {"reads": [".spec.price"], "versions": []}}), "a.versions: must have one"),
        (json!({"a": {"writes": [".spec.price"], "schema": {"type": 1}}}), "a.schema "),
        (json!({"a": {"webhook": {"url": "https://a.b", "caBundle": "%%%"}}}), "a.webhook.caBundle"),
        (
            json!({"a": {"writes": [".spec.price"], "exclusive": true, "versions": ["v1"]}}),
            "a.exclusive: must be served in all versions",
        ),
        (
            json!({"a": {"writes": [".spec.approved"], "exclusive": true}, "b": {"writes": [".spec"]}}),
            "b.writes: .spec is exclusive to a",
        ),
        (
            json!({"a": {"writes": [".spec.frozen.x"]}}),
            "a.writes: .spec.frozen.x lies in an atomic map of version v1",
        ),
        (
            json!({"a": {"writes": [".spec.price"], "exclusive": true}}),
            "a.exclusive: version v1 scales by .spec.price",
        ),
    ] {
        let mut registration = orders(&wrong);
        registration["spec"]["versions"][0]["subresources"]["scale"] =
            json!({"specReplicasPath": ".spec.price", "statusReplicasPath": ".status.seen"});
        let status = refused(client.post(CRDS, &registration).await, 422, "Invalid", why);
        assert_eq!(
            status["details"]["causes"][0]["field"],
            format!("metadata.annotations[{ANNOTATION}]"),
            "{wrong}"
        );
    }
    let mut converted = orders(&json!({"a": {"writes": [".spec.approved"], "exclusive": true}}));
    converted["metadata"]["annotations"]["conversion.kindom.dev/rules"] =
        json!(r#"{"hub": "v1", "versions": {"v2": []}}"#);
    let versions = converted["spec"]["versions"].as_array_mut().unwrap();
    versions.push(versions[0].clone());
    versions[1]["name"] = json!("v2");
    versions[1]["storage"] = json!(false);
    let why = "a.exclusive: versions must not differ in more than apiVersion";
    refused(client.post(CRDS, &converted).await, 422, "Invalid", why);
}

/// Random writes through parts and the object, by their own rules and no others'.
#[tokio::test]
async fn random_writes_change_what_their_endpoint_writes() {
    let (_server, client) = started().await;
    let mut random = Random::new(11);
    client.post(ORDERS, &order()).await.unwrap().expect_status(201).unwrap();
    let mut model = json!({"price": 50, "secret": "s3cret", "approver": "nobody"});
    let mut status = json!({});
    for round in 0..count(150, 3_000) {
        let spec = json!({"price": random.below(90), "approved": random.below(2) == 0, "approver": format!("a{}", random.below(3)),
            "size": {"cpu": random.below(4)}, "secret": format!("s{}", random.below(3))});
        let endpoint = random.text(&["", "approval", "resize", "sight", "status"]);
        let body = json!({"spec": spec, "status": {"seen": round, "phase": format!("p{round}")}});
        let written: &[&str] = match endpoint {
            "" => &["price", "size", "secret"],
            "approval" => &["approved", "approver"],
            "resize" => &["size"],
            _ => &[],
        };
        let answer = match random.below(3) {
            0 => client.merge_patch(&one(endpoint), &body).await.unwrap(),
            1 => {
                let mut whole = read(&client, endpoint).await;
                whole["spec"] = spec.clone();
                whole["status"] = body["status"].clone();
                client.put(&one(endpoint), &whole).await.unwrap()
            }
            _ => {
                let mut sent = body.clone();
                sent["apiVersion"] = json!("shop.example.com/v1");
                sent["kind"] = json!("Order");
                applied(&client, &format!("{}?fieldManager=m&force=true", one(endpoint)), &sent).await
            }
        };
        answer.expect_status(200).unwrap();
        for field in written {
            model[field] = spec[field].clone();
        }
        match endpoint {
            "sight" => status["seen"] = json!(round),
            "status" => status["phase"] = body["status"]["phase"].clone(),
            _ => {}
        }
        let found = read(&client, "").await;
        assert_eq!(found["spec"], model, "{round} {endpoint:?} {body}");
        assert_eq!(found.get("status").unwrap_or(&json!({})), &status, "{round} {endpoint:?} {body}");
    }
}

/// A program that answers with what it was sent, and sends back what comes over an upgraded connection.
pub(crate) struct Echo {
    pub(crate) port: u16,
    pub(crate) bundle: String,
    task: JoinHandle<()>,
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Echo {
    pub(crate) async fn start(name: &str) -> Self {
        let authority = Authority::new("echo");
        let acceptor = authority.acceptor(name);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service_fn(echo));
                    let _ = connection.with_upgrades().await;
                });
            }
        });
        Self { port, bundle: authority.bundle(), task }
    }
}

async fn echo(mut request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.headers().contains_key("upgrade") {
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded.await.unwrap()));
            let _ = tokio::io::copy(&mut from, &mut to).await;
        });
        let answer =
            Response::builder().status(101).header("Upgrade", "websocket").header("Connection", "Upgrade");
        return Ok(answer.body(Full::default()).unwrap());
    }
    let headers: Map<String, Value> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap_or_default())))
        .collect();
    let (method, path) = (request.method().to_string(), request.uri().to_string());
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let shown =
        json!({"method": method, "path": path, "headers": headers, "body": String::from_utf8_lossy(&body)});
    let answer = Response::builder().status(if path.contains("teapot") { 418 } else { 200 });
    Ok(answer.header("Content-Type", "application/json").body(Full::from(shown.to_string())).unwrap())
}

/// Requests for an endpoint of another program go there as they came, from whoever may send them.
#[tokio::test]
async fn another_program_serves_an_endpoint() {
    let echo = Echo::start("echo.default.svc").await;
    let elsewhere = Echo::start("127.0.0.1").await;
    let resolver = format!("default/echo:443=127.0.0.1:{}", echo.port);
    let server = ServerOptions::default().args(&["--service-resolver", &resolver]).start().await.unwrap();
    let client = server.client().unwrap();
    let service = json!({"service": {"namespace": "default", "name": "echo"}, "caBundle": echo.bundle});
    let declared = json!({
        "exec": {"webhook": service, "verbs": ["get", "create"]},
        "log": {"webhook": service, "verbs": ["get", "update", "patch", "delete"]},
        "own": {"program": true},
        "away": {"webhook": {"service": {"namespace": "default", "name": "none"}, "caBundle": echo.bundle}},
        "wrong": {"webhook": {"service": {"namespace": "default", "name": "echo"}, "caBundle": elsewhere.bundle}},
        "url": {"webhook": {"url": format!("https://127.0.0.1:{}", elsewhere.port), "caBundle": elsewhere.bundle}},
    });
    register(&client, &orders(&declared)).await;
    client.post(ORDERS, &order()).await.unwrap().expect_status(201).unwrap();

    let path = format!("{}/deeper?command=ls&x=%2F", one("exec"));
    let sent =
        client.request("POST", &path).header("Authorization", "Bearer x").header("X-Remote-User", "root");
    let sent = sent.header("X-Mine", "stays").body("text/strange", "a body");
    let answer = sent.send().await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(
        (&answer["method"], &answer["path"], &answer["body"]),
        (&json!("POST"), &json!(path), &json!("a body"))
    );
    let headers = &answer["headers"];
    assert_eq!(
        (&headers["x-remote-user"], &headers["x-mine"]),
        (&json!("kubernetes-admin"), &json!("stays"))
    );
    assert_eq!((&headers["content-type"], headers.get("authorization")), (&json!("text/strange"), None));
    for (method, verb) in [("PUT", "update"), ("PATCH", "patch"), ("DELETE", "delete"), ("GET", "get")] {
        let answer =
            client.request(method, &one("log")).send().await.unwrap().expect_status(200).unwrap().json();
        assert_eq!(answer["method"], method);
        if verb != "get" {
            refused(
                client.request(method, &one("exec")).send().await,
                405,
                "MethodNotAllowed",
                "is not supported",
            );
        }
    }
    let raw = server.kubectl(&["get", "--raw", &one("log")]).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&raw).unwrap()["path"], one("log"));
    assert_eq!(client.get(&format!("{}?teapot", one("exec"))).await.unwrap().status, 418);
    assert_eq!(server.anonymous().unwrap().get(&one("exec")).await.unwrap().status, 403);
    refused(client.get(&format!("{ORDERS}/two/exec")).await, 404, "NotFound", "\"two\" not found");
    assert_eq!(client.get(&format!("{}/../../one", one("exec"))).await.unwrap().status, 400);
    for (name, why) in [
        ("own", "this server's program does not serve orders/own"),
        ("away", "service/none in \"default\" is not present"),
        ("wrong", "error trying to reach service"),
        ("url", "which --aggregator-allowed-hosts does not"),
    ] {
        let answer = client.get(&one(name)).await.unwrap();
        assert!(answer.status == 503 && answer.text().contains(why), "{} {}", answer.status, answer.text());
    }

    let mut stream = server.dial().await.unwrap();
    let request = format!(
        "GET {}?command=sh HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        one("exec")
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    let mut until = async |stream: &mut _, end: &str| {
        received.clear();
        while !String::from_utf8_lossy(&received).ends_with(end) {
            let read =
                tokio::time::timeout(Duration::from_secs(30), AsyncReadExt::read_buf(stream, &mut received));
            assert!(read.await.expect(end).unwrap() > 0, "{}", String::from_utf8_lossy(&received));
        }
        String::from_utf8_lossy(&received).into_owned()
    };
    assert!(until(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 101"));
    stream.write_all(b"what I say").await.unwrap();
    assert_eq!(until(&mut stream, "what I say").await, "what I say");

    let document = client.get("/openapi/v3/apis/shop.example.com/v1").await.unwrap().json();
    let connects = &document["paths"]["/apis/shop.example.com/v1/namespaces/{namespace}/orders/{name}/exec"];
    assert_eq!(connects["post"]["operationId"], "connectShopExampleComV1PostNamespacedOrderExec");
    assert_eq!((&connects["get"]["x-kubernetes-action"], connects.get("put")), (&json!("connect"), None));
    let v2 = client.get("/openapi/v2").await.unwrap().json();
    let connects = &v2["paths"]["/apis/shop.example.com/v1/namespaces/{namespace}/orders/{name}/log"];
    assert_eq!(connects["delete"]["produces"], json!(["*/*"]));
}

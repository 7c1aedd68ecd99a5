//! Bad input gets exactly what Kubernetes gives, and loses nothing.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use kindom_integration::{Client, Server, ServerOptions, count, tools};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{CRDS, crd, names, namespace, object, refused, register, revision, until, until_gone};

const GROUP: &str = "hostile.example.com";
const BUGS: &str = "/apis/hostile.example.com/v1/namespaces/default/bugs";
const MIB: usize = 1024 * 1024;
const CONNECTED_AT_ONCE: usize = 50;

async fn server() -> (Server, Client) {
    start(ServerOptions::default()).await
}

async fn start(options: ServerOptions) -> (Server, Client) {
    let server = options.start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "bugs", "Bug", "Namespaced")).await;
    (server, client)
}

fn bug(name: &str) -> Value {
    object(GROUP, "Bug", name, json!({"note": "kept"}))
}

async fn create(client: &Client, name: &str) -> Value {
    client.post(BUGS, &bug(name)).await.unwrap().expect_status(201).unwrap().json()
}

fn at(name: &str) -> String {
    format!("{BUGS}/{name}")
}

/// The server still does its work.
async fn goes_on(client: &Client, name: &str) {
    create(client, name).await;
    client.delete(&at(name)).await.unwrap().expect_status(200).unwrap();
}

#[tokio::test]
async fn malformed_bodies_are_400() {
    let (_server, client) = server().await;
    create(&client, "a").await;
    for (kind, body) in [
        ("application/json", "{\"spec\": "),
        ("application/json", ""),
        ("application/json", "[]"),
        ("application/json", "{} {}"),
        ("application/yaml", "a: [1,"),
        ("application/yaml", "a: b: c"),
    ] {
        let post = client.request("POST", BUGS).body(kind, body).send().await;
        let status = refused(post, 400, "BadRequest", "");
        assert!(!status["message"].as_str().unwrap().is_empty(), "{kind} {body}");
    }
    for kind in ["application/merge-patch+json", "application/json-patch+json"] {
        refused(
            client.request("PATCH", &at("a")).body(kind, "{\"spec\": ").send().await,
            400,
            "BadRequest",
            "",
        );
    }
    goes_on(&client, "b").await;
}

#[tokio::test]
async fn malformed_queries_are_400() {
    let (_server, client) = server().await;
    create(&client, "a").await;
    for query in [
        "limit=many",
        "timeoutSeconds=soon",
        "continue=%21%21",
        "continue=bm90IGEgdG9rZW4",
        "labelSelector=a%3D%3D%3D",
        "labelSelector=a%20in%20b",
        "labelSelector=%2Fx",
        "fieldSelector=metadata.name",
        "fieldSelector=spec.size%3D1",
    ] {
        refused(client.get(&format!("{BUGS}?{query}")).await, 400, "BadRequest", "");
    }
    goes_on(&client, "b").await;
}

#[tokio::test]
async fn a_body_that_contradicts_its_url_is_400() {
    let (_server, client) = server().await;
    let kept = create(&client, "a").await;
    let with = |pointer: &str, value: &str| {
        let mut body = kept.clone();
        *body.pointer_mut(pointer).unwrap() = json!(value);
        body
    };
    for (pointer, value) in [
        ("/metadata/name", "b"),
        ("/metadata/namespace", "kube-public"),
        ("/apiVersion", "hostile.example.com/v2"),
        ("/apiVersion", "other.example.com/v1"),
    ] {
        refused(client.put(&at("a"), &with(pointer, value)).await, 400, "BadRequest", "");
    }
    for (pointer, value) in [("/metadata/namespace", "kube-public"), ("/apiVersion", "v1")] {
        let mut body = with(pointer, value);
        body["metadata"]["name"] = json!("new");
        body["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        refused(client.post(BUGS, &body).await, 400, "BadRequest", "");
    }
    // As a custom resource's kind is part of its validation.
    let message = "kind: Invalid value: \"Bee\": must be Bug";
    refused(client.put(&at("a"), &with("/kind", "Bee")).await, 422, "Invalid", message);
    assert_eq!(client.get(&at("a")).await.unwrap().json(), kept);
}

#[tokio::test]
async fn unknown_and_duplicate_fields_under_strict() {
    let (_server, client) = server().await;
    create(&client, "a").await;
    let strict = format!("{BUGS}?fieldValidation=Strict");
    let mut unknown = bug("b");
    unknown["spec"]["x"] = json!(1);
    let message =
        "Bug in version \"v1\" cannot be handled as a Bug: strict decoding error: unknown field \"spec.x\"";
    refused(client.post(&strict, &unknown).await, 400, "BadRequest", message);

    let double = r#"{"apiVersion":"hostile.example.com/v1","kind":"Bug","metadata":{"name":"b"},"spec":{"note":"1","note":"2"}}"#;
    let post = client.request("POST", &strict).body("application/json", double).send().await;
    refused(post, 400, "BadRequest", "duplicate field \"spec.note\"");

    let patch =
        client.merge_patch(&format!("{}?fieldValidation=Strict", at("a")), &json!({"spec": {"x": 1}})).await;
    let status = refused(patch, 422, "Invalid", "strict decoding error: unknown field \"spec.x\"");
    assert_eq!(status["details"]["causes"][0]["field"], "patch");

    let warned = client.post(&format!("{BUGS}?fieldValidation=Warn"), &unknown).await.unwrap();
    assert_eq!((warned.status, warned.header("warning")), (201, "299 - \"unknown field \\\"spec.x\\\"\""));
    assert_eq!(warned.at("/spec/x"), Value::Null);
    unknown["metadata"]["name"] = json!("c");
    let ignored = client.post(&format!("{BUGS}?fieldValidation=Ignore"), &unknown).await.unwrap();
    assert_eq!((ignored.status, ignored.header("warning")), (201, ""));
}

#[tokio::test]
async fn patches_that_fail_or_are_too_long() {
    let (_server, client) = server().await;
    let kept = create(&client, "a").await;
    let failing = [
        json!([{"op": "replace", "path": "/spec/absent/x", "value": 1}]),
        json!([{"op": "test", "path": "/spec/note", "value": "other"}]),
        json!([{"op": "remove", "path": "/spec/absent"}]),
        json!([{"op": "frobnicate", "path": "/spec/note"}]),
    ];
    for operations in &failing {
        let text = "the server rejected our request due to an error in our request";
        refused(client.json_patch(&at("a"), operations).await, 422, "Invalid", text);
    }
    let many: Vec<Value> =
        (0..=10_000).map(|_| json!({"op": "test", "path": "/spec/note", "value": "kept"})).collect();
    refused(client.json_patch(&at("a"), &json!(many)).await, 413, "RequestEntityTooLarge", "10000");
    let strategic =
        client.request("PATCH", &at("a")).body("application/strategic-merge-patch+json", "{}").send().await;
    let accepted = "accepted media types include: application/json-patch+json, application/merge-patch+json";
    refused(strategic, 415, "UnsupportedMediaType", accepted);
    assert_eq!(client.get(&at("a")).await.unwrap().json(), kept);
}

#[tokio::test]
async fn preconditions_and_versions_that_do_not_hold() {
    let (_server, client) = server().await;
    let kept = create(&client, "a").await;
    let mut versionless = kept.clone();
    versionless["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let status =
        refused(client.put(&at("a"), &versionless).await, 422, "Invalid", "must be specified for an update");
    assert_eq!(status["details"]["causes"][0]["field"], "metadata.resourceVersion");
    refused(
        client.put(&at("none"), &bug("none")).await,
        404,
        "NotFound",
        "bugs.hostile.example.com \"none\" not found",
    );
    refused(
        client.merge_patch(&at("none"), &json!({"spec": {}})).await,
        404,
        "NotFound",
        "\"none\" not found",
    );

    let delete = |preconditions: Value| {
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        let request = client.request("DELETE", &at("a")).json(&body);
        async move { request.send().await }
    };
    refused(
        delete(json!({"uid": "00000000-0000-4000-8000-000000000000"})).await,
        409,
        "Conflict",
        "the UID in the precondition",
    );
    refused(
        delete(json!({"resourceVersion": "1"})).await,
        409,
        "Conflict",
        "the ResourceVersion in the precondition",
    );

    let mut versioned = bug("new");
    versioned["metadata"]["resourceVersion"] = json!("7");
    let message = "resourceVersion should not be set on objects to be created";
    let status = client.post(BUGS, &versioned).await.unwrap();
    assert_eq!(status.status, 500);
    assert!(status.text().contains(message), "{}", status.text());

    client
        .merge_patch(&at("a"), &json!({"spec": {"note": "newer"}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    let stale = "the object has been modified; please apply your changes to the latest version and try again";
    refused(client.put(&at("a"), &kept).await, 409, "Conflict", stale);
    refused(
        client.post(BUGS, &bug("a")).await,
        409,
        "AlreadyExists",
        "bugs.hostile.example.com \"a\" already exists",
    );
}

pub(crate) fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A Bug whose JSON has this many bytes.
fn bug_of(name: &str, bytes: usize) -> String {
    let mut body = bug(name);
    body["spec"]["note"] = json!("");
    let empty = body.to_string().len();
    body["spec"]["note"] = json!("x".repeat(bytes - empty));
    body.to_string()
}

#[tokio::test]
async fn bodies_and_objects_that_are_too_large_are_413() {
    let (server, client) = server().await;
    let text = "Request entity too large: limit is 3145728";
    let huge = bug_of("huge", 3 * MIB + 1);
    let post = client.request("POST", BUGS).body("application/json", huge.clone()).send().await;
    refused(post, 413, "RequestEntityTooLarge", text);
    let post = client
        .request("POST", BUGS)
        .header("content-encoding", "gzip")
        .body("application/json", gzipped(huge.as_bytes()))
        .send()
        .await;
    refused(post, 413, "RequestEntityTooLarge", text);

    // Chunked, so that no Content-Length gives it away.
    let mut stream = server.dial().await.unwrap();
    let head = format!(
        "POST {BUGS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    for chunk in huge.as_bytes().chunks(64 * 1024) {
        let frame = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
        // It may hang up before the end.
        if stream.write_all(&frame).await.is_err() {
            break;
        }
    }
    let _ = stream.write_all(b"0\r\n\r\n").await;
    let mut answer = vec![0; 16 * 1024];
    let read = stream.read(&mut answer).await.unwrap_or(0);
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");

    let object = bug_of("large", 2 * MIB);
    let post = client.request("POST", BUGS).body("application/json", object).send().await;
    assert_eq!(post.unwrap().status, 413);
    let fits =
        client.request("POST", BUGS).body("application/json", bug_of("fits", MIB)).send().await.unwrap();
    assert_eq!(fits.status, 201);
    goes_on(&client, "b").await;
}

#[tokio::test]
async fn media_types_nobody_speaks_are_415_and_406() {
    let (_server, client) = server().await;
    create(&client, "a").await;
    let post = client.request("POST", BUGS).body("text/plain", bug("b").to_string()).send().await;
    let text = "the body of the request was in an unknown format - accepted media types include: ";
    refused(post, 415, "UnsupportedMediaType", text);
    for accept in ["text/html", "application/cbor"] {
        let get = client.request("GET", &at("a")).accept(accept).send().await;
        refused(get, 406, "NotAcceptable", "only the following media types are accepted: ");
    }
    // The Status itself may come in protobuf then.
    let get = client.request("GET", &at("a")).accept("application/vnd.kubernetes.protobuf").send().await;
    assert_eq!(get.unwrap().status, 406);
    let get = client
        .request("GET", &at("a"))
        .accept("application/vnd.kubernetes.protobuf,application/json")
        .send()
        .await;
    assert_eq!(get.unwrap().status, 200);
    // A built-in type's object is no list, nor its list an object; one of a registered type is, to Go, until it is read.
    let as_kind = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1");
    for (path, kind, code, text) in [
        (CRDS, "PartialObjectMetadata", 406, "a list (*apiextensions.CustomResourceDefinitionList)"),
        ("/api/v1/namespaces/default", "PartialObjectMetadataList", 406, "not a list (*core.Namespace)"),
        (BUGS, "PartialObjectMetadata", 406, "a list (*unstructured.UnstructuredList)"),
        (&at("a"), "PartialObjectMetadataList", 500, "content is not a list"),
    ] {
        let answer = client.request("GET", path).accept(&as_kind(kind)).send().await.unwrap();
        let message = answer.at("/message").as_str().unwrap_or_default().to_owned();
        assert!(answer.status == code && message.contains(text), "{path}: {} {message}", answer.status);
    }
    // The Python client sends neither header.
    let post = client.request("POST", BUGS).bare_body(bug("b").to_string()).send().await;
    assert_eq!(post.unwrap().status, 201);
}

#[tokio::test]
async fn unknown_verbs_and_paths() {
    let (_server, client) = server().await;
    create(&client, "a").await;
    for path in [at("a"), BUGS.to_owned()] {
        refused(client.request("BREW", &path).json(&bug("a")).send().await, 405, "MethodNotAllowed", "");
    }
    refused(client.put(BUGS, &bug("a")).await, 400, "BadRequest", "name must be provided");
    refused(client.merge_patch(BUGS, &bug("a")).await, 400, "BadRequest", "name must be provided");
    for path in ["/apis/none.example.com/v1/things", "/apis/hostile.example.com/v2/bugs"] {
        let answer = client.get(path).await.unwrap();
        assert_eq!((answer.status, answer.text().trim_end()), (404, "404 page not found"), "{path}");
        assert!(answer.header("content-type").starts_with("text/plain"), "{path}");
    }
    for path in ["/nothing", "/api/v9", "/apis/hostile.example.com/v1/namespaces/default/bugs/a/b/c"] {
        assert_eq!(client.get(path).await.unwrap().status, 404, "{path}");
    }
    for path in
        ["/apis/hostile.example.com/v1/bugs/%2e%2e/x", &format!("{BUGS}//"), "/%00", "/apis/%ff/v1/bugs"]
    {
        let status = client.get(path).await.unwrap().status;
        assert!(status < 500, "{path} → {status}");
    }
    goes_on(&client, "b").await;
}

#[tokio::test]
async fn namespaces_that_are_missing_or_terminating() {
    let (_server, client) = server().await;
    let inside = |name: &str| format!("/apis/{GROUP}/v1/namespaces/{name}/bugs");
    // Before the object is validated: this one would not pass.
    let bad = object(GROUP, "Bug", "bad", json!({"size": 0}));
    refused(client.post(&inside("none"), &bad).await, 404, "NotFound", "namespaces \"none\" not found");

    namespace(&client, "ending").await;
    let mut held = bug("held");
    held["metadata"]["finalizers"] = json!(["hostile.example.com/hold"]);
    client.post(&inside("ending"), &held).await.unwrap().expect_status(201).unwrap();
    client.delete("/api/v1/namespaces/ending").await.unwrap().expect_status(200).unwrap();
    let message = "unable to create new content in namespace ending because it is being terminated";
    let status = refused(client.post(&inside("ending"), &bad).await, 403, "Forbidden", message);
    assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let open = client
        .merge_patch(&format!("{}/held", inside("ending")), &json!({"metadata": {"finalizers": null}}))
        .await;
    open.unwrap().expect_status(200).unwrap();
    until_gone(&client, "/api/v1/namespaces", "ending").await;

    let message = "this namespace may not be deleted";
    for name in ["default", "kube-system", "kube-public"] {
        refused(client.delete(&format!("/api/v1/namespaces/{name}")).await, 403, "Forbidden", message);
    }
}

#[tokio::test]
async fn credentials_that_are_missing_or_wrong() {
    let (server, client) = server().await;
    let anonymous = server.anonymous().unwrap();
    refused(anonymous.clone().with_token("made-up").get(BUGS).await, 401, "Unauthorized", "Unauthorized");
    refused(
        anonymous.get(BUGS).await,
        403,
        "Forbidden",
        "User \"system:anonymous\" cannot list resource \"bugs\"",
    );
    refused(
        anonymous.get("/metrics").await,
        403,
        "Forbidden",
        "User \"system:anonymous\" cannot get path \"/metrics\"",
    );
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(anonymous.get(path).await.unwrap().status, 200, "{path}");
    }
    // A certificate that our CA did not sign: the handshake succeeds, the request does not.
    let own = rcgen::generate_simple_self_signed(vec!["stranger".to_owned()]).unwrap();
    let stranger = server
        .client_with_certificate(own.cert.pem().as_bytes(), own.signing_key.serialize_pem().as_bytes())
        .unwrap();
    refused(stranger.get(BUGS).await, 401, "Unauthorized", "Unauthorized");
    goes_on(&client, "b").await;
}

#[tokio::test]
async fn a_resource_version_from_the_future_is_504() {
    let (_server, client) = server().await;
    let status = refused(
        client.get(&format!("{BUGS}?resourceVersion=999999999999&resourceVersionMatch=NotOlderThan")).await,
        504,
        "Timeout",
        "Too large resource version: 999999999999",
    );
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    goes_on(&client, "b").await;
}

/// As with upstream's cache, a watch opens, and sends the events after that revision.
#[tokio::test]
async fn a_watch_from_the_future_opens_and_waits() {
    let (_server, client) = server().await;
    let now = revision(&create(&client, "a").await);
    let far = client.watch(&format!("{BUGS}?watch=true&resourceVersion=999999999999&timeoutSeconds=1")).await;
    assert_eq!(far.unwrap().next_in_time().await.unwrap(), None);
    let mut watch = client.watch(&format!("{BUGS}?watch=true&resourceVersion={}", now + 2)).await.unwrap();
    let mut seen = Vec::new();
    for i in 0..4 {
        seen.push(revision(&create(&client, &format!("later-{i}")).await));
    }
    seen.retain(|at| *at > now + 2);
    for at in seen {
        assert_eq!(revision(&watch.event().await.unwrap()["object"]), at);
    }
}

/// The end of the longest is past the last instant of the clock.
#[tokio::test]
async fn a_watch_may_ask_for_any_time() {
    let (_server, client) = server().await;
    create(&client, "a").await;
    for seconds in [i64::MAX, i64::MAX / 1_000_000_000 + 1, i64::MIN] {
        let path = format!("{BUGS}?watch=true&timeoutSeconds={seconds}");
        assert_eq!(client.watch(&path).await.unwrap().event().await.unwrap()["type"], "ADDED", "{seconds}");
    }
}

/// A client that asks to be another user has no more than that user's rights, wherever he goes.
#[tokio::test]
async fn who_asks_to_be_somebody_else_has_his_rights_everywhere() {
    let (_server, client) = server().await;
    create(&client, "a").await;
    let paths = [
        "/",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/hostile.example.com/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/metrics",
        "/nothing/here",
        BUGS,
        CRDS,
        "/apis/hostile.example.com/v1/namespaces/default/bugs/a",
        "/apis/hostile.example.com/v1/bugs?watch=true",
        "/apis/nobody.example.com/v1/things",
        "/debug/actors",
        "/debug/snapshot",
    ];
    const NOBODY: (&str, &str) = ("Impersonate-User", "system:anonymous");
    for path in paths {
        let got = client.request("GET", path).header(NOBODY.0, NOBODY.1).send().await;
        refused(got, 403, "Forbidden", "User \"system:anonymous\" cannot");
        for (header, value) in
            [("impersonate-group", "viewers"), ("Impersonate-Uid", "1"), ("Impersonate-Extra-Scopes", "view")]
        {
            let got = client.request("GET", path).header(header, value).send().await;
            refused(got, 400, "BadRequest", "without impersonating a user name");
        }
    }
    // Kept for the server's masters, whoever else is authenticated.
    for path in ["/debug/actors", "/debug/snapshot"] {
        let got = client.request("GET", path).header("Impersonate-User", "jane").send().await.unwrap();
        assert!(matches!(got.status, 403 | 404), "{path}: {}", got.status);
    }
    let upgrade = client
        .request("GET", "/apis/hostile.example.com/v1/bugs?watch=true")
        .header(NOBODY.0, NOBODY.1)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
        .send()
        .await;
    refused(upgrade, 403, "Forbidden", "User \"system:anonymous\" cannot watch");
    for (method, path) in [
        ("POST", BUGS.to_owned()),
        ("PUT", at("a")),
        ("PATCH", at("a")),
        ("DELETE", at("a")),
        ("DELETE", BUGS.to_owned()),
    ] {
        let sent = client
            .request(method, &path)
            .header(NOBODY.0, NOBODY.1)
            .body("application/merge-patch+json", bug("a").to_string())
            .send()
            .await;
        refused(sent, 403, "Forbidden", "User \"system:anonymous\" cannot");
    }
    assert_eq!(client.get(&at("a")).await.unwrap().status, 200);
    goes_on(&client, "b").await;
}

/// Upstream's cache answers whole, so that no page has to be asked for at a revision that has left the history.
#[tokio::test]
async fn a_list_of_any_state_has_no_pages() {
    let (_server, client) = server().await;
    for name in ["a", "b", "c"] {
        create(&client, name).await;
    }
    // Any state may be one before these, unless a later one was answered already.
    let latest = client.get(BUGS).await.unwrap().json();
    assert_eq!(names(&latest), ["a", "b", "c"]);
    let list = client.get(&format!("{BUGS}?resourceVersion=0&limit=2")).await.unwrap().json();
    assert_eq!(names(&list), ["a", "b", "c"]);
    assert_eq!(list["metadata"]["continue"].as_str().unwrap_or_default(), "");
    assert!(list["metadata"].get("remainingItemCount").is_none());
    for query in ["limit=2", "resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=2"] {
        let list = client.get(&format!("{BUGS}?{query}")).await.unwrap().json();
        assert_eq!(names(&list).len(), if query.contains('0') { 3 } else { 2 }, "{query}");
    }
}

/// Over HTTP/1.1 actix-http refuses a head beyond 128 KiB itself, without a body; Go says so in plain text.
#[tokio::test]
async fn heads_that_are_too_large_are_431() {
    let (server, _) = server().await;
    let client = server.client_http2().unwrap();
    let large = "x".repeat(100_000);
    let mut request = client.request("GET", BUGS);
    for i in 0..11 {
        request = request.header(&format!("x-{i}"), &large);
    }
    let refusal = request.send().await.unwrap();
    assert_eq!((refusal.status, refusal.text().as_str()), (431, ""));
    let accepted = client.request("GET", BUGS).header("x-0", &large).send().await.unwrap();
    assert_eq!(accepted.status, 200);
    // Today's answer over HTTP/1.1 to a large head, and to many headers (docs/decisions/0012-connections.md).
    let begin = format!("GET {BUGS} HTTP/1.1\r\nHost: x\r\n");
    let many: String = (0..200).map(|i| format!("x-{i}: y\r\n")).collect();
    // No byte more than it reads before it answers: unread bytes would reset the connection.
    let large = format!("x-0: {}", "x".repeat(128 * 1024 - begin.len() - 5));
    for headers in [large, format!("{many}\r\n")] {
        let mut stream = server.dial().await.unwrap();
        let head = format!("{begin}{headers}");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut refusal = Vec::new();
        // It closes without TLS's own word for that.
        if let Err(error) = stream.read_to_end(&mut refusal).await {
            assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{error}");
        }
        let refusal = String::from_utf8_lossy(&refusal).to_lowercase();
        assert!(refusal.starts_with("http/1.1 431 "), "{refusal}");
        assert!(refusal.contains("content-length: 0\r\n") && refusal.ends_with("\r\n\r\n"), "{refusal}");
    }
    goes_on(&client, "b").await;
}

#[tokio::test]
async fn the_server_says_its_own_address() {
    let (server, client) = server().await;
    let api = client.request("GET", "/api").header("host", "evil.example.com").send().await.unwrap().json();
    assert_eq!(api["serverAddressByClientCIDRs"][0]["serverAddress"], server.address().unwrap().to_string());
}

#[tokio::test]
async fn nesting_bombs_and_bad_text_are_refused() {
    let (server, client) = server().await;
    let open = |levels: usize| {
        let inner = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        format!(
            r#"{{"apiVersion":"{GROUP}/v1","kind":"Bug","metadata":{{"name":"deep"}},"status":{{"x":{inner}}}}}"#
        )
    };
    let maps = |levels: usize| {
        let inner = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        format!(r#"{{"apiVersion":"{GROUP}/v1","kind":"Bug","metadata":{{"name":"deep"}},"status":{inner}}}"#)
    };
    let mut laughs = format!(
        "apiVersion: {GROUP}/v1\nkind: Bug\nmetadata: {{name: laughs}}\na0: &a0 [lol, lol, lol, lol]\n"
    );
    for i in 1..30 {
        writeln!(laughs, "a{i}: &a{i} [*a{0}, *a{0}, *a{0}, *a{0}]", i - 1).unwrap();
    }
    let flow = format!("status: {}", "{a: ".repeat(100_000));
    let indent: String = (0..5_000).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    let bodies: [(&str, Vec<u8>); 9] = [
        ("application/json", open(200_000).into_bytes()),
        ("application/json", open(1_000_000).into_bytes()),
        ("application/json", "[".repeat(3 * MIB - 1).into_bytes()),
        ("application/json", maps(100_000).into_bytes()),
        ("application/yaml", laughs.into_bytes()),
        ("application/yaml", flow.into_bytes()),
        ("application/yaml", indent.into_bytes()),
        ("application/json", b"{\"apiVersion\":\"\xff\xfe\"}".to_vec()),
        ("application/yaml", b"a: \xc3\x28".to_vec()),
    ];
    for (number, (kind, body)) in bodies.into_iter().enumerate() {
        let post = client.request("POST", BUGS).body(kind, body.clone()).send().await.unwrap();
        assert!((400..500).contains(&post.status), "body {number}: {} {:.300}", post.status, post.text());
        let patch = client
            .request("PATCH", &at("a"))
            .body("application/merge-patch+json", body)
            .send()
            .await
            .unwrap();
        assert!((400..500).contains(&patch.status), "patch {number}: {} {:.300}", patch.status, patch.text());
    }
    // In a registration's schema too.
    let mut bomb = crd(GROUP, "bombs", "Bomb", "Namespaced");
    bomb["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!("here");
    let levels = 2_000;
    let open = r#"{"type":"object","properties":{"a":"#.repeat(levels);
    let schema = format!(r#"{open}{{"type":"string"}}{}"#, "}}".repeat(levels));
    let text = bomb.to_string().replace("\"here\"", &schema);
    let post = client.request("POST", CRDS).body("application/json", text).send().await.unwrap();
    assert!(post.status < 500, "{}", post.status);
    goes_on(&client, "b").await;
    assert!(server.memory_bytes().unwrap() < 512 * 1024 * 1024);
}

#[tokio::test]
async fn half_sent_requests_and_junk_do_not_disturb_others() {
    let (server, client) = server().await;
    let head = format!(
        "POST {BUGS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    );
    let partial: [&[u8]; 5] = [
        b"",
        b"GET /apis HT",
        b"GET /apis HTTP/1.1\r\nHost: x\r\nX: ",
        head.as_bytes(),
        b"\x00\x01\x02\xff\xff\r\n\r\n",
    ];
    let mut open = Vec::new();
    for _ in 0..count(20, 200) {
        for bytes in partial {
            let mut stream = server.dial().await.unwrap();
            stream.write_all(bytes).await.unwrap();
            open.push(stream);
        }
        // Not even a handshake.
        let mut plain = server.dial_tcp().await.unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    }
    goes_on(&client, "meanwhile").await;
    // Half of them hang up in the middle, the others stay.
    open.truncate(open.len() / 2);
    goes_on(&client, "after").await;
    assert!(names(&client.get(BUGS).await.unwrap().json()).is_empty(), "a half-sent body was stored");
}

#[tokio::test]
async fn a_watcher_that_does_not_read_holds_nobody_back() {
    let (server, client) = server().await;
    let mut stalled = Vec::new();
    for _ in 0..8 {
        let mut stream = server.dial().await.unwrap();
        let head = format!("GET {BUGS}?watch=true HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stalled.push(stream);
    }
    let list = client.get(BUGS).await.unwrap().json();
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut reader = client.watch(&format!("{BUGS}?watch=true&resourceVersion={from}")).await.unwrap();
    let writes = count(200, 2_000);
    // A client that reads gets all of it.
    let reading = tokio::spawn(async move {
        for expected in 0..=writes {
            let event = reader.event().await.unwrap();
            assert_eq!(event["type"], if expected == 0 { "ADDED" } else { "MODIFIED" });
        }
    });
    create(&client, "busy").await;
    let note = "x".repeat(100_000);
    for i in 0..writes {
        let patch = json!({"spec": {"note": format!("{i} {note}")}});
        client.merge_patch(&at("busy"), &patch).await.unwrap().expect_status(200).unwrap();
    }
    reading.await.unwrap();
    let held = server.memory_bytes().unwrap();
    assert!(held < 512 * 1024 * 1024, "{held} bytes for stalled watchers");
    drop(stalled);
    goes_on(&client, "after").await;
}

#[tokio::test]
async fn idle_connections_cost_little() {
    let allowed = tools::raise_open_files();
    let (server, client) = server().await;
    let wanted = count(500, 10_000);
    assert!(
        allowed > wanted as u64 + 200,
        "raise the limit of open files (ulimit -Hn) above {}",
        wanted + 200
    );
    let before = server.memory_bytes().unwrap();
    let mut idle = Vec::with_capacity(wanted);
    // Each is a client that has asked once and stays: one that never asks is sent away after a while.
    while idle.len() < wanted {
        let opened = (0..CONNECTED_AT_ONCE).map(|_| async {
            let mut stream = server.dial().await.unwrap();
            stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            // All of them share one task's budget of I/O: what it has not got may still be in the TLS session.
            stream.flush().await.unwrap();
            let mut answer = [0; 1024];
            let read = stream.read(&mut answer).await.unwrap();
            let answer = &answer[..read];
            assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(answer));
            stream
        });
        idle.extend(futures::future::join_all(opened).await);
    }
    goes_on(&client, "meanwhile").await;
    let each = server.memory_bytes().unwrap().saturating_sub(before) / wanted as u64;
    println!("idle connections: {wanted}, {each} bytes of the server's memory each");
    assert!(each < 64 * 1024, "{each} bytes for one idle connection");
    // They are still there: one asks again.
    let again = idle.last_mut().unwrap();
    again.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert_ne!(again.read(&mut [0; 1024]).await.unwrap(), 0, "an idle connection was closed");
    drop(idle);
    goes_on(&client, "after").await;
}

#[tokio::test]
async fn larger_limits_can_be_set() {
    let bytes = (10 * MIB).to_string();
    let (_server, client) =
        start(ServerOptions::default().embedded().args(&["--max-object-bytes", &bytes])).await;
    for (name, mib) in [("five", 5), ("nine", 9)] {
        let post = client
            .request("POST", BUGS)
            .body("application/json", bug_of(name, mib * MIB))
            .send()
            .await
            .unwrap();
        assert_eq!(post.status, 201, "{:.300}", post.text());
        let got = client.get(&at(name)).await.unwrap();
        assert!(got.body.len() > mib * MIB);
        let put = client.request("PUT", &at(name)).body("application/json", got.body).send().await.unwrap();
        assert_eq!(put.status, 200, "{:.300}", put.text());
    }
    let post = client.request("POST", BUGS).body("application/json", bug_of("large", 11 * MIB)).send().await;
    refused(post, 413, "RequestEntityTooLarge", "");
    let post = client.request("POST", BUGS).body("application/json", bug_of("huge", 21 * MIB)).send().await;
    refused(post, 413, "RequestEntityTooLarge", "Request entity too large: limit is 20971520");
}

/// 64 TiB, for which no machine has room.
#[tokio::test]
async fn a_body_that_is_only_announced_takes_no_memory() {
    let options = ServerOptions::default().embedded().args(&["--max-object-bytes", "1125899906842624"]);
    let (server, client) = start(options).await;
    for bytes in [1_u64 << 46, 1 << 50] {
        let mut stream = server.dial().await.unwrap();
        let head = format!(
            "POST {BUGS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server closes the connection of a request that ends in its middle: it has read the head by then.
        stream.shutdown().await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
        goes_on(&client, &format!("after-{bytes}")).await;
    }
}

#[tokio::test]
async fn smaller_limits_can_be_set() {
    let (_server, client) = start(ServerOptions::default().args(&["--max-object-bytes", "10000"])).await;
    let post = client.request("POST", BUGS).body("application/json", bug_of("large", 20_000)).send().await;
    assert_eq!(post.unwrap().status, 413);
    let post = client.request("POST", BUGS).body("application/json", bug_of("fits", 5_000)).send().await;
    assert_eq!(post.unwrap().status, 201);
    let grown = json!({"spec": {"note": "x".repeat(20_000)}});
    assert_eq!(client.merge_patch(&at("fits"), &grown).await.unwrap().status, 413);
    let kept = until(&client, BUGS, "fits", |_| true).await;
    assert_ne!(kept["spec"]["note"], grown["spec"]["note"]);
}

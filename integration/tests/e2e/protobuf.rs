//! Registrations, namespaces, metadata and errors in protobuf: in and out, alone, in lists and watches (item 13). Upstream's
//! own bytes are held to in `codec/src/protobuf/tests.rs`; here it is held that the server sends and takes them everywhere.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use kindom_api::{Value as Tree, json as tree};
use kindom_codec::protobuf;
use kindom_integration::{Answer, Client, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use kindom_objects::kinds::namespace::NAMESPACE;

use crate::support::{CRDS, condition, crd, object, register};

const TYPE: &str = "application/vnd.kubernetes.protobuf";
const GROUP: &str = "proto.example.com";
const DEFINITION: &str = "CustomResourceDefinition";
const V1: &str = "apiextensions.k8s.io/v1";

/// A body as Go's clients send it.
fn bytes(object: &Value) -> Vec<u8> {
    let object = tree::parse(object.to_string().as_bytes()).unwrap();
    let declared = NAMESPACE.message_of(&object).map(|message| protobuf::encode_as(&object, message));
    declared.or_else(|| protobuf::encode(&object)).unwrap()
}

/// A field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for mut n in [usize::from(number) << 3 | 2, bytes.len()] {
        while n > 0x7f {
            out.push(u8::try_from(n & 0x7f).unwrap() | 0x80);
            n >>= 7;
        }
        out.push(u8::try_from(n).unwrap());
    }
    out.extend_from_slice(bytes);
    out
}

/// A body whose object is these bytes.
fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, raw), field(3, b""), field(4, b"")].concat()
}

async fn send(client: &Client, method: &str, path: &str, accept: &str, object: &Value) -> Answer {
    client.request(method, path).accept(accept).body(TYPE, bytes(object)).send().await.unwrap()
}

async fn get(client: &Client, path: &str, accept: &str) -> Answer {
    client.request("GET", path).accept(accept).send().await.unwrap()
}

/// The object in an answer in protobuf.
#[track_caller]
fn read(answer: &Answer, code: u16, api_version: &str, kind: &str) -> Tree {
    assert_eq!(answer.status, code, "{} {}", answer.what, answer.text());
    assert_eq!(answer.header("content-type"), TYPE, "{}", answer.what);
    let declared = NAMESPACE
        .messages()
        .map(|messages| if kind == "Namespace" { messages.object() } else { messages.list() });
    let message = protobuf::message(api_version, kind).or(declared.filter(|_| kind.starts_with("Namespace")));
    let found = protobuf::decode(&answer.body, message.unwrap()).unwrap();
    assert_eq!(found.get("apiVersion").and_then(Tree::as_str), Some(api_version), "{found}");
    assert_eq!(found.get("kind").and_then(Tree::as_str), Some(kind), "{found}");
    found
}

fn text<'a>(object: &'a Tree, path: &[&str]) -> &'a str {
    object.at(path).and_then(Tree::as_str).unwrap_or_default()
}

#[tokio::test]
async fn a_registration_is_made_read_changed_and_deleted_in_protobuf() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let mut wanted = crd(GROUP, "widgets", "Widget", "Namespaced");
    wanted["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": "self.size < 99", "message": "<too large>"}]);
    let at = format!("{CRDS}/widgets.{GROUP}");

    let dry = send(&client, "POST", &format!("{CRDS}?dryRun=All"), TYPE, &wanted).await;
    let dry = read(&dry, 201, V1, DEFINITION);
    assert_eq!(text(&dry, &["metadata", "resourceVersion"]), "");
    assert_ne!(text(&dry, &["metadata", "uid"]), "");
    let made = send(&client, "POST", CRDS, TYPE, &wanted).await;
    let made = read(&made, 201, V1, DEFINITION);
    let uid = text(&made, &["metadata", "uid"]).to_owned();
    condition(&client, &format!("widgets.{GROUP}"), "Established", "True").await;

    // What JSON shows, protobuf shows; and what was sent is what a JSON body would have made.
    let shown = client.get(&at).await.unwrap().json();
    let answer = get(&client, &at, TYPE).await;
    read(&answer, 200, V1, DEFINITION);
    assert_eq!(answer.body, bytes(&shown), "{shown}");
    let mut by_json = wanted.clone();
    by_json["metadata"]["name"] = json!(format!("gadgets.{GROUP}"));
    by_json["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget"});
    register(&client, &by_json).await;
    let other = client.get(&format!("{CRDS}/gadgets.{GROUP}")).await.unwrap().json();
    assert_eq!(shown["spec"]["versions"], other["spec"]["versions"]);

    // A list, whole and by page.
    let list = get(&client, CRDS, TYPE).await;
    let listed = read(&list, 200, V1, "CustomResourceDefinitionList");
    assert_eq!(listed.get("items").and_then(Tree::as_array).map(<[Tree]>::len), Some(2));
    let page = get(&client, &format!("{CRDS}?limit=1"), TYPE).await;
    let page = read(&page, 200, V1, "CustomResourceDefinitionList");
    assert_eq!(page.at(&["metadata", "remainingItemCount"]).and_then(Tree::as_i64), Some(1));

    // PUT, PUT to the status, a patch that is answered in protobuf, and a stale PUT.
    let mut changed = shown.clone();
    changed["metadata"]["labels"] = json!({"a": "b"});
    let put = send(&client, "PUT", &at, "application/json", &changed).await;
    assert_eq!(put.expect_status(200).unwrap().at("/metadata/labels/a"), "b");
    let stale = read(&send(&client, "PUT", &at, TYPE, &changed).await, 409, "v1", "Status");
    assert_eq!(text(&stale, &["reason"]), "Conflict");
    let now = client.get(&at).await.unwrap().json();
    let status = read(&send(&client, "PUT", &format!("{at}/status"), TYPE, &now).await, 200, V1, DEFINITION);
    assert_eq!(text(&status, &["metadata", "uid"]), uid);
    let patch = client.request("PATCH", &at).accept(TYPE);
    let patch = patch.body("application/merge-patch+json", r#"{"metadata":{"labels":{"c":"d"}}}"#);
    let patched = read(&patch.send().await.unwrap(), 200, V1, DEFINITION);
    assert_eq!(text(&patched, &["metadata", "labels", "c"]), "d");

    // The older face, and one that is made through it.
    let beta = "apiextensions.k8s.io/v1beta1";
    let betas = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";
    let older = read(&get(&client, &format!("{betas}/widgets.{GROUP}"), TYPE).await, 200, beta, DEFINITION);
    assert_eq!(text(&older, &["spec", "version"]), "v1");
    let old = json!({
        "apiVersion": beta, "kind": DEFINITION, "metadata": {"name": format!("olds.{GROUP}")},
        "spec": {"group": GROUP, "version": "v1", "scope": "Cluster", "names": {"plural": "olds", "kind": "Old"}},
    });
    read(&send(&client, "POST", betas, TYPE, &old).await, 201, beta, DEFINITION);

    // Errors are Statuses in protobuf; DeleteOptions are read in it.
    let none = read(&get(&client, &format!("{CRDS}/none"), TYPE).await, 404, "v1", "Status");
    assert_eq!(
        text(&none, &["message"]),
        "customresourcedefinitions.apiextensions.k8s.io \"none\" not found"
    );
    let mut bad = wanted.clone();
    bad["metadata"]["name"] = json!(format!("bads.{GROUP}"));
    let bad = read(&send(&client, "POST", CRDS, TYPE, &bad).await, 422, "v1", "Status");
    assert!(bad.at(&["details", "causes"]).and_then(Tree::as_array).is_some_and(|causes| !causes.is_empty()));
    let options = |uid: &[u8]| body(V1, "DeleteOptions", &field(2, &field(1, uid)));
    let delete = |options| client.request("DELETE", &at).accept(TYPE).body(TYPE, options);
    let refused = delete(options(b"another")).send().await.unwrap();
    assert_eq!(text(&read(&refused, 409, "v1", "Status"), &["reason"]), "Conflict");
    read(&delete(options(uid.as_bytes())).send().await.unwrap(), 200, V1, DEFINITION);
}

/// The events of a watch in protobuf, each as its type and the body of its object.
struct Events {
    stream: tokio_rustls::client::TlsStream<tokio::net::TcpStream>,
    chunks: Vec<u8>,
    received: Vec<u8>,
}

impl Events {
    async fn open(server: &Server, path: &str, accept: &str) -> Self {
        let mut stream = server.dial().await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut got = Vec::new();
        loop {
            if let Some(at) = got.windows(4).position(|w| w == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&got[..at]).to_lowercase();
                assert!(head.contains(" 200 "), "{head}");
                assert!(head.contains(&format!("content-type: {TYPE};stream=watch")), "{head}");
                return Self { stream, chunks: got.split_off(at + 4), received: Vec::new() };
            }
            assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0);
        }
    }

    /// The next one; none at the end.
    async fn next(&mut self) -> Option<(String, Vec<u8>)> {
        loop {
            if let Some((length, rest)) = self.received.split_first_chunk::<4>() {
                let length = usize::try_from(u32::from_be_bytes(*length)).unwrap();
                if let Some(event) = rest.get(..length).map(<[u8]>::to_vec) {
                    self.received.drain(..4 + length);
                    return Some(opened(&event));
                }
            }
            match self.chunk() {
                Some(chunk) if chunk.is_empty() => return None,
                Some(chunk) => self.received.extend(chunk),
                None => match self.stream.read_buf(&mut self.chunks).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => {}
                },
            }
        }
    }

    /// A whole chunk, if there is one; the last is empty.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let head = self.chunks.windows(2).position(|w| w == b"\r\n")?;
        let length = std::str::from_utf8(&self.chunks[..head]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        let chunk = self.chunks.get(head + 2..head + 2 + length + 2)?[..length].to_vec();
        self.chunks.drain(..head + 2 + length + 2);
        Some(chunk)
    }
}

/// A `WatchEvent` by hand: field 1 is its type, field 2 holds in its field 1 the object's body.
pub(crate) fn opened(event: &[u8]) -> (String, Vec<u8>) {
    fn take(bytes: &[u8], field: u8) -> (&[u8], &[u8]) {
        assert_eq!(bytes[0], field << 3 | 2);
        let (mut length, mut at) = (0, 1);
        for shift in (0..).step_by(7) {
            length |= usize::from(bytes[at] & 0x7f) << shift;
            at += 1;
            if bytes[at - 1] < 0x80 {
                break;
            }
        }
        bytes[at..].split_at(length)
    }
    let (kind, rest) = take(event, 1);
    let (raw, rest) = take(rest, 2);
    assert!(rest.is_empty());
    (String::from_utf8(kind.to_vec()).unwrap(), take(raw, 1).0.to_vec())
}

#[tokio::test]
async fn watches_are_length_delimited_events() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "widgets", "Widget", "Namespaced")).await;
    let name = format!("widgets.{GROUP}");
    let initial = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events =
        Events::open(&server, &format!("{CRDS}?{initial}&fieldSelector=metadata.name%3D{name}"), TYPE).await;
    let of = |body: &[u8], kind| protobuf::decode(body, protobuf::message(V1, kind).unwrap()).unwrap();
    let (kind, added) = events.next().await.unwrap();
    let shown = client.get(&format!("{CRDS}/{name}")).await.unwrap().json();
    assert_eq!((kind.as_str(), added), ("ADDED", bytes(&shown)));
    let (kind, bookmark) = events.next().await.unwrap();
    let bookmark = of(&bookmark, DEFINITION);
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(text(&bookmark, &["metadata", "annotations", "k8s.io/initial-events-end"]), "true");
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    client.merge_patch(&format!("{CRDS}/{name}"), &patch).await.unwrap().expect_status(200).unwrap();
    let (kind, modified) = events.next().await.unwrap();
    assert_eq!(kind, "MODIFIED");
    assert_eq!(text(&of(&modified, DEFINITION), &["metadata", "labels", "a"]), "b");

    // The metadata of custom objects, as metadata-only informers watch it; and an error in the stream.
    let widgets = format!("/apis/{GROUP}/v1/namespaces/default/widgets");
    let metadata = format!("{TYPE};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let mut partial = Events::open(&server, &format!("{widgets}?watch=1"), &metadata).await;
    let made = client.post(&widgets, &object(GROUP, "Widget", "one", json!({"size": 3}))).await.unwrap();
    let uid = made.expect_status(201).unwrap().at("/metadata/uid");
    let (kind, added) = partial.next().await.unwrap();
    let meta = protobuf::message("meta.k8s.io/v1", "PartialObjectMetadata").unwrap();
    let added = protobuf::decode(&added, meta).unwrap();
    assert_eq!((kind.as_str(), text(&added, &["metadata", "uid"])), ("ADDED", uid.as_str().unwrap()));
    assert_eq!(added.get("spec"), None);
    client.delete(&format!("{CRDS}/{name}")).await.unwrap().expect_status(200).unwrap();
    loop {
        let (kind, object) = partial.next().await.unwrap();
        if kind == "ERROR" {
            let status = protobuf::decode(&object, protobuf::message("v1", "Status").unwrap()).unwrap();
            assert_eq!(text(&status, &["reason"]), "Expired");
            break;
        }
    }
    assert!(partial.next().await.is_none());
}

/// `Accept` with protobuf alone is answered so wherever upstream does.
#[tokio::test]
async fn whatever_has_protobuf_is_served_in_it() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "widgets", "Widget", "Namespaced")).await;
    let widgets = format!("/apis/{GROUP}/v1/namespaces/default/widgets");
    let widget = object(GROUP, "Widget", "one", json!({"size": 3}));
    client.post(&widgets, &widget).await.unwrap().expect_status(201).unwrap();

    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}});
    let made =
        read(&send(&client, "POST", "/api/v1/namespaces", TYPE, &namespace).await, 201, "v1", "Namespace");
    assert_eq!(text(&made, &["status", "phase"]), "Active");
    read(&get(&client, "/api/v1/namespaces/mine", TYPE).await, 200, "v1", "Namespace");
    let all = read(&get(&client, "/api/v1/namespaces", TYPE).await, 200, "v1", "NamespaceList");
    assert_eq!(all.get("items").and_then(Tree::as_array).map(<[Tree]>::len), Some(5));

    for version in ["v1", "v1beta1"] {
        let meta = format!("meta.k8s.io/{version}");
        let of = |kind: &str| format!("{TYPE};as={kind};g=meta.k8s.io;v={version}");
        let one = get(&client, &format!("{widgets}/one"), &of("PartialObjectMetadata")).await;
        let one = read(&one, 200, &meta, "PartialObjectMetadata");
        assert_eq!(text(&one, &["metadata", "name"]), "one");
        let list = get(&client, &widgets, &of("PartialObjectMetadataList")).await;
        let list = read(&list, 200, &meta, "PartialObjectMetadataList");
        assert_eq!(list.get("items").and_then(Tree::as_array).map(<[Tree]>::len), Some(1));
        let crds = get(&client, CRDS, &of("PartialObjectMetadataList")).await;
        read(&crds, 200, &meta, "PartialObjectMetadataList");
        // Tables have none.
        let table = get(&client, &widgets, &of("Table")).await;
        assert_eq!((table.status, table.header("content-type")), (406, "application/json"));
        // What is wrong is said in JSON to whoever wants nothing but metadata (`ErrorNegotiated`).
        let none = get(&client, &format!("{widgets}/none"), &of("PartialObjectMetadata")).await;
        assert_eq!((none.status, none.header("content-type")), (404, "application/json"));
    }

    for (path, api_version, kind) in [
        ("/apis", "v1", "APIGroupList"),
        ("/apis/proto.example.com", "v1", "APIGroup"),
        ("/apis/proto.example.com/v1", "v1", "APIResourceList"),
        ("/api/v1", "v1", "APIResourceList"),
    ] {
        let found = get(&client, path, TYPE).await;
        read(&found, 200, api_version, kind);
        let json = get(&client, path, "application/json").await.json();
        assert_eq!(found.body, bytes(&json), "{path}");
    }
    let versions = get(&client, "/api", TYPE).await;
    assert_eq!((versions.status, versions.header("content-type")), (200, TYPE));
    // What has no kind is JSON for everybody.
    assert_eq!(get(&client, "/version", TYPE).await.header("content-type"), "application/json");
    // A DELETE may send its options so; what it answers of a custom object is JSON.
    let options = body("v1", "DeleteOptions", &field(4, b"Background"));
    let delete = client.request("DELETE", &format!("{widgets}/one")).body(TYPE, options);
    let deleted = delete.send().await.unwrap().expect_status(200).unwrap();
    assert_eq!(deleted.at("/details/name"), "one");
}

/// An answer that refuses protobuf does not list it as accepted. (The real server answers such a body with a panic.)
#[tokio::test]
async fn custom_objects_are_not_offered_in_protobuf() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "widgets", "Widget", "Namespaced")).await;
    let widgets = format!("/apis/{GROUP}/v1/namespaces/default/widgets");
    let texts = "application/json, application/yaml";
    let widget = body(&format!("{GROUP}/v1"), "Widget", &field(1, &field(1, b"one")));
    for (method, path) in [("POST", widgets.clone()), ("PUT", format!("{widgets}/one"))] {
        let answer = client.request(method, &path).body(TYPE, widget.clone()).send().await.unwrap();
        assert_eq!(answer.status, 415, "{}", answer.text());
        let said = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(said.ends_with(&format!("accepted media types include: {texts}")), "{said}");
    }
    for path in [widgets.clone(), format!("{widgets}/one"), format!("{widgets}?watch=1")] {
        let status = read(&get(&client, &path, TYPE).await, 406, "v1", "Status");
        let said = text(&status, &["message"]);
        assert_eq!(said, format!("only the following media types are accepted: {texts}"));
    }
}

/// Nothing that is sent as protobuf ends the server, takes long, or is stored by halves.
#[tokio::test]
async fn malformed_deep_and_huge_bodies_are_refused() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let (crd_kind, mib) = ("CustomResourceDefinition in version \"v1\" cannot be handled", 1 << 20);
    let nested = |levels: usize| {
        // `not`, field 28, of a schema; written from the inside out.
        let mut lengths = vec![0_usize];
        let varint = |n: usize| (n.max(1).ilog2() / 7 + 1) as usize;
        for _ in 1..levels {
            let inner = lengths[lengths.len() - 1];
            lengths.push(2 + varint(inner) + inner);
        }
        let mut out = Vec::new();
        for length in lengths.iter().rev() {
            out.extend([0xe2, 0x01]);
            let mut n = *length;
            while n > 0x7f {
                out.push(u8::try_from(n & 0x7f).unwrap() | 0x80);
                n >>= 7;
            }
            out.push(u8::try_from(n).unwrap());
        }
        let schema = field(7, &field(4, &field(1, &out)));
        body(V1, DEFINITION, &field(2, &schema))
    };
    let labels = |count: u32| -> Vec<u8> {
        (0..count).rev().flat_map(|i| field(11, &field(1, format!("{i:06}").as_bytes()))).collect()
    };
    let merged = |count: u32| -> Vec<u8> {
        (0..count).rev().flat_map(|i| field(1, &field(11, &field(1, format!("{i:06}").as_bytes())))).collect()
    };
    let versions = |count: usize| field(2, &field(7, b"").repeat(count));
    let (invalid, too_many) = ("is invalid", "may not hold more than 20000 values outside its schemas");
    for (what, bytes, code, said) in [
        ("no bytes", Vec::new(), 400, "empty data (<empty>)"),
        ("no prefix", b"{}".to_vec(), 400, "expected prefix [107 56 115 0] ({})"),
        ("nothing", b"k8s\0".to_vec(), 400, "empty body (6b387300)"),
        (
            "cut",
            b"k8s\0\x12\x05a".to_vec(),
            400,
            "(must be of type CustomResourceDefinition): unexpected EOF",
        ),
        ("cut within", body(V1, DEFINITION, b"\x0a\x05a"), 400, crd_kind),
        ("wrong wire type", body("", "", b"\x08\x01"), 400, "proto: wrong wireType = 0 for field ObjectMeta"),
        ("another kind", body(V1, "Nope", b""), 400, "no kind \"Nope\" is registered for version"),
        ("another group", body("v1", "Namespace", b""), 400, "no kind \"Namespace\" is registered"),
        (
            "another version",
            body("apiextensions.k8s.io/v1beta1", DEFINITION, b""),
            400,
            "the API version in the",
        ),
        (
            "a malformed version",
            body("a/b/c", "X", b""),
            400,
            "no kind \"X\" is registered for version \"apiext",
        ),
        ("unknown fields", body(V1, DEFINITION, &field(99, b"x")), 422, invalid),
        (
            "a length of 2^62",
            body(V1, DEFINITION, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x3f"),
            400,
            "unexpected EOF",
        ),
        (
            "a length of -1",
            body(V1, DEFINITION, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            400,
            "negative length",
        ),
        ("250 levels", nested(250), 422, invalid),
        ("251 levels", nested(251), 400, "exceeded max depth"),
        ("500,000 levels", nested(500_000), 400, "exceeded max depth"),
        ("groups", body(V1, DEFINITION, &vec![0x4b; 2 * mib]), 400, "unexpected EOF"),
        ("labels", body(V1, DEFINITION, &field(1, &labels(19_000))), 422, invalid),
        ("50,000 labels", body(V1, DEFINITION, &field(1, &labels(50_000))), 400, too_many),
        ("metadata in pieces", body(V1, DEFINITION, &merged(19_000)), 422, invalid),
        ("metadata in 50,000 pieces", body(V1, DEFINITION, &merged(50_000)), 400, too_many),
        ("versions", body(V1, DEFINITION, &versions(4_000)), 422, invalid),
        ("20,000 versions", body(V1, DEFINITION, &versions(20_000)), 400, too_many),
        ("zeros", [&b"k8s\0"[..], &vec![0; 2 * mib]].concat(), 400, "illegal tag 0"),
        ("too large", vec![0x4b; 4 * mib], 413, "limit is 3145728"),
    ] {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&bytes).unwrap();
        let packed = packed.finish().unwrap();
        let plain = client.request("POST", CRDS).body(TYPE, bytes);
        let zipped = client.request("POST", CRDS).body(TYPE, packed).header("content-encoding", "gzip");
        for request in [plain, zipped] {
            let answer = request.send().await.unwrap();
            let text = answer.text();
            assert_eq!(answer.status, code, "{what}: {:.400}", text);
            let text = answer.json()["message"].as_str().unwrap().to_owned();
            assert!(text.contains(said), "{what}: {text:.400}");
        }
    }
    let listed = client.get(CRDS).await.unwrap().json();
    assert_eq!(listed["items"], json!([]));
    let peak = server.peak_memory_bytes().unwrap();
    assert!(peak < 1024 * mib as u64, "{peak} bytes");
}

//! Subresources that a program answers itself (B-52), served in the test's process.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::sync::{Mutex, mpsc};

use futures::StreamExt as _;
use futures::stream;
use kindom_server::{Group, SubresourceAnswer, SubresourceError, SubresourceRequest, Versions};
use kindom_testing::TestServer;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::sync::Notify;

#[path = "../../server/examples/sails/hoist.rs"]
mod hoist;
#[path = "../../server/examples/sails/sloop.rs"]
mod sloop;
#[path = "../../server/examples/sails/v1alpha1.rs"]
mod v1alpha1;

use sloop::{Sloop, SloopStatus};

const ARGO: &str = "/apis/sails.example.com/v1beta1/namespaces/default/sloops/argo";

/// A handler has begun; it may go on.
static BEGUN: Notify = Notify::const_new();
static GOES_ON: Notify = Notify::const_new();

/// The senders of what handlers that block wait for.
static BLOCKED: Mutex<Vec<mpsc::Sender<()>>> = Mutex::new(Vec::new());

fn block() {
    let (sender, receiver) = mpsc::channel::<()>();
    BLOCKED.lock().unwrap().push(sender);
    let _ = receiver.recv();
}

/// Does something when it is dropped.
struct Dropped(fn());

impl Drop for Dropped {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn stream_with(kept: Dropped) -> SubresourceAnswer {
    let pieces = stream::repeat_with(move || {
        let _kept = &kept;
        Ok("ahoy".into())
    });
    SubresourceAnswer::pieces("text/plain", pieces)
}

/// A subresource that does what its parameter asks for.
async fn signal(request: SubresourceRequest<Sloop>) -> Result<SubresourceAnswer, SubresourceError> {
    match request.parameter("do").unwrap_or_default() {
        "panic" => panic!("a bug in a handler"),
        "block" => {
            block();
            Ok(SubresourceAnswer::text("at last"))
        }
        "wait" => std::future::pending().await,
        "sleep" => {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            Ok(SubresourceAnswer::text("slept"))
        }
        "report" => {
            let report = request.update_status(|sloop| {
                sloop.status = Some(SloopStatus { crew: 7 });
                sloop.spec.hull = "of the status alone".to_owned();
                Ok(())
            });
            SubresourceAnswer::json(&report.await?)
        }
        "spoil" => {
            let spoilt = request.update(|sloop| {
                sloop.spec.hull = "paper".to_owned();
                Ok(())
            });
            SubresourceAnswer::json(&spoilt.await?)
        }
        "update-panic" => {
            let changed = request.update(|_| panic!("a bug in a change"));
            SubresourceAnswer::json(&changed.await?)
        }
        "drop-panics" => {
            let _kept = Dropped(|| panic!("a bug in a destructor"));
            std::future::pending().await
        }
        "drop-blocks" => {
            let _kept = Dropped(block);
            std::future::pending().await
        }
        "stream-drop-panics" => Ok(stream_with(Dropped(|| panic!("a bug in a destructor")))),
        "stream-drop-blocks" => Ok(stream_with(Dropped(block))),
        "unman" => {
            let unmanned = request.update(|sloop| {
                sloop.spec.crew = None;
                Ok(())
            });
            SubresourceAnswer::json(&unmanned.await?)
        }
        "late" => {
            BEGUN.notify_one();
            GOES_ON.notified().await;
            SubresourceAnswer::json(&request.update(|_| Ok(())).await?)
        }
        "teapot" => Err(SubresourceError::new(418, "Teapot", "short and stout")),
        "code-2" => Err(SubresourceError::new(2, "", "")),
        "code-999" => Ok(SubresourceAnswer::text("").with_code(999)),
        "accepted" => Ok(SubresourceAnswer::whole("text/x-flags", "flags\n").with_code(202)),
        "pieces" => {
            let pieces = stream::iter(["ahoy, ", "argo"]).map(|piece| Ok(piece.into()));
            Ok(SubresourceAnswer::pieces("text/plain", pieces))
        }
        "long" => {
            let pieces = stream::iter([vec![b'x'; 200_000], Vec::new(), vec![b'y'; 70_000]]);
            Ok(SubresourceAnswer::pieces("text/plain", pieces.map(|piece| Ok(piece.into()))))
        }
        "broken" => {
            let pieces = stream::iter([0, 1])
                .map(|n| if n == 0 { Ok("ahoy".into()) } else { panic!("a bug in a stream") });
            Ok(SubresourceAnswer::pieces("text/plain", pieces))
        }
        _ => SubresourceAnswer::json(&json!({
            "verb": request.verb(), "body": String::from_utf8_lossy(request.body()), "type": request.content_type(),
            "user": request.user_name(), "name": request.object().metadata.name,
            "dryRun": request.is_dry_run(), "path": request.path(),
        })),
    }
}

fn sloops() -> Versions<Sloop> {
    Versions::stored_as::<Sloop>()
        .with::<v1alpha1::Sloop>()
        .subresource("hoist", &["create", "get"], hoist::hoist)
        .subresource("signal", &["create", "delete", "get", "patch", "update"], signal)
}

struct Port {
    server: TestServer,
    client: Client,
}

impl Port {
    async fn open() -> Self {
        let server = TestServer::builder().group(Group::new().versions(sloops())).start().await.unwrap();
        let kubeconfig = Kubeconfig::from_yaml(server.kubeconfig()).unwrap();
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        // The refusals are what is looked at.
        config.default_retry = false;
        let port = Self { client: Client::try_from(config).unwrap(), server };
        port.launch().await;
        port
    }

    async fn launch(&self) {
        let argo = json!({
            "apiVersion": "sails.example.com/v1beta1", "kind": "Sloop", "metadata": { "name": "argo" },
            "spec": { "hull": "oak", "sails": ["main"] },
        });
        let created = self.ask("POST", ARGO.strip_suffix("/argo").unwrap(), &argo.to_string()).await;
        assert_eq!(created.0, 201, "{}", created.1);
    }

    /// The code and the text of an answer.
    async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.ask_as("application/json", method, path, body).await
    }

    async fn ask_as(&self, content_type: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        let request = hyper::Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.body(kube::client::Body::from(body.as_bytes().to_vec())).unwrap();
        let answer = self.client.send(request).await.unwrap();
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect_bytes().await;
        (
            code,
            bytes.map_or_else(
                |error| format!("broken: {error}"),
                |bytes| String::from_utf8(bytes.to_vec()).unwrap(),
            ),
        )
    }

    /// The same of `argo`, with the text read as JSON.
    async fn argo(&self, method: &str, rest: &str, body: &str) -> (u16, Value) {
        let (code, text) = self.ask(method, &format!("{ARGO}{rest}"), body).await;
        (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}

/// B-52: a handler reads and changes the object that its request names, by way of the kind's rules.
#[tokio::test]
async fn a_handler_changes_its_object_through_the_rules_of_its_kind() {
    let port = Port::open().await;
    assert_eq!(port.argo("GET", "/hoist", "").await, (200, json!({ "sails": ["main"] })));
    let (code, answer) = port.argo("POST", "/hoist?fieldManager=bosun", r#"{"sail":"jib"}"#).await;
    assert_eq!((code, answer), (200, json!({ "sails": ["jib", "main"] })), "in canonical form");
    let (code, refused) = port.argo("POST", "/hoist", r#"{"sail":"jib"}"#).await;
    assert_eq!(code, 409);
    assert_eq!(refused["kind"], "Status");
    assert_eq!(refused["reason"], "Conflict");
    assert_eq!(refused["message"], "the jib is set already");
    assert_eq!(refused["details"], json!({ "name": "argo", "group": "sails.example.com", "kind": "sloops" }));
    let (code, refused) = port.argo("POST", "/hoist", r#"{"sails":"jib"}"#).await;
    assert_eq!((code, &refused["reason"]), (400, &json!("BadRequest")), "{refused}");
    // Nothing is stored by a dry run.
    let (code, answer) = port.argo("POST", "/hoist?dryRun=All", r#"{"sail":"spinnaker"}"#).await;
    assert_eq!((code, answer), (200, json!({ "sails": ["jib", "main", "spinnaker"] })));
    assert_eq!(port.argo("GET", "/hoist", "").await, (200, json!({ "sails": ["jib", "main"] })));
    let (_, stored) = port.argo("GET", "", "").await;
    let managers = stored["metadata"]["managedFields"].as_array().unwrap();
    let bosun = managers.iter().find(|entry| entry["manager"] == "bosun").unwrap();
    assert_eq!(bosun["fieldsV1"], json!({ "f:spec": { "f:sails": {} } }));

    // The rules of the kind refuse it.
    let (code, refused) = port.argo("POST", "/signal?do=spoil", "").await;
    assert_eq!(code, 422, "{refused}");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.hull");
    // What it leaves out gets its default, as in a PUT.
    let (code, manned) = port.argo("POST", "/signal?do=unman", "").await;
    assert_eq!((code, &manned["spec"]["crew"]), (200, &json!(2)));
    // By way of the status, only that changes.
    let (code, reported) = port.argo("POST", "/signal?do=report", "").await;
    assert_eq!(
        (code, &reported["status"], &reported["spec"]["hull"]),
        (200, &json!({ "crew": 7 }), &json!("oak"))
    );

    // An object of the same name is another one.
    let late = port.argo("POST", "/signal?do=late", "");
    let replaced = async {
        BEGUN.notified().await;
        let freed = r#"{"metadata":{"finalizers":null}}"#;
        assert_eq!(port.ask_as("application/merge-patch+json", "PATCH", ARGO, freed).await.0, 200);
        assert_eq!(port.argo("DELETE", "", "").await.0, 200);
        port.launch().await;
        GOES_ON.notify_one();
    };
    let ((code, refused), ()) = futures::join!(late, replaced);
    assert_eq!((code, &refused["reason"]), (409, &json!("Conflict")), "{refused}");
    assert_eq!(port.argo("POST", "/hoist", r#"{"sail":"jib"}"#).await.0, 200);

    // In another version the object is the same, and so is the handler's.
    let older = ARGO.replace("v1beta1", "v1alpha1");
    let answer = port.ask("POST", &format!("{older}/hoist"), r#"{"sail":"topsail"}"#).await;
    assert_eq!(answer, (200, r#"{"sails":["jib","main","topsail"]}"#.to_owned()));
    port.server.stop().await.unwrap();
}

/// B-52: what a handler is told, and what it may answer.
#[tokio::test]
async fn a_handler_answers_in_any_form() {
    let port = Port::open().await;
    for (method, verb) in
        [("POST", "create"), ("DELETE", "delete"), ("GET", "get"), ("PATCH", "patch"), ("PUT", "update")]
    {
        let body = if method == "GET" { "" } else { "a body" };
        let (code, answer) = port.argo(method, "/signal?dryRun=All", body).await;
        assert_eq!(code, 200, "{answer}");
        assert_eq!((&answer["verb"], &answer["body"]), (&json!(verb), &json!(body)));
        assert_eq!((&answer["name"], &answer["dryRun"]), (&json!("argo"), &json!(true)));
        assert_eq!(answer["type"], "application/json");
        assert!(answer["user"].as_str().is_some_and(|user| !user.is_empty()));
    }
    assert_eq!(port.argo("GET", "/signal", "").await.1["path"], "");
    assert_eq!(port.argo("GET", "/signal/a%2fb/c?x=/d", "").await.1["path"], "a/b/c");
    assert_eq!(port.argo("GET", "/signal%2Fa/b", "").await.1["path"], "a/b");
    for (body, is_dry) in
        [("", false), (r#"{"kind":"DeleteOptions","dryRun":["All"]}"#, true), (r#"{"dryRun":[]}"#, false)]
    {
        assert_eq!(port.argo("DELETE", "/signal", body).await.1["dryRun"], is_dry, "{body}");
    }
    let text = |text: &str| Value::String(text.to_owned());
    assert_eq!(port.argo("GET", "/signal?do=accepted", "").await, (202, text("flags\n")));
    assert_eq!(port.argo("GET", "/signal?do=pieces", "").await, (200, text("ahoy, argo")));
    assert_eq!(port.argo("HEAD", "/signal?do=pieces", "").await, (200, text("")));
    let long = "x".repeat(200_000) + &"y".repeat(70_000);
    assert_eq!(port.ask("GET", &format!("{ARGO}/signal?do=long"), "").await, (200, long));
    assert_eq!(port.argo("GET", "/signal?do=sleep", "").await, (200, text("slept")));
    let (code, refused) = port.argo("GET", "/signal?do=teapot", "").await;
    assert_eq!((code, &refused["message"]), (418, &json!("short and stout")));
    for code in ["code-2", "code-999"] {
        let (answered, refused) = port.argo("GET", &format!("/signal?do={code}"), "").await;
        assert_eq!((answered, &refused["reason"]), (500, &json!("InternalError")), "{refused}");
    }
    // The object has to be there, and the verb has to be declared.
    let (code, refused) = port.ask("GET", &ARGO.replace("argo", "nobody/signal"), "").await;
    assert_eq!(code, 404, "{refused}");
    assert!(refused.contains(r#"sloops.sails.example.com \"nobody\" not found"#), "{refused}");
    let (code, refused) = port.argo("DELETE", "/hoist", "").await;
    assert_eq!((code, &refused["reason"]), (405, &json!("MethodNotAllowed")), "{refused}");
    let (code, refused) = port.argo("POST", "/hoist", &"x".repeat(4 << 20)).await;
    assert_eq!((code, &refused["reason"]), (413, &json!("RequestEntityTooLarge")), "{refused}");
    // Discovery shows both.
    let (_, listed) = port.ask("GET", "/apis/sails.example.com/v1beta1", "").await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let found = listed["resources"].as_array().unwrap().iter().find(|of| of["name"] == "sloops/hoist");
    assert_eq!(found.unwrap()["verbs"], json!(["create", "get"]));
    port.server.stop().await.unwrap();
}

/// A handler that panics, blocks or never answers hurts its own request.
#[tokio::test]
async fn a_handler_with_a_bug_hurts_its_own_requests_alone() {
    let port = Port::open().await;
    let panicked =
        "Internal error occurred: the handler of this subresource panicked; the server's log says where";
    let (code, refused) = port.argo("GET", "/signal?do=panic", "").await;
    assert_eq!(code, 500);
    assert!(panicked.contains(refused["message"].as_str().unwrap()), "{refused}");
    let (code, refused) = port.argo("POST", "/signal?do=update-panic", "").await;
    assert_eq!(code, 500, "{refused}");
    let (code, broken) = port.ask("GET", &format!("{ARGO}/signal?do=broken"), "").await;
    assert_eq!(code, 200);
    assert!(broken.starts_with("broken: "), "{broken}");
    // What is dropped when nobody waits any more, or where nobody asks for a stream's pieces, may have bugs, too.
    for rest in ["/signal?timeout=100ms&do=drop-panics", "/signal?timeout=100ms&do=drop-blocks"] {
        let (code, refused) = port.argo("GET", rest, "").await;
        assert_eq!((code, &refused["reason"]), (504, &json!("Timeout")), "{refused}");
    }
    // So may what a client leaves.
    for what in ["drop-panics", "stream-drop-panics"] {
        let rest = format!("/signal?do={what}");
        let left = tokio::time::timeout(std::time::Duration::from_millis(200), port.argo("GET", &rest, ""));
        assert!(left.await.is_err(), "{what} has no end");
    }
    assert_eq!(port.argo("HEAD", "/signal?do=stream-drop-panics", "").await.0, 200);
    assert_eq!(port.argo("HEAD", "/signal?timeout=100ms&do=stream-drop-blocks", "").await.0, 504);
    let asked = ["block", "wait"].repeat(5);
    let late =
        asked.iter().map(async |what| port.argo("GET", &format!("/signal?timeout=2s&do={what}"), "").await);
    let others = async {
        for n in 0..20 {
            let crew = format!(r#"{{"spec":{{"crew":{}}}}}"#, n + 1);
            let patched = port.ask_as("application/merge-patch+json", "PATCH", ARGO, &crew).await;
            assert_eq!(patched.0, 200, "{}", patched.1);
        }
    };
    let (late, ()) = futures::join!(futures::future::join_all(late), others);
    for (code, refused) in late {
        let is_late = code == 504 && refused["reason"] == "Timeout";
        assert!(is_late || code == 429, "{code} {refused}");
    }
    // The type's writes and its other subresources are not held against it.
    let refused = loop {
        let (code, refused) = port.argo("GET", "/signal?timeout=2s&do=block", "").await;
        if code == 429 {
            break refused;
        }
    };
    assert_eq!(refused["reason"], "TooManyRequests");
    assert_eq!(port.argo("POST", "/hoist", r#"{"sail":"jib"}"#).await.0, 200);
    BLOCKED.lock().unwrap().clear();
    while port.argo("GET", "/signal", "").await.0 == 429 {}
    port.server.stop().await.unwrap();
}

//! Requests, watches, discovery and claims, and servers that mean harm.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kindom_integration::{Answer, Client, ServerOptions, count};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::chain::{Chain, SERVICES, api_service, authorities, available, front, front_with, scaled};
use crate::authority::{Authority, Files};
use crate::support::{AGGREGATED, crd, eventually, object, register, until_gone};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn groups(answer: &Answer) -> Vec<String> {
    let items = answer.json()["items"].as_array().unwrap().clone();
    items.iter().map(|group| group["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn kubectl_reaches_a_type_of_another_server() {
    let chain = Chain::start().await;
    let front = &chain.front;
    let manifest = object("example.com", "Widget", "one", json!({"size": 2})).to_string();
    let apply = |text: String| async move {
        front.kubectl_with(&["apply", "--server-side", "-f", "-"], &text).await.unwrap().success().unwrap()
    };
    assert!(apply(manifest.clone()).await.contains("widget.example.com/one serverside-applied"));
    let client_side = object("example.com", "Widget", "two", json!({"size": 3})).to_string();
    front.kubectl_with(&["apply", "-f", "-"], &client_side).await.unwrap().success().unwrap();
    assert!(front.kubectl(&["get", "wg"]).await.unwrap().contains("one"));
    front.kubectl(&["scale", "widget", "one", "--replicas=5"]).await.unwrap();
    let there = chain.back.client().unwrap().get(&format!("{WIDGETS}/one")).await.unwrap().json();
    assert_eq!(there["spec"]["size"], 5);
    // The user is the front's.
    let log = std::fs::read_to_string(chain.back.log_path()).unwrap();
    let seen = |line: &&str| line.contains("answered") && line.contains(WIDGETS);
    assert!(log.lines().filter(seen).all(|line| line.contains("kubernetes-admin")), "{log}");
    let explained = front.kubectl(&["explain", "widgets.spec.colour"]).await.unwrap();
    assert!(explained.contains("FIELD: colour <string>"), "{explained}");
    // Both servers' types are in the one document of version 2, which kubectl reads as a whole.
    let explain =
        async |path| front.kubectl(&["explain", path, "--output=plaintext-openapiv2"]).await.unwrap();
    assert!(explain("widgets.spec.colour").await.contains("FIELD:    colour <string>"));
    assert!(explain("leases.spec").await.contains("holderIdentity"));
    assert!(front.kubectl(&["explain", "leases.spec"]).await.unwrap().contains("holderIdentity"));
    front.kubectl(&["patch", "widget", "one", "--type=merge", "-p", r#"{"spec":{"size":7}}"#]).await.unwrap();
    front.kubectl(&["delete", "widget", "one", "two"]).await.unwrap();
    assert!(front.kubectl(&["get", "widgets"]).await.unwrap().is_empty());
    let services = front.kubectl(&["get", "apiservices"]).await.unwrap();
    let row = |name: &str| {
        let line = services.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap().to_owned();
        line.split_whitespace().take(3).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("v1.example.com"), ["v1.example.com", "default/back", "True"]);
    assert_eq!(row("v1."), ["v1.", "Local", "True"]);
    assert!(services.starts_with("NAME "), "{services}");
}

#[tokio::test]
async fn a_watch_streams_and_ends_with_its_server() {
    let mut chain = Chain::start().await;
    let (client, http2) = (chain.front.client().unwrap(), chain.front.client_http2().unwrap());
    let mut first = client.watch(&format!("{WIDGETS}?watch=true")).await.unwrap();
    let mut second = http2.watch(&format!("{WIDGETS}?watch=true")).await.unwrap();
    for name in ["one", "two", "three"] {
        let made = client.post(WIDGETS, &object("example.com", "Widget", name, json!({}))).await.unwrap();
        let made = made.expect_status(201).unwrap();
        assert_eq!(made.headers.get_all("audit-id").iter().count(), 1);
        for events in [&mut first, &mut second] {
            let event = events.event().await.unwrap();
            assert_eq!(
                (&event["type"], &event["object"]["metadata"]["name"]),
                (&json!("ADDED"), &json!(name))
            );
        }
    }
    chain.back.kill9().unwrap();
    for events in [&mut first, &mut second] {
        assert!(!matches!(events.next_in_time().await, Ok(Some(_))), "the watch goes on");
    }
    let condition = available(&client, "v1.example.com", "False", "FailedDiscoveryCheck").await;
    let message = condition["message"].as_str().unwrap();
    assert!(message.starts_with("failing or missing response from https://127.0.0.1:"), "{message}");
    let away = client.get(WIDGETS).await.unwrap();
    assert_eq!((away.status, away.text().as_str()), (503, "service unavailable\n"));
    // The rest is served on, and discovery says that the group is stale.
    client.get("/api/v1/namespaces").await.unwrap().expect_status(200).unwrap();
    let shown = client.request("GET", "/apis").accept(AGGREGATED).send().await.unwrap().json();
    let group = |shown: &Value| {
        let items = shown["items"].as_array().unwrap().clone();
        items.into_iter().find(|group| group["metadata"]["name"] == "example.com").unwrap()
    };
    assert_eq!(group(&shown)["versions"][0]["freshness"], "Stale");
    assert_eq!(group(&shown)["versions"][0]["resources"][0]["resource"], "widgets");
}

#[tokio::test]
async fn discovery_and_openapi_are_merged() {
    let chain = Chain::start().await;
    let (front, back) = (chain.front.client().unwrap(), chain.back.client().unwrap());
    let shown = front.request("GET", "/apis").accept(AGGREGATED).send().await.unwrap();
    assert!(groups(&shown).contains(&"example.com".to_owned()) && groups(&shown).len() > 5);
    let again =
        front.request("GET", "/apis").accept(AGGREGATED).header("If-None-Match", shown.header("etag"));
    assert_eq!(again.send().await.unwrap().status, 304);
    let names: Vec<Value> = front.get("/apis").await.unwrap().json()["groups"].as_array().unwrap().clone();
    assert!(names.iter().any(|group| group["name"] == "example.com"
        && group["preferredVersion"]["groupVersion"] == "example.com/v1"));
    assert_eq!(front.get("/apis/example.com").await.unwrap().at("/name"), "example.com");
    let resources = front.get("/apis/example.com/v1").await.unwrap().json();
    assert_eq!(resources, back.get("/apis/example.com/v1").await.unwrap().json());
    let index = |client: Client| async move {
        client.get("/openapi/v3").await.unwrap().at("/paths/apis~1example.com~1v1/serverRelativeURL")
    };
    let (ours, theirs) = (index(front.clone()).await, index(back.clone()).await);
    assert!(ours.is_string() && ours == theirs, "{ours} {theirs}");
    let document = front.get(ours.as_str().unwrap()).await.unwrap().expect_status(200).unwrap().json();
    assert!(
        document["paths"].get(format!("{}/{{name}}", WIDGETS.replace("default", "{namespace}"))).is_some()
    );
    // Once the APIService is gone, so is the group.
    front.delete(&format!("{SERVICES}/v1.example.com")).await.unwrap().expect_status(200).unwrap();
    eventually("the group is gone", async || {
        let shown = front.request("GET", "/apis").accept(AGGREGATED).send().await.unwrap();
        (!groups(&shown).contains(&"example.com".to_owned())).then_some(())
    })
    .await;
    assert_eq!(front.get(WIDGETS).await.unwrap().status, 404);
}

#[tokio::test]
async fn a_websocket_passes_through() {
    let chain = Chain::start().await;
    let client = chain.front.client().unwrap();
    client.post(WIDGETS, &object("example.com", "Widget", "one", json!({}))).await.unwrap();
    let mut stream = chain.front.dial().await.unwrap();
    let request = format!(
        "GET {WIDGETS}?watch=true HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: https://x.example\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    let text = |received: &[u8]| String::from_utf8_lossy(received).into_owned();
    while !text(&received).contains("\"ADDED\"") {
        let read = tokio::time::timeout(std::time::Duration::from_secs(30), stream.read_buf(&mut received));
        assert!(read.await.expect("an event").unwrap() > 0, "{}", text(&received));
    }
    assert!(text(&received).starts_with("HTTP/1.1 101"), "{}", text(&received));
    // A ping of the client is answered: its bytes reach the other server.
    received.clear();
    stream.write_all(&[0x89, 0x80, 0, 0, 0, 0]).await.unwrap();
    while !received.windows(2).any(|bytes| bytes == [0x8A, 0x00]) {
        let read = tokio::time::timeout(std::time::Duration::from_secs(30), stream.read_buf(&mut received));
        assert!(read.await.expect("a pong").unwrap() > 0);
    }
}

#[tokio::test]
async fn nobody_asks_in_anothers_name_through_the_front() {
    let chain = Chain::start().await;
    let front = &chain.front;
    assert_eq!(front.anonymous().unwrap().get(WIDGETS).await.unwrap().status, 403);
    let client = front.client().unwrap();
    let asked = client.request("POST", WIDGETS).header("X-Remote-User", "root").header("X-Remote-Group", "x");
    let asked = asked.header("Audit-Id", "one-id").json(&object("example.com", "Widget", "one", json!({})));
    let answer = asked.send().await.unwrap().expect_status(201).unwrap();
    assert_eq!(answer.header("audit-id"), "one-id");
    let log = std::fs::read_to_string(chain.back.log_path()).unwrap();
    let line = log.lines().find(|line| line.contains("answered") && line.contains("one-id")).unwrap();
    assert!(line.contains("kubernetes-admin") && !line.contains("root"), "{line}");
    // The other server is told who the front found out, and never sees the wish.
    let acting =
        client.request("GET", WIDGETS).header("Impersonate-User", "jane").header("Audit-Id", "two-id");
    acting.send().await.unwrap().expect_status(200).unwrap();
    let log = std::fs::read_to_string(chain.back.log_path()).unwrap();
    let line = log.lines().find(|line| line.contains("answered") && line.contains("two-id")).unwrap();
    assert!(line.contains("jane") && !line.contains("kubernetes-admin"), "{line}");
}

/// Whatever the headers are called in which a front proxy says who a user is, a client's own go nowhere: the extension servers
/// are told to believe them.
#[tokio::test]
async fn a_client_writes_no_header_of_a_front_proxy() {
    let echo = Scripted::start(|head| (http("200 OK", "Content-Type: text/plain\r\n", head), false)).await;
    let (files, proxies) = (Files::new(), Authority::new("front-proxy-ca"));
    let names = [
        "--requestheader-username-headers=X-Remote-User,X-Proxy-User",
        "--requestheader-uid-headers=X-Proxy-Uid",
        "--requestheader-group-headers=X-Remote-Group,X-Proxy-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-,X-Proxy-Extra-",
    ];
    let front = front_with(&files, &proxies, &[("echo", echo.port)], &names).await;
    let client = front.client().unwrap();
    let service = api_service("echo.io", "echo", json!({"insecureSkipTLSVerify": true}));
    client.post(SERVICES, &service).await.unwrap().expect_status(201).unwrap();
    available(&client, "v1.echo.io", "True", "Passed").await;
    let mut request = client.request("GET", "/apis/echo.io/v1/things");
    for name in ["X-Proxy-User", "X-Proxy-Uid", "x-proxy-group", "X-Remote-Group", "X-Proxy-Extra-Scopes"] {
        request = request.header(name, "system:masters:forged");
    }
    let sent = request.header("X-Forwarded-For", "10.9.8.7").header("X-Mine", "stays").send().await.unwrap();
    let sent = sent.expect_status(200).unwrap().text().to_lowercase();
    assert!(!sent.contains("forged") && sent.contains("x-mine: stays"), "{sent}");
    assert!(sent.contains("x-remote-user: kubernetes-admin"), "{sent}");
    assert!(sent.contains("x-forwarded-for: 10.9.8.7, 127.0.0.1"), "{sent}");
}

/// The server itself serves what it is asked for already: an APIService cannot take it away.
#[tokio::test]
async fn a_group_version_that_is_served_here_stays_here() {
    let (files, proxies) = (Files::new(), Authority::new("front-proxy-ca"));
    let front = front(&files, &proxies, &[("back", 1)]).await;
    let client = front.client().unwrap();
    register(&client, &scaled()).await;
    client.post(WIDGETS, &object("example.com", "Widget", "one", json!({}))).await.unwrap();
    // The server's own comes first; here, a user replaces it.
    let name = "v1.example.com";
    let local = available(&client, name, "True", "Local").await;
    assert_eq!(local["message"], "Local APIServices are always available");
    let mut own = client.get(&format!("{SERVICES}/{name}")).await.unwrap().json();
    own["spec"]["service"] = json!({"namespace": "default", "name": "back"});
    client.put(&format!("{SERVICES}/{name}"), &own).await.unwrap().expect_status(200).unwrap();
    let held = available(&client, name, "False", "GroupVersionHeld").await;
    let message =
        "example.com/v1 is served by this server itself; the first to claim a group-version keeps it";
    assert_eq!(held["message"], message);
    client.get(&format!("{WIDGETS}/one")).await.unwrap().expect_status(200).unwrap();
    let core = api_service("apps", "back", json!({}));
    client.post(SERVICES, &core).await.unwrap().expect_status(201).unwrap();
    let nothing = available(&client, "v1.apps", "False", "FailedDiscoveryCheck").await;
    assert!(nothing["message"].as_str().unwrap().contains("refused"), "{nothing}");
    let unknown = api_service("other.example.com", "nowhere", json!({}));
    client.post(SERVICES, &unknown).await.unwrap().expect_status(201).unwrap();
    let condition = available(&client, "v1.other.example.com", "False", "ServiceNotFound").await;
    assert_eq!(condition["message"], "service/nowhere in \"default\" is not present");
    // It is away, and not gone: controllers would take a 404 for the end of the type.
    let away = client.get("/apis/other.example.com/v1/things").await.unwrap();
    assert_eq!((away.status, away.text().as_str()), (503, "service unavailable\n"));
    let shown = client.request("GET", "/apis").accept(AGGREGATED).send().await.unwrap();
    assert!(groups(&shown).contains(&"other.example.com".to_owned()), "{:?}", groups(&shown));
    // Of another server no more, it is this one's.
    let own = json!({"spec": {"service": null}});
    client
        .merge_patch(&format!("{SERVICES}/v1.other.example.com"), &own)
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    available(&client, "v1.other.example.com", "True", "Local").await;
    client.delete(&format!("{SERVICES}/v1.apps")).await.unwrap().expect_status(200).unwrap();
    // A type that goes takes its local APIService with it.
    client.delete(&format!("{SERVICES}/{name}")).await.unwrap().expect_status(200).unwrap();
    available(&client, name, "True", "Local").await;
    client.delete(&format!("{}/widgets.example.com", crate::support::CRDS)).await.unwrap();
    crate::support::until_gone(&client, SERVICES, name).await;
}

/// And a registration cannot take what an APIService has claimed, until that is gone.
#[tokio::test]
async fn a_group_version_of_another_server_is_refused_to_registrations() {
    let mut chain = Chain::start().await;
    let client = chain.front.client().unwrap();
    let mut late = scaled();
    late["metadata"]["name"] = json!("gadgets.example.com");
    late["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget"});
    client.post(crate::support::CRDS, &late).await.unwrap().expect_status(201).unwrap();
    let refused = async |client: &Client| {
        let found = crate::support::condition(client, "gadgets.example.com", "NamesAccepted", "False").await;
        let conditions = found["status"]["conditions"].as_array().unwrap();
        let names = conditions.iter().find(|condition| condition["type"] == "NamesAccepted").unwrap();
        let message = "\"example.com/v1\" is already in use by APIService v1.example.com, which another server serves it \
                       for. To resolve it, delete the APIService or serve another version";
        assert_eq!((&names["reason"], &names["message"]), (&json!("GroupVersionConflict"), &json!(message)));
        crate::support::condition(client, "gadgets.example.com", "Established", "False").await;
    };
    refused(&client).await;
    // Another version of the group is free.
    let mut other = crd("example.com", "things", "Thing", "Namespaced");
    other["spec"]["versions"][0]["name"] = json!("v2");
    register(&client, &other).await;
    client
        .get(&WIDGETS.replace("v1/", "v2/").replace("widgets", "things"))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    let shown = client.get("/apis/example.com").await.unwrap().json();
    assert_eq!(shown["versions"].as_array().unwrap().len(), 2, "{shown}");
    // First come, first served: also after a restart.
    chain.front.restart().await.unwrap();
    let client = chain.front.client().unwrap();
    available(&client, "v1.example.com", "True", "Passed").await;
    refused(&client).await;
    client.get(WIDGETS).await.unwrap().expect_status(200).unwrap();
    client.delete(&format!("{SERVICES}/v1.example.com")).await.unwrap().expect_status(200).unwrap();
    crate::support::condition(&client, "gadgets.example.com", "Established", "True").await;
    client.get(&WIDGETS.replace("widgets", "gadgets")).await.unwrap().expect_status(200).unwrap();
}

/// An extension server reads whom to trust when it starts.
#[tokio::test]
async fn the_authorities_are_published() {
    let (files, proxies) = (Files::new(), Authority::new("front-proxy-ca"));
    let front = front(&files, &proxies, &[]).await;
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let data = front.client().unwrap().get(path).await.unwrap().expect_status(200).unwrap().at("/data");
    let own = String::from_utf8(STANDARD.decode(authorities(&front)).unwrap()).unwrap();
    assert_eq!(data["client-ca-file"].as_str().unwrap().trim(), own.trim());
    let pem = |text: &str| text.split_whitespace().collect::<String>();
    let theirs = data["requestheader-client-ca-file"].as_str().unwrap();
    assert_eq!(pem(theirs), pem(&proxies.certificate.pem()));
    for (field, names) in [
        ("allowed-names", r#"["front-proxy-client"]"#),
        ("username-headers", r#"["x-remote-user"]"#),
        ("uid-headers", r#"["x-remote-uid"]"#),
        ("group-headers", r#"["x-remote-group"]"#),
        ("extra-headers-prefix", r#"["x-remote-extra-"]"#),
    ] {
        assert_eq!(data[format!("requestheader-{field}")], names);
    }
}

/// A server of TLS that answers each request by a rule, after which it closes the connection.
struct Scripted {
    port: u16,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The bytes of an answer to the head of a request, and whether the server then waits instead of closing.
type Rule = fn(&str) -> (Vec<u8>, bool);

impl Scripted {
    async fn start(rule: Rule) -> Self {
        let authority = Authority::new("scripted");
        let (certificate, key) = authority.issue("scripted", ExtendedKeyUsagePurpose::ServerAuth);
        let (certificate, key) = (pem_der(&certificate), pem_der(&key));
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.into()],
                rustls::pki_types::PrivatePkcs8KeyDer::from(key).into(),
            )
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut head = Vec::new();
                    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                        if !matches!(stream.read_buf(&mut head).await, Ok(read) if read > 0) {
                            return;
                        }
                    }
                    let (answer, waits) = rule(&String::from_utf8_lossy(&head));
                    let _ = stream.write_all(&answer).await;
                    let _ = stream.flush().await;
                    if waits {
                        Notify::new().notified().await;
                    }
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self { port, task }
    }
}

fn pem_der(pem: &str) -> Vec<u8> {
    let base64: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(base64).unwrap()
}

fn http(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .into_bytes()
}

/// Servers that lie, stall and break off harm their own groups alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_servers_disturb_nobody() {
    // It passes its probes, and answers everything else with this.
    let rules: [(&str, Rule); 8] = [
        ("describing", |line| {
            let document = r##"{"swagger":"2.0","paths":{"/apis/describing.io/v1/things":{"get":{"responses":{
                "200":{"schema":{"$ref":"#/definitions/Thing"}}}},"post":5}},"definitions":{"Thing":{"type":"object",
                "properties":{"a":{"$ref":"#/nowhere"},"b":{"$ref":"#/definitions/None"},"c":{"type":"array"},
                "d":{"type":["string","null"]},"e":7,"f":{"type":"strange"}}}}}"##;
            let is_document = line.contains("/openapi/v2");
            (http("200 OK", "", if is_document { document } else { "{}" }), false)
        }),
        ("garbage", |_| (http("200 OK", "", "\u{1}{[not json"), false)),
        ("silent", |_| (Vec::new(), true)),
        ("redirecting", |line| match line.contains("things") {
            true => (http("302 Found", "Location: https://127.0.0.1:1/\r\n", ""), false),
            false => (http("200 OK", "", "{}"), false),
        }),
        ("moved", |_| (http("301 Moved", "Location: /elsewhere\r\n", ""), false)),
        ("headers", |line| match line.contains("things") {
            true => {
                let many: String = (0..200).map(|n| format!("X-{n}: {}\r\n", "y".repeat(5000))).collect();
                (http("200 OK", &many, "{}"), false)
            }
            false => (http("200 OK", "", "{}"), false),
        }),
        ("cutting", |line| match line.contains("things") {
            true => {
                let event = r#"{"type":"ADDED","object":{"kind":"Thing","metadata":{"name":"a"}}}"#;
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
                let length = event.len() + 1;
                (format!("{head}{length:x}\r\n{event}\n\r\nff\r\n").into_bytes(), false)
            }
            false => (http("200 OK", "", "{}"), false),
        }),
        ("nonsense", |_| (b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(), false)),
    ];
    let mut servers = Vec::new();
    for (name, rule) in rules {
        servers.push((name, Scripted::start(rule).await));
    }
    let (files, proxies) = (Files::new(), Authority::new("front-proxy-ca"));
    let addresses: Vec<(&str, u16)> = servers.iter().map(|(name, server)| (*name, server.port)).collect();
    let front = front(&files, &proxies, &addresses).await;
    let client = front.client().unwrap();
    for (name, _) in &servers {
        let service = api_service(&format!("{name}.io"), name, json!({"insecureSkipTLSVerify": true}));
        client.post(SERVICES, &service).await.unwrap().expect_status(201).unwrap();
    }
    for name in ["describing", "garbage", "redirecting", "headers", "cutting"] {
        available(&client, &format!("v1.{name}.io"), "True", "Passed").await;
    }
    for (name, text) in
        [("moved", "bad status from"), ("nonsense", "failing or missing response"), ("silent", "timed out")]
    {
        let condition = available(&client, &format!("v1.{name}.io"), "False", "FailedDiscoveryCheck").await;
        assert!(condition["message"].as_str().unwrap().contains(text), "{condition}");
    }
    let things = |name: &str| format!("/apis/{name}.io/v1/namespaces/default/things");
    let redirected = client.get(&things("redirecting")).await.unwrap();
    let text = "the backend attempted to redirect this request, which is not permitted\n";
    assert_eq!((redirected.status, redirected.text().as_str()), (502, text));
    let large = client.get(&things("headers")).await.unwrap();
    assert!(
        large.status == 503 && large.text().starts_with("error trying to reach service: "),
        "{}",
        large.text()
    );
    let mut cut = client.watch(&format!("{}?watch=true", things("cutting"))).await.unwrap();
    assert_eq!(cut.event().await.unwrap()["type"], "ADDED");
    assert!(!matches!(cut.next_in_time().await, Ok(Some(_))));
    // Discovery is whole for clients: what cannot be read is stale and empty.
    let shown = client.request("GET", "/apis").accept(AGGREGATED).send().await.unwrap().json();
    let of = |name: &str| {
        let items = shown["items"].as_array().unwrap().clone();
        items.into_iter().find(|item| item["metadata"]["name"] == format!("{name}.io")).unwrap()
    };
    for (name, _) in &servers {
        let versions = json!([{"version": "v1", "freshness": "Stale", "resources": []}]);
        assert_eq!(of(name)["versions"], versions, "{name}");
    }
    let index = client.get("/openapi/v3").await.unwrap().json();
    let is_theirs = |key: &String| servers.iter().any(|(name, _)| key.contains(&format!("{name}.io")));
    assert!(!index["paths"].as_object().unwrap().keys().any(is_theirs), "{index}");
    // One part that kubectl could not read would cost it the whole document.
    let document = client.get("/openapi/v2").await.unwrap().json();
    assert!(document["definitions"]["Thing"]["properties"]["f"].is_object(), "{}", document["definitions"]);
    let explained = front.kubectl(&["explain", "leases.spec", "--output=plaintext-openapiv2"]).await.unwrap();
    assert!(explained.contains("holderIdentity"), "{explained}");
    // And everything else is served.
    register(&client, &scaled()).await;
    client.post(WIDGETS, &object("example.com", "Widget", "one", json!({}))).await.unwrap();
    assert!(front.kubectl(&["get", "widgets"]).await.unwrap().contains("one"));
}

/// Answers that their clients do not read wait, and hold up nobody else's over the same connection to the other server.
#[tokio::test]
async fn who_does_not_read_holds_nobody_up() {
    let chain = Chain::start().await;
    let client = chain.front.client().unwrap();
    for n in 0..8 {
        let large =
            object("example.com", "Widget", &format!("large-{n}"), json!({"note": "x".repeat(400_000)}));
        client.post(WIDGETS, &large).await.unwrap().expect_status(201).unwrap();
    }
    let mut unread = Vec::new();
    for _ in 0..40 {
        let mut stream = chain.front.dial_holding(4096).await.unwrap();
        let request = format!("GET {WIDGETS} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        // The head has come, so the answer is on its way.
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        unread.push(stream);
    }
    let small = object("example.com", "Widget", "small", json!({}));
    client.post(WIDGETS, &small).await.unwrap().expect_status(201).unwrap();
    for _ in 0..5 {
        client.get(&format!("{WIDGETS}/small")).await.unwrap().expect_status(200).unwrap();
        client.get(&format!("{WIDGETS}/large-1")).await.unwrap().expect_status(200).unwrap();
    }
}

/// The annotation names the server, if its host may be named.
#[tokio::test]
async fn an_annotation_names_an_allowed_host() {
    let chain = Chain::start().await;
    let port = chain.back.address().unwrap().port();
    let front = ServerOptions::default()
        .args(&[
            "--aggregator-allowed-hosts",
            &format!("127.0.0.1:{port}"),
            "--aggregator-probe-interval",
            "1s",
        ])
        .start()
        .await
        .unwrap();
    let client = front.client().unwrap();
    let annotated = |group: &str, url: String| {
        let mut service = api_service(group, "anything", json!({"caBundle": authorities(&chain.back)}));
        service["metadata"]["annotations"] = json!({"kindom.dev/url": url});
        service
    };
    let foreign = annotated("other.example.com", "https://127.0.0.1:1".to_owned());
    client.post(SERVICES, &foreign).await.unwrap().expect_status(201).unwrap();
    let condition = available(&client, "v1.other.example.com", "False", "ServiceAccessError").await;
    let message = "kindom.dev/url names 127.0.0.1:1, which --aggregator-allowed-hosts does not";
    assert_eq!(condition["message"], message);
    // It is reached; without a certificate of a proxy, this server is nobody there.
    let service = annotated("example.com", format!("https://127.0.0.1:{port}"));
    client.post(SERVICES, &service).await.unwrap().expect_status(201).unwrap();
    let condition = available(&client, "v1.example.com", "False", "FailedDiscoveryCheck").await;
    assert!(condition["message"].as_str().unwrap().contains("bad status from"), "{condition}");
}

/// A request that comes back is refused, and does not go round.
#[tokio::test]
async fn a_loop_is_refused() {
    let (files, proxies) = (Files::new(), Authority::new("front-proxy-ca"));
    let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = front(&files, &proxies, &[("itself", relay.local_addr().unwrap().port())]).await;
    let address = front.address().unwrap();
    // The server's own address is known only now.
    let relayed = tokio::spawn(async move {
        while let Ok((mut from, _)) = relay.accept().await {
            tokio::spawn(async move {
                if let Ok(mut to) = tokio::net::TcpStream::connect(address).await {
                    let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                }
            });
        }
    });
    let client = front.client().unwrap();
    let service = api_service("loop.io", "itself", json!({"insecureSkipTLSVerify": true}));
    client.post(SERVICES, &service).await.unwrap().expect_status(201).unwrap();
    let condition = available(&client, "v1.loop.io", "False", "FailedDiscoveryCheck").await;
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("bad status from"), "{message}");
    assert_eq!(client.get("/apis/loop.io/v1/things").await.unwrap().status, 503);
    relayed.abort();
}

/// Many APIServices of servers that are away: following them takes nothing from a type whose actor has the same thread.
#[tokio::test]
async fn many_api_services_hold_up_no_type() {
    let (files, proxies) = (Files::new(), Authority::new("front-proxy-ca"));
    // Nobody listens there any more.
    let away = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let front = front(&files, &proxies, &[("away", away)]).await;
    let client = front.client().unwrap();
    register(&client, &crd("quiet.example.com", "widgets", "Widget", "Namespaced")).await;
    let (many, writers) = (count(200, 2000), 8);
    let mut crowd = JoinSet::new();
    for writer in 0..writers {
        let client = front.client().unwrap();
        crowd.spawn(async move {
            for n in (writer..many).step_by(writers) {
                let service =
                    api_service(&format!("g{n}.example.org"), "away", json!({"insecureSkipTLSVerify": true}));
                client.post(SERVICES, &service).await.unwrap().expect_status(201).unwrap();
            }
        });
    }
    let mut answers = 0;
    let quiet = "/apis/quiet.example.com/v1/namespaces/default/widgets";
    while crowd.try_join_next().is_none_or(|ended| ended.map(|()| !crowd.is_empty()).unwrap()) {
        let widget = object("quiet.example.com", "Widget", &format!("w{answers}"), json!({}));
        client.post(quiet, &widget).await.unwrap().expect_status(201).unwrap();
        answers += 1;
    }
    println!("{answers} answers beside {many} APIServices");
    assert!(answers >= many / 10, "{answers} answers beside {many} APIServices");
    available(&client, "v1.g0.example.org", "False", "FailedDiscoveryCheck").await;
    let of = |conditions: &Value| conditions[0]["reason"].as_str().unwrap_or_default().to_owned();
    let reasons = eventually("each has a condition", async || {
        let all = client.get(SERVICES).await.unwrap().json();
        let remote =
            all["items"].as_array().unwrap().iter().filter(|item| item["spec"]["service"].is_object());
        let reasons: Vec<String> = remote.map(|item| of(&item["status"]["conditions"])).collect();
        reasons.iter().all(|reason| !reason.is_empty()).then_some(reasons)
    });
    let followed = reasons.await.iter().filter(|reason| *reason == "FailedDiscoveryCheck").count();
    assert_eq!(followed, many.min(1000), "beyond a thousand they are not followed");
    if many > 1000 {
        // Whoever comes late takes nobody's place, whatever its name is.
        let service = api_service("a.example.org", "away", json!({"insecureSkipTLSVerify": true}));
        client.post(SERVICES, &service).await.unwrap().expect_status(201).unwrap();
        available(&client, "v1.a.example.org", "False", "TooManyAPIServices").await;
    }
}

/// An object behind may name an owner in front, of a kind that both servers have. Its end is seen by neither, so it stays.
#[tokio::test]
async fn what_is_owned_by_an_object_in_front_stays() {
    let chain = Chain::start().await;
    let (front, back) = (chain.front.client().unwrap(), chain.back.client().unwrap());
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    let uid_of = |answer: Answer| answer.expect_status(201).unwrap().at("/metadata/uid");
    let in_front = uid_of(front.post(maps, &map).await.unwrap());
    let behind = uid_of(back.post(maps, &map).await.unwrap());
    let owned = |name: &str, owners: &[(&str, &str, &Value)]| {
        let mut widget = object("example.com", "Widget", name, json!({}));
        let owners = owners.iter().map(|(kind, name, uid)| {
            let api_version = if *kind == "Widget" { "example.com/v1" } else { "v1" };
            json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": true})
        });
        widget["metadata"]["ownerReferences"] = owners.collect();
        widget
    };
    let create = async |widget: Value| uid_of(front.post(WIDGETS, &widget).await.unwrap());
    let ends = create(owned("ends", &[])).await;
    create(owned("kept", &[("ConfigMap", "one", &in_front)])).await;
    create(owned("follows", &[("ConfigMap", "one", &behind)])).await;
    create(owned("both", &[("ConfigMap", "one", &in_front), ("Widget", "ends", &ends)])).await;
    // Widgets are only here: this owner never was.
    create(owned("orphan", &[("Widget", "nobody", &json!("never"))])).await;
    until_gone(&front, WIDGETS, "orphan").await;
    back.delete(&format!("{maps}/one")).await.unwrap().expect_status(200).unwrap();
    until_gone(&front, WIDGETS, "follows").await;
    // An owner that waits for what it owns does not wait for what has another one.
    let ended = front.delete(&format!("{WIDGETS}/ends?propagationPolicy=Foreground")).await.unwrap();
    ended.expect_status(200).unwrap();
    until_gone(&front, WIDGETS, "ends").await;
    let both = front.get(&format!("{WIDGETS}/both")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(both.at("/metadata/ownerReferences").as_array().unwrap().len(), 1);
    front.get(&format!("{WIDGETS}/kept")).await.unwrap().expect_status(200).unwrap();
}

//! Nobody takes more than a fair share: what is dear for one type holds up no other, and is refused where too much of it waits.
//!
//! No bound is a time: these tests count the answers that came meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kindom_codec::protobuf;
use kindom_integration::{Answer, Client, Server, ServerOptions, count};
use kindom_objects::Declared;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::hostile::gzipped;
use crate::support::{crd, eventually, object, register};

const GROUP: &str = "shares.example.com";
const QUIET: &str = "/apis/shares.example.com/v1/namespaces/default/quiets";
pub(crate) const DEAR: &str = "/apis/shares.example.com/v1/namespaces/default/dears";

/// A type whose objects take long to validate: each number is compared with each of many ranges.
pub(crate) fn dear_type() -> Value {
    let branches = count(400, 4_000);
    let ranges: Vec<Value> = (0..branches).map(|n| json!({"minimum": n, "maximum": n})).collect();
    let mut body = crd(GROUP, "dears", "Dear", "Namespaced");
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({
        "type": "object",
        "properties": {"numbers": {"type": "array", "items": {"type": "integer", "anyOf": ranges}}},
    });
    body
}

pub(crate) fn dear(name: &str) -> Value {
    let last = count(400, 4_000) - 1;
    object(GROUP, "Dear", name, json!({"numbers": vec![last; 2000]}))
}

async fn start() -> (Server, Client) {
    let server = ServerOptions::default().start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "quiets", "Quiet", "Namespaced")).await;
    register(&client, &dear_type()).await;
    (server, client)
}

/// Clients that create dear objects one after the other until they are told to stop.
struct Crowd {
    answered: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
}

impl Crowd {
    /// So many clients, each on a connection of its own; returns once each has an answer.
    async fn start(server: &Server, clients: usize) -> Self {
        let mut crowd = Self { answered: Arc::default(), stop: Arc::default(), clients: JoinSet::new() };
        let began = Arc::new(AtomicUsize::new(0));
        for client in 0..clients {
            let (answered, stop, began) =
                (Arc::clone(&crowd.answered), Arc::clone(&crowd.stop), Arc::clone(&began));
            let connection = server.client().unwrap();
            crowd.clients.spawn(async move {
                for n in 0.. {
                    let name = format!("dear-{client}-{n}");
                    let answer = connection.post(DEAR, &dear(&name)).await.unwrap();
                    assert!([201, 429].contains(&answer.status), "{} {}", answer.status, answer.text());
                    if answer.status == 201 {
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                    if n == 0 {
                        began.fetch_add(1, Ordering::SeqCst);
                    }
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
        // One after the other: how long all of them take is the machine's affair.
        for come in 1..=clients {
            eventually("the crowd to come", async || (began.load(Ordering::SeqCst) >= come).then_some(()))
                .await;
        }
        crowd
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    async fn end(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(client) = self.clients.join_next().await {
            client.unwrap();
        }
    }
}

/// On a build whose HTTP workers did the work, each quiet answer came behind at least one dear one.
#[tokio::test]
async fn a_dear_type_holds_nobody_up() {
    let (server, client) = start().await;
    let crowd = Crowd::start(&server, 16).await;
    let before = crowd.answered();
    let rounds = count(40, 400);
    for n in 0..rounds {
        client.get("/livez").await.unwrap().expect_status(200).unwrap();
        let name = format!("quiet-{n}");
        let quiet = object(GROUP, "Quiet", &name, json!({"size": 1}));
        client.post(QUIET, &quiet).await.unwrap().expect_status(201).unwrap();
        client.get(&format!("{QUIET}/{name}")).await.unwrap().expect_status(200).unwrap();
    }
    let (quiet, meanwhile) = (3 * rounds, crowd.answered() - before);
    println!("{quiet} quiet answers, and {meanwhile} dear ones meanwhile");
    assert!(meanwhile * 4 < quiet, "{meanwhile} dear answers in the time of {quiet} quiet ones");
    crowd.end().await;
    client.post(DEAR, &dear("last")).await.unwrap().expect_status(201).unwrap();
}

/// Whoever sends more than can be done in a few seconds is told when to come again.
#[tokio::test]
async fn too_much_of_what_is_dear_is_refused() {
    let (server, client) = start().await;
    // The type is known to be dear from the first one on.
    client.post(DEAR, &dear("first")).await.unwrap().expect_status(201).unwrap();
    let mut all = JoinSet::new();
    for n in 0..count(100, 400) {
        let connection = server.client().unwrap();
        all.spawn(async move { connection.post(DEAR, &dear(&format!("dear-{n}"))).await.unwrap() });
    }
    let answers: Vec<Answer> = all.join_all().await;
    let (made, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    println!("{} were made and {} refused", made.len(), refused.len());
    assert!(!made.is_empty() && !refused.is_empty());
    for answer in refused {
        assert_eq!(answer.status, 429, "{}", answer.text());
        assert_eq!(answer.at("/reason"), "TooManyRequests");
        let seconds: u64 = answer.header("retry-after").parse().unwrap();
        assert_eq!(answer.at("/details/retryAfterSeconds"), seconds);
        assert!((2..=60).contains(&seconds), "{seconds}");
    }
    client.post(DEAR, &dear("again")).await.unwrap().expect_status(201).unwrap();
}

/// The value of a metric's line.
pub(crate) async fn metric(client: &Client, line: &str) -> Option<u64> {
    let text = client.get("/metrics").await.unwrap().expect_status(200).unwrap().text();
    text.lines().find_map(|of| of.strip_prefix(line)?.trim().parse().ok())
}

/// Writes whose bodies do not come are in flight; kube-apiserver's bound, with its text, and those whom it lets through.
#[tokio::test]
async fn requests_in_flight_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "secret,bob,1\n").unwrap();
    let args = ["--token-auth-file", tokens.to_str().unwrap(), "--max-mutating-requests-inflight", "2"];
    let server = ServerOptions::default().args(&args).start().await.unwrap();
    let admin = server.client().unwrap();
    register(&admin, &crd(GROUP, "quiets", "Quiet", "Namespaced")).await;
    let bob = server.anonymous().unwrap().with_token("secret");
    let quiet = |name: &str| object(GROUP, "Quiet", name, json!({"size": 1}));
    let body = quiet("late").to_string();
    let head = format!(
        "POST {QUIET} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut late = Vec::new();
    for _ in 0..2 {
        let mut connection = server.dial_anonymous().await.unwrap();
        connection.write_all(head.as_bytes()).await.unwrap();
        late.push(connection);
    }
    let line = "apiserver_current_inflight_requests{request_kind=\"mutating\"}";
    eventually("two writes in flight", async || (metric(&admin, line).await == Some(2)).then_some(())).await;
    let refused = bob.post(QUIET, &quiet("more")).await.unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
    assert_eq!(refused.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(refused.text(), "Too many requests, please try again later.\n");
    // What it lets through: reads have a bound of their own, and a master has none.
    bob.get(QUIET).await.unwrap().expect_status(200).unwrap();
    bob.get("/livez").await.unwrap().expect_status(200).unwrap();
    admin.post(QUIET, &quiet("own")).await.unwrap().expect_status(201).unwrap();
    // The first of them comes to its end, and there is room again.
    late[0].write_all(body.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = late[0].read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&answer));
    bob.post(QUIET, &quiet("more")).await.unwrap().expect_status(201).unwrap();
}

/// A body that grows when it is decompressed, a patch that grows when it is read, and a past state that only this request has:
/// what one connection holds of memory is bounded, and goes back.
#[tokio::test]
async fn what_a_request_grows_to_is_in_the_budget() {
    let options = ServerOptions::default().args(&["--memory-budget", "8388608"]);
    let mut server = options.start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "quiets", "Quiet", "Namespaced")).await;
    let held = async |client: &Client| metric(client, "kindom_memory_held_bytes").await;
    let too_much = |answer: Answer| {
        assert_eq!((answer.status, answer.header("retry-after")), (429, "1"), "{:.300}", answer.text());
    };

    let large = |name: &str, bytes: usize| object(GROUP, "Quiet", name, json!({"note": "x".repeat(bytes)}));
    let zipped = async |name: &str, bytes: usize| {
        let request = client.request("POST", QUIET).header("content-encoding", "gzip");
        let body = gzipped(large(name, bytes).to_string().as_bytes());
        request.body("application/json", body).send().await.unwrap()
    };
    too_much(zipped("bomb", 1 << 20).await);
    zipped("small", 100_000).await.expect_status(201).unwrap();

    let small = format!("{QUIET}/small");
    let many = |count: usize| format!(r#"{{"spec":{{"note":null}},"none":[{}0]}}"#, "0,".repeat(count));
    let merge = "application/merge-patch+json";
    let patch = async |kind: &str, path: &str, body: String| {
        client.request("PATCH", path).body(kind, body).send().await.unwrap()
    };
    too_much(patch(merge, &small, many(100_000)).await);
    patch(merge, &small, many(10_000)).await.expect_status(200).unwrap();
    let applied = format!("{QUIET}/applied?fieldManager=test");
    let configuration = |count: usize| {
        let annotations: String = (0..count).map(|n| format!("    k{n}: v\n")).collect();
        let head = format!("apiVersion: {GROUP}/v1\nkind: Quiet\nmetadata:\n  name: applied\n");
        format!("{head}  annotations:\n{annotations}")
    };
    let apply = "application/apply-patch+yaml";
    too_much(patch(apply, &applied, configuration(30_000)).await);
    patch(apply, &applied, configuration(1000)).await.expect_status(201).unwrap();

    // A watch has its selectors for hours.
    let without: Vec<String> = (0..4000).map(|n| format!("!k{n}")).collect();
    let selective = format!("{QUIET}?watch=true&labelSelector={}", without.join("%2C"));
    let other = server.client().unwrap();
    let watch = other.watch(&selective).await.unwrap();
    eventually("selectors are counted", async || (held(&client).await > Some(300_000)).then_some(())).await;
    drop((watch, other));
    eventually("nothing is held", async || (held(&client).await == Some(0)).then_some(())).await;
    let many: Vec<Client> = (0..40).map(|_| server.client().unwrap()).collect();
    let mut open = Vec::new();
    let mut refused = 0;
    for client in &many {
        match client.watch(&selective).await {
            Ok(watch) => open.push(watch),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0 && open.len() > 5, "{refused} of {}", many.len());
    drop((open, many));
    eventually("nothing is held", async || (held(&client).await == Some(0)).then_some(())).await;

    for n in 0..12 {
        client.post(QUIET, &large(&format!("large-{n}"), 100_000)).await.unwrap().expect_status(201).unwrap();
    }
    let revision = client.get(QUIET).await.unwrap().at("/metadata/resourceVersion");
    let past = format!("{QUIET}?resourceVersion={}&resourceVersionMatch=Exact", revision.as_str().unwrap());
    client.delete(&small).await.unwrap().expect_status(200).unwrap();
    // As long as everybody's memory has that state it costs nothing.
    client.get(&past).await.unwrap().expect_status(200).unwrap();
    server.kill9().unwrap();
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    too_much(client.get(&past).await.unwrap());
    let mut page = client.get(&format!("{past}&limit=5")).await.unwrap().expect_status(200).unwrap();
    let mut seen = 0;
    loop {
        seen += page.at("/items").as_array().unwrap().len();
        let next = page.at("/metadata/continue").as_str().unwrap_or_default().to_owned();
        if next.is_empty() {
            break;
        }
        let next = format!("{QUIET}?limit=5&continue={next}");
        page = client.get(&next).await.unwrap().expect_status(200).unwrap();
    }
    assert_eq!(seen, 14, "the one that was deleted since is among them");
    eventually("nothing is held", async || (held(&client).await == Some(0)).then_some(())).await;
}

/// A list without its revision: other writes go on.
fn undated(mut list: Value) -> Value {
    list["metadata"]["resourceVersion"].take();
    list
}

/// Lists that are larger than what a connection may hold, and an object of which a byte takes hundreds when it is laid out: they
/// come in pieces, in every form.
#[tokio::test]
async fn what_is_longer_than_the_budget_comes_in_pieces() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let server = ServerOptions::default().args(&["--memory-budget", "8388608"]).start().await.unwrap();
    let client = server.client().unwrap();
    for n in 0..30 {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{n:02}")},
            "data": {"long": "x y\n".repeat(25_000), "n": n.to_string()}});
        client.post(MAPS, &map).await.unwrap().expect_status(201).unwrap();
    }
    let get = async |path: &str, accept: &str| {
        let answer = client.request("GET", path).accept(accept).send().await.unwrap();
        answer.expect_status(200).unwrap()
    };
    let whole = get(MAPS, "application/json").await;
    assert!(whole.body.len() > 3 << 20);
    let pretty = get(&format!("{MAPS}?pretty=true"), "application/json").await;
    assert!(pretty.text().starts_with("{\n  \"apiVersion\": \"v1\",\n  \"items\": [\n    {\n"));
    assert_eq!(undated(pretty.json()), undated(whole.json()));
    let yaml = get(MAPS, "application/yaml").await;
    let read = kindom_codec::manifests::parse("list", &yaml.body).unwrap();
    let read: Value = serde_json::from_str(&read[0].1.to_string()).unwrap();
    assert_eq!(undated(read), undated(whole.json()));

    let protobuf = get(MAPS, "application/vnd.kubernetes.protobuf").await;
    let kind: &'static Declared = Box::leak(Box::new(Declared::catalogued("v1", "ConfigMap")));
    let read = protobuf::decode(&protobuf.body, kind.messages().unwrap().list()).unwrap();
    let read: Value = serde_json::from_str(&read.to_string()).unwrap();
    assert!(read["metadata"]["resourceVersion"].is_string());
    let wanted = whole.at("/items").as_array().unwrap().clone();
    assert_eq!(read["items"].as_array().unwrap().len(), wanted.len());
    for (item, wanted) in read["items"].as_array().unwrap().iter().zip(&wanted) {
        assert_eq!((&item["data"], &item["metadata"]["uid"]), (&wanted["data"], &wanted["metadata"]["uid"]));
    }
    for form in ["application/json", "application/vnd.kubernetes.protobuf"] {
        for kind in ["Table", "PartialObjectMetadataList"] {
            get(MAPS, &format!("{form};as={kind};v=v1;g=meta.k8s.io,application/json")).await;
        }
    }

    let mut deep = crd(GROUP, "deeps", "Deep", "Namespaced");
    deep["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    register(&client, &deep).await;
    let path = format!("/apis/{GROUP}/v1/namespaces/default/deeps");
    let lists = format!("{}{}0{}", "[".repeat(200), "0,".repeat(50_000), "]".repeat(200));
    let body = object(GROUP, "Deep", "one", json!("here")).to_string().replace("\"here\"", &lists);
    let laid_out = client.request("POST", &format!("{path}?pretty=true")).body("application/json", body);
    let laid_out = laid_out.send().await.unwrap().expect_status(201).unwrap();
    assert!(laid_out.body.len() > 15 << 20);
    for (query, accept) in [("?pretty=true", "application/json"), ("", "application/yaml")] {
        assert!(get(&format!("{path}/one{query}"), accept).await.body.len() > 15 << 20);
    }
    let held = async || metric(&client, "kindom_memory_held_bytes").await;
    eventually("nothing is held", async || (held().await == Some(0)).then_some(())).await;
}

/// Large events of watches that nobody reads are in the budget; those for which there is no room come once there is.
#[tokio::test]
async fn large_events_wait_for_room() {
    const BUDGET: u64 = 16 << 20;
    let server =
        ServerOptions::default().args(&["--memory-budget", &BUDGET.to_string()]).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "quiets", "Quiet", "Namespaced")).await;
    let other = server.client().unwrap();
    let large = object(GROUP, "Quiet", "large", json!({"note": "x".repeat(1_400_000)}));
    let created = client.post(QUIET, &large).await.unwrap().expect_status(201).unwrap();
    let from = created.at("/metadata/resourceVersion").as_str().unwrap().to_owned();
    // Who does not see them, does not wait for them either.
    let selective = format!("{QUIET}?watch=true&resourceVersion={from}&labelSelector=seen");
    let mut selective = other.watch(&selective).await.unwrap();
    let path = format!("{QUIET}?watch=true&resourceVersion={from}");
    let clients: Vec<Client> = (0..24).map(|_| server.client().unwrap()).collect();
    let mut watches = Vec::new();
    for client in &clients {
        watches.push(client.watch(&path).await.unwrap());
    }
    let mut versions = Vec::new();
    for n in 0..4 {
        let labels = json!({"metadata": {"labels": {"n": n.to_string()}}});
        let patched = client.merge_patch(&format!("{QUIET}/large"), &labels).await.unwrap();
        let patched = patched.expect_status(200).unwrap();
        versions.push(patched.at("/metadata/resourceVersion"));
    }
    let held = async || metric(&client, "kindom_memory_held_bytes").await.unwrap_or_default();
    let mut most = 0;
    eventually("they wait", async || {
        let now = held().await;
        most = most.max(now);
        (now > BUDGET / 2 - 2_000_000).then_some(())
    })
    .await;
    // Requests have the other half.
    assert!(most <= BUDGET / 2, "{most}");
    let mut small = object(GROUP, "Quiet", "small", json!({}));
    small["metadata"]["labels"] = json!({"seen": "yes"});
    client.post(QUIET, &small).await.unwrap().expect_status(201).unwrap();
    assert_eq!(selective.event().await.unwrap()["object"]["metadata"]["name"], "small");
    let mut reading = JoinSet::new();
    for mut watch in watches {
        let versions = versions.clone();
        reading.spawn(async move {
            for version in versions {
                let event = watch.next().await.unwrap().unwrap();
                assert_eq!(
                    (&event["type"], &event["object"]["metadata"]["resourceVersion"]),
                    (&json!("MODIFIED"), &version)
                );
            }
        });
    }
    while let Some(read) = reading.join_next().await {
        read.unwrap();
    }
    eventually("nothing is held", async || (held().await == 0).then_some(())).await;
}

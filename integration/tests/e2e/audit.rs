//! The audit log (docs/audit.md). The events of kube-apiserver for 100 requests are in `expectations/audit`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindom_integration::{Answer, ServerOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::fair::metric;
use crate::support::{crd, eventually, object, register};
use crate::webhook::{Said, Webhook, allowed};

const GROUP: &str = "recorded.example.com";
const EVERYTHING: &str = "{level: RequestResponse}";

fn things() -> String {
    format!("/apis/{GROUP}/v1/namespaces/default/things")
}

fn thing(name: &str) -> Value {
    object(GROUP, "Thing", name, json!({"size": 1}))
}

/// A policy, and a log.
pub(crate) struct Files {
    folder: TempDir,
    log: PathBuf,
}

impl Files {
    pub(crate) fn new(rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let policy = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{rules}]\n");
        std::fs::write(folder.path().join("policy.yaml"), policy).unwrap();
        let log = folder.path().join("log").join("audit.log");
        Self { folder, log }
    }

    /// The log is this file.
    fn at(rules: &str, log: &Path) -> Self {
        Self { log: log.to_owned(), ..Self::new(rules) }
    }

    pub(crate) fn options(&self, more: &[&str]) -> ServerOptions {
        let policy = self.folder.path().join("policy.yaml");
        let (policy, log) = (policy.display().to_string(), self.log.display().to_string());
        let own = ["--audit-policy-file", &policy, "--audit-log-path", &log];
        ServerOptions::default().args(&own).args(more)
    }

    /// All events so far. Of a line that is being written, a part may be there.
    fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The events of the request that has had this answer.
    fn of(&self, answer: &Answer) -> Vec<Value> {
        let id = answer.header("audit-id");
        assert!(!id.is_empty());
        self.events().into_iter().filter(|event| event["auditID"] == id).collect()
    }
}

fn stages(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["stage"].as_str().unwrap()).collect()
}

/// kubectl's own requests, and the webhook that lets one pass, are in the log as soon as kubectl has its answer.
#[tokio::test]
async fn what_kubectl_does_is_recorded() {
    let files = Files::new(&format!(
        "{{level: None, nonResourceURLs: ['*']}}, {{level: RequestResponse, omitManagedFields: true, resources: [{{group: {GROUP}}}]}}, \
         {{level: Metadata}}"
    ));
    let server = files.options(&[]).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "things", "Thing", "Namespaced")).await;
    let webhook = Webhook::start(Arc::new(|_, review| {
        let mut answer = allowed(review);
        answer["response"]["auditAnnotations"] = json!({"seen": "by a test"});
        Said::Json(answer)
    }))
    .await;
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "judge"},
        "webhooks": [{
            "name": "judge.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://127.0.0.1:{}/", webhook.port), "caBundle": webhook.authorities},
            "rules": [{"operations": ["*"], "apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["things"]}],
        }],
    });
    server.kubectl_with(&["apply", "-f", "-"], &hook.to_string()).await.unwrap().success().unwrap();
    server.kubectl_with(&["apply", "-f", "-"], &thing("one").to_string()).await.unwrap().success().unwrap();
    server.kubectl(&["delete", "things", "one", "--wait=false"]).await.unwrap();
    let events = files.events();
    let of = |verb: &str, stage: &str| {
        let is = |event: &&Value| {
            event["verb"] == verb && event["stage"] == stage && event["objectRef"]["resource"] == "things"
        };
        events.iter().find(is).unwrap_or_else(|| panic!("{verb} {stage} of {events:#?}")).clone()
    };
    let created = of("create", "ResponseComplete");
    assert_eq!(created["objectRef"]["name"], "one", "{created:#}");
    assert_eq!(created["responseStatus"]["code"], 201);
    assert_eq!(created["requestObject"]["spec"]["size"], 1);
    assert_eq!(created["responseObject"]["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert!(created["responseObject"]["metadata"].get("managedFields").is_none(), "{created:#}");
    assert_eq!(created["annotations"]["judge.example.com/seen"], "by a test");
    assert_eq!(created["annotations"]["authorization.k8s.io/decision"], "allow");
    assert!(created["userAgent"].as_str().unwrap().starts_with("kubectl/"));
    assert_eq!(created["sourceIPs"], json!(["127.0.0.1"]));
    assert!(of("create", "RequestReceived").get("responseStatus").is_none());
    assert_eq!(of("delete", "ResponseComplete")["requestObject"]["kind"], "DeleteOptions");
    let registered =
        events.iter().find(|event| event["objectRef"]["resource"] == "customresourcedefinitions");
    assert!(registered.unwrap().get("requestObject").is_none(), "at another level");
    assert!(events.iter().all(|event| event.get("objectRef").is_some()), "paths are not recorded");
}

/// An answer comes after its event is in the file, whoever else asks; and a watch's end is recorded, whoever ends it.
#[tokio::test]
async fn an_answer_waits_for_its_event() {
    let files = Files::new(EVERYTHING);
    let mut server = files.options(&[]).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "things", "Thing", "Namespaced")).await;
    let mut all = JoinSet::new();
    for n in 0..8 {
        let (client, files) = (server.client().unwrap(), files.log.clone());
        all.spawn(async move {
            for m in 0..25 {
                let answer = client.post(&things(), &thing(&format!("thing-{n}-{m}"))).await.unwrap();
                let answer = answer.expect_status(201).unwrap();
                let text = std::fs::read_to_string(&files).unwrap();
                let id = format!("\"auditID\":\"{}\"", answer.header("audit-id"));
                let found = text.lines().filter(|line| line.contains(&id)).count();
                assert_eq!(found, 2, "the answer was there before its events");
            }
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    // Of HTTP/2: over HTTP/1.1 the server would see that its client is gone when it has something to send.
    let http2 = server.client_http2().unwrap();
    let mut watch = http2.watch(&format!("{}?watch=true", things())).await.unwrap();
    let id = watch.headers()["audit-id"].to_str().unwrap().to_owned();
    watch.event().await.unwrap();
    let of_watch = || files.events().into_iter().filter(|event| event["auditID"] == *id).collect::<Vec<_>>();
    assert_eq!(stages(&of_watch()), ["RequestReceived", "ResponseStarted"]);
    drop(watch);
    let ended = async || (of_watch().len() == 3).then_some(());
    eventually("the watch's end is recorded", ended).await;
    assert!(of_watch()[2].get("responseObject").is_none());
    let list = client.get(&things()).await.unwrap();
    let listed = files.of(&list);
    assert_eq!(listed.last().unwrap()["responseObject"]["items"].as_array().unwrap().len(), 200);
    // What a server that ends has answered is there.
    let watch = client.watch(&format!("{}?watch=true", things())).await.unwrap();
    let id = watch.headers()["audit-id"].to_str().unwrap().to_owned();
    server.terminate().await.unwrap();
    let events: Vec<_> = files.events().into_iter().filter(|event| event["auditID"] == *id).collect();
    assert_eq!(stages(&events), ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
    let before = files.events();
    server.restart().await.unwrap();
    server.client().unwrap().get(&things()).await.unwrap().expect_status(200).unwrap();
    let after = files.events();
    assert!(after.len() > before.len() && after.starts_with(&before), "it goes on where it was");
}

/// Events that cannot be written are counted by `blocking`, which goes on; `blocking-strict` does nothing that is not recorded.
#[tokio::test]
async fn a_log_that_cannot_be_written_fails_requests_if_it_has_to() {
    let rules = format!("{{level: Metadata, resources: [{{group: {GROUP}}}]}}");
    let full = Files::at(&rules, Path::new("/dev/full"));
    for (mode, code) in [("blocking", 201), ("batch", 201), ("blocking-strict", 500)] {
        let server = full.options(&["--audit-log-mode", mode]).start().await.unwrap();
        let client = server.client().unwrap();
        register(&client, &crd(GROUP, "things", "Thing", "Namespaced")).await;
        let answer = client.post(&things(), &thing("one")).await.unwrap();
        assert_eq!(answer.status, code, "{mode}: {}", answer.text());
        if mode == "blocking-strict" {
            let why = format!("Internal Server Error: \"{}\": failed to store audit event\n", things());
            assert_eq!(answer.text(), why);
            assert!(metric(&client, "apiserver_audit_requests_rejected_total").await >= Some(1));
        }
        let lost = async || {
            let lost = metric(&client, "apiserver_audit_error_total{plugin=\"log\"}").await;
            (lost >= Some(1)).then_some(())
        };
        eventually("the loss is counted", lost).await;
        client.get("/livez").await.unwrap().expect_status(200).unwrap();
    }
}

/// A disk that takes nothing loses the events that have no room, and holds up nobody in mode `batch`.
#[tokio::test]
async fn a_disk_that_hangs_holds_up_nobody_in_a_batch() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let files = Files::at(EVERYTHING, &pipe);
    // A pipe that somebody has open, and nobody reads.
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let mut server =
        files.options(&["--audit-log-mode=batch", "--audit-log-batch-buffer-size=20"]).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "things", "Thing", "Namespaced")).await;
    let large = object(GROUP, "Thing", "large", json!({"note": "x".repeat(100_000)}));
    client.post(&things(), &large).await.unwrap().expect_status(201).unwrap();
    for _ in 0..40 {
        client.get(&format!("{}/large", things())).await.unwrap().expect_status(200).unwrap();
    }
    assert!(metric(&client, "apiserver_audit_error_total{plugin=\"buffered\"}").await >= Some(1));
    // Nor the server's end.
    server.terminate().await.unwrap();
    drop(reader);
}

/// A client that goes away before its answer, or in its middle, takes no event along; and no answer that was cut stands in one.
#[tokio::test]
async fn the_end_of_a_request_is_recorded_without_its_client() {
    let files = Files::new("{level: RequestResponse, omitStages: [RequestReceived]}");
    let server = files.options(&[]).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "things", "Thing", "Namespaced")).await;
    let ended = async |is: &dyn Fn(&Value) -> bool| {
        let found = async || {
            files.events().into_iter().find(|event| is(event) && event["stage"] == "ResponseComplete")
        };
        eventually("its end is recorded", found).await
    };
    // Its name is another's, so it is never established.
    let mut waits = crd(GROUP, "others", "Thing", "Namespaced");
    waits["spec"]["names"]["kind"] = json!("Thing");
    let body = waits.to_string();
    let mut connection = server.dial().await.unwrap();
    let head = format!(
        "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions?waitFor=Established HTTP/1.1\r\nhost: h\r\n\
         content-type: application/json\r\naudit-id: waits\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/others.{GROUP}");
    eventually("it is stored", async || (client.get(&path).await.unwrap().status == 200).then_some(())).await;
    drop(connection);
    let event = ended(&|event| event["auditID"] == "waits").await;
    assert_eq!(event["requestObject"]["spec"]["names"]["plural"], "others", "{event:#}");
    assert_eq!(event["responseStatus"]["message"], "Connection closed early");

    let large =
        |n: usize| object(GROUP, "Thing", &format!("large-{n}"), json!({"note": "x".repeat(100_000)}));
    for n in 0..30 {
        client.post(&things(), &large(n)).await.unwrap().expect_status(201).unwrap();
    }
    let head = client.request("HEAD", &things()).header("audit-id", "head").send().await.unwrap();
    assert_eq!(head.status, 200);
    let mut connection = server.dial().await.unwrap();
    let request = format!("GET {} HTTP/1.1\r\nhost: h\r\naudit-id: cut\r\n\r\n", things());
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut beginning = [0; 1000];
    connection.read_exact(&mut beginning).await.unwrap();
    drop(connection);
    // Of a HEAD nothing was sent.
    for id in ["head", "cut"] {
        let event = ended(&|event| event["auditID"] == id).await;
        assert_eq!(event["responseStatus"]["code"], 200, "{id}");
        assert!(event.get("responseObject").is_none(), "{id}");
        assert_eq!(event["annotations"]["audit.k8s.io/truncated"], "true", "{id}");
    }
    let whole = client.get(&things()).await.unwrap();
    let event = ended(&|event| event["auditID"] == whole.header("audit-id")).await;
    assert_eq!(event["responseObject"]["items"].as_array().unwrap().len(), 30);
}

/// Objects in events count in the memory budget, and are left out where there is no room; one may also bound an event.
#[tokio::test]
async fn an_event_has_a_bound() {
    let files = Files::new(EVERYTHING);
    let more = ["--memory-budget", "33554432", "--audit-log-maxsize=0"];
    let server = files.options(&more).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "things", "Thing", "Namespaced")).await;
    let large = |name: String| object(GROUP, "Thing", &name, json!({"note": "x".repeat(150_000)}));
    for n in 0..6 {
        let created = client.post(&things(), &large(format!("large-{n}"))).await.unwrap();
        let created = created.expect_status(201).unwrap();
        let events = files.of(&created);
        assert_eq!(events[1]["responseObject"]["spec"]["note"].as_str().unwrap().len(), 150_000);
    }
    let list = client.get(&things()).await.unwrap().expect_status(200).unwrap();
    assert_eq!(list.at("/items").as_array().unwrap().len(), 6);
    let of_list = async || {
        let events = files.of(&list);
        let last = events.last()?;
        (last["stage"] == "ResponseComplete").then(|| last.clone())
    };
    let event = eventually("the list's end is recorded", of_list).await;
    assert!(event.get("responseObject").is_none());
    assert_eq!(event["annotations"]["audit.k8s.io/truncated"], "true");
    eventually("nothing is held", async || {
        (metric(&client, "kindom_memory_held_bytes").await == Some(0)).then_some(())
    })
    .await;
    drop(server);

    let more = ["--audit-log-truncate-enabled", "--audit-log-truncate-max-event-size=3000"];
    let server = files.options(&more).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "things", "Thing", "Namespaced")).await;
    let created =
        client.post(&things(), &large("large".to_owned())).await.unwrap().expect_status(201).unwrap();
    let event = files.of(&created).pop().unwrap();
    assert_eq!(event["annotations"]["audit.k8s.io/truncated"], "true");
    assert!(event.get("requestObject").is_none() && event.get("responseObject").is_none());
    let long = format!("{}?labelSelector={}", things(), "a,".repeat(2000));
    let listed = client.get(&long).await.unwrap();
    assert_eq!(files.of(&listed).len(), 0);
    assert!(metric(&client, "apiserver_audit_error_total{plugin=\"truncate\"}").await >= Some(1));
}

/// A policy that is wrong is refused at the start, by upstream's words.
#[tokio::test]
async fn a_policy_that_is_wrong_is_named() {
    let refusal = async |rules: &str, log: Option<&Path>| {
        let files = match log {
            Some(log) => Files::at(rules, log),
            None => Files::new(rules),
        };
        let why = files.options(&[]).start().await.err().unwrap().to_string();
        why.replace(&files.folder.path().display().to_string(), "")
    };
    for (rules, wanted) in [
        ("{level: Odd}", "rules[0].level: Unsupported value: \"Odd\": supported values: "),
        ("{}", "rules[0].level: Required value: from file /policy.yaml"),
        ("", "loaded illegal policy with 0 rules: from file /policy.yaml"),
        (
            "{level: None, nonResourceURLs: [a, /b*c], resources: [{group: A/v1}]}",
            "[rules[0].nonResourceURLs[0]: Invalid value: \"a\": non-resource URL rules must begin with a '/' character",
        ),
        ("{level: None, users: 3}", "failed decoding: "),
    ] {
        let why = refusal(rules, None).await;
        assert!(why.contains(wanted) && why.contains("loading audit policy file: "), "{why}");
    }
    let why = refusal(EVERYTHING, Some(Path::new("/proc/nowhere/audit.log"))).await;
    assert!(why.contains("--audit-log-path /proc/nowhere/audit.log: "), "{why}");
}

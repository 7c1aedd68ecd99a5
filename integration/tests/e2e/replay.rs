//! The answers of the real API server, step by step.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kindom_integration::replay::{
    KnownDifference, Request, Response, Stop, Transport, Watched, judge, read_known, read_topics, replay,
};
use kindom_integration::{Client, HarnessError, Opened, ServerOptions, tools};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::webhook::{Webhook, of_scripts};

/// The longest that a script's `until` waits; an event that has not happened by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

struct OverClient {
    client: Client,
    /// Without a certificate, for a request with credentials of its own.
    bare: Client,
    deadline: Instant,
    /// The words that differ from run to run, and those that stand for them in a recording.
    masked: Vec<(String, &'static str)>,
    /// The server's audit log, if it has one.
    audit_log: Option<PathBuf>,
}

impl OverClient {
    fn mask(&self, body: &[u8]) -> Vec<u8> {
        if self.masked.is_empty() {
            return body.to_vec();
        }
        let mut text = String::from_utf8_lossy(body).into_owned();
        for (of, by) in &self.masked {
            text = text.replace(of, by);
        }
        let revision = regex::Regex::new(r"not decodable revision=\d+").unwrap();
        revision.replace_all(&text, "not decodable revision=<revision>").into_owned().into_bytes()
    }

    /// The events of an id in the audit log, as the recorder shows them.
    fn events(&self, id: &str) -> Response {
        let text = std::fs::read_to_string(self.audit_log.as_deref().unwrap()).unwrap();
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let events = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let events: Vec<Value> = events.filter(|event| event["auditID"] == id).collect();
        let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        let body = self.mask(json!({"events": events}).to_string().as_bytes());
        Response { status: 200, headers, body }
    }

    fn begin(&self, request: &Request) -> kindom_integration::Request<'_> {
        let own = request.headers.iter().any(|(name, _)| name == "Authorization");
        let client = if own { &self.bare } else { &self.client };
        let mut begun = client.request(&request.method, &request.target);
        if let Some(body) = &request.body {
            begun = begun.bare_body(body.clone());
        }
        request.headers.iter().fold(begun, |begun, (name, value)| begun.header(name, value))
    }
}

fn response(status: u16, headers: &hyper::HeaderMap, body: Vec<u8>) -> Response {
    let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    Response { status, headers, body }
}

impl Transport for OverClient {
    type Error = HarnessError;

    async fn request(&mut self, request: &Request) -> Result<Response, HarnessError> {
        if request.method == "AUDIT" {
            return Ok(self.events(&request.target));
        }
        let answer = self.begin(request).send().await?;
        Ok(response(answer.status, &answer.headers, self.mask(&answer.body)))
    }

    async fn watch(&mut self, request: &Request, stop: &Stop) -> Result<Watched, HarnessError> {
        let mut stream = match self.begin(request).open().await? {
            Opened::Answer(answer) => {
                return Ok(Watched::Refused(response(answer.status, &answer.headers, answer.body.to_vec())));
            }
            Opened::Stream(stream) => stream,
        };
        let mut events = Vec::new();
        while !stop.reached(&events) {
            match stream.next_in_time().await? {
                Some(event) => events.push(event),
                None => break,
            }
        }
        Ok(Watched::Events(response(200, stream.headers(), Vec::new()), events))
    }

    /// The answer that is waited for is the event, so it is asked for again at once.
    async fn pause(&mut self) -> bool {
        tokio::task::yield_now().await;
        Instant::now() < self.deadline
    }
}

/// Creates the namespaces that a script's paths name: the recorded server had none and asked for none.
async fn namespaces(client: &Client, script: &str) {
    for rest in script.split("/namespaces/").skip(1) {
        let name = rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).next().unwrap_or_default();
        if !name.is_empty() {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let made = client.post("/api/v1/namespaces", &body).await.unwrap();
            // A script may also name one that cannot be.
            assert!(matches!(made.status, 201 | 409 | 422), "{}", made.text());
        }
    }
}

#[tokio::test]
async fn every_answer_is_the_real_servers() {
    replay_all(&tools::root().join("integration/expectations"), true, without_accounts).await;
}

/// The answers of kube-apiserver about built-in kinds.
#[tokio::test]
async fn every_answer_of_a_built_in_kind_is_kube_apiservers() {
    replay_all(&tools::root().join("integration/expectations/built-in"), false, without_accounts).await;
}

/// The answers of kube-apiserver with all of its usual admission plugins.
#[tokio::test]
async fn every_answer_of_an_admission_plugin_is_kube_apiservers() {
    replay_all(&tools::root().join("integration/expectations/plugins"), false, with_accounts).await;
}

/// The objects that kube-apiserver keeps for itself, and the condition that it gives flow schemas.
#[tokio::test]
async fn every_flow_schema_is_kept_as_kube_apiserver_keeps_it() {
    let by_roles = || ServerOptions::default().args(&["--authorization-mode=RBAC"]);
    replay_all(&tools::root().join("integration/expectations/flow-control"), false, by_roles).await;
}

/// The audit log of a server, event by event.
#[tokio::test]
async fn every_audit_event_is_kube_apiservers() {
    replay_all(&tools::root().join("integration/expectations/audit"), false, without_accounts).await;
}

/// The recorded server ran without the plugin, as nobody made accounts there; and without flow control.
fn without_accounts() -> ServerOptions {
    ServerOptions::default().quiet().args(&[
        "--authorization-mode=RBAC",
        "--controllers=*,-resourcequota-controller,-clusterrole-aggregation-controller",
        "--disable-admission-plugins=ServiceAccount",
    ])
}

/// The scripts make the accounts.
fn with_accounts() -> ServerOptions {
    let controllers = "--controllers=*,-resourcequota-controller,-serviceaccount-controller";
    ServerOptions::default().quiet().args(&[controllers])
}

/// Replays every script of a folder, each on a server of its own; the stand-alone server asked for no namespaces.
async fn replay_all(folder: &Path, any_namespace: bool, options: impl Fn() -> ServerOptions) {
    let known: Vec<KnownDifference> = read_known(&folder.join("known-differences.json")).unwrap();
    let (mut steps, mut faults) = (0, Vec::new());
    let mut topics = read_topics(folder).unwrap();
    // The users of the recorded server.
    let tokens = tools::root().join("integration/oracle/tokens.csv").display().to_string();
    for topic in &mut topics {
        // The recorded server leaves what is stored in older versions to somebody else.
        // What the real server waits for there, no controller does.
        let options = options().args(&[
            "--feature-gates",
            "StorageVersionMigrator=false",
            "--profile=kubernetes",
            "--service-account-issuer=https://127.0.0.1/",
            "--token-auth-file",
            &tokens,
        ]);
        let policy = folder.join("policy.yaml");
        let log = tempfile::tempdir().unwrap();
        let audit_log = policy.exists().then(|| log.path().join("audit.log"));
        let options = match &audit_log {
            None => options,
            Some(audit_log) => options.args(&[
                "--audit-policy-file",
                &policy.display().to_string(),
                "--audit-log-path",
                &audit_log.display().to_string(),
            ]),
        };
        let server = options.start().await.unwrap();
        let (client, bare) = (server.client().unwrap(), server.anonymous().unwrap());
        let script = std::fs::read_to_string(folder.join(format!("{}.script.json", topic.name))).unwrap();
        if any_namespace {
            namespaces(&client, &script).await;
        }
        let mut over = OverClient {
            client,
            bare,
            deadline: Instant::now() + PATIENCE,
            masked: Vec::new(),
            audit_log: audit_log.clone(),
        };
        let webhook = match script.contains("${webhook}") {
            true => Some(Webhook::start(of_scripts()).await),
            false => None,
        };
        if let Some(webhook) = &webhook {
            let (address, authorities) = (format!("127.0.0.1:{}", webhook.port), webhook.authorities.clone());
            topic.script.vars.insert("webhook".to_owned(), address.clone());
            topic.script.vars.insert("authorities".to_owned(), authorities.clone());
            over.masked = vec![(address, "<webhook>"), (authorities, "<authorities>")];
        }
        let outcomes = replay(topic, &known, &mut over).await;
        steps += outcomes.len();
        faults.extend(judge(&topic.name, &outcomes, &known));
    }
    println!("replay: {steps} steps of {} scripts, {} known differences", topics.len(), known.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(
        known.iter().all(|k| topics.iter().any(|t| t.name == k.script)),
        "a known difference of no script"
    );
}

//! Asks the webhooks that convert, change and judge objects (apiserver `pkg/util/webhook`, client-go `rest`; 1.37).
//!
//! **Guarantees.** Questions have connections, tasks and a thread of their own. Those to one host have a bound, as those to all
//! have; more wait. A host that has been silent for a while has a few under way, and the others fail at once, so that nobody waits
//! for it who need not. Answers have a bound in bytes and in time.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Body as _;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioTimer;
use kindom_actor_kit::Deadline;
use kindom_api::field::go_quote;
use kindom_api::{Value, json};
use kindom_http::WebhookMetrics;
use kindom_objects::webhook_client::{WebhookClient, WebhookPlace, WebhookPurpose};
use kindom_resource_actor::{CountedChange, CountedFinding, EndedCall, EndedReview, Webhooks};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use rustls::pki_types::ServerName;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{AcquireError, OnceCell, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

use crate::BoxError;
use crate::aggregator::Service;
use crate::outgoing::{Executor, IDLE, Owned, Trust, connector, with_causes};
use crate::webhook_users::{WebhookUser, WebhookUsers};

/// The longest that a webhook may take (apiserver `pkg/util/webhook/authentication.go`, `setGlobalDefaults`).
const LIMIT: Duration = Duration::from_secs(30);
/// The bytes that any answer may have, and those that it may have beside, in times of the review's.
const ANSWER_BYTES_MIN: usize = 256 << 10;
const ANSWER_GROWTH: usize = 4;
/// The bytes that a refusal may have, and those of its text that are told (client-go `rest/request.go`,
/// `maxUnstructuredResponseTextBytes`).
const REFUSAL_BYTES_MAX: usize = 64 << 10;
const REFUSAL_TEXT_MAX: usize = 2048;
/// The most bytes of all answers of one host that are on their way.
const ANSWERS_BYTES_MAX: usize = 16 << 20;
/// The questions to one host that are under way at a time, and those to all.
const AT_ONCE: usize = 64;
const AT_ONCE_OF_ALL: usize = 160;
/// A host that is asked and gives no answer for so long is silent.
const SILENT: Duration = Duration::from_secs(3);
/// The questions to a silent host that are under way at a time; and how often one more tries whether it answers again.
const AT_ONCE_OF_SILENT: usize = 8;
const TRIED_EVERY: Duration = Duration::from_secs(1);
/// The webhooks whose connections are kept (`defaultCacheSize`).
const CLIENTS_MAX: usize = 200;
/// Set in a container of a pod.
const IN_POD: &str = "KUBERNETES_SERVICE_HOST";
/// The name that upstream has for itself there.
const AGENT: &str = "kube-apiserver-admission";

type Client = legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A webhook that has been asked.
struct Known {
    /// Made by the first question, on this module's thread.
    client: OnceCell<Client>,
    host: Arc<Host>,
    /// `https://host:port/path`, as errors name it.
    url: String,
    /// The place that is connected to; `None` if nobody knows it.
    address: Option<String>,
    trust: (Vec<u8>, Option<String>),
    /// The user that this server is for it; `None` for nobody.
    user: Option<Arc<WebhookUser>>,
}

/// The host of any number of webhooks.
struct Host {
    free: Semaphore,
    /// The KiB that answers may hold.
    room: Semaphore,
    asked: Mutex<Asked>,
}

/// The questions that are under way.
struct Asked {
    count: usize,
    /// The time of the last answer, or of the first question after none was under way.
    heard: Instant,
    /// The time of the last question while it was silent.
    tried: Instant,
}

/// The turn of a question that is under way.
struct Turn<'a> {
    host: &'a Host,
    /// Of the host, and of all; a few to a silent host need none.
    free: Option<(SemaphorePermit<'a>, SemaphorePermit<'a>)>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.host.asked.lock().count -= 1;
    }
}

impl Host {
    fn new() -> Self {
        Self {
            free: Semaphore::new(AT_ONCE),
            room: Semaphore::new(ANSWERS_BYTES_MAX >> 10),
            asked: Mutex::new(Asked { count: 0, heard: Instant::now(), tried: Instant::now() }),
        }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// The host is silent, and enough questions wait for it.
    async fn enter<'a>(&'a self, of_all: &'a Semaphore) -> Result<Turn<'a>, String> {
        let mut free = pin!(async { Ok((self.free.acquire().await?, of_all.acquire().await?)) });
        loop {
            let silent_at = match self.enter_silent()? {
                Ok(turn) => return Ok(turn),
                Err(silent_at) => silent_at,
            };
            tokio::select! {
                biased;
                () = sleep_until(silent_at) => {}
                free = &mut free => {
                    let free = free.map_err(|closed: AcquireError| closed.to_string())?;
                    // It may have become silent at this moment, and those who gave up their permits still ask.
                    if let Ok(turn) = self.enter_silent()? {
                        return Ok(turn);
                    }
                    self.asked.lock().count += 1;
                    return Ok(Turn { host: self, free: Some(free) });
                }
            }
        }
    }

    /// A turn among the few that a silent host has; the time at which it will be silent, if it is not.
    ///
    /// # Errors
    /// There is none left.
    fn enter_silent(&self) -> Result<Result<Turn<'_>, Instant>, String> {
        let mut asked = self.asked.lock();
        let now = Instant::now();
        if asked.count == 0 {
            asked.heard = now;
        }
        let silent_at = asked.heard + SILENT;
        if now < silent_at {
            return Ok(Err(silent_at));
        }
        if asked.count >= AT_ONCE_OF_SILENT && now < asked.tried + TRIED_EVERY {
            return Err("it does not answer, and too many questions to it are under way".to_owned());
        }
        asked.tried = now;
        asked.count += 1;
        Ok(Ok(Turn { host: self, free: None }))
    }

    fn silent_at(&self) -> Instant {
        self.asked.lock().heard + SILENT
    }

    fn answers(&self) {
        self.asked.lock().heard = Instant::now();
    }
}

/// The users that this server is for webhooks that change and for those that judge.
#[derive(Default)]
pub(crate) struct WebhookUsersOf {
    pub(crate) mutating: WebhookUsers,
    pub(crate) validating: WebhookUsers,
}

impl WebhookUsersOf {
    /// The user for a webhook at `host:port`. Whom a registration names is shown none: any writer of registrations could ask for
    /// them.
    fn of(&self, purpose: WebhookPurpose, host: &str) -> Option<Arc<WebhookUser>> {
        match purpose {
            WebhookPurpose::OfType => None,
            WebhookPurpose::Mutating => self.mutating.of(host).cloned(),
            WebhookPurpose::Validating => self.validating.of(host).cloned(),
        }
    }
}

/// Asks webhooks over connections that it keeps.
pub(crate) struct WebhookClients {
    services: BTreeMap<(String, String, u16), String>,
    users: WebhookUsersOf,
    known: Cache<Arc<WebhookClient>, Arc<Known>>,
    /// By `host:port`.
    hosts: Cache<String, Arc<Host>>,
    of_all: Arc<Semaphore>,
    /// `None` until the first question.
    runtime: Mutex<Option<Runtime>>,
    metrics: WebhookMetrics,
}

impl WebhookClients {
    pub(crate) fn new(services: &[Service], users: WebhookUsersOf, metrics: WebhookMetrics) -> Self {
        let services = services.iter().cloned();
        Self {
            services: services.map(|of| ((of.namespace, of.name, of.port), of.address)).collect(),
            users,
            known: Cache::new(CLIENTS_MAX),
            hosts: Cache::new(CLIENTS_MAX),
            of_all: Arc::new(Semaphore::new(AT_ONCE_OF_ALL)),
            runtime: Mutex::new(None),
            metrics,
        }
    }

    fn runtime(&self) -> io::Result<Handle> {
        let mut runtime = self.runtime.lock();
        if let Some(running) = &*runtime {
            return Ok(running.handle().clone());
        }
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let started = builder.worker_threads(1).thread_name("webhooks").enable_all().build()?;
        Ok(runtime.insert(started).handle().clone())
    }

    fn known(&self, webhook: &Arc<WebhookClient>) -> Arc<Known> {
        let Ok(known) = self.known.get_or_insert_with(webhook, || {
            let (url, address, name) = endpoint(webhook, &self.services);
            let new = || Ok::<_, Infallible>(Arc::new(Host::new()));
            let Ok(host) = self.hosts.get_or_insert_with(authority(&url), new);
            let trust = (webhook.authorities.clone(), name);
            let user = self.users.of(webhook.purpose, &with_port(authority(&url)));
            Ok::<_, Infallible>(Arc::new(Known { client: OnceCell::new(), host, url, address, trust, user }))
        });
        known
    }
}

impl Drop for WebhookClients {
    fn drop(&mut self) {
        // A runtime must not wait for its tasks within another's.
        if let Some(runtime) = self.runtime.lock().take() {
            runtime.shutdown_background();
        }
    }
}

impl Webhooks for WebhookClients {
    fn ask(
        &self,
        webhook: &Arc<WebhookClient>,
        review: Vec<u8>,
        deadline: Deadline,
        limit: Option<Duration>,
    ) -> BoxFuture<'static, Result<Bytes, String>> {
        let runtime = match self.runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                let why = format!("there is no thread to ask it from: {error}");
                return futures::future::ready(Err(why)).boxed();
            }
        };
        let (known, of_all) = (self.known(webhook), Arc::clone(&self.of_all));
        let executor = Executor(runtime.clone());
        // Whoever does not wait any more leaves the place to others.
        let asking =
            runtime.spawn(async move { known.ask(&of_all, executor, review.into(), deadline, limit).await });
        let mut asking = Owned(asking);
        async move { (&mut asking.0).await.unwrap_or_else(|lost| Err(lost.to_string())) }.boxed()
    }

    fn count(&self, review: &EndedReview<'_>) {
        self.metrics.count(review);
    }

    fn count_call(&self, call: &EndedCall<'_>) {
        self.metrics.count_call(call);
    }

    fn count_finding(&self, finding: &CountedFinding<'_>) {
        self.metrics.count_finding(finding);
    }

    fn count_change(&self, change: &CountedChange<'_>) {
        self.metrics.count_change(change);
    }
}

/// A webhook's URL, as errors name it; the URL that is connected to, if anybody knows it; and the name that its certificate must
/// have, if that is another than the URL's.
fn endpoint(
    webhook: &WebhookClient,
    services: &BTreeMap<(String, String, u16), String>,
) -> (String, Option<String>, Option<String>) {
    match &webhook.place {
        WebhookPlace::Url(url) => (url.clone(), Some(url.clone()), None),
        WebhookPlace::Service { namespace, name, path, port } => {
            let host = format!("{name}.{namespace}.svc");
            let known = services.get(&(namespace.clone(), name.clone(), *port)).cloned();
            // In a pod the cluster's names are known.
            let in_pod = std::env::var_os(IN_POD).is_some();
            let known = known.or_else(|| in_pod.then(|| format!("{host}:{port}")));
            let address = known.map(|address| format!("https://{address}{path}"));
            (format!("https://{host}:{port}{path}"), address, Some(host))
        }
    }
}

/// The `host:port` of a URL.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.split_once('/').map_or(rest, |(authority, _)| authority)
}

/// `host:port`, with the port of HTTPS if there is none.
fn with_port(authority: &str) -> String {
    let name = authority.rsplit_once(']').map_or(authority, |(_, port)| port);
    if name.contains(':') { authority.to_owned() } else { format!("{authority}:443") }
}

impl Known {
    async fn ask(
        &self,
        of_all: &Semaphore,
        executor: Executor,
        review: Bytes,
        deadline: Deadline,
        limit: Option<Duration>,
    ) -> Result<Bytes, String> {
        // A wait for others is none of the webhook's own time.
        let entering = tokio::time::timeout(deadline.remaining().min(LIMIT), self.host.enter(of_all)).await;
        let within = deadline.remaining().min(limit.unwrap_or(LIMIT));
        // A webhook is told its own limit, or what is left of the request's time, in whole seconds.
        let told = limit.map_or(LIMIT, |_| within);
        let told = told.as_secs() + u64::from(told.subsec_nanos() > 0);
        let posting = |why: &str| format!("Post \"{}?timeout={told}s\": {why}", self.url);
        // The limit of a webhook is the context's in upstream's client, the usual one is the client's.
        let late = || match limit {
            Some(_) => posting("context deadline exceeded"),
            None => posting("context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
        };
        let mut turn = entering.map_err(|_| late())??;
        let asking = async {
            let began = Instant::now();
            let mut post = pin!(self.post(executor, review, told, &posting));
            let answer = loop {
                tokio::select! {
                    biased;
                    answer = &mut post => break answer,
                    // It may still answer, but others need not wait for that.
                    () = sleep_until(self.host.silent_at()), if turn.free.is_some() => {
                        if self.host.silent_at() <= Instant::now() {
                            turn.free = None;
                        }
                    }
                }
            };
            // A connection that never comes is silence, too.
            if answer.is_ok() || began.elapsed() < SILENT {
                self.host.answers();
            }
            answer
        };
        tokio::time::timeout(within, asking).await.unwrap_or_else(|_| Err(late()))
    }

    async fn post(
        &self,
        executor: Executor,
        review: Bytes,
        told: u64,
        posting: &(impl Fn(&str) -> String + Sync),
    ) -> Result<Bytes, String> {
        let Some(address) = &self.address else {
            return Err(posting("the Service has no address here: give it one with --service-resolver"));
        };
        let url: Uri = format!("{address}?timeout={told}s").parse().map_err(|e| posting(&format!("{e}")))?;
        let client = self.client.get_or_try_init(|| self.connect(executor)).await;
        let client = client.map_err(|error| posting(&error.to_string()))?;
        let address = url.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        let most = ANSWER_BYTES_MIN + review.len().saturating_mul(ANSWER_GROWTH);
        let mut request = Request::post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, AGENT)
            .header(HOST, authority(&self.url));
        if let Some(user) = &self.user {
            let headers = user.headers().await.map_err(|error| posting(&error.to_string()))?;
            request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        }
        let request = request.body(Full::new(review)).map_err(|error| posting(&error.to_string()))?;
        let response = client.request(request).await.map_err(|error| posting(&in_go(&error, &address)))?;
        let code = response.status().as_u16();
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.map(str::to_owned);
        let is_text = content_type.as_ref().is_none_or(|of| of.starts_with("text/"));
        if !(200..=206).contains(&code) {
            // One that is longer says nothing that anybody reads.
            let body = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
            let body = body.map(|body| body.to_bytes()).unwrap_or_default();
            return Err(refusal(code, is_text, &body));
        }
        // Answers that come slowly hold what is theirs of the memory, and no other host's.
        let length = response.body().size_hint().upper().and_then(|length| usize::try_from(length).ok());
        let bytes = length.unwrap_or(most).min(most).min(ANSWERS_BYTES_MAX);
        let room = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        let _held = self.host.room.acquire_many(room).await.map_err(|closed| closed.to_string())?;
        let body = Limited::new(response.into_body(), most).collect().await;
        let body = body.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
            true => format!("the answer has more than {most} bytes"),
            false => with_causes(&*error),
        })?;
        match body.to_bytes() {
            body if body.is_empty() => {
                let of = content_type.as_deref().unwrap_or_default();
                Err(format!("0-length response with status code: {code} and content type: {of}"))
            }
            body => Ok(body),
        }
    }

    async fn connect(&self, executor: Executor) -> Result<Client, BoxError> {
        let (authorities, name) = self.trust.clone();
        let user = self.user.clone();
        // Reads files: the machine's authorities, where there are none, and the user's.
        let tls = move || {
            let own = user.as_ref().map(|user| user.certificate()).transpose()?.flatten();
            let own = own.as_ref().map(|own| (own.certificate.as_slice(), own.key.as_slice()));
            Trust { authorities: &authorities, own, ..Trust::default() }.tls()
        };
        let tls = tokio::task::spawn_blocking(tls).await??;
        let name = name.map(ServerName::try_from).transpose()?;
        Ok(legacy::Client::builder(executor)
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            // As upstream: over one HTTP/2 connection, all questions would go to one pod of a Service.
            .build(connector(tls, name, false)))
    }
}

/// The words that Go has for a failure to send a request, where it has some.
fn in_go(error: &(dyn Error + 'static), address: &str) -> String {
    let causes = || std::iter::successors(Some(error), |error| (*error).source());
    let io_error = causes().filter_map(|error| error.downcast_ref::<io::Error>());
    if let Some(kind) = io_error.map(io::Error::kind).next() {
        match kind {
            io::ErrorKind::ConnectionRefused => {
                return format!("dial tcp {address}: connect: connection refused");
            }
            io::ErrorKind::UnexpectedEof => return "EOF".to_owned(),
            _ => {}
        }
    }
    if causes()
        .any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message))
    {
        return "EOF".to_owned();
    }
    let text = with_causes(error);
    if text.contains("UnknownIssuer") {
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned();
    }
    text
}

/// The message of an answer that refuses (client-go `rest/request.go`, `transformResponse`; apimachinery `pkg/api/errors`,
/// `NewGenericServerResponse`).
fn refusal(code: u16, is_text: bool, body: &[u8]) -> String {
    if let Ok(status) = json::parse(body)
        && status.text_at(&["kind"]) == "Status"
        && status.text_at(&["status"]) != "Success"
        && let Some(message) = status.get("message").and_then(Value::as_str)
    {
        return message.to_owned();
    }
    let text = String::from_utf8_lossy(body);
    let said = if is_text { text.trim() } else { "unknown" };
    let said = said.get(..said.floor_char_boundary(REFUSAL_TEXT_MAX)).unwrap_or_default();
    match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        406 if matches!(said, "" | "unknown") => {
            "the server was unable to respond with a content type that the client supports".to_owned()
        }
        403 | 406 | 415 => said.to_owned(),
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request".to_owned(),
        500.. => {
            let said = go_quote(said);
            format!("an error on the server ({said}) has prevented the request from succeeding")
        }
        _ => format!("the server responded with the status code {code} but did not return more information"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_port() {
        for (authority, expected) in
            [("a.b", "a.b:443"), ("a.b:8443", "a.b:8443"), ("[::1]", "[::1]:443"), ("[::1]:1", "[::1]:1")]
        {
            assert_eq!(with_port(authority), expected);
        }
    }

    #[test]
    fn refusals_have_the_words_of_gos_client() {
        let status = br#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no"}"#;
        assert_eq!(refusal(500, false, status), "no");
        let text = refusal(500, true, b"boom \"x\"\n");
        assert_eq!(
            text,
            r#"an error on the server ("boom \"x\"") has prevented the request from succeeding"#
        );
        let unknown = refusal(502, false, b"{}");
        assert_eq!(
            unknown,
            r#"an error on the server ("unknown") has prevented the request from succeeding"#
        );
        assert_eq!(refusal(404, true, b"x"), "the server could not find the requested resource");
        assert_eq!(refusal(403, true, b"not you"), "not you");
        let other = refusal(307, true, b"");
        assert_eq!(
            other,
            "the server responded with the status code 307 but did not return more information"
        );
    }
}

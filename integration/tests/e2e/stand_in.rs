//! A stand-in for a host: an HTTPS server that answers reviews as a test tells it to, keeps objects to be listed and watched,
//! records what it is asked, and can be slow, broken or away.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::unfold;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::ExtendedKeyUsagePurpose;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::authority::{Authority, Files};
use crate::support::eventually;

pub(crate) const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
pub(crate) const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
/// The credential of this server at the host.
pub(crate) const CREDENTIAL: &str = "the-servers-own-credential";

/// An answer of the host.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// The code, the header Retry-After, the body.
    Code(u16, Option<u64>, String),
    /// None, ever.
    Silence,
    /// The end of the connection.
    CutOff,
}

impl Answer {
    pub(crate) fn json(code: u16, body: &Value) -> Self {
        Self::Code(code, None, body.to_string())
    }

    /// A review that is filled in.
    pub(crate) fn review(status: Value) -> Self {
        Self::json(201, &json!({"kind": "Review", "status": status}))
    }

    pub(crate) fn failure(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code});
        let mut status = status;
        status["reason"] = json!(reason);
        status["message"] = json!(message);
        Self::json(code, &status)
    }
}

/// One change of an object: its collection and what watches say of it.
#[derive(Clone)]
struct Change {
    collection: String,
    kind: &'static str,
    object: Value,
}

type Decide = Box<dyn FnMut(&str, &Value) -> Answer + Send>;

struct State {
    requests: Mutex<Vec<(String, Value)>>,
    decide: Mutex<Decide>,
    /// Their places are the resourceVersions.
    changes: watch::Sender<Vec<Change>>,
    /// The credentials that came with requests.
    credentials: Mutex<Vec<String>>,
}

impl State {
    /// The objects of a collection, by name.
    fn objects(&self, collection: &str) -> BTreeMap<String, Value> {
        let mut objects = BTreeMap::new();
        for change in self.changes.borrow().iter().filter(|change| change.collection == collection) {
            let name = change.object["metadata"]["name"].as_str().unwrap().to_owned();
            match change.kind {
                "DELETED" => objects.remove(&name),
                _ => objects.insert(name, change.object.clone()),
            };
        }
        objects
    }

    fn change(&self, collection: &str, kind: &'static str, object: &Value) -> Value {
        let mut object = object.clone();
        self.changes.send_modify(|changes| {
            object["metadata"]["resourceVersion"] = json!((changes.len() + 1).to_string());
            changes.push(Change { collection: collection.to_owned(), kind, object: object.clone() });
        });
        object
    }
}

pub(crate) struct StandIn {
    pub(crate) files: Files,
    address: SocketAddr,
    authority: Authority,
    state: Arc<State>,
    serving: Option<JoinHandle<()>>,
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.go_away();
    }
}

impl StandIn {
    /// A host that knows no token and allows nothing.
    pub(crate) async fn start() -> Self {
        let decide: Decide = Box::new(|_, _| Answer::review(json!({})));
        let state = State {
            requests: Mutex::default(),
            decide: Mutex::new(decide),
            changes: watch::Sender::new(Vec::new()),
            credentials: Mutex::default(),
        };
        let (files, authority) = (Files::new(), Authority::new("host-ca"));
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut host = Self { files, address, authority, state: Arc::new(state), serving: None };
        host.come_back().await;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "host",
            "contexts": [{"name": "host", "context": {"cluster": "host", "user": "kindom"}}],
            "clusters": [{"name": "host", "cluster": {
                "server": format!("https://{}", host.address),
                "certificate-authority": host.files.arg("host-ca.crt"),
            }}],
            "users": [{"name": "kindom", "user": {"token": CREDENTIAL}}],
        });
        host.files.write("host-ca.crt", &host.authority.certificate.pem());
        host.files.write("host.kubeconfig", &kubeconfig.to_string());
        host
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(crate) fn kubeconfig(&self) -> String {
        self.files.arg("host.kubeconfig")
    }

    /// Listens at its address, the same one as before if it was away.
    pub(crate) async fn come_back(&mut self) {
        let (chain, key) = self.authority.issue("127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth);
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        // The former listener goes a moment after its task was told to end.
        let address = self.address;
        let listener =
            eventually("the address is free", async || TcpListener::bind(address).await.ok()).await;
        self.address = listener.local_addr().unwrap();
        let state = Arc::clone(&self.state);
        self.serving = Some(tokio::spawn(async move {
            // Ends with this task, and every connection with it.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(|request| answer(Arc::clone(&state), request));
                    let served = hyper::server::conn::http1::Builder::new();
                    let _ = served.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        }));
    }

    /// Cuts every connection, and takes no other.
    pub(crate) fn go_away(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }

    /// Answers reviews so from now on: by their path and their spec.
    pub(crate) fn decide(&self, decide: impl FnMut(&str, &Value) -> Answer + Send + 'static) {
        *self.state.decide.lock().unwrap() = Box::new(decide);
    }

    /// The specs of the reviews that it was asked for.
    pub(crate) fn asked(&self, path: &str) -> Vec<Value> {
        let requests = self.state.requests.lock().unwrap();
        requests.iter().filter(|(asked, _)| asked == path).map(|(_, body)| body["spec"].clone()).collect()
    }

    pub(crate) fn credentials(&self) -> Vec<String> {
        self.state.credentials.lock().unwrap().clone()
    }

    /// Makes or replaces an object.
    pub(crate) fn put(&self, collection: &str, object: &Value) {
        let is_there =
            self.state.objects(collection).contains_key(object["metadata"]["name"].as_str().unwrap());
        self.state.change(collection, if is_there { "MODIFIED" } else { "ADDED" }, object);
    }

    pub(crate) fn delete(&self, collection: &str, name: &str) {
        let object = self.state.objects(collection)[name].clone();
        self.state.change(collection, "DELETED", &object);
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

fn whole(code: u16, text: String) -> Response<Body> {
    let body = Full::new(Bytes::from(text)).boxed_unsync();
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Body>, std::io::Error> {
    let (head, body) = request.into_parts();
    let credential = head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    state.credentials.lock().unwrap().push(credential.unwrap_or_default());
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = head.uri.path();
    if head.method == "POST" {
        state.requests.lock().unwrap().push((path.to_owned(), body.clone()));
        let answer = (state.decide.lock().unwrap())(path, &body["spec"]);
        return match answer {
            Answer::Code(code, again, text) => {
                let mut response = whole(code, text);
                if let Some(seconds) = again {
                    response.headers_mut().insert("retry-after", seconds.into());
                }
                Ok(response)
            }
            Answer::Silence => std::future::pending().await,
            Answer::CutOff => Err(std::io::Error::other("cut off")),
        };
    }
    let query = head.uri.query().unwrap_or_default();
    let (collection, name) = path.rsplit_once('/').unwrap();
    if let Some(object) = state.objects(collection).get(name) {
        return Ok(whole(200, object.to_string()));
    }
    if !matches!(collection, "/api/v1" | "/api/v1/namespaces/kube-system") {
        return Ok(whole(404, json!({"kind": "Status", "code": 404, "reason": "NotFound"}).to_string()));
    }
    if !query.contains("watch=") {
        let items: Vec<Value> = state.objects(path).into_values().collect();
        let version = state.changes.borrow().len().to_string();
        let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items});
        return Ok(whole(200, list.to_string()));
    }
    let from = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")).unwrap_or("0");
    let state = (from.parse::<usize>().unwrap_or(0), state.changes.subscribe(), path.to_owned());
    let events = unfold(state, |(from, mut changes, collection)| async move {
        let all = changes.wait_for(|changes| changes.len() > from).await.ok()?.clone();
        let of_collection = all[from..].iter().filter(|change| change.collection == collection);
        let events: String =
            of_collection.map(|c| format!("{}\n", json!({"type": c.kind, "object": c.object}))).collect();
        Some((Frame::data(Bytes::from(events)), (all.len(), changes, collection)))
    });
    let body: Body = StreamBody::new(events.map(Ok::<_, Infallible>)).boxed_unsync();
    Ok(Response::new(body))
}

//! A webhook over TLS, which answers as a test wants it to.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::stream::pending;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::authority::Authority;

/// An answer to a review.
pub(crate) enum Said {
    Json(Value),
    /// A status code and a body.
    Text(u16, String),
    /// As the first, so much later.
    Late(Duration, Value),
    /// It never comes.
    Nothing,
    /// It begins, and none of its body ever comes.
    Stalled,
    /// The connection ends.
    End,
}

/// Answers a review that came to a path.
pub(crate) type Rule = Arc<dyn Fn(&str, &Value) -> Said + Send + Sync>;

/// The credentials that a review came with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) path: String,
    /// The header.
    pub(crate) authorization: String,
    pub(crate) has_certificate: bool,
}

/// A webhook that is served until this is dropped.
pub(crate) struct Webhook {
    pub(crate) port: u16,
    /// As a caBundle has them.
    pub(crate) authorities: String,
    rule: Arc<Mutex<Rule>>,
    reviews: Arc<Mutex<Vec<Value>>>,
    callers: Arc<Mutex<Vec<Caller>>>,
    /// Vouches for it, and for clients.
    pub(crate) authority: Authority,
    task: JoinHandle<()>,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Webhook {
    pub(crate) async fn start(rule: Rule) -> Self {
        let authority = Authority::new("webhooks");
        let acceptor = authority.acceptor("127.0.0.1");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (rule, reviews) = (Arc::new(Mutex::new(rule)), Arc::default());
        let callers: Arc<Mutex<Vec<Caller>>> = Arc::default();
        let shared = (Arc::clone(&rule), Arc::clone(&reviews), Arc::clone(&callers));
        let task = tokio::spawn(async move {
            // Aborted with the listener.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, (rule, reviews, callers)) = (acceptor.clone(), shared.clone());
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let has_certificate = stream.get_ref().1.peer_certificates().is_some();
                    let answering = service_fn(|request| {
                        callers.lock().unwrap().push(caller(&request, has_certificate));
                        answer(request, &rule, &reviews)
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answering)
                        .await;
                });
            }
        });
        Self { port, authorities: authority.bundle(), rule, reviews, callers, authority, task }
    }

    /// Answers by another rule from now on.
    pub(crate) fn answer(&self, rule: Rule) {
        *self.rule.lock().unwrap() = rule;
    }

    /// The reviews that were asked since the last call.
    pub(crate) fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut *self.reviews.lock().unwrap())
    }

    /// The credentials of the reviews that were asked since the last call.
    pub(crate) fn callers(&self) -> Vec<Caller> {
        std::mem::take(&mut *self.callers.lock().unwrap())
    }

    /// `spec.conversion` of a registration that it converts for.
    pub(crate) fn conversion(&self, path: &str) -> Value {
        json!({
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{}{path}", self.port),
                    "caBundle": self.authorities,
                },
            },
        })
    }
}

fn caller(request: &Request<Incoming>, has_certificate: bool) -> Caller {
    let authorization = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let authorization = authorization.unwrap_or_default().to_owned();
    Caller { path: request.uri().path().to_owned(), authorization, has_certificate }
}

async fn answer(
    request: Request<Incoming>,
    rule: &Mutex<Rule>,
    reviews: &Mutex<Vec<Value>>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    reviews.lock().unwrap().push(review.clone());
    let rule = Arc::clone(&rule.lock().unwrap());
    let (code, content_type, body) = match rule(&path, &review) {
        Said::Json(body) => (200, "application/json", body.to_string()),
        Said::Text(code, text) => (code, "text/plain", text),
        Said::Late(after, body) => {
            tokio::time::sleep(after).await;
            (200, "application/json", body.to_string())
        }
        Said::Nothing => std::future::pending().await,
        Said::Stalled => {
            let body = StreamBody::new(pending::<Result<Frame<Bytes>, Infallible>>()).boxed();
            return Ok(Response::builder().header("Content-Length", 1_000).body(body).unwrap());
        }
        // A handler that panics ends its connection.
        Said::End => std::panic::resume_unwind(Box::new("the connection ends")),
    };
    let response = Response::builder().status(code).header("Content-Type", content_type);
    Ok(response.body(Full::new(body.into()).boxed()).unwrap())
}

/// The webhook of recorded scripts: it admits as its object says, and converts as `by_note` does (`integration/oracle/webhook.go` is
/// the same).
pub(crate) fn of_scripts() -> Rule {
    let convert = by_note();
    Arc::new(move |path, review| match review["kind"].as_str() {
        Some("AdmissionReview") => admitted(path, review),
        _ => convert(path, review),
    })
}

/// An answer as an annotation of the object wants it: that by the name of the path, whose text is JSON.
fn admitted(path: &str, review: &Value) -> Said {
    let request = &review["request"];
    let said = ["object", "oldObject"].iter().find_map(|field| {
        let annotations = &request[field]["metadata"]["annotations"];
        serde_json::from_str(annotations[path.trim_start_matches('/')].as_str()?).ok()
    });
    let said: Value = said.unwrap_or_default();
    if let Some(text) = said["text"].as_str() {
        return match text {
            "end" => Said::End,
            text => Said::Text(
                said["code"].as_u64().map_or(200, |code| code.try_into().unwrap()),
                text.to_owned(),
            ),
        };
    }
    let mut answer = allowed(review);
    if let Some(patch) = said.get("patch") {
        answer["response"]["patch"] = json!(STANDARD.encode(patch.to_string()));
        answer["response"]["patchType"] = json!("JSONPatch");
    }
    if said["echo"] == true {
        answer["response"]["allowed"] = json!(false);
        answer["response"]["status"] = json!({"message": steady(request, "").to_string()});
    }
    over(&mut answer["response"], &said["response"]);
    over(&mut answer, &said["answer"]);
    Said::Json(answer)
}

/// The answer that allows what a review asks about.
pub(crate) fn allowed(review: &Value) -> Value {
    json!({
        "apiVersion": review["apiVersion"],
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true},
    })
}

/// The answer that changes an object by these operations.
pub(crate) fn patched(review: &Value, operations: &Value) -> Value {
    let mut answer = allowed(review);
    answer["response"]["patch"] = json!(STANDARD.encode(operations.to_string()));
    answer["response"]["patchType"] = json!("JSONPatch");
    answer
}

/// The answer that refuses, with these words.
pub(crate) fn denied(review: &Value, message: &str) -> Value {
    let mut answer = allowed(review);
    answer["response"]["allowed"] = json!(false);
    answer["response"]["status"] = json!({"message": message});
    answer
}

/// Puts fields over those that are there; null removes one.
fn over(of: &mut Value, fields: &Value) {
    for (field, value) in fields.as_object().into_iter().flatten() {
        match value.is_null() {
            true => drop(of.as_object_mut().unwrap().remove(field)),
            false => of[field] = value.clone(),
        }
    }
}

/// A value without what differs from run to run and from server to server.
fn steady(value: &Value, field: &str) -> Value {
    match value {
        Value::Object(fields) => {
            let kept =
                fields.iter().filter(|(name, _)| !matches!(name.as_str(), "managedFields" | "userInfo"));
            kept.map(|(name, value)| (name.clone(), steady(value, name))).collect()
        }
        Value::Array(items) => items.iter().map(|item| steady(item, "")).collect(),
        Value::String(_)
            if matches!(field, "uid" | "resourceVersion" | "creationTimestamp" | "deletionTimestamp") =>
        {
            json!(format!("({field})"))
        }
        value => value.clone(),
    }
}

/// A conversion webhook: v1 has `spec.size.width` where v1beta1 has `spec.width`. `spec.note` of the first object of
/// a review says how it lies about it (`integration/oracle/webhook.go` is the same).
fn by_note() -> Rule {
    Arc::new(|_, review| {
        let note = review["request"]["objects"][0]["spec"]["note"].as_str().unwrap_or_default();
        let mut answer = reviewed(review, widened);
        let response = &mut answer["response"];
        match note {
            "uid" => response["uid"] = json!("other"),
            "failure" => response["result"] = json!({"status": "Failure", "message": "not today"}),
            "no status" => response["result"] = json!({}),
            "no response" => drop(response.take()),
            "other kind" => answer["kind"] = json!("Conversion"),
            "no objects" => response["convertedObjects"] = json!([]),
            "text for an object" => response["convertedObjects"] = json!(["x"]),
            "500" => return Said::Text(500, "boom\n".to_owned()),
            "404" => return Said::Text(404, "gone\n".to_owned()),
            "503" => return Said::Text(503, "busy\n".to_owned()),
            "end" => return Said::End,
            _ => lie(&mut response["convertedObjects"][0], note),
        }
        Said::Json(answer)
    })
}

fn lie(object: &mut Value, note: &str) {
    let metadata = &mut object["metadata"];
    match note {
        "same version" => object["apiVersion"] = json!("other.example.com/v1"),
        "other object" => object["kind"] = json!("Other"),
        "other name" => metadata["name"] = json!("two"),
        "other namespace" => metadata["namespace"] = json!("kube-system"),
        "other uid" => metadata["uid"] = json!("u"),
        "no metadata" => drop(object.as_object_mut().unwrap().remove("metadata")),
        "text for metadata" => *metadata = json!("x"),
        "number in labels" => metadata["labels"] = json!({"a": 1}),
        "text for labels" => metadata["labels"] = json!("x"),
        "list for annotations" => metadata["annotations"] = json!([]),
        "no label" => metadata["labels"] = json!({"a": "not a label!"}),
        "no annotation" => metadata["annotations"] = json!({"not an annotation!": "x"}),
        "more metadata" => {
            metadata["labels"] = json!({"by": "webhook"});
            metadata["annotations"] = json!({"by": "webhook"});
            metadata["finalizers"] = json!(["example.com/none"]);
            metadata["generation"] = json!(77);
        }
        _ => {}
    }
}

/// An object of either version as the other one has it.
pub(crate) fn widened(mut object: Value, wanted: &str) -> Value {
    object["apiVersion"] = json!(wanted);
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return object };
    if wanted.ends_with("/v1") {
        if let Some(width) = spec.remove("width") {
            spec.insert("size".to_owned(), json!({"width": width}));
        }
    } else if let Some(size) = spec.remove("size") {
        spec.insert("width".to_owned(), size["width"].clone());
    }
    object
}

/// A ConversionReview with every object of a request as `convert` makes it for the version wanted.
pub(crate) fn reviewed(review: &Value, convert: impl Fn(Value, &str) -> Value) -> Value {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap();
    let objects = request["objects"].as_array().unwrap().iter().cloned();
    json!({
        "apiVersion": review["apiVersion"],
        "kind": "ConversionReview",
        "response": {
            "uid": request["uid"],
            "result": {"status": "Success"},
            "convertedObjects": objects.map(|object| convert(object, wanted)).collect::<Vec<_>>(),
        },
    })
}

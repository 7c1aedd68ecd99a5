//! One question to the host: a POST of a review, repeated where upstream repeats it (apiserver `pkg/util/webhook/webhook.go`
//! `WithExponentialBackoff` and `DefaultShouldRetry`; client-go `rest/request.go`; 1.37).

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use hyper::{Method, Request, Response};
use kindom_actor_kit::{Clock, Entropy};
use kindom_api::{Value, json};
use kindom_http::ReviewMetrics;
use kube::Client;
use kube::client::Body;

use super::Host;

/// The times that a question is asked.
const STEPS: u32 = 5;
/// The pause behind the first one; each later pause is half as long again.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest pause that the host can ask for.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The longest that an answer may take to come.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Asks questions of one kind.
#[derive(Clone)]
pub(super) struct Asking {
    client: Client,
    /// `/apis/authentication.k8s.io/v1/tokenreviews`
    path: &'static str,
    url: String,
    clock: Clock,
    entropy: Entropy,
    metrics: ReviewMetrics,
}

/// The lack of an answer.
struct Failed {
    why: String,
    /// The least time after which it may be repeated; `None` if that is of no use.
    again_after: Option<Duration>,
}

impl Asking {
    pub(super) fn new(host: &Host, path: &'static str, metrics: ReviewMetrics) -> Self {
        let url = format!("{}{path}", host.url);
        let (client, clock, entropy) = (host.client.clone(), host.clock.clone(), host.entropy.fork());
        Self { client, path, url, clock, entropy, metrics }
    }

    /// The review, as the host has filled it in.
    ///
    /// # Errors
    /// The host's message, or the failure in the form that Go has for it.
    pub(super) async fn ask(&self, review: &Value) -> Result<Value, String> {
        let body = Bytes::from(review.to_vec());
        let mut pause = PAUSE;
        let mut steps = 1;
        loop {
            let began = self.clock.now();
            let (code, answer) = match tokio::time::timeout(ANSWER_LIMIT, self.once(body.clone())).await {
                Ok(answered) => answered,
                Err(_) => {
                    let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
                    (None, Err(Failed { why: self.posting(why), again_after: None }))
                }
            };
            self.metrics.asked(code, self.clock.now().saturating_duration_since(began));
            let failed = match answer {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            match failed.again_after.filter(|_| steps < STEPS) {
                // Up to a fifth longer, so that those who failed together do not come back together.
                Some(least) => {
                    let jitter = self.entropy.jitter(pause) * 2 - pause;
                    self.clock.sleep((pause + jitter / 5).max(least.min(PAUSE_MAX))).await;
                }
                None => return Err(failed.why),
            }
            pause += pause / 2;
            steps += 1;
        }
    }

    fn posting(&self, why: &str) -> String {
        format!("Post {:?}: {why}", self.url)
    }

    async fn once(&self, body: Bytes) -> (Option<u16>, Result<Value, Failed>) {
        let request = Request::builder().method(Method::POST).uri(self.path);
        let request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json");
        let request = match request.body(Body::from(body)) {
            Ok(request) => request,
            Err(error) => {
                return (None, Err(Failed { why: self.posting(&error.to_string()), again_after: None }));
            }
        };
        let lost = |error: &(dyn Error + 'static)| Failed {
            why: self.posting(&causes(error)),
            again_after: is_cut_off(error).then_some(Duration::ZERO),
        };
        let response = match self.client.send(request).await {
            Ok(response) => response,
            // The other kinds add nothing to their cause.
            Err(kube::Error::Service(error)) => return (None, Err(lost(&*error))),
            Err(error) => return (None, Err(lost(&error))),
        };
        let code = response.status().as_u16();
        let again_after = retry_after(&response);
        let read = match Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await {
            Ok(body) => json::parse(&body.to_bytes()).map_err(|error| error.to_string()),
            Err(error) => return (Some(code), Err(lost(&*error))),
        };
        (Some(code), judge(code, again_after, read))
    }
}

/// The review in an answer, or the reason why there is none.
fn judge(code: u16, again_after: Option<Duration>, read: Result<Value, String>) -> Result<Value, Failed> {
    if (200..300).contains(&code) {
        return match read {
            Ok(review) if review.get("status").is_some() => Ok(review),
            Ok(_) => Err(Failed { why: "the host's answer has no status".to_owned(), again_after: None }),
            Err(why) => {
                Err(Failed { why: format!("the host's answer is no JSON: {why}"), again_after: None })
            }
        };
    }
    let status = read.unwrap_or_default();
    let text = |field| status.get(field).and_then(Value::as_str).unwrap_or_default();
    // An answer that is no Status counts by its code (`apierrors.NewGenericServerResponse`).
    let transient = match text("reason") {
        "" => matches!(code, 429 | 500 | 504),
        reason => matches!(reason, "InternalError" | "Timeout" | "TooManyRequests"),
    };
    let why = match text("message") {
        "" => format!("the server responded with the status code {code}"),
        message => message.to_owned(),
    };
    Err(Failed { why, again_after: again_after.or(transient.then_some(Duration::ZERO)) })
}

fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// `true` if the host cut the connection off, as it does when it ends (`utilnet.IsConnectionReset`,
/// `IsHTTP2ConnectionLost`; a review changes nothing on the host, so it may be repeated).
fn is_cut_off(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| (*error).source()).any(|error| {
        let reset = error.downcast_ref::<io::Error>().is_some_and(|error| {
            use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
            matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
        });
        reset || error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message)
    })
}

/// An error with its causes, each once.
pub(super) fn causes(error: &(dyn Error + 'static)) -> String {
    std::iter::successors(error.source(), |error| (*error).source()).fold(
        error.to_string(),
        |mut text, cause| {
            let cause = cause.to_string();
            if !text.ends_with(&cause) {
                text = format!("{text}: {cause}");
            }
            text
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(code: u16, body: &str) -> Result<Value, (String, bool)> {
        let read = json::parse(body.as_bytes()).map_err(|error| error.to_string());
        judge(code, None, read).map_err(|failed| (failed.why, failed.again_after.is_some()))
    }

    #[test]
    fn the_host_is_quoted() {
        assert!(judged(201, r#"{"status":{"allowed":true}}"#).is_ok());
        assert_eq!(judged(200, "{}").unwrap_err(), ("the host's answer has no status".to_owned(), false));
        assert!(judged(200, "<html>").unwrap_err().0.starts_with("the host's answer is no JSON: "));
        let status = |reason: &str| format!(r#"{{"kind":"Status","message":"no","reason":"{reason}"}}"#);
        assert_eq!(judged(403, &status("Forbidden")).unwrap_err(), ("no".to_owned(), false));
        assert_eq!(judged(500, &status("InternalError")).unwrap_err(), ("no".to_owned(), true));
        assert_eq!(judged(504, &status("Timeout")).unwrap_err(), ("no".to_owned(), true));
        assert_eq!(judged(503, &status("ServiceUnavailable")).unwrap_err(), ("no".to_owned(), false));
        let plain =
            |code| (format!("the server responded with the status code {code}"), code == 429 || code == 500);
        for code in [401, 429, 500, 502] {
            assert_eq!(judged(code, "no").unwrap_err(), plain(code));
        }
    }
}

//! A client of one server: JSON there, JSON back.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::unfold;
use futures::{Stream, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT, WARNING};
use hyper::{Method, Request, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kindom_api::{Value, json};
use kube::Config;
use kube::client::ConfigExt as _;
use secrecy::ExposeSecret as _;
use tokio::time::timeout;

use crate::BoxError;

/// The longest wait for an answer; a server that takes longer is taken for dead.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The most times that a request is sent to a server that is too busy for it (as client-go).
const TRIES: u32 = 10;
/// The longest wait for which a server's Retry-After is followed, in seconds.
const PAUSE_SECONDS_MAX: u64 = 30;

/// Keeps its connections open between requests.
pub(crate) struct Client {
    origin: String,
    authorization: Option<HeaderValue>,
    inner: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// The server's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// Null if it is no JSON.
    pub(crate) body: Value,
    /// The texts of its Warning headers.
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    /// The reason of a Status, such as `AlreadyExists`.
    pub(crate) fn reason(&self) -> &str {
        self.body.get("reason").and_then(Value::as_str).unwrap_or_default()
    }

    /// A failure as one line.
    pub(crate) fn message(&self) -> String {
        let message = self.body.get("message").and_then(Value::as_str).filter(|text| !text.is_empty());
        message.map_or_else(|| format!("the server answered {}", self.status), str::to_owned)
    }
}

impl Client {
    /// # Errors
    /// Certificates that do not parse.
    pub(crate) fn new(mut config: Config) -> Result<Self, BoxError> {
        let origin = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        // Without any, kube would trust whom the machine trusts.
        let authorities = config.root_cert.get_or_insert_default();
        if authorities.is_empty() && !config.accept_invalid_certs && origin.starts_with("https:") {
            return Err(format!("the kubeconfig has no certificate-authority for {origin}").into());
        }
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let connector = config.rustls_https_connector_with_connector(http).map_err(|e| with_causes(&e))?;
        let token = match (&config.auth_info.token_file, &config.auth_info.token) {
            (Some(file), _) => {
                Some(std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?.trim().to_owned())
            }
            (None, token) => token.as_ref().map(|token| token.expose_secret().to_owned()),
        };
        let authorization = token.filter(|token| !token.is_empty()).map(|token| {
            let value: Result<HeaderValue, _> = format!("Bearer {token}").parse();
            value.map_err(|_| "the token has signs that no header can have")
        });
        let inner = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { origin, authorization: authorization.transpose()?, inner })
    }

    /// Sends a request; again if the server is too busy for it and says when.
    ///
    /// # Errors
    /// No HTTP answer. Whether the request was carried out is then unknown.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, BoxError> {
        self.send_as("application/json", method, path, body).await
    }

    /// [`Self::send`] with a body of this media type, which is JSON as well.
    pub(crate) async fn send_as(
        &self,
        media_type: &'static str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, BoxError> {
        let body = Bytes::from(body.map(Value::to_vec).unwrap_or_default());
        let mut tries = 1;
        loop {
            let (pause, answer) = timeout(ANSWER_LIMIT, self.once(media_type, &method, path, body.clone()))
                .await
                .map_err(|_| self.no_answer())?
                .map_err(|e| format!("{}: {}", self.origin, with_causes(e.as_ref())))?;
            let is_busy = matches!(answer.status.as_u16(), 429 | 503);
            match pause.filter(|_| is_busy && tries < TRIES) {
                Some(seconds) => {
                    tokio::time::sleep(Duration::from_secs(seconds.min(PAUSE_SECONDS_MAX))).await
                }
                None => return Ok(answer),
            }
            tries += 1;
        }
    }

    /// The body of a GET, piece by piece.
    ///
    /// # Errors
    /// No HTTP answer, or another than 200; in the stream: it breaks off.
    pub(crate) async fn stream(
        &self,
        path: &str,
    ) -> Result<impl Stream<Item = Result<Bytes, BoxError>> + use<>, BoxError> {
        let request = self.request(&Method::GET, path).header(ACCEPT, "*/*").body(Full::default())?;
        let failed = |e: &(dyn std::error::Error + 'static)| format!("{}: {}", self.origin, with_causes(e));
        let response = timeout(ANSWER_LIMIT, self.inner.request(request)).await;
        let response = response.map_err(|_| self.no_answer())?.map_err(|error| failed(&error))?;
        let status = response.status();
        if status != StatusCode::OK {
            let body = response.into_body().collect().await?.to_bytes();
            let body = json::parse(&body).unwrap_or_default();
            return Err(Answer { status, body, warnings: Vec::new() }.message().into());
        }
        let late = self.no_answer();
        Ok(unfold(Some((response.into_body().into_data_stream(), late)), |state| async {
            let (mut body, late) = state?;
            match timeout(ANSWER_LIMIT, body.next()).await {
                Ok(Some(Ok(chunk))) => Some((Ok(chunk), Some((body, late)))),
                Ok(Some(Err(error))) => Some((Err(with_causes(&error).into()), None)),
                Ok(None) => None,
                Err(_) => Some((Err(late.into()), None)),
            }
        }))
    }

    fn no_answer(&self) -> String {
        format!("{}: no answer within {ANSWER_LIMIT:?}", self.origin)
    }

    fn request(&self, method: &Method, path: &str) -> hyper::http::request::Builder {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.origin));
        let request = request.header(USER_AGENT, concat!("kindom/", env!("CARGO_PKG_VERSION")));
        match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization),
            None => request,
        }
    }

    /// The answer, and in how many seconds the server wants to be asked again.
    async fn once(
        &self,
        media_type: &'static str,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<(Option<u64>, Answer), BoxError> {
        let mut request = self.request(method, path);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, media_type);
        }
        let request = request.header(ACCEPT, "application/json").body(Full::new(body))?;
        let response = self.inner.request(request).await?;
        let status = response.status();
        let pause = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
        let warnings = response.headers().get_all(WARNING).into_iter();
        let warnings = warnings.filter_map(|value| warning(value.to_str().ok()?)).collect();
        let bytes = response.into_body().collect().await?.to_bytes();
        Ok((pause, Answer { status, body: json::parse(&bytes).unwrap_or_default(), warnings }))
    }
}

/// The text of `299 - "text"` (RFC 7234, 5.5).
fn warning(header: &str) -> Option<String> {
    let (_, quoted) = header.split_once('"')?;
    let mut text = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => text.push(chars.next()?),
            c => text.push(c),
        }
    }
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_unquoted() {
        assert_eq!(
            warning(r#"299 - "unknown field \"spec.x\"" "#).as_deref(),
            Some("unknown field \"spec.x\"")
        );
        assert_eq!(warning("299 - \"cut"), None);
        assert_eq!(warning("299"), None);
    }
}

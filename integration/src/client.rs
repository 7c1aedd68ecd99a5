//! A plain HTTP client: any method, any header, any body, and watch streams read line by line.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::HarnessError;

/// The longest wait for an answer; no healthy server takes this long.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// A client of one server with one identity. Cloning is cheap and shares the connections.
#[derive(Clone)]
pub struct Client {
    origin: String,
    token: Option<String>,
    inner: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Client {
    /// A client of the server at `address`, over HTTP/2 or HTTP/1.1.
    #[must_use]
    pub fn new(address: SocketAddr, tls: rustls::ClientConfig, http2: bool) -> Self {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_only();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let connector = if http2 {
            builder.enable_http2().wrap_connector(http)
        } else {
            builder.enable_http1().wrap_connector(http)
        };
        let inner = legacy::Client::builder(TokioExecutor::new()).http2_only(http2).build(connector);
        Self { origin: format!("https://{address}"), token: None, inner }
    }

    /// The same client with a bearer token.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Begins a request. `path` starts with `/` and may hold a query.
    #[must_use]
    pub fn request(&self, method: &str, path: &str) -> Request<'_> {
        Request {
            client: self,
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// GET.
    ///
    /// # Errors
    /// No HTTP answer.
    pub async fn get(&self, path: &str) -> Result<Answer, HarnessError> {
        self.request("GET", path).send().await
    }

    /// POST of a JSON body.
    ///
    /// # Errors
    /// No HTTP answer.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, HarnessError> {
        self.request("POST", path).json(body).send().await
    }

    /// PUT of a JSON body.
    ///
    /// # Errors
    /// No HTTP answer.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Answer, HarnessError> {
        self.request("PUT", path).json(body).send().await
    }

    /// A JSON merge patch.
    ///
    /// # Errors
    /// No HTTP answer.
    pub async fn merge_patch(&self, path: &str, patch: &Value) -> Result<Answer, HarnessError> {
        self.request("PATCH", path).body("application/merge-patch+json", patch.to_string()).send().await
    }

    /// A JSON patch.
    ///
    /// # Errors
    /// No HTTP answer.
    pub async fn json_patch(&self, path: &str, operations: &Value) -> Result<Answer, HarnessError> {
        self.request("PATCH", path).body("application/json-patch+json", operations.to_string()).send().await
    }

    /// DELETE without a body.
    ///
    /// # Errors
    /// No HTTP answer.
    pub async fn delete(&self, path: &str) -> Result<Answer, HarnessError> {
        self.request("DELETE", path).send().await
    }

    /// Opens a watch; `path` holds `watch=true`.
    ///
    /// # Errors
    /// No HTTP answer, or one other than 200.
    pub async fn watch(&self, path: &str) -> Result<WatchStream, HarnessError> {
        self.request("GET", path).stream().await
    }
}

/// A request that is being put together.
pub struct Request<'a> {
    client: &'a Client,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Request<'_> {
    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets `Accept`.
    #[must_use]
    pub fn accept(self, value: &str) -> Self {
        self.header(ACCEPT.as_str(), value)
    }

    /// Sets the body and its content type.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header(CONTENT_TYPE.as_str(), content_type)
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// Sets a body without a content type.
    #[must_use]
    pub fn bare_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    fn what(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    async fn begin(self) -> Result<hyper::Response<Incoming>, HarnessError> {
        let what = self.what();
        let mut request = hyper::Request::builder()
            .method(self.method.as_str())
            .uri(format!("{}{}", self.client.origin, self.path))
            .body(Full::new(self.body))
            .map_err(|e| HarnessError::transport(&what, &e))?;
        if let Some(token) = &self.client.token {
            let value = format!("Bearer {token}").parse().map_err(|e| HarnessError::transport(&what, &e))?;
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        for (name, value) in &self.headers {
            let name: HeaderName = name.parse().map_err(|e| HarnessError::transport(&what, &e))?;
            let value: HeaderValue = value.parse().map_err(|e| HarnessError::transport(&what, &e))?;
            request.headers_mut().append(name, value);
        }
        within(&what, self.client.inner.request(request))
            .await?
            .map_err(|e| HarnessError::transport(&what, &e))
    }

    /// Sends it and reads the whole answer.
    ///
    /// # Errors
    /// No HTTP answer.
    pub async fn send(self) -> Result<Answer, HarnessError> {
        let what = self.what();
        let response = self.begin().await?;
        let (parts, body) = response.into_parts();
        let body =
            within(&what, body.collect()).await?.map_err(|e| HarnessError::transport(&what, &e))?.to_bytes();
        Ok(Answer { what, status: parts.status.as_u16(), headers: parts.headers, body })
    }

    /// Sends it and reads the answer line by line.
    ///
    /// # Errors
    /// No HTTP answer, or one other than 200.
    pub async fn stream(self) -> Result<WatchStream, HarnessError> {
        match self.open().await? {
            Opened::Stream(stream) => Ok(stream),
            Opened::Answer(answer) => Err(HarnessError::Malformed {
                cause: format!("status {}", answer.status),
                text: answer.text(),
                what: answer.what,
            }),
        }
    }

    /// Sends it and reads the answer line by line if it is a 200, else as a whole.
    ///
    /// # Errors
    /// No HTTP answer.
    pub async fn open(self) -> Result<Opened, HarnessError> {
        let what = self.what();
        let response = self.begin().await?;
        let (parts, body) = response.into_parts();
        let (status, headers) = (parts.status.as_u16(), parts.headers);
        if status == 200 {
            let (partial, lines) = (BytesMut::new(), VecDeque::new());
            return Ok(Opened::Stream(WatchStream { what, headers, body, partial, lines }));
        }
        let body =
            within(&what, body.collect()).await?.map_err(|e| HarnessError::transport(&what, &e))?.to_bytes();
        Ok(Opened::Answer(Answer { what, status, headers, body }))
    }
}

/// The answer to a request for a stream.
pub enum Opened {
    /// A 200.
    Stream(WatchStream),
    /// Anything else.
    Answer(Answer),
}

async fn within<F: Future>(what: &str, work: F) -> Result<F::Output, HarnessError> {
    tokio::time::timeout(ANSWER_LIMIT, work)
        .await
        .map_err(|_| HarnessError::Hung { what: what.to_owned(), limit: ANSWER_LIMIT })
}

/// A whole HTTP answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The request's method and path.
    pub what: String,
    /// The HTTP status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The value at a JSON pointer of the body; null if there is none.
    #[must_use]
    pub fn at(&self, pointer: &str) -> Value {
        self.json().pointer(pointer).cloned().unwrap_or_default()
    }

    /// A header's value, empty without it.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }

    /// The values of all Warning headers.
    #[must_use]
    pub fn warnings(&self) -> Vec<&str> {
        self.headers.get_all("warning").iter().filter_map(|v| v.to_str().ok()).collect()
    }

    /// The answer if it has this status.
    ///
    /// # Errors
    /// Another status: the whole answer as text.
    pub fn expect_status(self, status: u16) -> Result<Self, HarnessError> {
        if self.status == status {
            return Ok(self);
        }
        let text = self.text();
        Err(HarnessError::Malformed {
            what: self.what,
            cause: format!("status {} instead of {status}", self.status),
            text,
        })
    }
}

/// A watch that is being read.
pub struct WatchStream {
    what: String,
    headers: HeaderMap,
    body: Incoming,
    partial: BytesMut,
    lines: VecDeque<Bytes>,
}

impl WatchStream {
    /// The answer's headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The next event, or none when the server ended the stream in order.
    ///
    /// Waits as long as it takes. Cancel safe.
    ///
    /// # Errors
    /// The connection broke, or a line is not JSON.
    pub async fn next(&mut self) -> Result<Option<Value>, HarnessError> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return serde_json::from_slice(&line).map(Some).map_err(|e| HarnessError::Malformed {
                    what: self.what.clone(),
                    cause: e.to_string(),
                    text: String::from_utf8_lossy(&line).into_owned(),
                });
            }
            match self.body.frame().await {
                None => return self.ended(),
                Some(Err(e)) => return Err(HarnessError::transport(&self.what, &e)),
                Some(Ok(frame)) => {
                    let Some(data) = frame.data_ref() else { continue };
                    self.partial.extend_from_slice(data);
                    while let Some(at) = self.partial.iter().position(|&b| b == b'\n') {
                        let line = self.partial.split_to(at + 1).freeze();
                        self.lines.push_back(line);
                    }
                }
            }
        }
    }

    fn ended(&self) -> Result<Option<Value>, HarnessError> {
        if self.partial.is_empty() {
            return Ok(None);
        }
        Err(HarnessError::Malformed {
            what: self.what.clone(),
            cause: "the stream ended in the middle of an event".to_owned(),
            text: String::from_utf8_lossy(&self.partial).into_owned(),
        })
    }

    /// [`WatchStream::next`] under the safety net.
    ///
    /// # Errors
    /// As [`WatchStream::next`], or nothing for two minutes.
    pub async fn next_in_time(&mut self) -> Result<Option<Value>, HarnessError> {
        let what = format!("an event of {}", self.what);
        within(&what, self.next()).await?
    }

    /// [`WatchStream::next`], where an end is an error too, under the safety net.
    ///
    /// # Errors
    /// As [`WatchStream::next`], an end, or nothing for two minutes.
    pub async fn event(&mut self) -> Result<Value, HarnessError> {
        match self.next_in_time().await? {
            Some(event) => Ok(event),
            None => Err(HarnessError::Transport {
                what: self.what.clone(),
                cause: "the server ended the stream".to_owned(),
            }),
        }
    }
}

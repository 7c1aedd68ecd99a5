//! Requests on their way to another server: their bodies as streams, and its answers.
//!
//! **Guarantees.** At most [`CHUNKS`] pieces of a body wait for the other server, and an answer waits for its client. A request
//! that is no watch, no WebSocket and none of upstream's long-running ones ends within a minute.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::dev::Payload;
use actix_web::http::{StatusCode, header};
use futures::stream::{StreamExt as _, unfold};
use kindom_api::user::User;
use kindom_objects::webhook_client::WebhookClient;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::aggregate::{Aggregator, Forwarded, Pieces};
use crate::body::runs_on;
use crate::forwarded_path::{escaped, has_dots};
use crate::head::{Head, header_of};
use crate::request_info::{RequestInfo, ResourceRequest, Verb};
use crate::response::{Builder, Response};
use crate::state::REQUEST_TIMEOUT;
use crate::websocket;

/// The most pieces of a request's body that wait for the other server.
const CHUNKS: usize = 2;
/// The longest wait for the next piece of a request's body.
const PIECE_WAIT: Duration = Duration::from_secs(60);

/// The subresources whose answers are streams (`BasicLongRunningRequestCheck` in kube-apiserver's options, 1.37).
const STREAMS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Returns true if the answer to a request may have no end.
pub(crate) fn has_no_end(info: &RequestInfo) -> bool {
    matches!(info, RequestInfo::Resource(info) if has_no_end_of(info))
}

/// Returns true if the answer to a request for a resource may have no end.
pub(crate) fn has_no_end_of(info: &ResourceRequest) -> bool {
    info.verb == Verb::Watch || STREAMS.contains(&info.subresource.as_str())
}

/// The server that a request is sent on to.
pub(crate) enum Destination<'a> {
    /// That of a group-version.
    Version(&'a str, &'a str),
    /// A program that serves a subresource.
    Program(&'a Arc<WebhookClient>),
}

/// The client of a request that is sent on.
pub(crate) struct Client<'a> {
    pub(crate) user: Arc<User>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) audit_id: Option<&'a header::HeaderValue>,
}

/// Sends a request on; `has_no_end` if its answer may have none. `is_of_a_proxy`: tells the headers that stay here.
pub(crate) async fn forward(
    to: &dyn Aggregator,
    request: &Head,
    destination: Destination<'_>,
    client: Client<'_>,
    payload: Payload,
    is_of_a_proxy: impl Fn(&str) -> bool,
    has_no_end: bool,
) -> Forwarding {
    if has_dots(request.path()) {
        let why = "the path has a segment of dots alone";
        let mut builder = Builder::new(400);
        builder.content_type("text/plain; charset=utf-8");
        return Forwarding { response: builder.body(why), is_upgrade: false };
    }
    let uri = request.uri();
    // Other protocols than a WebSocket could carry requests of the client over the proxy's own connection.
    let upgrades = websocket::is_wanted(request);
    let has_body = upgrades || !matches!(request.method().as_str(), "GET" | "HEAD");
    let announced = header_of(request, header::CONTENT_LENGTH).parse().ok();
    let end = if !upgrades && runs_on(request) { Some(announced.unwrap_or(0)) } else { None };
    let headers = request.headers().iter().filter(|(name, _)| !is_of_a_proxy(name.as_str()));
    let (group, version) = match destination {
        Destination::Version(group, version) => (group, version),
        Destination::Program(_) => ("", ""),
    };
    let forwarded = Forwarded {
        group: group.to_owned(),
        version: version.to_owned(),
        method: request.method().as_str().to_owned(),
        path_and_query: match uri.query() {
            Some(query) => format!("{}?{query}", escaped(uri.path())),
            None => escaped(uri.path()),
        },
        headers: headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect(),
        body: has_body.then(|| pumped(payload, end, upgrades)),
        user: client.user,
        address: client.address,
        audit_id: client.audit_id.map(|id| id.as_bytes().to_vec()),
        upgrades,
    };
    let has_end = !has_no_end && !upgrades;
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    let answer = match destination {
        Destination::Version(..) => to.forward(forwarded),
        Destination::Program(program) => to.forward_to(program, forwarded),
    };
    let answer = answer.await;
    let is_upgrade = answer.status == StatusCode::SWITCHING_PROTOCOLS.as_u16();
    let is_bare = request.method() == "HEAD" || matches!(answer.status, 204 | 304);
    let mut builder = Builder::new(answer.status);
    for (name, value) in answer.headers {
        builder.append_header((name, value));
    }
    let body = if has_end { until(deadline, answer.body) } else { answer.body };
    let body = flushed(body);
    let response = if is_bare { builder.finish() } else { builder.streaming(body) };
    Forwarding { response, is_upgrade }
}

/// The answer of another server.
pub(crate) struct Forwarding {
    response: Response,
    is_upgrade: bool,
}

impl Forwarding {
    /// Adds warnings, which an upgraded connection has not.
    pub(crate) fn warn(&mut self, warnings: &[String]) {
        if !self.is_upgrade {
            self.response.warn(warnings);
        }
    }

    /// The answer of an upgraded connection, as actix-web sends it; or the response of any other.
    pub(crate) fn upgraded(self) -> Result<HttpResponse, Response> {
        if !self.is_upgrade {
            return Err(self.response);
        }
        let mut response = self.response.into_http();
        response.head_mut().set_connection_type(actix_http::ConnectionType::Upgrade);
        // An upgraded connection has no content, and so neither a type nor chunks.
        response.head_mut().no_chunking(true);
        response.headers_mut().remove(header::CONTENT_TYPE);
        Ok(response)
    }
}

/// Breaks a body off at a deadline.
pub(crate) fn until(deadline: Instant, body: Pieces) -> Pieces {
    unfold(Some(body), move |body| async move {
        let mut body = body?;
        match timeout_at(deadline, body.next()).await {
            Ok(piece) => piece.map(|piece| (piece, Some(body))),
            Err(_) => Some((Err(std::io::ErrorKind::TimedOut.into()), None)),
        }
    })
    .boxed()
}

/// Lets what came before an error reach the client: a connection that learns of both in one turn is closed without it.
pub(crate) fn flushed(body: Pieces) -> Pieces {
    body.then(|piece| async {
        if piece.is_err() {
            tokio::task::yield_now().await;
        }
        piece
    })
    .boxed()
}

/// The payload of a connection as a stream for another thread. `end`: the bytes after which it ends, if it has no end of its
/// own. While a connection is upgraded, its client may be silent for any time.
fn pumped(mut payload: Payload, end: Option<usize>, upgrades: bool) -> Pieces {
    let (to, from) = mpsc::channel(CHUNKS);
    actix_web::rt::spawn(async move {
        let mut left = end;
        while left != Some(0) {
            let wait = async {
                match upgrades {
                    true => Ok(payload.next().await),
                    false => tokio::time::timeout(PIECE_WAIT, payload.next()).await,
                }
            };
            let next = tokio::select! {
                next = wait => next,
                // Nobody reads it any more.
                () = to.closed() => return,
            };
            let piece = match next {
                Ok(Some(Ok(mut bytes))) => {
                    if let Some(left) = &mut left {
                        bytes.truncate(*left);
                        *left -= bytes.len();
                    }
                    Ok(bytes)
                }
                Ok(None) => return,
                Ok(Some(Err(error))) => Err(std::io::Error::other(error.to_string())),
                Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
            };
            let is_broken = piece.is_err();
            let sent = async {
                match upgrades {
                    true => Ok(to.send(piece).await),
                    false => tokio::time::timeout(PIECE_WAIT, to.send(piece)).await,
                }
            };
            if !matches!(sent.await, Ok(Ok(()))) || is_broken {
                return;
            }
        }
    });
    unfold(from, |mut from| async move { from.recv().await.map(|piece| (piece, from)) }).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_it_was_read() {
        for (path, wanted) in [
            ("/apis/g/v1/things/a", "/apis/g/v1/things/a"),
            ("/apis/g/v1/namespaces/a%2Fthings%2Fb", "/apis/g/v1/namespaces/a/things/b"),
            ("/apis/g/v1/things/a%3Fb%25%20%c3%a9", "/apis/g/v1/things/a%3Fb%25%20%C3%A9"),
            ("/apis/g/v1/things/system:a@b;c=d", "/apis/g/v1/things/system:a@b;c=d"),
        ] {
            assert_eq!(escaped(path), wanted);
        }
    }

    #[test]
    fn a_path_of_dots_is_found() {
        for path in
            ["/apis/g/v1/../../../api", "/apis/g/v1/%2e%2E/x", "/apis/g/v1/..%2fx", "/apis/g/v1/.", ".."]
        {
            assert!(has_dots(path), "{path}");
        }
        for path in ["/apis/g.io/v1/things/a..b", "/apis/g/v1/..a", "/apis/g/v1/...", "/"] {
            assert!(!has_dots(path), "{path}");
        }
    }
}

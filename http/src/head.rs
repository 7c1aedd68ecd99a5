//! The head of a request: its headers, its size, and the connection that it came by.

use std::rc::Rc;

use actix_web::http::{Version, header};
use actix_web::{HttpMessage as _, HttpRequest};

use crate::authn::Peer;

/// A header's value; empty if the header is absent or no text.
pub(crate) fn header_of(request: &HttpRequest, name: header::HeaderName) -> &str {
    request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// The client of a request's connection; none where there is no connection.
pub(crate) fn peer(request: &HttpRequest) -> Option<Rc<Peer>> {
    // HTTP/1.1 knows data of a connection; HTTP/2 gives each request its own reference.
    let peer = request.conn_data::<Rc<Peer>>().cloned();
    peer.or_else(|| request.extensions().get::<Rc<Peer>>().cloned())
}

/// The most bytes of the line and the headers of a request (`net/http` `DefaultMaxHeaderBytes`).
const HEAD_BYTES_MAX: usize = 1 << 20;

/// Returns true if a request's line and headers are larger than Go takes them. Over HTTP/1.1 actix-http takes no more
/// than 128 KiB, and answers 431 itself.
pub(crate) fn is_too_large(request: &HttpRequest) -> bool {
    request.version() >= Version::HTTP_2 && head_bytes(request) > HEAD_BYTES_MAX
}

fn head_bytes(request: &HttpRequest) -> usize {
    let uri = request.uri().path_and_query().map_or(0, |uri| uri.as_str().len());
    request.headers().iter().fold(uri, |sum, (name, value)| sum + name.as_str().len() + value.len())
}

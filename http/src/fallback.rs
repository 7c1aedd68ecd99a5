//! The next handler of the chain: who answers what nobody registered (T-44).

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use kindom_api::user::User;

use crate::RequestError;
use crate::forwarded_path::{escaped, has_dots};
use crate::head::Head;
use crate::response::{Builder, Response};

/// A request for something that is not served here. Its user is authenticated and may make it.
#[derive(Debug, Clone)]
pub struct Delegated {
    /// `GET`
    pub method: String,
    /// As it stands in the request: `/apis/g.io/v1/widgets?limit=5`.
    pub path_and_query: String,
    /// In the order of the request, credentials included.
    pub headers: Vec<(String, Vec<u8>)>,
    /// As it was sent, at most 3 MiB.
    pub body: Bytes,
    /// The user who sends the request.
    pub user: Arc<User>,
}

/// The answer of a [`Fallback`].
pub struct DelegatedAnswer {
    /// 100 to 599.
    pub status: u16,
    /// The headers, except those of the connection itself, which the server sets.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Sent as it comes: a watch does not end. An error cuts the connection.
    pub body: BoxStream<'static, Result<Bytes, std::io::Error>>,
}

/// Answers requests for types that no registration defines, and for unknown paths; without a fallback they get 404. An
/// embedder's own resources, say, or another server that is proxied to.
pub trait Fallback: Send + Sync {
    /// Answers a request. Never called for a resource that a registration or a built-in type serves.
    fn serve(&self, request: Delegated) -> BoxFuture<'static, DelegatedAnswer>;
}

/// Refuses a path that the next handler could take for another one.
///
/// # Errors
/// [`RequestError::BadRequest`]
pub(crate) fn check_path(request: &Head) -> Result<(), RequestError> {
    match has_dots(request.uri().path()) {
        true => Err(RequestError::BadRequest("the path has segments of dots alone".to_owned())),
        false => Ok(()),
    }
}

/// Asks the next handler.
pub(crate) async fn delegate(to: &dyn Fallback, request: &Head, body: Bytes, user: Arc<User>) -> Response {
    let uri = request.uri();
    // The request goes on as this user already.
    let headers = request.headers().iter().filter(|(name, _)| !name.as_str().starts_with("impersonate-"));
    let delegated = Delegated {
        method: request.method().as_str().to_owned(),
        // Of two ways to write a path, the one that the user was authorized for.
        path_and_query: match uri.query() {
            Some(query) => format!("{}?{query}", escaped(uri.path())),
            None => escaped(uri.path()),
        },
        headers: headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect(),
        body,
        user,
    };
    let answer = to.serve(delegated).await;
    let mut builder = Builder::new(answer.status);
    for (name, value) in answer.headers {
        builder.append_header((name, value));
    }
    builder.streaming(answer.body)
}

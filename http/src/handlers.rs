//! The handlers of the subresources that the program of a kind answers itself (B-52), as they see requests.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use kindom_api::Value;
use kindom_resource_actor::{ResourceHandle, WriteError, WriteOptions};

use crate::aggregate::Pieces;

/// The handlers of a program.
pub trait Handlers: Send + Sync {
    /// The one of a subresource of what a registration defines; `None` if the program has none.
    fn find(&self, registration: &str, subresource: &str) -> Option<Arc<dyn Handler>>;
}

/// Answers the requests for a subresource.
pub trait Handler: Send + Sync {
    /// Answers one. It may panic, and it may take for ever.
    fn handle(&self, request: Handled) -> BoxFuture<'static, Result<Answered, HandlerError>>;
}

/// A request for a subresource of an object that is there. Its user is authenticated and may make it.
pub struct Handled {
    /// `create`, `delete`, `get`, `patch` or `update`.
    pub verb: &'static str,
    /// The version that the path names.
    pub version: String,
    /// The namespace of the object; none at cluster scope.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// The object in that version, as it was after the request came.
    pub object: Value,
    /// The path behind the subresource as it stands in the request, without its first `/`; empty if it ends there.
    pub path: String,
    /// The parameters of the query, decoded.
    pub parameters: Vec<(String, String)>,
    /// The type of the body; empty if the client gave none.
    pub content_type: String,
    /// The body, decompressed; empty if there is none.
    pub body: Bytes,
    /// The type, for changes of the object.
    pub handle: ResourceHandle,
    /// The options of such a change: by the user, under the name of the client, asking no webhook and no policy.
    pub options: WriteOptions,
}

/// The answer of a handler.
pub struct Answered {
    /// 200 to 599.
    pub code: u16,
    /// `application/json`
    pub content_type: String,
    /// The content.
    pub content: AnsweredContent,
}

/// The content of an answer.
pub enum AnsweredContent {
    /// All of it.
    Whole(Bytes),
    /// Sent as it comes. An error cuts the connection.
    Pieces(Pieces),
}

/// The reason why a handler does not do what it was asked for.
#[derive(Debug)]
pub enum HandlerError {
    /// It says why.
    Refused(Refusal),
    /// A change of the object was refused or failed.
    Write(Box<WriteError>),
}

/// A refusal, as a `metav1.Status` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// 400 to 599.
    pub code: u16,
    /// For programs: `Conflict`.
    pub reason: String,
    /// For people.
    pub message: String,
}

//! The handlers of the subresources that the program of a kind answers itself (B-52), as they see requests.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use kindom_api::Value;
use kindom_resource_actor::{ResourceHandle, WriteError, WriteOptions};

use crate::aggregate::Pieces;

/// Answers the requests for a subresource. It may panic, and it may take for ever.
pub type Handler =
    Arc<dyn Fn(HandlerRequest) -> BoxFuture<'static, Result<HandlerAnswer, HandlerError>> + Send + Sync>;

/// The handlers of a program.
pub trait Handlers: Send + Sync {
    /// The handler of a subresource, of the type that a registration defines; `None` if the program does not serve that.
    fn find(&self, registration: &str, subresource: &str) -> Option<Handler>;
}

/// A request for a subresource of an object that is there. Its user is authenticated and may make it.
pub struct HandlerRequest {
    /// `create`, `delete`, `get`, `patch` or `update`.
    pub verb: &'static str,
    /// The namespace of the object; none at cluster scope.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// The object in the storage version, as it was after the request came.
    pub object: Value,
    /// The storage version.
    pub version: String,
    /// The path behind the subresource, decoded, without its first `/`; empty if it ends there.
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
pub struct HandlerAnswer {
    /// 200 to 599.
    pub code: u16,
    /// `application/json`
    pub content_type: String,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// The content.
    pub content: HandlerContent,
}

/// The content of an answer.
pub enum HandlerContent {
    /// All of it.
    Whole(Bytes),
    /// Sent as it comes. An error cuts the connection.
    Pieces(Pieces),
}

/// The reason why a handler does not do what it was asked for.
#[derive(Debug)]
pub enum HandlerError {
    /// It says why.
    Refused(HandlerRefusal),
    /// A change of the object was refused or failed.
    Write(Box<WriteError>),
}

/// A refusal, as a `metav1.Status` has it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HandlerRefusal {
    /// 400 to 599.
    pub code: u16,
    /// For programs: `Conflict`.
    pub reason: String,
    /// For people.
    pub message: String,
}

//! The refusals of requests that reach no handle.

use kindom_actor_kit::NoAnswer;
use kindom_api::field;
use kindom_api::names::{GroupKind, GroupResource};
use kindom_codec::DecodeError;
use kindom_codec::json_patch::PatchError;

/// The reason why a request is refused. Each variant is one status code, and prints upstream's text.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// 400
    #[error("{0}")]
    BadRequest(String),
    /// 500 with this very text: what upstream finds wrong too late to say 400.
    #[error("{0}")]
    Internal(String),
    /// 504: a step of the request did not end in time (apiserver `pkg/endpoints/handlers/finisher`, 1.37).
    #[error("request did not complete within requested timeout - context deadline exceeded")]
    Late,
    /// 503: nobody can be asked who would answer.
    #[error("{0}")]
    Unavailable(String),
    /// 404: a built-in type does not have the resource that the path names.
    #[error("the server could not find the requested resource")]
    NoSuchResource,
    /// 405: a built-in type does not do this.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// 406: a list cannot be one object's metadata. Holds the list's type, as Go names it.
    #[error("you requested PartialObjectMetadata, but the requested object is a list ({0})")]
    ListNotAcceptable(String),
    /// 406: an object cannot be a list of metadata. Holds the object's type, as Go names it.
    #[error("you requested PartialObjectMetadataList, but the requested object is not a list ({0})")]
    ObjectNotAcceptable(String),
    /// 404 as plain text: nothing is served under this path.
    #[error("404 page not found")]
    NotFound,
    /// 405: the resource does not do this; the verb may be empty.
    #[error("{verb} is not supported on resources of kind {resource}")]
    MethodNotSupported {
        /// The resource that the path names.
        resource: GroupResource,
        /// The requested verb.
        verb: &'static str,
    },
    /// 406: the media types that the server can send instead.
    #[error("only the following media types are accepted: {}", .0.join(", "))]
    NotAcceptable(&'static [&'static str]),
    /// 413
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    /// 415: the media types that the client can send instead.
    #[error("the body of the request was in an unknown format - accepted media types include: {}", .0.join(", "))]
    UnsupportedMediaType(Vec<&'static str>),
    /// 422 with a cause for each error: options, a patched object or an object of another kind.
    #[error("{kind} is invalid: {}", field::aggregate(.errors))]
    Invalid {
        /// `ListOptions.meta.k8s.io`; empty for a patched object.
        kind: GroupKind,
        /// The object's name, if it is an object.
        name: String,
        /// The errors.
        errors: field::ErrorList,
    },
    /// 422 with a fixed message: a patch does not apply. The text is for the log only.
    #[error("{0}")]
    PatchDoesNotApply(String),
}

impl From<DecodeError> for RequestError {
    fn from(error: DecodeError) -> Self {
        Self::BadRequest(error.0)
    }
}

impl From<PatchError> for RequestError {
    fn from(error: PatchError) -> Self {
        match error {
            PatchError::Malformed(error) => error.into(),
            PatchError::TooMany(why) => Self::TooLarge(why),
        }
    }
}

impl From<NoAnswer> for RequestError {
    fn from(why: NoAnswer) -> Self {
        match why {
            NoAnswer::Lost(lost) => Self::Internal(lost.to_string()),
            NoAnswer::Late => Self::Late,
        }
    }
}

impl RequestError {
    /// 422 for options of this kind, if there are errors.
    pub(crate) fn invalid_options(kind: &str, errors: field::ErrorList) -> Result<(), Self> {
        if errors.is_empty() {
            return Ok(());
        }
        let kind = GroupKind { group: "meta.k8s.io".to_owned(), kind: kind.to_owned() };
        Err(Self::Invalid { kind, name: String::new(), errors })
    }

    /// 422 on the field `patch`: the patched object is impossible.
    pub(crate) fn invalid_patch(patched: String, detail: impl Into<String>) -> Self {
        let error = field::Error::invalid(&field::Path::new("patch"), patched, detail);
        Self::Invalid { kind: GroupKind::default(), name: String::new(), errors: error.into() }
    }
}

//! The reasons why a measurement failed.

use std::fmt::Display;
use std::io;

/// A figure that is missing. A figure that misses its target is no error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// A file, a process or a socket.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    /// No answer, or one that cannot be read.
    #[error("{what}: {cause}")]
    Transport { what: String, cause: String },
    /// An answer other than the one that was to be measured.
    #[error("{what}: status {status}: {body}")]
    Answer { what: String, status: u16, body: String },
    /// Something that is needed is not there.
    #[error("{0}")]
    Missing(String),
}

impl LoadError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub(crate) fn transport<E: Display>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |cause| Self::Transport { what, cause: cause.to_string() }
    }
}

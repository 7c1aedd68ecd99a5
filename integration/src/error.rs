//! The reasons why a test could not be carried out.

use std::fmt;
use std::time::Duration;

/// A failure of the harness itself. A test fails on any of these.
///
/// `Debug` is `Display`: tests unwrap these errors, and a log is only readable with its line ends.
#[derive(thiserror::Error)]
pub enum HarnessError {
    /// The binary or a tool is missing, or does not run; the text gives the remedy.
    #[error("{0}")]
    Missing(String),
    /// The server ended before it was ready, or was not running when it had to be.
    #[error("the server is not running: {reason}\n--- its log ends with ---\n{log}")]
    NotRunning {
        /// The observation.
        reason: String,
        /// The last lines of its standard error.
        log: String,
    },
    /// A file or a process could not be handled.
    #[error("{what}: {source}")]
    Io {
        /// The action.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The connection failed, or the bytes that came over it are not HTTP.
    #[error("{what}: {cause}")]
    Transport {
        /// The request.
        what: String,
        /// The cause, with its own causes.
        cause: String,
    },
    /// The answer is not what its content type says.
    #[error("{what}: {cause}: {text}")]
    Malformed {
        /// The request.
        what: String,
        /// The error in it.
        cause: String,
        /// Its text.
        text: String,
    },
    /// The safety net was reached.
    #[error("{what}: nothing within {limit:?}")]
    Hung {
        /// The awaited event.
        what: String,
        /// The safety net.
        limit: Duration,
    },
}

impl fmt::Debug for HarnessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl HarnessError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub(crate) fn transport(what: impl Into<String>, cause: &(dyn std::error::Error + 'static)) -> Self {
        let mut text = cause.to_string();
        let mut next = cause.source();
        while let Some(inner) = next {
            text.push_str(": ");
            text.push_str(&inner.to_string());
            next = inner.source();
        }
        Self::Transport { what: what.into(), cause: text }
    }
}

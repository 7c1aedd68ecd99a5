//! The failure of a tool.

use std::path::{Path, PathBuf};

/// The reason why a tool did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The arguments, or the project, are not as they have to be; the text names the flag or file and the mistake.
    #[error("{0}")]
    Refused(String),
    /// A file or folder of the project.
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        /// Present tense: `read`.
        verb: &'static str,
        /// As the user would write it.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The terminal, or the program that reads from this one.
    #[error("cannot write to standard output: {0}")]
    Output(std::io::Error),
    /// A program that a tool runs.
    #[error("cannot run {program}: {source}")]
    Program {
        /// Its name.
        program: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }

    /// Names the file in an error of the system's, for `map_err`.
    pub(crate) fn file(verb: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { verb, path, source }
    }
}

//! A damaged piece of a folder: its place, and the loss that it means.

use std::fmt;

use crate::{Key, Revision};

/// The use that a damaged value would still have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It is what its key holds now.
    Live,
    /// Reads and watches of a former revision come upon it, until history is compacted past it.
    History,
    /// Nothing refers to it; its space is reclaimed some day.
    Dead,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::History => "history",
            Self::Dead => "dead",
        })
    }
}

/// A damaged value: which one it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedOf {
    /// Its key.
    pub key: Key,
    /// The revision that wrote it.
    pub revision: Revision,
    /// The importance of the value: current, past, or of no further use.
    pub standing: Standing,
}

/// Something damaged in the folder of an [`Embedded`](super::Embedded) store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The name of the file in the folder.
    pub file: String,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The value that is damaged; none if it is something else.
    pub of: Option<DamagedOf>,
    /// The damage, and its consequence.
    pub what: String,
}

impl Finding {
    /// Returns true if data is lost: the damaged value is live, or it is unknown which value it was.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        self.of.as_ref().is_none_or(|of| of.standing == Standing::Live)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, of, what } = self;
        write!(f, "{file} at offset {offset}: ")?;
        match of {
            Some(DamagedOf { key, revision, standing }) => {
                write!(f, "the value of {key}, revision {revision} ({standing}): {what}")
            }
            None => f.write_str(what),
        }
    }
}

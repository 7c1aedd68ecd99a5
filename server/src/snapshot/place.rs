//! Stores that are worked on without a server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindom_storage::snapshot::Content;
use kindom_storage::{Embedded, EmbeddedOptions, EmbeddedRestore, KeyValue, Revision, Storage};

use super::content_of;
use crate::BoxError;

/// So many keys are handed to a target at once.
pub(super) const PAGE: usize = 64;

/// Where a store is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    /// A folder as `serve --data-dir` has it.
    Folder(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
        }
    }
}

/// Where the store is in a `--data-dir`.
pub(crate) fn store_of(data_dir: &Path) -> PathBuf {
    data_dir.join("store")
}

impl Place {
    /// Opens the store that is there.
    ///
    /// # Errors
    /// There is none, or a server has it open.
    pub(super) async fn open(&self) -> Result<Arc<dyn Storage>, BoxError> {
        match self {
            Self::Folder(folder) => {
                let store = store_of(folder);
                if !store.join("mark").exists() {
                    return Err(format!("{} holds no store", folder.display()).into());
                }
                Ok(Arc::new(Embedded::open(store, EmbeddedOptions::default())?))
            }
        }
    }
}

/// A store in the making.
pub(super) enum Target {
    Folder(Box<EmbeddedRestore>, Place),
}

impl Target {
    /// # Errors
    /// There is something already.
    pub(super) async fn begin(place: &Place) -> Result<Self, BoxError> {
        match place {
            Place::Folder(folder) => {
                let restore = EmbeddedRestore::begin(store_of(folder), &EmbeddedOptions::default())?;
                Ok(Self::Folder(Box::new(restore), place.clone()))
            }
        }
    }

    pub(super) async fn add(&mut self, page: Vec<KeyValue>) -> Result<(), BoxError> {
        match self {
            Self::Folder(restore, _) => page.iter().try_for_each(|kv| restore.add(kv))?,
        }
        Ok(())
    }

    /// Ends it, reads all of it, and compares it with what it should be. Gives back its revision.
    ///
    /// # Errors
    /// What was written is not what is read.
    pub(super) async fn finish(self, revision: Revision, content: &Content) -> Result<Revision, BoxError> {
        match self {
            Self::Folder(restore, place) => {
                restore.finish(revision)?;
                let store = place.open().await?;
                let (reached, found) = content_of(&store).await?;
                store.close().await?;
                same(&place, content, &found)?;
                Ok(reached)
            }
        }
    }
}

fn same(place: &Place, wanted: &Content, found: &Content) -> Result<(), BoxError> {
    if wanted == found {
        return Ok(());
    }
    Err(format!(
        "{place} does not hold what was written: {wanted:?} was, {found:?} is there; do not serve it"
    )
    .into())
}

//! Stores that are worked on without a server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kindom_storage::snapshot::Content;
use kindom_storage::{Embedded, EmbeddedOptions, EmbeddedRestore, Etcd, KeyValue, Limits, Revision, Storage};
use tokio::time::timeout;

use super::content_of;
use super::fill::{Filling, is_unfinished};
use crate::flags::EtcdAccess;
use crate::{BoxError, etcd};

/// So many keys are handed to a target at once.
pub(super) const PAGE: usize = 64;
/// Or keys and values of about so many bytes.
pub(super) const PAGE_BYTES: u64 = 1 << 20;

/// The longest that a cluster may take to answer for the first time.
const CONNECT: Duration = Duration::from_secs(30);

/// The place of a store.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    /// A folder as `serve --data-dir` has it.
    Folder(PathBuf),
    /// The URLs of a cluster, and how to reach it.
    Etcd(Vec<String>, EtcdAccess),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Etcd(servers, access) => write!(f, "{} under {}", servers.join(","), access.etcd_prefix),
        }
    }
}

/// The store's folder in a `--data-dir`.
pub(crate) fn store_of(data_dir: &Path) -> PathBuf {
    data_dir.join("store")
}

impl Place {
    /// Opens an existing store for reading.
    ///
    /// # Errors
    /// There is none, a server has it open, or it was not finished.
    pub(super) async fn open_whole(&self) -> Result<Arc<dyn Storage>, BoxError> {
        let store = self.open().await?;
        if is_unfinished(&*store).await? {
            return Err(format!("a restore of {self} was begun and not finished: it is not whole").into());
        }
        Ok(store)
    }

    /// Opens an existing store.
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
            Self::Etcd(servers, access) => {
                // A stored value may be stored again, however large.
                let limits =
                    Limits { value_bytes_max: usize::MAX, txn_bytes_max: usize::MAX, ..Limits::default() };
                let options = etcd::options(servers, access, limits)?;
                let mut why = String::from("no answer");
                let opened = timeout(CONNECT, Etcd::open(options, |error| why = error.to_string())).await;
                let opened = opened.map_err(|_| format!("{self}: {why}"))?;
                Ok(Arc::new(opened.map_err(|error| format!("{self}: {error}"))?))
            }
        }
    }
}

/// A store in the making.
pub(super) enum Target {
    Folder(Box<EmbeddedRestore>, Place),
    Store(Filling),
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
            Place::Etcd(..) => Ok(Self::Store(Filling::begin(place.open().await?, place.to_string()).await?)),
        }
    }

    pub(super) async fn add(&mut self, page: Vec<KeyValue>) -> Result<(), BoxError> {
        match self {
            Self::Folder(restore, _) => Ok(page.iter().try_for_each(|kv| restore.add(kv))?),
            Self::Store(filling) => filling.add(page).await,
        }
    }

    /// Finishes the store, reads all of it, and compares it with `content`. Returns its revision.
    ///
    /// # Errors
    /// The content differs from the written one.
    pub(super) async fn finish(self, revision: Revision, content: &Content) -> Result<Revision, BoxError> {
        match self {
            Self::Folder(restore, place) => {
                restore.finish(revision)?;
                let store = place.open().await?;
                let (reached, found) = content_of(&store).await?;
                store.close().await?;
                same(&place.to_string(), content, &found)?;
                Ok(reached)
            }
            Self::Store(filling) => filling.finish(content).await,
        }
    }
}

pub(super) fn same(place: &str, wanted: &Content, found: &Content) -> Result<(), BoxError> {
    if wanted == found {
        return Ok(());
    }
    Err(format!(
        "{place} does not hold what was written: {wanted:?} was, {found:?} is there; do not serve it"
    )
    .into())
}

//! The failures of this crate's loops.

use kindom_actor_kit::AskError;
use kindom_resource_actor::{ReadError, WatchError, WriteError};
use kindom_storage::StorageError;

/// The reason why a drain stopped; with upstream's texts (`crd_finalizer.go`, 1.37).
#[derive(Debug, thiserror::Error)]
pub(crate) enum DrainError {
    #[error("could not list instances: {0}")]
    List(StorageError),
    #[error("could not issue all deletes: {0}")]
    Delete(WriteError),
    #[error("could not confirm zero CustomResources remaining: {0}")]
    Check(StorageError),
}

/// The reason why a step failed. In any case the next one reads the world again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    #[error("the registry: {0}")]
    Ask(#[from] AskError),
    #[error("reading: {0}")]
    Read(#[from] ReadError),
    #[error("writing: {0}")]
    Write(#[from] WriteError),
    #[error("watching: {0}")]
    Watch(#[from] WatchError),
    #[error("{0} changes too often")]
    Restless(String),
    #[error(transparent)]
    Drain(#[from] DrainError),
    #[error("checking types: {0}")]
    TypeCheck(String),
    #[error("the registration can't be read, so its objects can't be deleted")]
    Unreadable,
}

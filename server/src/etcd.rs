//! The store in an etcd cluster, as the command line names it.

use std::path::Path;
use std::time::Duration;

use kindom_storage::{Area, Etcd, EtcdOptions, EtcdTls, Limits, StorageError};
use tokio::time::Instant;

use crate::BoxError;
use crate::flags::EtcdAccess;

/// The prefix of all objects that clients see, by the types' specs; in etcd `--etcd-prefix` stands in its place.
const OBJECTS: &str = "/registry";
/// The prefix of keys that only kindom uses. They are beside the objects, not under their prefix.
const OURS: &str = "/kindom";
/// The time between two messages that the cluster does not answer.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// # Errors
/// If a file cannot be read.
pub(crate) fn options(
    servers: &[String],
    flags: &EtcdAccess,
    limits: Limits,
) -> Result<EtcdOptions, BoxError> {
    let prefix = &flags.etcd_prefix;
    let areas = vec![
        Area { name: format!("{OBJECTS}/").into(), stored: format!("{prefix}/").into() },
        Area { name: format!("{OURS}{OBJECTS}/").into(), stored: format!("{OURS}{prefix}/").into() },
    ];
    let marker = format!("{OURS}{prefix}/freshness");
    let read = |flag: &str, file: &Path| {
        std::fs::read(file).map_err(|e| BoxError::from(format!("--{flag} {}: {e}", file.display())))
    };
    let authorities = flags.etcd_cafile.as_deref().map(|file| read("etcd-cafile", file)).transpose()?;
    let identity = match (&flags.etcd_certfile, &flags.etcd_keyfile) {
        (Some(chain), Some(key)) => Some((read("etcd-certfile", chain)?, read("etcd-keyfile", key)?)),
        _ => None,
    };
    Ok(EtcdOptions {
        tls: Some(EtcdTls { authorities, identity }),
        limits,
        ..EtcdOptions::new(servers.to_vec(), areas, marker)
    })
}

/// Waits for the cluster, and logs that it waits.
///
/// # Errors
/// If waiting is useless: a wrong URL or certificate, say.
pub(crate) async fn open(options: EtcdOptions) -> Result<Etcd, StorageError> {
    let mut logged_at: Option<Instant> = None;
    let waiting = |error: &StorageError| {
        if logged_at.is_none_or(|logged_at| logged_at.elapsed() >= SAY_EVERY) {
            logged_at = Some(Instant::now());
            tracing::warn!("waiting for etcd: {error}");
        }
    };
    Etcd::open(options, waiting).await
}

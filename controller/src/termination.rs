//! The end of a process, for its manager.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

use crate::Error;

/// Listens for SIGTERM and SIGINT from now on, in the place of the system's default; the result ends with the first of them.
///
/// # Errors
/// The system's.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn termination() -> Result<impl Future<Output = ()> + Send, Error> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

//! The end of a process, for its manager.

use std::future::{Future, pending};
use std::io::Read as _;
use std::thread;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::Error;

/// Set by a process that starts a manager and holds the other end of its standard input.
const END_WITH_STDIN: &str = "KINDOM_END_WITH_STDIN";

/// Listens for SIGTERM and SIGINT from now on, in the place of the system's default; the result ends with the first of them. With the
/// environment variable `KINDOM_END_WITH_STDIN`, it also ends with standard input, and so with the process that writes there.
///
/// # Errors
/// The system's.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn termination() -> Result<impl Future<Output = ()> + Send, Error> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let input = std::env::var_os(END_WITH_STDIN).map(|_| end_of_input()).transpose()?;
    let ended = async move {
        match input {
            Some(ended) => drop(ended.await),
            None => pending().await,
        }
    };
    Ok(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = ended => {}
        }
    })
}

/// Receives once standard input has ended. A thread reads it: a runtime waits at its end for reads of its own.
fn end_of_input() -> std::io::Result<oneshot::Receiver<()>> {
    let (end, ended) = oneshot::channel();
    thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut ignored = [0; 512];
        while matches!(std::io::stdin().read(&mut ignored), Ok(read) if read > 0) {}
        // Nobody waits any more if this fails.
        let _ = end.send(());
    })?;
    Ok(ended)
}

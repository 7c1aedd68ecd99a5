//! A whole system on one thread in virtual time.

use std::{future::Future, io};

use actix::System;

/// Runs `future` in an actix system whose clock is paused: when everything waits, time jumps to the
/// next timer. With seeded randomness and without other threads, a run repeats exactly.
///
/// # Errors
/// The operating system refused an event loop.
pub fn run<F: Future>(future: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    Ok(System::with_tokio_rt(move || runtime).block_on(future))
}

//! The threads that actors live on.

use std::{future::Future, io, sync::Arc};

use actix::{Arbiter, System};
use parking_lot::Mutex;

/// A set of arbiters, each one thread with its own event loop; nothing moves between them. Clones are the same threads.
#[derive(Clone, Debug)]
pub struct Arbiters {
    handles: Vec<ArbiterHandle>,
    owned: Arc<Mutex<Vec<Arbiter>>>,
}

/// One arbiter. Cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct ArbiterHandle(actix::ArbiterHandle);

/// The reason why there is no arbiter.
#[derive(Debug, thiserror::Error)]
pub enum ArbiterError {
    /// Arbiters belong to a running system; see [`run_system`].
    #[error("no actix system runs on this thread")]
    NoSystem,
    /// The operating system refused a thread or an event loop.
    #[error("could not start an arbiter: {0}")]
    Start(#[from] io::Error),
}

impl Arbiters {
    /// `count` threads of their own (at least one).
    ///
    /// # Errors
    /// See [`ArbiterError`].
    pub fn new(count: usize) -> Result<Self, ArbiterError> {
        if !System::is_registered() {
            return Err(ArbiterError::NoSystem);
        }
        let owned = (0..count.max(1)).map(|_| Arbiter::try_new()).collect::<io::Result<Vec<_>>>()?;
        let handles = owned.iter().map(|arbiter| ArbiterHandle(arbiter.handle())).collect();
        Ok(Self { handles, owned: Arc::new(Mutex::new(owned)) })
    }

    /// The thread that calls this, and no other: for simulations and tests.
    ///
    /// # Errors
    /// [`ArbiterError::NoSystem`].
    pub fn current() -> Result<Self, ArbiterError> {
        let current = Arbiter::try_current().ok_or(ArbiterError::NoSystem)?;
        Ok(Self { handles: vec![ArbiterHandle(current)], owned: Arc::default() })
    }

    /// The arbiter for this name: always the same one, in every process with as many arbiters.
    #[must_use]
    pub fn place(&self, name: &str) -> ArbiterHandle {
        // FNV-1a: the standard hasher promises no stability between releases.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let count = u64::try_from(self.handles.len()).unwrap_or(1).max(1);
        let at = usize::try_from(hash % count).unwrap_or(0);
        match self.handles.get(at) {
            Some(handle) => handle.clone(),
            None => unreachable!("invariant: there is at least one arbiter"),
        }
    }

    /// Ends the threads and waits for them; what still runs on them is dropped. Blocks, so it comes
    /// last, after [`Supervisor::stop_all`](crate::Supervisor::stop_all).
    pub fn shutdown(self) {
        let owned = std::mem::take(&mut *self.owned.lock());
        for arbiter in &owned {
            arbiter.stop();
        }
        for arbiter in owned {
            if arbiter.join().is_err() {
                tracing::error!("an arbiter's thread ended with a panic");
            }
        }
    }
}

impl ArbiterHandle {
    /// Runs `future` on the arbiter. Returns whether the arbiter still takes work; even then the
    /// future may be dropped unfinished when the arbiter ends.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> bool {
        self.0.spawn(future)
    }
}

/// Runs `future` in an actix system on this thread, until it is done; tasks that it spawned and that still run are dropped.
///
/// # Errors
/// The operating system refused an event loop.
pub fn run_system<F: Future>(future: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(System::with_tokio_rt(move || runtime).block_on(future))
}

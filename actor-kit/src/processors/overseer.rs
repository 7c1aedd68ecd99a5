//! The thread that looks for foreign steps that do not end. It is there once there was such a step, and sleeps while there is none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};

use parking_lot::{Condvar, Mutex};

use super::pool::ProcessorPool;
use super::worker::FOREIGN_MAX;

/// The overseer of a pool.
#[derive(Default)]
pub(super) struct Overseer {
    /// It looks around, or is about to.
    awake: AtomicBool,
    state: Mutex<OverseerState>,
    /// It is wanted.
    wanted: Condvar,
}

#[derive(Default)]
struct OverseerState {
    thread: Option<JoinHandle<()>>,
    ended: bool,
}

impl Overseer {
    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.wanted.notify_all();
    }

    /// Waits until it has ended.
    pub(super) fn join(&self) {
        let thread = self.state.lock().thread.take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the overseer of the processors ended with a panic");
        }
    }
}

impl ProcessorPool {
    /// A foreign step has begun.
    pub(super) fn oversee(self: &Arc<Self>) {
        if self.overseer.awake.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut state = self.overseer.state.lock();
        if state.thread.is_none() && !state.ended {
            let pool = Arc::downgrade(self);
            let started = Builder::new().name("overseer".to_owned()).spawn(move || look_around(&pool));
            match started {
                Ok(thread) => state.thread = Some(thread),
                Err(error) => {
                    tracing::error!(%error, "no thread looks for rules that do not end");
                    // The next step tries again.
                    self.overseer.awake.store(false, Ordering::SeqCst);
                }
            }
        }
        drop(state);
        self.overseer.wanted.notify_all();
    }

    /// Waits until it is time to look, and looks; returns false once the pool ends.
    fn look(self: &Arc<Self>) -> bool {
        let overseer = &self.overseer;
        let mut state = overseer.state.lock();
        if !overseer.awake.load(Ordering::SeqCst) && !state.ended {
            overseer.wanted.wait(&mut state);
        } else if !state.ended {
            overseer.wanted.wait_for(&mut state, FOREIGN_MAX / 2);
        }
        if state.ended {
            return false;
        }
        drop(state);
        self.replace_stuck();
        let is_any = || self.workers.lock().iter().any(|worker| worker.is_watched());
        if !is_any() {
            overseer.awake.store(false, Ordering::SeqCst);
            // One that began meanwhile took the overseer to be awake.
            if is_any() {
                overseer.awake.store(true, Ordering::SeqCst);
            }
        }
        true
    }
}

fn look_around(pool: &Weak<ProcessorPool>) {
    while pool.upgrade().is_some_and(|pool| pool.look()) {}
}

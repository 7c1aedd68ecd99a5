//! Signals, heard on a thread of their own, so that they are heard whatever the others do.
//!
//! - SIGTERM and SIGINT end the server in order, and a second one ends it at once (apiserver `pkg/server/signal.go`). One
//!   that comes while the server still starts ends it at once too: nothing is under way.
//! - SIGHUP asks for the credentials to be read again; several that come meanwhile are one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The exit code of a server that a second signal ends (as upstream).
const ENDED_AT_ONCE: i32 = 1;

/// The signals of this process, from its construction on.
pub(crate) struct Signals {
    serving: Arc<AtomicBool>,
    ends: watch::Receiver<bool>,
    hangups: watch::Receiver<()>,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// The thread or the handlers cannot be made.
    pub(crate) fn listen() -> io::Result<Self> {
        let serving = Arc::new(AtomicBool::new(false));
        let (end, ends) = watch::channel(false);
        let (hangup, hangups) = watch::channel(());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let heard = Heard {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        };
        drop(entered);
        let listeners = Listeners { serving: Arc::clone(&serving), end, hangup };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(listeners.by(heard)))?;
        Ok(Self { serving, ends, hangups })
    }

    /// From now on, the first signal to end is the server's to obey.
    pub(crate) fn serving(&self) {
        self.serving.store(true, Ordering::Release);
    }

    /// Waits for the first signal to end. Cancel-safe.
    pub(crate) async fn end(&mut self) {
        // The thread lives as long as the process.
        let _ = self.ends.wait_for(|ends| *ends).await;
    }

    /// Hears of every SIGHUP, also of one that came while the server started: the credentials may have been read before.
    pub(crate) fn hangups(&self) -> watch::Receiver<()> {
        self.hangups.clone()
    }
}

struct Heard {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

struct Listeners {
    serving: Arc<AtomicBool>,
    end: watch::Sender<bool>,
    hangup: watch::Sender<()>,
}

impl Listeners {
    async fn by(self, mut heard: Heard) {
        loop {
            tokio::select! {
                _ = heard.terminate.recv() => self.end("SIGTERM"),
                _ = heard.interrupt.recv() => self.end("SIGINT"),
                _ = heard.hangup.recv() => {
                    self.hangup.send_replace(());
                }
            }
        }
    }

    fn end(&self, signal: &str) {
        if !self.serving.load(Ordering::Acquire) {
            tracing::info!("{signal} before it served: ended");
            std::process::exit(0);
        }
        if self.end.send_replace(true) {
            tracing::warn!("a second signal, {signal}: ended at once");
            std::process::exit(ENDED_AT_ONCE);
        }
        tracing::info!("{signal}: ending");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hangup_before_anybody_listens_is_heard() {
        let (_end, ends) = watch::channel(false);
        let (hangup, hangups) = watch::channel(());
        let signals = Signals { serving: Arc::default(), ends, hangups };
        assert!(!signals.hangups().has_changed().unwrap());
        hangup.send_replace(());
        assert!(signals.hangups().has_changed().unwrap());
    }
}

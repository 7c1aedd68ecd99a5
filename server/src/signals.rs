//! Signals, heard on a thread of their own, so that they are heard whatever the others do.
//!
//! - SIGTERM and SIGINT end the server in order, and a second one ends it at once (apiserver `pkg/server/signal.go`). One
//!   that comes while the server still starts ends it at once too: nothing is under way.
//! - SIGHUP asks for the credentials to be read again; several that come meanwhile are one.
//! - With `--end-with-stdin` the end of standard input is as good as the first signal to end.

use std::io::{self, Read as _};
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
    /// Begins to listen: to signals, and if `to_stdin` to the end of standard input.
    ///
    /// # Errors
    /// The threads or the handlers cannot be made.
    pub(crate) fn listen(to_stdin: bool) -> io::Result<Self> {
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
        if to_stdin {
            let listeners = listeners.clone();
            std::thread::Builder::new().name("stdin".to_owned()).spawn(move || listeners.by_stdin())?;
        }
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(listeners.by(heard)))?;
        Ok(Self { serving, ends, hangups })
    }

    /// Those of a server without a process of its own: the program that it is a part of ends it.
    pub(crate) fn of_program() -> (Self, Program) {
        let (end, ends) = watch::channel(false);
        let (hangup, hangups) = watch::channel(());
        (Self { serving: Arc::default(), ends, hangups }, Program { end, _hangup: hangup })
    }

    /// From now on, the first signal to end is the server's to obey.
    pub(crate) fn serving(&self) {
        self.serving.store(true, Ordering::Release);
    }

    /// Waits for the first signal to end. Cancel-safe.
    pub(crate) async fn end(&mut self) {
        // The thread lives as long as the process; a program that drops its end has no use for the server any more.
        let _ = self.ends.wait_for(|ends| *ends).await;
    }

    /// Hears of every SIGHUP, also of one that came while the server started: the credentials may have been read before.
    pub(crate) fn hangups(&self) -> watch::Receiver<()> {
        self.hangups.clone()
    }
}

/// The program that ends the server.
pub(crate) struct Program {
    end: watch::Sender<bool>,
    _hangup: watch::Sender<()>,
}

impl Program {
    /// Tells the server to end; also if it still starts.
    pub(crate) fn end(&self) {
        self.end.send_replace(true);
    }
}

struct Heard {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

#[derive(Clone)]
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

    /// Reads what nobody needs until there is no more of it.
    fn by_stdin(self) {
        let (mut stdin, mut buffer) = (io::stdin().lock(), [0; 256]);
        loop {
            match stdin.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.first("the end of standard input");
    }

    fn end(&self, signal: &str) {
        if !self.first(signal) {
            tracing::warn!("a second signal, {signal}: ended at once");
            std::process::exit(ENDED_AT_ONCE);
        }
    }

    /// Ends the server in order; `false` if it is ending already.
    fn first(&self, why: &str) -> bool {
        if !self.serving.load(Ordering::Acquire) {
            tracing::info!("{why} before it served: ended");
            std::process::exit(0);
        }
        let first = self.end.send_if_modified(|ends| !std::mem::replace(ends, true));
        if first {
            tracing::info!("{why}: ending");
        }
        first
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

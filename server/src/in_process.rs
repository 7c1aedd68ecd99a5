//! A server without a process of its own: on a few threads of another program, in memory, at a free port of 127.0.0.1.
//!
//! `kindom-testing` is what programs use; it adds a client.
//!
//! # Guarantees
//! - Servers share nothing but the process: each has a store, an authority and threads of its own.
//! - Nothing of the process is changed: no subscriber of the log, no panic hook, no signal handler, no default of rustls, no
//!   limit. Nothing is written to a disk, unless a flag names a file.
//! - After [`InProcess::stop`], and after a drop, the server's threads have ended and its sockets are closed; but for the thread of
//!   controllers that do not end when they are told to.

use std::thread::{Builder, JoinHandle};

use clap::Parser as _;
use tokio::sync::oneshot;

use crate::BoxError;
use crate::controllers::Controllers;
use crate::flags::{Command, Flags, Serve};
use crate::serve::{Ready, Within, run_within};
use crate::signals::{Program, Signals};
use crate::typed::{Group, Kinds};

/// The reason why there is no server, or why it ended.
#[derive(Debug, thiserror::Error)]
#[error("kindom: {0}")]
pub struct Error(String);

impl From<BoxError> for Error {
    fn from(error: BoxError) -> Self {
        Self(error.to_string())
    }
}

/// A running server. Dropping it cuts its connections off, ends it, and waits until it has ended: some milliseconds, and with
/// controllers up to ten seconds more.
pub struct InProcess {
    ready: Ready,
    life: Life,
}

impl InProcess {
    /// Starts one, with these flags of `kindom serve` beside those that put it into memory and at a free port. Returns when it
    /// serves. Needs no runtime of a certain kind; a call that is dropped leaves no server behind.
    ///
    /// # Errors
    /// A flag that does not parse, or that a server without a process and a folder cannot obey; no thread, no free port.
    pub async fn start(flags: impl IntoIterator<Item = String>) -> Result<Self, Error> {
        Self::start_with([], Controllers::new(), flags).await
    }

    /// As [`InProcess::start`]; serves these kinds, too, and runs these controllers.
    ///
    /// # Errors
    /// As there; a kind that cannot be served.
    pub async fn start_with(
        groups: impl IntoIterator<Item = Group>,
        controllers: Controllers,
        flags: impl IntoIterator<Item = String>,
    ) -> Result<Self, Error> {
        let options = parse(flags)?;
        let kinds = Kinds::of(groups)?;
        let (signals, program) = Signals::of_program();
        let (tell, told) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let serving = move || {
            let served = run_within(Within::Program(tell), &options, (&kinds, &controllers), signals);
            // Nobody waits if the server is being dropped.
            let _ = end.send(served.map_err(Error::from));
        };
        let thread = Builder::new().name("kindom".to_owned()).spawn(serving);
        let thread = thread.map_err(|error| Error(format!("no thread for the server: {error}")))?;
        let mut life = Life { program, ended, thread: Some(thread) };
        match told.await {
            Ok(ready) => Ok(Self { ready, life }),
            Err(_) => match life.end().await {
                Ok(()) => Err(Error("it ended before it served".to_owned())),
                Err(error) => Err(error),
            },
        }
    }

    /// Its address, `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.ready.url
    }

    /// The text of a kubeconfig of its administrator, who may do everything.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        &self.ready.kubeconfig
    }

    /// The authority that vouches for its certificate, PEM.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        self.ready.authorities_pem.as_deref().unwrap_or_default()
    }

    /// The certificate and the key of its administrator, PEM.
    #[must_use]
    pub fn admin_pem(&self) -> (&str, &str) {
        let (certificate, key) = &self.ready.admin_pem;
        (certificate, key)
    }

    /// Cuts its connections off, ends it, and returns when nothing of it is left.
    ///
    /// # Errors
    /// The server failed earlier, by a panic for instance.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.life.end().await
    }
}

/// The thread of a server.
struct Life {
    program: Program,
    ended: oneshot::Receiver<Result<(), Error>>,
    thread: Option<JoinHandle<()>>,
}

impl Life {
    async fn end(&mut self) -> Result<(), Error> {
        self.program.end();
        let ended = (&mut self.ended).await;
        self.join();
        ended.unwrap_or_else(|_| Err(Error("a panic ended it".to_owned())))
    }

    /// Waits for the thread.
    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // The hook has reported a panic, and `end` returns it.
            let _ = thread.join();
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.program.end();
        self.join();
    }
}

/// # Errors
/// Names the flag.
fn parse(flags: impl IntoIterator<Item = String>) -> Result<Box<Serve>, Error> {
    let own = ["kindom", "serve", "--in-memory", "--secure-port=0", "--print-ready=json"];
    let all = own.into_iter().map(str::to_owned).chain(flags);
    let Command::Serve(options) =
        Flags::try_parse_from(all).map_err(|error| Error(error.to_string()))?.command
    else {
        return Err(Error("these are no flags of `kindom serve`".to_owned()));
    };
    let of_no_use = [
        ("--data-dir", options.data_dir.is_some()),
        ("--cert-dir", options.cert_dir.is_some()),
        ("--tls-cert-file", options.tls_cert_file.is_some()),
        ("--end-with-stdin", options.end_with_stdin),
    ];
    match of_no_use.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Error(format!(
            "{flag}: a server in this process has no folder, a certificate of its own, and no standard input"
        ))),
        None => Ok(options),
    }
}

//! The binary `kindom`: flags, threads, wiring, and an end in order; and the commands that help to move to it and to keep
//! its data.
//!
//! [`Server::run`] is the process: the log, the panic hook, signals and limits are set up there and nowhere below. [`in_process`] runs
//! the same server in a process of somebody else's, whose such things are not touched. [`Server`] is a program with kinds of its
//! own, which this one has none of ([`typed`]).

mod accounts;
mod admission_file;
mod advertised;
mod aggregation;
mod aggregator;
mod audit;
mod client;
mod controllers;
mod convert;
mod credentials;
mod etcd;
mod explain;
mod extra_key;
mod flags;
#[cfg(test)]
mod fuzz;
mod history;
mod host;
mod import;
pub mod in_process;
mod kubeconfig;
mod logging;
mod manifests;
mod memory;
mod outgoing;
mod pki;
mod plugins;
mod repair;
mod roles;
mod scrub;
mod serve;
mod served_types;
mod signals;
mod snapshot;
mod stand_in;
pub mod typed;
mod webhook_users;
mod webhooks;

pub use controllers::{Controllers, End};
pub use kindom_derive::Resource;
pub use typed::{
    Column, Context, Definition, Errors, Group, Loss, Resource, Scale, Strategy, SubresourceAnswer,
    SubresourceError, SubresourceRequest, Version, Versions,
};
#[doc(hidden)]
pub use {k8s_openapi, kube};

use std::future::Future;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use flags::{Aggregation, Command, Explain, Flags};
use stand_in::Role;
use typed::Kinds;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A program that serves kinds of its own beside those that are built in and those that are registered at run time. It has the
/// command line of `kindom`.
#[must_use]
pub struct Server {
    groups: Vec<Group>,
    controllers: Controllers,
}

impl Server {
    /// A program that does what the arguments of this process say.
    pub fn from_args() -> Self {
        Self { groups: Vec::new(), controllers: Controllers::new() }
    }

    /// Serves these kinds, too.
    pub fn group(mut self, group: Group) -> Self {
        self.groups.push(group);
        self
    }

    /// Runs controllers in the server's process, too; see [`Controllers::with`].
    ///
    /// ```no_run
    /// # use std::process::ExitCode;
    /// # use kindom_server::{End, Server, kube::Client};
    /// # struct Manager;
    /// # impl Manager {
    /// #     fn new(_: &str, _: Client) -> Self { Self }
    /// #     async fn run(self, end: End) -> Result<(), Box<dyn std::error::Error + Send + Sync>> { Ok(end.await) }
    /// # }
    /// fn main() -> ExitCode {
    ///     Server::from_args().controllers(|client, end| Manager::new("apiserver", client).run(end)).run()
    /// }
    /// ```
    pub fn controllers<F, R>(mut self, run: F) -> Self
    where
        F: Fn(kube::Client, End) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), BoxError>> + 'static,
    {
        self.controllers = self.controllers.with(run);
        self
    }

    /// Does it.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let controllers = self.controllers;
        let ended = Kinds::of(self.groups).and_then(|kinds| match Role::of(std::env::args_os()) {
            Role::Own => own(&kinds, &controllers),
            Role::Etcd(args) => stand_in::etcd(&args).map(|()| ExitCode::SUCCESS),
            Role::ApiServer(args) => stand_in_api_server(&args, &kinds),
        });
        ended.unwrap_or_else(|error| {
            // Nobody is left to tell if this fails.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        })
    }
}

/// Serves as envtest's kube-apiserver.
fn stand_in_api_server(args: &[String], kinds: &Kinds) -> Result<ExitCode, BoxError> {
    let Some((flags, ignored)) = stand_in::api_server(args)? else { return Ok(ExitCode::SUCCESS) };
    if !ignored.is_empty() {
        let _ = writeln!(std::io::stderr(), "without effect: --{}", ignored.join(", --"));
    }
    // A test that starts envtest's server brings controllers of its own.
    Ok(serve(&*stand_in::serve_options(flags)?, kinds, &Controllers::new()))
}

fn own(kinds: &Kinds, controllers: &Controllers) -> Result<ExitCode, BoxError> {
    match Flags::parse().command {
        Command::Serve(options) => return Ok(serve(&options, kinds, controllers)),
        Command::Assets(options) => stand_in::assets(&options),
        Command::Convert(options) => convert::run(&options),
        Command::Kinds => kinds.print(&mut std::io::stdout()),
        Command::Import(options) => import::run(&options),
        Command::Explain(Explain::Write(options)) => explain::run(&options),
        Command::Aggregation(Aggregation::Manifests(options)) => aggregation::run(&options),
        Command::Snapshot(command) => snapshot::run(&command),
        Command::Storage(command) => repair::run(&command),
        Command::Project(command) => kindom_project::run(&command).map_err(Into::into),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn serve(options: &flags::Serve, kinds: &Kinds, controllers: &Controllers) -> ExitCode {
    logging::start(options.log_format, options.verbose);
    kindom_actor_kit::install_panic_hook();
    memory::keep_freed();
    match serve::run(options, kinds, controllers) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

//! The binary `kindom`: flags, threads, wiring, and an end in order.

mod flags;
mod history;
mod pki;
mod serve;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;
use flags::{Command, Flags};

fn main() -> ExitCode {
    let Command::Serve(options) = Flags::parse().command;
    let filter = tracing_subscriber::EnvFilter::try_from_env("KINDOM_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,actix_server=warn"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
    kindom_actor_kit::install_panic_hook();
    match serve::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

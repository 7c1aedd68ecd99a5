//! The tools of a project with kinds of its own: `kindom init`, `create`, `run` and `build`, after apiserver-boot's
//! (apiserver-builder; B-03, B-09 to B-15).
//!
//! A project is a cargo workspace with the crates `apis`, `controllers`, `apiserver` and, unless one process has all, `controller-manager`. `kindom.json` in its
//! folder names its kinds, and the root files of the first two crates follow from it; every other file is written once and is the
//! user's from then on ([`plan`]). What is wrong in a name is reported before any file is written.

mod arguments;
mod cargo;
mod config;
mod container;
mod create;
mod docs;
mod error;
mod executables;
mod init;
mod kinds;
mod local;
mod manifest;
mod plan;
mod reference;
mod report;
mod schemas;
mod source;
mod templates;
#[cfg(test)]
mod tests;
mod types;

pub use arguments::Command;
pub use error::Error;

use std::io::Write;
use std::path::Path;

use arguments::{Build, Create, Group, Init, Run, Version};

/// Does what the arguments say, in the current folder, which is the project's.
///
/// # Errors
/// [`Error`]; `init`, `create`, and of `build` all but programs and images, have written nothing then.
pub fn run(command: &Command) -> Result<(), Error> {
    run_in(Path::new("."), command, &mut std::io::stdout())
}

fn run_in(folder: &Path, command: &Command, out: &mut dyn Write) -> Result<(), Error> {
    match command {
        Command::Init(Init::Repo(options)) => init::run(folder, options, out),
        Command::Create(Create::Group(Group::Version(Version::Resource(options)))) => {
            create::resource(folder, options, out)
        }
        Command::Create(Create::Version(options)) => create::version(folder, options, out),
        Command::Create(Create::Subresource(options)) => create::subresource(folder, options, out),
        Command::Create(Create::Types(options)) => types::run(folder, options, out),
        Command::Run(Run::Local(options)) => local::run(folder, options, out),
        Command::Build(Build::Executables(options)) => executables::run(folder, options, out),
        Command::Build(Build::Config(options)) => config::run(folder, options, out),
        Command::Build(Build::Container(options)) => container::run(folder, options, out),
        Command::Build(Build::Schemas(options)) => schemas::run(folder, options, out),
        Command::Build(Build::Docs(options)) => docs::run(folder, options, out),
    }
}

//! Builds of a project, by cargo.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::arguments::Program;
use crate::error::Error;

/// A message of `cargo build --message-format json`; of most only the reason matters.
#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// The arguments that have cargo build programs and name their executables on its standard output. What is wrong in the code
/// comes on standard error, as users know it.
pub(crate) fn arguments(programs: &[Program], more: &[&str]) -> Vec<OsString> {
    let packages = programs.iter().flat_map(|program| ["--package", program.name()]);
    let arguments = ["build", "--message-format", "json-render-diagnostics"];
    arguments.into_iter().chain(packages).chain(more.iter().copied()).map(OsString::from).collect()
}

/// The cargo that runs this program, if one does.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Builds programs with these arguments, too.
///
/// # Errors
/// [`Error`]; cargo has reported the mistakes in the code.
pub(crate) fn build(
    folder: &Path,
    programs: &[Program],
    more: &[&str],
) -> Result<BTreeMap<Program, PathBuf>, Error> {
    let failed = |source| Error::Program { program: "cargo".to_owned(), source };
    let built = Command::new(cargo())
        .args(arguments(programs, more))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(failed)?;
    match built.status.success() {
        true => executables(&built.stdout, programs),
        false => Err(Error::refused(format!("the build failed ({})", built.status))),
    }
}

/// The executables that cargo's standard output names.
///
/// # Errors
/// [`Error::Refused`] if one is not among them.
pub(crate) fn executables(output: &[u8], programs: &[Program]) -> Result<BTreeMap<Program, PathBuf>, Error> {
    let messages =
        output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Message>(line).ok());
    let built: BTreeMap<String, PathBuf> = messages
        .filter(|message| message.reason == "compiler-artifact")
        .filter_map(|message| Some((message.target?.name, message.executable?)))
        .collect();
    let find = |program: &Program| match built.get(program.name()) {
        Some(path) => Ok((*program, path.clone())),
        None => Err(Error::refused(format!("package {:?} has no executable of that name", program.name()))),
    };
    programs.iter().map(find).collect()
}

//! `kindom storage`: lists the damage of a folder, and makes a new folder of the rest.
//!
//! **Guarantees.** Neither changes the folder that it reads, and both refuse one that a server has open. The new folder is
//! made whole or not at all.

use std::io::Write as _;
use std::path::Path;

use kindom_storage::{EmbeddedOptions, EmbeddedRestore, Finding, Salvage};

use crate::BoxError;
use crate::flags::StorageCommand;
use crate::snapshot::store_of;

/// Runs the command, and prints its findings.
///
/// # Errors
/// The damages, a line each; or the reason why nothing was done.
pub(crate) fn run(command: &StorageCommand) -> Result<(), BoxError> {
    let report = match command {
        StorageCommand::Check(options) => check(&options.data_dir)?,
        StorageCommand::Salvage(options) => salvage(&options.data_dir, &options.to)?,
    };
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}

fn check(data_dir: &Path) -> Result<String, BoxError> {
    let found = Salvage::read(store_of(data_dir))?;
    let read = format!("revision {}, {} keys, {} values", found.revision(), found.keys(), found.values());
    let name = data_dir.display();
    if found.findings().is_empty() {
        return Ok(format!("{name} is whole: {read}"));
    }
    Err(format!("{name} is damaged: {read}{}", lines(found.findings())).into())
}

fn salvage(data_dir: &Path, to: &Path) -> Result<String, BoxError> {
    let found = Salvage::read(store_of(data_dir))?;
    let keys = found.restore(EmbeddedRestore::begin(store_of(to), &EmbeddedOptions::default())?)?;
    let lost: Vec<_> = found.findings().iter().filter(|finding| finding.is_loss()).cloned().collect();
    let summary =
        format!("salvaged {keys} of {} keys of {} to {}", found.keys(), data_dir.display(), to.display());
    let revision = found.revision();
    Ok(match lost.is_empty() {
        true => format!("{summary}, as of revision {revision}: nothing is lost but history"),
        false => format!("{summary}, as of revision {revision}; lost is:{}", lines(&lost)),
    })
}

fn lines(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("\n  {finding}")).collect()
}

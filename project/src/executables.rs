//! `kindom build executables`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::arguments::{BuildExecutables, Program};
use crate::cargo;
use crate::error::Error;
use crate::manifest::Manifest;
use crate::report::report;

/// Builds both programs, and copies them to a folder.
pub(crate) fn run(folder: &Path, options: &BuildExecutables, out: &mut dyn Write) -> Result<(), Error> {
    Manifest::need(folder)?;
    let mut more = vec!["--release"];
    if let Some(target) = &options.target {
        more.extend(["--target", target]);
    }
    let failed = |source| Error::Program { program: "cargo".to_owned(), source };
    let built = Command::new(cargo::cargo())
        .args(cargo::arguments(&Program::ALL, &more))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(failed)?;
    if !built.status.success() {
        return Err(Error::refused(format!("the build failed ({})", built.status)));
    }
    let executables = cargo::executables(&built.stdout, &Program::ALL)?;
    let output = folder.join(&options.output);
    std::fs::create_dir_all(&output).map_err(Error::file("make", &options.output))?;
    for path in executables.values() {
        let name = path.file_name().unwrap_or_default();
        // A program that runs cannot be written to, but another file can take its name.
        let new = output.join(format!(".{}.new", name.to_string_lossy()));
        std::fs::copy(path, &new).map_err(Error::file("write", &new))?;
        let place = output.join(name);
        std::fs::rename(&new, &place).map_err(Error::file("write", &place))?;
        report(out, &options.output.join(name).display().to_string())?;
    }
    Ok(())
}

//! `kindom build executables`.

use std::io::Write;
use std::path::Path;

use crate::arguments::BuildExecutables;
use crate::cargo;
use crate::error::Error;
use crate::manifest::Manifest;
use crate::report::report;

/// Builds the programs, and copies them to a folder.
pub(crate) fn run(folder: &Path, options: &BuildExecutables, out: &mut dyn Write) -> Result<(), Error> {
    let manifest = Manifest::need(folder)?;
    let mut more = vec!["--release"];
    if let Some(target) = &options.target {
        more.extend(["--target", target]);
    }
    let executables = cargo::build(folder, manifest.programs(), &more)?;
    let output = folder.join(&options.output);
    std::fs::create_dir_all(&output).map_err(Error::file("make", &options.output))?;
    for path in executables.values() {
        let name = path.file_name().unwrap_or_default();
        // A program that runs cannot be written to, but another file can take its name.
        let (new, place) = (output.join(format!(".{}.new", name.to_string_lossy())), output.join(name));
        let copied = std::fs::copy(path, &new).and_then(|_| std::fs::rename(&new, &place));
        copied.map_err(|error| {
            // The error that led here is the one to report.
            let _ = std::fs::remove_file(&new);
            Error::file("write", &place)(error)
        })?;
        report(out, &options.output.join(name).display().to_string())?;
    }
    Ok(())
}

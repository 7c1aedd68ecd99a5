//! `kindom init repo`.

use std::io::Write;
use std::path::Path;

use crate::arguments::InitRepo;
use crate::error::Error;
use crate::manifest::{FILE, Manifest};
use crate::plan::Plan;
use crate::report::report;
use crate::source::Source;
use crate::templates::Templates;

/// Begins a project (B-03).
pub(crate) fn run(folder: &Path, options: &InitRepo, out: &mut dyn Write) -> Result<(), Error> {
    let manifest = Manifest::new(&options.domain, options.one_process)?;
    if let Some(known) = Manifest::read(folder)? {
        if known.domain != manifest.domain {
            return Err(Error::refused(format!(
                "--domain {:?}: this folder is a project of {:?} already ({FILE})",
                manifest.domain, known.domain
            )));
        }
        if manifest.one_process && !known.one_process {
            return Err(Error::refused(format!(
                "--one-process: this folder is a project with a controller manager already ({FILE})"
            )));
        }
        return report(out, &format!("this folder is a project of {} already", known.domain));
    }
    let source = Source::of(options.kindom.as_deref())?;
    let mut plan = Plan::default();
    Templates::new()?.project(&manifest, &source, &mut plan)?;
    let outcome = plan.write(folder)?;
    outcome.report(out)?;
    report(out, "next: kindom create group version resource --group GROUP --version v1alpha1 --kind KIND")
}

//! The words of a tool to its user.

use std::io::Write;

use crate::error::Error;
use crate::plan::Outcome;

/// Writes a line.
pub(crate) fn report(out: &mut dyn Write, line: &str) -> Result<(), Error> {
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Error::Output)
}

impl Outcome {
    /// Names the files that were written, and shows the text that an edited one would have.
    pub(crate) fn report(&self, out: &mut dyn Write) -> Result<(), Error> {
        for path in &self.written {
            report(out, &path.display().to_string())?;
        }
        for (path, text) in &self.edited {
            report(out, &format!("{} was edited, so it stays as it is; it would be:", path.display()))?;
            report(out, text)?;
        }
        if self.written.is_empty() && self.edited.is_empty() {
            report(out, "everything is there already")?;
        }
        Ok(())
    }
}

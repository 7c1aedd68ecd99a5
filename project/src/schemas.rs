//! `kindom build schemas`: a JSON Schema of each kind, for editors.

use std::io::Write;
use std::path::Path;

use kindom_schema::openapi::json_schema_of;

use crate::arguments::BuildSchemas;
use crate::error::Error;
use crate::kinds::kinds;
use crate::plan::{Part, Plan};

/// Writes a file for each version of each kind.
pub(crate) fn run(folder: &Path, options: &BuildSchemas, out: &mut dyn Write) -> Result<(), Error> {
    let mut plan = Plan::default();
    for kind in kinds(folder, &options.kinds.filename)? {
        for version in kind.versions() {
            let schema = json_schema_of(&kind.tree, &version.name);
            let text =
                serde_json::to_string_pretty(&schema).map_err(|error| Error::refused(error.to_string()))?;
            let path = options.output.join(format!("{}.json", kind.path(&version.name)));
            plan.add(path, format!("{text}\n"), Part::Generated);
        }
    }
    plan.write(folder)?.report(out)
}

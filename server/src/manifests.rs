//! Manifests in files.

use std::io::Read as _;
use std::path::Path;

use kindom_api::Value;
pub(crate) use kindom_codec::manifests::{Place, complete_items, items, parse};

use crate::BoxError;

/// The documents of these files in order, without empty ones. `-` is the standard input.
///
/// # Errors
/// A file that cannot be read, or is neither JSON nor YAML; a document that is no object.
pub(crate) fn read(files: &[impl AsRef<Path>]) -> Result<Vec<(Place, Value)>, BoxError> {
    let mut all = Vec::new();
    for file in files {
        let path = file.as_ref();
        let mut bytes = Vec::new();
        let (name, read) = if path == Path::new("-") {
            ("standard input".to_owned(), std::io::stdin().lock().read_to_end(&mut bytes).map(drop))
        } else {
            (path.display().to_string(), std::fs::read(path).map(|read| bytes = read))
        };
        read.map_err(|e| format!("{name}: {e}"))?;
        all.append(&mut parse(&name, &bytes)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = super::read(&["no-such-file"]).unwrap_err().to_string();
        assert!(error.starts_with("no-such-file: "), "{error}");
    }
}

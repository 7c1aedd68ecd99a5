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

/// The objects of all documents, those of lists one by one.
pub(crate) fn flattened(documents: Vec<(Place, Value)>) -> Vec<(Place, Value)> {
    let mut all = Vec::new();
    for (place, mut document) in documents {
        complete_items(&mut document);
        match items(&mut document) {
            Some(list) => all.extend(list.drain(..).enumerate().map(|(i, item)| (place.item(i), item))),
            None => all.push((place, document)),
        }
    }
    all
}

/// The apiVersion and kind.
pub(crate) fn type_of(object: &Value) -> (&str, &str) {
    (object.text_at(&["apiVersion"]), object.text_at(&["kind"]))
}

/// `ox.farm.example.com/bo`, as kubectl names objects.
pub(crate) fn name_of(object: &Value) -> String {
    let (api_version, kind) = type_of(object);
    let group = api_version.split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
    format!("{}{group}/{}", kind.to_lowercase(), object.text_at(&["metadata", "name"]))
}

/// The same with its namespace, as several may have the name.
pub(crate) fn named(object: &Value) -> String {
    match object.text_at(&["metadata", "namespace"]) {
        "" => name_of(object),
        namespace => format!("{} in namespace {namespace}", name_of(object)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = super::read(&["no-such-file"]).unwrap_err().to_string();
        assert!(error.starts_with("no-such-file: "), "{error}");
    }
}

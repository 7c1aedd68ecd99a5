//! The objects that pages show, each of which its kind's schema accepts.

use std::path::{Path, PathBuf};

use kindom_api::field::ErrorList;
use kindom_api::{Value, crd};
use kindom_codec::documents;
use kindom_schema::Schema;
use serde_json::json;

use crate::error::Error;
use crate::kinds::Kind;

/// The manifests of a folder.
pub(super) struct Samples(Vec<Sample>);

struct Sample {
    path: PathBuf,
    text: String,
    documents: Vec<Value>,
}

impl Samples {
    /// The files in a folder that end in `.yaml`, `.yml` or `.json`, by their names; none if there is no such folder.
    ///
    /// # Errors
    /// [`Error`] names the file that cannot be read.
    pub(super) fn read(folder: &Path, samples: &Path) -> Result<Self, Error> {
        let entries = match std::fs::read_dir(folder.join(samples)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self(Vec::new())),
            Err(error) => return Err(Error::file("read", samples)(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(Error::file("read", samples))?.file_name());
        }
        names.sort();
        let is_manifest = |name: &Path| {
            name.extension().is_some_and(|of| ["yaml", "yml", "json"].iter().any(|known| of == *known))
        };
        let mut all = Vec::new();
        for name in names.iter().map(Path::new).filter(|name| is_manifest(name)) {
            let path = samples.join(name);
            let text = std::fs::read_to_string(folder.join(&path)).map_err(Error::file("read", &path))?;
            let documents = documents(text.as_bytes())
                .map_err(|error| Error::refused(format!("{}: {error}", path.display())))?;
            all.push(Sample { path, text, documents });
        }
        Ok(Self(all))
    }

    /// The files with objects of a version of a kind.
    ///
    /// # Errors
    /// [`Error::Refused`] names the file with an object that the schema refuses, and the field.
    pub(super) fn of(&self, kind: &Kind, version: &crd::Version) -> Result<Vec<serde_json::Value>, Error> {
        let mut found = Vec::new();
        let schema =
            compiled(kind, version).map_err(|why| Error::refused(format!("{}: {why}", kind.name())))?;
        for Sample { path, text, documents } in &self.0 {
            let mut is_shown = false;
            for document in documents.iter().filter(|document| kind.is_kind_of(&version.name, document)) {
                is_shown = true;
                check(&schema, version, document)
                    .map_err(|why| Error::refused(format!("{}: {why}", path.display())))?;
            }
            if is_shown {
                found.push(json!({ "path": path.display().to_string(), "text": text }));
            }
        }
        Ok(found)
    }
}

fn compiled(kind: &Kind, version: &crd::Version) -> Result<Schema, String> {
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let wrong = |errors: ErrorList| errors.iter().next().map_or_else(String::new, ToString::to_string);
    Schema::compile(schema, kind.registration.spec.preserve_unknown_fields).map_err(wrong)
}

/// Refuses an object as the server would, but for rules in Rust: those are tried by the project's tests.
fn check(schema: &Schema, version: &crd::Version, document: &Value) -> Result<(), String> {
    let mut object = document.clone();
    if let Some(fields) = object.as_object_mut().filter(|_| has_status(version)) {
        // A create drops it.
        fields.remove("status");
    }
    let mut unknown = Vec::new();
    schema.reshape(&mut object, Some(&mut unknown)).map_err(|error| error.to_string())?;
    if let Some(field) = unknown.first() {
        return Err(format!("unknown field {field:?}"));
    }
    schema.default(&mut object).map_err(|error| error.to_string())?;
    schema.validate(&object).iter().next().map_or(Ok(()), |error| Err(error.to_string()))
}

fn has_status(version: &crd::Version) -> bool {
    version.subresources.as_ref().is_some_and(|of| of.status.is_some())
}

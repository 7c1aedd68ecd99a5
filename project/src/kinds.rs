//! The kinds that a tool describes: those of the project in this folder, or those of registrations in files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kindom_api::crd::{decode_crd, default_crd, prepare_for_create};
use kindom_api::faces::Face;
use kindom_api::names::api_version;
use kindom_api::{Value, crd};
use kindom_codec::documents;
use kindom_schema::crd::{to_v1, validate_create};

use crate::arguments::Program;
use crate::cargo;
use crate::error::Error;
use crate::manifest::Manifest;

/// A registration, in the form of `apiextensions.k8s.io/v1`.
#[derive(Debug)]
pub(crate) struct Kind {
    /// With its defaults.
    pub(crate) registration: crd::CustomResourceDefinition,
    pub(crate) tree: Value,
    /// The file and the document, for errors.
    place: String,
}

impl Kind {
    pub(crate) fn group(&self) -> &str {
        &self.registration.spec.group
    }

    pub(crate) fn name(&self) -> &str {
        &self.registration.spec.names.kind
    }

    /// The versions that are served.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &crd::Version> {
        self.registration.spec.versions.iter().filter(|version| version.served)
    }

    /// `<group>/<version>/<kind>`, in lower case: the path of what describes a version.
    pub(crate) fn path(&self, version: &str) -> String {
        format!("{}/{version}/{}", self.group(), self.name().to_ascii_lowercase())
    }

    /// True for a manifest of an object of this version.
    pub(crate) fn is_kind_of(&self, version: &str, manifest: &Value) -> bool {
        let (is, text) = (api_version(self.group(), version), |field: &str| manifest.text_at(&[field]));
        text("apiVersion") == is && text("kind") == self.name()
    }
}

/// The kinds of the registrations in these files, or of the project if there are none, by group and kind.
///
/// # Errors
/// [`Error::Refused`] names the document and what is wrong with it.
pub(crate) fn kinds(folder: &Path, files: &[PathBuf]) -> Result<Vec<Kind>, Error> {
    let mut found = Vec::new();
    match files {
        [] => {
            let text = registered(folder)?;
            collect("the API server's kinds", &text, &mut found)?;
        }
        files => {
            for file in files {
                let (name, text) = read(folder, file)?;
                collect(&name, &text, &mut found)?;
            }
        }
    }
    found.sort_by(|a, b| (a.group(), a.name()).cmp(&(b.group(), b.name())));
    let same = |a: &Kind, b: &Kind| (a.group(), a.name()) == (b.group(), b.name());
    let twice = found.windows(2).find_map(|pair| match pair {
        [a, b] if same(a, b) => Some((a, b)),
        _ => None,
    });
    match twice {
        Some((first, second)) => Err(Error::refused(format!(
            "{}: the kind {} of {} is registered already, in {}",
            second.place,
            second.name(),
            second.group(),
            first.place
        ))),
        None => Ok(found),
    }
}

/// The text of a file, and its name; `-` is the standard input.
fn read(folder: &Path, file: &Path) -> Result<(String, Vec<u8>), Error> {
    let (name, path) = match file == Path::new("-") {
        true => ("standard input".to_owned(), PathBuf::from("/dev/stdin")),
        false => (file.display().to_string(), folder.join(file)),
    };
    Ok((name, std::fs::read(path).map_err(Error::file("read", file))?))
}

/// The registrations of the kinds that the project's API server is compiled with.
fn registered(folder: &Path) -> Result<Vec<u8>, Error> {
    Manifest::need(folder)?;
    let built = cargo::build(folder, &[Program::Apiserver], &[])?;
    let program = built.into_values().next().unwrap_or_default();
    let failed = |source| Error::Program { program: Program::Apiserver.name().to_owned(), source };
    let printed = Command::new(program)
        .arg("kinds")
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(failed)?;
    match printed.status.success() {
        true => Ok(printed.stdout),
        false => {
            Err(Error::refused(format!("{} kinds failed ({})", Program::Apiserver.name(), printed.status)))
        }
    }
}

fn collect(name: &str, text: &[u8], found: &mut Vec<Kind>) -> Result<(), Error> {
    let documents = documents(text).map_err(|error| Error::refused(format!("{name}: {error}")))?;
    for (at, document) in (1..).zip(documents) {
        let place = format!("{name}: document {at}");
        let items = match document.text_at(&["kind"]) {
            "List" => document.get("items").and_then(Value::as_array).unwrap_or_default().to_vec(),
            _ if document.is_null() => Vec::new(),
            _ => vec![document],
        };
        for item in items {
            // Files with registrations hold other objects, too.
            let (api_version, kind) = (item.text_at(&["apiVersion"]), item.text_at(&["kind"]));
            let is_former = (api_version, kind) == ("extensions/v1beta1", "ThirdPartyResource");
            if Face::of(api_version, kind).is_some() || is_former {
                found.push(checked(&place, item)?);
            }
        }
    }
    Ok(())
}

fn checked(place: &str, document: Value) -> Result<Kind, Error> {
    let named = format!("{} {:?}", document.text_at(&["kind"]), document.text_at(&["metadata", "name"]));
    let wrong = |why: &dyn std::fmt::Display| Error::refused(format!("{place}: {named}: {why}"));
    let tree = to_v1(document).map_err(|error| wrong(&error))?.manifest;
    let (mut registration, _) = decode_crd(&tree).map_err(|error| wrong(&error))?;
    default_crd(&mut registration);
    prepare_for_create(&mut registration);
    match validate_create(&registration, Face::V1).iter().next() {
        Some(error) => Err(wrong(error)),
        None => Ok(Kind { tree: registration.to_value(), registration, place: place.to_owned() }),
    }
}

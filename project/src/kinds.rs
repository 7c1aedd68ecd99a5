//! The kinds that a tool describes: those of the project in this folder, or those of registrations in files.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kindom_api::crd::{decode_crd, default_crd, prepare_for_create};
use kindom_api::faces::Face;
use kindom_api::names::api_version;
use kindom_api::{Value, crd};
use kindom_codec::manifests::{Place, complete_items, items, parse};
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
    found.sort_by_cached_key(|kind| (kind.group().to_owned(), kind.name().to_ascii_lowercase()));
    // Their files would have one name.
    let same = |a: &Kind, b: &Kind| a.group() == b.group() && a.name().eq_ignore_ascii_case(b.name());
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
    if file == Path::new("-") {
        let mut text = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut text)
            .map_err(Error::file("read", Path::new("standard input")))?;
        return Ok(("standard input".to_owned(), text));
    }
    let text = std::fs::read(folder.join(file)).map_err(Error::file("read", file))?;
    Ok((file.display().to_string(), text))
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
    let before = found.len();
    for (place, mut document) in parse(name, text).map_err(Error::refused)? {
        complete_items(&mut document);
        match items(&mut document) {
            None => found.extend(checked(&place, document)?),
            Some(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    found.extend(checked(&place.item(at), std::mem::take(item))?);
                }
            }
        }
    }
    match found.len() > before {
        true => Ok(()),
        false => Err(Error::refused(format!("{name}: there is no registration of a kind in it"))),
    }
}

/// The kind that a document registers; none for another object, as files with registrations hold.
fn checked(place: &Place, document: Value) -> Result<Option<Kind>, Error> {
    let (api_version, kind) = (document.text_at(&["apiVersion"]), document.text_at(&["kind"]));
    let is_former = (api_version, kind) == ("extensions/v1beta1", "ThirdPartyResource");
    if Face::of(api_version, kind).is_none() && !is_former {
        return Ok(None);
    }
    let named = format!("{kind} {:?}", document.text_at(&["metadata", "name"]));
    let wrong = |why: &dyn std::fmt::Display| Error::refused(format!("{place}: {named}: {why}"));
    let tree = to_v1(document).map_err(|error| wrong(&error))?.manifest;
    let (mut registration, _) = decode_crd(&tree).map_err(|error| wrong(&error))?;
    default_crd(&mut registration);
    prepare_for_create(&mut registration);
    match validate_create(&registration, Face::V1).iter().next() {
        Some(error) => Err(wrong(error)),
        None => Ok(Some(Kind { tree: registration.to_value(), registration, place: place.to_string() })),
    }
}

//! `kindom create …`: kinds, their versions and subresources (B-09 to B-15, B-52).

use std::io::Write;
use std::path::Path;

use kindom_naming::plural;

use crate::arguments::{CreateResource, CreateSubresource, CreateVersion};
use crate::error::Error;
use crate::manifest::{Kind, Manifest, Served};
use crate::plan::Plan;
use crate::templates::Templates;

/// Adds a kind; or a version of one that is there; or a controller, with `--skip-resource`.
pub(crate) fn resource(folder: &Path, options: &CreateResource, out: &mut dyn Write) -> Result<(), Error> {
    let mut manifest = Manifest::need(folder)?;
    let names = &options.names;
    let wanted = wanted(options);
    let Some(at) = manifest.find(&names.group, &names.kind) else {
        if options.skip_resource {
            return Err(Error::refused(format!(
                "--skip-resource: the project has no kind {:?} in group {:?} to write a controller for",
                names.kind, names.group
            )));
        }
        manifest.check_next(&wanted).map_err(refused)?;
        manifest.kinds.push(wanted.clone());
        let templates = Templates::new()?;
        let mut plan = Plan::default();
        templates.version(&manifest, &wanted, wanted.hub(), &mut plan)?;
        if wanted.controller {
            templates.controller(&manifest, &wanted, &mut plan)?;
        }
        return finish(folder, &manifest, &templates, plan, out);
    };
    let mut kind = manifest.kinds.remove(at);
    if options.skip_resource {
        if !kind.versions.contains(&names.version) {
            return Err(Error::refused(format!(
                "--version {:?}: {} has no such version",
                names.version, kind.kind
            )));
        }
        let templates = Templates::new()?;
        let mut plan = Plan::default();
        if !kind.controller {
            kind.controller = true;
            templates.controller(&manifest, &kind, &mut plan)?;
        }
        manifest.kinds.insert(at, kind);
        return finish(folder, &manifest, &templates, plan, out);
    }
    if let Some(flag) = differs(&kind, options) {
        return Err(Error::refused(format!(
            "{flag}: {} of {} was created with another value, and its files are yours to change",
            kind.kind,
            manifest.group_name(&kind)
        )));
    }
    add_version(folder, manifest, at, kind, &names.version, out)
}

/// Adds a version to a kind.
pub(crate) fn version(folder: &Path, options: &CreateVersion, out: &mut dyn Write) -> Result<(), Error> {
    let mut manifest = Manifest::need(folder)?;
    let (at, kind) = taken(&mut manifest, &options.group, &options.kind)?;
    add_version(folder, manifest, at, kind, &options.version, out)
}

/// Adds a subresource to a kind.
pub(crate) fn subresource(
    folder: &Path,
    options: &CreateSubresource,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let mut manifest = Manifest::need(folder)?;
    let (at, mut kind) = taken(&mut manifest, &options.group, &options.kind)?;
    if let Some(version) = options.version.as_ref().filter(|version| !kind.versions.contains(version)) {
        return Err(Error::refused(format!("--version {version:?}: {} has no such version", kind.kind)));
    }
    let mut verbs = options.verbs.clone();
    verbs.sort();
    verbs.dedup();
    let wanted = Served { name: options.subresource.clone(), verbs };
    let templates = Templates::new()?;
    let mut plan = Plan::default();
    match kind.subresources.iter().find(|known| known.name == wanted.name) {
        Some(known) if *known == wanted => {}
        Some(known) => {
            return Err(Error::refused(format!(
                "--verb: {} of {} was created with {}, which kindom.json is the place to change",
                wanted.name,
                kind.kind,
                known.verbs.join(", ")
            )));
        }
        None => {
            kind.subresources.push(wanted.clone());
            manifest.check_next(&kind).map_err(refused)?;
            templates.subresource(&manifest, &kind, &wanted, &mut plan)?;
        }
    }
    manifest.kinds.insert(at, kind);
    finish(folder, &manifest, &templates, plan, out)
}

/// Takes a kind out of the manifest; returns its place, too.
fn taken(manifest: &mut Manifest, group: &str, kind: &str) -> Result<(usize, Kind), Error> {
    match manifest.find(group, kind) {
        Some(at) => Ok((at, manifest.kinds.remove(at))),
        None => Err(Error::refused(format!(
            "--kind {kind:?}: the project has no such kind in group {group:?}; kindom create group version resource makes one"
        ))),
    }
}

/// Adds a version to a kind that was taken out of the manifest, and puts the kind back.
fn add_version(
    folder: &Path,
    mut manifest: Manifest,
    at: usize,
    mut kind: Kind,
    version: &str,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let templates = Templates::new()?;
    let mut plan = Plan::default();
    if !kind.versions.iter().any(|known| known == version) {
        kind.versions.push(version.to_owned());
        manifest.check_next(&kind).map_err(refused)?;
        templates.version(&manifest, &kind, version, &mut plan)?;
    }
    manifest.kinds.insert(at, kind);
    finish(folder, &manifest, &templates, plan, out)
}

pub(crate) fn finish(
    folder: &Path,
    manifest: &Manifest,
    templates: &Templates,
    mut plan: Plan,
    out: &mut dyn Write,
) -> Result<(), Error> {
    templates.roots(manifest, &mut plan)?;
    plan.write(folder)?.report(out)
}

fn wanted(options: &CreateResource) -> Kind {
    let names = &options.names;
    Kind {
        group: names.group.clone(),
        kind: names.kind.clone(),
        resource: options.resource.clone().unwrap_or_else(|| plural(&names.kind.to_ascii_lowercase())),
        short_names: options.short_names.clone(),
        namespaced: !options.non_namespaced,
        status: options.with_status.unwrap_or(true),
        scale: options.with_scale,
        controller: !options.skip_controller,
        versions: vec![names.version.clone()],
        subresources: Vec::new(),
        imported: None,
    }
}

/// Names the flag, and not the field of `kindom.json`.
fn refused((field, why): (&'static str, String)) -> Error {
    let flag = match field {
        "shortNames" => "short-name",
        "versions" => "version",
        "scale" => "with-scale",
        "subresources" => "subresource",
        field => field,
    };
    Error::refused(format!("--{flag}: {why}"))
}

/// The flag that is given, and asks for something else than what a kind is.
fn differs(kind: &Kind, options: &CreateResource) -> Option<&'static str> {
    let resource = options.resource.as_ref().is_none_or(|resource| *resource == kind.resource);
    let short_names = options.short_names.is_empty() || options.short_names == kind.short_names;
    [
        ("--resource", resource),
        ("--short-name", short_names),
        ("--non-namespaced", !options.non_namespaced || !kind.namespaced),
        ("--with-status", options.with_status.is_none_or(|status| status == kind.status)),
        ("--with-scale", !options.with_scale || kind.scale),
        ("--skip-controller", !options.skip_controller || !kind.controller),
    ]
    .into_iter()
    .find_map(|(flag, same)| (!same).then_some(flag))
}

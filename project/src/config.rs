//! `kindom build config`: the objects by which a cluster runs a project (B-48).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use kindom_api::faces::Face;
use kindom_api::names::version_order;
use kindom_naming::{refuse_group, refuse_label};
use serde_json::{Value, json};

use crate::arguments::BuildConfig;
use crate::error::Error;
use crate::manifest::{FILE, Kind, Manifest};
use crate::plan::{Part, Plan};
use crate::reference::Reference;
use crate::templates::Templates;

/// The longest name of a Service, less that of the longest suffix.
const NAME_MAX: usize = 63 - "-controller-manager".len();
/// The longest value of a label, bytes.
const LABEL_VALUE_MAX: usize = 63;
/// The priority that the server gives the preferred version.
const VERSION_PRIORITY: usize = 100;

/// Writes a folder of manifests.
pub(crate) fn run(folder: &Path, options: &BuildConfig, out: &mut dyn Write) -> Result<(), Error> {
    let manifest = Manifest::need(folder)?;
    check(options)?;
    if manifest.one_process && !options.controller_args.is_empty() {
        return Err(Error::refused(format!(
            "--controller-args: this project has no controller manager ({FILE}); --apiserver-args are those of its process"
        )));
    }
    let mut files = vec!["namespace.yaml", "rbac.yaml", "apiserver.yaml", "apiservices.yaml"];
    if !manifest.one_process {
        files.push("controller-manager.yaml");
    }
    if options.etcd {
        files.push("etcd.yaml");
    }
    let image = reference("image", &options.image)?;
    let blanks = json!({
        "name": options.name,
        "namespace": options.namespace,
        "image": image,
        "etcd": options.etcd,
        "etcd_image": reference("etcd-image", &options.etcd_image)?,
        "storage_class": options.storage_class,
        "storage_size": options.storage_size,
        "service_account": options.service_account,
        "apiserver_args": options.apiserver_args,
        "controller_args": options.controller_args,
        "controller_env": options.controller_env,
        "one_process": manifest.one_process,
        "versions": versions(&manifest),
        "edited": groups(&manifest, |kind| named(kind, &[("scale", kind.scale)])),
        "viewed": groups(&manifest, |kind| named(kind, &[("scale", kind.scale), ("status", kind.status)])),
        "controlled": groups(&manifest, |kind| match kind.controller {
            true => named(kind, &[("finalizers", true), ("status", true)]),
            false => Vec::new(),
        }),
        "files": files,
    });
    let templates = Templates::new()?;
    let mut plan = Plan::default();
    for file in files.iter().chain(&["kustomization.yaml"]) {
        let text = templates.fill(&format!("config/{file}"), &blanks)?;
        plan.add(options.output.join(file), text, Part::Generated);
    }
    plan.write(folder)?.report(out)
}

fn check(options: &BuildConfig) -> Result<(), Error> {
    let wrong =
        |flag: &str, value: &str, why: &str| Err(Error::refused(format!("--{flag} {value:?}: {why}")));
    if let Some(why) = refuse_label(&options.name) {
        return wrong("name", &options.name, why);
    }
    if options.name.len() > NAME_MAX {
        return wrong(
            "name",
            &options.name,
            &format!("at most {NAME_MAX} letters, as other names begin with it"),
        );
    }
    if let Some(why) = refuse_label(&options.namespace) {
        return wrong("namespace", &options.namespace, why);
    }
    // The value of the label by which the server knows its APIServices.
    if options.name.len() + 1 + options.namespace.len() > LABEL_VALUE_MAX {
        return wrong("namespace", &options.namespace, "with --name, it has more than 62 letters");
    }
    // A group is a subdomain with a dot.
    let is_subdomain = |name: &str| refuse_group(&format!("a.{name}")).is_none();
    if let Some(account) = options.service_account.as_ref().filter(|account| !is_subdomain(account)) {
        return wrong("service-account", account, "a name has lower-case letters, digits, dashes and dots");
    }
    if let Some(class) = options.storage_class.as_ref().filter(|class| !is_subdomain(class)) {
        return wrong("storage-class", class, "a name has lower-case letters, digits, dashes and dots");
    }
    match is_size(&options.storage_size) {
        true => Ok(()),
        false => {
            wrong("storage-size", &options.storage_size, "a size is a number with its unit, such as 10Gi")
        }
    }
}

/// The name of an image as it is written.
fn reference(flag: &str, image: &str) -> Result<String, Error> {
    let refused = |why| Error::refused(format!("--{flag} {image:?}: {why}"));
    Reference::parse(image).map(|_| image.to_owned()).map_err(refused)
}

/// True for the sizes that people write: whole numbers of Ki to Ei, or of k to E.
fn is_size(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let known = ["", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let is_positive = digits.chars().any(|c| c != '0');
    digits.chars().all(|c| c.is_ascii_digit()) && is_positive && known.contains(&unit)
}

/// The versions of each group, the preferred one first, and the groups in which registrations come in: the server registers all of
/// them.
fn versions(manifest: &Manifest) -> Vec<Value> {
    let faces = [Face::ThirdPartyResource, Face::Aggregated];
    let mut groups: BTreeMap<String, Vec<&str>> =
        faces.map(|face| (face.group().to_owned(), vec![face.version()])).into();
    for kind in &manifest.kinds {
        let versions = groups.entry(manifest.group_name(kind)).or_default();
        versions.extend(kind.versions.iter().map(String::as_str));
    }
    let of_group = |(group, mut versions): (String, Vec<&str>)| {
        versions.sort_by_cached_key(|version| version_order(version));
        versions.dedup();
        let named = versions.into_iter().enumerate();
        let named = named.map(|(behind, version)| {
            json!({ "group": group, "name": version, "priority": VERSION_PRIORITY.saturating_sub(behind).max(1) })
        });
        named.collect::<Vec<_>>()
    };
    groups.into_iter().flat_map(of_group).collect()
}

/// The plural of a kind, and its subresources that count.
fn named(kind: &Kind, subresources: &[(&str, bool)]) -> Vec<String> {
    let counted = subresources.iter().filter(|(_, counts)| *counts);
    let named = counted.map(|(subresource, _)| format!("{}/{subresource}", kind.resource));
    std::iter::once(kind.resource.clone()).chain(named).collect()
}

/// The resources of each group.
fn groups(manifest: &Manifest, resources: impl Fn(&Kind) -> Vec<String>) -> Vec<Value> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in &manifest.kinds {
        groups.entry(manifest.group_name(kind)).or_default().extend(resources(kind));
    }
    groups.retain(|_, resources| !resources.is_empty());
    groups.into_iter().map(|(name, resources)| json!({ "name": name, "resources": resources })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for size in ["1Gi", "10", "500M", "2Ti"] {
            assert!(is_size(size), "{size}");
        }
        for size in ["", "0", "0Gi", "Gi", "1gi", "1.5Gi", "-1Gi", "1 Gi", "1GiB"] {
            assert!(!is_size(size), "{size}");
        }
    }
}

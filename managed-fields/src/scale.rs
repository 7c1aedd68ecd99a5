//! The managers of a Scale, which is a view of another object (`managedfields/scalehandler.go`).

use kindom_api::Value;

use crate::entries::{self, Managed, Managers};
use crate::{PathElement, Set};

/// The version of a Scale.
const API_VERSION: &str = "autoscaling/v1";
const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// The path of the replicas in objects of an apiVersion; `None` for a version without `/scale`.
#[derive(Debug, Clone, Copy)]
pub struct ReplicasPath<'a> {
    /// `example.com/v1`
    pub api_version: &'a str,
    /// `["spec", "replicas"]`
    pub path: Option<&'a [&'a str]>,
}

fn set<'a>(path: &[&'a str]) -> Set<'a> {
    let mut set = Set::new();
    set.insert(&path.iter().copied().map(PathElement::Field).collect::<Vec<_>>());
    set
}

fn has(fields: &Set<'_>, path: &[&str]) -> bool {
    fields.has(&path.iter().copied().map(PathElement::Field).collect::<Vec<_>>())
}

/// None: there is no such version.
fn path_in<'a>(paths: &[ReplicasPath<'a>], api_version: &str) -> Option<Option<&'a [&'a str]>> {
    paths.iter().find(|path| path.api_version == api_version).map(|path| path.path)
}

/// The managedFields of the Scale of an object: the entries of the managers of its replicas (`ToSubresource`). `parent` is
/// the object's list.
///
/// # Errors
/// An error in the object's entries.
pub fn from_parent(parent: Option<&Value>, paths: &[ReplicasPath<'_>]) -> Result<Option<Value>, String> {
    let mut managers = Managers::new();
    for (id, managed) in entries::decode(parent)? {
        let Some(Some(path)) = path_in(paths, &managed.api_version) else { continue };
        if has(managed.fields(), path) {
            managers.insert(id, Managed::new(set(&REPLICAS), API_VERSION.into(), managed.time));
        }
    }
    Ok(entries::encode(&managers))
}

/// The managedFields of an object after its Scale was written (`ToParent`): `scale` is the Scale's list, `parent` the
/// object's as it was, and `api_version` the object's in the request.
///
/// # Errors
/// An error in the entries of either.
pub fn to_parent(
    parent: Option<&Value>,
    scale: Option<&Value>,
    api_version: &str,
    paths: &[ReplicasPath<'_>],
) -> Result<Option<Value>, String> {
    let parents = entries::decode(parent)?;
    let mut scales = entries::decode(scale)?;
    let mut managers = Managers::new();
    for (id, mut managed) in parents.clone() {
        let Some(path) = path_in(paths, &managed.api_version) else { continue };
        if let Some(path) = path
            && has(managed.fields(), path)
            && scales.remove(&id).is_none()
        {
            // Taken over through the Scale.
            managed.take_fields(&set(path));
            if managed.fields().is_empty() {
                continue;
            }
        }
        managers.insert(id, managed);
    }
    let path = path_in(paths, api_version).flatten().unwrap_or_default();
    for (id, managed) in scales {
        if !has(managed.fields(), &REPLICAS) {
            continue;
        }
        let time = parents.get(&id).and_then(|before| before.time.clone());
        managers.insert(id, Managed::new(set(path), api_version.into(), time));
    }
    Ok(entries::encode(&managers))
}

//! The spec of a pod, and templates of pods: what the kinds that make pods share.
//!
//! Of upstream's validation this lacks the groups of scheduling, users of files, options of bind mounts, and certificates of
//! pods (`ValidatePodSpec` and what it calls, 1.37).

pub(super) mod affinity;
pub(super) mod annotations;
pub(super) mod claims;
mod containers;
pub(super) mod defaults;
mod env;
mod image;
mod probes;
mod projected;
mod security;
pub(super) mod sources;
mod spread;
pub(super) mod tolerations;
mod validation;
pub(super) mod volume_claim;
pub(super) mod volumes;
mod warnings;

use kindom_api::{Map, Value};

pub(super) use containers::validate_limits;
pub(super) use validation::{validate_spec, validate_template};
pub(super) use warnings::{node_selector_warnings, warnings};

use crate::kinds::fields::{items, text};

/// The lists of containers.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The names and the images of the containers of a template, as wide tables show them (`layoutContainerCells`).
pub(super) fn container_cells(template: &Value) -> [String; 2] {
    let spec = template.get("spec").unwrap_or(&Value::Null);
    ["name", "image"].map(|field| {
        let all: Vec<&str> = items(spec, "containers").iter().map(|one| text(one, field)).collect();
        all.join(",")
    })
}

/// `labels.FormatLabels`
pub(super) fn label_cell(of: Option<&Value>) -> String {
    let all = of.and_then(Value::as_object).into_iter().flat_map(Map::iter);
    let all: Vec<String> =
        all.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if all.is_empty() { "<none>".to_owned() } else { all.join(",") }
}

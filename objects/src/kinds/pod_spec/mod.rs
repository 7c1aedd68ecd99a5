//! The spec of a pod, and templates of pods: what the kinds that make pods share.
//!
//! Of upstream's validation this has names, labels, required fields, enums, ports, environments, resources, volumes by their
//! kind and the usual sources, probes and tolerations. Not checked are security contexts, affinity, topology spread,
//! DNS configuration, host aliases, resource claims, resize policies, volume devices, the sources of in-tree and projected
//! volumes, annotations of seccomp and AppArmor, fields by operating system, scheduling gates, readiness gates and overhead.

mod containers;
pub(super) mod defaults;
mod env;
mod image;
mod probes;
mod validation;
mod volumes;

use kindom_api::Value;

pub(super) use containers::validate_resources;
pub(super) use validation::{validate_template, validate_toleration};

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

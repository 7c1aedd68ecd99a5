//! Sloop of sails.example.com/v1, which is stored as v1beta1.

use kindom_server as kindom;
use kindom_server::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sails::v1beta1;

// As in v1beta1, until this version has fields of its own: put structs in the place of these, and convert them below.
pub use crate::sails::v1beta1::sloop::{SloopSpec, SloopStatus};

#[cfg(test)]
#[path = "sloop_test.rs"]
mod tests;

/// A Sloop: its description, as `kubectl explain` prints it.
#[derive(kindom::Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "sails.example.com", version = "v1", short = "sl")]
#[resource(
    namespaced,
    status,
    scale(spec = ".spec.replicas", status = ".status.replicas")
)]
pub struct Sloop {
    /// The name, labels and annotations, and what the server keeps beside them.
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: SloopSpec,
    /// The observed state, which the controller writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SloopStatus>,
}

impl kindom::Version for Sloop {
    fn apply_defaults(&mut self) {
        self.spec.foo.get_or_insert_with(|| "bar".to_owned());
        self.spec.replicas.get_or_insert(1);
    }
}

impl From<v1beta1::Sloop> for Sloop {
    fn from(hub: v1beta1::Sloop) -> Self {
        Self {
            metadata: hub.metadata,
            spec: hub.spec,
            status: hub.status,
        }
    }
}

impl From<Sloop> for v1beta1::Sloop {
    fn from(object: Sloop) -> Self {
        Self {
            metadata: object.metadata,
            spec: object.spec,
            status: object.status,
        }
    }
}

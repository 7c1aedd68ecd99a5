//! Sloop of sails.example.com/v1beta1.

use kindom_server as kindom;
use kindom_server::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
#[path = "sloop_test.rs"]
mod tests;

/// A Sloop: its description, as `kubectl explain` prints it.
#[derive(kindom::Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "sails.example.com", version = "v1beta1", short = "sl")]
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

/// The desired state of a Sloop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SloopSpec {
    /// An example: put fields of your own in its place, here, below and in the sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foo: Option<String>,
    /// The desired number of replicas; 1 unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// The observed state of a Sloop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SloopStatus {
    /// The generation of the spec that the controller has acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of replicas that there are.
    #[serde(default)]
    pub replicas: i32,
}

impl kindom::Version for Sloop {
    fn apply_defaults(&mut self) {
        self.spec.foo.get_or_insert_with(|| "bar".to_owned());
        self.spec.replicas.get_or_insert(1);
    }
}

impl kindom::Strategy for Sloop {
    fn validate(&self, _: &kindom::Context<'_>) -> kindom::Errors {
        let mut errors = kindom::Errors::none();
        if self.spec.foo.as_deref() == Some("") {
            errors.invalid("spec.foo", "", "must not be empty");
        }
        if let Some(replicas) = self.spec.replicas.filter(|replicas| *replicas < 0) {
            errors.invalid(
                "spec.replicas",
                replicas,
                "must be greater than or equal to 0",
            );
        }
        errors
    }
}

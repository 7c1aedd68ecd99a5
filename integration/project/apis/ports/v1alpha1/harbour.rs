//! Harbour of ports.example.com/v1alpha1.

use kindom_server as kindom;
use kindom_server::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
#[path = "harbour_test.rs"]
mod tests;

/// A Harbour: its description, as `kubectl explain` prints it.
#[derive(kindom::Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "ports.example.com", version = "v1alpha1")]
#[resource(cluster)]
pub struct Harbour {
    /// The name, labels and annotations, and what the server keeps beside them.
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: HarbourSpec,
}

/// The desired state of a Harbour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HarbourSpec {
    /// An example: put fields of your own in its place, here, below and in the sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foo: Option<String>,
}

impl kindom::Version for Harbour {
    fn apply_defaults(&mut self) {
        self.spec.foo.get_or_insert_with(|| "bar".to_owned());
    }
}

impl kindom::Strategy for Harbour {
    fn validate(&self, _: &kindom::Context<'_>) -> kindom::Errors {
        let mut errors = kindom::Errors::none();
        if self.spec.foo.as_deref() == Some("") {
            errors.invalid("spec.foo", "", "must not be empty");
        }
        errors
    }
}

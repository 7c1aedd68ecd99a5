//! {{ kind }} of {{ group }}/{{ version }}.

use kindom_server as kindom;
use kindom_server::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
#[path = "{{ module }}_test.rs"]
mod tests;

/// A {{ kind }}: its description, as `kubectl explain` prints it.
#[derive(kindom::Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "{{ group }}", version = "{{ version }}"{% if plural %}, plural = "{{ plural }}"{% endif %}{% for short in short_names %}, short = "{{ short }}"{% endfor %})]
#[resource({{ "namespaced" if namespaced else "cluster" }}{% if status %}, status{% endif %}{% if scale %}, scale(spec = ".spec.replicas", status = ".status.replicas"){% endif %})]
pub struct {{ kind }} {
    /// The name, labels and annotations, and what the server keeps beside them.
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: {{ kind }}Spec,
{%- if status %}
    /// The observed state, which the controller writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<{{ kind }}Status>,
{%- endif %}
}

/// The desired state of a {{ kind }}.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct {{ kind }}Spec {
    /// An example: put fields of your own in its place, here, below and in the sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foo: Option<String>,
{%- if scale %}
    /// The desired number of replicas; 1 unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
{%- endif %}
}
{% if status %}
/// The observed state of a {{ kind }}.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct {{ kind }}Status {
    /// The generation of the spec that the controller has acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
{%- if scale %}
    /// The number of replicas that there are.
    #[serde(default)]
    pub replicas: i32,
{%- endif %}
}
{% endif %}
impl kindom::Version for {{ kind }} {
    fn apply_defaults(&mut self) {
        self.spec.foo.get_or_insert_with(|| "bar".to_owned());
{%- if scale %}
        self.spec.replicas.get_or_insert(1);
{%- endif %}
    }
}

impl kindom::Strategy for {{ kind }} {
    fn validate(&self, _: &kindom::Context<'_>) -> kindom::Errors {
        let mut errors = kindom::Errors::none();
        if self.spec.foo.as_deref() == Some("") {
            errors.invalid("spec.foo", "", "must not be empty");
        }
{%- if scale %}
        if let Some(replicas) = self.spec.replicas.filter(|replicas| *replicas < 0) {
            errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        }
{%- endif %}
        errors
    }
}

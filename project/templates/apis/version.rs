//! {{ kind }} of {{ group }}/{{ version }}, which is stored as {{ hub }}.

use kindom_server as kindom;
use kindom_server::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{{ group_module }}::{{ hub }};

// As in {{ hub }}, until this version has fields of its own: put structs in the place of these, and convert them below.
{% if has_status -%}
pub use crate::{{ group_module }}::{{ hub }}::{{ module }}::{ {{- types_of }}Spec, {{ types_of }}Status};
{%- else -%}
pub use crate::{{ group_module }}::{{ hub }}::{{ module }}::{{ types_of }}Spec;
{%- endif %}

#[cfg(test)]
#[path = "{{ module }}_test.rs"]
mod tests;

/// A {{ kind }}: its description, as `kubectl explain` prints it.
#[derive(kindom::Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "{{ group }}", version = "{{ version }}"{% if plural %}, plural = "{{ plural }}"{% endif %}{% for short in short_names %}, short = "{{ short }}"{% endfor %})]
#[resource({{ "namespaced" if namespaced else "cluster" }}{% if status %}, status{% endif %}{% if scale and not imported %}, scale(spec = ".spec.replicas", status = ".status.replicas"){% endif %})]
{%- if scale_paths %}
#[resource(scale(spec = {{ scale_paths.spec | rust }}, status = {{ scale_paths.status | rust }}{% if scale_paths.selector %}, selector = {{ scale_paths.selector | rust }}{% endif %}))]
{%- endif %}
pub struct {{ kind }} {
    /// The name, labels and annotations, and what the server keeps beside them.
    pub metadata: ObjectMeta,
    /// The desired state.
{%- if not imported %}
    #[serde(default)]
    pub spec: {{ types_of }}Spec,
{%- elif needs_spec %}
    pub spec: {{ types_of }}Spec,
{%- else %}
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<{{ types_of }}Spec>,
{%- endif %}
{%- if has_status %}
    /// The observed state, which the controller writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<{{ types_of }}Status>,
{%- endif %}
}

{% if imported -%}
impl kindom::Version for {{ kind }} {}
{% else -%}
impl kindom::Version for {{ kind }} {
    fn apply_defaults(&mut self) {
        self.spec.foo.get_or_insert_with(|| "bar".to_owned());
{%- if scale %}
        self.spec.replicas.get_or_insert(1);
{%- endif %}
    }
}
{% endif %}
impl From<{{ hub }}::{{ kind }}> for {{ kind }} {
    fn from(hub: {{ hub }}::{{ kind }}) -> Self {
        Self {
            metadata: hub.metadata,
            spec: hub.spec,
{%- if has_status %}
            status: hub.status,
{%- endif %}
        }
    }
}

impl From<{{ kind }}> for {{ hub }}::{{ kind }} {
    fn from(object: {{ kind }}) -> Self {
        Self {
            metadata: object.metadata,
            spec: object.spec,
{%- if has_status %}
            status: object.status,
{%- endif %}
        }
    }
}

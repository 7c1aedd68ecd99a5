//! {{ kind }} of {{ group }}/{{ version }}, from its registration.
#![allow(
    clippy::doc_lazy_continuation,
    clippy::doc_overindented_list_items,
    clippy::duplicated_attributes,
    clippy::enum_variant_names,
    clippy::large_enum_variant,
    clippy::tabs_in_doc_comments,
    reason = "descriptions, columns and choices are as they were there"
)]

{% if uses.maps %}use std::collections::BTreeMap;

{% endif -%}
use kindom_server as kindom;
use kindom_server::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
{%- if uses.int_or_string %}
use kindom_server::k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
{%- endif %}
{%- if uses.json %}
use kindom_server::k8s_openapi::serde_json;
{%- endif %}
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
#[path = "{{ module }}_test.rs"]
mod tests;

{{ description | docs }}
#[derive(kindom::Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "{{ group }}", version = "{{ version }}"{% if plural %}, plural = "{{ plural }}"{% endif %}{% if singular %}, singular = "{{ singular }}"{% endif %}{% for short in short_names %}, short = "{{ short }}"{% endfor %}{% for category in categories %}, category = "{{ category }}"{% endfor %})]
#[resource({{ "namespaced" if namespaced else "cluster" }}{% if status %}, status{% endif %}{% if deprecated %}, deprecated = {{ deprecated | rust }}{% endif %})]
{%- if scale_paths %}
#[resource(scale(spec = {{ scale_paths.spec | rust }}, status = {{ scale_paths.status | rust }}{% if scale_paths.selector %}, selector = {{ scale_paths.selector | rust }}{% endif %}))]
{%- endif %}
{%- for column in columns %}
#[resource(column(name = {{ column.name | rust }}, type = {{ column.type | rust }}, path = {{ column.path | rust }}{% if column.format %}, format = {{ column.format | rust }}{% endif %}{% if column.description %}, description = {{ column.description | rust }}{% endif %}{% if column.priority %}, priority = {{ column.priority }}{% endif %}))]
{%- endfor %}
pub struct {{ kind }} {
    /// The name, labels and annotations, and what the server keeps beside them.
    pub metadata: ObjectMeta,
{%- if needs_spec %}
    /// The desired state.
    pub spec: {{ types_of }}Spec,
{%- else %}
    /// The desired state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<{{ types_of }}Spec>,
{%- endif %}
{%- if has_status %}
    /// The observed state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<{{ types_of }}Status>,
{%- endif %}
}

impl kindom::Version for {{ kind }} {}

impl kindom::Strategy for {{ kind }} {}

// What kopium makes of the schema: its fields and their descriptions. Its patterns, bounds and rules are the strategy's to say.

{{ types }}

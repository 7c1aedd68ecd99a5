//! The controller of {{ kind }}.

use std::sync::Arc;

use apis::{{ group_module }}::{{ hub }};
use kindom_controller::{Action, Context, Controller, Error};
{% if status -%}
use kube::api::{Api, Patch, PatchParams};
{% endif -%}
use kube::{ {{- "Client, " if status }}ResourceExt as _};
{% if status -%}
use serde_json::json;
{% endif %}
#[cfg(test)]
#[path = "{{ module }}_test.rs"]
mod tests;

/// Brings the world closer to what each {{ kind }} says.
pub struct {{ kind }}Controller{% if status %} {
    client: Client,
}{% else %};{% endif %}

impl Controller for {{ kind }}Controller {
    type Resource = {{ hub }}::{{ kind }};

{%- if status %}

    async fn init(context: &Context) -> Result<Self, Error> {
        Ok(Self {
            client: context.client(),
        })
    }
{%- else %}

    async fn init(_: &Context) -> Result<Self, Error> {
        Ok(Self)
    }
{%- endif %}

    /// Acts on an object as it is now; what it was, and which change led here, is not known. A call that failed is repeated.
    async fn reconcile(&self, object: Arc<{{ hub }}::{{ kind }}>) -> Result<Action, Error> {
        tracing::info!(name = object.name_any(), "seen");
{%- if status %}
        let generation = object.metadata.generation;
        let status = object.status.as_ref();
        if status.and_then(|status| status.observed_generation) == generation {
            return Ok(Action::await_change());
        }
        // What the spec asks for is done here, before the status says that it is.
{%- if namespaced %}
        let namespace = object.namespace().ok_or("an object without a namespace")?;
        let api: Api<{{ hub }}::{{ kind }}> = Api::namespaced(self.client.clone(), &namespace);
{%- else %}
        let api: Api<{{ hub }}::{{ kind }}> = Api::all(self.client.clone());
{%- endif %}
{%- if scale %}
        let status = json!({ "observedGeneration": generation, "replicas": object.spec.replicas.unwrap_or(1) });
{%- else %}
        let status = json!({ "observedGeneration": generation });
{%- endif %}
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&object.name_any(), &PatchParams::default(), &patch)
            .await?;
{%- endif %}
        Ok(Action::await_change())
    }
}

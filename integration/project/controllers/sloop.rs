//! The controller of Sloop.

use std::sync::Arc;

use apis::sails::v1beta1;
use kindom_controller::{Action, Context, Controller, Error};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;

#[cfg(test)]
#[path = "sloop_test.rs"]
mod tests;

/// Brings the world closer to what each Sloop says.
pub struct SloopController {
    client: Client,
}

impl Controller for SloopController {
    type Resource = v1beta1::Sloop;

    async fn init(context: &Context) -> Result<Self, Error> {
        Ok(Self {
            client: context.client(),
        })
    }

    /// Acts on an object as it is now; what it was, and which change led here, is not known. A call that failed is repeated.
    async fn reconcile(&self, object: Arc<v1beta1::Sloop>) -> Result<Action, Error> {
        tracing::info!(name = object.name_any(), "seen");
        let generation = object.metadata.generation;
        let status = object.status.as_ref();
        if status.and_then(|status| status.observed_generation) == generation {
            return Ok(Action::await_change());
        }
        // What the spec asks for is done here, before the status says that it is.
        let namespace = object.namespace().ok_or("an object without a namespace")?;
        let api: Api<v1beta1::Sloop> = Api::namespaced(self.client.clone(), &namespace);
        let status = json!({ "observedGeneration": generation, "replicas": object.spec.replicas.unwrap_or(1) });
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&object.name_any(), &PatchParams::default(), &patch)
            .await?;
        Ok(Action::await_change())
    }
}

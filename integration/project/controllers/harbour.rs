//! The controller of Harbour.

use std::sync::Arc;

use apis::ports::v1alpha1;
use kindom_controller::{Action, Context, Controller, Error};
use kube::ResourceExt as _;

#[cfg(test)]
#[path = "harbour_test.rs"]
mod tests;

/// Brings the world closer to what each Harbour says.
pub struct HarbourController;

impl Controller for HarbourController {
    type Resource = v1alpha1::Harbour;

    async fn init(_: &Context) -> Result<Self, Error> {
        Ok(Self)
    }

    /// Acts on an object as it is now; what it was, and which change led here, is not known. A call that failed is repeated.
    async fn reconcile(&self, object: Arc<v1alpha1::Harbour>) -> Result<Action, Error> {
        tracing::info!(name = object.name_any(), "seen");
        Ok(Action::await_change())
    }
}

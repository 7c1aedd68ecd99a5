//! The finalizer of a controller: on every object before its first call, and off it after the clean-up.

use std::sync::Arc;

use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::Resource;
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::{Client, ResourceExt as _};

use crate::controller::Controller;
use crate::{Error, Failed};

/// Calls a controller for an object, and keeps the object's finalizer.
///
/// # Errors
/// Those of the call, and of writing the finalizer.
pub(crate) async fn call<C: Controller>(
    controller: &C,
    client: &Client,
    object: Arc<C::Resource>,
) -> Result<Action, Error> {
    let Some(name) = C::FINALIZER else { return controller.reconcile(object).await };
    // Of the object only its metadata matters here; a dynamic one may live in a namespace or not.
    let kind = ApiResource::erase::<C::Resource>(&());
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    };
    let mut shell = DynamicObject::new("", &kind);
    shell.metadata = object.meta().clone();
    let called = finalizer(&api, name, Arc::new(shell), |event| async move {
        let done = match event {
            Event::Apply(_) => controller.reconcile(object).await,
            Event::Cleanup(_) => controller.finalize(object).await.map(|()| Action::await_change()),
        };
        done.map_err(Failed)
    });
    Ok(called.await?)
}

//! The contract of a controller.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use kube::Resource;
use kube::runtime::controller::Action;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::context::Context;

/// Brings the world closer to what the objects of a kind say.
///
/// # Contract
/// - A call may be repeated at any time, also after one that succeeded: it looks at what there is before it acts.
/// - What a call needs to know of earlier ones is in the object's status or in the world, not in the controller's memory.
pub trait Controller: Sized + Send + Sync + 'static {
    /// The kind.
    type Resource: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static;

    /// The finalizer that objects get before the first call, for a controller that cleans up after them.
    const FINALIZER: Option<&'static str> = None;

    /// Makes the controller, once, when the manager starts (B-40).
    ///
    /// # Errors
    /// The manager does not start.
    fn init(context: &Context) -> impl Future<Output = Result<Self, Error>> + Send;

    /// Adds what else is watched: the objects that those of the kind own ([`owns`](kube::runtime::Controller::owns)), or others
    /// that concern them ([`watches`](kube::runtime::Controller::watches)). By default nothing.
    fn watch(
        _context: &Context,
        triggers: kube::runtime::Controller<Self::Resource>,
    ) -> kube::runtime::Controller<Self::Resource> {
        triggers
    }

    /// Brings the world closer to what the object says; returns when to look again if nothing changes.
    ///
    /// # Errors
    /// The call is repeated after a while.
    fn reconcile(&self, object: Arc<Self::Resource>) -> impl Future<Output = Result<Action, Error>> + Send;

    /// Cleans up after an object that is to go, before its [finalizer](Self::FINALIZER) is taken away.
    ///
    /// # Errors
    /// The object stays, and the call is repeated after a while.
    fn finalize(&self, _object: Arc<Self::Resource>) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }
}

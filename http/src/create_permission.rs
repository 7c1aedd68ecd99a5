//! The permission to create, of requests whose verb is another: an apply, or a PUT of a kind that allows it, of an object that
//! does not exist (apiserver `pkg/endpoints/handlers/update.go` `withAuthorization`, 1.37).
//!
//! Only the plan of a request shows that it creates, and a plan waits for nobody. So a plan that would create without a
//! permission is refused, the host is asked, and the request is planned again.

use std::sync::atomic::{AtomicU8, Ordering};

use kindom_api::selector::{FieldSelector, LabelSelector};
use kindom_objects::{PlanError, Refusal};

use crate::authn::{AccessQuestion, Attributes};
use crate::call::Call;
use crate::request_info::Verb;
use crate::status::Failure;

const UNASKED: u8 = 0;
const NEEDED: u8 = 1;
const GRANTED: u8 = 2;

/// A plan would create an object, and nobody has asked if the user may.
#[derive(Debug, thiserror::Error)]
#[error("the permission to create the object is not known")]
struct Unasked;

/// The permission to create, as far as a request has asked for it.
pub(crate) struct CreatePermission(AtomicU8);

impl CreatePermission {
    /// Granted from the start unless a host decides.
    pub(crate) fn of(call: &Call<'_>) -> Self {
        let asks = call.state.delegation.authorization.is_some();
        Self(AtomicU8::new(if asks { UNASKED } else { GRANTED }))
    }

    /// To be called by a plan that would create.
    ///
    /// # Errors
    /// The host has to be asked first.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        if self.0.load(Ordering::Relaxed) == GRANTED {
            return Ok(());
        }
        self.0.store(NEEDED, Ordering::Relaxed);
        Err(PlanError::Caller(Refusal::new(Unasked)))
    }

    /// Asks the host if a plan has needed the permission; then returns `true`: the request is to be planned again.
    ///
    /// # Errors
    /// The user may not create the object, or nobody knows.
    pub(crate) async fn ask(&self, call: &Call<'_>) -> Result<bool, Failure> {
        let Some(host) = &call.state.delegation.authorization else { return Ok(false) };
        if self.0.load(Ordering::Relaxed) != NEEDED {
            return Ok(false);
        }
        let info = call.info;
        let attributes = Attributes::Resource {
            verb: Verb::Create.as_str(),
            group: &info.resource.group,
            resource: &info.resource.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
        };
        let question = AccessQuestion {
            user: &call.user,
            attributes,
            version: &info.resource.version,
            fields: FieldSelector::default(),
            labels: LabelSelector::default(),
        };
        match host.authorize(question).await {
            Ok(()) => self.0.store(GRANTED, Ordering::Relaxed),
            Err(refused) => return Err(Failure::create_refused(refused)),
        }
        Ok(true)
    }
}

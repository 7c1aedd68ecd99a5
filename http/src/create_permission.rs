//! The permission to create, of requests whose verb is another: an apply, or a PUT of a kind that allows it, of an object that
//! does not exist (apiserver `pkg/endpoints/handlers/update.go` `withAuthorization`, 1.37).
//!
//! Only the plan of a request shows that it creates, and a plan waits for nobody. So a plan that would create without a
//! permission is refused, whoever decides is asked, and the request is planned again: without any effect if the user may not, as what
//! is wrong with the object is told before.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, Ordering};

use kindom_api::selector::{FieldSelector, LabelSelector};
use kindom_objects::admission::AdmissionRefusal;
use kindom_objects::{PlanError, Refusal};
use kindom_resource_actor::{WriteError, WriteOptions as Options};

use crate::authn::{AccessQuestion, Attributes, Refused};
use crate::call::Call;
use crate::request_info::Verb;
use crate::status::Failure;
use crate::writing::Ended;

const UNASKED: u8 = 0;
const NEEDED: u8 = 1;
const GRANTED: u8 = 2;
/// The user may not, and the plan is only tried.
const WITHHELD: u8 = 3;
/// Such a plan has created.
const TRIED: u8 = 4;

/// A plan would create an object, and nobody has asked if the user may.
#[derive(Debug, thiserror::Error)]
#[error("the permission to create the object is not known")]
struct Unasked;

/// The permission to create, as far as a request has asked for it.
pub(crate) struct CreatePermission {
    state: AtomicU8,
    refusal: Option<Failure>,
}

impl CreatePermission {
    /// Granted from the start unless somebody decides.
    pub(crate) fn of(call: &Call<'_>) -> Self {
        let asks = call.state.delegation.authorization.is_some();
        Self { state: AtomicU8::new(if asks { UNASKED } else { GRANTED }), refusal: None }
    }

    /// To be called by a plan that would create.
    ///
    /// # Errors
    /// The permission has to be asked for first.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let next = match self.state.load(Ordering::Relaxed) {
            GRANTED => GRANTED,
            WITHHELD | TRIED => TRIED,
            _ => NEEDED,
        };
        self.state.store(next, Ordering::Relaxed);
        if next == NEEDED { Err(PlanError::Caller(Refusal::new(Unasked))) } else { Ok(()) }
    }

    /// The options of the next plan, which may have no effect without a permission.
    pub(crate) fn options(&self, options: Options) -> Options {
        let is_trial = self.refusal.is_some();
        // Upstream counts quotas and judges behind the permission alone.
        let quotas = options.quotas.filter(|_| !is_trial);
        Options { dry_run: options.dry_run || is_trial, is_trial, quotas, ..options }
    }

    /// The end of the request, by that of a plan; or else the request is to be planned again.
    pub(crate) async fn after(&mut self, call: &Call<'_>, ended: Ended) -> ControlFlow<Ended> {
        let state = self.state.load(Ordering::Relaxed);
        if let Some(refusal) = self.refusal.take() {
            if state != TRIED && ended.written.is_ok() {
                // Somebody has created the object meanwhile, and this user may change it.
                self.state.store(UNASKED, Ordering::Relaxed);
                return ControlFlow::Continue(());
            }
            let is_wrong = ended.written.as_ref().is_err_and(|why| !is_of_trial(why));
            return ControlFlow::Break(if is_wrong {
                ended
            } else {
                Ended { written: Err(refusal), ..ended }
            });
        }
        if state != NEEDED {
            return ControlFlow::Break(ended);
        }
        match may_create(call).await {
            Ok(()) => self.state.store(GRANTED, Ordering::Relaxed),
            Err(refused @ Refused::Denied(_)) => {
                self.refusal = Some(Failure::create_refused(refused));
                self.state.store(WITHHELD, Ordering::Relaxed);
            }
            Err(refused) => {
                return ControlFlow::Break(Ended { written: Err(Failure::create_refused(refused)), ..ended });
            }
        }
        ControlFlow::Continue(())
    }
}

/// `true` for what befell a plan only because it is without effect.
fn is_of_trial(why: &Failure) -> bool {
    match why {
        Failure::Warned(why, _) => is_of_trial(why),
        Failure::Write(error, ..) => {
            matches!(&**error, WriteError::Plan(PlanError::Refused(refusal)) if matches!(**refusal, AdmissionRefusal::NoDryRun { .. }))
        }
        _ => false,
    }
}

async fn may_create(call: &Call<'_>) -> Result<(), Refused> {
    let Some(authorization) = &call.state.delegation.authorization else { return Ok(()) };
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
        wants_reason: false,
    };
    authorization.authorize(question).await.map(drop)
}

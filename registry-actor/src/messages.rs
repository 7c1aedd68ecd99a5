//! The messages to the registry.

use std::sync::Arc;

use kindom_api::crd::CustomResourceDefinition;
use kindom_objects::StoredObject;
use kindom_resource_actor::ResourceHandle;
use kindom_storage::Revision;

use crate::claims::Verdict;

/// From the conflict actor: asks for the verdicts on names that change the stored status.
pub(crate) struct JudgeNames {
    /// At most so many.
    pub(crate) max: usize,
}

/// From the finalizer actor: which registrations are being deleted?
pub(crate) struct ListTerminating;

/// From the aggregator: the group-versions of other servers, which are in the shared state, are others.
pub(crate) struct ClaimElsewhere;

/// From the storage version actor: which registrations may have objects in another version than the storage version?
pub(crate) struct ListOutdated;

/// From the finalizer actor: every registration, served or not.
pub(crate) struct ListRegistered;

/// The due verdicts, and `true` if the caller should ask again even if there are none: one turn judges only so many.
pub(crate) struct Dues {
    pub(crate) due: Vec<Due>,
    pub(crate) more: bool,
}

/// A verdict on the names of a registration, as the actor gives it: the caller decodes the registration, which would exceed the turn budget.
pub(crate) struct Due {
    pub(crate) name: String,
    pub(crate) object: Arc<StoredObject>,
    pub(crate) verdict: Verdict,
    pub(crate) folded: Revision,
}

/// A verdict on the names of a registration, and the state that it was judged on.
pub struct Judgement {
    /// The registration's name.
    pub name: String,
    /// The registration as it was seen.
    pub object: Arc<StoredObject>,
    /// The same, decoded.
    pub crd: Box<CustomResourceDefinition>,
    /// The decision.
    pub verdict: Verdict,
    /// Everything up to this revision was taken into account.
    pub folded: Revision,
}

/// A registration with the type that it registers.
#[derive(Clone)]
pub struct Registered {
    /// The registration's name.
    pub name: String,
    /// The type; none if the stored bytes describe none, or one that is built in.
    pub handle: Option<ResourceHandle>,
    /// The registration as it was seen.
    pub object: Arc<StoredObject>,
    /// Its group and plural are a built-in type's, whose objects are not its own.
    pub built_in: bool,
}

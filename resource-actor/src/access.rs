//! The permissions that expressions ask for, and that are asked for between two evaluations.

use std::collections::HashMap;
use std::sync::Arc;

use kindom_api::User;
use kindom_objects::admission::{Check, CheckedOn, Checks, Decision};
use kindom_objects::review::{Access, Action};
use parking_lot::Mutex;

/// The answers of a request so far, and the question that an evaluation has ended with.
#[derive(Debug, Default)]
pub(crate) struct AskedChecks {
    answers: Mutex<HashMap<Check, Decision>>,
    pending: Mutex<Option<Check>>,
}

impl Checks for AskedChecks {
    fn decision(&self, check: &Check) -> Option<Decision> {
        let known = self.answers.lock().get(check).cloned();
        if known.is_none() {
            *self.pending.lock() = Some(check.clone());
        }
        known
    }
}

impl AskedChecks {
    /// The question that an evaluation has ended with.
    pub(crate) fn take_pending(&self) -> Option<Check> {
        self.pending.lock().take()
    }

    /// Answers it for the next evaluation.
    pub(crate) fn answer(&self, check: Check, access: Access) {
        let Access { allowed, reason, error, .. } = access;
        let error = Some(error).filter(|error| !error.is_empty());
        self.answers.lock().insert(check, Decision { allowed, reason, error });
    }
}

/// The one whom a check is about, and what he would do.
pub(crate) fn question(check: &Check, user: &Arc<User>) -> (Arc<User>, Action) {
    let user = match &check.account {
        None => Arc::clone(user),
        Some((namespace, name)) => Arc::new(User::service_account(namespace, name)),
    };
    let verb = check.verb.clone();
    let action = match &check.on {
        CheckedOn::Path(path) => Action::Path { verb, path: path.clone() },
        CheckedOn::Resource(on) => Action::Resource {
            verb,
            group: on.group.clone(),
            resource: on.resource.clone(),
            subresource: on.subresource.clone(),
            namespace: on.namespace.clone(),
            name: on.name.clone(),
            version: "*".to_owned(),
            selectors: [on.fields.clone(), on.labels.clone()],
        },
    };
    (user, action)
}

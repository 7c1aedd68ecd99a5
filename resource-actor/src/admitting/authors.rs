//! Whoever writes a policy or a binding has to be able to read its parameters, which the server reads for him.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kindom_actor_kit::back;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::{GroupVersionKind, Value, json};
use kindom_objects::parameters::{ParameterKind, ParameterRead, ParameterResource};
use kindom_objects::{PlanError, StoredObject};

use super::is_of_policies;
use crate::ResourceHandle;
use crate::admission::AskedAdmission;
use crate::driver::{Attempt, Step};
use crate::error::WriteError;
use crate::request::{Target, WriteOptions};

impl ResourceHandle {
    /// Refuses the new state of a policy or a binding if its author may not read the parameters; `None` for all other writes.
    ///
    /// Boxed: the future of every write would have room for it.
    pub(crate) fn parameters_asked<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        step: &'a Step,
        target: &'a Target<'a>,
        options: &'a WriteOptions,
    ) -> Option<BoxFuture<'a, Result<(), WriteError>>> {
        let asked = options.admission.as_ref()?;
        if !is_of_policies(&attempt.rules.spec) || target.subresource.is_some() {
            return None;
        }
        let Step::Commit(_) = step else { return None };
        let new = tree(&*step.new_state()?)?;
        let old = attempt.current.and_then(|current| tree(current));
        let read = attempt.rules.spec.strategy.parameters_read(&new, old.as_ref())?;
        let name = new.text_at(&["metadata", "name"]).to_owned();
        Some(may_read(read, name, asked, options).boxed())
    }
}

fn tree(object: &StoredObject) -> Option<Value> {
    json::parse_own(object.json()).ok()
}

async fn may_read(
    read: ParameterRead,
    name: String,
    asked: &AskedAdmission,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    back().await;
    let configurations = asked.admission.configurations();
    let plural = |kind: &GroupVersionKind| {
        let found = (configurations.find_kind)(kind)?.spec()?;
        Some(found.names.plural.clone())
    };
    let of = match &read.kind {
        ParameterKind::Named { api_version, kind } => ParameterResource::of_kind(api_version, kind, plural),
        ParameterKind::OfPolicy(policy) => {
            let policies = match read.is_of_changes {
                true => &configurations.changing,
                false => &configurations.judging,
            };
            let found = policies.policy(policy, options.deadline).await?.and_then(|policy| tree(&policy));
            found.map_or(ParameterResource::Absent, |policy| ParameterResource::of_policy(&policy, plural))
        }
    };
    let access = Arc::clone(&asked.access).decide(Arc::clone(&options.user), read.action(&of)).await;
    let Some(why) = read.refusal(&of, &options.user, &access) else { return Ok(()) };
    let mut errors = ErrorList::new();
    errors.push(Error::forbidden(&Path::new("spec").child(read.field), why));
    Err(PlanError::Invalid { name, errors }.into())
}

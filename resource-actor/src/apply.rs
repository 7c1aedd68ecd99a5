//! Server-side apply (KEP-555): of a configuration, merged into what is stored or into nothing.

use std::sync::Arc;

use kindom_api::Value;

use crate::error::WriteError;
use crate::managed::{FieldManager, Managing};
use crate::render::decode;
use crate::write::{Change, New, Tried};
use crate::{ResourceHandle, Target, TypeSpec, WriteOptions, Written};

/// What is checked of an object that an apply made, and may still be put right, before it is planned; `creates` says whether it is new.
pub type Check<'a> = dyn FnMut(&mut Value, bool) -> Result<(), WriteError> + Send + 'a;

/// An apply.
pub struct Apply<'a> {
    /// The configuration as it was sent, or why it is none: upstream decodes it only once it knows whether there is an
    /// object (`applyPatcher.applyPatchToCurrentObject`).
    pub patch: Result<Value, WriteError>,
    /// Take over fields that others manage.
    pub force: bool,
    /// What is checked of the object that was made, again after every lost race.
    pub check: &'a mut Check<'a>,
}

impl ResourceHandle {
    /// Applies a configuration: to the object of that name, or to none, which creates it; but never through a
    /// subresource.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn apply(
        &self,
        target: Target<'_>,
        apply: &mut Apply<'_>,
        options: &WriteOptions,
    ) -> Result<Written, WriteError> {
        let deps = Arc::clone(self.deps());
        let uid = deps.entropy.uuid_v4();
        let key = TypeSpec::object_key(target.namespace, target.name);
        let mut plans = options.plans();
        loop {
            let rules = self.rules(target.version, plans.next()?)?;
            let cx = rules.context(&target);
            let current = self.found(&key, &rules, options.deadline).await?;
            if current.is_none() && target.subresource.is_some() {
                return Err(WriteError::NotFound { name: target.name.to_owned() });
            }
            let shown = match &current {
                Some(current) => Some(decode(&rules.spec, rules.version()?, current)?),
                None => None,
            };
            let patch = apply.patch.as_ref().map_err(Clone::clone)?;
            let errors = rules.spec.strategy.refuse_configuration(patch);
            if !errors.is_empty() {
                return Err(WriteError::Invalid { name: target.name.to_owned(), errors });
            }
            let mut object =
                FieldManager::new(&cx).apply(shown.as_ref(), patch, &options.manager, apply.force)?;
            (apply.check)(&mut object, current.is_none())?;
            let tried = match (current, shown) {
                (Some(current), Some(shown)) => {
                    rules.refuse_frozen(target.name)?;
                    let change = Change { object, is_patch: true, managing: Managing::Applied };
                    self.try_update(&rules, &target, &current, shown, change, options).await?
                }
                _ => {
                    let new = New { uid: &uid, name_suffix: "" };
                    self.try_create(&rules, &target, object, &new, Managing::Applied, options).await?
                }
            };
            match tried {
                Tried::Done(written) => return Ok(written),
                Tried::TooLarge(error) => return Err(error),
                // It is there now: then it is applied to that.
                Tried::Taken { .. } | Tried::Lost => {
                    if options.deadline.passed() {
                        let why = "timed out: the object kept changing".to_owned();
                        return Err(WriteError::Unavailable(why));
                    }
                }
            }
        }
    }
}

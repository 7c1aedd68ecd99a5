//! Server-side apply (KEP-555): a configuration is merged into the stored object, or into nothing.

use kindom_api::Value;

use crate::driver::{Attempt, Desired, New};
use crate::error::WriteError;
use crate::{ResourceHandle, Target, WriteOptions, Written};
use kindom_objects::PlanError;
use kindom_objects::admission::Operation;
use kindom_objects::managed::{FieldManager, Managing};
use kindom_objects::pipeline::{admit, manage};
use kindom_objects::stages::Stage;

/// Checks an object that an apply made, before it is planned; it may still correct it. `creates` is `true` if the object is
/// new.
pub type Check<'a> = dyn FnMut(&mut Value, bool) -> Result<(), WriteError> + Send + 'a;

/// An apply.
pub struct Apply<'a> {
    /// The configuration as it was sent, or the reason why it is none: upstream decodes it only once it knows if there is an
    /// object (`applyPatcher.applyPatchToCurrentObject`).
    pub patch: Result<Value, PlanError>,
    /// Take over fields that others manage.
    pub force: bool,
    /// Checks the merged object, again after every lost race.
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
        let uid = self.deps().entropy.uuid_v4();
        let mut desire = |attempt: &Attempt<'_>| {
            let (rules, cx) = (attempt.rules, attempt.cx);
            if attempt.current.is_none() && target.subresource.is_some() {
                return Err(PlanError::NotFound { name: target.name.to_owned() }.into());
            }
            let shown = attempt.current.map(|current| attempt.shown(current)).transpose()?;
            let patch = apply.patch.as_ref().map_err(Clone::clone)?;
            let errors = rules.spec.strategy.refuse_configuration(patch);
            if !errors.is_empty() {
                return Err(PlanError::Invalid { name: target.name.to_owned(), errors }.into());
            }
            let manager = FieldManager::new(cx);
            let mut object = manager.apply(shown.as_ref(), patch, &options.manager, apply.force)?;
            (apply.check)(&mut object, shown.is_none())?;
            cx.passed(Stage::Patch, Some(&object));
            match shown {
                Some(shown) => {
                    admit(&rules.spec, Operation::Update, target.name)?;
                    attempt.update(&target, object, shown, true, Managing::Applied)
                }
                None => {
                    let object = manage(cx, object, None, Managing::Applied)?;
                    let name_suffix = String::new();
                    Ok(Desired::Create(New { object, uid: &uid, name_suffix, instead_of_update: true }))
                }
            }
        };
        self.run(&target, options, false, &mut desire).await
    }
}

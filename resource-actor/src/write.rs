//! Creates, updates and deletes of objects: what each desires; [`crate::driver`] carries it out.

use kindom_api::Value;

use crate::driver::{Attempt, Desired, New};
use crate::error::WriteError;
use crate::request::{Target, Wanted, WriteOptions, Written};
use crate::{Apply, ResourceHandle};
use kindom_objects::Removal;
use kindom_objects::admission::Operation;
use kindom_objects::managed::Managing;
use kindom_objects::metadata::metadata_mut;
use kindom_objects::pipeline::{admit, manage};
use kindom_objects::plan;

/// A write of one object.
pub enum Write<'a> {
    /// Of a new object.
    Create(&'a mut Wanted<'a>),
    /// Of another state of the object.
    Update(&'a mut Wanted<'a>),
    /// Of a state that is made from the stored one.
    Patch(&'a mut Wanted<'a>),
    /// By a configuration.
    Apply(&'a mut Apply<'a>),
    /// Of another Scale of the object; with the uid that the client knows.
    UpdateScale(Option<&'a str>, &'a mut Wanted<'a>),
    /// By a configuration of the object's Scale.
    ApplyScale(&'a mut Apply<'a>),
    /// The object's end.
    Delete(&'a Removal),
    /// The end of bytes that are no object.
    DeleteCorrupt,
}

impl ResourceHandle {
    /// Carries out any write.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write(
        &self,
        target: Target<'_>,
        write: &mut Write<'_>,
        options: &WriteOptions,
    ) -> Result<Written, WriteError> {
        match write {
            Write::Create(wanted) => self.create(target, *wanted, options).await,
            Write::Update(wanted) => self.update(target, false, *wanted, options).await,
            Write::Patch(wanted) => self.update(target, true, *wanted, options).await,
            Write::Apply(apply) => self.apply(target, apply, options).await,
            Write::UpdateScale(uid, wanted) => self.update_scale(target, *uid, *wanted, options).await,
            Write::ApplyScale(apply) => self.apply_scale(target, apply, options).await,
            Write::Delete(removal) => self.delete(target, removal, options).await,
            Write::DeleteCorrupt => self.delete_corrupt(target, options).await,
        }
    }

    /// Creates an object. `wanted` gets `null` as the stored object.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn create(
        &self,
        target: Target<'_>,
        wanted: &mut Wanted<'_>,
        options: &WriteOptions,
    ) -> Result<Written, WriteError> {
        // The object is looked for under the name that it will have.
        let target = Target { name: "", ..target };
        let deps = self.deps();
        let uid = deps.entropy.uuid_v4();
        let mut desire = |attempt: &Attempt<'_>| {
            let mut object = wanted(attempt.cx, &Value::Null)?;
            plan::wipe(metadata_mut(&mut object));
            let managing = Managing::update(&options.manager, attempt.strip);
            let object = manage(attempt.cx, object, None, managing)?;
            let name_suffix = deps.entropy.name_suffix();
            Ok(Desired::Create(New { object, uid: &uid, name_suffix, instead_of_update: false }))
        };
        self.run(&target, options, true, &mut desire).await
    }

    /// Updates an object to what `wanted` makes of it. If there is none, a PUT of a kind that allows it creates the object.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn update(
        &self,
        target: Target<'_>,
        is_patch: bool,
        wanted: &mut Wanted<'_>,
        options: &WriteOptions,
    ) -> Result<Written, WriteError> {
        let uid = self.deps().entropy.uuid_v4();
        let mut desire = |attempt: &Attempt<'_>| {
            let current = match attempt.existing(&target) {
                Ok(current) => current,
                Err(missing) if is_patch => return Err(missing),
                Err(missing) => {
                    // An error in the client's object is reported before the object's absence.
                    let mut object = wanted(attempt.cx, &Value::Null)?;
                    if !attempt.rules.spec.strategy.allows_create_on_update() {
                        return Err(missing);
                    }
                    let uid_sent =
                        object.at(&["metadata", "uid"]).and_then(Value::as_str).unwrap_or_default();
                    plan::check_uid(attempt.cx, target.namespace, target.name, uid_sent, "")?;
                    plan::wipe(metadata_mut(&mut object));
                    let managing = Managing::update(&options.manager, attempt.strip);
                    let object = manage(attempt.cx, object, None, managing)?;
                    let name_suffix = String::new();
                    return Ok(Desired::Create(New {
                        object,
                        uid: &uid,
                        name_suffix,
                        instead_of_update: true,
                    }));
                }
            };
            let shown = attempt.shown(current)?;
            let object = wanted(attempt.cx, &shown)?;
            admit(&attempt.rules.spec, Operation::Update, target.name)?;
            let managing = Managing::update(&options.manager, attempt.strip);
            attempt.update(&target, object, shown, is_patch, managing)
        };
        self.run(&target, options, true, &mut desire).await
    }

    /// Deletes an object, or marks it as being deleted where finalizers hold it.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete(
        &self,
        target: Target<'_>,
        removal: &Removal,
        options: &WriteOptions,
    ) -> Result<Written, WriteError> {
        self.run(&target, options, false, &mut |_| Ok(Desired::Delete(removal))).await
    }

    /// Deletes an object whose stored bytes are no object, without regard to finalizers, preconditions or anything else; it
    /// deletes no other object (apiserver `pkg/registry/generic/registry/corrupt_obj_deleter.go`, 1.37).
    ///
    /// # Errors
    /// [`PlanError::Conflict`] for an object that can be read. See [`WriteError`].
    pub async fn delete_corrupt(
        &self,
        target: Target<'_>,
        options: &WriteOptions,
    ) -> Result<Written, WriteError> {
        self.run(&target, options, false, &mut |_| Ok(Desired::DeleteCorrupt)).await
    }
}

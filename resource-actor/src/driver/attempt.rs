//! The state that one attempt at a write starts from, and the one that the write desires.

use std::sync::Arc;

use kindom_api::Value;
use kindom_objects::managed::Managing;
use kindom_objects::pipeline::{Replaced, manage};
use kindom_objects::render::decode;
use kindom_objects::stages::Stage;
use kindom_objects::{PlanError, Removal, RuleContext, StoredObject};

use crate::error::WriteError;
use crate::request::Target;
use crate::rules::Rules;

/// The state that one attempt at a write starts from.
pub(crate) struct Attempt<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) cx: &'a RuleContext<'a>,
    /// The object stored under the target's name.
    pub(crate) current: Option<&'a Arc<StoredObject>>,
    /// The object turned out to be too large with its managedFields: they go (apiserver `handlers`, `isTooLargeError`).
    pub(crate) strip: bool,
}

impl Attempt<'_> {
    /// The object as the request's version shows it.
    pub(crate) fn shown(&self, current: &StoredObject) -> Result<Value, WriteError> {
        let shown = decode(&self.rules.spec, self.rules.version()?, current)?;
        self.cx.passed(Stage::Read, Some(&shown));
        Ok(shown)
    }

    /// An update of the existing object, which the request's version shows as `shown`, to one of the same version.
    pub(crate) fn update<'d>(
        &self,
        target: &Target<'_>,
        object: Value,
        shown: Value,
        is_patch: bool,
        managing: Managing<'_>,
    ) -> Result<Desired<'d>, WriteError> {
        let live = Replaced::new(&self.rules.spec, self.existing(target)?, shown)?;
        let object = manage(self.cx, object, Some(&live), managing)?;
        Ok(Desired::Update { object, live, is_patch, scales: None })
    }

    /// The stored object, or the 404 of a write that needs one.
    pub(crate) fn existing(&self, target: &Target<'_>) -> Result<&StoredObject, WriteError> {
        self.current
            .map(|found| &**found)
            .ok_or_else(|| PlanError::NotFound { name: target.name.to_owned() }.into())
    }
}

/// The state that a write desires, given the state that an attempt found; objects are in the form that plans are made on,
/// with their managedFields.
pub(crate) enum Desired<'a> {
    /// A new object.
    Create(New<'a>),
    /// Another state of the object.
    Update {
        object: Value,
        /// The state that it replaces.
        live: Replaced,
        /// It was made from `live`.
        is_patch: bool,
        /// The Scales through which it is written, if it is.
        scales: Option<Box<Scales>>,
    },
    /// The object's end, or the mark of its deletion.
    Delete(&'a Removal),
    /// The end of bytes that are no object.
    DeleteCorrupt,
}

/// The Scale that is written, and the one that it replaces.
pub(crate) struct Scales {
    pub(crate) old: Value,
    pub(crate) new: Value,
}

/// A new object.
pub(crate) struct New<'a> {
    pub(crate) object: Value,
    pub(crate) uid: &'a str,
    /// The end of a generated name.
    pub(crate) name_suffix: String,
    /// The write would have updated an object of the name: an apply, or a PUT. If somebody creates the object first, it
    /// updates that one.
    pub(crate) instead_of_update: bool,
}

//! The stages of a write, in upstream's order and by its names, and those that need no kind's own rules.
//!
//! | stage | what happens | where |
//! |---|---|---|
//! | decode, default | bytes become a tree in the version's shape; its strict errors are told | `http`'s `decoding`, by `Strategy::decode` |
//! | manage | the changed fields get their managers (KEP-555); the object gets the form that plans are made on, and its values those that a registration names | [`manage`] |
//! | admit (mutating) | the namespace exists and is not going; the type is not going and not frozen; the kind's plugins, policies and webhooks change the object | the driver, [`admit`], `Strategy::admit`, and [`admission`](crate::admission) |
//! | prepare | the server's own fields are set, and kept where a client may not change them | `plan`, `Strategy::prepare_for_…` |
//! | validate | every error in the object and in the change, together | `plan`, `Strategy::validate…` |
//! | canonicalize | the valid object gets the form that is stored and shown (B-22) | `plan`, `Strategy::canonicalize` |
//! | admit (validating) | the kind's plugins, limits of rates, policies and webhooks judge the object | `Strategy::judge`, the driver, and [`admission`](crate::admission) |
//! | encode | the object becomes bytes of the storage version | [`encode`](crate::render::encode) |
//! | plan | the bytes, and the guards that must hold when they are committed | the driver |
//!
//! Sources: apiserver `pkg/endpoints/handlers/{create,update}.go`, `pkg/registry/rest/{create,update}.go` (1.37); the admit
//! stages may wait for somebody, so the driver, which is asynchronous there and nowhere else, has them.

use kindom_api::Value;

use crate::admission::Operation;
use crate::confinement::confine;
use crate::conversion::Conversion;
use crate::error::PlanError;
use crate::managed::{FieldManager, Managing};
use crate::metadata::metadata_mut;
use crate::registration::READ_ONLY_ANNOTATION;
use crate::render::stored;
use crate::stages::Stage;
use crate::{RuleContext, StoredObject, TypeSpec};

impl RuleContext<'_> {
    /// Tells that a stage has passed.
    pub fn passed(&self, stage: Stage, object: Option<&Value>) {
        self.passed_by(stage, String::new, object);
    }

    /// Tells that a plugin, a policy or a webhook was asked in a stage.
    pub fn passed_by(&self, stage: Stage, by: impl FnOnce() -> String, object: Option<&Value>) {
        if let Some(witness) = self.witness {
            witness.passed(stage, &by(), object);
        }
    }

    /// Tells that the object has another form from here on.
    pub fn reshaped(&self, object: &Value) {
        if let Some(witness) = self.witness {
            witness.reshaped(object);
        }
    }
}

/// The state that an update replaces.
pub struct Replaced {
    /// In the form that plans are made on.
    pub old: Value,
    /// As the request's version shows it, where that is another.
    shown: Option<Value>,
}

impl Replaced {
    /// The state of a stored object, which the request's version shows as `shown`.
    ///
    /// # Errors
    /// [`PlanError::Corrupt`] for bytes that are no object.
    pub fn new(spec: &TypeSpec, current: &StoredObject, shown: Value) -> Result<Self, PlanError> {
        Ok(match spec.conversion {
            Conversion::Faces(_) => Self { old: stored(&spec.prefix, current)?, shown: Some(shown) },
            _ => Self { old: shown, shown: None },
        })
    }

    fn shown(&self) -> &Value {
        self.shown.as_ref().unwrap_or(&self.old)
    }
}

/// Records the managers of an object of the request's version that replaces another (none for a create), and brings it into
/// the form that plans are made on. What its endpoint does not write is as it was.
///
/// # Errors
/// [`PlanError::Invalid`] for fields that the stored form cannot hold, and as for a write that cannot be confined to its endpoint.
pub fn manage(
    cx: &RuleContext<'_>,
    mut object: Value,
    replaced: Option<&Replaced>,
    managing: Managing<'_>,
) -> Result<Value, PlanError> {
    let manager = FieldManager::new(cx);
    let shown = replaced.map(Replaced::shown);
    let Conversion::Faces(faces) = &cx.spec.conversion else {
        confine(cx, &mut object, shown)?;
        if let Some(forms) = cx.spec.canonical_forms() {
            forms.take(&mut object);
        }
        manager.manage(managing, shown, &mut object);
        cx.passed(Stage::Manage, Some(&object));
        return Ok(object);
    };
    let name = object.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default().to_owned();
    let read = |object| {
        let old = replaced.map(|replaced| &replaced.old);
        let read = faces.read(cx.version_name, object, old, cx.subresource);
        read.map_err(|errors| PlanError::Invalid { name, errors })
    };
    if matches!(managing, Managing::Applied) || faces.is_stored(cx.version_name) {
        manager.manage(managing, shown, &mut object);
        cx.passed(Stage::Manage, Some(&object));
        let stored = read(object)?;
        cx.reshaped(&stored);
        return Ok(stored);
    }
    // Parts that the face can express in two ways are managed in the one that it shows.
    let mut stored = read(object)?;
    let mut object = faces.show(cx.version_name, stored.clone());
    manager.manage(managing, shown, &mut object);
    cx.passed(Stage::Manage, Some(&object));
    let metadata = metadata_mut(&mut stored);
    match metadata_mut(&mut object).remove("managedFields") {
        Some(entries) => drop(metadata.insert("managedFields", entries)),
        None => drop(metadata.remove("managedFields")),
    }
    cx.reshaped(&stored);
    Ok(stored)
}

/// Admits a write of an object of this name to a type. The proposal's rules: none is created while the type goes, and none is
/// written while it is frozen (T-54). A guard refuses plans that were made before.
///
/// # Errors
/// [`PlanError::Forbidden`]
pub fn admit(spec: &TypeSpec, operation: Operation, name: &str) -> Result<(), PlanError> {
    let forbidden = |message: String| Err(PlanError::Forbidden { name: name.to_owned(), message });
    if operation == Operation::Create && spec.terminating() {
        return forbidden("create not allowed while custom resource definition is terminating".to_owned());
    }
    if spec.read_only() {
        let key = spec.registration.as_ref().map(|r| r.object.name()).unwrap_or_default();
        return forbidden(format!(
            "objects of this type are read-only (annotation {READ_ONLY_ANNOTATION} of its registration {key})"
        ));
    }
    Ok(())
}

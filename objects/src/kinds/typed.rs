//! The objects of a kind that a program is compiled with: those of a registered type, and beside their schema's the rules of a
//! type of the program's language (B-22 to B-35).
//!
//! The order of the stages is that of `plan`; in each, what a registration says comes before what the program says, so that a
//! hook never sees an object that the schema does not describe, unless that object is refused in any case.

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::ErrorList;

use super::custom::{CustomObjects, recount_generation};
use crate::confinement::is_of_part;
use crate::{Convert, ReadValue, RuleContext, Strategy, Subresource};

/// The rules that a program has for a kind. Objects are in the version of the request, with their `apiVersion` and `kind`. They change
/// neither these nor names, uid and the rest of `metadata` that is the server's.
///
/// A hook that panics fails the request, and nothing else. It may be called again for the same write, when that lost a race.
pub trait Hooks: Send + Sync {
    /// Fills in what the client left out, and the schema too (B-23 to B-25).
    fn apply_defaults(&self, cx: &RuleContext<'_>, object: &mut Value);

    /// Sets what only the server sets in a new object (B-26).
    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value);

    /// Sets what only the server sets in a changed object, and keeps what a client may not change (B-34).
    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value);

    /// The errors in a new object that its schema accepts (B-28, B-29), and the value that was read from it.
    fn validate(&self, cx: &RuleContext<'_>, object: &Value) -> (ErrorList, Option<ReadValue>);

    /// The errors in an object that replaces another, and in the change (B-33); the schema accepts both. Errors that the old one had
    /// already are let through, to `warnings`, as a schema's are (KEP-4008). Of a write to `/status` only the change is judged:
    /// a status is reported for whatever spec there is.
    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        warnings: &mut Vec<String>,
    ) -> ErrorList;

    /// Brings a valid object into the form that is stored and shown (B-30). `read` is the value in it, where that was read before.
    fn canonicalize(&self, cx: &RuleContext<'_>, object: &mut Value, read: Option<ReadValue>);
}

/// The objects of a registered type with hooks.
pub struct TypedObjects {
    hooks: Arc<dyn Hooks>,
    conversion: Option<Arc<dyn Convert>>,
}

impl TypedObjects {
    /// Objects with these hooks.
    #[must_use]
    pub fn new(hooks: Arc<dyn Hooks>) -> Self {
        Self { hooks, conversion: None }
    }

    /// Objects whose versions differ in more than `apiVersion`.
    #[must_use]
    pub fn converted_by(self, rules: Arc<dyn Convert>) -> Self {
        Self { conversion: Some(rules), ..self }
    }
}

/// True for a write that may change more than the status, which is the part of the program's hooks.
fn is_whole(cx: &RuleContext<'_>) -> bool {
    cx.subresource != Some(Subresource::Status)
}

impl Strategy for TypedObjects {
    fn is_of_program(&self) -> bool {
        true
    }

    fn conversion(&self) -> Option<Arc<dyn Convert>> {
        self.conversion.clone()
    }

    fn decode(
        &self,
        cx: &RuleContext<'_>,
        object: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<Vec<String>, String> {
        let warnings = CustomObjects.decode(cx, object, unknown)?;
        // A part is no object of the program's type; the whole gets its defaults once it is one.
        if !is_of_part(cx) {
            self.hooks.apply_defaults(cx, object);
        }
        Ok(warnings)
    }

    fn complete_applied(&self, cx: &RuleContext<'_>, object: &mut Value) -> Result<(), String> {
        CustomObjects.complete_applied(cx, object)?;
        self.hooks.apply_defaults(cx, object);
        Ok(())
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, api_version: &str) -> &'static [&'static str] {
        CustomObjects.reset_fields(cx, api_version)
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value) {
        CustomObjects.prepare_for_create(cx, object);
        self.hooks.prepare_for_create(cx, object);
    }

    fn validate(&self, cx: &RuleContext<'_>, object: &Value) -> ErrorList {
        self.validate_read(cx, object).0
    }

    fn validate_read(&self, cx: &RuleContext<'_>, object: &Value) -> (ErrorList, Option<ReadValue>) {
        let errors = CustomObjects.validate(cx, object);
        if errors.is_empty() { self.hooks.validate(cx, object) } else { (errors, None) }
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        CustomObjects.prepare_for_update(cx, object, old);
        if is_whole(cx) {
            self.hooks.prepare_for_update(cx, object, old);
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        warnings: &mut Vec<String>,
    ) -> ErrorList {
        let errors = CustomObjects.validate_update(cx, object, old, warnings);
        if errors.is_empty() { self.hooks.validate_update(cx, object, old, warnings) } else { errors }
    }

    fn canonicalize(&self, cx: &RuleContext<'_>, object: &mut Value) {
        self.canonicalize_read(cx, object, None);
    }

    fn canonicalize_read(&self, cx: &RuleContext<'_>, object: &mut Value, read: Option<ReadValue>) {
        self.hooks.canonicalize(cx, object, read);
        CustomObjects.canonicalize(cx, object);
    }

    fn canonicalize_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        self.canonicalize(cx, object);
        // The hooks may have taken the change back, or made one.
        if is_whole(cx) {
            recount_generation(cx, object, old);
        }
    }

    fn warnings(&self, cx: &RuleContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        CustomObjects.warnings(cx, object, old)
    }
}

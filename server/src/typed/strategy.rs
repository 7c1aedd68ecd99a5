//! The rules that a program writes for a kind.

use std::collections::BTreeMap;

use kindom_api::User;
use kindom_objects::{RuleContext, Subresource};

use super::absent::{Hook, absent};
use super::definition::Resource;
use super::errors::Errors;

/// The form of a kind in one version. Where a kind has several, `From` both ways leads between each and the one that hooks see
/// ([`Versions`](super::Versions)).
pub trait Version: Resource {
    /// Fills in what the client left out and its schema has no default for; what is filled in is stored (B-23 to B-25). By default
    /// nothing.
    fn apply_defaults(&mut self) {
        absent::<Self>(Hook::ApplyDefaults);
    }
}

/// The rules of a kind's objects, in the stages of a write: defaults, prepare, validate, canonicalize (B-22). Each has a default
/// that does nothing beyond what every kind gets: `status` is dropped from a create, and kept in a change, unless it comes
/// through `/status` (B-27); the schema is checked first.
///
/// The type that has them is the kind's only version, or the *hub* of several: what all of them convert to and from, which may be
/// one of them, or a type that no client sees (B-21, B-31).
///
/// # Contract
/// - They depend on their arguments alone. One that lost a race is called again. A hook gets the value that the one before it has left, or one that
///   is read from its JSON: what a type does not serialize does not count.
/// - What a hook changes in `metadata` counts for finalizers, labels, annotations and owner references; names, uid and the
///   like stay as they are.
/// - A panic fails the request that it happened in with a 500.
pub trait Strategy: Clone + Send + Sync + 'static {
    /// Sets what only the server sets in a new object, such as finalizers (B-26).
    fn prepare_for_create(&mut self, _cx: &Context<'_>) {
        absent::<Self>(Hook::PrepareForCreate);
    }

    /// Sets what only the server sets in a changed object, and keeps what a client may not change (B-34). Not called for
    /// `/status`.
    fn prepare_for_update(&mut self, _cx: &Context<'_>, _old: &Self) {
        absent::<Self>(Hook::PrepareForUpdate);
    }

    /// The errors in an object (B-28, B-29). For an update, too (B-32), but not for one of `/status`.
    fn validate(&self, _cx: &Context<'_>) -> Errors {
        Errors::none()
    }

    /// The errors in a change, beside those of [`validate`](Self::validate) (B-33).
    fn validate_update(&self, _cx: &Context<'_>, _old: &Self) -> Errors {
        absent::<Self>(Hook::ValidateUpdate);
        Errors::none()
    }

    /// Brings a valid object into the form that is stored and shown: sorts lists whose order means nothing, for instance (B-30).
    fn canonicalize(&mut self) {
        absent::<Self>(Hook::Canonicalize);
    }
}

/// The circumstances of a write.
pub struct Context<'a> {
    rules: &'a RuleContext<'a>,
}

impl<'a> Context<'a> {
    pub(super) fn new(rules: &'a RuleContext<'a>) -> Self {
        Self { rules }
    }

    /// The name of the user who asks.
    #[must_use]
    pub fn user_name(&self) -> &str {
        &self.user().name
    }

    /// The groups of the user who asks.
    #[must_use]
    pub fn user_groups(&self) -> &[String] {
        &self.user().groups
    }

    /// The other attributes of the user who asks, as a front proxy gives them.
    #[must_use]
    pub fn user_extra(&self) -> &BTreeMap<String, Vec<String>> {
        &self.user().extra
    }

    /// True for a write through `/status`.
    pub(super) fn is_of_status(&self) -> bool {
        self.rules.subresource == Some(Subresource::Status)
    }

    fn user(&self) -> &User {
        self.rules.user
    }

    /// The time of the request, in the form of `creationTimestamp`.
    #[must_use]
    pub fn now(&self) -> &str {
        self.rules.now
    }

    /// The subresource that is written through, such as `status`; none for the object itself.
    #[must_use]
    pub fn subresource(&self) -> Option<&str> {
        self.rules.subresource.as_ref().map(Subresource::name)
    }
}

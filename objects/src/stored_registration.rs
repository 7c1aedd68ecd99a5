//! A registration as it is stored, read as a registration rather than as a tree.

use kindom_api::Value;

use crate::names::{Names, Scope};

/// The parts of a stored registration, read from its tree where they are asked for: nothing is decoded or copied before.
/// A field is empty where the object has none.
#[derive(Debug, Clone, Copy)]
pub struct StoredRegistration<'a>(&'a Value);

impl<'a> StoredRegistration<'a> {
    /// Reads `tree`, a registration in its stored form (`apiextensions.k8s.io/v1`).
    #[must_use]
    pub fn new(tree: &'a Value) -> Self {
        Self(tree)
    }

    /// The whole tree.
    #[must_use]
    pub fn tree(self) -> &'a Value {
        self.0
    }

    /// `spec.group`.
    #[must_use]
    pub fn group(self) -> Option<&'a str> {
        self.text(&["spec", "group"])
    }

    /// `spec.scope`.
    #[must_use]
    pub fn scope(self) -> Option<Scope> {
        let cluster = self.text(&["spec", "scope"])? == "Cluster";
        Some(if cluster { Scope::Cluster } else { Scope::Namespaced })
    }

    /// `spec.names.plural`: its objects' place in storage.
    #[must_use]
    pub fn plural(self) -> Option<&'a str> {
        self.text(&["spec", "names", "plural"])
    }

    /// `spec.names`.
    #[must_use]
    pub fn names(self) -> Names {
        Names::from_value(self.0.at(&["spec", "names"]))
    }

    /// `status.acceptedNames`.
    #[must_use]
    pub fn accepted_names(self) -> Names {
        Names::from_value(self.0.at(&["status", "acceptedNames"]))
    }

    /// `spec.versions`.
    #[must_use]
    pub fn versions(self) -> &'a [Value] {
        self.list(&["spec", "versions"])
    }

    /// The name of a version, served or not, and the version.
    #[must_use]
    pub fn version(self, name: &str) -> Option<&'a Value> {
        self.versions().iter().find(|version| text(version, "name") == Some(name))
    }

    /// The names of the versions that are served.
    pub fn served_versions(self) -> impl Iterator<Item = &'a str> {
        self.versions().iter().filter(|v| is_true(v, "served")).filter_map(|v| text(v, "name"))
    }

    /// The index, in `spec.versions`, of the version that objects are stored in.
    #[must_use]
    pub fn storage_version(self) -> Option<usize> {
        self.versions().iter().position(|version| is_true(version, "storage"))
    }

    /// `true` if some objects may be stored in another version than the storage version (`status.storedVersions`).
    #[must_use]
    pub fn has_outdated_objects(self) -> bool {
        let storage = self.storage_version().and_then(|at| self.versions().get(at)?.get("name"));
        let stored = self.list(&["status", "storedVersions"]);
        storage.is_some_and(|name| stored.iter().any(|stored| stored != name))
    }

    /// `true` if objects are converted by a webhook.
    #[must_use]
    pub fn converts_by_webhook(self) -> bool {
        self.text(&["spec", "conversion", "strategy"]) == Some("Webhook")
    }

    /// `true` if `spec.preserveUnknownFields` is.
    #[must_use]
    pub fn preserves_unknown_fields(self) -> bool {
        self.preserve_unknown_fields() == Some(&Value::Bool(true))
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(self, name: &str) -> Option<&'a str> {
        self.text(&["metadata", "annotations", name])
    }

    /// `metadata.creationTimestamp`.
    #[must_use]
    pub fn created_at(self) -> Option<&'a str> {
        self.text(&["metadata", "creationTimestamp"])
    }

    /// `spec.preserveUnknownFields` as it was written, even if it is no boolean.
    #[must_use]
    pub fn preserve_unknown_fields(self) -> Option<&'a Value> {
        self.0.at(&["spec", "preserveUnknownFields"])
    }

    /// `true` if it is being deleted.
    #[must_use]
    pub fn is_deleted(self) -> bool {
        self.0.at(&["metadata", "deletionTimestamp"]).is_some()
    }

    /// The condition of a type, such as `Established`.
    #[must_use]
    pub fn condition(self, kind: &str) -> Option<StoredCondition<'a>> {
        let conditions = self.list(&["status", "conditions"]).iter();
        conditions.map(StoredCondition).find(|condition| condition.field("type") == kind)
    }

    /// `true` if it has the condition, and its status is `True`.
    #[must_use]
    pub fn is_condition_true(self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status() == "True")
    }

    fn text(self, path: &[&str]) -> Option<&'a str> {
        self.0.at(path).and_then(Value::as_str)
    }

    fn list(self, path: &[&str]) -> &'a [Value] {
        self.0.at(path).and_then(Value::as_array).unwrap_or_default()
    }
}

/// A condition of a stored registration. An absent field is empty.
#[derive(Debug, Clone, Copy)]
pub struct StoredCondition<'a>(&'a Value);

impl<'a> StoredCondition<'a> {
    /// `True`, `False` or `Unknown`.
    #[must_use]
    pub fn status(self) -> &'a str {
        self.field("status")
    }

    /// A word for programs.
    #[must_use]
    pub fn reason(self) -> &'a str {
        self.field("reason")
    }

    /// A sentence for people.
    #[must_use]
    pub fn message(self) -> &'a str {
        self.field("message")
    }

    /// The time at which its status last changed.
    #[must_use]
    pub fn last_transition_time(self) -> &'a str {
        self.field("lastTransitionTime")
    }

    fn field(self, name: &str) -> &'a str {
        text(self.0, name).unwrap_or_default()
    }
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

fn is_true(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool) == Some(true)
}

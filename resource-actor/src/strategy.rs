//! The rules of a type's objects' life: what is set, checked and kept on create, update and delete.

use kindom_api::Value;
use kindom_api::field::ErrorList;

use crate::spec::{CompiledVersion, TypeSpec};

/// What a strategy may look at.
pub struct RuleContext<'a> {
    /// The type.
    pub spec: &'a TypeSpec,
    /// The version of the request; objects are in it.
    pub version: &'a CompiledVersion,
    /// The subresource written through; none for the object itself.
    pub subresource: Option<&'a str>,
    /// The time of the request, as metav1.Time prints it.
    pub now: &'a str,
}

/// What happens to an object when it is first deleted (apiserver `rest.BeforeDelete` and the registries' overrides).
pub enum Deletion {
    /// It goes at once unless it has finalizers.
    Plain,
    /// The strategy has changed it (set deletionTimestamp, finalizers, status): that is stored instead.
    Changed,
}

/// The rules of a type. Called on copies, and again when a plan lost a race: they must only depend on what they get.
/// Generic rules (names, uid, timestamps, namespaces, metadata's validation) are `plan`'s.
pub trait Strategy: Send + Sync {
    /// Whether a PUT without resourceVersion overwrites whatever is there.
    fn allows_unconditional_update(&self) -> bool {
        false
    }

    /// The subresources that have an endpoint.
    fn subresources(&self) -> &'static [&'static str] {
        &[]
    }

    /// The type's fields in protobuf; none for a type that is only sent as JSON or YAML.
    fn protobuf(&self) -> Option<&'static kindom_api::protobuf::Message> {
        None
    }

    /// Brings an object from the wire into the version's shape: unknown fields are dropped, and named if asked for;
    /// defaults are filled in.
    ///
    /// # Errors
    /// The text of a 400 where a field has the wrong JSON type for the server to read it.
    fn decode(
        &self,
        cx: &RuleContext<'_>,
        object: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<(), String>;

    /// Sets what the server sets on create, and drops what a client may not set.
    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value);

    /// What is wrong with a new object, its metadata included.
    fn validate(&self, cx: &RuleContext<'_>, object: &Value) -> ErrorList;

    /// Sets what the server sets on update, and keeps what a client may not change.
    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value);

    /// What is wrong with the change, generic rules on metadata excluded.
    fn validate_update(&self, cx: &RuleContext<'_>, object: &Value, old: &Value) -> ErrorList;

    /// What the client should know of the object that it wrote; `old` is what it was, none for a create.
    fn warnings(&self, _cx: &RuleContext<'_>, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Why this object may not be deleted at all.
    fn refuse_delete(&self, _name: &str) -> Option<String> {
        None
    }

    /// Called on the first DELETE of an object that may need more than to vanish.
    fn begin_delete(&self, _cx: &RuleContext<'_>, _object: &mut Value) -> Deletion {
        Deletion::Plain
    }

    /// Whether an object that is being deleted and has no finalizers in its metadata still has to stay (namespaces keep
    /// theirs in spec).
    fn holds_deletion(&self, _object: &Value) -> bool {
        false
    }
}

//! The rules of a type's objects' life: what is set, checked and kept on create, update and delete.

use kindom_api::Value;
use kindom_api::decode::Struct;
use kindom_api::field::ErrorList;
use kindom_managed_fields::ConvertError;
use kindom_schema::merge::MergeType;

use crate::WriteError;
use crate::object::Translated;
use crate::spec::{CompiledVersion, TypeSpec};

/// What a strategy may look at.
pub struct RuleContext<'a> {
    /// The type.
    pub spec: &'a TypeSpec,
    /// The version of the request; objects are in it, but for those of a type with [`Faces`], which are as stored from
    /// `prepare_for_create` and `prepare_for_update` on.
    pub version: &'a CompiledVersion,
    /// Its name.
    pub version_name: &'a str,
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

/// What a write needs to be empty, and what is said to the client if it is not.
#[derive(Debug)]
pub struct NeedsEmpty {
    /// What the keys start with that must not exist when the write happens; it ends in `/`.
    pub prefix: String,
    /// The refusal otherwise.
    pub refusal: WriteError,
}

/// How the versions of a built-in type show what is stored, where they differ in more than `apiVersion`. Plans of writes
/// are made on what is stored.
pub trait Faces: Send + Sync {
    /// `true` if a version's objects have the form that is stored, but for what no version shows.
    fn is_stored(&self, version: &str) -> bool;

    /// How objects of an apiVersion merge; none if it is none of the type's, on any route.
    fn merge_type(&self, api_version: &str) -> Option<MergeType<'static>>;

    /// An object as another of the type's apiVersions, on any route, shows it.
    ///
    /// # Errors
    /// [`ConvertError`]
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError>;

    /// `true` if stored bytes are what a version shows. Asked on every read.
    fn shows_as_stored(&self, version: &str, json: &[u8]) -> bool;

    /// A stored object as a version shows it.
    fn show(&self, version: &str, stored: Value) -> Value;

    /// What to store for a version's object that replaces `old` (as stored; none for a create)
    /// through a subresource, or as a whole.
    ///
    /// # Errors
    /// What the version can't say without losing something, by the version's own fields.
    fn read(
        &self,
        version: &str,
        object: Value,
        old: Option<&Value>,
        subresource: Option<&str>,
    ) -> Result<Value, ErrorList>;
}

/// The rules of a type. Called on copies, and again when a plan lost a race: they must only depend on what they get.
/// Generic rules (names, uid, timestamps, namespaces, metadata's validation) are `plan`'s.
pub trait Strategy: Send + Sync {
    /// Brings another program's bytes into the form that is stored here, or says why nobody can read them; none if the type is
    /// stored as any JSON. Never called for what kindom stored.
    fn translate(&self, _bytes: &[u8]) -> Option<Result<Translated, String>> {
        None
    }

    /// `true` if a PUT without resourceVersion overwrites whatever is there.
    fn allows_unconditional_update(&self) -> bool {
        false
    }

    /// The subresources that have an endpoint.
    fn subresources(&self) -> &'static [&'static str] {
        &[]
    }

    /// The Go type of a version's objects, by which strategic merge patches merge; none for a type that has no such
    /// patches.
    fn go_type(&self, _spec: &TypeSpec, _version: &str) -> Option<&'static Struct> {
        None
    }

    /// Brings an object from the wire into the version's shape: unknown fields are dropped, and named if asked for;
    /// defaults are filled in. Gives back what the client should know of how its object was read.
    ///
    /// # Errors
    /// The text of a 400 where a field has the wrong JSON type for the server to read it.
    fn decode(
        &self,
        cx: &RuleContext<'_>,
        object: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<Vec<String>, String>;

    /// Refuses a configuration that would cost too much to merge; the errors of a 422.
    fn refuse_configuration(&self, _configuration: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Brings the object that an apply made, which is of the version's type already, into the version's shape: its defaults
    /// are filled in.
    ///
    /// # Errors
    /// The text of a 500 where the type and the version's shape disagree.
    fn complete_applied(&self, cx: &RuleContext<'_>, object: &mut Value) -> Result<(), String> {
        self.decode(cx, object, None).map(drop)
    }

    /// What an object is before anything is said of it, as the version shows it, where that is more than `apiVersion` and
    /// `kind`: its fields without Go's `omitempty`.
    fn empty(&self, _cx: &RuleContext<'_>) -> Option<Value> {
        None
    }

    /// The top-level fields of an apiVersion that a write through this endpoint does not set, whatever the client says; so
    /// it never manages them (`GetResetFields`).
    fn reset_fields(&self, _cx: &RuleContext<'_>, _api_version: &str) -> &'static [&'static str] {
        &[]
    }

    /// Sets what the server sets on create, and drops what a client may not set.
    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value);

    /// What is wrong with a new object, its metadata included.
    fn validate(&self, cx: &RuleContext<'_>, object: &Value) -> ErrorList;

    /// Sets what the server sets on update, and keeps what a client may not change.
    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value);

    /// What is wrong with the change, generic rules on metadata excluded. What is let through although it is wrong is told
    /// to the client in `warnings`.
    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        warnings: &mut Vec<String>,
    ) -> ErrorList;

    /// Brings a valid object into the form that is stored, which is also the form that reads show: the last of the stages
    /// before the write (B-22).
    fn canonicalize(&self, _cx: &RuleContext<'_>, _object: &mut Value) {}

    /// What the client should know of the object that it wrote; `old` is what it was, none for a create.
    fn warnings(&self, _cx: &RuleContext<'_>, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// What has to be empty for `old` to become `new`, or to be deleted (none). Checked by the write's own transaction.
    fn needs_empty(&self, _cx: &RuleContext<'_>, _new: Option<&Value>, _old: &Value) -> Option<NeedsEmpty> {
        None
    }

    /// Why this object may not be deleted at all.
    fn refuse_delete(&self, _name: &str) -> Option<String> {
        None
    }

    /// Called on the first DELETE of an object that may need more than to vanish.
    fn begin_delete(&self, _cx: &RuleContext<'_>, _object: &mut Value) -> Deletion {
        Deletion::Plain
    }

    /// `true` if an object that is being deleted and has no finalizers in its metadata still has to stay (namespaces keep
    /// theirs in spec).
    fn holds_deletion(&self, _object: &Value) -> bool {
        false
    }
}

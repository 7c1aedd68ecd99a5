//! Namespace, `v1`: its type, its validation (Kubernetes `pkg/apis/core/validation`, `ValidateNamespace*`) and what its
//! registry does before it stores one (`pkg/registry/core/namespace/strategy.go`).

use serde::{Deserialize, Serialize};

use kindom_api::declaration::Declaration;
use kindom_api::decode::{DecodeError, Field, Items, Patched, Shape, Struct};
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_qualified_name, name_is_dns_label};
use kindom_api::meta::{
    Condition, OBJECT_META, ObjectMeta, validate_object_meta, validate_object_meta_update,
};
use kindom_api::{Value, json};

use crate::declared::Declared;

/// The finalizer in `spec` that stands for the content of the namespace.
pub(super) const FINALIZER_KUBERNETES: &str = "kubernetes";
/// The label that holds the name, for selectors.
pub(super) const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The phase of a namespace that may be used.
pub(super) const ACTIVE: &str = "Active";
/// The phase of a namespace that is being deleted.
pub(super) const TERMINATING: &str = "Terminating";

/// The types of the conditions on a namespace that is being deleted (`pkg/controller/namespace/deletion`).
pub(super) mod condition {
    /// The types could not all be listed.
    pub(in crate::kinds::namespace) const DELETION_DISCOVERY_FAILURE: &str =
        "NamespaceDeletionDiscoveryFailure";
    /// A group or version could not be read.
    pub(in crate::kinds::namespace) const DELETION_GROUP_VERSION_PARSING_FAILURE: &str =
        "NamespaceDeletionGroupVersionParsingFailure";
    /// Some content could not be deleted.
    pub(in crate::kinds::namespace) const DELETION_CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
    /// Some content is still there.
    pub(in crate::kinds::namespace) const CONTENT_REMAINING: &str = "NamespaceContentRemaining";
    /// Some content waits for its finalizers.
    pub(in crate::kinds::namespace) const FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";
}

const STRING: Shape = Shape::String("string");

/// Namespace, `v1`, as clients see it.
pub static NAMESPACE: Declared = Declared::new(Declaration {
    api_version: "v1",
    kind: "Namespace",
    go_package: "k8s.io/api/core/v1",
    shape: &SHAPE,
});

static SHAPE: Struct = Struct::new(
    "v1.Namespace",
    &[
        Field::new("kind", STRING),
        Field::new("apiVersion", STRING),
        // Without `omitempty`'s effect, since they are structs.
        Field::always("metadata", Shape::Struct(&OBJECT_META)).declared(1, "Standard metadata."),
        Field::always("spec", Shape::Struct(&SPEC)).declared(2, "The desired state."),
        Field::always("status", Shape::Struct(&STATUS))
            .declared(3, "The observed state; written by the server."),
    ],
)
.described("A scope for names: objects of namespaced types live in one, and go with it.");

static SPEC: Struct = Struct::new(
    "v1.NamespaceSpec",
    &[Field::new("finalizers", Shape::List(&Shape::String("v1.FinalizerName")))
        .declared(1, "The contents that must be gone before the namespace is: kubernetes stands for the objects in it.")
        .items(Items::Atomic)],
)
.described("The desired state of a namespace.");

static STATUS: Struct = Struct::new(
    "v1.NamespaceStatus",
    &[
        Field::new("phase", Shape::String("v1.NamespacePhase"))
            .declared(1, "Active, or Terminating while it is being deleted."),
        Field::new("conditions", Shape::List(&Shape::Struct(&CONDITION)))
            .declared(2, "Set while the namespace is being deleted: they say what remains, and why.")
            .patched(Patched::MergesBy("type"))
            .items(Items::Keys(&["type"])),
    ],
)
.described("The state of a namespace.");

static CONDITION: Struct = Struct::new(
    "v1.NamespaceCondition",
    &[
        Field::always("type", Shape::String("v1.NamespaceConditionType"))
            .declared(1, "Its subject: NamespaceContentRemaining, NamespaceFinalizersRemaining."),
        Field::always("status", Shape::String("v1.ConditionStatus")).declared(2, "True, False or Unknown."),
        Field::always("lastTransitionTime", Shape::Time)
            .declared(4, "The time of the last change of status."),
        Field::new("reason", STRING).declared(5, "The reason, in one word."),
        Field::new("message", STRING).declared(6, "The reason, for people."),
    ],
)
.described("One aspect of the deletion of a namespace.");

/// A namespace.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Namespace {
    /// `v1`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `Namespace`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Metadata; the name is a DNS label.
    pub metadata: ObjectMeta,
    /// The desired state: the finalizers that keep the namespace.
    pub spec: NamespaceSpec,
    /// The observed state: the phase and conditions.
    pub status: NamespaceStatus,
}

/// The desired state of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceSpec {
    /// The names of the controllers that must finish with the content before the namespace is deleted; removed through
    /// `/finalize` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}

/// The observed state of a namespace.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceStatus {
    /// `Active` or `Terminating`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// See [`condition`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl Namespace {
    /// A new namespace of this name, as it is stored but for the fields that the store sets.
    pub fn new(name: impl Into<String>) -> Self {
        let mut namespace =
            Self { api_version: "v1".to_owned(), kind: "Namespace".to_owned(), ..Self::default() };
        namespace.metadata.name = name.into();
        prepare_for_create(&mut namespace);
        namespace
    }

    /// The tree, as upstream encodes it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json::to_value(self)
    }
}

/// Decodes a namespace as upstream's typed decoder does; the paths of unknown fields come with it.
///
/// # Errors
/// A value of the wrong type, with Go's text; to be answered 400.
pub fn decode_namespace(value: &Value) -> Result<(Namespace, Vec<String>), DecodeError> {
    let decoded = SHAPE.decode(value)?;
    let namespace = json::from_value(&decoded.value).map_err(|e| DecodeError::other(e.to_string()))?;
    Ok((namespace, decoded.unknown_fields))
}

/// Puts the name into its label, once there is a name, and sets the phase where there is none. Upstream does it on every
/// decode and before every write (`SetDefaults_Namespace` and `SetDefaults_NamespaceStatus` in `pkg/apis/core/v1/defaults.go`,
/// 1.37).
pub(super) fn default_namespace(namespace: &mut Namespace) {
    let meta = &mut namespace.metadata;
    if !meta.name.is_empty() {
        meta.labels.insert(NAME_LABEL.to_owned(), meta.name.clone());
    }
    let phase = &mut namespace.status.phase;
    if phase.is_empty() {
        ACTIVE.clone_into(phase);
    }
}

/// Before a create: it is Active, and its content keeps it. The name must have been generated by now.
pub(super) fn prepare_for_create(namespace: &mut Namespace) {
    namespace.status = NamespaceStatus { phase: ACTIVE.to_owned(), conditions: Vec::new() };
    if !namespace.spec.finalizers.iter().any(|f| f == FINALIZER_KUBERNETES) {
        namespace.spec.finalizers.push(FINALIZER_KUBERNETES.to_owned());
    }
    default_namespace(namespace);
}

/// Before an update: finalizers change through `/finalize` only, the status through `/status` only.
pub(super) fn prepare_for_update(new: &mut Namespace, old: &Namespace) {
    new.spec = old.spec.clone();
    new.status = old.status.clone();
    default_namespace(new);
}

/// Before a write to `/status`.
pub(super) fn prepare_for_status_update(new: &mut Namespace, old: &Namespace) {
    new.spec = old.spec.clone();
    default_namespace(new);
}

/// Before a write to `/finalize`.
pub(super) fn prepare_for_finalize(new: &mut Namespace, old: &Namespace) {
    new.status = old.status.clone();
    default_namespace(new);
}

/// All that is wrong with a namespace that is to be created.
#[must_use]
pub(super) fn validate_create(namespace: &Namespace) -> ErrorList {
    let path = Path::new("metadata");
    let meta = json::to_value(&namespace.metadata);
    let mut errors = validate_object_meta(&meta, false, &name_is_dns_label, &path);
    meta_finalizers(&namespace.metadata, &path, &mut errors);
    let spec = Path::new("spec");
    for name in &namespace.spec.finalizers {
        // Upstream names the list here, and the item on `/finalize`.
        finalizer(name, &spec.child("finalizers"), &mut errors);
    }
    errors
}

/// All that is wrong with a namespace that replaces `old`, after [`prepare_for_update`].
#[must_use]
pub(super) fn validate_update(new: &Namespace, old: &Namespace) -> ErrorList {
    let mut errors = validate_create(new);
    errors.extend(meta_update(new, old));
    errors
}

/// All that is wrong with a write to `/status`, after [`prepare_for_status_update`].
#[must_use]
pub(super) fn validate_status_update(new: &Namespace, old: &Namespace) -> ErrorList {
    let mut errors = meta_update(new, old);
    let (phase, detail) = if new.metadata.deletion_timestamp.is_none() {
        (ACTIVE, "may only be 'Active' if `deletionTimestamp` is empty")
    } else {
        (TERMINATING, "may only be 'Terminating' if `deletionTimestamp` is not empty")
    };
    if new.status.phase != phase {
        let status = Path::new("status");
        errors.push(Error::invalid(&status.child("Phase"), new.status.phase.as_str(), detail));
    }
    errors
}

/// All that is wrong with a write to `/finalize`, after [`prepare_for_finalize`].
#[must_use]
pub(super) fn validate_finalize(new: &Namespace, old: &Namespace) -> ErrorList {
    let mut errors = meta_update(new, old);
    let spec = Path::new("spec");
    let path = spec.child("finalizers");
    for (i, name) in new.spec.finalizers.iter().enumerate() {
        finalizer(name, &path.index(i), &mut errors);
    }
    errors
}

fn meta_update(new: &Namespace, old: &Namespace) -> ErrorList {
    let path = Path::new("metadata");
    let (new_meta, old_meta) = (json::to_value(&new.metadata), json::to_value(&old.metadata));
    let mut errors = validate_object_meta_update(&new_meta, &old_meta, &path);
    meta_finalizers(&new.metadata, &path, &mut errors);
    errors
}

/// Core types hold the finalizers in metadata to the rule for those in `spec` as well.
fn meta_finalizers(meta: &ObjectMeta, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("finalizers");
    for (i, name) in meta.finalizers.iter().enumerate() {
        standard_finalizer(name, &path.index(i), errors);
    }
}

fn finalizer(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    errors.extend(is_qualified_name(name).into_iter().map(|text| Error::invalid(path, name, text)));
    standard_finalizer(name, path, errors);
}

fn standard_finalizer(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !name.contains('/') && !matches!(name, FINALIZER_KUBERNETES | "orphan" | "foregroundDeletion") {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(Error::invalid(path, name, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_new_namespace_is_kept_by_its_content() {
        let namespace = Namespace::new("a");
        assert_eq!(
            namespace.to_value().to_string(),
            r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubernetes.io/metadata.name":"a"},"name":"a"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#
        );
        assert!(validate_create(&namespace).is_empty());
    }

    #[test]
    fn names_and_finalizers_are_checked() {
        let mut namespace = Namespace::new("a.b");
        namespace.metadata.finalizers = vec!["x".into(), "example.com/f".into()];
        namespace.spec.finalizers.push("y z".into());
        let errors = texts(&validate_create(&namespace));
        assert_eq!(errors[0], r#"metadata.name: Invalid value: "a.b": must not contain dots"#);
        assert_eq!(
            errors[1],
            r#"metadata.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified"#
        );
        assert!(errors[2].starts_with(r#"spec.finalizers: Invalid value: "y z": name part must consist of"#));
        assert_eq!(
            errors[3],
            r#"spec.finalizers: Invalid value: "y z": name is neither a standard finalizer name nor is it fully qualified"#
        );
        assert_eq!(errors.len(), 4);
    }

    #[test]
    fn updates_change_their_part_only() {
        let mut old = Namespace::new("a");
        old.metadata.resource_version = "1".into();
        let mut new = old.clone();
        new.spec.finalizers.clear();
        new.status.phase = TERMINATING.into();
        new.metadata.labels.remove(NAME_LABEL);

        let mut updated = new.clone();
        prepare_for_update(&mut updated, &old);
        assert_eq!(updated, old);
        assert!(validate_update(&updated, &old).is_empty());

        let mut status = new.clone();
        prepare_for_status_update(&mut status, &old);
        assert_eq!(status.spec, old.spec);
        assert_eq!(
            texts(&validate_status_update(&status, &old)),
            [
                r#"status.Phase: Invalid value: "Terminating": may only be 'Active' if `deletionTimestamp` is empty"#
            ]
        );

        let mut finalize = new;
        prepare_for_finalize(&mut finalize, &old);
        assert_eq!(finalize.status.phase, ACTIVE);
        assert!(finalize.spec.finalizers.is_empty());
        assert!(validate_finalize(&finalize, &old).is_empty());
        finalize.spec.finalizers.push("x".into());
        assert_eq!(
            texts(&validate_finalize(&finalize, &old)),
            [
                r#"spec.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified"#
            ]
        );
    }

    #[test]
    fn decoding_is_typed() {
        let tree =
            json::parse(br#"{"metadata":{"name":"a"},"spec":{"x":1},"status":{"phase":"Active"}}"#).unwrap();
        let (namespace, unknown) = decode_namespace(&tree).unwrap();
        assert_eq!(unknown, ["spec.x"]);
        assert_eq!(namespace.status.phase, ACTIVE);
        let tree = json::parse(br#"{"spec":{"finalizers":[1]}}"#).unwrap();
        assert_eq!(
            decode_namespace(&tree).unwrap_err().to_string(),
            "json: cannot unmarshal number into Go struct field NamespaceSpec.spec.finalizers of type v1.FinalizerName"
        );
    }
}

//! The rules of registrations as objects (apiextensions `pkg/registry/customresourcedefinition`, 1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::crd::{
    CLEANUP_FINALIZER, ColumnDefinition, CustomResourceDefinition, GROUP, condition, decode_crd,
    prepare_for_create, prepare_for_status_update, prepare_for_update,
};
use kindom_api::faces::Face;
use kindom_api::field::{self, ErrorList, Path};
use kindom_api::meta::{Condition, set_condition};
use kindom_resource_actor::spec::READ_ONLY_ANNOTATION;
use kindom_resource_actor::{
    BuiltInVersion, Deletion, Faces, Names, NeedsEmpty, RuleContext, Scope, Strategy, TypeSpec, WriteError,
};
use kindom_schema::columns::{Columns, TableColumn};
use kindom_schema::{Schema, crd as rules};

/// The annotation of a registration that says what its DELETE does. Without it the type's objects go first.
const DELETION_POLICY: &str = "kindom.dev/deletion-policy";
/// The one policy: the DELETE is refused while there are objects.
const REFUSE_WHILE_INSTANCES: &str = "RefuseWhileInstances";

/// CustomResourceDefinition, `apiextensions.k8s.io/v1` and `v1beta1`, as a built-in type.
#[must_use]
pub fn custom_resource_definitions() -> TypeSpec {
    let names = Names {
        plural: "customresourcedefinitions".into(),
        singular: "customresourcedefinition".into(),
        kind: "CustomResourceDefinition".into(),
        list_kind: "CustomResourceDefinitionList".into(),
        short_names: vec!["crd".into(), "crds".into()],
        categories: vec!["api-extensions".into()],
    };
    let deprecated = format!("{GROUP}/v1beta1 {0} is deprecated; use {GROUP}/v1 {0}", names.kind);
    let versions = vec![
        BuiltInVersion { name: "v1", columns: table(), deprecation_warning: None },
        BuiltInVersion { name: "v1beta1", columns: table(), deprecation_warning: Some(deprecated) },
    ];
    let spec = TypeSpec::built_in(GROUP, names, Scope::Cluster, versions, Arc::new(Registrations));
    spec.with_faces(Arc::new(Views(GROUP)))
}

/// ThirdPartyResource, `apiextension.k8s.io/v1beta1`: the registrations that `stored` is the type of, as the first
/// proposal shows them (T-03).
#[must_use]
pub fn third_party_resources(stored: &TypeSpec) -> TypeSpec {
    let names = Names {
        plural: "thirdpartyresources".into(),
        singular: "thirdpartyresource".into(),
        kind: "ThirdPartyResource".into(),
        list_kind: "ThirdPartyResourceList".into(),
        short_names: vec!["tpr".into()],
        categories: vec!["api-extensions".into()],
    };
    let columns = Columns::compile(&[
        column("Group", "string", "", "The API group of the objects.", ".spec.group"),
        column("Version", "string", "", "The version of the objects.", ".spec.version"),
        column("Kind", "string", "", "The kind of the objects.", ".spec.names.kind"),
        column("Scope", "string", "", "Whether the objects are in namespaces.", ".spec.scope"),
        column(
            "Conflict",
            "string",
            "",
            "Whether a name is another registration's.",
            ".status.conditions[?(@.type==\"NameConflict\")].status",
        ),
        column("Age", "date", "", CREATED, ".metadata.creationTimestamp"),
    ]);
    let versions = vec![BuiltInVersion { name: "v1beta1", columns, deprecation_warning: None }];
    let strategy = Arc::new(Registrations);
    let spec = TypeSpec::built_in(THIRD_PARTY_GROUP, names, Scope::Cluster, versions, strategy);
    spec.with_faces(Arc::new(Views(THIRD_PARTY_GROUP))).stored_as(stored)
}

/// The API group of the proposal.
const THIRD_PARTY_GROUP: &str = "apiextension.k8s.io";
const CREATED: &str =
    "CreationTimestamp is a timestamp representing the server time when this object was created.";

fn column(name: &str, kind: &str, format: &str, description: &str, json_path: &str) -> ColumnDefinition {
    ColumnDefinition {
        name: name.into(),
        kind: kind.into(),
        format: format.into(),
        description: description.into(),
        priority: 0,
        json_path: json_path.into(),
    }
}

/// apiextensions `pkg/registry/customresourcedefinition/tableconvertor` (1.37).
fn table() -> Columns {
    let column = |name: &str, kind: &str, priority, description: &str| TableColumn {
        name: name.into(),
        kind: kind.into(),
        format: String::new(),
        description: description.into(),
        priority,
    };
    Columns::computed(
        vec![
            column("Scope", "string", 0, "Cluster/Namespaced"),
            column("Versions", "string", 0, "Served versions"),
            column("Created At", "date", 0, ""),
            column("Group", "string", 1, "API group"),
            column("Kind", "string", 1, "CustomResource kind"),
            column("ShortNames", "string", 1, "Short names"),
            column("Established", "boolean", 1, "Established status"),
        ],
        cells,
    )
}

fn cells(object: &Value) -> Vec<Value> {
    let text = |path: &[&str]| object.at(path).and_then(Value::as_str).unwrap_or_default();
    let list = |path: &[&str]| object.at(path).and_then(Value::as_array).unwrap_or_default();
    let is = |value: &Value, field| value.get(field).and_then(Value::as_bool).unwrap_or(false);
    let mut versions: Vec<String> = list(&["spec", "versions"])
        .iter()
        .filter(|version| is(version, "served"))
        .map(|version| {
            let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
            if is(version, "storage") { format!("{name}(storage)") } else { name.to_owned() }
        })
        .collect();
    versions.sort();
    let short_names = list(&["spec", "names", "shortNames"]).iter().filter_map(Value::as_str);
    let established = list(&["status", "conditions"]).iter().any(|condition| {
        let says = |field| condition.get(field).and_then(Value::as_str);
        says("type") == Some(condition::ESTABLISHED) && says("status") == Some("True")
    });
    vec![
        text(&["spec", "scope"]).into(),
        versions.join(",").into(),
        text(&["metadata", "creationTimestamp"]).into(),
        text(&["spec", "group"]).into(),
        text(&["spec", "names", "kind"]).into(),
        short_names.collect::<Vec<_>>().join(",").into(),
        established.into(),
    ]
}

/// The face that a group and version of registrations is.
fn face(group: &str, version: &str) -> Face {
    match (group, version) {
        (THIRD_PARTY_GROUP, _) => Face::ThirdPartyResource,
        (_, "v1beta1") => Face::V1beta1,
        _ => Face::V1,
    }
}

fn face_of(cx: &RuleContext<'_>) -> Face {
    face(&cx.spec.group, cx.version_name)
}

/// The faces of one group.
struct Views(&'static str);

impl Faces for Views {
    fn shows_as_stored(&self, version: &str, json: &[u8]) -> bool {
        face(self.0, version).shows_as_stored(json)
    }

    fn show(&self, version: &str, stored: Value) -> Value {
        face(self.0, version).show(stored)
    }

    fn read(
        &self,
        version: &str,
        object: Value,
        old: Option<&Value>,
        subresource: Option<&str>,
    ) -> Result<Value, ErrorList> {
        face(self.0, version).read(object, old, subresource)
    }
}

/// The rules of registrations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Registrations;

/// A stored or decoded registration. What does not decode was never stored by kindom; as an empty one it fails
/// validation instead of the server.
fn typed(object: &Value) -> CustomResourceDefinition {
    decode_crd(object).map(|(crd, _)| crd).unwrap_or_default()
}

/// Only the drain ends a registration that is being deleted: were its finalizer taken away before, its objects would
/// stay behind and come back with the next registration of the name (design, invariant 6; T-52).
fn keep_cleanup(new: &mut CustomResourceDefinition, old: &CustomResourceDefinition) {
    let holds =
        |crd: &CustomResourceDefinition| crd.metadata.finalizers.iter().any(|f| f == CLEANUP_FINALIZER);
    if old.metadata.deletion_timestamp.is_some() && holds(old) && !holds(new) {
        new.metadata.finalizers.push(CLEANUP_FINALIZER.to_owned());
    }
}

/// Puts the conditions that kindom computes back to what is stored, each where it stands: who changes nothing writes
/// nothing.
fn set_back_computed(conditions: &mut Vec<Condition>, old: &CustomResourceDefinition) {
    let is_computed = |c: &Condition| condition::COMPUTED.contains(&c.kind.as_str());
    let mut stored: Vec<Option<&Condition>> =
        old.status.conditions.iter().filter(|c| is_computed(c)).map(Some).collect();
    let mut kept = Vec::with_capacity(conditions.len());
    for said in std::mem::take(conditions) {
        if is_computed(&said) {
            let same = stored.iter_mut().find(|c| c.is_some_and(|c| c.kind == said.kind));
            kept.extend(same.and_then(Option::take).cloned());
        } else {
            kept.push(said);
        }
    }
    kept.extend(stored.into_iter().flatten().cloned());
    *conditions = kept;
}

/// Whether the only version gets another name, which only the proposal's face does: on the others storedVersions keeps
/// the old one in.
fn renames_version(
    cx: &RuleContext<'_>,
    new: &CustomResourceDefinition,
    old: &CustomResourceDefinition,
) -> bool {
    if face_of(cx) != Face::ThirdPartyResource {
        return false;
    }
    match (new.spec.versions.as_slice(), old.spec.versions.as_slice()) {
        ([new], [old]) => new.name != old.name,
        _ => false,
    }
}

/// What is wrong with the annotations that are kindom's own; what was there before may stay.
fn policies(crd: &CustomResourceDefinition, old: Option<&CustomResourceDefinition>, errors: &mut ErrorList) {
    let metadata = Path::new("metadata");
    let annotations = metadata.child("annotations");
    let known: [(&str, &[&str]); 2] =
        [(DELETION_POLICY, &[REFUSE_WHILE_INSTANCES]), (READ_ONLY_ANNOTATION, &["false", "true"])];
    for (name, values) in known {
        let Some(value) = crd.metadata.annotations.get(name) else { continue };
        let unchanged = old.is_some_and(|old| old.metadata.annotations.get(name) == Some(value));
        if !values.contains(&value.as_str()) && !unchanged {
            errors.push(field::Error::not_supported(&annotations.key(name), value.as_str(), values));
        }
    }
}

impl Strategy for Registrations {
    fn subresources(&self) -> &'static [&'static str] {
        &["status"]
    }

    fn decode(
        &self,
        cx: &RuleContext<'_>,
        object: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<Vec<String>, String> {
        face_of(cx).decode(object, unknown)
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, object: &mut Value) {
        let mut crd = typed(object);
        prepare_for_create(&mut crd);
        *object = crd.to_value();
    }

    fn validate(&self, cx: &RuleContext<'_>, object: &Value) -> ErrorList {
        let crd = typed(object);
        let mut errors = rules::validate_create(&crd, face_of(cx));
        policies(&crd, None, &mut errors);
        errors
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (typed(object), typed(old));
        if cx.subresource == Some("status") {
            prepare_for_status_update(&mut new, &old);
            // Names are claimed and freed through the ledger only (design, "A registration"): what kindom computes is
            // set back, what others add is kept.
            new.status.accepted_names = old.status.accepted_names.clone();
            set_back_computed(&mut new.status.conditions, &old);
        } else {
            prepare_for_update(&mut new, &old);
            if renames_version(cx, &new, &old) {
                // There are no objects in the old one: the write needs that.
                new.status.stored_versions = new.spec.versions.iter().map(|v| v.name.clone()).collect();
            }
            keep_cleanup(&mut new, &old);
        }
        *object = new.to_value();
    }

    fn validate_update(&self, cx: &RuleContext<'_>, object: &Value, old: &Value) -> ErrorList {
        let (new, old) = (typed(object), typed(old));
        if cx.subresource == Some("status") {
            let mut errors = rules::validate_status_update(&new, &old);
            errors.extend(rules::validate_stored_versions(&new));
            errors
        } else {
            let mut errors = rules::validate_update(&new, &old, face_of(cx));
            policies(&new, Some(&old), &mut errors);
            errors
        }
    }

    fn needs_empty(&self, cx: &RuleContext<'_>, new: Option<&Value>, old: &Value) -> Option<NeedsEmpty> {
        let old = typed(old);
        let refusal = match new {
            None => {
                let policy = old.metadata.annotations.get(DELETION_POLICY);
                policy.filter(|policy| *policy == REFUSE_WHILE_INSTANCES)?;
                let message = format!(
                    "there are objects of this type, and its annotation {DELETION_POLICY} is {REFUSE_WHILE_INSTANCES}; delete them or remove the annotation first"
                );
                WriteError::Forbidden { name: old.metadata.name.clone(), message }
            }
            // T-10
            Some(new) if cx.subresource.is_none() => {
                let new = typed(new);
                let renamed = new.spec.versions.first().filter(|_| renames_version(cx, &new, &old))?;
                let path = Path::new("spec");
                let detail = "there are objects of this type, and a ThirdPartyResource has one version; delete them first";
                let error = field::Error::invalid(&path.child("version"), renamed.name.as_str(), detail);
                WriteError::Invalid { name: old.metadata.name.clone(), errors: vec![error] }
            }
            Some(_) => return None,
        };
        Some(NeedsEmpty { prefix: TypeSpec::prefix_of(&old.spec.group, &old.spec.names.plural), refusal })
    }

    fn warnings(&self, cx: &RuleContext<'_>, object: &Value, _: Option<&Value>) -> Vec<String> {
        if cx.subresource.is_some() {
            return Vec::new();
        }
        let crd = typed(object);
        let mut warnings = rules::warnings_on_create(&crd);
        for version in &crd.spec.versions {
            let path = format!("spec.versions[{}]", version.name);
            if let Ok(schema) = Schema::compile(version.open_api_v3_schema(), false) {
                let texts = schema.not_enforced().into_iter();
                warnings.extend(texts.map(|text| format!("{path}: {text}")));
            }
            if version.subresources.as_ref().is_some_and(|s| s.status.is_some() || s.scale.is_some()) {
                warnings.push(format!(
                    "{path}.subresources: accepted, but /status and /scale are not served yet"
                ));
            }
        }
        warnings
    }

    /// The first DELETE marks the registration and keeps it until its objects are gone (`REST.Delete`, T-45, T-46).
    fn begin_delete(&self, cx: &RuleContext<'_>, object: &mut Value) -> Deletion {
        let mut crd = typed(object);
        crd.metadata.deletion_timestamp = Some(cx.now.to_owned());
        if !crd.metadata.finalizers.iter().any(|f| f == CLEANUP_FINALIZER) {
            crd.metadata.finalizers.push(CLEANUP_FINALIZER.to_owned());
        }
        let terminating = Condition::new(
            condition::TERMINATING,
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        );
        set_condition(&mut crd.status.conditions, terminating, cx.now);
        *object = crd.to_value();
        Deletion::Changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computed_conditions_are_set_back_where_they_stand() {
        let of = |kinds: &[(&str, &str)]| -> Vec<Condition> {
            kinds.iter().map(|(kind, status)| Condition::new(*kind, *status, "R", "m")).collect()
        };
        let mut old = CustomResourceDefinition::default();
        old.status.conditions = of(&[("NamesAccepted", "True"), ("Mine", "True"), ("Established", "True")]);
        let check = |said: &[(&str, &str)], want: &[(&str, &str)]| {
            let mut conditions = of(said);
            set_back_computed(&mut conditions, &old);
            assert_eq!(conditions, of(want));
        };
        let unchanged = [("NamesAccepted", "True"), ("Mine", "True"), ("Established", "True")];
        check(&unchanged, &unchanged);
        check(
            &[("Established", "False"), ("Terminating", "True"), ("Mine", "False")],
            &[("Established", "True"), ("Mine", "False"), ("NamesAccepted", "True")],
        );
        check(&[], &[("NamesAccepted", "True"), ("Established", "True")]);
    }

    #[test]
    fn a_client_cannot_take_the_drain_s_finalizer() {
        let mut old = CustomResourceDefinition::default();
        old.metadata.finalizers = vec!["g.io/other".into(), CLEANUP_FINALIZER.into()];
        let mut new = CustomResourceDefinition::default();
        keep_cleanup(&mut new, &old);
        assert!(new.metadata.finalizers.is_empty(), "before the deletion it is a finalizer like any other");
        old.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
        keep_cleanup(&mut new, &old);
        assert_eq!(new.metadata.finalizers, [CLEANUP_FINALIZER]);
        keep_cleanup(&mut new, &old);
        assert_eq!(new.metadata.finalizers.len(), 1);
    }
}

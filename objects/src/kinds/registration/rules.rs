//! The rules of registrations as objects (apiextensions `pkg/registry/customresourcedefinition`, 1.37).

use std::collections::BTreeSet;

use crate::canonical_forms::{CANONICAL_FORMS_ANNOTATION, CanonicalForms};
use crate::conversion_rules::{DeclaredConversion, RULES_ANNOTATION};
use crate::declared_subresources::{DeclaredSubresources, SUBRESOURCES_ANNOTATION, of_program};
use crate::propagation::Propagation;
use crate::registration::{
    CONVERSION_ANNOTATION, CONVERSION_BY_PROGRAM, GENERATION_ANNOTATION, GENERATION_OF_SPEC,
    READ_ONLY_ANNOTATION,
};
use crate::sorted_lists::{SORTED_LISTS_ANNOTATION, SortedLists};
use crate::stored_registration::StoredRegistration;
use crate::{
    Deletion, NeedsEmpty, PlanError, RuleContext, Strategy, Subresource, Translated, TypeSpec, keep_reset,
};
use kindom_api::crd::{
    CLEANUP_FINALIZER, CustomResourceDefinition, condition, decode_crd, prepare_for_create,
    prepare_for_status_update, prepare_for_update,
};
use kindom_api::decode::Struct;
use kindom_api::faces::{Face, stored_form};
use kindom_api::field::{self, ErrorList, Path};
use kindom_api::meta::{Condition, set_condition};
use kindom_api::{User, Value, json};
use kindom_schema::crd as rules;
use kindom_schema::whole::{self, WholeSchema};

use super::features::{Feature, drop_disabled};

/// The annotation of a registration that decides about its DELETE. Without it the server deletes the type's objects first.
const DELETION_POLICY: &str = "kindom.dev/deletion-policy";
/// The one policy: the DELETE is refused while there are objects.
const REFUSE_WHILE_INSTANCES: &str = "RefuseWhileInstances";

/// The face that a group and version of registrations is.
pub(super) fn face(group: &str, version: &str) -> Face {
    let is = |face: &Face| face.group() == group && face.version() == version;
    Face::ALL.into_iter().find(is).unwrap_or(Face::V1)
}

fn face_of(cx: &RuleContext<'_>) -> Face {
    face(&cx.spec.group, cx.version_name)
}

/// The rules of registrations.
#[derive(Debug, Clone, Default)]
pub struct Registrations {
    /// The features that are switched off.
    pub disabled: Vec<Feature>,
    /// The names of the registrations that the program itself keeps, as it is compiled with their types.
    pub compiled: BTreeSet<String>,
}

/// The reason why nobody else changes the registration of a type that the program is compiled with.
const COMPILED: &str = "the program that serves this type is compiled with it, and keeps its registration";

/// A stored or decoded registration. kindom never stored an object that does not decode; here it becomes an empty one, which
/// fails validation, so that the server does not fail.
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

/// Puts the conditions that kindom computes back to what is stored, each at its place, so that a write which changes nothing
/// else changes nothing.
fn set_back_computed(conditions: &mut Vec<Condition>, old: &CustomResourceDefinition) {
    let is_computed = |c: &Condition| condition::COMPUTED.contains(&c.kind.as_str());
    let mut stored: Vec<Option<&Condition>> =
        old.status.conditions.iter().filter(|c| is_computed(c)).map(Some).collect();
    let mut kept = Vec::with_capacity(conditions.len());
    for condition in std::mem::take(conditions) {
        if is_computed(&condition) {
            let same = stored.iter_mut().find(|c| c.is_some_and(|c| c.kind == condition.kind));
            kept.extend(same.and_then(Option::take).cloned());
        } else {
            kept.push(condition);
        }
    }
    kept.extend(stored.into_iter().flatten().cloned());
    *conditions = kept;
}

/// `true` if the only version gets another name, which only the proposal's face does: on the others storedVersions keeps
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

/// Checks the annotations that are kindom's own; values that were there before may stay.
fn policies(crd: &CustomResourceDefinition, old: Option<&CustomResourceDefinition>, errors: &mut ErrorList) {
    let metadata = Path::new("metadata");
    let annotations = metadata.child("annotations");
    let known: [(&str, &[&str]); 4] = [
        (DELETION_POLICY, &[REFUSE_WHILE_INSTANCES]),
        (READ_ONLY_ANNOTATION, &["false", "true"]),
        (GENERATION_ANNOTATION, &[GENERATION_OF_SPEC]),
        (CONVERSION_ANNOTATION, &[CONVERSION_BY_PROGRAM]),
    ];
    for (name, values) in known {
        let Some(value) = crd.metadata.annotations.get(name) else { continue };
        let unchanged = old.is_some_and(|old| old.metadata.annotations.get(name) == Some(value));
        if !values.contains(&value.as_str()) && !unchanged {
            errors.push(field::Error::not_supported(&annotations.key(name), value.as_str(), values));
        }
    }
    let sorted =
        |crd: &CustomResourceDefinition| crd.metadata.annotations.get(SORTED_LISTS_ANNOTATION).cloned();
    if let Some(paths) = sorted(crd).filter(|paths| old.and_then(sorted).as_ref() != Some(paths))
        && let Some(why) = SortedLists::check(&paths, StoredRegistration::new(&crd.to_value()))
    {
        errors.push(field::Error::invalid(&annotations.key(SORTED_LISTS_ANNOTATION), paths, why));
    }
    canonical_forms(crd, old, &annotations, errors);
    subresources(crd, old, &annotations, errors);
    conversion_rules(crd, old, &annotations, errors);
    let whole = |crd: &'_ CustomResourceDefinition| crd.metadata.annotations.get(whole::ANNOTATION).cloned();
    if let Some(text) = whole(crd).filter(|text| old.and_then(whole).as_ref() != Some(text))
        && let Err(why) = WholeSchema::compile(&text)
    {
        errors.push(field::Error::invalid_part(&annotations.key(whole::ANNOTATION), why));
    }
}

/// Checks canonical forms that are new.
fn canonical_forms(
    crd: &CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
    annotations: &Path<'_>,
    errors: &mut ErrorList,
) {
    let forms =
        |crd: &'_ CustomResourceDefinition| crd.metadata.annotations.get(CANONICAL_FORMS_ANNOTATION).cloned();
    if let Some(text) = forms(crd).filter(|text| old.and_then(forms).as_ref() != Some(text))
        && let Some(why) = CanonicalForms::check(&text, StoredRegistration::new(&crd.to_value()))
    {
        errors.push(field::Error::invalid_part(&annotations.key(CANONICAL_FORMS_ANNOTATION), why));
    }
}

/// Checks declared subresources that are new, or whose versions are.
fn subresources(
    crd: &CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
    annotations: &Path<'_>,
    errors: &mut ErrorList,
) {
    let Some(text) = crd.metadata.annotations.get(SUBRESOURCES_ANNOTATION) else { return };
    let unchanged = old.is_some_and(|old| {
        let same = |name: &str| old.metadata.annotations.get(name) == crd.metadata.annotations.get(name);
        [SUBRESOURCES_ANNOTATION, RULES_ANNOTATION, CONVERSION_ANNOTATION].into_iter().all(same)
            && old.spec.versions == crd.spec.versions
            && old.spec.conversion == crd.spec.conversion
    });
    // What is wrong in a schema is told first.
    if unchanged || !errors.is_empty() {
        return;
    }
    let tree = crd.to_value();
    let registration = StoredRegistration::new(&tree);
    let by_annotation = |name| registration.annotation(name).is_some();
    let is_converted = registration.converts_by_webhook()
        || by_annotation(RULES_ANNOTATION)
        || by_annotation(CONVERSION_ANNOTATION);
    if let Some(why) = DeclaredSubresources::check(text, registration, is_converted) {
        errors.push(field::Error::invalid_part(&annotations.key(SUBRESOURCES_ANNOTATION), why));
    }
}

/// Checks rules of conversion that are new, or whose versions are.
fn conversion_rules(
    crd: &CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
    annotations: &Path<'_>,
    errors: &mut ErrorList,
) {
    let Some(text) = crd.metadata.annotations.get(RULES_ANNOTATION) else { return };
    let unchanged = old.is_some_and(|old| {
        old.metadata.annotations.get(RULES_ANNOTATION) == Some(text)
            && old.spec.versions == crd.spec.versions
            && old.spec.conversion == crd.spec.conversion
    });
    // What is wrong in a schema is told first.
    if unchanged || !errors.is_empty() {
        return;
    }
    if let Some(why) = DeclaredConversion::check(text, StoredRegistration::new(&crd.to_value())) {
        errors.push(field::Error::invalid_part(&annotations.key(RULES_ANNOTATION), why));
    }
}

impl Strategy for Registrations {
    fn translate(&self, bytes: &[u8]) -> Option<Result<Translated, String>> {
        let translated = json::parse(bytes).map_err(|e| e.to_string()).and_then(|tree| {
            let stored = stored_form(&tree)?;
            // The sign of a zero that was sent as `-0.0` is stored, and goes when it is read.
            let other_form =
                tree.get("apiVersion") != stored.get("apiVersion") || json::may_hold_negative_zero(bytes);
            Ok(Translated { json: stored.to_vec(), other_form, unknown: Vec::new() })
        });
        Some(translated)
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn go_type(&self, spec: &TypeSpec, version: &str) -> Option<&'static Struct> {
        Some(face(&spec.group, version).go_type())
    }

    fn decode(
        &self,
        cx: &RuleContext<'_>,
        object: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<Vec<String>, String> {
        if has_too_many_parts(object) {
            return Err(too_many_parts());
        }
        keep_reset(object, |object| face_of(cx).decode(object, unknown))
    }

    fn refuse_configuration(&self, configuration: &Value) -> ErrorList {
        if has_too_many_parts(configuration) {
            return field::Error::forbidden(&Path::root(), too_many_parts()).into();
        }
        ErrorList::new()
    }

    fn complete_applied(&self, cx: &RuleContext<'_>, object: &mut Value) -> Result<(), String> {
        if has_too_many_parts(object) {
            // Validation reports it.
            return Ok(());
        }
        self.decode(cx, object, None).map(drop)
    }

    fn empty(&self, cx: &RuleContext<'_>) -> Option<Value> {
        face_of(cx).empty()
    }

    /// `strategy.go` and `statusStrategy` there, which leaves metadata to the client.
    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        Subresource::reset_fields(cx.subresource)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["apiextensions.k8s.io/v1beta1"]
    }

    fn refuse_delete(&self, name: &str) -> Option<String> {
        self.compiled.contains(name).then(|| COMPILED.to_owned())
    }

    fn judges_preconditions(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, object: &mut Value) {
        let mut crd = typed(object);
        drop_disabled(&self.disabled, &mut crd, None);
        prepare_for_create(&mut crd);
        *object = crd.to_value();
    }

    fn validate(&self, cx: &RuleContext<'_>, object: &Value) -> ErrorList {
        // An apply is merged, not decoded.
        if has_too_many_parts(object) {
            return field::Error::forbidden(&Path::root(), too_many_parts()).into();
        }
        let crd = typed(object);
        let mut errors = rules::validate_create(&crd, face_of(cx));
        policies(&crd, None, &mut errors);
        errors
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (typed(object), typed(old));
        if cx.subresource == Some(Subresource::Status) {
            prepare_for_status_update(&mut new, &old);
            // Names are claimed and freed through the ledger only (design, "A registration"): conditions that kindom
            // computes are set back, others are kept.
            new.status.accepted_names = old.status.accepted_names.clone();
            set_back_computed(&mut new.status.conditions, &old);
        } else {
            drop_disabled(&self.disabled, &mut new, Some(&old));
            prepare_for_update(&mut new, &old);
            if renames_version(cx, &new, &old) {
                // There are no objects in the old one: the write needs that.
                new.status.stored_versions = new.spec.versions.iter().map(|v| v.name.clone()).collect();
            }
            keep_cleanup(&mut new, &old);
        }
        *object = new.to_value();
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        before: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        if has_too_many_parts(object) {
            return field::Error::forbidden(&Path::root(), too_many_parts()).into();
        }
        let (new, old) = (typed(object), typed(before));
        if cx.subresource == Some(Subresource::Status) {
            let mut errors = rules::validate_status_update(&new, &old);
            errors.extend(rules::validate_stored_versions(&new));
            errors
        } else {
            let mut errors = rules::validate_update(&new, &old, face_of(cx));
            policies(&new, Some(&old), &mut errors);
            let is_kept = self.compiled.contains(&old.metadata.name) && *cx.user != User::api_server();
            if is_kept && object.get("spec") != before.get("spec") {
                errors.push(field::Error::forbidden(&Path::new("spec"), COMPILED));
            }
            let served = |crd: &CustomResourceDefinition| {
                of_program(crd.metadata.annotations.get(SUBRESOURCES_ANNOTATION).map(String::as_str))
            };
            if is_kept && served(&new) != served(&old) {
                let metadata = Path::new("metadata");
                let annotations = metadata.child("annotations");
                errors.push(field::Error::forbidden(&annotations.key(SUBRESOURCES_ANNOTATION), COMPILED));
            }
            errors
        }
    }

    fn canonicalize(&self, cx: &RuleContext<'_>, object: &mut Value) {
        if cx.subresource.is_none() {
            rules::coerce_defaults(object);
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
                PlanError::Forbidden { name: old.metadata.name.clone(), message }
            }
            // T-10
            Some(new) if cx.subresource.is_none() => {
                let new = typed(new);
                let renamed = new.spec.versions.first().filter(|_| renames_version(cx, &new, &old))?;
                let path = Path::new("spec");
                let detail = "there are objects of this type, and a ThirdPartyResource has one version; delete them first";
                let error = field::Error::invalid(&path.child("version"), renamed.name.as_str(), detail);
                PlanError::Invalid { name: old.metadata.name.clone(), errors: error.into() }
            }
            Some(_) => return None,
        };
        Some(NeedsEmpty { prefix: TypeSpec::prefix_of(&old.spec.group, &old.spec.names.plural), refusal })
    }

    fn warnings(&self, cx: &RuleContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        if cx.subresource.is_some() {
            return Vec::new();
        }
        let crd = typed(object);
        match old {
            None => rules::warnings_on_create(&crd),
            Some(old) => rules::warnings_on_update(&crd, &typed(old)),
        }
    }

    /// The first DELETE has no part in garbage collection, the later ones do.
    fn propagation(&self, object: &Value, asked: Propagation) -> Propagation {
        match object.at(&["metadata", "deletionTimestamp"]) {
            Some(_) => asked,
            None => Propagation::Unsaid,
        }
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

/// The number of values that a registration may hold outside its schemas. Each version, column or condition costs some
/// hundred bytes and several errors: a million empty ones in 3 MiB take gigabytes. Registrations of the field hold some
/// hundred.
const PARTS_MAX: usize = 20_000;

/// Returns `true` if a registration holds more than [`PARTS_MAX`] values outside its schemas, whose cost has bounds of its
/// own. managedFields count with the fields that they are about.
fn has_too_many_parts(object: &Value) -> bool {
    let (mut left, mut parts) = (vec![object], 0);
    while let Some(value) = left.pop() {
        parts += 1;
        match value {
            Value::Array(items) => left.extend(items.iter()),
            Value::Object(map) => {
                let counted = map.iter().filter(|(key, _)| !matches!(*key, "openAPIV3Schema" | "fieldsV1"));
                left.extend(counted.map(|(_, value)| value));
            }
            _ => {}
        }
        if parts + left.len() > PARTS_MAX {
            return true;
        }
    }
    false
}

fn too_many_parts() -> String {
    format!("a registration may not hold more than {PARTS_MAX} values outside its schemas")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computed_conditions_are_set_back_where_they_stand() {
        let conditions_of = |kinds: &[(&str, &str)]| -> Vec<Condition> {
            kinds.iter().map(|(kind, status)| Condition::new(*kind, *status, "R", "m")).collect()
        };
        let mut old = CustomResourceDefinition::default();
        old.status.conditions =
            conditions_of(&[("NamesAccepted", "True"), ("Mine", "True"), ("Established", "True")]);
        let check = |sent: &[(&str, &str)], want: &[(&str, &str)]| {
            let mut conditions = conditions_of(sent);
            set_back_computed(&mut conditions, &old);
            assert_eq!(conditions, conditions_of(want));
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

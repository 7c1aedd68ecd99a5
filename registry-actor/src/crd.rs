//! The rules of registrations as objects (apiextensions `pkg/registry/customresourcedefinition`, 1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::crd::{
    CLEANUP_FINALIZER, ColumnDefinition, CustomResourceDefinition, GROUP, condition, decode_crd, default_crd,
    prepare_for_create, prepare_for_status_update, prepare_for_update,
};
use kindom_api::faces::Face;
use kindom_api::field::ErrorList;
use kindom_api::meta::{Condition, set_condition};
use kindom_resource_actor::{Deletion, Names, RuleContext, Scope, Strategy, TypeSpec};
use kindom_schema::columns::Columns;
use kindom_schema::{Schema, crd as rules};

/// `apiextensions.k8s.io/v1` CustomResourceDefinition as a built-in type.
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
    let columns = Columns::compile(&[ColumnDefinition {
        name: "Created At".into(),
        kind: "string".into(),
        format: "date-time".into(),
        description:
            "CreationTimestamp is a timestamp representing the server time when this object was created."
                .into(),
        priority: 0,
        json_path: ".metadata.creationTimestamp".into(),
    }]);
    TypeSpec::built_in(GROUP, "v1", names, Scope::Cluster, columns, Arc::new(Registrations))
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

impl Strategy for Registrations {
    fn subresources(&self) -> &'static [&'static str] {
        &["status"]
    }

    fn decode(
        &self,
        _: &RuleContext<'_>,
        object: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<(), String> {
        let (mut crd, fields) = decode_crd(object).map_err(|e| e.to_string())?;
        default_crd(&mut crd);
        if let Some(unknown) = unknown {
            unknown.extend(fields);
        }
        *object = crd.to_value();
        Ok(())
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, object: &mut Value) {
        let mut crd = typed(object);
        prepare_for_create(&mut crd);
        *object = crd.to_value();
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        rules::validate_create(&typed(object), Face::V1)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (typed(object), typed(old));
        if cx.subresource == Some("status") {
            prepare_for_status_update(&mut new, &old);
            // Names are claimed and freed through the ledger only (design, "A registration"): what kindom computes is
            // set back, what others add is kept.
            new.status.accepted_names = old.status.accepted_names.clone();
            for computed in [condition::NAMES_ACCEPTED, condition::ESTABLISHED, condition::TERMINATING] {
                new.status.conditions.retain(|c| c.kind != computed);
                new.status.conditions.extend(old.condition(computed).cloned());
            }
        } else {
            prepare_for_update(&mut new, &old);
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
            rules::validate_update(&new, &old, Face::V1)
        }
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

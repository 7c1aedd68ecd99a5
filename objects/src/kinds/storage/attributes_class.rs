//! VolumeAttributesClass (`pkg/registry/storage/volumeattributesclass/strategy.go`, 1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;
use kindom_schema::columns::{Columns, Printed};

use super::{API_VERSION, of, validate_parameters, validate_provisioner};
use crate::declared::Declared;
use crate::kinds::fields::{part, same, text};
use crate::kinds::{AGE, metadata_update};
use crate::{Names, RuleContext, Scope, Strategy, TypeSpec};

static ATTRIBUTES_CLASS: Declared = Declared::catalogued(API_VERSION, "VolumeAttributesClass");

pub(super) fn attributes_classes() -> TypeSpec {
    let driver = ATTRIBUTES_CLASS.text_of(&["driverName"]);
    let columns = Columns::printed(&[("DriverName", driver, ".driverName", Printed::Text), AGE]);
    let names = Names {
        short_names: vec!["vac".into()],
        ..Names::of_kind("volumeattributesclasses", "VolumeAttributesClass")
    };
    of(names, Scope::Cluster, columns, Arc::new(AttributesClasses))
}

/// The rules of VolumeAttributesClasses.
struct AttributesClasses;

impl Strategy for AttributesClasses {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&ATTRIBUTES_CLASS)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["storage.k8s.io/v1alpha1", "storage.k8s.io/v1beta1"]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn validate(&self, _: &RuleContext<'_>, class: &Value) -> ErrorList {
        validate(class)
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        class: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(class, old);
        for field in ["driverName", "parameters"] {
            if !same(class.get(field), old.get(field)) {
                let detail = format!("updates to {field} are forbidden.");
                errors.push(Error::forbidden(&Path::new(field), detail));
            }
        }
        errors.append(&mut validate(class));
        errors
    }
}

/// `ValidateVolumeAttributesClass`
fn validate(class: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(class, "metadata"), false, &name_is_dns_subdomain, &at);
    validate_provisioner(text(class, "driverName"), &Path::new("driverName"), &mut errors);
    validate_parameters(class, true, &mut errors);
    errors
}

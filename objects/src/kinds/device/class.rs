//! DeviceClass (`pkg/registry/resource/deviceclass/strategy.go`, 1.37).

use std::sync::Arc;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_qualified_name, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_api::{Map, Value};

use super::{API_VERSION, OTHER_VERSIONS, names, of, request, table};
use crate::declared::Declared;
use crate::kinds::fields::{default_nil, part, present, texts};
use crate::kinds::{generation, metadata_update};
use crate::{Names, RuleContext, Scope, Strategy, TypeSpec};

static CLASS: Declared = Declared::catalogued(API_VERSION, "DeviceClass");
const CONFIG_MAX: usize = 32;

pub(super) fn classes() -> TypeSpec {
    of(Names::of_kind("deviceclasses", "DeviceClass"), Scope::Cluster, table(&[]), Arc::new(DeviceClasses))
}

/// The rules of DeviceClasses.
struct DeviceClasses;

impl Strategy for DeviceClasses {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&CLASS)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &OTHER_VERSIONS
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn fill_defaults(&self, class: &mut Value) {
        default_nil(class, "spec", Map::new());
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, class: &mut Value) {
        generation::first(class);
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, class: &mut Value, old: &Value) {
        generation::next_if_changed(class, old, "spec");
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
        let mut errors = validate(class);
        errors.append(&mut metadata_update(class, old));
        errors
    }
}

/// `ValidateDeviceClass`
fn validate(class: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(class, "metadata"), false, &name_is_dns_subdomain, &at);
    let (spec, at) = (part(class, "spec"), Path::new("spec"));
    request::validate_selectors(spec, &at, &mut errors);
    names::list(spec, "config", CONFIG_MAX, &at, &mut errors, |config, at, errors| {
        request::validate_config(config, None, at, errors);
    });
    if let Some(name) = present(spec, "extendedResourceName").and_then(Value::as_str) {
        validate_resource(name, &at.child("extendedResourceName"), &mut errors);
    }
    errors
}

/// `ExtendedResourceName` of `pkg/api/validate/strfmt.go`
fn validate_resource(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if !name.contains('/') {
        let detail = "a name must be a domain-prefixed path, such as 'example.com/my-prop'";
        errors.push(Error::invalid(at, name, detail));
    } else if name.contains("kubernetes.io/") {
        errors.push(Error::invalid(at, name, "must not have \"kubernetes.io/\" domain"));
    }
    if name.starts_with("requests.") {
        errors.push(Error::invalid(at, name, "must not have \"requests.\" prefix"));
    }
    texts(is_qualified_name(&format!("requests.{name}")), name, at, errors);
}

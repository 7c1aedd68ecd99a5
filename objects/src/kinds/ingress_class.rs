//! IngressClass, `networking.k8s.io/v1`: a controller of Ingresses.
//!
//! Sources: `pkg/registry/networking/ingressclass/strategy.go`, `pkg/apis/networking/validation/validation.go`,
//! `pkg/apis/networking/v1/defaults.go`, `pkg/printers/internalversion/printers.go` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{
    is_dns1123_label, is_dns1123_subdomain, is_path_segment, name_is_dns_subdomain,
};
use kindom_api::meta::validate_object_meta;
use kindom_schema::columns::{Columns, age, name_column};

use crate::declared::Declared;
use crate::kinds::fields::{default_nil, domain_prefixed_path, part, present, present_mut, text, texts};
use crate::kinds::generation;
use crate::kinds::{metadata_update, table_column};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

static INGRESS_CLASS: Declared = Declared::catalogued("networking.k8s.io/v1", "IngressClass");
const CONTROLLER_BYTES_MAX: usize = 250;
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// IngressClasses as a built-in type.
pub(super) fn ingress_classes() -> TypeSpec {
    let controller = "Controller that is responsible for handling this class";
    let parameters = "A reference to a resource with additional parameters";
    let columns = vec![
        name_column(),
        table_column("Controller", "string", 0, controller),
        table_column("Parameters", "string", 0, parameters),
        table_column("Age", "string", 0, ""),
    ];
    let columns = Columns::rows(columns, cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names::of_kind("ingressclasses", "IngressClass");
    TypeSpec::built_in("networking.k8s.io", names, Scope::Cluster, versions, Arc::new(IngressClasses))
}

/// `printIngressClass`
fn cells(class: &Value, now: i64) -> Vec<Value> {
    let (metadata, spec) = (part(class, "metadata"), part(class, "spec"));
    let mut name = text(metadata, "name").to_owned();
    if metadata.text_at(&["annotations", IS_DEFAULT]) == "true" {
        name.push_str(" (default)");
    }
    let parameters = match present(spec, "parameters") {
        None => "<none>".to_owned(),
        Some(of) => {
            let group = present(of, "apiGroup").and_then(Value::as_str);
            let group = group.map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{group}/{}", text(of, "kind"), text(of, "name"))
        }
    };
    vec![
        name.into(),
        text(spec, "controller").into(),
        parameters.into(),
        age(text(metadata, "creationTimestamp"), now).into(),
    ]
}

/// The rules of IngressClasses.
struct IngressClasses;

impl Strategy for IngressClasses {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&INGRESS_CLASS)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["networking.k8s.io/v1beta1"]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn fill_defaults(&self, class: &mut Value) {
        if let Some(parameters) = class.get_mut("spec").and_then(|spec| present_mut(spec, "parameters")) {
            default_nil(parameters, "scope", "Cluster");
        }
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, class: &mut Value) {
        generation::first(class);
    }

    fn validate(&self, _: &RuleContext<'_>, class: &Value) -> ErrorList {
        validate(class)
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, class: &mut Value, old: &Value) {
        generation::next_if_changed(class, old, "spec");
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        class: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(class, old);
        let [new, before] = [class, old].map(|of| of.text_at(&["spec", "controller"]));
        if new != before {
            let at = Path::new("spec");
            errors.push(Error::invalid(&at.child("controller"), new, "field is immutable"));
        }
        errors.append(&mut validate(class));
        errors
    }
}

/// `ValidateIngressClass`
fn validate(class: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(class, "metadata"), false, &name_is_dns_subdomain, &at);
    let (spec, at) = (part(class, "spec"), Path::new("spec"));
    let (controller, at_controller) = (text(spec, "controller"), at.child("controller"));
    if controller.len() > CONTROLLER_BYTES_MAX {
        errors.push(Error::too_long(&at_controller, CONTROLLER_BYTES_MAX));
    }
    domain_prefixed_path(controller, &at_controller, &mut errors);
    if let Some(parameters) = present(spec, "parameters") {
        let at = at.child("parameters");
        validate_reference(parameters, &at, &mut errors);
        validate_scope(parameters, &at, &mut errors);
    }
    errors
}

/// `validateIngressTypedLocalObjectReference`
pub(super) fn validate_reference(reference: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(group) = present(reference, "apiGroup").and_then(Value::as_str) {
        texts(is_dns1123_subdomain(group), group, &at.child("apiGroup"), errors);
    }
    for field in ["kind", "name"] {
        match text(reference, field) {
            "" => errors.push(Error::required(&at.child(field), "")),
            value => texts(is_path_segment(value, false), value, &at.child(field), errors),
        }
    }
}

/// The scope and the namespace of a reference (`validateIngressClassParametersReference`).
fn validate_scope(reference: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let namespace = present(reference, "namespace").and_then(Value::as_str);
    let (at_scope, at_namespace) = (at.child("scope"), at.child("namespace"));
    match (present(reference, "scope").and_then(Value::as_str), namespace) {
        (None, _) => errors.push(Error::required(&at_scope, "")),
        (Some("Namespace"), None) => {
            errors.push(Error::required(&at_namespace, "`parameters.scope` is set to 'Namespace'"));
        }
        (Some("Namespace"), Some(name)) => texts(is_dns1123_label(name), name, &at_namespace, errors),
        (Some("Cluster"), Some(_)) => {
            errors.push(Error::forbidden(&at_namespace, "`parameters.scope` is set to 'Cluster'"));
        }
        (Some("Cluster"), None) => {}
        (Some(other), _) => errors.push(Error::not_supported(&at_scope, other, &["Cluster", "Namespace"])),
    }
}

//! ResourceClaimTemplate (`pkg/registry/resource/resourceclaimtemplate/strategy.go`, 1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;

use super::{API_VERSION, OTHER_VERSIONS, drop_of_claim, fill_claim, of, request, table};
use crate::declared::Declared;
use crate::kinds::fields::{part, same};
use crate::kinds::metadata_update;
use crate::kinds::pod_spec::volume_claim::validate_template_metadata;
use crate::{Names, RuleContext, Scope, Strategy, TypeSpec};

static TEMPLATE: Declared = Declared::catalogued(API_VERSION, "ResourceClaimTemplate");

pub(super) fn templates() -> TypeSpec {
    let names = Names::of_kind("resourceclaimtemplates", "ResourceClaimTemplate");
    of(names, Scope::Namespaced, table(&[]), Arc::new(Templates))
}

/// The rules of ResourceClaimTemplates.
struct Templates;

fn claim_of(template: &mut Value) -> Option<&mut Value> {
    template.get_mut("spec").and_then(|spec| spec.get_mut("spec"))
}

impl Strategy for Templates {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&TEMPLATE)
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

    fn fill_defaults(&self, template: &mut Value) {
        fill_claim(claim_of(template));
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, template: &mut Value) {
        drop_of_claim(claim_of(template));
    }

    fn validate(&self, _: &RuleContext<'_>, template: &Value) -> ErrorList {
        validate(template)
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, template: &mut Value, _: &Value) {
        drop_of_claim(claim_of(template));
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        template: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = validate(template);
        errors.append(&mut metadata_update(template, old));
        if !same(template.get("spec"), old.get("spec")) {
            let at = Path::new("spec");
            let shown = shown(part(template, "spec"));
            errors.push(Error::invalid_raw(&at, shown, "field is immutable"));
        }
        errors
    }
}

/// The spec as Kubernetes' own form of it prints in an error: with the fields of its metadata among its own.
fn shown(spec: &Value) -> String {
    let inner = TEMPLATE.internal(&["spec", "spec"], part(spec, "spec"));
    let metadata = part(spec, "metadata").to_string();
    let fields = metadata.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
    let comma = if fields.is_empty() { "" } else { "," };
    format!("{{{fields}{comma}\"Spec\":{inner}}}")
}

/// `ValidateResourceClaimTemplate`
fn validate(template: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(template, "metadata"), true, &name_is_dns_subdomain, &at);
    let (spec, at) = (part(template, "spec"), Path::new("spec"));
    validate_template_metadata(part(spec, "metadata"), &at.child("metadata"), &mut errors);
    let path = ["spec", "spec"];
    request::validate_claim(part(spec, "spec"), &TEMPLATE, &path, &at.child("spec"), &mut errors);
    errors
}

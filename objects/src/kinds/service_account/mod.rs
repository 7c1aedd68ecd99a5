//! ServiceAccount, `v1`: the name that programs in a namespace go by.
//!
//! Sources: `pkg/registry/core/serviceaccount/strategy.go`, `pkg/apis/core/validation` (`ValidateServiceAccount`),
//! `pkg/printers/internalversion` (1.37).

use std::sync::Arc;

use kindom_api::field::{ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;
use kindom_api::{Value, object};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::kinds::{AGE, metadata_update};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

const ENFORCES: &str = "kubernetes.io/enforce-mountable-secrets";

static SERVICE_ACCOUNT: Declared = Declared::catalogued("v1", "ServiceAccount");

/// ServiceAccounts as a built-in type.
pub(super) fn service_accounts() -> TypeSpec {
    let versions =
        vec![BuiltInVersion { name: "v1", columns: Columns::printed(&[AGE]), deprecation_warning: None }];
    let names =
        Names { short_names: vec!["sa".into()], ..Names::of_kind("serviceaccounts", "ServiceAccount") };
    TypeSpec::built_in("", names, Scope::Namespaced, versions, Arc::new(ServiceAccounts))
}

fn validate(object: &Value) -> ErrorList {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    validate_object_meta(metadata, true, &name_is_dns_subdomain, &Path::new("metadata"))
}

/// Of a reference to a secret only the name is kept (`cleanSecretReferences`).
fn keep_names(object: &mut Value) {
    let secrets = object.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten() {
        let name = secret.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        *secret = name.map_or_else(|| object! {}, |name| object! { "name": name });
    }
}

/// The rules of ServiceAccounts.
struct ServiceAccounts;

impl Strategy for ServiceAccounts {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&SERVICE_ACCOUNT)
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Token]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, object: &mut Value) {
        keep_names(object);
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        validate(object)
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, object: &mut Value, _: &Value) {
        keep_names(object);
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(object, old);
        errors.extend(validate(object));
        errors
    }

    /// `warnIfHasEnforceMountableSecretsAnnotation`
    fn warnings(&self, _: &RuleContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let has = |object: &Value| object.at(&["metadata", "annotations", ENFORCES]).is_some();
        if old.is_some_and(has) || !has(object) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCES}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted \
             secrets"
        )]
    }
}

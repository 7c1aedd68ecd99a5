//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration, `admissionregistration.k8s.io/v1`: the webhooks that judge
//! and change writes ([`admission`](crate::admission)).
//!
//! Sources: `pkg/registry/admissionregistration/validatingwebhookconfiguration/strategy.go` and its mutating sibling,
//! `pkg/apis/admissionregistration/validation`, `pkg/apis/admissionregistration/v1/defaults.go`, `pkg/printers/internalversion`
//! (1.37).

use std::sync::Arc;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::{Map, Value};
use kindom_schema::columns::{Columns, TableColumn, age, name_column};

use crate::declared::Declared;
use crate::kinds::admission_match::{RESERVED, STATIC};
use crate::kinds::fields::{items, number, part, text};
use crate::kinds::metadata_update;
use crate::kinds::table_column;
use crate::metadata::metadata_mut;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

mod rule;
mod rules;

static VALIDATING: Declared =
    Declared::catalogued("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");
static MUTATING: Declared =
    Declared::catalogued("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration");

/// Both kinds as built-in types.
pub(super) fn webhook_configurations() -> [TypeSpec; 2] {
    let spec = |plural, kind, is_mutating| {
        let columns = Columns::rows(columns(), cells);
        let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
        let names = Names { categories: vec!["api-extensions".into()], ..Names::of_kind(plural, kind) };
        let strategy = Arc::new(WebhookConfigurations { is_mutating });
        TypeSpec::built_in("admissionregistration.k8s.io", names, Scope::Cluster, versions, strategy)
    };
    [
        spec("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", true),
        spec("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false),
    ]
}

fn columns() -> Vec<TableColumn> {
    let column = |name: &str, kind: &str, description: &str| table_column(name, kind, 0, description);
    let about = "Webhooks indicates the number of webhooks registered in this configuration";
    vec![name_column(), column("Webhooks", "integer", about), column("Age", "string", "")]
}

/// `printMutatingWebhook` and `printValidatingWebhook`
fn cells(configuration: &Value, now: i64) -> Vec<Value> {
    let metadata = part(configuration, "metadata");
    let count = i64::try_from(items(configuration, "webhooks").len()).unwrap_or(i64::MAX);
    let age = age(text(metadata, "creationTimestamp"), now);
    vec![text(metadata, "name").into(), Value::Int(count), age.into()]
}

/// The rules of one of the kinds.
struct WebhookConfigurations {
    is_mutating: bool,
}

fn set_generation(configuration: &mut Value, generation: i64) {
    metadata_mut(configuration).insert("generation", Value::Int(generation));
}

/// Sets a field that is absent or null.
fn default(of: &mut Map, field: &str, value: impl Into<Value>) {
    if of.get(field).is_none_or(Value::is_null) {
        of.insert(field, value);
    }
}

/// `SetDefaults_ValidatingWebhook` and `SetDefaults_MutatingWebhook`
fn fill_webhook(webhook: &mut Map, is_mutating: bool) {
    default(webhook, "failurePolicy", "Fail");
    default(webhook, "matchPolicy", "Equivalent");
    default(webhook, "namespaceSelector", Value::Object(Map::new()));
    default(webhook, "objectSelector", Value::Object(Map::new()));
    default(webhook, "timeoutSeconds", Value::Int(10));
    if is_mutating {
        default(webhook, "reinvocationPolicy", "Never");
    }
    for rule in webhook.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(rule) = rule.as_object_mut() {
            default(rule, "scope", "*");
        }
    }
    let service = webhook.get_mut("clientConfig").and_then(|config| config.get_mut("service"));
    if let Some(service) = service.and_then(Value::as_object_mut) {
        default(service, "port", Value::Int(443));
    }
}

impl Strategy for WebhookConfigurations {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(if self.is_mutating { &MUTATING } else { &VALIDATING })
    }

    fn fill_defaults(&self, configuration: &mut Value) {
        let webhooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
        for webhook in webhooks.into_iter().flatten().filter_map(Value::as_object_mut) {
            fill_webhook(webhook, self.is_mutating);
        }
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, configuration: &mut Value) {
        set_generation(configuration, 1);
    }

    fn validate(&self, _: &RuleContext<'_>, configuration: &Value) -> ErrorList {
        let mut errors = rules::validate(configuration, None);
        let name = text(part(configuration, "metadata"), "name");
        if name.ends_with(STATIC) {
            let metadata = Path::new("metadata");
            errors.push(Error::invalid(&metadata.child("name"), name, RESERVED));
        }
        errors
    }

    fn warnings(&self, _: &RuleContext<'_>, configuration: &Value, old: Option<&Value>) -> Vec<String> {
        let name = text(part(configuration, "metadata"), "name");
        let reserved = old.is_some() && name.ends_with(STATIC);
        let reserved = reserved.then(|| format!("metadata.name: {RESERVED}"));
        reserved.into_iter().chain(rule::warnings(configuration)).collect()
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, configuration: &mut Value, old: &Value) {
        let generation = number(part(old, "metadata"), "generation").unwrap_or_default();
        let is_same = items(configuration, "webhooks") == items(old, "webhooks");
        set_generation(configuration, generation.saturating_add(i64::from(!is_same)));
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        configuration: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = rules::validate(configuration, Some(old));
        errors.extend(metadata_update(configuration, old));
        errors
    }
}

//! HorizontalPodAutoscaler, `autoscaling/v2` and `v1`: two faces of the same objects, which are stored as `v2` shows them. It is
//! kept for whoever scales by it.
//!
//! Sources: `pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go`, `pkg/apis/autoscaling/{v1,v2}/defaults.go`,
//! `pkg/apis/autoscaling/validation/validation.go`, `pkg/printers/internalversion/printers.go` (1.37).

use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::{Map, Value, json, object};
use kindom_schema::columns::{Columns, age, name_column};

use crate::declared::Declared;
use crate::kinds::fields::{default_nil, items, number, part, present_mut, text};
use crate::kinds::generation;
use crate::kinds::status::{is_of_status, keep, keep_other_part};
use crate::kinds::table_column;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, Translated, TypeSpec};

mod faces;
mod metrics;
mod printed;
mod rules;

/// The stored version, and the other one.
static DECLARED: [Declared; 2] = [
    Declared::catalogued("autoscaling/v2", "HorizontalPodAutoscaler"),
    Declared::catalogued("autoscaling/v1", "HorizontalPodAutoscaler"),
];
/// The percentage of its CPU that a pod should use, unless something else is asked for.
const CPU_UTILIZATION: i64 = 80;
/// The period of the policies that are there by default, in seconds.
const PERIOD: i64 = 15;

/// `autoscaling/v2`
fn second() -> &'static Declared {
    let [second, _] = &DECLARED;
    second
}

/// `autoscaling/v1`
fn first() -> &'static Declared {
    let [_, first] = &DECLARED;
    first
}

/// HorizontalPodAutoscalers as a built-in type.
pub(super) fn autoscalers() -> TypeSpec {
    let names = Names {
        short_names: vec!["hpa".into()],
        categories: vec!["all".into()],
        ..Names::of_kind("horizontalpodautoscalers", "HorizontalPodAutoscaler")
    };
    let version = |name| BuiltInVersion { name, columns: columns(), deprecation_warning: None };
    let versions = ["v2", "v1"].map(version);
    let spec =
        TypeSpec::built_in("autoscaling", names, Scope::Namespaced, versions.into(), Arc::new(Autoscalers));
    spec.with_faces(Arc::new(faces::AutoscalerFaces))
}

/// The columns of both versions.
fn columns() -> Columns {
    let of = |path: &[&str]| second().text_of(path);
    let column = |name: &str, path: &[&str]| table_column(name, "string", 0, of(path));
    let columns = vec![
        name_column(),
        column("Reference", &["spec", "scaleTargetRef"]),
        column("Targets", &["spec", "metrics"]),
        column("MinPods", &["spec", "minReplicas"]),
        column("MaxPods", &["spec", "maxReplicas"]),
        column("Replicas", &["status", "currentReplicas"]),
        table_column("Age", "string", 0, ""),
    ];
    Columns::rows(columns, cells)
}

/// `printHorizontalPodAutoscaler`
fn cells(autoscaler: &Value, now: i64) -> Vec<Value> {
    let [metadata, spec, status] = ["metadata", "spec", "status"].map(|of| part(autoscaler, of));
    let target = part(spec, "scaleTargetRef");
    let least = number(spec, "minReplicas").map_or_else(|| "<unset>".to_owned(), |least| least.to_string());
    vec![
        text(metadata, "name").into(),
        format!("{}/{}", text(target, "kind"), text(target, "name")).into(),
        printed::metrics(items(spec, "metrics"), items(status, "currentMetrics")).into(),
        least.into(),
        Value::Int(number(spec, "maxReplicas").unwrap_or_default()),
        Value::Int(number(status, "currentReplicas").unwrap_or_default()),
        age(text(metadata, "creationTimestamp"), now).into(),
    ]
}

/// Fills in what a rule for one direction leaves open (`copyHPAScalingRules`).
fn fill_rules(behavior: &mut Value, field: &str, window: Option<i64>, policies: Vec<Value>) {
    default_nil(behavior, field, Map::new());
    let Some(rules) = behavior.get_mut(field) else { return };
    default_nil(rules, "selectPolicy", "Max");
    if let Some(window) = window {
        default_nil(rules, "stabilizationWindowSeconds", window);
    }
    default_nil(rules, "policies", policies);
}

fn policy(kind: &str, value: i64) -> Value {
    object! { "type": kind, "value": value, "periodSeconds": PERIOD }
}

/// The rules of HorizontalPodAutoscalers.
struct Autoscalers;

impl Strategy for Autoscalers {
    fn declared(&self) -> &'static [Declared] {
        &DECLARED
    }

    /// kube-apiserver stores the second version, and may be told to store the first.
    fn translate(&self, bytes: &[u8]) -> Option<Result<Translated, String>> {
        let translated = second().translate(bytes, |object| self.fill_defaults(object));
        Some(translated.or_else(|error| {
            let of_first =
                first().translate(bytes, |object| self.fill_defaults(object)).map_err(|_| error)?;
            let shown = json::parse_own(&of_first.json).map_err(|error| error.to_string())?;
            let mut stored = faces::stored(shown);
            self.fill_defaults(&mut stored);
            Ok(Translated { json: stored.to_vec(), other_form: true, ..of_first })
        }))
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["autoscaling/v1", "autoscaling/v2"]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        Subresource::reset_fields(cx.subresource)
    }

    fn fill_defaults(&self, autoscaler: &mut Value) {
        default_nil(autoscaler, "spec", Map::new());
        let is_first = text(autoscaler, "apiVersion") == first().declaration().api_version;
        let Some(spec) = autoscaler.get_mut("spec") else { return };
        default_nil(spec, "minReplicas", 1);
        if is_first {
            return;
        }
        if items(spec, "metrics").is_empty()
            && let Some(spec) = spec.as_object_mut()
        {
            spec.insert("metrics", vec![metrics::of_cpu(CPU_UTILIZATION.into())]);
        }
        if let Some(behavior) = present_mut(spec, "behavior") {
            fill_rules(behavior, "scaleUp", Some(0), vec![policy("Pods", 4), policy("Percent", 100)]);
            fill_rules(behavior, "scaleDown", None, vec![policy("Percent", 100)]);
        }
        faces::drop_annotations(autoscaler);
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, autoscaler: &mut Value) {
        // The object has the stored form, whichever version it came in.
        if let Ok(empty) = second().declaration().shape.decode(&object! {}) {
            keep(autoscaler, &empty.value, "status");
        }
        generation::first(autoscaler);
    }

    /// The store gives the second version's defaults to the fields that the first cannot express, after they were validated.
    fn canonicalize(&self, _: &RuleContext<'_>, autoscaler: &mut Value) {
        second().declaration().shape.forget_empty(autoscaler);
        self.fill_defaults(autoscaler);
    }

    fn validate(&self, _: &RuleContext<'_>, autoscaler: &Value) -> ErrorList {
        rules::validate(autoscaler)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, autoscaler: &mut Value, old: &Value) {
        keep_other_part(cx, autoscaler, old);
        if !is_of_status(cx) {
            generation::next_if_changed(autoscaler, old, "spec");
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        autoscaler: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        match is_of_status(cx) {
            true => rules::validate_status_update(autoscaler, old),
            false => rules::validate_update(autoscaler, old),
        }
    }
}

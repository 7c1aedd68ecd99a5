//! ReplicationController, `v1`: the oldest of the workloads. It is kept for whoever reads it: nothing runs a pod here.
//!
//! Sources: `pkg/registry/core/replicationcontroller/strategy.go`, `pkg/apis/core/v1/defaults.go`, `pkg/apis/core/validation`,
//! `pkg/printers/internalversion/printers.go` (1.37).

use std::sync::Arc;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_api::{Map, Value};
use kindom_schema::columns::{Columns, TableColumn, age, name_column};
use kindom_schema::scale::ScalePaths;

use crate::declared::Declared;
use crate::kinds::fields::{default_nil, not_negative, number, part, present, present_mut, same};
use crate::kinds::generation;
use crate::kinds::keyed::entries;
use crate::kinds::metadata_update;
use crate::kinds::pod_spec::{self, container_cells, defaults, validate_template};
use crate::kinds::status::{is_of_status, keep_other_part, reset};
use crate::kinds::table_column;
use crate::metadata::metadata_mut;
use crate::propagation::Propagation;
use crate::version::SelectableField;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

static REPLICATION_CONTROLLER: Declared = Declared::catalogued("v1", "ReplicationController");

/// ReplicationControllers as a built-in type.
pub(super) fn replication_controllers() -> TypeSpec {
    let columns = Columns::rows(columns(), cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names {
        short_names: vec!["rc".into()],
        categories: vec!["all".into()],
        ..Names::of_kind("replicationcontrollers", "ReplicationController")
    };
    TypeSpec::built_in("", names, Scope::Namespaced, versions, Arc::new(ReplicationControllers))
}

fn columns() -> Vec<TableColumn> {
    let column =
        |name: &str, kind: &str, priority, description: &str| table_column(name, kind, priority, description);
    let of = |path: &[&str]| REPLICATION_CONTROLLER.text_of(path);
    vec![
        name_column(),
        column("Desired", "integer", 0, of(&["spec", "replicas"])),
        column("Current", "integer", 0, of(&["status", "replicas"])),
        column("Ready", "integer", 0, of(&["status", "readyReplicas"])),
        column("Age", "string", 0, ""),
        column("Containers", "string", 1, "Names of each container in the template."),
        column("Images", "string", 1, "Images referenced by each container in the template."),
        column("Selector", "string", 1, of(&["spec", "selector"])),
    ]
}

fn cells(object: &Value, now: i64) -> Vec<Value> {
    let count = |path: &[&str]| Value::Int(object.at(path).and_then(Value::as_i64).unwrap_or_default());
    let mut cells = vec![
        Value::from(object.text_at(&["metadata", "name"])),
        count(&["spec", "replicas"]),
        count(&["status", "replicas"]),
        count(&["status", "readyReplicas"]),
        age(object.text_at(&["metadata", "creationTimestamp"]), now).into(),
    ];
    cells.extend(container_cells(template(object)).map(Value::from));
    cells.push(pod_spec::label_cell(object.at(&["spec", "selector"])).into());
    cells
}

/// The template of a controller's pods.
fn template(object: &Value) -> &Value {
    part(part(object, "spec"), "template")
}

/// The rules of ReplicationControllers.
struct ReplicationControllers;

/// `ValidateReplicationControllerSpec`
fn validate_spec(object: &Value, errors: &mut ErrorList) {
    let (spec, at) = (part(object, "spec"), Path::new("spec"));
    not_negative(spec, "minReadySeconds", &at, errors);
    if entries(spec, "selector").next().is_none() {
        errors.push(Error::required(&at.child("selector"), ""));
    }
    match number(spec, "replicas") {
        None => errors.push(Error::required(&at.child("replicas"), "")),
        Some(_) => not_negative(spec, "replicas", &at, errors),
    }
    let at = at.child("template");
    let Some(template) = present(spec, "template") else { return errors.push(Error::required(&at, "")) };
    let labels = template.at(&["metadata", "labels"]);
    let has = |(key, value): (&str, &str)| {
        labels.and_then(|labels| labels.get(key)).and_then(Value::as_str) == Some(value)
    };
    if !entries(spec, "selector").all(has) {
        let metadata_at = at.child("metadata");
        let shown = labels.filter(|labels| !labels.is_null()).cloned().unwrap_or_default();
        let detail = "`selector` does not match template `labels`";
        errors.push(Error::invalid(&metadata_at.child("labels"), shown, detail));
    }
    validate_template(template, &[], &at, errors);
    let (spec, at) = (part(template, "spec"), at.child("spec"));
    let policy = spec.text_at(&["restartPolicy"]);
    if policy != "Always" {
        errors.push(Error::not_supported(&at.child("restartPolicy"), policy, &["Always"]));
    }
    if present(spec, "activeDeadlineSeconds").is_some() {
        let detail = "activeDeadlineSeconds in ReplicationController is not Supported";
        errors.push(Error::forbidden(&at.child("activeDeadlineSeconds"), detail));
    }
}

/// `ValidateReplicationControllerStatus`
fn validate_status(object: &Value, errors: &mut ErrorList) {
    let (status, at) = (part(object, "status"), Path::new("status"));
    let bounded = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    for field in ["replicas"].into_iter().chain(bounded).chain(["observedGeneration"]) {
        not_negative(status, field, &at, errors);
    }
    let count = |field: &str| number(status, field).unwrap_or_default();
    for field in bounded.into_iter().filter(|field| count(field) > count("replicas")) {
        let detail = "cannot be greater than status.replicas";
        errors.push(Error::invalid(&at.child(field), count(field), detail));
    }
    if count("availableReplicas") > count("readyReplicas") {
        let at = at.child("availableReplicas");
        errors.push(Error::invalid(&at, count("availableReplicas"), "cannot be greater than readyReplicas"));
    }
}

impl Strategy for ReplicationControllers {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&REPLICATION_CONTROLLER)
    }

    fn scale(&self) -> ScalePaths {
        ScalePaths::of_controller()
    }

    fn selectable(&self) -> Vec<SelectableField> {
        vec![SelectableField::new("status.replicas").or("0")]
    }

    fn fill_defaults(&self, object: &mut Value) {
        default_nil(object, "spec", Map::new());
        let labels = template(object).at(&["metadata", "labels"]).cloned().unwrap_or_default();
        let is_empty = |of: Option<&Value>| of.and_then(Value::as_object).is_none_or(Map::is_empty);
        if labels.as_object().is_some() {
            let has_own = !is_empty(object.at(&["metadata", "labels"]));
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
                && is_empty(spec.get("selector"))
            {
                spec.insert("selector", labels.clone());
            }
            if !has_own {
                metadata_mut(object).insert("labels", labels);
            }
        }
        let Some(spec) = object.get_mut("spec") else { return };
        default_nil(spec, "replicas", 1);
        if let Some(template) = present_mut(spec, "template") {
            default_nil(template, "spec", Map::new());
            template.get_mut("spec").into_iter().for_each(defaults::fill);
        }
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Scale, Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        if is_of_status(cx) { &["spec"] } else { &["status"] }
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn default_propagation(&self) -> Propagation {
        Propagation::OrphanUnlessSaid
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value) {
        reset(cx, object);
        generation::first(object);
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        let at = Path::new("metadata");
        let mut errors = validate_object_meta(part(object, "metadata"), true, &name_is_dns_subdomain, &at);
        validate_spec(object, &mut errors);
        errors
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        keep_other_part(cx, object, old);
        if !is_of_status(cx) {
            generation::next_if_changed(object, old, "spec");
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(object, old);
        match is_of_status(cx) {
            true => validate_status(object, &mut errors),
            false => validate_spec(object, &mut errors),
        }
        errors
    }

    /// About a change, upstream warns of the old template.
    fn warnings(&self, cx: &RuleContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let shown = match old {
            None => {
                let wrong = is_dns1123_label(object.text_at(&["metadata", "name"]));
                if !wrong.is_empty() {
                    let why = wrong.join(" ");
                    warnings.push(format!(
                        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
                         label is recommended: [{why}]"
                    ));
                }
                object
            }
            Some(old) if is_of_status(cx) || same(object.get("spec"), old.get("spec")) => return warnings,
            Some(old) => old,
        };
        let (template, at) = (template(shown), Path::new("spec"));
        let at = at.child("template");
        warnings.extend(pod_spec::warnings(part(template, "spec"), part(template, "metadata"), &at));
        warnings
    }
}

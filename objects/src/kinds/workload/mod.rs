//! The workloads of `apps/v1`: Deployment, ReplicaSet, StatefulSet, DaemonSet. They are kept for whoever reads them: nothing runs a
//! pod here.
//!
//! Sources: `pkg/registry/apps/*/strategy.go`, `pkg/apis/apps/v1/defaults.go`, `pkg/apis/apps/validation` (1.37).

use std::sync::Arc;

use kindom_api::field::{ErrorList, Path};
use kindom_api::{Map, Value};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::kinds::fields::{items, part, same};
use crate::kinds::generation;
use crate::kinds::pod_spec;
use crate::kinds::status::{is_of_status, keep, keep_other_part, reset};
use crate::metadata::metadata_mut;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod defaults;
mod printed;
mod rules;

const API_VERSION: &str = "apps/v1";
/// The annotation that holds what Kubernetes' own form of a DaemonSet counts (`apis/apps/v1/conversion.go`).
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

static DEPLOYMENT: Declared = Declared::catalogued(API_VERSION, "Deployment");
static REPLICA_SET: Declared = Declared::catalogued(API_VERSION, "ReplicaSet");
static STATEFUL_SET: Declared = Declared::catalogued(API_VERSION, "StatefulSet");
static DAEMON_SET: Declared = Declared::catalogued(API_VERSION, "DaemonSet");

/// The kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
}

impl Kind {
    fn declared(self) -> &'static Declared {
        match self {
            Self::Deployment => &DEPLOYMENT,
            Self::ReplicaSet => &REPLICA_SET,
            Self::StatefulSet => &STATEFUL_SET,
            Self::DaemonSet => &DAEMON_SET,
        }
    }
}

/// The workloads as built-in types.
pub(super) fn workloads() -> [TypeSpec; 4] {
    [
        of(Kind::Deployment, "deployments", "deploy"),
        of(Kind::ReplicaSet, "replicasets", "rs"),
        of(Kind::StatefulSet, "statefulsets", "sts"),
        of(Kind::DaemonSet, "daemonsets", "ds"),
    ]
}

fn of(kind: Kind, plural: &str, short: &str) -> TypeSpec {
    let columns = Columns::rows(printed::columns(kind), printed::cells(kind));
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let name = kind.declared().declaration().kind;
    let names = Names {
        short_names: vec![short.into()],
        categories: vec!["all".into()],
        ..Names::of_kind(plural, name)
    };
    TypeSpec::built_in("apps", names, Scope::Namespaced, versions, Arc::new(Workloads { kind }))
}

/// The rules of one of the kinds.
struct Workloads {
    kind: Kind,
}

fn generation(object: &Value) -> i64 {
    object.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default()
}

/// The generation of a DaemonSet's template.
fn template_generation(object: &Value) -> i64 {
    object.text_at(&["metadata", "annotations", TEMPLATE_GENERATION]).parse().unwrap_or_default()
}

fn set_template_generation(object: &mut Value, generation: i64) {
    let metadata = metadata_mut(object);
    let annotations = metadata.entry_or_insert_with("annotations", || Value::Object(Map::new()));
    if !matches!(annotations, Value::Object(_)) {
        *annotations = Value::Object(Map::new());
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(TEMPLATE_GENERATION, generation.to_string());
    }
}

impl Workloads {
    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        let annotations = &["metadata", "annotations"];
        !same(object.get("spec"), old.get("spec"))
            || self.kind == Kind::Deployment && !same(object.at(annotations), old.at(annotations))
    }
}

impl Strategy for Workloads {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(self.kind.declared())
    }

    fn known_versions(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Deployment => &["apps/v1beta1", "apps/v1beta2", "extensions/v1beta1"],
            Kind::StatefulSet => &["apps/v1beta1", "apps/v1beta2"],
            Kind::ReplicaSet | Kind::DaemonSet => &["apps/v1beta2", "extensions/v1beta1"],
        }
    }

    fn fill_defaults(&self, object: &mut Value) {
        defaults::fill(self.kind, object);
        if self.kind == Kind::DaemonSet {
            // Kubernetes' own form has it as a number.
            set_template_generation(object, template_generation(object));
        }
    }

    fn subresources(&self) -> &'static [Subresource] {
        match self.kind {
            Kind::DaemonSet => &[Subresource::Status],
            _ => &[Subresource::Scale, Subresource::Status],
        }
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        match (is_of_status(cx), self.kind) {
            (false, _) => &["status"],
            (true, Kind::Deployment) => &["spec", "metadata.labels"],
            (true, _) => &["spec"],
        }
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value) {
        reset(cx, object);
        generation::first(object);
        if self.kind == Kind::DaemonSet && template_generation(object) < 1 {
            set_template_generation(object, 1);
        }
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        rules::validate(self.kind, object)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        keep_other_part(cx, object, old);
        if is_of_status(cx) {
            if self.kind == Kind::Deployment {
                let none = Value::Null;
                let labels = old.get("metadata").unwrap_or(&none);
                if let Some(metadata) = object.get_mut("metadata") {
                    keep(metadata, labels, "labels");
                }
            }
            return;
        }
        if self.kind == Kind::DaemonSet {
            let changed = !same(Some(template(object)), Some(template(old)));
            set_template_generation(object, template_generation(old).saturating_add(i64::from(changed)));
        }
        if self.is_new_generation(object, old) {
            generation::next(object, old);
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        if is_of_status(cx) {
            return rules::validate_status(self.kind, object, old);
        }
        rules::validate_update(self.kind, object, old)
    }

    fn warnings(&self, cx: &RuleContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if is_of_status(cx) {
            return warnings;
        }
        let wrong = kindom_api::meta::names::is_dns1123_label(object.text_at(&["metadata", "name"]));
        if matches!(self.kind, Kind::Deployment | Kind::ReplicaSet) && old.is_none() && !wrong.is_empty() {
            let why = wrong.join(" ");
            warnings.push(format!(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
                 label is recommended: [{why}]"
            ));
        }
        let is_new = old.is_none_or(|old| match self.kind {
            Kind::DaemonSet => !same(Some(template(object)), Some(template(old))),
            _ => generation(object) != generation(old),
        });
        let at = Path::new("spec");
        if is_new {
            let (spec, metadata) = (part(template(object), "spec"), part(template(object), "metadata"));
            warnings.extend(pod_spec::warnings(spec, metadata, &at.child("template")));
        }
        let claims = at.child("volumeClaimTemplates");
        for (index, claim) in items(part(object, "spec"), "volumeClaimTemplates").iter().enumerate() {
            let at = claims.index(index);
            // Upstream names the spec of a claim in updates alone, and so.
            let spec_at = at.child("Spec");
            let at = if old.is_some() { &spec_at } else { &at };
            warnings.extend(pod_spec::volume_claim::warnings(part(claim, "spec"), at));
        }
        let limit = object.at(&["spec", "revisionHistoryLimit"]).and_then(Value::as_i64);
        if self.kind == Kind::StatefulSet && limit.is_some_and(|limit| limit < 0) {
            warnings.push(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// The template of a workload's pods.
fn template(object: &Value) -> &Value {
    object.at(&["spec", "template"]).unwrap_or(&Value::Null)
}

//! FlowSchema and PriorityLevelConfiguration, `flowcontrol.apiserver.k8s.io/v1`: which requests wait for which. They are kept for
//! whoever reads them; this server divides its time by rules of its own (docs/operations.md).
//!
//! Sources: `pkg/registry/flowcontrol/*/strategy.go`, `pkg/apis/flowcontrol/v1/defaults.go`,
//! `pkg/apis/flowcontrol/validation/validation.go`, `pkg/printers/internalversion/printers.go` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::ErrorList;
use kindom_schema::columns::{Columns, age, name_column};

use crate::declared::Declared;
use crate::kinds::fields::{default_nil, default_zero, items, part, present, present_mut, text};
use crate::kinds::generation;
use crate::kinds::status::{is_of_status, keep, keep_other_part, reset};
use crate::kinds::table_column;
use crate::metadata::metadata_mut;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod defaults;
mod rules;

pub use defaults::DefaultObject;

const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";

static FLOW_SCHEMA: Declared = Declared::catalogued(API_VERSION, "FlowSchema");
static PRIORITY_LEVEL: Declared = Declared::catalogued(API_VERSION, "PriorityLevelConfiguration");

/// The kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowKind {
    /// FlowSchema.
    FlowSchema,
    /// PriorityLevelConfiguration.
    PriorityLevel,
}

/// The kinds of flow control as built-in types.
pub(super) fn flow_control() -> [TypeSpec; 2] {
    [of(FlowKind::FlowSchema, "flowschemas"), of(FlowKind::PriorityLevel, "prioritylevelconfigurations")]
}

fn of(kind: FlowKind, plural: &str) -> TypeSpec {
    let column = |name: &str, description: &str| table_column(name, "string", 0, description);
    let text = |path: &[&str]| kind.declared().text_of(path);
    let mut columns = vec![name_column()];
    match kind {
        FlowKind::FlowSchema => columns.extend([
            column("PriorityLevel", text(&["spec", "priorityLevelConfiguration", "name"])),
            column("MatchingPrecedence", text(&["spec", "matchingPrecedence"])),
            column("DistinguisherMethod", text(&["spec", "distinguisherMethod"])),
            column("Age", ""),
            column("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
        ]),
        FlowKind::PriorityLevel => {
            let queuing = |field| text(&["spec", "limited", "limitResponse", "queuing", field]);
            columns.extend([
                column("Type", text(&["spec", "type"])),
                column("NominalConcurrencyShares", text(&["spec", "limited", "nominalConcurrencyShares"])),
                column("Queues", queuing("queues")),
                column("HandSize", queuing("handSize")),
                column("QueueLengthLimit", queuing("queueLengthLimit")),
                column("Age", ""),
            ]);
        }
    }
    let cells = match kind {
        FlowKind::FlowSchema => schema_row,
        FlowKind::PriorityLevel => level_row,
    };
    let columns = Columns::rows(columns, cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names::of_kind(plural, kind.declared().declaration().kind);
    TypeSpec::built_in(
        "flowcontrol.apiserver.k8s.io",
        names,
        Scope::Cluster,
        versions,
        Arc::new(FlowControl { kind }),
    )
}

impl FlowKind {
    fn declared(self) -> &'static Declared {
        match self {
            Self::FlowSchema => &FLOW_SCHEMA,
            Self::PriorityLevel => &PRIORITY_LEVEL,
        }
    }
}

/// `printFlowSchema`
fn schema_row(schema: &Value, now: i64) -> Vec<Value> {
    let spec = part(schema, "spec");
    let method = present(spec, "distinguisherMethod").map_or("<none>", |method| text(method, "type"));
    let conditions = schema.get("status").map(|status| items(status, "conditions")).unwrap_or_default();
    let dangling = conditions.iter().find(|condition| text(condition, "type") == "Dangling");
    vec![
        schema.text_at(&["metadata", "name"]).into(),
        spec.text_at(&["priorityLevelConfiguration", "name"]).into(),
        part(spec, "matchingPrecedence").clone(),
        method.into(),
        age(schema.text_at(&["metadata", "creationTimestamp"]), now).into(),
        dangling.map_or("?", |condition| text(condition, "status")).into(),
    ]
}

/// `printPriorityLevelConfiguration`
fn level_row(level: &Value, now: i64) -> Vec<Value> {
    let limited = ["spec", "limited"];
    let shown = |path: &[&str]| {
        let path: Vec<&str> = limited.iter().chain(path).copied().collect();
        level.at(&path).filter(|value| !value.is_null()).cloned().unwrap_or_else(|| "<none>".into())
    };
    let queuing = |field| shown(&["limitResponse", "queuing", field]);
    vec![
        level.text_at(&["metadata", "name"]).into(),
        level.text_at(&["spec", "type"]).into(),
        shown(&["nominalConcurrencyShares"]),
        queuing("queues"),
        queuing("handSize"),
        queuing("queueLengthLimit"),
        age(level.text_at(&["metadata", "creationTimestamp"]), now).into(),
    ]
}

/// The rules of one of the kinds.
struct FlowControl {
    kind: FlowKind,
}

impl Strategy for FlowControl {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(self.kind.declared())
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &[
            "flowcontrol.apiserver.k8s.io/v1beta1",
            "flowcontrol.apiserver.k8s.io/v1beta2",
            "flowcontrol.apiserver.k8s.io/v1beta3",
        ]
    }

    fn fill_defaults(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        if self.kind == FlowKind::FlowSchema {
            default_zero(spec, "matchingPrecedence", 1000);
            return;
        }
        for (field, shares) in [("exempt", 0), ("limited", 30)] {
            if let Some(level) = present_mut(spec, field) {
                default_nil(level, "nominalConcurrencyShares", shares);
                default_nil(level, "lendablePercent", 0);
                let response = present_mut(level, "limitResponse");
                if let Some(queuing) = response.and_then(|response| present_mut(response, "queuing")) {
                    default_zero(queuing, "handSize", 8);
                    default_zero(queuing, "queues", 64);
                    default_zero(queuing, "queueLengthLimit", 50);
                }
            }
        }
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        if is_of_status(cx) { &["spec", "metadata"] } else { &["status"] }
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value) {
        reset(cx, object);
        generation::first(object);
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        rules::validate(self.kind, object)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        keep_other_part(cx, object, old);
        if is_of_status(cx) {
            // Of the metadata, a write through /status changes the managers alone.
            let managers = object.at(&["metadata", "managedFields"]).cloned();
            keep(object, old, "metadata");
            match managers {
                Some(managers) => drop(metadata_mut(object).insert("managedFields", managers)),
                None => drop(metadata_mut(object).remove("managedFields")),
            }
        } else if !self.kind.declared().is_same(object, old, "spec") {
            generation::next(object, old);
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        _: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        if is_of_status(cx) { rules::status(object) } else { rules::validate(self.kind, object) }
    }
}

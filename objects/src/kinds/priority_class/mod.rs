//! PriorityClass, `scheduling.k8s.io/v1`: a name for a priority of pods. It is kept for whoever reads it: nothing is scheduled
//! here.
//!
//! Sources: `pkg/registry/scheduling/priorityclass`, `pkg/apis/scheduling/validation`, `pkg/apis/scheduling/v1/defaults.go` and
//! `helpers.go`, `pkg/printers/internalversion` (1.37).

use std::sync::Arc;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;
use kindom_api::{Value, object};
use kindom_schema::columns::{Columns, age, name_column};

use crate::declared::Declared;
use crate::kinds::fields::{number, part, text};
use crate::kinds::generation;
use crate::kinds::metadata_update;
use crate::kinds::table_column;
use crate::plugins::{Look, OtherKind, Plugin};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

static PRIORITY_CLASS: Declared = Declared::catalogued("scheduling.k8s.io/v1", "PriorityClass");

/// `HighestUserDefinablePriority`
const HIGHEST: i64 = 1_000_000_000;
const SYSTEM: &str = "system-";
/// The classes of the system, with their values and descriptions.
pub(super) const OF_SYSTEM: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// The classes of the system, as they are made (`SystemPriorityClasses`).
pub fn of_system() -> impl Iterator<Item = (&'static str, Value)> {
    OF_SYSTEM.into_iter().map(|(name, value, description)| {
        let class = object! {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": object! { "name": name },
            "value": value,
            "description": description,
        };
        (name, class)
    })
}

/// PriorityClasses as a built-in type.
pub(super) fn priority_classes() -> TypeSpec {
    let column =
        |name: &str, kind: &str, field: &str| table_column(name, kind, 0, PRIORITY_CLASS.text_of(&[field]));
    let columns = vec![
        name_column(),
        column("Value", "integer", "value"),
        column("Global-Default", "boolean", "globalDefault"),
        column("Age", "string", ""),
        column("PreemptionPolicy", "string", "preemptionPolicy"),
    ];
    let columns = Columns::rows(columns, cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names =
        Names { short_names: vec!["pc".into()], ..Names::of_kind("priorityclasses", "PriorityClass") };
    TypeSpec::built_in("scheduling.k8s.io", names, Scope::Cluster, versions, Arc::new(PriorityClasses))
}

/// `printPriorityClass`
fn cells(class: &Value, now: i64) -> Vec<Value> {
    let metadata = part(class, "metadata");
    vec![
        text(metadata, "name").into(),
        Value::Int(value(class)),
        Value::Bool(is_default(class)),
        age(text(metadata, "creationTimestamp"), now).into(),
        text(class, "preemptionPolicy").into(),
    ]
}

pub(super) fn value(class: &Value) -> i64 {
    number(class, "value").unwrap_or_default()
}

pub(super) fn is_default(class: &Value) -> bool {
    part(class, "globalDefault") == &Value::Bool(true)
}

/// The reason why a class is none of the system's (`IsKnownSystemPriorityClass`).
fn not_of_system(class: &Value, name: &str) -> Option<String> {
    let Some((_, expected, _)) = OF_SYSTEM.iter().find(|(known, ..)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value(class) != *expected {
        return Some(format!("value of {name} PriorityClass must be {expected}"));
    }
    is_default(class).then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

/// The rules of PriorityClasses.
struct PriorityClasses;

impl Strategy for PriorityClasses {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&PRIORITY_CLASS)
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn refuse_delete(&self, name: &str) -> Option<String> {
        let is_of_system = OF_SYSTEM.iter().any(|(known, ..)| *known == name);
        is_of_system.then(|| "this is a system priority class and cannot be deleted".to_owned())
    }

    fn fill_defaults(&self, class: &mut Value) {
        if let Some(class) = class.as_object_mut()
            && class.get("preemptionPolicy").is_none_or(Value::is_null)
        {
            class.insert("preemptionPolicy", "PreemptLowerPriority");
        }
    }

    fn looks_at(&self, cx: &RuleContext<'_>, class: &Value, _: Option<&Value>) -> Vec<Look> {
        match cx.others.has(Plugin::Priority) && is_default(class) {
            true => vec![Look::All(OtherKind::PriorityClass)],
            false => Vec::new(),
        }
    }

    /// One class is the default, as far as those are known that there are (`validatePriorityClass`).
    fn judge(&self, cx: &RuleContext<'_>, class: &Value, old: Option<&Value>) -> Result<(), String> {
        if !cx.others.has(Plugin::Priority) || !is_default(class) {
            return Ok(());
        }
        let name = |class: &Value| class.text_at(&["metadata", "name"]).to_owned();
        let defaults = cx.others.all(OtherKind::PriorityClass).filter(|class| is_default(class));
        let default = defaults.min_by_key(|class| value(class)).map(name);
        match default.filter(|default| old.is_none() || *default != name(class)) {
            Some(default) => Err(format!(
                "PriorityClass {default} is already marked as default. Only one default can exist"
            )),
            None => Ok(()),
        }
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, class: &mut Value) {
        generation::first(class);
    }

    /// `ValidatePriorityClass`
    fn validate(&self, _: &RuleContext<'_>, class: &Value) -> ErrorList {
        let (metadata, at) = (part(class, "metadata"), Path::new("metadata"));
        let mut errors = validate_object_meta(metadata, false, &name_is_dns_subdomain, &at);
        let name = text(metadata, "name");
        if name.starts_with(SYSTEM) {
            if let Some(why) = not_of_system(class, name) {
                let detail = format!(
                    "priority class names with '{SYSTEM}' prefix are reserved for system use only. error: {why}"
                );
                errors.push(Error::forbidden(&at.child("name"), detail));
            }
        } else if value(class) > HIGHEST {
            let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
            errors.push(Error::forbidden(&Path::new("value"), detail));
        }
        validate_policy(text(class, "preemptionPolicy"), &mut errors);
        errors
    }

    /// `ValidatePriorityClassUpdate`
    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        class: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(class, old);
        if value(class) != value(old) {
            errors.push(Error::forbidden(&Path::new("value"), "may not be changed in an update."));
        }
        let [new, old] = [class, old].map(|class| text(class, "preemptionPolicy"));
        if new != old {
            errors.push(Error::invalid(&Path::new("preemptionPolicy"), new, "field is immutable"));
        }
        errors
    }
}

/// `ValidatePreemptionPolicy`
fn validate_policy(policy: &str, errors: &mut ErrorList) {
    let at = Path::new("preemptionPolicy");
    match policy {
        "PreemptLowerPriority" | "Never" => {}
        "" => errors.push(Error::required(&at, "")),
        _ => errors.push(Error::not_supported(&at, policy, &["PreemptLowerPriority", "Never"])),
    }
}

//! Eviction, `policy/v1`: the end of a pod, for whoever empties a node. It is carried out and never stored.
//!
//! Source: `EvictionREST` of `pkg/registry/core/pod/storage/eviction.go` (1.37).

use std::sync::{Arc, OnceLock};

use kindom_api::field::ErrorList;
use kindom_api::{Value, object};
use kindom_schema::columns::Columns;

use super::prepare;
use crate::declared::Declared;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

static EVICTION: Declared = Declared::catalogued("policy/v1", "Eviction");

/// Evictions as a built-in type, which is served by no path of its own.
#[must_use]
pub fn evictions() -> Arc<TypeSpec> {
    static EVICTIONS: OnceLock<Arc<TypeSpec>> = OnceLock::new();
    let evictions = EVICTIONS.get_or_init(|| {
        let versions =
            vec![BuiltInVersion { name: "v1", columns: Columns::compile(&[]), deprecation_warning: None }];
        let names = Names::of_kind("evictions", "Eviction");
        Arc::new(TypeSpec::built_in("policy", names, Scope::Namespaced, versions, Arc::new(Evictions)))
    });
    Arc::clone(evictions)
}

/// A pod that is going to be evicted: a condition says so.
#[must_use]
pub fn evicted(pod: &Value, now: &str) -> Value {
    let mut pod = pod.clone();
    let condition = object! {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    };
    if let Some(status) = pod.get_mut("status") {
        prepare::set_condition(status, condition, now);
    }
    pod
}

/// The rules of evictions.
struct Evictions;

impl Strategy for Evictions {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&EVICTION)
    }

    fn accepted_versions(&self) -> &'static [&'static str] {
        &["policy/v1beta1"]
    }

    fn answers_creates(&self) -> bool {
        true
    }

    fn validate(&self, _: &RuleContext<'_>, _: &Value) -> ErrorList {
        ErrorList::new()
    }

    fn validate_update(&self, _: &RuleContext<'_>, _: &Value, _: &Value, _: &mut Vec<String>) -> ErrorList {
        ErrorList::new()
    }
}

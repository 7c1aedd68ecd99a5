//! LimitRange, `v1`: what pods, their containers and claims may ask for in a namespace. The admission of those kinds looks at it.
//!
//! Sources: `pkg/registry/core/limitrange/strategy.go`, `pkg/apis/core/validation` (`ValidateLimitRange`),
//! `pkg/apis/core/v1/defaults.go` (1.37).

use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::{Map, Value};
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::round_up;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

pub(super) mod bounds;
mod rules;

static LIMIT_RANGE: Declared = Declared::catalogued("v1", "LimitRange");

/// LimitRanges as a built-in type.
pub(super) fn limit_ranges() -> TypeSpec {
    let columns = Columns::printed(&[("Created At", "", ".metadata.creationTimestamp", Printed::Date)]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names { short_names: vec!["limits".into()], ..Names::of_kind("limitranges", "LimitRange") };
    TypeSpec::built_in("", names, Scope::Namespaced, versions, Arc::new(LimitRanges))
}

/// The limits of a range.
pub(super) fn limits(range: &Value) -> &[Value] {
    range.at(&["spec", "limits"]).and_then(Value::as_array).unwrap_or_default()
}

/// The quantities of a field, by resource.
pub(super) fn quantities<'a>(limit: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = limit.get(field).and_then(Value::as_object);
    map.into_iter().flat_map(Map::iter).map(|(name, value)| (name, value.as_str().unwrap_or_default()))
}

/// The rules of LimitRanges.
struct LimitRanges;

impl Strategy for LimitRanges {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&LIMIT_RANGE)
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    /// What a container gets that asks for nothing follows from what it may get (`SetDefaults_LimitRangeItem`).
    fn fill_defaults(&self, range: &mut Value) {
        let limits =
            range.get_mut("spec").and_then(|spec| spec.get_mut("limits")).and_then(Value::as_array_mut);
        for limit in limits.into_iter().flatten() {
            for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
                round_up(limit.get_mut(field));
            }
            if limit.get("type").and_then(Value::as_str) != Some("Container") {
                continue;
            }
            for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
                let found: Vec<(String, String)> = quantities(limit, from)
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                let Some(limit) = limit.as_object_mut().filter(|_| !found.is_empty()) else { continue };
                if limit.get(to).is_none_or(Value::is_null) {
                    limit.insert(to, Value::Object(Map::new()));
                }
                let Some(to) = limit.get_mut(to).and_then(Value::as_object_mut) else { continue };
                for (name, value) in found {
                    if !to.contains_key(&name) {
                        to.insert(name, value);
                    }
                }
            }
        }
    }

    fn validate(&self, _: &RuleContext<'_>, range: &Value) -> ErrorList {
        rules::validate(range)
    }

    /// Upstream's does not look at the change.
    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        range: &Value,
        _: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        rules::validate(range)
    }
}

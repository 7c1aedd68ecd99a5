//! Endpoints, `v1`: the addresses behind a service, in the form that EndpointSlices replace.
//!
//! Sources: `pkg/registry/core/endpoint/strategy.go`, `pkg/apis/core/validation` (`ValidateEndpoints`),
//! `pkg/apis/core/v1/defaults.go`, `pkg/printers/internalversion` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::ErrorList;
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::AGE;
use crate::kinds::fields::{default_zero, items, items_mut, text};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

mod rules;

static ENDPOINTS: Declared = Declared::catalogued("v1", "Endpoints");

/// The warning of every answer (`APILifecycleDeprecated` of the type).
const DEPRECATED: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
/// The most addresses that a cell shows.
const SHOWN_MAX: usize = 3;

/// Endpoints as a built-in type.
pub(super) fn endpoints() -> TypeSpec {
    let cell = ("Endpoints", ENDPOINTS.text_of(&["subsets"]), ".subsets", Printed::Computed(cell));
    let columns = Columns::printed(&[cell, AGE]);
    let versions =
        vec![BuiltInVersion { name: "v1", columns, deprecation_warning: Some(DEPRECATED.to_owned()) }];
    let names = Names {
        singular: "endpoints".into(),
        short_names: vec!["ep".into()],
        ..Names::of_kind("endpoints", "Endpoints")
    };
    TypeSpec::built_in("", names, Scope::Namespaced, versions, Arc::new(Rules))
}

/// The first addresses, with each port, and the number of the others (`formatEndpoints`).
fn cell(endpoints: &Value) -> Value {
    let subsets = items(endpoints, "subsets");
    if subsets.is_empty() {
        return "<none>".into();
    }
    let (mut shown, mut count) = (Vec::new(), 0_usize);
    for subset in subsets {
        let (addresses, ports) = (items(subset, "addresses"), items(subset, "ports"));
        count = count.saturating_add(addresses.len().saturating_mul(ports.len().max(1)));
        if ports.is_empty() {
            shown.extend(addresses.iter().take(SHOWN_MAX).map(|address| text(address, "ip").to_owned()));
        }
        for port in ports.iter().take(SHOWN_MAX) {
            let port = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            let with_port = addresses.iter().take(SHOWN_MAX).map(|address| match text(address, "ip") {
                ip if ip.contains(':') => format!("[{ip}]:{port}"),
                ip => format!("{ip}:{port}"),
            });
            shown.extend(with_port);
        }
        shown.truncate(SHOWN_MAX);
    }
    let shown = shown.join(",");
    match count.checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        Some(more) => format!("{shown} + {more} more...").into(),
        None => shown.into(),
    }
}

/// The rules of Endpoints.
struct Rules;

impl Strategy for Rules {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&ENDPOINTS)
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    /// `SetDefaults_Endpoints`
    fn fill_defaults(&self, endpoints: &mut Value) {
        let subsets = endpoints.get_mut("subsets").and_then(Value::as_array_mut);
        for subset in subsets.into_iter().flatten() {
            items_mut(subset, "ports").for_each(|port| default_zero(port, "protocol", "TCP"));
        }
    }

    fn validate(&self, _: &RuleContext<'_>, endpoints: &Value) -> ErrorList {
        rules::validate(endpoints, None)
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        endpoints: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        rules::validate_update(endpoints, old)
    }

    fn warnings(&self, _: &RuleContext<'_>, endpoints: &Value, _: Option<&Value>) -> Vec<String> {
        rules::warnings(endpoints)
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::object;

    use super::*;

    fn shown(addresses: &[&str], ports: &[i64]) -> Value {
        let addresses: Vec<Value> = addresses.iter().map(|ip| object! { "ip": *ip }).collect();
        let ports: Vec<Value> = ports.iter().map(|port| object! { "port": Value::Int(*port) }).collect();
        cell(&object! { "subsets": vec![object! { "addresses": addresses, "ports": ports }] })
    }

    #[test]
    fn a_cell_shows_three_addresses() {
        assert_eq!(cell(&object! { "subsets": Value::Null }), "<none>".into());
        assert_eq!(shown(&[], &[]), "".into());
        assert_eq!(shown(&["1.1.1.1", "::2"], &[80]), "1.1.1.1:80,[::2]:80".into());
        assert_eq!(shown(&["1.1.1.1", "::2", "3", "4"], &[]), "1.1.1.1,::2,3 + 1 more...".into());
        assert_eq!(shown(&["1", "2"], &[80, 81]), "1:80,2:80,1:81 + 1 more...".into());
    }
}

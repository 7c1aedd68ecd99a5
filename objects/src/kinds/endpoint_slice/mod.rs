//! EndpointSlice, `discovery.k8s.io/v1`: some of the addresses behind a service.
//!
//! Sources: `pkg/registry/discovery/endpointslice/strategy.go`, `pkg/apis/discovery/validation`,
//! `pkg/apis/discovery/v1/defaults.go`, `pkg/printers/internalversion` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::ErrorList;
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::AGE;
use crate::kinds::fields::{default_nil, items, items_mut};
use crate::kinds::generation;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

mod rules;

static ENDPOINT_SLICE: Declared = Declared::catalogued("discovery.k8s.io/v1", "EndpointSlice");

/// The most items that a cell shows.
const SHOWN_MAX: usize = 3;

/// EndpointSlices as a built-in type.
pub(super) fn endpoint_slices() -> TypeSpec {
    let text = |field| ENDPOINT_SLICE.text_of(&[field]);
    let columns = Columns::printed(&[
        ("AddressType", text("addressType"), ".addressType", Printed::Text),
        ("Ports", text("ports"), ".ports", Printed::Computed(ports)),
        ("Endpoints", text("endpoints"), ".endpoints", Printed::Computed(addresses)),
        AGE,
    ]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names::of_kind("endpointslices", "EndpointSlice");
    TypeSpec::built_in("discovery.k8s.io", names, Scope::Namespaced, versions, Arc::new(EndpointSlices))
}

/// The first items and the number of the others (`listWithMoreString`).
fn shortened(items: impl Iterator<Item = String>) -> Value {
    let (mut shown, mut more) = (Vec::new(), 0_usize);
    for item in items {
        match shown.len() < SHOWN_MAX {
            true => shown.push(item),
            false => more = more.saturating_add(1),
        }
    }
    match (shown.join(","), more) {
        (shown, 0) if shown.is_empty() => "<unset>".into(),
        (shown, 0) => shown.into(),
        (shown, more) => format!("{shown} + {more} more...").into(),
    }
}

/// `formatDiscoveryPorts`
fn ports(slice: &Value) -> Value {
    shortened(items(slice, "ports").iter().map(|port| match port.get("port").and_then(Value::as_i64) {
        Some(number) => number.to_string(),
        None => port.get("name").and_then(Value::as_str).unwrap_or("*").to_owned(),
    }))
}

/// `formatDiscoveryEndpoints`
fn addresses(slice: &Value) -> Value {
    let addresses = items(slice, "endpoints").iter().flat_map(|endpoint| items(endpoint, "addresses"));
    shortened(addresses.map(|address| address.as_str().unwrap_or_default().to_owned()))
}

/// `true` if more than metadata changed; labels count.
fn is_new_generation(slice: &Value, old: &Value) -> bool {
    let fields = ["addressType", "endpoints", "ports"];
    let labels = |object: &Value| object.at(&["metadata", "labels"]).cloned();
    fields.iter().any(|field| !ENDPOINT_SLICE.is_same(slice, old, field)) || labels(slice) != labels(old)
}

/// Drops a field that no client of `v1` may set (`dropTopologyOnV1`).
fn drop_topology(slice: &mut Value) {
    items_mut(slice, "endpoints")
        .filter_map(Value::as_object_mut)
        .for_each(|endpoint| drop(endpoint.remove("deprecatedTopology")));
}

/// The rules of EndpointSlices.
struct EndpointSlices;

impl Strategy for EndpointSlices {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&ENDPOINT_SLICE)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["discovery.k8s.io/v1beta1"]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// `SetDefaults_EndpointPort`
    fn fill_defaults(&self, slice: &mut Value) {
        for port in items_mut(slice, "ports") {
            default_nil(port, "name", "");
            default_nil(port, "protocol", "TCP");
        }
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, slice: &mut Value) {
        generation::first(slice);
        drop_topology(slice);
    }

    fn validate(&self, _: &RuleContext<'_>, slice: &Value) -> ErrorList {
        rules::validate(slice, None)
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, slice: &mut Value, old: &Value) {
        if is_new_generation(slice, old) {
            generation::next(slice, old);
        }
        if !ENDPOINT_SLICE.is_same(slice, old, "endpoints") {
            drop_topology(slice);
        }
    }

    /// Upstream's does not look at the metadata's change, which every update's generic rules do.
    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        slice: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        rules::validate(slice, Some(old))
    }

    fn warnings(&self, _: &RuleContext<'_>, slice: &Value, old: Option<&Value>) -> Vec<String> {
        rules::warnings(slice, old.is_none())
    }
}

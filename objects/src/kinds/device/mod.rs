//! Kinds of `resource.k8s.io/v1`: DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice. They are kept for whoever
//! allocates devices. Selectors are bounded in length, and not compiled.
//!
//! Sources: `pkg/registry/resource/*/strategy.go`, `pkg/apis/resource/validation/validation.go`,
//! `pkg/apis/resource/v1/{defaults,zz_generated.validations}.go`, `pkg/printers/internalversion/printers.go` (1.37).

use std::sync::Arc;

use kindom_api::{Map, Value};
use kindom_schema::columns::{Columns, Printed};

use crate::kinds::AGE;
use crate::kinds::fields::{default_zero, items_mut, present_mut, text};
use crate::{BuiltInVersion, Names, Scope, Strategy, TypeSpec};

mod capacity;
mod claim;
mod class;
mod names;
mod request;
mod slice;
mod status;
mod template;

const API_VERSION: &str = "resource.k8s.io/v1";
/// The versions that a server may have beside this one.
const OTHER_VERSIONS: [&str; 3] =
    ["resource.k8s.io/v1alpha3", "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"];

/// The kinds as built-in types.
pub(super) fn devices() -> [TypeSpec; 4] {
    [class::classes(), claim::claims(), template::templates(), slice::slices()]
}

fn of(names: Names, scope: Scope, columns: Columns, strategy: Arc<dyn Strategy>) -> TypeSpec {
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    TypeSpec::built_in("resource.k8s.io", names, scope, versions, strategy)
}

/// A table of these columns between the name and the age.
fn table(columns: &[(&str, &str, &str, Printed)]) -> Columns {
    let mut columns = columns.to_vec();
    columns.push(AGE);
    Columns::printed(&columns)
}

/// Fills in the spec of a claim (`SetDefaults_ExactDeviceRequest`, `SetDefaults_DeviceSubRequest`), and drops its alpha fields.
fn fill_claim(spec: Option<&mut Value>) {
    let Some(devices) = spec.and_then(|spec| spec.get_mut("devices")) else { return };
    for request in items_mut(devices, "requests") {
        if let Some(exactly) = present_mut(request, "exactly") {
            fill_request(exactly);
        }
        items_mut(request, "firstAvailable").for_each(fill_request);
    }
}

fn fill_request(request: &mut Value) {
    default_zero(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        default_zero(request, "count", 1);
    }
    fill_tolerations(request);
}

fn fill_tolerations(of: &mut Value) {
    items_mut(of, "tolerations").for_each(|toleration| default_zero(toleration, "operator", "Equal"));
}

/// Drops fields of features that are alpha and off (`dropDisabledFields`).
fn drop_fields(of: &mut Value, fields: &[&str]) {
    if let Some(map) = of.as_object_mut() {
        map.retain(|name, _| !fields.contains(&name));
    }
}

/// Drops the alpha fields of a claim's spec.
fn drop_of_claim(spec: Option<&mut Value>) {
    let Some(devices) = spec.and_then(|spec| spec.get_mut("devices")) else { return };
    let derived = ["derivedAttributes"];
    for request in items_mut(devices, "requests") {
        if let Some(exactly) = present_mut(request, "exactly") {
            drop_fields(exactly, &derived);
        }
        items_mut(request, "firstAvailable").for_each(|request| drop_fields(request, &derived));
    }
}

/// The entries of a map.
fn entries<'a>(of: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    of.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

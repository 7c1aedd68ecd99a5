//! ResourceClaim (`pkg/registry/resource/resourceclaim/strategy.go`, 1.37).

use std::collections::BTreeSet;
use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;
use kindom_schema::columns::Printed;

use super::{
    API_VERSION, OTHER_VERSIONS, drop_fields, drop_of_claim, fill_claim, fill_tolerations, of, request,
    status, table,
};
use crate::declared::Declared;
use crate::kinds::fields::{items, items_mut, part, present, same};
use crate::kinds::metadata_update;
use crate::kinds::status::{is_of_status, keep_metadata, keep_other_part, reset};
use crate::{Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

static CLAIM: Declared = Declared::catalogued(API_VERSION, "ResourceClaim");

pub(super) fn claims() -> TypeSpec {
    let description = "A summary of the current state (allocated, pending, reserved, etc.).";
    let state = ("State", description, ".status", Printed::Computed(state));
    let names = Names::of_kind("resourceclaims", "ResourceClaim");
    of(names, Scope::Namespaced, table(&[state]), Arc::new(Claims))
}

/// `resourceClaimState`
fn state(claim: &Value) -> Value {
    let is_deleted = claim.at(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null());
    let status = part(claim, "status");
    let is_allocated = present(status, "allocation").is_some();
    let states = [
        (is_deleted, "deleted"),
        (!is_deleted && !is_allocated, "pending"),
        (is_allocated, "allocated"),
        (is_allocated && !items(status, "reservedFor").is_empty(), "reserved"),
    ];
    let states: Vec<&str> = states.into_iter().filter_map(|(is, state)| is.then_some(state)).collect();
    states.join(",").into()
}

/// The rules of ResourceClaims.
struct Claims;

impl Strategy for Claims {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&CLAIM)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &OTHER_VERSIONS
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        if is_of_status(cx) { &["metadata", "spec"] } else { &["status"] }
    }

    fn fill_defaults(&self, claim: &mut Value) {
        fill_claim(claim.get_mut("spec"));
        results_mut(claim.get_mut("status")).for_each(fill_tolerations);
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, claim: &mut Value) {
        reset(cx, claim);
        drop_of_claim(claim.get_mut("spec"));
    }

    fn validate(&self, _: &RuleContext<'_>, claim: &Value) -> ErrorList {
        let mut errors = validate_metadata(claim);
        request::validate_claim(part(claim, "spec"), &CLAIM, &["spec"], &Path::new("spec"), &mut errors);
        errors
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, claim: &mut Value, old: &Value) {
        keep_other_part(cx, claim, old);
        if !is_of_status(cx) {
            return drop_of_claim(claim.get_mut("spec"));
        }
        keep_metadata(claim, old);
        let Some(status) = claim.get_mut("status") else { return };
        results_mut(Some(status)).for_each(|of| drop_fields(of, &["skipNodeOperations"]));
        drop_deallocated(status, part(old, "status"));
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        claim: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        if is_of_status(cx) {
            let mut errors = metadata_update(claim, old);
            status::validate(claim, old, &CLAIM, &mut errors);
            return errors;
        }
        let mut errors = validate_metadata(claim);
        errors.append(&mut metadata_update(claim, old));
        if !same(claim.get("spec"), old.get("spec")) {
            // Upstream prints no value.
            errors.push(Error::invalid(&Path::new("spec"), Value::Null, "field is immutable"));
        }
        errors
    }
}

fn validate_metadata(claim: &Value) -> ErrorList {
    validate_object_meta(part(claim, "metadata"), true, &name_is_dns_subdomain, &Path::new("metadata"))
}

/// The devices that a status allocates, for changing them.
fn results_mut(status: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    let allocation = status.and_then(|status| status.get_mut("allocation"));
    let devices = allocation.and_then(|allocation| allocation.get_mut("devices"));
    devices.into_iter().flat_map(|devices| items_mut(devices, "results"))
}

/// Removes the status of devices that the claim has no more (`dropDeallocatedStatusDevices`).
fn drop_deallocated(status: &mut Value, old: &Value) {
    let allocated = |status: &Value| -> BTreeSet<status::DeviceId> { status::allocated(status).collect() };
    let now = allocated(status);
    let gone: BTreeSet<_> = allocated(old).into_iter().filter(|id| !now.contains(id)).collect();
    let Some(map) = status.as_object_mut() else { return };
    if let Some(devices) = map.get_mut("devices").and_then(Value::as_array_mut) {
        devices.retain(|device| !gone.contains(&status::device_id(device)));
        if devices.is_empty() {
            map.remove("devices");
        }
    }
}

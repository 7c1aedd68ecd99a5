//! The errors in the status of a claim (`validateResourceClaimStatusUpdate`).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};

use super::names;
use super::request::{REQUESTS_MAX, RequestNames, validate_config, validate_raw, validate_tolerations};
use crate::declared::Declared;
use crate::kinds::fields::{items, part, present, same, text};
use crate::kinds::ip;
use crate::kinds::pod_spec::affinity::validate_node_selector;
use crate::kinds::status::validate_conditions;

const RESERVED_MAX: usize = 256;
const RESULTS_MAX: usize = 32;
const CONFIG_MAX: usize = 64;
const BINDING_MAX: usize = 4;
const CONDITIONS_MAX: usize = 8;
const INTERFACE_BYTES_MAX: usize = 256;
const HARDWARE_BYTES_MAX: usize = 128;
const ADDRESSES_MAX: usize = 16;
const SOURCES: [&str; 2] = ["FromClaim", "FromClass"];

/// A device, by its driver, its pool, its name, and the share of it.
pub(super) type DeviceId = [String; 4];

/// `MakeSharedDeviceID`
pub(super) fn device_id(of: &Value) -> DeviceId {
    ["driver", "pool", "device", "shareID"].map(|field| text(of, field).to_owned())
}

/// The devices that a status allocates.
pub(super) fn allocated(status: &Value) -> impl Iterator<Item = DeviceId> {
    items(part(part(status, "allocation"), "devices"), "results").iter().map(device_id)
}

pub(super) fn validate(claim: &Value, old: &Value, declared: &'static Declared, errors: &mut ErrorList) {
    let ([status, before], at) = ([claim, old].map(|of| part(of, "status")), Path::new("status"));
    let requests = RequestNames::of(part(claim, "spec"));
    names::list(status, "reservedFor", RESERVED_MAX, &at, errors, |consumer, at, errors| {
        for field in ["resource", "name", "uid"] {
            if text(consumer, field).is_empty() {
                errors.push(Error::required(&at.child(field), ""));
            }
        }
    });
    let shape = declared.item_at(&["status", "reservedFor"]);
    let uid = |consumer: &Value| text(consumer, "uid").to_owned();
    names::unique(status, "reservedFor", RESERVED_MAX, shape, &at, errors, uid);
    let ids: BTreeSet<DeviceId> = allocated(status).collect();
    names::list(status, "devices", usize::MAX, &at, errors, |device, at, errors| {
        validate_device(device, &ids, at, errors);
    });
    let shape = declared.item_at(&["status", "devices"]);
    names::unique(status, "devices", usize::MAX, shape, &at, errors, device_id);
    let (allocation, allocated_before) = (present(status, "allocation"), present(before, "allocation"));
    let reserved = items(status, "reservedFor");
    let at_reserved = at.child("reservedFor");
    if !reserved.is_empty() && allocation.is_none() {
        errors.push(Error::forbidden(&at_reserved, "may not be specified when `allocated` is not set"));
    }
    let is_deleted = claim.at(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null());
    if is_deleted && allocation.is_some() {
        let known: BTreeSet<String> = items(before, "reservedFor").iter().map(Value::to_string).collect();
        if reserved.iter().any(|consumer| !known.contains(&consumer.to_string())) {
            let detail =
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.push(Error::forbidden(&at_reserved, detail));
        }
    }
    let at = at.child("allocation");
    match (allocation, allocated_before) {
        (Some(now), Some(before)) if !same(Some(now), Some(before)) => {
            // Upstream prints no value.
            errors.push(Error::invalid(&at, Value::Null, "field cannot be modified once set"));
        }
        (Some(allocation), None) => validate_allocation(allocation, &requests, &at, errors),
        _ => {}
    }
}

/// `validateAllocationResult`
fn validate_allocation(
    allocation: &Value,
    requests: &RequestNames<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (devices, at_devices) = (part(allocation, "devices"), at.child("devices"));
    names::list(devices, "results", RESULTS_MAX, &at_devices, errors, |result, at, errors| {
        let field = |field: &str| text(result, field);
        requests.validate(field("request"), &at.child("request"), errors);
        names::driver(field("driver"), &at.child("driver"), errors);
        names::pool_of_result(field("pool"), &at.child("pool"), errors);
        names::label(field("device"), &at.child("device"), errors);
        validate_binding(result, at, errors);
        validate_tolerations(result, at, errors);
        if let Some(id) = present(result, "shareID").and_then(Value::as_str) {
            names::uuid(id, &at.child("shareID"), errors);
        }
    });
    names::list(devices, "config", CONFIG_MAX, &at_devices, errors, |config, at, errors| {
        let at_source = at.child("source");
        match text(config, "source") {
            "" => errors.push(Error::required(&at_source, "")),
            source if SOURCES.contains(&source) => {}
            source => errors.push(Error::not_supported(&at_source, source, &SOURCES)),
        }
        validate_config(config, Some(requests), at, errors);
    });
    if let Some(selector) = present(allocation, "nodeSelector") {
        validate_node_selector(selector, &at.child("nodeSelector"), errors);
    }
}

/// `validateDeviceBindingParameters`
pub(super) fn validate_binding(of: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let [binding, failing] = ["bindingConditions", "bindingFailureConditions"];
    for field in [binding, failing] {
        names::list(of, field, BINDING_MAX, at, errors, |name, at, errors| {
            names::label_key(name.as_str().unwrap_or_default(), at, errors);
        });
    }
    let name_of = |name: &Value| name.as_str().unwrap_or_default().to_owned();
    names::unique(of, binding, REQUESTS_MAX, None, at, errors, name_of);
    names::unique(of, failing, REQUESTS_MAX, None, at, errors, name_of);
    let conditions: BTreeSet<String> = items(of, binding).iter().map(name_of).collect();
    let at_failing = at.child(failing);
    for (index, name) in items(of, failing).iter().enumerate() {
        if conditions.contains(&name_of(name)) {
            let detail = "bindingFailureConditions must not overlap with bindingConditions";
            errors.push(Error::invalid(&at_failing.index(index), name_of(name), detail));
        }
    }
    let [has_binding, has_failing] = [binding, failing].map(|field| !items(of, field).is_empty());
    if !has_binding && has_failing {
        let detail = "bindingConditions are required to use bindingFailureConditions";
        errors.push(Error::invalid(&at.child(binding), Value::Null, detail));
    }
    if has_binding && !has_failing {
        let detail = "bindingFailureConditions are required to use bindingConditions";
        errors.push(Error::invalid(&at_failing, Value::Null, detail));
    }
}

/// `validateDeviceStatus`
fn validate_device(device: &Value, allocated: &BTreeSet<DeviceId>, at: &Path<'_>, errors: &mut ErrorList) {
    crate::kinds::pod_spec::sources::validate_driver(text(device, "driver"), &at.child("driver"), errors);
    names::pool(text(device, "pool"), &at.child("pool"), errors);
    names::label(text(device, "device"), &at.child("device"), errors);
    if let Some(id) = present(device, "shareID").and_then(Value::as_str) {
        names::uuid(id, &at.child("shareID"), errors);
    }
    let id = device_id(device);
    if !allocated.contains(&id) {
        let [driver, pool, name, share] = id.map(|part| Value::from(part).to_string());
        let shown = format!("{{\"Driver\":{driver},\"Pool\":{pool},\"Device\":{name},\"ShareID\":{share}}}");
        errors.push(Error::invalid_raw(at, shown, "must be an allocated device in the claim"));
    }
    let (conditions, at_conditions) = (items(device, "conditions"), at.child("conditions"));
    if conditions.len() > CONDITIONS_MAX {
        errors.push(Error::too_many(&at_conditions, conditions.len(), CONDITIONS_MAX));
    }
    validate_conditions(conditions, &at_conditions, errors);
    if let Some(data) = present(device, "data") {
        validate_raw(Some(data), &at.child("data"), errors);
    }
    let (network, at) = (part(device, "networkData"), at.child("networkData"));
    for (field, max) in [("interfaceName", INTERFACE_BYTES_MAX), ("hardwareAddress", HARDWARE_BYTES_MAX)] {
        if text(network, field).len() > max {
            errors.push(Error::too_long(&at.child(field), max));
        }
    }
    names::list(network, "ips", ADDRESSES_MAX, &at, errors, |address, at, errors| {
        errors.extend(ip::interface(address.as_str().unwrap_or_default(), at));
    });
    let text_of = |address: &Value| address.as_str().unwrap_or_default().to_owned();
    names::unique(network, "ips", ADDRESSES_MAX, None, &at, errors, text_of);
}

//! The rules of Endpoints (`ValidateEndpoints` of `pkg/apis/core/validation/validation.go`, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{
    is_dns1123_label, is_dns1123_subdomain, is_port_number, name_is_dns_subdomain,
};
use kindom_api::meta::validate_object_meta;

use super::ENDPOINTS;
use crate::kinds::fields::{items, text, texts};
use crate::kinds::network::{app_protocol, protocol};
use crate::kinds::{ip, metadata_update};

/// The lists of addresses of a subset.
const ADDRESSES: [&str; 2] = ["addresses", "notReadyAddresses"];

/// `ValidateEndpoints`: subsets that an update leaves as they were are valid.
pub(super) fn validate(endpoints: &Value, old: Option<&Value>) -> ErrorList {
    let metadata = endpoints.get("metadata").unwrap_or(&Value::Null);
    let mut errors = validate_object_meta(metadata, true, &name_is_dns_subdomain, &Path::new("metadata"));
    let mut wrong = subsets(endpoints);
    if wrong.iter().next().is_some() && old.is_none_or(|old| !ENDPOINTS.is_same(endpoints, old, "subsets")) {
        errors.append(&mut wrong);
    }
    errors
}

/// `ValidateEndpointsUpdate`
pub(super) fn validate_update(endpoints: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(endpoints, old);
    errors.append(&mut validate(endpoints, Some(old)));
    errors
}

/// `validateEndpointSubsets`
fn subsets(endpoints: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("subsets");
    for (index, subset) in items(endpoints, "subsets").iter().enumerate() {
        let at = path.index(index);
        if ADDRESSES.iter().all(|field| items(subset, field).is_empty()) {
            errors.push(Error::required(&at, "must specify `addresses` or `notReadyAddresses`"));
        }
        for field in ADDRESSES {
            let of_field = at.child(field);
            for (index, value) in items(subset, field).iter().enumerate() {
                address(value, &of_field.index(index), &mut errors);
            }
        }
        let (ports, of_ports) = (items(subset, "ports"), at.child("ports"));
        for (index, value) in ports.iter().enumerate() {
            port(value, ports.len() > 1, &of_ports.index(index), &mut errors);
        }
        if errors.is_full() {
            break;
        }
    }
    errors
}

/// `validateEndpointAddress`
fn address(address: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (ip, of_ip) = (text(address, "ip"), at.child("ip"));
    errors.extend(ip::legacy(ip, &of_ip));
    let hostname = text(address, "hostname");
    if !hostname.is_empty() {
        texts(is_dns1123_label(hostname), hostname, &at.child("hostname"), errors);
    }
    if let Some(node) = address.get("nodeName").and_then(Value::as_str) {
        texts(is_dns1123_subdomain(node), node, &at.child("nodeName"), errors);
    }
    errors.append(&mut ip::endpoint(ip, &of_ip));
}

/// `validateEndpointPort`
fn port(port: &Value, needs_name: bool, at: &Path<'_>, errors: &mut ErrorList) {
    let (name, of_name) = (text(port, "name"), at.child("name"));
    if !name.is_empty() {
        texts(is_dns1123_label(name), name, &of_name, errors);
    } else if needs_name {
        errors.push(Error::required(&of_name, ""));
    }
    let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
    errors.extend(is_port_number(number).map(|why| Error::invalid(&at.child("port"), number, why)));
    protocol(port, at, errors);
    app_protocol(port, at, errors);
}

/// `endpointsWarnings`: about addresses in odd forms, unless the controller of endpoints wrote them.
pub(super) fn warnings(endpoints: &Value) -> Vec<String> {
    let manager = endpoints.text_at(&["metadata", "labels", "endpoints.kubernetes.io/managed-by"]);
    if manager == "endpoint-controller" {
        return Vec::new();
    }
    let (mut warnings, path) = (Vec::new(), Path::new("subsets"));
    for (index, subset) in items(endpoints, "subsets").iter().enumerate() {
        let at = path.index(index);
        for field in ADDRESSES {
            let of_field = at.child(field);
            for (index, address) in items(subset, field).iter().enumerate() {
                let at = of_field.index(index);
                warnings.extend(ip::warning(text(address, "ip"), &at.child("ip")));
            }
        }
    }
    warnings
}

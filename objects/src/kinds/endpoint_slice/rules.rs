//! The rules of EndpointSlices (`pkg/apis/discovery/validation/validation.go` and the declared rules of
//! `pkg/apis/discovery/v1/zz_generated.validations.go`, 1.37).

use std::collections::HashSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{
    is_dns1123_label, is_dns1123_subdomain, is_label_value, name_is_dns_subdomain,
};
use kindom_api::meta::validate_object_meta;

use super::ENDPOINT_SLICE;
use crate::kinds::fields::{items, part, text, texts};
use crate::kinds::ip::{self, Ip};
use crate::kinds::network::{app_protocol, protocol};

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const ADDRESSES_MAX: usize = 100;
const ENDPOINTS_MAX: usize = 1000;
const HINTS_MAX: usize = 8;
const PORTS_MAX: usize = 20_000;
/// The controllers that write no odd addresses.
const CONTROLLERS: [&str; 2] =
    ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

/// `ValidateEndpointSlice`: endpoints that an update leaves as they were are valid.
pub(super) fn validate(slice: &Value, old: Option<&Value>) -> ErrorList {
    let metadata = slice.get("metadata").unwrap_or(&Value::Null);
    let mut errors = validate_object_meta(metadata, true, &name_is_dns_subdomain, &Path::new("metadata"));
    errors.extend(address_type(slice, old));
    ports(slice, &mut errors);
    let mut wrong = endpoints(slice);
    if !wrong.is_empty() && old.is_none_or(|old| !ENDPOINT_SLICE.is_same(slice, old, "endpoints")) {
        errors.append(&mut wrong);
    }
    errors
}

/// `Validate_EndpointSlice` and `ValidateImmutableField`, which does not quote the value.
fn address_type(slice: &Value, old: Option<&Value>) -> impl Iterator<Item = Error> {
    let (path, new) = (Path::new("addressType"), text(slice, "addressType"));
    let wrong = match new {
        "" => Some(Error::required(&path, "")),
        new if !ADDRESS_TYPES.contains(&new) => Some(Error::not_supported(&path, new, &ADDRESS_TYPES)),
        _ => None,
    };
    let changed = old.is_some_and(|old| text(old, "addressType") != new);
    let changed = changed.then(|| Error::invalid(&path, Value::Null, "field is immutable"));
    wrong.into_iter().chain(changed)
}

/// `validatePorts`
fn ports(slice: &Value, errors: &mut ErrorList) {
    let (ports, path) = (items(slice, "ports"), Path::new("ports"));
    if ports.len() > PORTS_MAX {
        errors.push(Error::too_many(&path, ports.len(), PORTS_MAX));
        return;
    }
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let (at, name) = (path.index(index), text(port, "name"));
        if !name.is_empty() {
            texts(is_dns1123_label(name), name, &at.child("name"), errors);
        }
        if !names.insert(name) {
            errors.push(Error::duplicate(&at.child("name"), name));
        }
        protocol(port, &at, errors);
        app_protocol(port, &at, errors);
    }
}

/// `validateEndpoints`
fn endpoints(slice: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let (endpoints, path) = (items(slice, "endpoints"), Path::new("endpoints"));
    if endpoints.len() > ENDPOINTS_MAX {
        errors.push(Error::too_many(&path, endpoints.len(), ENDPOINTS_MAX));
        return errors;
    }
    let kind = text(slice, "addressType");
    for (index, endpoint) in endpoints.iter().enumerate() {
        let at = path.index(index);
        addresses(endpoint, kind, &at.child("addresses"), &mut errors);
        if let Some(node) = endpoint.get("nodeName").and_then(Value::as_str) {
            texts(is_dns1123_subdomain(node), node, &at.child("nodeName"), &mut errors);
        }
        if let Some(hostname) = endpoint.get("hostname").and_then(Value::as_str) {
            texts(is_dns1123_label(hostname), hostname, &at.child("hostname"), &mut errors);
        }
        hints(endpoint, &at.child("hints"), &mut errors);
        if errors.is_full() {
            break;
        }
    }
    errors
}

fn addresses(endpoint: &Value, kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let addresses = items(endpoint, "addresses");
    if addresses.is_empty() {
        errors.push(Error::required(path, ""));
    } else if addresses.len() > ADDRESSES_MAX {
        errors.push(Error::too_many(path, addresses.len(), ADDRESSES_MAX));
    }
    for (index, address) in addresses.iter().enumerate() {
        let (at, address) = (path.index(index), address.as_str().unwrap_or_default());
        let is_v4 = || Ip::parse(address).is_some_and(|ip| ip.address.is_ipv4());
        let (malformed, other_family) = match kind {
            "IPv4" => (ip::legacy(address, &at), (!is_v4()).then_some("must be an IPv4 address")),
            "IPv6" => (ip::strict(address, &at), is_v4().then_some("must be an IPv6 address")),
            "FQDN" => {
                errors.extend(domain_name(address, &at));
                continue;
            }
            _ => continue,
        };
        if malformed.is_some() {
            errors.extend(malformed);
            continue;
        }
        errors.extend(other_family.map(|text| Error::invalid(path, address, text)));
        errors.append(&mut ip::endpoint(address, &at));
    }
}

/// `IsFullyQualifiedDomainName`
fn domain_name(name: &str, at: &Path<'_>) -> Option<Error> {
    if name.is_empty() {
        return Some(Error::required(at, ""));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let wrong = is_dns1123_subdomain(name);
    if !wrong.is_empty() {
        return Some(Error::invalid(at, name, wrong.join(",")));
    }
    if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return Some(Error::invalid(at, name, detail));
    }
    let mut wrong = name.split('.').map(|label| (label, is_dns1123_label(label)));
    let (label, wrong) = wrong.find(|(_, wrong)| !wrong.is_empty())?;
    Some(Error::invalid(at, label, wrong.join(",")))
}

/// `validateHints`: too many of one list end the others.
fn hints(endpoint: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    type Check = fn(&str) -> Vec<String>;
    for (field, check) in [("forZones", is_label_value as Check), ("forNodes", is_dns1123_subdomain)] {
        let (hints, path) = (items(part(endpoint, "hints"), field), at.child(field));
        if hints.len() > HINTS_MAX {
            errors.push(Error::too_many(&path, hints.len(), HINTS_MAX));
            return;
        }
        let mut names = HashSet::new();
        for (index, hint) in hints.iter().enumerate() {
            let (at, name) = (path.index(index), text(hint, "name"));
            if !names.insert(name) {
                errors.push(Error::duplicate(&at.child("name"), name));
            }
            texts(check(name), name, &at.child("name"), errors);
        }
    }
}

/// Warnings of addresses in odd forms, and on create of an address type that goes.
pub(super) fn warnings(slice: &Value, is_new: bool) -> Vec<String> {
    let is_deprecated = is_new && text(slice, "addressType") == "FQDN";
    let deprecated = is_deprecated.then(|| "spec.addressType: FQDN endpoints are deprecated".to_owned());
    let mut warnings = Vec::from_iter(deprecated);
    let manager = slice.text_at(&["metadata", "labels", "endpointslice.kubernetes.io/managed-by"]);
    if CONTROLLERS.contains(&manager) {
        return warnings;
    }
    let path = Path::new("endpoints");
    for (index, endpoint) in items(slice, "endpoints").iter().enumerate() {
        let (at, addresses) = (path.index(index), items(endpoint, "addresses"));
        let at = at.child("addresses");
        let texts = addresses.iter().map(|address| address.as_str().unwrap_or_default());
        let odd = texts.enumerate().filter_map(|(index, address)| ip::warning(address, &at.index(index)));
        warnings.extend(odd);
    }
    warnings
}

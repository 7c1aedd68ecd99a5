//! The rules of Ingresses (`pkg/apis/networking/validation/validation.go`, 1.37).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{
    is_dns1123_label, is_dns1123_subdomain, is_port_name, is_port_number, is_wildcard_subdomain,
    name_is_dns_subdomain,
};
use kindom_api::meta::validate_object_meta;

use super::{CLASS, points};
use crate::kinds::fields::{items, number, part, present, text, texts};
use crate::kinds::ingress_class::validate_reference;
use crate::kinds::ip::{self, Ip};
use crate::kinds::metadata_update;

const NO_ADDRESS: &str = "must be a DNS name, not an IP address";
const NOT_WITHIN: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const NOT_AT_END: [&str; 2] = ["/..", "/."];

/// The errors of a stored Ingress that its updates may keep.
#[derive(Debug, Clone, Copy, Default)]
struct Allowed {
    secret_names: bool,
    rules_of_wildcards: bool,
}

/// `ValidateIngressCreate`
pub(super) fn validate_create(ingress: &Value) -> ErrorList {
    let mut errors = validate(ingress, Allowed::default());
    let annotation = ingress.at(&["metadata", "annotations", CLASS]).and_then(Value::as_str);
    let class = present(part(ingress, "spec"), "ingressClassName").and_then(Value::as_str);
    if let (Some(annotation), Some(class)) = (annotation, class)
        && annotation != class
    {
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(Error::invalid(&Path::new("annotations").child(CLASS), annotation, detail));
    }
    errors
}

/// `ValidateIngressUpdate`
pub(super) fn validate_update(ingress: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(ingress, old);
    let spec = part(old, "spec");
    let is_wrong = |secret: &str| !secret.is_empty() && !name_is_dns_subdomain(secret, false).is_empty();
    let has_wrong_rule = |rule: &Value| {
        let mut errors = ErrorList::new();
        validate_rule_value(rule, &Path::new("rules"), &mut errors);
        text(rule, "host").contains('*') && !errors.is_empty()
    };
    let allowed = Allowed {
        secret_names: items(spec, "tls").iter().any(|tls| is_wrong(text(tls, "secretName"))),
        rules_of_wildcards: items(spec, "rules").iter().any(has_wrong_rule),
    };
    errors.append(&mut validate(ingress, allowed));
    errors
}

/// `ValidateIngressStatusUpdate`; addresses that were there before may stay.
pub(super) fn validate_status_update(ingress: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(ingress, old);
    let known: BTreeSet<&str> = points(old).iter().map(|point| text(point, "ip")).collect();
    let at = Path::new("status");
    let balancer = at.child("loadBalancer");
    let at = balancer.child("ingress");
    for (index, point) in points(ingress).iter().enumerate() {
        let at = at.index(index);
        let (address, host) = (text(point, "ip"), text(point, "hostname"));
        if !address.is_empty() && !known.contains(address) {
            errors.extend(ip::legacy(address, &at.child("ip")));
        }
        if !host.is_empty() {
            let at = at.child("hostname");
            texts(is_dns1123_subdomain(host), host, &at, &mut errors);
            if Ip::parse(host).is_some() {
                errors.push(Error::invalid(&at, host, NO_ADDRESS));
            }
        }
    }
    errors
}

fn validate(ingress: &Value, allowed: Allowed) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(ingress, "metadata"), true, &name_is_dns_subdomain, &at);
    let (spec, at) = (part(ingress, "spec"), Path::new("spec"));
    let (rules, backend) = (items(spec, "rules"), present(spec, "defaultBackend"));
    if rules.is_empty() && backend.is_none() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(Error::invalid(&at, part(spec, "rules").clone(), detail));
    }
    if let Some(backend) = backend {
        validate_backend(backend, &at.child("defaultBackend"), &mut errors);
    }
    let at_rules = at.child("rules");
    for (index, rule) in rules.iter().enumerate() {
        let at = at_rules.index(index);
        let host = text(rule, "host");
        if !host.is_empty() {
            let at = at.child("host");
            if Ip::parse(host).is_some() {
                errors.push(Error::invalid(&at, host, NO_ADDRESS));
            }
            validate_host(host, &at, &mut errors);
        }
        if !host.contains('*') || !allowed.rules_of_wildcards {
            validate_rule_value(rule, &at, &mut errors);
        }
    }
    let at_tls = at.child("tls");
    for (index, tls) in items(spec, "tls").iter().enumerate() {
        let at = at_tls.index(index);
        let hosts = at.child("hosts");
        for (index, host) in items(tls, "hosts").iter().enumerate() {
            validate_host(host.as_str().unwrap_or_default(), &hosts.index(index), &mut errors);
        }
        let secret = text(tls, "secretName");
        if !allowed.secret_names && !secret.is_empty() {
            texts(name_is_dns_subdomain(secret, false), secret, &at.child("secretName"), &mut errors);
        }
    }
    if let Some(class) = present(spec, "ingressClassName").and_then(Value::as_str) {
        texts(name_is_dns_subdomain(class, false), class, &at.child("ingressClassName"), &mut errors);
    }
    errors
}

fn validate_host(host: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let is_wildcard = host.contains('*');
    let wrong = if is_wildcard { is_wildcard_subdomain(host) } else { is_dns1123_subdomain(host) };
    texts(wrong, host, at, errors);
}

/// `validateIngressRuleValue`
fn validate_rule_value(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(http) = present(rule, "http") else { return };
    let at = at.child("http");
    let (paths, at) = (items(http, "paths"), at.child("paths"));
    if paths.is_empty() {
        errors.push(Error::required(&at, ""));
    }
    for (index, path) in paths.iter().enumerate() {
        validate_path(path, &at.index(index), errors);
    }
}

/// `validateHTTPIngressPath`
fn validate_path(of: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let at_kind = at.child("pathType");
    let Some(kind) = present(of, "pathType").and_then(Value::as_str) else {
        return errors.push(Error::required(&at_kind, "pathType must be specified"));
    };
    let (path, at_path) = (text(of, "path"), at.child("path"));
    let mut refuse = |is_wrong: bool, detail: String| {
        if is_wrong {
            errors.push(Error::invalid(&at_path, path, detail));
        }
    };
    let is_relative = !path.starts_with('/');
    match kind {
        "Exact" | "Prefix" => {
            refuse(is_relative, "must be an absolute path".to_owned());
            for part in NOT_WITHIN {
                refuse(path.contains(part), format!("must not contain '{part}'"));
            }
            for end in NOT_AT_END {
                refuse(path.ends_with(end), format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            refuse(is_relative && !path.is_empty(), "must be an absolute path".to_owned());
        }
        _ => {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(Error::not_supported(&at_kind, kind, &known));
        }
    }
    validate_backend(part(of, "backend"), &at.child("backend"), errors);
}

/// `validateIngressBackend`
fn validate_backend(backend: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let refuse = |detail: &str| Error::invalid(at, "", detail);
    let service = match (present(backend, "resource"), present(backend, "service")) {
        (Some(_), Some(_)) => return errors.push(refuse("cannot set both resource and service backends")),
        (Some(resource), None) => return validate_reference(resource, &at.child("resource"), errors),
        (None, None) => return errors.push(refuse("resource or service backend is required")),
        (None, Some(service)) => service,
    };
    let at_service = at.child("service");
    match text(service, "name") {
        "" => errors.push(Error::required(&at_service.child("name"), "")),
        name => texts(is_dns1123_label(name), name, &at_service.child("name"), errors),
    }
    let (port, at_port) = (part(service, "port"), at_service.child("port"));
    match (text(port, "name"), number(port, "number").unwrap_or_default()) {
        ("", 0) => errors.push(Error::required(at, "port name or number is required")),
        ("", number) => {
            let at = at_port.child("number");
            errors.extend(is_port_number(number).map(|why| Error::invalid(&at, number, why)));
        }
        (name, 0) => texts(is_port_name(name), name, &at_port.child("name"), errors),
        _ => errors.push(refuse("cannot set both port name & port number")),
    }
}

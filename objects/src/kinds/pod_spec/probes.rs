//! The rules of probes and life cycle hooks (`validateProbe`, `validateHandler`, `validateLifecycle`, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_header_name, is_port_name, is_port_number};

use crate::kinds::fields::{items, not_negative, number, present, text, texts};

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// The life cycle and the probes of a container that has them.
pub(super) fn validate(container: &Value, grace: Option<i64>, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(lifecycle) = present(container, "lifecycle") {
        let at = at.child("lifecycle");
        for field in ["postStart", "preStop"] {
            if let Some(handler) = present(lifecycle, field) {
                validate_handler(handler, grace, &at.child(field), errors);
            }
        }
    }
    for field in PROBES {
        if let Some(probe) = present(container, field) {
            validate_probe(probe, field, grace, &at.child(field), errors);
        }
    }
}

/// The errors in an init container that has what only a sidecar may have.
pub(super) fn forbid(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for field in ["lifecycle"].into_iter().chain(PROBES) {
        if present(container, field).is_some() {
            let detail = "may not be set for init containers without restartPolicy=Always";
            errors.push(Error::forbidden(&at.child(field), detail));
        }
    }
}

fn validate_probe(probe: &Value, kind: &str, grace: Option<i64>, at: &Path<'_>, errors: &mut ErrorList) {
    validate_handler(probe, grace, at, errors);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        not_negative(probe, field, at, errors);
    }
    let own_grace = probe.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    let path = at.child("terminationGracePeriodSeconds");
    if let Some(seconds) = own_grace.filter(|seconds| *seconds <= 0) {
        errors.push(Error::invalid(&path, seconds, "must be greater than 0"));
    }
    match (kind, own_grace) {
        ("readinessProbe", Some(seconds)) => {
            errors.push(Error::invalid(&path, seconds, "must not be set for readinessProbes"));
        }
        ("readinessProbe", None) => {}
        _ => {
            let threshold = number(probe, "successThreshold").unwrap_or_default();
            if threshold != 1 {
                errors.push(Error::invalid(&at.child("successThreshold"), threshold, "must be 1"));
            }
        }
    }
}

fn validate_handler(of: &Value, grace: Option<i64>, at: &Path<'_>, errors: &mut ErrorList) {
    let mut has_one = false;
    for field in HANDLERS {
        let Some(action) = present(of, field) else { continue };
        let at = at.child(field);
        if has_one {
            errors.push(Error::forbidden(&at, "may not specify more than 1 handler type"));
            continue;
        }
        has_one = true;
        match field {
            "exec" if items(action, "command").is_empty() => {
                errors.push(Error::required(&at.child("command"), ""));
            }
            "httpGet" => validate_http(action, &at, errors),
            "tcpSocket" | "grpc" => validate_port(action, &at, errors),
            "sleep" => validate_sleep(action, grace, &at, errors),
            _ => {}
        }
    }
    if !has_one {
        errors.push(Error::required(at, "must specify a handler type"));
    }
}

fn validate_http(get: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if text(get, "path").is_empty() {
        errors.push(Error::required(&at.child("path"), ""));
    }
    validate_port(get, at, errors);
    let scheme = text(get, "scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        errors.push(Error::not_supported(&at.child("scheme"), scheme, &["HTTP", "HTTPS"]));
    }
    for header in items(get, "httpHeaders") {
        let name = text(header, "name");
        texts(is_header_name(name), name, &at.child("httpHeaders"), errors);
    }
}

/// `ValidatePortNumOrName`
fn validate_port(action: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let at = at.child("port");
    match action.get("port").and_then(Value::as_str) {
        Some(name) => texts(is_port_name(name), name, &at, errors),
        None => {
            let port = number(action, "port").unwrap_or_default();
            errors.extend(is_port_number(port).map(|why| Error::invalid(&at, port, why)));
        }
    }
}

fn validate_sleep(sleep: &Value, grace: Option<i64>, at: &Path<'_>, errors: &mut ErrorList) {
    let seconds = number(sleep, "seconds").unwrap_or_default();
    if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(Error::invalid(at, seconds, detail));
    }
}

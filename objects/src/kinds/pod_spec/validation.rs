//! The errors in a pod's spec (`ValidatePodTemplateSpec`, `ValidatePodSpec` of `pkg/apis/core/validation`, 1.37): names, labels,
//! required fields, enumerations, ports and quantities. docs/conformance.md says what is left out.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, is_label_value, is_qualified_name, name_is_dns_subdomain};
use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value};

use super::{items, present, text};

/// The longest name of a port.
const PORT_NAME_MAX: usize = 15;
const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

/// The errors in the template of a pod. `claims` are the names of volumes that come with each pod beside its own.
pub(in crate::kinds) fn validate_template(
    template: &Value,
    claims: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    labels(metadata.get("labels"), &at.child("labels"), errors);
    annotations(metadata.get("annotations"), &at.child("annotations"), errors);
    let (spec, at) = (template.get("spec").unwrap_or(&Value::Null), at.child("spec"));
    validate_spec(spec, claims, &at, errors);
    if !items(spec, &["ephemeralContainers"]).is_empty() {
        let at = at.child("ephemeralContainers");
        errors.push(Error::forbidden(&at, "ephemeral containers not allowed in pod template"));
    }
}

/// `ValidateLabels`
pub(in crate::kinds) fn labels(of: Option<&Value>, at: &Path<'_>, errors: &mut ErrorList) {
    for (key, value) in of.and_then(Value::as_object).into_iter().flat_map(Map::iter) {
        let value = value.as_str().unwrap_or_default();
        errors.extend(is_qualified_name(key).into_iter().map(|why| Error::invalid(at, key, why)));
        errors.extend(is_label_value(value).into_iter().map(|why| Error::invalid(at, value, why)));
    }
}

fn annotations(of: Option<&Value>, at: &Path<'_>, errors: &mut ErrorList) {
    for (key, _) in of.and_then(Value::as_object).into_iter().flat_map(Map::iter) {
        let wrong = is_qualified_name(&key.to_lowercase());
        errors.extend(wrong.into_iter().map(|why| Error::invalid(at, key, why)));
    }
}

fn validate_spec(spec: &Value, claims: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    let volumes = volumes(spec, claims, &at.child("volumes"), errors);
    let containers = at.child("containers");
    let all = items(spec, &["containers"]);
    if all.is_empty() {
        errors.push(Error::required(&containers, ""));
    }
    let mut names = BTreeSet::new();
    for (index, container) in all.iter().enumerate() {
        let at = containers.index(index);
        validate_container(container, &volumes, &at, errors);
        unique(container, &mut names, &at, errors);
    }
    host_ports(all, &containers, errors);
    let inits = at.child("initContainers");
    for (index, container) in items(spec, &["initContainers"]).iter().enumerate() {
        let at = inits.index(index);
        validate_container(container, &volumes, &at, errors);
        unique(container, &mut names, &at, errors);
        if text(container, &["restartPolicy"]) != "Always" {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if present(container, field).is_some() {
                    let why = "may not be set for init containers without restartPolicy=Always";
                    errors.push(Error::forbidden(&at.child(field), why));
                }
            }
        }
    }
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], at, errors);
    one_of(spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], at, errors);
    labels(spec.get("nodeSelector"), &at.child("nodeSelector"), errors);
    for (field, is_wrong) in [
        ("serviceAccountName", name_is_dns_subdomain as fn(&str, bool) -> Vec<String>),
        ("nodeName", name_is_dns_subdomain),
        ("hostname", |name, _| is_dns1123_label(name)),
        ("subdomain", |name, _| is_dns1123_label(name)),
        ("priorityClassName", name_is_dns_subdomain),
        ("runtimeClassName", name_is_dns_subdomain),
    ] {
        let name = text(spec, &[field]);
        if !name.is_empty() {
            let wrong = is_wrong(name, false);
            errors.extend(wrong.into_iter().map(|why| Error::invalid(&at.child(field), name, why)));
        }
    }
    if let Some(seconds) = spec.get("activeDeadlineSeconds").and_then(Value::as_i64)
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let why = format!("must be between 1 and {}, inclusive", i32::MAX);
        errors.push(Error::invalid(&at.child("activeDeadlineSeconds"), seconds, why));
    }
    quantities(spec, "overhead", at, errors);
}

/// A required field with one of these values, in the order in which upstream lists them.
fn one_of(of: &Value, field: &str, known: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    match text(of, &[field]) {
        "" => errors.push(Error::required(&at.child(field), "")),
        value if known.contains(&value) => {}
        value => errors.push(Error::not_supported(&at.child(field), value, known)),
    }
}

fn unique<'a>(container: &'a Value, names: &mut BTreeSet<&'a str>, at: &Path<'_>, errors: &mut ErrorList) {
    let name = text(container, &["name"]);
    if !names.insert(name) {
        errors.push(Error::duplicate(&at.child("name"), name));
    }
}

/// The names of the volumes of a pod.
fn volumes<'a>(
    spec: &'a Value,
    claims: &[&'a str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) -> BTreeSet<&'a str> {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (index, volume) in items(spec, &["volumes"]).iter().enumerate() {
        let at = at.index(index);
        let (name, at_name) = (text(volume, &["name"]), at.child("name"));
        let wrong = is_dns1123_label(name);
        if name.is_empty() {
            errors.push(Error::required(&at_name, ""));
        } else if !wrong.is_empty() {
            errors.extend(wrong.into_iter().map(|why| Error::invalid(&at_name, name, why)));
        } else if !names.insert(name) {
            errors.push(Error::duplicate(&at_name, name));
        }
        let sources = volume.as_object().into_iter().flat_map(Map::iter);
        let mut sources = sources.filter(|(field, value)| *field != "name" && !value.is_null());
        if sources.next().is_none() {
            errors.push(Error::required(&at, "must specify a volume type"));
        }
        for (second, _) in sources {
            let why = "may not specify more than 1 volume type";
            errors.push(Error::forbidden(&at.child(second), why));
        }
        for (source, field) in
            [("configMap", "name"), ("secret", "secretName"), ("persistentVolumeClaim", "claimName")]
        {
            if let Some(of) = present(volume, source)
                && text(of, &[field]).is_empty()
            {
                let at = at.child(source);
                errors.push(Error::required(&at.child(field), ""));
            }
        }
        if let Some(path) = present(volume, "hostPath")
            && text(path, &["path"]).is_empty()
        {
            let at = at.child("hostPath");
            errors.push(Error::required(&at.child("path"), ""));
        }
    }
    names.extend(claims);
    names
}

/// `validateContainerCommon`
fn validate_container(container: &Value, volumes: &BTreeSet<&str>, at: &Path<'_>, errors: &mut ErrorList) {
    let (name, at_name) = (text(container, &["name"]), at.child("name"));
    if name.is_empty() {
        errors.push(Error::required(&at_name, ""));
    } else {
        let wrong = is_dns1123_label(name);
        errors.extend(wrong.into_iter().map(|why| Error::invalid(&at_name, name, why)));
    }
    if text(container, &["image"]).is_empty() {
        errors.push(Error::required(&at.child("image"), ""));
    }
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], at, errors);
    ports(container, &at.child("ports"), errors);
    env(container, &at.child("env"), errors);
    let mounts = at.child("volumeMounts");
    let mut paths = BTreeSet::new();
    for (index, mount) in items(container, &["volumeMounts"]).iter().enumerate() {
        let at = mounts.index(index);
        let (name, path) = (text(mount, &["name"]), text(mount, &["mountPath"]));
        if name.is_empty() {
            errors.push(Error::required(&at.child("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(Error::not_found(&at.child("name"), name));
        }
        if path.is_empty() {
            errors.push(Error::required(&at.child("mountPath"), ""));
        }
        if !paths.insert(path) {
            errors.push(Error::invalid(&at.child("mountPath"), path, "must be unique"));
        }
    }
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], at, errors);
    resources(container, &at.child("resources"), errors);
}

/// `validateContainerPorts`
fn ports(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let mut names = BTreeSet::new();
    for (index, port) in items(container, &["ports"]).iter().enumerate() {
        let at = at.index(index);
        let (name, at_name) = (text(port, &["name"]), at.child("name"));
        let wrong = if name.is_empty() { Vec::new() } else { port_name_errors(name) };
        if !wrong.is_empty() {
            errors.extend(wrong.into_iter().map(|why| Error::invalid(&at_name, name, why)));
        } else if !name.is_empty() && !names.insert(name) {
            errors.push(Error::duplicate(&at_name, name));
        }
        let number = |field: &str| port.get(field).and_then(Value::as_i64).unwrap_or_default();
        match number("containerPort") {
            0 => errors.push(Error::required(&at.child("containerPort"), "")),
            other => port_number(other, &at.child("containerPort"), errors),
        }
        match number("hostPort") {
            0 => {}
            other => port_number(other, &at.child("hostPort"), errors),
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &at, errors);
    }
}

fn port_number(port: i64, at: &Path<'_>, errors: &mut ErrorList) {
    if !(1..=65535).contains(&port) {
        errors.push(Error::invalid(at, port, PORT_RANGE));
    }
}

/// `IsValidPortName`
fn port_name_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > PORT_NAME_MAX {
        errors.push(format!("must be no more than {PORT_NAME_MAX} characters"));
    }
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !name.bytes().all(allowed) {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// `checkHostPortConflicts`
fn host_ports(containers: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = at.index(index);
        let at = at.child("ports");
        for (index, port) in items(container, &["ports"]).iter().enumerate() {
            let host = port.get("hostPort").and_then(Value::as_i64).unwrap_or_default();
            if host == 0 {
                continue;
            }
            let taken = format!("{}/{}/{host}", text(port, &["protocol"]), text(port, &["hostIP"]));
            if !seen.insert(taken.clone()) {
                let at = at.index(index);
                errors.push(Error::duplicate(&at.child("hostPort"), taken));
            }
        }
    }
}

/// `ValidateEnv`
fn env(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    const SOURCES: [&str; 5] =
        ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    for (index, variable) in items(container, &["env"]).iter().enumerate() {
        let at = at.index(index);
        let name = text(variable, &["name"]);
        if name.is_empty() {
            errors.push(Error::required(&at.child("name"), ""));
        } else if name.contains('=') || !name.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            errors.push(Error::invalid(&at.child("name"), name, why));
        }
        let Some(source) = present(variable, "valueFrom") else { continue };
        let at = at.child("valueFrom");
        let count = SOURCES.iter().filter(|field| present(source, field).is_some()).count();
        let why = match (count, text(variable, &["value"])) {
            (0, _) => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            }
            (_, value) if !value.is_empty() => "may not be specified when `value` is not empty",
            (1, _) => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(Error::invalid(&at, "", why));
    }
}

/// The quantities of a map: none is negative.
fn quantities(of: &Value, field: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let at = at.child(field);
    for (name, value) in of.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter) {
        let value = value.as_str().unwrap_or_default();
        let zero = Quantity::parse("0").ok();
        let negative =
            Quantity::parse(value).ok().zip(zero).is_some_and(|(a, b)| a.compare(&b) == Ordering::Less);
        if negative {
            errors.push(Error::invalid(&at.key(name), value, "must be greater than or equal to 0"));
        }
    }
}

/// `ValidateContainerResourceRequirements`
fn resources(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(resources) = present(container, "resources") else { return };
    quantities(resources, "limits", at, errors);
    quantities(resources, "requests", at, errors);
    let requests = at.child("requests");
    let limits = resources.get("limits");
    for (name, value) in resources.get("requests").and_then(Value::as_object).into_iter().flat_map(Map::iter)
    {
        let request = value.as_str().unwrap_or_default();
        let Some(limit) = limits.and_then(|limits| limits.get(name)).and_then(Value::as_str) else {
            continue;
        };
        let both = Quantity::parse(request).ok().zip(Quantity::parse(limit).ok());
        if both.is_some_and(|(request, limit)| request.compare(&limit) == Ordering::Greater) {
            let why = format!("must be less than or equal to {name} limit of {limit}");
            errors.push(Error::invalid(&requests, request, why));
        }
    }
}

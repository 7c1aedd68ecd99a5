//! The rules of a pod's spec and of a template's (`ValidatePodSpec`, `ValidatePodTemplateSpec`, 1.37).

use std::collections::BTreeMap;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{
    is_dns1123_label, is_dns1123_subdomain, is_dns1123_subdomain_with_underscore, is_qualified_name,
    name_is_dns_subdomain,
};
use kindom_api::meta::{validate_annotations, validate_labels};

use super::containers;
use super::{affinity, annotations, claims, security, spread, tolerations, volumes};
use crate::kinds::fields::{items, number, one_of, part, present, text, texts};
use crate::kinds::ip;

const RESTART: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const PREEMPTION: [&str; 2] = ["PreemptLowerPriority", "Never"];
/// The bounds of what the resolver of libc takes.
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_BYTES_MAX: usize = 2048;
const HOSTNAME_MAX: usize = 64;

/// `ValidatePodTemplateSpec`. `claims` are the names of volumes that each pod has beside its own.
pub(in crate::kinds) fn validate_template(
    template: &Value,
    claims: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let null = Value::Null;
    let metadata = template.get("metadata").unwrap_or(&null);
    validate_labels(metadata, "labels", at, errors);
    validate_annotations(metadata, at, errors);
    annotations::validate(metadata, template.get("spec").unwrap_or(&null), &at.child("annotations"), errors);
    let (spec, spec_at) = (template.get("spec").unwrap_or(&null), at.child("spec"));
    validate_spec(spec, None, claims, &spec_at, errors);
    annotations::validate_against_fields(metadata, spec, &spec_at, errors);
    if !items(spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(Error::forbidden(&spec_at.child("ephemeralContainers"), detail));
    }
}

/// `ValidatePodSpec`; `pod` is the metadata of the pod whose spec it is, and `None` for a template.
pub(in crate::kinds) fn validate_spec(
    spec: &Value,
    pod: Option<&Value>,
    claims: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mut volumes = volumes::validate(spec, pod, at, errors);
    volumes.extend(claims.iter().map(|name| (*name, &Value::Null)));
    let is_mirror = pod.is_some_and(annotations::is_mirror_metadata);
    claims::validate(spec, is_mirror, &at.child("resourceClaims"), errors);
    let claimed = claims::names(spec);
    containers::validate(spec, &volumes, &claimed, at, errors);
    claims::validate_whole(spec, &claimed, at, errors);
    validate_host_ports(spec, pod.is_some(), at, errors);
    one_of(spec, "restartPolicy", &RESTART, at, errors);
    one_of(spec, "dnsPolicy", &DNS, at, errors);
    validate_labels(spec, "nodeSelector", at, errors);
    security::validate_pod(spec, at, errors);
    let is_true = |field: &str| spec.get(field) == Some(&Value::Bool(true));
    if is_true("shareProcessNamespace") && is_true("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(Error::invalid(&at.child("shareProcessNamespace"), true, detail));
    }
    if let Some(affinity) = present(spec, "affinity") {
        affinity::validate(affinity, &at.child("affinity"), errors);
    }
    validate_dns(spec, &at.child("dnsConfig"), errors);
    validate_gates(spec, at, errors);
    spread::validate(spec, &at.child("topologySpreadConstraints"), errors);
    security::validate_host_processes(spec, at, errors);
    security::validate_host_users(spec, at, errors);
    validate_hostname(spec, &at.child("hostnameOverride"), errors);
    for field in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        let name = text(spec, field);
        if !name.is_empty() {
            texts(name_is_dns_subdomain(name, false), name, &at.child(field), errors);
        }
    }
    let deadline = spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    if let Some(seconds) = deadline.filter(|seconds| !(1..=i64::from(i32::MAX)).contains(seconds)) {
        let detail = "must be between 1 and 2147483647, inclusive";
        errors.push(Error::invalid(&at.child("activeDeadlineSeconds"), seconds, detail));
    }
    for field in ["hostname", "subdomain"] {
        let name = text(spec, field);
        if !name.is_empty() {
            texts(is_dns1123_label(name), name, &at.child(field), errors);
        }
    }
    tolerations::validate(spec, &at.child("tolerations"), errors);
    let aliases = at.child("hostAliases");
    for (index, alias) in items(spec, "hostAliases").iter().enumerate() {
        let at = aliases.index(index);
        errors.extend(ip::legacy(text(alias, "ip"), &at.child("ip")));
        let names = at.child("hostnames");
        for (index, name) in items(alias, "hostnames").iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            texts(is_dns1123_subdomain(name), name, &names.index(index), errors);
        }
    }
    if let Some(policy) = present(spec, "preemptionPolicy").and_then(Value::as_str) {
        let at = at.child("preemptionPolicy");
        match policy {
            "" => errors.push(Error::required(&at, "")),
            policy if PREEMPTION.contains(&policy) => {}
            policy => errors.push(Error::not_supported(&at, policy, &PREEMPTION)),
        }
    }
    if let Some(overhead) = present(spec, "overhead") {
        containers::validate_limits(overhead, &at.child("overhead"), errors);
    }
    security::validate_os(spec, at, errors);
    validate_file_keys(spec, at, errors);
}

/// `validatePodHostNetworkDeps`
fn validate_host_ports(spec: &Value, is_pod: bool, at: &Path<'_>, errors: &mut ErrorList) {
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    let all = at.child("containers");
    for (index, container) in items(spec, "containers").iter().enumerate() {
        let at = all.index(index);
        let ports = at.child("ports");
        for (index, port) in items(container, "ports").iter().enumerate() {
            let [of_host, own] = ["hostPort", "containerPort"].map(|of| number(port, of).unwrap_or_default());
            if (is_pod || of_host != 0) && of_host != own {
                let at = ports.index(index);
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(Error::invalid(&at.child("hostPort"), of_host, detail));
            }
        }
    }
}

/// `validatePodDNSConfig`
fn validate_dns(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let config = present(spec, "dnsConfig");
    let (servers_at, searches_at) = (at.child("nameservers"), at.child("searches"));
    let servers = items(config.unwrap_or(&Value::Null), "nameservers");
    if text(spec, "dnsPolicy") == "None" {
        if config.is_none() {
            return errors.push(Error::required(at, "must provide `dnsConfig` when `dnsPolicy` is None"));
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.push(Error::required(&servers_at, detail));
        }
    }
    let Some(config) = config else { return };
    let value = |field: &str| config.get(field).cloned().unwrap_or_default();
    if servers.len() > NAMESERVERS_MAX {
        let detail = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.push(Error::invalid(&servers_at, value("nameservers"), detail));
    }
    for (index, server) in servers.iter().enumerate() {
        errors.extend(ip::legacy(server.as_str().unwrap_or_default(), &servers_at.index(index)));
    }
    let searches = items(config, "searches");
    if searches.len() > SEARCHES_MAX {
        let detail = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.push(Error::invalid(&searches_at, value("searches"), detail));
    }
    let bytes: usize = searches.iter().map(|search| search.as_str().map_or(0, str::len)).sum();
    if bytes + searches.len().saturating_sub(1) > SEARCH_BYTES_MAX {
        let detail = format!(
            "must not have more than {SEARCH_BYTES_MAX} characters (including spaces) in the search list"
        );
        errors.push(Error::invalid(&searches_at, value("searches"), detail));
    }
    for (index, search) in searches.iter().enumerate() {
        let search = search.as_str().unwrap_or_default();
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            let wrong = is_dns1123_subdomain_with_underscore(search);
            texts(wrong, search, &searches_at.index(index), errors);
        }
    }
    let all = at.child("options");
    for (index, option) in items(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.push(Error::required(&all.index(index), "must not be empty"));
        }
    }
}

/// The gates of readiness and of scheduling.
fn validate_gates(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let all = at.child("readinessGates");
    for (index, gate) in items(spec, "readinessGates").iter().enumerate() {
        let (at, kind) = (all.index(index), text(gate, "conditionType"));
        texts(is_qualified_name(kind), kind, &at.child("conditionType"), errors);
    }
    let all = at.child("schedulingGates");
    let mut names = std::collections::BTreeSet::new();
    for (index, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let (at, name) = (all.index(index), text(gate, "name"));
        texts(is_qualified_name(name), name, &at, errors);
        if !names.insert(name) {
            errors.push(Error::duplicate(&at, name));
        }
    }
}

/// `validatePodHostName`
fn validate_hostname(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(name) = present(spec, "hostnameOverride").and_then(Value::as_str) else { return };
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.get(field) == Some(&Value::Bool(true)) {
            errors.push(Error::forbidden(at, format!("may not be specified when {field} is true")));
        }
    }
    if name.len() > HOSTNAME_MAX {
        errors.push(Error::too_long(at, HOSTNAME_MAX));
    }
    texts(is_dns1123_subdomain(name), name, at, errors);
}

/// `validateFileKeyRefVolumes`
fn validate_file_keys(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let volumes: BTreeMap<&str, &Value> =
        items(spec, "volumes").iter().map(|volume| (text(volume, "name"), volume)).collect();
    security::each_container(spec, at, |container, at| {
        let all = at.child("env");
        for (index, env) in items(container, "env").iter().enumerate() {
            let Some(of) = present(part(env, "valueFrom"), "fileKeyRef") else { continue };
            let (name, at) = (text(of, "volumeName"), all.index(index));
            let (source_at, field) = (at.child("valueFrom"), "fileKeyRef");
            let of_at = source_at.child(field);
            let at = of_at.child("volumeName");
            match volumes.get(name) {
                None => errors.push(Error::not_found(&at, name)),
                Some(volume) if present(volume, "emptyDir").is_some() => {}
                Some(_) => {
                    errors.push(Error::invalid(&at, name, "referenced volume must be of type emptyDir"))
                }
            }
        }
    });
}

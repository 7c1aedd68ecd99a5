//! The rules of services (`pkg/apis/core/validation/validation.go`, `pkg/api/service/warnings.go`, 1.37).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{
    is_dns1123_label, is_dns1123_subdomain, is_port_number, is_qualified_name, name_is_dns_label,
};
use kindom_api::meta::{validate_labels, validate_object_meta};

use super::range::Family;
use super::{
    HEADLESS, cluster_ips, is_headless, is_reached_from_outside, kind, needs_health_check, node_port, policy,
    spec,
};
use crate::kinds::fields::{items, number, one_of, part, present, text, texts};
use crate::kinds::ip::{self, Ip};
use crate::kinds::metadata_update;
use crate::kinds::network::{app_protocol, port_number_or_name, protocol};

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
/// The longest time for which a client stays with its pod, in seconds.
const AFFINITY_SECONDS_MAX: i64 = 86_400;
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const UNCHANGEABLE: &str = "may not change once set";

/// `ValidateServiceCreate`
pub(super) fn validate_create(service: &Value) -> ErrorList {
    let metadata = part(service, "metadata");
    let mut errors = validate_object_meta(metadata, true, &name_is_dns_label, &Path::new("metadata"));
    validate(service, None, &mut errors);
    errors
}

/// `ValidateServiceUpdate`
pub(super) fn validate_update(service: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(service, old);
    changed_cluster_ips(service, old, &mut errors);
    changed_families(service, old, &mut errors);
    load_balancer_class(service, Some(old), &mut errors);
    let path = Path::new("spec");
    let port = |service| node_port(spec(service), "healthCheckNodePort");
    if needs_health_check(old) && needs_health_check(service) && port(old) != port(service) {
        errors.push(Error::forbidden(&path.child("healthCheckNodePort"), "field is immutable"));
    }
    validate(service, Some(old), &mut errors);
    errors
}

/// `ValidateServiceStatusUpdate`
pub(super) fn validate_status(service: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(service, old);
    let path = Path::new("status");
    let balancer = path.child("loadBalancer");
    let at = balancer.child("ingress");
    let ingress = |service: &'_ Value| -> Vec<Value> {
        service.at(&["status", "loadBalancer"]).map(|of| items(of, "ingress").to_vec()).unwrap_or_default()
    };
    let (new, before) = (ingress(service), ingress(old));
    if kind(service) != "LoadBalancer" {
        if !new.is_empty() {
            let why = "may only be used when `spec.type` is 'LoadBalancer'";
            errors.push(Error::forbidden(&at, why));
        }
        return errors;
    }
    let known: BTreeSet<&str> = before.iter().map(|ingress| text(ingress, "ip")).collect();
    for (index, ingress) in new.iter().enumerate() {
        let at = at.index(index);
        let (address, hostname, mode) =
            (text(ingress, "ip"), text(ingress, "hostname"), present(ingress, "ipMode"));
        if !address.is_empty() && !known.contains(address) {
            errors.extend(ip::legacy(address, &at.child("ip")));
        }
        let of_mode = at.child("ipMode");
        match mode.and_then(Value::as_str) {
            None if !address.is_empty() => {
                errors.push(Error::required(&of_mode, "must be specified when `ip` is set"));
            }
            None | Some("VIP" | "Proxy") if mode.is_none() || !address.is_empty() => {}
            Some(_) if address.is_empty() => {
                errors.push(Error::forbidden(&of_mode, "may not be specified when `ip` is not set"));
            }
            mode => errors.push(Error::not_supported(&of_mode, mode.unwrap_or_default(), &["Proxy", "VIP"])),
        }
        if !hostname.is_empty() {
            let at = at.child("hostname");
            texts(is_dns1123_subdomain(hostname), hostname, &at, &mut errors);
            if Ip::parse(hostname).is_some() {
                errors.push(Error::invalid(&at, hostname, "must be a DNS name, not an IP address"));
            }
        }
    }
    errors
}

/// `validateService`
fn validate(service: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    topology(service, errors);
    let (path, spec, kind) = (Path::new("spec"), spec(service), kind(service));
    let ports = items(spec, "ports");
    if ports.is_empty() && !is_headless(service) && kind != "ExternalName" {
        errors.push(Error::required(&path.child("ports"), ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(service) => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.push(Error::invalid(&path.child("clusterIPs").index(0), HEADLESS, why));
        }
        "ExternalName" => external_name(service, errors),
        _ => {}
    }
    port_list(service, errors);
    validate_labels(spec, "selector", &path, errors);
    affinity(spec, errors);
    errors.append(&mut cluster_ips_errors(service, old));
    external_ips(service, old, errors);
    one_of(spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], &path, errors);
    ports_of_nodes(service, errors);
    source_ranges(service, old, errors);
    let gives = present(spec, "allocateLoadBalancerNodePorts");
    if gives.is_some() && kind != "LoadBalancer" {
        errors.push(Error::forbidden(&path.child("allocateLoadBalancerNodePorts"), ONLY_LOAD_BALANCER));
    }
    if gives.is_none() && kind == "LoadBalancer" {
        errors.push(Error::required(&Path::new("allocateLoadBalancerNodePorts"), ""));
    }
    load_balancer_class(service, None, errors);
    traffic(service, errors);
}

fn topology(service: &Value, errors: &mut ErrorList) {
    let annotation = |name| service.at(&["metadata", "annotations", name]).and_then(Value::as_str);
    if let (Some(hints), Some(mode)) = (annotation(TOPOLOGY_HINTS), annotation(TOPOLOGY_MODE))
        && hints != mode
    {
        let path = Path::new("metadata");
        let why = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.push(Error::invalid(&path.child("annotations").key(TOPOLOGY_MODE), mode, why));
    }
}

fn external_name(service: &Value, errors: &mut ErrorList) {
    let (path, spec) = (Path::new("spec"), spec(service));
    let fields = [
        ("clusterIPs", !items(spec, "clusterIPs").is_empty()),
        ("ipFamilies", !items(spec, "ipFamilies").is_empty()),
        ("ipFamilyPolicy", present(spec, "ipFamilyPolicy").is_some()),
    ];
    for (field, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
        errors.push(Error::forbidden(&path.child(field), "may not be set for ExternalName services"));
    }
    let name = text(spec, "externalName");
    let (name, at) = (name.strip_suffix('.').unwrap_or(name), path.child("externalName"));
    match name {
        "" => errors.push(Error::required(&at, "")),
        name => texts(is_dns1123_subdomain(name), name, &at, errors),
    }
}

/// `validateServicePort`, for each port
fn port_list(service: &Value, errors: &mut ErrorList) {
    let (path, ports) = (Path::new("spec"), items(spec(service), "ports"));
    let (all, mut names) = (path.child("ports"), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let at = all.index(index);
        let (name, of_name) = (text(port, "name"), at.child("name"));
        if !name.is_empty() {
            texts(is_dns1123_label(name), name, &of_name, errors);
            if !names.insert(name) {
                errors.push(Error::duplicate(&of_name, name));
            }
        } else if ports.len() > 1 {
            errors.push(Error::required(&of_name, ""));
        }
        let number = number(port, "port").unwrap_or_default();
        errors.extend(is_port_number(number).map(|why| Error::invalid(&at.child("port"), number, why)));
        protocol(port, &at, errors);
        port_number_or_name(part(port, "targetPort"), &at.child("targetPort"), errors);
        app_protocol(port, &at, errors);
        if errors.is_full() {
            return;
        }
    }
}

/// `validateClientIPAffinityConfig`
fn affinity(spec: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec");
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], &path, errors);
    let (config, at) = (present(spec, "sessionAffinityConfig"), path.child("sessionAffinityConfig"));
    match (text(spec, "sessionAffinity"), config) {
        ("ClientIP", config) => {
            let why = "when session affinity type is ClientIP";
            let of_client = at.child("clientIP");
            let of_timeout = of_client.child("timeoutSeconds");
            let client = config.map(|config| present(config, "clientIP"));
            match client.map(|client| client.map(|client| number(client, "timeoutSeconds"))) {
                None => errors.push(Error::required(&at, why)),
                Some(None) => errors.push(Error::required(&of_client, why)),
                Some(Some(None)) => errors.push(Error::required(&of_timeout, why)),
                Some(Some(Some(seconds))) if !(1..=AFFINITY_SECONDS_MAX).contains(&seconds) => {
                    let why = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
                    errors.push(Error::invalid(&of_timeout, seconds, why));
                }
                Some(Some(Some(_))) => {}
            }
        }
        ("None", Some(_)) => {
            errors.push(Error::forbidden(&at, "must not be set when session affinity is None"));
        }
        _ => {}
    }
}

fn external_ips(service: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let (path, of) = (Path::new("spec"), "externalIPs");
    let known: BTreeSet<&str> =
        old.map(|old| items(spec(old), of)).unwrap_or_default().iter().filter_map(Value::as_str).collect();
    let all = path.child(of);
    for (index, address) in items(spec(service), of).iter().enumerate() {
        let (address, at) = (address.as_str().unwrap_or_default(), all.index(index));
        match ip::legacy(address, &at).filter(|_| !known.contains(address)) {
            Some(error) => errors.push(error),
            None => errors.append(&mut ip::endpoint(address, &at)),
        }
    }
}

fn ports_of_nodes(service: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec");
    let (all, ports) = (path.child("ports"), items(spec(service), "ports"));
    if kind(service) == "ClusterIP" {
        for (index, _) in ports.iter().enumerate().filter(|(_, port)| node_port(port, "nodePort") != 0) {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.push(Error::forbidden(&all.index(index).child("nodePort"), why));
        }
    }
    let (mut of_nodes, mut own) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let of_node = node_port(port, "nodePort");
        if of_node != 0 && !of_nodes.insert((text(port, "protocol"), of_node)) {
            errors.push(Error::duplicate(&all.index(index).child("nodePort"), of_node));
        }
    }
    for (index, port) in ports.iter().enumerate() {
        let (protocol, number) = (text(port, "protocol"), number(port, "port").unwrap_or_default());
        if !own.insert((protocol, number)) {
            // Go's key is a port without the other fields.
            let key = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#,
                Value::from(protocol)
            );
            errors.push(Error::duplicate_raw(&all.index(index), key));
        }
    }
}

fn source_ranges(service: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let (path, field) = (Path::new("spec"), "loadBalancerSourceRanges");
    let ranges = |service| items(spec(service), field).iter().filter_map(Value::as_str).map(str::trim);
    let is_balancer = kind(service) == "LoadBalancer";
    if ranges(service).next().is_some() {
        let at = path.child("LoadBalancerSourceRanges");
        if !is_balancer {
            errors.push(Error::forbidden(&at, ONLY_LOAD_BALANCER));
        }
        let known: BTreeSet<&str> = old.into_iter().flat_map(ranges).collect();
        for (index, range) in ranges(service).enumerate().filter(|(_, range)| !known.contains(range)) {
            errors.extend(ip::legacy_cidr(range, &at.index(index)));
        }
        return;
    }
    let annotation = |service: &'_ Value| {
        service.at(&["metadata", "annotations", SOURCE_RANGES]).cloned().unwrap_or_default()
    };
    let of_new = annotation(service);
    let Some(value) = of_new.as_str() else { return };
    let metadata = Path::new("metadata");
    let annotations = metadata.child("annotations");
    let at = annotations.key(SOURCE_RANGES);
    if !is_balancer {
        errors.push(Error::forbidden(&at, ONLY_LOAD_BALANCER));
    }
    if old.is_none_or(|old| annotation(old) != of_new) && !value.trim().is_empty() {
        errors.extend(value.trim().split(',').filter_map(|range| ip::legacy_cidr(range.trim(), &at)));
    }
}

/// `validateLoadBalancerClassField`
fn load_balancer_class(service: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let (path, of) = (Path::new("spec"), "loadBalancerClass");
    let (class, at) = (present(spec(service), of), path.child(of));
    let is_balancer = kind(service) == "LoadBalancer";
    if let Some(old) = old
        && kind(old) == "LoadBalancer"
        && is_balancer
        && present(spec(old), of) != class
    {
        errors.push(Error::invalid(&at, class.cloned().unwrap_or_default(), UNCHANGEABLE));
    }
    match class.and_then(Value::as_str) {
        Some(class) if is_balancer => texts(is_qualified_name(class), class, &at, errors),
        Some(_) => errors.push(Error::forbidden(&at, ONLY_LOAD_BALANCER)),
        None => {}
    }
}

/// `validateServiceExternalTrafficPolicy`, `validateServiceInternalTrafficFieldsValue`, `validateServiceTrafficDistribution`
fn traffic(service: &Value, errors: &mut ErrorList) {
    const POLICIES: [&str; 2] = ["Cluster", "Local"];
    let (path, spec) = (Path::new("spec"), spec(service));
    let (policy, at) = (text(spec, "externalTrafficPolicy"), path.child("externalTrafficPolicy"));
    if is_reached_from_outside(service) {
        one_of(spec, "externalTrafficPolicy", &POLICIES, &path, errors);
    } else if !policy.is_empty() {
        errors.push(Error::invalid(&at, policy, "may only be set for externally-accessible services"));
    }
    let (port, at) = (node_port(spec, "healthCheckNodePort"), path.child("healthCheckNodePort"));
    match (needs_health_check(service), port) {
        (false, 0) => {}
        (false, port) => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(Error::invalid(&at, port, why));
        }
        (true, 0) => errors.push(Error::required(&at, "")),
        (true, port) => errors.extend(is_port_number(port).map(|why| Error::invalid(&at, port, why))),
    }
    let at = path.child("internalTrafficPolicy");
    match present(spec, "internalTrafficPolicy").and_then(Value::as_str) {
        None if matches!(kind(service), "NodePort" | "LoadBalancer" | "ClusterIP") => {
            errors.push(Error::required(&at, ""));
        }
        Some(policy) if !POLICIES.contains(&policy) => {
            errors.push(Error::not_supported(&at, policy, &POLICIES))
        }
        _ => {}
    }
    const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(distribution) = present(spec, "trafficDistribution").and_then(Value::as_str)
        && !DISTRIBUTIONS.contains(&distribution)
    {
        errors.push(Error::not_supported(&path.child("trafficDistribution"), distribution, &DISTRIBUTIONS));
    }
}

/// The errors in the addresses, the families and the policy that goes with them; also asked before addresses are given
/// (`ValidateServiceClusterIPsRelatedFields`).
pub(super) fn cluster_ips_errors(service: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    if kind(service) == "ExternalName" {
        return errors;
    }
    let (path, spec) = (Path::new("spec"), spec(service));
    let (at, of_families, listed) =
        (path.child("clusterIPs"), path.child("ipFamilies"), part(spec, "clusterIPs").clone());
    let (one, all) = (text(spec, "clusterIP"), cluster_ips(service).collect::<Vec<_>>());
    match (one, all.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            errors.push(Error::invalid(
                &at,
                listed.clone(),
                "must be empty when `clusterIP` is not specified",
            ));
        }
        (_, None) => errors.push(Error::required(&at, "")),
        (one, Some(first)) if one != *first => {
            errors.push(Error::invalid(&at, listed.clone(), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    let families: Vec<&str> =
        items(spec, "ipFamilies").iter().map(|family| family.as_str().unwrap_or_default()).collect();
    let mut seen = BTreeSet::new();
    for (index, family) in families.iter().enumerate() {
        if Family::of_name(family).is_none() {
            errors.push(Error::not_supported(&of_families.index(index), *family, &Family::NAMES));
        }
        if !seen.insert(*family) {
            errors.push(Error::duplicate(&of_families.index(index), *family));
        }
    }
    const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if let Some(policy) = policy(service).filter(|policy| !POLICIES.contains(policy)) {
        errors.push(Error::not_supported(&path.child("ipFamilyPolicy"), policy, &POLICIES));
    }
    let known: BTreeSet<&str> = old.into_iter().flat_map(cluster_ips).collect();
    let mut is_wrong = false;
    for (index, address) in all.iter().enumerate() {
        if index == 0 && *address == HEADLESS {
            if all.len() > 1 {
                is_wrong = true;
                errors.push(Error::invalid(&at, listed.clone(), "'None' must be the first and only value"));
            }
            continue;
        }
        let wrong = ip::legacy(address, &at.index(index)).filter(|_| !known.contains(address));
        is_wrong |= wrong.is_some();
        errors.extend(wrong);
    }
    if all.len() > 2 {
        errors.push(Error::invalid(&at, listed.clone(), "may only hold up to 2 values"));
    }
    if is_wrong {
        return errors;
    }
    let family = |address: &str| Ip::parse(address).map(|ip| Family::of(ip.address));
    if all.len() > 1 {
        let found: BTreeSet<Family> = all.iter().filter_map(|address| family(address)).collect();
        if found.len() < 2 {
            let why = "may specify no more than one IP for each IP family";
            errors.push(Error::invalid(&at, listed.clone(), why));
        }
    }
    if !is_headless(service) {
        for (index, (address, wanted)) in all.iter().zip(&families).enumerate() {
            if let (Some(wanted), Some(found)) = (Family::of_name(wanted), family(address))
                && wanted != found
            {
                let why =
                    format!("expected an {} value as indicated by `ipFamilies[{index}]`", wanted.name());
                errors.push(Error::invalid(&at.index(index), *address, why));
            }
        }
    }
    errors
}

/// `true` if an update changes neither what has no address of its own, nor into such.
fn is_external(service: &Value, old: &Value) -> bool {
    kind(service) == "ExternalName" || kind(old) == "ExternalName"
}

/// `validateUpgradeDowngradeClusterIPs`
fn changed_cluster_ips(service: &Value, old: &Value, errors: &mut ErrorList) {
    if is_external(service, old) || is_headless(service) && is_headless(old) {
        return;
    }
    let path = Path::new("spec");
    let (at, listed) = (path.child("clusterIPs"), part(spec(service), "clusterIPs").clone());
    let (new, before) = (cluster_ips(service).collect::<Vec<_>>(), cluster_ips(old).collect::<Vec<_>>());
    let mut changed = |index| errors.push(Error::invalid(&at.index(index), listed.clone(), UNCHANGEABLE));
    if new.len() == before.len() {
        (0..new.len()).filter(|index| new.get(*index) != before.get(*index)).for_each(changed);
        return;
    }
    if let (Some(new), Some(before)) = (new.first(), before.first())
        && new != before
    {
        changed(0);
    }
    if before.len() > new.len() {
        if new.is_empty() {
            errors.push(Error::invalid(&at.index(0), listed, "primary clusterIP can not be unset"));
        }
        if new.len() == 1 {
            single_stack(service, "clusterIP", errors);
        }
    }
}

/// `validateUpgradeDowngradeIPFamilies`
fn changed_families(service: &Value, old: &Value, errors: &mut ErrorList) {
    if is_external(service, old) || is_headless(service) || is_headless(old) {
        return;
    }
    let path = Path::new("spec");
    let all = path.child("ipFamilies");
    let at = all.index(0);
    let list = |service, field| part(spec(service), field).clone();
    let (new, before) = (items(spec(service), "ipFamilies"), items(spec(old), "ipFamilies"));
    if new.len() == before.len() {
        for _ in new.iter().zip(before).filter(|(new, before)| new != before) {
            errors.push(Error::invalid(&at, list(service, "ipFamilies"), UNCHANGEABLE));
        }
        return;
    }
    if before.len() > new.len() && cluster_ips(service).next().is_none() {
        let why = "primary ipFamily can not be unset";
        errors.push(Error::invalid(&at, list(service, "ipFamilies"), why));
    }
    if let (Some(new), Some(before)) = (new.first(), before.first())
        && new != before
    {
        errors.push(Error::invalid(&at, list(service, "clusterIPs"), UNCHANGEABLE));
    }
    if before.len() > new.len() && new.len() == 1 {
        single_stack(service, "ipFamily", errors);
    }
}

fn single_stack(service: &Value, what: &str, errors: &mut ErrorList) {
    if policy(service) != Some("SingleStack") {
        let path = Path::new("spec");
        let why = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        let policy = part(spec(service), "ipFamilyPolicy").clone();
        errors.push(Error::invalid(&path.child("ipFamilyPolicy"), policy, why));
    }
}

/// `GetWarningsForService`
pub(super) fn warnings(service: &Value) -> Vec<String> {
    let (path, spec, kind) = (Path::new("spec"), spec(service), kind(service));
    let mut warnings = Vec::new();
    if service.at(&["metadata", "annotations", TOPOLOGY_HINTS]).is_some() {
        warnings
            .push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let one = text(spec, "clusterIP");
    if !one.is_empty() && one != HEADLESS {
        let at = path.child("clusterIPs");
        let all = cluster_ips(service).enumerate();
        warnings.extend(all.filter_map(|(index, address)| ip::warning(address, &at.index(index))));
    }
    let is_headless = kind == "ClusterIP" && one == HEADLESS;
    let external = items(spec, "externalIPs");
    if is_headless {
        let ignored = [
            (!text(spec, "loadBalancerIP").is_empty(), "loadBalancerIP"),
            (!external.is_empty(), "externalIPs"),
            (text(spec, "sessionAffinity") != "None", "SessionAffinity"),
        ];
        let ignored = ignored.into_iter().filter(|(is_set, _)| *is_set);
        warnings.extend(ignored.map(|(_, field)| format!("spec.{field} is ignored for headless services")));
    }
    let at = path.child("externalIPs");
    let addresses = external.iter().filter_map(Value::as_str).enumerate();
    warnings.extend(addresses.filter_map(|(index, address)| ip::warning(address, &at.index(index))));
    if !external.is_empty() && !is_headless && kind != "ExternalName" {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    warnings.extend(ip::warning(text(spec, "loadBalancerIP"), &path.child("loadBalancerIP")));
    let at = path.child("loadBalancerSourceRanges");
    let ranges = items(spec, "loadBalancerSourceRanges").iter().filter_map(Value::as_str).enumerate();
    warnings.extend(ranges.flat_map(|(index, range)| ip::cidr_warnings(range, &at.index(index))));
    if kind == "ExternalName" && !external.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !text(spec, "externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
    warnings
}

/// Those of a write to `/status`.
pub(super) fn status_warnings(service: &Value) -> Vec<String> {
    let path = Path::new("status");
    let balancer = path.child("loadBalancer");
    let at = balancer.child("ingress");
    let ingress = service.at(&["status", "loadBalancer"]).map(|of| items(of, "ingress")).unwrap_or_default();
    let addresses = ingress.iter().map(|ingress| text(ingress, "ip")).enumerate();
    addresses.filter_map(|(index, address)| ip::warning(address, &at.index(index))).collect()
}

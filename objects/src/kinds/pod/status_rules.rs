//! The errors in a change of a pod's status, and warnings about it (`ValidatePodStatusUpdate` of
//! `pkg/apis/core/validation/validation.go`, `podStatusStrategy.WarningsOnUpdate`, 1.37).
//!
//! Not checked are the statuses of extended and allocatable resources, of devices, and of the health of volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_qualified_name, name_is_dns_subdomain};

use super::spec;
use crate::kinds::fields::{items, number, part, present, text, texts};
use crate::kinds::ip::{self, Ip};
use crate::kinds::metadata_update;
use crate::kinds::pod_spec::annotations;

const NOT_NEGATIVE: &str = "must be a non-negative integer";
const ENDED: &str = "may not be transitioned to non-terminated state";

pub(super) fn validate(pod: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(pod, old);
    let metadata = Path::new("metadata");
    annotations::validate_update(pod, old, &metadata.child("annotations"), &mut errors);
    let (status, before, at) = (part(pod, "status"), part(old, "status"), Path::new("status"));
    validate_conditions(status, &at.child("conditions"), &mut errors);
    validate_nomination(status, before, spec(old), &at.child("nominatedNodeName"), &mut errors);
    let observed = number(status, "observedGeneration").unwrap_or_default();
    if observed < 0 {
        errors.push(Error::invalid(&at.child("observedGeneration"), observed, NOT_NEGATIVE));
    }
    let class = text(status, "qosClass");
    if class != text(before, "qosClass") {
        errors.push(Error::invalid(&at.child("qosClass"), class, "field is immutable"));
    }
    for (field, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        validate_transitions([status, before], spec(old), [field, containers], &at.child(field), &mut errors);
    }
    validate_claims(status, spec(pod), &at.child("resourceClaimStatuses"), &mut errors);
    validate_addresses(status, before, "podIPs", &at.child("podIPs"), &mut errors);
    validate_pod_ip(status, &at.child("podIPs"), &mut errors);
    validate_host_ips(status, before, &at.child("hostIPs"), &mut errors);
    for field in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        let all = at.child(field);
        for (index, container) in items(status, field).iter().enumerate() {
            validate_user(container, spec(pod), &all.index(index), &mut errors);
        }
    }
    errors
}

/// `validatePodConditions`
fn validate_conditions(status: &Value, all: &Path<'_>, errors: &mut ErrorList) {
    for (index, condition) in items(status, "conditions").iter().enumerate() {
        let at = all.index(index);
        let observed = number(condition, "observedGeneration").unwrap_or_default();
        if observed < 0 {
            errors.push(Error::invalid(&at.child("observedGeneration"), observed, NOT_NEGATIVE));
        }
        let kind = text(condition, "type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            texts(is_qualified_name(kind), kind, &at.child("Type"), errors);
        }
    }
}

fn validate_nomination(status: &Value, before: &Value, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let node = text(status, "nominatedNodeName");
    if node.is_empty() || node == text(before, "nominatedNodeName") {
        return;
    }
    texts(name_is_dns_subdomain(node, false), node, at, errors);
    if !text(spec, "nodeName").is_empty() {
        errors.push(Error::forbidden(at, "may not be set on pods that are already bound to a node"));
    }
}

/// `true` if a container that has ended with a code may run again (`ContainerShouldRestart`).
fn restarts(container: &Value, spec: &Value, code: i64) -> bool {
    let policy = present(container, "restartPolicy").and_then(Value::as_str);
    if policy.is_some() {
        for rule in items(container, "restartPolicyRules") {
            let exit = part(rule, "exitCodes");
            let is_listed = items(exit, "values").iter().any(|value| value.as_i64() == Some(code));
            let matches = match text(exit, "operator") {
                "In" => is_listed,
                "NotIn" => !is_listed,
                _ => false,
            };
            if matches && matches!(text(rule, "action"), "Restart" | "RestartAllContainers") {
                return true;
            }
        }
    }
    match policy.unwrap_or_else(|| text(spec, "restartPolicy")) {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}

/// The errors in containers that have ended and run again although they must not.
fn validate_transitions(
    [status, before]: [&Value; 2],
    spec: &Value,
    [field, containers]: [&str; 2],
    all: &Path<'_>,
    errors: &mut ErrorList,
) {
    let ended = |status: &Value| present(part(status, "state"), "terminated").cloned();
    let restarts_all =
        items(spec, "containers").iter().chain(items(spec, "initContainers")).any(|container| {
            items(container, "restartPolicyRules")
                .iter()
                .any(|rule| text(rule, "action") == "RestartAllContainers")
        });
    if restarts_all && !containers.is_empty() {
        return;
    }
    let running: BTreeSet<&str> = items(status, field)
        .iter()
        .filter(|status| ended(status).is_none())
        .map(|status| text(status, "name"))
        .collect();
    let by_name: BTreeMap<&str, &Value> =
        items(spec, containers).iter().map(|container| (text(container, "name"), container)).collect();
    for (index, old) in items(before, field).iter().enumerate() {
        let name = text(old, "name");
        let Some(terminated) = ended(old).filter(|_| running.contains(name)) else { continue };
        let code = number(&terminated, "exitCode").unwrap_or_default();
        let may_restart = by_name.get(name).is_some_and(|container| restarts(container, spec, code));
        if !may_restart {
            let at = all.index(index);
            errors.push(Error::forbidden(&at.child("state"), ENDED));
        }
    }
}

/// `validatePodResourceClaimStatuses`
fn validate_claims(status: &Value, spec: &Value, all: &Path<'_>, errors: &mut ErrorList) {
    let known: BTreeSet<&str> =
        items(spec, "resourceClaims").iter().map(|claim| text(claim, "name")).collect();
    let mut names = BTreeSet::new();
    for (index, claim) in items(status, "resourceClaimStatuses").iter().enumerate() {
        let (at, name) = (all.index(index), text(claim, "name"));
        if !known.contains(name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(Error::invalid(&at.child("name"), name, detail));
        }
        if !names.insert(name) {
            errors.push(Error::duplicate(&at.child("name"), name));
        }
        if let Some(name) = present(claim, "resourceClaimName").and_then(Value::as_str) {
            texts(name_is_dns_subdomain(name, false), name, &at.child("resourceClaimName"), errors);
        }
    }
}

/// The errors in the addresses of a pod or its host: new ones are valid, and one of each family.
fn validate_addresses(status: &Value, before: &Value, field: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let all: Vec<&str> = items(status, field).iter().map(|one| text(one, "ip")).collect();
    let known: BTreeSet<&str> = items(before, field).iter().map(|one| text(one, "ip")).collect();
    for (index, address) in all.iter().enumerate().filter(|(_, address)| !known.contains(*address)) {
        errors.extend(ip::legacy(address, &at.index(index)));
    }
    if all.len() < 2 {
        return;
    }
    let parsed: Vec<Option<IpAddr>> = all.iter().map(|text| Ip::parse(text).map(|ip| ip.address)).collect();
    let unread = parsed.iter().position(Option::is_none);
    if let Some((index, text)) = unread.and_then(|index| Some((index, all.get(index)?))) {
        let detail = format!("failed to check for dual stack with error:invalid IP[{index}]: {text}");
        errors.push(Error::internal(at, detail));
    }
    let has = |is_v6: bool| parsed.iter().flatten().any(|address| address.is_ipv6() == is_v6);
    let is_dual = unread.is_none() && has(true) && has(false);
    if !is_dual || all.len() > 2 {
        let detail = "may specify no more than one IP for each IP family";
        errors.push(Error::invalid_raw(at, printed(&all), detail));
    }
}

/// Addresses as Kubernetes' own form of them prints.
fn printed(all: &[&str]) -> String {
    let all: Vec<String> = all.iter().map(|text| format!("{{\"IP\":{}}}", Value::from(*text))).collect();
    format!("[{}]", all.join(","))
}

fn validate_pod_ip(status: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let own = text(status, "podIP");
    let all: Vec<&str> = items(status, "podIPs").iter().map(|one| text(one, "ip")).collect();
    match all.first() {
        None if own.is_empty() => {}
        Some(first) if *first == own => {}
        Some(first) if !own.is_empty() => {
            let at = at.index(0);
            errors.push(Error::invalid(&at.child("ip"), *first, "must be equal to `podIP`"));
        }
        _ => {
            let value = if all.is_empty() { "null".to_owned() } else { printed(&all) };
            let detail = "podIP and podIPs must either both be set or both be unset";
            errors.push(Error::invalid_raw(at, value, detail));
        }
    }
}

fn validate_host_ips(status: &Value, before: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(first) = items(status, "hostIPs").first() else { return };
    let first = text(first, "ip");
    if first != text(status, "hostIP") {
        let at = at.index(0);
        errors.push(Error::invalid(&at.child("ip"), first, "must be equal to `hostIP`"));
    }
    validate_addresses(status, before, "hostIPs", at, errors);
}

/// `validateContainerStatusUsers`
fn validate_user(container: &Value, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(user) = container.at(&["user", "linux"]).filter(|user| !user.is_null()) else { return };
    let user_at = at.child("user");
    let at = user_at.child("linux");
    if spec.text_at(&["os", "name"]) == "windows" {
        return errors.push(Error::forbidden(&at, "cannot be set for a windows pod"));
    }
    let uid = number(user, "uid").unwrap_or_default();
    if !(0..=i64::from(u32::MAX)).contains(&uid) {
        errors.push(Error::invalid(&at.child("uid"), uid, "must be between 0 and 4294967295, inclusive"));
    }
    let group = |id: i64, at: &Path<'_>, errors: &mut ErrorList| {
        if !(0..=i64::from(i32::MAX)).contains(&id) {
            errors.push(Error::invalid(at, id, "must be between 0 and 2147483647, inclusive"));
        }
    };
    group(number(user, "gid").unwrap_or_default(), &at.child("gid"), errors);
    let all = at.child("supplementalGroups");
    for (index, id) in items(user, "supplementalGroups").iter().enumerate() {
        group(id.as_i64().unwrap_or_default(), &all.index(index), errors);
    }
}

/// Warnings about addresses in odd forms.
pub(super) fn warnings(pod: &Value) -> Vec<String> {
    let (status, at) = (part(pod, "status"), Path::new("status"));
    let mut warnings = Vec::new();
    for field in ["podIPs", "hostIPs"] {
        let all = at.child(field);
        for (index, address) in items(status, field).iter().enumerate() {
            let at = all.index(index);
            warnings.extend(ip::warning(text(address, "ip"), &at.child("ip")));
        }
    }
    warnings
}

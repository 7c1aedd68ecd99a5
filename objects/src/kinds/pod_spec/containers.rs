//! The rules of containers (`validateContainers`, `validateInitContainers`, `validateContainerCommon`, 1.37).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, is_port_name, is_port_number, is_qualified_name};
use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value};

use super::{env, probes, volumes};
use crate::kinds::fields::{items, number, one_of, present, text, texts};
use crate::kinds::resources::{
    NOT_STANDARD, is_extended, is_huge_pages, is_native, is_standard, refused_for_containers,
};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];

/// The errors in all containers of a spec.
pub(super) fn validate(spec: &Value, volumes: &BTreeSet<&str>, at: &Path<'_>, errors: &mut ErrorList) {
    let grace = spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    let all = at.child("containers");
    let containers = items(spec, "containers");
    if containers.is_empty() {
        errors.push(Error::required(&all, ""));
    }
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = all.index(index);
        validate_common(container, volumes, &at, errors);
        let name = text(container, "name");
        if !names.insert(name) {
            errors.push(Error::duplicate(&at.child("name"), name));
        }
        probes::validate(container, grace, &at, errors);
        validate_restart_policy(container, &at, errors);
    }
    validate_host_ports(containers, &all, errors);
    let all = at.child("initContainers");
    for (index, container) in items(spec, "initContainers").iter().enumerate() {
        let at = all.index(index);
        validate_common(container, volumes, &at, errors);
        validate_restart_policy(container, &at, errors);
        let name = text(container, "name");
        if !names.insert(name) {
            errors.push(Error::duplicate(&at.child("name"), name));
        }
        // Upstream counts each init container as the first of its list.
        validate_host_ports(std::slice::from_ref(container), &all, errors);
        if text(container, "restartPolicy") == "Always" {
            probes::validate(container, grace, &at, errors);
        } else {
            probes::forbid(container, &at, errors);
        }
    }
}

fn validate_restart_policy(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let at = at.child("restartPolicy");
    match present(container, "restartPolicy").and_then(Value::as_str) {
        Some(policy) if !RESTART_POLICIES.contains(&policy) => {
            errors.push(Error::not_supported(&at, policy, &RESTART_POLICIES));
        }
        None if !items(container, "restartPolicyRules").is_empty() => {
            errors.push(Error::required(&at, "must specify restartPolicy when restart rules are used"));
        }
        _ => {}
    }
}

fn validate_common(container: &Value, volumes: &BTreeSet<&str>, at: &Path<'_>, errors: &mut ErrorList) {
    match text(container, "name") {
        "" => errors.push(Error::required(&at.child("name"), "")),
        name => texts(is_dns1123_label(name), name, &at.child("name"), errors),
    }
    if text(container, "image").is_empty() {
        errors.push(Error::required(&at.child("image"), ""));
    }
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], at, errors);
    validate_ports(container, at, errors);
    env::validate(container, at, errors);
    env::validate_from(container, at, errors);
    volumes::validate_mounts(container, volumes, at, errors);
    one_of(container, "imagePullPolicy", &PULL_POLICIES, at, errors);
    if let Some(resources) = present(container, "resources") {
        validate_resources(resources, &at.child("resources"), errors);
    }
}

fn validate_ports(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let all = at.child("ports");
    let mut names = BTreeSet::new();
    for (index, port) in items(container, "ports").iter().enumerate() {
        let at = all.index(index);
        let name = text(port, "name");
        let wrong = if name.is_empty() { Vec::new() } else { is_port_name(name) };
        if wrong.is_empty() && !name.is_empty() && !names.insert(name) {
            errors.push(Error::duplicate(&at.child("name"), name));
        }
        texts(wrong, name, &at.child("name"), errors);
        for (field, is_required) in [("containerPort", true), ("hostPort", false)] {
            let (value, at) = (number(port, field).unwrap_or_default(), at.child(field));
            match value {
                0 if is_required => errors.push(Error::required(&at, "")),
                0 => {}
                value => errors.extend(is_port_number(value).map(|why| Error::invalid(&at, value, why))),
            }
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &at, errors);
    }
}

/// `AccumulateUniqueHostPorts`
fn validate_host_ports(containers: &[Value], all: &Path<'_>, errors: &mut ErrorList) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = all.index(index);
        let ports_at = at.child("ports");
        for (index, port) in items(container, "ports").iter().enumerate() {
            let host_port = number(port, "hostPort").unwrap_or_default();
            if host_port == 0 {
                continue;
            }
            let key = format!("{}/{}/{host_port}", text(port, "protocol"), text(port, "hostIP"));
            if !taken.insert(key.clone()) {
                errors.push(Error::duplicate(&ports_at.index(index).child("hostPort"), key));
            }
        }
    }
}

/// The quantities of a field, by resource.
fn quantities<'a>(resources: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str, Quantity)> {
    let map = resources.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter);
    map.filter_map(|(name, value)| {
        let text = value.as_str()?;
        Some((name, text, Quantity::parse(text).ok()?))
    })
}

/// `ValidateContainerResourceRequirements`
pub(in crate::kinds) fn validate_resources(resources: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (mut has_usual, mut has_huge) = (false, false);
    for field in ["limits", "requests"] {
        let field_at = at.child(field);
        for (name, value, amount) in quantities(resources, field) {
            let at = field_at.key(name);
            validate_resource(name, value, &amount, &at, errors);
            has_usual |= matches!(name, "cpu" | "memory");
            has_huge |= is_huge_pages(name);
            if field == "requests" {
                validate_request(resources, name, value, &amount, &field_at, errors);
            }
        }
    }
    if has_huge && !has_usual {
        errors.push(Error::forbidden(at, "HugePages require cpu or memory"));
    }
}

fn validate_resource(name: &str, value: &str, amount: &Quantity, at: &Path<'_>, errors: &mut ErrorList) {
    let wrong = is_qualified_name(name);
    if wrong.is_empty() && !name.contains('/') && !is_standard(name) {
        errors.push(Error::invalid(at, name, NOT_STANDARD));
    }
    texts(wrong, name, at, errors);
    errors.extend(refused_for_containers(name).map(|why| Error::invalid(at, name, why)));
    if amount.sign() < 0 {
        errors.push(Error::invalid(at, value, "must be greater than or equal to 0"));
    }
    // Thousandths are the smallest part that defaulting leaves.
    if is_extended(name) && value.ends_with('m') {
        errors.push(Error::invalid(at, value, "must be an integer"));
    }
}

/// The error of a request that does not fit its limit. Upstream names the requests, and not the one.
fn validate_request(
    resources: &Value,
    name: &str,
    value: &str,
    amount: &Quantity,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let may_exceed = is_native(name) && !is_huge_pages(name);
    let limit = resources.at(&["limits", name]).and_then(Value::as_str);
    match limit.and_then(|text| Some((text, Quantity::parse(text).ok()?))) {
        Some((limit, most)) => {
            let order = amount.compare(&most);
            let relation = if order != Ordering::Equal && !may_exceed {
                "equal to"
            } else if order == Ordering::Greater {
                "less than or equal to"
            } else {
                return;
            };
            let detail = format!("must be {relation} {name} limit of {limit}");
            errors.push(Error::invalid(at, value, detail));
        }
        None if !may_exceed => {
            let detail = "Limit must be set for non overcommitable resources";
            let resources_at = at.to_string();
            let limits = resources_at.strip_suffix("requests").unwrap_or_default();
            errors.push(Error::required(&Path::new(&format!("{limits}limits")), detail));
        }
        None => {}
    }
}

//! The rules of containers (`validateContainers`, `validateInitContainers`, `validateEphemeralContainers`,
//! `validateContainerCommon`, 1.37).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, is_port_name, is_port_number, is_qualified_name};
use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value};

use super::volumes::Volumes;
use super::{claims, env, probes, security, volumes};
use crate::kinds::fields::{items, number, one_of, present, text, texts};
use crate::kinds::resources::{
    HUGE_PAGES, NOT_STANDARD, is_extended, is_huge_pages, is_native, is_standard, refused_for_containers,
};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
const RULES_MAX: usize = 20;
const CODES_MAX: usize = 255;

/// The parts of a spec that the rules of its containers depend on.
struct Context<'a> {
    volumes: &'a Volumes<'a>,
    claims: &'a BTreeSet<&'a str>,
    /// The containers share the users of the host.
    host_users: bool,
    restart_policy: &'a str,
}

/// The errors in all containers of a spec.
pub(super) fn validate(
    spec: &Value,
    volumes: &Volumes<'_>,
    claims: &BTreeSet<&str>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let host_users = spec.get("hostUsers") != Some(&Value::Bool(false));
    let cx = &Context { volumes, claims, host_users, restart_policy: text(spec, "restartPolicy") };
    let grace = spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    let all = at.child("containers");
    let containers = items(spec, "containers");
    if containers.is_empty() {
        errors.push(Error::required(&all, ""));
    }
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = all.index(index);
        validate_common(container, cx, &at, errors);
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
        validate_common(container, cx, &at, errors);
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
            forbid_restarts(container, &at.child("resizePolicy"), errors);
        }
    }
    validate_ephemeral(spec, names, cx, at, errors);
}

fn forbid_restarts(container: &Value, all: &Path<'_>, errors: &mut ErrorList) {
    for (index, policy) in items(container, "resizePolicy").iter().enumerate() {
        let (at, policy) = (all.index(index), text(policy, "restartPolicy"));
        if policy == "RestartContainer" {
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.push(Error::invalid(&at.child("restartPolicy"), policy, detail));
        }
    }
}

/// The fields that an ephemeral container may have beside the name of its target (`allowedEphemeralContainerFields`).
const OF_EPHEMERAL: [&str; 18] = [
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "envFrom",
    "env",
    "volumeMounts",
    "volumeDevices",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
    "targetContainerName",
    "restartPolicy",
];

fn validate_ephemeral<'a>(
    spec: &'a Value,
    mut names: BTreeSet<&'a str>,
    cx: &Context<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let refused = "cannot be set for an Ephemeral Container";
    let others = names.clone();
    let all = at.child("ephemeralContainers");
    for (index, container) in items(spec, "ephemeralContainers").iter().enumerate() {
        let (at, name) = (all.index(index), text(container, "name"));
        validate_common(container, cx, &at, errors);
        let image = text(container, "image");
        if image.trim().len() != image.len() {
            let detail = "must not have leading or trailing whitespace";
            errors.push(Error::invalid(&at.child("image"), image, detail));
        }
        if !names.insert(name) {
            errors.push(Error::duplicate(&at.child("name"), name));
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(Error::not_found(&at.child("targetContainerName"), target));
        }
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(all) => all.is_empty(),
            _ => false,
        };
        for (field, value) in container.as_object().into_iter().flat_map(Map::iter) {
            let is_unset = match field {
                "resources" => value.as_object().is_none_or(Map::is_empty),
                _ => is_empty(value),
            };
            if !is_unset && (!OF_EPHEMERAL.contains(&field) || field == "restartPolicy") {
                errors.push(Error::forbidden(&at.child(field), refused));
            }
        }
        let mounts = at.child("volumeMounts");
        for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
            let at = mounts.index(index);
            for field in ["subPath", "subPathExpr"].into_iter().filter(|field| !text(mount, field).is_empty())
            {
                errors.push(Error::forbidden(&at.child(field), refused));
            }
        }
    }
}

/// `validateContainerRestartPolicy`
fn validate_restart_policy(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let policy_at = at.child("restartPolicy");
    let rules = items(container, "restartPolicyRules");
    match present(container, "restartPolicy").and_then(Value::as_str) {
        Some(policy) if !RESTART_POLICIES.contains(&policy) => {
            errors.push(Error::not_supported(&policy_at, policy, &RESTART_POLICIES));
        }
        None if rules.is_empty() => return,
        None => {
            errors.push(Error::required(&policy_at, "must specify restartPolicy when restart rules are used"))
        }
        _ => {}
    }
    let all = at.child("restartPolicyRules");
    if rules.len() > RULES_MAX {
        errors.push(Error::too_many(&all, rules.len(), RULES_MAX));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = all.index(index);
        let action = text(rule, "action");
        if !ACTIONS.contains(&action) {
            errors.push(Error::not_supported(&at.child("action"), action, &ACTIONS));
        }
        let codes_at = at.child("exitCodes");
        let Some(codes) = present(rule, "exitCodes") else {
            errors.push(Error::required(&codes_at, "must be specified"));
            continue;
        };
        let operator = text(codes, "operator");
        if !matches!(operator, "In" | "NotIn") {
            errors.push(Error::not_supported(&codes_at.child("operator"), operator, &["In", "NotIn"]));
        }
        let count = items(codes, "values").len();
        if count > CODES_MAX {
            errors.push(Error::too_many(&codes_at.child("values"), count, CODES_MAX));
        }
    }
}

fn validate_common(container: &Value, cx: &Context<'_>, at: &Path<'_>, errors: &mut ErrorList) {
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
    volumes::validate_mounts(container, cx.volumes, at, errors);
    volumes::validate_devices(container, cx.volumes, at, errors);
    one_of(container, "imagePullPolicy", &PULL_POLICIES, at, errors);
    if let Some(resources) = present(container, "resources") {
        validate_resources(resources, Owner::Container, cx.claims, &at.child("resources"), errors);
    }
    validate_resize_policy(container, cx.restart_policy, &at.child("resizePolicy"), errors);
    security::validate_container(container, cx.host_users, at, errors);
}

/// `validateResizePolicy`
fn validate_resize_policy(container: &Value, of_pod: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let mut resources = BTreeSet::new();
    for (index, policy) in items(container, "resizePolicy").iter().enumerate() {
        let (name, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if !resources.insert(name) {
            errors.push(Error::duplicate(&at.index(index), name));
        }
        for (value, known) in [(name, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            match value {
                "" => errors.push(Error::required(at, "")),
                value if known.contains(&value) => {}
                value => errors.push(Error::not_supported(at, value, &known)),
            }
        }
        if of_pod == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(Error::invalid(at, restart, detail));
        }
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

/// The errors in the limits of something that has nothing else of a container (`ValidateContainerResourceRequirements`).
pub(in crate::kinds) fn validate_limits(limits: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let resources = kindom_api::object! { "limits": limits.clone() };
    validate_resources(&resources, Owner::Container, &BTreeSet::new(), at, errors);
}

/// The owner of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A container.
    Container,
    /// A pod as a whole.
    Pod,
}

/// The resources that a pod as a whole may have.
const OF_PODS: [&str; 3] = ["cpu", "hugepages-", "memory"];

/// `validateResourceRequirements`
pub(super) fn validate_resources(
    resources: &Value,
    of: Owner,
    claimed: &BTreeSet<&str>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (mut has_usual, mut has_huge) = (false, false);
    for field in ["limits", "requests"] {
        let field_at = at.child(field);
        for (name, value, amount) in quantities(resources, field) {
            let at = field_at.key(name);
            validate_resource(name, of, value, &amount, &at, errors);
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
    claims::validate_names(resources, claimed, at, errors);
}

/// `true` for an amount of whole pages of the size in the resource's name.
fn is_whole_pages(name: &str, amount: &Quantity) -> bool {
    let size = name.strip_prefix(HUGE_PAGES).and_then(|size| Quantity::parse(size).ok());
    let size = size.filter(|size| size.sign() > 0).and_then(|size| size.as_i64());
    match (size, amount.as_i64()) {
        (Some(size), Some(amount)) => amount.checked_rem(size) == Some(0),
        _ => false,
    }
}

fn validate_resource(
    name: &str,
    of: Owner,
    value: &str,
    amount: &Quantity,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if is_huge_pages(name) && !is_whole_pages(name, amount) {
        errors.push(Error::invalid(at, value, format!("{value} is not positive integer multiple of {name}")));
    }
    if of == Owner::Pod {
        let is_known = matches!(name, "cpu" | "memory") || is_huge_pages(name);
        if !is_known {
            errors.push(Error::not_supported(at, name, &OF_PODS));
        }
        return validate_amount(name, value, amount, at, errors);
    }
    let wrong = is_qualified_name(name);
    if wrong.is_empty() && !name.contains('/') && !is_standard(name) {
        errors.push(Error::invalid(at, name, NOT_STANDARD));
    }
    texts(wrong, name, at, errors);
    errors.extend(refused_for_containers(name).map(|why| Error::invalid(at, name, why)));
    validate_amount(name, value, amount, at, errors);
}

fn validate_amount(name: &str, value: &str, amount: &Quantity, at: &Path<'_>, errors: &mut ErrorList) {
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

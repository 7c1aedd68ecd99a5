//! NetworkPolicy, `networking.k8s.io/v1`. It is kept for whoever enforces it.
//!
//! Sources: `pkg/registry/networking/networkpolicy/strategy.go`, `pkg/apis/networking/validation/validation.go`,
//! `pkg/apis/networking/v1/defaults.go`, `pkg/printers/internalversion/printers.go` (1.37).

use std::collections::BTreeSet;
use std::sync::Arc;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_port_name, is_port_number, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_api::{Map, Value};
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::fields::{default_nil, items, items_mut, number, part, present, text, texts};
use crate::kinds::generation;
use crate::kinds::ip::{self, Cidr};
use crate::kinds::{AGE, label_selector, metadata_update};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

static NETWORK_POLICY: Declared = Declared::catalogued("networking.k8s.io/v1", "NetworkPolicy");
const TYPES: [&str; 2] = ["Ingress", "Egress"];
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
/// The lists of rules, each with the name of the peers in it.
const RULES: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// NetworkPolicies as a built-in type.
pub(super) fn network_policies() -> TypeSpec {
    let selector = |policy: &Value| label_selector::cell(policy.at(&["spec", "podSelector"])).into();
    let text = NETWORK_POLICY.text_of(&["spec", "podSelector"]);
    let columns =
        Columns::printed(&[("Pod-Selector", text, ".spec.podSelector", Printed::Computed(selector)), AGE]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names =
        Names { short_names: vec!["netpol".into()], ..Names::of_kind("networkpolicies", "NetworkPolicy") };
    TypeSpec::built_in("networking.k8s.io", names, Scope::Namespaced, versions, Arc::new(NetworkPolicies))
}

/// The rules of NetworkPolicies.
struct NetworkPolicies;

impl Strategy for NetworkPolicies {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&NETWORK_POLICY)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["extensions/v1beta1"]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn fill_defaults(&self, policy: &mut Value) {
        default_nil(policy, "spec", Map::new());
        let Some(spec) = policy.get_mut("spec") else { return };
        for (list, _) in RULES {
            for port in items_mut(spec, list).flat_map(|rule| items_mut(rule, "ports")) {
                default_nil(port, "protocol", "TCP");
            }
        }
        if items(spec, "policyTypes").is_empty() {
            let has_egress = !items(spec, "egress").is_empty();
            let types: Vec<Value> =
                TYPES.iter().take(if has_egress { 2 } else { 1 }).map(|name| (*name).into()).collect();
            if let Some(spec) = spec.as_object_mut() {
                spec.insert("policyTypes", types);
            }
        }
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, policy: &mut Value) {
        generation::first(policy);
    }

    fn validate(&self, _: &RuleContext<'_>, policy: &Value) -> ErrorList {
        let at = Path::new("metadata");
        let mut errors = validate_object_meta(part(policy, "metadata"), true, &name_is_dns_subdomain, &at);
        validate_spec(part(policy, "spec"), &BTreeSet::new(), &mut errors);
        errors
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, policy: &mut Value, old: &Value) {
        generation::next_if_changed(policy, old, "spec");
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        policy: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(policy, old);
        // A range that was wrong before may stay.
        let mut known = BTreeSet::new();
        blocks(part(old, "spec"), |block, _| {
            known.insert(text(block, "cidr"));
            known.extend(items(block, "except").iter().filter_map(Value::as_str));
        });
        validate_spec(part(policy, "spec"), &known, &mut errors);
        errors
    }

    fn warnings(&self, _: &RuleContext<'_>, policy: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        blocks(part(policy, "spec"), |block, at| {
            warnings.extend(ip::cidr_warnings(text(block, "cidr"), &at.child("cidr")));
            let at = at.child("except");
            for (index, except) in items(block, "except").iter().enumerate() {
                let except = except.as_str().unwrap_or_default();
                warnings.extend(ip::cidr_warnings(except, &at.index(index)));
            }
        });
        warnings
    }
}

/// Visits all ranges of addresses.
fn blocks<'a>(spec: &'a Value, mut visit: impl FnMut(&'a Value, &Path<'_>)) {
    let at = Path::new("spec");
    for (list, peers) in RULES {
        let at = at.child(list);
        for (index, rule) in items(spec, list).iter().enumerate() {
            let at = at.index(index);
            let at = at.child(peers);
            for (index, peer) in items(rule, peers).iter().enumerate() {
                let at = at.index(index);
                if let Some(block) = present(peer, "ipBlock") {
                    visit(block, &at.child("ipBlock"));
                }
            }
        }
    }
}

/// `ValidateNetworkPolicySpec`; ranges that are known are right.
fn validate_spec(spec: &Value, known: &BTreeSet<&str>, errors: &mut ErrorList) {
    let at = Path::new("spec");
    label_selector::validate(part(spec, "podSelector"), &at.child("podSelector"), errors);
    for (list, peers) in RULES {
        let at = at.child(list);
        for (index, rule) in items(spec, list).iter().enumerate() {
            let at = at.index(index);
            let at_ports = at.child("ports");
            for (index, port) in items(rule, "ports").iter().enumerate() {
                validate_port(port, &at_ports.index(index), errors);
            }
            let at_peers = at.child(peers);
            for (index, peer) in items(rule, peers).iter().enumerate() {
                validate_peer(peer, known, &at_peers.index(index), errors);
            }
        }
    }
    let (types, at) = (items(spec, "policyTypes"), at.child("policyTypes"));
    if types.len() > TYPES.len() {
        let shown = part(spec, "policyTypes").clone();
        errors.push(Error::invalid(&at, shown, "may not specify more than two policyTypes"));
        return;
    }
    for (index, name) in types.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !TYPES.contains(&name) {
            errors.push(Error::not_supported(&at.index(index), name, &TYPES));
        }
    }
}

/// `ValidateNetworkPolicyPort`
fn validate_port(port: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let protocol = present(port, "protocol").and_then(Value::as_str);
    if let Some(protocol) = protocol.filter(|protocol| !PROTOCOLS.contains(protocol)) {
        errors.push(Error::not_supported(&at.child("protocol"), protocol, &PROTOCOLS));
    }
    let (at_port, at_end, end) = (at.child("port"), at.child("endPort"), number(port, "endPort"));
    match (present(port, "port"), end) {
        (Some(Value::Int(first)), end) => {
            errors.extend(is_port_number(*first).map(|why| Error::invalid(&at_port, *first, why)));
            if let Some(end) = end.filter(|end| end < first) {
                errors.push(Error::invalid(&at_end, end, "must be greater than or equal to `port`"));
            }
            if let Some(end) = end {
                errors.extend(is_port_number(end).map(|why| Error::invalid(&at_end, end, why)));
            }
        }
        (Some(name), end) => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is non-numeric";
                errors.push(Error::invalid(&at_end, end, detail));
            }
            let name = name.as_str().unwrap_or_default();
            texts(is_port_name(name), name, &at_port, errors);
        }
        (None, Some(end)) => {
            let detail = "may not be specified when `port` is not specified";
            errors.push(Error::invalid(&at_end, end, detail));
        }
        (None, None) => {}
    }
}

/// `ValidateNetworkPolicyPeer`
fn validate_peer(peer: &Value, known: &BTreeSet<&str>, at: &Path<'_>, errors: &mut ErrorList) {
    let mut selectors = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = present(peer, field) {
            selectors += 1;
            label_selector::validate(selector, &at.child(field), errors);
        }
    }
    let block = present(peer, "ipBlock");
    if let Some(block) = block {
        validate_block(block, known, &at.child("ipBlock"), errors);
    }
    match (block, selectors) {
        (None, 0) => errors.push(Error::required(at, "must specify a peer")),
        (Some(_), 1..) => {
            errors.push(Error::forbidden(at, "may not specify both ipBlock and another peer"));
        }
        _ => {}
    }
}

/// `ValidateIPBlock`
fn validate_block(block: &Value, known: &BTreeSet<&str>, at: &Path<'_>, errors: &mut ErrorList) {
    let (range, at_range) = (text(block, "cidr"), at.child("cidr"));
    if range.is_empty() {
        return errors.push(Error::required(&at_range, ""));
    }
    let check = |value: &str, at: &Path<'_>| ip::legacy_cidr(value, at).filter(|_| !known.contains(value));
    errors.extend(check(range, &at_range));
    let Some(cidr) = Cidr::parse(range) else { return };
    let at = at.child("except");
    for (index, except) in items(block, "except").iter().enumerate() {
        let (at, except) = (at.index(index), except.as_str().unwrap_or_default());
        errors.extend(check(except, &at));
        let inner = Cidr::parse(except);
        if inner.is_some_and(|inner| !cidr.holds(inner) || cidr.bits >= inner.bits) {
            errors.push(Error::invalid(&at, except, "must be a strict subset of `cidr`"));
        }
    }
}

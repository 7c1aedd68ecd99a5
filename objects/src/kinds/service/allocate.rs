//! The addresses, families and ports that a service gets (`pkg/registry/core/service/storage/{alloc,storage}.go`, 1.37).
//! Upstream takes them here, one by one; here they are only chosen, and taken in the transaction that stores the service.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::{Map, Value};

use super::range::Family;
use super::{
    HEADLESS, ServiceNetwork, address_key, cluster_ips, is_headless, kind, needs_health_check, node_port,
    node_ports, policy, port_key, rules, spec,
};
use crate::holdings::Allocation;
use crate::kinds::fields::{items, items_mut, number, part, present_mut, text};
use crate::kinds::ip::Ip;
use crate::{PlanError, RuleContext};

/// Completes a service that replaces `old` (`beginCreate`, `beginUpdate`).
pub(super) fn allocate(
    network: &ServiceNetwork,
    cx: &RuleContext<'_>,
    service: &mut Value,
    old: Option<&Value>,
) -> Result<(), PlanError> {
    let name = service.text_at(&["metadata", "name"]).to_owned();
    let mut allocator = Allocator { network, allocation: cx.allocation, service, name };
    if let Some(old) = old {
        allocator.keep_allocated(old);
    }
    allocator.pair_cluster_ips(old);
    allocator.families(old)?;
    allocator.addresses(old)?;
    allocator.ports(old)
}

/// A service that gets what it lacks.
struct Allocator<'a> {
    network: &'a ServiceNetwork,
    allocation: &'a Allocation,
    service: &'a mut Value,
    name: String,
}

fn needs_cluster_ip(service: &Value) -> bool {
    kind(service) != "ExternalName"
}

/// `needsNodePort`
fn needs_node_ports(service: &Value) -> bool {
    kind(service) == "NodePort" || kind(service) == "LoadBalancer" && gives_node_ports(service)
}

/// `shouldAllocateNodePorts`, of a load balancer
fn gives_node_ports(service: &Value) -> bool {
    part(spec(service), "allocateLoadBalancerNodePorts") != &Value::Bool(false)
}

fn texts(service: &Value, field: &str) -> Vec<String> {
    items(spec(service), field).iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect()
}

fn families(service: &Value) -> Vec<String> {
    texts(service, "ipFamilies")
}

/// The ports of a service, as a pair of its kind is called: `spec.ports[i].nodePort`.
fn node_port_error(name: &str, index: usize, port: i64, why: String) -> PlanError {
    let (spec, mut errors) = (Path::new("spec"), ErrorList::new());
    let ports = spec.child("ports");
    errors.push(Error::invalid(&ports.index(index).child("nodePort"), port, why));
    PlanError::Invalid { name: name.to_owned(), errors }
}

impl Allocator<'_> {
    fn set(&mut self, field: &str, value: impl Into<Value>) {
        if let Some(map) = present_mut(self.service, "spec").and_then(Value::as_object_mut) {
            map.insert(field, value);
        }
    }

    fn set_texts(&mut self, field: &str, texts: Vec<String>) {
        self.set(field, texts.into_iter().map(Value::from).collect::<Vec<_>>());
    }

    fn refuse(&self, errors: ErrorList) -> Result<(), PlanError> {
        if errors.is_empty() { Ok(()) } else { Err(PlanError::Invalid { name: self.name.clone(), errors }) }
    }

    /// Keeps what the server once gave and the client left out (`patchAllocatedValues`).
    fn keep_allocated(&mut self, old: &Value) {
        if needs_cluster_ip(old) && needs_cluster_ip(self.service) {
            let before = text(spec(old), "clusterIP").to_owned();
            if text(spec(self.service), "clusterIP").is_empty() && !before.is_empty() {
                self.set("clusterIP", before);
            }
            let before = texts(old, "clusterIPs");
            if texts(self.service, "clusterIPs").is_empty() && !before.is_empty() {
                self.set_texts("clusterIPs", before);
            }
        }
        if needs_node_ports(old) && needs_node_ports(self.service) {
            let (of_old, of_new): (BTreeSet<i64>, BTreeSet<i64>) =
                (node_ports(old).collect(), node_ports(self.service).collect());
            let by_name: BTreeMap<&str, i64> = items(spec(old), "ports")
                .iter()
                .map(|port| (text(port, "name"), node_port(port, "nodePort")))
                .collect();
            for port in
                present_mut(self.service, "spec").into_iter().flat_map(|spec| items_mut(spec, "ports"))
            {
                let before = by_name.get(text(port, "name")).copied().unwrap_or_default();
                let is_used = of_old.contains(&before) && of_new.contains(&before);
                if node_port(port, "nodePort") == 0
                    && before != 0
                    && !is_used
                    && let Some(port) = port.as_object_mut()
                {
                    port.insert("nodePort", before);
                }
            }
        }
        let before = node_port(spec(old), "healthCheckNodePort");
        if needs_health_check(old)
            && needs_health_check(self.service)
            && node_port(spec(self.service), "healthCheckNodePort") == 0
        {
            self.set("healthCheckNodePort", before);
        }
    }

    /// Brings `clusterIP` and `clusterIPs` together (`normalizeClusterIPs`).
    fn pair_cluster_ips(&mut self, old: Option<&Value>) {
        let one = text(spec(self.service), "clusterIP").to_owned();
        let all = texts(self.service, "clusterIPs");
        let Some(old) = old else {
            if !one.is_empty() && all.is_empty() {
                self.set_texts("clusterIPs", vec![one]);
            }
            return;
        };
        let (old_one, old_all) = (text(spec(old), "clusterIP"), texts(old, "clusterIPs"));
        if !old_all.is_empty() && all.is_empty() && old_one == one {
            self.set_texts("clusterIPs", old_all);
        } else if old_one != one && old_all == all {
            // The client knows the single address only.
            let cleared = !old_one.is_empty() && one.is_empty();
            self.set_texts("clusterIPs", if cleared { Vec::new() } else { vec![one] });
        }
    }

    /// `isMatchingPreferDualStackClusterIPFields`
    fn stays_as_it_prefers(&self, old: &Value) -> bool {
        let prefers = Some("PreferDualStack");
        policy(self.service) == prefers
            && kind(old) == kind(self.service)
            && matches!(kind(old), "ClusterIP" | "NodePort" | "LoadBalancer")
            && policy(old).is_none_or(|policy| Some(policy) == prefers)
            && texts(old, "clusterIPs") == texts(self.service, "clusterIPs")
            && families(old) == families(self.service)
    }

    /// The policy and the families of addresses (`initIPFamilyFields`).
    fn families(&mut self, old: Option<&Value>) -> Result<(), PlanError> {
        if !needs_cluster_ip(self.service) || old.is_some_and(|old| self.stays_as_it_prefers(old)) {
            return Ok(());
        }
        let spec_path = Path::new("spec");
        let (at_policy, at_ips, at_families) =
            (spec_path.child("ipFamilyPolicy"), spec_path.child("clusterIPs"), spec_path.child("ipFamilies"));
        let is_headless = text(spec(self.service), "clusterIP") == HEADLESS;
        let has_selector =
            spec(self.service).get("selector").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
        let policy = match (policy(self.service), old.and_then(policy)) {
            (Some(policy), _) | (None, Some(policy)) => policy.to_owned(),
            (None, None) if is_headless && !has_selector => "RequireDualStack".to_owned(),
            (None, None) => "SingleStack".to_owned(),
        };
        self.set("ipFamilyPolicy", policy.as_str());
        self.refuse(rules::cluster_ips_errors(self.service, old))?;

        let mut errors = ErrorList::new();
        let is_single = policy == "SingleStack";
        if let Some(old) = old {
            let (ips, of_families) = (texts(self.service, "clusterIPs"), families(self.service));
            let (old_ips, old_families) = (texts(old, "clusterIPs"), families(old));
            if is_single {
                if ips == old_ips && ips.len() > 1 {
                    self.set_texts("clusterIPs", ips.into_iter().take(1).collect());
                }
                if of_families == old_families && of_families.len() > 1 {
                    self.set_texts("ipFamilies", of_families.into_iter().take(1).collect());
                }
            } else {
                let reduced = |new: &[String], old: &[String]| !new.is_empty() && new.len() < old.len();
                for (is_less, what) in [
                    (reduced(&ips, &old_ips), "cluster IP"),
                    (reduced(&of_families, &old_families), "IP family"),
                ] {
                    if is_less {
                        let why = format!("must be 'SingleStack' to release the secondary {what}");
                        errors.push(Error::invalid(&at_policy, policy.as_str(), why));
                    }
                }
            }
        }
        let mut of_families = families(self.service);
        if is_single {
            for (count, what) in
                [(cluster_ips(self.service).count(), "cluster IPs"), (of_families.len(), "IP families")]
            {
                if count == 2 {
                    let why = format!(
                        "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                    );
                    errors.push(Error::invalid(&at_policy, policy.as_str(), why));
                }
            }
        }
        let listed = part(spec(self.service), "clusterIPs").clone();
        for (index, ip) in texts(self.service, "clusterIPs").into_iter().enumerate() {
            if ip == HEADLESS {
                break;
            }
            let Some(family) = Ip::parse(&ip).map(|ip| Family::of(ip.address)) else { continue };
            if index < of_families.len() {
                continue;
            }
            match self.network.range(family) {
                Some(_) => of_families.push(family.name().to_owned()),
                None => {
                    let why = format!("{} is not configured on this cluster", family.name());
                    errors.push(Error::invalid(&at_ips.index(index), listed.clone(), why));
                }
            }
        }
        self.refuse(std::mem::take(&mut errors))?;

        let primary = self.network.addresses.0.family();
        let may_have_two = match (is_headless && !has_selector, self.network.addresses.1) {
            // Whatever addresses are behind it.
            (true, _) => true,
            (false, secondary) => {
                if policy == "RequireDualStack" && secondary.is_none() {
                    let why = "this cluster is not configured for dual-stack services";
                    errors.push(Error::invalid(&at_policy, policy.as_str(), why));
                }
                for (index, family) in of_families.iter().enumerate() {
                    if Family::of_name(family).and_then(|family| self.network.range(family)).is_none() {
                        let why = "not configured on this cluster";
                        errors.push(Error::invalid(&at_families.index(index), family.as_str(), why));
                    }
                }
                secondary.is_some()
            }
        };
        self.refuse(errors)?;
        if of_families.is_empty() {
            of_families.push(primary.name().to_owned());
        }
        if let ([family], true) = (of_families.as_slice(), !is_single && may_have_two)
            && let Some(family) = Family::of_name(family)
        {
            of_families.push(family.other().name().to_owned());
        }
        self.set_texts("ipFamilies", of_families);
        Ok(())
    }

    /// The addresses (`txnAllocClusterIPs`, `updateClusterIPs`).
    fn addresses(&mut self, old: Option<&Value>) -> Result<(), PlanError> {
        let needs = needs_cluster_ip(self.service) && cluster_ips(self.service).next() != Some(HEADLESS);
        let first = match old {
            None => 0,
            Some(old) if self.stays_as_it_prefers(old) => return Ok(()),
            Some(old) if !needs_cluster_ip(old) => 0,
            Some(old) => {
                let is_upgrade = families(old).len() == 1 && families(self.service).len() == 2;
                if !is_upgrade || is_headless(old) {
                    return Ok(());
                }
                1
            }
        };
        if !needs {
            return Ok(());
        }
        let mut ips = texts(self.service, "clusterIPs");
        for (index, family) in families(self.service).iter().enumerate().skip(first) {
            let Some(range) = Family::of_name(family).and_then(|family| self.network.range(family)) else {
                continue;
            };
            let listed = part(spec(self.service), "clusterIPs").clone();
            match ips.get(index).filter(|ip| !ip.is_empty()) {
                Some(ip) => self.check_address(ip, range.to_string(), |ip| range.holds(ip), &listed)?,
                None => {
                    let chosen = match self.allocation.dry_run {
                        true => Some(range.network()),
                        false => range.free(self.allocation, |ip| self.is_taken(ip)),
                    };
                    let full = || {
                        PlanError::Unallocated(format!(
                            "failed to allocate a serviceIP for Service {:?}: range is full",
                            self.name
                        ))
                    };
                    let chosen = chosen.ok_or_else(full)?.to_string();
                    match ips.get_mut(index) {
                        Some(ip) => *ip = chosen,
                        None => ips.push(chosen),
                    }
                }
            }
        }
        if let Some(first) = ips.first().filter(|_| first == 0) {
            self.set("clusterIP", first.as_str());
        }
        self.set_texts("clusterIPs", ips);
        Ok(())
    }

    fn is_taken(&self, address: IpAddr) -> bool {
        self.allocation.taken.contains(&address_key(address))
    }

    /// The error in an address that the client asks for (`AllocateService`).
    fn check_address(
        &self,
        asked: &str,
        range: String,
        holds: impl Fn(IpAddr) -> bool,
        listed: &Value,
    ) -> Result<(), PlanError> {
        let Some(address) = Ip::parse(asked).map(|ip| ip.address) else {
            return Err(PlanError::Unallocated(format!("failed to parse service IP {asked:?}")));
        };
        let why = match (holds(address), self.allocation.dry_run) {
            (false, false) => "the provided network does not match the current range".to_owned(),
            (false, true) => format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
            ),
            (true, false) if self.is_taken(address) => "provided IP is already allocated".to_owned(),
            (true, _) => return Ok(()),
        };
        let (spec, mut errors) = (Path::new("spec"), ErrorList::new());
        let why = format!("failed to allocate IP {asked}: {why}");
        errors.push(Error::invalid(&spec.child("clusterIPs"), listed.clone(), why));
        self.refuse(errors)
    }

    /// The ports of nodes (`txnAllocNodePorts`, `txnUpdateNodePorts`).
    fn ports(&mut self, old: Option<&Value>) -> Result<(), PlanError> {
        let before: BTreeSet<i64> = old.into_iter().flat_map(node_ports).collect();
        let mut chosen = Chosen { ports: BTreeSet::new(), before, highest: 0 };
        if matches!(kind(self.service), "NodePort" | "LoadBalancer") {
            let mut ports = items(spec(self.service), "ports").to_vec();
            match old {
                None => self.new_node_ports(&mut ports, &mut chosen)?,
                Some(_) => self.changed_node_ports(&mut ports, &mut chosen)?,
            }
            self.set("ports", ports);
        }
        if needs_health_check(self.service) && !old.is_some_and(needs_health_check) {
            let port = node_port(spec(self.service), "healthCheckNodePort");
            if port == 0 {
                let port = self.next_port(&mut chosen).ok_or_else(|| {
                    PlanError::Unallocated(
                        "failed to allocate a HealthCheck NodePort 0: range is full".to_owned(),
                    )
                })?;
                self.set("healthCheckNodePort", port);
            } else if let Some(why) = self.refusal_of_port(port, &mut chosen) {
                let message = format!("failed to allocate requested HealthCheck NodePort {port}: {why}");
                return Err(PlanError::Unallocated(message));
            }
        }
        Ok(())
    }

    /// `initNodePorts`: ports of the same number share the port of a node, as for TCP and UDP.
    fn new_node_ports(&self, ports: &mut [Value], chosen: &mut Chosen) -> Result<(), PlanError> {
        let gives = kind(self.service) == "NodePort" || gives_node_ports(self.service);
        let own = |port: &Value| number(port, "port").unwrap_or_default();
        let mut requested: BTreeMap<i64, i64> = BTreeMap::new();
        for port in ports.iter().filter(|port| node_port(port, "nodePort") != 0) {
            requested.entry(own(port)).or_insert_with(|| node_port(port, "nodePort"));
        }
        let mut by_port: BTreeMap<i64, i64> = BTreeMap::new();
        for (index, port) in ports.iter_mut().enumerate() {
            let (asked, of) = (node_port(port, "nodePort"), own(port));
            if asked == 0 && !gives {
                continue;
            }
            let given = match by_port.get(&of) {
                None => {
                    let given = match requested.get(&of) {
                        Some(&requested) => {
                            self.take_port(requested, index, chosen)?;
                            requested
                        }
                        None => self.next_node_port(chosen)?,
                    };
                    by_port.insert(of, given);
                    given
                }
                Some(&given) if asked == 0 || asked == given => given,
                Some(_) => {
                    self.take_port(asked, index, chosen)?;
                    asked
                }
            };
            set_node_port(port, given);
        }
        Ok(())
    }

    /// `updateNodePorts`
    fn changed_node_ports(&self, ports: &mut [Value], chosen: &mut Chosen) -> Result<(), PlanError> {
        let gives = kind(self.service) == "NodePort" || gives_node_ports(self.service);
        let mut seen: BTreeSet<(String, i64)> = BTreeSet::new();
        for (index, port) in ports.iter_mut().enumerate() {
            let asked = node_port(port, "nodePort");
            if asked == 0 && !gives {
                continue;
            }
            let given = if asked == 0 {
                self.next_node_port(chosen)?
            } else {
                if !chosen.before.contains(&asked) && !chosen.ports.contains(&asked) {
                    self.take_port(asked, index, chosen)?;
                }
                asked
            };
            set_node_port(port, given);
            if !seen.insert((text(port, "protocol").to_owned(), given)) {
                return Err(PlanError::Internal(format!(
                    "duplicate nodePort: {{{} {given}}}",
                    text(port, "protocol")
                )));
            }
        }
        Ok(())
    }

    fn take_port(&self, port: i64, index: usize, chosen: &mut Chosen) -> Result<(), PlanError> {
        match self.refusal_of_port(port, chosen) {
            Some(why) => Err(node_port_error(&self.name, index, port, why)),
            None => Ok(()),
        }
    }

    fn next_node_port(&self, chosen: &mut Chosen) -> Result<i64, PlanError> {
        self.next_port(chosen)
            .ok_or_else(|| PlanError::Unallocated("failed to allocate a nodePort: range is full".to_owned()))
    }

    /// The reason why a port that the client asks for cannot be had; otherwise it is taken.
    fn refusal_of_port(&self, port: i64, chosen: &mut Chosen) -> Option<String> {
        let range = self.network.node_ports;
        if !range.holds(port) && !self.allocation.dry_run {
            return Some(format!(
                "provided port is not in the valid range. The range of valid ports is {range}"
            ));
        }
        if self.allocation.taken.contains(&port_key(port)) || !chosen.take(port) {
            return Some("provided port is already allocated".to_owned());
        }
        None
    }

    /// A port that nobody has; in a dry run, any.
    fn next_port(&self, chosen: &mut Chosen) -> Option<i64> {
        let port = match self.allocation.dry_run {
            true if chosen.ports.is_empty() => Some(FIRST_OF_A_DRY_RUN),
            true => chosen.highest.checked_add(1),
            false => self.network.node_ports.free(self.allocation, |port| {
                chosen.ports.contains(&port)
                    || chosen.before.contains(&port)
                    || self.allocation.taken.contains(&port_key(port))
            }),
        }?;
        chosen.take(port);
        Some(port)
    }
}

/// The first port that a dry run gives, of those that no range has (`PortAllocationOperation.AllocateNext`).
const FIRST_OF_A_DRY_RUN: i64 = 32_769;

/// The ports of one service.
struct Chosen {
    /// Those of this write.
    ports: BTreeSet<i64>,
    /// Those that it had.
    before: BTreeSet<i64>,
    highest: i64,
}

impl Chosen {
    fn take(&mut self, port: i64) -> bool {
        self.highest = self.highest.max(port);
        self.ports.insert(port)
    }
}

fn set_node_port(port: &mut Value, number: i64) {
    if let Some(map) = Some(port).and_then(|port| port.as_object_mut()) as Option<&mut Map> {
        map.insert("nodePort", number);
    }
}

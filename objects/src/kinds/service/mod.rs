//! Service, `v1`: a name, addresses and ports for a set of pods. The addresses of a cluster and the ports of its nodes are
//! [allocated](allocate); a client's own are held like them, so that no two services have the same.
//!
//! Sources: `pkg/registry/core/service/strategy.go`, `pkg/registry/core/service/storage`, `pkg/apis/core/v1/defaults.go`,
//! `pkg/apis/core/validation`, `pkg/api/service` (1.37).

use std::net::IpAddr;
use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value};
use kindom_storage_model::Key;

use crate::declared::Declared;
use crate::holdings::Holdings;
use crate::kinds::fields::{
    default_nil, default_zero, items, items_mut, number, part, present, present_mut, text,
};
use crate::kinds::ip;
use crate::kinds::resource_quota::measure::{QuotaMeasure, Usage};
use crate::kinds::status::{is_of_status, keep_other_part, reset};
use crate::seal::Sealed;
use crate::version::SelectableField;
use crate::{BuiltInVersion, Names, PlanError, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod allocate;
mod printed;
mod range;
mod rules;

pub use range::{AddressRange, PortRange};

use range::Family;

static SERVICE: Declared = Declared::catalogued("v1", "Service");

/// `clusterIP` of a service that has no address.
const HEADLESS: &str = "None";
/// The prefix of the objects that hold addresses: those of kube-apiserver's IPAddresses.
const ADDRESSES: &str = "/registry/ipaddresses/";
/// The prefix of the keys that hold ports of nodes. kube-apiserver has a bitmap at the key without the `/`.
const PORTS: &str = "/registry/ranges/servicenodeports/";

/// The ranges from which services get addresses and ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceNetwork {
    /// The range of addresses; a second one is of the other family.
    pub addresses: (AddressRange, Option<AddressRange>),
    /// The ports of nodes.
    pub node_ports: PortRange,
}

impl Default for ServiceNetwork {
    fn default() -> Self {
        Self { addresses: (AddressRange::DEFAULT, None), node_ports: PortRange::DEFAULT }
    }
}

impl ServiceNetwork {
    /// The network of these ranges.
    ///
    /// # Errors
    /// More than two ranges, none, or two of one family.
    pub fn new(addresses: &[AddressRange], node_ports: PortRange) -> Result<Self, String> {
        let addresses = match *addresses {
            [primary] => (primary, None),
            [primary, secondary] if primary.family() != secondary.family() => (primary, Some(secondary)),
            [_, _] => return Err("the two ranges must be of IPv4 and of IPv6".to_owned()),
            _ => return Err("there must be one range or two".to_owned()),
        };
        Ok(Self { addresses, node_ports })
    }

    fn range(&self, family: Family) -> Option<AddressRange> {
        let (primary, secondary) = self.addresses;
        Some(primary).into_iter().chain(secondary).find(|range| range.family() == family)
    }
}

/// Services as a built-in type.
pub(super) fn services(network: &ServiceNetwork) -> TypeSpec {
    let versions = vec![BuiltInVersion { name: "v1", columns: printed::table(), deprecation_warning: None }];
    let names = Names {
        short_names: vec!["svc".into()],
        categories: vec!["all".into()],
        ..Names::of_kind("services", "Service")
    };
    let strategy = Services { network: network.clone() };
    TypeSpec::built_in("", names, Scope::Namespaced, versions, Arc::new(strategy))
}

/// The rules of services.
struct Services {
    network: ServiceNetwork,
}

fn spec(service: &Value) -> &Value {
    part(service, "spec")
}

fn kind(service: &Value) -> &str {
    text(spec(service), "type")
}

fn cluster_ips(service: &Value) -> impl Iterator<Item = &str> {
    items(spec(service), "clusterIPs").iter().map(|ip| ip.as_str().unwrap_or_default())
}

/// `isHeadlessService` of `pkg/apis/core/validation`
fn is_headless(service: &Value) -> bool {
    let mut ips = cluster_ips(service);
    ips.next() == Some(HEADLESS) && ips.next().is_none()
}

/// `ExternallyAccessible`
fn is_reached_from_outside(service: &Value) -> bool {
    match kind(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !items(spec(service), "externalIPs").is_empty(),
        _ => false,
    }
}

/// `NeedsHealthCheck`
fn needs_health_check(service: &Value) -> bool {
    kind(service) == "LoadBalancer" && text(spec(service), "externalTrafficPolicy") == "Local"
}

fn node_port(of: &Value, field: &str) -> i64 {
    number(of, field).unwrap_or_default()
}

fn address_key(address: IpAddr) -> Key {
    Key::from(format!("{ADDRESSES}{address}"))
}

fn port_key(port: i64) -> Key {
    Key::from(format!("{PORTS}{port}"))
}

/// The IPAddress that holds an address for a service (`createIPAddress`).
fn ip_address(cx: &RuleContext<'_>, service: &Value, address: IpAddr, index: usize) -> Sealed {
    let metadata = |field| service.text_at(&["metadata", field]);
    let address = kindom_api::object! {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": kindom_api::object! {
            "name": address.to_string(),
            "uid": cx.allocation.uid(index),
            "creationTimestamp": cx.now,
            "labels": kindom_api::object! {
                "ipaddress.kubernetes.io/ip-family": Family::of(address).name(),
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": kindom_api::object! {
            "parentRef": kindom_api::object! {
                "resource": "services",
                "namespace": metadata("namespace"),
                "name": metadata("name"),
            },
        },
    };
    Sealed::new(address.to_vec(), 1)
}

fn keep_if_same(object: &mut Value, old: &Value, field: &str) {
    // Same as before: the server may have set it, so it goes with the type that needed it.
    if let Some(spec) = present_mut(object, "spec")
        && spec.get(field).filter(|value| !value.is_null())
            == part(old, "spec").get(field).filter(|value| !value.is_null())
        && let Some(map) = spec.as_object_mut()
    {
        map.remove(field);
    }
}

/// Drops fields that the new type has no use for, unless the client changed them (`dropTypeDependentFields`).
fn drop_fields_of_the_old_type(service: &mut Value, old: &Value) {
    let (new_kind, old_kind) = (kind(service).to_owned(), kind(old));
    let same_list = |field| items(spec(service), field) == items(spec(old), field);
    if old_kind != "ExternalName" && new_kind == "ExternalName" {
        let same_ips =
            text(spec(service), "clusterIP") == text(spec(old), "clusterIP") && same_list("clusterIPs");
        if same_ips {
            keep_if_same(service, old, "clusterIP");
            keep_if_same(service, old, "clusterIPs");
        }
        keep_if_same(service, old, "ipFamilies");
        keep_if_same(service, old, "ipFamilyPolicy");
    }
    let has_node_ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    if has_node_ports(old_kind) && !has_node_ports(&new_kind) {
        let before: Vec<i64> = node_ports(old).collect();
        if node_ports(service).all(|port| before.contains(&port)) {
            let ports = present_mut(service, "spec").into_iter().flat_map(|spec| items_mut(spec, "ports"));
            for port in ports.filter_map(Value::as_object_mut) {
                port.remove("nodePort");
            }
        }
    }
    if needs_health_check(old) && !needs_health_check(service) {
        keep_if_same(service, old, "healthCheckNodePort");
    }
    if old_kind == "LoadBalancer" && new_kind != "LoadBalancer" {
        keep_if_same(service, old, "allocateLoadBalancerNodePorts");
        keep_if_same(service, old, "loadBalancerClass");
    }
    if is_reached_from_outside(old) && !is_reached_from_outside(service) {
        keep_if_same(service, old, "externalTrafficPolicy");
    }
    if new_kind != "LoadBalancer"
        && let Some(status) = present_mut(service, "status").and_then(Value::as_object_mut)
    {
        status.insert("loadBalancer", Value::Object(Map::new()));
    }
}

/// The ports of nodes that a service's ports name.
fn node_ports(service: &Value) -> impl Iterator<Item = i64> {
    items(spec(service), "ports").iter().map(|port| node_port(port, "nodePort")).filter(|port| *port != 0)
}

/// `pkg/quota/v1/evaluator/core/services.go`
impl QuotaMeasure for Services {
    fn usage(&self, service: &Value, _: &str) -> Usage {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let all = count(items(spec(service), "ports").len());
        let (of_nodes, balancers) = match kind(service) {
            "NodePort" => (all, 0),
            "LoadBalancer" if part(spec(service), "allocateLoadBalancerNodePorts") == &Value::Bool(false) => {
                (count(node_ports(service).count()), 1)
            }
            "LoadBalancer" => (all, 1),
            _ => (0, 0),
        };
        let amounts = [("services.loadbalancers", balancers), ("services.nodeports", of_nodes)];
        amounts.map(|(name, amount)| (name.to_owned(), Quantity::of_count(amount))).into()
    }

    fn gives_back(&self, service: &Value) -> bool {
        matches!(kind(service), "ClusterIP" | "ExternalName")
    }
}

impl Strategy for Services {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&SERVICE)
    }

    /// `SetDefaults_Service`
    fn fill_defaults(&self, service: &mut Value) {
        let reached = {
            let Some(spec) = service.get_mut("spec") else { return };
            default_zero(spec, "sessionAffinity", "None");
            let affinity = text(spec, "sessionAffinity").to_owned();
            let timeout = spec.at(&["sessionAffinityConfig", "clientIP", "timeoutSeconds"]);
            let has_timeout = timeout.is_some_and(|timeout| !timeout.is_null());
            if let Some(map) = spec.as_object_mut() {
                match affinity.as_str() {
                    "None" => drop(map.remove("sessionAffinityConfig")),
                    "ClientIP" if !has_timeout => {
                        let config = kindom_api::object! {
                            "clientIP": kindom_api::object! { "timeoutSeconds": 10800 },
                        };
                        map.insert("sessionAffinityConfig", config);
                    }
                    _ => {}
                }
            }
            default_zero(spec, "type", "ClusterIP");
            for port in items_mut(spec, "ports") {
                default_zero(port, "protocol", "TCP");
                let own = number(port, "port").unwrap_or_default();
                default_zero(port, "targetPort", own);
            }
            is_reached_from_outside(service)
        };
        let kind = kind(service).to_owned();
        let Some(spec) = service.get_mut("spec") else { return };
        if reached {
            default_zero(spec, "externalTrafficPolicy", "Cluster");
        }
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
            default_nil(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            default_nil(spec, "allocateLoadBalancerNodePorts", true);
            let balancer =
                present_mut(service, "status").and_then(|status| present_mut(status, "loadBalancer"));
            let ingress = balancer.into_iter().flat_map(|balancer| items_mut(balancer, "ingress"));
            ingress.filter(|at| !text(at, "ip").is_empty()).for_each(|at| default_nil(at, "ipMode", "VIP"));
        }
    }

    fn selectable(&self) -> Vec<SelectableField> {
        ["spec.clusterIP", "spec.type"].map(SelectableField::new).into()
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        if is_of_status(cx) { &["spec"] } else { &["status"] }
    }

    fn has_holdings(&self) -> bool {
        true
    }

    fn allocate(
        &self,
        cx: &RuleContext<'_>,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), PlanError> {
        if is_of_status(cx) { Ok(()) } else { allocate::allocate(&self.network, cx, service, old) }
    }

    fn holdings(&self, cx: &RuleContext<'_>, service: &Value) -> Holdings {
        let mut holdings = Holdings::new();
        if kind(service) == "ExternalName" {
            return holdings;
        }
        for (index, address) in cluster_ips(service).enumerate() {
            // "None" is no address.
            if let Some(parsed) = ip::Ip::parse(address) {
                let holder = ip_address(cx, service, parsed.address, index);
                holdings.insert(address_key(parsed.address), holder.value());
            }
        }
        let has_ports = matches!(kind(service), "NodePort" | "LoadBalancer");
        let health =
            Some(node_port(spec(service), "healthCheckNodePort")).filter(|_| needs_health_check(service));
        let ports = node_ports(service).filter(|_| has_ports).chain(health);
        let holder = ["namespace", "name"].map(|field| service.text_at(&["metadata", field])).join("/");
        holdings.extend(ports.filter(|port| *port > 0).map(|port| (port_key(port), holder.clone().into())));
        holdings
    }

    fn quota_measure(&self) -> Option<&dyn QuotaMeasure> {
        Some(self)
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, service: &mut Value) {
        reset(cx, service);
    }

    fn validate(&self, _: &RuleContext<'_>, service: &Value) -> ErrorList {
        rules::validate_create(service)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, service: &mut Value, old: &Value) {
        keep_other_part(cx, service, old);
        if !is_of_status(cx) {
            drop_fields_of_the_old_type(service, old);
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        service: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        if is_of_status(cx) {
            return rules::validate_status(service, old);
        }
        rules::validate_update(service, old)
    }

    fn canonicalize(&self, _: &RuleContext<'_>, service: &mut Value) {
        SERVICE.declaration().shape.forget_empty(service);
        // `defaultOnReadInternalTrafficPolicy`
        if kind(service) == "ExternalName"
            && let Some(map) = present_mut(service, "spec").and_then(Value::as_object_mut)
        {
            map.remove("internalTrafficPolicy");
        }
    }

    fn warnings(&self, cx: &RuleContext<'_>, service: &Value, _: Option<&Value>) -> Vec<String> {
        if is_of_status(cx) { rules::status_warnings(service) } else { rules::warnings(service) }
    }
}

/// The text of `ipFamilyPolicy`; none where it is unset.
fn policy(service: &Value) -> Option<&str> {
    present(spec(service), "ipFamilyPolicy").and_then(Value::as_str)
}

//! The table of services (`printService` of `pkg/printers/internalversion/printers.go`, 1.37).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_schema::columns::{Columns, age, name_column};

use super::SERVICE;
use crate::kinds::fields::{items, number, part, text};
use crate::kinds::keyed::entries;
use crate::kinds::table_column;

pub(super) fn table() -> Columns {
    let column =
        |name: &str, priority, path: &[&str]| table_column(name, "string", priority, SERVICE.text_of(path));
    let columns = vec![
        name_column(),
        column("Type", 0, &["spec", "type"]),
        column("Cluster-IP", 0, &["spec", "clusterIP"]),
        column("External-IP", 0, &["spec", "externalIPs"]),
        column("Port(s)", 0, &["spec", "ports"]),
        column("Age", 0, &[]),
        column("Selector", 1, &["spec", "selector"]),
    ];
    Columns::rows(columns, row)
}

fn row(service: &Value, now: i64) -> Vec<Value> {
    let spec = part(service, "spec");
    let or_none = |text: String| if text.is_empty() { "<none>".to_owned() } else { text };
    let address = items(spec, "clusterIPs").first().and_then(Value::as_str).unwrap_or("<none>");
    let ports: Vec<String> = items(spec, "ports").iter().map(port).collect();
    let selector: Vec<String> =
        entries(spec, "selector").map(|(key, value)| format!("{key}={value}")).collect();
    vec![
        service.text_at(&["metadata", "name"]).into(),
        text(spec, "type").into(),
        address.into(),
        external(service).into(),
        or_none(ports.join(",")).into(),
        age(service.text_at(&["metadata", "creationTimestamp"]), now).into(),
        or_none(selector.join(",")).into(),
    ]
}

/// `makePortString`
fn port(port: &Value) -> String {
    let (at, protocol) = (number(port, "port").unwrap_or_default(), text(port, "protocol"));
    match number(port, "nodePort") {
        Some(node_port) if node_port > 0 => format!("{at}:{node_port}/{protocol}"),
        _ => format!("{at}/{protocol}"),
    }
}

/// `getServiceExternalIP`
fn external(service: &Value) -> String {
    let spec = part(service, "spec");
    let own = items(spec, "externalIPs").iter().filter_map(Value::as_str).map(str::to_owned);
    match text(spec, "type") {
        "ClusterIP" | "NodePort" => {
            let own: Vec<String> = own.collect();
            if own.is_empty() { "<none>".to_owned() } else { own.join(",") }
        }
        "LoadBalancer" => {
            let balancer = Some(load_balancer(service)).filter(|text| !text.is_empty());
            let all: Vec<String> = balancer.into_iter().chain(own).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => text(spec, "externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// `loadBalancerStatusStringer`, which cuts nothing for a server's tables
fn load_balancer(service: &Value) -> String {
    let ingress = service.at(&["status", "loadBalancer"]).map(|balancer| items(balancer, "ingress"));
    let shown = ingress.unwrap_or_default().iter().map(|at| match text(at, "ip") {
        "" => text(at, "hostname"),
        ip => ip,
    });
    let shown: BTreeSet<&str> = shown.filter(|text| !text.is_empty()).collect();
    shown.into_iter().collect::<Vec<_>>().join(",")
}

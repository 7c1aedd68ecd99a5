//! The table of nodes (`printNode` of `pkg/printers/internalversion/printers.go`, 1.37).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_schema::columns::{TableColumn, age, name_column};

use crate::declared::Declared;
use crate::kinds::fields::{items, part, text};
use crate::kinds::keyed::entries;
use crate::kinds::table_column;

pub(super) fn columns(node: &Declared) -> Vec<TableColumn> {
    let column =
        |name: &str, priority, description: &str| table_column(name, "string", priority, description);
    let of_info = |field| node.text_of(&["status", "nodeInfo", field]);
    let addresses = node.text_of(&["status", "addresses"]);
    vec![
        name_column(),
        column("Status", 0, "The status of the node"),
        column("Roles", 0, "The roles of the node"),
        column("Age", 0, ""),
        column("Version", 0, of_info("kubeletVersion")),
        column("Internal-IP", 1, addresses),
        column("External-IP", 1, addresses),
        column("OS-Image", 1, of_info("osImage")),
        column("Kernel-Version", 1, of_info("kernelVersion")),
        column("Container-Runtime", 1, of_info("containerRuntimeVersion")),
    ]
}

fn status(node: &Value) -> String {
    let conditions = items(part(node, "status"), "conditions");
    // Of several of a type, the last counts.
    let ready = conditions.iter().rev().find(|condition| text(condition, "type") == "Ready");
    let mut status = match ready.map(|condition| text(condition, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.at(&["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(node: &Value) -> String {
    let role = |(key, value)| match str::strip_prefix(key, "node-role.kubernetes.io/") {
        Some(role) => Some(role),
        None => (key == "kubernetes.io/role").then_some(value),
    };
    let all: BTreeSet<&str> =
        entries(part(node, "metadata"), "labels").filter_map(role).filter(|role| !role.is_empty()).collect();
    if all.is_empty() { "<none>".to_owned() } else { all.into_iter().collect::<Vec<_>>().join(",") }
}

pub(super) fn cells(node: &Value, now: i64) -> Vec<Value> {
    let info = part(part(node, "status"), "nodeInfo");
    let address = |kind: &str| -> Value {
        let all = items(part(node, "status"), "addresses");
        let found = all.iter().find(|address| text(address, "type") == kind);
        found.map_or("<none>", |address| text(address, "address")).into()
    };
    let known = |field: &str| match text(info, field) {
        "" => "<unknown>".to_owned(),
        text => text.to_owned(),
    };
    let mut kernel = known("kernelVersion");
    let architecture = text(info, "architecture");
    if !architecture.is_empty() {
        kernel.push_str(&format!(" ({architecture})"));
    }
    vec![
        node.text_at(&["metadata", "name"]).into(),
        status(node).into(),
        roles(node).into(),
        age(node.text_at(&["metadata", "creationTimestamp"]), now).into(),
        text(info, "kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage").into(),
        kernel.into(),
        known("containerRuntimeVersion").into(),
    ]
}

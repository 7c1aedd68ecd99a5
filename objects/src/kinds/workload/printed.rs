//! The tables of workloads (`printDeployment`, `printReplicaSet`, `printStatefulSet`, `printDaemonSet` of
//! `pkg/printers/internalversion/printers.go`, 1.37).

use kindom_api::Value;
use kindom_api::selector::LabelSelector;
use kindom_schema::columns::{Cells, TableColumn, age, name_column};

use super::{Kind, template};
use crate::kinds::pod_spec::{container_cells, label_cell};
use crate::kinds::{label_selector, table_column};

const NAMES: &str = "Names of each container in the template.";
const IMAGES: &str = "Images referenced by each container in the template.";
const READY: &str = "Number of the pod with ready state";

pub(super) fn columns(kind: Kind) -> Vec<TableColumn> {
    let of = |path: &[&str]| kind.declared().text_of(path);
    let number = |name: &str, path: &[&str]| table_column(name, "integer", 0, of(path));
    let mut columns = vec![name_column()];
    match kind {
        Kind::Deployment => columns.extend([
            table_column("Ready", "string", 0, READY),
            table_column("Up-to-date", "string", 0, of(&["status", "updatedReplicas"])),
            table_column("Available", "string", 0, of(&["status", "availableReplicas"])),
        ]),
        Kind::ReplicaSet => columns.extend([
            number("Desired", &["spec", "replicas"]),
            number("Current", &["status", "replicas"]),
            number("Ready", &["status", "readyReplicas"]),
        ]),
        Kind::StatefulSet => columns.push(table_column("Ready", "string", 0, READY)),
        Kind::DaemonSet => columns.extend([
            number("Desired", &["status", "desiredNumberScheduled"]),
            number("Current", &["status", "currentNumberScheduled"]),
            number("Ready", &["status", "numberReady"]),
            number("Up-to-date", &["status", "updatedNumberScheduled"]),
            number("Available", &["status", "numberAvailable"]),
            table_column("Node Selector", "string", 0, of(&["spec", "template", "spec", "nodeSelector"])),
        ]),
    }
    columns.push(table_column("Age", "string", 0, ""));
    columns.extend([
        table_column("Containers", "string", 1, NAMES),
        table_column("Images", "string", 1, IMAGES),
    ]);
    if kind != Kind::StatefulSet {
        columns.push(table_column("Selector", "string", 1, of(&["spec", "selector"])));
    }
    columns
}

pub(super) fn cells(kind: Kind) -> Cells {
    match kind {
        Kind::Deployment => |object, now| row(Kind::Deployment, object, now),
        Kind::ReplicaSet => |object, now| row(Kind::ReplicaSet, object, now),
        Kind::StatefulSet => |object, now| row(Kind::StatefulSet, object, now),
        Kind::DaemonSet => |object, now| row(Kind::DaemonSet, object, now),
    }
}

fn row(kind: Kind, object: &Value, now: i64) -> Vec<Value> {
    let number = |path: &[&str]| object.at(path).and_then(Value::as_i64).unwrap_or_default();
    let status = |field: &str| Value::Int(number(&["status", field]));
    let ready =
        || Value::from(format!("{}/{}", number(&["status", "readyReplicas"]), number(&["spec", "replicas"])));
    let mut cells = vec![Value::from(object.text_at(&["metadata", "name"]))];
    match kind {
        Kind::Deployment => cells.extend([ready(), status("updatedReplicas"), status("availableReplicas")]),
        Kind::ReplicaSet => {
            cells.extend([
                Value::Int(number(&["spec", "replicas"])),
                status("replicas"),
                status("readyReplicas"),
            ]);
        }
        Kind::StatefulSet => cells.push(ready()),
        Kind::DaemonSet => {
            cells.extend(
                [
                    "desiredNumberScheduled",
                    "currentNumberScheduled",
                    "numberReady",
                    "updatedNumberScheduled",
                    "numberAvailable",
                ]
                .map(status),
            );
            cells.push(label_cell(object.at(&["spec", "template", "spec", "nodeSelector"])).into());
        }
    }
    cells.push(age(object.text_at(&["metadata", "creationTimestamp"]), now).into());
    cells.extend(container_cells(template(object)).map(Value::from));
    if kind != Kind::StatefulSet {
        cells.push(selector(kind, object).into());
    }
    cells
}

fn selector(kind: Kind, object: &Value) -> String {
    let selector = object.at(&["spec", "selector"]);
    if kind != Kind::Deployment {
        return label_selector::cell(selector);
    }
    match selector.map(LabelSelector::of_object) {
        Some(Err(_)) => "<invalid>".to_owned(),
        Some(Ok(selector)) if !selector.is_empty() => selector.to_string(),
        _ => String::new(),
    }
}

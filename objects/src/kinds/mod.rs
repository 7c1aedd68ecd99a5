//! The kinds that there are: registered ones, registrations themselves, namespaces, and the other built-in kinds.

use kindom_api::crd::ColumnDefinition;
use kindom_api::field::{ErrorList, Path};
use kindom_api::meta::validate_object_meta_update;
use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value};
use kindom_schema::columns::{Printed, TableColumn};

use crate::TypeSpec;
use service::ServiceNetwork;

mod access_review;
mod admission_match;
mod admission_policy;
pub mod api_service;
mod autoscaler;
mod batch;
mod config_map;
mod controller_revision;
mod custom;
mod device;
mod difference;
pub mod disruption_budget;
mod endpoint_slice;
mod endpoints;
pub mod event;
pub(crate) mod fields;
pub mod flow_control;
mod generation;
mod ingress;
mod ingress_class;
mod int_or_percent;
mod ip;
mod ip_address;
mod keyed;
mod label_selector;
mod lease;
mod limit_range;
pub mod namespace;
mod network;
mod network_policy;
mod node;
mod node_labels;
mod persistent_volume;
mod persistent_volume_claim;
pub mod pod;
mod pod_spec;
mod pod_template;
pub mod priority_class;
mod rbac;
pub mod registration;
mod replication_controller;
pub mod resource_quota;
mod resources;
mod rules_review;
mod runtime_class;
mod secret;
mod self_subject_review;
pub mod service;
mod service_account;
mod service_cidr;
mod signing_request;
mod status;
mod storage;
pub mod token_request;
mod token_review;
pub mod typed;
mod user_info;
mod webhook_configuration;
mod workload;

pub use custom::CustomObjects;
pub use fields::domain_prefixed_path;
pub use ip::refuse_endpoint;

/// The built-in kinds that a server serves beside its registrations. Each profile holds the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Namespaces alone.
    Minimal,
    /// The kinds with which controllers lead, report, keep their configuration and are found.
    ControlPlane,
    /// All others of Kubernetes, as data: there is no kubelet, no scheduler and no controller of workloads.
    Kubernetes,
}

/// The built-in kinds of a profile, beside registrations and namespaces; services get their addresses from `network`.
#[must_use]
pub fn built_in(profile: Profile, network: &ServiceNetwork) -> Vec<TypeSpec> {
    let mut types = Vec::new();
    if profile >= Profile::ControlPlane {
        types.extend(control_plane(network));
    }
    if profile >= Profile::Kubernetes {
        types.extend(kubernetes());
    }
    types
}

fn control_plane(network: &ServiceNetwork) -> Vec<TypeSpec> {
    let [local, own, of_anybody] = access_review::access_reviews();
    let mut types = vec![
        event::events(),
        lease::leases(),
        limit_range::limit_ranges(),
        resource_quota::resource_quotas(),
        self_subject_review::self_subject_reviews(),
        config_map::config_maps(),
        endpoint_slice::endpoint_slices(),
        endpoints::endpoints(),
        secret::secrets(),
        service::services(network),
        service_account::service_accounts(),
        signing_request::signing_requests(),
        token_review::token_reviews(),
        rules_review::rules_reviews(),
        local,
        own,
        of_anybody,
        api_service::api_services(),
    ];
    types.extend(rbac::rbac());
    types.extend(flow_control::flow_control());
    types.extend(webhook_configuration::webhook_configurations());
    types.extend(admission_policy::admission_policies());
    types
}

fn kubernetes() -> Vec<TypeSpec> {
    let mut types = vec![
        ip_address::ip_addresses(),
        priority_class::priority_classes(),
        ingress::ingresses(),
        ingress_class::ingress_classes(),
        network_policy::network_policies(),
        disruption_budget::disruption_budgets(),
        autoscaler::autoscalers(),
        controller_revision::controller_revisions(),
        service_cidr::service_cidrs(),
        runtime_class::runtime_classes(),
        pod::bindings(),
        node::nodes(),
        persistent_volume::persistent_volumes(),
        persistent_volume_claim::persistent_volume_claims(),
        pod::pods(),
        pod_template::pod_templates(),
        replication_controller::replication_controllers(),
    ];
    types.extend(workload::workloads());
    types.extend(batch::batch());
    types.extend(storage::storage());
    types.extend(device::devices());
    types
}

/// The errors in the change of an object's metadata (`ValidateObjectMetaUpdate`).
fn metadata_update(object: &Value, old: &Value) -> ErrorList {
    let null = Value::Null;
    let [new, old] = [object, old].map(|object| object.get("metadata").unwrap_or(&null));
    validate_object_meta_update(new, old, &Path::new("metadata"))
}

/// Rounds the quantities of resources to thousandths (`SetDefaults_ResourceList` of `pkg/apis/core/v1/defaults.go`).
fn round_up(resources: Option<&mut Value>) {
    for (_, value) in resources.and_then(Value::as_object_mut).into_iter().flat_map(Map::iter_mut) {
        if let Some(Ok(rounded)) = value.as_str().map(Quantity::canonical_to_milli) {
            *value = rounded.into();
        }
    }
}

/// The column with which the tables of built-in kinds end.
const AGE: (&str, &str, &str, Printed) = ("Age", "", ".metadata.creationTimestamp", Printed::Age);

const CREATED: &str =
    "CreationTimestamp is a timestamp representing the server time when this object was created.";

/// The column that most tables end with.
fn age() -> ColumnDefinition {
    column("Age", "date", CREATED, ".metadata.creationTimestamp")
}

fn column(name: &str, kind: &str, description: &str, json_path: &str) -> ColumnDefinition {
    ColumnDefinition {
        name: name.into(),
        kind: kind.into(),
        format: String::new(),
        description: description.into(),
        priority: 0,
        json_path: json_path.into(),
    }
}

/// A column of a table whose rows have a rule of their own.
fn table_column(name: &str, kind: &str, priority: i32, description: &str) -> TableColumn {
    TableColumn {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: String::new(),
        description: description.to_owned(),
        priority,
    }
}

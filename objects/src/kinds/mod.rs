//! The kinds that there are: registered ones, registrations themselves, namespaces, and the other built-in kinds.

use kindom_api::crd::ColumnDefinition;
use kindom_api::{Map, Value};
use kindom_schema::columns::Printed;

use crate::TypeSpec;

mod access_review;
pub mod api_service;
mod config_map;
mod custom;
mod lease;
pub mod namespace;
mod rbac;
pub mod registration;
mod secret;
mod self_subject_review;
mod service_account;
mod token_review;
mod user_info;

pub use custom::CustomObjects;

/// The built-in kinds beside registrations and namespaces.
#[must_use]
pub fn built_in() -> Vec<TypeSpec> {
    let [local, own, of_anybody] = access_review::access_reviews();
    let mut types = vec![
        lease::leases(),
        self_subject_review::self_subject_reviews(),
        config_map::config_maps(),
        secret::secrets(),
        service_account::service_accounts(),
        token_review::token_reviews(),
        local,
        own,
        of_anybody,
        api_service::api_services(),
    ];
    types.extend(rbac::rbac());
    types
}

/// Makes the nil values of a map of bytes empty ones, as which they come back from Kubernetes' store.
fn fill_bytes(object: &mut Value, field: &str) {
    let map = object.get_mut(field).and_then(Value::as_object_mut);
    for (_, value) in map.into_iter().flat_map(Map::iter_mut) {
        if value.is_null() {
            *value = "".into();
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

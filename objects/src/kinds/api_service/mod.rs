//! APIService, `apiregistration.k8s.io/v1`: the server that a group's version is served by.
//!
//! Sources: kube-aggregator `pkg/registry/apiservice/strategy.go`, `pkg/registry/apiservice/etcd/etcd.go`,
//! `pkg/apis/apiregistration/validation`, `pkg/apis/apiregistration/v1/defaults.go` (0.37).

use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::{Map, Value, object};
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::AGE;
use crate::kinds::status::keep;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod rules;

static API_SERVICE: Declared = Declared::catalogued("apiregistration.k8s.io/v1", "APIService");

/// The API group.
pub const GROUP: &str = "apiregistration.k8s.io";
/// The plural.
pub const PLURAL: &str = "apiservices";
/// The type of the only condition.
pub const AVAILABLE: &str = "Available";
/// The message of that condition of a group-version that this server serves itself.
pub const ALWAYS_AVAILABLE: &str = "Local APIServices are always available";
/// The port of a service, unless its reference names one.
const PORT: i64 = 443;

/// APIServices as a built-in type.
pub(super) fn api_services() -> TypeSpec {
    let service = (
        "Service",
        "The reference to the service that hosts this API endpoint.",
        ".spec.service",
        Printed::Computed(service),
    );
    let available = (
        "Available",
        "Whether this service is available.",
        ".status.conditions",
        Printed::Computed(available),
    );
    let columns = Columns::printed(&[service, available, AGE]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names { categories: vec!["api-extensions".into()], ..Names::of_kind(PLURAL, "APIService") };
    TypeSpec::built_in(GROUP, names, Scope::Cluster, versions, Arc::new(ApiServices))
}

/// `true` if another server serves the group's version.
#[must_use]
pub fn is_remote(object: &Value) -> bool {
    object.at(&["spec", "service"]).is_some_and(|service| !service.is_null())
}

fn service(object: &Value) -> Value {
    match is_remote(object) {
        false => "Local".into(),
        true => {
            let part = |field| object.text_at(&["spec", "service", field]);
            format!("{}/{}", part("namespace"), part("name")).into()
        }
    }
}

fn available(object: &Value) -> Value {
    let Some(condition) = condition(object) else { return "Unknown".into() };
    match (condition.text_at(&["status"]), condition.text_at(&["reason"])) {
        ("True", _) => "True".into(),
        (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})").into(),
    }
}

/// The condition Available of an APIService, if it has one.
#[must_use]
pub fn condition(object: &Value) -> Option<&Value> {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    conditions.iter().find(|condition| condition.text_at(&["type"]) == AVAILABLE)
}

/// Sets the condition Available (`SetAPIServiceCondition`); false if it was so already.
pub fn set_condition(object: &mut Value, status: &str, reason: &str, message: &str, now: &str) -> bool {
    let old = condition(object).cloned();
    let of_old = |field| old.as_ref().map(|old| old.text_at(&[field]));
    let keeps_status = of_old("status") == Some(status);
    if keeps_status && of_old("reason") == Some(reason) && of_old("message") == Some(message) {
        return false;
    }
    let since = of_old("lastTransitionTime").filter(|_| keeps_status).unwrap_or(now).to_owned();
    let mut new = Map::new();
    for (field, value) in [
        ("type", AVAILABLE),
        ("status", status),
        ("lastTransitionTime", since.as_str()),
        ("reason", reason),
        ("message", message),
    ] {
        new.insert(field, value);
    }
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    let others = conditions.iter().filter(|condition| condition.text_at(&["type"]) != AVAILABLE).cloned();
    let all: Vec<Value> = others.chain([Value::Object(new)]).collect();
    if let Some(object) = object.as_object_mut() {
        object.insert("status", object! { "conditions": all });
    }
    true
}

/// Marks an APIService as one of this server, which is always available (`NewLocalAvailableAPIServiceCondition`).
pub fn set_local(object: &mut Value, now: &str) -> bool {
    set_condition(object, "True", "Local", ALWAYS_AVAILABLE, now)
}

/// The rules of APIServices.
struct ApiServices;

/// Takes a field of the metadata from the stored object.
const KEPT_BY_STATUS: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

impl Strategy for ApiServices {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&API_SERVICE)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["apiregistration.k8s.io/v1beta1"]
    }

    fn fill_defaults(&self, object: &mut Value) {
        let service = object.get_mut("spec").and_then(|spec| spec.get_mut("service"));
        if let Some(service) = service.and_then(Value::as_object_mut)
            && service.get("port").is_none_or(Value::is_null)
        {
            service.insert("port", Value::Int(PORT));
        }
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        match cx.subresource {
            Some(Subresource::Status) => &["spec", "metadata"],
            _ => &["status"],
        }
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value) {
        let is_remote = is_remote(object);
        if let Some(object) = object.as_object_mut() {
            object.insert("status", Value::Object(Map::new()));
        }
        if !is_remote {
            set_local(object, cx.now);
        }
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        rules::validate(object)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        if cx.subresource != Some(Subresource::Status) {
            return keep(object, old, "status");
        }
        keep(object, old, "spec");
        let none = Value::Object(Map::new());
        let old = old.get("metadata").unwrap_or(&none);
        if let Some(metadata) = object.get_mut("metadata") {
            KEPT_BY_STATUS.iter().for_each(|field| keep(metadata, old, field));
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        rules::validate_update(object, old, cx.subresource == Some(Subresource::Status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote() -> Value {
        let service = object! { "namespace": "default", "name": "api" };
        let mut object = object! {
            "metadata": object! { "name": "v1.example.com" },
            "spec": object! {
                "group": "example.com",
                "version": "v1",
                "groupPriorityMinimum": Value::Int(1000),
                "versionPriority": Value::Int(100),
                "service": service,
            },
        };
        ApiServices.fill_defaults(&mut object);
        object
    }

    #[test]
    fn a_table_tells_local_and_remote_ones_apart() {
        let mut object = remote();
        assert_eq!((service(&object), available(&object)), ("default/api".into(), "Unknown".into()));
        assert!(set_condition(&mut object, "False", "FailedDiscoveryCheck", "why", "2026-01-01T00:00:00Z"));
        assert_eq!(available(&object), "False (FailedDiscoveryCheck)".into());
        assert_eq!(service(&object! { "spec": Map::new() }), "Local".into());
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_status() {
        let mut object = remote();
        let (first, later) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        assert!(set_condition(&mut object, "False", "A", "a", first));
        assert!(!set_condition(&mut object, "False", "A", "a", later));
        assert!(set_condition(&mut object, "False", "B", "b", later));
        assert_eq!(condition(&object).unwrap().text_at(&["lastTransitionTime"]), first);
        assert!(set_condition(&mut object, "True", "Passed", "all checks passed", later));
        assert_eq!(condition(&object).unwrap().text_at(&["lastTransitionTime"]), later);
        assert_eq!(
            object.at(&["status", "conditions"]).and_then(Value::as_array).map(<[Value]>::len),
            Some(1)
        );
    }

    #[test]
    fn a_service_has_a_port() {
        assert_eq!(remote().at(&["spec", "service", "port"]), Some(&Value::Int(443)));
    }
}

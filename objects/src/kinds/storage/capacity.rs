//! CSIStorageCapacity (`pkg/registry/storage/csistoragecapacity/strategy.go`, 1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;
use kindom_api::quantity::Quantity;
use kindom_schema::columns::{Columns, Printed};

use super::{API_VERSION, of};
use crate::declared::Declared;
use crate::kinds::fields::{part, present, same, text, texts};
use crate::kinds::{label_selector, metadata_update, node_labels};
use crate::{Names, RuleContext, Scope, Strategy, TypeSpec};

static CAPACITY: Declared = Declared::catalogued(API_VERSION, "CSIStorageCapacity");
const IMMUTABLE: &str = "field is immutable";

pub(super) fn capacities() -> TypeSpec {
    // Upstream's registry has no columns of its own for it.
    let columns = Columns::printed(&[("Created At", "", ".metadata.creationTimestamp", Printed::Date)]);
    let names = Names::of_kind("csistoragecapacities", "CSIStorageCapacity");
    of(names, Scope::Namespaced, columns, Arc::new(Capacities))
}

/// The rules of CSIStorageCapacities.
struct Capacities;

impl Strategy for Capacities {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&CAPACITY)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["storage.k8s.io/v1alpha1", "storage.k8s.io/v1beta1"]
    }

    fn validate(&self, _: &RuleContext<'_>, capacity: &Value) -> ErrorList {
        validate(capacity)
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        capacity: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = validate(capacity);
        errors.append(&mut metadata_update(capacity, old));
        if !same(capacity.get("nodeTopology"), old.get("nodeTopology")) {
            let shown = present(capacity, "nodeTopology");
            let shown = shown.map_or_else(|| "null".to_owned(), label_selector::printed);
            errors.push(Error::invalid_raw(&Path::new("nodeTopology"), shown, IMMUTABLE));
        }
        let [new, before] = [capacity, old].map(|of| text(of, "storageClassName"));
        if new != before {
            errors.push(Error::invalid(&Path::new("storageClassName"), new, IMMUTABLE));
        }
        errors
    }

    fn warnings(&self, _: &RuleContext<'_>, capacity: &Value, _: Option<&Value>) -> Vec<String> {
        node_labels::warnings(part(capacity, "nodeTopology"), &Path::new("nodeTopology"))
    }
}

/// `ValidateCSIStorageCapacity`
fn validate(capacity: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(capacity, "metadata"), true, &name_is_dns_subdomain, &at);
    label_selector::validate(part(capacity, "nodeTopology"), &Path::new("nodeTopology"), &mut errors);
    let class = text(capacity, "storageClassName");
    texts(name_is_dns_subdomain(class, false), class, &Path::new("storageClassName"), &mut errors);
    if let Some(amount) = present(capacity, "capacity").and_then(Value::as_str)
        && Quantity::parse(amount).is_ok_and(|quantity| quantity.sign() < 0)
    {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(&Path::new("capacity"), amount, detail));
    }
    errors
}

//! The resources that a claim uses of quotas (`pkg/quota/v1/evaluator/core/persistent_volume_claims.go`, 1.37).

use kindom_api::Value;
use kindom_api::quantity::Quantity;

use super::{PersistentVolumeClaims, class};
use crate::kinds::resource_quota::measure::{QuotaMeasure, QuotaScope, Usage};
use crate::kinds::resource_quota::usage::OF_CLASS;

const STORAGE: &str = "requests.storage";
const CLAIMS: &str = "persistentvolumeclaims";

impl QuotaMeasure for PersistentVolumeClaims {
    fn usage(&self, claim: &Value, _: &str) -> Usage {
        let mut usage = Usage::new();
        let class = Some(class(claim)).filter(|class| !class.is_empty());
        let mut uses = |resource: &str, amount: Quantity| {
            if let Some(class) = class {
                usage.insert(format!("{class}{OF_CLASS}{resource}"), amount.clone());
            }
            if resource == STORAGE {
                usage.insert(resource.to_owned(), amount);
            }
        };
        uses(CLAIMS, Quantity::of_count(1));
        if let Some(storage) = storage(claim) {
            uses(STORAGE, storage);
        }
        usage
    }

    fn gives_back(&self, _: &Value) -> bool {
        true
    }

    /// `pvcMatchesScopeFunc`
    fn is_in(&self, claim: &Value, scope: &QuotaScope<'_>) -> bool {
        let names = [
            &["spec", "volumeAttributesClassName"][..],
            &["status", "currentVolumeAttributesClassName"],
            &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
        ];
        let mut names =
            names.map(|at| claim.text_at(at)).into_iter().filter(|name| !name.is_empty()).peekable();
        scope.name == "VolumeAttributesClass"
            && match names.peek() {
                None => scope.takes(None),
                Some(_) => names.any(|name| scope.takes(Some(name))),
            }
    }
}

/// The bytes that are requested, or were allocated if that is more.
fn storage(claim: &Value) -> Option<Quantity> {
    let amount = |at: &[&str]| Quantity::parse(claim.at(at)?.as_str()?).ok();
    let requested = amount(&["spec", "resources", "requests", "storage"])?.whole();
    let allocated = amount(&["status", "allocatedResources", "storage"]);
    Some(match allocated {
        Some(allocated) if allocated.compare(&requested).is_gt() => allocated.whole(),
        _ => requested,
    })
}

#[cfg(test)]
mod tests {
    use kindom_api::json;

    use super::*;

    #[test]
    fn storage_counts_for_its_class_too() {
        let used = |spec: &str, status: &str| {
            let claim = format!(r#"{{"spec":{{{spec}}},"status":{{{status}}}}}"#);
            let usage = PersistentVolumeClaims.usage(&json::parse(claim.as_bytes()).unwrap(), "");
            usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>()
        };
        let gold = r#""storageClassName":"gold","resources":{"requests":{"storage":"1.5"}}"#;
        let own = ["gold.storageclass.storage.k8s.io/persistentvolumeclaims=1"];
        let of = |amount: &str| {
            let storage = ["gold.storageclass.storage.k8s.io/requests.storage", "requests.storage"];
            own.map(str::to_owned)
                .into_iter()
                .chain(storage.map(|name| format!("{name}={amount}")))
                .collect::<Vec<_>>()
        };
        assert_eq!(used(gold, ""), of("2"));
        assert_eq!(used(gold, r#""allocatedResources":{"storage":"1Gi"}"#), of("1Gi"));
        assert_eq!(used("", ""), [""; 0]);
    }
}

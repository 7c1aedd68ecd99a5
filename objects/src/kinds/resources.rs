//! Names and amounts of resources (`pkg/apis/core/helper/helpers.go`, `pkg/apis/core/validation/validation.go`, 1.37).

use std::collections::BTreeMap;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::is_qualified_name;
use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value};

/// `standardResources`
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
/// `integerResources`
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const REQUESTS: &str = "requests.";
/// The start of the names of huge pages, each size of which is a resource.
pub(super) const HUGE_PAGES: &str = "hugepages-";

const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// The error text of a name without a prefix that is no standard resource.
pub(super) const NOT_STANDARD: &str = "must be a standard resource type or fully qualified";

/// Amounts by the names of their resources.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// The amounts of a map of them; what cannot be read is left out.
pub(super) fn amounts(of: &Value) -> Amounts {
    let named = of.as_object().into_iter().flat_map(Map::iter);
    let parsed =
        named.filter_map(|(name, amount)| Some((name.to_owned(), Quantity::parse(amount.as_str()?).ok()?)));
    parsed.collect()
}

/// `true` for pages of memory larger than usual.
pub(super) fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// `true` for a resource that Kubernetes knows, also of quotas.
pub(super) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_page_of_quota(name)
}

/// `true` for a resource of Kubernetes' own, known or not (`IsNativeResource`).
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// The reason why a container cannot ask for a resource of this name.
pub(super) fn refused_for_containers(name: &str) -> Option<&'static str> {
    if !name.contains('/') {
        let is_known = OF_CONTAINERS.contains(&name) || is_huge_pages(name);
        return (!is_known).then_some("must be a standard resource for containers");
    }
    let is_right = is_native(name) || is_extended(name);
    (!is_right).then_some("doesn't follow extended resource name standard")
}

fn is_huge_page_of_quota(name: &str) -> bool {
    name.strip_prefix(REQUESTS).unwrap_or(name).starts_with(HUGE_PAGES)
}

/// `IsStandardQuotaResourceName`
pub(super) fn is_standard_of_quota(name: &str) -> bool {
    name != "storage" && STANDARD.contains(&name) || is_huge_page_of_quota(name)
}

/// `IsExtendedResourceName`
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS)
        && is_qualified_name(&format!("{REQUESTS}{name}")).is_empty()
}

/// `validateResourceName`
pub(super) fn validate_name(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let wrong = is_qualified_name(name);
    if wrong.is_empty() && !name.contains('/') && !is_standard(name) {
        errors.push(Error::invalid(at, name, NOT_STANDARD));
    }
    errors.extend(wrong.into_iter().map(|why| Error::invalid(at, name, why)));
}

/// `ValidateResourceQuantityValue`
pub(super) fn validate_amount(name: &str, amount: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let text = amount.as_str().unwrap_or_default();
    let Ok(quantity) = Quantity::parse(text) else { return };
    if quantity.sign() < 0 {
        errors.push(Error::invalid(at, text, "must be greater than or equal to 0"));
    }
    let is_counted = COUNTED.contains(&name) || is_extended(name);
    if is_counted && quantity.as_f64().fract() != 0.0 {
        errors.push(Error::invalid(at, text, "must be an integer"));
    }
}

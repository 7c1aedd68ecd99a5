//! The rules of claims of devices, and of the resources of a pod as a whole (`validatePodResourceClaims`,
//! `validateResourceClaimNames`, `validatePodResources`, 1.37).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, name_is_dns_subdomain};
use kindom_api::quantity::Quantity;
use kindom_api::{Map, Value};

use super::containers::{self, Owner};
use crate::kinds::fields::{items, part, present, text, texts};
use crate::kinds::resources::is_huge_pages;

/// The names of a spec's claims.
pub(super) fn names(spec: &Value) -> BTreeSet<&str> {
    items(spec, "resourceClaims")
        .iter()
        .map(|claim| text(claim, "name"))
        .filter(|name| !name.is_empty())
        .collect()
}

/// The errors in the claims of a spec.
pub(super) fn validate(spec: &Value, is_mirror: bool, all: &Path<'_>, errors: &mut ErrorList) {
    let mut names = BTreeSet::new();
    for (index, claim) in items(spec, "resourceClaims").iter().enumerate() {
        if is_mirror {
            errors.push(Error::forbidden(&Path::new(""), "static pods do not support resource claims"));
            continue;
        }
        let (at, name) = (all.index(index), text(claim, "name"));
        let name_at = at.child("name");
        if name.is_empty() {
            errors.push(Error::required(&name_at, ""));
        } else if !names.insert(name) {
            errors.push(Error::duplicate(&name_at, name));
        } else {
            texts(is_dns1123_label(name), name, &name_at, errors);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"]
            .map(|field| (field, present(claim, field).and_then(Value::as_str)));
        let detail = match sources {
            [(_, Some(_)), (_, Some(_))] => {
                Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
            }
            [(_, None), (_, None)] => {
                Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
            }
            _ => None,
        };
        if let Some(detail) = detail {
            let value = |field| claim.get(field).unwrap_or(&Value::Null);
            let printed = format!(
                "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
                Value::from(name),
                value("resourceClaimName"),
                value("resourceClaimTemplateName")
            );
            errors.push(Error::invalid_raw(&at, printed, detail));
        }
        for (field, name) in sources.into_iter().filter_map(|(field, name)| Some((field, name?))) {
            texts(name_is_dns_subdomain(name, false), name, &at.child(field), errors);
        }
    }
}

/// The errors in the claims that resources name.
pub(super) fn validate_names(
    resources: &Value,
    known: &BTreeSet<&str>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let all = at.child("claims");
    let (mut seen, mut requested) = (BTreeSet::<String>::new(), BTreeMap::<&str, usize>::new());
    for (index, claim) in items(resources, "claims").iter().enumerate() {
        let (at, name, request) = (all.index(index), text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        if seen.contains(name) {
            errors.push(Error::duplicate(&at, name));
        } else {
            let mut key = name.to_owned();
            if request.is_empty() {
                for _ in 0..requested.get(name).copied().unwrap_or_default() {
                    errors.push(Error::duplicate(&at, name));
                }
            } else {
                texts(is_dns1123_label(request), request, &at.child("request"), errors);
                key.push('/');
                key.push_str(request);
                if seen.contains(&key) {
                    errors.push(Error::duplicate(&at, key.as_str()));
                } else {
                    *requested.entry(name).or_default() += 1;
                }
            }
            seen.insert(key);
        }
        // The error lists all claims: there is not room for many.
        if !known.contains(name) && !errors.is_full() {
            let list = known.iter().copied().collect::<Vec<_>>().join(", ");
            let which = if list.is_empty() { " which is empty".to_owned() } else { format!(": {list}") };
            let mut error = Error::not_found(&at, name);
            error.detail = format!("must be one of the names in pod.spec.resourceClaims{which}");
            errors.push(error);
        }
    }
}

/// The errors in the resources of a pod as a whole.
pub(super) fn validate_whole(spec: &Value, known: &BTreeSet<&str>, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(resources) = present(spec, "resources") else { return };
    let at = at.child("resources");
    if spec.text_at(&["os", "name"]) == "windows" {
        return errors.push(Error::forbidden(&at, "may not be set for a windows pod"));
    }
    if present(resources, "claims").is_some() {
        errors
            .push(Error::forbidden(&at.child("claims"), "claims may not be set for Resources at pod-level"));
    }
    containers::validate_resources(resources, Owner::Pod, known, &at, errors);
    let requests_at = at.child("requests");
    let amount = |field: &str, name: &str| {
        let text = resources.at(&[field, name]).and_then(Value::as_str)?;
        Some((text, Quantity::parse(text).ok()?))
    };
    for (name, needed) in aggregate(spec, "requests") {
        let Some((text, own)) = amount("requests", &name) else { continue };
        if needed.compare(&own) == Ordering::Greater {
            let detail = format!("must be greater than or equal to aggregate container requests of {needed}");
            errors.push(Error::invalid(&requests_at.key(&name), text, detail));
        }
    }
    let limits_at = at.child("limits");
    for (name, needed) in aggregate(spec, "limits").into_iter().filter(|(name, _)| is_huge_pages(name)) {
        let Some((text, own)) = amount("limits", &name) else { continue };
        if needed.compare(&own) == Ordering::Greater {
            let detail = format!("must be greater than or equal to aggregate container limits of {needed}");
            errors.push(Error::invalid(&limits_at.key(&name), text, detail));
        }
    }
    let all = at.child("containers");
    for (index, container) in items(spec, "containers").iter().enumerate() {
        let at = all.index(index);
        let limits = part(container, "resources").get("limits").and_then(Value::as_object);
        for (name, value) in limits.into_iter().flat_map(Map::iter) {
            let text = value.as_str().unwrap_or_default();
            let (Ok(own), Some((most_text, most))) = (Quantity::parse(text), amount("limits", name)) else {
                continue;
            };
            if own.compare(&most) == Ordering::Greater {
                let at = at.key(name);
                let detail = format!("must be less than or equal to pod limits of {most_text}");
                errors.push(Error::invalid(&at.child("limits"), text, detail));
            }
        }
    }
}

/// Amounts by the name of the resource.
pub(in crate::kinds) type Amounts = BTreeMap<String, Quantity>;

/// The amounts of a field of resources.
pub(in crate::kinds) fn amounts(resources: &Value, field: &str) -> Amounts {
    let all = resources.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter);
    all.filter_map(|(name, value)| Some((name.to_owned(), Quantity::parse(value.as_str()?).ok()?))).collect()
}

fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.get(name).and_then(|before| before.add(amount));
        to.insert(name.clone(), sum.unwrap_or_else(|| amount.clone()));
    }
}

fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if to.get(name).is_none_or(|before| before.compare(amount) == Ordering::Less) {
            to.insert(name.clone(), amount.clone());
        }
    }
}

/// The resources that all containers have together: those that run at the same time are added, and an init container that
/// ends may need more than they do (`AggregateContainerRequests`, `AggregateContainerLimits`).
pub(in crate::kinds) fn aggregate(spec: &Value, field: &str) -> Amounts {
    let mut all = Amounts::new();
    for container in items(spec, "containers") {
        add(&mut all, &amounts(part(container, "resources"), field));
    }
    let (mut sidecars, mut initializing) = (Amounts::new(), Amounts::new());
    for container in items(spec, "initContainers") {
        let own = amounts(part(container, "resources"), field);
        if text(container, "restartPolicy") == "Always" {
            add(&mut all, &own);
            add(&mut sidecars, &own);
            raise(&mut initializing, &sidecars);
        } else {
            let mut together = own;
            add(&mut together, &sidecars);
            raise(&mut initializing, &together);
        }
    }
    raise(&mut all, &initializing);
    all
}

//! The limits of a namespace in its pods: the defaults of LimitRanges, and their bounds (`LimitRanger`, `PodMutateLimitFunc`,
//! `PodValidateLimitFunc`, `plugin/pkg/admission/limitranger/admission.go`, 1.37).

use std::collections::BTreeSet;

use kindom_api::{Map, Value};

use super::spec;
use super::usage::by_spec;
use crate::kinds::fields::{items, items_mut, part, text};
use crate::kinds::limit_range::bounds::{Bounded, LimitBounds, refuse_any};
use crate::kinds::limit_range::{limits, quantities};
use crate::kinds::resources::amounts;
use crate::metadata::metadata_mut;
use crate::plugins::{OtherKind, Others, Plugin};
use crate::{RuleContext, Subresource};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The amounts of containers that one write sets or compares; a pod of fifty containers under a hundred amounts has 5,000.
const AMOUNTS_MAX: usize = 20_000;

/// True for a create and a resize (`SupportsAttributes`), but of a pod that goes.
pub(super) fn concern(cx: &RuleContext<'_>, old: Option<&Value>) -> bool {
    cx.others.has(Plugin::LimitRanger)
        && match old {
            None => cx.subresource.is_none(),
            Some(old) => {
                cx.subresource == Some(Subresource::Resize)
                    && old.at(&["metadata", "deletionTimestamp"]).is_none_or(Value::is_null)
            }
        }
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    items(spec(pod), "containers").iter().chain(items(spec(pod), "initContainers"))
}

/// # Errors
/// The ranges have more amounts for the pod's containers than a write should take time for.
fn refuse_many(others: &Others, pod: &Value) -> Result<(), String> {
    let of_limit = |limit: &Value| {
        let fields = ["default", "defaultRequest", "max", "maxLimitRequestRatio", "min"];
        1 + fields.iter().map(|field| quantities(limit, field).count()).sum::<usize>()
    };
    let of_range = |range| 1 + limits(range).iter().map(of_limit).sum::<usize>();
    let amounts: usize = others.all(OtherKind::LimitRange).map(of_range).sum();
    let containers = containers(pod).count();
    match containers.saturating_mul(amounts) > AMOUNTS_MAX {
        true => Err(format!("the LimitRanges have too many amounts for each of its {containers} containers")),
        false => Ok(()),
    }
}

/// Gives containers that ask for nothing what the ranges have for them.
///
/// # Errors
/// That is too much.
pub(super) fn supplement(others: &Others, pod: &mut Value) -> Result<(), String> {
    refuse_many(others, pod)?;
    for range in others.all(OtherKind::LimitRange) {
        let (mut requests, mut most) = (Map::new(), Map::new());
        for limit in limits(range).iter().filter(|limit| text(limit, "type") == "Container") {
            let of = |field, to: &mut Map| {
                quantities(limit, field).for_each(|(name, amount)| drop(to.insert(name.to_owned(), amount)));
            };
            of("defaultRequest", &mut requests);
            of("default", &mut most);
        }
        let Some(spec) = pod.get_mut("spec") else { return Ok(()) };
        let mut given = Vec::new();
        for (field, kind) in [("containers", "container"), ("initContainers", "init container")] {
            for container in items_mut(spec, field) {
                let name = text(container, "name").to_owned();
                for (field, defaults, what) in
                    [("requests", &requests, "request"), ("limits", &most, "limit")]
                {
                    let set = fill(container, field, defaults);
                    if !set.is_empty() {
                        let set = Vec::from_iter(set).join(", ");
                        given.push(format!("{set} {what} for {kind} {name}"));
                    }
                }
            }
        }
        if !given.is_empty() {
            let text = format!("LimitRanger plugin set: {}", given.join("; "));
            let metadata = metadata_mut(pod);
            if metadata.get("annotations").is_none_or(Value::is_null) {
                metadata.insert("annotations", Map::new());
            }
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.insert(ANNOTATION, text);
            }
        }
    }
    Ok(())
}

/// Adds to a container's amounts those that it lacks; returns their names.
fn fill<'d>(container: &mut Value, field: &str, defaults: &'d Map) -> BTreeSet<&'d str> {
    let own = part(part(container, "resources"), field);
    let missing: BTreeSet<&str> =
        defaults.keys().map(AsRef::as_ref).filter(|name| own.get(name).is_none()).collect();
    if missing.is_empty() {
        return missing;
    }
    let mut all = own.as_object().cloned().unwrap_or_default();
    for name in &missing {
        if let Some(amount) = defaults.get(name) {
            all.insert((*name).to_owned(), amount.clone());
        }
    }
    let Some(container) = container.as_object_mut() else { return BTreeSet::new() };
    if container.get("resources").is_none_or(Value::is_null) {
        container.insert("resources", Map::new());
    }
    if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) {
        resources.insert(field, all);
    }
    missing
}

/// # Errors
/// All violations of the first range that is violated; or there are too many amounts.
pub(super) fn judge(others: &Others, pod: &Value) -> Result<(), String> {
    refuse_many(others, pod)?;
    let mut ranges = others.all(OtherKind::LimitRange).peekable();
    if ranges.peek().is_none() {
        return Ok(());
    }
    // Read once for all ranges.
    let own = |container: &Value| Bounded {
        requests: amounts(part(part(container, "resources"), "requests")),
        limits: amounts(part(part(container, "resources"), "limits")),
    };
    let each: Vec<Bounded> = containers(pod).map(own).collect();
    let whole = Bounded { requests: by_spec(pod, "requests"), limits: by_spec(pod, "limits") };
    for range in ranges {
        let mut errors = Vec::new();
        for limit in limits(range) {
            let bounds = LimitBounds::of(limit);
            match text(limit, "type") {
                "Container" => each.iter().for_each(|of| bounds.violations(of, &mut errors)),
                "Pod" => bounds.violations(&whole, &mut errors),
                _ => {}
            }
        }
        refuse_any(errors)?;
    }
    Ok(())
}

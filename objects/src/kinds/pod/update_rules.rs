//! The errors in a change of a pod (`ValidatePodUpdate`, `ValidatePodEphemeralContainersUpdate`, `ValidatePodResize` of
//! `pkg/apis/core/validation/validation.go`, 1.37).

use std::collections::{BTreeMap, BTreeSet};

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::{Map, Value};

use super::{qos, rules, spec};
use crate::kinds::fields::{default_nil, items, number, part, present, same, text};
use crate::kinds::keyed::entries;
use crate::kinds::pod_spec::{affinity, annotations, tolerations};
use crate::kinds::status::keep;
use crate::kinds::{difference, metadata_update};

const MUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                       `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                       existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                       previously negative)";
const NOT_RESIZED: &str = "only cpu and memory resources are mutable";
/// The lists whose containers may get other images, and other resources.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// The errors in a pod that replaces another.
pub(super) fn validate(pod: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(pod, old);
    errors.extend(rules::validate_whole(pod));
    let metadata = Path::new("metadata");
    let (new, old) = (spec(pod), {
        annotations::validate_update(pod, old, &metadata.child("annotations"), &mut errors);
        spec(old)
    });
    let at = Path::new("spec");
    for list in CONTAINERS {
        if items(new, list).len() != items(old, list).len() {
            errors.push(Error::forbidden(&at.child(list), "pod updates may not add or remove containers"));
            return errors;
        }
        let all = at.child(list);
        for (index, container) in items(new, list).iter().enumerate() {
            let at = all.index(index);
            if text(container, "image").is_empty() {
                errors.push(Error::required(&at.child("image"), ""));
            }
            rules::untrimmed_image(container, &at, &mut errors);
        }
    }
    if !validate_deadline(new, old, &at.child("activeDeadlineSeconds"), &mut errors) {
        return errors;
    }
    validate_tolerations(new, old, &at.child("tolerations"), &mut errors);
    validate_gates(new, old, &at.child("schedulingGates"), &mut errors);
    if same(Some(new), Some(old)) {
        return errors;
    }
    let mut munged = munged(new, old);
    if !items(old, "schedulingGates").is_empty() {
        change_gated(&mut munged, old, &at, &mut errors);
    }
    if !same(Some(&munged), Some(old)) {
        errors.push(Error::forbidden(&at, format!("{MUTABLE}\n{}", difference::of(&munged, old))));
    }
    errors
}

/// The error in a change of the deadline; `false` if nothing else is looked at.
fn validate_deadline(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) -> bool {
    let field = "activeDeadlineSeconds";
    match (number(new, field), number(old, field)) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            errors.push(Error::invalid(at, seconds, "must be between 0 and 2147483647, inclusive"));
            false
        }
        (Some(seconds), Some(before)) if before < seconds => {
            errors.push(Error::invalid(at, seconds, "must be less than or equal to previous value"));
            false
        }
        (None, Some(_)) => {
            errors.push(Error::invalid(
                at,
                Value::Null,
                "must not update from a positive integer to nil value",
            ));
            true
        }
        _ => true,
    }
}

/// `validateOnlyAddedTolerations`
fn validate_tolerations(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    // Of a toleration all but its seconds, as a text: there may be many.
    let key = |toleration: &Value| {
        ["key", "operator", "value", "effect"].map(|field| text(toleration, field).to_owned())
    };
    let all: BTreeSet<_> = items(new, "tolerations").iter().map(key).collect();
    if items(old, "tolerations").iter().any(|before| !all.contains(&key(before))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        return errors.push(Error::forbidden(at, detail));
    }
    tolerations::validate(new, at, errors);
}

/// `validateOnlyDeletedSchedulingGates`
fn validate_gates(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let known: BTreeSet<&str> = items(old, "schedulingGates").iter().map(|gate| text(gate, "name")).collect();
    // Of several of a name, the last.
    let added: BTreeMap<&str, usize> = items(new, "schedulingGates")
        .iter()
        .enumerate()
        .map(|(index, gate)| (text(gate, "name"), index))
        .collect();
    for (gate, index) in added.into_iter().filter(|(gate, _)| !known.contains(gate)) {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
        let at = at.index(index);
        errors.push(Error::forbidden(&at.child("name"), detail));
    }
}

/// A spec with what may change as it was before.
fn munged(new: &Value, old: &Value) -> Value {
    let mut munged = new.clone();
    for list in CONTAINERS {
        let all = munged.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, old) in all.zip(items(old, list)) {
            keep(container, old, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep(&mut munged, old, field);
    }
    let grace = "terminationGracePeriodSeconds";
    if number(old, grace).is_some_and(|seconds| seconds < 0) && number(&munged, grace) == Some(1) {
        keep(&mut munged, old, grace);
    }
    munged
}

/// The errors in what a pod with gates may change, which is then as it was before.
fn change_gated(munged: &mut Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let selector = "nodeSelector";
    if !same(munged.get(selector), old.get(selector)) {
        let kept = entries(old, selector).all(|(key, value)| {
            munged.text_at(&[selector, key]) == value && { munged.at(&[selector, key]).is_some() }
        });
        if !kept {
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            let value = munged.get(selector).cloned().unwrap_or_default();
            errors.push(Error::invalid(&at.child(selector), value, detail));
        }
        keep(munged, old, selector);
    }
    let none = Value::Null;
    let old_affinity = present(old, "affinity");
    let before = old_affinity.and_then(|of| present(of, "nodeAffinity")).unwrap_or(&none);
    let wanted = munged.at(&["affinity", "nodeAffinity"]).cloned().unwrap_or_default();
    if same(Some(before), Some(&wanted)) {
        return;
    }
    let affinity_at = at.child("affinity");
    validate_affinity(&wanted, before, &affinity_at.child("nodeAffinity"), errors);
    let Some(map) = munged.as_object_mut() else { return };
    let others =
        |of: &Value| ["podAffinity", "podAntiAffinity"].iter().any(|field| present(of, field).is_some());
    match map.get("affinity").filter(|of| !of.is_null()) {
        Some(of) if old_affinity.is_none() && !others(of) => drop(map.remove("affinity")),
        _ => {
            let affinity = map.entry_or_insert_with("affinity", || Value::Object(Map::new()));
            if affinity.is_null() {
                *affinity = Value::Object(Map::new());
            }
            keep(affinity, old_affinity.unwrap_or(&none), "nodeAffinity");
        }
    }
}

/// `validateNodeAffinityMutation`
fn validate_affinity(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let terms = |of| items(part(of, REQUIRED), "nodeSelectorTerms");
    let (new, old) = (terms(new), terms(old));
    let required_at = at.child(REQUIRED);
    let at = required_at.child("nodeSelectorTerms");
    if !old.is_empty() && old.len() != new.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.push(Error::invalid_raw(&at, affinity::printed_terms(new), detail));
    }
    let only_adds = |new: &Value, old: &Value| {
        let fields = ["matchExpressions", "matchFields"].map(|field| (items(new, field), items(old, field)));
        let was_empty = fields.iter().all(|(_, old)| old.is_empty());
        let is_empty = fields.iter().all(|(new, _)| new.is_empty());
        let begins = |(new, old): &(&[Value], &[Value])| {
            old.len() <= new.len() && new.iter().zip(old.iter()).all(|(new, old)| same(Some(new), Some(old)))
        };
        (is_empty || !was_empty) && fields.iter().all(begins)
    };
    for (index, (new, old)) in new.iter().zip(old).enumerate() {
        if !only_adds(new, old) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(Error::invalid_raw(&at.index(index), affinity::printed_term(new), detail));
        }
    }
}

/// The errors in a write through `/ephemeralcontainers`.
pub(super) fn validate_ephemeral_containers(pod: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(pod, old);
    errors.extend(rules::validate_whole(pod));
    let metadata = Path::new("metadata");
    annotations::validate_update(pod, old, &metadata.child("annotations"), &mut errors);
    if annotations::is_mirror(old) {
        return Error::forbidden(&Path::new(""), "static pods do not support ephemeral containers").into();
    }
    let spec_at = Path::new("spec");
    let at = spec_at.child("ephemeralContainers");
    let all: BTreeMap<&str, &Value> =
        items(spec(pod), "ephemeralContainers").iter().map(|one| (text(one, "name"), one)).collect();
    for old in items(spec(old), "ephemeralContainers") {
        let name = text(old, "name");
        let quoted = kindom_api::field::go_quote(name);
        match all.get(name) {
            None => {
                let detail = format!("existing ephemeral containers {quoted} may not be removed\n");
                errors.push(Error::forbidden(&at, detail));
            }
            Some(new) if same(Some(new), Some(old)) => {}
            Some(new) => {
                let difference = difference::of(new, old);
                let detail =
                    format!("existing ephemeral containers {quoted} may not be changed\n{difference}");
                errors.push(Error::forbidden(&at, detail));
            }
        }
    }
    errors
}

/// The errors in a write through `/resize`.
pub(super) fn validate_resize(pod: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(pod, old);
    errors.extend(rules::validate_whole(pod));
    let root = Path::new("");
    if annotations::is_mirror(old) {
        return Error::forbidden(&root, "static pods cannot be resized").into();
    }
    if spec(old).text_at(&["os", "name"]) == "windows" {
        return Error::forbidden(&root, "windows pods cannot be resized").into();
    }
    let at = Path::new("spec");
    let stored_class = old.text_at(&["status", "qosClass"]);
    let before = if stored_class.is_empty() { qos::class(old) } else { stored_class };
    if before != qos::class(pod) {
        let class = pod.text_at(&["status", "qosClass"]);
        errors.push(Error::invalid(&at, class, "Pod QOS Class may not change as a result of resizing"));
    }
    let running = items(part(old, "status"), "containerStatuses")
        .iter()
        .find(|container| container.at(&["state", "running"]).is_some_and(|running| !running.is_null()));
    if running.is_some_and(|container| present(container, "resources").is_none()) {
        errors.push(Error::forbidden(&at, "Pod running on node without support for resize"));
    }
    let (new, old) = (spec(pod), spec(old));
    let mut munged = new.clone();
    resize_whole(&mut munged, old, &at, &mut errors);
    if !validate_order(new, old, &at, &mut errors) {
        return errors;
    }
    for list in ["initContainers", "containers"] {
        let all = at.child(list);
        for (index, (new, old)) in items(new, list).iter().zip(items(old, list)).enumerate() {
            let container_at = all.index(index);
            let at = container_at.child("resources");
            for (field, detail) in [
                ("requests", "resource requests cannot be removed"),
                ("limits", "resource limits cannot be removed"),
            ] {
                if is_removed(part(new, "resources"), part(old, "resources"), field) {
                    errors.push(Error::forbidden(&at.child(field), detail));
                }
            }
        }
    }
    for list in CONTAINERS {
        let all = at.child(list);
        let containers = munged.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (index, (container, old)) in containers.zip(items(old, list)).enumerate() {
            let is_changed = !same(Some(container), Some(old));
            keep_processors(container, old);
            let is_other = !same(Some(container), Some(old));
            if is_other && list == "containers" {
                errors.push(Error::forbidden(&at, NOT_RESIZED));
            } else if is_other {
                let detail = "only cpu and memory resources for init or sidecar containers are mutable";
                errors.push(Error::forbidden(&all.index(index), detail));
            }
            let is_init = list == "initContainers" && text(container, "restartPolicy") != "Always";
            let restarts = |policy: &&Value| text(policy, "restartPolicy") == "RestartContainer";
            if is_init && is_changed {
                for _ in items(container, "resizePolicy").iter().filter(restarts) {
                    let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                    errors.push(Error::forbidden(&all.index(index), detail));
                }
            }
        }
    }
    if !same(new.get("volumes"), old.get("volumes")) {
        let detail = "volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate is \
                      disabled";
        errors.push(Error::forbidden(&at.child("volumes"), detail));
    }
    if errors.is_empty() && !same(Some(&munged), Some(old)) {
        errors.push(Error::forbidden(&at, NOT_RESIZED));
    }
    errors
}

/// The errors in a change of the resources of the pod as a whole, which are then as they were but for what may not change
/// (`validatePodLevelResourcesResize`).
fn resize_whole(munged: &mut Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let has = |of: &Value| {
        let count = |field| of.at(&["resources", field]).and_then(Value::as_object).map_or(0, Map::len);
        count("requests") + count("limits") > 0
    };
    if !has(munged) && !has(old) {
        return;
    }
    let resources_at = at.child("resources");
    let (new, before) = (present(munged, "resources"), present(old, "resources"));
    match (new, before) {
        (None, Some(_)) => {
            return errors.push(Error::forbidden(&resources_at, "pod-level resources cannot be removed"));
        }
        (Some(new), Some(before)) => {
            for (field, detail) in [
                ("requests", "pod-level resource requests cannot be removed"),
                ("limits", "pod-level resource limits cannot be removed"),
            ] {
                if is_removed(new, before, field) {
                    errors.push(Error::forbidden(&resources_at.child(field), detail));
                }
            }
        }
        _ => {}
    }
    keep_processors(munged, old);
    if !same(munged.get("resources"), old.get("resources")) {
        errors.push(Error::forbidden(at, "only cpu and memory resources are mutable at pod-level"));
    }
}

/// `resourcesRemoved`
fn is_removed(new: &Value, old: &Value, field: &str) -> bool {
    let map = |of: &Value| of.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
    let (new, old) = (map(new), map(old));
    old.len() > new.len() || old.iter().any(|(name, _)| new.get(name).is_none())
}

/// Puts back the processors and the memory of the resources of a container, or of a pod.
fn keep_processors(of: &mut Value, old: &Value) {
    let old = part(old, "resources");
    let Some(resources) = of.get_mut("resources").filter(|resources| !resources.is_null()) else { return };
    for field in ["limits", "requests"] {
        if present(resources, field).is_none() && present(old, field).is_none() {
            continue;
        }
        default_nil(resources, field, Map::new());
        if let Some(amounts) = resources.get_mut(field) {
            for name in ["cpu", "memory"] {
                keep(amounts, part(old, field), name);
            }
        }
    }
}

/// The errors in the order of containers (`validatePodResizeContainerOrdering`); `false` if there are any.
fn validate_order(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) -> bool {
    let mut is_right = true;
    for list in CONTAINERS {
        let all = at.child(list);
        let (new, old) = (items(new, list), items(old, list));
        if new.len() != old.len() {
            is_right = false;
            errors.push(Error::forbidden(&all, format!("{list} may not be added or removed on resize")));
            continue;
        }
        for (index, (new, old)) in new.iter().zip(old).enumerate() {
            if text(new, "name") != text(old, "name") {
                is_right = false;
                let at = all.index(index);
                let detail = format!("{list} may not be renamed or reordered on resize");
                errors.push(Error::forbidden(&at.child("name"), detail));
            }
        }
    }
    is_right
}

//! The rules of Jobs (`ValidateJobCreate`, `ValidateJobUpdate`, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_api::selector::LabelSelector;

use super::spec::is_indexed;
use super::{JOB, selector, spec};
use crate::kinds::fields::{items, number, part, present, present_mut, same, text};
use crate::kinds::label_selector::{self, printed};
use crate::kinds::metadata_update;
use crate::kinds::status::{is_true, keep};

const IMMUTABLE: &str = "field is immutable";

/// The errors in a new job.
pub(super) fn validate(job: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(job, "metadata"), true, &name_is_dns_subdomain, &at);
    selector::validate(job, &mut errors);
    validate_spec(job, &mut errors);
    validate_name_of_pods(job, &mut errors);
    errors
}

/// The name of an indexed job's last pod (`validateNameAllowsCompletions`).
fn validate_name_of_pods(job: &Value, errors: &mut ErrorList) {
    let spec = part(job, "spec");
    let Some(last) = number(spec, "completions").filter(|all| is_indexed(spec) && *all > 0) else { return };
    let name = job.text_at(&["metadata", "name"]);
    let host = format!("{name}-{}", last.saturating_sub(1));
    if !is_dns1123_label(&host).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {host}");
        errors.push(Error::invalid(&Path::new("metadata").child("name"), name, detail));
    }
}

/// `ValidateJobSpec`
fn validate_spec(job: &Value, errors: &mut ErrorList) {
    let (of, at) = (part(job, "spec"), Path::new("spec"));
    spec::validate(of, &at, errors);
    let found = match present(of, "selector") {
        None => {
            errors.push(Error::required(&at.child("selector"), ""));
            Ok(LabelSelector::nothing())
        }
        Some(selector) => {
            label_selector::validate(selector, &at.child("selector"), errors);
            LabelSelector::of_object(selector)
        }
    };
    let labels = selector::template_labels(job);
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    if found.is_ok_and(|selector| !selector.matches(label)) {
        let template = at.child("template");
        let metadata = template.child("metadata");
        let detail = "`selector` does not match template `labels`";
        errors.push(Error::invalid(&metadata.child("labels"), labels.clone(), detail));
    }
}

/// The errors in a change of a job.
pub(super) fn validate_update(job: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(job, old);
    validate_spec(job, &mut errors);
    let ([spec, old_spec], at) = ([job, old].map(|of| part(of, "spec")), Path::new("spec"));
    validate_completions(spec, old_spec, &at, &mut errors);
    let mut immutable = |field: &str, shown: &dyn Fn(&Value) -> String| {
        let [new, old] = [spec, old_spec].map(|of| present(of, field));
        if !same(new, old) {
            let shown = new.map_or_else(|| "null".to_owned(), shown);
            errors.push(Error::invalid_raw(&at.child(field), shown, IMMUTABLE));
        }
    };
    let plain = |value: &Value| value.to_string();
    immutable("selector", &printed);
    immutable("completionMode", &plain);
    immutable("podFailurePolicy", &|policy| JOB.internal(&["spec", "podFailurePolicy"], policy));
    immutable("backoffLimitPerIndex", &plain);
    immutable("managedBy", &plain);
    immutable("successPolicy", &|policy| JOB.internal(&["spec", "successPolicy"], policy));
    validate_template_update(job, old, &mut errors);
    validate_name_of_pods(job, &mut errors);
    errors
}

/// `validateCompletions`
fn validate_completions(spec: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let [new, before] = [spec, old].map(|of| number(of, "completions"));
    if new == before {
        return;
    }
    let at = at.child("completions");
    match (is_indexed(spec), new) {
        (false, new) => errors.push(Error::invalid(&at, new.map_or(Value::Null, Value::Int), IMMUTABLE)),
        (true, Some(new)) if Some(new) != number(spec, "parallelism") => {
            let detail = "can only be modified in tandem with spec.parallelism";
            errors.push(Error::invalid(&at, new, detail));
        }
        (true, _) => {}
    }
}

/// `validatePodTemplateUpdate`: of a suspended job without pods the template may be scheduled otherwise, and its containers
/// given other resources.
fn validate_template_update(job: &Value, old: &Value, errors: &mut ErrorList) {
    let is_suspended = old.at(&["spec", "suspend"]) == Some(&Value::Bool(true));
    let status = part(old, "status");
    let has_not_begun = present(status, "startTime").is_none() || is_true(status, "Suspended");
    let may_change = is_suspended && has_not_begun && number(status, "active").unwrap_or_default() == 0;
    let [new, before] = [job, old].map(|of| of.at(&["spec", "template"]).unwrap_or(&Value::Null));
    let at = Path::new("spec");
    let at = at.child("template");
    if !may_change {
        if !same(Some(new), Some(before)) {
            // Upstream shows its own form of the whole template.
            errors.push(Error::invalid_part(&at, IMMUTABLE));
        }
        return;
    }
    let [new, mut before] = [part(new, "spec"), &part(before, "spec").clone()].map(Value::clone);
    keep_affinity(&mut before, &new);
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        keep(&mut before, &new, field);
    }
    for list in ["containers", "initContainers"] {
        keep_resources(&mut before, &new, list);
    }
    if !same(Some(&new), Some(&before)) {
        errors.push(Error::invalid_part(&at.child("spec"), IMMUTABLE));
    }
}

/// Takes the affinity to nodes from the new spec; the affinities to pods stay.
fn keep_affinity(before: &mut Value, new: &Value) {
    let wanted = part(new, "affinity");
    if wanted.is_null() {
        let others =
            |of: &Value| ["podAffinity", "podAntiAffinity"].iter().any(|field| present(of, field).is_some());
        let has_others = present(before, "affinity").is_some_and(others);
        if let Some(spec) = before.as_object_mut().filter(|_| !has_others) {
            spec.remove("affinity");
        } else if let Some(affinity) = present_mut(before, "affinity").and_then(Value::as_object_mut) {
            affinity.remove("nodeAffinity");
        }
        return;
    }
    crate::kinds::fields::default_nil(before, "affinity", kindom_api::Map::new());
    if let Some(affinity) = before.get_mut("affinity") {
        keep(affinity, wanted, "nodeAffinity");
    }
}

/// Takes the resources of containers from the new spec, where it has as many and the same names.
fn keep_resources(before: &mut Value, new: &Value, list: &str) {
    let wanted = items(new, list);
    let Some(containers) = before.get_mut(list).and_then(Value::as_array_mut) else { return };
    if containers.len() != wanted.len() {
        return;
    }
    for (container, wanted) in containers.iter_mut().zip(wanted) {
        if text(container, "name") == text(wanted, "name") {
            keep(container, wanted, "resources");
        }
    }
}

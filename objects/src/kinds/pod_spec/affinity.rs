//! The rules of affinity (`validateAffinity`, 1.37).

use std::collections::{BTreeMap, BTreeSet};

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_label_value, is_qualified_name, name_is_dns_label, name_is_dns_subdomain};

use crate::kinds::fields::{items, number, part, present, text, texts};
use crate::kinds::keyed::entries;
use crate::kinds::label_selector;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NO_OPERATOR: &str = "not a valid selector operator";
const IN_BOTH: &str = "exists in both matchLabelKeys and labelSelector";

pub(super) fn validate(affinity: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(of) = present(affinity, "nodeAffinity") {
        let at = at.child("nodeAffinity");
        if let Some(selector) = present(of, REQUIRED) {
            validate_node_selector(selector, &at.child(REQUIRED), errors);
        }
        let all = at.child(PREFERRED);
        for (index, term) in items(of, PREFERRED).iter().enumerate() {
            let at = all.index(index);
            validate_weight(term, &at, errors);
            validate_term(part(term, "preference"), true, &at.child("preference"), errors);
        }
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(of) = present(affinity, field) else { continue };
        let at = at.child(field);
        let all = at.child(REQUIRED);
        for (index, term) in items(of, REQUIRED).iter().enumerate() {
            validate_pod_term(term, &all.index(index), errors);
        }
        let all = at.child(PREFERRED);
        for (index, term) in items(of, PREFERRED).iter().enumerate() {
            let at = all.index(index);
            validate_weight(term, &at, errors);
            validate_pod_term(part(term, "podAffinityTerm"), &at.child("podAffinityTerm"), errors);
        }
    }
}

fn validate_weight(term: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let weight = number(term, "weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.push(Error::invalid(&at.child("weight"), weight, "must be in the range 1-100"));
    }
}

/// `ValidateNodeSelector`
pub(in crate::kinds) fn validate_node_selector(selector: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let all = at.child("nodeSelectorTerms");
    let terms = items(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        return errors.push(Error::required(&all, "must have at least one node selector term"));
    }
    for (index, term) in terms.iter().enumerate() {
        validate_term(term, false, &all.index(index), errors);
    }
}

/// `ValidateNodeSelectorTerm`
fn validate_term(term: &Value, any_value: bool, at: &Path<'_>, errors: &mut ErrorList) {
    let all = at.child("matchExpressions");
    for (index, requirement) in items(term, "matchExpressions").iter().enumerate() {
        validate_requirement(requirement, any_value, &all.index(index), errors);
    }
    let all = at.child("matchFields");
    for (index, requirement) in items(term, "matchFields").iter().enumerate() {
        validate_field(requirement, &all.index(index), errors);
    }
}

/// `ValidateNodeSelectorRequirement`
fn validate_requirement(requirement: &Value, any_value: bool, at: &Path<'_>, errors: &mut ErrorList) {
    let (key, operator, values) =
        (text(requirement, "key"), text(requirement, "operator"), items(requirement, "values"));
    let values_at = at.child("values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(Error::required(&values_at, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&values_at, detail));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(Error::required(&values_at, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.push(Error::invalid(&at.child("operator"), operator, NO_OPERATOR)),
    }
    texts(is_qualified_name(key), key, &at.child("key"), errors);
    for (index, value) in values.iter().enumerate().filter(|_| !any_value) {
        let value = value.as_str().unwrap_or_default();
        texts(is_label_value(value), value, &values_at.index(index), errors);
    }
}

/// `ValidateNodeFieldSelectorRequirement`
fn validate_field(requirement: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (key, operator, values) =
        (text(requirement, "key"), text(requirement, "operator"), items(requirement, "values"));
    let values_at = at.child("values");
    match operator {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(Error::required(&values_at, detail));
        }
        _ => errors.push(Error::invalid(&at.child("operator"), operator, NO_OPERATOR)),
    }
    if key != "metadata.name" {
        return errors.push(Error::invalid(&at.child("key"), key, "not a valid field selector key"));
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        texts(name_is_dns_subdomain(value, false), value, &values_at.index(index), errors);
    }
}

/// `validatePodAffinityTerm`
fn validate_pod_term(term: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for field in ["labelSelector", "namespaceSelector"] {
        if let Some(selector) = present(term, field) {
            label_selector::validate(selector, &at.child(field), errors);
        }
    }
    for name in items(term, "namespaces").iter().filter_map(Value::as_str) {
        texts(name_is_dns_label(name, false), name, &at.child("namespace"), errors);
    }
    validate_keys(term, at, errors);
    let key = text(term, "topologyKey");
    let key_at = at.child("topologyKey");
    if key.is_empty() {
        errors.push(Error::required(&key_at, "can not be empty"));
    }
    texts(is_qualified_name(key), key, &key_at, errors);
}

/// `ValidateMatchLabelKeysAndMismatchLabelKeys`
pub(super) fn validate_keys(of: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let selector = present(of, "labelSelector");
    let keys = |field| -> Vec<&str> { items(of, field).iter().filter_map(Value::as_str).collect() };
    let (wanted, unwanted) = (keys("matchLabelKeys"), keys("mismatchLabelKeys"));
    for (field, keys) in [("matchLabelKeys", &wanted), ("mismatchLabelKeys", &unwanted)] {
        let all = at.child(field);
        if selector.is_none() && !keys.is_empty() {
            errors.push(Error::forbidden(&all, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            texts(is_qualified_name(key), key, &all.index(index), errors);
        }
    }
    if let Some(selector) = selector {
        let places: BTreeMap<&str, usize> =
            wanted.iter().enumerate().map(|(index, key)| (*key, index)).collect();
        let mut seen: BTreeSet<&str> = entries(selector, "matchLabels").map(|(key, _)| key).collect();
        for requirement in items(selector, "matchExpressions") {
            let key = text(requirement, "key");
            if let Some(index) = places.get(key).filter(|_| seen.contains(key)) {
                errors.push(Error::invalid(&at.index(*index), key, IN_BOTH));
            }
            seen.insert(key);
        }
    }
    let unwanted: BTreeSet<&str> = unwanted.into_iter().collect();
    let all = at.child("matchLabelKeys");
    for (index, key) in wanted.iter().enumerate().filter(|(_, key)| unwanted.contains(*key)) {
        let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.push(Error::invalid(&all.index(index), *key, detail));
    }
}

/// A term as Kubernetes' own form of it prints.
pub(in crate::kinds) fn printed_term(term: &Value) -> String {
    let list = |field| {
        let all: Vec<String> = items(term, field)
            .iter()
            .map(|of| {
                let text = |field| of.get(field).cloned().unwrap_or_else(|| "".into());
                let values = of.get("values").filter(|values| !values.is_null()).cloned().unwrap_or_default();
                format!("{{\"Key\":{},\"Operator\":{},\"Values\":{values}}}", text("key"), text("operator"))
            })
            .collect();
        if all.is_empty() { "null".to_owned() } else { format!("[{}]", all.join(",")) }
    };
    format!("{{\"MatchExpressions\":{},\"MatchFields\":{}}}", list("matchExpressions"), list("matchFields"))
}

/// Terms, likewise.
pub(in crate::kinds) fn printed_terms(terms: &[Value]) -> String {
    if terms.is_empty() {
        return "null".to_owned();
    }
    format!("[{}]", terms.iter().map(printed_term).collect::<Vec<_>>().join(","))
}

//! The errors in nodes, and warnings about them (`pkg/apis/core/validation/validation.go`, 1.37).
//!
//! Not checked are sources of configuration, which no node has any more, and taints in annotations.

use std::collections::BTreeSet;

use kindom_api::field::{Error, ErrorList, Path, go_quote};
use kindom_api::meta::names::{is_label_value, is_qualified_name, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_api::{Map, Value};

use super::cidr::{self, Range};
use crate::kinds::fields::{items, number, part, present, text, texts};
use crate::kinds::metadata_update;
use crate::kinds::pod_spec::tolerations::EFFECTS;
use crate::kinds::resources::validate_amount;

/// The longest name of a feature.
const FEATURE_MAX: usize = 253;

pub(super) fn validate(node: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(node, "metadata"), false, &name_is_dns_subdomain, &at);
    let (spec, status) = (part(node, "spec"), part(node, "status"));
    // Upstream looks for both in the metadata.
    validate_taints(spec, &at.child("taints"), &mut errors);
    validate_resources(status, &mut errors);
    let swap = part(part(status, "nodeInfo"), "swap");
    if let Some(capacity) = number(swap, "capacity").filter(|capacity| *capacity <= 0) {
        let at = at.child("nodeSwapStatus");
        errors.push(Error::invalid(&at.child("capacity"), capacity, "must be greater than zero"));
    }
    validate_features(status, &mut errors);
    validate_ranges(spec, &mut errors);
    errors
}

fn validate_taints(spec: &Value, all: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, taint) in items(spec, "taints").iter().enumerate() {
        let (at, of) = (all.index(index), |field| text(taint, field));
        let (key, value, effect) = (of("key"), of("value"), of("effect"));
        texts(is_qualified_name(key), key, &at.child("key"), errors);
        let wrong = is_label_value(value);
        if !wrong.is_empty() {
            errors.push(Error::invalid(&at.child("value"), value, wrong.join(";")));
        }
        match effect {
            "" => errors.push(Error::required(&at.child("effect"), "")),
            effect if EFFECTS.contains(&effect) => {}
            effect => errors.push(Error::not_supported(&at.child("effect"), effect, &EFFECTS)),
        }
        if !seen.insert((effect, key)) {
            let added = present(taint, "timeAdded").cloned().unwrap_or_default();
            let printed = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{added}}}",
                Value::from(key),
                Value::from(value),
                Value::from(effect)
            );
            let mut error = Error::invalid_raw(&at, printed, "taints must be unique by key and effect pair");
            error.kind = kindom_api::field::ErrorType::Duplicate;
            errors.push(error);
        }
    }
}

fn validate_resources(status: &Value, errors: &mut ErrorList) {
    for field in ["capacity", "allocatable"] {
        let at = Path::new("status");
        let all = at.child(field);
        let amounts = status.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter);
        for (name, amount) in amounts {
            validate_amount(name, amount, &all.child(name), errors);
        }
    }
}

/// `^[A-Z][a-zA-Z0-9]*(\/[a-zA-Z][a-zA-Z0-9]*)*$`
fn is_feature(name: &str) -> bool {
    let is_word = |word: &str| {
        word.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
            && word.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    name.bytes().next().is_some_and(|b| b.is_ascii_uppercase()) && name.split('/').all(is_word)
}

fn validate_features(status: &Value, errors: &mut ErrorList) {
    let at = Path::new("status");
    let all = at.child("declaredFeatures");
    let names: Vec<&str> = items(status, "declaredFeatures").iter().filter_map(Value::as_str).collect();
    for (index, name) in names.iter().enumerate() {
        let quoted = go_quote(name);
        if name.len() > FEATURE_MAX {
            let why = format!("invalid feature name {quoted}: must be no more than {FEATURE_MAX} characters");
            errors.push(Error::invalid(&all.index(index), *name, why));
        } else if !is_feature(name) {
            let why = format!(
                "invalid feature name {quoted}: must start with an UpperCamelCase segment, with subsequent segments separated \
                 by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            );
            errors.push(Error::invalid(&all.index(index), *name, why));
        }
        let Some(next) = names.get(index + 1) else { continue };
        let at = all.index(index + 1);
        match name.cmp(next) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => errors.push(Error::duplicate(&at, *next)),
            std::cmp::Ordering::Greater => {
                errors.push(Error::invalid(&at, *next, "list must be sorted alphabetically"));
            }
        }
    }
}

fn validate_ranges(spec: &Value, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let all = at.child("podCIDRs");
    let ranges: Vec<&str> = items(spec, "podCIDRs").iter().filter_map(Value::as_str).collect();
    for (index, range) in ranges.iter().enumerate() {
        errors.extend(cidr::legacy(range, &all.index(index)));
    }
    if ranges.len() < 2 {
        return;
    }
    let parsed: Vec<Option<Range>> = ranges.iter().map(|range| Range::parse(range)).collect();
    let unread = parsed.iter().position(Option::is_none);
    if let Some(range) = unread.and_then(|index| ranges.get(index)) {
        let why = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{}]: <nil> (invalid CIDR address: {range})",
            unread.unwrap_or_default()
        );
        errors.push(Error::internal(&all, why));
    }
    let has = |is_v6: bool| parsed.iter().flatten().any(|range| range.is_v6() == is_v6);
    if unread.is_some() || !(has(true) && has(false)) || ranges.len() > 2 {
        let value = spec.get("podCIDRs").cloned().unwrap_or_default();
        errors.push(Error::invalid(&all, value, "may specify no more than one CIDR for each IP family"));
    }
}

pub(super) fn validate_update(node: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(node, old);
    let (spec, status, before) = (part(node, "spec"), part(node, "status"), part(old, "spec"));
    validate_resources(status, &mut errors);
    validate_features(status, &mut errors);
    let status_at = Path::new("status");
    let all = status_at.child("addresses");
    let mut seen = BTreeSet::new();
    for (index, address) in items(status, "addresses").iter().enumerate() {
        let (kind, value) = (text(address, "type"), text(address, "address"));
        if !seen.insert((kind, value)) {
            let printed = format!("{{\"Type\":{},\"Address\":{}}}", Value::from(kind), Value::from(value));
            let mut error = Error::invalid_raw(&all.index(index), printed, "");
            error.kind = kindom_api::field::ErrorType::Duplicate;
            errors.push(error);
        }
    }
    let at = Path::new("spec");
    let (ranges, former) = (items(spec, "podCIDRs"), items(before, "podCIDRs"));
    if !former.is_empty() {
        let changes = if ranges.len() == former.len() {
            former.iter().zip(ranges).filter(|(old, new)| old != new).count()
        } else {
            1
        };
        for _ in 0..changes {
            let detail = "node updates may not change podCIDR except from \"\" to valid";
            errors.push(Error::forbidden(&at.child("podCIDRs"), detail));
        }
    }
    let (provider, former) = (text(spec, "providerID"), text(before, "providerID"));
    if !former.is_empty() && provider != former {
        let detail = match provider {
            "" => "field cannot be cleared once set",
            _ => "field cannot be modified once set",
        };
        errors.push(Error::invalid(&at.child("providerID"), Value::Null, detail));
    }
    validate_taints(spec, &Path::new("metadata").child("taints"), &mut errors);
    if text(spec, "externalID") != text(before, "externalID") {
        errors.push(Error::forbidden(&at.child("externalID"), "may not be updated"));
    }
    errors
}

pub(super) fn warnings(node: &Value) -> Vec<String> {
    let spec = part(node, "spec");
    let mut warnings = Vec::new();
    if present(spec, "configSource").is_some() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(spec, "externalID").is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    let at = Path::new("spec");
    let all = at.child("podCIDRs");
    for (index, range) in items(spec, "podCIDRs").iter().enumerate() {
        cidr::warnings(range.as_str().unwrap_or_default(), &all.index(index), &mut warnings);
    }
    warnings
}

//! The rules of webhooks (`pkg/apis/admissionregistration/validation/validation.go`, 1.37).
//!
//! Updates are judged like creates, also of what the stored object had already in configurations that `v1beta1` made; match conditions
//! are looked at only if any has changed.

use std::collections::HashSet;

use kindom_api::Value;
use kindom_api::crd::ServiceReference;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1035_label, is_dns1123_subdomain, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_schema::crd::validate_webhook_address;

use crate::kinds::admission_match::{validate_conditions, validate_rule};
use crate::kinds::fields::{items, number, part, text};
use crate::kinds::label_selector;

const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];

/// `ValidateValidatingWebhookConfiguration` and `ValidateMutatingWebhookConfiguration`
///
/// `old` is the configuration that this one replaces.
pub(super) fn validate(configuration: &Value, old: Option<&Value>) -> ErrorList {
    let metadata = part(configuration, "metadata");
    let mut errors = validate_object_meta(metadata, false, &name_is_dns_subdomain, &Path::new("metadata"));
    let at = Path::new("webhooks");
    let mut names = HashSet::new();
    let has_new_conditions = old.is_none_or(|old| has_new_conditions(configuration, old));
    for (index, webhook) in items(configuration, "webhooks").iter().enumerate() {
        if errors.is_full() {
            break;
        }
        let at = at.index(index);
        validate_webhook(webhook, &at, &mut errors);
        if has_new_conditions {
            let conditions = items(webhook, "matchConditions");
            validate_conditions(conditions, false, &at.child("matchConditions"), &mut errors);
        }
        validate_versions(webhook, &at.child("admissionReviewVersions"), &mut errors);
        let name = text(webhook, "name");
        if !name.is_empty() && !names.insert(name) {
            errors.push(Error::duplicate(&at.child("name"), name));
        }
    }
    errors
}

/// `validateValidatingWebhook` and `validateMutatingWebhook`
fn validate_webhook(webhook: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_name(text(webhook, "name"), &at.child("name"), errors);
    let rules = at.child("rules");
    for (index, of) in items(webhook, "rules").iter().enumerate() {
        validate_rule(of, &rules.index(index), errors);
    }
    let one_of = |field: &str, allowed: &[&str], errors: &mut ErrorList| {
        if let Some(found) = part(webhook, field).as_str().filter(|found| !allowed.contains(found)) {
            errors.push(Error::not_supported(&at.child(field), found, allowed));
        }
    };
    one_of("failurePolicy", &["Fail", "Ignore"], errors);
    one_of("matchPolicy", &["Equivalent", "Exact"], errors);
    if part(webhook, "sideEffects").is_null() {
        let detail = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
        errors.push(Error::required(&at.child("sideEffects"), detail));
    }
    one_of("sideEffects", &SIDE_EFFECTS, errors);
    if let Some(seconds) = number(webhook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(Error::invalid(&at.child("timeoutSeconds"), seconds, detail));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        label_selector::validate(part(webhook, field), &at.child(field), errors);
    }
    one_of("reinvocationPolicy", &["IfNeeded", "Never"], errors);
    let config = part(webhook, "clientConfig");
    let service = Some(part(config, "service")).filter(|service| !service.is_null()).map(reference);
    let url = part(config, "url").as_str();
    validate_webhook_address(url, service.as_ref(), &at.child("clientConfig"), errors);
}

/// `ignoreMutatingWebhookMatchConditions`
fn has_new_conditions(configuration: &Value, old: &Value) -> bool {
    let conditions = |of: &Value| -> Vec<Vec<Value>> {
        items(of, "webhooks").iter().map(|webhook| items(webhook, "matchConditions").to_vec()).collect()
    };
    conditions(configuration) != conditions(old)
}

fn reference(service: &Value) -> ServiceReference {
    ServiceReference {
        namespace: text(service, "namespace").to_owned(),
        name: text(service, "name").to_owned(),
        path: part(service, "path").as_str().map(str::to_owned),
        port: number(service, "port").and_then(|port| i32::try_from(port).ok()),
    }
}

/// `IsFullyQualifiedName`
fn validate_name(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let wrong = is_dns1123_subdomain(name);
    if name.is_empty() {
        errors.push(Error::required(at, ""));
    } else if !wrong.is_empty() {
        errors.push(Error::invalid(at, name, wrong.join(",")));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(Error::invalid(at, name, detail));
    }
}

/// `validateAdmissionReviewVersions`
fn validate_versions(webhook: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let versions = items(webhook, "admissionReviewVersions");
    if versions.is_empty() {
        return errors.push(Error::required(at, "must specify one of v1, v1beta1"));
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().filter_map(Value::as_str).enumerate() {
        let at = at.index(index);
        if !seen.insert(version) {
            errors.push(Error::invalid(&at, version, "duplicate version"));
            continue;
        }
        errors.extend(is_dns1035_label(version).into_iter().map(|why| Error::invalid(&at, version, why)));
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        let found = part(webhook, "admissionReviewVersions").clone();
        errors.push(Error::invalid(at, found, "must include at least one of v1, v1beta1"));
    }
}

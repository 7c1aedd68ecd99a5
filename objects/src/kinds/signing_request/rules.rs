//! The rules of CertificateSigningRequests (`pkg/apis/certificates/validation/validation.go`,
//! `pkg/apis/core/validation/names.go`, 1.37).

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path, go_quote};
use kindom_api::meta::names::{is_dns1123_label, is_dns1123_subdomain, is_path_segment};
use kindom_api::meta::validate_object_meta;
use kindom_api::user::MASTERS;

use super::{APPROVED, DENIED, FAILED, request};
use crate::Subresource;
use crate::kinds::fields::{items, number, part, text};
use crate::kinds::metadata_update;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// The error of a request that is approved and denied, in the words of declarative validation.
const BOTH: (&str, &str) = (
    r#"{conditions[{"type": "Approved"}], conditions[{"type": "Denied"}]}"#,
    r#"must specify at most one of: `conditions[{"type": "Approved"}]`, `conditions[{"type": "Denied"}]`"#,
);
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const SECONDS_MIN: i64 = 600;
/// `validation.DNS1123SubdomainMaxLength`
const DOMAIN_MAX: usize = 253;
/// A domain, a slash and a path of a DNS label, a dot and a DNS subdomain.
const SIGNER_NAME_MAX: usize = DOMAIN_MAX + 1 + 63 + 1 + 253;

fn bytes(of: &Value, field: &str) -> Vec<u8> {
    BASE64.decode(text(of, field)).unwrap_or_default()
}

/// Refuses a request for a client's certificate of [`MASTERS`] (`plugin/pkg/admission/certificates/subjectrestriction`).
///
/// # Errors
/// Upstream's text.
pub(super) fn refuse_masters(request: &Value) -> Result<(), String> {
    const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
    let spec = part(request, "spec");
    if text(spec, "signerName") != SIGNER {
        return Ok(());
    }
    let groups = request::organizations(&bytes(spec, "request"))
        .map_err(|why| format!("failed to parse CSR: {why}"))?;
    match groups.iter().any(|group| group == MASTERS) {
        true => Err(format!("use of {SIGNER} signer with {MASTERS} group is not allowed")),
        false => Ok(()),
    }
}

fn conditions(request: &Value) -> &[Value] {
    items(part(request, "status"), "conditions")
}

fn usages(request: &Value) -> impl Iterator<Item = &str> {
    items(part(request, "spec"), "usages").iter().filter_map(Value::as_str)
}

fn has_repeated<'a>(mut texts: impl Iterator<Item = &'a str>) -> bool {
    let mut seen = HashSet::new();
    !texts.all(|text| seen.insert(text))
}

/// `validateCertificateSigningRequest`. Flaws that the stored object has already are let through.
pub(super) fn validate(request: &Value, old: Option<&Value>) -> ErrorList {
    let metadata = part(request, "metadata");
    let mut errors = validate_object_meta(metadata, false, &is_path_segment, &Path::new("metadata"));
    let (spec, at) = (part(request, "spec"), Path::new("spec"));
    if let Err(why) = request::check(&bytes(spec, "request")) {
        errors.push(Error::invalid(&at.child("request"), part(spec, "request").clone(), why));
    }
    validate_usages(request, old, &at.child("usages"), &mut errors);
    let (signer, signer_at) = (text(spec, "signerName"), at.child("signerName"));
    if signer != LEGACY_SIGNER {
        validate_signer(signer, &signer_at, &mut errors);
    } else if old.is_none_or(|old| text(part(old, "spec"), "signerName") != LEGACY_SIGNER) {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(Error::invalid(&signer_at, signer, detail));
    }
    if let Some(seconds) = number(spec, "expirationSeconds").filter(|seconds| *seconds < SECONDS_MIN) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(Error::invalid(&at.child("expirationSeconds"), seconds, detail));
    }
    validate_conditions(request, old, &mut errors);
    validate_certificate(request, old, &mut errors);
    errors
}

fn validate_usages(request: &Value, old: Option<&Value>, at: &Path<'_>, errors: &mut ErrorList) {
    if usages(request).next().is_none() {
        errors.push(Error::required(at, ""));
    }
    let is_unknown = |usage: &str| !USAGES.contains(&usage);
    if !old.is_some_and(|old| usages(old).any(is_unknown)) {
        for (index, usage) in usages(request).enumerate().filter(|(_, usage)| is_unknown(usage)) {
            if errors.is_full() {
                return;
            }
            errors.push(Error::not_supported(&at.index(index), usage, &USAGES));
        }
    }
    if !old.is_some_and(|old| has_repeated(usages(old))) {
        let mut seen = HashSet::new();
        for (index, usage) in usages(request).enumerate() {
            if !seen.insert(usage) {
                errors.push(Error::duplicate(&at.index(index), usage));
            }
        }
    }
}

/// `ValidateSignerName`
pub(in crate::kinds) fn validate_signer(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return errors.push(Error::required(at, ""));
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.push(Error::invalid(at, name, detail));
    };
    if domain.len() > DOMAIN_MAX {
        errors.push(Error::too_long(at, DOMAIN_MAX));
    }
    validate_labels(domain, is_dns1123_label, at, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(at, domain, detail));
    }
    validate_labels(path, is_dns1123_subdomain, at, errors);
    if name.len() > SIGNER_NAME_MAX {
        errors.push(Error::too_long(at, SIGNER_NAME_MAX));
    }
}

/// The errors of the first label that has any.
fn validate_labels(segment: &str, check: fn(&str) -> Vec<String>, at: &Path<'_>, errors: &mut ErrorList) {
    let wrong = segment.split('.').map(|label| (label, check(label))).find(|(_, wrong)| !wrong.is_empty());
    for (label, why) in
        wrong.into_iter().flat_map(|(label, wrong)| wrong.into_iter().map(move |w| (label, w)))
    {
        let detail = format!("validating label {}: {why}", go_quote(label));
        errors.push(Error::invalid(at, segment, detail));
    }
}

/// `validateConditions`
fn validate_conditions(request: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let at = Path::new("status");
    let at = at.child("conditions");
    let old = || old.map(conditions).unwrap_or_default().iter().map(|condition| text(condition, "type"));
    let has_empty = old().any(str::is_empty);
    let has_repeated = has_repeated(old());
    let mut seen = HashSet::new();
    for (index, condition) in conditions(request).iter().enumerate() {
        let (at_item, kind, status) = (at.index(index), text(condition, "type"), text(condition, "status"));
        if kind.is_empty() && !has_empty {
            errors.push(Error::required(&at_item.child("type"), ""));
        }
        let allowed: &[&str] = match kind {
            APPROVED | DENIED | FAILED => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        if status.is_empty() {
            errors.push(Error::required(&at_item.child("status"), ""));
        } else if !allowed.contains(&status) {
            errors.push(Error::not_supported(&at_item.child("status"), status, allowed));
        }
        if !seen.insert(kind) && !has_repeated {
            errors.push(Error::duplicate(&at_item.child("type"), kind));
        }
    }
}

fn validate_certificate(request: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let [new, old] = [Some(request), old].map(|of| of.map(|of| bytes(part(of, "status"), "certificate")));
    let Some(new) = new.filter(|new| old.as_ref() != Some(new)) else { return };
    if old.is_some_and(|old| request::check_certificates(&old).is_err()) {
        return;
    }
    if let Err(why) = request::check_certificates(&new) {
        let at = Path::new("status");
        errors.push(Error::invalid(&at.child("certificate"), "<certificate data>", why));
    }
}

/// `validateCertificateSigningRequestUpdate`
pub(super) fn validate_update(request: &Value, old: &Value, through: Option<Subresource>) -> ErrorList {
    let mut errors = validate(request, Some(old));
    let status = Path::new("status");
    let count = |of, kind| conditions(of).iter().filter(|condition| text(condition, "type") == kind).count();
    let mut forbid = |field, detail: String| errors.push(Error::forbidden(&status.child(field), detail));
    for kind in [APPROVED, DENIED, FAILED] {
        if count(request, kind) < count(old, kind) {
            let detail = format!("updates may not remove a condition of type {}", go_quote(kind));
            forbid("conditions", detail);
        }
    }
    // The conditions that there were are as they were: the stored ones were put back.
    for kind in [APPROVED, DENIED].into_iter().filter(|_| through != Some(Subresource::Approval)) {
        if count(request, kind) > count(old, kind) {
            forbid("conditions", format!("updates may not add a condition of type {}", go_quote(kind)));
        }
    }
    let [new, stored] = [request, old].map(|of| text(part(of, "status"), "certificate"));
    if new != stored {
        if through != Some(Subresource::Status) {
            forbid("certificate", "updates may not set certificate content".to_owned());
        } else if !stored.is_empty() {
            forbid("certificate", "updates may not modify existing certificate content".to_owned());
        }
    }
    errors.extend(metadata_update(request, old));
    let is_both = |of| count(of, APPROVED) > 0 && count(of, DENIED) > 0;
    if is_both(request) && !is_both(old) {
        let (found, detail) = BOTH;
        errors.push(Error::invalid(&status.child("conditions"), found, detail));
    }
    errors
}

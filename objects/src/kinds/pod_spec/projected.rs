//! The rules of volumes of files from several sources (`validateProjectedVolumeSource`, `validateDownwardAPIVolumeSource`,
//! 1.37).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;

use super::{env, volumes};
use crate::kinds::fields::{items, number, present, text, texts};
use crate::kinds::{label_selector, signing_request};

/// The fields that a file may show.
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const SOURCES: [&str; 6] =
    ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
const KEYS: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
/// The bounds of the life of a certificate, in seconds.
const LIFE_MIN: i64 = 3600;
const LIFE_MAX: i64 = 91 * 86400;
const LIFE_MAX_OF_KUBERNETES: i64 = 86400;

/// The errors in a volume of files that show fields of the pod.
pub(super) fn validate_downward(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    volumes::validate_mode(source, "defaultMode", at, errors);
    for file in items(source, "items") {
        // Upstream names them without their index.
        validate_file(file, at, errors);
    }
}

/// `validateDownwardAPIVolumeFile`
fn validate_file(file: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let path = text(file, "path");
    if path.is_empty() {
        errors.push(Error::required(&at.child("path"), ""));
    }
    volumes::validate_local(path, &at.child("path"), errors);
    match (present(file, "fieldRef"), present(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            env::validate_field(field, &FIELDS, &at.child("fieldRef"), errors);
            if resource.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(Error::invalid(at, "resource", detail));
            }
        }
        (None, Some(resource)) => {
            env::validate_resource(resource, true, &at.child("resourceFieldRef"), errors);
        }
        (None, None) => errors.push(Error::required(at, "one of fieldRef and resourceFieldRef is required")),
    }
    volumes::validate_mode(file, "mode", at, errors);
}

/// The paths of the files of a volume.
#[derive(Default)]
struct Paths<'a>(BTreeSet<&'a str>);

impl<'a> Paths<'a> {
    fn add(&mut self, path: &'a str, shown: &str, at: &Path<'_>, errors: &mut ErrorList) {
        if !self.0.insert(path) {
            errors.push(Error::invalid(at, shown, "conflicting duplicate paths"));
        }
    }
}

/// The errors in a volume of files from several sources.
pub(super) fn validate(volume: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    volumes::validate_mode(volume, "defaultMode", at, errors);
    let all = at.child("sources");
    let mut paths = Paths::default();
    for (index, source) in items(volume, "sources").iter().enumerate() {
        let source_at = all.index(index);
        let mut count = 0;
        for field in SOURCES {
            let Some(of) = present(source, field) else { continue };
            count += 1;
            let of_at = source_at.child(field);
            match field {
                "secret" | "configMap" => {
                    let name = text(of, "name");
                    if name.is_empty() {
                        errors.push(Error::required(&of_at.child("name"), ""));
                    }
                    volumes::validate_files(of, &of_at, errors);
                    for item in items(of, "items").iter().filter(|item| !text(item, "path").is_empty()) {
                        paths.add(text(item, "path"), name, at, errors);
                    }
                }
                "downwardAPI" => {
                    for file in items(of, "items") {
                        validate_file(file, &of_at, errors);
                        let path = text(file, "path");
                        if !path.is_empty() {
                            paths.add(path, path, at, errors);
                        }
                    }
                }
                "serviceAccountToken" => validate_token(of, at, &of_at, errors),
                "clusterTrustBundle" => {
                    validate_bundle(of, &of_at, errors);
                    paths.add(text(of, "path"), text(of, "path"), at, errors);
                }
                _ => validate_certificate(of, &mut paths, at, &of_at, errors),
            }
        }
        if count > 1 {
            errors.push(Error::forbidden(&source_at, "may not specify more than 1 volume type per source"));
        }
    }
}

fn validate_token(token: &Value, volume_at: &Path<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let seconds_at = at.child("expirationSeconds");
    match number(token, "expirationSeconds") {
        None => errors.push(Error::required(&seconds_at, "")),
        Some(seconds) if seconds < 600 => {
            let detail = "may not specify a duration less than 10 minutes";
            errors.push(Error::invalid(&seconds_at, seconds, detail));
        }
        Some(seconds) if seconds > 1 << 32 => {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.push(Error::invalid(&seconds_at, seconds, detail));
        }
        Some(_) => {}
    }
    match text(token, "path") {
        "" => errors.push(Error::required(&volume_at.child("path"), "")),
        path => volumes::validate_local(path, &volume_at.child("path"), errors),
    }
}

/// `ValidateClusterTrustBundleName`
fn wrong_bundle_name(name: &str) -> Vec<String> {
    match name.rsplit_once(':') {
        Some((signer, rest)) if !signer.is_empty() => {
            let _ = signer;
            name_is_dns_subdomain(rest, false)
        }
        Some(_) => vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()],
        None => name_is_dns_subdomain(name, false),
    }
}

fn validate_bundle(bundle: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let option = |field: &str| present(bundle, field).and_then(Value::as_str);
    let selector = present(bundle, "labelSelector");
    match (option("name"), option("signerName")) {
        (Some(_), Some(_)) => {
            let value = |field: &str| bundle.get(field).unwrap_or(&Value::Null);
            let printed = format!(
                "{{\"Name\":{},\"SignerName\":{},\"LabelSelector\":{},\"Optional\":{},\"Path\":{},\"User\":{}}}",
                value("name"),
                value("signerName"),
                value("labelSelector"),
                value("optional"),
                Value::from(text(bundle, "path")),
                value("user")
            );
            errors.push(Error::invalid_raw(at, printed, "only one of name and signerName may be used"));
        }
        (Some(name), None) => {
            let name_at = at.child("name");
            if name.is_empty() {
                errors.push(Error::required(&name_at, "must be a valid object name"));
            }
            let wrong = wrong_bundle_name(name).into_iter();
            let wrong = wrong.map(|why| format!("not a valid clustertrustbundlename: {why}")).collect();
            texts(wrong, name, &name_at, errors);
            if let Some(selector) = selector {
                let detail = "labelSelector must be unset if name is specified";
                errors.push(Error::invalid(&at.child("labelSelector"), selector.clone(), detail));
            }
        }
        (None, Some(signer)) => {
            let signer_at = at.child("signerName");
            if signer.is_empty() {
                errors.push(Error::required(&signer_at, "must be a valid signer name"));
            }
            signing_request::validate_signer(signer, &signer_at, errors);
            if let Some(selector) = selector {
                label_selector::validate(selector, &at.child("labelSelector"), errors);
            }
        }
        (None, None) => errors.push(Error::required(at, "either name or signerName must be specified")),
    }
    let path = text(bundle, "path");
    if path.is_empty() {
        errors.push(Error::required(&at.child("path"), ""));
    }
    volumes::validate_local(path, &at.child("path"), errors);
}

fn validate_certificate<'a>(
    certificate: &'a Value,
    paths: &mut Paths<'a>,
    volume_at: &Path<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let signer = text(certificate, "signerName");
    signing_request::validate_signer(signer, &at.child("signerName"), errors);
    let key = text(certificate, "keyType");
    if !KEYS.contains(&key) {
        errors.push(Error::not_supported(&at.child("keyType"), key, &KEYS));
    }
    if let Some(seconds) = number(certificate, "maxExpirationSeconds") {
        let at = at.child("maxExpirationSeconds");
        let is_kubernetes = signer
            .split('/')
            .next()
            .is_some_and(|domain| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"));
        let most = if is_kubernetes { LIFE_MAX_OF_KUBERNETES } else { LIFE_MAX };
        if seconds < LIFE_MIN {
            let detail = format!("if provided, maxExpirationSeconds must be >= {LIFE_MIN}");
            errors.push(Error::invalid(&at, seconds, detail));
        }
        if seconds > most {
            let detail = format!("if provided, maxExpirationSeconds must be <= {most}");
            errors.push(Error::invalid(&at, seconds, detail));
        }
    }
    let mut count = 0;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = text(certificate, field);
        if !path.is_empty() {
            count += 1;
            volumes::validate_local(path, &at.child(field), errors);
            paths.add(path, path, volume_at, errors);
        }
    }
    if count == 0 {
        let detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.push(Error::required(at, detail));
    }
}

//! `spec.conversion`, in the words of the internal type: `webhookClientConfig` and `conversionReviewVersions` stand
//! beside `strategy` there.

use kindom_api::crd::{CustomResourceDefinition, ServiceReference, Spec, WebhookClientConfig};
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1035_label, is_dns1123_subdomain};
use kindom_formats::url;

use super::{Options, pem};

pub(super) fn is_recognized(review_version: &str) -> bool {
    matches!(review_version, "v1" | "v1beta1")
}

/// The versions of ConversionReview that the webhook takes, if there is a conversion.
pub(super) fn review_versions(crd: &CustomResourceDefinition) -> Option<&[String]> {
    let conversion = crd.spec.conversion.as_ref()?;
    Some(conversion.webhook.as_ref().map_or(&[], |w| w.conversion_review_versions.as_slice()))
}

pub(super) fn has_invalid_ca_bundle(crd: &CustomResourceDefinition) -> bool {
    let webhook = crd.spec.conversion.as_ref().and_then(|c| c.webhook.as_ref());
    let bundle = webhook.and_then(|w| w.client_config.as_ref()).map_or("", |c| &c.ca_bundle);
    !bundle.is_empty() && bundle_error(bundle).is_some()
}

/// The reason why a CA bundle in base64 is unusable; `None` if it is empty or good. The Established condition then has the
/// reason `InvalidCABundle`.
#[must_use]
pub(super) fn bundle_error(bundle: &str) -> Option<&'static str> {
    let text: String = bundle.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    let bytes = pem::base64(&text).unwrap_or_default();
    if bytes.is_empty() { None } else { pem::ca_bundle_error(&bytes) }
}

pub(super) fn validate(spec: &Spec, options: &Options, spec_path: &Path<'_>, errors: &mut ErrorList) {
    let Some(conversion) = &spec.conversion else { return };
    let path = spec_path.child("conversion");
    let strategy_path = path.child("strategy");
    let strategy = conversion.strategy.as_str();
    if strategy != "None" && spec.preserve_unknown_fields {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(Error::invalid(&strategy_path, strategy, detail));
    }
    match strategy {
        "" => errors.push(Error::required(&strategy_path, "")),
        "None" | "Webhook" => {}
        other => errors.push(Error::not_supported(&strategy_path, other, &["None", "Webhook"])),
    }
    let client_config = conversion.webhook.as_ref().and_then(|w| w.client_config.as_ref());
    let review_versions =
        conversion.webhook.as_ref().map_or(&[][..], |w| w.conversion_review_versions.as_slice());
    let (config_path, versions_path) =
        (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    if strategy == "Webhook" {
        match client_config {
            None => errors.push(Error::required(&config_path, "required when strategy is set to Webhook")),
            Some(config) => client(config, options, &config_path, errors),
        }
        review_version_rules(review_versions, options, &versions_path, errors);
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if client_config.is_some() {
        errors.push(Error::forbidden(&config_path, detail));
    }
    if !review_versions.is_empty() {
        errors.push(Error::forbidden(&versions_path, detail));
    }
}

fn client(config: &WebhookClientConfig, options: &Options, path: &Path<'_>, errors: &mut ErrorList) {
    validate_webhook_address(config.url.as_deref(), config.service.as_ref(), path, errors);
    if !options.allow_invalid_ca_bundle {
        bundle(config, path, errors);
    }
}

fn bundle(config: &WebhookClientConfig, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(why) = bundle_error(&config.ca_bundle) {
        let detail = format!("unable to load root certificates: {why}");
        errors.push(Error::invalid(&path.child("caBundle"), config.ca_bundle.as_str(), detail));
    }
}

/// The errors in the place of a program that is called over HTTPS, wherever it is named.
#[must_use]
pub fn webhook_errors(config: &WebhookClientConfig, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_webhook_address(config.url.as_deref(), config.service.as_ref(), path, &mut errors);
    bundle(config, path, &mut errors);
    errors
}

/// Validates the address of a webhook, which is a URL or a service (`ValidateWebhookURL` and `ValidateWebhookService` of
/// apiserver, 0.37).
pub fn validate_webhook_address(
    url: Option<&str>,
    reference: Option<&ServiceReference>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    match (url, reference) {
        (Some(url), None) => webhook_url(url, &path.child("url"), errors),
        (None, Some(reference)) => service(reference, &path.child("service"), errors),
        _ => errors.push(Error::required(path, "exactly one of url or service is required")),
    }
}

fn webhook_url(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match url::parse(text) {
        Ok(url) => url,
        Err(why) => {
            errors.push(Error::required(path, format!("url must be a valid URL: {why}{FORM}")));
            return;
        }
    };
    if url.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(Error::invalid(path, url.scheme, detail));
    }
    if url.host.is_empty() {
        errors.push(Error::invalid(path, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = url.user {
        errors.push(Error::invalid(path, user, "user information is not permitted in the URL"));
    }
    if !url.fragment.is_empty() {
        errors.push(Error::invalid(path, url.fragment, "fragments are not permitted in the URL"));
    }
    if !url.query.is_empty() {
        errors.push(Error::invalid(path, url.query, "query parameters are not permitted in the URL"));
    }
}

fn service(service: &ServiceReference, path: &Path<'_>, errors: &mut ErrorList) {
    // Upstream hands over name and namespace the wrong way round, so each is reported as the other.
    if service.namespace.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    if service.name.is_empty() {
        errors.push(Error::required(&path.child("namespace"), ""));
    }
    let port = service.port.unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(Error::invalid(&path.child("port"), port, detail));
    }
    if let Some(url_path) = &service.path {
        service_path(url_path, &path.child("path"), errors);
    }
}

fn service_path(url_path: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let mut wrong = |detail: String| errors.push(Error::invalid(path, url_path, detail));
    match url_path {
        "" | "/" => return,
        "//" => return wrong("segment[0] may not be empty".to_owned()),
        _ => {}
    }
    if !url_path.starts_with('/') {
        wrong("must start with a '/'".to_owned());
    }
    // Upstream drops the first byte whatever it is.
    let steps = String::from_utf8_lossy(url_path.as_bytes().get(1..).unwrap_or_default());
    let steps = steps.strip_suffix('/').unwrap_or(&steps);
    for (i, step) in steps.split('/').enumerate() {
        // Every error shows the whole path: without a bound, a long one would cost its square.
        if errors.is_full() {
            return;
        }
        let wrong = |detail: String| Error::invalid(path, url_path, detail);
        if step.is_empty() {
            errors.push(wrong(format!("segment[{i}] may not be empty")));
            continue;
        }
        errors.extend(
            is_dns1123_subdomain(step).into_iter().map(|text| wrong(format!("segment[{i}]: {text}"))),
        );
    }
}

fn review_version_rules(versions: &[String], options: &Options, path: &Path<'_>, errors: &mut ErrorList) {
    if versions.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    for (i, version) in versions.iter().enumerate() {
        if versions.iter().take(i).any(|earlier| earlier == version) {
            errors.push(Error::invalid(&path.index(i), version.as_str(), "duplicate version"));
            continue;
        }
        for text in is_dns1035_label(version) {
            errors.push(Error::invalid(&path.index(i), version.as_str(), text));
        }
    }
    if options.require_recognized_review_version && !versions.iter().any(|v| is_recognized(v)) {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(Error::invalid(path, versions.to_vec(), detail));
    }
}

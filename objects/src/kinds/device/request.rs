//! The errors in what a claim asks for (`validateDeviceClaim`), and in the configuration of drivers.

use std::collections::{BTreeMap, BTreeSet};

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_subdomain, is_label_value, is_qualified_name};

use super::names;
use crate::declared::Declared;
use crate::kinds::fields::{items, number, part, present, text, texts};

pub(super) const REQUESTS_MAX: usize = 32;
const ITEMS_MAX: usize = 32;
const AVAILABLE_MAX: usize = 8;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const RAW_BYTES_MAX: usize = 10 * 1024;
const MODES: [&str; 2] = ["All", "ExactCount"];
pub(super) const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const OPERATORS: [&str; 2] = ["Equal", "Exists"];
const ONE_KIND: &str = "exactly one of `exactly` or `firstAvailable` is required";
const NO_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// The names of requests, each with those of its parts (`gatherRequestNames`).
pub(super) struct RequestNames<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> RequestNames<'a> {
    /// Those of a claim's spec.
    pub(super) fn of(spec: &'a Value) -> Self {
        let requests = items(part(spec, "devices"), "requests").iter();
        Self(
            requests
                .map(|request| {
                    let parts = items(request, "firstAvailable").iter().map(|part| text(part, "name"));
                    (text(request, "name"), parts.collect())
                })
                .collect(),
        )
    }

    fn has(&self, name: &str) -> bool {
        match name.split('/').collect::<Vec<_>>().as_slice() {
            [name] => self.0.contains_key(name),
            [name, part] => self.0.get(name).is_some_and(|parts| parts.contains(part)),
            _ => false,
        }
    }

    /// `validateRequestNameRef`
    pub(super) fn validate(&self, name: &str, at: &Path<'_>, errors: &mut ErrorList) {
        if name.split('/').count() > 2 {
            return errors.push(Error::invalid(at, name, NO_REQUEST));
        }
        name.split('/').for_each(|part| names::label(part, at, errors));
        if !self.has(name) {
            errors.push(Error::invalid(at, name, NO_REQUEST));
        }
    }

    /// The names in a list of them.
    fn validate_list(&self, of: &Value, at: &Path<'_>, errors: &mut ErrorList) {
        names::list(of, "requests", REQUESTS_MAX, at, errors, |name, at, errors| {
            self.validate(name.as_str().unwrap_or_default(), at, errors);
        });
        let key = |name: &Value| name.as_str().unwrap_or_default().to_owned();
        names::unique(of, "requests", REQUESTS_MAX, None, at, errors, key);
    }
}

/// `validateResourceClaimSpec`; the structs of the declaration are found below the path of the spec.
pub(super) fn validate_claim(
    spec: &Value,
    declared: &'static Declared,
    path: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (devices, at) = (part(spec, "devices"), at.child("devices"));
    let request_names = RequestNames::of(spec);
    let shape = |below: &[&str]| declared.item_at(&[path, &["devices"], below].concat());
    let name_of = |item: &Value| text(item, "name").to_owned();
    let of_request = shape(&["requests"]);
    names::list(devices, "requests", REQUESTS_MAX, &at, errors, |request, at, errors| {
        let available = of_request.and_then(|of| crate::declared::item_of(of, "firstAvailable"));
        validate_request(request, at, errors);
        if present(request, "exactly").is_none() {
            names::unique(request, "firstAvailable", AVAILABLE_MAX, available, at, errors, name_of);
        }
    });
    names::unique(devices, "requests", REQUESTS_MAX, of_request, &at, errors, name_of);
    names::list(devices, "constraints", ITEMS_MAX, &at, errors, |constraint, at, errors| {
        request_names.validate_list(constraint, at, errors);
        let attribute = |field: &str| present(constraint, field).and_then(Value::as_str);
        let [matched, distinct] = ["matchAttribute", "distinctAttribute"].map(attribute);
        if let Some(name) = matched {
            names::fully_qualified(name, &at.child("matchAttribute"), errors);
        }
        if let Some(name) = distinct {
            names::fully_qualified(name, &at.child("distinctAttribute"), errors);
        }
        if matched.is_none() && distinct.is_none() {
            // Upstream's text is that of another error.
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
            errors.push(Error::required(at, detail));
        }
    });
    names::list(devices, "config", ITEMS_MAX, &at, errors, |config, at, errors| {
        validate_config(config, Some(&request_names), at, errors);
    });
}

/// `validateDeviceRequest`
fn validate_request(request: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    names::label(text(request, "name"), &at.child("name"), errors);
    let available = !items(request, "firstAvailable").is_empty();
    match (present(request, "exactly"), available) {
        (None, false) => errors.push(Error::required(at, ONE_KIND)),
        (Some(_), true) => {
            let detail = format!("{ONE_KIND}, but multiple fields are set");
            errors.push(Error::invalid(at, Value::Null, detail));
        }
        (Some(exactly), false) => validate_exact(exactly, &at.child("exactly"), errors),
        (None, true) => {
            names::list(request, "firstAvailable", AVAILABLE_MAX, at, errors, |part, at, errors| {
                names::label(text(part, "name"), &at.child("name"), errors);
                validate_exact(part, at, errors);
            });
        }
    }
}

/// `validateExactDeviceRequest`
fn validate_exact(request: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (class, at_class) = (text(request, "deviceClassName"), at.child("deviceClassName"));
    match class {
        "" => errors.push(Error::required(&at_class, "")),
        class => texts(is_dns1123_subdomain(class), class, &at_class, errors),
    }
    validate_selectors(request, at, errors);
    let count = number(request, "count").unwrap_or_default();
    match text(request, "allocationMode") {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.push(Error::invalid(&at.child("count"), count, detail));
        }
        "ExactCount" if count <= 0 => {
            errors.push(Error::invalid(&at.child("count"), count, "must be greater than zero"));
        }
        "All" | "ExactCount" => {}
        mode => errors.push(Error::not_supported(&at.child("allocationMode"), mode, &MODES)),
    }
    validate_tolerations(request, at, errors);
}

/// The errors in selectors, whose expressions are only measured.
pub(super) fn validate_selectors(of: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    names::list(of, "selectors", ITEMS_MAX, at, errors, |selector, at, errors| {
        let at = at.child("cel");
        match present(selector, "cel") {
            None => errors.push(Error::required(&at, "")),
            Some(cel) if text(cel, "expression").len() > EXPRESSION_BYTES_MAX => {
                errors.push(Error::too_long(&at.child("expression"), EXPRESSION_BYTES_MAX));
            }
            Some(_) => {}
        }
    });
}

/// `validateDeviceToleration`
pub(super) fn validate_tolerations(of: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let at = at.child("tolerations");
    for (index, toleration) in items(of, "tolerations").iter().enumerate() {
        let at = at.index(index);
        let field = |field: &str| text(toleration, field).to_owned();
        let [key, operator, value, effect] = ["key", "operator", "value", "effect"].map(field);
        if !key.is_empty() {
            texts(is_qualified_name(&key), &key, &at.child("key"), errors);
        }
        let at_value = at.child("value");
        match operator.as_str() {
            "Exists" if !value.is_empty() => {
                errors.push(Error::invalid(&at_value, value, "must be empty for operator `Exists`"));
            }
            "Exists" => {}
            "Equal" => texts(is_label_value(&value), &value, &at_value, errors),
            "" => errors.push(Error::required(&at.child("operator"), "")),
            operator => errors.push(Error::not_supported(&at.child("operator"), operator, &OPERATORS)),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect.as_str()) {
            errors.push(Error::not_supported(&at.child("effect"), effect, &EFFECTS));
        }
    }
}

/// The errors in the configuration of a driver, which may be for some requests alone.
pub(super) fn validate_config(
    config: &Value,
    requests: Option<&RequestNames<'_>>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if let Some(requests) = requests {
        requests.validate_list(config, at, errors);
    }
    let at = at.child("opaque");
    let Some(opaque) = present(config, "opaque") else {
        return errors.push(Error::required(&at, ""));
    };
    names::driver(text(opaque, "driver"), &at.child("driver"), errors);
    validate_raw(opaque.get("parameters"), &at.child("parameters"), errors);
}

/// `validateRawExtension`
pub(super) fn validate_raw(raw: Option<&Value>, at: &Path<'_>, errors: &mut ErrorList) {
    match raw {
        None | Some(Value::Null) => errors.push(Error::required(at, "")),
        Some(raw) if raw.to_vec().len() > RAW_BYTES_MAX => {
            errors.push(Error::too_long(at, RAW_BYTES_MAX));
        }
        Some(Value::Object(_)) => {}
        Some(_) => errors.push(Error::invalid(at, "<value omitted>", "must be a valid JSON object")),
    }
}

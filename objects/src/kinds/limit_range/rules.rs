//! The rules of LimitRanges (`pkg/apis/core/validation/validation.go`, `pkg/apis/core/helper/helpers.go`, 1.37).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_qualified_name, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_api::quantity::Quantity;

use super::{limits, quantities};
use crate::kinds::resources::{HUGE_PAGES, is_extended, validate_name};

const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// `ValidateLimitRange`
pub(super) fn validate(range: &Value) -> ErrorList {
    let metadata = range.get("metadata").unwrap_or(&Value::Null);
    let mut errors = validate_object_meta(metadata, true, &name_is_dns_subdomain, &Path::new("metadata"));
    let spec = Path::new("spec");
    let all = spec.child("limits");
    let mut types = BTreeSet::new();
    for (index, limit) in limits(range).iter().enumerate() {
        let at = all.index(index);
        let kind = limit.get("type").and_then(Value::as_str).unwrap_or_default();
        validate_type(kind, &at.child("type"), &mut errors);
        if !types.insert(kind) {
            errors.push(Error::duplicate(&at.child("type"), kind));
        }
        validate_limit(limit, kind, &at, &mut errors);
    }
    errors
}

/// `validateLimitRangeTypeName`
fn validate_type(kind: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let wrong = is_qualified_name(kind);
    if wrong.is_empty()
        && !kind.contains('/')
        && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim")
    {
        errors.push(Error::invalid(at, kind, "must be a standard limit type or fully qualified"));
    }
    errors.extend(wrong.into_iter().map(|why| Error::invalid(at, kind, why)));
}

/// `validateLimitRangeResourceName`
fn validate_resource(kind: &str, name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    validate_name(name, at, errors);
    if !matches!(kind, "Pod" | "Container") {
        return;
    }
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !name.starts_with(HUGE_PAGES) {
            errors.push(Error::invalid(at, name, "must be a standard resource for containers"));
        }
    } else if !name.contains("kubernetes.io/") && !is_extended(name) {
        errors.push(Error::invalid(at, name, "doesn't follow extended resource name standard"));
    }
}

/// The quantities of one resource.
#[derive(Default)]
struct Of<'a> {
    min: Option<&'a str>,
    max: Option<&'a str>,
    default: Option<&'a str>,
    request: Option<&'a str>,
    ratio: Option<&'a str>,
}

fn validate_limit(limit: &Value, kind: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let mut by_name: BTreeMap<&str, Of<'_>> = BTreeMap::new();
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let path = at.child(field);
        let of_pods = kind == "Pod" && matches!(field, "default" | "defaultRequest");
        if of_pods {
            if quantities(limit, field).next().is_some() {
                errors.push(Error::forbidden(&path, "may not be specified when `type` is 'Pod'"));
            }
            continue;
        }
        for (name, value) in quantities(limit, field) {
            validate_resource(kind, name, &path.key(name), errors);
            let of = by_name.entry(name).or_default();
            *match field {
                "max" => &mut of.max,
                "min" => &mut of.min,
                "default" => &mut of.default,
                "defaultRequest" => &mut of.request,
                _ => &mut of.ratio,
            } = Some(value);
        }
    }
    let has_storage = |field| quantities(limit, field).any(|(name, _)| name == "storage");
    if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(Error::required(&at.child("limits"), detail));
    }
    for (name, of) in by_name {
        validate_amounts(name, &of, at, errors);
    }
}

fn validate_amounts(name: &str, of: &Of<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let amount = |text: Option<&str>| Quantity::parse(text?).ok();
    let exceeds = |a: Option<&str>, b: Option<&str>| {
        amount(a).zip(amount(b)).is_some_and(|(a, b)| a.compare(&b) == Ordering::Greater)
    };
    let text = Option::unwrap_or_default;
    // The field of the error, its value, the words of the smaller amount, and that which is not smaller.
    let pairs = [
        ("min", of.min, of.min, "min value", of.max, "max value"),
        ("defaultRequest", of.request, of.min, "min value", of.request, "default request value"),
        ("defaultRequest", of.request, of.request, "default request value", of.max, "max value"),
        (
            "defaultRequest",
            of.request,
            of.request,
            "default request value",
            of.default,
            "default limit value",
        ),
        ("default", of.min, of.min, "min value", of.default, "default value"),
        ("default", of.max, of.default, "default value", of.max, "max value"),
    ];
    for (field, value, less, what, more, than) in pairs {
        if exceeds(less, more) {
            let detail = format!("{what} {} is greater than {than} {}", text(less), text(more));
            errors.push(Error::invalid(&at.child(field).key(name), text(value), detail));
        }
    }
    let Some(ratio) = of.ratio else { return };
    let path = at.child("maxLimitRequestRatio");
    let path = path.key(name);
    if exceeds(Some("1"), Some(ratio)) {
        errors.push(Error::invalid(&path, ratio, format!("ratio {ratio} is less than 1")));
    }
    if let (Some(min), Some(max)) = (of.min, of.max) {
        let number = |text| amount(Some(text)).map_or(0.0, |amount| amount.as_f64());
        let (ratio_is, most) = (number(ratio), number(max) / number(min));
        if ratio_is > most {
            let detail = format!("ratio {ratio} is greater than max/min = {most:.6}");
            errors.push(Error::invalid(&path, ratio, detail));
        }
    }
}

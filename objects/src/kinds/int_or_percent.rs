//! Numbers that may be percentages (`ValidatePositiveIntOrPercent`, `IsNotMoreThan100Percent` of
//! `pkg/apis/apps/validation/validation.go`, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};

const NONNEGATIVE: &str = "must be greater than or equal to 0";

/// The number or the percentage of an IntOrString; `true` for the latter. A text that is no percentage is 0.
pub(super) fn amount(value: &Value) -> (i64, bool) {
    match value {
        Value::Int(number) => (*number, false),
        value => {
            let digits = value.as_str().and_then(|text| text.strip_suffix('%'));
            let digits = digits.filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
            (digits.and_then(|digits| digits.parse().ok()).unwrap_or_default(), digits.is_some())
        }
    }
}

/// `ValidatePositiveIntOrPercent`
pub(super) fn int_or_percent(value: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match (value, amount(value)) {
        (Value::Int(number), _) if *number < 0 => errors.push(Error::invalid(at, *number, NONNEGATIVE)),
        (Value::String(text), (_, false)) => {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                       regex used for validation is '[0-9]+%')";
            errors.push(Error::invalid(at, text.as_str(), why));
        }
        _ => {}
    }
}

/// `IsNotMoreThan100Percent`
pub(super) fn at_most_all(value: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if matches!(amount(value), (percent, true) if percent > 100) {
        errors.push(Error::invalid(at, value.clone(), "must not be greater than 100%"));
    }
}

//! Numbers as Go's `%v` prints them in messages, which is not how its JSON does.

use kindom_api::Value;
use kindom_api::field::BadValue;

/// `%v` of a `float64`: with an exponent below 1e-4 and from 1e6 on (`strconv.FormatFloat(x, 'g', -1, 64)`). Infinities
/// are `+Inf` and `-Inf`.
#[must_use]
pub fn float(x: f64) -> String {
    if x.is_infinite() {
        return if x > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{x:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..=5).contains(&exponent) {
        return format!("{x}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// A refused value as a field error prints it.
#[must_use]
pub fn bad_value(value: &Value) -> BadValue {
    match value {
        Value::Float(x) => BadValue::Raw(float(*x)),
        other => BadValue::Value(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::float;

    #[test]
    fn floats_print_as_in_go() {
        for (x, want) in [
            (1.5, "1.5"),
            (-0.1, "-0.1"),
            (65_535.0, "65535"),
            (999_999.5, "999999.5"),
            (1e6, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (2.5e-120, "2.5e-120"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(float(x), want);
        }
    }
}

//! Numbers as Go's `%v` prints them in messages, which is not how its JSON does.

use kindom_api::Value;
use kindom_api::field::BadValue;

/// `%v` of a `float64`: an exponent below 1e-4 and from 1e21 on.
pub(crate) fn float(x: f64) -> String {
    let scientific = format!("{x:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&exponent) {
        return format!("{x}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// A refused value as a field error prints it.
pub(crate) fn bad_value(value: &Value) -> BadValue {
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
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (2.5e-120, "2.5e-120"),
            (0.0, "0"),
        ] {
            assert_eq!(float(x), want);
        }
    }
}

//! Numbers as Go's `encoding/json` prints them (`floatEncoder`).

use std::io::Write as _;

/// Appends a float: shortest digits that read back the same, without exponent for 1e-6 <= |x| < 1e21.
pub(super) fn write_float(x: f64, out: &mut Vec<u8>) {
    let magnitude = x.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let start = out.len();
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{x:e}");
        // Rust writes `1e21`, Go `1e+21`; both write `1e-7`.
        if let Some(e) = out.iter().skip(start).position(|b| *b == b'e') {
            let at = start + e + 1;
            if out.get(at) != Some(&b'-') {
                out.insert(at, b'+');
            }
        }
    } else {
        let _ = write!(out, "{x}");
    }
}

/// `true` if `-0` stands for a value in compact JSON, or looks so in a string.
#[must_use]
pub fn may_hold_negative_zero(json: &[u8]) -> bool {
    memchr::memmem::find_iter(json, b"-0").any(|at| {
        let before = at.checked_sub(1).and_then(|before| json.get(before));
        matches!(before, Some(b':' | b'[' | b',')) && matches!(json.get(at + 2), Some(b',' | b']' | b'}'))
    })
}

#[cfg(test)]
mod tests {
    use super::write_float;

    fn check(x: f64, want: &str) {
        let mut out = Vec::new();
        write_float(x, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn floats_print_as_in_go() {
        check(1.0, "1");
        check(-0.0, "-0");
        check(0.1, "0.1");
        check(1e20, "100000000000000000000");
        check(1e21, "1e+21");
        check(1.5e300, "1.5e+300");
        check(1e-6, "0.000001");
        check(1e-7, "1e-7");
        check(-2.5e-9, "-2.5e-9");
        check(9_223_372_036_854_775_808.0, "9223372036854776000");
    }
}

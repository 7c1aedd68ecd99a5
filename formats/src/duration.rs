//! Durations as Go reads them, in nanoseconds.

use kindom_api::meta::time::quote;

/// Go counts nanoseconds in an `int64`, and the magnitude of the most negative one in a `uint64`.
const MAGNITUDE_MAX: u64 = 1 << 63;

/// Reads `-1h2m3.5s` (`time.ParseDuration`, Go 1.26 `time/format.go`).
///
/// # Errors
/// Go's text: `time: missing unit in duration "5"`.
pub fn parse(text: &str) -> Result<i64, String> {
    magnitude(text.strip_prefix(['-', '+']).unwrap_or(text))
        .and_then(|total| {
            if text.starts_with('-') {
                Ok(0_i64.wrapping_sub_unsigned(total))
            } else {
                i64::try_from(total).map_err(|_| Wrong::Invalid)
            }
        })
        .map_err(|wrong| match wrong {
            Wrong::Invalid => format!("time: invalid duration {}", quote(text)),
            Wrong::NoUnit => format!("time: missing unit in duration {}", quote(text)),
            Wrong::Unit(unit) => format!("time: unknown unit {} in duration {}", quote(unit), quote(text)),
        })
}

/// Reads what [`parse`] does and, where that fails, every whole number with a unit, `2 days and 3 hours`
/// (`strfmt.ParseDuration`, kube-openapi `pkg/validation/strfmt/duration.go`). None if there is no such number, or one
/// is too large.
#[must_use]
pub fn parse_words(text: &str) -> Option<i64> {
    if let Ok(nanos) = parse(text) {
        return Some(nanos);
    }
    let mut total = None::<i64>;
    let mut rest = text;
    while let Some(from) = rest.find(|c: char| c.is_ascii_digit()) {
        let (number, after) = digits(rest.get(from..)?);
        let unit = after.trim_start_matches(['\t', '\n', '\x0c', '\r', ' ']);
        let end = unit.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(unit.len());
        let (unit, after) = unit.split_at_checked(end)?;
        rest = after;
        if unit.is_empty() {
            continue;
        }
        let factor: i64 = number.parse().ok()?;
        if let Some(nanos) = unit_in_words(&unit.to_lowercase()) {
            total = Some(total.unwrap_or(0).wrapping_add(factor.wrapping_mul(nanos)));
        }
    }
    total
}

enum Wrong<'t> {
    Invalid,
    NoUnit,
    Unit(&'t str),
}

/// The nanoseconds of a text without its sign, at most [`MAGNITUDE_MAX`].
fn magnitude(text: &str) -> Result<u64, Wrong<'_>> {
    if text == "0" {
        return Ok(0);
    }
    if text.is_empty() {
        return Err(Wrong::Invalid);
    }
    let in_bounds = |n: Option<u64>| n.filter(|n| *n <= MAGNITUDE_MAX).ok_or(Wrong::Invalid);
    let mut total = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let value = in_bounds(if whole.is_empty() { Some(0) } else { whole.parse().ok() })?;
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(Wrong::Invalid);
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end).unwrap_or_default();
        let scale = match unit {
            "" => return Err(Wrong::NoUnit),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            other => return Err(Wrong::Unit(other)),
        };
        let value = in_bounds(value.checked_mul(scale))?;
        let value = in_bounds(value.checked_add(part(fraction, scale)))?;
        // Twice the greatest magnitude is zero in Go too.
        total = in_bounds(Some(total.wrapping_add(value)))?;
        rest = after;
    }
    Ok(total)
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(end).unwrap_or_default()
}

/// A fraction of a unit, in floats as Go computes it.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as Go does"
)]
fn part(fraction: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for digit in fraction.bytes() {
        let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0')));
        // More digits than fit are worth less than a nanosecond.
        let Some(next) = next.filter(|v| *v <= MAGNITUDE_MAX) else { break };
        value = next;
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

/// A unit is one of the names, or begins with the word.
fn unit_in_words(unit: &str) -> Option<i64> {
    const SECOND: i64 = 1_000_000_000;
    const DAY: i64 = 86_400 * SECOND;
    const UNITS: [(&[&str], &str, i64); 8] = [
        (&["ns"], "nano", 1),
        (&["us", "µs"], "micro", 1_000),
        (&["ms"], "milli", 1_000_000),
        (&["s"], "sec", SECOND),
        (&["m"], "min", 60 * SECOND),
        (&["h", "hr"], "hour", 3600 * SECOND),
        (&["d"], "day", DAY),
        (&["w", "wk"], "week", 7 * DAY),
    ];
    let known =
        |(names, prefix, _): &&(&[&str], &str, i64)| names.contains(&unit) || unit.starts_with(prefix);
    UNITS.iter().find(known).map(|(_, _, nanos)| *nanos)
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_words};

    /// Recorded from Go 1.26.
    #[test]
    fn as_in_go() {
        for (text, want) in [
            ("2s", 2_000_000_000),
            ("1h2m3.5s", 3_723_500_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("+0", 0),
            ("-0", 0),
            ("-5s", -5_000_000_000),
            ("1000000000000000000ns", 1_000_000_000_000_000_000),
            ("9223372036854775807ns", i64::MAX),
            ("2562047h47m16.854775807s", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("9223372036854775808ns9223372036854775808ns", 0),
            ("1.5µs", 1_500),
            ("1μs", 1_000),
            ("0.000000000000000000000000000001h", 0),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
        for (text, want) in [
            ("", r#"time: invalid duration """#),
            ("abc", r#"time: invalid duration "abc""#),
            (".", r#"time: invalid duration ".""#),
            (".s", r#"time: invalid duration ".s""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("5x", r#"time: unknown unit "x" in duration "5x""#),
            ("1é", r#"time: unknown unit "\xc3\xa9" in duration "1\xc3\xa9""#),
            ("\"\n", r#"time: invalid duration "\"\x0a""#),
            ("9999999999h", r#"time: invalid duration "9999999999h""#),
            ("99999999999999999999999s", r#"time: invalid duration "99999999999999999999999s""#),
            ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
            ("-9223372036854775809ns", r#"time: invalid duration "-9223372036854775809ns""#),
        ] {
            assert_eq!(parse(text), Err(want.to_owned()), "{text}");
        }
    }

    #[test]
    fn words_are_read_wherever_they_stand() {
        const DAY: i64 = 86_400_000_000_000;
        for (text, want) in [
            ("1h", Some(DAY / 24)),
            ("1 day", Some(DAY)),
            ("2 days and 3 Hours", Some(2 * DAY + DAY / 8)),
            ("1wk", Some(7 * DAY)),
            ("5 MICROS", Some(5_000)),
            ("9580220µs55x", Some(9_580_220_000)),
            ("1 fortnight", None),
            ("99999999999999999999 days", None),
            ("days", None),
            ("", None),
        ] {
            assert_eq!(parse_words(text), want, "{text}");
        }
    }
}

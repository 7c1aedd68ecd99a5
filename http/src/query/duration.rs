//! Durations as Go writes them.

use std::time::Duration;

use kindom_api::field::go_quote;

/// Reads `1h2m3.5s` as Go's `time.ParseDuration` does; none if it is negative.
///
/// # Errors
/// The text that Go has for what is no duration.
pub fn parse(text: &str) -> Result<Option<Duration>, String> {
    let invalid = || format!("time: invalid duration {}", go_quote(text));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Some(Duration::ZERO));
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (whole, tail) = digits(rest);
        let (fraction, tail) = match tail.strip_prefix('.') {
            Some(tail) => digits(tail),
            None => ("", tail),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_length = tail.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_length);
        let scale: u128 = match unit {
            "" => return Err(format!("time: missing unit in duration {}", go_quote(text))),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            other => {
                return Err(format!("time: unknown unit {} in duration {}", go_quote(other), go_quote(text)));
            }
        };
        let number = |digits: &str| {
            let digits = digits.get(..digits.len().min(18)).unwrap_or_default();
            if digits.is_empty() { Some(0) } else { digits.parse::<u128>().ok() }
        };
        if whole.trim_start_matches('0').len() > 18 {
            return Err(invalid());
        }
        let whole = number(whole.trim_start_matches('0')).ok_or_else(invalid)?;
        let places = u32::try_from(fraction.len().min(18)).unwrap_or(0);
        let fraction = number(fraction).ok_or_else(invalid)?;
        nanos = nanos + whole * scale + fraction * scale / 10u128.pow(places);
        rest = tail;
    }
    // Go's durations are 64-bit nanoseconds.
    let nanos = u64::try_from(nanos).ok().filter(|n| i64::try_from(*n).is_ok()).ok_or_else(invalid)?;
    Ok((!negative).then(|| Duration::from_nanos(nanos)))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn as_in_go() {
        let ok = |text: &str| super::parse(text).unwrap();
        assert_eq!(ok("2s"), Some(Duration::from_secs(2)));
        assert_eq!(ok("1h2m3.5s"), Some(Duration::from_millis(3_723_500)));
        assert_eq!(ok(".5s"), Some(Duration::from_millis(500)));
        assert_eq!(ok("+0"), Some(Duration::ZERO));
        assert_eq!(ok("-5s"), None);
        let error = |text: &str| super::parse(text).unwrap_err();
        assert_eq!(error(""), "time: invalid duration \"\"");
        assert_eq!(error("abc"), "time: invalid duration \"abc\"");
        assert_eq!(error("."), "time: invalid duration \".\"");
        assert_eq!(error("5"), "time: missing unit in duration \"5\"");
        assert_eq!(error("5x"), "time: unknown unit \"x\" in duration \"5x\"");
        assert_eq!(error("9999999999h"), "time: invalid duration \"9999999999h\"");
        assert_eq!(error("99999999999999999999999s"), "time: invalid duration \"99999999999999999999999s\"");
    }
}

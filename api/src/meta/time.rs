//! Times as `metav1.Time` reads and writes them: RFC 3339 in, whole seconds in UTC out.

use std::fmt::Write as _;

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const DAY: i64 = 86_400;

/// Go's zero time, 0001-01-01T00:00:00Z, which is written as null or not at all.
pub const ZERO: i64 = -62_135_596_800;

/// Why a text is not an RFC 3339 time; prints as Go's `time.ParseError`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

/// Seconds since 1970 as `2006-01-02T15:04:05Z`. Years are those of the proleptic Gregorian calendar.
///
/// ```
/// assert_eq!(kindom_api::meta::time::format(1_700_000_000), "2023-11-14T22:13:20Z");
/// ```
#[must_use]
pub fn format(unix_seconds: i64) -> String {
    let (days, second) = (unix_seconds.div_euclid(DAY), unix_seconds.rem_euclid(DAY));
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Reads RFC 3339; a fraction of a second is dropped, an offset is applied.
///
/// ```
/// use kindom_api::meta::time::parse;
/// assert_eq!(parse("2023-11-14T23:13:20.5+01:00"), Ok(1_700_000_000));
/// assert!(parse("yesterday").is_err());
/// ```
///
/// # Errors
/// Anything else.
pub fn parse(text: &str) -> Result<i64, ParseError> {
    let mut input = Input { text, rest: text };
    let year = input.number(4, "2006")?;
    input.literal("-")?;
    let month = input.number(2, "01")?;
    input.within(1..=12, month, "month")?;
    input.literal("-")?;
    let day = input.number(2, "02")?;
    input.literal("T")?;
    let hour = input.number(2, "15")?;
    input.within(0..=23, hour, "hour")?;
    input.literal(":")?;
    let minute = input.number(2, "04")?;
    input.within(0..=59, minute, "minute")?;
    input.literal(":")?;
    let second = input.number(2, "05")?;
    input.within(0..=59, second, "second")?;
    input.fraction();
    let offset = input.offset()?;
    if !input.rest.is_empty() {
        return Err(input.wrong(&format!(": extra text: {}", quote(input.rest))));
    }
    if !(1..=days_in(year, month)).contains(&day) {
        return Err(input.wrong(": day out of range"));
    }
    Ok(days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset)
}

struct Input<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Input<'_> {
    fn wrong(&self, message: &str) -> ParseError {
        ParseError(format!("parsing time {}{message}", quote(self.text)))
    }

    fn mismatch(&self, element: &str) -> ParseError {
        ParseError(format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.text),
            quote(LAYOUT),
            quote(self.rest),
            quote(element)
        ))
    }

    fn number(&mut self, digits: usize, element: &str) -> Result<i64, ParseError> {
        let (number, rest) = self.rest.split_at_checked(digits).ok_or_else(|| self.mismatch(element))?;
        if !number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.mismatch(element));
        }
        self.rest = rest;
        number.parse().map_err(|_| self.mismatch(element))
    }

    fn within(&self, range: std::ops::RangeInclusive<i64>, n: i64, what: &str) -> Result<(), ParseError> {
        if range.contains(&n) { Ok(()) } else { Err(self.wrong(&format!(": {what} out of range"))) }
    }

    fn literal(&mut self, literal: &str) -> Result<(), ParseError> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.mismatch(literal))?;
        Ok(())
    }

    fn fraction(&mut self) {
        if let Some(rest) = self.rest.strip_prefix(['.', ',']) {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                self.rest = rest.get(digits..).unwrap_or_default();
            }
        }
    }

    /// Seconds east of UTC.
    fn offset(&mut self) -> Result<i64, ParseError> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let wrong = || self.mismatch("Z07:00");
        let sign = match self.rest.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(wrong()),
        };
        let part = |range| self.rest.get(range).filter(|p: &&str| p.bytes().all(|b| b.is_ascii_digit()));
        let (Some(hours), Some(":"), Some(minutes)) = (part(1..3), self.rest.get(3..4), part(4..6)) else {
            return Err(wrong());
        };
        let (hours, minutes): (i64, i64) =
            (hours.parse().map_err(|_| wrong())?, minutes.parse().map_err(|_| wrong())?);
        self.within(0..=24, hours, "time zone offset hour")?;
        self.within(0..=60, minutes, "time zone offset minute")?;
        self.rest = self.rest.get(6..).unwrap_or_default();
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

/// As package `time` quotes: every byte that is not printable ASCII on its own.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for b in text.bytes() {
        match b {
            b'"' | b'\\' => out.extend(['\\', char::from(b)]),
            b' '..0x80 => out.push(char::from(b)),
            // Writing to a string cannot fail.
            other => drop(write!(out, "\\x{other:02x}")),
        }
    }
    out.push('"');
    out
}

/// How many days a month has.
#[must_use]
pub fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar, whose year 0 is 1 BC.
#[must_use]
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // The year is counted from March, so that the leap day is its last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day at a number of days since 1970-01-01.
#[must_use]
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::{format, parse};

    #[test]
    fn times_go_there_and_back() {
        for seconds in [0, 951_782_400, 951_868_799, 1_700_000_000, 4_102_444_800, -1, -62_135_596_800] {
            assert_eq!(parse(&format(seconds)), Ok(seconds), "{seconds}");
        }
        assert_eq!(format(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(format(-62_135_596_800), "0001-01-01T00:00:00Z");
    }

    #[test]
    fn errors_read_as_in_go() {
        let layout = "\"2006-01-02T15:04:05Z07:00\"";
        let check = |text: &str, want: String| assert_eq!(parse(text).unwrap_err().to_string(), want);
        check("x", format!("parsing time \"x\" as {layout}: cannot parse \"x\" as \"2006\""));
        check("2020-01-01", format!("parsing time \"2020-01-01\" as {layout}: cannot parse \"\" as \"T\""));
        check("2020-13-01T00:00:00Z", "parsing time \"2020-13-01T00:00:00Z\": month out of range".into());
        check("2021-02-29T00:00:00Z", "parsing time \"2021-02-29T00:00:00Z\": day out of range".into());
        check("2021-02-28T00:00:00Zz", "parsing time \"2021-02-28T00:00:00Zz\": extra text: \"z\"".into());
        check(
            "2021-02-28T00:00:00",
            format!("parsing time \"2021-02-28T00:00:00\" as {layout}: cannot parse \"\" as \"Z07:00\""),
        );
        check(
            "é",
            format!("parsing time \"\\xc3\\xa9\" as {layout}: cannot parse \"\\xc3\\xa9\" as \"2006\""),
        );
        assert!(parse("2021-02-28T00:00:0é").is_err());
        assert!(parse("2021-02-28T00:00:00+é0:00").is_err());
    }
}

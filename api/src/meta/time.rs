//! Times as `metav1.Time` reads and writes them: RFC 3339 in, whole seconds in UTC out; and as `metav1.MicroTime` does, with
//! six digits of a second.

use std::fmt::Write as _;

use jiff::civil::{Date, DateTime};
use jiff::{Timestamp, tz::Offset};

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
/// The digits of a second's fraction in [`MICRO_LAYOUT`].
const MICRO_DIGITS: usize = 6;
const DAY: i64 = 86_400;

/// Go's zero time, 0001-01-01T00:00:00Z, which is written as null or not at all.
pub const ZERO: i64 = -62_135_596_800;

/// The reason why a text is not an RFC 3339 time; prints as Go's `time.ParseError`.
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
    let (year, at) = civil(unix_seconds);
    let (month, day, hour, minute, second) = (at.month(), at.day(), at.hour(), at.minute(), at.second());
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
    read(text, LAYOUT).map(|(seconds, _)| seconds)
}

/// Reads RFC 3339 with exactly six digits of a second: the seconds since 1970, and the microseconds.
///
/// ```
/// use kindom_api::meta::time::parse_micro;
/// assert_eq!(parse_micro("2023-11-14T22:13:20.000500Z"), Ok((1_700_000_000, 500)));
/// assert!(parse_micro("2023-11-14T22:13:20Z").is_err());
/// ```
///
/// # Errors
/// Anything else.
pub fn parse_micro(text: &str) -> Result<(i64, u32), ParseError> {
    read(text, MICRO_LAYOUT)
}

/// Seconds since 1970 and microseconds as `2006-01-02T15:04:05.000000Z`.
#[must_use]
pub fn format_micro(unix_seconds: i64, micros: u32) -> String {
    let mut text = format(unix_seconds);
    text.pop();
    text.push_str(&format!(".{micros:06}Z"));
    text
}

/// Reads a time in one of the two layouts.
fn read(text: &str, layout: &'static str) -> Result<(i64, u32), ParseError> {
    let mut input = Input { text, rest: text, layout };
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
    let micros = if layout == MICRO_LAYOUT { input.micros()? } else { input.skip_fraction() };
    let offset = input.offset()?;
    if !input.rest.is_empty() {
        return Err(input.wrong(&format!(": extra text: {}", quote(input.rest))));
    }
    let Some(days) = days_from_civil(year, month, day) else {
        return Err(input.wrong(": day out of range"));
    };
    Ok((days * DAY + hour * 3600 + minute * 60 + second - offset, micros))
}

struct Input<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Input<'_> {
    fn wrong(&self, message: &str) -> ParseError {
        ParseError(format!("parsing time {}{message}", quote(self.text)))
    }

    fn mismatch(&self, element: &str) -> ParseError {
        ParseError(format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.text),
            quote(self.layout),
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

    /// Skips a fraction that the layout does not have; it counts nothing.
    fn skip_fraction(&mut self) -> u32 {
        if let Some(rest) = self.rest.strip_prefix(['.', ',']) {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                self.rest = rest.get(digits..).unwrap_or_default();
            }
        }
        0
    }

    /// The fraction that the layout demands, after a point or a comma.
    fn micros(&mut self) -> Result<u32, ParseError> {
        let digits = self.rest.strip_prefix(['.', ',']).and_then(|rest| rest.get(..MICRO_DIGITS));
        let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let micros = digits.and_then(|digits| digits.parse().ok());
        let micros = micros.ok_or_else(|| self.mismatch(".000000"))?;
        self.rest = self.rest.get(1 + MICRO_DIGITS..).unwrap_or_default();
        Ok(micros)
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

/// A string in quotes as Go's package `time` writes it: every byte of a control or non-ASCII character on its own.
#[must_use]
pub fn quote(text: &str) -> String {
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

/// Days since 1970-01-01 of a date in the years -9999 to 9999 of the proleptic Gregorian calendar, whose year 0 is 1 BC;
/// none if there is no such day.
#[must_use]
pub fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    const EPOCH: Date = Date::constant(1970, 1, 1);
    let (year, month, day) = (year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?);
    let date = Date::new(year, month, day).ok()?;
    Some(date.duration_since(EPOCH).as_secs() / DAY)
}

/// The year at a number of seconds since 1970, and the date and time in a year between 1970 and 2370 which has the same
/// calendar, down to the days of the week: Go's years do not end at 9999, as those of jiff do.
#[must_use]
pub fn civil(unix_seconds: i64) -> (i64, DateTime) {
    // The calendar repeats every 400 years.
    const CYCLE: i64 = 146_097 * DAY;
    let within = Timestamp::from_second(unix_seconds.rem_euclid(CYCLE)).unwrap_or_default();
    let at = Offset::UTC.to_datetime(within);
    (i64::from(at.year()) + 400 * unix_seconds.div_euclid(CYCLE), at)
}

#[cfg(test)]
mod tests {
    use super::{civil, days_from_civil, format, format_micro, parse, parse_micro};

    #[test]
    fn times_go_there_and_back() {
        for seconds in [0, 951_782_400, 951_868_799, 1_700_000_000, 4_102_444_800, -1, -62_135_596_800] {
            assert_eq!(parse(&format(seconds)), Ok(seconds), "{seconds}");
        }
        for micros in [0, 1, 999_999] {
            assert_eq!(parse_micro(&format_micro(1_700_000_000, micros)), Ok((1_700_000_000, micros)));
        }
        assert_eq!(format(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(format(-62_135_596_800), "0001-01-01T00:00:00Z");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let (mut days, mut weekday) = (days_from_civil(-9999, 1, 1).unwrap(), None);
        for year in -9999..=9999_i64 {
            let mut day_of_year = 0;
            for (month, length) in
                (1..).zip([31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
            {
                for day in 1..=length {
                    day_of_year += 1;
                    assert_eq!(days_from_civil(year, month, day), Some(days), "{year}-{month}-{day}");
                    let (shown, at) = civil(days * 86_400 + 3_723);
                    assert_eq!((shown, i64::from(at.month()), i64::from(at.day())), (year, month, day));
                    assert_eq!((at.hour(), at.minute(), at.second()), (1, 2, 3));
                    assert_eq!(at.date().day_of_year(), day_of_year);
                    assert!(weekday.is_none_or(|before: jiff::civil::Weekday| before.next() == at.weekday()));
                    weekday = Some(at.weekday());
                    days += 1;
                }
                assert_eq!(days_from_civil(year, month, length + 1), None);
            }
            assert_eq!((days_from_civil(year, 13, 1), days_from_civil(year, 1, 0)), (None, None));
        }
        assert_eq!(days_from_civil(1970, 1, 1), Some(0));
    }

    #[test]
    fn years_do_not_end_at_9999() {
        assert_eq!(parse("9999-12-31T23:59:59-01:00"), Ok(253_402_304_399));
        assert_eq!(format(253_402_304_399), "10000-01-01T00:59:59Z");
        assert_eq!(format(parse("0000-01-01T00:00:00+01:00").unwrap()), "-001-12-31T23:00:00Z");
        assert_eq!(format(i64::MAX), "292277026596-12-04T15:30:07Z");
        assert_eq!(format(i64::MIN), "-292277022657-01-27T08:29:52Z");
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
        let micro = "\"2006-01-02T15:04:05.000000Z07:00\"";
        for (text, rest, element) in [
            ("2021-02-28T00:00:00Z", "Z", ".000000"),
            ("2021-02-28T00:00:00.12345Z", ".12345Z", ".000000"),
            ("2021-02-28T00:00:00.1234567Z", "7Z", "Z07:00"),
        ] {
            let want =
                format!("parsing time \"{text}\" as {micro}: cannot parse \"{rest}\" as \"{element}\"");
            assert_eq!(parse_micro(text).unwrap_err().to_string(), want);
        }
        assert!(parse("2021-02-28T00:00:0é").is_err());
        assert!(parse("2021-02-28T00:00:00+é0:00").is_err());
    }
}

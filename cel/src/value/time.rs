//! Instants and spans of time, as Go reads, prints and adds them.

use std::sync::LazyLock;

use jiff::tz::TimeZoneDatabase;
use kindom_api::meta::time::days_from_civil;

use crate::value::{Duration, EvalError, Timestamp};

/// Year 1 and the end of year 9999, in seconds since 1970.
pub const SECONDS_MIN: i64 = -62_135_596_800;
/// The last second of an instant.
pub const SECONDS_MAX: i64 = 253_402_300_799;

const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

fn overflow(what: &str) -> EvalError {
    EvalError::Message(format!("{what} overflow"))
}

impl Timestamp {
    /// An instant in UTC.
    ///
    /// # Errors
    /// `timestamp overflow`
    pub fn at(seconds: i64) -> Result<Self, EvalError> {
        Self { seconds, nanos: 0, offset: 0 }.within()
    }

    /// # Errors
    /// `timestamp overflow`
    pub fn within(self) -> Result<Self, EvalError> {
        if (SECONDS_MIN..=SECONDS_MAX).contains(&self.seconds) {
            Ok(self)
        } else {
            Err(overflow("timestamp"))
        }
    }

    /// The time one span later (`addTimeDurationChecked`).
    ///
    /// # Errors
    /// `timestamp overflow`
    pub fn plus(self, span: Duration) -> Result<Self, EvalError> {
        let nanos = i64::from(self.nanos) + span.0.rem_euclid(NANOS);
        let seconds = self.seconds + span.0.div_euclid(NANOS) + nanos / NANOS;
        let nanos = u32::try_from(nanos % NANOS).unwrap_or(0);
        Self { seconds, nanos, offset: self.offset }.within()
    }

    /// The span from another instant (`subtractTimeChecked`).
    ///
    /// # Errors
    /// `integer overflow`
    pub fn since(self, other: Self) -> Result<Duration, EvalError> {
        let nanos = i64::from(self.nanos) - i64::from(other.nanos);
        let seconds = (self.seconds - other.seconds).checked_mul(NANOS);
        seconds.and_then(|span| span.checked_add(nanos)).map(Duration).ok_or_else(|| overflow("integer"))
    }
}

/// A date and a time of day.
#[derive(Debug, Clone, Copy)]
pub struct Civil {
    /// Astronomical: 0 is 1 BC.
    pub year: i64,
    /// From 1.
    pub month: i64,
    /// From 1.
    pub day: i64,
    /// From 0.
    pub day_of_year: i64,
    /// From 0, Sunday.
    pub day_of_week: i64,
    /// In 0..24.
    pub hour: i64,
    /// In 0..60.
    pub minute: i64,
    /// In 0..60.
    pub second: i64,
}

/// The date and time of day at seconds since 1970.
#[must_use]
pub fn civil(seconds: i64) -> Civil {
    let (year, at) = kindom_api::meta::time::civil(seconds);
    Civil {
        year,
        month: at.month().into(),
        day: at.day().into(),
        day_of_year: i64::from(at.date().day_of_year()) - 1,
        day_of_week: at.weekday().to_sunday_zero_offset().into(),
        hour: at.hour().into(),
        minute: at.minute().into(),
        second: at.second().into(),
    }
}

/// Reads a text from the front.
struct Reader<'t>(&'t [u8]);

impl Reader<'_> {
    fn digit(&mut self) -> Option<i64> {
        let (first, rest) = self.0.split_first()?;
        let digit = first.is_ascii_digit().then(|| i64::from(first - b'0'))?;
        self.0 = rest;
        Some(digit)
    }

    fn two(&mut self) -> Option<i64> {
        Some(self.digit()? * 10 + self.digit()?)
    }

    fn literal(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    fn date(&mut self) -> Option<i64> {
        let year = self.two()? * 100 + self.two()?;
        self.literal(b'-')?;
        let month = self.two()?;
        self.literal(b'-')?;
        let day = self.two()?;
        Some(days_from_civil(year, month, day)? * DAY)
    }

    /// Of one digit or two, as Go's parser takes it.
    fn hour(&mut self) -> Option<i64> {
        let first = self.digit()?;
        Some(self.digit().map_or(first, |second| first * 10 + second))
    }

    /// Nanoseconds after a point or comma, if there are any.
    fn fraction(&mut self) -> Option<u32> {
        let mut nanos = 0;
        if let [b'.' | b',', first, ..] = self.0
            && first.is_ascii_digit()
        {
            self.0 = self.0.split_first()?.1;
            let mut unit = 100_000_000;
            while let Some(digit) = self.digit() {
                nanos += u32::try_from(digit).ok()? * unit;
                unit /= 10;
            }
        }
        Some(nanos)
    }

    fn time(&mut self) -> Option<(i64, u32)> {
        let hour = self.hour()?;
        self.literal(b':')?;
        let minute = self.two()?;
        self.literal(b':')?;
        let second = self.two()?;
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let nanos = self.fraction()?;
        Some((hour * 3600 + minute * 60 + second, nanos))
    }

    fn zone(&mut self) -> Option<i32> {
        if self.literal(b'Z').is_some() {
            return Some(0);
        }
        let sign = if self.literal(b'+').is_some() { 1 } else { self.literal(b'-').map(|()| -1)? };
        let hours = self.two()?;
        self.literal(b':')?;
        let minutes = self.two()?;
        // Go lets 24 hours and 60 minutes pass.
        (hours <= 24 && minutes <= 60).then(|| i32::try_from(sign * (hours * 3600 + minutes * 60)).ok())?
    }
}

/// `time.Parse(time.RFC3339, …)`; the year may be 0, which is before all instants.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    instant(text, true)
}

fn instant(text: &str, zoned: bool) -> Option<Timestamp> {
    let mut reader = Reader(text.as_bytes());
    let date = reader.date()?;
    reader.literal(b'T')?;
    let (time, nanos) = reader.time()?;
    let offset = if zoned { reader.zone()? } else { 0 };
    reader.0.is_empty().then(|| Timestamp { seconds: date + time - i64::from(offset), nanos, offset })
}

/// `strfmt.ParseDateTime`: also without a zone, and nothing is 1970.
#[must_use]
pub fn date_time(text: &str) -> Option<Timestamp> {
    if text.is_empty() {
        return Some(Timestamp::default());
    }
    instant(text, true).or_else(|| instant(text, false))
}

/// Go's reason for refusing a text (`time.Parse`), for a layout of these parts alone.
#[must_use]
pub(crate) fn why_refused(text: &str, layout: &str) -> String {
    let refused = |why: String| format!("parsing time {text:?}{why}");
    let mut reader = Reader(text.as_bytes());
    let mut parts = layout;
    while let Some(first) = parts.chars().next() {
        let end = if first.is_ascii_digit() {
            parts.find(|c: char| !c.is_ascii_digit()).unwrap_or(parts.len())
        } else {
            1
        };
        let (part, rest) = parts.split_at_checked(end).unwrap_or((parts, ""));
        parts = rest;
        let before = reader.0;
        let number = match part {
            "2006" => reader.two().and_then(|century| Some(century * 100 + reader.two()?)),
            "15" => reader.hour(),
            _ if first.is_ascii_digit() => reader.two(),
            _ => u8::try_from(first).ok().and_then(|byte| reader.literal(byte)).map(|()| 0),
        };
        let Some(number) = number else {
            let rest = String::from_utf8_lossy(before);
            return refused(format!(" as {layout:?}: cannot parse {rest:?} as {part:?}"));
        };
        let outside = match part {
            "01" => (!(1..=12).contains(&number)).then_some("month"),
            "15" => (number > 23).then_some("hour"),
            "04" => (number > 59).then_some("minute"),
            "05" => (number > 59).then_some("second"),
            _ => None,
        };
        if let Some(what) = outside {
            return refused(format!(": {what} out of range"));
        }
        if part == "05" {
            let _ = reader.fraction();
        }
    }
    if !reader.0.is_empty() {
        return refused(format!(": extra text: {:?}", String::from_utf8_lossy(reader.0)));
    }
    refused(": day out of range".to_owned())
}

/// A date alone: its midnight in UTC.
#[must_use]
pub fn date(text: &str) -> Option<Timestamp> {
    let mut reader = Reader(text.as_bytes());
    let seconds = reader.date()?;
    reader.0.is_empty().then_some(Timestamp { seconds, nanos: 0, offset: 0 })
}

/// `time.RFC3339Nano`, in the zone that it was written in.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = civil(at.seconds + i64::from(at.offset));
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if at.nanos > 0 {
        let nanos = format!("{:09}", at.nanos);
        text.push('.');
        text.push_str(nanos.trim_end_matches('0'));
    }
    if at.offset == 0 {
        text.push('Z');
        return text;
    }
    let minutes = at.offset.abs() / 60;
    let sign = if at.offset < 0 { '-' } else { '+' };
    text.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
    text
}

/// `string(duration)`: seconds, as many digits as it takes.
#[must_use]
pub fn duration_text(span: Duration) -> String {
    format!("{}s", seconds(span))
}

/// `time.Duration.Seconds`.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "as Go does")]
pub fn seconds(span: Duration) -> f64 {
    (span.0 / NANOS) as f64 + (span.0 % NANOS) as f64 / 1e9
}

/// The offset of a zone at an instant, in seconds east of UTC: the zone is a name of the time zone database, or `+02:00`.
///
/// # Errors
/// Go's texts.
pub fn zone_offset(zone: &str, at: Timestamp) -> Result<i64, EvalError> {
    if let Some((hours, minutes)) = zone.split_once(':') {
        let (hours, minutes) = (atoi(hours)?, atoi(minutes)?);
        let hours = hours.wrapping_mul(60);
        let total =
            if zone.starts_with('-') { hours.wrapping_sub(minutes) } else { hours.wrapping_add(minutes) };
        return Ok(total.wrapping_mul(60 * NANOS) / NANOS);
    }
    if zone.is_empty() || zone == "UTC" || zone == "Local" {
        return Ok(0);
    }
    if zone.contains("..") || zone.starts_with(['/', '\\']) {
        return Err(EvalError::message("time: invalid location name"));
    }
    static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
    let unknown = || EvalError::Message(format!("unknown time zone {zone}"));
    let found = DATABASE.get(zone).map_err(|_| unknown())?;
    // Go looks names up as files, whose case matters.
    if found.iana_name() != Some(zone) {
        return Err(unknown());
    }
    let instant = jiff::Timestamp::from_second(at.seconds).map_err(|_| overflow("timestamp"))?;
    Ok(i64::from(found.to_offset(instant).seconds()))
}

/// `strconv.Atoi`.
fn atoi(text: &str) -> Result<i64, EvalError> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let what = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        EvalError::Message(format!("strconv.Atoi: parsing {text:?}: {what}"))
    })
}

//! Schedules, as the standard parser of `github.com/robfig/cron/v3` (3.0.1, `parser.go`) reads them: five fields, or a
//! descriptor such as `@daily` or `@every 1h30m`. Only the errors are of use here.

use kindom_api::field::go_quote;
use kindom_formats::duration;

use super::time_zone;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// The least and the greatest value of a field, and the names of values from the least on.
struct Bounds {
    min: i64,
    max: i64,
    names: &'static [&'static str],
}

/// Minute, hour, day of the month, month and day of the week.
const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds { min: 1, max: 12, names: &MONTHS },
    Bounds { min: 0, max: 6, names: &DAYS },
];

/// The reason why a text is no schedule.
pub(super) fn parse(text: &str) -> Result<(), String> {
    let mut text = text;
    if let Some(zoned) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
        // Go's parser panics on a schedule that is a time zone and nothing else.
        let panicked = "invalid schedule format: runtime error: slice bounds out of range [:-1]";
        let (zone, rest) = zoned.split_once(' ').ok_or(panicked)?;
        time_zone::load(zone).map_err(|why| format!("provided bad location {zone}: {why}"))?;
        text = rest.trim();
    }
    if text.starts_with('@') {
        return descriptor(text);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.join(" ");
        return Err(format!("expected exactly {} fields, found {}: [{found}]", FIELDS.len(), fields.len()));
    }
    let mut ranges = fields.iter().zip(&FIELDS).flat_map(|(field, bounds)| {
        field.split(',').filter(|range| !range.is_empty()).map(move |of| (of, bounds))
    });
    ranges.try_for_each(|(text, bounds)| range(text, bounds))
}

/// `parseDescriptor`
fn descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    let Some(every) = text.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {text}"));
    };
    match duration::parse(every) {
        Ok(_) => Ok(()),
        Err(why) => Err(format!("failed to parse duration {text}: {why}")),
    }
}

/// `getRange`: `number | number "-" number [ "/" number ]`.
fn range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let mut parts = text.split('/');
    let (limits, step) = (parts.next().unwrap_or_default(), parts.next());
    let mut ends = limits.split('-');
    let (first, last) = (ends.next().unwrap_or_default(), ends.next());
    let (start, mut end) = match first {
        "*" | "?" => (bounds.min, bounds.max),
        first => {
            let start = value(first, bounds)?;
            match last {
                None => (start, start),
                Some(_) if ends.next().is_some() => return Err(format!("too many hyphens: {text}")),
                Some(last) => (start, value(last, bounds)?),
            }
        }
    };
    if parts.next().is_some() {
        return Err(format!("too many slashes: {text}"));
    }
    let step = match step {
        None => 1,
        Some(step) => {
            let step = number(step)?;
            if last.is_none() {
                end = bounds.max;
            }
            step
        }
    };
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {text}"));
    }
    if end > *max {
        return Err(format!("end of range ({end}) above maximum ({max}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

/// `parseIntOrName`
fn value(text: &str, bounds: &Bounds) -> Result<i64, String> {
    let named = bounds.names.iter().zip(bounds.min..).find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |(_, value)| Ok(value))
}

/// `mustParseInt`, and Go's `strconv.Atoi`.
fn number(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number: i64 = text.parse().map_err(|_| {
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", go_quote(text))
    })?;
    if number < 0 {
        return Err(format!("negative number ({number}) not allowed: {text}"));
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn schedules_are_read_as_cron_does() {
        for right in [
            "* * * * *",
            "? ? ? ? ?",
            "*/70 1-5/2 1,,2 jan-DEC sun",
            ", * * * *",
            "+5 * * * *",
            "*-5 * * * *",
            "\t01 2 3 4 5 ",
            "@daily",
            "@every -5s",
            "TZ=UTC  1 1 1 1 1 ",
            "TZ= @daily",
        ] {
            assert_eq!(parse(right), Ok(()), "{right}");
        }
        for (wrong, why) in [
            ("", "expected exactly 5 fields, found 0: []"),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("1/--5 * * * *", "failed to parse int from --5: strconv.Atoi: parsing \"--5\": invalid syntax"),
            ("1/-5 * * * *", "negative number (-5) not allowed: -5"),
            ("@every 1", "failed to parse duration @every 1: time: missing unit in duration \"1\""),
            ("CRON_TZ=Nowhere @daily", "provided bad location Nowhere: unknown time zone Nowhere"),
        ] {
            assert_eq!(parse(wrong), Err(why.to_owned()), "{wrong}");
        }
    }
}

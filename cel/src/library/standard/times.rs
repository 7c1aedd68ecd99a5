//! Parts of instants and of spans.

use crate::value::time::{self, Civil};
use crate::value::{Duration, EvalError, Value};

type Evaluated<'a> = Result<Value<'a>, EvalError>;
/// A part of a date and time, or of its nanoseconds.
type Part = fn(Civil, i64) -> i64;

pub(super) fn utc<'a>(args: &[Value<'a>], part: Part) -> Evaluated<'a> {
    let [Value::Timestamp(at)] = args else { return Err(EvalError::NoSuchOverload) };
    Ok(Value::Int(part(time::civil(at.seconds), at.nanos.into())))
}

pub(super) fn in_zone<'a>(args: &[Value<'a>], part: Part) -> Evaluated<'a> {
    let [Value::Timestamp(at), Value::String(zone)] = args else { return Err(EvalError::NoSuchOverload) };
    let offset = time::zone_offset(zone.as_str(), *at)?;
    Ok(Value::Int(part(time::civil(at.seconds.saturating_add(offset)), at.nanos.into())))
}

pub(super) fn count<'a>(args: &[Value<'a>], unit: fn(Duration) -> i64) -> Evaluated<'a> {
    if let [Value::Duration(span)] = args {
        Ok(Value::Int(unit(*span)))
    } else {
        Err(EvalError::NoSuchOverload)
    }
}

/// `time.Duration.Hours` and its like: a float, which is then cut.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "as Go does")]
fn in_units(span: Duration, unit: i64) -> i64 {
    ((span.0 / unit) as f64 + (span.0 % unit) as f64 / unit as f64) as i64
}

pub(super) fn hours(span: Duration) -> i64 {
    in_units(span, 3_600_000_000_000)
}

pub(super) fn minutes(span: Duration) -> i64 {
    in_units(span, 60_000_000_000)
}

pub(super) fn seconds(span: Duration) -> i64 {
    in_units(span, 1_000_000_000)
}

pub(super) fn milliseconds(span: Duration) -> i64 {
    span.0 / 1_000_000
}

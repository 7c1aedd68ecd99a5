//! From one type to another (`ConvertToType` of cel-go's `common/types`).

use kindom_formats::duration;

use crate::value::{Duration, EvalError, Timestamp, Value, time};

type Evaluated<'a> = Result<Value<'a>, EvalError>;

fn one<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v Value<'a>, EvalError> {
    args.first().ok_or(EvalError::NoSuchOverload)
}

fn text<'v>(args: &'v [Value<'_>]) -> Result<&'v str, EvalError> {
    one(args)?.as_str().ok_or(EvalError::NoSuchOverload)
}

fn not_a(of: &str) -> EvalError {
    EvalError::Message(format!("type conversion error from 'string' to '{of}'"))
}

fn overflow() -> EvalError {
    EvalError::message("integer overflow")
}

fn unsigned_overflow() -> EvalError {
    EvalError::message("unsigned integer overflow")
}

pub(super) fn same<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    one(args).cloned()
}

pub(super) fn type_of<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Type(one(args)?.to_type()))
}

pub(super) fn string_to_bool<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match text(args)? {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
        _ => Err(not_a("bool")),
    }
}

pub(super) fn string_to_bytes<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bytes(text(args)?.as_bytes().into()))
}

#[allow(clippy::cast_precision_loss, reason = "as Go's conversion does")]
pub(super) fn int_to_double<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    if let Value::Int(n) = one(args)? { Ok(Value::Double(*n as f64)) } else { Err(EvalError::NoSuchOverload) }
}

#[allow(clippy::cast_precision_loss, reason = "as Go's conversion does")]
pub(super) fn uint_to_double<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    if let Value::Uint(n) = one(args)? {
        Ok(Value::Double(*n as f64))
    } else {
        Err(EvalError::NoSuchOverload)
    }
}

/// `strconv.ParseFloat`, which knows no NaN with a sign and refuses numbers too large.
pub(super) fn string_to_double<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let text = text(args)?;
    let separated;
    let text = if text.contains('_') && separates_digits(text) {
        separated = text.replace('_', "");
        &separated
    } else {
        text
    };
    let unsigned = text.trim_start_matches(['+', '-']);
    let x = hexadecimal(text).or_else(|| text.parse::<f64>().ok()).ok_or_else(|| not_a("double"))?;
    let named = unsigned.starts_with(['i', 'I', 'n', 'N']);
    if (x.is_infinite() && !named) || (x.is_nan() && unsigned.len() < text.len()) {
        return Err(not_a("double"));
    }
    Ok(Value::Double(x))
}

/// Returns true if each underscore stands between digits, or behind `0x`.
fn separates_digits(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let hexadecimal = unsigned.starts_with("0x") || unsigned.starts_with("0X");
    let digit =
        |b: u8| b.is_ascii_digit() || (hexadecimal && (b.is_ascii_hexdigit() || b == b'x' || b == b'X'));
    let mut before = b'!';
    for b in unsigned.bytes() {
        let bad = if b == b'_' { !digit(before) } else { before == b'_' && !digit(b) };
        if bad {
            return false;
        }
        before = b;
    }
    before != b'_'
}

/// `0x1.8p-2`, of up to 53 bits, which is all that needs no rounding.
#[allow(clippy::cast_precision_loss, reason = "the mantissa has no more than 53 bits")]
fn hexadecimal(text: &str) -> Option<f64> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"))?;
    let (mantissa, exponent) = digits.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let bits = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok().filter(|bits| *bits < 1 << 53)?;
    let exponent: i32 = exponent.parse().ok()?;
    let shift = exponent.checked_sub(i32::try_from(fraction.len()).ok()?.checked_mul(4)?)?;
    let x = bits as f64 * 2_f64.powi(shift);
    Some(if negative { -x } else { x })
}

pub(super) fn string_to_duration<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let nanos = duration::parse(text(args)?).map_err(|_| not_a("google.protobuf.Duration"))?;
    Ok(Value::Duration(Duration(nanos)))
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the bounds are checked before"
)]
pub(super) fn double_to_int<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match one(args)? {
        Value::Double(x) if *x > i64::MIN as f64 && *x < i64::MAX as f64 => Ok(Value::Int(*x as i64)),
        Value::Double(_) => Err(overflow()),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn duration_to_int<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    if let Value::Duration(Duration(n)) = one(args)? {
        Ok(Value::Int(*n))
    } else {
        Err(EvalError::NoSuchOverload)
    }
}

pub(super) fn string_to_int<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    text(args)?.parse().map(Value::Int).map_err(|_| not_a("int"))
}

pub(super) fn timestamp_to_int<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    if let Value::Timestamp(at) = one(args)? {
        Ok(Value::Int(at.seconds))
    } else {
        Err(EvalError::NoSuchOverload)
    }
}

pub(super) fn uint_to_int<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match one(args)? {
        Value::Uint(n) => i64::try_from(*n).map(Value::Int).map_err(|_| overflow()),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn to_string<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::string(one(args)?.to_string()))
}

pub(super) fn bytes_to_string<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let Value::Bytes(bytes) = one(args)? else { return Err(EvalError::NoSuchOverload) };
    std::str::from_utf8(bytes)
        .map(Value::string)
        .map_err(|_| EvalError::message("invalid UTF-8 in bytes, cannot convert to string"))
}

pub(super) fn int_to_timestamp<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    if let Value::Int(n) = one(args)? {
        Timestamp::at(*n).map(Value::Timestamp)
    } else {
        Err(EvalError::NoSuchOverload)
    }
}

pub(super) fn string_to_timestamp<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let at = time::parse_rfc3339(text(args)?).ok_or_else(|| not_a("google.protobuf.Timestamp"))?;
    at.within().map(Value::Timestamp)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the bounds are checked before")]
pub(super) fn double_to_uint<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match one(args)? {
        Value::Double(x) if (0.0..18_446_744_073_709_551_616.0).contains(x) => Ok(Value::Uint(*x as u64)),
        Value::Double(_) => Err(unsigned_overflow()),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn int_to_uint<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match one(args)? {
        Value::Int(n) => u64::try_from(*n).map(Value::Uint).map_err(|_| unsigned_overflow()),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn string_to_uint<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let text = text(args)?;
    let number = text.parse().ok().filter(|_| !text.starts_with('+'));
    number.map(Value::Uint).ok_or_else(|| not_a("uint"))
}

//! Reading arguments of functions and making their results.

use std::sync::Arc;

use kindom_api::Value as Json;

use crate::value::{EvalError, List, Map, Opaque, Text, Value, Work};

/// The string at a place.
pub(super) fn text<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v str, EvalError> {
    args.get(at).and_then(Value::as_str).ok_or(EvalError::NoSuchOverload)
}

/// The list at a place.
pub(super) fn list<'v, 'a>(args: &'v [Value<'a>], at: usize) -> Result<&'v List<'a>, EvalError> {
    match args.get(at) {
        Some(Value::List(list)) => Ok(list),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// The items of the list at a place.
pub(super) fn items<'a>(args: &[Value<'a>], at: usize) -> Result<Vec<Value<'a>>, EvalError> {
    list(args, at)?.iter().collect()
}

/// The int at a place.
pub(super) fn int(args: &[Value<'_>], at: usize) -> Result<i64, EvalError> {
    match args.get(at) {
        Some(Value::Int(n)) => Ok(*n),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// The bool at a place.
pub(super) fn boolean(args: &[Value<'_>], at: usize) -> Result<bool, EvalError> {
    match args.get(at) {
        Some(Value::Bool(b)) => Ok(*b),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// The value of a library's type at a place.
pub(super) fn opaque<'v, T: Opaque>(args: &'v [Value<'_>], at: usize) -> Result<&'v T, EvalError> {
    match args.get(at) {
        Some(Value::Opaque(value)) => value.as_any().downcast_ref().ok_or(EvalError::NoSuchOverload),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// A value of a library's type.
pub(super) fn made<'a>(value: impl Opaque) -> Value<'a> {
    Value::Opaque(Arc::new(value))
}

/// A part of the string at a place, given by its bytes: borrowed if the whole is.
pub(super) fn part<'a>(
    args: &[Value<'a>],
    at: usize,
    from: usize,
    to: usize,
) -> Result<Value<'a>, EvalError> {
    match args.get(at) {
        Some(Value::String(Text::Borrowed(text))) => {
            Ok(Value::String(Text::Borrowed(text.get(from..to).unwrap_or_default())))
        }
        Some(Value::String(Text::Owned(text))) => {
            if from == 0 && to == text.len() {
                return Ok(Value::String(Text::Owned(Arc::clone(text))));
            }
            Ok(Value::string(text.get(from..to).unwrap_or_default()))
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// A count as an int.
pub(super) fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The longest string that a function makes.
pub(super) const RESULT_BYTES_MAX: usize = 16 << 20;

/// The most that one evaluation may cost (`celconfig.PerCallLimit`).
const CALL_COST_MAX: usize = 1_000_000;

/// Stops before work that costs more than an evaluation may anyway: so many steps with each of so many.
pub(super) fn quadratic(a: usize, b: usize) -> Result<(), EvalError> {
    if a.saturating_mul(b) > CALL_COST_MAX { Err(EvalError::CostExceeded) } else { Ok(()) }
}

/// Counts every part of a value that a function is about to walk. A part that occurs several times counts each time.
pub(super) fn weigh(value: &Value<'_>, work: &mut Work) -> Result<(), EvalError> {
    match value {
        Value::String(text) => work.spend(1 + text.as_str().len() / BYTES_PER_STEP),
        Value::List(List::Tree(items, _)) => {
            work.spend(1)?;
            items.iter().try_for_each(|item| weigh_tree(item, work))
        }
        Value::List(List::Owned(items) | List::Added(items, _)) => {
            work.spend(1)?;
            items.iter().try_for_each(|item| weigh(item, work))
        }
        Value::Map(Map::Tree(map, _)) => {
            work.spend(1)?;
            map.iter().try_for_each(|(_, value)| weigh_tree(value, work))
        }
        Value::Map(Map::Owned(entries)) => {
            work.spend(1)?;
            entries.iter().try_for_each(|(_, value)| weigh(value, work))
        }
        Value::Optional(Some(value)) => weigh(value, work),
        _ => work.spend(1),
    }
}

fn weigh_tree(value: &Json, work: &mut Work) -> Result<(), EvalError> {
    work.spend(1)?;
    match value {
        Json::Array(items) => items.iter().try_for_each(|item| weigh_tree(item, work)),
        Json::Object(map) => map.iter().try_for_each(|(_, value)| weigh_tree(value, work)),
        Json::String(text) => work.spend(text.len() / BYTES_PER_STEP),
        _ => Ok(()),
    }
}

/// The number of bytes copied in a step of work.
pub(super) const BYTES_PER_STEP: usize = 16;

/// Returns true if two values are the same; values that cannot be compared are not.
pub(super) fn same(a: &Value<'_>, b: &Value<'_>, work: &mut Work) -> Result<bool, EvalError> {
    match a.equals_within(b, work) {
        Err(error) if error.ends() => Err(error),
        other => Ok(other.unwrap_or(false)),
    }
}

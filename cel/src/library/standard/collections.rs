//! Membership, sizes, and the functions on strings; with their costs (cel-go `interpreter/runtimecost.go`).

use kindom_formats::Pattern;

use crate::library::standard::arithmetic::refuse;
use crate::value::{EvalError, Value};

type Evaluated<'a> = Result<Value<'a>, EvalError>;

pub(super) fn contains<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [value, Value::List(list)] => list.contains(value).map(Value::Bool),
        [key, Value::Map(map)] => map.find(key).map(|found| Value::Bool(found.is_some())),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn size<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [value] = args else { return Err(EvalError::NoSuchOverload) };
    match value.size() {
        Some(size) => Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX))),
        None => Err(refuse("size", value, false)),
    }
}

fn texts<'v>(args: &'v [Value<'_>]) -> Result<(&'v str, &'v str), EvalError> {
    match args {
        [Value::String(a), Value::String(b)] => Ok((a.as_str(), b.as_str())),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn contains_string<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, part) = texts(args)?;
    Ok(Value::Bool(text.contains(part)))
}

pub(super) fn starts_with<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, part) = texts(args)?;
    Ok(Value::Bool(text.starts_with(part)))
}

pub(super) fn ends_with<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, part) = texts(args)?;
    Ok(Value::Bool(text.ends_with(part)))
}

pub(super) fn matches<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    if let [value, _] = args
        && !matches!(value, Value::String(_))
    {
        return Err(refuse("matches", value, false));
    }
    let (text, pattern) = texts(args)?;
    Pattern::recent(pattern).matches(text).map(Value::Bool).map_err(EvalError::message)
}

/// A tenth, rounded up (`common.StringTraversalCostFactor`).
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

fn sizes(args: &[Value<'_>]) -> (u64, u64) {
    if let [a, b] = args { (a.cost_size(), b.cost_size()) } else { (1, 1) }
}

pub(super) fn cost_of_first(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    tenth(args.first().map_or(1, Value::cost_size))
}

pub(super) fn cost_of_second(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    tenth(args.get(1).map_or(1, Value::cost_size))
}

pub(super) fn cost_of_both(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    let (a, b) = sizes(args);
    tenth(a + b)
}

pub(super) fn cost_of_shorter(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    let (a, b) = sizes(args);
    tenth(a.min(b))
}

pub(super) fn cost_of_contains(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    let (a, b) = sizes(args);
    tenth(a) * tenth(b)
}

/// By the lengths of the text and of the expression (`common.RegexStringLengthCostFactor`).
pub(crate) fn cost_of_match(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    let (text, pattern) = sizes(args);
    tenth(1 + text) * pattern.div_ceil(4)
}

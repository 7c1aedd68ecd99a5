//! Optional values. `or`, `orValue` and selections are evaluation's own.

use crate::value::{EvalError, List, Value};

type Evaluated<'a> = Result<Value<'a>, EvalError>;

pub(super) fn of<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    args.first().cloned().map(Value::optional).ok_or(EvalError::NoSuchOverload)
}

pub(super) fn of_non_zero<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    if args.first().is_some_and(Value::is_zero) { Ok(Value::Optional(None)) } else { of(args) }
}

#[allow(clippy::unnecessary_wraps, reason = "as every function")]
pub(super) fn none<'a>(_: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Optional(None))
}

pub(super) fn value<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Optional(Some(value))] => Ok((**value).clone()),
        [Value::Optional(None)] => Err(EvalError::message("optional.none() dereference")),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn has_value<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    if let [Value::Optional(value)] = args {
        Ok(Value::Bool(value.is_some()))
    } else {
        Err(EvalError::NoSuchOverload)
    }
}

fn item<'a>(args: &[Value<'a>], place: fn(&List<'a>) -> usize) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return Err(EvalError::NoSuchOverload) };
    match list.get(place(list)) {
        Some(item) => item.map(Value::optional),
        None => Ok(Value::Optional(None)),
    }
}

pub(super) fn first<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    item(args, |_| 0)
}

pub(super) fn last<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    item(args, |list| list.len().wrapping_sub(1))
}

pub(super) fn unwrap<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return Err(EvalError::NoSuchOverload) };
    let mut items = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(value)) => items.push((*value).clone()),
            Value::Optional(None) => {}
            other => return Err(EvalError::Message(format!("value {other} is not optional"))),
        }
    }
    Ok(Value::list(items))
}

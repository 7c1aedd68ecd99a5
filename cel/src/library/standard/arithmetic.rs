//! Operators on numbers and times, and order.

use std::cmp::Ordering;

use crate::ast::operators;
use crate::value::{Duration, EvalError, Value};

type Evaluated<'a> = Result<Value<'a>, EvalError>;

fn overflow() -> EvalError {
    EvalError::message("integer overflow")
}

fn unsigned_overflow() -> EvalError {
    EvalError::message("unsigned integer overflow")
}

/// The error of an operator: for a first operand of a type that it does not take, or for a second one that does not fit the
/// first.
pub(crate) fn refuse(operator: &str, operand: &Value<'_>, for_operand: bool) -> EvalError {
    let receiver = matches!(operand, Value::String(_) | Value::Duration(_) | Value::Timestamp(_));
    if for_operand || receiver {
        EvalError::NoSuchOverload
    } else {
        EvalError::Message(format!("no such overload: {operator}"))
    }
}

fn pair<'v, 'a>(args: &'v [Value<'a>]) -> Result<(&'v Value<'a>, &'v Value<'a>), EvalError> {
    if let [a, b] = args { Ok((a, b)) } else { Err(EvalError::NoSuchOverload) }
}

pub(super) fn not<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    if let [Value::Bool(b)] = args { Ok(Value::Bool(!b)) } else { Err(EvalError::NoSuchOverload) }
}

pub(super) fn negate<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(n)] => n.checked_neg().map(Value::Int).ok_or_else(overflow),
        [Value::Double(x)] => Ok(Value::Double(-x)),
        [Value::Duration(span)] => {
            span.0.checked_neg().map(|n| Value::Duration(Duration(n))).ok_or_else(overflow)
        }
        [operand] => Err(refuse(operators::NEGATE, operand, matches!(operand, Value::Bool(_)))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(crate) fn add<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (a, b) = pair(args)?;
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_add(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_add(*b).ok_or_else(unsigned_overflow)?),
        (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
        (Value::String(a), Value::String(b)) => {
            let (a, b) = (a.as_str(), b.as_str());
            let mut text = String::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            Value::string(text)
        }
        (Value::Bytes(a), Value::Bytes(b)) => Value::Bytes(a.iter().chain(b.iter()).copied().collect()),
        (Value::List(a), Value::List(b)) => Value::List(a.add(b)?),
        (Value::Duration(a), Value::Duration(b)) => {
            Value::Duration(Duration(a.0.checked_add(b.0).ok_or_else(overflow)?))
        }
        (Value::Duration(span), Value::Timestamp(at)) | (Value::Timestamp(at), Value::Duration(span)) => {
            Value::Timestamp(at.plus(*span)?)
        }
        _ => {
            let for_a = matches!(
                a,
                Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Bytes(_) | Value::List(_)
            );
            return Err(refuse(operators::ADD, a, for_a));
        }
    })
}

pub(super) fn subtract<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (a, b) = pair(args)?;
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_sub(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_sub(*b).ok_or_else(unsigned_overflow)?),
        (Value::Double(a), Value::Double(b)) => Value::Double(a - b),
        (Value::Duration(a), Value::Duration(b)) => {
            Value::Duration(Duration(a.0.checked_sub(b.0).ok_or_else(overflow)?))
        }
        (Value::Timestamp(at), Value::Duration(span)) => {
            Value::Timestamp(at.plus(Duration(span.0.checked_neg().ok_or_else(overflow)?))?)
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => Value::Duration(a.since(*b)?),
        _ => {
            let for_a = matches!(a, Value::Int(_) | Value::Uint(_) | Value::Double(_));
            return Err(refuse(operators::SUBTRACT, a, for_a));
        }
    })
}

pub(super) fn multiply<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (a, b) = pair(args)?;
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_mul(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_mul(*b).ok_or_else(unsigned_overflow)?),
        (Value::Double(a), Value::Double(b)) => Value::Double(a * b),
        _ => {
            let for_a = matches!(a, Value::Int(_) | Value::Uint(_) | Value::Double(_));
            return Err(refuse(operators::MULTIPLY, a, for_a));
        }
    })
}

pub(super) fn divide<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (a, b) = pair(args)?;
    Ok(match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            return Err(EvalError::message("division by zero"));
        }
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_div(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_div(*b).ok_or_else(unsigned_overflow)?),
        (Value::Double(a), Value::Double(b)) => Value::Double(a / b),
        _ => {
            let for_a = matches!(a, Value::Int(_) | Value::Uint(_) | Value::Double(_));
            return Err(refuse(operators::DIVIDE, a, for_a));
        }
    })
}

pub(super) fn modulo<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (a, b) = pair(args)?;
    Ok(match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            return Err(EvalError::message("modulus by zero"));
        }
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_rem(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_rem(*b).ok_or_else(unsigned_overflow)?),
        _ => return Err(refuse(operators::MODULO, a, matches!(a, Value::Int(_) | Value::Uint(_)))),
    })
}

fn ordered<'a>(operator: &str, args: &[Value<'a>], holds: fn(Ordering) -> bool) -> Evaluated<'a> {
    let (a, b) = pair(args)?;
    match a {
        Value::Null
        | Value::List(_)
        | Value::Map(_)
        | Value::Type(_)
        | Value::Optional(_)
        | Value::Opaque(_) => Err(refuse(operator, a, false)),
        _ => Ok(Value::Bool(holds(a.compare(b)?))),
    }
}

pub(super) fn less<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    ordered(operators::LESS, args, Ordering::is_lt)
}

pub(super) fn less_equals<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    ordered(operators::LESS_EQUALS, args, Ordering::is_le)
}

pub(super) fn greater<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    ordered(operators::GREATER, args, Ordering::is_gt)
}

pub(super) fn greater_equals<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    ordered(operators::GREATER_EQUALS, args, Ordering::is_ge)
}

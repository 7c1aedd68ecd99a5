//! Kubernetes' functions on lists (`apiserver/pkg/cel/library/lists.go`, version 1, 1.37).

use std::cmp::Ordering;

use super::arguments::{count, list, same, weigh};
use super::cost::walk;
use super::{Cost, Counted, Function, Functions, Overload};
use crate::types::Type;
use crate::value::{Duration, EvalError, List, Value, Work};

/// The types that can be ordered, in upstream's order.
const ORDERED: [Type; 8] = [
    Type::Int,
    Type::Uint,
    Type::Double,
    Type::Bool,
    Type::Duration,
    Type::Timestamp,
    Type::String,
    Type::Bytes,
];

/// A function on lists of each of these types; `result`, unless it is an item.
fn ordered(name: &'static str, ids: [&'static str; 8], result: Option<Type>, run: Counted) -> Function {
    ORDERED.into_iter().zip(ids).fold(Function::new(name), |function, (of, id)| {
        let result = result.clone().unwrap_or_else(|| of.clone());
        function.overload(Overload::member(id, [Type::list(of)], result).counted(run))
    })
}

pub(super) fn declare(functions: &mut Functions) {
    let sums = |id, of: Type, run: Counted| Overload::member(id, [Type::list(of.clone())], of).counted(run);
    let finds = |name, id, run: Counted| {
        Function::new(name).overload(
            Overload::member(id, [Type::list(Type::Param("A")), Type::Param("A")], Type::Int).counted(run),
        )
    };
    let is_sorted_ids = [
        "list_int_is_sorted_bool",
        "list_uint_is_sorted_bool",
        "list_double_is_sorted_bool",
        "list_bool_is_sorted_bool",
        "list_duration_is_sorted_bool",
        "list_timestamp_is_sorted_bool",
        "list_string_is_sorted_bool",
        "list_bytes_is_sorted_bool",
    ];
    let max_ids = [
        "list_int_max_int",
        "list_uint_max_uint",
        "list_double_max_double",
        "list_bool_max_bool",
        "list_duration_max_duration",
        "list_timestamp_max_timestamp",
        "list_string_max_string",
        "list_bytes_max_bytes",
    ];
    let min_ids = [
        "list_int_min_int",
        "list_uint_min_uint",
        "list_double_min_double",
        "list_bool_min_bool",
        "list_duration_min_duration",
        "list_timestamp_min_timestamp",
        "list_string_min_string",
        "list_bytes_min_bytes",
    ];
    for function in [
        ordered("isSorted", is_sorted_ids, Some(Type::Bool), is_sorted),
        Function::new("sum")
            .overload(sums("list_int_sum_int", Type::Int, |args, work| sum(args, work, Value::Int(0))))
            .overload(sums("list_uint_sum_uint", Type::Uint, |args, work| sum(args, work, Value::Uint(0))))
            .overload(sums("list_double_sum_double", Type::Double, |args, work| {
                sum(args, work, Value::Double(0.0))
            }))
            .overload(sums("list_duration_sum_duration", Type::Duration, |args, work| {
                sum(args, work, Value::Duration(Duration(0)))
            })),
        ordered("max", max_ids, None, |args, work| most(args, work, "max", Ordering::Less)),
        ordered("min", min_ids, None, |args, work| most(args, work, "min", Ordering::Greater)),
        finds("indexOf", "list_a_index_of_int", index_of),
        finds("lastIndexOf", "list_a_last_index_of_int", last_index_of),
        Function::new("includes").overload(
            Overload::member("list_includes_dyn_dyn", [Type::Dyn, Type::Dyn], Type::Bool).counted(includes),
        ),
    ] {
        functions.add(function.cost(Cost::Of(walk)));
    }
}

/// Returns true if a value can be ordered with others of its type (`traits.Comparer`).
pub(super) fn is_ordered(value: &Value<'_>) -> bool {
    use Value as V;
    matches!(
        value,
        V::Bool(_)
            | V::Int(_)
            | V::Uint(_)
            | V::Double(_)
            | V::String(_)
            | V::Bytes(_)
            | V::Duration(_)
            | V::Timestamp(_)
    )
}

/// Neighbours that cannot be compared are in order.
fn is_sorted<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let mut before: Option<Value<'a>> = None;
    for item in walked(args, work)?.iter() {
        let item = item?;
        if !is_ordered(&item) {
            return Err(EvalError::NoSuchOverload);
        }
        if before.is_some_and(|before| before.compare(&item) == Ok(Ordering::Greater)) {
            return Ok(Value::Bool(false));
        }
        before = Some(item);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(args: &[Value<'a>], work: &mut Work, mut sum: Value<'a>) -> Result<Value<'a>, EvalError> {
    let overflow = |what: &str| EvalError::message(format!("{what} overflow"));
    for item in walked(args, work)?.iter() {
        sum = match (&sum, item?) {
            (Value::Int(a), Value::Int(b)) => {
                Value::Int(a.checked_add(b).ok_or_else(|| overflow("integer"))?)
            }
            (Value::Uint(a), Value::Uint(b)) => {
                Value::Uint(a.checked_add(b).ok_or_else(|| overflow("unsigned integer"))?)
            }
            (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
            (Value::Duration(a), Value::Duration(b)) => {
                let sum = a.0.checked_add(b.0).ok_or_else(|| overflow("duration"))?;
                Value::Duration(Duration(sum))
            }
            _ => return Err(EvalError::NoSuchOverload),
        };
    }
    Ok(sum)
}

/// The first item to which no later one is preferred; `than` is how a replaced item compares to its replacement.
fn most<'a>(args: &[Value<'a>], work: &mut Work, name: &str, than: Ordering) -> Result<Value<'a>, EvalError> {
    let mut most: Option<Value<'a>> = None;
    for item in walked(args, work)?.iter() {
        let item = item?;
        if !is_ordered(&item) {
            return Err(EvalError::NoSuchOverload);
        }
        if most.as_ref().is_none_or(|most| most.compare(&item) == Ok(than)) {
            most = Some(item);
        }
    }
    most.ok_or_else(|| EvalError::message(format!("{name} called on empty list")))
}

fn index_of<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let (list, wanted) = (walked(args, work)?, args.get(1).ok_or(EvalError::NoSuchOverload)?);
    Ok(Value::Int(first_of(list, 0..list.len(), wanted, work)?.map_or(-1, count)))
}

fn last_index_of<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let (list, wanted) = (walked(args, work)?, args.get(1).ok_or(EvalError::NoSuchOverload)?);
    Ok(Value::Int(first_of(list, (0..list.len()).rev(), wanted, work)?.map_or(-1, count)))
}

/// The list, all of which the call will be charged for.
fn walked<'v, 'a>(args: &'v [Value<'a>], work: &mut Work) -> Result<&'v List<'a>, EvalError> {
    let list = list(args, 0)?;
    args.first().map_or(Ok(()), |value| weigh(value, work))?;
    Ok(list)
}

/// The first of the places that has a value.
fn first_of(
    list: &List<'_>,
    places: impl Iterator<Item = usize>,
    wanted: &Value<'_>,
    work: &mut Work,
) -> Result<Option<usize>, EvalError> {
    for place in places {
        if let Some(Ok(item)) = list.get(place)
            && same(&item, wanted, work)?
        {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// Returns true if a list contains a value; a target that is no list counts as a list of itself.
fn includes<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let (Some(target), Some(wanted)) = (args.first(), args.get(1)) else {
        return Err(EvalError::NoSuchOverload);
    };
    weigh(target, work)?;
    Ok(Value::Bool(match target {
        Value::List(list) => first_of(list, 0..list.len(), wanted, work)?.is_some(),
        other => same(other, wanted, work)?,
    }))
}

//! cel-go's functions on lists (`ext/lists.go`, version 3), with those behind the macro `sortBy`.

use std::cmp::Ordering;

use super::arguments::{count, int, items, list, quadratic, same};
use super::cost::size_at;
use super::lists::is_ordered;
use super::{Cost, Function, Functions, Overload, Run};
use crate::library::standard::refuse;
use crate::types::Type;
use crate::value::{EvalError, List, Value, Work};

const T: Type = Type::Param("T");

/// The longest list that `lists.range` makes (`defaultMaxRangeSize`), and that `flatten` does.
const LENGTH_MAX: usize = 1_000_000;

pub(super) fn declare(functions: &mut Functions) {
    let list_of = Type::list;
    let by_result = Cost::Of(|_, result| allocated(result.cost_size()));
    for function in [
        Function::new("slice").overload(
            Overload::member("list_slice", [list_of(T), Type::Int, Type::Int], list_of(T))
                .run(slice)
                .cost(by_result),
        ),
        Function::new("flatten")
            .unguarded()
            .overload(
                Overload::member("list_flatten", [list_of(list_of(T))], list_of(T))
                    .counted(flatten)
                    .cost(Cost::Of(cost_of_flatten)),
            )
            .overload(
                Overload::member("list_flatten_int", [list_of(Type::Dyn), Type::Int], list_of(Type::Dyn))
                    .counted(flatten)
                    .cost(Cost::Of(cost_of_flatten)),
            ),
        sort(),
        sort_by_keys(),
        Function::new("lists.range").overload(
            Overload::global("lists_range", [Type::Int], list_of(Type::Int)).run(range).cost(by_result),
        ),
        Function::new("reverse").overload(
            Overload::member("list_reverse", [list_of(T)], list_of(T)).run(reverse).cost(by_result),
        ),
        Function::new("distinct").overload(
            Overload::member("list_distinct", [list_of(T)], list_of(T))
                .counted(distinct)
                .cost(Cost::Of(|args, _| cost_of_comparisons(args, 0))),
        ),
    ] {
        functions.add(function);
    }
}

/// Each type that can be ordered, with the ids of its overloads.
fn ordered() -> [(Type, &'static str, &'static str); 8] {
    [
        (Type::Int, "list_int_sort", "list_int_sortByAssociatedKeys"),
        (Type::Uint, "list_uint_sort", "list_uint_sortByAssociatedKeys"),
        (Type::Double, "list_double_sort", "list_double_sortByAssociatedKeys"),
        (Type::Bool, "list_bool_sort", "list_bool_sortByAssociatedKeys"),
        (
            Type::Duration,
            "list_google.protobuf.Duration_sort",
            "list_google.protobuf.Duration_sortByAssociatedKeys",
        ),
        (
            Type::Timestamp,
            "list_google.protobuf.Timestamp_sort",
            "list_google.protobuf.Timestamp_sortByAssociatedKeys",
        ),
        (Type::String, "list_string_sort", "list_string_sortByAssociatedKeys"),
        (Type::Bytes, "list_bytes_sort", "list_bytes_sortByAssociatedKeys"),
    ]
}

fn sort() -> Function {
    let run: Run = |args| match args {
        [Value::List(list)] => sorted(list, list),
        [other] => Err(refuse("sort", other, false)),
        _ => Err(EvalError::NoSuchOverload),
    };
    ordered().into_iter().fold(Function::new("sort").singleton(run), |function, (of, id, _)| {
        let cost = Cost::Of(|args, _| cost_of_comparisons(args, 0));
        function.overload(Overload::member(id, [Type::list(of.clone())], Type::list(of)).cost(cost))
    })
}

fn sort_by_keys() -> Function {
    let run: Run = |args| match args {
        [Value::List(list), Value::List(keys)] => sorted(list, keys),
        [other, _] => Err(refuse("@sortByAssociatedKeys", other, matches!(other, Value::List(_)))),
        _ => Err(EvalError::NoSuchOverload),
    };
    ordered().into_iter().fold(
        Function::new("@sortByAssociatedKeys").singleton(run),
        |function, (by, _, id)| {
            let cost = Cost::Of(|args, _| cost_of_comparisons(args, 1));
            function.overload(Overload::member(id, [Type::list(T), Type::list(by)], Type::list(T)).cost(cost))
        },
    )
}

/// `trackAllocatingListCall`: the cost of the call, of the new list, and of the work on it.
fn allocated(work: u64) -> u64 {
    work.saturating_add(1 + 10)
}

/// By the depth, and the length of the outermost list. Upstream multiplies doubles.
fn cost_of_flatten(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    let depth = if args.len() > 1 { int(args, 1).unwrap_or(1) } else { 1 };
    allocated(size_at(args, 0).saturating_mul(u64::try_from(depth).unwrap_or(1)))
}

/// The cost of comparing all items with each other, two for each pair, and a tenth more for strings and bytes.
fn cost_of_comparisons(args: &[Value<'_>], at: usize) -> u64 {
    let size = size_at(args, at);
    let pairs = size.saturating_mul(size);
    let texts = matches!(
        list(args, at).ok().and_then(|list| list.get(0)),
        Some(Ok(Value::String(_) | Value::Bytes(_)))
    );
    let extra = if texts { pairs / 10 } else { 0 };
    allocated(pairs.saturating_mul(2).saturating_add(extra))
}

fn slice<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (list, start, end) = (list(args, 0)?, int(args, 1)?, int(args, 2)?);
    let refuse = |why: String| Err(EvalError::message(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return refuse("negative indexes not supported".to_owned());
    };
    if from > to {
        return refuse("start index must be less than or equal to end index".to_owned());
    }
    if list.len() < to {
        return refuse(format!("list is length {}", list.len()));
    }
    let part: Result<Vec<_>, _> = (from..to).filter_map(|at| list.get(at)).collect();
    Ok(Value::list(part?))
}

/// With a second argument, so many levels deep, else one. Without recursion, since lists nest as deep as objects do.
fn flatten<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    if !matches!(args.first(), Some(Value::List(_))) {
        let types = args.iter().map(|value| match value {
            Value::Map(_) => "map(dyn, dyn)",
            Value::Optional(_) => "optional_type(dyn)",
            other => other.type_name(),
        });
        let types: Vec<_> = types.collect();
        let (target, rest) = types.split_first().unwrap_or((&"", &[]));
        return Err(EvalError::message(format!("no such overload: {target}.flatten({})", rest.join(", "))));
    }
    let depth = if args.len() > 1 { int(args, 1)? } else { 1 };
    let Ok(depth) = usize::try_from(depth) else {
        return Err(EvalError::message("level must be non-negative"));
    };
    let mut flat = Vec::new();
    let mut open: Vec<(List<'a>, usize)> = vec![(list(args, 0)?.clone(), 0)];
    while let Some((list, next)) = open.pop() {
        work.spend(1)?;
        let Some(item) = list.get(next) else { continue };
        open.push((list, next + 1));
        match item? {
            Value::List(inner) if open.len() <= depth => open.push((inner, 0)),
            item => flat.push(item),
        }
        if flat.len() > LENGTH_MAX {
            return Err(EvalError::message(format!("flatten: size exceeds maximum allowed ({LENGTH_MAX})")));
        }
    }
    Ok(Value::list(flat))
}

fn range<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let n = int(args, 0)?;
    if n < 0 {
        return Err(EvalError::message(format!("lists.range: size must be non-negative, got {n}")));
    }
    if n > count(LENGTH_MAX) {
        return Err(EvalError::message(format!(
            "lists.range: size {n} exceeds maximum allowed ({LENGTH_MAX})"
        )));
    }
    Ok((0..n).map(Value::Int).collect())
}

fn reverse<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let mut items = items(args, 0)?;
    items.reverse();
    Ok(Value::list(items))
}

fn distinct<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let list = list(args, 0)?;
    quadratic(list.len(), list.len())?;
    let mut kept: Vec<Value<'a>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        let mut seen = false;
        for other in &kept {
            seen = seen || same(&item, other, work)?;
        }
        if !seen {
            kept.push(item);
        }
    }
    Ok(Value::list(kept))
}

/// The list in the order of its keys, which are all of one type. Equal items stay in order, which upstream promises for up
/// to twelve items only.
fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Result<Value<'a>, EvalError> {
    if list.len() != keys.len() {
        return Err(EvalError::message(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let items = list.iter().collect::<Result<Vec<_>, _>>()?;
    let keys = keys.iter().collect::<Result<Vec<_>, _>>()?;
    let Some(first) = keys.first() else { return Ok(Value::List(list.clone())) };
    if !is_ordered(first) {
        return Err(EvalError::message("list elements must be comparable"));
    }
    if keys.iter().any(|key| std::mem::discriminant(key) != std::mem::discriminant(first)) {
        return Err(EvalError::message("list elements must have the same type"));
    }
    let pairs = keys.into_iter().zip(items).collect();
    Ok(merge_sorted(pairs).into_iter().map(|(_, item)| item).collect())
}

type Pair<'a> = (Value<'a>, Value<'a>);

fn before(a: &Pair<'_>, b: &Pair<'_>) -> bool {
    a.0.compare(&b.0) == Ok(Ordering::Less)
}

/// Up to this many items Go sorts by insertion.
const FEW: usize = 12;

/// NaN comes neither before nor after anything, so this is no order that the standard library would sort by.
fn merge_sorted(mut pairs: Vec<Pair<'_>>) -> Vec<Pair<'_>> {
    if pairs.len() <= FEW {
        for end in 1..pairs.len() {
            let mut at = end;
            while at > 0
                && let (Some(b), Some(a)) = (pairs.get(at), pairs.get(at - 1))
                && before(b, a)
            {
                pairs.swap(at, at - 1);
                at -= 1;
            }
        }
        return pairs;
    }
    let right = merge_sorted(pairs.split_off(pairs.len() / 2));
    let left = merge_sorted(pairs);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        let next = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if before(b, a) => right.next(),
            (Some(_), _) => left.next(),
            (None, _) => right.next(),
        };
        match next {
            Some(next) => merged.push(next),
            None => return merged,
        }
    }
}

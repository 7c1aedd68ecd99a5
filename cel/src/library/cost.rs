//! The cost of calls of the libraries (`apiserver/pkg/cel/library/cost.go`, `CallCost`, 1.37).

use crate::value::Value;

/// `actualSize` of an argument: code points, bytes, items or entries, the size that a library's value has, else 1. The
/// language's own functions look into an optional value, those of libraries do not.
pub(super) fn size_at(args: &[Value<'_>], at: usize) -> u64 {
    match args.get(at) {
        None | Some(Value::Optional(_)) => 1,
        Some(value) => value.cost_size(),
    }
}

/// The traversal of a string: a tenth, rounded up. A tenth is exact enough in doubles to be the same there.
pub(super) fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

/// A traversal of the first argument.
pub(super) fn traverse(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    tenth(size_at(args, 0))
}

/// A traversal of the first argument, and one to build the result.
pub(super) fn traverse_twice(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    tenth(size_at(args, 0).saturating_mul(2))
}

/// A regular expression of a length over a string.
pub(super) fn search(string: u64, expression: u64) -> u64 {
    tenth(string.saturating_add(1)).saturating_mul(expression.div_ceil(4))
}

/// `traversalCost`: a walk over all that is in the first argument.
pub(super) fn walk(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    let mut steps = WALK_MAX;
    args.first().map_or(0, |value| walk_value(value, &mut steps))
}

/// The most values that a walk counts; more cost more than anything may.
const WALK_MAX: u64 = 10_000_000;

fn walk_value(value: &Value<'_>, steps: &mut u64) -> u64 {
    let Some(left) = steps.checked_sub(1) else { return u64::MAX };
    *steps = left;
    let mut sum = 0_u64;
    match value {
        Value::String(text) => sum = bytes_walk(text.as_str().len()),
        Value::Bytes(bytes) => sum = bytes_walk(bytes.len()),
        Value::List(list) => {
            for item in list.iter() {
                sum = sum.saturating_add(item.as_ref().map_or(1, |item| walk_value(item, steps)));
                if sum == u64::MAX {
                    break;
                }
            }
        }
        Value::Map(map) => {
            for (key, value) in map.iter() {
                sum = sum.saturating_add(walk_value(&key, steps));
                sum = sum.saturating_add(value.as_ref().map_or(1, |value| walk_value(value, steps)));
                if sum == u64::MAX {
                    break;
                }
            }
        }
        _ => sum = 1,
    }
    sum
}

/// Of bytes, also where the size counts code points, and rounded down.
fn bytes_walk(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX) / 10
}

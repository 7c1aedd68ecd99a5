//! Lists as sets (cel-go `ext/sets.go`).

use super::arguments::{list, quadratic};
use super::cost::size_at;
use super::{Cost, Function, Functions, Overload, Run};
use crate::types::Type;
use crate::value::{EvalError, List, Value};

pub(super) fn declare(functions: &mut Functions) {
    let of = || Type::list(Type::Param("T"));
    let function = |name, id, run: Run, cost| {
        Function::new(name).overload(Overload::global(id, [of(), of()], Type::Bool).run(run).cost(cost))
    };
    let once = Cost::Of(|args, _| pairs(args).saturating_add(1));
    let twice = Cost::Of(|args, _| pairs(args).saturating_mul(2).saturating_add(1));
    functions.add(function("sets.contains", "list_sets_contains_list", contains, once));
    functions.add(function("sets.equivalent", "list_sets_equivalent_list", equivalent, twice));
    functions.add(function("sets.intersects", "list_sets_intersects_list", intersects, once));
}

fn pairs(args: &[Value<'_>]) -> u64 {
    size_at(args, 0).saturating_mul(size_at(args, 1))
}

/// Both lists, unless a comparison of all with all would cost more than any call may.
fn both<'v, 'a>(args: &'v [Value<'a>]) -> Result<(&'v List<'a>, &'v List<'a>), EvalError> {
    let (a, b) = (list(args, 0)?, list(args, 1)?);
    quadratic(a.len(), b.len())?;
    Ok((a, b))
}

fn has_all(list: &List<'_>, wanted: &List<'_>) -> Result<bool, EvalError> {
    for item in wanted.iter() {
        if !list.contains(&item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (a, b) = both(args)?;
    Ok(Value::Bool(has_all(a, b)?))
}

fn equivalent<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (a, b) = both(args)?;
    Ok(Value::Bool(has_all(a, b)? && has_all(b, a)?))
}

/// Items that cannot be compared are in no list.
fn intersects<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (a, b) = both(args)?;
    let common = a.iter().any(|item| item.is_ok_and(|item| b.contains(&item).unwrap_or(false)));
    Ok(Value::Bool(common))
}

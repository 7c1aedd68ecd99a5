//! Lists as sets (cel-go `ext/sets.go`).

use super::arguments::{list, quadratic};
use super::cost::size_at;
use super::{Cost, Counted, Function, Functions, Overload};
use crate::types::Type;
use crate::value::{EvalError, List, Value, Work};

pub(super) fn declare(functions: &mut Functions) {
    let list = || Type::list(Type::Param("T"));
    let function = |name, id, run: Counted, cost| {
        Function::new(name)
            .overload(Overload::global(id, [list(), list()], Type::Bool).counted(run).cost(cost))
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

fn has_all(list: &List<'_>, wanted: &List<'_>, work: &mut Work) -> Result<bool, EvalError> {
    for item in wanted.iter() {
        work.spend(1)?;
        if !list.contains_within(&item?, work)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let (a, b) = both(args)?;
    Ok(Value::Bool(has_all(a, b, work)?))
}

fn equivalent<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let (a, b) = both(args)?;
    Ok(Value::Bool(has_all(a, b, work)? && has_all(b, a, work)?))
}

/// Items that cannot be compared are in no list.
fn intersects<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let (a, b) = both(args)?;
    for item in a.iter() {
        work.spend(1)?;
        let Ok(item) = item else { continue };
        match b.contains_within(&item, work) {
            Ok(true) => return Ok(Value::Bool(true)),
            Err(error) if error.ends() => return Err(error),
            _ => {}
        }
    }
    Ok(Value::Bool(false))
}

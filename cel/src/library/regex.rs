//! `'abc'.find('b.')` (`apiserver/pkg/cel/library/regex.go`, 1.37).

use kindom_formats::Pattern;
use kindom_formats::pattern::Failure;

use super::arguments::{int, text};
use super::cost::{search, size_at};
use super::{Cost, Function, Functions, Overload};
use crate::types::Type;
use crate::value::{EvalError, Value, Work};

pub(super) fn declare(functions: &mut Functions) {
    functions.add(find_function("find"));
    functions.add(find_all_function("findAll"));
    functions.add(find_function(FIND_CONSTANT).unguarded());
    functions.add(find_all_function(FIND_ALL_CONSTANT).unguarded());
}

/// `find` of an expression that is constant: upstream gives such a call another meaning, which no overload guards
/// (`FindRegexOptimization`).
const FIND_CONSTANT: &str = "@find";
/// `findAll`, likewise.
const FIND_ALL_CONSTANT: &str = "@findAll";

/// The name of the function that is called instead of this one where the expression is constant.
pub(crate) fn of_constant(function: &str) -> &str {
    match function {
        "find" => FIND_CONSTANT,
        "findAll" => FIND_ALL_CONSTANT,
        other => other,
    }
}

fn find_function(name: &'static str) -> Function {
    Function::new(name)
        .overload(
            Overload::member("string_find_string", [Type::String, Type::String], Type::String).counted(find),
        )
        .cost(Cost::Of(cost))
}

fn find_all_function(name: &'static str) -> Function {
    let strings = || Type::list(Type::String);
    Function::new(name)
        .overload(
            Overload::member("string_find_all_string", [Type::String, Type::String], strings())
                .counted(find_all),
        )
        .overload(
            Overload::member(
                "string_find_all_string_int",
                [Type::String, Type::String, Type::Int],
                strings(),
            )
            .counted(find_all),
        )
        .cost(Cost::Of(cost))
}

fn cost(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    search(size_at(args, 0), size_at(args, 1))
}

fn illegal(why: Failure<'_>) -> EvalError {
    match why {
        Failure::Invalid(why) => EvalError::message(format!("Illegal regex: {why}")),
        Failure::TooLong => EvalError::CostExceeded,
    }
}

/// `true` if an expression matches, which comes with a value or was compiled before (`matches`).
pub(crate) fn matches(pattern: &Pattern, text: &str, work: &mut Work) -> Result<bool, EvalError> {
    pattern.matches_within(text, &mut work.patterns).map_err(|why| match why {
        Failure::Invalid(why) => EvalError::message(why),
        Failure::TooLong => EvalError::CostExceeded,
    })
}

fn find<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let pattern = Pattern::recent(text(args, 1)?);
    let found = pattern.find_within(text(args, 0)?, &mut work.patterns).map_err(illegal)?;
    Ok(Value::string(found.unwrap_or_default()))
}

/// With a limit if it is not negative.
fn find_all<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let limit =
        if args.len() > 2 { usize::try_from(int(args, 2)?).unwrap_or(usize::MAX) } else { usize::MAX };
    let pattern = Pattern::recent(text(args, 1)?);
    let found = pattern.find_all_within(text(args, 0)?, limit, &mut work.patterns).map_err(illegal)?;
    Ok(found.into_iter().map(Value::string).collect())
}

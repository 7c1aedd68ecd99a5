//! Functions on strings (cel-go `ext/strings.go`, version 2).

use super::arguments::{BYTES_PER_STEP, RESULT_BYTES_MAX, count, int, list, part, text};
use super::cost::{tenth, traverse, traverse_twice, walk};
use super::{Cost, Function, Functions, Overload, string_format};
use crate::types::Type;
use crate::value::{EvalError, Value, Work};

pub(super) fn declare(functions: &mut Functions) {
    use Type::{Int, String};
    let strings = || Type::list(String);
    for function in [
        Function::new("charAt")
            .overload(Overload::member("string_char_at_int", [String, Int], String).run(char_at)),
        Function::new("indexOf")
            .overload(Overload::member("string_index_of_string", [String, String], Int).run(index_of))
            .overload(
                Overload::member("string_index_of_string_int", [String, String, Int], Int).run(index_of),
            )
            .cost(Cost::Of(walk)),
        Function::new("lastIndexOf")
            .overload(
                Overload::member("string_last_index_of_string", [String, String], Int).run(last_index_of),
            )
            .overload(
                Overload::member("string_last_index_of_string_int", [String, String, Int], Int)
                    .run(last_index_of),
            )
            .cost(Cost::Of(walk)),
        Function::new("lowerAscii")
            .overload(
                Overload::member("string_lower_ascii", [String], String)
                    .run(|args| Ok(Value::string(text(args, 0)?.to_ascii_lowercase()))),
            )
            .cost(Cost::Of(traverse)),
        Function::new("replace")
            .overload(
                Overload::member("string_replace_string_string", [String, String, String], String)
                    .counted(replace),
            )
            .overload(
                Overload::member("string_replace_string_string_int", [String, String, String, Int], String)
                    .counted(replace),
            )
            .cost(Cost::Of(traverse_twice)),
        Function::new("split")
            .overload(Overload::member("string_split_string", [String, String], strings()).run(split))
            .overload(
                Overload::member("string_split_string_int", [String, String, Int], strings()).run(split),
            )
            .cost(Cost::Of(traverse_twice)),
        Function::new("substring")
            .overload(Overload::member("string_substring_int", [String, Int], String).run(substring))
            .overload(Overload::member("string_substring_int_int", [String, Int, Int], String).run(substring))
            .cost(Cost::Of(traverse)),
        Function::new("trim")
            .overload(Overload::member("string_trim", [String], String).run(trim))
            .cost(Cost::Of(traverse)),
        Function::new("upperAscii")
            .overload(
                Overload::member("string_upper_ascii", [String], String)
                    .run(|args| Ok(Value::string(text(args, 0)?.to_ascii_uppercase()))),
            )
            .cost(Cost::Of(traverse)),
        Function::new("format").overload(
            Overload::member("string_format", [String, Type::list(Type::Dyn)], String)
                .counted(string_format::run)
                .cost(Cost::Of(traverse)),
        ),
        Function::new("strings.quote").overload(
            Overload::global("strings_quote", [String], String).run(quote).cost(Cost::Of(traverse)),
        ),
        Function::new("join")
            .overload(Overload::member("list_join", [strings()], String).counted(join))
            .overload(Overload::member("list_join_string", [strings(), String], String).counted(join))
            .cost(Cost::Of(|_, result| tenth(result.cost_size().saturating_mul(2)))),
    ] {
        functions.add(function);
    }
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::message(format!("index out of range: {index}"))
}

/// The byte offset of a code point; the end of the text for the one behind the last.
fn offset(text: &str, point: usize) -> Option<usize> {
    if text.is_ascii() {
        return (point <= text.len()).then_some(point);
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(point)
}

fn points(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

fn char_at<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (text, index) = (text(args, 0)?, int(args, 1)?);
    let from = usize::try_from(index).ok().and_then(|index| offset(text, index));
    let from = from.ok_or_else(|| out_of_range(index))?;
    let len = text.get(from..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
    part(args, 0, from, from + len)
}

/// With a third argument, from that code point on.
fn index_of<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (whole, wanted) = (text(args, 0)?, text(args, 1)?);
    let from = if args.len() > 2 { int(args, 2)? } else { 0 };
    let Ok(start) = usize::try_from(from) else { return Err(out_of_range(from)) };
    if wanted.is_empty() {
        return Ok(Value::Int(from.min(count(points(whole)))));
    }
    let found = offset(whole, start).and_then(|at| Some((at, whole.get(at..)?.find(wanted)?)));
    Ok(Value::Int(found.map_or(-1, |(at, found)| count(points(whole.get(..at + found).unwrap_or_default())))))
}

/// With a third argument, up to a match that begins at that code point.
fn last_index_of<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (whole, wanted) = (text(args, 0)?, text(args, 1)?);
    let len = points(whole);
    let last = if args.len() > 2 { Some(int(args, 2)?) } else { None };
    if let Some(last) = last
        && last < 0
    {
        return Err(out_of_range(last));
    }
    if wanted.is_empty() {
        return Ok(Value::Int(last.unwrap_or(i64::MAX).min(count(len))));
    }
    let mut searched = whole;
    if let Some(last) = last {
        let Some(at) =
            usize::try_from(last).ok().filter(|last| *last < len).and_then(|last| offset(whole, last))
        else {
            return Ok(Value::Int(-1));
        };
        // A match that begins there may go on beyond it.
        searched = whole.get(..whole.floor_char_boundary(at + wanted.len())).unwrap_or(whole);
    }
    let found = searched.rfind(wanted);
    Ok(Value::Int(found.map_or(-1, |at| count(points(whole.get(..at).unwrap_or_default())))))
}

/// Bounded, since a short text with a long replacement between all characters is a very long one.
fn replace<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let (whole, old, new) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
    let limit =
        if args.len() > 3 { usize::try_from(int(args, 3)?).unwrap_or(usize::MAX) } else { usize::MAX };
    let mut made = String::new();
    let mut rest = 0;
    let mut matches = whole.match_indices(old).take(limit).peekable();
    if matches.peek().is_none() {
        return part(args, 0, 0, whole.len());
    }
    for (at, found) in matches {
        made.push_str(whole.get(rest..at).unwrap_or_default());
        made.push_str(new);
        rest = at + found.len();
        if made.len() > RESULT_BYTES_MAX {
            work.spend(made.len() / BYTES_PER_STEP)?;
            return Err(too_long());
        }
    }
    made.push_str(whole.get(rest..).unwrap_or_default());
    work.spend(made.len() / BYTES_PER_STEP)?;
    Ok(Value::string(made))
}

pub(super) fn too_long() -> EvalError {
    EvalError::message(format!("the result is longer than {RESULT_BYTES_MAX} bytes"))
}

/// With a third argument, into at most so many parts, if it is not negative.
fn split<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (whole, by) = (text(args, 0)?, text(args, 1)?);
    let limit =
        if args.len() > 2 { usize::try_from(int(args, 2)?).unwrap_or(usize::MAX) } else { usize::MAX };
    let mut parts = Vec::new();
    if limit == 0 {
        return Ok(Value::list(parts));
    }
    let mut from = 0;
    if by.is_empty() {
        for (at, _) in whole.char_indices().skip(1).take(limit - 1) {
            parts.push(part(args, 0, from, at)?);
            from = at;
        }
        if whole.is_empty() {
            return Ok(Value::list(parts));
        }
    } else {
        for (at, found) in whole.match_indices(by).take(limit - 1) {
            parts.push(part(args, 0, from, at)?);
            from = at + found.len();
        }
    }
    parts.push(part(args, 0, from, whole.len())?);
    Ok(Value::list(parts))
}

fn substring<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (text, from) = (text(args, 0)?, int(args, 1)?);
    let to = if args.len() > 2 { Some(int(args, 2)?) } else { None };
    if let Some(to) = to
        && from > to
    {
        return Err(EvalError::message(format!("invalid substring range. start: {from}, end: {to}")));
    }
    let at = |index: i64| {
        usize::try_from(index).ok().and_then(|index| offset(text, index)).ok_or_else(|| out_of_range(index))
    };
    let start = at(from)?;
    part(args, 0, start, to.map_or(Ok(text.len()), at)?)
}

/// Go's white space, which is Unicode's as Rust has it.
fn trim<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let whole = text(args, 0)?;
    let from = whole.len() - whole.trim_start().len();
    let to = from + whole.trim().len();
    part(args, 0, from, to)
}

/// In quotes, with the escapes of CEL.
fn quote<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let text = text(args, 0)?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        let escaped = match c {
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{b}' => 'v',
            '\\' | '"' => c,
            _ => {
                quoted.push(c);
                continue;
            }
        };
        quoted.extend(['\\', escaped]);
    }
    quoted.push('"');
    Ok(Value::string(quoted))
}

fn join<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let by = if args.len() > 1 { text(args, 1)? } else { "" };
    let mut joined = String::new();
    for (i, item) in list(args, 0)?.iter().enumerate() {
        if i > 0 {
            joined.push_str(by);
        }
        let item = item?;
        let Some(text) = item.as_str() else {
            return Err(EvalError::message(format!("join: invalid input: {item}")));
        };
        joined.push_str(text);
        // Also of a text that becomes too long: something may absorb that error.
        work.spend((by.len() + text.len()) / BYTES_PER_STEP)?;
        if joined.len() > RESULT_BYTES_MAX {
            return Err(too_long());
        }
    }
    Ok(Value::string(joined))
}

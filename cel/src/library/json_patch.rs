//! `jsonpatch.escapeKey('a/b')` (`apiserver/pkg/cel/library/jsonpatch.go`, 1.37).

use super::arguments::text;
use super::cost::traverse;
use super::{Cost, Function, Functions, Overload};
use crate::types::Type;
use crate::value::{EvalError, Value};

pub(super) fn declare(functions: &mut Functions) {
    let id = "string_jsonpatch_escapeKey_string";
    let escape = Overload::global(id, [Type::String], Type::String).run(escape_key);
    functions.add(Function::new("jsonpatch.escapeKey").overload(escape).cost(Cost::Of(traverse)));
}

fn escape_key<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::string(text(args, 0)?.replace('~', "~0").replace('/', "~1")))
}

//! The function behind `transformMap` and `transformMapEntry` (cel-go `ext/comprehensions.go`).

use std::sync::Arc;

use super::{Function, Functions, Overload};
use crate::types::Type;
use crate::value::{Entries, EvalError, Map, Value, Work};

/// The work of copying an entry, in comparisons of two.
const ENTRY_WORK: usize = 8;

pub(super) fn declare(functions: &mut Functions) {
    let (key, value) = (Type::Param("K"), Type::Param("V"));
    let map = Type::map(key.clone(), value.clone());
    functions.add(
        Function::new("cel.@mapInsert")
            .overload(
                Overload::global("@mapInsert_map_key_value", [map.clone(), key, value], map.clone())
                    .counted(insert),
            )
            .overload(
                Overload::global("@mapInsert_map_map", [map.clone(), map.clone()], map).counted(insert_all),
            ),
    );
}

fn map<'v, 'a>(args: &'v [Value<'a>], at: usize) -> Result<&'v Map<'a>, EvalError> {
    match args.get(at) {
        Some(Value::Map(map)) => Ok(map),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Its entries, to add to.
fn entries<'a>(map: &Map<'a>, work: &mut Work) -> Result<Entries<'a>, EvalError> {
    work.spend(ENTRY_WORK * map.len())?;
    match map {
        Map::Owned(entries) => Ok((**entries).clone()),
        Map::Tree(..) => map.iter().map(|(key, value)| Ok((key, value?))).collect(),
    }
}

/// Adds an entry, whose key has to be new.
pub(crate) fn put<'a>(entries: &mut Entries<'a>, key: Value<'a>, value: Value<'a>) -> Result<(), EvalError> {
    if entries.get(&key).is_some() {
        return Err(EvalError::message(format!("insert failed: key {key} already exists")));
    }
    entries.insert(key, value);
    Ok(())
}

fn insert<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let (Some(key), Some(value)) = (args.get(1), args.get(2)) else { return Err(EvalError::NoSuchOverload) };
    let mut entries = entries(map(args, 0)?, work)?;
    put(&mut entries, key.clone(), value.clone())?;
    Ok(Value::Map(Map::Owned(Arc::new(entries))))
}

fn insert_all<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    let mut entries = entries(map(args, 0)?, work)?;
    for (key, value) in map(args, 1)?.iter() {
        put(&mut entries, key, value?)?;
    }
    Ok(Value::map(entries))
}

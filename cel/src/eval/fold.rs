//! Comprehensions (cel-go `evalFold`).

use crate::eval::run::{Frame, Local};
use crate::eval::{Condition, Fold, Node};
use crate::shape::ShapeKind;
use crate::value::{EvalError, List, Map, Value, item_shape};

impl<'a> Frame<'a, '_> {
    #[inline(never)]
    pub(super) fn fold(&mut self, fold: u32) -> Result<Value<'a>, EvalError> {
        let program = self.program();
        let Some(fold) = program.folds.get(fold as usize) else { return Err(EvalError::NoSuchOverload) };
        let range = self.exec(fold.range)?;
        let init = match program.node(fold.init) {
            Node::Constant(constant) => Local::Set(Ok(program.constant(*constant))),
            // The accumulator's start is evaluated only if it is read.
            _ => Local::Lazy(fold.init),
        };
        self.set_local(fold.accumulator, init);
        match &range {
            Value::List(List::Tree(items, shape)) if fold.second.is_none() => {
                let items_shape = item_shape(*shape);
                for item in *items {
                    if !self.step(fold, Value::of(item, items_shape), None)? {
                        break;
                    }
                }
            }
            Value::List(list) => {
                for i in 0..list.len() {
                    let Some(item) = list.get(i) else { break };
                    let more = match fold.second {
                        None => self.step(fold, item, None)?,
                        Some(_) => {
                            let index = Value::Int(i64::try_from(i).unwrap_or(i64::MAX));
                            self.step(fold, Ok(index), Some(item))?
                        }
                    };
                    if !more {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for i in 0..map.len() {
                    let Some((key, value)) = map.entry(i) else { continue };
                    let second = fold.second.map(|_| value);
                    if !self.step(fold, Ok(key), second)? {
                        break;
                    }
                }
            }
            other => {
                let go = go_type(other);
                return Err(EvalError::Message(match fold.second {
                    None => format!("got '{go}', expected iterable type"),
                    Some(_) => format!("unsupported comprehension range type: {go}"),
                }));
            }
        }
        let result = self.exec(fold.result);
        self.set_local(fold.accumulator, Local::Unset);
        result
    }

    /// The accumulator, if it is a bool.
    fn accumulator(&mut self, local: u32) -> Result<Option<bool>, EvalError> {
        match self.locals.get(local as usize) {
            Some(Local::Set(Ok(Value::Bool(b)))) => Ok(Some(*b)),
            Some(Local::Set(_)) => Ok(None),
            _ => match self.local(local) {
                Ok(Value::Bool(b)) => Ok(Some(b)),
                Err(error) if error.ends() => Err(error),
                _ => Ok(None),
            },
        }
    }

    /// One item. Whether there may be more.
    fn step(
        &mut self,
        fold: &'a Fold,
        first: Result<Value<'a>, EvalError>,
        second: Option<Result<Value<'a>, EvalError>>,
    ) -> Result<bool, EvalError> {
        self.set_local(fold.first, Local::Set(first));
        if let (Some(place), Some(second)) = (fold.second, second) {
            self.set_local(place, Local::Set(second));
        }
        match fold.condition {
            Condition::Always => {}
            Condition::Until(stop) => {
                // The accumulator, `!` where it is negated, and the function around them.
                let value = self.accumulator(fold.accumulator)?;
                self.charge(if stop { 3 } else { 2 })?;
                if value == Some(stop) {
                    return Ok(false);
                }
            }
            Condition::Value(place) => match self.exec(place) {
                Ok(Value::Bool(false)) => return Ok(false),
                Err(error) if error.ends() => return Err(error),
                _ => {}
            },
        }
        let value = self.exec(fold.step);
        if let Err(error) = &value
            && error.ends()
        {
            return Err(error.clone());
        }
        self.set_local(fold.accumulator, Local::Set(value));
        self.spend_step()?;
        Ok(true)
    }
}

/// The name of the type of a value's native form in Go, which messages show.
pub(crate) fn go_value_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "structpb.NullValue",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Double(_) => "float64",
        Value::String(_) => "string",
        Value::Bytes(_) => "[]uint8",
        Value::Duration(_) => "time.Duration",
        Value::Timestamp(_) => "time.Time",
        Value::List(List::Tree(..)) => "[]interface {}",
        Value::List(_) => "[]ref.Val",
        Value::Map(Map::Tree(..)) | Value::Message(_) => "map[string]interface {}",
        Value::Map(_) => "map[ref.Val]ref.Val",
        other => go_type(other),
    }
}

/// The name of a value's type in upstream's code, which messages show.
pub(super) fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Duration(_) => "types.Duration",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        Value::List(List::Tree(_, shape)) => match shape.kind() {
            ShapeKind::Set => "*common.unstructuredSetList",
            ShapeKind::ListMap => "*common.unstructuredMapList",
            _ => "*common.unstructuredList",
        },
        Value::List(_) => "*types.baseList",
        Value::Map(Map::Tree(..)) => "*common.unstructuredMap",
        Value::Map(_) => "*types.baseMap",
        Value::Opaque(opaque) => opaque.go_type(),
        Value::Message(message) if message.is_patch() => "*mutation.JSONPatchVal",
        Value::Message(_) => "*dynamic.ObjectVal",
    }
}

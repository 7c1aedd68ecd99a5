//! Going along fields, keys and indices (cel-go `interpreter/attributes.go`).

use kindom_api::Value as Json;

use crate::eval::fold::go_type;
use crate::eval::run::{Frame, Local};
use crate::eval::{By, Node, Place, Program, Qualifier, Run};
use crate::shape::{Shape, ShapeKind};
use crate::value::{EvalError, Hint, List, Map, Value, field, member, member_by, whole};

/// The part of a chain of qualifiers that fields of the tree resolve.
struct Along<'a> {
    value: Result<Value<'a>, EvalError>,
    /// The cost of the steps taken.
    charged: u64,
    /// The remaining qualifiers; of use only if there is a value to go on from.
    rest: &'a [Qualifier],
}

/// Goes along fields of the tree by reference: values are made only of the last.
fn along<'a>(
    program: &'a Program,
    mut map: &'a kindom_api::Map,
    mut shape: &'a dyn Shape,
    qualifiers: &'a [Qualifier],
    test_only: bool,
    hints: Option<&mut [Hint<'a>]>,
) -> Along<'a> {
    let (mut rest, mut charged) = (qualifiers, 0);
    let mut hints = hints.into_iter().flatten();
    while let [Qualifier { by: By::Name(name), optional: false, .. }, after @ ..] = rest {
        let name = program.name(*name);
        let test_only = test_only && after.is_empty();
        charged += 1;
        rest = after;
        let member = match hints.next() {
            Some(hint) => member_by(hint, map, shape, name),
            None => member(map, shape, name),
        };
        let value = match member {
            None if test_only => Ok(Value::Bool(false)),
            None => return Along { value: Err(EvalError::NoSuchKey(name.into())), charged, rest: &[] },
            Some((Json::Object(below), of))
                if !after.is_empty() && matches!(of.kind(), ShapeKind::Object | ShapeKind::Map) =>
            {
                (map, shape) = (below, of);
                continue;
            }
            Some((json, of)) => match Value::of(json, of) {
                Ok(_) if test_only => Ok(Value::Bool(true)),
                value => value,
            },
        };
        return Along { value, charged, rest };
    }
    Along { value: Ok(Value::Map(Map::Tree(map, shape))), charged, rest }
}

impl<'a> Frame<'a, '_> {
    /// The map of the tree that a variable holds; `None` if it holds anything else.
    fn at_root(&self, root: Place) -> Option<(&'a kindom_api::Map, &'a dyn Shape)> {
        let value = match self.program().node(root) {
            // A field costs something, and is resolved like one.
            Node::Variable(variable) if *variable < self.program().fields_from => self.variable(*variable)?,
            Node::Local(local) => match self.locals.get(*local as usize)? {
                Local::Set(Ok(value)) => value,
                _ => return None,
            },
            _ => return None,
        };
        if let Value::Map(Map::Tree(map, shape)) = value { Some((*map, *shape)) } else { None }
    }

    /// The value at the end of qualifiers. An optional qualifier, or one on an optional value, makes the whole optional.
    pub(super) fn attribute(
        &mut self,
        root: Place,
        qualifiers: Run,
        test_only: bool,
    ) -> Result<Value<'a>, EvalError> {
        let program = self.program();
        let from = qualifiers.from as usize;
        let qualifiers = program.qualifiers.get(from..from + qualifiers.len as usize).unwrap_or_default();
        let field = qualifiers.split_first().and_then(|(first, rest)| {
            program.field_of(root, first.by).map(|variable| (variable, first.optional, rest))
        });
        let mut optional = false;
        let (mut value, qualifiers) = match (field, self.at_root(root)) {
            (Some((variable, is_optional, rest)), _) => {
                let value = self.environment(variable)?;
                match rest {
                    [] if test_only => return Ok(Value::Bool(true)),
                    [] if is_optional => return Ok(Value::optional(value)),
                    _ => optional = is_optional,
                }
                (value, rest)
            }
            (None, Some((map, shape))) => {
                let Along { value, charged, rest } =
                    along(program, map, shape, qualifiers, test_only, self.hints.get_mut(from..));
                self.charge(charged)?;
                match value {
                    Ok(value) if !rest.is_empty() => (value, rest),
                    done => return done,
                }
            }
            (None, None) => {
                let value = match program.node(root) {
                    Node::Variable(_) | Node::Local(_) | Node::Conditional(..) => self.resolve(root)?,
                    _ => self.exec(root)?,
                };
                (value, qualifiers)
            }
        };
        match value {
            Value::Optional(None) => return Ok(value),
            Value::Optional(Some(inner)) => {
                optional = true;
                value = std::sync::Arc::unwrap_or_clone(inner);
            }
            _ => {}
        }
        let last = qualifiers.len().wrapping_sub(1);
        for (i, qualifier) in qualifiers.iter().enumerate() {
            let test_only = test_only && i == last;
            optional |= qualifier.optional;
            if optional {
                match self.qualify(&value, *qualifier, true)? {
                    Some(found) => {
                        self.charge(1)?;
                        value = found;
                    }
                    None => return Ok(Value::Optional(None)),
                }
            } else if test_only {
                let found = self.qualify(&value, *qualifier, true);
                self.charge(1)?;
                return found.map(|found| Value::Bool(found.is_some()));
            } else {
                let found = self.qualify(&value, *qualifier, false);
                self.charge(1)?;
                match found? {
                    Some(found) => value = found,
                    // A missing value was reported as an error before.
                    None => return Err(EvalError::NoSuchOverload),
                }
            }
        }
        Ok(if optional { Value::optional(value) } else { value })
    }

    /// One step. If absence is no error, there may be nothing.
    fn qualify(
        &mut self,
        value: &Value<'a>,
        by: Qualifier,
        test: bool,
    ) -> Result<Option<Value<'a>>, EvalError> {
        let program = self.program();
        if by.of_message
            && let Value::Message(message) = value
        {
            let name = match by.by {
                By::Name(name) => program.name(name),
                By::Constant(constant) => {
                    program.constants.get(constant as usize).and_then(Value::as_str).unwrap_or("")
                }
                By::Value(_) => "",
            };
            return message.field(name, test, self.work_mut());
        }
        match by.by {
            By::Name(name) => {
                let name = program.name(name);
                match value {
                    Value::Map(Map::Tree(map, shape)) => match field(map, *shape, name)? {
                        None if !test => Err(EvalError::NoSuchKey(name.into())),
                        found => Ok(found),
                    },
                    _ => go(value, &Value::borrowed(name), test),
                }
            }
            By::Constant(constant) => go(value, &program.constant(constant), test),
            By::Value(place) => {
                let key = self.resolve(place)?;
                match key {
                    Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_) => {
                        go(value, &key, test)
                    }
                    other => Err(EvalError::Message(invalid_qualifier(&other))),
                }
            }
        }
    }
}

/// Upstream's error for a value that cannot be a qualifier.
pub(super) fn invalid_qualifier(value: &Value<'_>) -> String {
    format!("invalid qualifier type: {}", go_type(value))
}

/// `refQualify`.
fn go<'a>(value: &Value<'a>, key: &Value<'_>, test: bool) -> Result<Option<Value<'a>>, EvalError> {
    match value {
        Value::Map(map) => match map.find(key)? {
            None if !test => Err(EvalError::NoSuchKey(key.to_string().into())),
            found => Ok(found),
        },
        Value::List(list) => {
            let index = match key {
                Value::Int(n) => *n,
                Value::Uint(n) => i64::try_from(*n)
                    .map_err(|_| EvalError::Message(format!("unsupported index value {key} in list")))?,
                Value::Double(x) => whole(*x)
                    .ok_or_else(|| EvalError::Message(format!("unsupported index value {key} in list")))?,
                other => {
                    let index_type = other.type_name();
                    return Err(EvalError::Message(format!("unsupported index type '{index_type}' in list")));
                }
            };
            let found = usize::try_from(index).ok().and_then(|index| list.get(index));
            match found {
                // The lists of the object take ints only.
                Some(_) if matches!(list, List::Tree(..)) && !matches!(key, Value::Int(_)) => {
                    Err(EvalError::Message(format!("unsupported index: {key}")))
                }
                Some(found) => found.map(Some),
                None if test => Ok(None),
                None => Err(EvalError::Message(format!("index out of bounds: {key}"))),
            }
        }
        _ if test => Ok(None),
        _ => Err(EvalError::NoSuchKey(key.to_string().into())),
    }
}

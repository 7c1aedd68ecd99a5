//! Messages that expressions make: `Object.spec{replicas: 1}` (`apiserver/pkg/cel/mutation`).

use std::sync::Arc;

use crate::value::{Entries, EvalError, List, Map, Value, Work};

/// The name of the patches' type, which alone has declared fields.
pub const JSON_PATCH: &str = "JSONPatch";

/// A message with the fields that were given to it.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    /// Of its type: `Object.spec`.
    pub name: Arc<str>,
    /// By name, in the order of making. No name is there twice.
    pub fields: Vec<(Arc<str>, Value<'a>)>,
}

/// The work of making a value of a message's anew: it is a new one wherever it stands.
const PLAIN_WORK: usize = 16;

/// A value whose messages are maps. It is as deep as the value.
fn plain<'a>(value: &Value<'a>, work: &mut Work) -> Result<Value<'a>, EvalError> {
    work.spend(PLAIN_WORK)?;
    Ok(match value {
        Value::Message(message) => {
            let mut entries = Entries::default();
            for (name, value) in &message.fields {
                entries.insert(Value::string(Arc::clone(name)), plain(value, work)?);
            }
            Value::map(entries)
        }
        Value::Optional(None) => Value::Null,
        Value::Optional(Some(value)) => plain(value, work)?,
        Value::List(List::Owned(items) | List::Added(items, _)) => {
            Value::list(items.iter().map(|item| plain(item, work)).collect::<Result<_, _>>()?)
        }
        Value::Map(Map::Owned(entries)) => {
            let plain = entries.iter().map(|(key, value)| Ok((key.clone(), plain(value, work)?)));
            Value::map(plain.collect::<Result<_, EvalError>>()?)
        }
        other => other.clone(),
    })
}

/// Returns true if a name is that of a message's type, where there are any.
#[must_use]
pub fn is_message(name: &str) -> bool {
    name == JSON_PATCH
        || name.strip_prefix("Object").is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl<'a> Message<'a> {
    /// A field's value.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Value<'a>> {
        self.fields.iter().find(|(name, _)| **name == *field).map(|(_, value)| value)
    }

    /// A field's text; empty if it is none.
    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        self.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns true if it is of the patches' type.
    #[must_use]
    pub fn is_patch(&self) -> bool {
        *self.name == *JSON_PATCH
    }

    /// Checks that a patch has texts where it needs them (`JSONPatchType.Val`).
    pub(crate) fn check(&self) -> Result<(), EvalError> {
        let fields = self.fields.iter().filter(|(name, _)| self.is_patch() && **name != *"value");
        for (name, value) in fields {
            if value.as_str().is_none() {
                let found = crate::eval::go_value_type(value);
                let why = format!("unexpected type {found} for JSONPatchType '{name}' field");
                return Err(EvalError::Message(why));
            }
        }
        Ok(())
    }

    /// A field's value as the message shows it: messages in it are maps, and one that is not there is null, unless that is asked.
    pub(crate) fn field(
        &self,
        field: &str,
        test: bool,
        work: &mut Work,
    ) -> Result<Option<Value<'a>>, EvalError> {
        work.spend(self.fields.len())?;
        let found = self.get(field);
        if self.is_patch() && field != "value" {
            let is_empty = found.and_then(Value::as_str).is_none_or(str::is_empty);
            return Ok(match found {
                Some(text) if !is_empty => Some(text.clone()),
                _ if test => None,
                _ => Some(Value::borrowed("")),
            });
        }
        match found {
            Some(value) => plain(value, work).map(Some),
            None => Ok((!test).then_some(Value::Null)),
        }
    }

    /// `true` if both have the same type and the same fields; a number is the same only as one of its type.
    pub(crate) fn is(&self, other: &Self, work: &mut Work) -> Result<bool, EvalError> {
        if self.name != other.name || !self.is_patch() && self.fields.len() != other.fields.len() {
            return Ok(false);
        }
        if self.is_patch() {
            let differs = |field| self.text(field) != other.text(field);
            if ["op", "path", "from"].into_iter().any(differs) {
                return Ok(false);
            }
            return match (self.get("value"), other.get("value")) {
                (Some(value), Some(other)) => value.equals_within(other, work),
                (value, other) => Ok(value.is_none() && other.is_none()),
            };
        }
        for (name, value) in &self.fields {
            work.spend(other.fields.len())?;
            let Some(other) = other.get(name) else { return Ok(false) };
            if value.type_name() != other.type_name() || !value.equals_within(other, work)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

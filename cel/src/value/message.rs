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
        Value::List(List::Owned(items)) => {
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
        let text = self.get(field).and_then(Value::as_str).unwrap_or_default();
        if self.is_patch() && field != "value" {
            return Ok(if test && text.is_empty() { None } else { Some(Value::string(text)) });
        }
        match self.get(field) {
            Some(value) => plain(value, work).map(Some),
            None => Ok((!test).then_some(Value::Null)),
        }
    }

    /// `true` if both have the same type and the same fields.
    pub(crate) fn is(&self, other: &Self, work: &mut Work) -> Result<bool, EvalError> {
        if self.name != other.name || self.fields.len() != other.fields.len() {
            return Ok(false);
        }
        for (name, value) in &self.fields {
            work.spend(other.fields.len())?;
            let Some(other) = other.get(name) else { return Ok(false) };
            if !value.equals_within(other, work)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

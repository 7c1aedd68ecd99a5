//! The bound on the work and the stack of one use of the library that evaluates JSON Schemas.
//!
//! A schema may ask for any amount of work: two references to one definition, which has two to the next, double it each time. The
//! library has no bound of its own, and no way to be stopped. So a schema of [`KEYWORD`] alone stands before every subschema: the
//! library calls it wherever it begins to compile or to evaluate one, and past the allowance it unwinds, which [`within`] catches.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jsonschema::{Keyword, ValidationError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The keyword of a fence; its value is the [`Fence`].
pub(super) const KEYWORD: &str = "!kindom";

/// The stack that one use may take, of the 2 MiB that a thread has.
const STACK_MAX: usize = 1 << 20;

/// About the time that the library takes for a visit of a subschema, in units of at most about a nanosecond.
const VISIT: u64 = 200;
/// The same for one of its keywords with a small value.
const KEYWORD_VISIT: u64 = 50;
/// The same for a byte that a pattern is matched with, at most, as bounded by [`super::PATTERN_BYTES_MAX`].
const PATTERN_BYTE_MAX: u64 = 13_000;
/// The same for copying a value into an error.
const COPIED_VALUE: u64 = 50;
/// The same for compiling a subschema, and for each unit that a pattern may cost a byte.
const COMPILED: u64 = 20_000;
const COMPILED_PATTERN: u64 = 300;

/// The allowance of a use is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spent;

/// An allowance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    pub(super) units: u64,
    /// Errors are made: each may copy the value that it is about.
    pub(super) makes_errors: bool,
}

/// The use that is under way on a thread.
#[derive(Debug, Clone, Copy)]
struct Use {
    left: u64,
    makes_errors: bool,
    /// The address of something on the stack where it began.
    begin: usize,
}

thread_local! {
    static USE: Cell<Option<Use>> = const { Cell::new(None) };
}

/// Runs something that uses the library.
pub(super) fn within<T>(allowance: Allowance, run: impl FnOnce() -> T) -> Result<T, Spent> {
    let here = 0_u8;
    let begin = std::ptr::from_ref(&here).addr();
    let Allowance { units, makes_errors } = allowance;
    let outer = USE.replace(Some(Use { left: units, makes_errors, begin }));
    let ran = catch_unwind(AssertUnwindSafe(run));
    USE.set(outer);
    ran.map_err(|payload| match payload.downcast::<Spent>() {
        Ok(spent) => *spent,
        Err(panic) => resume_unwind(panic),
    })
}

/// Takes units of the use that is under way.
fn spend(units: impl FnOnce(&Use) -> u64) {
    let Some(mut now) = USE.get() else { return };
    let here = 0_u8;
    let deep = std::ptr::from_ref(&here).addr().abs_diff(now.begin) > STACK_MAX;
    let left = now.left.checked_sub(units(&now)).filter(|_| !deep);
    let Some(left) = left else { resume_unwind(Box::new(Spent)) };
    now.left = left;
    USE.set(Some(now));
}

/// A subschema's lengths, from which the cost of a visit is estimated.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Fence {
    /// Its own keywords, a long one counting more often.
    keywords: u64,
    /// The cost of a byte of a text, by its own pattern.
    of_text: u64,
    /// The cost of a byte of a key, by all patterns that keys are matched with.
    of_key: u64,
    /// All of a value is looked at.
    looks_at_all: bool,
}

impl Fence {
    pub(super) fn of(schema: &Map<String, Value>) -> Self {
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let patterns = patterns.into_iter().flat_map(|patterns| patterns.keys());
        Self {
            keywords: schema.iter().map(|(name, value)| length(name, value)).sum(),
            of_text: schema.get("pattern").and_then(Value::as_str).map_or(0, pattern_cost),
            of_key: patterns.map(|pattern| pattern_cost(pattern)).sum(),
            looks_at_all: ["uniqueItems", "enum", "const"].iter().any(|name| schema.contains_key(*name)),
        }
    }
}

/// The factory of the fences; the library calls it where it compiles a subschema.
pub(super) fn keyword(value: &Value) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'_>> {
    let fence = Fence::deserialize(value).unwrap_or_default();
    spend(|_| COMPILED + COMPILED_PATTERN * (fence.of_text + fence.of_key));
    Ok(Box::new(fence))
}

/// A keyword's length, without the schemas in it.
fn length(name: &str, value: &Value) -> u64 {
    let len = match value {
        Value::Array(items) if matches!(name, "enum" | "required") => items.iter().map(size).sum(),
        Value::Array(items) => count(items.len()),
        Value::Object(map) if !matches!(name, "const") => count(map.len()),
        value => size(value),
    };
    1 + len / 4
}

/// The most work that matching one byte can be. A counted repetition stands for as many states.
fn pattern_cost(pattern: &str) -> u64 {
    let counted = |text: &str| text.parse().unwrap_or(0_u64);
    let counts = pattern.split(|c: char| !c.is_ascii_digit()).map(counted).fold(1, u64::saturating_add);
    counts.saturating_mul(2 * count(pattern.len())).min(PATTERN_BYTE_MAX)
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// The values in a value, and a value's worth for each 16 bytes of text.
fn size(value: &Value) -> u64 {
    1 + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => count(text.len() / 16),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| count(key.len() / 16) + size(value)).sum(),
    }
}

impl Fence {
    fn cost(&self, value: &Value, makes_errors: bool) -> u64 {
        let (members, patterns) = match value {
            Value::String(text) => (count(text.len() / 16), self.of_text.saturating_mul(count(text.len()))),
            Value::Array(items) => (count(items.len()), 0),
            Value::Object(map) if self.of_key == 0 => (count(map.len()), 0),
            Value::Object(map) => {
                let bytes = map.keys().map(|key| count(key.len())).sum();
                (count(map.len()), self.of_key.saturating_mul(bytes))
            }
            _ => (0, 0),
        };
        let all = if self.looks_at_all || makes_errors { size(value) } else { 0 };
        let copies =
            if makes_errors { self.keywords.saturating_mul(all * COPIED_VALUE) } else { all * KEYWORD_VISIT };
        let visit = self.keywords.saturating_mul(KEYWORD_VISIT).saturating_mul(1 + members / 8);
        VISIT.saturating_add(visit).saturating_add(patterns).saturating_add(copies)
    }
}

impl<'i> Keyword<'i> for Fence {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        spend(|now| self.cost(value, now.makes_errors));
        Ok(())
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        spend(|now| self.cost(value, now.makes_errors));
        true
    }
}

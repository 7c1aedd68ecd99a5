//! The evaluation of a group of expressions on one write (`pkg/admission/plugin/cel`, `ForInput`).

use std::collections::HashMap;
use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::go_quote;
use kindom_cel::eval::{COST_MAX, Shared, Variable};
use kindom_cel::library::authorization::{CheckedResource, Checks, authorizer, resource_check};
use kindom_cel::shape::Untyped;
use kindom_cel::value::{Entries, EvalError, Value as CelValue};

use super::environment::{Expression, slot};

pub(super) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Steps that the regular expressions of a group may take in all: a fraction of a second.
const PATTERNS_MAX: usize = 10_000_000;

/// The most bytes of the error of a composed variable, which those that name it repeat.
const WHY_BYTES_MAX: usize = 1024;

/// The work of holding a composed variable in the object of all of them.
const ENTRY_WORK: u64 = 16;

/// An expression is evaluated anew for each variable that it turns out to need. All such attempts together may cost so many times
/// as much as the group; they count nothing upstream.
const ATTEMPTS: u64 = 4;

/// The values that expressions on a write see.
#[derive(Clone, Copy)]
pub struct Inputs<'i> {
    /// See [`review_request`](super::review_request).
    pub request: &'i Value,
    /// The object, in the version of the rule.
    pub object: Option<&'i Value>,
    /// The object that there was.
    pub old: Option<&'i Value>,
    /// The write's namespace.
    pub namespace: Option<&'i Value>,
    /// The parameters.
    pub params: Option<&'i Value>,
    /// The answers to what expressions ask about permissions.
    pub checks: &'i Arc<dyn Checks>,
}

/// A decision about somebody's permissions is yet to be asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Pending;

/// The reason why an expression has no value.
#[derive(Debug)]
pub(super) enum Stop {
    /// It failed, in upstream's words.
    Failed(String),
    /// The group may not cost more.
    OutOfBudget,
    /// See [`Pending`].
    Pending(Pending),
}

/// A group of expressions that share a budget, and the values of composed variables.
pub(super) struct Evaluation<'a> {
    fixed: [Variable<'a>; slot::COMPOSED],
    composed: &'a [(String, Expression)],
    values: HashMap<u32, Variable<'a>>,
    left: u64,
    attempts_left: u64,
    shared: Shared,
}

fn resource(request: &Value) -> CheckedResource {
    let of = |path: &[&str]| request.text_at(path).to_owned();
    CheckedResource {
        group: of(&["requestResource", "group"]),
        resource: of(&["requestResource", "resource"]),
        subresource: of(&["requestSubResource"]),
        namespace: of(&["namespace"]),
        name: of(&["name"]),
        ..CheckedResource::default()
    }
}

impl<'a> Evaluation<'a> {
    /// An evaluation on a write, for expressions of which some may name an authorizer.
    pub(super) fn new(
        inputs: &Inputs<'a>,
        composed: &'a [(String, Expression)],
        budget: u64,
        names_authorizer: bool,
    ) -> Self {
        let tree = |value: Option<&'a Value>| {
            value.map_or(Ok(CelValue::Null), |value| CelValue::of(value, &Untyped))
        };
        let fixed = [
            tree(inputs.object),
            tree(inputs.old),
            tree(Some(inputs.request)),
            tree(inputs.namespace),
            tree(inputs.params),
            Ok(if names_authorizer { authorizer(inputs.checks) } else { CelValue::Null }),
            Ok(match names_authorizer {
                true => resource_check(inputs.checks, resource(inputs.request)),
                false => CelValue::Null,
            }),
        ];
        Self {
            fixed,
            composed,
            values: HashMap::new(),
            left: budget,
            attempts_left: budget.saturating_mul(ATTEMPTS),
            shared: Shared::new(PATTERNS_MAX),
        }
    }

    /// Without an authorizer, as messages and annotations are evaluated.
    pub(super) fn without_authorizer(mut self) -> Self {
        for (at, name) in
            [(slot::AUTHORIZER, "authorizer"), (slot::REQUEST_RESOURCE, "authorizer.requestResource")]
        {
            if let Some(variable) = self.fixed.get_mut(at) {
                *variable = Err(EvalError::Message(format!("no such attribute(s): {name}")));
            }
        }
        self
    }

    /// The budget that is left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The variables of an expression.
    fn variables(&mut self, expression: &Expression) -> Vec<Variable<'a>> {
        let value = |place: &u32| self.values.get(place).cloned().unwrap_or(Err(EvalError::Pending));
        let mut variables = Vec::with_capacity(slot::COUNT + expression.names.len());
        variables.extend(self.fixed.iter().cloned());
        variables.push(Ok(CelValue::Null));
        variables.extend(expression.names.iter().map(value));
        if let (Some(known), Some(whole)) = (expression.takes, variables.get_mut(slot::COMPOSED)) {
            *whole = self.shared.spend(ENTRY_WORK * u64::from(known)).and_then(|()| self.whole(known));
        }
        variables
    }

    /// The object of so many composed variables, once all are known; it fails with any of them.
    fn whole(&self, known: u32) -> Variable<'a> {
        let mut entries = Entries::default();
        for (place, (name, _)) in (0..known).zip(self.composed) {
            let value = self.values.get(&place).cloned().unwrap_or(Err(EvalError::Pending))?;
            entries.insert(CelValue::borrowed(name), value);
        }
        Ok(CelValue::map(entries))
    }

    /// The first of so many composed variables that is not known yet.
    fn missing(&self, known: u32) -> Option<u32> {
        (0..known).find(|place| !self.values.contains_key(place))
    }

    fn spend(&mut self, cost: u64) -> Result<(), Stop> {
        self.left = self.left.checked_sub(cost).ok_or(Stop::OutOfBudget)?;
        Ok(())
    }

    /// The value of an expression. Composed variables are evaluated when they are needed, once, and cost what they cost.
    pub(super) fn evaluate(&mut self, expression: &'a Expression) -> Result<CelValue<'a>, Stop> {
        // The variables that wait for each other, the last for nothing that is known. Each names only earlier ones.
        let mut waiting: Vec<u32> = Vec::new();
        loop {
            let composed = waiting.last().and_then(|place| self.composed.get(*place as usize));
            let (name, current) = match composed {
                Some((name, variable)) => (name.as_str(), variable),
                None => ("", expression),
            };
            let result = match &current.program {
                Err(why) if composed.is_none() => {
                    return Err(Stop::Failed(format!("compilation error: {why}")));
                }
                Err(why) => Err(format!("composited variable {} fails to compile: {why}", go_quote(name))),
                Ok(program) => {
                    let variables = self.variables(current);
                    let outcome = program.run_sharing(&variables, COST_MAX, &mut self.shared);
                    if let (Err(EvalError::Pending), pending) = (&outcome.result, outcome.pending) {
                        let next = pending.and_then(|variable| self.next(current, variable));
                        waiting.push(next.ok_or(Stop::Pending(Pending))?);
                        self.attempts_left =
                            self.attempts_left.checked_sub(outcome.cost).ok_or(Stop::OutOfBudget)?;
                        continue;
                    }
                    self.spend(outcome.cost)?;
                    outcome.result.map_err(|why| match composed {
                        Some(_) => format!("composited variable {} fails to evaluate: {why}", go_quote(name)),
                        None => format!("expression '{}' resulted in error: {why}", current.source),
                    })
                }
            };
            match waiting.pop() {
                None => return result.map_err(Stop::Failed),
                Some(place) => {
                    let result = result.map_err(|mut why| {
                        why.truncate(why.floor_char_boundary(WHY_BYTES_MAX));
                        EvalError::Message(why)
                    });
                    self.values.insert(place, result);
                }
            }
        }
    }

    /// The composed variable to evaluate next, for an expression that needs this variable of its own.
    fn next(&self, expression: &Expression, variable: u32) -> Option<u32> {
        match (variable as usize).checked_sub(slot::COUNT) {
            Some(place) => expression.names.get(place).copied(),
            None => self.missing(expression.takes?),
        }
    }
}

//! Holds objects to the rules of `x-kubernetes-validations` (`schema/cel/validation.go`).

use std::cell::Cell;
use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{BadValue, Error, ErrorList, ErrorType, Path, go_quote};
use kindom_cel::eval::{Program, Variable};
use kindom_cel::shape::Shape;
use kindom_cel::value::{EvalError, Value as CelValue};
use kindom_formats::go::bad_value;
use kindom_formats::pattern::Budget;

use super::bounds::ErrorLog;
use super::correlate::{ByKey, Old};
use crate::node::{Node, Types};
use crate::rules::shape::Resource;
use crate::rules::{Expressions, Reason, Rule};

/// `RuntimeCELCostBudget`: the most that all rules may cost for one object.
pub(crate) const BUDGET: i64 = 10_000_000;
/// `PerCallLimit`: the most that one expression may cost.
const CALL_COST_MAX: u64 = 1_000_000;
/// The most expressions that run for one object: as many as the budget has room for if each costs something. Some cost
/// nothing.
const RUNS_MAX: usize = 10_000_000;
/// Steps that the regular expressions of all rules may take for one object, or for all defaults of a registration: a second.
/// Their cost is that of their texts, however long they take to compile.
pub(crate) const PATTERNS_MAX: usize = 50_000_000;
/// The most bytes of the text of a `messageExpression`.
const MESSAGE_MAX: usize = 5 * 1024;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The findings of the rules in an object.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) errors: ErrorList,
    /// Errors in unchanged values: they are let through, and become warnings (KEP-4008).
    pub(crate) ratcheted: ErrorList,
    /// The rest of the budget; below zero if it was used up and the remaining rules did not run.
    pub(crate) budget: i64,
    /// The rest of the budget for regular expressions.
    pub(crate) patterns: Budget,
}

/// Runs the rules of a value that replaces `old`; with `ratchet`, errors in unchanged values are let through.
pub(crate) fn run(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    ratchet: bool,
    budget: i64,
    patterns: Budget,
) -> Findings {
    let (errors, ratcheted) = (ErrorLog::default(), ErrorLog::default());
    let mut walk = Walk { errors, ratcheted, budget, runs_left: RUNS_MAX, patterns };
    let pair = old.filter(|_| ratchet).map(|old| Pair::new(Old::root(node, old), value));
    let correlation = Correlation { current: pair.as_ref(), nearest: None };
    // It stops early only when the budget is used up, which the findings tell.
    let _ = walk.node(node, &Place { value, old, correlation, at: &Path::root(), is_root: true });
    let Walk { errors, ratcheted, budget, patterns, .. } = walk;
    Findings { errors: errors.into_errors(), ratcheted: ratcheted.into_errors(), budget, patterns }
}

/// The budget is used up.
struct Stop;

struct Walk {
    errors: ErrorLog,
    ratcheted: ErrorLog,
    budget: i64,
    runs_left: usize,
    patterns: Budget,
}

/// A value and its context.
struct Place<'a> {
    value: &'a Value,
    /// The value that it replaces, if that is known.
    old: Option<&'a Value>,
    correlation: Correlation<'a>,
    at: &'a Path<'a>,
    is_root: bool,
}

/// A value and the one that it replaces.
struct Pair<'a> {
    old: Old<'a>,
    new: &'a Value,
    unchanged: Cell<Option<bool>>,
}

impl<'a> Pair<'a> {
    fn new(old: Old<'a>, new: &'a Value) -> Self {
        Self { old, new, unchanged: Cell::new(None) }
    }

    fn unchanged(&self) -> bool {
        let known = self.unchanged.get().unwrap_or_else(|| self.old.unchanged(self.new));
        self.unchanged.set(Some(known));
        known
    }
}

/// The pair whose being unchanged lets a failure through: the value's own, else that of the nearest value around it with a
/// known old one.
#[derive(Clone, Copy)]
struct Correlation<'a> {
    current: Option<&'a Pair<'a>>,
    nearest: Option<&'a Pair<'a>>,
}

impl<'a> Correlation<'a> {
    fn ratchets(self) -> bool {
        self.current.or(self.nearest).is_some_and(Pair::unchanged)
    }

    /// The pair of a part of the value.
    fn part(self, find: impl FnOnce(Old<'a>) -> Option<Old<'a>>, new: &'a Value) -> Option<Pair<'a>> {
        Some(Pair::new(find(self.current?.old)?, new))
    }

    fn below<'b>(self, part: Option<&'b Pair<'b>>) -> Correlation<'b>
    where
        'a: 'b,
    {
        match self.current {
            Some(current) => Correlation { current: part, nearest: Some(current) },
            None => Correlation { current: None, nearest: self.nearest },
        }
    }
}

impl Walk {
    fn node(&mut self, node: &Node, place: &Place<'_>) -> Result<(), Stop> {
        if !node.below.expressions || place.value.is_null() {
            return Ok(());
        }
        if let Some(expressions) = node.rules.as_deref().and_then(|rules| rules.expressions.as_deref()) {
            self.expressions(node, expressions, place)?;
        }
        match place.value {
            Value::Object(map) => self.fields(node, map, place),
            Value::Array(items) => self.items(node, items, place),
            _ => Ok(()),
        }
    }

    fn fields(&mut self, node: &Node, map: &kindom_api::Map, place: &Place<'_>) -> Result<(), Stop> {
        let Some(fields) = node.fields.as_deref() else { return Ok(()) };
        let additional = fields.additional().schema();
        for (key, value) in map.iter() {
            let property = fields.property(key);
            let Some(child) = property.or(additional).filter(|child| child.below.expressions) else {
                continue;
            };
            // A change of the object's type may be invisible here, so it never counts as unchanged.
            let of_type = place.is_root && matches!(key, "apiVersion" | "kind");
            let correlation = place.correlation;
            let part = correlation.part(|old| old.field(key), value).filter(|_| !of_type);
            let correlation = match of_type {
                true => Correlation { current: None, nearest: None },
                false => correlation.below(part.as_ref()),
            };
            let at = if property.is_some() { place.at.child(key) } else { place.at.key(key) };
            let old = place.old.and_then(|old| old.get(key));
            self.node(child, &Place { value, old, correlation, at: &at, is_root: false })?;
        }
        Ok(())
    }

    fn items(&mut self, node: &Node, items: &[Value], place: &Place<'_>) -> Result<(), Stop> {
        let Some(child) = node.items.as_deref().filter(|child| child.below.expressions) else {
            return Ok(());
        };
        let by_key = ByKey::new(node, place.old);
        for (i, value) in items.iter().enumerate() {
            let old = by_key.get(value);
            let part = old.and_then(|old| place.correlation.part(|list| list.this_item(old), value));
            let correlation = place.correlation.below(part.as_ref());
            let at = place.at.index(i);
            self.node(child, &Place { value, old, correlation, at: &at, is_root: false })?;
        }
        Ok(())
    }

    fn expressions(&mut self, node: &Node, expressions: &Expressions, place: &Place<'_>) -> Result<(), Stop> {
        if expressions.rules.is_empty() {
            return Ok(());
        }
        if self.budget <= 0 || self.runs_left == 0 {
            return self.stop(node, place, OUT_OF_BUDGET.to_owned());
        }
        let resource = Resource(node);
        let shape: &dyn Shape = if place.is_root || node.embedded { &resource } else { node };
        let old = place.old.filter(|old| !old.is_null());
        let values = Values {
            new: CelValue::of(place.value, shape),
            old: old.filter(|_| expressions.use_old_self).map(|old| CelValue::of(old, shape)),
        };
        for rule in &expressions.rules {
            if rule.uses_old_self && old.is_none() && !rule.optional_old_self {
                continue;
            }
            match &rule.program {
                Ok(program) => self.rule(node, rule, program, place, &values)?,
                Err(text) => {
                    self.runs_left = self.runs_left.saturating_sub(1);
                    self.wrong(node, place, format!("rule compile error: {text}"));
                }
            }
        }
        Ok(())
    }

    fn rule(
        &mut self,
        node: &Node,
        rule: &Rule,
        program: &Program,
        place: &Place<'_>,
        values: &Values<'_>,
    ) -> Result<(), Stop> {
        let text = &rule.text;
        let variables = values.variables(rule.optional_old_self);
        let outcome = program.run_within(&variables, CALL_COST_MAX, &mut self.patterns);
        self.runs_left = self.runs_left.saturating_sub(1);
        if !self.pay(outcome.cost) || self.runs_left == 0 {
            return self.stop(node, place, OUT_OF_BUDGET.to_owned());
        }
        match outcome.result {
            Ok(CelValue::Bool(true)) => return Ok(()),
            Ok(_) => {}
            Err(error @ EvalError::CostExceeded) => {
                let detail = format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {text}"
                );
                return self.stop(node, place, detail);
            }
            Err(error) => {
                let error = error.to_string();
                // Values without a type, such as an int or string, show this only at run time.
                let detail = if error.starts_with("no such overload") {
                    format!(
                        "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {text}"
                    )
                } else {
                    format!("{error} evaluating rule: {text}")
                };
                self.wrong(node, place, detail);
                return Ok(());
            }
        }
        let more = rule.more.as_deref();
        let field_path = more.and_then(|more| more.field_path.as_deref());
        let at = field_path.map_or_else(|| place.at.to_string(), |path| place.at.child(path).to_string());
        let ratchets = !rule.uses_old_self && place.correlation.ratchets();
        let list = if ratchets { &mut self.ratcheted } else { &mut self.errors };
        if list.is_full() {
            // It counts, and needs no text.
            list.push(|| Error::required(&Path::root(), ""));
            return Ok(());
        }
        let mut detail = None;
        if let Some((program, source)) = more.and_then(|more| more.message.as_ref()) {
            match self.message(program, source, values) {
                Ok(text) => detail = text,
                Err(text) => {
                    let error =
                        Error { kind: ErrorType::Invalid, field: at, bad_value: type_of(node), detail: text };
                    self.tell(error, ratchets);
                    return Err(self.used_up());
                }
            }
        }
        let detail = detail.unwrap_or_else(|| match rule.has_message {
            true => text.to_string(),
            false => format!("failed rule: {text}"),
        });
        let value = match node.types {
            Types::OBJECT | Types::ARRAY => BadValue::Omitted,
            _ => bad_value(place.value),
        };
        let (kind, bad_value, detail) = match rule.reason {
            Reason::Invalid => (ErrorType::Invalid, value, detail),
            Reason::Forbidden => (ErrorType::Forbidden, BadValue::Omitted, detail),
            Reason::Required => (ErrorType::Required, BadValue::Omitted, detail),
            Reason::Duplicate => (ErrorType::Duplicate, value, String::new()),
        };
        self.tell(Error { kind, field: at, bad_value, detail }, ratchets);
        Ok(())
    }

    /// The text of a `messageExpression`; `None` if the rule's own message is used. Its old value is never optional.
    ///
    /// # Errors
    /// The text of the error that ends everything: the budget is used up.
    fn message(
        &mut self,
        program: &Program,
        source: &str,
        values: &Values<'_>,
    ) -> Result<Option<String>, String> {
        let variables = values.variables(false);
        let outcome = program.run_within(&variables, CALL_COST_MAX, &mut self.patterns);
        if !self.affords(outcome.cost) {
            return Err(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned(),
            );
        }
        if matches!(outcome.result, Err(EvalError::CostExceeded)) {
            return Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                go_quote(source)
            ));
        }
        self.pay(outcome.cost);
        let Ok(CelValue::String(text)) = outcome.result else { return Ok(None) };
        let text = text.as_str().trim();
        let fits = !text.is_empty() && text.len() <= MESSAGE_MAX && !text.contains('\n');
        Ok(fits.then(|| text.to_owned()))
    }

    fn affords(&self, cost: u64) -> bool {
        i64::try_from(cost).is_ok_and(|cost| cost <= self.budget)
    }

    /// Takes a cost from the budget, if there is as much.
    fn pay(&mut self, cost: u64) -> bool {
        let affords = self.affords(cost);
        if affords {
            self.budget -= i64::try_from(cost).unwrap_or(0);
        }
        affords
    }

    fn tell(&mut self, error: Error, ratchets: bool) {
        let list = if ratchets { &mut self.ratcheted } else { &mut self.errors };
        list.push(|| error);
    }

    /// A rule that could not be asked. Upstream shows the type for the value.
    fn wrong(&mut self, node: &Node, place: &Place<'_>, detail: String) {
        self.errors.push(|| Error {
            kind: ErrorType::Invalid,
            field: place.at.to_string(),
            bad_value: type_of(node),
            detail,
        });
    }

    fn stop(&mut self, node: &Node, place: &Place<'_>, detail: String) -> Result<(), Stop> {
        self.wrong(node, place, detail);
        Err(self.used_up())
    }

    fn used_up(&mut self) -> Stop {
        self.budget = -1;
        Stop
    }
}

/// The values of an expression's variables.
struct Values<'a> {
    new: Variable<'a>,
    old: Option<Variable<'a>>,
}

impl<'a> Values<'a> {
    /// `self` and `oldSelf`, the second as an optional value if so.
    fn variables(&self, optional: bool) -> [Variable<'a>; 2] {
        let old = match (optional, &self.old) {
            (true, None) => Ok(CelValue::Optional(None)),
            (true, Some(old)) => old.clone().map(|old| CelValue::Optional(Some(Arc::new(old)))),
            (false, Some(old)) => old.clone(),
            (false, None) => Err(EvalError::Message("no such attribute(s): oldSelf".to_owned())),
        };
        [self.new.clone(), old]
    }
}

fn type_of(node: &Node) -> BadValue {
    // An int or string has no type.
    let text = if node.types == Types::INT_OR_STRING { "" } else { node.type_text() };
    BadValue::Value(text.into())
}

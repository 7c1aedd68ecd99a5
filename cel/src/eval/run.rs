//! The evaluation of nodes (cel-go `interpreter/interpretable.go`), and the counting of costs
//! (`interpreter/runtimecost.go`).

use std::sync::Arc;

use kindom_formats::Pattern;

use crate::ast::operators;
use crate::eval::{MadeMessage, Node, Place, Program, Run, Variable};
use crate::library::comprehensions::put;
use crate::library::standard::cost_of_match;
use crate::library::{Cost, Function, Overload, regex};
use crate::types::Type;
use crate::value::{Entries, EvalError, Hint, List, Map, Message, Value, Work, runtime_name};

/// `common.ListCreateBaseCost`
const LIST_COST: u64 = 10;
/// The work of copying an item of a list, in comparisons of two.
const ITEM_WORK: usize = 4;
/// `common.MapCreateBaseCost`
const MAP_COST: u64 = 30;
/// `common.StructCreateBaseCost`
const MESSAGE_COST: u64 = 40;

/// One evaluation.
#[derive(Debug)]
pub(super) struct Frame<'a, 'v> {
    program: &'a Program,
    variables: &'v [Variable<'a>],
    /// The variable that was asked for and is not known yet.
    pending: Option<u32>,
    pub(super) locals: Vec<Local<'a>>,
    /// By qualifier, where comprehensions come back to them.
    pub(super) hints: Vec<Hint<'a>>,
    cost: u64,
    limit: u64,
    work: Work,
}

/// A variable of a comprehension.
#[derive(Debug, Default)]
pub(super) enum Local<'a> {
    /// Not now.
    #[default]
    Unset,
    /// An accumulator that is made when it is first asked for.
    Lazy(Place),
    /// Its value, which for an accumulator may be an error.
    Set(Result<Value<'a>, EvalError>),
}

type Evaluated<'a> = Result<Value<'a>, EvalError>;

/// The bytes of a text that a step of work looks through.
const SCANNED_IN_STEP: usize = 64;

impl<'a, 'v> Frame<'a, 'v> {
    pub(super) fn new(program: &'a Program, variables: &'v [Variable<'a>], limit: u64, work: Work) -> Self {
        let mut locals = Vec::new();
        locals.resize_with(program.locals as usize, Local::default);
        let mut hints = Vec::new();
        if !program.folds.is_empty() {
            hints.resize_with(program.qualifiers.len(), Hint::default);
        }
        Self { program, variables, pending: None, locals, hints, cost: 0, limit, work }
    }

    pub(super) fn program(&self) -> &'a Program {
        self.program
    }

    /// A variable's value, unless it is an error.
    pub(super) fn variable(&self, variable: u32) -> Option<&Value<'a>> {
        self.variables.get(variable as usize)?.as_ref().ok()
    }

    /// The rest of the work that may be done.
    pub(super) fn work(&self) -> &Work {
        &self.work
    }

    pub(super) fn work_mut(&mut self) -> &mut Work {
        &mut self.work
    }

    /// The variable that was asked for and is not known yet.
    pub(super) fn pending(&self) -> Option<u32> {
        self.pending
    }

    /// The cost so far.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// Counts an item of a comprehension, which may cost nothing.
    pub(super) fn spend_step(&mut self) -> Result<(), EvalError> {
        self.work.spend(1)
    }

    /// Spends.
    pub(super) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::CostExceeded) } else { Ok(()) }
    }

    /// The value of a node. Nodes nest deeply, so each kind has a function of its own that the compiler does not inline: a
    /// stack frame then holds no other kind's variables.
    pub(super) fn exec(&mut self, place: Place) -> Evaluated<'a> {
        match self.program.node(place) {
            Node::Constant(constant) => Ok(self.program.constant(*constant)),
            Node::Variable(_) | Node::Local(_) => self.named(place),
            Node::Attribute { root, qualifiers, test_only } => self.whole(*root, *qualifiers, *test_only),
            Node::And(a, b) => self.logic(*a, *b, false),
            Node::Or(a, b) => self.logic(*a, *b, true),
            Node::Conditional(condition, then, otherwise) => self.conditional(*condition, *then, *otherwise),
            Node::Equals { a, b, not } => self.equality(*a, *b, *not),
            Node::NotStrictlyFalse(arg) => self.not_strictly_false(*arg),
            Node::Call { function, overload, args, stops } => match self.program.places(*args) {
                [arg] if !stops => self.unary(function, *overload, *arg),
                [a, b] if !stops => self.binary(function, *overload, *a, *b),
                args => self.call(function, *overload, args),
            },
            Node::Accumulate { function, overload, args } => self.accumulate(function, *overload, *args),
            Node::InSet { arg, set } => self.in_set(*arg, *set),
            Node::Matches { text, pattern, overload } => self.matches(*text, *pattern, *overload),
            Node::OptionalOr(a, b) => self.optional_or(*a, *b),
            Node::OptionalOrValue(a, b) => self.optional_or_value(*a, *b),
            Node::List(items) => self.list(*items),
            Node::Map(entries) => self.map(*entries),
            Node::Message { message, fields } => self.message(*message, *fields),
            Node::Fold(fold) => self.fold(*fold),
            Node::OptionalPart(_) => Err(EvalError::NoSuchOverload),
        }
    }

    /// The value of a node where an attribute stands within another one: it is not counted for itself.
    pub(super) fn resolve(&mut self, place: Place) -> Evaluated<'a> {
        match self.program.node(place) {
            Node::Variable(variable) => self.environment(*variable),
            Node::Local(local) => self.local(*local),
            Node::Attribute { root, qualifiers, test_only } => self.attribute(*root, *qualifiers, *test_only),
            _ => self.exec(place),
        }
    }

    pub(super) fn environment(&mut self, variable: u32) -> Evaluated<'a> {
        match self.variables.get(variable as usize) {
            Some(Err(EvalError::Pending)) => {
                self.pending = Some(variable);
                Err(EvalError::Pending)
            }
            Some(value) => {
                if variable >= self.program.fields_from {
                    self.charge(1)?;
                }
                value.clone()
            }
            None => Err(EvalError::message("no such attribute(s)")),
        }
    }

    #[inline(never)]
    fn named(&mut self, place: Place) -> Evaluated<'a> {
        let value = self.resolve(place);
        self.charge(1)?;
        value
    }

    #[inline(never)]
    fn whole(&mut self, root: Place, qualifiers: Run, test_only: bool) -> Evaluated<'a> {
        let value = self.attribute(root, qualifiers, test_only);
        // An operand that `has` only tests costs nothing itself, nor does the result of a condition; upstream counts both
        // together twice.
        match (test_only, matches!(self.program.node(root), Node::Conditional(..))) {
            (false, false) => self.charge(1)?,
            (true, true) => self.cost = self.cost.saturating_sub(1),
            _ => {}
        }
        match value {
            Ok(Value::Optional(found)) if test_only => Ok(Value::Bool(found.is_some())),
            value => value,
        }
    }

    #[inline(never)]
    fn conditional(&mut self, condition: Place, then: Place, otherwise: Place) -> Evaluated<'a> {
        match self.exec(condition)? {
            Value::Bool(true) => self.resolve(then),
            Value::Bool(false) => self.resolve(otherwise),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    #[inline(never)]
    fn not_strictly_false(&mut self, arg: Place) -> Evaluated<'a> {
        let value = self.counted(arg)?;
        self.charge(1)?;
        if let Ok(Value::Bool(b)) = value { Ok(Value::Bool(b)) } else { Ok(Value::Bool(true)) }
    }

    #[inline(never)]
    fn in_set(&mut self, arg: Place, set: u32) -> Evaluated<'a> {
        let value = self.exec(arg)?;
        Ok(Value::Bool(self.program.sets.get(set as usize).is_some_and(|set| set.contains(&value))))
    }

    #[inline(never)]
    fn optional_or(&mut self, a: Place, b: Place) -> Evaluated<'a> {
        match self.exec(a)? {
            Value::Optional(None) => self.exec(b),
            value @ Value::Optional(_) => Ok(value),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    #[inline(never)]
    fn optional_or_value(&mut self, a: Place, b: Place) -> Evaluated<'a> {
        match self.exec(a)? {
            Value::Optional(None) => self.exec(b),
            Value::Optional(Some(value)) => Ok(std::sync::Arc::unwrap_or_clone(value)),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    /// A variable of a comprehension.
    pub(super) fn local(&mut self, local: u32) -> Evaluated<'a> {
        let init = match self.locals.get(local as usize) {
            Some(Local::Set(value)) => return value.clone(),
            Some(Local::Lazy(init)) => *init,
            _ => return Err(EvalError::message("no such attribute(s)")),
        };
        let value = self.exec(init);
        if value.as_ref().is_err_and(EvalError::ends) {
            return value;
        }
        self.set_local(local, Local::Set(value.clone()));
        value
    }

    pub(super) fn set_local(&mut self, local: u32, value: Local<'a>) {
        if let Some(place) = self.locals.get_mut(local as usize) {
            *place = value;
        }
    }

    /// `&&` and `||`: what decides does so whatever the other side is.
    #[inline(never)]
    fn logic(&mut self, a: Place, b: Place, decides: bool) -> Evaluated<'a> {
        let mut failed = None;
        for side in [a, b] {
            match self.exec(side) {
                Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Err(error) if error.ends() => return Err(error),
                Ok(_) => failed = failed.or(Some(EvalError::NoSuchOverload)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decides)), Err)
    }

    #[inline(never)]
    fn equality(&mut self, a: Place, b: Place, not: bool) -> Evaluated<'a> {
        let a = self.exec(a);
        if a.as_ref().is_err_and(EvalError::ends) {
            return a;
        }
        let (a, b) = match (a, self.exec(b)) {
            (_, Err(error)) if error.ends() => return Err(error),
            (Ok(a), Ok(b)) => (a, b),
            (Err(error), other) | (other, Err(error)) => {
                // The first error is the result, and an error counts as a scalar.
                let other = other.unwrap_or(Value::Null);
                self.charge(other.cost_size().min(1).div_ceil(10))?;
                return Err(error);
            }
        };
        self.scan(&a)?;
        self.scan(&b)?;
        let same = match (&a, &b) {
            (Value::String(a), Value::String(b)) => Ok(a.as_str() == b.as_str()),
            _ => a.equals_within(&b, &mut self.work),
        };
        let cost = match (&a, &b) {
            (Value::String(a), Value::String(b)) => shorter(a.as_str(), b.as_str()),
            // Values of Kubernetes' types cost the same whatever their size, but only where they are equal.
            (Value::Opaque(_), _) if !not => 1,
            (
                Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_),
                Value::Int(_) | Value::Bool(_),
            ) => 1,
            _ => a.cost_size().min(b.cost_size()).div_ceil(10),
        };
        self.charge(cost)?;
        match same {
            Err(error) if error.ends() => Err(error),
            // Values that cannot be compared are not equal, and `!=` does not fail on them.
            Err(_) if not => Ok(Value::Bool(true)),
            same => same.map(|same| Value::Bool(same != not)),
        }
    }

    /// A value or an error that something may absorb.
    fn counted(&mut self, place: Place) -> Result<Evaluated<'a>, EvalError> {
        match self.exec(place) {
            Err(error) if error.ends() => Err(error),
            other => Ok(other),
        }
    }

    #[inline(never)]
    fn unary(
        &mut self,
        function: &'static Function,
        overload: Option<&'static Overload>,
        arg: Place,
    ) -> Evaluated<'a> {
        match self.exec(arg) {
            Ok(arg) => self.apply(function, overload, &[arg]),
            Err(error) if error.ends() => Err(error),
            Err(error) => self.failed(function, overload, &[Value::Null], error),
        }
    }

    #[inline(never)]
    fn binary(
        &mut self,
        function: &'static Function,
        overload: Option<&'static Overload>,
        a: Place,
        b: Place,
    ) -> Evaluated<'a> {
        let a = self.exec(a);
        if a.as_ref().is_err_and(EvalError::ends) {
            return a;
        }
        // Both are evaluated, and counted, even if the first is an error.
        match (a, self.exec(b)) {
            (_, Err(error)) if error.ends() => Err(error),
            (Ok(a), Ok(b)) => self.apply(function, overload, &[a, b]),
            (Err(error), b) => {
                self.failed(function, overload, &[Value::Null, b.unwrap_or(Value::Null)], error)
            }
            (Ok(a), Err(error)) => self.failed(function, overload, &[a, Value::Null], error),
        }
    }

    /// A call that is over at the first argument that is an error, which is counted only if it was the last.
    #[inline(never)]
    fn call(
        &mut self,
        function: &'static Function,
        overload: Option<&'static Overload>,
        args: &[Place],
    ) -> Evaluated<'a> {
        let mut values = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            match self.counted(*arg)? {
                Ok(value) => values.push(value),
                Err(error) if i + 1 == args.len() => {
                    values.push(Value::Null);
                    return self.failed(function, overload, &values, error);
                }
                Err(error) => return Err(error),
            }
        }
        self.apply(function, overload, &values)
    }

    /// A call with an error among its arguments. It counts, the error as a scalar.
    fn failed(
        &mut self,
        function: &'static Function,
        overload: Option<&'static Overload>,
        args: &[Value<'a>],
        error: EvalError,
    ) -> Evaluated<'a> {
        self.charge(cost(function, overload, args, &Value::Null))?;
        Err(error)
    }

    /// Counts the work of looking through a text, which few costs count.
    fn scan(&mut self, value: &Value<'_>) -> Result<(), EvalError> {
        value.as_str().map_or(Ok(()), |text| self.work.spend(text.len() / SCANNED_IN_STEP))
    }

    /// A call of values.
    fn apply(
        &mut self,
        function: &'static Function,
        overload: Option<&'static Overload>,
        args: &[Value<'a>],
    ) -> Evaluated<'a> {
        args.iter().try_for_each(|arg| self.scan(arg))?;
        let result = match args {
            [Value::List(a), Value::List(b)] if function.name == operators::ADD => {
                // Each item is copied, and held.
                self.work.spend(ITEM_WORK * (a.len() + b.len()))?;
                invoke(function, overload, args, &mut self.work)
            }
            // If types are known only at run time, the length of a text is not counted.
            [Value::String(a), Value::String(b)] if overload.is_none() && function.name == operators::ADD => {
                self.work.spend((a.as_str().len() + b.as_str().len()) / 4)?;
                invoke(function, overload, args, &mut self.work)
            }
            [Value::Bytes(a), Value::Bytes(b)] if overload.is_none() && function.name == operators::ADD => {
                self.work.spend((a.len() + b.len()) / 4)?;
                invoke(function, overload, args, &mut self.work)
            }
            [Value::String(text), Value::String(expression)] if function.name == "matches" => {
                let pattern = Pattern::recent(expression.as_str());
                regex::matches(&pattern, text.as_str(), &mut self.work).map(Value::Bool)
            }
            [value, Value::List(list)] if function.name == operators::IN => {
                list.contains_within(value, &mut self.work).map(Value::Bool)
            }
            _ => invoke(function, overload, args, &mut self.work),
        };
        let cost = match &result {
            Ok(value) => cost(function, overload, args, value),
            Err(error) if error.ends() => return Err(error.clone()),
            Err(_) => cost(function, overload, args, &Value::Null),
        };
        self.charge(cost)?;
        result
    }

    /// `accumulator + items`, the accumulator being this comprehension's own and about to be replaced.
    #[inline(never)]
    fn accumulate(
        &mut self,
        function: &'static Function,
        overload: Option<&'static Overload>,
        args: Run,
    ) -> Evaluated<'a> {
        let [own, rest @ ..] = self.program.places(args) else { return Err(EvalError::NoSuchOverload) };
        let Node::Local(local) = self.program.node(*own) else { return Err(EvalError::NoSuchOverload) };
        // Made now, if it was not yet, and taken when all else is evaluated, so that nothing else holds it.
        let own = self.counted(*own)?.err();
        if let (None, [items]) = (&own, rest)
            && let Node::List(items) = self.program.node(*items)
            && let [item] = self.program.places(*items)
            && !matches!(self.program.node(*item), Node::OptionalPart(_))
        {
            return self.accumulate_item(function, overload, *local, *item);
        }
        let mut failed = own;
        let stops = rest.len() > 1;
        let mut values = vec![Value::Null];
        for (i, arg) in rest.iter().enumerate() {
            if stops && let Some(error) = failed {
                return Err(error);
            }
            match self.counted(*arg)? {
                Ok(value) => values.push(value),
                Err(error) => {
                    if stops && i + 1 < rest.len() {
                        return Err(error);
                    }
                    values.push(Value::Null);
                    failed = failed.or(Some(error));
                }
            }
        }
        if let Some(error) = failed {
            return self.failed(function, overload, &values, error);
        }
        if let (Some(accumulator), Some(own)) = (self.take(*local), values.first_mut()) {
            *own = accumulator;
        }
        match in_place(values) {
            Ok(value) => {
                self.charge(cost(function, overload, &[], &Value::Null))?;
                value
            }
            Err(values) => self.apply(function, overload, &values),
        }
    }

    /// `accumulator + [item]`, which is nearly all that comprehensions make.
    fn accumulate_item(
        &mut self,
        function: &'static Function,
        overload: Option<&'static Overload>,
        local: u32,
        item: Place,
    ) -> Evaluated<'a> {
        let item = self.counted(item)?;
        self.charge(LIST_COST)?;
        let item = match item {
            Ok(item) => item,
            Err(error) => return self.failed(function, overload, &[Value::Null, Value::Null], error),
        };
        let mut own = self.take(local).unwrap_or(Value::Null);
        if let Value::List(List::Owned(items)) = &mut own
            && let Some(items) = std::sync::Arc::get_mut(items)
        {
            items.push(item);
            self.charge(cost(function, overload, &[], &Value::Null))?;
            return Ok(own);
        }
        self.apply(function, overload, &[own, Value::list(vec![item])])
    }

    /// Takes an accumulator out of its variable; the caller puts the new value there.
    fn take(&mut self, local: u32) -> Option<Value<'a>> {
        match self.locals.get_mut(local as usize).map(std::mem::take) {
            Some(Local::Set(Ok(value))) => Some(value),
            _ => None,
        }
    }

    #[inline(never)]
    fn matches(&mut self, text: Place, pattern: u32, overload: Option<&'static Overload>) -> Evaluated<'a> {
        // An error here keeps the constant from being evaluated, and so the call from being counted.
        let text = self.exec(text)?;
        let Some(pattern) = self.program.patterns.get(pattern as usize) else {
            return Err(EvalError::NoSuchOverload);
        };
        let result = match &text {
            Value::String(text) => regex::matches(pattern, text.as_str(), &mut self.work),
            _ => Err(EvalError::NoSuchOverload),
        };
        let cost = match overload {
            Some(_) => cost_of_match(&[text, Value::borrowed(pattern.text())], &Value::Null),
            None => 1,
        };
        self.charge(cost)?;
        result.map(Value::Bool)
    }

    #[inline(never)]
    fn list(&mut self, items: Run) -> Evaluated<'a> {
        let items = self.program.places(items);
        let mut values = Vec::with_capacity(items.len());
        let made = self.items(items, &mut values);
        self.constructed(made, LIST_COST)?;
        Ok(Value::list(values))
    }

    fn items(&mut self, items: &'a [Place], values: &mut Vec<Value<'a>>) -> Result<(), EvalError> {
        for item in items {
            let Node::OptionalPart(part) = self.program.node(*item) else {
                values.push(self.exec(*item)?);
                continue;
            };
            match self.exec(*part)? {
                Value::Optional(None) => {}
                Value::Optional(Some(value)) => values.push(std::sync::Arc::unwrap_or_clone(value)),
                other => {
                    let message =
                        format!("cannot initialize optional list element from non-optional value {other}");
                    return Err(EvalError::Message(message));
                }
            }
        }
        Ok(())
    }

    /// A constructor counts even if a part of it is an error.
    fn constructed(&mut self, made: Result<(), EvalError>, cost: u64) -> Result<(), EvalError> {
        if made.as_ref().is_err_and(EvalError::ends) {
            return made;
        }
        self.charge(cost)?;
        made
    }

    #[inline(never)]
    fn map(&mut self, entries: Run) -> Evaluated<'a> {
        let mut made = Entries::default();
        let done = self.entries(self.program.places(entries), &mut made);
        self.constructed(done, MAP_COST)?;
        Ok(Value::Map(Map::Owned(made.into())))
    }

    fn entries(&mut self, entries: &'a [Place], made: &mut Entries<'a>) -> Result<(), EvalError> {
        for entry in entries.chunks_exact(2) {
            let [key, value] = entry else { continue };
            let key = self.exec(*key)?;
            let Node::OptionalPart(part) = self.program.node(*value) else {
                made.insert(key, self.exec(*value)?);
                continue;
            };
            match self.exec(*part)? {
                Value::Optional(None) => made.remove(&key),
                Value::Optional(Some(value)) => made.insert(key, std::sync::Arc::unwrap_or_clone(value)),
                other => {
                    let message =
                        format!("cannot initialize optional entry '{key}' from non-optional value {other}");
                    return Err(EvalError::Message(message));
                }
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn message(&mut self, message: u32, fields: Run) -> Evaluated<'a> {
        let Some(MadeMessage { name, fields: names }) = self.program.messages.get(message as usize) else {
            return Err(EvalError::NoSuchOverload);
        };
        let mut made = Message { name: name.clone(), fields: Vec::with_capacity(names.len()) };
        let done = self.fields(names, self.program.places(fields), &mut made);
        self.constructed(done, MESSAGE_COST)?;
        Ok(Value::Message(made.into()))
    }

    fn fields(
        &mut self,
        names: &'a [Arc<str>],
        values: &'a [Place],
        made: &mut Message<'a>,
    ) -> Result<(), EvalError> {
        for (name, value) in names.iter().zip(values) {
            let value = match self.program.node(*value) {
                Node::OptionalPart(part) => match self.exec(*part)? {
                    Value::Optional(value) => value.map(Arc::unwrap_or_clone),
                    other => {
                        let message = format!(
                            "cannot initialize optional entry '{name}' from non-optional value {other}"
                        );
                        return Err(EvalError::Message(message));
                    }
                },
                _ => Some(self.exec(*value)?),
            };
            self.work.spend(made.fields.len())?;
            made.fields.retain(|(known, _)| known != name);
            made.fields.extend(value.map(|value| (Arc::clone(name), value)));
        }
        made.check()
    }
}

/// The cost of comparing two texts: a tenth of the code points of the shorter one, rounded up. The number of bytes bounds
/// that of code points.
fn shorter(a: &str, b: &str) -> u64 {
    match a.len().min(b.len()) {
        0 => 0,
        1..=10 => 1,
        _ => Value::borrowed(a).cost_size().min(Value::borrowed(b).cost_size()).div_ceil(10),
    }
}

/// Adds to a list or a map that nothing else holds. Gives back the arguments if they are not that.
fn in_place(mut values: Vec<Value<'_>>) -> Result<Evaluated<'_>, Vec<Value<'_>>> {
    match values.as_mut_slice() {
        [Value::List(List::Owned(items)), Value::List(added)] => {
            let Some(items) = std::sync::Arc::get_mut(items) else { return Err(values) };
            for item in added.iter() {
                match item {
                    Ok(item) => items.push(item),
                    Err(error) => return Ok(Err(error)),
                }
            }
        }
        [Value::Map(Map::Owned(entries)), Value::Map(added)] => {
            let Some(entries) = Arc::get_mut(entries) else { return Err(values) };
            for (key, value) in added.iter() {
                if let Err(error) = value.and_then(|value| put(entries, key, value)) {
                    return Ok(Err(error));
                }
            }
        }
        [Value::Map(Map::Owned(entries)), key, value] => {
            let Some(entries) = Arc::get_mut(entries) else { return Err(values) };
            let (key, value) = (std::mem::replace(key, Value::Null), std::mem::replace(value, Value::Null));
            if let Err(error) = put(entries, key, value) {
                return Ok(Err(error));
            }
        }
        _ => return Err(values),
    }
    values.into_iter().next().map(Ok).ok_or_else(Vec::new)
}

/// The cost of a call.
fn cost(function: &Function, overload: Option<&Overload>, args: &[Value<'_>], result: &Value<'_>) -> u64 {
    match overload.map_or(function.cost, |overload| overload.cost) {
        Cost::Fixed(cost) => cost,
        Cost::Of(cost) => cost(args, result),
    }
}

/// Calls a function with values.
pub(super) fn invoke<'a>(
    function: &Function,
    overload: Option<&Overload>,
    args: &[Value<'a>],
    work: &mut Work,
) -> Evaluated<'a> {
    if let Some(run) = function.singleton {
        return run(args);
    }
    let mut run = |overload: &Overload| match (overload.counted, overload.run) {
        (Some(run), _) => run(args, work),
        (None, Some(run)) => run(args),
        (None, None) => Err(EvalError::NoSuchOverload),
    };
    if let Some(overload) = overload {
        let meant = overload.counted.is_some() || overload.run.is_some();
        let admitted = !meant || function.unguarded || suits(overload, args);
        return if admitted { run(overload) } else { Err(no_overload(function, args)) };
    }
    let suiting = |overload: &&Overload| {
        overload.params.len() == args.len() && (function.unguarded || suits(overload, args))
    };
    let meant = |overload: &&Overload| overload.counted.is_some() || overload.run.is_some();
    match function.overloads.iter().find(suiting).filter(meant) {
        Some(overload) => run(overload),
        None => Err(no_overload(function, args)),
    }
}

/// `decls.MaybeNoSuchOverload`
fn no_overload(function: &Function, args: &[Value<'_>]) -> EvalError {
    let types: Vec<_> = args.iter().map(Value::type_name).collect();
    EvalError::Message(format!("no such overload: {}({})", function.name, types.join(", ")))
}

fn suits(overload: &Overload, args: &[Value<'_>]) -> bool {
    overload.params.iter().zip(args).all(|(param, arg)| is_a(arg, param))
}

/// `true` if a value is of a type, of a list or map by its first item or entry (`defaultIsAssignableRuntimeType`).
fn is_a(value: &Value<'_>, of: &Type) -> bool {
    match (of, value) {
        (Type::Dyn | Type::Param(_) | Type::Var(_), _) => true,
        (Type::List(of), Value::List(list)) => match list.get(0) {
            None => true,
            Some(item) => item.map_or(matches!(**of, Type::Dyn | Type::Param(_)), |item| is_a(&item, of)),
        },
        (Type::Map(of), Value::Map(map)) => match map.entry(0) {
            None => true,
            Some((key, value)) => is_a(&key, &of.0) && value.is_ok_and(|value| is_a(&value, &of.1)),
        },
        _ => runtime_name(of) == value.type_name(),
    }
}

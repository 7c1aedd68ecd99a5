//! From [`Checked`](crate::check::Checked) to a value, counting what it costs.
//!
//! A [`Program`] is planned once: names become places, functions are found, constants are folded as cel-go's `OptOptimize`
//! folds them (which makes a difference to what is counted). It runs once per value; then only fields of objects are looked
//! up by name.
//!
//! **Costs** are those of cel-go's `interpreter.CostTracker`, to the unit: absorbed errors, and the operands of `has`, cost
//! as much as upstream. **Work** that upstream does not count (comparing lists of lists, joining lists) is bounded too, far
//! above what an honest expression does.

mod attribute;
mod fold;
mod plan;
mod run;
mod set;

pub(crate) use fold::go_value_type;

use std::sync::Arc;

use kindom_formats::Pattern;
use kindom_formats::pattern::Budget;

use crate::library::{Function, Overload};
use crate::value::{EvalError, PATTERNS_MAX, Value, Work};

/// The most that one evaluation may cost (`celconfig.PerCallLimit`).
pub const COST_MAX: u64 = 1_000_000;

/// The most items and entries that one evaluation may compare and copy without counting them as cost.
const WORK_MAX: u64 = 10_000_000;

/// An expression, ready to be evaluated.
#[derive(Debug)]
pub struct Program {
    nodes: Box<[Node]>,
    root: Place,
    /// Arguments and items, in runs.
    places: Box<[Place]>,
    qualifiers: Box<[Qualifier]>,
    names: Box<[Box<str>]>,
    constants: Box<[Value<'static>]>,
    /// The messages that are made: the names of their types and fields.
    messages: Box<[MadeMessage]>,
    folds: Box<[Fold]>,
    patterns: Box<[Arc<Pattern>]>,
    sets: Box<[set::Set]>,
    /// The number of variables that comprehensions need.
    locals: u32,
    /// The first of the variables that are fields of the one before them: see [`Program::with_fields`].
    fields_from: u32,
    /// Their names there, sorted.
    fields: Box<[Box<str>]>,
}

/// The place of a node in [`Program::nodes`].
type Place = u32;

/// A run of [`Program::places`] or [`Program::qualifiers`].
#[derive(Debug, Clone, Copy)]
struct Run {
    from: u32,
    len: u16,
}

/// A step of an evaluation.
#[derive(Debug)]
enum Node {
    /// Of [`Program::constants`].
    Constant(u32),
    /// A variable of the environment.
    Variable(u32),
    /// A variable of a comprehension.
    Local(u32),
    /// The value behind a chain of qualifiers.
    Attribute {
        root: Place,
        qualifiers: Run,
        /// `true` if the last qualifier is only asked for.
        test_only: bool,
    },
    And(Place, Place),
    Or(Place, Place),
    Conditional(Place, Place, Place),
    Equals {
        a: Place,
        b: Place,
        not: bool,
    },
    /// `@not_strictly_false`: true for any value but false, errors included.
    NotStrictlyFalse(Place),
    Call {
        function: &'static Function,
        /// None if it is known only by the values.
        overload: Option<&'static Overload>,
        args: Run,
        /// `true` if an error keeps the arguments behind it from being evaluated.
        stops: bool,
    },
    /// A call that makes a comprehension's accumulator from itself, in place where that is possible.
    Accumulate {
        function: &'static Function,
        overload: Option<&'static Overload>,
        /// The accumulator first.
        args: Run,
    },
    /// Membership in a constant list.
    InSet {
        arg: Place,
        set: u32,
    },
    /// A constant regular expression on a text.
    Matches {
        text: Place,
        pattern: u32,
        overload: Option<&'static Overload>,
    },
    OptionalOr(Place, Place),
    OptionalOrValue(Place, Place),
    /// Items, among them optional ones.
    List(Run),
    /// Keys and values in turn, among them optional ones.
    Map(Run),
    /// Fields of the message of [`Program::messages`].
    Message {
        message: u32,
        fields: Run,
    },
    /// Of [`Program::folds`].
    Fold(u32),
    /// An item of a list or a value of a map that is left out if it is an empty optional.
    OptionalPart(Place),
}

/// A message that is made.
#[derive(Debug)]
struct MadeMessage {
    name: Arc<str>,
    /// In the order of the values.
    fields: Vec<Arc<str>>,
}

/// A step along a value.
#[derive(Debug, Clone, Copy)]
struct Qualifier {
    by: By,
    /// `true` if absence is no error.
    optional: bool,
    /// `true` if it is a field of a message, which the checker knew.
    of_message: bool,
}

/// The key of a qualifier.
#[derive(Debug, Clone, Copy)]
enum By {
    /// A name that needs no unescaping, of [`Program::names`].
    Name(u32),
    /// Any other constant, of [`Program::constants`].
    Constant(u32),
    /// An expression that gives the key.
    Value(Place),
}

/// A comprehension.
#[derive(Debug)]
struct Fold {
    range: Place,
    /// The slots of the accumulator, the first and the second variable.
    accumulator: u32,
    first: u32,
    second: Option<u32>,
    init: Place,
    condition: Condition,
    step: Place,
    result: Place,
}

/// The condition on which a comprehension goes on to the next item.
#[derive(Debug, Clone, Copy)]
enum Condition {
    Always,
    /// While the accumulator is not this: `@not_strictly_false(accumulator)`, or of its negation.
    Until(bool),
    Value(Place),
}

/// The value of a variable of the environment. An absent one is an error that says so.
pub type Variable<'a> = Result<Value<'a>, EvalError>;

/// The result of an evaluation.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The value, or the reason why there is none.
    pub result: Result<Value<'a>, EvalError>,
    /// The cost so far, also on a failure.
    pub cost: u64,
    /// For [`EvalError::Pending`], the variable that is.
    pub pending: Option<u32>,
}

/// The work of many evaluations together that upstream does not count.
#[derive(Debug)]
pub struct Shared {
    /// For regular expressions.
    patterns: Budget,
    /// For items and entries that are compared and copied.
    work: u64,
}

impl Shared {
    /// As much work as one evaluation may do, and so many steps of regular expressions.
    #[must_use]
    pub fn new(patterns: usize) -> Self {
        Self::with_work(WORK_MAX, patterns)
    }

    /// A budget for so much work, and so many steps of regular expressions.
    #[must_use]
    pub fn with_work(work: u64, patterns: usize) -> Self {
        Self { patterns: Budget::new(patterns), work }
    }

    /// Counts work that is done beside evaluations.
    ///
    /// # Errors
    /// There is no more.
    pub fn spend(&mut self, work: u64) -> Result<(), EvalError> {
        self.work = self.work.checked_sub(work).ok_or(EvalError::CostExceeded)?;
        Ok(())
    }
}

impl Program {
    /// From this variable of the environment on, each is a field of the object that is the variable before: `object.name`. It costs
    /// as much as one, and where the expression only asks for it, it is looked at, and the object is not. Names are sorted.
    #[must_use]
    pub fn with_fields(self, from: u32, names: impl IntoIterator<Item = Box<str>>) -> Self {
        Self { fields_from: from, fields: names.into_iter().collect(), ..self }
    }

    /// The variable that is a field, by its name, of the variable that has fields.
    fn field_of(&self, root: Place, by: By) -> Option<u32> {
        let Node::Variable(object) = self.node(root) else { return None };
        if object + 1 != self.fields_from {
            return None;
        }
        let name = match by {
            By::Name(name) => self.name(name),
            By::Constant(constant) => self.constants.get(constant as usize)?.as_str()?,
            By::Value(_) => return None,
        };
        let at = self.fields.binary_search_by(|field| (**field).cmp(name)).ok()?;
        u32::try_from(at).ok().map(|at| self.fields_from + at)
    }

    /// Evaluates the expression on variables, in the order of the environment, for at most `limit`.
    pub fn run<'a>(&'a self, variables: &[Variable<'a>], limit: u64) -> Outcome<'a> {
        self.run_within(variables, limit, &mut Budget::new(PATTERNS_MAX))
    }

    /// As [`Program::run`], with a budget for regular expressions that many evaluations share.
    pub fn run_within<'a>(
        &'a self,
        variables: &[Variable<'a>],
        limit: u64,
        patterns: &mut Budget,
    ) -> Outcome<'a> {
        let mut shared = Shared { patterns: patterns.clone(), work: WORK_MAX };
        let outcome = self.run_sharing(variables, limit, &mut shared);
        *patterns = shared.patterns;
        outcome
    }

    /// As [`Program::run`], with everything shared that upstream does not count.
    pub fn run_sharing<'a>(
        &'a self,
        variables: &[Variable<'a>],
        limit: u64,
        shared: &mut Shared,
    ) -> Outcome<'a> {
        let work = Work::with(shared.work, shared.patterns.clone());
        let mut frame = run::Frame::new(self, variables, limit, work);
        let result = frame.exec(self.root);
        *shared = Shared { patterns: Budget::new(frame.work().patterns.left()), work: frame.work().left() };
        Outcome { result, cost: frame.cost(), pending: frame.pending() }
    }

    #[allow(clippy::indexing_slicing, reason = "planning made the place when it put the node there")]
    fn node(&self, place: Place) -> &Node {
        &self.nodes[place as usize]
    }

    fn name(&self, name: u32) -> &str {
        self.names.get(name as usize).map_or("", |name| name)
    }

    /// A constant, whose text is borrowed.
    fn constant(&self, constant: u32) -> Value<'_> {
        match self.constants.get(constant as usize) {
            Some(Value::String(text)) => Value::borrowed(text.as_str()),
            Some(value) => value.clone(),
            None => Value::Null,
        }
    }

    fn places(&self, run: Run) -> &[Place] {
        self.places.get(run.from as usize..run.from as usize + run.len as usize).unwrap_or_default()
    }
}

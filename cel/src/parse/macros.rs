//! Calls that are other expressions: the standard macros (cel-go `parser/macro.go`), those of optional values
//! (`cel/library.go`), comprehensions of two variables (`ext/comprehensions.go`) and `sortBy` (`ext/lists.go`).
//!
//! Costs and messages depend on the shape of what macros become, so each is built as cel-go builds it.

use crate::ast::{ACCUMULATOR, Comprehension, Entry, Id, Kind, Literal, StructField, operators};
use crate::parse::Issue;
use crate::parse::build::Builder;

/// The accumulator's name in older expansions, which no variable of a macro may take either.
const OLD_ACCUMULATOR: &str = "__result__";
const OVERWRITES: &str = "iteration variable overwrites accumulator variable";
/// The variable of a loop that never runs, whose result is what matters.
const UNUSED: &str = "#unused";

/// An expansion, or the error in an argument.
type Expanded = Result<Id, Issue>;

/// The expansion of a call without a target, if it is a macro.
pub(super) fn global(build: &mut Builder, at: u32, name: &str, args: &[Id]) -> Option<Id> {
    match (name, args) {
        ("has", [arg]) => {
            let expanded = has(build, at, *arg);
            Some(settle(build, expanded))
        }
        _ => None,
    }
}

/// The expansion of a call on a target, if it is a macro.
pub(super) fn member(build: &mut Builder, at: u32, target: Id, name: &str, args: &[Id]) -> Option<Id> {
    let mut make = Make { build, at };
    let expanded = match (name, args) {
        ("all", [var, test]) => make.name(*var).map(|var| make.all(target, Vars::one(var), *test)),
        ("all", [var, var2, test]) => make.names(*var, *var2).map(|vars| make.all(target, vars, *test)),
        ("exists", [var, test]) => make.name(*var).map(|var| make.exists(target, Vars::one(var), *test)),
        ("exists", [var, var2, test]) => make.names(*var, *var2).map(|vars| make.exists(target, vars, *test)),
        // The standard macros have no `existsOne`, only those of two variables.
        ("exists_one", [var, test]) => {
            make.name(*var).map(|var| make.exists_one(target, Vars::one(var), *test))
        }
        ("exists_one" | "existsOne", [var, var2, test]) => {
            make.names(*var, *var2).map(|vars| make.exists_one(target, vars, *test))
        }
        ("map", [var, value]) => {
            make.identifier(*var).map(|var| make.list(target, Vars::one(var), None, *value))
        }
        ("map", [var, test, value]) => {
            make.identifier(*var).map(|var| make.list(target, Vars::one(var), Some(*test), *value))
        }
        ("filter", [var, test]) => {
            make.identifier(*var).map(|name| make.list(target, Vars::one(name), Some(*test), *var))
        }
        ("transformList", [var, var2, value]) => {
            make.names(*var, *var2).map(|vars| make.list(target, vars, None, *value))
        }
        ("transformList", [var, var2, test, value]) => {
            make.names(*var, *var2).map(|vars| make.list(target, vars, Some(*test), *value))
        }
        ("transformMap", [var, var2, value]) => {
            make.names(*var, *var2).map(|vars| make.map(target, vars, None, *value, true))
        }
        ("transformMap", [var, var2, test, value]) => {
            make.names(*var, *var2).map(|vars| make.map(target, vars, Some(*test), *value, true))
        }
        ("transformMapEntry", [var, var2, value]) => {
            make.names(*var, *var2).map(|vars| make.map(target, vars, None, *value, false))
        }
        ("transformMapEntry", [var, var2, test, value]) => {
            make.names(*var, *var2).map(|vars| make.map(target, vars, Some(*test), *value, false))
        }
        ("optMap", [var, value]) => make.optional(target, *var, *value, false),
        ("optFlatMap", [var, value]) => make.optional(target, *var, *value, true),
        ("sortBy", [var, key]) => make.sort_by(target, *var, *key),
        _ => return None,
    };
    Some(settle(build, expanded))
}

fn settle(build: &mut Builder, expanded: Expanded) -> Id {
    expanded.unwrap_or_else(|issue| {
        let at = issue.at.unwrap_or_default();
        build.issue(at, issue.message)
    })
}

fn wrong(build: &Builder, arg: Id, message: impl Into<String>) -> Issue {
    Issue { at: Some(build.get(arg).at), message: message.into() }
}

fn has(build: &mut Builder, at: u32, arg: Id) -> Expanded {
    match &build.get(arg).kind {
        Kind::Select { operand, field, .. } => {
            let (operand, field) = (*operand, field.clone());
            Ok(build.add(at, Kind::Select { operand, field, test_only: true }))
        }
        _ => Err(wrong(build, arg, "invalid argument to has() macro")),
    }
}

/// The variables of a loop.
struct Vars {
    first: Box<str>,
    second: Option<Box<str>>,
}

impl Vars {
    fn one(first: Box<str>) -> Self {
        Self { first, second: None }
    }
}

/// Makes expressions that stand where the macro was called.
struct Make<'b> {
    build: &'b mut Builder,
    at: u32,
}

impl Make<'_> {
    fn accumulator(&mut self) -> Id {
        self.ident(ACCUMULATOR)
    }

    fn ident(&mut self, name: &str) -> Id {
        self.build.add(self.at, Kind::Ident(name.into()))
    }

    fn literal(&mut self, literal: Literal) -> Id {
        self.build.add(self.at, Kind::Literal(literal))
    }

    fn call(&mut self, function: &str, args: impl Into<Vec<Id>>) -> Id {
        self.build.call(self.at, function, args)
    }

    fn call_on(&mut self, target: Id, function: &str, args: impl Into<Vec<Id>>) -> Id {
        self.build
            .add(self.at, Kind::Call { target: Some(target), function: function.into(), args: args.into() })
    }

    fn items(&mut self, items: impl Into<Vec<Id>>) -> Id {
        self.build.list(self.at, items.into(), Vec::new())
    }

    /// A loop over a range with the usual accumulator.
    fn fold(&mut self, iter_range: Id, vars: Vars, parts: [Id; 4]) -> Id {
        let [accu_init, loop_condition, loop_step, result] = parts;
        let comprehension = Comprehension {
            iter_range,
            iter_var: vars.first,
            iter_var2: vars.second,
            accu_var: ACCUMULATOR.into(),
            accu_init,
            loop_condition,
            loop_step,
            result,
        };
        self.build.add(self.at, Kind::Comprehension(Box::new(comprehension)))
    }

    /// `value` under a name within `result`: a loop over nothing.
    fn bind(&mut self, name: &str, value: Id, kept: Id, result: Id) -> Id {
        let comprehension = Comprehension {
            iter_range: self.items([]),
            iter_var: UNUSED.into(),
            iter_var2: None,
            accu_var: name.into(),
            accu_init: value,
            loop_condition: self.literal(Literal::Bool(false)),
            loop_step: kept,
            result,
        };
        self.build.add(self.at, Kind::Comprehension(Box::new(comprehension)))
    }

    /// The name of a quantifier's variable.
    fn name(&self, arg: Id) -> Result<Box<str>, Issue> {
        self.variable(arg, "argument must be a simple name")
    }

    /// The name of the variable of `map` and `filter`.
    fn identifier(&self, arg: Id) -> Result<Box<str>, Issue> {
        self.variable(arg, "argument is not an identifier")
    }

    fn variable(&self, arg: Id, otherwise: &str) -> Result<Box<str>, Issue> {
        match &self.build.get(arg).kind {
            Kind::Ident(name) if overwrites(name) => Err(wrong(self.build, arg, OVERWRITES)),
            Kind::Ident(name) => Ok(name.clone()),
            _ => Err(wrong(self.build, arg, otherwise)),
        }
    }

    /// The names of the variables of a comprehension of two.
    fn names(&self, first: Id, second: Id) -> Result<Vars, Issue> {
        let simple = |arg: Id| match &self.build.get(arg).kind {
            Kind::Ident(name) => Ok(name.clone()),
            _ => Err(wrong(self.build, arg, "argument must be a simple name")),
        };
        let vars = Vars { first: simple(first)?, second: Some(simple(second)?) };
        match &vars.second {
            Some(name) if *name == vars.first => {
                Err(wrong(self.build, second, format!("duplicate variable name: {name}")))
            }
            _ if overwrites(&vars.first) => Err(wrong(self.build, first, OVERWRITES)),
            Some(name) if overwrites(name) => Err(wrong(self.build, second, OVERWRITES)),
            _ => Ok(vars),
        }
    }

    fn all(&mut self, range: Id, vars: Vars, test: Id) -> Id {
        let init = self.literal(Literal::Bool(true));
        let accumulator = self.accumulator();
        let condition = self.call(operators::NOT_STRICTLY_FALSE, [accumulator]);
        let accumulator = self.accumulator();
        let step = self.call(operators::AND, [accumulator, test]);
        let result = self.accumulator();
        self.fold(range, vars, [init, condition, step, result])
    }

    fn exists(&mut self, range: Id, vars: Vars, test: Id) -> Id {
        let init = self.literal(Literal::Bool(false));
        let accumulator = self.accumulator();
        let not = self.call(operators::NOT, [accumulator]);
        let condition = self.call(operators::NOT_STRICTLY_FALSE, [not]);
        let accumulator = self.accumulator();
        let step = self.call(operators::OR, [accumulator, test]);
        let result = self.accumulator();
        self.fold(range, vars, [init, condition, step, result])
    }

    fn exists_one(&mut self, range: Id, vars: Vars, test: Id) -> Id {
        let init = self.literal(Literal::Int(0));
        let condition = self.literal(Literal::Bool(true));
        let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
        let more = self.call(operators::ADD, [accumulator, one]);
        let same = self.accumulator();
        let step = self.call(operators::CONDITIONAL, [test, more, same]);
        let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
        let result = self.call(operators::EQUALS, [accumulator, one]);
        self.fold(range, vars, [init, condition, step, result])
    }

    fn list(&mut self, range: Id, vars: Vars, test: Option<Id>, value: Id) -> Id {
        let init = self.items([]);
        let condition = self.literal(Literal::Bool(true));
        let accumulator = self.accumulator();
        let item = self.items([value]);
        let more = self.call(operators::ADD, [accumulator, item]);
        let step = self.unless(test, more);
        let result = self.accumulator();
        self.fold(range, vars, [init, condition, step, result])
    }

    fn map(&mut self, range: Id, vars: Vars, test: Option<Id>, value: Id, keyed: bool) -> Id {
        let accumulator = self.accumulator();
        let more = match keyed {
            true => {
                let key = self.ident(&vars.first);
                self.call("cel.@mapInsert", [accumulator, key, value])
            }
            false => self.call("cel.@mapInsert", [accumulator, value]),
        };
        let step = self.unless(test, more);
        let init = self.build.map(self.at, Vec::new());
        let condition = self.literal(Literal::Bool(true));
        let result = self.accumulator();
        self.fold(range, vars, [init, condition, step, result])
    }

    /// A step only where a test holds, if there is one.
    fn unless(&mut self, test: Option<Id>, step: Id) -> Id {
        match test {
            Some(test) => {
                let same = self.accumulator();
                self.call(operators::CONDITIONAL, [test, step, same])
            }
            None => step,
        }
    }

    fn optional(&mut self, target: Id, var: Id, value: Id, flat: bool) -> Expanded {
        let Kind::Ident(name) = &self.build.get(var).kind else {
            let function = if flat { "optFlatMap" } else { "optMap" };
            let message = format!("{function}() variable name must be a simple identifier");
            return Err(wrong(self.build, var, message));
        };
        let name = name.clone();
        let present = self.call_on(target, "hasValue", []);
        let copy = self.copy(target);
        let inner = self.call_on(copy, "value", []);
        let kept = self.ident(&name);
        let bound = self.bind(&name, inner, kept, value);
        let some = if flat { bound } else { self.call("optional.of", [bound]) };
        let none = self.call("optional.none", []);
        Ok(self.call(operators::CONDITIONAL, [present, some, none]))
    }

    fn sort_by(&mut self, target: Id, var: Id, key: Id) -> Expanded {
        const INPUT: &str = "@__sortBy_input__";
        if !matches!(
            self.build.get(target).kind,
            Kind::List { .. }
                | Kind::Select { .. }
                | Kind::Ident(_)
                | Kind::Comprehension(_)
                | Kind::Call { .. }
        ) {
            let message =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err(wrong(self.build, target, message));
        }
        let name = self.identifier(var)?;
        let range = self.ident(INPUT);
        let keys = self.list(range, Vars::one(name), None, key);
        let input = self.ident(INPUT);
        let sorted = self.call_on(input, "@sortByAssociatedKeys", [keys]);
        let kept = self.ident(INPUT);
        Ok(self.bind(INPUT, target, kept, sorted))
    }

    /// Copies an expression. Its size is bounded, as macros that copy can nest.
    fn copy(&mut self, id: Id) -> Id {
        if !self.build.room() {
            return id;
        }
        let expr = self.build.get(id).clone();
        let kind = match expr.kind {
            kind @ (Kind::Literal(_) | Kind::Ident(_) | Kind::Error) => kind,
            Kind::Select { operand, field, test_only } => {
                Kind::Select { operand: self.copy(operand), field, test_only }
            }
            Kind::Call { target, function, args } => {
                let args = args.into_iter().map(|arg| self.copy(arg)).collect();
                Kind::Call { target: target.map(|target| self.copy(target)), function, args }
            }
            Kind::List { items, optional } => {
                Kind::List { items: items.into_iter().map(|item| self.copy(item)).collect(), optional }
            }
            Kind::Map(entries) => {
                Kind::Map(entries.into_iter().map(|entry| self.copy_entry(entry)).collect())
            }
            Kind::Struct { name, fields } => Kind::Struct {
                name,
                fields: fields.into_iter().map(|field| self.copy_field(field)).collect(),
            },
            Kind::Comprehension(fold) => Kind::Comprehension(Box::new(self.copy_fold(*fold))),
        };
        self.build.add(expr.at, kind)
    }

    fn copy_entry(&mut self, entry: Entry) -> Entry {
        Entry { key: self.copy(entry.key), value: self.copy(entry.value), at: self.at, ..entry }
    }

    fn copy_field(&mut self, field: StructField) -> StructField {
        StructField { value: self.copy(field.value), at: self.at, ..field }
    }

    fn copy_fold(&mut self, fold: Comprehension) -> Comprehension {
        Comprehension {
            iter_range: self.copy(fold.iter_range),
            accu_init: self.copy(fold.accu_init),
            loop_condition: self.copy(fold.loop_condition),
            loop_step: self.copy(fold.loop_step),
            result: self.copy(fold.result),
            ..fold
        }
    }
}

fn overwrites(name: &str) -> bool {
    name == ACCUMULATOR || name == OLD_ACCUMULATOR
}

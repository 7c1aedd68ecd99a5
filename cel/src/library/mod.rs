//! The functions that expressions may call: those of the language, and the libraries of Kubernetes 1.37.
//!
//! A library is a file with one function that declares the library's functions. An overload stands in one place with its
//! types, its meaning and its cost at run time; estimates are made in [`crate::cost`].

mod arguments;
pub mod authorization;
pub(crate) mod comprehensions;
mod cost;
mod ext_lists;
mod formats;
mod json_patch;
mod lists;
mod net;
mod quantity;
pub(crate) mod regex;
mod semver;
mod sets;
pub(crate) mod standard;
pub(crate) mod string_format;
mod strings;
mod urls;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::Type;
use crate::value::{EvalError, Value, Work};

/// A function and all its overloads.
#[derive(Debug)]
pub struct Function {
    /// As expressions call it; an operator's as in [`crate::ast::operators`].
    pub name: &'static str,
    /// In the order of declaration, which messages and the choice of overload follow.
    pub overloads: Vec<Overload>,
    /// One implementation for all overloads, which looks at the types of its arguments itself
    /// (`decls.SingletonFunctionBinding`).
    pub singleton: Option<Run>,
    /// `true` if an overload is called with arguments of any types once the checker has chosen it as the only one
    /// (`decls.DisableTypeGuards`).
    pub unguarded: bool,
    /// The cost of a call, without its arguments, if its overload is known only at run time: the cost that
    /// `library.CostEstimator.CallCost` gives for the function with any overload, else 1.
    pub cost: Cost,
}

/// One way to call a function.
#[derive(Debug)]
pub struct Overload {
    /// As cel-go names it: `string_to_int64`.
    pub id: &'static str,
    /// `true` if it is called on a target, `target.function(…)`, which is the first of `params`.
    pub member: bool,
    /// The types of its arguments.
    pub params: Vec<Type>,
    /// The type of its result.
    pub result: Type,
    /// The implementation of a call; `None` if the function is a singleton or evaluation knows it by its name. The target is
    /// the first argument. Arguments are values, never errors, and of the types that `params` tell, unless the function is
    /// unguarded.
    pub run: Option<Run>,
    /// Instead of `run`, where a call may do more work than it costs.
    pub(crate) counted: Option<Counted>,
    /// The cost of a call, without its arguments, once it has returned: by a library's own tracker
    /// (`interpreter.OverloadCostTracker`), else by `library.CostEstimator.CallCost`, else by cel-go's
    /// `interpreter.CostTracker.costCall`.
    pub cost: Cost,
}

/// The meaning of a function.
pub type Run = for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, EvalError>;

/// The meaning of a function that counts its work, and stops when there is too much.
pub(crate) type Counted = for<'a> fn(&[Value<'a>], &mut Work) -> Result<Value<'a>, EvalError>;

/// The cost of a call.
#[derive(Debug, Clone, Copy)]
pub enum Cost {
    /// Always as much.
    Fixed(u64),
    /// By its arguments and its result.
    Of(for<'a> fn(&[Value<'a>], &Value<'a>) -> u64),
}

impl Function {
    /// A function without overloads, at a cost of 1.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, overloads: Vec::new(), singleton: None, unguarded: false, cost: Cost::Fixed(1) }
    }

    /// With one more overload.
    #[must_use]
    pub fn overload(mut self, overload: Overload) -> Self {
        self.overloads.push(overload);
        self
    }

    /// With one meaning for all overloads.
    #[must_use]
    pub fn singleton(mut self, run: Run) -> Self {
        self.singleton = Some(run);
        self
    }

    /// Without looking at the types of values before a call.
    #[must_use]
    pub fn unguarded(mut self) -> Self {
        self.unguarded = true;
        self
    }

    /// At this cost, for itself and for each overload that it has by now.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        for overload in &mut self.overloads {
            overload.cost = cost;
        }
        self
    }
}

impl Overload {
    /// `function(…)`, at a cost of 1.
    #[must_use]
    pub fn global(id: &'static str, params: impl Into<Vec<Type>>, result: Type) -> Self {
        Self {
            id,
            member: false,
            params: params.into(),
            result,
            run: None,
            counted: None,
            cost: Cost::Fixed(1),
        }
    }

    /// `target.function(…)`, at a cost of 1. The target is the first of `params`.
    #[must_use]
    pub fn member(id: &'static str, params: impl Into<Vec<Type>>, result: Type) -> Self {
        Self { member: true, ..Self::global(id, params, result) }
    }

    /// With this meaning.
    #[must_use]
    pub fn run(self, run: Run) -> Self {
        Self { run: Some(run), ..self }
    }

    /// With this meaning, which counts its work.
    #[must_use]
    pub(crate) fn counted(self, counted: Counted) -> Self {
        Self { counted: Some(counted), ..self }
    }

    /// At this cost.
    #[must_use]
    pub fn cost(self, cost: Cost) -> Self {
        Self { cost, ..self }
    }
}

/// The functions by name.
#[derive(Debug, Default)]
pub struct Functions {
    by_name: HashMap<&'static str, Function>,
}

impl Functions {
    /// All that expressions in registrations may call.
    pub fn all() -> &'static Self {
        static ALL: LazyLock<Functions> = LazyLock::new(|| {
            let mut functions = Functions::default();
            declare(&mut functions);
            functions
        });
        &ALL
    }

    /// The function of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Function> {
        self.by_name.get(name)
    }

    /// All, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Function> {
        self.by_name.values()
    }

    /// Adds a function, or overloads to one that is there.
    pub fn add(&mut self, function: Function) {
        match self.by_name.entry(function.name) {
            std::collections::hash_map::Entry::Occupied(mut known) => {
                known.get_mut().overloads.extend(function.overloads);
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(function);
            }
        }
    }
}

/// Every library, in the order of `environment/base.go`.
fn declare(functions: &mut Functions) {
    standard::declare(functions);
    urls::declare(functions);
    regex::declare(functions);
    authorization::declare(functions);
    quantity::declare(functions);
    strings::declare(functions);
    sets::declare(functions);
    net::declare_ip(functions);
    net::declare_cidr(functions);
    formats::declare(functions);
    authorization::declare_selectors(functions);
    comprehensions::declare(functions);
    semver::declare(functions);
    ext_lists::declare(functions);
    lists::declare(functions);
    json_patch::declare(functions);
}

#[cfg(test)]
mod tests;

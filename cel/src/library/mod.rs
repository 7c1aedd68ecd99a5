//! The functions that expressions may call: those of the language, and the libraries of Kubernetes 1.37.
//!
//! A library is a file with one function that declares what it has. A function stands in one place with its types, its
//! meaning and its cost at run time; estimates are made in [`crate::cost`].

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::Type;
use crate::value::{EvalError, Value};

/// A function and all its overloads.
#[derive(Debug)]
pub struct Function {
    /// As expressions call it; an operator's as in [`crate::ast::operators`].
    pub name: &'static str,
    /// In the order of declaration, which messages and the choice of overload follow.
    pub overloads: Vec<Overload>,
    /// What a call means. The target is the first argument. Arguments are values, never errors.
    pub run: Run,
    /// What a call costs, beyond its arguments, once it is done (`library.CostEstimator.CallCost`, else cel-go's
    /// `interpreter.costCall`).
    pub cost: Cost,
}

/// One way to call a function.
#[derive(Debug)]
pub struct Overload {
    /// As cel-go names it: `string_to_int`.
    pub id: &'static str,
    /// Whether it is called on a target, `target.function(…)`, which is the first of `params`.
    pub member: bool,
    /// The types of its arguments.
    pub params: Vec<Type>,
    /// The type of its result.
    pub result: Type,
}

/// The meaning of a function.
pub type Run = for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, EvalError>;

/// What a call costs.
#[derive(Debug, Clone, Copy)]
pub enum Cost {
    /// Always as much.
    Fixed(u64),
    /// By its arguments and its result.
    Of(for<'a> fn(&[Value<'a>], &Value<'a>) -> u64),
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

    /// Adds a function, or overloads to one whose meaning covers them already.
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
fn declare(_functions: &mut Functions) {}

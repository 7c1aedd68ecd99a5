//! From [`Ast`](crate::ast::Ast) to types.

use crate::ast::Ast;
use crate::library::{Function, Overload};
use crate::types::Type;

/// An expression whose types are known.
#[derive(Debug)]
pub struct Checked {
    /// With qualified names made one.
    pub ast: Ast,
    /// The type of each expression, by id.
    pub types: Vec<Type>,
    /// What each name or call refers to, by id.
    pub references: Vec<Reference>,
}

/// What a name or a call refers to.
#[derive(Debug, Default)]
pub enum Reference {
    /// Nothing: the expression is neither.
    #[default]
    None,
    /// A variable of the environment, by its place there.
    Variable(u32),
    /// A variable of a comprehension, by its name in the AST.
    Local,
    /// A type.
    Type(Type),
    /// A function and those of its overloads that the arguments allow.
    Call(&'static Function, Vec<&'static Overload>),
}

//! The rules of `x-kubernetes-validations` (`apiextensions-apiserver/pkg/apiserver/schema/cel`).
//!
//! A rule is compiled with its schema, against the schema's declarations ([`declare`]), and is kept in its node. It sees
//! values through the nodes ([`shape`]), without converting them.
//!
//! Rules stand only where values are found by fields and items: below a junctor they are refused in registrations, and those
//! that an old server accepted do not run.

pub(crate) mod advice;
pub(crate) mod attach;
pub(crate) mod compile;
pub(crate) mod declare;
pub(crate) mod shape;

use kindom_cel::eval::Program;

pub(crate) use declare::declaration;

/// The rules of one node.
#[derive(Debug)]
pub(crate) struct Expressions {
    pub(crate) rules: Box<[Rule]>,
    /// `true` if any of the rules uses `oldSelf`: only then do expressions get the old value.
    pub(crate) use_old_self: bool,
}

/// A rule, ready to run.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The compiled rule, or the reason why it does not compile; registrations with such a rule are refused, but an older
    /// server may have accepted one.
    pub(crate) program: Result<Program, Box<str>>,
    /// Its `message`, else its text, without the space around.
    pub(crate) text: Box<str>,
    /// `true` if `text` is its `message`.
    pub(crate) has_message: bool,
    pub(crate) reason: Reason,
    pub(crate) uses_old_self: bool,
    /// `true` if it also runs where there is no old value.
    pub(crate) optional_old_self: bool,
    pub(crate) more: Option<Box<More>>,
}

/// Settings that few rules have.
#[derive(Debug)]
pub(crate) struct More {
    /// `messageExpression`, and its text; none if it does not compile.
    pub(crate) message: Option<(Program, Box<str>)>,
    /// `fieldPath` as errors print it: `spec.x[key]`.
    pub(crate) field_path: Option<Box<str>>,
}

/// `reason`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

#[cfg(test)]
pub(crate) mod tests;

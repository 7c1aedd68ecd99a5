//! The check of constant formats when an expression is compiled.

use super::{Arguments, Clause, walk};
use crate::ast::{Id, Kind, Literal};
use crate::check::{Checked, Reference};
use crate::types::Type;

/// Arguments whose types alone are known.
struct Typed<'c> {
    checked: &'c Checked,
    items: &'c [Id],
    used: usize,
}

impl Typed<'_> {
    fn kind(&self, id: Id) -> &Type {
        const UNKNOWN: &Type = &Type::Dyn;
        usize::try_from(id).ok().and_then(|at| self.checked.types.get(at)).unwrap_or(UNKNOWN)
    }

    /// The argument, or the part of it, that `%s` cannot print.
    fn unprintable(&self, id: Id) -> Option<Id> {
        if !prints(Clause::String, self.kind(id)) {
            return Some(id);
        }
        match &self.checked.ast.get(id).kind {
            Kind::List { items, .. } => items.iter().find_map(|item| self.unprintable(*item)),
            Kind::Map(entries) => entries
                .iter()
                .find_map(|entry| self.unprintable(entry.key).or_else(|| self.unprintable(entry.value))),
            _ => None,
        }
    }
}

/// Returns true if a clause may print values of a type.
fn prints(clause: Clause, kind: &Type) -> bool {
    use Type as T;
    if matches!(kind, T::Dyn) {
        return true;
    }
    match clause {
        Clause::String => matches!(
            kind,
            T::List(_)
                | T::Map(_)
                | T::Int
                | T::Uint
                | T::Double
                | T::Bool
                | T::String
                | T::Timestamp
                | T::Bytes
                | T::Duration
                | T::Type(_)
                | T::Null
        ),
        Clause::Decimal | Clause::Octal => matches!(kind, T::Int | T::Uint),
        Clause::Fixed(_) | Clause::Scientific(_) => matches!(kind, T::Double | T::String),
        Clause::Binary => matches!(kind, T::Int | T::Uint | T::Bool),
        Clause::Hex(_) => matches!(kind, T::Int | T::Uint | T::String | T::Bytes),
    }
}

impl Arguments for Typed<'_> {
    /// At which argument, if not at the call.
    type Error = (Option<Id>, String);

    const STRICT: bool = false;

    fn len(&self) -> usize {
        self.items.len()
    }

    fn print(&mut self, at: usize, clause: Clause, _: &mut String) -> Result<(), Self::Error> {
        self.used = at + 1;
        let Some(id) = self.items.get(at).copied() else { return Ok(()) };
        let bad = match clause {
            Clause::String => self.unprintable(id),
            _ if prints(clause, self.kind(id)) => None,
            _ => Some(id),
        };
        bad.map_or(Ok(()), |id| {
            let why = clause.refuses(crate::value::runtime_name(self.kind(id)));
            Err((Some(id), format!("error during formatting: {why}")))
        })
    }

    fn fail(&self, why: String) -> Self::Error {
        (None, why)
    }
}

/// The error, and its place, in a call of `format` on a constant with a list that is written out (`stringFormatValidator`).
pub(crate) fn check(checked: &Checked, id: Id) -> Option<(Id, String)> {
    let expr = checked.ast.get(id);
    let Kind::Call { target: Some(target), function, args } = &expr.kind else { return None };
    let ([args], "format") = (args.as_slice(), &**function) else { return None };
    if let Some(Reference::Call(_, overloads)) = checked.references.get(usize::try_from(id).ok()?)
        && !overloads.iter().any(|overload| overload.id == "string_format")
    {
        return None;
    }
    let Kind::Literal(Literal::String(format)) = &checked.ast.get(*target).kind else { return None };
    let Kind::List { items, .. } = &checked.ast.get(*args).kind else { return None };
    let mut typed = Typed { checked, items, used: 0 };
    match walk(format, &mut typed) {
        Err((place, message)) => Some((place.unwrap_or(id), message)),
        Ok(_) if items.len() > typed.used => {
            let (used, given) = (typed.used, items.len());
            Some((id, format!("too many arguments supplied to string.format (expected {used}, got {given})")))
        }
        Ok(_) => None,
    }
}

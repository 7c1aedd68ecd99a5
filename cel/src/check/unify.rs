//! The rules by which types fit each other (cel-go `checker/types.go`), and the bindings of type variables that follow.

use std::cell::Cell;

use crate::library::Overload;
use crate::types::Type;

/// The most parts that a type may have. `[1].map(x, {x: x})` doubles them, and so may the next call.
const PARTS_MAX: usize = 1_000;
/// The most steps that finding types may take. A type may contain open types, each of them more than once, so that the work
/// can grow exponentially.
const STEPS_MAX: u32 = 5_000_000;

/// The types found for the type variables.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    /// The number of steps that finding them has taken.
    steps: Cell<u32>,
    /// By the number of [`Type::Var`].
    found: Vec<Option<Type>>,
    /// The overwritten bindings, for undoing an attempt.
    trail: Vec<(u32, Option<Type>)>,
}

impl Bindings {
    /// A type that is yet to be found.
    pub(super) fn fresh(&mut self) -> Type {
        let var = u32::try_from(self.found.len()).unwrap_or(u32::MAX);
        self.found.push(None);
        Type::Var(var)
    }

    /// Returns true if the steps are used up: the types are unknown.
    pub(super) fn exhausted(&self) -> bool {
        self.steps.get() >= STEPS_MAX
    }

    /// Counts a step; returns true if there may be one more.
    fn step(&self) -> bool {
        self.steps.set(self.steps.get().saturating_add(1));
        !self.exhausted()
    }

    fn find(&self, ty: &Type) -> Option<&Type> {
        match ty {
            Type::Var(var) => self.found.get(*var as usize)?.as_ref(),
            _ => None,
        }
    }

    fn bind(&mut self, var: &Type, to: Type) {
        if let Type::Var(var) = var
            && let Some(place) = self.found.get_mut(*var as usize)
        {
            self.trail.push((*var, place.replace(to)));
        }
    }

    /// Keeps the bindings that a test makes if it returns true, and undoes them otherwise.
    fn attempt(&mut self, test: impl FnOnce(&mut Self) -> bool) -> bool {
        let before = self.trail.len();
        let holds = test(self);
        if !holds {
            for (var, old) in self.trail.drain(before..).rev() {
                if let Some(place) = self.found.get_mut(var as usize) {
                    *place = old;
                }
            }
        }
        self.trail.truncate(before);
        holds
    }

    /// Returns true if a value of the type `one` may stand where `other` is expected.
    pub(super) fn assignable(&mut self, one: &Type, other: &Type) -> bool {
        self.attempt(|bindings| bindings.fits(one, other))
    }

    /// The type of a call of an overload with arguments of these types, if it may be called with them.
    pub(super) fn apply(&mut self, overload: &Overload, given: &[Type]) -> Option<Type> {
        let vars = Instance::new(self, overload);
        if given.len() != overload.params.len() {
            return None;
        }
        let pairs = given.iter().zip(&overload.params);
        let fits = match vars.is_empty() {
            true => {
                self.attempt(|bindings| pairs.into_iter().all(|(given, param)| bindings.fits(given, param)))
            }
            false => self.attempt(|bindings| {
                pairs.into_iter().all(|(given, param)| bindings.fits(given, &vars.of(param)))
            }),
        };
        fits.then(|| match vars.is_empty() {
            true => overload.result.clone(),
            false => self.resolve(&vars.of(&overload.result)),
        })
    }

    /// `internalIsAssignable`
    fn fits(&mut self, one: &Type, other: &Type) -> bool {
        if !self.step() {
            return false;
        }
        if is_open(other) {
            match self.substitutes(one, other) {
                (true, _) => return true,
                (false, true) => return false,
                // It may still be the other way round.
                (false, false) => {}
            }
        }
        if is_open(one) {
            return self.substitutes(other, one).0;
        }
        match (one, other) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
                self.fits(one, other)
            }
            (Type::Map(one), Type::Map(other)) => self.fits(&one.0, &other.0) && self.fits(&one.1, &other.1),
            _ => same(one, other),
        }
    }

    /// Returns, for a type that is to stand for an open one, if it may, and if the open one was already found
    /// (`isValidTypeSubstitution`).
    fn substitutes(&mut self, ty: &Type, open: &Type) -> (bool, bool) {
        if same(ty, open) {
            return (true, true);
        }
        if let Some(found) = self.find(open).cloned() {
            if same(ty, &found) {
                return (true, true);
            }
            if !self.fits(ty, &found) {
                return (false, true);
            }
            let general = most_general(ty.clone(), found);
            if !self.occurs(open, &general) {
                self.bind(open, general);
            }
            return (true, true);
        }
        if self.occurs(open, ty) {
            return (false, false);
        }
        self.bind(open, ty.clone());
        (true, false)
    }

    /// Returns true if an open type is part of another (`notReferencedIn`, negated).
    fn occurs(&self, open: &Type, within: &Type) -> bool {
        if !self.step() {
            return true;
        }
        if same(open, within) {
            return true;
        }
        match within {
            Type::Var(_) => self.find(within).is_some_and(|found| self.occurs(open, found)),
            Type::List(of) | Type::Optional(of) | Type::Type(of) => self.occurs(open, of),
            Type::Map(parts) => self.occurs(open, &parts.0) || self.occurs(open, &parts.1),
            _ => false,
        }
    }

    /// The type with the found bindings put in (`substitute`).
    pub(super) fn resolve(&self, ty: &Type) -> Type {
        match has_open(ty) {
            true => self.rebuild(ty, false),
            false => ty.clone(),
        }
    }

    /// The type with `dyn` for everything that is still open; `None` if nothing is open.
    pub(super) fn close(&self, ty: &Type) -> Option<Type> {
        has_open(ty).then(|| self.rebuild(ty, true))
    }

    fn rebuild(&self, ty: &Type, closed: bool) -> Type {
        if !self.step() {
            return Type::Error;
        }
        if let Some(found) = self.find(ty) {
            return self.rebuild(found, closed);
        }
        match ty {
            Type::Var(_) | Type::Param(_) if closed => Type::Dyn,
            Type::List(of) => Type::list(self.rebuild(of, closed)),
            Type::Optional(of) => Type::optional(self.rebuild(of, closed)),
            Type::Type(of) => Type::type_of(self.rebuild(of, closed)),
            Type::Map(parts) => Type::map(self.rebuild(&parts.0, closed), self.rebuild(&parts.1, closed)),
            _ => ty.clone(),
        }
    }
}

/// The type parameters of one call of an overload.
struct Instance {
    vars: Vec<(&'static str, Type)>,
}

impl Instance {
    fn new(bindings: &mut Bindings, overload: &Overload) -> Self {
        let mut instance = Self { vars: Vec::new() };
        for ty in overload.params.iter().chain([&overload.result]) {
            instance.open(bindings, ty);
        }
        instance
    }

    fn open(&mut self, bindings: &mut Bindings, ty: &Type) {
        match ty {
            Type::Param(name) if self.vars.iter().all(|(known, _)| known != name) => {
                self.vars.push((name, bindings.fresh()));
            }
            Type::List(of) | Type::Optional(of) | Type::Type(of) => self.open(bindings, of),
            Type::Map(parts) => {
                self.open(bindings, &parts.0);
                self.open(bindings, &parts.1);
            }
            _ => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.vars.is_empty()
    }

    fn of(&self, ty: &Type) -> Type {
        match ty {
            Type::Param(name) => {
                let var = self.vars.iter().find(|(known, _)| known == name);
                var.map_or(Type::Dyn, |(_, var)| var.clone())
            }
            Type::List(of) => Type::list(self.of(of)),
            Type::Optional(of) => Type::optional(self.of(of)),
            Type::Type(of) => Type::type_of(self.of(of)),
            Type::Map(parts) => Type::map(self.of(&parts.0), self.of(&parts.1)),
            _ => ty.clone(),
        }
    }
}

/// Returns true if a type has more parts than any may have.
pub(super) fn is_too_large(ty: &Type) -> bool {
    fn exceeds(ty: &Type, left: &mut usize) -> bool {
        let Some(less) = left.checked_sub(1) else { return true };
        *left = less;
        match ty {
            Type::List(of) | Type::Optional(of) | Type::Type(of) => exceeds(of, left),
            Type::Map(parts) => exceeds(&parts.0, left) || exceeds(&parts.1, left),
            _ => false,
        }
    }
    exceeds(ty, &mut PARTS_MAX.clone())
}

fn is_open(ty: &Type) -> bool {
    matches!(ty, Type::Var(_) | Type::Param(_))
}

fn has_open(ty: &Type) -> bool {
    match ty {
        Type::Var(_) | Type::Param(_) => true,
        Type::List(of) | Type::Optional(of) | Type::Type(of) => has_open(of),
        Type::Map(parts) => has_open(&parts.0) || has_open(&parts.1),
        _ => false,
    }
}

/// `isLegacyNullable`; no wrapper types are declared.
fn is_nullable(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Null
            | Type::Optional(_)
            | Type::Opaque(_)
            | Type::Object(_)
            | Type::Message(_)
            | Type::Duration
            | Type::Timestamp
    )
}

/// Returns true if both types are the same (`IsExactType`).
pub(super) fn same(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::List(one), Type::List(other))
        | (Type::Optional(one), Type::Optional(other))
        | (Type::Type(one), Type::Type(other)) => same(one, other),
        (Type::Map(one), Type::Map(other)) => same(&one.0, &other.0) && same(&one.1, &other.1),
        (Type::Opaque(one), Type::Opaque(other)) | (Type::Param(one), Type::Param(other)) => one == other,
        (Type::Object(one), Type::Object(other)) => one.name == other.name,
        (Type::Message(one), Type::Message(other)) => one == other,
        (Type::Var(one), Type::Var(other)) => one == other,
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

/// The more general of two types that fit (`mostGeneral`).
pub(super) fn most_general(one: Type, other: Type) -> Type {
    if less_specific(&one, &other) { one } else { other }
}

/// `isEqualOrLessSpecific`
fn less_specific(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Var(_) | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Var(_) | Type::Param(_)) => false,
        (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
            less_specific(one, other)
        }
        (Type::Map(one), Type::Map(other)) => {
            less_specific(&one.0, &other.0) && less_specific(&one.1, &other.1)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => same(one, other),
    }
}
